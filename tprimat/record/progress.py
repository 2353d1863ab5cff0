"""Progress messages from a training to its parent: marked lines among those that it prints.

A line survives every way in which a training can be started (a shell script, torchrun, a
container), where an open file descriptor doesn't. Nothing is marked unless the parent enables it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

import msgspec

from tprimat.machine.host import Environ
from tprimat.results.fields import FieldValues
from tprimat.results.run import Tuning

VARIABLE = "TPRIMAT_PROGRESS"
"""The environment variable that enables messages."""

SESSION = "TPRIMAT_SESSION"
"""The environment variable that names the session and the round of a run: ID/ROUND."""

KNOWN = "TPRIMAT_KNOWN"
"""The environment variable with what else the session knows of a run, as the JSON of Known."""

MARK = "\x02@tprimat "
"""A control character, which no log prints, and a word, since a terminal may swallow the former."""

INTERVAL_S = 0.25
"""Between two steps that are reported."""


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields of a Run that only its session knows."""

    request: str | None = None
    tuning: Tuning | None = None
    arguments: tuple[str, ...] | None = None


class Step(msgspec.Struct, frozen=True, tag="step"):
    """A step was recorded. Units: s; of the loss nats/token; of the memory GB."""

    step: int
    max_steps: int
    step_time: float | None
    average: float | None
    loss: float | None = None
    memory_gb: float | None = None


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """A result was written, here; several runs may write to one file, so the run is named too."""

    path: str
    fingerprint: str | None = None


Message = Step | Saved


def is_enabled() -> bool:
    """Return whether the parent of this process reads messages."""
    return os.environ.get(VARIABLE) == "1"


def session_of(environ: Environ) -> tuple[str | None, int | None]:
    """Return session and round of this process's training; None if no session started it."""
    session, _, number = environ.get(SESSION, "").rpartition("/")
    if session and number.isdecimal() and int(number):
        return (session, int(number))
    return (None, None)


def given(environ: Environ) -> FieldValues:
    """Return the fields of a Run that the session which started this process's training knows, by
    name.
    """
    session, number = session_of(environ)
    handed_over = Known()
    with contextlib.suppress(msgspec.MsgspecError):
        handed_over = msgspec.json.decode(environ.get(KNOWN, "{}"), type=Known)
    return {"session": session, "round": number, **msgspec.structs.asdict(handed_over)}


def reporter(rank: int = 0) -> Callable[..., None] | None:
    """Return what sends a training's steps to the parent, a few times a second: see options.OnStep.

    None if no parent reads them, or another process reports.
    """
    if rank or not is_enabled():
        return None
    last_s = 0.0

    def report(step: int, max_steps: int | None, *values: float | None) -> None:
        nonlocal last_s
        now = time.monotonic()
        if now - last_s >= INTERVAL_S or step == max_steps:
            last_s = now
            emit(Step(step, max_steps or step, *values))

    return report


def emit(message: Message) -> None:
    """Print a message; the training goes on where the parent has gone."""
    with contextlib.suppress(OSError, ValueError):
        print(encode(message), flush=True)


def encode(message: Message) -> str:
    """Return the line that carries a message, without its end."""
    return MARK + msgspec.json.encode(message).decode()


def decode(line: str) -> Message | None:
    """Return the message of a line; None for any other line, a truncated one too."""
    if not line.startswith(MARK):
        return None
    try:
        message: Message = msgspec.json.decode(line[len(MARK) :], type=Message)
    except (msgspec.DecodeError, RecursionError):
        return None
    return message
