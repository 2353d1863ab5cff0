"""Power, clocks, throttling and energy under load, as each vendor's tool states them."""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpu_checks.report import MissingError, Report, internal, no_wheel, relative_difference

NVIDIA_FIELDS = "timestamp,index,power.draw,power.limit,clocks.sm,clocks.mem,temperature.gpu,pstate"
DURATION_S = 10.0
"""Of the load; NVIDIA's energy counter is updated every 0.1 s."""

QUERIES = {
    "cuda": (
        ["nvidia-smi", f"--query-gpu={NVIDIA_FIELDS}", "--format=csv"],
        # Renamed in driver 535; which of the two works is worth knowing.
        ["nvidia-smi", "--query-gpu=clocks_event_reasons.active", "--format=csv"],
        ["nvidia-smi", "--query-gpu=clocks_throttle_reasons.active", "--format=csv"],
    ),
    "rocm": (
        ["amd-smi", "metric", "--json"],
        ["rocm-smi", "--showpower", "--showclocks", "--showtemp", "--json"],
    ),
    "cpu": (),
}


def power(report: Report) -> None:
    """Keep the GPU busy for some seconds and ask everybody meanwhile."""
    device = report.device
    duration_s = 0.1 if report.dry_run else DURATION_S
    work = device.work(0.0005 if report.dry_run else 0.02)
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            work()
            device.synchronize()

    counters = _energy_counters(report)
    host = states = None
    with report.part("our reader of the GPU's state"):
        host, states = report.host(), internal("states")
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    samples = []
    draws_w: list[float] = []
    try:
        time.sleep(duration_s / 5)  # clocks and power come up
        started = time.perf_counter()
        before = {name: read() for name, (read, _) in counters.items()}
        while time.perf_counter() - started < duration_s:
            for argv in QUERIES[device.stack]:
                report.command(argv)
            if states is not None:
                samples.append(states(host))
            if "NVML" in counters:
                draws_w.append(_draw_w())
            time.sleep(duration_s / 20)
        elapsed_s = time.perf_counter() - started
        after = {name: read() for name, (read, _) in counters.items()}
    finally:
        stop.set()
        thread.join(timeout=10)
    report.note(states_under_load=samples, draws_w=draws_w, duration_s=elapsed_s)
    _judge_states(report, [sample[0] for sample in samples if len(sample) > 0])
    mean_w = sum(draws_w) / len(draws_w) if draws_w else None
    for name, (_, joule) in counters.items():
        counted_w = (after[name] - before[name]) * joule / elapsed_s
        report.expect(
            f"power by the energy counter ({name})",
            "within 10% of the mean of the driver's readings" if mean_w else "20 to 2000 W",
            f"{counted_w:.1f} W{f', by readings {mean_w:.1f} W' if mean_w else ''}",
            relative_difference(counted_w, mean_w) <= 0.1 if mean_w else 20 <= counted_w <= 2000,
        )
    if not counters:
        report.expect(
            "an energy counter",
            "NVML's, or energy1_input of the amdgpu driver",
            "none can be read",
            None,
        )


def _judge_states(report: Report, states: list) -> None:
    """Look at device 0 of the machine under load."""
    if not states:
        report.expect(
            "state of the GPU under load", "a row", "none", None if report.dry_run else False
        )
        return
    clocks = [state.clock_mhz for state in states if state.clock_mhz is not None]
    highest = states[0].clock_max_mhz
    report.expect(
        "clock under load",
        "at least half of the highest",
        f"{min(clocks):g} to {max(clocks):g} of {highest} MHz" if clocks else "unknown",
        None if highest is None or not clocks else min(clocks) >= highest / 2,
    )
    cap, default = states[0].power_cap_w, states[0].power_default_w
    report.expect(
        "power cap",
        "the factory's",
        f"{cap} of {default} W",
        None if cap is None or default is None else not states[0].is_capped,
    )


def _energy_counters(report: Report) -> dict[str, tuple[Callable[[], float], float]]:
    """Return what counts energy: name -> (reader, joules per unit)."""
    counters: dict[str, tuple[Callable[[], float], float]] = {}
    for path in sorted(Path("/sys/class/drm").glob("card*/device/hwmon/hwmon*/energy1_input")):
        counters[str(path)] = (lambda path=path: float(path.read_text()), 1e-6)
    with report.part("NVML's energy counter"):
        if report.device.stack != "cuda":
            raise MissingError("no NVIDIA GPU")
        nvml, handle = _nvml()
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        counters["NVML"] = (lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)), 1e-3)
    return counters


def _draw_w() -> float:
    """Return the power that the GPU draws now by NVML, W."""
    nvml, handle = _nvml()
    return float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1e3


class Reading(NamedTuple):
    """What NVML says at a moment, by time.perf_counter(). Units: s, J since the driver was loaded,
    MHz.
    """

    at: float
    joules: float
    clock_mhz: float


@contextlib.contextmanager
def watching(report: Report) -> Iterator[list[Reading]]:
    """Read NVML five times a second; the list grows within. Empty, after a finding, where NVML
    can't be read.
    """
    readings: list[Reading] = []
    stop = threading.Event()

    def watch(nvml: Any, handle: Any) -> None:
        while not stop.wait(0.2):
            joules = nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
            clock = float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            readings.append(Reading(time.perf_counter(), joules, clock))

    thread = None
    if report.device.stack != "cuda":
        report.expect("NVML beside the training", "its readings", "no NVIDIA GPU", None)
    else:
        with report.part("NVML beside the training"):
            # Asked in another process: a context here would be memory that the training finds held.
            code = "import torch; print(torch.cuda.get_device_properties(0).uuid)"
            uuid = report.command([sys.executable, "-c", code], timeout_s=60).text.strip()
            thread = threading.Thread(target=watch, args=_nvml(uuid), daemon=True)
            thread.start()
    try:
        yield readings
    finally:
        stop.set()
        if thread is not None:
            thread.join(timeout=5)


def judge(report: Report, readings: Sequence[Reading], result: Mapping[str, Any]) -> None:
    """Compare a result's energy and clock of its steady steps with NVML's over the busiest time of
    that length.
    """
    energy, telemetry = result["energy_metrics"], result["telemetry"]
    unknown, count = [*telemetry.get("unknown", ())], telemetry.get("samples") or 0
    report.expect(
        "telemetry",
        "five readings or more, nothing unknown",
        f"{count} readings, energy: {telemetry.get('energy_code')}, unknown:"
        f" {unknown or 'nothing'}",
        count >= 5 and not unknown,
    )
    joules, seconds, clock = (
        energy.get(name) for name in ("energy_joules", "measured_seconds", "clock_mhz")
    )
    window = busiest(readings, seconds) if seconds else None
    counted, mean_mhz = window or (None, None)
    report.expect(
        "energy of the steps",
        f"within 10% of NVML's counter, {counted and round(counted, 1)} J in the busiest"
        f" {seconds} s",
        f"{joules} J",
        counted is not None and joules is not None and relative_difference(joules, counted) <= 0.1,
    )
    report.expect(
        "clock of the steps",
        f"within 5% of NVML's, {mean_mhz and round(mean_mhz, 1)} MHz",
        f"{clock} MHz",
        mean_mhz is not None and clock is not None and relative_difference(clock, mean_mhz) <= 0.05,
    )


def busiest(readings: Sequence[Reading], seconds: float) -> tuple[float, float] | None:
    """Return joules and mean clock of the time of that length that took most; None if the readings
    are shorter.
    """
    best, first = None, 0
    for last, reading in enumerate(readings):
        while reading.at - readings[first + 1].at >= seconds if first + 1 <= last else False:
            first += 1
        length = reading.at - readings[first].at
        if length < seconds:
            continue
        joules = (reading.joules - readings[first].joules) * seconds / length
        if best is None or joules > best[0]:
            best = joules, statistics.fmean(each.clock_mhz for each in readings[first : last + 1])
    return best


def _nvml(uuid: str | None = None) -> tuple:
    """Return the module pynvml, and the device with this UUID, or 0 as torch numbers it.

    Raises MissingError without the package.
    """
    try:
        import pynvml
    except ModuleNotFoundError:
        raise no_wheel("pynvml") from None
    if uuid is None:
        import torch

        uuid = str(torch.cuda.get_device_properties(0).uuid)
    pynvml.nvmlInit()
    # NVML ignores CUDA_VISIBLE_DEVICES.
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
