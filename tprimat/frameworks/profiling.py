"""Profilers of the steps after the measured ones: what each needs, the command around it, its
traces.

Nothing is imported and nothing started here; loops/profiled.py opens and closes the window.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import os
import shutil
from pathlib import Path

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import NSYS, PROFILERS, ROCPROF, TORCH, WINDOW, Launch, Request
from tprimat.machine.host import Host, is_emulated
from tprimat.results.run import Platform
from tprimat.store.naming import file_name


@dataclasses.dataclass(frozen=True)
class Program:
    """A profiler that a training is started under, and the platform that it is for.

    Attributes:
        origin: how it gets on a machine.
        options: words between its name and the training's command.
        newest: that of the options which older releases lack; None if all have them all.
        trace: path of what it leaves: a file or a directory. Here and in the options, {prefix} is
            where traces go.
    """

    platform: Platform
    name: str
    origin: str
    options: str
    trace: str
    newest: str | None = None


PROGRAMS = {
    NSYS: Program(
        platform="nvd",
        name="nsys",
        origin="it comes with CUDA's toolkit, and with NVIDIA's containers",
        # Without an end of its own nsys ends the training together with the range. By default it
        # shows a CUDA graph, which NeMo uses on Blackwell, as one block without its kernels.
        options=(
            "profile --capture-range=cudaProfilerApi --capture-range-end=stop --kill=none"
            " --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none"
            " --output={prefix}"
        ),
        trace="{prefix}.nsys-rep",
    ),
    ROCPROF: Program(
        platform="amd",
        name="rocprofv3",
        origin="it comes with ROCm",
        # The regions are selected by ROCTx calls, which --runtime-trace watches too
        # (--marker-trace).
        options=(
            "--runtime-trace --selected-regions --output-format=pftrace"
            " --output-directory={prefix} --"
        ),
        trace="{prefix}",
        newest="--selected-regions",
    ),
}

LEAST_STEPS = 2 * WINDOW
"""Steps before the profiled ones, so that the training has come to its pace."""

TRACE = "TPRIMAT_TRACE"
"""The environment variable with the path, without ending, of a training's trace."""

FOLDER = "profile"
"""Below the output directory."""


def check(request: Request, framework: Framework, *, torchrun: bool, dry_run: bool) -> None:
    """Raise UsageError if a request's profiler can't profile its training.

    With `torchrun` the user has started the processes; with `dry_run` the profiler's program
    needn't be installed here.
    """
    kind = request.profile
    problem = None
    program = PROGRAMS.get(kind or "")
    if not framework.launcher.profiles:
        able = ", ".join(row.name for row in frameworks.FRAMEWORKS if row.launcher.profiles)
        problem = (
            f"watches {able}, and {framework.name} trains here: name one with --framework, or leave"
            " it out"
        )
    elif program and program.platform != request.platform and not is_emulated():
        fits = next(
            (other for other, row in PROGRAMS.items() if row.platform == request.platform), TORCH
        )
        problem = f"{kind} is {PROFILERS[kind or TORCH]}: use --profile {fits} here"
    elif program and (request.num_nodes > 1 or torchrun):
        problem = (
            f"{kind} must start the training itself, which doesn't work "
            f"{'under torchrun' if torchrun else 'on several nodes'}: use --profile torch"
        )
    elif program and not dry_run and shutil.which(program.name) is None:
        problem = (
            f"{kind} needs {program.name}, which isn't on the PATH: {program.origin}; or use"
            " --profile torch"
        )
    elif program and not dry_run and _lacks_newest(program):
        problem = (
            f"{kind} needs {program.name} with {program.newest}, which this one lacks; or use"
            " --profile torch"
        )
    elif request.steps < LEAST_STEPS:
        problem = (
            f"profiles {WINDOW} steps after the measured ones, when the training is steady: "
            f"set --steps {LEAST_STEPS} or more"
        )
    if problem is not None:
        raise UsageError(f"--profile {problem}", heading="profile")


def _lacks_newest(program: Program) -> bool:
    """Return whether a program's help is known not to name its newest option."""
    text = Host().command([program.name, "--help"]) if program.newest else None
    return text is not None and str(program.newest) not in text


def around(request: Request, launch: Launch) -> Launch:
    """Return the command with the request's profiler around it; the same if it has none."""
    if request.profile is None:
        return launch
    prefix = free_prefix(request)
    program = PROGRAMS.get(request.profile)
    if program:
        before = [
            program.name,
            *(option.format(prefix=prefix) for option in program.options.split()),
        ]
    else:
        before = []
    return dataclasses.replace(
        launch, argv=(*before, *launch.argv), env={**launch.env, TRACE: str(prefix)}
    )


def free_prefix(request: Request) -> Path:
    """Return where the traces of a training go, without an ending; nothing is there yet."""
    stem = f"{Path(file_name(request.to_run())).stem}_{datetime.datetime.now():%Y%m%d_%H%M%S}"
    folder = request.output_dir / FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    candidates = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
    return folder / next(
        name for name in candidates if not any(longer.startswith(name) for longer in names)
    )


def prefix(request: Request) -> Path:
    """Return where this process' training puts its traces."""
    path = os.environ.get(TRACE)
    if path:
        return Path(path)
    return free_prefix(request)
