"""Verify a bundle: recompute the values of its results from its logs."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat.analysis.summary import rounded, summarize
from tprimat.errors import UnreadableError
from tprimat.log_import import bundle, importer, sources
from tprimat.log_import.inputs import Log
from tprimat.results.result_file import RecordedRepetition, ResultFile, runs_of
from tprimat.results.run import SERIES, PerformanceMetrics, Run, Steady
from tprimat.store import store
from tprimat.text import plain

_SERIES = ("window_steps", "step_times", "loss_values", "learning_rates", "grad_norms")
_SECTIONS = ("gpu_info", "model_config", "training_config", "parallelism_config", "optimizer", "memory_metrics")
_FIGURES = ("performance_metrics", "steady", "memory_metrics", "energy_metrics", "native_metrics", "breakdown")
_LISTED = re.compile(r"^  ([0-9a-f]{64})  (\S.*)$", re.MULTILINE)
"""A line of a bundle's README.txt: the SHA-256 of a file, and its name."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value of a result that is not what the log, or the result's own steps, give.

    Attributes:
        field: such as training_config.global_batch_size, or step_times with its step.
        place: what it was recomputed from.
    """

    field: str
    stored: object
    recomputed: object
    place: str


@dataclasses.dataclass(frozen=True)
class VerifiedRun:
    """A run of a result in a bundle.

    Attributes:
        result: the result's file name.
        number: of the run in it, from 1.
        log: the log that its steps were read from again; None where the bundle holds none that has it.
        original: whether that log has the hash that the result states: it was packed as it is; None without a log.
        values: how many were compared.
    """

    result: str
    number: int
    log: str | None
    original: bool | None
    values: int
    differences: tuple[Difference, ...]


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of checking a bundle.

    Attributes:
        changed: files whose content is not that which the bundle's README.txt lists, or which are missing.
    """

    runs: tuple[VerifiedRun, ...]
    changed: tuple[str, ...]


def verify(path: Path) -> Verification:
    """Read the logs of a bundle again, and compare what they give with its results.

    Raises UnreadableError for what is no bundle, or holds no results.
    """
    with bundle.unpacked(path) as (folder, _):
        results = sorted(folder.rglob("results/*.json"))
        if not results:
            raise UnreadableError(path, "no results in it", heading="not-a-result")
        found, _, _ = sources.log_sources([*map(str, folder.rglob("logs"))])
        each_read = [each for _, runs in sources.read_sources(found, 1) if isinstance(runs, list) for each in runs]
        # What a result was made of lay in one folder or in several, which a bundle doesn't say.
        logs = [each.run for each in (*each_read, *importer.merged(each_read, []))]
        packed = (Log(str(each)) for each in folder.rglob("logs/*.gz") if each.is_file())
        hashes = {hashlib.sha256(b"".join(log.chunks())).hexdigest() for log in packed}
        runs = tuple(each for result in results for each in _verified(result, logs, hashes))
        return Verification(runs, tuple(_changed(folder)))


def _changed(folder: Path) -> Iterator[str]:
    for readme in folder.rglob("README.txt"):
        for digest, name in _LISTED.findall(readme.read_text(encoding="utf-8", errors="replace")):
            # Of the environment nothing is unpacked: the results state it too.
            if name.startswith("environment/"):
                continue
            file = bundle.place_of(name, readme.parent)
            if not file.is_file():
                yield f"{name} is missing"
            elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                yield f"{name} was changed after it was packed"


def _verified(path: Path, logs: Sequence[Run], hashes: Collection[str]) -> Iterator[VerifiedRun]:
    runs = store.read(path)
    file: ResultFile | None = None
    try:
        file = msgspec.json.decode(path.read_bytes(), type=ResultFile)
        records = [(each.performance_metrics, each.steady) for each in file.runs or (file,)]
        runs = runs_of(file)
    except msgspec.DecodeError:
        # A result of an older tool states no figures in these terms.
        records = [(PerformanceMetrics(), Steady())] * len(runs)
    for number, (run, (stored, steady)) in enumerate(zip(runs, records, strict=True), 1):
        summary = summarize(run)
        compared = [
            *_fields("performance_metrics", stored.known(), rounded(summary.performance).known(), "its steps"),
            *_fields("steady", steady.known() if stored.known() else {}, summary.steady.known(), "its steps"),
        ]
        if file is not None and number == 1:
            compared.append(_top_level(file))
        log = _log_of(run, logs)
        if log is not None:
            compared += _with_log(run, log)
        differences = tuple(each for each in compared if each is not None)
        files = run.source.files if run.source else ()
        original = None if log is None else all(file.sha256 in hashes for file in files)
        name = None if log is None else _name(log)
        yield VerifiedRun(path.name, number, name, original, len(compared), differences)


def _top_level(file: ResultFile) -> Difference | None:
    """Compare what stands at the top level, for readers that know nothing of `runs`, with the runs."""

    def values(run: ResultFile | RecordedRepetition) -> list[object]:
        return [getattr(run, name) for name in (*SERIES, *_FIGURES)]

    same = not file.runs or values(file) in [values(run) for run in file.runs]
    return None if same else Difference("top level", "a run of its own", "one of `runs`", "its runs")


def _log_of(run: Run, logs: Sequence[Run]) -> Run | None:
    """Return what was read from the log of a run: the training most like it of those in logs of its name."""
    names = _names(run)
    same = [log for log in logs if names & _names(log)]
    return min(same, key=lambda log: sum(each is not None for each in _with_log(run, log)), default=None)


def _names(run: Run) -> set[str]:
    """Return the names of the logs of a run, without the number that a bundle adds to the second one of a name."""
    files = run.source.files if run.source else ()
    return {re.sub(r"^([^.]*?)_\d+(?=\.|$)", r"\1", bundle.bare(file.path)) for file in files}


def _name(log: Run) -> str:
    return bundle.bare(log.source.files[0].path) if log.source and log.source.files else "log"


def _with_log(run: Run, log: Run) -> Iterator[Difference | None]:
    name, overridden = _name(log), run.source.overrides if run.source else {}
    for section in _SECTIONS:
        stated = {key: value for key, value in getattr(log, section).known().items() if key not in overridden}
        stored = {key: value for key, value in getattr(run, section).known().items() if key in stated}
        yield from _fields(section, stored, stated, name)
    # A model from the command line is another name for what the log states, or no statement of it.
    is_given = any(warning.startswith("the model (") for warning in run.warnings)
    names = ("framework", *(() if is_given or "model" in overridden else ("model",)))
    stated = {key: value for key in names if (value := getattr(log, key)) is not None}
    yield from _fields("run", {key: getattr(run, key) for key in stated}, stated, name)
    series = {each: (getattr(run, each), getattr(log, each)) for each in _SERIES}
    for key, values in run.native_metrics.items():
        again, field = log.native_metrics.get(key), f"native_metrics.{key}"
        if isinstance(values, tuple) and isinstance(again, tuple):
            series[field] = values, again
        elif key != "scaling_factor":
            # That is beside the log, and not in the bundle.
            yield _compared(field, values, again, name)
    if run.timeline:
        same = run.timeline == log.timeline
        yield None if same else Difference("timeline", f"{len(run.timeline)} entries", "others", name)
    places = {step: index for index, step in enumerate(log.steps)}
    for index, step in enumerate(run.steps):
        if (other := places.pop(step, None)) is None:
            yield Difference(f"steps, step {step}", step, None, name)
            continue
        place = f"{name}, line {log.lines[other]}" if log.lines[other] else name
        for field, (values, again) in series.items():
            yield _compared(f"{field}, step {step}", values[index], again[other], place)
    for step in places:
        yield Difference(f"steps, step {step}", None, step, name)


def _compared(field: str, stored: object, recomputed: object, place: str) -> Difference | None:
    return None if stored == recomputed else Difference(field, stored, recomputed, place)


def _fields(
    section: str, stored: Mapping[str, object], recomputed: Mapping[str, object], place: str
) -> Iterator[Difference | None]:
    """Yield None for each stored value that is the same, and a difference for each other one."""
    for name, value in stored.items():
        yield _compared(f"{section}.{plain(name)}", value, recomputed.get(name), place)
