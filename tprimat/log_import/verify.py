"""Verify a bundle: recompute the values of its results from its logs, and check the conditions of
its publication.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat.analysis.summary import Summary, rounded, summarize
from tprimat.catalog import models
from tprimat.checks import CONTRADICTION, Finding, finding_of, physics
from tprimat.checks.endings import how_ended
from tprimat.errors import UnreadableError, UsageError
from tprimat.log_import import bundle, bundle_names, extract, importer, inspection, sources
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.given import agrees, stated_by
from tprimat.log_import.inputs import Log
from tprimat.log_import.load import keys
from tprimat.notes import OBSERVED, Note
from tprimat.read import mapped
from tprimat.record.console import PRINTED_MEAN
from tprimat.results.fields import known_values
from tprimat.results.result_file import RecordedRepetition, ResultFile, runs_of
from tprimat.results.run import (
    RECORD_FIELDS,
    SERIES,
    PerformanceMetrics,
    Run,
    Source,
    StatedValues,
    Steady,
    sentences,
)
from tprimat.store import store
from tprimat.text import plain

_SERIES = ("window_steps", "step_times", "loss_values", "learning_rates", "grad_norms")
_LISTED = re.compile(r"^  ([0-9a-f]{64})  (\S.*)$", re.MULTILINE)
"""A line of a bundle's README.txt: the SHA-256 of a file, and its name."""
_OPEN = ("run.warnings", "run.status_reason", "environment.hostname")
"""Words of the version and the place of the reading: other ones are only claimed."""
_GROWING = ("framework_config.", "environment.")
"""Fields of which a later version may read more."""
_MEANINGS = (*mapped.STATED, "as_read")
"""Values of a user without which a log has no steps."""
_PLACES = {"gpu": "gpu_info.device_name", "model": "run.model", "model_shape": "model_config"}
"""Where a result has an option that isn't in its training_config."""
NO_SPEED = "no-speed"
"""The rule of a finding on a run without a speed to publish."""
CLAIMED = "claimed-times"
"""The rule of a finding on step times that the time stamps of their log contradict."""
UNSTAMPED = "times-unstamped"
"""The code of step times that nothing in their log dates: it may be honest, or forged."""
CONFIRMED = 0.1
"""Share of the printed time by which, with 2 s, the time between the stamps may be another one:
pauses, rounding.
"""
MISSING, CHANGED, ADDED = "file-missing", "file-changed", "file-added"
"""Codes of what became of a file since a bundle was packed."""
MOST_STATED = 100
"""Different sets of stated values in a bundle: its logs are read again for each."""
_LARGEST_README = 2 << 20
"""Bytes: as many lines as a bundle may have members."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value of a result that differs from the one by the log, or by the result's own steps.

    Attributes:
        field: such as training_config.global_batch_size, or step_times with its step.
        place: the source of the recomputed value.
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
        number: number of the run in it, from 1.
        log: the log that its steps were read from again; None if the bundle holds none that has it.
        original: whether that log has the hash that the result states: it was packed as it is; None
            without a log.
        values: how many were compared.
        findings: on values that are impossible, contradictory, or can't be checked.
        unsupported: settings and metrics that the log doesn't state, such as a GPU from the command
            line.
        unchecked: what nothing in the log confirms or contradicts.
    """

    result: str
    number: int
    log: str | None
    original: bool | None
    values: int
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    unsupported: tuple[str, ...]
    unchecked: tuple[Note, ...]


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of checking a bundle.

    Attributes:
        changed: files whose content is not that which the bundle's README.txt lists, or which only
            one of both has.
        private: the secrets and names left in it, by file.
        foreign: files that are more than data, or that no bundle has, each with its kind.
        files: the number of files of each kind.
        extra: logs with a run that no result has: it is shown unchecked.
    """

    runs: tuple[VerifiedRun, ...]
    changed: tuple[Note, ...]
    private: tuple[str, ...]
    foreign: tuple[str, ...]
    files: dict[str, int]
    extra: tuple[str, ...]


def verify(path: Path) -> Verification:
    """Read the logs of a bundle again, and compare their values with its results.

    Raises UnreadableError if it is no bundle, or has no results.
    """
    odd: list[str] = []
    with bundle.unpacked(path, odd) as (folder, _):
        results = sorted(folder.rglob("results/*.json"))
        if not results:
            raise UnreadableError(path, "no results in it", heading="not-a-result")
        stated = list(itertools.chain(*map(store.read, results)))
        is_live = any(run.is_live for run in stated)
        if len({_as_json(run.source.given) for run in stated if run.source}) > MOST_STATED:
            raise UnreadableError(path, "more stated values than logs have", heading="not-a-result")
        read = functools.cache(functools.partial(_read, folder))
        merged, _ = read("{}")
        packed = [Log(str(file)) for file in folder.rglob("logs/*.gz") if file.is_file()]
        hashes = {_sha256(log.chunks()) for log in packed}
        consoles: list[float] = []
        for log in packed if is_live else ():
            shown = (PRINTED_MEAN.match(line.text) for line in log.lines())
            for printed in filter(None, shown):
                consoles.append(float(printed[1]) / (1000 if printed[2] else 1))
        runs: list[VerifiedRun] = []
        for result in results:
            runs += _verified(result, lambda given: read(given)[1], hashes, consoles)
        kinds = inspection.kinds(folder)
        foreign = [*(f"{name}: a link, a device or a program" for name in odd)]
        for name, kind in kinds.items():
            if kind not in inspection.KINDS:
                foreign.append(f"{name}: {kind}")
        used = set(itertools.chain(*(keys(run, is_packed=True) for run in stated)))
        extra = []
        for training in merged:
            if not is_live and not keys(training.run, is_packed=True) & used:
                extra.append(_name(training.run))
        counts = {}
        for kind in inspection.KINDS:
            counts[kind] = [*kinds.values()].count(kind)
        private = tuple(inspection.private(folder))
        return Verification(
            tuple(runs), tuple(_changed(folder)), private, tuple(foreign), counts, tuple(extra)
        )


def _as_json(given: StatedValues) -> str:
    return msgspec.json.encode(given, order="sorted").decode()


def _read(folder: Path, given: str) -> tuple[list[ImportedRun], list[Run]]:
    """Return the trainings in the logs of a bundle, and all runs in these, with the values of a
    source.given as JSON.

    There are none for values that can't be recomputed. The logs of a result may have been in one
    directory or in several: a bundle doesn't show it.
    """
    logs, _, _ = sources.log_sources([*map(str, folder.rglob("logs"))])
    try:
        values = extract.given_again(msgspec.json.decode(given))
    except (msgspec.ValidationError, UsageError):
        return [], []
    each_read = []
    for _, runs in sources.read_sources(logs, 1, values):
        if isinstance(runs, list):
            each_read += runs
    merged = importer.merged(each_read, [])
    return merged, [training.run for training in (*each_read, *merged)]


def _sha256(chunks: Iterable[bytes]) -> str:
    content = hashlib.sha256()
    for chunk in chunks:
        content.update(chunk)
    return content.hexdigest()


def _changed(folder: Path) -> Iterator[Note]:
    # Many names may lead to one large file.
    digest_of = functools.cache(lambda file: _sha256(bundle.pieces(file.open("rb"))))
    unlisted = {file for file in folder.rglob("*") if file.is_file()}
    for readme in folder.rglob("README.txt"):
        with readme.open(encoding="utf-8", errors="replace") as stream:
            listed = _LISTED.findall(stream.read(_LARGEST_README))
        unlisted.discard(readme)
        for digest, name in listed:
            file = bundle_names.place_of(name, readme.parent)
            unlisted.discard(file)
            if not file.is_file():
                yield Note(MISSING, {"file": name})
            elif digest_of(file) != digest:
                yield Note(CHANGED, {"file": name})
    for file in sorted(unlisted):
        yield Note(ADDED, {"file": file.relative_to(folder).as_posix()})


def _verified(
    path: Path,
    logs: Callable[[str], Sequence[Run]],
    hashes: Collection[str],
    consoles: Sequence[float],
) -> Iterator[VerifiedRun]:
    """Yield the runs of a result; `logs` are those that the bundle's logs give with the values of a
    source.given.
    """
    runs, figures, file = _recorded(path)
    for number, (run, (stored, steady)) in enumerate(zip(runs, figures, strict=True), 1):
        summary = summarize(run)
        compared = _with_steps(run, summary, stored, steady, consoles)
        if file is not None and number == 1:
            compared.append(_top_level(file))
        source = run.source or Source(kind="log")
        claims = list[Difference]()
        # No log states the meaning of its columns or the parts of a line, nor confirms what is
        # assumed of its lines.
        mapping = {key: text for key, text in source.given.items() if key in _MEANINGS}
        log = bare = _log_of(run, logs(_as_json(mapping)))
        original = None
        if bare is not None:
            log = _log_of(run, logs(_as_json(source.given))) or bare
            if source.given != mapping and log is bare:
                # The importer doesn't take these values for this log.
                compared.append(Difference("source.given", source.given, None, _name(bare)))
            else:
                claims = [*_claimed(run, bare, log)]
            original = all(file.sha256 in hashes for file in source.files)
            compared += _with_log(run, log, original=original)
        elif run.ending:
            compared.append(
                _compared("ending.kind", run.ending.kind, how_ended(run).kind, "its status")
            )
        differences = known_values(compared)
        name = None if log is None else _name(log)
        findings = _findings(run, summary)
        if log is not None:
            findings += _findings_of_log(run, log, tuple(findings))
        # A result of schema 1 states which values the user set, but not the values. The model may
        # have been in the name of a directory, which a copy doesn't have.
        is_named = original is False and log and log.model_config.num_layers
        of_user = set(map(_place, source.overrides))
        if is_named:
            of_user.add(_place("model"))
        wrong: list[Difference] = []
        open_: list[Difference] = []
        for difference in differences:
            fields = {difference.field, difference.field.partition(".")[0]}
            (wrong if of_user.isdisjoint(fields) else open_).append(difference)
        findings += [_overridden(difference, name) for difference in (*open_, *claims)]
        unsupported = _unsupported(run, bare, log) if bare and log else ()
        unchecked = (Note(UNSTAMPED),) if log and _is_unstamped(log) else ()
        verdicts = tuple(wrong), tuple(findings), unsupported, unchecked
        yield VerifiedRun(path.name, number, name, original, len(compared), *verdicts)


def _overridden(difference: Difference, log: str | None) -> Finding:
    """Return that a value of the user's differs from that of the log."""
    return finding_of(
        "unverified",
        "override",
        "value-overridden",
        field=difference.field,
        stored=str(difference.stored),
        recomputed=str(difference.recomputed),
        log=log,
    )


def _recorded(
    path: Path,
) -> tuple[Sequence[Run], list[tuple[PerformanceMetrics, Steady]], ResultFile | None]:
    """Return the runs of a result, the figures that it states of each, and the file; of an older
    tool, which states none in these terms, None.
    """
    runs = store.read(path)
    try:
        file = msgspec.json.decode(path.read_bytes(), type=ResultFile)
    except msgspec.DecodeError:
        return runs, [(PerformanceMetrics(), Steady())] * len(runs), None
    figures = []
    for run in file.runs or (file,):
        figures.append((run.performance_metrics, run.steady))
    return runs_of(file), figures, file


def _with_steps(
    run: Run,
    summary: Summary,
    stored: PerformanceMetrics,
    steady: Steady,
    consoles: Sequence[float],
) -> list[Difference | None]:
    """Return how the stated figures of a run compare with those of its steps and consoles; None for
    each that agrees.
    """
    own = rounded(summary.performance).known()
    stated = steady.known() if stored.known() else {}
    compared = [
        *_fields("performance_metrics", stored.known(), own, "its steps"),
        *_fields("steady", stated, summary.steady.known(), "its steps"),
    ]
    mean = summary.performance.avg_step_time_seconds
    # Each of several runs has a console; another version may cut other steps, and three decimals
    # are printed.
    if run.is_live and mean and consoles and mean < 0.99 * min(consoles) - 0.001:
        compared.append(Difference("mean step time", mean, min(consoles), "its console"))
    return compared


def _findings_of_log(run: Run, log: Run, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings on the log of a run that aren't among these findings on the run itself."""
    lost = {note.code for note in log.notes} - {note.code for note in run.notes}
    lost &= OBSERVED
    if lost and not run.ending:
        codes = ", ".join(sorted(lost))
        yield finding_of("unverified", "notes", "notes-withheld", log=_name(log), codes=codes)
    if not _confirms_times(log):
        yield finding_of("unverified", CLAIMED, "times-unconfirmed")
    # Who submits can leave out of a result what contradicts it.
    for finding in _findings(log, summarize(log)):
        if finding not in findings:
            yield finding


def _is_unstamped(log: Run) -> bool:
    """Return whether a log has step times, and nothing that dates them."""
    return any(log.step_times) and not log.timeline and log.timing.kind != "stamps"


def _findings(run: Run, summary: Summary) -> list[Finding]:
    """Return findings on values of a run that are impossible, contradictory, or can't be
    checked.
    """
    every = physics.findings(run, summary)
    findings = []
    for finding in every:
        if finding.severity in ("error", "unverified") or finding.rule == CONTRADICTION:
            findings.append(finding)
    if any(map(run.told, physics.STAMPS)):
        findings.append(finding_of("unverified", CLAIMED, "times-contradicted"))
    if summary.performance.avg_step_time_seconds is None:
        code = "failed-without-speed" if run.status == "failed" else "too-few-steps"
        findings.append(finding_of("unverified", NO_SPEED, code))
    return findings


def _confirms_times(log: Run) -> bool:
    """Return whether the time between the stamps of a log is that of its steps.

    Lines that a buffer wrote at the end have one stamp, which is no evidence. A log without stamps
    has no timeline.
    """
    spans = []
    for entry in log.timeline:
        if entry.kind == "training" and entry.steps:
            spans.append(entry)
    if not spans or log.timing.kind == "stamps" or not any(log.step_times):
        return True
    first = spans[0].first_step or 1
    last = max(span.last_step or 1 for span in spans)
    passed = math.fsum(
        entry.duration for entry in log.timeline if entry.kind in ("training", "unknown")
    )
    # A time may stand for all steps since the record before it, as in MLPerf's of every 32 steps.
    since = []
    for before, step in itertools.pairwise((first - 1, *log.steps)):
        since.append(step - before)
    for windows in (log.window_steps, since):
        records = zip(log.steps, log.step_times, windows, strict=True)
        printed = math.fsum(
            (time or 0.0) * window for step, time, window in records if first <= step <= last
        )
        if abs(printed - passed) <= CONFIRMED * printed + 2.0:
            return True
    return False


def _top_level(file: ResultFile) -> Difference | None:
    """Compare the values at the top level, for readers that don't know `runs`, with the runs."""

    def values(run: ResultFile | RecordedRepetition) -> list[object]:
        # Each has its own warnings too.
        names = {*RECORD_FIELDS, "steady", "performance_metrics"} - {"warnings", "notes"}
        return [getattr(run, name) for name in sorted(names)]

    same = not file.runs or values(file) in list(map(values, file.runs))
    if same:
        return None
    return Difference("top level", "a run of its own", "one of `runs`", "its runs")


def _log_of(run: Run, logs: Sequence[Run]) -> Run | None:
    """Return the training from the log of a run: the most similar one in the logs with its name."""
    same = [log for log in logs if bundle_names.log_names(run) & bundle_names.log_names(log)]
    return min(
        same, key=lambda log: sum(value is not None for value in _with_log(run, log)), default=None
    )


def _name(log: Run) -> str:
    if log.source and log.source.files:
        return bundle_names.bare(log.source.files[0].path)
    return "log"


def _with_log(run: Run, log: Run, *, original: bool = True) -> Iterator[Difference | None]:
    """Yield None for each value that a run and its log share, and a difference for each that the
    log has otherwise.

    What the log lacks is _unsupported(). Lines, and the words of a cause, are not those of a log
    that was changed.
    """
    name = _name(log)
    # What decides is compared where the log has none, too.
    none = {
        "ending.cause": None,
        "ending.line": None,
        "run.profiled_steps": None,
        "run.timeline": None,
    }
    stored = _stated(run)
    stated = {**none, **_stated(log)}
    if models.find(run.model) is not None and models.find(run.model) is models.find(log.model):
        # Two names of one model; what else it states is compared.
        stored["run.model"] = log.model
    if run.ending is None:
        # A field of schema 1. The status, which is compared, shows it.
        for key in [*stated]:
            if key.startswith(("ending.", "run.notes")):
                del stated[key]
    for key, value in stated.items():
        is_open = key in _OPEN or (key == "ending.cause" and not original)
        if not is_open and (key in stored or not key.startswith(_GROWING)):
            yield _compared(
                key, _short(stored.get(key), value), _short(value, stored.get(key)), name
            )
    series = {}
    for part in (*_SERIES, *(("lines",) if original else ())):
        series[part] = (getattr(run, part), getattr(log, part))
    for key, values in run.native_metrics.items():
        again = log.native_metrics.get(key)
        field = f"native_metrics.{key}"
        if isinstance(values, tuple) and isinstance(again, tuple):
            series[field] = values, again
        elif key != "scaling_factor":
            # That file is next to the log, and not in the bundle.
            yield _compared(field, values, again, name)
    places = {step: index for index, step in enumerate(log.steps)}
    for index, step in enumerate(run.steps):
        if (other := places.pop(step, None)) is None:
            yield Difference(f"steps, step {step}", step, None, name)
            continue
        where = name
        if log.lines[other]:
            where = f"{name}, line {log.lines[other]}"
        for field, (values, again) in series.items():
            yield _compared(f"{field}, step {step}", values[index], again[other], where)
    for step in places:
        yield Difference(f"steps, step {step}", None, step, name)


def _stated(run: Run) -> dict[str, object]:
    """Return all that a run states, by field; its series, files and stated values are compared on
    their own.
    """
    fields = {}
    for name in run.__struct_fields__:
        if name not in (*SERIES, "source"):
            fields[name] = getattr(run, name)
    fields |= {
        "source": {
            "dialect": run.source and run.source.dialect,
            "command": run.source and run.source.command,
        },
        "notes": tuple(note for note in run.notes if note.code in OBSERVED),
        # Results of older versions have sentences where there are codes now.
        "warnings": sentences(note for note in run.notes if note.code not in OBSERVED),
    }
    return {key: value for name, part in fields.items() for key, value in _values(part, name)}


def _values(value: object, *names: str) -> Iterator[tuple[str, object]]:
    """Yield the known values in a field of a run, such as 8 for training_config.num_gpus, and
    "llama" for run.model.
    """
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _values(inner, *names, plain(str(name)))
    elif value not in (None, ()):
        yield ".".join(names if len(names) > 1 else ("run", *names)), value


def _short(value: object, other: object) -> object:
    """Return a value as a difference shows it: of a long list, its length."""
    if isinstance(value, tuple) and len(value) > 3 and value != other:
        return f"{len(value)} entries"
    return value


def _claimed(run: Run, bare: Run, log: Run) -> Iterator[Difference]:
    """Yield the values that the user stated although the log, read without them, states others.

    What needed --override is among the overrides of the log as it is read with it; a model's name
    may not need it.
    """
    given = extract.given_again(run.source.given if run.source else {})
    for name in dict.fromkeys((*(log.source.overrides if log.source else ()), "model")):
        value = getattr(given, name)
        stated = stated_by(bare, name)
        if value and stated and not agrees(name, value, stated):
            yield Difference(_place(name), value, stated, _name(log))


def _place(option: str) -> str:
    """Return the places in a result with values that the user stated."""
    return _PLACES.get(option, f"training_config.{option}")


def _unsupported(run: Run, bare: Run, log: Run) -> tuple[str, ...]:
    """Return the fields that a result states and its log, as it is read without the user's values,
    doesn't.

    Nothing in the bundle confirms them, nor words that are others than those of the log read with
    these values.
    """
    stored, stated, again = map(_stated, (run, bare, log))
    changed = {name for name in _OPEN if stored.get(name) != again.get(name)}
    return tuple(
        name for name in stored if name in changed or (name not in stated and name not in _OPEN)
    )


def _compared(field: str, stored: object, recomputed: object, place: str) -> Difference | None:
    if stored == recomputed:
        return None
    return Difference(field, stored, recomputed, place)


def _fields(
    section: str, stored: Mapping[str, object], recomputed: Mapping[str, object], place: str
) -> Iterator[Difference | None]:
    """Yield None for each stored value that is the same, and a difference for each other one."""
    for name, value in stored.items():
        yield _compared(f"{section}.{plain(name)}", value, recomputed.get(name), place)
