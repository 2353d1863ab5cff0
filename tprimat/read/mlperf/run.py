"""From MLPerf's events to a Run.

native_metrics: `samples_per_second`, `max_memory_usage` (of no stated unit) and `eval_accuracy` as
series, each where it is logged; `time_to_train_minutes`, `eval_accuracy_last`, `target_accuracy` and
figures of the whole run as single figures, `seed` too. Time to train is no speed: it counts how many
evaluations it took to reach the target.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from tprimat.catalog import models
from tprimat.read.mlperf import streams
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.mlperf.streams import Block, Event, Found, Point, number
from tprimat.read.parsing.parsed_log import LoggedValue, LoggedValues, ParsedLog
from tprimat.read.parsing.records import LogContext, spans
from tprimat.results.run import (
    LARGEST_VALUE,
    Environment,
    GpuInfo,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    Status,
    Timing,
    TrainingConfig,
)

FIRST_BLOCK = 0.01
"""Share of the first block's wall time that its mean may leave out without a word."""

_MODELS = {"llama31_8b": "llama3.1_8b"}


@dataclasses.dataclass
class Training:
    """What the log holds of one run of a benchmark.

    Attributes:
        told: whether an event of it could be read.
    """

    around: LogContext
    events: list[Event] = dataclasses.field(default_factory=list)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    evaluations: list[tuple[Mapping[str, float], float]] = dataclasses.field(default_factory=list)
    whole_run: dict[str, float] = dataclasses.field(default_factory=dict)
    unreadable: list[int] = dataclasses.field(default_factory=list)
    run_start: float | None = None
    run_stop: float | None = None
    end_line: int | None = None
    end_status: str = ""
    end_samples: float | None = None
    end_step: float | None = None
    first: float | None = None
    told: bool = False

    def time(self, time: float) -> None:
        """Takes an event's time."""
        self.first = time if self.first is None else self.first

    def begin_block(self, block: Block) -> None:
        """Takes a block's start, but not a slower rank's copy of it."""
        last = self.blocks[-1] if self.blocks else None
        if last is None or last.stop is not None or last.start_place != block.start_place:
            self.blocks.append(block)

    def block(self) -> int | None:
        """Number of the block that is open, or was the last one."""
        return len(self.blocks) - 1 if self.blocks else None

    def over_before(self, key: str, time: float) -> bool:
        """Whether an event that begins a run begins another one than this."""
        if self.run_stop is not None:
            return True
        return self.run_start is not None and key == "run_start" and time - self.run_start > 1


def carried(stated: LoggedValues) -> LoggedValues:
    """What is said once for all trials of a file."""
    return LoggedValues({name: each for name, each in stated.items() if each.weight < 3 or name == "system"})


def numbers(value: Any) -> dict[str, float]:
    """The numbers of a dictionary of figures."""
    if not isinstance(value, dict):
        return {}
    return {str(name)[:60]: known for name, each in value.items() if (known := number(each)) is not None}


def plain(value: Any) -> Any:
    """A value of JSON or of a configuration dump: whole numbers as such."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if not isinstance(value, str):
        return value
    words = {"true": True, "false": False, "null": None, "none": None}
    if value.lower() in words:
        return words[value.lower()]
    known = number(value)
    return value if known is None else plain(known)


def reading(training: Training) -> ParsedLog:
    """The common form of a training."""
    stated = training.around.stated
    batch, sequence = stated.count("global_batch_size"), _sequence(stated)
    last = training.end_samples
    if last is None and training.end_step and batch:
        last = training.end_step * batch
    found = streams.find(training.events, training.blocks, batch, sequence.value if sequence else None, last)
    names = {
        "model": _model(stated),
        "num_gpus": _world(stated),
        "global_batch_size": stated.counted("global_batch_size"),
        "sequence_length": sequence,
        "precision": precision(stated)[2],
    }
    shown = {name: statement for name, statement in names.items() if statement is not None}
    notes = [f"{len(training.evaluations)} evaluations"] if training.evaluations else []

    def build(given: Mapping[str, Any]) -> Run:
        return _run(training, found, given)

    return ParsedLog(len(found.points), shown, tuple(notes), build)


def _model(stated: LoggedValues) -> LoggedValue | None:
    benchmark = stated.get("submission_benchmark")
    word = stated.word("submission_benchmark")
    if benchmark is None or word is None:
        return None
    row = models.recognize(_MODELS.get(word, word))
    return LoggedValue(row.name if row else word, benchmark.line, benchmark.text, benchmark.weight)


def _sequence(stated: LoggedValues) -> LoggedValue | None:
    for name in ("max_sequence_length", "encoder_seq_length", "seq_length"):
        if statement := stated.counted(name):
            return statement
    return None


def _world(stated: LoggedValues) -> LoggedValue | None:
    if statement := stated.counted("world_size"):
        return statement
    system = stated.get("system")
    if system is not None and isinstance(system.value, mlperf_system.System) and system.value.devices:
        return LoggedValue(system.value.devices, system.line, system.text)
    nodes, devices = stated.count("num_nodes"), stated.counted("devices")
    if nodes and devices:
        return LoggedValue(nodes * devices.value, devices.line, devices.text)
    return None


def precision(stated: LoggedValues) -> tuple[str | None, str | None, LoggedValue | None]:
    """Precision of the matrix products, the log's own words, and the statement that decides."""
    if logged := stated.get("lowest_numerical_precision_linear"):
        return str(logged.value).lower(), f"lowest precision of linear layers: {logged.value}", logged
    base = stated.word("precision")
    words = [f"precision {base}"] if base else []
    for width in ("fp4", "fp8"):
        if stated.value(width) not in (None, False, ""):
            recipe = stated.word(f"{width}_recipe")
            return width, ", ".join([*words, width, *([f"recipe {recipe}"] if recipe else [])]), stated[width]
    known = {"bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16", "32": "fp32", "bf16-true": "bf16"}
    return known.get(base or ""), words[0] if words else None, stated.get("precision")


def _run(training: Training, found: Found, given: Mapping[str, Any]) -> Run:
    stated = training.around.stated
    warnings: list[str] = []
    series, native = _series(training, found, stated)
    world_statement, sequence_statement = _world(stated), _sequence(stated)
    world = given.get("num_gpus") or (world_statement.value if world_statement else None)
    sequence = given.get("sequence_length") or (sequence_statement.value if sequence_statement else None)
    benchmark = stated.word("submission_benchmark")
    model = _model(stated)
    if world is None:
        warnings.append(
            f"{mlperf_system.UNSTATED}: the system description of the submission (systems/*.json) does; "
            f"submission_platform ({stated.value('submission_platform') or 'not logged'}) is free text and isn't used"
        )
    if sequence is None:
        warnings.append("the log doesn't state the sequence length: step times and samples only, no rate in tokens")
    warnings += _said_of(training, found)
    status, reason = _status(training, found)
    known_precision, detail, _ = precision(stated)
    accumulation = stated.count("gradient_accumulation_steps")
    system = stated.value("system")
    run = Run(
        status=status,
        status_reason=reason,
        framework="mlperf",
        model=given.get("model") or (str(model.value) if model else None),
        timestamp=_timestamp(training, warnings),
        warnings=tuple(dict.fromkeys(warnings)),
        source=Source(kind="log", dialect=f"mlperf ({benchmark})" if benchmark else "mlperf"),
        gpu_info=GpuInfo(device_count=world),
        environment=Environment(versions={}),
        training_config=TrainingConfig(
            max_steps=stated.count("max_steps"),
            global_batch_size=given.get("global_batch_size") or stated.count("global_batch_size"),
            micro_batch_size=stated.count("micro_batch_size"),
            sequence_length=sequence,
            num_gpus=world,
            precision=known_precision,
            precision_detail=detail,
        ),
        parallelism_config=ParallelismConfig(
            tensor_model_parallel_size=stated.count("tensor_parallelism") or stated.count("tensor_model_parallel_size"),
            pipeline_model_parallel_size=stated.count("pipeline_parallelism")
            or stated.count("pipeline_model_parallel_size"),
            context_parallel_size=stated.count("context_parallelism") or stated.count("context_parallel_size"),
            expert_model_parallel_size=stated.count("expert_parallelism"),
            gradient_accumulation_steps=accumulation,
        ),
        optimizer=_optimizer(stated),
        timing=_timing(found),
        native_metrics=native,
        **series,
    )
    if isinstance(system, mlperf_system.System):
        return mlperf_system.applied(run, system, f"on line {stated['system'].line}")
    return run


def _series(training: Training, found: Found, stated: LoggedValues) -> tuple[dict[str, Any], dict[str, Any]]:
    """The series, of all steps that have a time or a loss, and the native figures."""
    rows: dict[int, dict[str, Any]] = {}
    for point in found.points:
        rows[point.step] = {"time": point.seconds, "window": point.window, **_figures(point)}
    for point in found.losses:
        row = rows.setdefault(point.step, {"window": 1, "line": point.event.line})
        row.update({name: value for name, value in _figures(point).items() if name not in row})
    batch = stated.count("global_batch_size")
    for place, result in training.evaluations:
        step = _evaluated_at(place, batch, rows)
        if step is not None:
            rows[step].setdefault("eval_accuracy", result)
    steps = sorted(rows)

    def column(name: str) -> tuple[Any, ...]:
        return tuple(rows[step].get(name) for step in steps)

    native: dict[str, Any] = {}
    for name in ("samples_per_second", "max_memory_usage", "eval_accuracy"):
        if any(value is not None for value in column(name)):
            native[name] = column(name)
    single = {
        "time_to_train_minutes": _minutes(training),
        "eval_accuracy_last": training.evaluations[-1][1] if training.evaluations else None,
        "target_accuracy": stated.number("target_accuracy"),
        "overall_samples_per_second": stated.number("overall_throughput"),
        "result_seconds": stated.number("result_seconds"),
        # Every run of a submission has a seed of its own: it is no part of the setup that they share.
        "seed": stated.number("seed"),
        **{f"whole_run_{name}": value for name, value in training.whole_run.items()},
    }
    native |= {name: value for name, value in single.items() if value is not None}
    return {
        "steps": tuple(steps),
        "window_steps": column("window"),
        "step_times": column("time"),
        "loss_values": column("loss"),
        "learning_rates": column("learning_rate"),
        "grad_norms": (None,) * len(steps),
        "lines": column("line"),
    }, native


def _figures(point: Point) -> dict[str, Any]:
    event = point.event
    figures: dict[str, Any] = {"line": event.line}
    for name in streams.LOSSES:
        if name in event.values:
            figures["loss"] = event.values[name]
            break
    if "lr" in event.place:
        figures["learning_rate"] = event.place["lr"]
    if streams.RATE in event.values:
        figures["samples_per_second"] = event.values[streams.RATE]
    if "max_memory_usage" in event.values:
        figures["max_memory_usage"] = event.values["max_memory_usage"]
    return figures


def _evaluated_at(place: Mapping[str, float], batch: int | None, rows: Mapping[int, Any]) -> int | None:
    """The record that an evaluation follows: at its step, or one batch later, as some count."""
    samples = place.get("samples_count", place.get("epoch_num"))
    if not samples or not batch:
        return None
    step = samples / batch
    return next((int(each) for each in (step, step + 1) if each in rows), None)


def _minutes(training: Training) -> float | None:
    if training.run_start is not None and training.run_stop is not None:
        return round((training.run_stop - training.run_start) / 60, 6)
    duration = training.whole_run.get("duration")
    return round(duration / 60, 6) if duration else None


def _said_of(training: Training, found: Found) -> list[str]:
    warnings = []
    points = found.points
    if found.kind == "sampled":
        apart = points[1].step - points[0].step
        warnings.append(
            f"a step time is logged every {apart} steps, and by the events' own times it isn't the mean of these: it "
            "is taken for that of one step, so that pauses between don't show"
        )
    if found.kind == "derived":
        warnings.append(
            "the log has no step times: they are the blocks' wall times, from start to stop, divided by their steps"
        )
    if found.missed is not None and found.missed > FIRST_BLOCK:
        warnings.append(
            f"the first block took {found.missed:.1%} longer than its printed mean says (steps 1–{points[0].step}): "
            "its figure leaves out the start"
        )
    if found.unplaced:
        warnings.append(f"{found.unplaced} figures are left out: the unit of their position can't be told")
    if training.unreadable:
        warnings.append(f"{len(training.unreadable)} events can't be read, the first on line {training.unreadable[0]}")
    lossless = [point.step for point in found.points if point.step not in {each.step for each in found.losses}]
    if found.losses and lossless and found.kind in ("mean", "sampled"):
        warnings.append(f"no loss is logged at {spans(lossless)}")
    if training.evaluations:
        warnings.append("eval_accuracy is what the benchmark evaluates: for language models a loss, lower is better")
    return warnings


def _status(training: Training, found: Found) -> tuple[Status, str | None]:
    cause = training.around.causes.reason()
    where = f" (line {training.end_line})" if training.end_line else ""
    if training.end_status == "success":
        return "complete", None
    if training.end_line is not None:
        said = training.end_status or "no status"
        return "incomplete", f"the run ended with status {said}{where}: the target was not reached"
    if training.run_start is None and not found.points:
        return "failed", cause or "the log ends before the training starts (no run_start)"
    last = found.points[-1].step if found.points else 0
    return "incomplete", f"no run_stop: the log ends after step {last}" + (f": {cause}" if cause else "")


def _timestamp(training: Training, warnings: list[str]) -> str | None:
    moment = training.run_start or training.first
    if moment is None:
        warnings.append("timestamp unknown: the log has no event times")
        return None
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).isoformat()


def _optimizer(stated: LoggedValues) -> Optimizer:
    def either(*names: str) -> float | None:
        return next((value for name in names if (value := stated.number(name)) is not None), None)

    adamw = "opt_adamw_beta_1" in stated or "opt_adamw_weight_decay" in stated
    rate = stated.number("opt_base_learning_rate")
    return Optimizer(
        name=stated.word("opt_name") or ("adamw" if adamw else None),
        # Some logs have 0.0 there, which nothing learns with.
        learning_rate=rate if rate is not None and 0 < rate <= LARGEST_VALUE else None,
        schedule=stated.word("opt_learning_rate_decay_schedule"),
        beta1=either("opt_adamw_beta_1", "opt_adam_beta_1"),
        beta2=either("opt_adamw_beta_2", "opt_adam_beta_2"),
        epsilon=either("opt_adamw_epsilon", "opt_adam_epsilon"),
        weight_decay=either("opt_adamw_weight_decay", "opt_weight_decay"),
        gradient_clipping=stated.number("opt_gradient_clip_norm"),
    )


def _timing(found: Found) -> Timing:
    covers = {
        "block": "mean of the steps between two evaluations, as the submitter's timer takes it",
        "mean": "mean of the steps since the record before",
        "sampled": "one step of those since the record before",
        "derived": "wall time from a block's start to its stop, divided by its steps; evaluations not included",
        None: None,
    }[found.kind]
    return Timing(clock="the submitter's own, of the rank that logs", covers=covers, over_ranks="the rank that logs")
