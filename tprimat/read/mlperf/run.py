"""Conversion of MLPerf's events to a Run.

native_metrics: `samples_per_second`, `max_memory_usage` (of no stated unit) and `eval_accuracy` as
series, each where it is logged; `time_to_train_minutes`, `eval_accuracy_last`, `target_accuracy` and
figures of the whole run as single figures, `seed` too. Time to train is no speed: it counts how many
evaluations it took to reach the target.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any

from tprimat.catalog import models
from tprimat.read.mlperf import streams
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.mlperf.streams import Block, Event, StepPoints, number
from tprimat.read.parsing import records
from tprimat.read.parsing.records import LoggedTraining, Record, spans
from tprimat.read.parsing.run_builder import RunBuilder, sizes_of
from tprimat.read.parsing.values import LoggedValue, LoggedValues, precision_of
from tprimat.results.run import ModelConfig, ParallelismConfig, Run, Status, Timing, TrainingConfig

FIRST_BLOCK = 0.01
"""Share of the first block's wall time that its mean may leave out without a word."""

_COVERS = {
    "block": "mean of the steps between two evaluations, as the submitter's timer takes it",
    "mean": "mean of the steps since the record before",
    "sampled": "one step of those since the record before",
    "derived": "wall time from a block's start to its stop, divided by its steps; evaluations not included",
}

_MODELS = {"llama31_8b": "llama3.1_8b"}


@dataclasses.dataclass
class BenchmarkRun(LoggedTraining):
    """What the log holds of one run of a benchmark; `parsed` is what was made of the events once it is over."""

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
    has_results: bool = False
    parsed: StepPoints = dataclasses.field(default_factory=lambda: StepPoints([], [], None))

    @property
    def step_count(self) -> int:
        """Records of steps that it has."""
        return len(self.parsed.points)

    def notes(self) -> tuple[str, ...]:
        """Return notes on how the events were read."""
        return (f"{len(self.evaluations)} evaluations",) if self.evaluations else ()

    def begin_block(self, block: Block) -> None:
        """Add a block's start, but not a slower rank's copy of it."""
        last = self.blocks[-1] if self.blocks else None
        if last is None or last.stop is not None or last.start_place != block.start_place:
            self.blocks.append(block)

    def block(self) -> int | None:
        """Return the number of the open block, else of the last one."""
        return len(self.blocks) - 1 if self.blocks else None

    def over_before(self, key: str, time: float) -> bool:
        """Return whether a run-start event begins another run."""
        if self.run_stop is not None:
            return True
        return self.run_start is not None and key == "run_start" and time - self.run_start > 1


def carried(stated: LoggedValues) -> LoggedValues:
    """Return the statements that hold for all trials of a file."""
    return LoggedValues({name: each for name, each in stated.items() if each.weight < 3 or name == "system"})


def numbers(value: Any) -> dict[str, float]:
    """Return the numbers of a dictionary of metrics."""
    if not isinstance(value, dict):
        return {}
    return {str(name)[:60]: known for name, each in value.items() if (known := number(each)) is not None}


def plain(value: Any) -> Any:
    """Return a value of JSON or of a configuration dump: whole numbers as such."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if not isinstance(value, str):
        return value
    words = {"true": True, "false": False, "null": None, "none": None}
    if value.lower() in words:
        return words[value.lower()]
    known = number(value)
    return value if known is None else plain(known)


def builder(training: BenchmarkRun) -> RunBuilder:
    """Return what makes the Run of a benchmark's run whose log is over."""
    fields = _fields_of(training.around.stated)
    batch, last = fields.count("global_batch_size"), training.end_samples
    if last is None and training.end_step and batch:
        last = training.end_step * batch
    training.parsed = streams.find(training.events, training.blocks, batch, fields.count("sequence_length"), last)
    training.records = _records(training, batch)
    benchmark = training.around.stated.word("submission_benchmark")
    return MlperfRun(
        framework="mlperf",
        log_format=f"mlperf ({benchmark})" if benchmark else "mlperf",
        training=training,
        timing=Timing(
            clock="the submitter's own, of the rank that logs",
            covers=_COVERS.get(training.parsed.kind or ""),
            over_ranks="the rank that logs",
        ),
        fields=fields,
    )


_ADAMW = ("opt_adamw_beta_1", "opt_adamw_weight_decay")
_FIELDS: dict[Callable[[LoggedValues, str], object], dict[str, tuple[str, ...]]] = {
    LoggedValues.count: {
        "global_batch_size": ("global_batch_size",),
        "micro_batch_size": ("micro_batch_size",),
        "max_steps": ("max_steps",),
        "gradient_accumulation_steps": ("gradient_accumulation_steps",),
        "sequence_length": ("max_sequence_length", "encoder_seq_length", "seq_length"),
        "tensor_model_parallel_size": ("tensor_parallelism", "tensor_model_parallel_size"),
        "pipeline_model_parallel_size": ("pipeline_parallelism", "pipeline_model_parallel_size"),
        "context_parallel_size": ("context_parallelism", "context_parallel_size"),
        "expert_model_parallel_size": ("expert_parallelism",),
        "num_gpus": ("world_size",),
    },
    LoggedValues.number: {
        "beta1": ("opt_adamw_beta_1", "opt_adam_beta_1"),
        "beta2": ("opt_adamw_beta_2", "opt_adam_beta_2"),
        "epsilon": ("opt_adamw_epsilon", "opt_adam_epsilon"),
        "weight_decay": ("opt_adamw_weight_decay", "opt_weight_decay"),
        "gradient_clipping": ("opt_gradient_clip_norm",),
    },
    LoggedValues.word: {"schedule": ("opt_learning_rate_decay_schedule",), "optimizer": ("opt_name",)},
}
"""Fields of a result, and the events or arguments that state them: the first one counts."""


def _fields_of(stated: LoggedValues) -> LoggedValues:
    """Return what the log states, by a result's fields."""
    fields = LoggedValues()
    for read, rows in _FIELDS.items():
        for field, names in rows.items():
            if origin := next((name for name in names if read(stated, name) is not None), None):
                fields[field] = stated[origin]

    def derive(field: str, value: object, origin: LoggedValue | None) -> None:
        if value is not None and origin is not None:
            fields.setdefault(field, dataclasses.replace(origin, value=value))

    rate = stated.number("opt_base_learning_rate")
    # Some logs have 0.0 there, which nothing learns with.
    derive("peak_learning_rate", rate if rate and rate > 0 else None, stated.get("opt_base_learning_rate"))
    derive("optimizer", "adamw", next((stated[name] for name in _ADAMW if name in stated), None))
    known, detail, deciding = precision(stated)
    derive("precision", known, deciding)
    derive("precision_detail", detail, deciding)
    benchmark = stated.word("submission_benchmark")
    if benchmark is not None:
        row = models.recognize(_MODELS.get(benchmark, benchmark))
        derive("model", row.name if row else benchmark, stated["submission_benchmark"])
    if isinstance(system := stated.value("system"), mlperf_system.System):
        derive("num_gpus", system.devices, stated["system"])
    nodes, devices = stated.count("num_nodes"), stated.count("devices")
    derive("num_gpus", nodes * devices if nodes and devices else None, stated.get("devices"))
    return fields


def precision(stated: LoggedValues) -> tuple[str | None, str | None, LoggedValue | None]:
    """Return the precision of the matrix products, the log's own name for it, and the deciding statement."""
    if logged := stated.get("lowest_numerical_precision_linear"):
        return str(logged.value).lower(), f"lowest precision of linear layers: {logged.value}", logged
    base = stated.word("precision")
    words = [f"precision {base}"] if base else []
    for width in ("fp4", "fp8"):
        if stated.value(width) not in (None, False, ""):
            recipe = stated.word(f"{width}_recipe")
            return width, ", ".join([*words, width, *([f"recipe {recipe}"] if recipe else [])]), stated[width]
    return precision_of(base), words[0] if words else None, stated.get("precision")


@dataclasses.dataclass
class MlperfRun(RunBuilder):
    """Builder of the Run of one benchmark run."""

    training: BenchmarkRun
    fields: LoggedValues = dataclasses.field(default_factory=LoggedValues)

    @property
    def stated(self) -> LoggedValues:
        """What the log states, by a result's fields."""
        return self.fields

    def run(self, given: Mapping[str, Any]) -> Run:
        """Return the Run, with what a system description in the log adds."""
        run, system = super().run(given), self.training.around.stated.get("system")
        if system is None or not isinstance(system.value, mlperf_system.System):
            return run
        return mlperf_system.applied(run, system.value, f"on line {system.line}")

    def model(self, shape: ModelConfig, given: Mapping[str, Any]) -> tuple[str | None, str | None, list[str]]:
        """Return the model that the benchmark's name means."""
        return given.get("model") or self.fields.word("model"), None, []

    def sizes(self, given: Mapping[str, Any]) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return what a step is and how it is spread."""
        return sizes_of(self.fields, given, infer=False)

    def series(self, sizes: TrainingConfig, doubts: list[str]) -> tuple[dict[str, Any], list[str]]:
        """Return the series of a Run as its arguments, and warnings."""
        warnings = []
        if sizes.num_gpus is None:
            platform = self.training.around.stated.value("submission_platform") or "not logged"
            warnings.append(
                f"{mlperf_system.UNSTATED}: the system description of the submission (systems/*.json) does; "
                f"submission_platform ({platform}) is free text and isn't used"
            )
        if sizes.sequence_length is None:
            warnings.append("the log doesn't state the sequence length: step times and samples only, no rate in tokens")
        found = self.training.ordered()
        series = records.series(found, [record.window or 1 for record in found])
        series["native_metrics"] |= _figures(self.training)
        return series, warnings + _warnings_of(self.training)

    def unknowns(self, sizes: TrainingConfig, series: Mapping[str, Any]) -> list[str]:
        """Return nothing: the series' warnings have it."""
        return []

    def started(self, warnings: list[str]) -> str | None:
        """Return when the training began."""
        moment = self.training.run_start or self.training.first
        if moment is None:
            warnings.append("timestamp unknown: the log has no event times")
            return None
        return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).isoformat()

    def status(self, planned: int | None, series: Mapping[str, Any], warnings: list[str]) -> tuple[Status, str | None]:
        """Return the status and its reason."""
        training, points = self.training, self.training.parsed.points
        cause = training.around.causes.reason()
        if training.end_status == "success":
            return "complete", None
        if training.end_line is not None:
            ended = f"the run ended with status {training.end_status or 'no status'} (line {training.end_line})"
            return "incomplete", f"{ended}: the target was not reached"
        if training.run_start is None and not points:
            return "failed", cause or "the log ends before the training starts (no run_start)"
        last = points[-1].step if points else 0
        return "incomplete", f"no run_stop: the log ends after step {last}" + (f": {cause}" if cause else "")


def _records(training: BenchmarkRun, batch: int | None) -> dict[int, Record]:
    """Return a record of each step that has a time or a loss."""
    rows: dict[int, Record] = {}
    for point in training.parsed.points:
        rows[point.step] = Record(point.step, point.event.line, seconds=point.seconds, window=point.window)
    for point in (*training.parsed.points, *training.parsed.losses):
        event = point.event
        record = rows.setdefault(point.step, Record(point.step, event.line))
        loss = next((event.values[name] for name in streams.LOSSES if name in event.values), None)
        for name, value in (
            ("loss", loss),
            ("learning_rate", event.place.get("lr")),
            ("samples_per_second", event.values.get(streams.RATE)),
            ("max_memory_usage", event.values.get("max_memory_usage")),
        ):
            if record.figure(name) is None:
                record.put(name, value)
    for place, accuracy in training.evaluations:
        samples = place.get("samples_count", place.get("epoch_num"))
        if samples and batch:
            # An evaluation follows the record at its step, or one batch later, as some count.
            step = next((each for each in (samples / batch, samples / batch + 1) if each in rows), None)
            if step is not None:
                rows[int(step)].native.setdefault("eval_accuracy", accuracy)
    return rows


def _figures(training: BenchmarkRun) -> dict[str, float]:
    """Return what is known of the whole run, by names of native_metrics."""
    stated, duration = training.around.stated, training.whole_run.get("duration")
    if training.run_start is not None and training.run_stop is not None:
        duration = training.run_stop - training.run_start
    figures = {
        "time_to_train_minutes": None if duration is None else round(duration / 60, 6),
        "eval_accuracy_last": training.evaluations[-1][1] if training.evaluations else None,
        "target_accuracy": stated.number("target_accuracy"),
        "overall_samples_per_second": stated.number("overall_throughput"),
        "result_seconds": stated.number("result_seconds"),
        # Every run of a submission has a seed of its own: it is no part of the setup that they share.
        "seed": stated.number("seed"),
        **{f"whole_run_{name}": value for name, value in training.whole_run.items()},
    }
    return {name: value for name, value in figures.items() if value is not None}


def _warnings_of(training: BenchmarkRun) -> list[str]:
    warnings, found = [], training.parsed
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
        warnings.append(f"no loss is logged at {spans((step, step) for step in lossless)}")
    if training.evaluations:
        warnings.append("eval_accuracy is what the benchmark evaluates: for language models a loss, lower is better")
    return warnings
