"""Points of the record: rows of published/, and the systems in the user's own results and logs."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

import msgspec

from tprimat.analysis import intervals
from tprimat.analysis.efficiency import Options
from tprimat.analysis.flops import ADAPTERS, flops_per_token, model_shape
from tprimat.analysis.summary import rounding_variance
from tprimat.catalog import gpus as hardware
from tprimat.catalog import models, published
from tprimat.catalog.published import Published, Speed
from tprimat.compare import Loaded, SystemResult, systems_of, title_of
from tprimat.compare.caveats import caveats, incomplete
from tprimat.compare.result import DOUBTFUL_SPREAD, RATE
from tprimat.compare.systems import short_device
from tprimat.compare.target import benchmark, target
from tprimat.log_import.bundle_names import ENDINGS
from tprimat.notes import Note
from tprimat.notes.catalogue import sentence, words
from tprimat.publish.record import Mark, Point
from tprimat.redaction import PSEUDONYM, redacted, shown_paths
from tprimat.results.fields import FieldValues
from tprimat.results.run import GpuInfo, Run
from tprimat.store import hosts
from tprimat.text import plain
from tprimat.units import round_figure

OWN = "own results"
"""The publisher of the user's own results, which have no submitter."""

LONGEST = 300
"""Most characters of a text from a result."""

LONGEST_READ = 10 * LONGEST
"""Number of characters of a text that are searched for secrets and names before it is cut: these
may be longer than what replaces them.
"""

_SOURCE = re.compile(r"([\w.-]+/[\w.-]+)/([^@]+)@([0-9a-f]{7,40})(?::(\d+))?")
_RENDERED = (".md", ".mdx", ".rst")
"""Endings of files that GitHub renders, and shows with lines only on request."""

_WORK = re.compile(
    r"doubtful|functional check|tokendrop|with(?:out)? MTP|\b(?:GRPO|DAPO)\b|\bOn"
    r" policy|\d-step Off"
)
"""Phrases in the notes of published rows that tell that the work of a token differs, or that the
speed doesn't measure it.
"""

_PACKED = re.compile(rf"({'|'.join(map(re.escape, ENDINGS))})/.*")


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A point with what a comparison of it needs.

    Attributes:
        system: the system in the user's own results; None for a published row.
    """

    point: Point
    system: SystemResult | None = None


def published_points() -> list[Evidence]:
    """Return the rows of published/ that have a speed or a time, rejected ones included."""
    return [point for point in map(_of_row, published.rows()) if point is not None]


def result_points(files: Sequence[Loaded], remarks: list[Note]) -> list[Evidence]:
    """Return the systems in results and logs, each summarized as compare does.

    A note on the number of systems without a speed is added to `remarks`.
    """
    _, by_model = systems_of(files, Options(), remarks, splits=False)
    points = []
    missing = 0
    for name, systems in by_model.items():
        for system in systems:
            if system.speeds and not system.run.environment.emulated:
                points.append(Evidence(_of_system(name, system), system=system))
            else:
                missing += 1
    if missing:
        remarks.append(Note("systems-without-speed", {"systems": missing}))
    return points


def without_published(
    own: Sequence[Evidence], others: Sequence[Evidence], remarks: list[Note]
) -> list[Evidence]:
    """Return the user's own points without published submissions that were read again; a note on
    their number is added to `remarks`.
    """
    speeds = {speed for evidence in others for speed in _speeds(evidence.point)}
    new = []
    for evidence in own:
        if evidence.point.publisher == OWN or not _speeds(evidence.point) & speeds:
            new.append(evidence)
    again = len(own) - len(new)
    if again:
        remarks.append(Note("systems-published", {"systems": again}))
    return new


def _speeds(point: Point) -> set[object]:
    names = ("publisher", "gpu", "num_gpus", "model", "task", "global_batch_size", "date")
    setup = [getattr(point, name) for name in names]
    speeds: set[object] = set()
    for name in ("tokens_per_second_per_gpu", "samples_per_second"):
        value = getattr(point, name)
        if value:
            speeds.add((*setup, name, f"{value:.4g}"))
    return speeds


def _of_row(row: Published) -> Evidence | None:
    speed, how = _speed(row)
    if not any(
        (speed, row.samples_per_second, row.time_to_target_seconds, row.printed_tflops_per_gpu)
    ):
        return None
    low, high = _bounds(row.rates)
    stated = {field.name: getattr(row, field.name) for field in dataclasses.fields(Speed)}
    computed = {
        "tokens_per_second_per_gpu": speed,
        "reason": "; ".join(filter(None, (row.reason, row.correction))),
        "note": "; ".join(filter(None, (row.note, how))),
    }
    point = Point(
        **stated | computed,
        tflops_per_gpu=round_figure(_tflops(row, speed)),
        configuration=_configuration(row),
        work=", ".join(_WORK.findall(row.note)),
        rates=row.rates,
        low=low,
        high=high,
        clock="blocks" if _is_from_logs(row) else "",
        mark=_mark(row),
        url=address(row.source),
    )
    return Evidence(point)


def _speed(row: Published) -> tuple[float | None, str]:
    """Return tokens/s/GPU, as published or computed from other published values, and how it was
    computed. It is computed for pretraining only, whose batches are full.
    """
    length = row.sequence_length
    gpus = row.num_gpus
    if row.tokens_per_second_per_gpu or not length or not gpus or row.task != "pretrain":
        return row.tokens_per_second_per_gpu, ""
    if row.samples_per_second:
        return (
            round_figure(row.samples_per_second * length / gpus),
            "tokens/s computed from samples/s",
        )
    if row.step_time_seconds and row.global_batch_size:
        speed = row.global_batch_size * length / row.step_time_seconds / gpus
        return round_figure(speed), "tokens/s computed from the step time"
    return None, ""


def _tflops(row: Published, speed: float | None) -> float | None:
    model = models.find(row.model)
    if speed is None or model is None or not row.sequence_length or row.task == "rl":
        return None
    trained = ADAPTERS if row.task == "lora" else None
    shape = msgspec.structs.replace(model.shape, trainable_parameters=trained)
    count = flops_per_token(shape, row.sequence_length)
    return count and speed * count / 1e12


def _is_from_logs(row: Published) -> bool:
    return row.source.startswith("mlcommons/training_results")


def _mark(row: Published) -> Mark:
    if row.audit in published.REFUSED:
        if row.audit == "contradiction":
            return "contradicts itself"
        return "rejected"
    if _is_from_logs(row):
        return "recomputed from the log"
    if row.audit in ("consistent", "convention") and row.printed_tflops_per_gpu:
        return "agrees with its own FLOPs"
    return "as published"


def address(source: str) -> str:
    """Return where a source can be read: a line of a file, or a directory; empty for a source of
    another form.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        return ""
    repository, path, commit, line = match.groups()
    kind = "blob" if line or PurePosixPath(path).suffix else "tree"
    web = f"https://github.com/{repository}/{kind}/{commit}/{quote(path)}"
    if line and path.endswith(_RENDERED):
        web += "?plain=1"
    if line:
        web += f"#L{line}"
    return web


def _of_system(name: str | None, system: SystemResult) -> Point:
    run = system.run
    config = system.run.training_config
    # Only a log of MLPerf states its submitter reliably; in other results anybody may set the key.
    submitter = run.framework_config.get("submitter") if benchmark(run) else None
    incomplete_text = sentence(incomplete(system))
    notes = [
        run.label,
        "too short to have a steady speed" if system.is_unsettled else None,
        incomplete_text,
    ]
    for caveat in caveats([system], ()):
        if caveat.severity == "warning":
            notes.append(sentence(caveat.notes, system.name))
    if system.spread >= DOUBTFUL_SPREAD and not system.is_one_session:
        notes.append(f"runs differ {system.spread:.2f}×")
    reason = None
    if system.exclusion:
        reason = words(system.exclusion.note)
    elif system.has_failed:
        reason = incomplete_text
    return Point(
        publisher=_short(f"{submitter} in MLPerf") if submitter else OWN,
        gpu=_gpu(run),
        model=_short(_model(name, run)),
        task=published.task(run),
        precision=_short(config.precision),
        sequence_length=config.sequence_length,
        num_gpus=system.count,
        global_batch_size=config.global_batch_size,
        framework=_short(published.framework(run)),
        version=_software(run),
        date=_short((run.timestamp or "")[:10]),
        configuration=_configuration(config, run.parallelism_config),
        clock=system.valid_runs[0].summary.clock or "",
        mark=_mark_of(system),
        reason=_short(reason),
        note="; ".join(_public(note) for note in notes if note),
        source=_files(system),
        **_figures_of(system),
    )


def _mark_of(system: SystemResult) -> Mark:
    if system.exclusion or system.has_failed:
        return "rejected"
    for result in system.runs:
        source = result.run.source
        # A value is computed from steps if they were measured live, or come from named logs without
        # overridden values.
        if not source or (source.kind != "live" and (not source.files or source.overrides)):
            return "as published"
    return "recomputed from the log"


def _figures_of(system: SystemResult) -> FieldValues:
    """Return the speed of a system and what follows from it, by the fields of a Point."""
    rate = system.value(RATE) or 0.0
    low, high = _bounds(
        system.speeds, rounding_variance([result.summary for result in system.valid_runs])
    )
    rates = tuple(round_figure(speed) or 0.0 for speed in system.speeds)
    figures: FieldValues = {"rates": rates, "low": low, "high": high}
    length = system.run.training_config.sequence_length
    shape = model_shape(system.run)[0]
    if system.unit == "samples":
        figures["samples_per_second"] = round_figure(rate * (system.count or 0)) or None
    elif system.unit == "tokens":
        figures["tokens_per_second_per_gpu"] = round_figure(rate)
        count = flops_per_token(shape, length) if shape and length else None
        if count:
            figures["tflops_per_gpu"] = round_figure(rate * count / 1e12)
    goal = target(system)
    if goal:
        figures["target"] = f"MLPerf {benchmark(system.run)}"
        if goal.official_minutes:
            figures["time_to_target_seconds"] = round_figure(60 * goal.official_minutes)
    return figures


def _configuration(*stated: object) -> str:
    """Return micro-batch and parallelism, as far as a row or the sections of a result state
    them.
    """
    sizes = []
    for name, label in published.SIZES.items():
        for section in stated:
            size = getattr(section, name, None)
            if size:
                sizes.append(f"{label} {size}")
    return ", ".join(sizes)


def _bounds(rates: Sequence[float], floor: float = 0.0) -> tuple[float | None, float | None]:
    interval = intervals.between_run_interval(rates, floor)
    if interval:
        return (round_figure(interval.low), round_figure(interval.high))
    return (None, None)


def _short(text: object) -> str:
    return plain(text or "", LONGEST)


def _public(text: str | None) -> str:
    """Return a text from a result without secrets and names in any known form; results contain it
    as the user gave it.
    """
    names = hosts.names(lambda name: name if PSEUDONYM.fullmatch(name) else "node")
    return _short(redacted(names.text(names.learn(plain(text or "", LONGEST_READ)))))


def _gpu(run: Run) -> str:
    """Return the key of a run's GPU, or its name; "CPU" with the CPU's name if that trained."""
    if run.platform == "cpu":
        return _short(f"CPU {short_device(run.environment.cpu or '')}")
    gpu = hardware.match(run.gpu_info).gpu
    if gpu is None and benchmark(run):
        # Submitters describe their machines by hand, and state other memory than the driver shows.
        gpu = hardware.match(GpuInfo(device_name=run.gpu_info.device_name)).gpu
    if gpu:
        return gpu.key
    return _short(hardware.short_name(run.gpu_info.device_name))


def _model(name: str | None, run: Run) -> str:
    """Return the key of a full-size model in the catalog; for any other model, its title in
    reports.
    """
    model = models.find(name) or models.recognize(run.model or "")
    if model and run.scale in published.FULL and not models.denies(name, run.model_config):
        return model.name
    return title_of(name, run)


def _software(run: Run) -> str:
    versions = run.environment.versions
    framework = (run.framework or "?").split("-")[0]
    parts = []
    for name, version in versions.items():
        if name == "torch" or framework in name:
            parts.append(f"{name} {version}")
    return _public(versions.get("framework") or ", ".join(sorted(parts)))


def _files(system: SystemResult) -> str:
    """Return the result file or log of a system; for several, the common beginning of their names;
    for files in a bundle, the bundle.
    """
    names = dict.fromkeys(_PACKED.sub(r"\1", result.file) for result in system.runs)
    shown = list(dict.fromkeys(shown_paths(map(os.path.abspath, names)).values()))
    begin = os.path.commonprefix(shown)  # noqa: RUF071 - a glob may begin with a part of a name
    if len(shown) == 1:
        return _short(begin)
    if begin:
        return _short(f"{begin}*")
    return _short(f"{shown[0]} and {len(shown) - 1} more")


def places_by(
    evidence: Sequence[Evidence], key: Callable[[Evidence], object]
) -> dict[object, list[int]]:
    """Return the places of the points by key, in their order; points whose key is None are left
    out.
    """
    groups: dict[object, list[int]] = {}
    for index, one in enumerate(evidence):
        if (value := key(one)) is not None:
            groups.setdefault(value, []).append(index)
    return groups
