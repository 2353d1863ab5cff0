"""Find the logs of trainings: by environment variable, by name, and by content.

A name alone is no proof: the model that a log states decides. Opens nothing itself: the caller passes
a function that returns the first lines of a file.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tprimat import read
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.read.parsing.text import Line

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
    """A log for a model.

    Attributes:
        path: the file.
        model: a name in models.py.
        why: what identified it.
        stated: what the log calls its model; None where it doesn't say.
        modified: when it was last written, s since the epoch.
    """

    path: Path
    model: str
    why: str
    stated: str | None
    modified: float


@dataclasses.dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes:
        logs: one log for each model found, in the order of the models.
        skipped: reasons for logs that were not used.
        looked_in: folders that exist.
        missing: folders that do not.
    """

    logs: tuple[LocalLog, ...]
    skipped: tuple[str, ...]
    looked_in: tuple[Path, ...]
    missing: tuple[Path, ...]


Head = Callable[[Path], Iterable[Line]]
"""The lines of a log; only the first ones are read."""


def variable(model: str) -> str:
    """Return the environment variable that names a model's log."""
    return f"{model.upper()}_LOG"


def folders(working: Path, output: Path, clone: Path, environ: Mapping[str, str]) -> tuple[Folder, ...]:
    """Return the folders to search for logs, each once.

    Args:
        working: the working folder.
        output: folder of the results.
        clone: the root of this program.
        environ: environment variables; PRIMUS_PATH counts.
    """
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


def search(models: Sequence[str], where: Sequence[Folder], environ: Mapping[str, str], head: Head) -> Search:
    """Look for the newest log of each model.

    Args:
        models: names in models.py.
        where: folders.
        environ: environment variables; LLAMA_LOG and its like go before all else.
        head: opens a log.

    Raises:
        UnreadableError: an environment variable names a file that isn't there.
    """
    probes = _LogProbes(head)
    skipped: list[str] = []
    log_of: dict[str, LocalLog] = {}
    for model in models:
        named = environ.get(variable(model), "").strip()
        if named:
            log_of[model] = _of_variable(model, named, probes)
    files = _files(where)
    for model in models:
        if model not in log_of:
            fitting = [file for file in files if model in file.path.name.lower()]
            chosen = _by_name(model, fitting, probes, skipped)
            if chosen is not None:
                log_of[model] = chosen
    missing = [model for model in models if model not in log_of]
    if missing:
        nameless = [file for file in files if not any(model in file.path.name.lower() for model in models)]
        for each in _by_content(missing, nameless, probes, skipped):
            log_of.setdefault(each.model, each)
    return Search(
        tuple(log_of[model] for model in models if model in log_of),
        tuple(skipped),
        tuple(folder.path for folder in where if folder.path.is_dir()),
        tuple(folder.path for folder in where if not folder.path.is_dir()),
    )


@dataclasses.dataclass(frozen=True)
class _File:
    path: Path
    modified: float


@dataclasses.dataclass(frozen=True)
class _LogProbe:
    """What the first lines of a file show: the models of its trainings, by statement or only by name; or none."""

    training: bool
    sure: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    problem: str | None = None


class _LogProbes:
    """Reads the first lines of files, each once."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._known: dict[Path, _LogProbe] = {}

    def at(self, path: Path) -> _LogProbe:
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def _look(self, path: Path) -> _LogProbe:
        try:
            logs = read.parse_lines(islice(self._head(path), HEAD_LINES), str(path))
        except UnreadableError as error:
            return _LogProbe(
                False, problem="not a training log" if error.heading == "not-a-training-log" else error.message
            )
        except TensorPrimatError as error:
            return _LogProbe(False, problem=error.message)
        statements = [log.stated["model"] for log in logs if "model" in log.stated]
        return _LogProbe(
            bool(logs),
            tuple(str(each.value) for each in statements if each.weight > 0),
            tuple(str(each.value) for each in statements if each.weight <= 0),
        )


def _of_variable(model: str, named: str, probes: _LogProbes) -> LocalLog:
    path = Path(named).expanduser()
    modified = _modified(path)
    if modified is None:
        raise UnreadableError(
            f"{variable(model)}={named}", "there is no such file: check the name", heading="unreadable-file"
        )
    stated = probes.at(path).sure
    return LocalLog(path, model, variable(model), stated[0] if stated else None, modified)


def _by_name(model: str, files: Sequence[_File], probes: _LogProbes, skipped: list[str]) -> LocalLog | None:
    """Return the newest file with the model in its name whose content doesn't contradict it.

    Falls back to a related model, such as a smaller one.
    """
    relative: LocalLog | None = None
    nearest: LocalLog | None = None
    older = 0
    for number, file in enumerate(files):
        if nearest is not None or number >= MOST_LOOKS:
            older += 1
            continue
        probe = probes.at(file.path)
        if not probe.training:
            skipped.append(f"{file.path}: {probe.problem or 'not a training log'}")
            continue
        if probe.sure and not any(belongs(name, model) for name in probe.sure):
            skipped.append(f"{file.path}: its name says {model}, but it is a training of {', '.join(probe.sure)}")
            continue
        stated = next(
            (name for name in sorted(probe.sure, key=lambda name: name != model) if belongs(name, model)), None
        )
        why = "its name, and what it says of its model" if stated else "its name; the log doesn't say its model"
        log = LocalLog(file.path, model, why, stated, file.modified)
        if stated in (None, model):
            nearest = log
        else:
            relative, other = relative or log, relative and log
            skipped += [f"{other.path}: a training of {other.stated}"] if other else []
    if nearest is not None and relative is not None:
        skipped.append(f"{relative.path}: a training of {relative.stated}, not of {model} itself")
    if older:
        skipped.append(f"{older} older {'file' if older == 1 else 'files'} with {model} in the name")
    return nearest or relative


def _by_content(
    models: Sequence[str], files: Sequence[_File], probes: _LogProbes, skipped: list[str]
) -> Iterator[LocalLog]:
    """Yield the newest file for each model that the logs themselves name, else one of a related model."""
    nearest: dict[str, LocalLog] = {}
    relatives: dict[str, LocalLog] = {}
    others: list[tuple[Path, str]] = []
    for file in files[:MOST_LOOKS]:
        if len(nearest) == len(models):
            break
        probe = probes.at(file.path)
        for model in models:
            for stated in probe.sure:
                if belongs(stated, model):
                    chosen = nearest if stated == model else relatives
                    chosen.setdefault(
                        model, LocalLog(file.path, model, "what it says of its model", stated, file.modified)
                    )
        if probe.training:
            called = ", ".join(probe.sure or probe.named)
            others.append((file.path, f"a training of {called}" if called else "doesn't say its model"))
    best = {**relatives, **nearest}
    used = {each.path for each in best.values()}
    skipped += [f"{path}: {what}" for path, what in others if path not in used]
    if len(nearest) < len(models) and len(files) > MOST_LOOKS:
        skipped.append(f"{len(files) - MOST_LOOKS} older files were not looked into")
    yield from best.values()


def belongs(stated: str, model: str) -> bool:
    """Return whether a model named in a log belongs to a family: llama3.2_1B is a Llama."""
    return model in re.sub(r"[^a-z0-9]", "", stated.lower())


def _files(where: Sequence[Folder]) -> list[_File]:
    """Return logs by their names' endings, the newest first; of equally new ones those under their usual name."""
    unique: dict[str, _File] = {}
    for folder in where:
        for path in islice(_below(folder.path, _DEEPEST if folder.deep else 0), MOST_FILES):
            if ENDINGS.search(path.name) and (modified := _modified(path)) is not None:
                unique.setdefault(os.path.realpath(path), _File(path, modified))
    return sorted(
        unique.values(), key=lambda file: (-file.modified, not file.path.name.startswith("training_"), file.path)
    )


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
