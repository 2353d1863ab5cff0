"""Clocks: device events, our recorder, and what recording costs. Nobody has measured any of it on a
GPU before.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_checks.report import FAILED, ROOT, Report, internal, no_wheel, relative_difference

AGREEMENT = 0.01
"""Fraction by which device events and wall time may differ: the bound of our recorder too."""

SHARE_OF_A_STEP = 0.01
"""Of a step of STEP_S; what recording may cost."""

STEP_S = 0.02
ALLOWED_S = SHARE_OF_A_STEP * STEP_S


def events(report: Report) -> None:
    """Compare the sum of the event times with the wall time between two synchronizations."""
    device = report.device
    steps = 5 if report.dry_run else 50
    work = device.work(0.0005 if report.dry_run else 0.01)
    device.synchronize()
    started = time.perf_counter()
    marks = [device.event()]
    for _ in range(steps):
        work()
        marks.append(device.event())
    issued_s = time.perf_counter() - started
    device.synchronize()
    wall_s = time.perf_counter() - started
    times = [earlier.elapsed_time(later) / 1e3 for earlier, later in itertools.pairwise(marks)]
    report.note(steps=steps, wall_s=wall_s, issued_s=issued_s, event_times_s=times)
    report.expect(
        "sum of event times against wall time",
        f"within {AGREEMENT:.0%}",
        f"{sum(times):.6f} s by events, {wall_s:.6f} s by the host's clock",
        relative_difference(sum(times), wall_s) <= AGREEMENT,
        FAILED,
    )
    report.expect(
        "the host runs ahead of the device",
        "all steps are queued in less than half of the wall time",
        f"queued after {issued_s:.6f} s of {wall_s:.6f} s",
        None if report.dry_run else issued_s < wall_s / 2,
    )
    synchronized = []
    for _ in range(steps):
        before = time.perf_counter()
        work()
        device.synchronize()
        synchronized.append(time.perf_counter() - before)
    bubble_s = statistics.mean(synchronized) - statistics.mean(times)
    report.expect(
        "what a synchronization per step costs",
        "0 to 0.5 ms (unknown so far)",
        f"{bubble_s * 1e6:.1f} µs a step of {statistics.mean(times) * 1e3:.2f} ms",
        None if report.dry_run else 0 <= bubble_s <= 5e-4,
    )
    count = 100 if report.dry_run else 1000
    started = time.perf_counter()
    empty = [device.event() for _ in range(count)]
    each_s = (time.perf_counter() - started) / count
    device.synchronize()
    apart = [earlier.elapsed_time(later) * 1e3 for earlier, later in itertools.pairwise(empty)]
    report.note(event_cost_s=each_s, empty_event_times_us=sorted(set(apart))[:50])
    report.expect(
        "host time of one event, and the time between two with no work between them",
        "each below 50 µs",
        f"{each_s * 1e6:.2f} µs; median {statistics.median(apart):.3f} µs, {len(set(apart))}"
        " different values",
        each_s < 50e-6 and statistics.median(apart) < 50,
    )


def recorder(report: Report) -> None:
    """Let our recorder time steps, with losses that change in place and a pause, and compare with
    wall time.
    """
    device = report.device
    clock = internal("DeviceClock")(device.torch_device, device.cuda)
    scalars = internal("DeviceScalars")(pin=not report.dry_run)
    recorder = internal("Recorder")(clock)
    steps = 6 if report.dry_run else 100
    work = device.work(0.0005 if report.dry_run else 0.005)
    loss = device.torch.zeros((), device=device.torch_device)
    host_s = []
    device.synchronize()
    started = time.perf_counter()
    paused_s = 0.0
    recorder.start()
    for step in range(1, steps + 1):
        work()
        loss.fill_(float(step))
        before = time.perf_counter()
        copied = scalars.copy(loss)
        recorder.step_end(step, lambda copied=copied: (scalars.read(copied), None), 1e-3)
        host_s.append(time.perf_counter() - before)
        if step == steps // 2:
            device.synchronize()
            pause_started = time.perf_counter()
            recorder.pause()
            work()
            time.sleep(0.05)
            device.synchronize()
            recorder.resume()
            paused_s = time.perf_counter() - pause_started
    recorder.finish()
    wall_s = time.perf_counter() - started
    seconds = [record.seconds for record in recorder.records]
    recorded_s = sum(each or 0.0 for each in seconds)
    report.note(step_times_s=seconds, host_times_s=host_s, wall_s=wall_s, paused_s=paused_s)
    report.expect(
        "warnings of the recorder",
        "none",
        [note.code for note in recorder.doubts],
        not recorder.doubts,
        FAILED,
    )
    report.expect(
        "sum of the recorded times against wall time without the pause",
        f"within {2 * AGREEMENT:.0%}",
        f"{recorded_s:.6f} s recorded, {wall_s - paused_s:.6f} s by the host's clock",
        relative_difference(recorded_s, wall_s - paused_s) <= 2 * AGREEMENT,
        FAILED,
    )
    losses = [record.loss for record in recorder.records]
    report.expect(
        "losses that were copied while the next step overwrote them",
        f"1, 2, … {steps}",
        losses if losses != [float(step) for step in range(1, steps + 1)] else "the same",
        losses == [float(step) for step in range(1, steps + 1)],
        FAILED,
    )
    report.expect(
        "host time of a step's end",
        f"median below {ALLOWED_S * 1e6:.0f} µs",
        f"median {statistics.median(host_s) * 1e6:.1f} µs, highest {max(host_s) * 1e6:.1f} µs",
        statistics.median(host_s) < ALLOWED_S,
    )


def recording_cost(report: Report) -> None:
    """Time a loop of one's own bare, recorded and synchronized, interleaved; in tiny steps and in
    longer ones.
    """
    device = report.device
    rounds, tiny_steps, long_steps = (1, 20, 4) if report.dry_run else (6, 300, 60)
    work = device.work(0.0005 if report.dry_run else 0.01)
    tiny: dict[str, list[float]] = {}
    long: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, _quiet_environment():
        for number in range(rounds + 1):
            for kind in ("bare", "recorded", "synchronized"):
                tiny_s = _loop(report, kind, tiny_steps, Path(name), lambda: None)
                long_s = _loop(report, kind, long_steps, Path(name), work)
                if number or report.dry_run:  # the first round warms up
                    tiny.setdefault(kind, []).append(tiny_s)
                    long.setdefault(kind, []).append(long_s)
    report.note(tiny_step_s=tiny, long_step_s=long)
    added_s = min(tiny["recorded"]) - min(tiny["bare"])
    report.expect(
        "what record() adds to a step that the host limits",
        f"below {ALLOWED_S * 1e6:.0f} µs, {SHARE_OF_A_STEP:.0%} of a step of {STEP_S * 1e3:.0f} ms",
        f"{added_s * 1e6:.1f} µs on {min(tiny['bare']) * 1e6:.1f} µs; "
        f"a synchronization adds {(min(tiny['synchronized']) - min(tiny['bare'])) * 1e6:.1f} µs",
        added_s < ALLOWED_S,
    )
    share = statistics.median(long["recorded"]) / statistics.median(long["bare"]) - 1
    report.expect(
        "what record() adds to a step that the device limits",
        f"below {SHARE_OF_A_STEP:.0%}",
        f"{share:+.2%} of {statistics.median(long['bare']) * 1e3:.3f} ms; synchronized "
        f"{statistics.median(long['synchronized']) / statistics.median(long['bare']) - 1:+.2%}",
        None if report.dry_run else share < SHARE_OF_A_STEP,
    )


def _loop(report: Report, kind: str, steps: int, folder: Path, work: Callable[[], None]) -> float:
    """Train a trivial model; return the mean wall time of a step, s."""
    device, torch = report.device, report.device.torch
    model = torch.nn.Linear(8, 1).to(device.torch_device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = device.normal(4, 8)
    recording: Any = contextlib.nullcontext()
    if kind == "recorded":
        recording = internal("record")(
            model="trivial",
            output_dir=folder,
            module=model,
            optimizer=optimizer,
            device=device.torch_device,
            max_steps=steps,
            global_batch_size=4,
            sequence_length=8,
            precision="fp32",
            quiet=True,
        )
    with recording as recorder:
        device.synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            work()
            if recorder is not None:
                recorder.step(loss)
            if kind == "synchronized":
                device.synchronize()
        device.synchronize()
        return (time.perf_counter() - started) / steps


def callback_cost(report: Report) -> None:
    """Run the runs of benchmarks/recording_cost.py on the device."""
    for package in ("lightning", "msgspec"):
        if importlib.util.find_spec(package) is None:
            raise no_wheel(package)
    benchmark = _load(ROOT / "benchmarks" / "recording_cost.py")
    if not report.dry_run:
        report.device.synchronize()
    rounds, steps = (1, 20) if report.dry_run else (6, 200)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        accelerator = "cpu" if report.dry_run else "gpu"
        times = benchmark.measure(benchmark.callbacks(accelerator), folder, rounds, steps)
        report.keep("output of the runs", (folder / "output.log").read_text(errors="replace"))
    quiet_s = {kind: benchmark.quiet(measured) for kind, measured in times.items()}
    added_us = {kind: (seconds - quiet_s["bare"]) * 1e6 for kind, seconds in quiet_s.items()}
    report.note(
        quiet_s=quiet_s,
        median_s={kind: statistics.median(measured) for kind, measured in times.items()},
    )
    ours, monitor = added_us[benchmark.OURS], added_us[benchmark.MONITOR]
    report.expect(
        "what BenchmarkCallback adds to a step that the host limits",
        f"below {ALLOWED_S * 1e6:.0f} µs, and below Lightning's ThroughputMonitor",
        ", ".join(f"{kind} {added:.1f} µs" for kind, added in added_us.items() if kind != "bare")
        + f"; bare {quiet_s['bare'] * 1e6:.1f} µs",
        ours < ALLOWED_S * 1e6 and ours < monitor,
    )


def _load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _quiet_environment() -> Any:
    """Hide a launcher's variables: with them a loop would wait for other processes."""
    hidden = {
        name: os.environ.pop(name)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if name in os.environ
    }
    try:
        yield
    finally:
        os.environ.update(hidden)
