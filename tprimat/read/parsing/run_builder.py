"""Conversion of records and logged values to a ParsedLog and its Run.

A log format's reader finds records and statements; the work that is the same for every log format
is done here: the parts of the Run, what follows from the rest, rates checked against batch,
sequence, time and GPUs, and a reason for everything that stays unknown.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, get_args

import msgspec

from tprimat.analysis.records import LEAST_PLAIN, OTHER, RESOLUTION, longer
from tprimat.catalog import gpus, models
from tprimat.notes import Note, NoteValue, noted
from tprimat.read.parsing import following, hints, placing, records, remarks, stamps, timeline
from tprimat.read.parsing.parsed_log import Given, ParsedLog
from tprimat.read.parsing.placing import Row, TimedRow
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.remarks import Health, is_finite
from tprimat.read.parsing.text import NO_YEAR
from tprimat.read.parsing.values import LoggedValues
from tprimat.redaction import redacted_start
from tprimat.results.account import Entry, Timing
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP, FieldValues, Figures
from tprimat.results.outcome import Cause, Outcome, ending_of, outcome_of
from tprimat.results.run import (
    SERIES,
    Data,
    Environment,
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Platform,
    Run,
    SoftwareStack,
    Source,
    TrainingConfig,
)
from tprimat.results.trace import Trace
from tprimat.settings.rows import NEEDED
from tprimat.text import join_names

SeriesAndDoubts = tuple[FieldValues, list[Note]]
"""The series of a result, and notes on doubtful values in them."""

Series = Mapping[str, Any]
"""The series of a result, by field."""

COARSE = 0.1
"""s. The resolution of a finer clock is far below what steps vary by."""

_SIZES = {
    "global_batch_size": "global batch size",
    "sequence_length": "sequence length",
    "num_gpus": "number of GPUs",
}
_SUGGESTED = frozenset({"length-suggested", "length-fits-no-rate"})
"""Codes of the notes on a size that printed rates suggest; where one follows, nothing is
suggested.
"""
_SHAPE_COUNTS = (
    "num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "head_dim", "ffn_hidden_size",
    "vocab_size", "num_experts", "experts_per_token", "num_parameters", "trainable_parameters",
)  # fmt: skip
_SPREAD = tuple(
    f"{kind}_parallel_size"
    for kind in ("tensor_model", "pipeline_model", "context", "expert_model", "data")
)
"""Over how many GPUs a training is spread; the first three share layers."""
_PLATFORMS = {"NVIDIA": "nvd", "AMD": "amd"}

WHOLE_RUN = Timing(
    kind="stamps",
    clock="the source's own clock, from the start of the training to its end",
    covers="the whole training: start-up, evaluation and saving too",
    over_ranks="rank 0",
)
"""The timing of a source that states the time of the whole training alone."""


class WholeRun(NamedTuple):
    """The mean time of the steps of a whole training, s: of `steps` steps, the last of which has
    this number; and its line, or 0.
    """

    last: int
    steps: int
    seconds: float
    line: int = 0

    @property
    def record(self) -> FieldValues:
        """The series of a training without records: one that averages all its steps."""
        columns: FieldValues = dict.fromkeys(SERIES, (None,))
        columns |= {"steps": (self.last,), "window_steps": (self.steps,)}
        columns |= {"step_times": (self.seconds,), "lines": (self.line or None,)}
        return columns

    def block(self, spent: float) -> Entry:
        """Return the stretch of training that all its steps are, without what evaluations took of
        its time, s.
        """
        return Entry(
            kind="training",
            start=round(spent, 6),
            duration=round(self.seconds * self.steps - spent, 6),
            line=self.line or None,
            first_step=self.last - self.steps + 1,
            last_step=self.last,
        )


timer = functools.partial(Timing, kind="timer", over_ranks="rank 0")
"""The timing of a source that states step times; by a clock of rank 0 unless `over_ranks` is given.
"""


@dataclasses.dataclass
class RunBuilder:
    """Builder of the Run of one training whose source is read completely.

    A log format whose records or endings need more overrides series(), outcome() or unknowns().

    Attributes:
        framework, log_format: as in a result.
        training: its records and their context; its statements by a result's fields.
        timing: the definition of a step time in this source.
        shift: 1 if the source counts steps from 0.
        lines: whether the source has lines that a person can look up.
        rate: native rate per GPU that counts every position of a sequence, so that it must be what
            batch, sequence, time and GPUs give; None if the source counts others.
        figures: values of the whole training, by names of native_metrics.
        memory: fields of MemoryMetrics, GB.
        gpu: fields of GpuInfo that are no statements.
        breakdown: seconds by part.
        trace: where the time of profiled steps goes.
        versions: versions of packages, by name.
        settings: further settings of the training, in the framework's own names.
        unknown: why something is unknown, by the field's name; a warning if it stays so.
        ended: whether the source states that the training was done; None if records and marks
            decide it.
        cause: cause of its end, if the source records that outside of its lines; else None.
        fixed: its end, if the source isn't a log of a training at all.
        whole: the mean step time of the whole training, which counts if nothing else has times.
        timestamp: if the source states it otherwise than by the first time in it.
        shape: shape of the model, if it isn't among the statements; else None.
        label: the source's own name for this system, or None.
        of_training: whether it is worth a warning that the source doesn't state model, sizes and
            time.
        left_out: warnings on values that the shape lacks on purpose.
        remarks: warnings that go last.
        notes: actions of the reader that leave no doubt.
    """

    framework: str
    log_format: str
    training: LoggedTraining
    timing: Timing
    shift: int = 0
    lines: bool = True
    rate: str | None = "tokens_per_second_per_gpu"
    figures: Figures = dataclasses.field(default_factory=dict)
    memory: dict[str, float] = dataclasses.field(default_factory=dict)
    gpu: FieldValues = dataclasses.field(default_factory=dict)
    breakdown: Figures = dataclasses.field(default_factory=dict)
    trace: Trace | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    settings: FieldValues = dataclasses.field(default_factory=dict)
    unknown: dict[str, Note] = dataclasses.field(default_factory=dict)
    ended: bool | None = None
    cause: Cause | None = None
    fixed: Outcome | None = None
    whole: WholeRun | None = None
    timestamp: str | None = None
    shape: ModelConfig | None = None
    label: str | None = None
    of_training: bool = True
    left_out: list[Note] = dataclasses.field(default_factory=list)
    remarks: list[Note] = dataclasses.field(default_factory=list)
    notes: tuple[str, ...] = ()
    prints_each_loss: ClassVar[bool] = False

    @property
    def stated(self) -> LoggedValues:
        """What the source states, by a result's fields."""
        return self.training.around.stated

    def reading(self) -> ParsedLog:
        """Return the parsed log, with the global batch size that follows from the source's
        statements.
        """
        notes = (*self.notes, *self.training.notes())
        stated = dict(self.stated)
        batch = self.sizes({})[0].global_batch_size
        part = stated.get("micro_batch_size") or stated.get("tokens_per_step")
        if batch and part:
            stated.setdefault("global_batch_size", dataclasses.replace(part, value=batch, weight=0))
        events = self.training.around.events
        resumed = next((mark.step for mark in events.marks if mark.kind == "resume"), None)
        stamp = self.training.around.first_stamp
        dated = None
        if stamp is not None and stamp.time.year != NO_YEAR:
            dated = stamp.seconds, stamp.time.tzinfo is not None
        return ParsedLog(
            self.training.step_count, stated, notes, self.run, resumed or None, events.first, dated
        )

    def run(self, given: Given) -> Run:
        """Return the Run; values that the user has `given`, by field, take precedence over the
        source's.
        """
        stated = self.stated
        errors = []
        if (named := stated.word("device_name")) and gpus.is_error(named):
            errors.append(Note("gpu-name-is-error", {"error": redacted_start(named, 120)}))
            del stated["device_name"]
        sizes, spread = self.sizes(given)
        shape = self.shape or shape_of(stated)
        model, scale, doubts = self.model(shape, given)
        series, warnings = self.series(sizes, [*self.left_out, *doubts])
        if followed := self.following(series, sizes, warnings):
            sizes, spread = self.sizes({**given, **followed})
        warnings += remarks.check_rates(series, self.rate, sizes)
        tokens = stated.count("tokens_per_step")
        counts = {**sizes.known(), **spread.known(), "tokens_per_step": tokens}
        warnings += [*errors, *contradictions(counts), *self.unknowns(sizes, series)]
        # A range instead of a count makes the size unknown, and one that the user gives contradicts
        # it.
        for name, words in _SIZES.items():
            if (span := stated.word(name)) and name not in counts:
                warnings.append(Note("size-changes", {"size": words, "values": span}))
        outcome = self.fixed or self.outcome(sizes.max_steps, series, warnings)
        timestamp = self.started(warnings)
        warnings += self.remarks
        timing, times, notes = self.clock(series, warnings)
        if self.whole and not any(series["step_times"]):
            series, timing, times = self.averaged(self.whole, series, timing, times, warnings)
        return Run(
            status=outcome.status,
            status_reason=outcome.reason,
            ending=outcome.ending,
            platform=platform_of(stated),
            framework=self.framework,
            model=model,
            scale=scale,
            label=self.label,
            timestamp=timestamp,
            notes=noted((*notes, *warnings)),
            source=Source(kind="log", dialect=self.log_format),
            gpu_info=gpu_info_of(stated, sizes.num_gpus, self.gpu),
            environment=self.environment(),
            model_config=shape,
            training_config=sizes,
            parallelism_config=spread,
            optimizer=optimizer_of(stated),
            data=Data(kind=stated.word("data")),
            timing=timing,
            framework_config=self.settings,
            memory_metrics=MemoryMetrics(
                **{name: gb for name, gb in self.memory.items() if 0 <= gb < math.inf}
            ),
            breakdown=_finite(self.breakdown),
            trace=self.trace,
            timeline=times,
            **series,
        )

    def following(
        self, series: Series, sizes: TrainingConfig, warnings: list[Note]
    ) -> dict[str, int]:
        """Return the unknown sizes that follow from printed rates; may change warnings.

        Sizes whose lack the source explains don't follow: they change, or are those of something
        else.
        """
        explained = [name for name in _SIZES if name in self.unknown or self.stated.word(name)]
        # The user names the columns and the parts of a pattern.
        rate = following.ONE if self.framework == "own" else self.rate
        found, notes = following.sizes_that_follow(series, sizes, rate, explained)
        if found:
            warnings[:] = [note for note in warnings if note.code not in _SUGGESTED]
        warnings += notes
        return found

    def clock(
        self, series: dict[str, Any], warnings: list[Note]
    ) -> tuple[Timing, tuple[Entry, ...], list[Note]]:
        """Return the definition of a step time, the timeline, and the notes of the Run. May set
        step times by the time stamps, sets native metrics, and may change warnings.
        """
        rows = list(self.rows(series))
        timing = self.timing
        (code, share), impossible = self.stamps(rows, series)
        if code == stamps.OWN_CLOCK:
            seconds = [time and round(time * share, 9) for time in series["step_times"]]
            series["step_times"] = tuple(seconds)
            clock = "the time stamps of the log"
            timing = msgspec.structs.replace(timing, kind="stamps", clock=clock)
        times = self.entries(rows, warnings)
        coarse = min((fine for _, clock, fine in rows if clock is not None), default=0.0)
        is_of_stamps = code == stamps.OWN_CLOCK or stamps.can_be_made_of(series, coarse)
        if timing.kind == "timer" or coarse < COARSE or not is_of_stamps:
            coarse = 0.0
        held, holds = self.held(series, impossible, coarse)
        native = {**_finite(self.figures), **series["native_metrics"]}
        if coarse:
            native[RESOLUTION] = coarse
        if held:
            native[OTHER] = tuple(held.get(index) for index in range(len(series["steps"])))
        series["native_metrics"] = native
        notes = remarks.diverged(self.health(series), prints_each_loss=self.prints_each_loss)
        by_stamps = [Note(code, {"share": share})] if code else []
        hinted = remarks.hinted(self.training.around.hinted)
        return timing, times, [*notes, *by_stamps, *holds, *hinted]

    def entries(self, rows: Sequence[TimedRow], warnings: list[Note]) -> tuple[Entry, ...]:
        """Return the timeline; may change warnings."""
        events = self.training.around.events
        times = timeline.build_timeline(rows, events, self.training.again)
        if times and (changed := timeline.clock_change(rows, events)):
            times = ()
            warnings.append(changed)
        if any(max(abs(entry.start), entry.duration) > LONGEST_STEP for entry in times):
            # Broken times, which no training spans.
            times = ()
        if cost := timeline.lost(times):
            warnings.insert(0, cost)
        if any(entry.steps for entry in times):
            warnings[:] = [without_printed_times(note) for note in warnings]
        return times

    def averaged(
        self,
        whole: WholeRun,
        series: FieldValues,
        timing: Timing,
        times: tuple[Entry, ...],
        warnings: list[Note],
    ) -> tuple[FieldValues, Timing, tuple[Entry, ...]]:
        """Return series, timing and timeline of a training without step times, with the mean of its
        whole time where no stretch of training has one; may change warnings.

        100 steps in 64 s with evaluations of 30 s take 0.34 s each.
        """
        spent = math.fsum(entry.duration for entry in times)
        seconds = whole.seconds - spent / whole.steps
        if seconds <= 0 or not {entry.kind for entry in times} <= {"evaluation", "checkpoint"}:
            return series, timing, times
        warnings[:] = [note for note in warnings if note.code != "no-step-times"]
        included = "start-up and saving" if times else "start-up, evaluation and saving"
        counts: dict[str, NoteValue] = {"steps": whole.steps, "seconds": seconds}
        warnings.append(Note("whole-run-mean", {**counts, "included": included}))
        if series["steps"]:
            return series, timing, (*times, whole.block(spent))
        return {**series, **whole.record}, WHOLE_RUN, times

    def environment(self) -> Environment:
        """Return the versions of packages, and the host."""
        hinted = self.training.around.hinted
        versions = {}
        for package, hint in hints.VERSIONS.items():
            if hint in hinted:
                versions[package] = hinted[hint].value
        return Environment(
            versions={**versions, **self.versions}, hostname=self.stated.word("hostname")
        )

    def sizes(self, given: Given) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return what a step is and how it is spread."""
        return sizes_of(self.stated, given)

    def model(self, shape: ModelConfig, given: Given) -> tuple[str | None, str | None, list[Note]]:
        """Return model and scale, and warnings if they are doubtful."""
        called = given.get("model")
        if not self.of_training:
            return called, None, []
        model, scale, doubts = known_model(shape, self.stated.word("model"))
        if called and called != model:
            return (called, scale, [])
        return (model, scale, doubts)

    def series(self, sizes: TrainingConfig, doubts: list[Note]) -> SeriesAndDoubts:
        """Return the series of a Run as its arguments, and warnings, including `doubts` of the
        model.
        """
        kept = self.training.ordered()
        warnings = remarks.warnings_of(self.training)
        if self.shift and kept:
            warnings.append(Note("steps-counted-from-0"))
        warnings += doubts
        series = records.series(kept, shift=self.shift)
        if not self.lines:
            series["lines"] = (None,) * len(kept)
        return series, warnings

    def health(self, series: Series) -> list[Health]:
        """Return by record whether its steps trained, as far as it shows that."""
        bad = [record.not_finite for record in self.training.ordered()]
        columns = (series["steps"], series["loss_values"], series["grad_norms"], bad)
        return [
            Health(step, is_finite(loss, "loss" in names), is_finite(norm, "grad_norm" in names))
            for step, loss, norm, names in zip(*columns, strict=True)
        ]

    def unknowns(self, sizes: TrainingConfig, series: Series) -> list[Note]:
        """Return a warning, with the reason, for everything that stays unknown."""
        warnings = []
        without = []
        for name in _SIZES:
            if not (getattr(sizes, name) or self.stated.word(name)) and self.of_training:
                without.append(name)
        if series["steps"] and all(seconds is None for seconds in series["step_times"]):
            warnings.append(self.unknown.get("step_times", Note("step-times-absent")))
        warnings += [self.unknown[name] for name in without if name in self.unknown]
        if unstated := [name for name in without if name not in self.unknown]:
            *others, last = [_SIZES[name] for name in unstated]
            names, it = (f"{', '.join(others)} and {last}", "them") if others else (last, "it")
            # --per_device_generation_batch_size 2 states a size, though not which one.
            if unread := self.stated.word("unread_sizes"):
                other = f" in a form that is read ({unread})"
            else:
                other = ""
            warnings.append(
                Note(
                    "sizes-unknown",
                    {"sizes": tuple(unstated), "names": names, "them": it, "form": other},
                )
            )
        if not self.stated.word("device_name"):
            warnings.append(Note("gpu-unstated"))
        return warnings + [
            why for name, why in self.unknown.items() if name not in (*_SIZES, "step_times")
        ]

    def outcome(self, planned: int | None, series: Series, warnings: list[Note]) -> Outcome:
        """Return how it ended; may add warnings."""
        if self.ended is True:
            causes = self.training.around.causes
            warnings += records.afterwards(causes)
            return outcome_of(ending_of(ended=True, asked=causes.asked))
        done = series["steps"][-1] if series["steps"] else None
        return records.outcome(self.training, planned, done, warnings, self.cause)

    def started(self, warnings: list[Note]) -> str | None:
        """Return when the training began, with its offset; None, and a warning, if that is
        unknown.
        """
        if self.timestamp or not self.of_training:
            return self.timestamp
        return records.timestamp(self.training.around.first_stamp, warnings)

    def held(
        self, series: Series, impossible: Sequence[int], coarse: float
    ) -> tuple[dict[int, float], list[Note]]:
        """Return what records hold that isn't training, s by index, and notes; `impossible` steps
        hold too much.
        """
        steps, times, windows = (series[name] for name in ("steps", "step_times", "window_steps"))
        beside = placing.beside(
            series["lines"], steps, self.training.around.events, self.training.again
        )
        for step in impossible:
            beside.setdefault(steps.index(step), {})["impossible"] = 0.0
        starts = [index for index, kinds in beside.items() if "start" in kinds]
        held = longer(times, windows, beside, starts, coarse)
        if self.timing.kind == "stamps" and len(steps) - len(beside) < LEAST_PLAIN:
            # Nothing shows what a plain record takes, so what is stated counts: if the log states
            # that an evaluation took 46.7 s, these are taken from the 60 s between two records.
            spent = {index: sum(kinds.values()) for index, kinds in beside.items()}
            held = {}
            for index, seconds in spent.items():
                if 0 < seconds < (times[index] or 0) * windows[index]:
                    held[index] = seconds
        if not held:
            return held, []
        kinds: set[str] = set()
        for index in held:
            kinds.update(beside.get(index, ("start",)))
        what = join_names([placing.HELD[kind] for kind in placing.HELD if kind in kinds], word="or")
        where = remarks.spans((steps[index], steps[index]) for index in sorted(held))
        return held, [Note("steps-hold-other", {"steps": where, "what": what})]

    def stamps(
        self, rows: Sequence[TimedRow], series: Series
    ) -> tuple[tuple[str, float], tuple[int, ...]]:
        """Return the contradiction between the time stamps of the records and their printed times,
        a code and a quotient, and the single steps that they show to be impossible; an empty code
        if there is none.
        """
        is_elapsed = any(clock == "elapsed" for _, clock, _ in rows)
        kind = self.timing.kind
        if kind == "stamps" and is_elapsed:
            # The one is made of the other.
            return ("", 1.0), ()
        steps = series["steps"]
        windows = series["window_steps"]
        if is_elapsed:
            windows = [later - earlier for earlier, later in itertools.pairwise((0, *steps))]
        times = {}
        for step, seconds, window in zip(steps, series["step_times"], windows, strict=True):
            times[step] = (seconds, 1 if kind == "sampled" else window)
        apart = [*self.training.again, *(mark.line for mark in self.training.around.events.marks)]
        contradiction = stamps.contradiction(rows, times, apart)
        if contradiction is None:
            return ("", 1.0), stamps.impossible(rows, times, apart)
        code, share = contradiction
        # A tracker writes rows at times of its own, and only the user knows the meaning of a column
        # or pattern of theirs.
        if is_elapsed or (code == stamps.OWN_CLOCK and self.framework == "own"):
            code = stamps.CONTRADICT
        return (code, share), ()

    def rows(self, series: Series) -> Iterable[TimedRow]:
        """Yield the records, those that a restart repeats too, with times for build_timeline()."""
        windows = [(record, record.window) for record in self.training.ordered()]
        if self.lines:
            # Without lines their order among the events is unknown.
            windows += [(record, None) for record in self.training.lost]
        kind = self.timing.kind
        for record, window in sorted(windows, key=lambda pair: (pair[0].line, pair[0].step)):
            row = Row(
                record.step + self.shift,
                record.line,
                0.0,
                None if kind == "stamps" else record.seconds,
                window if kind == "timer" else None,
            )
            elapsed = record.figure("elapsed_seconds") or record.figure("cumulative_train_seconds")
            if (stamp := record.stamp) is not None:
                has_zone = stamp.time.tzinfo is not None
                yield row._replace(at=stamp.seconds), has_zone, stamp.resolution
            elif elapsed is not None:
                yield row._replace(at=elapsed), "elapsed", 1.0 if elapsed == int(elapsed) else 1e-3
            else:
                yield row, None, 0.0


def known_model(config: ModelConfig, name: str | None) -> tuple[str | None, str | None, list[Note]]:
    """Return model and scale as a result has them, with warnings if they are doubtful.

    A shape decides over a name: a model with the name of a large one and four layers is not the
    large one.
    """
    full = models.with_shape(config)
    if full:
        return full.name, "full", []
    meant = models.recognize(name) if name else None
    if meant is None:
        return name, None, [] if name else [Note("model-unnamed")]
    if config.num_layers is None:
        return meant.name, None, [Note("shape-unstated", {"name": name})]
    differing = []
    for field in NEEDED:
        stated = getattr(config, field)
        usual = getattr(meant.shape, field)
        if stated and usual and stated != usual:
            differing.append(f"{field} {stated}, not {usual}")
    why = ", ".join(differing) or "its shape is stated only in part"
    return name, None, [Note("shape-differs", {"name": name, "model": meant.title, "why": why})]


def sizes_of(
    stated: LoggedValues, given: Given, *, infer: bool = True
) -> tuple[TrainingConfig, ParallelismConfig]:
    """Return what a step is and how it is spread, with what follows from the rest.

    Values `given` by field take precedence over stated ones. If `infer`, GPUs that share no layer
    count as replicas: 64 GPUs of which 8 share each layer are 8 replicas.
    """
    world = given.get("num_gpus") or stated.count("num_gpus")
    spread = {name: stated.count(name) for name in _SPREAD}
    split = [spread[name] for name in _SPREAD[:3]]
    replicas = spread["data_parallel_size"]
    if infer and replicas is None and (any(split) or stated.value("only_data_parallel") is True):
        replicas = _quotient(world, *(size or 1 for size in split))
        spread["data_parallel_size"] = replicas
    micro = stated.count("micro_batch_size")
    accumulation = stated.count("gradient_accumulation_steps")
    length = given.get("sequence_length") or stated.count("sequence_length")
    batch = given.get("global_batch_size") or stated.count("global_batch_size")
    batch = batch or _quotient(stated.count("tokens_per_step"), length)
    if batch is None and micro and replicas and accumulation:
        batch = micro * replicas * accumulation
    accumulation = accumulation or _quotient(batch, micro, replicas)
    seed = stated.value("seed")
    packing = stated.value("packing")
    return TrainingConfig(
        max_steps=stated.count("max_steps"),
        global_batch_size=batch,
        micro_batch_size=micro,
        sequence_length=length,
        num_gpus=world,
        **{name: stated.word(name) for name in ("precision", "precision_detail", "recomputation")},
        packing=packing if isinstance(packing, bool) else None,
        seed=seed if type(seed) is int and abs(seed) < 2**63 else None,
    ), ParallelismConfig(
        strategy_name=stated.word("strategy_name"),
        gradient_accumulation_steps=accumulation,
        **spread,
    )


def _quotient(whole: int | None, *parts: int | None) -> int | None:
    """Return a whole divided by the product of its parts; None if unknown or not an integer."""
    share = math.prod(part or 0 for part in parts)
    if whole and share and whole % share == 0:
        return whole // share
    return None


_PRODUCTS = (
    ("num_gpus", "data_parallel_size", *_SPREAD[:3]),
    ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "data_parallel_size"),
    ("tokens_per_step", "global_batch_size", "sequence_length"),
)


def contradictions(sizes: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note for each known size that can't be the product of its parts."""
    for whole, *names in _PRODUCTS:
        parts = {name: sizes[name] for name in names if sizes.get(name)}
        product = math.prod(parts.values())
        size = sizes.get(whole)
        if size and (size % product or (len(parts) == len(names) and size != product)):
            factors = " × ".join(f"{_words(name)} {part}" for name, part in parts.items())
            yield Note("sizes-contradict", {"size": f"{_words(whole)} {size}", "parts": factors})


def _words(name: str) -> str:
    return _SIZES.get(name, name.replace("_", " "))


def without_printed_times(note: Note) -> Note:
    """Return the note that step times are missing as it is where the time stamps give the speed."""
    if note.code == "no-step-times":
        return Note("no-printed-step-times", note.fields)
    return note


def shape_of(stated: LoggedValues) -> ModelConfig:
    """Return the model's shape, as far as it is stated."""
    fields: FieldValues = {name: stated.count(name) for name in _SHAPE_COUNTS}
    for name in ("tie_word_embeddings", "gated_ffn"):
        if isinstance(stated.value(name), bool):
            fields[name] = stated.value(name)
    is_stated = any(value is not None for value in fields.values())
    return ModelConfig(**fields, source="the log" if is_stated else None)


def gpu_info_of(stated: LoggedValues, count: int | None, fields: FieldValues) -> GpuInfo:
    """Return the statements on the GPUs, with further `fields`."""
    return GpuInfo(
        device_name=stated.word("device_name"),
        device_count=count,
        software_stack=_one_of(SoftwareStack, stated.word("software_stack")),
        software_version=stated.word("software_version"),
        pytorch_version=stated.word("pytorch_version"),
        **fields,
    )


def optimizer_of(stated: LoggedValues) -> Optimizer:
    """Return the stated optimizer settings."""
    rate = stated.number("peak_learning_rate")
    names = ("beta1", "beta2", "epsilon", "weight_decay", "gradient_clipping")
    return Optimizer(
        name=stated.word("optimizer"),
        learning_rate=rate if rate is not None and rate >= 0 else None,
        schedule=stated.word("schedule"),
        **{name: stated.number(name) for name in names},
    )


def platform_of(stated: LoggedValues) -> Platform | None:
    """Return the stated platform, else what the device's name shows."""
    vendor = gpus.vendor(stated.word("device_name") or "")
    word = stated.word("platform") or _PLATFORMS.get(vendor or "")
    platform: Platform | None = _one_of(Platform, word)
    return platform


def _one_of(literal: Any, value: str | None) -> Any:
    """Return a value if it is one of a Literal's, None otherwise."""
    return value if value in get_args(literal) else None


def _finite(figures: Mapping[str, float | None]) -> Figures:
    finite: Figures = {}
    for name, value in figures.items():
        is_finite = value is not None and abs(value) <= LARGEST_VALUE
        finite[name] = value if is_finite else None
    return finite
