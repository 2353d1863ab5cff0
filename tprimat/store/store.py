"""Result files in folders: their names, how runs join one, how they are written and found.

Writes are atomic, one writer at a time, and nothing is overwritten: a run joins the file of its
setup, and a file of another setup that stands in the way moves to history/.
"""

from __future__ import annotations

import codecs
import dataclasses
import datetime
import filecmp
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat import files
from tprimat.analysis import stats
from tprimat.analysis.summary import rounded, summarize
from tprimat.catalog import gpus
from tprimat.errors import UnreadableError, UsageError
from tprimat.results.result_file import SCHEMA_VERSION, RecordedRepetition, ResultFile, decode, encode
from tprimat.results.run import RECORD_FIELDS, Count, Run, setup_key
from tprimat.store import legacy_results
from tprimat.store.legacy_schema import parse

HISTORY = "history"
ENCODER_DECODER = "encdec"
LARGEST_FILE = 1 << 30
"""Bytes; 10⁶ steps take some 0.1 GB. A larger file is no result."""

SURELY_THE_SAME = 3
"""Equal records with so many different times, all values equal to the last digit, are of one training."""

UNFINISHED = ".result.part"
"""Ending of a result on its way to disk; written under the lock alone."""


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A result file that was read.

    Attributes:
        path: where.
        runs: those in it.
        sha256: of the bytes that they were read from; by now the file may hold more.
    """

    path: Path
    runs: tuple[Run, ...]
    sha256: str


@dataclasses.dataclass(frozen=True)
class Saved:
    """Where a run was written.

    Attributes:
        path: the result file.
        moved: where the older file of another setup went, or None.
        runs: how many runs the file now holds.
        known: whether the file held this training already, read from the same log.
    """

    path: Path
    moved: Path | None
    runs: int
    known: bool = False


def file_name(run: Run) -> str:
    """The name under which users know a result of this kind."""
    if run.model == ENCODER_DECODER:
        return _encoder_decoder_name(run)
    platform_of = {"nemo": "cuda", "primus": "rocm"}
    framework = _plain(run.framework or "unknown")
    if run.framework in platform_of:
        stem = f"benchmark_{platform_of[framework]}"
    elif run.platform == "cpu" and run.framework == "lightning":
        stem = "benchmark_cpu"
    else:
        stem = f"train_{framework}"
    parts = [stem, _plain(run.model or "model"), *([_plain(run.label)] if run.label else [])]
    return "_".join(parts) + ".json"


def _encoder_decoder_name(run: Run) -> str:
    """bench_{GPU}_{N}gpu_{TIMESTAMP}: each training has a file of its own."""
    on_cpu = run.platform == "cpu"
    gpu = "cpu" if on_cpu else _plain(gpus.short_name(run.gpu_info.device_name))
    moment = run.started.strftime("%Y%m%d_%H%M%S") if run.started else "unknown"
    parts = [f"bench_{gpu}_{run.num_gpus or 1}gpu_{moment}", *([_plain(run.label)] if run.label else [])]
    return "_".join(parts) + ".json"


def read(path: Path) -> tuple[Run, ...]:
    """The runs of one file, of this version's form or an earlier one.

    Raises UnreadableError, one line with the file and the field, for anything else.
    """
    return _decoded(_content(path), path)


def _content(path: Path) -> bytes:
    try:
        with files.open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                raise UnreadableError(
                    path, f"too large for a result file: is it one?{_if_a_log(path)}", heading="not-a-result"
                )
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(path, f"can't be read: {why}", heading="unreadable-file") from error


def _if_a_log(path: Path) -> str:
    """What whoever names a log in the place of a result wants to know."""
    return "" if path.suffix == ".json" else "; scripts/analyze_existing_logs.py makes a result of a training's log"


def _decoded(content: bytes, path: Path) -> tuple[Run, ...]:
    content = _as_utf8(content)
    try:
        version = _version(content)
        if version is None:
            return legacy_results.decode(content, path.name)
        if version > SCHEMA_VERSION:
            raise UnreadableError(
                path,
                f"written by a newer TensorPrimat (schema version {version}, this one knows {SCHEMA_VERSION}): update",
                heading="newer-result",
            )
        return decode(content)
    except msgspec.ValidationError as error:
        raise UnreadableError(path, f"not a result: {error}{_if_a_log(path)}", heading="not-a-result") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        line = _line_of(content, error)
        why = f"not whole JSON: {error}{_if_a_log(path)}"
        raise UnreadableError(path, why, line=line, heading="not-a-result") from error


def fingerprint(run: Run) -> str:
    """What tells a run from all others: its setup, its start, its times to the nanosecond. In hexadecimal."""
    content = msgspec.json.encode([run.timestamp, run.status, run.steps, run.step_times, run.loss_values])
    return hashlib.sha256(setup_key(run) + content).hexdigest()[:32]


def locate(path: Path, wanted: str) -> tuple[Run, Path] | None:
    """A run by its fingerprint: in the file that it was written to, or where that was moved to since."""
    for file in _places(path):
        try:
            runs = read(file)
        except UnreadableError:
            continue
        for run in runs:
            if fingerprint(run) == wanted:
                return run, file
    return None


def _places(path: Path) -> Iterator[Path]:
    yield path
    # Listed only now: a file that was replaced since it was read is in history/ by this time.
    yield from sorted((path.parent / HISTORY).glob(f"{path.stem}_*.json"), reverse=True)


def find(paths: Sequence[Path]) -> tuple[list[Loaded], list[str]]:
    """Reads files, and folders with all that lies below them except history/.

    Returns:
        What was read, in the order of the arguments and within a folder by name; and a warning
        for each file in a folder that is no result. What vanishes from a folder meanwhile is as
        good as never there. A broken file that was named itself raises UnreadableError.
    """
    loaded: dict[str, Loaded] = {}
    warnings: list[str] = []
    for path in paths:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnreadableError(path, f"can't be read: {why}: check the name", heading="unreadable-file") from error
        if not is_folder:
            loaded.setdefault(os.path.realpath(path), _load(path))
            continue
        for file in sorted(_results_below(path, warnings)):
            try:
                loaded.setdefault(os.path.realpath(file), _load(file))
            except UnreadableError as error:
                if os.path.lexists(file):
                    warnings.append(f"passed over: {error.message}")
    return list(loaded.values()), warnings


def _load(path: Path) -> Loaded:
    content = _content(path)
    return Loaded(path, _decoded(content, path), hashlib.sha256(content).hexdigest())


def save(run: Run, folder: Path) -> Saved:
    """Writes a run to its file in a folder, joining earlier runs of the same setup.

    Raises UsageError when the folder can't be written.
    """
    return save_as(run, folder / file_name(run))


def save_as(run: Run, path: Path) -> Saved:
    """Writes a run to a file that the user named; the rules are those of save().

    Raises UsageError when the file can't be written.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.lock_folder(folder):
            earlier = _runs_to_join(path, run)
            if not earlier and not run.steps and run.status == "failed" and path.exists():
                # What broke off before its setup was known pushes no measurement aside.
                path = path.with_stem(f"{path.stem}_failed")
                earlier = _runs_to_join(path, run)
            runs, known = _joined(earlier, run)
            _clear_unfinished(folder)
            with files.write_temp_beside(path, encode(as_file(runs)), UNFINISHED) as whole:
                # Under its name there is a whole result at every moment, the older one or this one.
                moved = _keep_in_history(path) if path.exists() and not earlier else None
                os.replace(whole, path)
    except OSError as error:
        why = f"the result can't be written: {error.strerror or error}"
        raise UsageError(f"{folder}: {why}: choose another --output-dir", heading="unwritable-folder") from error
    return Saved(path, moved, len(runs), known)


def as_file(runs: Sequence[Run]) -> ResultFile:
    """The result file of one or more runs of one setup.

    Raises ValueError when their setups differ.
    """
    if len({setup_key(run) for run in runs}) != 1:
        raise ValueError("runs of different setups can't share a file")
    summaries = [summarize(run) for run in runs]
    mean_times = [summary.performance.avg_step_time_seconds or 0.0 for summary in summaries]
    recorded = tuple(
        RecordedRepetition(
            steady=summary.steady,
            performance_metrics=rounded(summary.performance),
            **{name: getattr(run, name) for name in RECORD_FIELDS},
        )
        for run, summary in zip(runs, summaries, strict=True)
    )
    measured = [index for index, time in enumerate(mean_times) if time] or range(len(runs))
    chosen = measured[stats.median_index([mean_times[index] for index in measured])]
    fields: dict[str, Any] = {name: getattr(runs[chosen], name) for name in Run.__struct_fields__}
    fields["warnings"] = tuple(dict.fromkeys((*runs[chosen].warnings, *summaries[chosen].warnings)))
    return ResultFile(
        **fields,
        steady=recorded[chosen].steady,
        performance_metrics=recorded[chosen].performance_metrics,
        runs=recorded,
    )


class _VersionOnly(msgspec.Struct):
    schema_version: Count | msgspec.UnsetType = msgspec.UNSET


def _version(content: bytes) -> int | None:
    try:
        version = msgspec.json.decode(content, type=_VersionOnly).schema_version
        return None if version is msgspec.UNSET else version
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Python wrote the earlier forms, and with them the NaN of a training that diverged.
        parsed = parse(content)
        if isinstance(parsed, dict) and "schema_version" not in parsed:
            return None
        raise


def _as_utf8(content: bytes) -> bytes:
    """The content without a byte order mark, which editors and shells on Windows put before it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace").encode()
    return content.removeprefix(codecs.BOM_UTF8)


def _plain(name: str) -> str:
    """A name as a part of a file name: no separators, no dots at the start, not endless.

    Three parts, and what history/ and an unfinished write add, stay within 255 bytes.
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip(".-")[:60] or "unnamed"


def _line_of(content: bytes, error: Exception) -> int | None:
    position = re.search(r"byte (\d+)", str(error))
    return content[: int(position[1])].count(b"\n") + 1 if position else None


def _results_below(folder: Path, warnings: list[str]) -> Iterator[Path]:
    def pass_over(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            warnings.append(f"passed over: {error.filename}: can't be read: {error.strerror}")

    for parent, folders, names in os.walk(folder, onerror=pass_over):
        folders[:] = sorted(name for name in folders if name != HISTORY and not name.startswith("."))
        for name in names:
            file = Path(parent, name)
            # Reading a pipe that lies in a folder would wait for ever.
            if name.endswith(".json") and not name.startswith(".") and not (file.exists() and not file.is_file()):
                yield file


def _runs_to_join(path: Path, run: Run) -> tuple[Run, ...]:
    try:
        runs = read(path)
    except UnreadableError:
        return ()
    return runs if all(setup_key(each) == setup_key(run) for each in runs) else ()


def _joined(earlier: tuple[Run, ...], run: Run) -> tuple[tuple[Run, ...], bool]:
    """Earlier runs with a new one, and whether it was among them: a log that is read again is no second run."""
    same = next((index for index, each in enumerate(earlier) if _same_training(each, run)), None)
    if same is None:
        return (*earlier, run), False
    # Of a log that was read while it was written, and of one that was cut, the longer one counts.
    longer = earlier[same] if len(earlier[same].steps) > len(run.steps) else run
    return (*earlier[:same], longer, *earlier[same + 1 :]), True


def _same_training(first: Run, second: Run) -> bool:
    """Whether two runs are the same one, read twice: from one file, a copy, or a log that has grown."""
    if not first.source or not second.source:
        return False
    hashes = [[file.sha256 for file in run.source.files] for run in (first, second) if run.source]
    if all(hashes) and hashes[0] == hashes[1] and (first.steps, first.lines) == (second.steps, second.lines):
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


def _keep_in_history(path: Path) -> Path:
    """Puts a result under a second name in history/, so that it may be replaced under its own."""
    written = datetime.datetime.fromtimestamp(path.stat().st_mtime)
    stem = f"{path.stem}_{written:%Y%m%d_%H%M%S}"
    target = path.parent / HISTORY / f"{stem}.json"
    target.parent.mkdir(exist_ok=True)
    number = 1
    while target.exists():
        # It is there already where a program was killed between this and the replacing.
        if filecmp.cmp(path, target, shallow=False):
            return target
        number += 1
        target = target.with_name(f"{stem}_{number}.json")
    try:
        os.link(os.path.realpath(path), target)
    except OSError:
        # FAT knows no second names, nor does any system across its borders.
        with files.write_temp_beside(target, path.read_bytes(), UNFINISHED) as whole:
            shutil.copystat(path, whole)
            os.replace(whole, target)
    return target


def clear_unfinished(folder: Path) -> None:
    """Removes what writers have left behind who were killed. Raises OSError or UsageError where it can't."""
    if any(folder.glob(f".*{UNFINISHED}")):
        with files.lock_folder(folder):
            _clear_unfinished(folder)


def _clear_unfinished(folder: Path) -> None:
    # Whoever writes a result holds the lock, which is ours now.
    for left in (*folder.glob(f".*{UNFINISHED}"), *folder.glob(f"{HISTORY}/.*{UNFINISHED}")):
        left.unlink(missing_ok=True)
