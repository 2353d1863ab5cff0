"""The interface of a framework: a row of data, and hooks in the `launch.py` of its folder."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from tprimat.catalog import models
from tprimat.errors import INSTALL
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig
from tprimat.results.run import Platform

REQUIRED = ("torch", "lightning", "transformers")
"""Packages that INSTALL brings."""


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework that can train.

    Its folder is named after it, up to a dash. It holds `loop.py`, the training's program where that is ours, and
    `launch.py` with what differs from loops/launch.py:

        unavailable() -> str | None       why it can't run here, beyond missing packages
        launch(request) -> Launch         the command for a request
        Resolver                          a resolve.Resolver: the choices that the user left open

    and further hooks of a measurement session.

    Attributes:
        name: what a user types, and what a result states.
        trains, use_when: what trains, and who should use it: for the documentation.
        models: those that are trained when none is named.
        precisions: in which it trains.
        packages: that it needs.
        automatic_on: platforms on which it may be used when no framework is named.
        on_cpu: whether it trains on a CPU too.
        full_size_only: whether it trains no other scale than the full one.
        divides: whether it can divide a model over GPUs, and takes the options that go with that.
        matches_division: whether --match divides a model as the result's was, without options of its own for it.
        plans_anywhere: whether it can show what it would run on a machine where it can't.
        data: what it trains on by default, as a result states it.
        profiles: whether a profiler can watch it: its training calls loops/profiled.py.
        logged: whether it writes a log and no result, so that the log is read.
        embedded: whether its model is ours (loops/recipe.py), so that recomputation and attention are settings of it.
        compiles: whether torch.compile makes its kernels on a GPU.
        finds_micro_batch: whether it takes the largest micro-batch that fits a GPU: its training calls loops/tuned.py.
        room: its folder where that isn't named after it.
    """

    name: str
    trains: str = ""
    use_when: str = ""
    models: tuple[str, ...] = models.names()
    precisions: tuple[str, ...] = ("fp32", "bf16", "fp16")
    packages: tuple[str, ...] = ()
    automatic_on: tuple[Platform, ...] = ()
    on_cpu: bool = True
    full_size_only: bool = False
    divides: bool = False
    matches_division: bool = False
    plans_anywhere: bool = False
    data: str = "markov"
    profiles: bool = False
    logged: bool = False
    room: str = ""
    embedded: bool = False
    compiles: bool = False
    finds_micro_batch: bool = False

    @property
    def folder(self) -> str:
        """Its folder in tprimat/frameworks/."""
        return self.room or self.name.partition("-")[0]

    def unavailable(self) -> str | None:
        """Return why it can't run here and what to do; None where it can. Imports no torch."""
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if missing:
            further = [package for package in missing if package not in REQUIRED]
            commands = [INSTALL] if len(further) < len(missing) else []
            commands += [f"pip install {' '.join(further)}"] if further else []
            return f"it needs {', '.join(missing)}: {' && '.join(commands)}"
        reason: str | None = self.hook("unavailable")()
        return reason

    def resolve_config(
        self, model: str, requested: RequestedConfig, device: Device, output_dir: Path
    ) -> tuple[Request, tuple[str, ...]]:
        """Make every choice that the user left open; return the request, and notes for the user.

        Raises UsageError where the framework can't train that, with the nearest value that it can.
        """
        resolver = self.hook("Resolver")(self, models.by_name(model), requested, device)
        return resolver.resolve(output_dir), tuple(resolver.notes)

    def launch(self, request: Request) -> Launch:
        """Return the command for a request."""
        command: Launch = self.hook("launch")(request)
        return command

    def hook(self, name: str) -> Any:
        """Return a function of the folder's launch.py, or its default in loops/launch.py."""
        # Loaded when it is called: --help shows the rows and needs none of it.
        default = getattr(importlib.import_module(f"{__package__}.loops.launch"), name)
        if not (Path(__file__).parent / self.folder / "launch.py").is_file():
            return default
        return getattr(importlib.import_module(f"{__package__}.{self.folder}.launch"), name, default)
