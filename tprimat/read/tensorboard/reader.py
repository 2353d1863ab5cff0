"""Reader of TensorBoard's event files: which tag is what, by the framework that wrote them.

Megatron's files also hold every argument as text, which makes one file enough for tokens/s/GPU.
All files of a folder are of one training; where a step is written again, the later file's counts.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tprimat.read.megatron import setup as megatron_setup
from tprimat.read.parsing import hparams
from tprimat.read.parsing.options import options_in
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, folder_of
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import LoggedValue, LoggedValues, number, precision_of, state
from tprimat.read.tensorboard.tfevents import Events, Point, is_event_file, read_into
from tprimat.results.run import Timing
from tprimat.units import gib_to_gb

_GIB, _BYTES = gib_to_gb(1.0), 1e-9


@dataclasses.dataclass(frozen=True)
class Layout:
    """The tags of a framework.

    Attributes:
        framework: that writes them.
        mark: a tag that only it writes.
        tags: by the field of a record, or the name in native_metrics; the first that is there counts.
        shift: 1 where steps count from 0.
        timing: what its step time is.
        scale: factors of native figures.
    """

    framework: str
    mark: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]
    shift: int = 0
    timing: Timing = Timing()  # noqa: RUF009 - frozen
    scale: Mapping[str, float] = dataclasses.field(default_factory=dict)


_MEGATRON = Layout(
    "megatron",
    ("lm loss", "lm loss vs samples"),
    {
        "loss": ("lm loss",),
        "learning_rate": ("learning-rate",),
        "grad_norm": ("grad-norm",),
        "seconds": ("iteration-time",),
        "tflops_per_gpu": ("throughput", "throughput/tflops/device"),
        "tokens_per_second_per_gpu": ("throughput/tokens/device",),
        "loss_scale": ("loss-scale",),
        "batch_size": ("batch-size",),
        "memory_reserved_gb": ("mem-reserved-bytes",),
        "memory_allocated_gb": ("mem-allocated-bytes",),
        "memory_max_allocated_gb": ("mem-max-allocated-bytes",),
    },
    timing=Timing(
        clock="host clock at Megatron's interval timer, after a barrier of all ranks and a device synchronize",
        covers="data wait, forward and backward of all micro-batches, gradient reduction and optimizer; "
        "not evaluation and checkpoints",
        over_ranks="all ranks meet at the timer's barrier; the last rank writes",
    ),
    scale=dict.fromkeys(("memory_reserved_gb", "memory_allocated_gb", "memory_max_allocated_gb"), _BYTES),
)
_NEMO = Layout(
    "nemo",
    ("train_step_timing in s", "reduced_train_loss"),
    {
        "loss": ("reduced_train_loss", "train_loss"),
        "learning_rate": ("lr",),
        "grad_norm": ("grad_norm", "gradient_norm"),
        "seconds": ("train_step_timing in s",),
        "tflops_per_gpu": ("TFLOPS_per_GPU",),
        "tokens_per_second_per_gpu": ("tokens_per_sec_per_gpu",),
        "batch_size": ("global_batch_size",),
        "consumed_samples": ("consumed_samples",),
        "memory_allocated_gb": ("max_memory_allocated", "memory_allocated"),
        "memory_reserved_gb": ("max_memory_reserved", "peak_memory_usage"),
    },
    shift=1,
    timing=Timing(
        clock="host clock of NeMo's timing callback, without a device synchronize by default",
        covers="from the start to the end of a training batch, data loading of NeMo 2 included; not the time between",
        over_ranks="rank 0",
    ),
    scale={"memory_allocated_gb": _BYTES, "memory_reserved_gb": _BYTES},
)
_TORCHTITAN = Layout(
    "torchtitan",
    ("throughput(tps)", "loss_metrics/global_avg_loss", "time_metrics/end_to_end(s)"),
    {
        "loss": ("loss_metrics/global_avg_loss",),
        "grad_norm": ("grad_norm",),
        "learning_rate": ("lr",),
        "seconds": ("time_metrics/end_to_end(s)",),
        "tokens_per_second_per_gpu": ("throughput(tps)", "wps"),
        "tflops_per_gpu": ("tflops",),
        "mfu_percent": ("mfu(%)",),
        "memory_max_reserved_gb": ("memory/max_reserved(GiB)",),
        "memory_max_active_gb": ("memory/max_active(GiB)",),
    },
    timing=Timing(
        clock="host clock of torchtitan's metrics processor",
        covers="all between two logs, data loading, garbage collection and checkpoints included, mean of their steps",
        over_ranks="the rank that writes",
    ),
    scale={"memory_max_reserved_gb": _GIB, "memory_max_active_gb": _GIB},
)
_TRANSFORMERS = Layout(
    "hf_trainer",
    ("train/loss", "train/learning_rate", "train/train_runtime"),
    {
        "loss": ("train/loss",),
        "learning_rate": ("train/learning_rate",),
        "grad_norm": ("train/grad_norm",),
        "epoch": ("train/epoch",),
    },
)
_LIGHTNING = Layout(
    "lightning",
    (),
    {
        "loss": (
            "train_loss_step",
            "train_loss",
            "train/loss_step",
            "train/loss",
            "loss_step",
            "loss",
            "training_loss",
        ),
        "learning_rate": ("lr", "learning_rate", "lr-AdamW", "lr-Adam", "lr-SGD", "lr-AdamW/pg1"),
        "grad_norm": ("grad_norm", "grad_2.0_norm_total", "train/grad_norm"),
        "epoch": ("epoch",),
        "seconds": ("train_step_timing in s", "step_time", "train/step_time"),
        "tokens_per_second_per_gpu": ("throughput/device/tokens_per_sec", "device/items_per_sec"),
    },
    shift=1,
)

LAYOUTS = (_MEGATRON, _NEMO, _TORCHTITAN, _TRANSFORMERS, _LIGHTNING)
"""The first whose mark is there counts; the last takes what is left."""

_FIELDS = ("loss", "learning_rate", "grad_norm", "seconds")


def _read(parts: Sequence[InputFile], beside: Mapping[str, bytes]) -> list[ParsedLog]:
    events = Events()
    for part in sorted(parts, key=lambda each: each.name):
        read_into(part.stream, events)
    layout = next((each for each in LAYOUTS if any(tag in events.scalars for tag in each.mark)), LAYOUTS[-1])
    columns = _columns(layout, events.scalars)
    if not any(columns.get(name) for name in ("loss", "seconds", "tokens_per_second_per_gpu")):
        tags = ", ".join(list(events.scalars)[:6]) or "none"
        raise ValueError(f"it holds no scalar of a training (its tags: {tags})")
    return [_parsed_log(layout, events, columns, parts, beside)]


def _columns(layout: Layout, scalars: Mapping[str, list[Point]]) -> dict[str, dict[int, float]]:
    """Return values by step, for each field that the layout has; where a step is written again, the later one."""
    columns: dict[str, dict[int, float]] = {}
    for field, tags in layout.tags.items():
        tag = next((tag for tag in tags if scalars.get(tag)), None)
        if tag is None:
            continue
        column: dict[int, float] = {}
        last: int | None = None
        for point in scalars[tag]:
            if point.step < 0:
                continue
            if last is not None and point.step < last:
                # A training that started again runs the later steps again, too.
                column = {step: value for step, value in column.items() if step < point.step}
            column[point.step] = point.value * layout.scale.get(field, 1.0)
            last = point.step
        columns[field] = column
    return columns


def _parsed_log(
    layout: Layout,
    events: Events,
    columns: dict[str, dict[int, float]],
    parts: Sequence[InputFile],
    beside: Mapping[str, bytes],
) -> ParsedLog:
    training = LoggedTraining(around=LogContext())
    stated = training.around.stated
    base = columns.get("loss") or columns.get("seconds") or columns["tokens_per_second_per_gpu"]
    steps = sorted(set(base) | set(columns.get("seconds", ())))
    shift = layout.shift
    if steps and steps[0] == 0:
        shift = 1
    for step in steps:
        if step + shift < 1:
            continue
        record = Record(step, 0)
        for field, column in columns.items():
            if field != "batch_size":
                record.put(field, column.get(step))
        training.records[step] = training.last = record
    arguments = _arguments(events.texts)
    shape = None
    if "num_layers" in arguments:
        shape = _state_megatron(arguments, stated, training.warnings)
    elif layout is _TRANSFORMERS:
        _state_transformers(events.texts, stated)
    hparams.state_all(beside, stated)
    _batch(columns.get("batch_size", {}), events.scalars, stated, training)
    figures: dict[str, float | None] = {}
    _windows(layout, columns, stated, training, shift)
    _wall_clock(events.scalars, layout, figures)
    for name, tag in (
        ("last_validation_loss", "lm loss validation"),
        ("last_validation_loss", "val_loss"),
        ("train_runtime_seconds", "train/train_runtime"),
        ("train_samples_per_second", "train/train_samples_per_second"),
        ("train_steps_per_second", "train/train_steps_per_second"),
    ):
        if events.scalars.get(tag):
            figures[name] = events.scalars[tag][-1].value
    if events.cut:
        training.warnings.append(f"{events.cut}: what stands before it was read")
    began = events.first_time
    unknown = {}
    if "seconds" not in columns:
        unknown["step_times"] = (
            "no step times: "
            + (
                "Megatron writes them with --log-timers-to-tensorboard alone"
                if layout is _MEGATRON
                else "no tag holds any"
            )
            + "; the wall time of the events (native_metrics) holds evaluation and checkpoints, too"
        )
    last = training.last.step + shift if training.last else 0
    planned = stated.count("max_steps")
    done = bool((planned and last >= planned) or events.scalars.get("train/train_runtime"))
    notes = [f"{len(events.scalars)} tags, {len(events.texts)} texts"]
    if len(parts) > 1:
        notes.append(f"{len(parts)} event files of one folder are read as one training")
    return RunBuilder(
        layout.framework,
        f"tensorboard ({layout.framework})",
        training,
        layout.timing,
        shift=shift,
        lines=False,
        figures=figures,
        unknown=unknown,
        ended=done or None,
        shape=shape,
        timestamp=_moment(began),
        notes=tuple(notes),
    ).reading()


def _moment(seconds: float | None) -> str | None:
    if seconds is None or not 0 < seconds < 4e9:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")


def _arguments(texts: Mapping[str, str]) -> LoggedValues:
    """Return Megatron's arguments, each a text of its own."""
    found = LoggedValues()
    for tag, text in texts.items():
        name, _, kind = tag.rpartition("/")
        name = name or kind
        if kind in ("text_summary", name) and name in megatron_setup.ARGUMENTS:
            value = text.strip().strip("'\"")
            known: Any = {"None": None, "True": True, "False": False}.get(value, value)
            if isinstance(known, str):
                as_number = number(known)
                if as_number is not None:
                    known = int(as_number) if as_number == int(as_number) and "." not in known else as_number
            found.add(name, LoggedValue(known, 1, f"{name} {value}"[:300], 2))
    return found


def _state_megatron(arguments: LoggedValues, stated: LoggedValues, warnings: list[str]) -> Any:
    """State what the arguments say, and return the model's shape."""
    for name, each in megatron_setup.fields_of(arguments).items():
        state(stated, name, each.value, each.text)
    shape, left_out = megatron_setup.model_config(arguments)
    warnings += left_out
    return shape


def _state_transformers(texts: Mapping[str, str], stated: LoggedValues) -> None:
    """Read the Trainer's arguments and the model's configuration, each JSON text."""
    options_in(texts.get("args/text_summary", texts.get("args", "")), 1, stated)
    try:
        config = json.loads(texts.get("model_config/text_summary", texts.get("model_config", "")))
    except (ValueError, RecursionError):
        return
    if not isinstance(config, dict):
        return
    for key, field in (
        ("num_hidden_layers", "num_layers"),
        ("hidden_size", "hidden_size"),
        ("num_attention_heads", "num_attention_heads"),
        ("num_key_value_heads", "num_query_groups"),
        ("intermediate_size", "ffn_hidden_size"),
        ("vocab_size", "vocab_size"),
        ("_name_or_path", "model"),
    ):
        if config.get(key):
            state(stated, field, config[key])
    state(stated, "weights_precision", precision_of(config.get("torch_dtype")) if config.get("torch_dtype") else None)


def _batch(
    sizes: Mapping[int, float], scalars: Mapping[str, list[Point]], stated: LoggedValues, training: LoggedTraining
) -> None:
    """Set the batch really used: by its tag, or by how far the samples advance with each step."""
    used = {int(size) for size in sizes.values() if size >= 1}
    where = "the batch-size tag"
    if not used:
        found = [
            (later.step - earlier.step, ahead.step - behind.step)
            for tag, points in scalars.items()
            if (by_samples := scalars.get(f"{tag} vs samples")) and len(by_samples) == len(points)
            for earlier, later, behind, ahead in zip(points, points[1:], by_samples, by_samples[1:], strict=False)
        ]
        first = next(
            (
                (points[0].step, by_samples[0].step)
                for tag, points in scalars.items()
                if (by_samples := scalars.get(f"{tag} vs samples")) and points and len(by_samples) == len(points)
            ),
            None,
        )
        pairs = [pair for pair in (*found, *([first] if first and not found else [])) if pair[0] > 0 and pair[1] > 0]
        used = {samples // steps for steps, samples in pairs if samples % steps == 0}
        where = "the tags by samples"
    requested = stated.count("global_batch_size")
    if len(used) == 1:
        (size,) = used
        if requested and requested != size:
            training.warnings.append(
                f"the arguments ask for a global batch of {requested}, but {where} show {size} at every step "
                "(the batch grows later): it is taken"
            )
            stated.pop("global_batch_size", None)
        state(stated, "global_batch_size", size or None, f"{where}: {size}")
    elif len(used) > 1:
        stated.pop("global_batch_size", None)
        training.warnings.append(
            f"the global batch size changes during the training ({min(used)} to {max(used)}): it is left open, and no "
            "throughput in tokens can be given"
        )


def _windows(
    layout: Layout, columns: dict[str, dict[int, float]], stated: LoggedValues, training: LoggedTraining, shift: int
) -> None:
    """Set how many steps a record averages, where the files show it."""
    found = training.ordered()
    apart = {later.step - earlier.step for earlier, later in itertools.pairwise(found)}
    interval = min(apart) if apart else 1
    times = columns.get("seconds", {})
    if layout is _LIGHTNING or layout is _NEMO:
        # Lightning's loggers write a value of the step itself, every log_every_n_steps.
        return
    if layout is _MEGATRON and len(times) < len(found):
        if times and stated.count("logging_steps"):
            training.warnings.append(
                f"step times are means over log_interval ({stated.count('logging_steps')}) steps, and stand at the "
                "last of them; other figures are of each step"
            )
        return
    before = 0
    for record in found:
        number_of_step = record.step + shift
        record.window = max(1, min(number_of_step - before, interval))
        before = number_of_step


def _wall_clock(scalars: Mapping[str, list[Point]], layout: Layout, figures: dict[str, float | None]) -> None:
    tag = next((tag for tag in layout.tags.get("loss", ()) if scalars.get(tag)), None)
    points = scalars[tag] if tag else []
    if len(points) > 1 and points[-1].step > points[0].step and points[-1].wall_time > points[0].wall_time:
        figures["event_seconds_per_step"] = (points[-1].wall_time - points[0].wall_time) / (
            points[-1].step - points[0].step
        )


FILES = FileFormat(
    "tensorboard",
    "event files of TensorBoard",
    is_event_file,
    _read,
    together=folder_of,
    beside=("hparams.yaml",),
)
