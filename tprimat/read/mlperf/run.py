"""Conversion of MLPerf's events, or of the summary of a run, to a Run.

native_metrics: `samples_per_second`, `max_memory_usage` (of no stated unit) and `eval_accuracy` as
series, each if it is logged; `time_to_train_minutes`, `eval_accuracy_last`, `target_accuracy` and
values of the whole run as single values, `seed` too. Time to train is no speed: it counts how many
evaluations it took to reach the target.
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime
import math
from collections.abc import Mapping
from typing import Literal

from tprimat.notes import Note, NoteValue
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.mlperf.streams import Block, Event, PlacedEvents
from tprimat.read.mlperf.timeline import HOLDS_EVALUATION, UNLIKE, Mark, Timeline
from tprimat.read.parsing.parsed_log import Given
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.remarks import spans
from tprimat.read.parsing.run_builder import RunBuilder, Series, SeriesAndDoubts, sizes_of
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    count,
    number,
    precision_of,
    state,
)
from tprimat.results.account import Entry, Timing
from tprimat.results.ending import Ending
from tprimat.results.fields import FieldValues, Figures, known_items
from tprimat.results.outcome import Outcome, ending_of, outcome_of
from tprimat.results.run import ModelConfig, ParallelismConfig, Run, TrainingConfig

_COVERS = {
    "block": "mean between evaluations, by the submitter's timer",
    "mean": "mean since the record before",
    "sampled": "single step",
    None: (
        "wall time from a block's start to its stop, divided by its steps; evaluations not included"
    ),
}

WHOLE = 0.01
"""How far a computed number of GPUs may be from a whole one, and the share by which all steps may
exceed the run.
"""

_MODELS = {"llama31_8b": "llama"}


@dataclasses.dataclass
class BenchmarkRun(LoggedTraining):
    """What the log holds of one run of a benchmark.

    Attributes:
        marks: borders of its parts.
        milestones: its first and last event, init_start, run_start and run_stop, by these names.
        end: line and status of its end.
        evaluations: where, and the result.
        figures: values of the whole run, by names of native_metrics.
        unreadable: lines of events that can't be read.
        is_divided: whether it has a block_start.
        placed, timeline: the events and the marks at their steps, once the log is over.
        doubts: notes on the timeline.
    """

    events: list[Event] = dataclasses.field(default_factory=list)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    marks: list[Mark] = dataclasses.field(default_factory=list)
    milestones: dict[str, Event] = dataclasses.field(default_factory=dict)
    end: tuple[int, str] | None = None
    evaluations: list[tuple[Mapping[str, float], float]] = dataclasses.field(default_factory=list)
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    unreadable: list[int] = dataclasses.field(default_factory=list)
    is_divided: bool = False
    placed: PlacedEvents = dataclasses.field(init=False)
    timeline: tuple[Entry, ...] = ()
    doubts: tuple[Note, ...] = ()

    def find_blocks(self) -> None:
        """Find the block of each event, by its line.

        Without any block_start, eval_start and eval_stop may not stand around the evaluation
        either: no blocks then.
        """
        if not self.is_divided:
            self.blocks = []
            self.marks = []
        starts = [block.start.line for block in self.blocks]
        for index, event in enumerate(self.events):
            if block := bisect.bisect(starts, event.line):
                self.events[index] = event._replace(block=block - 1)

    def mark(self, key: str, event: Event) -> None:
        """Keep a border, with the block that it begins or that it was logged in."""
        self.marks.append(Mark(key, event, self.blocks[-1] if self.blocks else None))

    @property
    def step_count(self) -> int:
        """Records of steps that have a time."""
        return len(self.placed.steps)


def builder(training: BenchmarkRun) -> RunBuilder:
    """Return what makes the Run of a benchmark's run whose log is over."""
    stated = training.around.stated
    _derive_fields(stated)
    training.find_blocks()
    batch = stated.count("global_batch_size")
    sequence = stated.count("sequence_length")
    start = training.milestones.get("run_start")
    stop = training.milestones.get("run_stop")
    end = stop.place if stop else {}
    last = end.get("samples_count", end.get("step", 0) * (batch or 0))
    placed = PlacedEvents(training.events, training.blocks, batch, sequence, last)
    total = _divide(training, placed)
    has_rewards = any("reward" in event.values for event in training.events)
    has_answers = has_rewards or "num_generations_per_prompt" in stated
    if has_answers:
        _count_answers(training)
    _add_evaluations(training, batch, sequence)
    duration = training.figures.get("whole_run_duration")
    if start and stop:
        duration = stop.time - start.time
    _doubt_long_steps(training, total, duration)
    figures: Figures = {
        "time_to_train_minutes": None if duration is None else round(duration / 60, 6),
        "eval_accuracy_last": None,
        "result_seconds": stated.number("result_seconds"),
    }
    notes = []
    if training.evaluations:
        figures["eval_accuracy_last"] = training.evaluations[-1][1]
        notes.append(f"{len(training.evaluations)} evaluations")
    figures |= training.figures
    unknown: dict[str, Note] = {}
    if has_answers:
        unknown["sequence_length"] = Note("answers-vary")
    # None has all that happens between a block's start and its stop.
    kind: Literal["sampled", "partial"] | None = "partial"
    if placed.kind == "sampled":
        kind = "sampled"
    elif has_answers and placed.steps:
        kind = None
    benchmark = stated.word("submission_benchmark")
    return MlperfRun(
        framework="mlperf",
        log_format=f"mlperf ({benchmark})" if benchmark else "mlperf",
        training=training,
        timing=Timing(
            clock="the submitter's own, of the rank that logs",
            kind=kind,
            covers=_COVERS[placed.kind] if training.records else None,
            over_ranks="the rank that logs",
        ),
        figures=known_items(figures),
        notes=tuple(notes),
        unknown=unknown,
        settings=_settings(stated),
    )


def _settings(stated: LoggedValues) -> FieldValues:
    """Return the platform and the submitter. The platform is free text; without a system
    description, only it distinguishes 8 GPUs from 16.
    """
    settings: FieldValues = {}
    platform = stated.word("submission_platform")
    submitter = stated.word("submission_org")
    if platform:
        settings["submission_platform"] = platform
    if submitter and "PLACEHOLDER" not in submitter:
        settings["submitter"] = submitter
    return settings


def _add_evaluations(training: BenchmarkRun, batch: int | None, sequence: int | None) -> None:
    """Add the results of evaluations to the records that they follow.

    An evaluation stands at the step of its record, or one batch later, as some count: after 12,288
    samples in batches of 32 at step 384 or 385. Others count tokens.
    """
    if not batch:
        return
    for where, accuracy in training.evaluations:
        tokens = where.get("epoch_num", 0)
        steps = where.get("samples_count", tokens) / batch
        if not steps:
            continue
        for step in (steps, steps + 1, tokens / (batch * (sequence or 1))):
            if step in training.records:
                training.records[int(step)].native.setdefault("eval_accuracy", accuracy)
                break


def _doubt_long_steps(training: BenchmarkRun, total: float, duration: float | None) -> None:
    """Add a note if the steps together take longer than the run.

    A run of 527 s can't have 80 steps of 8 s: the value isn't the time of a step, or only of a few.
    """
    seconds = 0.0
    steps = 0
    for record in training.records.values():
        if record.seconds:
            seconds += record.seconds * (record.window or 1)
            steps += record.window or 1
    if not duration:
        return
    share = seconds * max(total / (steps or 1), 1) / duration
    if share > 1 + WHOLE:
        training.doubts += (Note("steps-beyond-run", {"share": round(share, 4)}),)


def _divide(training: BenchmarkRun, placed: PlacedEvents) -> float:
    """Place the events and the marks; return the steps that the evaluations have reached."""
    training.placed = placed
    training.records = placed.records
    total = max((placed.steps_at(where) or 0 for where, _ in training.evaluations), default=0)
    timeline = Timeline(training.milestones, training.marks, placed.times, placed.missed, total)
    training.timeline = tuple(timeline.entries)
    training.doubts = timeline.notes
    if placed.steps:
        return total
    for block in training.timeline:
        if block.kind == "training" and block.last_step:
            step = block.last_step
            record = training.records.setdefault(step, Record(step, block.line or 0))
            record.put("seconds", round(block.duration / block.steps, 9))
            record.window = block.steps
    return total


def _count_answers(training: BenchmarkRun) -> None:
    """Take the tokens of reinforcement learning as they are printed: the sequence length is the
    most of an answer.

    401,000 tokens in 101 s at 62.04 tokens/s/GPU are of 64 GPUs.
    """
    stated = training.around.stated
    stated.pop("sequence_length", None)
    gpus: list[float] = []
    for record in training.records.values():
        record.set_policy_loss()
        tokens = record.native.get("tokens_per_step")
        rate = record.native.get("tokens_per_second_per_gpu")
        if tokens and rate and record.seconds:
            gpus.append(tokens / record.seconds / rate)
    if gpus and max(abs(gpu - round(gpus[0])) for gpu in gpus) < WHOLE:
        line = next(iter(training.records.values())).line
        state(stated, "num_gpus", round(gpus[0]), "tokens / step time / tokens/s/GPU", line, 0)


def _derive_fields(stated: LoggedValues) -> None:
    """Add the fields of a result that follow from statements of another name."""

    def derive(field: str, value: object, origin: LoggedValue | None) -> None:
        if value is not None and origin is not None:
            stated.setdefault(field, dataclasses.replace(origin, value=value))

    if stated.value("peak_learning_rate") == 0:
        # Nothing learns with it, and some logs have it.
        del stated["peak_learning_rate"]
    for name in ("encoder_seq_length", "seq_length"):
        derive("sequence_length", stated.count(name), stated.get(name))
    derive("packing", stated.value("packed_sequence"), stated.get("packed_sequence"))
    products, detail, deciding = precision(stated)
    stated.pop("precision", None)
    derive("precision", products, deciding)
    derive("precision_detail", detail, deciding)
    if benchmark := stated.word("submission_benchmark"):
        derive("model", _MODELS.get(benchmark, benchmark), stated["submission_benchmark"])
    if system := stated.value("system"):
        derive("num_gpus", system.gpu.device_count, stated["system"])
    nodes = stated.count("num_nodes")
    devices = stated.count("devices")
    derive("num_gpus", nodes * devices if nodes and devices else None, stated.get("devices"))


def precision(stated: LoggedValues) -> tuple[str | None, str | None, LoggedValue | None]:
    """Return the precision of the matrix products, the log's own name for it, and the deciding
    statement.
    """
    if logged := stated.get("lowest_numerical_precision_linear"):
        detail = f"lowest precision of linear layers: {logged.value}"
        return str(logged.value).lower(), detail, logged
    base = stated.word("precision")
    words = [f"precision {base}"] if base else []
    for width in ("fp4", "fp8"):
        if stated.value(width) not in (None, False, ""):
            words.append(width)
            if recipe := stated.word(f"{width}_recipe"):
                words.append(f"recipe {recipe}")
            return width, ", ".join(words), stated[width]
    return precision_of(base), ", ".join(words) or None, stated.get("precision")


@dataclasses.dataclass
class MlperfRun(RunBuilder):
    """Builder of the Run of one benchmark run."""

    training: BenchmarkRun

    def rows(self, series: Series) -> tuple[()]:
        """Return nothing: the events of the log have times of their own."""
        return ()

    def run(self, given: Given) -> Run:
        """Return the Run, with what a system description in the log adds."""
        run = super().run(given)
        system = self.stated.get("system")
        run = run.but(timeline=self.training.timeline, notes=(*run.notes, *self.training.doubts))
        if system:
            return mlperf_system.applied(run, system.value, f"on line {system.line}")
        return run

    def model(self, shape: ModelConfig, given: Given) -> tuple[str | None, str | None, list[Note]]:
        """Return the model that the benchmark's name means."""
        return given.get("model") or self.stated.word("model"), None, []

    def sizes(self, given: Given) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return the sizes of a step, and the parallelism."""
        return sizes_of(self.stated, given, infer=False)

    def series(self, sizes: TrainingConfig, doubts: list[Note]) -> SeriesAndDoubts:
        """Return the series; unknowns() warns of doubtful values, in the terms of MLPerf."""
        return super().series(sizes, [])[0], []

    def unknowns(self, sizes: TrainingConfig, series: Series) -> list[Note]:
        """Return warnings on values that the log doesn't state, and on how its events were read."""
        training = self.training
        placed = self.training.placed
        warnings: list[Note] = []
        if sizes.num_gpus is None:
            warnings.append(Note("mlperf-gpus-unstated"))
        if sizes.sequence_length is None:
            warnings.append(self.unknown.get("sequence_length", Note("samples-only")))
        blocks = [entry for entry in training.timeline if entry.steps]
        if placed.kind == "sampled" and not blocks:
            apart = placed.steps[1] - placed.steps[0]
            warnings.append(Note("times-sampled", {"steps": apart}))
        if blocks and not placed.steps:
            warnings.append(Note("times-of-blocks"))
        if held := [entry for entry in blocks if entry.note == HOLDS_EVALUATION]:
            longest = math.fsum(entry.duration for entry in held) / sum(
                entry.steps for entry in held
            )
            least = min(held, key=lambda entry: entry.duration / entry.steps)
            facts: dict[str, NoteValue] = {"blocks": len(held), "seconds": longest}
            if (fastest := least.duration / least.steps) < (1 - UNLIKE) * longest:
                facts |= {"first": least.first_step, "last": least.last_step, "fastest": fastest}
            warnings.append(Note("evaluation-in-blocks", facts))
        if placed.unplaced:
            warnings.append(Note("values-unplaced", {"count": placed.unplaced}))
        if lines := training.unreadable:
            warnings.append(Note("events-unreadable", {"count": len(lines), "line": lines[0]}))
        lossless = [step for step in placed.steps if training.records[step].loss is None]
        if placed.kind in ("mean", "sampled") and any(series["loss_values"]) and lossless:
            where = spans((step, step) for step in lossless)
            warnings.append(Note("loss-unlogged", {"steps": where}))
        if training.evaluations:
            warnings.append(Note("eval-accuracy-is-loss"))
        return warnings

    def started(self, warnings: list[Note]) -> str | None:
        """Return when the training began."""
        begun = self.training.milestones.get("run_start") or self.training.milestones.get("first")
        if begun is None:
            warnings.append(Note("timestamp-unknown", {"why": "the log has no event times"}))
            return None
        return datetime.datetime.fromtimestamp(begun.time, datetime.timezone.utc).isoformat()

    def outcome(self, planned: int | None, series: Series, warnings: list[Note]) -> Outcome:
        """Return how it ended."""
        training = self.training
        steps = self.training.placed.steps
        cause = training.around.causes.cause()
        if training.end:
            line, status = training.end
            ended = (
                f"the run ended with status {status or 'no status'} (line {line}) without reaching"
                " the target"
            )
            if status == "success":
                return outcome_of(ending_of(ended=True))
            # A run that misses the target has done the steps that its rules allow.
            return Outcome(
                "incomplete", ended, Ending(kind="finished", cause=f"run_stop: {status}", line=line)
            )
        ending = ending_of(cause=cause)
        if "run_start" not in training.milestones and not steps:
            without = "log ends before the training starts (no run_start)"
            return Outcome("failed", cause.sentence if cause else without, ending)
        last = max((*steps[-1:], *(entry.last_step or 0 for entry in training.timeline)), default=0)
        return outcome_of(
            ending,
            f"no run_stop: log ends at step {last}" + (f": {cause.sentence}" if cause else ""),
        )


@dataclasses.dataclass
class SummaryRun(RunBuilder):
    """Builder of the Run of a summary as Primus' benchmark of a diffusion model writes it:
    whole-run values, no steps.

    FLUX MLPerf benchmark summary
    local_batch_size: 64
    mean_step_time_s: 1.4824
    """

    def run(self, given: Given) -> Run:
        """Return the Run, with the model that a summary doesn't name, and what no summary has."""
        warnings = (
            Note("summary-without-records"),
            Note("timestamp-unknown", {"why": "the summary has no times"}),
            Note("sizes-of-summary-unstated"),
        )
        return super().run(given).but(model=given.get("model") or "flux", notes=warnings)


def summary_builder(printed: Mapping[str, tuple[str, int]]) -> RunBuilder:
    """Return what makes the Run of a summary, from its values and their lines by name."""
    training = LoggedTraining()
    stated = training.around.stated
    fields = {
        "max_steps": "max_steps",
        "local_batch_size": "micro_batch_size",
        "nnodes": "nodes",
        "gpus_per_node": "devices",
    }
    figures: Figures = {}
    for name, (value, line) in printed.items():
        if name in fields:
            state(stated, fields[name], count(value), f"{name}: {value}", line)
        elif name.startswith(("mean_", "max_", "steps_")) and (known := number(value)) is not None:
            figures[name] = known
    nodes = stated.count("nodes")
    devices = stated.count("devices")
    if nodes and devices:
        line = next(iter(printed.values()))[1]
        state(
            stated, "num_gpus", nodes * devices, f"nnodes: {nodes}, gpus_per_node: {devices}", line
        )
    return SummaryRun(
        framework="primus",
        log_format="mlperf (summary)",
        training=training,
        timing=Timing(),
        rate=None,
        figures=figures,
        fixed=outcome_of(
            ending_of(), "a summary, not a log: it doesn't say how the training ended"
        ),
    )
