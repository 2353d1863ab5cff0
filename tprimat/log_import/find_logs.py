"""Find the logs of runs: by environment variable, by name, and by content.

A name alone is no proof: the model that a log states decides.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tprimat import read
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.log_import.inputs import Log
from tprimat.machine.host import Environ
from tprimat.text import counted, letters_and_digits

ENDINGS = re.compile(r"\.(?:log|txt)(?:\.(?:gz|bz2|xz|zst))?$", re.IGNORECASE)
HEAD_LINES = 20_000
"""Lines searched for a log's arguments: package installation may fill the first 1000."""

MOST_LOOKS = 100
"""How many files, the newest first, are opened if no name matches."""

MOST_FILES = 5000
_DEEPEST = 4
EARLIER_FOLDERS = ("amd-logs", "nvi-logs")
"""Directories in which an earlier tool kept profiler reports and event files, one directory for
each model.
"""

_WORKSPACE = Path("/workspace")
_NO_LOGS = ("checkpoints", "tensorboard", "wandb", "pre_trainer", "torch_profiler")
"""Directories below Primus' own output that hold other things, or one log for each rank."""


@dataclasses.dataclass(frozen=True)
class LocalLog:
    """A log for a model, and why; `stated` is its own name for the model, `modified` in s since the
    epoch.
    """

    path: Path
    model: str
    why: str
    stated: str | None
    modified: float


@dataclasses.dataclass(frozen=True)
class Search:
    """One log for each model found, reasons for those that were not used, and the directories that
    were searched.
    """

    logs: tuple[LocalLog, ...]
    skipped: tuple[str, ...]
    looked_in: tuple[Path, ...]


@dataclasses.dataclass(frozen=True)
class _LogProbe:
    """The models of a log's runs, those that it states and those that it only names; or why it is
    no log.
    """

    stated: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    problem: str | None = None


def variable(model: str) -> str:
    """Return the environment variable that names a model's log."""
    return f"{model.upper()}_LOG"


def folders(working: Path, output: Path, clone: Path, environ: Environ) -> dict[Path, bool]:
    """Return the directories to search for logs, with whether those below count too: the working
    one, the results' one, this clone and Primus'.
    """
    own = (
        working,
        working / "output",
        working / "logs",
        output,
        clone,
        clone / "output",
        clone / "logs",
    )
    where = dict.fromkeys((folder.absolute() for folder in own), False)
    if environ.get("PRIMUS_PATH"):
        primus = [Path(environ["PRIMUS_PATH"]).expanduser()]
    else:
        primus = []
    for root in (*primus, _WORKSPACE / "Primus", _WORKSPACE / "tprimat"):
        where.setdefault(root.absolute(), False)
        where[(root / "output").absolute()] = where[(root / "logs").absolute()] = True
    return where


def search(models: Sequence[str], where: Mapping[Path, bool], environ: Environ) -> Search:
    """Look for the newest log of each model in folders(); LLAMA_LOG and its like go before all
    else.

    Raises UnreadableError if an environment variable names a file that isn't there.
    """
    files = _files(where)
    searcher = _Searcher()
    log_of = {}
    for model in models:
        named = environ.get(variable(model), "").strip()
        fitting = {}
        for path, modified in files.items():
            if model in path.name.lower():
                fitting[path] = modified
        if (
            log := _of_variable(model, named)
            if named
            else searcher.nearest(model, fitting, by_name=True)
        ):
            log_of[model] = log
    nameless = {}
    for path, at in files.items():
        if not any(model in path.name.lower() for model in models):
            nameless[path] = at
    for model in models:
        if model not in log_of and (log := searcher.nearest(model, nameless, by_name=False)):
            log_of[model] = log
    used = {log.path for log in log_of.values()}
    return Search(
        tuple(log_of[model] for model in models if model in log_of),
        tuple(text for key, text in searcher.skipped.items() if key not in used),
        tuple(folder for folder in where if folder.is_dir()),
    )


def _of_variable(model: str, named: str) -> LocalLog:
    path = Path(named).expanduser()
    modified = _modified(path)
    if modified is None:
        raise UnreadableError(
            f"{variable(model)}={named}", "no such file", heading="unreadable-file"
        )
    stated = _read_head(path).stated
    return LocalLog(path, model, variable(model), stated[0] if stated else None, modified)


class _Searcher:
    """Opens each file once; `skipped` has why a file is not used, in case it isn't."""

    def __init__(self) -> None:
        self.skipped: dict[object, str] = {}
        self._probe = functools.cache(_read_head)

    def nearest(self, model: str, files: Mapping[Path, float], *, by_name: bool) -> LocalLog | None:
        """Return the newest file that is a log of a model, else the newest of a related model, such
        as a smaller one.

        With `by_name` all files have the model in their name, which decides if a log doesn't state
        its model.
        """
        nearest = None
        relative = None
        opened = 0
        for path, modified in islice(files.items(), MOST_LOOKS):
            opened += 1
            probe = self._probe(path)
            related = [name for name in probe.stated if belongs(name, model)]
            stated = next(iter(related), None)
            if model in related:
                stated = model
            why = "the model in the log"
            if by_name:
                if stated:
                    why = f"its name, and {why}"
                else:
                    why = "its name (no model in the log)"
            log = LocalLog(path, model, why, stated, modified)
            if stated == model or (by_name and not probe.stated and probe.problem is None):
                nearest = log
                break
            if related and relative is None:
                relative = log
            if (reason := _why_skipped(probe, model, stated, by_name=by_name)) is not None:
                self.skipped.setdefault(path, f"{path}: {reason}")
        older = len(files) - opened
        if older and by_name:
            self.skipped[model] = f"{counted(older, 'older file')} with {model} in the name"
        elif older and nearest is None:
            self.skipped[""] = f"{older} older files not searched"
        return nearest or relative


def _why_skipped(probe: _LogProbe, model: str, related: str | None, *, by_name: bool) -> str | None:
    """Return why a log is not the one of a model; None for other files without a telling name."""
    called = ", ".join(probe.stated or probe.named)
    if not by_name:
        of_model = "does not state its model"
        if called:
            of_model = f"a {called} run"
        if probe.problem is None:
            return of_model
        return None
    if probe.problem is not None:
        return probe.problem
    if related:
        return f"a {related} run, not {model}"
    return f"named {model}, but a {called} run"


def _read_head(path: Path) -> _LogProbe:
    try:
        logs = read.parse_lines(islice(Log(str(path)).lines(), HEAD_LINES), str(path))
    except TensorPrimatError as error:
        is_other = error.heading == "not-a-training-log"
        return _LogProbe(problem="not a training log" if is_other else error.message)
    statements = []
    for log in logs:
        if "model" in log.stated:
            statements.append(log.stated["model"])
    heavy: list[str] = []
    light: list[str] = []
    for statement in statements:
        (heavy if statement.weight > 0 else light).append(str(statement.value))
    return _LogProbe(tuple(heavy), tuple(light))


def belongs(stated: str, model: str) -> bool:
    """Return whether a model named in a log belongs to a family: llama3.2_1B is a Llama."""
    return model in letters_and_digits(stated)


def _files(where: Mapping[Path, bool]) -> dict[Path, float]:
    """Return logs by their names' endings, with when they were written.

    The newest come first; of equally new ones those under their usual name.
    """
    unique: dict[str, tuple[Path, float]] = {}
    for folder, is_deep in where.items():
        for path in islice(_below(folder, _DEEPEST if is_deep else 0), MOST_FILES):
            if ENDINGS.search(path.name) and (modified := _modified(path)) is not None:
                unique.setdefault(os.path.realpath(path), (path, modified))
    return dict(
        sorted(
            unique.values(),
            key=lambda file: (-file[1], not file[0].name.startswith("training_"), file[0]),
        )
    )


def _modified(path: Path) -> float | None:
    """Return when a file was last written, s since the epoch; None if it is gone."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_mtime
    return None


def _below(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if depth and entry.is_dir() and not entry.is_symlink() and entry.name not in _NO_LOGS:
            yield from _below(entry, depth - 1)
        else:
            yield entry
