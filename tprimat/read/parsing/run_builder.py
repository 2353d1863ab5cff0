"""Conversion of records and logged values to a ParsedLog and its Run.

A log format's reader finds records and statements; what is the same for every log format is done
here: the parts of the Run, what follows from the rest, rates checked against batch, sequence, time
and GPUs, and a reason for everything that stays unknown.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args

import msgspec

from tprimat.analysis.records import LEAST_PLAIN, OTHER, RESOLUTION, longer
from tprimat.catalog import gpus, models
from tprimat.notes import Note, Told, noted
from tprimat.read.parsing import hints, placing, records, remarks, stamps, timeline
from tprimat.read.parsing.parsed_log import Given, ParsedLog
from tprimat.read.parsing.placing import Row, TimedRow
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.remarks import Health, is_finite
from tprimat.read.parsing.text import NO_YEAR
from tprimat.read.parsing.values import LoggedValues
from tprimat.redaction import redacted_start
from tprimat.results.account import Timing
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP, FieldValues, Figures
from tprimat.results.outcome import Cause, Outcome, ending_of, outcome_of
from tprimat.results.run import (
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

SeriesAndDoubts = tuple[FieldValues, list[Told]]
"""The series of a result, and what is doubtful about them."""

Series = Mapping[str, Any]
"""The series of a result, by field."""

COARSE = 0.1
"""s. The resolution of a finer clock is far below what steps vary by."""

_SIZES = {
    "global_batch_size": "global batch size",
    "sequence_length": "sequence length",
    "num_gpus": "number of GPUs",
}
_SHAPE_COUNTS = (
    "num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "head_dim", "ffn_hidden_size",
    "vocab_size", "num_experts", "experts_per_token", "num_parameters", "trainable_parameters",
)  # fmt: skip
_SPREAD = ("tensor_model", "pipeline_model", "context", "expert_model", "data")
_PLATFORMS = {"NVIDIA": "nvd", "AMD": "amd"}

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
        timing: what a step time of this source is.
        shift: 1 if the source counts steps from 0.
        lines: whether the source has lines that a person can look up.
        rate: native rate per GPU that counts every position of a sequence, so that it must be what
            batch, sequence, time and GPUs give; None if the source counts others.
        figures: of the whole training, by names of native_metrics.
        memory: fields of MemoryMetrics, GB.
        gpu: fields of GpuInfo that are no statements.
        breakdown: seconds by part.
        trace: where the time of profiled steps goes.
        versions: of packages.
        settings: further settings of the training, in the framework's own names.
        unknown: why something is unknown, by the field's name; a warning if it stays so.
        ended: whether the source says that the training was done; None: records and marks tell.
        cause: of its end, if the source records that beside its lines.
        fixed: its end, if the source isn't a log of a training at all.
        timestamp: if the source states it otherwise than by the first time in it.
        shape: of the model, if it isn't among the statements.
        label: what the source itself calls this side.
        of_training: whether it is worth a warning that the source doesn't state model, sizes and
            time.
        left_out: warnings of what the shape lacks on purpose.
        remarks: warnings that go last.
        notes: what was done that leaves no doubt.
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
    unknown: dict[str, Told] = dataclasses.field(default_factory=dict)
    ended: bool | None = None
    cause: Cause | None = None
    fixed: Outcome | None = None
    timestamp: str | None = None
    shape: ModelConfig | None = None
    label: str | None = None
    of_training: bool = True
    left_out: list[Told] = dataclasses.field(default_factory=list)
    remarks: list[Told] = dataclasses.field(default_factory=list)
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
        parts = (stated[name] for name in ("micro_batch_size", "tokens_per_step") if name in stated)
        if (batch := self.sizes({})[0].global_batch_size) and (part := next(parts, None)):
            stated.setdefault("global_batch_size", dataclasses.replace(part, value=batch, weight=0))
        events = self.training.around.events
        resumed = next((mark.step for mark in events.marks if mark.kind == "resume"), None)
        stamp = self.training.around.first_stamp
        has_date = stamp is not None and stamp.time.year != NO_YEAR
        dated = (stamp.seconds, stamp.time.tzinfo is not None) if stamp and has_date else None
        return ParsedLog(
            self.training.step_count, stated, notes, self.run, resumed or None, events.first, dated
        )

    def run(self, given: Given) -> Run:
        """Return the Run; values that the user has `given`, by field, take precedence over the
        source's.
        """
        stated = self.stated
        around = self.training.around
        errors = []
        if (named := stated.word("device_name")) and gpus.is_error(named):
            errors.append(
                "in the place of the GPU's name the source has an error text:"
                f" {redacted_start(named, 120)}"
            )
            del stated["device_name"]
        sizes, spread = self.sizes(given)
        shape = self.shape or shape_of(stated)
        model, scale, doubts = self.model(shape, given)
        series, warnings = self.series(sizes, [*self.left_out, *doubts])
        warnings += remarks.check_rates(series, self.rate, sizes)
        known = {
            **sizes.known(),
            **spread.known(),
            "tokens_per_step": stated.count("tokens_per_step"),
        }
        warnings += [*errors, *contradictions(known), *self.unknowns(sizes, series)]
        # A range instead of a count makes the size unknown, and one that the user gives contradicts
        # it.
        for name, words in _SIZES.items():
            if (span := stated.word(name)) and name not in known:
                warnings.append(Note("size-changes", {"size": words, "values": span}))
        outcome = self.fixed or self.outcome(sizes.max_steps, series, warnings)
        timestamp = self.started(warnings)
        warnings += self.remarks
        rows = list(self.rows(series))
        timing = self.timing
        (code, share), impossible = self.stamps(rows, series)
        if code == stamps.OWN_CLOCK:
            series["step_times"] = tuple(
                time and round(time * share, 9) for time in series["step_times"]
            )
            timing = msgspec.structs.replace(
                timing, kind="stamps", clock="the time stamps of the log"
            )
        times = timeline.of(rows, around.events, self.training.again)
        if times and (changed := timeline.clock_change(rows, around.events)):
            times = ()
            warnings.append(changed)
        if any(max(abs(entry.start), entry.duration) > LONGEST_STEP for entry in times):
            # Broken times, which no training spans.
            times = ()
        if cost := timeline.lost(times):
            warnings.insert(0, cost)
        if any(entry.steps for entry in times):
            warnings = [without_printed_times(note) for note in warnings]
        coarse = min((each for _, clock, each in rows if clock is not None), default=0.0)
        is_of_stamps = code == stamps.OWN_CLOCK or stamps.can_be_made_of(series, coarse)
        coarse = coarse if timing.kind != "timer" and coarse >= COARSE and is_of_stamps else 0.0
        held, holds = self.held(series, impossible, coarse)
        series["native_metrics"] = {
            **_finite(self.figures),
            **series["native_metrics"],
            **({RESOLUTION: coarse} if coarse else {}),
            **(
                {OTHER: tuple(held.get(place) for place in range(len(series["steps"])))}
                if held
                else {}
            ),
        }
        stack = stated.word("software_stack")
        hinted = around.hinted
        versions = {
            name: hinted[each].value for name, each in hints.VERSIONS.items() if each in hinted
        } | self.versions
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
            notes=noted(
                (
                    *remarks.diverged(self.health(series), prints_each_loss=self.prints_each_loss),
                    *([Note(code, {"share": share})] if code else ()),
                    *holds,
                    *remarks.hinted(hinted),
                    *warnings,
                )
            ),
            source=Source(kind="log", dialect=self.log_format),
            gpu_info=GpuInfo(
                device_name=stated.word("device_name"),
                device_count=sizes.num_gpus,
                software_stack=next(
                    (each for each in get_args(SoftwareStack) if each == stack), None
                ),
                software_version=stated.word("software_version"),
                pytorch_version=stated.word("pytorch_version"),
                **self.gpu,
            ),
            environment=Environment(versions=versions, hostname=stated.word("hostname")),
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

    def sizes(self, given: Given) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return what a step is and how it is spread."""
        return sizes_of(self.stated, given)

    def model(self, shape: ModelConfig, given: Given) -> tuple[str | None, str | None, list[Told]]:
        """Return model and scale, and warnings of what is doubtful of them."""
        called = given.get("model")
        if not self.of_training:
            return called, None, []
        model, scale, doubts = known_model(shape, self.stated.word("model"))
        if called and called != model:
            return (called, scale, [])
        return (model, scale, doubts)

    def series(self, sizes: TrainingConfig, doubts: list[Told]) -> SeriesAndDoubts:
        """Return the series of a Run as its arguments, and warnings, including `doubts` of the
        model.
        """
        found = self.training.ordered()
        warnings = remarks.warnings_of(self.training)
        if self.shift and found:
            warnings.append("step numbers shifted by one: the source counts from 0")
        warnings += doubts
        series = records.series(found, shift=self.shift)
        if not self.lines:
            series["lines"] = (None,) * len(found)
        return series, warnings

    def health(self, series: Series) -> list[Health]:
        """Return what each record says of whether its steps trained."""
        bad = [each.not_finite for each in self.training.ordered()]
        columns = (series["steps"], series["loss_values"], series["grad_norms"], bad)
        return [
            Health(step, is_finite(loss, "loss" in names), is_finite(norm, "grad_norm" in names))
            for step, loss, norm, names in zip(*columns, strict=True)
        ]

    def unknowns(self, sizes: TrainingConfig, series: Series) -> list[Told]:
        """Return a warning, with the reason, for everything that stays unknown."""
        warnings = []
        without = []
        for name in _SIZES:
            if not (getattr(sizes, name) or self.stated.word(name)) and self.of_training:
                without.append(name)
        if series["steps"] and all(seconds is None for seconds in series["step_times"]):
            warnings.append(self.unknown.get("step_times", "no step times in the source"))
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

    def outcome(self, planned: int | None, series: Series, warnings: list[Told]) -> Outcome:
        """Return how it ended; may add warnings."""
        if self.ended is True:
            causes = self.training.around.causes
            warnings += records.afterwards(causes)
            return outcome_of(ending_of(ended=True, asked=causes.asked))
        done = series["steps"][-1] if series["steps"] else None
        return records.outcome(self.training, planned, done, warnings, self.cause)

    def started(self, warnings: list[Told]) -> str | None:
        """Return when the training began, with its offset; None, and a warning, if that is
        unknown.
        """
        if self.timestamp or not self.of_training:
            return self.timestamp
        return records.timestamp(self.training.around.first_stamp, warnings)

    def held(
        self, series: Series, impossible: Sequence[int], coarse: float
    ) -> tuple[dict[int, float], list[Note]]:
        """Return what records hold that isn't training, s by place, and notes; `impossible` steps
        hold too much.
        """
        steps, times, windows = (series[name] for name in ("steps", "step_times", "window_steps"))
        found = placing.beside(
            series["lines"], steps, self.training.around.events, self.training.again
        )
        for step in impossible:
            found.setdefault(steps.index(step), {})["impossible"] = 0.0
        starts = [place for place, kinds in found.items() if "start" in kinds]
        held = longer(times, windows, found, starts, coarse)
        if self.timing.kind == "stamps" and len(steps) - len(found) < LEAST_PLAIN:
            held = {
                place: spent
                for place in found
                if 0 < (spent := sum(found[place].values())) < (times[place] or 0) * windows[place]
            }
        if not held:
            return held, []
        kinds = {kind for place in held for kind in found.get(place, ("start",))}
        what = join_names(
            [words for kind, words in placing.HELD.items() if kind in kinds], word="or"
        )
        where = remarks.spans((steps[place], steps[place]) for place in sorted(held))
        return held, [Note("steps-hold-other", {"steps": where, "what": what})]

    def stamps(
        self, rows: list[TimedRow], series: Series
    ) -> tuple[tuple[str, float], tuple[int, ...]]:
        """Return what the time stamps of the records have against their printed times, a code and a
        quotient, and the single steps that they show to be impossible; an empty code for nothing.
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
        printed = zip(steps, series["step_times"], windows, strict=True)
        times = {}
        for step, seconds, window in printed:
            times[step] = (seconds, 1 if kind == "sampled" else window)
        apart = [*self.training.again, *(mark.line for mark in self.training.around.events.marks)]
        found = stamps.contradiction(rows, times, apart)
        # A tracker has rows when it likes, and of a user's own column or pattern only the user
        # knows what it is.
        if found and (is_elapsed or (found[0] == stamps.OWN_CLOCK and self.framework == "own")):
            found = stamps.CONTRADICT, found[1]
        if found:
            return (found, ())
        return (("", 1.0), stamps.impossible(rows, times, apart))

    def rows(self, series: Series) -> Iterable[TimedRow]:
        """Return the records, those that a restart repeats too, each with what timeline.of() wants
        of its time.
        """
        kept = self.training.ordered()
        # Without lines nobody knows where they were in the order of things.
        lost = [(record, None) for record in self.training.lost if self.lines]
        for record, window in sorted(
            [*((each, each.window) for each in kept), *lost],
            key=lambda pair: (pair[0].line, pair[0].step),
        ):
            seconds = None if self.timing.kind == "stamps" else record.seconds
            row = Row(
                record.step + self.shift,
                record.line,
                0.0,
                seconds,
                window if self.timing.kind == "timer" else None,
            )
            elapsed = record.figure("elapsed_seconds") or record.figure("cumulative_train_seconds")
            if (stamp := record.stamp) is not None:
                yield (
                    row._replace(at=stamp.seconds),
                    stamp.time.tzinfo is not None,
                    stamp.resolution,
                )
            elif elapsed is not None:
                yield row._replace(at=elapsed), "elapsed", 1.0 if elapsed == int(elapsed) else 1e-3
            else:
                yield row, None, 0.0


def known_model(config: ModelConfig, name: str | None) -> tuple[str | None, str | None, list[Told]]:
    """Return model and scale as a result has them, with what is doubtful of them.

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
    pairs = [(field, getattr(config, field), getattr(meant.shape, field)) for field in NEEDED]
    differing = [
        f"{field} {known}, not {full}"
        for field, known, full in pairs
        if known and full and known != full
    ]
    doubt = f"the configuration is named {name}, but the model is not {meant.title}: "
    return name, None, [doubt + (", ".join(differing) or "its shape is stated only in part")]


def sizes_of(
    stated: LoggedValues, given: Given, *, infer: bool = True
) -> tuple[TrainingConfig, ParallelismConfig]:
    """Return what a step is and how it is spread, with what follows from the rest.

    Values `given` by field take precedence over stated ones. If `infer`, GPUs that share no layer
    count as replicas.
    """
    world = given.get("num_gpus") or stated.count("num_gpus")
    spread = {f"{kind}_parallel_size": stated.count(f"{kind}_parallel_size") for kind in _SPREAD}
    micro = stated.count("micro_batch_size")
    accumulation = stated.count("gradient_accumulation_steps")
    replicas = spread["data_parallel_size"]
    split = []
    for kind in ("tensor_model", "pipeline_model", "context"):
        split.append(spread[f"{kind}_parallel_size"])
    if (
        infer
        and replicas is None
        and world
        and (any(split) or stated.value("only_data_parallel") is True)
    ):
        share = math.prod(size or 1 for size in split)
        replicas = world // share if world % share == 0 else None
    batch = given.get("global_batch_size") or stated.count("global_batch_size")
    length = given.get("sequence_length") or stated.count("sequence_length")
    if (
        batch is None
        and (tokens := stated.count("tokens_per_step"))
        and length
        and tokens % length == 0
    ):
        batch = tokens // length
    if batch is None and micro and replicas and accumulation:
        batch = micro * replicas * accumulation
    if accumulation is None and batch and micro and replicas and batch % (micro * replicas) == 0:
        accumulation = batch // (micro * replicas)
    seed = stated.value("seed")
    packing = stated.value("packing")
    spread["data_parallel_size"] = replicas
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


_PRODUCTS = (
    ("num_gpus", "data_parallel_size", *(f"{kind}_parallel_size" for kind in _SPREAD[:3])),
    ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "data_parallel_size"),
    ("tokens_per_step", "global_batch_size", "sequence_length"),
)


def contradictions(sizes: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note for each known size that can't be the product of its parts."""
    for whole, *parts in _PRODUCTS:
        known = [name for name in parts if sizes.get(name)]
        product = math.prod(sizes[name] for name in known)
        if (size := sizes.get(whole)) and (size % product or (known == parts and size != product)):
            factors = " × ".join(f"{_words(name)} {sizes[name]}" for name in known)
            yield Note("sizes-contradict", {"size": f"{_words(whole)} {size}", "parts": factors})


def _words(name: str) -> str:
    return _SIZES.get(name, name.replace("_", " "))


def without_printed_times(note: Told) -> Told:
    """Return the note that step times are missing as it is where the time stamps give the speed."""
    if isinstance(note, Note) and note.code == "no-step-times":
        return Note("no-printed-step-times", note.fields)
    return note


def shape_of(stated: LoggedValues) -> ModelConfig:
    """Return the model's shape, as far as it is stated."""
    fields: FieldValues = {name: stated.count(name) for name in _SHAPE_COUNTS}
    switches = {name: stated.value(name) for name in ("tie_word_embeddings", "gated_ffn")}
    fields |= {name: value for name, value in switches.items() if isinstance(value, bool)}
    known = any(value is not None for value in fields.values())
    return ModelConfig(**fields, source="the log" if known else None)


def optimizer_of(stated: LoggedValues) -> Optimizer:
    """Return the stated optimizer settings."""
    rate = stated.number("peak_learning_rate")
    return Optimizer(
        name=stated.word("optimizer"),
        learning_rate=rate if rate is not None and rate >= 0 else None,
        schedule=stated.word("schedule"),
        **{
            name: stated.number(name)
            for name in ("beta1", "beta2", "epsilon", "weight_decay", "gradient_clipping")
        },
    )


def platform_of(stated: LoggedValues) -> Platform | None:
    """Return the stated platform, else what the device's name shows."""
    platform = stated.word("platform") or _PLATFORMS.get(
        gpus.vendor(stated.word("device_name") or "") or ""
    )
    return next((each for each in get_args(Platform) if each == platform), None)


def _finite(figures: Mapping[str, float | None]) -> Figures:
    return {
        name: value if value is not None and abs(value) <= LARGEST_VALUE else None
        for name, value in figures.items()
    }
