"""The interface of a framework: a row of data in its directory, and the Launcher in the directory's
launch.py.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal

from tprimat.catalog import models
from tprimat.errors import INSTALL, lacking
from tprimat.frameworks.request import (
    AnyRequest,
    Device,
    Launch,
    PreflightResult,
    Request,
    RequestedConfig,
)
from tprimat.results.run import Platform, Run

if TYPE_CHECKING:
    from tprimat.analysis.summary import Summary
    from tprimat.machine.platforms import Machine

REQUIRED = ("torch", "lightning", "transformers")
"""Packages that INSTALL brings."""

OUR_TOKENS, OUR_PAIRS = "markov", "pairs"
"""Data that loops of ours train on: the tokens that all built-in frameworks share, and the
encoder-decoder's.
"""


class Launcher(abc.ABC, Generic[AnyRequest]):
    """How a framework trains. The default is loops.launch.Loop; a class in the directory's
    launch.py overrides it.

    Attributes:
        logged: whether a training is measured by its log.
        full_size_only: whether it trains no other scale than the full one.
        plans_anywhere: whether it can show its command also on a machine on which it can't run.
        profiles: whether a profiler can watch it: its training calls loops/profiled.py.
        start_s: estimated time on a GPU before the first step, s: imports, weight initialization,
            compilation.
        resolver: class that chooses the settings that the user leaves open: resolve.Resolver, or
            one of its own.
    """

    logged = False
    full_size_only = False
    plans_anywhere = False
    profiles = False
    start_s = 60.0
    resolver: Any

    def unavailable(self) -> str | None:
        """Return why it can't run here, beyond missing packages, and what to do; None if it can."""
        return None

    @abc.abstractmethod
    def launch(self, request: AnyRequest) -> Launch:
        """Return the command for a request."""

    def preflight(self, request: AnyRequest, machine: Machine) -> PreflightResult:
        """Return what would make a training fail, or may."""
        return PreflightResult()

    def prepare(self, request: AnyRequest, say: Callable[[str], None]) -> AnyRequest:
        """Make what all runs of a request need, such as data; return the request that they are
        started with.
        """
        return request

    def start(self, request: AnyRequest, machine: Machine, log: Path) -> Launch:
        """Return the command of the training of a log, once the files that belong next to the log
        are written.
        """
        return self.launch(request)

    def log_name(self, request: AnyRequest, moment: str) -> str:
        """Return the name of a training's log, without its ending; each machine has its own."""
        return f"{Path(self.result_name(request)).stem}_{moment}{request.node_suffix}"

    def latest_log(self, request: AnyRequest) -> str | None:
        """Return the file next to the results that is always a copy of the newest log; None if
        there is only a logs/.
        """
        return None

    @abc.abstractmethod
    def result_name(self, request: AnyRequest) -> str:
        """Return the name of the result file, as far as it is known before the training."""

    def introduce(self, request: AnyRequest) -> list[str]:
        """Return lines about a request in the place of its row in the table of all; none for the
        row.
        """
        return []

    def figures(self, run: Run, summary: Summary) -> list[tuple[str, str]]:
        """Return the results of a training beyond the closing table: (name, value)."""
        return []


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework that can train, as a row, with its texts for --help and the documentation.

    Its directory is named after it, up to a dash. It holds `loop.py`, the training's program if
    that is ours, and `launch.py` with LAUNCHER, an instance of its Launcher, if that isn't
    loops.launch.Loop.

    Attributes:
        name: as a user types it and a result states it.
        trains, use_when: what trains, and who should use it: for the documentation.
        models: those that are trained when none is named.
        precisions: in which it trains.
        packages: that it needs.
        automatic_on: platforms on which it may be used when no framework is named.
        division: whether it divides a model over GPUs: as options request it, only as a result to
            match has it, or not.
        data: its default data, as a result states them.
        recomputes: how much of the activations it recomputes if the user can't choose; None if a
            configuration of its own decides, as it does on the optimizer.
        room: its directory if that isn't named after it.
    """

    name: str
    trains: str = ""
    use_when: str = ""
    models: tuple[str, ...] = models.names()
    precisions: tuple[str, ...] = ("fp32", "bf16", "fp16")
    packages: tuple[str, ...] = ()
    automatic_on: tuple[Platform, ...] = ()
    division: Literal["none", "matched", "requested"] = "none"
    data: str = OUR_TOKENS
    recomputes: str | None = Request.recomputation
    room: str = ""

    @property
    def folder(self) -> str:
        """Its directory in tprimat/frameworks/."""
        return self.room or self.name.partition("-")[0]

    @property
    def embedded(self) -> bool:
        """Whether model and tokens are ours (loops/recipe.py), so that recomputation and attention
        are settings.
        """
        return self.data == OUR_TOKENS

    @property
    def on_cpu(self) -> bool:
        """Whether it trains on a CPU too, as loops of ours do."""
        return self.data in (OUR_TOKENS, OUR_PAIRS)

    @property
    def divides(self) -> bool:
        """Whether it takes the options that divide a model over GPUs."""
        return self.division == "requested"

    @property
    def launcher(self) -> Launcher[Any]:
        """How it trains."""
        # Loaded when it is needed: --help shows the rows and needs none of it.
        has_own = (Path(__file__).parent / self.folder / "launch.py").is_file()
        folder = self.folder if has_own else "loops"
        launcher: Launcher[Any] = importlib.import_module(f"{__package__}.{folder}.launch").LAUNCHER
        return launcher

    def unavailable(self) -> str | None:
        """Return why it can't run here and what to do; None if it can. Imports no torch."""
        if missing := lacking(*self.packages):
            further = [package for package in missing if package not in REQUIRED]
            commands = [INSTALL] if len(further) < len(missing) else []
            commands += [f"pip install {' '.join(further)}"] if further else []
            return f"needs {', '.join(missing)}: {' && '.join(commands)}"
        return self.launcher.unavailable()

    def resolver(self, model: str, requested: RequestedConfig, device: Device) -> Any:
        """Return what makes the choices for a training of a model that the user left open."""
        return self.launcher.resolver(self, models.by_name(model), requested, device)

    def resolve_config(
        self, model: str, requested: RequestedConfig, device: Device, output_dir: Path
    ) -> tuple[Request, tuple[str, ...]]:
        """Make every choice that the user left open; return the request, and notes for the user.

        Raises UsageError if the framework can't train that, with the nearest value that it can.
        """
        resolver = self.resolver(model, requested, device)
        return resolver.resolve(output_dir), tuple(resolver.notes)
