"""Readers of training logs: lines -> runs. One row or file per log format, one directory per
family.

Programs that a row is enough for are in forms/programs.py. Files here are found by what they
define, without a list: a class `Reader` reads a log format line by line, a tuple `FILE_FORMATS` has
the formats of whole files. Readers neither open files nor print: tprimat.log_import.inputs opens a
log, text.lines() makes lines of its bytes.
"""

from __future__ import annotations

import functools
import importlib
import io
import itertools
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from types import ModuleType

from tprimat.errors import UnreadableError
from tprimat.read import golden, merge
from tprimat.read.forms import asking, programs
from tprimat.read.parsing import nearest, notebook
from tprimat.read.parsing.feeder import CLOSED_BY, LogFeeder
from tprimat.read.parsing.mapped_records import columns_by_words
from tprimat.read.parsing.parsed_log import FileFormat, ParsedLog, Reader
from tprimat.read.parsing.text import Line, blocks_of, lines
from tprimat.results.run import Run
from tprimat.text import is_binary

HEAD = 1 << 16
"""Bytes of a file that are looked at to recognize it."""

PROGRAMS = (".py", ".sh")
"""Suffixes of source code, whose lines may look like steps."""

FEW, MANY_TIMES = 2, 5
"""Up to FEW records that a reader finds are dropped if the form of the lines shows MANY_TIMES as
many.
"""

FEWEST_QUOTED = 3
"""Fewest steps in the quotes of a JSON document that make a training."""

_RESULT = re.compile('"(?:schema_version|gpu_info|training_config|performance_metrics)":')
"""A field of which the first lines of a result have one."""

_EXAMPLE = "'step {step} .* {time}ms .* loss {loss}'"
_OTHERS = (
    "pass a training log; tprimat read --help lists formats, --columns and --pattern read others"
)


@functools.cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules of all formats, imported when the first log is read: who compares results
    needs none of them.
    """
    names = (module.name for module in pkgutil.walk_packages(__path__, f"{__name__}."))
    return tuple(
        importlib.import_module(name)
        for name in names
        if ".parsing" not in name and ".forms" not in name
    )


@functools.cache
def log_formats() -> tuple[type[Reader], ...]:
    """Return the log formats that are read, in the order of their names."""
    found = [module.Reader for module in modules() if hasattr(module, "Reader")]
    return tuple(sorted((*found, *programs.PROGRAMS), key=lambda log_format: log_format.name))


@functools.cache
def file_formats() -> tuple[FileFormat, ...]:
    """Return the formats of whole files; the first one that recognizes a file reads it."""
    return tuple(row for module in modules() for row in getattr(module, "FILE_FORMATS", ()))


def parse_lines(lines: Iterable[Line], name: str) -> list[ParsedLog]:
    """Return the runs that a log holds, in its order. Raises UnreadableError, with its name, for
    none.
    """
    feeder = new_feeder()
    feeder.feed_lines(lines)
    return parsed_logs(feeder, name)


def parse_chunks(
    chunks: Iterable[bytes],
    name: str,
    again: Callable[[], Iterable[bytes]] | None = None,
    *,
    as_read: bool = False,
) -> list[ParsedLog]:
    """Return the runs of a log from chunks of its bytes: faster than lines for long logs.

    Args:
        chunks: of the log, once.
        name: of the log, for messages.
        again: gives the chunks from the start, each time that it is called. With it, a text that no
            reader knows is read by the form of its lines.
        as_read: whether the user has confirmed what is assumed of the lines.

    Raises UnreadableError for a log without runs; FormError if something is assumed or missing.
    """
    feeder = new_feeder()
    for block, whole in blocks_of(chunks):
        feeder.feed(block, whole=whole)
    reads_forms = again is not None and PurePath(name).suffix not in PROGRAMS
    try:
        logs = parsed_logs(feeder, name)
    except UnreadableError:
        if again is None or not reads_forms or _is_result(feeder):
            raise
        logs = asking.logs_by_form(lambda: printed_lines(again), name, as_read=as_read)
        if not logs:
            raise
        return logs
    steps = sum(log.steps for log in logs)
    if again is not None and reads_forms and 0 < steps <= FEW:
        # Two lines that a reader knows may be those that another program prints besides its steps.
        others = asking.certain_logs(lambda: printed_lines(again))
        if sum(log.steps for log in others) >= MANY_TIMES * steps:
            return others
    return logs


def printed_lines(again: Callable[[], Iterable[bytes]]) -> Iterator[Line]:
    """Return the lines of a text, or what the cells of a notebook printed."""
    chunks = iter(again())
    head = next(chunks, b"")
    if notebook.is_notebook(head[:HEAD].decode("utf-8", errors="replace")):
        text = notebook.printed_text(io.BytesIO(b"".join((head, *chunks))))
        return lines([(text or "").encode()])
    return lines(itertools.chain([head], chunks))


def new_feeder() -> LogFeeder:
    """Return a feeder of all log formats."""
    return LogFeeder([log_format() for log_format in log_formats()])


def parsed_logs(feeder: LogFeeder, name: str) -> list[ParsedLog]:
    """Return the runs of a log that was fed completely."""
    by_format = feeder.finish()
    if feeder.document:
        # Notes on logs quote a line or two of them; what a notebook or a service keeps of a log is
        # longer.
        for log_format, logs in by_format:
            if log_format != golden.Reader.name:
                logs[:] = [log for log in logs if log.steps >= FEWEST_QUOTED]
    logs = merge.merge_logs(by_format)
    if not logs:
        raise _unreadable(feeder, name)
    return logs


def _examples() -> dict[str, str]:
    """Return texts with lines of each log format, by its name."""
    examples = {}
    for module in modules():
        if hasattr(module, "Reader"):
            examples[module.Reader.name] = module.__doc__ or ""
    examples |= {row.name: row.example for row in programs.PROGRAMS}
    return dict(sorted(examples.items()))


def _is_result(feeder: LogFeeder) -> bool:
    """Return whether a file begins like a result, which no training has printed."""
    opening = "\n".join(feeder.opening)
    return opening.startswith("{") and _RESULT.search(opening) is not None


def _unreadable(feeder: LogFeeder, name: str) -> UnreadableError:
    """Return why a file isn't read, and what to do."""
    if not feeder.opening:
        return UnreadableError(
            name, "is empty", heading="not-a-training-log", hint="name the log of a training"
        )
    without = "no supported training log in it"
    opening = "\n".join(feeder.opening)
    if PurePath(name).suffix in PROGRAMS:
        why = "is a program, not a log"
        hint = "pass what it prints"
    elif opening.startswith(nearest.LFS_POINTER):
        why = "is a Git LFS pointer, not the file itself"
        hint = "git lfs pull in its repository fetches the file"
    elif notebook.is_notebook(opening):
        why = "is a Jupyter notebook, and no supported training log is in its outputs"
        hint = f"--pattern reads the lines of its outputs, e.g. tprimat read --pattern {_EXAMPLE}"
    elif feeder.opening[0] in CLOSED_BY and not feeder.document:
        why = f"{without}: it begins like JSON and is cut off"
        hint = "copy the whole file"
    elif feeder.opening[0] in CLOSED_BY:
        why = without
        hint = _OTHERS
        if _is_result(feeder):
            hint = f"tprimat compare {shlex.quote(name)} compares a result"
    elif PurePath(name).suffix == ".wandb":
        why = "is no W&B run, whose file begins with “:W&B”"
        hint = "export the run's history as CSV, and name its columns with --columns"
    elif is_binary(opening):
        why = f"{without}: it is a binary file, such as an image"
        hint = "pass the text that the training printed"
    else:
        why = f"{without}{nearest.described(feeder.step_like)}"
        hint = _OTHERS
        if columns := nearest.columns_in(feeder.opening):
            hint = f"tprimat read --columns {columns_by_words(columns)} reads this table"
    return UnreadableError(name, why, heading="not-a-training-log", hint=hint)


def read(lines: Iterable[Line], name: str) -> list[Run]:
    """Return the runs of a log as Runs, without user settings. See parse_lines()."""
    return [line.run() for line in parse_lines(lines, name)]


def file_format_of(head: bytes) -> FileFormat | None:
    """Return the format of a file that begins with these bytes, or None."""
    return next((row for row in file_formats() if row.recognizes(head)), None)
