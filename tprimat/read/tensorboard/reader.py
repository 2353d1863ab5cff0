"""Reader of TensorBoard's event files: which tag is what, by the framework that wrote them.

Megatron's files also hold every argument as text, which makes one file enough for tokens/s/GPU.
All files of a directory belong to one run; if a step is written again, the later file's counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tprimat.catalog.exact_names import names_of
from tprimat.notes import Note, NoteValue
from tprimat.read import maxtext
from tprimat.read.megatron import setup as megatron_setup
from tprimat.read.megatron import times as megatron_times
from tprimat.read.megatron.line import Kind
from tprimat.read.megatron.line import Record as MegatronRecord
from tprimat.read.megatron.run import TIMING as MEGATRON_TIMING
from tprimat.read.parsing.options import COMPUTED, options_in, state_hparams, state_model_config
from tprimat.read.parsing.parsed_log import Beside, FileFormat, InputFile, ParsedLog, folder_of
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.text import utc
from tprimat.read.parsing.values import LoggedValues, first_of, object_at, precision_of, state
from tprimat.read.tensorboard.tfevents import Events, Point, is_event_file, read_into
from tprimat.results.account import Timing
from tprimat.results.fields import Figures
from tprimat.results.run import ModelConfig


@dataclasses.dataclass(frozen=True)
class Layout:
    """The tags of a framework.

    Attributes:
        mark: tags of which only it writes one.
        tags: of each value of a record; the first that is there counts.
        shift: 1 if steps count from 0.
        untimed: why there may be no step times.
    """

    framework: str
    mark: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]
    shift: int = 0
    timing: Timing = Timing()  # noqa: RUF009 - frozen
    untimed: str = "no tag holds any"


_MEGATRON = Layout(
    "megatron",
    ("lm loss", "lm loss vs samples"),
    names_of("Megatron"),
    timing=MEGATRON_TIMING.but(
        over_ranks="all ranks meet at the timer's barrier; the last rank writes"
    ),
    untimed="Megatron writes them with --log-timers-to-tensorboard alone",
)
_NEMO = Layout(
    "nemo",
    ("train_step_timing in s", "reduced_train_loss"),
    names_of("NeMo"),
    shift=1,
    timing=timer(
        clock="host clock of NeMo's timing callback, without a device synchronize by default",
        covers=(
            "from the start to the end of a training batch, data loading of NeMo 2 included; not"
            " the time between"
        ),
    ),
)
_TORCHTITAN = Layout(
    "torchtitan",
    ("throughput(tps)", "loss_metrics/global_avg_loss", "time_metrics/end_to_end(s)"),
    names_of("torchtitan"),
    timing=timer(
        clock="host clock of torchtitan's metrics processor",
        covers=(
            "all between two logs, data loading, garbage collection and checkpoints included, mean"
            " of their steps"
        ),
        over_ranks="the rank that writes",
    ),
)
_TRANSFORMERS = Layout(
    "hf_trainer",
    ("train/loss", "train/learning_rate", "train/train_runtime"),
    names_of("Transformers"),
)
_MAXTEXT = Layout(
    "maxtext",
    ("perf/step_time_seconds", "perf/per_device_tokens_per_sec"),
    names_of("MaxText"),
    timing=maxtext.Reader.timing,
)
_LIGHTNING = Layout(
    "lightning",
    (),
    names_of("Lightning", "Lightning's events"),
    shift=1,
)

Scalars = Mapping[str, list[Point]]
"""The points of scalars by tag."""

Column = dict[int, float]
"""Values by step."""

Columns = dict[str, Column]
"""Columns by the field of a record."""

LAYOUTS = (_MEGATRON, _NEMO, _TORCHTITAN, _TRANSFORMERS, _MAXTEXT, _LIGHTNING)
"""The first whose mark is there counts; the last takes the rest."""


def _read(parts: Sequence[InputFile], beside: Beside) -> list[ParsedLog]:
    events = Events()
    for part in sorted(parts, key=lambda part: part.name):
        read_into(part.stream, events)
    scalars = events.scalars
    layout = next((row for row in LAYOUTS if not scalars.keys().isdisjoint(row.mark)), LAYOUTS[-1])
    training = LoggedTraining()
    columns = _columns(layout, scalars, training)
    sizes = columns.pop("batch_size", {})
    base = first_of(columns, ("loss", "seconds", "tokens_per_second_per_gpu"))
    if base is None:
        raise ValueError(f"no training scalars (tags: {', '.join(list(scalars)[:6]) or 'none'})")
    for step in sorted(base.keys() | columns.get("seconds", {}).keys()):
        record = training.records[step] = training.last = Record(step, 0)
        for field, column in columns.items():
            record.put(field, column.get(step))
    shift = 1 if 0 in training.records else layout.shift
    shape = _state_texts(layout, events.texts, training)
    stated = training.around.stated
    state_hparams(beside, stated)
    _state_batch(sizes, scalars, training)
    _set_windows(layout, columns, training, shift)
    if events.cut:
        training.warnings.append(Note("events-cut", {"where": events.cut}))
    but = "the events' wall times (native_metrics) include evaluation and checkpoints"
    unknown = no_step_times(layout.untimed, but=f"; {but}")
    done = max(training.records) + shift >= (stated.count("max_steps") or math.inf)
    notes = [f"{len(scalars)} tags, {len(events.texts)} texts"]
    if len(parts) > 1:
        notes.append(f"{len(parts)} event files of one directory were read as one run")
    run = RunBuilder(
        layout.framework,
        f"tensorboard ({layout.framework})",
        training,
        layout.timing,
        shift=shift,
        lines=False,
        figures=_figures(layout, scalars),
        unknown={} if "seconds" in columns else {"step_times": unknown},
        ended=True if done or scalars.get("train/train_runtime") else None,
        shape=shape,
        timestamp=utc(events.first_time),
        notes=tuple(notes),
    )
    return [run.reading()]


def _points(layout: Layout, scalars: Scalars, field: str) -> list[Point]:
    """Return the values of a field: of the first of its tags that has any."""
    return next(filter(None, map(scalars.get, layout.tags[field])), [])


def _columns(layout: Layout, scalars: Scalars, training: LoggedTraining) -> Columns:
    """Return the values of each field by step; may restore a step time, with a warning."""
    columns = {}
    for field in layout.tags:
        if points := _points(layout, scalars, field):
            columns[field] = _column(points)
    if layout is _MEGATRON:
        _restore_second(_points(layout, scalars, "seconds"), columns, training)
    return columns


def _figures(layout: Layout, scalars: Scalars) -> Figures:
    """Return the values of the whole training."""
    figures: Figures = {}
    for name, tags in names_of("whole trainings").items():
        if points := first_of(scalars, tags):
            figures[name] = points[-1].value
    if losses := _points(layout, scalars, "loss"):
        seconds = losses[-1].wall_time - losses[0].wall_time
        steps = losses[-1].step - losses[0].step
        if seconds > 0 and steps > 0:
            figures["event_seconds_per_step"] = seconds / steps
    return figures


def _state_texts(
    layout: Layout, texts: Mapping[str, str], training: LoggedTraining
) -> ModelConfig | None:
    """State the values in texts among the events; return the model's shape, if they have Megatron's
    arguments.
    """
    stated = training.around.stated
    arguments = LoggedValues()
    for tag, text in texts.items():
        # Megatron's arguments, each a text of its own.
        line = f"{tag.removesuffix('/text_summary')} .. {' '.join(text.split())}"
        megatron_setup.read_setup(1, line, arguments)
    if "num_layers" in arguments:
        for name, statement in megatron_setup.fields_of(arguments).items():
            state(stated, name, statement.value, statement.text)
        shape, left_out = megatron_setup.model_config(arguments)
        training.warnings += left_out
        return shape
    if layout is _TRANSFORMERS:
        _state_transformers(texts, stated)
    return None


def _column(points: Sequence[Point]) -> Column:
    """Return values by step, ascending; if a step is written again, the later one."""
    column: Column = {}
    for point in points:
        # A training that started again runs the later steps again, too.
        while point.step >= 0 and column and next(reversed(column)) > point.step:
            column.popitem()
        if point.step >= 0:
            column[point.step] = point.value
    return column


def _restore_second(points: Sequence[Point], columns: Columns, training: LoggedTraining) -> None:
    """Restore the second step time if it is a mean with the first step, by the events' times
    (megatron/times.py).
    """
    if len(points) < 2 or points[1].step <= points[0].step:
        return
    records = []
    for point in points[:2]:
        if not math.isfinite(point.wall_time):
            return
        micros = round(point.wall_time * 1e6)
        figures = {"elapsed_ms": point.value * 1e3}
        records.append(MegatronRecord(point.step, 0, micros, Kind(aware=True), figures))
    first, second = records
    # A later attempt at the steps may have taken their place.
    is_kept = columns["seconds"].get(second.iteration) == points[1].value
    if is_kept and megatron_times.restorable(first, second, core=False):
        steps = second.iteration - first.iteration
        restored = round(megatron_times.without_first(first, second) / steps, 7)
        columns["seconds"][second.iteration] = restored
        fields: dict[str, NoteValue] = {
            "step": second.iteration,
            "recorded": second.seconds,
            "first": first.iteration,
            "first_seconds": first.seconds,
            "seconds": restored,
            "apart": (second.micros - first.micros) / 1e6,
        }
        training.warnings.append(Note("event-time-restored", fields))


def _state_transformers(texts: Mapping[str, str], stated: LoggedValues) -> None:
    """Read the Trainer's arguments and the model's configuration, each JSON text."""
    arguments = first_of(texts, ("args/text_summary", "args"))
    options_in(arguments or "", 1, stated)
    text = first_of(texts, ("model_config/text_summary", "model_config"))
    config = object_at((text or "").lstrip()) or {}
    state_model_config(config, stated)
    state(stated, "weights_precision", precision_of(config.get("torch_dtype")))


def _state_batch(sizes: Mapping[int, float], scalars: Scalars, training: LoggedTraining) -> None:
    """State the batch really used: by its tag, or by how far the samples advance with each step."""
    stated = training.around.stated
    used = {int(size) for size in sizes.values() if size >= 1}
    where = "the batch-size tag"
    if not used:
        where = "the tags by samples"
        for steps, samples in _advances(scalars):
            if steps > 0 < samples and not samples % steps:
                used.add(samples // steps)
    requested = stated.count("global_batch_size")
    if len(used) > 1:
        state(stated, "global_batch_size", f"{min(used)} to {max(used)}", where, weight=COMPUTED)
    elif used:
        (size,) = used
        if requested and requested != size:
            facts: dict[str, NoteValue] = {"requested": requested, "size": size, "where": where}
            training.warnings.append(Note("batch-ramps-up", facts))
        state(stated, "global_batch_size", size, f"{where}: {size}", weight=COMPUTED)


def _advances(scalars: Scalars) -> list[tuple[int, int]]:
    """Return by how many steps and samples the points of tags lie apart that are written by both;
    of single points the first, which lies so far from the start.
    """
    advances = []
    first: list[tuple[int, int]] = []
    for tag, points in scalars.items():
        by_samples = scalars.get(f"{tag} vs samples", [])
        both = zip(points, by_samples, strict=False)
        pairs = [(point.step, sample.step) for point, sample in both]
        first = first or pairs[:1]
        if len(points) == len(by_samples):
            for (before, then), (step, samples) in pairwise(pairs):
                advances.append((step - before, samples - then))
    return advances or first


def _set_windows(layout: Layout, columns: Columns, training: LoggedTraining, shift: int) -> None:
    """Set how many steps a record averages, where the files show it."""
    records = training.ordered()
    if layout is _LIGHTNING or layout is _NEMO:
        # Lightning's loggers write a value of the step itself, every log_every_n_steps.
        return
    times = columns.get("seconds", {})
    if layout is _MEGATRON and len(times) < len(records):
        interval = training.around.stated.count("logging_steps")
        if times and interval:
            training.warnings.append(Note("times-of-log-interval", {"interval": interval}))
        return
    steps = [record.step + shift for record in records]
    # With an interval of 10, some write step 1 as well: 1, 10, 20.
    if steps[0] == 1 and all(step % steps[1] == 0 for step in steps[1:]):
        regular = steps[1:]
    else:
        regular = steps
    apart = min(
        (later - earlier for earlier, later in pairwise(regular)), default=max(steps[1:], default=1)
    )
    for record, before, step in zip(records, [0, *steps], steps, strict=False):
        record.window = max(1, min(step - before, apart))


FILE_FORMATS = (
    FileFormat(
        "tensorboard",
        "event files of TensorBoard",
        is_event_file,
        _read,
        together=folder_of,
        beside=("hparams.yaml",),
    ),
)
