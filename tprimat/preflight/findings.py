"""Findings of a preflight: what slows benchmarks on this machine, or makes devices or machines
differ.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from tprimat.analysis import stats
from tprimat.results.fields import known_values
from tprimat.results.preflight import SLOW, WRONG_SUM, Finding, PreflightFile
from tprimat.text import join_names

SLOW_SHARE = 0.05
"""Below the median of the other devices: GPUs of one kind differ by some 2 to 3% (a leeway, not
measured here).
"""

SLOW_MADS = 3.0
"""And below it by so many robust standard deviations (1.4826 MAD) of the other devices, and
standard errors in time.
"""

MOST_ON_CPU = 0.5
"""On a CPU other programs may hit any of the processes: a process must be slower by more than their
share of the CPU time, or by this much if they took more.
"""

DROPPED = 0.05
"""Of a GPU's rate, from the first to the last quarter of its time, from which heat or power limits
are named.
"""

BUSY_SHARE = 0.05
"""Of the CPU time, taken by other programs or the hypervisor; a comparison warns from there on too.
"""

CLOCK_SHARE = 0.05


def findings(file: PreflightFile) -> tuple[Finding, ...]:
    """Return the findings of a preflight, those that decide most first."""
    return (
        *_slow(file),
        *_wrong(file),
        *_capped(file),
        *_shared(file),
        *_differing(file),
        *_settings(file),
    )


def odd_ones_out(
    rates: Sequence[float], errors: Sequence[float], least: float = SLOW_SHARE
) -> dict[int, float]:
    """Return by how much, relative, each device that is too slow is below the median of the others.

    Args:
        rates: shape (devices,).
        errors: shape (devices,), the standard error of each rate, relative to it.
        least: share of the median.

    A device is too slow when it is below the median of the others by more than the least share, by
    more than SLOW_MADS robust standard deviations of the others' rates, and SLOW_MADS times the
    largest error. Of two devices the slower one is named, though the other may be the odd one; of
    more, none if that holds for half of them.
    """
    odd = {}
    for index, rate in enumerate(rates):
        others = [*rates[:index], *rates[index + 1 :]]
        if not others:
            continue
        usual = statistics.median(others)
        noise = max(stats.robust_sigma(others), max(errors) * usual)
        below = usual - rate
        if usual > 0 and below > least * usual and below > SLOW_MADS * noise:
            odd[index] = below / usual
    if len(rates) > 2 and 2 * len(odd) >= len(rates):
        return {}
    return odd


def _slow(file: PreflightFile) -> Iterator[Finding]:
    least = SLOW_SHARE
    if file.platform == "cpu":
        shares = []
        for node in file.nodes:
            shares.append((node.other_programs_cpu_share or 0.0) + (node.steal_cpu_share or 0.0))
        least = max(SLOW_SHARE, min(MOST_ON_CPU, max(shares, default=0.0)))
    below: dict[str, list[str]] = {}
    for name in file.operations:
        devices = [device for device in file.devices if name in device.rates]
        rates = [device.rates[name] for device in devices]
        odd = odd_ones_out([rate.median for rate in rates], [rate.error for rate in rates], least)
        for index, share in odd.items():
            below.setdefault(file.label(devices[index]), []).append(f"{name} -{share:.0%}")
    for named, texts in below.items():
        yield Finding(
            code=SLOW, text=f"{named} is slower than the others: {', '.join(texts)}", device=named
        )


def _wrong(file: PreflightFile) -> Iterator[Finding]:
    wrong = [message.bytes for message in file.all_reduce if not message.is_right]
    if wrong:
        yield Finding(
            code=WRONG_SUM, text=f"an all-reduce of {min(wrong)} bytes returned a wrong sum"
        )


def _capped(file: PreflightFile) -> Iterator[Finding]:
    capped: dict[str, list[str]] = {}
    for device in file.devices:
        cap = device.power_cap_w
        default = device.power_default_w
        if cap is not None and default is not None and cap < 0.99 * default:
            text = f"power capped at {cap:.0f} of {default:.0f} W"
            capped.setdefault(text, []).append(file.label(device))
    for text, names in capped.items():
        yield Finding(code="power_cap", text=f"{join_names(names)}: {text}")
    for device in file.devices if file.platform != "cpu" else ():
        named = file.label(device)
        for name, rate in device.rates.items():
            if rate.drop > max(DROPPED, SLOW_MADS * rate.error):
                yield Finding(
                    code="heat",
                    text=f"{named}: {name} fell by {rate.drop:.0%} under load (heat or power)",
                    device=named,
                )


def _shared(file: PreflightFile) -> Iterator[Finding]:
    for node in file.nodes:
        where = f" on {node.host}" if len(file.nodes) > 1 else ""
        for process in node.processes:
            yield Finding(code="other_process", text=f"other process{where}: {process}")
        busy = node.other_programs_cpu_share or 0.0
        if busy > BUSY_SHARE:
            yield Finding(code="cpu_busy", text=f"other programs used {busy:.0%} of the CPU{where}")
        stolen = node.steal_cpu_share or 0.0
        if stolen > BUSY_SHARE:
            yield Finding(
                code="cpu_steal", text=f"the hypervisor took {stolen:.0%} of the CPU{where}"
            )
    for device in file.devices:
        held = device.memory_held_gb or 0.0
        if held > 1.0:
            named = file.label(device)
            yield Finding(
                code="memory_held",
                text=f"{named}: other processes held {held:.1f} GB of its memory",
                device=named,
            )


def _differing(file: PreflightFile) -> Iterator[Finding]:
    names = {device.name for device in file.devices if device.name}
    if len(names) > 1:
        yield Finding(code="gpus_differ", text=f"the devices differ: {join_names(sorted(names))}")
    for package in ("driver", "torch", "nccl", "rccl"):
        versions = {node.versions.get(package, "none") for node in file.nodes}
        if len(versions) > 1:
            yield Finding(
                code="versions_differ", text=f"{package} differs: {join_names(sorted(versions))}"
            )
    yield from _clocks(file, "maximum clock", [device.clock_max_mhz for device in file.devices])
    yield from _clocks(
        file, "clock under load", [device.clock_under_load_mhz for device in file.devices]
    )


def _clocks(file: PreflightFile, what: str, clocks: Sequence[float | None]) -> Iterator[Finding]:
    stated = known_values(clocks)
    usual = statistics.median(stated) if len(stated) > 1 else 0.0
    for device, clock in zip(file.devices, clocks, strict=True):
        if clock is not None and clock < (1 - CLOCK_SHARE) * usual:
            named = file.label(device)
            yield Finding(
                code="clock", text=f"{named}: {what} {clock:.0f} of {usual:.0f} MHz", device=named
            )


def _settings(file: PreflightFile) -> Iterator[Finding]:
    for node in file.nodes:
        where = f" on {node.host}" if len(file.nodes) > 1 else ""
        if node.numa_balancing:
            yield Finding(
                code="numa_balancing",
                text=f"NUMA balancing is on{where}: sysctl kernel.numa_balancing=0",
            )
        if node.partition and not node.partition.startswith("SPX"):
            yield Finding(
                code="partition", text=f"the GPUs are partitioned{where}: {node.partition}"
            )
    for part in dict.fromkeys(device.partition for device in file.devices if device.partition):
        yield Finding(code="partition", text=f"partitioned GPU: {part}")
