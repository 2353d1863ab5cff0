"""What a framework is to the rest of the program: a name, a reason not to run, a command."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tprimat.catalog import models
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig
from tprimat.results.run import Platform


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework that can train.

    Attributes:
        name: what a user types, and what a result states.
        unavailable: why it can't run here, and what to do; None where it can. Imports no torch.
        resolve_config: makes every choice that the user left open for a model, and says what is to be said
            of them. Arguments: the model's name, the wishes, the place, the output folder. Raises
            UsageError for wishes that can't be met.
        launch: the command for a request.
        models: those that are trained when none is named.
        automatic_on: platforms on which it may be taken when no framework is named.
        precisions: in which it trains.
        divides: whether it can divide a model over GPUs, and takes the wishes that go with that.
        plans_anywhere: whether it can say what it would run on a machine where it can't.
        data: what it trains on unless it is told otherwise, in the words of a result.
        profiles: whether a profiler can watch it: its training calls loops/profiled.py.
        logged: whether it writes a log and no result, so that the log is read.
        inner: the command that the command of `launch` starts in turn, for showing; None where it
            trains by itself.
    """

    name: str
    unavailable: Callable[[], str | None]
    resolve_config: Callable[[str, RequestedConfig, Device, Path], tuple[Request, tuple[str, ...]]]
    launch: Callable[[Request], Launch]
    models: tuple[str, ...] = models.names()
    automatic_on: tuple[Platform, ...] = ("nvd", "amd", "cpu")
    precisions: tuple[str, ...] = ("fp32", "bf16", "fp16")
    divides: bool = False
    plans_anywhere: bool = False
    data: str = "markov"
    profiles: bool = False
    logged: bool = False
    inner: Callable[[Request], Launch] | None = None
