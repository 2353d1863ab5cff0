"""A framework whose runs take no time and report step times that depend on their settings."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest
from fake_framework import fake_framework

from tprimat import frameworks
from tprimat.cli import run
from tprimat.frameworks.request import Launch
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo

CPU = Machine(
    "cpu",
    GpuInfo(device_name="a processor", device_count=1, total_memory_gb=25.3, software_stack="cpu"),
    Environment(cpu_threads=4),
)

CHILD = """
import datetime, os, sys
from pathlib import Path
from tprimat.store import store
from tprimat.record import progress
from tprimat.frameworks.request import Request
from tprimat.results.run import Data, GpuInfo, Run, TrainingConfig

request = Request.from_arguments(sys.argv[1:])
Path("started").open("a").write(f"{request.label or request.num_gpus}\\n")
switch = Path("switch").read_text() if Path("switch").exists() else ""
name = f"{request.micro_batch_size} {request.recomputation} {request.num_gpus}"
if f"broken {name}" in switch:
    raise SystemExit("RuntimeError: no such kernel")
if f"killed {name}" in switch:
    os.kill(os.getpid(), 9)
memory = f"memory {request.micro_batch_size}" in switch
cut = f"cut {name}" in switch
time = 0.1 / request.micro_batch_size * (1.5 if request.recomputation == "full" else 1.0) / request.num_gpus
count = 0 if memory else request.steps // 2 if cut else request.steps
times = tuple(time * (1 + 0.01 * (step % 3)) for step in range(count))
for step, each in enumerate(times, 1):
    print(progress.encode(progress.Step(step, request.steps, each, each)), flush=True)
run = Run(
    platform=request.platform, framework=request.framework, model=request.model, label=request.label,
    scale=request.scale, data=Data(seed=request.seed),
    timestamp=datetime.datetime.now().astimezone().isoformat(), gpu_info=GpuInfo(device_name="a processor"),
    **progress.given(os.environ),
    status="failed" if memory else "incomplete" if cut else "complete",
    status_reason="out of memory: OutOfMemoryError" if memory else "killed" if cut else None,
    training_config=TrainingConfig(
        max_steps=request.steps, global_batch_size=request.global_batch_size, seed=request.seed,
        micro_batch_size=request.micro_batch_size, recomputation=request.recomputation,
        sequence_length=request.sequence_length, num_gpus=request.num_gpus, precision=request.precision,
    ),
    steps=tuple(range(1, count + 1)), window_steps=(1,) * count, step_times=times, loss_values=(2.0,) * count,
    learning_rates=(None,) * count, grad_norms=(None,) * count, lines=(None,) * count,
)
saved = store.save(run, request.output_dir)
print(progress.encode(progress.Saved(str(saved.path), store.fingerprint(run))), flush=True)
raise SystemExit(1 if memory or cut else 0)
"""


def measured_once(folder: Path, words: list[str]) -> str:
    """Run `benchmark` with some words in a directory, for tests to copy; return what it prints."""
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
        install(patch, folder)
        assert run("benchmark", words) == 0
    return printed.getvalue()


def install(monkeypatch, folder: Path) -> None:
    """Make it the only framework, on a CPU, in a directory.

    The file `switch` there says what happens: "broken MICRO RECOMPUTATION PROCESSES", "cut …",
        "killed …",
    "memory MICRO". Each training adds its label to the file `started`.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setattr(platforms, "detect", lambda: CPU)

    def command(request):
        return Launch((sys.executable, "-c", CHILD, *request.to_arguments()), {}, folder)

    monkeypatch.setattr(frameworks, "FRAMEWORKS", (fake_framework(command=command),))
