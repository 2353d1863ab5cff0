"""Find the logs of trainings: by environment variable, by name, and by content.

A name alone is no proof: the model that a log states decides.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tprimat import read
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.log_import.inputs import Log
from tprimat.text import counted

ENDINGS = re.compile(r"\.(?:log|txt)(?:\.(?:gz|bz2|xz|zst))?$", re.IGNORECASE)
HEAD_LINES = 20_000
"""Lines searched for a log's arguments: package installation may fill the first 1000."""

MOST_LOOKS = 100
"""How many files, the newest first, are opened where no name matches."""

MOST_FILES = 5000
_DEEPEST = 4
_WORKSPACE = Path("/workspace")
_NO_LOGS = ("checkpoints", "tensorboard", "wandb", "pre_trainer", "torch_profiler")
"""Folders below Primus' own output that hold other things, or one log for each rank."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder to look in; `deep` with those below it."""

    path: Path
    deep: bool = False


@dataclasses.dataclass(frozen=True)
class LocalLog:
    """A log for a model, and why; `stated` is what it calls its model, `modified` in s since the epoch."""

    path: Path
    model: str
    why: str
    stated: str | None
    modified: float


@dataclasses.dataclass(frozen=True)
class Search:
    """One log for each model found, reasons for those that were not used, and folders that exist or do not."""

    logs: tuple[LocalLog, ...]
    skipped: tuple[str, ...]
    looked_in: tuple[Path, ...]
    missing: tuple[Path, ...]


@dataclasses.dataclass(frozen=True)
class _LogProbe:
    """The models of a log's trainings, those that it states and those that it only names; or why it is no log."""

    stated: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    problem: str | None = None


def variable(model: str) -> str:
    """Return the environment variable that names a model's log."""
    return f"{model.upper()}_LOG"


def folders(working: Path, output: Path, clone: Path, environ: Mapping[str, str]) -> tuple[Folder, ...]:
    """Return the folders to search for logs, each once: the working one, the results' one, this clone and Primus'."""
    primus = [Path(environ["PRIMUS_PATH"]).expanduser()] if environ.get("PRIMUS_PATH") else []
    places = [Folder(working), Folder(working / "output"), Folder(working / "logs"), Folder(output)]
    places += [Folder(clone), Folder(clone / "output"), Folder(clone / "logs")]
    for root in (*primus, _WORKSPACE / "Primus", _WORKSPACE / "tprimat"):
        places += [Folder(root), Folder(root / "output", deep=True), Folder(root / "logs", deep=True)]
    unique: dict[Path, Folder] = {}
    for folder in places:
        key = folder.path.absolute()
        if key not in unique or folder.deep:
            unique[key] = Folder(key, folder.deep)
    return tuple(unique.values())


def search(models: Sequence[str], where: Sequence[Folder], environ: Mapping[str, str]) -> Search:
    """Look for the newest log of each model; LLAMA_LOG and its like go before all else.

    Raises UnreadableError where an environment variable names a file that isn't there.
    """
    return _Searcher(models, where).search(environ)


class _Searcher:
    """The files in some folders, of which each is opened once."""

    def __init__(self, models: Sequence[str], where: Sequence[Folder]) -> None:
        self._models = models
        self._where = where
        self._probes: dict[Path, _LogProbe] = {}
        self._skipped: list[str] = []

    def search(self, environ: Mapping[str, str]) -> Search:
        log_of: dict[str, LocalLog] = {}
        files = _files(self._where)
        nameless = dict(files)
        for model in self._models:
            fitting = {path: modified for path, modified in files.items() if model in path.name.lower()}
            nameless = {path: modified for path, modified in nameless.items() if path not in fitting}
            named = environ.get(variable(model), "").strip()
            if log := self._of_variable(model, named) if named else self._by_name(model, fitting):
                log_of[model] = log
        missing = [model for model in self._models if model not in log_of]
        if missing:
            log_of |= self._by_content(missing, nameless)
        return Search(
            tuple(log_of[model] for model in self._models if model in log_of),
            tuple(self._skipped),
            tuple(folder.path for folder in self._where if folder.path.is_dir()),
            tuple(folder.path for folder in self._where if not folder.path.is_dir()),
        )

    def _probe(self, path: Path) -> _LogProbe:
        if path not in self._probes:
            self._probes[path] = _read_head(path)
        return self._probes[path]

    def _of_variable(self, model: str, named: str) -> LocalLog:
        path = Path(named).expanduser()
        modified = _modified(path)
        if modified is None:
            raise UnreadableError(
                f"{variable(model)}={named}", "there is no such file: check the name", heading="unreadable-file"
            )
        stated = self._probe(path).stated
        return LocalLog(path, model, variable(model), stated[0] if stated else None, modified)

    def _by_name(self, model: str, files: Mapping[Path, float]) -> LocalLog | None:
        """Return the newest file with the model in its name whose content doesn't contradict it.

        Falls back to a related model, such as a smaller one.
        """
        relative: LocalLog | None = None
        nearest: LocalLog | None = None
        opened = 0
        for path, modified in islice(files.items(), MOST_LOOKS):
            opened += 1
            probe = self._probe(path)
            related = [name for name in probe.stated if belongs(name, model)]
            if probe.problem is not None:
                self._skipped.append(f"{path}: {probe.problem}")
                continue
            if probe.stated and not related:
                others = ", ".join(probe.stated)
                self._skipped.append(f"{path}: its name says {model}, but it is a training of {others}")
                continue
            stated = model if model in related else next(iter(related), None)
            why = "its name, and what it says of its model" if stated else "its name; the log doesn't say its model"
            log = LocalLog(path, model, why, stated, modified)
            if stated in (None, model):
                nearest = log
                break
            if relative is None:
                relative = log
            else:
                self._skipped.append(f"{path}: a training of {stated}")
        if nearest is not None and relative is not None:
            self._skipped.append(f"{relative.path}: a training of {relative.stated}, not of {model} itself")
        older = len(files) - opened
        if older:
            self._skipped.append(f"{counted(older, 'older file')} with {model} in the name")
        return nearest or relative

    def _by_content(self, models: Sequence[str], files: Mapping[Path, float]) -> dict[str, LocalLog]:
        """Return the newest file for each model that the logs themselves name, else one of a related model."""
        nearest: dict[str, LocalLog] = {}
        relatives: dict[str, LocalLog] = {}
        others: list[tuple[Path, str]] = []
        for path, modified in islice(files.items(), MOST_LOOKS):
            if len(nearest) == len(models):
                break
            probe = self._probe(path)
            for model in models:
                for stated in probe.stated:
                    if belongs(stated, model):
                        log = LocalLog(path, model, "what it says of its model", stated, modified)
                        (nearest if stated == model else relatives).setdefault(model, log)
            if probe.problem is None:
                called = ", ".join(probe.stated or probe.named)
                others.append((path, f"a training of {called}" if called else "doesn't say its model"))
        best = relatives | nearest
        used = {each.path for each in best.values()}
        self._skipped += [f"{path}: {what}" for path, what in others if path not in used]
        if len(nearest) < len(models) and len(files) > MOST_LOOKS:
            self._skipped.append(f"{len(files) - MOST_LOOKS} older files were not looked into")
        return best


def _read_head(path: Path) -> _LogProbe:
    try:
        logs = read.parse_lines(islice(Log(str(path)).lines(), HEAD_LINES), str(path))
    except TensorPrimatError as error:
        is_other = error.heading == "not-a-training-log"
        return _LogProbe(problem="not a training log" if is_other else error.message)
    statements = [log.stated["model"] for log in logs if "model" in log.stated]
    return _LogProbe(
        tuple(str(each.value) for each in statements if each.weight > 0),
        tuple(str(each.value) for each in statements if each.weight <= 0),
    )


def belongs(stated: str, model: str) -> bool:
    """Return whether a model named in a log belongs to a family: llama3.2_1B is a Llama."""
    return model in re.sub(r"[^a-z0-9]", "", stated.lower())


def _files(where: Sequence[Folder]) -> dict[Path, float]:
    """Return logs by their names' endings, with when they were written.

    The newest come first; of equally new ones those under their usual name.
    """
    unique: dict[str, tuple[Path, float]] = {}
    for folder in where:
        for path in islice(_below(folder.path, _DEEPEST if folder.deep else 0), MOST_FILES):
            if ENDINGS.search(path.name) and (modified := _modified(path)) is not None:
                unique.setdefault(os.path.realpath(path), (path, modified))
    return dict(sorted(unique.values(), key=lambda file: (-file[1], not file[0].name.startswith("training_"), file[0])))


def _modified(path: Path) -> float | None:
    """Return when a file was last written, s since the epoch; None where it is gone."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None


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
