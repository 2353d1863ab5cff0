"""The frameworks deepspeed-zero1, -zero2 and -zero3: DeepSpeed's engine, with a stage of ZeRO each."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks import builtin_frameworks
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig

NAME = "deepspeed"
"""What a user types for all stages, one after the other."""

MODULE = "tprimat.frameworks.deepspeed.loop"
PRECISIONS = ("fp32", "bf16", "fp16")
STAGES = (1, 2, 3)
COMPILERS = ("c++", "g++", "clang++")


def unavailable() -> str | None:
    """Why it can't run here, and what to do."""
    return builtin_frameworks.missing(("torch", "transformers", "deepspeed"))


def resolve_config(
    name: str, model: str, wishes: RequestedConfig, place: Device, folder: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request with every choice made. Raises UsageError for wishes that can't be met."""
    if place.platform == "cpu":
        lacks = "ninja" if shutil.which("ninja", path=_path()) is None else None
        if all(shutil.which(each) is None for each in COMPILERS):
            lacks = "a C++ compiler"
        if lacks:
            raise UsageError(
                f"the framework {name} can't run here: on a CPU DeepSpeed builds its communication when it first "
                f"starts, and {lacks} is missing: install g++ and ninja (Debian, Ubuntu: apt install g++ ninja-build)",
                heading="deepspeed",
            )
    return builtin_frameworks.settle_as(name, PRECISIONS)(model, wishes, place, folder)


def launch(request: Request) -> Launch:
    """The command for a request."""
    environment = {"PATH": _path()}
    if request.platform == "cpu":
        environment["DS_ACCELERATOR"] = "cpu"
    return builtin_frameworks.command(MODULE, request, environment)


def _path() -> str:
    """Where programs are looked for, with those of this Python's environment: ninja may be there alone."""
    return os.pathsep.join([str(Path(sys.executable).parent), *filter(None, [os.environ.get("PATH")])])


DEEPSPEED = tuple(
    Framework(
        f"{NAME}-zero{stage}",
        unavailable,
        partial(resolve_config, f"{NAME}-zero{stage}"),
        launch,
        automatic_on=(),
        precisions=PRECISIONS,
    )
    for stage in STAGES
)
