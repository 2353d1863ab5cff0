"""Find, read and write result files in directories, and merge runs into them.

Writes are atomic, one writer at a time, and nothing is overwritten: a run joins the file of its
setup, and gets a name of its own if the usual one is that of another setup's file.
"""

from __future__ import annotations

import array
import codecs
import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tprimat import files
from tprimat.analysis import stats
from tprimat.analysis.summary import Summary, rounded, summarize
from tprimat.errors import UnreadableError
from tprimat.notes import LOST, NO_RESULT, Note, skipped
from tprimat.results.arguments import variant
from tprimat.results.fields import Count
from tprimat.results.result_file import (
    SCHEMA_VERSION,
    Loaded,
    RecordedRepetition,
    ResultFile,
    decode,
    encode,
    without_secrets,
)
from tprimat.results.run import RECORD_FIELDS, RUN_VALUES, Run, setup_key
from tprimat.store import hosts, legacy_results, preflight, superseded
from tprimat.store.history import (
    HISTORY,
    UNFINISHED,
    files_below,
    keep_in_history,
    remove_unfinished,
)
from tprimat.store.legacy_schema import parse
from tprimat.store.naming import difference, file_name

StoredRun = tuple[Run, Path]
"""A run, and the file of its result."""

LARGEST_FILE = 1 << 30
"""Bytes; 10⁶ steps take some 0.1 GB. A larger file is no result."""

MOST_OBJECTS, MOST_VALUES = 300_000, 20_000_000
"""A run has some 35 objects; an empty one of 3 bytes takes 600 in memory. 10⁶ steps have some 5
million values.
"""

LONGEST_BASE = 150
"""Characters of a usual name that are kept if something is added, so that file systems take the
whole.
"""

SIGNS, SIGNED_WITHIN = (b'"schema_version"', b'"performance_metrics"'), 8000
"""Texts of which a result has one in its first bytes: by them a result that can't be loaded is
still recognized.
"""

SURELY_THE_SAME = 3
"""Records that are equal to the last digit, with at least this many different times, belong to one
run.
"""


class Saved(NamedTuple):
    """The result file and the number of its runs, the new path of the file that was in the way, and
    whether the run was already there.

    A file is in the way if it is no result or, under a name from the user, a result of another
    setup.
    """

    path: Path
    moved: Path | None
    runs: int
    known: bool


def is_result(head: bytes) -> bool:
    """Return whether a file that begins so is a result of this program."""
    return head.lstrip()[:1] == b"{" and any(sign in head[:SIGNED_WITHIN] for sign in SIGNS)


def read(path: Path) -> tuple[Run, ...]:
    """Return the runs of one file, of this version or an earlier tool's.

    Raises UnreadableError, one line with the file and the field, for anything else.
    """
    return _load(path).runs


def _load(path: Path) -> Loaded:
    try:
        content = files.read_plain(path, LARGEST_FILE)
        return Loaded(str(path), hashlib.sha256(content).hexdigest(), _decoded(content, path))
    except (OSError, ValueError, MemoryError) as error:
        raise files.unreadable(path, error) from error


CUT_OFF = "Input data was truncated"
"""What msgspec says of a file that ends too early."""


def _not_a_result(
    path: Path, why: str, line: int | None = None, *, is_lost: bool = False
) -> UnreadableError:
    """Return the error about a file, with a hint if it may be a log."""
    hint = None if path.suffix == ".json" else "tprimat read FILE imports a training log"
    return UnreadableError(path, why, line=line, heading="not-a-result", hint=hint, is_lost=is_lost)


def _decoded(content: bytes, path: Path) -> tuple[Run, ...]:
    # Editors and shells on Windows put a byte order mark before the content.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", errors="replace").encode()
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.count(b"{") > MOST_OBJECTS or content.count(b",") > MOST_VALUES:
        raise _not_a_result(path, "more objects or values than a result has")
    try:
        version = _version(content)
        if version is None:
            return without_secrets(legacy_results.decode(content, path.name))
        if version > SCHEMA_VERSION:
            raise UnreadableError(
                path,
                f"written by a newer TensorPrimat (schema version {version}, this one reads up to"
                f" {SCHEMA_VERSION})",
                heading="newer-result",
                hint="update TensorPrimat",
                is_lost=True,
            )
        runs = without_secrets(decode(content))
        if version == 1:
            return tuple(map(superseded.with_doubt, runs))
        return runs
    except msgspec.ValidationError as error:
        is_one = any(sign in content[:SIGNED_WITHIN] for sign in SIGNS)
        why = "this result can't be loaded" if is_one else "not a result"
        raise _not_a_result(path, f"{why}: {_plainly(error)}", is_lost=is_one) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        position = re.search(r"byte (\d+)", str(error))
        line = content[: int(position[1])].count(b"\n") + 1 if position else None
        is_cut = str(error) == CUT_OFF
        raise _not_a_result(path, f"not valid JSON: {error}", line, is_lost=is_cut) from error


def _plainly(error: msgspec.ValidationError) -> str:
    wrong = re.fullmatch(
        r"Expected `(.{1,300}?)`(?:, got `(.{1,300}?)`|( [<>].{0,300}?))(?: - at `\$\.?(.*)`)?",
        str(error),
    )
    if wrong is None:
        return str(error).replace("`", "'")
    expected, got, bound, where = wrong.groups()
    return f"{where or 'the file'} must be {expected}{bound or f', not {got}'}"


def fingerprint(run: Run) -> str:
    """Return a run's fingerprint, hexadecimal: a hash of its setup, start and times."""
    content = msgspec.json.encode(
        [run.timestamp, run.status, run.steps, tuple(run.step_times), tuple(run.loss_values)]
    )
    return hashlib.sha256(setup_key(run) + content).hexdigest()[:32]


def locate(path: Path, mark: str) -> StoredRun | None:
    """Return a run by its fingerprint, from its file or from where that was moved."""
    for file in _places(path):
        with contextlib.suppress(UnreadableError):
            for run in read(file):
                if fingerprint(run) == mark:
                    return run, file
    return None


def _places(path: Path) -> Iterator[Path]:
    yield path
    yield from sorted(path.parent.glob(f"{_base(path)}_*.json"))
    # Listed only now: a file that was replaced since it was read is in history/ by this time.
    yield from sorted((path.parent / HISTORY).glob(f"{path.stem}_*.json"), reverse=True)


def find(paths: Sequence[Path]) -> tuple[list[Loaded], list[Note]]:
    """Read files, and directories with all below them except history/.

    Return them in the order of the arguments and within a directory by name, and a note for each
    file in a directory that is neither a result nor a preflight. What vanishes from a directory
    meanwhile counts as never there. A broken file that was named itself raises UnreadableError. The
    runs' long series are packed, so that thousands of results fit into memory.
    """
    loaded: dict[str, Loaded] = {}
    shared: dict[object, object] = {}
    notes = []

    def pass_over(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            why = f"can't be read: {error.strerror}"
            notes.append(skipped(str(error.filename), why, LOST))

    for path in paths:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            raise files.unreadable(path, error) from error
        if not is_folder:
            loaded.setdefault(os.path.realpath(path), _packed(_load(path), shared))
            continue
        for file in sorted(files_below(path, pass_over)):
            # Reading a pipe that lies in a directory would wait for ever.
            if file.suffix != ".json" or (file.exists() and not file.is_file()):
                continue
            try:
                loaded.setdefault(os.path.realpath(file), _packed(_load(file), shared))
            except UnreadableError as error:
                if os.path.lexists(file) and preflight.read(file) is None:
                    kind = LOST if error.is_lost else NO_RESULT
                    notes.append(skipped(error.place, error.reason, kind))
    return list(loaded.values()), notes


def _packed(file: Loaded, shared: dict[object, object]) -> Loaded:
    """Make arrays of a file's series of known values, a quarter of the size of tuples; return it.

    Whole numbers of steps and lines are alike in many files: `shared` has each series once.
    """
    for run in file.runs:
        for name in ("steps", "window_steps", "lines"):
            series = getattr(run, name)
            msgspec.structs.force_setattr(run, name, shared.setdefault(series, series))
        for name in ("step_times", "loss_values", "learning_rates", "grad_norms"):
            # A series with unknown values stays a tuple. The run is as frozen as before: no other
            # code has it yet.
            with contextlib.suppress(TypeError):
                msgspec.structs.force_setattr(run, name, array.array("d", getattr(run, name)))
    return file


def save(run: Run, folder: Path, summary: Summary | None = None) -> Saved:
    """Write a run, with its summary if the caller has it, to its file in a directory; earlier runs
    of it stay.

    The file has the usual name; if that is taken by another setup, what differs is added to it.

    Raises UsageError when the directory can't be made or written.
    """
    return _save(
        run, folder / file_name(run), summary, lambda path: _place(path, run, _has_its_setup)
    )


def save_as(run: Run, path: Path, summary: Summary | None = None) -> Saved:
    """Write a run to a file that the user named; a file of another setup there moves to history/.

    Raises UsageError when the file can't be written.
    """
    return _save(run, path, summary, lambda path: (path, _runs_to_join(path, run)))


def _save(
    run: Run,
    path: Path,
    summary: Summary | None,
    place: Callable[[Path], tuple[Path, tuple[Run, ...]]],
) -> Saved:
    run = without_secrets(run)
    with files.locked(path.parent):
        run = hosts.hidden(run, hosts.Hosts(path.parent, is_locked=True))
        named, earlier = place(path)
        if not earlier and not run.steps and run.status == "failed" and path.exists():
            # What broke off before its setup was known pushes no measurement aside.
            named, earlier = place(path.with_stem(f"{path.stem}_failed"))
        runs, is_known = _joined(earlier, run)
        remove_unfinished(path.parent)
        moved = _write(named, as_file(runs, (run, summary) if summary else None), keeps=not earlier)
    return Saved(named, moved, len(runs), is_known)


def _write(path: Path, file: ResultFile, *, keeps: bool = False) -> Path | None:
    """Write a result file; return the name in history/ of the one that was there, if it is kept."""
    with files.write_temp_beside(path, encode(file), UNFINISHED) as whole:
        # Under its name there is a whole result at every moment, the older one or this one.
        moved = keep_in_history(path) if keeps and path.exists() else None
        os.replace(whole, path)
    return moved


def amend(path: Path, mark: str, **changes: Any) -> Run | None:
    """Change fields of a run, by its fingerprint, which they don't affect; None if it isn't there
    any more.

    Raises UsageError when the file can't be written.
    """
    with files.locked(path.parent):
        runs = _runs_in(path)
        changes = hosts.hidden(changes, hosts.Hosts(path.parent, is_locked=True))
        for index, run in enumerate(runs):
            if fingerprint(run) == mark:
                changed = run.but(**changes)
                _write(path, as_file((*runs[:index], changed, *runs[index + 1 :])))
                return changed
    return None


def withdraw(path: Path, marks: Collection[str]) -> None:
    """Remove runs by their fingerprints from a result file, which is gone if it has no other;
    history/ keeps it.

    Raises UsageError when the directory can't be written.
    """
    with files.locked(path.parent):
        runs = _runs_in(path)
        kept = [run for run in runs if fingerprint(run) not in marks]
        if kept and len(kept) < len(runs):
            _write(path, as_file(kept), keeps=True)
        elif runs and not kept:
            keep_in_history(path)
            path.unlink()


def planned_place(usual: Path, run: Run, planned: dict[Path, tuple[Run, ...]]) -> Path:
    """Return the file that a run which isn't measured yet will be written to, after those that are
    planned; add it.

    It has no versions and no times yet: a file is its own if the runs in it have its request.
    """
    path, taken = _place(usual, run, lambda taken, run: taken[0].request == run.request, planned)
    planned[path] = taken or (run,)
    return path


def _place(
    usual: Path,
    run: Run,
    is_own: Callable[[tuple[Run, ...], Run], bool],
    planned: Mapping[Path, tuple[Run, ...]] = {},
) -> tuple[Path, tuple[Run, ...]]:
    """Return the first path, from the usual one on, that has no runs or whose runs a run may join,
    and those runs.
    """
    path = with_its_case(usual)
    suffix = ""
    while taken := planned.get(path) or _runs_in(path):
        if is_own(taken, run):
            return path, taken
        suffix += f"_{difference(run, taken[0])}"
        path = with_its_case(usual.with_name(f"{_base(usual)}{suffix}.json"))
    return path, ()


def _has_its_setup(taken: tuple[Run, ...], run: Run) -> bool:
    # The same log read again, with values that the user adds, is no other configuration.
    again = len(taken) == 1 and taken[0].label == run.label and _same_training(taken[0], run)
    # Two runs of a simulator may print the same times; planned steps are the log's own.
    again = again and taken[0].training_config.max_steps == run.training_config.max_steps
    return again or all(_shares_its_file(earlier, run) for earlier in taken)


def _shares_its_file(one: Run, other: Run) -> bool:
    return setup_key(one) == setup_key(other) and variant(one) == variant(other)


def with_its_case(path: Path) -> Path:
    """Return the file that is there under a name, or under one that differs in case alone:
    elsewhere both are one.
    """
    if path.exists():
        return path
    if path.parent.is_dir():
        for file in path.parent.iterdir():
            if file.name.casefold() == path.name.casefold():
                return file
    return path


def _base(path: Path) -> str:
    """Return the usual name of a result as far as the others of its name have it, to which
    something is added.
    """
    return path.stem[:LONGEST_BASE]


def as_file(runs: Sequence[Run], known: tuple[Run, Summary] | None = None) -> ResultFile:
    """Return the result file of runs of one setup, in the order in which they were made; raise
    ValueError for several.

    The summary that is known, with its run, is not computed again.
    """
    if len(set(map(setup_key, runs))) != 1:
        raise ValueError("runs of different configurations cannot share a file")
    are_unlike = len({run.training_config for run in runs}) > 1
    recorded = []
    summaries = []
    for run in runs:
        summary = known[1] if known and known[0] is run else summarize(run)
        fields = {name: getattr(run, name) for name in RECORD_FIELDS}
        if are_unlike:
            fields |= {name: getattr(run.training_config, name) for name in RUN_VALUES}
        summaries.append(summary)
        recorded.append(
            RecordedRepetition(
                steady=summary.steady,
                performance_metrics=rounded(summary.performance),
                warnings=run.warnings,
                **fields,
            )
        )
    mean_times = [summary.performance.avg_step_time_seconds or 0.0 for summary in summaries]
    measured = [index for index, time in enumerate(mean_times) if time] or range(len(runs))
    chosen = measured[stats.median_index([mean_times[index] for index in measured])]
    warnings = dict.fromkeys((*runs[chosen].warnings, *summaries[chosen].warnings))
    return ResultFile(
        **msgspec.structs.asdict(runs[chosen]),
        warnings=tuple(warnings),
        steady=recorded[chosen].steady,
        performance_metrics=recorded[chosen].performance_metrics,
        runs=tuple(recorded),
    )


class _VersionOnly(msgspec.Struct):
    schema_version: Count | msgspec.UnsetType = msgspec.UNSET


def _version(content: bytes) -> int | None:
    try:
        version = msgspec.json.decode(content, type=_VersionOnly).schema_version
    except msgspec.DecodeError as error:
        # Python wrote the earlier files, and with them the NaN of a training that diverged.
        if not isinstance(error, msgspec.ValidationError):
            parsed = parse(content)
            if isinstance(parsed, dict) and "schema_version" not in parsed:
                return None
        raise
    if version is msgspec.UNSET:
        return None
    return version


def _runs_in(path: Path) -> tuple[Run, ...]:
    try:
        return read(path)
    except UnreadableError:
        return ()


def _runs_to_join(path: Path, run: Run) -> tuple[Run, ...]:
    runs = _runs_in(path)
    if all(_shares_its_file(earlier, run) for earlier in runs):
        return runs
    return ()


def _joined(earlier: tuple[Run, ...], run: Run) -> tuple[tuple[Run, ...], bool]:
    """Return earlier runs with a new one, and whether it was among them: a log that is read again
    is no second run.
    """
    for index, other in enumerate(earlier):
        if _same_training(other, run):
            # If a log was read while it was written, or was cut, the longer reading counts.
            longer = max(run, other, key=lambda read: len(read.steps))
            return (*earlier[:index], longer, *earlier[index + 1 :]), True
    return (*earlier, run), False


def _same_training(first: Run, second: Run) -> bool:
    """Return whether two runs are the same one, read twice: from one file, a copy, or a log that
    has grown.
    """
    if not first.source or not second.source:
        return False
    hashes = [file.sha256 for file in first.source.files]
    is_same_content = bool(hashes) and hashes == [file.sha256 for file in second.source.files]
    if is_same_content and (first.steps, first.lines) == (second.steps, second.lines):
        return True
    length = min(len(first.steps), len(second.steps))
    if {first.source.kind, second.source.kind} != {"log"}:
        return False
    # Runs of one seed share their losses, and where times are printed in tenths of a second,
    # those too: only times that vary are evidence.
    if len({time for time in first.step_times[:length] if time is not None}) < SURELY_THE_SAME:
        return False
    return all(
        getattr(first, name)[:length] == getattr(second, name)[:length]
        for name in ("steps", "step_times", "loss_values", "grad_norms")
    )
