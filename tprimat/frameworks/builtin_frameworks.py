"""What the frameworks have in common whose training is a program of this package: tprimat/frameworks/*/loop.py."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tprimat.errors import INSTALL, UsageError
from tprimat.frameworks import resolve
from tprimat.frameworks.lightning.launch import ENVIRONMENT, PACKAGES, threads
from tprimat.frameworks.request import REPOSITORY, Device, Launch, Request, RequestedConfig

Settle = Callable[[str, RequestedConfig, Device, Path], tuple[Request, tuple[str, ...]]]


def missing(packages: Sequence[str]) -> str | None:
    """Name the packages that aren't installed and the command that brings them; None where all are. Imports none."""
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    further = [package for package in absent if package not in PACKAGES]
    commands = [INSTALL] if len(further) < len(absent) else []
    commands += [f"pip install {' '.join(further)}"] if further else []
    return f"it needs {', '.join(absent)}: {' && '.join(commands)}" if absent else None


def settle_as(name: str, precisions: Sequence[str]) -> Settle:
    """The choices of the framework `lightning` under another name, so that all of them train the same.

    Args:
        name: of the framework.
        precisions: that it trains in.
    """

    def settled(
        model: str, wishes: RequestedConfig, place: Device, output_dir: Path
    ) -> tuple[Request, tuple[str, ...]]:
        precision = wishes.precision or resolve.default_precision(place)
        if precision not in precisions:
            raise UsageError(
                f"the framework {name} trains in {', '.join(precisions)} here, not in {precision}", heading="precision"
            )
        request, notes = resolve.resolve_config(model, wishes, place, output_dir)
        return dataclasses.replace(request, framework=name), notes

    return settled


def command(module: str, request: Request, environment: Mapping[str, str] | None = None) -> Launch:
    """One process, or one for each GPU under torchrun; on a CPU they share its cores.

    Args:
        module: the training's program.
        request: what it is asked for.
        environment: variables beyond those that all have.
    """
    settings = {**ENVIRONMENT, **(environment or {})}
    argv = [sys.executable]
    if request.num_gpus > 1:
        # --standalone finds a free port, so that two trainings on one machine don't meet.
        argv += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.num_gpus}"]
    if request.platform == "cpu":
        settings |= threads(request.num_gpus)
    return Launch((*argv, "-m", module, *request.to_arguments()), settings, REPOSITORY)
