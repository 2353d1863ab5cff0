"""Power, clocks, throttling and energy under load, as each vendor's tool states them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpu_checks.report import MissingError, Report, internal, relative_difference

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
        report.expect("an energy counter", "NVML's, or energy1_input of the amdgpu driver", "none can be read", None)


def _judge_states(report: Report, states: list) -> None:
    """Look at device 0 of the machine under load."""
    if not states:
        report.expect("state of the GPU under load", "a row", "none", None if report.dry_run else False)
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
        None if cap is None or default is None else not states[0].capped,
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


def _nvml() -> tuple:
    """Return the module pynvml and device 0 as torch numbers it. Raises MissingError without the package."""
    try:
        import pynvml
    except ModuleNotFoundError:
        raise MissingError("pynvml isn't installed: pip install nvidia-ml-py") from None
    import torch

    pynvml.nvmlInit()
    # NVML ignores CUDA_VISIBLE_DEVICES.
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
