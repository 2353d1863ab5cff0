"""Verify a bundle: recompute the values of its results from its logs, and check what its publication needs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat.analysis.summary import Summary, rounded, summarize
from tprimat.catalog import models
from tprimat.checks import CONTRADICTION, Finding, physics
from tprimat.errors import UnreadableError
from tprimat.log_import import bundle, extract, importer, inspection, sources
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.inputs import Log
from tprimat.log_import.load import keys
from tprimat.record.console import printed_times
from tprimat.results.result_file import RecordedRepetition, ResultFile, runs_of
from tprimat.results.run import SERIES, PerformanceMetrics, Run, Source, Steady
from tprimat.store import store
from tprimat.text import plain

_SERIES = ("window_steps", "step_times", "loss_values", "learning_rates", "grad_norms")
_SECTIONS = (
    "data",
    "gpu_info",
    "model_config",
    "training_config",
    "parallelism_config",
    "optimizer",
    "memory_metrics",
    "timing",
)
_FIGURES = ("performance_metrics", "steady", "memory_metrics", "energy_metrics", "native_metrics", "breakdown")
_LISTED = re.compile(r"^  ([0-9a-f]{64})  (\S.*)$", re.MULTILINE)
"""A line of a bundle's README.txt: the SHA-256 of a file, and its name."""
_ALONE = ("framework", "model", "platform", "scale", "status", "timestamp", "breakdown", "epochs", "profiled_steps")
"""Fields that are compared as a whole: steps that a profiler slowed down, for example, are left out of the mean."""
_PLACES = {"gpu": "gpu_info.device_name", "model": "run.model", "model_shape": "model_config"}
"""Where a result has what the user stated; the rest is in training_config."""
NO_SPEED = "no-speed"
"""The rule of a finding on a run without a speed to publish."""
CLAIMED = "claimed-times"
"""The rule of a finding on step times that the time stamps of their log contradict."""
MISSING, CHANGED, ADDED = "is missing", "was changed after it was packed", "is not in README.txt"
"""What became of a file since a bundle was packed: the end of a sentence about it."""
MOST_STATED = 100
"""Different sets of stated values in a bundle: its logs are read again for each."""
_LARGEST_README = 2 << 20
"""Bytes: as many lines as a bundle may have members."""


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
        log: the log that its steps were read from again; None if the bundle holds none that has it.
        original: whether that log has the hash that the result states: it was packed as it is; None without a log.
        values: how many were compared.
        findings: what is impossible, contradicts itself, or can't be checked.
        unsupported: settings and metrics that the log doesn't state, such as a GPU from the command line.
    """

    result: str
    number: int
    log: str | None
    original: bool | None
    values: int
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    unsupported: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of checking a bundle.

    Attributes:
        changed: files whose content is not that which the bundle's README.txt lists, or which only one of both has.
        private: the secrets and names left in it, by file.
        foreign: files that are more than data, or that no bundle has, each with what it is.
        files: the number of files of each kind.
        extra: logs with a run that no result has: it is shown unchecked.
    """

    runs: tuple[VerifiedRun, ...]
    changed: tuple[str, ...]
    private: tuple[str, ...]
    foreign: tuple[str, ...]
    files: dict[str, int]
    extra: tuple[str, ...]


def verify(path: Path) -> Verification:
    """Read the logs of a bundle again, and compare what they give with its results.

    Raises UnreadableError for what is no bundle, or holds no results.
    """
    odd: list[str] = []
    with bundle.unpacked(path, odd) as (folder, _):
        results = sorted(folder.rglob("results/*.json"))
        if not results:
            raise UnreadableError(path, "no results in it", heading="not-a-result")
        stated = [run for result in results for run in store.read(result)]
        is_live = any(run.source and run.source.kind == "live" for run in stated)
        if len({_as_json(run.source.given) for run in stated if run.source}) > MOST_STATED:
            raise UnreadableError(path, "more stated values than logs have", heading="not-a-result")
        read = functools.cache(functools.partial(_read, folder))
        merged, _ = read("{}")
        packed = [Log(str(each)) for each in folder.rglob("logs/*.gz") if each.is_file()]
        hashes = {_sha256(log.chunks()) for log in packed}
        lines = ((each.text for each in log.lines()) for log in packed if is_live)
        consoles = [times for each in lines if (times := printed_times(each))]
        runs = tuple(
            each for result in results for each in _verified(result, lambda given: read(given)[1], hashes, consoles)
        )
        kinds = inspection.kinds(folder)
        foreign = [*(f"{name}: a link, a device or a program" for name in odd)]
        foreign += [f"{name}: {kind}" for name, kind in kinds.items() if kind not in inspection.KINDS]
        known = {key for run in stated for key in keys(run, is_packed=True)}
        extra = [_name(each.run) for each in merged if not is_live and not keys(each.run, is_packed=True) & known]
        counts = {kind: [*kinds.values()].count(kind) for kind in inspection.KINDS}
        private = tuple(inspection.private(folder))
        return Verification(runs, tuple(_changed(folder)), private, tuple(foreign), counts, tuple(extra))


def _as_json(given: Mapping[str, bool | int | str]) -> str:
    return msgspec.json.encode(given, order="sorted").decode()


def _read(folder: Path, given: str) -> tuple[list[ImportedRun], list[Run]]:
    """Return the trainings in the logs of a bundle, and all runs in these, with the values of a source.given as JSON.

    There are none for values that can't be. What a result was made of lay in one directory or in several, which a
    bundle doesn't say.
    """
    found, _, _ = sources.log_sources([*map(str, folder.rglob("logs"))])
    try:
        values = extract.GivenValues.read_again(msgspec.json.decode(given))
    except msgspec.DecodeError:
        return [], []
    each_read = [each for _, runs in sources.read_sources(found, 1, values) if isinstance(runs, list) for each in runs]
    merged = importer.merged(each_read, [])
    return merged, [each.run for each in (*each_read, *merged)]


def _sha256(chunks: Iterable[bytes]) -> str:
    content = hashlib.sha256()
    for chunk in chunks:
        content.update(chunk)
    return content.hexdigest()


def _changed(folder: Path) -> Iterator[str]:
    # Many names may lead to one large file.
    digest_of = functools.cache(lambda file: _sha256(bundle.pieces(file.open("rb"))))
    unlisted = {file for file in folder.rglob("*") if file.is_file()}
    for readme in folder.rglob("README.txt"):
        with readme.open(encoding="utf-8", errors="replace") as stream:
            listed = _LISTED.findall(stream.read(_LARGEST_README))
        unlisted.discard(readme)
        for digest, name in listed:
            file = bundle.place_of(name, readme.parent)
            unlisted.discard(file)
            if not file.is_file():
                yield f"{name} {MISSING}"
            elif digest_of(file) != digest:
                yield f"{name} {CHANGED}"
    yield from (f"{file.relative_to(folder).as_posix()} {ADDED}" for file in sorted(unlisted))


def _verified(
    path: Path, logs: Callable[[str], Sequence[Run]], hashes: Collection[str], consoles: Sequence[Mapping[int, float]]
) -> Iterator[VerifiedRun]:
    """Yield the runs of a result; `logs` are those that the bundle's logs give with the values of a source.given."""
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
        source, claims = run.source or Source(kind="log"), list[Difference]()
        if source.kind == "live" and consoles:
            against = [[*_on_console(run, summary, each)] for each in consoles]
            closest = min(against, key=len)
            compared += closest
        log = bare = _log_of(run, logs("{}"))
        if bare is not None:
            log = _log_of(run, logs(_as_json(source.given))) or bare
            if source.given and log is bare:
                # The importer doesn't take these values for this log.
                compared.append(Difference("source.given", source.given, None, _name(bare)))
            compared += _with_log(run, log)
            for claim, is_wrong in _claimed(source.given, bare, log) if log is not bare else ():
                (compared if is_wrong else claims).append(claim)
        differences = [each for each in compared if each is not None]
        original = None if log is None else all(file.sha256 in hashes for file in source.files)
        name = None if log is None else _name(log)
        # Who submits can leave out of a result what contradicts it.
        again = physics.findings(log, summarize(log)) if log else ()
        every = dict.fromkeys((*physics.findings(run, summary), *again))
        findings = [each for each in every if each.severity in ("error", "unverified") or each.rule == CONTRADICTION]
        if log is not None and any(map(log.told, physics.STAMPS)):
            findings.append(Finding("unverified", CLAIMED, "step times are only claimed: the stamps are others"))
        if summary.performance.avg_step_time_seconds is None:
            text = "no speed: the run failed" if run.status == "failed" else "no speed: too few steps"
            findings.append(Finding("unverified", NO_SPEED, text))
        # A result of schema 1 says which values the user set, not to what. A directory may have named the model, and a
        # copy has none.
        of_options = {
            _PLACES.get(each, f"training_config.{each}") for each in source.overrides if each not in source.given
        }
        is_named = original is False and "model" not in source.given and log and log.model_config.num_layers
        of_options |= {"run.model", "run.scale"} if is_named else set()
        open_ = [each for each in differences if each.field in of_options]
        texts = (
            f"{each.field}: {each.stored} in the result, {each.recomputed} in {name}" for each in (*open_, *claims)
        )
        findings += [Finding("unverified", "override", text) for text in texts]
        differences = [each for each in differences if each not in open_]
        found = tuple(differences), tuple(findings), _unsupported(run, bare) if bare else ()
        yield VerifiedRun(path.name, number, name, original, len(compared), *found)


def _on_console(run: Run, summary: Summary, printed: Mapping[int, float]) -> Iterator[Difference]:
    """Yield the step times of a measured run that are shorter than its console, which shows times by step, says.

    The slowest of several ranks may have taken longer than the one that prints.
    """
    times = {**dict(zip(run.steps, run.step_times, strict=True)), 0: summary.performance.avg_step_time_seconds}
    for step, shown in printed.items():
        # It is printed with three decimals; a mean follows from steps of which another version may cut others.
        if shown - (seconds := times.get(step) or 0.0) > 0.001 + (0.0 if step else 0.01 * shown):
            yield Difference(f"step_times, step {step}" if step else "mean step time", seconds, shown, "its console")


def _top_level(file: ResultFile) -> Difference | None:
    """Compare what stands at the top level, for readers that know nothing of `runs`, with the runs."""

    def values(run: ResultFile | RecordedRepetition) -> list[object]:
        return [getattr(run, name) for name in (*SERIES, *_FIGURES)]

    same = not file.runs or values(file) in [values(run) for run in file.runs]
    return None if same else Difference("top level", "a run of its own", "one of `runs`", "its runs")


def _log_of(run: Run, logs: Sequence[Run]) -> Run | None:
    """Return what was read from the log of a run: the training most like it of those in logs of its name."""
    same = [log for log in logs if bundle.log_names(run) & bundle.log_names(log)]
    return min(same, key=lambda log: sum(each is not None for each in _with_log(run, log)), default=None)


def _name(log: Run) -> str:
    return bundle.bare(log.source.files[0].path) if log.source and log.source.files else "log"


def _with_log(run: Run, log: Run) -> Iterator[Difference | None]:
    name = _name(log)
    for section in _SECTIONS:
        stated = getattr(log, section).known()
        stored = {key: value for key, value in getattr(run, section).known().items() if key in stated}
        yield from _fields(section, stored, stated, name)
    whole = {key: value for key in _ALONE if (value := getattr(log, key)) not in (None, {})}
    # One model may have several names.
    if models.find(run.model) and models.find(run.model) is models.find(log.model):
        del whole["model"]
    yield from _fields("run", {key: getattr(run, key) for key in whole}, whole, name)
    for part in ("framework_config", "environment.versions"):
        stored, stated = (operator.attrgetter(part)(each) for each in (run, log))
        yield from _fields(part, {key: stored[key] for key in stated if key in stored}, stated, name)
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


def _claimed(given: Mapping[str, bool | int | str], bare: Run, log: Run) -> Iterator[tuple[Difference, bool]]:
    """Yield what the user stated although the log says something else, each with whether it can't be true.

    Args:
        given: as in a result.
        bare: what the log gives without it.
        log: what it gives with it: a value that needed --override is among its overrides. For a model none is needed
            where the log has only its shape.
    """
    names = {*(log.source.overrides if log.source else ()), *(["model"] if "model" in given and bare.model else ())}
    values = extract.GivenValues.read_again(given)
    for name in sorted(names):
        value, stated = getattr(values, name), extract.stated_by(bare, name)
        if not extract.agrees(name, value, stated):
            is_wrong = name == "model" and not values.override and models.denies(value, bare.model_config)
            shown, own = (each.source if name == "model_shape" else each for each in (value, stated))
            yield Difference(_PLACES.get(name, f"training_config.{name}"), shown, own, _name(log)), is_wrong


def _unsupported(run: Run, log: Run) -> tuple[str, ...]:
    """Return the fields that a result states and its log doesn't: nothing in the bundle confirms them."""

    def stated(run: Run) -> list[str]:
        sections = {name: getattr(run, name).known() for name in _SECTIONS}
        sections["run"] = {name: getattr(run, name) for name in ("model", "timestamp", "framework")}
        sections |= {"energy_metrics": run.energy_metrics, "versions": run.environment.versions}
        sections |= {"framework_config": run.framework_config, "native_metrics": run.native_metrics}
        return [f"{name}.{key}" for name, each in sections.items() for key in each if each[key] is not None]

    known = {*stated(log)}
    return tuple(name for name in stated(run) if name not in known)


def _compared(field: str, stored: object, recomputed: object, place: str) -> Difference | None:
    return None if stored == recomputed else Difference(field, stored, recomputed, place)


def _fields(
    section: str, stored: Mapping[str, object], recomputed: Mapping[str, object], place: str
) -> Iterator[Difference | None]:
    """Yield None for each stored value that is the same, and a difference for each other one."""
    for name, value in stored.items():
        yield _compared(f"{section}.{plain(name)}", value, recomputed.get(name), place)
