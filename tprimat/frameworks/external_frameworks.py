"""Frameworks that train on GPUs with a program of their own, in a clone that an environment variable names."""

from __future__ import annotations

import os
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks.request import Device, RequestedConfig

_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""What the drivers of NVIDIA and AMD, and Windows' for its Linux, make while there is a GPU."""


def clone(variable: str, what: str, inside: str) -> Path:
    """The clone that a variable names.

    Args:
        variable: of the environment.
        what: the framework's name for people.
        inside: a file that such a clone has.

    Raises UsageError where the variable names none.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        raise UsageError(f"{variable} names no clone of {what}: set it to the folder", heading="no-framework")
    folder = Path(text).expanduser().absolute()
    if not (folder / inside).is_file():
        raise UsageError(f"{variable}={text}: there is no {inside}: name a clone of {what}", heading="no-framework")
    return folder


def unavailable(variable: str, what: str, inside: str) -> str | None:
    """Why it can't train here, and what to do; None where it can."""
    if not any(Path(device).exists() for device in _DEVICES):
        return f"{what} needs a GPU, and there is none here"
    try:
        clone(variable, what, inside)
    except UsageError as error:
        return error.message
    return None


def on_gpus(place: Device, wishes: RequestedConfig, what: str) -> tuple[Device, tuple[str, ...]]:
    """The place, or on a machine without a GPU one that is made up to show the command; and what is to be said."""
    if place.platform != "cpu":
        return place, ()
    number = wishes.num_gpus or 1
    said = f"{what} needs a GPU, and there is none here: shown is what would be run on {number} of NVIDIA's"
    return Device("nvd", number, None), (said,)
