"""Findings of a preflight: what slows benchmarks on this machine, or makes devices or machines
differ.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from tprimat.analysis import stats
from tprimat.results.fields import known_values
from tprimat.results.preflight import (
    SLOW,
    WRONG_SUM,
    Finding,
    NodePreflight,
    PreflightFile,
    finding,
)

SLOW_SHARE = 0.05
"""A slow device is below the median of the others by more than this share: GPUs of one kind differ
by some 2 to 3% (a leeway, not measured here).
"""

SLOW_MADS = 3.0
"""It is also below it by this many robust standard deviations (1.4826 MAD) of the other devices,
and standard errors in time.
"""

MOST_ON_CPU = 0.5
"""On a CPU other programs may hit any of the processes: a process must be slower by more than their
share of the CPU time, or by this much if they took more.
"""

DROPPED = 0.05
"""Drop of a GPU's rate, from the first to the last quarter of its time, from which on heat or power
limits are named.
"""

BUSY_SHARE = 0.05
"""Share of the CPU time that other programs or the hypervisor take, from which on it is reported; a
comparison warns from there on too.
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
    largest error. With two devices the slower one is named, though the other may be the unusual
    one; with more, none is named if that holds for half of them.
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
        yield finding(SLOW, "slow-device", named, operations=", ".join(texts))


def _wrong(file: PreflightFile) -> Iterator[Finding]:
    wrong = [message.bytes for message in file.all_reduce if not message.is_right]
    if wrong:
        yield finding(WRONG_SUM, "wrong-sum", bytes=min(wrong))


def _capped(file: PreflightFile) -> Iterator[Finding]:
    capped: dict[tuple[int, int], list[str]] = {}
    for device in file.devices:
        cap = device.power_cap_w
        default = device.power_default_w
        if cap is not None and default is not None and cap < 0.99 * default:
            capped.setdefault((round(cap), round(default)), []).append(file.label(device))
    for (cap, default), names in capped.items():
        devices = tuple(names)
        yield finding("power_cap", "power-capped", devices=devices, cap=cap, default=default)
    for device in file.devices if file.platform != "cpu" else ():
        for name, rate in device.rates.items():
            if rate.drop > max(DROPPED, SLOW_MADS * rate.error):
                label = file.label(device)
                yield finding("heat", "fell-under-load", label, operation=name, drop=rate.drop)


def _shared(file: PreflightFile) -> Iterator[Finding]:
    for node in file.nodes:
        host = _host(file, node)
        for process in node.processes:
            yield finding("other_process", "other-process", host=host, process=process)
        busy = node.other_programs_cpu_share or 0.0
        if busy > BUSY_SHARE:
            yield finding("cpu_busy", "cpu-busy", host=host, share=busy)
        stolen = node.steal_cpu_share or 0.0
        if stolen > BUSY_SHARE:
            yield finding("cpu_steal", "cpu-stolen", host=host, share=stolen)
    for device in file.devices:
        held = device.memory_held_gb or 0.0
        if held > 1.0:
            yield finding("memory_held", "memory-held", file.label(device), memory=held)


def _host(file: PreflightFile, node: NodePreflight) -> str | None:
    """Return the name of a machine of several; None of a single one."""
    return node.host if len(file.nodes) > 1 else None


def _differing(file: PreflightFile) -> Iterator[Finding]:
    names = {device.name for device in file.devices if device.name}
    if len(names) > 1:
        yield finding("gpus_differ", "devices-differ", devices=tuple(sorted(names)))
    for package in ("driver", "torch", "nccl", "rccl"):
        versions = {node.versions.get(package, "none") for node in file.nodes}
        if len(versions) > 1:
            differing = tuple(sorted(versions))
            yield finding("versions_differ", "versions-differ", package=package, versions=differing)
    yield from _clocks(file, "maximum clock", [device.clock_max_mhz for device in file.devices])
    yield from _clocks(
        file, "clock under load", [device.clock_under_load_mhz for device in file.devices]
    )


def _clocks(file: PreflightFile, what: str, clocks: Sequence[float | None]) -> Iterator[Finding]:
    stated = known_values(clocks)
    usual = statistics.median(stated) if len(stated) > 1 else 0.0
    for device, clock in zip(file.devices, clocks, strict=True):
        if clock is not None and clock < (1 - CLOCK_SHARE) * usual:
            label = file.label(device)
            yield finding("clock", "clock-low", label, clock=what, mhz=clock, usual=usual)


def _settings(file: PreflightFile) -> Iterator[Finding]:
    for node in file.nodes:
        host = _host(file, node)
        if node.numa_balancing:
            yield finding("numa_balancing", "numa-balancing", host=host)
        if node.partition and not node.partition.startswith("SPX"):
            yield finding("partition", "gpus-partitioned", host=host, partition=node.partition)
    for part in dict.fromkeys(device.partition for device in file.devices if device.partition):
        yield finding("partition", "device-partitioned", partition=part)
