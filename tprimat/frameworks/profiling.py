"""Profilers of the last steps of a training: what each needs, the command around it, its traces.

Nothing is imported and nothing started here; loops/profiled.py opens and closes the window.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import shutil
from pathlib import Path

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import NSYS, PROFILERS, ROCPROF, TORCH, Launch, Request
from tprimat.machine.emulation import is_emulated
from tprimat.results.run import Run
from tprimat.store.naming import file_name

_PLATFORMS = {NSYS: "nvd", ROCPROF: "amd"}
PROGRAMS = {NSYS: "nsys", ROCPROF: "rocprofv3"}
_BRINGS = {
    NSYS: "it comes with CUDA's toolkit, and with NVIDIA's containers",
    ROCPROF: "it comes with ROCm 6.2 and newer",
}

TRACED = 3
WINDOW = 1 + TRACED
"""Steps at a training's end that are profiled; in the first the profiler itself starts."""

LEAST_STEPS = 2 * WINDOW

TRACE = "TPRIMAT_TRACE"
"""The environment variable with the path, without ending, of a training's trace."""

FOLDER = "profile"
"""Below the output folder."""


def check(request: Request, framework: Framework, *, executor: str, torchrun: bool, dry_run: bool) -> None:
    """Raise UsageError where a request's profiler can't profile its training.

    Args:
        request: with a profiler.
        framework: that trains.
        executor: local, or slurm.
        torchrun: whether the user has started the processes.
        dry_run: whether the program needn't be here.
    """
    kind = request.profile or ""
    if not framework.profiles:
        watched = [each.name for each in frameworks.FRAMEWORKS if each.profiles]
        raise UsageError(
            f"--profile watches {' and '.join(watched)}, and {framework.name} trains here: name one with --framework, "
            "or leave it out",
            heading="profile",
        )
    platform = _PLATFORMS.get(kind)
    if platform is not None and platform != request.platform and not is_emulated():
        fits = next((other for other, its in _PLATFORMS.items() if its == request.platform), TORCH)
        raise UsageError(f"--profile {kind} is {PROFILERS[kind]}: say --profile {fits} here", heading="profile")
    program = PROGRAMS.get(kind)
    if program is not None and (executor != "local" or torchrun):
        raise UsageError(
            f"--profile {kind} starts the training under {program}, which it can't do for "
            f"{'torchrun, when you have started that' if torchrun else executor}: say --profile torch",
            heading="profile",
        )
    if program is not None and not dry_run and shutil.which(program) is None:
        raise UsageError(
            f"--profile {kind} needs {program}, which isn't on the PATH: {_BRINGS[kind]}; or say --profile torch",
            heading="profile",
        )
    if request.steps < LEAST_STEPS:
        raise UsageError(
            f"--profile watches the last {WINDOW} steps of a training that has come to its pace: --steps "
            f"{LEAST_STEPS} is the least",
            heading="profile",
        )


def around(request: Request, launch: Launch) -> Launch:
    """Return the command with the request's profiler around it; the same where it has none."""
    if request.profile is None:
        return launch
    prefix = free_prefix(request)
    before: tuple[str, ...] = ()
    if request.profile == NSYS:
        # Without an end of its own nsys ends the training together with the range.
        before = (
            PROGRAMS[NSYS],
            "profile",
            "--capture-range=cudaProfilerApi",
            "--capture-range-end=stop",
            "--kill=none",
            "--trace=cuda,nvtx",
            "--sample=none",
            "--cpuctxsw=none",
            f"--output={prefix}",
        )
    elif request.profile == ROCPROF:
        before = (
            PROGRAMS[ROCPROF],
            "--runtime-trace",
            "--selected-regions",
            "--output-format=pftrace",
            f"--output-directory={prefix}",
            "--",
        )
    return dataclasses.replace(launch, argv=(*before, *launch.argv), env={**launch.env, TRACE: str(prefix)})


def free_prefix(request: Request) -> Path:
    """Return where the traces of a training go, without an ending; nothing is there yet."""
    same = Run(platform=request.platform, framework=request.framework, model=request.model, label=request.label)
    stem = f"{Path(file_name(same)).stem}_{datetime.datetime.now():%Y%m%d_%H%M%S}"
    folder = request.output_dir / FOLDER
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    number = 1
    name = stem
    while any(each.startswith(name) for each in names):
        number += 1
        name = f"{stem}_{number}"
    return folder / name


def prefix(request: Request) -> Path:
    """Return where this process' training puts its traces."""
    path = os.environ.get(TRACE)
    return Path(path) if path else free_prefix(request)


def traces(kind: str, prefix: Path) -> dict[str, str]:
    """Return the files or the folder that a profiler around the training leaves, by kind."""
    return {kind: f"{prefix}.nsys-rep" if kind == NSYS else str(prefix)}
