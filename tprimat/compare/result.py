"""Comparison: what results say of the systems in them. Data classes only; compare/__init__.py
builds them.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from tprimat.analysis.efficiency import Options
from tprimat.analysis.intervals import Bounds, Method
from tprimat.analysis.run_order import Order
from tprimat.analysis.summary import SHORT, SegmentMetrics, Summary
from tprimat.analysis.token_rates import mean_of_printed
from tprimat.catalog import gpus
from tprimat.catalog.prices import Price
from tprimat.checks import Finding, Severity
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.endings import cause_of, how_ended, is_finished
from tprimat.checks.training import TrainingMatch
from tprimat.compare.systems import System, known_of_machine
from tprimat.errors import ExitStatus
from tprimat.notes import Note, NoteValue
from tprimat.results.account import Clock
from tprimat.results.result_file import Loaded as Loaded
from tprimat.results.run import VENDORS, MemoryMetrics, Run, sentences
from tprimat.text import plain

RATE = "tokens_per_second_per_gpu"

Unit = Literal["tokens", "samples", "steps", "tflops", "mfu"]
"""What a rate counts: tokens; samples in MLPerf logs of a benchmark, if a log states no sequence
length; steps in trainings in one text that names no model (one_text.py); samples, TFLOP or the MFU
that sources print if nothing better is known (figures.in_printed_unit()).
"""

DOUBTFUL_SPREAD, UNLIKE = 1.25, 2.0
"""Quotients of the fastest and the slowest run of a system: from the first on there is a caveat,
from the second on the runs are taken to be of several configurations.
"""

SAMPLES_RATE = "samples_per_second_per_gpu"

PRINTED_RATES: Mapping[Unit, tuple[str, ...]] = {
    "samples": (SAMPLES_RATE, "samples_per_second"),
    "tflops": ("tflops_per_gpu",),
    "mfu": ("mfu_percent",),
}
"""The native series of printed rates of one GPU, and of all GPUs, that are compared if no tokens/s
are known; the first is better than the next.
"""

RATES: Mapping[Unit, str] = {
    "tokens": RATE,
    "samples": SAMPLES_RATE,
    "steps": "steps_per_second",
    "tflops": "tflops_per_gpu",
    "mfu": "mfu_percent",
}
"""The metric that is compared, by what a rate counts. Steps are those of all GPUs together."""


def share_of_step(run: Run, unit: Unit) -> float | None:
    """Return the tokens or samples of a step per GPU, or 1 if steps are counted; None if
    unknown.
    """
    step = work_of_step(run, unit)
    if unit == "steps" or step is None:
        return step
    return step / run.num_gpus if run.num_gpus else None


def work_of_step(run: Run, unit: Unit) -> int | None:
    """Return the tokens or samples of a step, or 1 if steps are counted; None if unknown."""
    if unit == "steps":
        return 1
    if unit == "tokens":
        return run.tokens_per_step
    if unit == "samples":
        return run.training_config.global_batch_size
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class RunResult:
    """A run, its metrics and result file, and whether the system's values include it."""

    run: Run
    summary: Summary
    file: str
    is_valid: bool
    unit: Unit = "tokens"

    @property
    def rate(self) -> float | None:
        """Tokens or samples per second and GPU, or steps per second; None if unknown."""
        if self.unit == "tokens":
            return self.summary.performance.tokens_per_second_per_gpu
        seconds = self.summary.performance.avg_step_time_seconds
        share = share_of_step(self.run, self.unit)
        if share and seconds:
            return share / seconds
        return self._printed_rate

    @property
    def _printed_rate(self) -> float | None:
        """The rate of a GPU that the source prints in this unit, over the steady steps."""
        steady = self.summary.steady
        places = []
        for place, step in enumerate(self.run.steps):
            if (steady.first_step or 0) <= step <= (steady.last_step or 0):
                places.append(place)
        gpus = self.run.num_gpus or 0
        for name in PRINTED_RATES.get(self.unit, ()):
            mean = mean_of_printed(self.run, name, places)
            if mean is not None and name == "samples_per_second":
                mean = mean / gpus if gpus else None
            if mean is not None:
                return mean
        return None

    def value(self, metric: str) -> float | None:
        """Return the value of a metric, in the unit of its row in METRICS; None if it is
        unknown.
        """
        if metric in MemoryMetrics.__struct_fields__:
            return getattr(self.run.memory_metrics, metric, None)
        return getattr(self.summary.performance, metric, None)


def add_name(named: list[tuple[Note, list[str]]], note: Note, name: str) -> None:
    """Add a name to those of a note with the same sentence, or the note with it."""
    sentence = sentences([note])
    for other, names in named:
        if sentences([other]) == sentence:
            names.append(name)
            return
    named.append((note, [name]))


@dataclasses.dataclass(frozen=True)
class Caveat:
    """Something that a reader of the answer must know.

    Attributes:
        code: its subject, the same in all outputs; one of caveats.CODES.
        severity: "warning" if it could change the decision, "info" if it couldn't.
        notes: its text, in general with one note for each system that it concerns.
    """

    code: str
    severity: Severity
    notes: tuple[Note, ...]


@dataclasses.dataclass(frozen=True)
class MetricValue:
    """A value of a system: the mean, highest or lowest over its runs (see over_runs), the number of
    runs, and the range of their values; None for a single run.
    """

    value: float
    min: float | None
    max: float | None
    runs: int


@dataclasses.dataclass(frozen=True, eq=False)
class SystemResult(System):
    """A system of one model.

    Attributes:
        values: by the name of the metric; unknown metrics are omitted.
        value_notes: notes that affect the values, without duplicates.
        run_notes: other notes on the runs, without duplicates.
        findings: of the checks on the runs that count, without duplicates.
        order: how the rates depend on the order of the runs; None if they don't, or if the runs
            have no order.
    """

    runs: tuple[RunResult, ...]
    values: Mapping[str, MetricValue]
    value_notes: tuple[Note, ...]
    run_notes: tuple[Note, ...]
    findings: tuple[Finding, ...] = ()
    order: Order | None = None
    # Results are compared by identity: one system may have several, such as over different steps.
    __eq__, __hash__ = object.__eq__, object.__hash__

    @functools.cached_property
    def exclusion(self) -> Finding | None:
        """Why the system is excluded from every ranking; None if it isn't."""
        for finding in self.findings:
            if finding.severity in ("error", "unverified"):
                return finding
        return None

    @property
    def segments(self) -> tuple[SegmentMetrics, ...]:
        """The segments of the only run if its speed changes; of several runs, the segments that
        most of them share; empty otherwise.

        A single disturbed run among several belongs to the variation between runs. The same change
        in more than half of the runs, and in at least two, is a property of the system.
        """
        changed = []
        for result in self.valid_runs:
            if len(result.summary.segments) > 1:
                changed.append(result)
        for result in changed:
            alike = [each for each in changed if _changes_alike(result, each)]
            if len(self.valid_runs) == 1 or len(alike) > max(1, len(self.valid_runs) / 2):
                segments = [each.summary.segments for each in alike]
                return tuple(map(_averaged, zip(*segments, strict=True)))
        return ()

    @property
    def has_failed(self) -> bool:
        """Whether every run of it failed."""
        return all(how_ended(result.run).kind == "failed" for result in self.runs)

    @property
    def cause(self) -> str:
        """What ended the first unfinished run that states a cause; empty if none does."""
        return next(
            filter(
                None, (cause_of(result.run) for result in self.runs if not is_finished(result.run))
            ),
            "",
        )

    @property
    def has_printed_rate(self) -> bool:
        """Whether tokens/s/GPU of a run that counts are printed by its source, not computed."""
        if self.unit == "tokens":
            return any(result.summary.is_printed for result in self.valid_runs)
        return self.unit in ("tflops", "mfu")

    @property
    def is_untimed(self) -> bool:
        """Whether neither its step time is known nor a printed rate in its place."""
        return self.value("avg_step_time_seconds") is None and not self.has_printed_rate

    @property
    def is_unsettled(self) -> bool:
        """Whether a run that counts is too short to have a steady speed."""
        return any(result.summary.unsettled for result in self.valid_runs)

    @property
    def speeds(self) -> list[float]:
        """The rate of each run that counts and has one, in its unit."""
        return [rate for result in self.valid_runs if (rate := result.rate)]

    @property
    def spread(self) -> float:
        """The rate of the fastest run divided by that of the slowest one; 1 for a single run."""
        if self.speeds:
            return max(self.speeds) / min(self.speeds)
        return 1.0

    @functools.cached_property
    def vendor(self) -> str | None:
        """Who made its GPU; None on a CPU or if that is unknown."""
        if self.run.platform == "cpu":
            known = None
        else:
            known = gpus.vendor(self.run.gpu_info.device_name or "")
        return known or VENDORS.get(self.run.platform or "cpu")

    @property
    def is_one_session(self) -> bool:
        """Whether all runs that count were measured in one session; they have one configuration
        then, however much they differ.
        """
        return (
            len({result.run.session or number for number, result in enumerate(self.valid_runs)})
            == 1
        )

    @property
    def why_untimed(self) -> Note:
        """Why it has no valid step times; without a field if nothing says why."""
        run = self.runs[0].run
        if run.environment.emulated:
            return Note("on-emulated-device")
        for note in self.run_notes:
            if note.code == "no-step-times":
                return Note("untimed", {"why": note.fields.get("why")})
        fields: dict[str, NoteValue] = {}
        if run.status in _ENDED:
            fields["ended"] = _ENDED[run.status]
        if run.status_reason:
            fields["reason"] = plain(run.status_reason, LONGEST_REASON)
        return Note("untimed", fields)

    @functools.cached_property
    def valid_runs(self) -> tuple[RunResult, ...]:
        """The runs that count: the system's values are computed from them."""
        return tuple(result for result in self.runs if result.is_valid)

    @functools.cached_property
    def run(self) -> Run:
        """The run that states most about its machine. It represents the setup, which all runs of a
        system share.
        """
        return max((result.run for result in self.valid_runs or self.runs), key=known_of_machine)

    @property
    def unit(self) -> Unit:
        """What its rates count: the same in all of its runs."""
        return self.runs[0].unit

    def figure(self, metric: str) -> MetricValue | None:
        """Return a metric's value with its range; for RATE, the rate in the system's unit. None if
        it is unknown.
        """
        return self.values.get(RATES[self.unit] if metric == RATE else metric)

    def value(self, metric: str) -> float | None:
        """Return the value that figure() returns, without its range; None if it is unknown."""
        if figure := self.figure(metric):
            return figure.value
        return None


_ENDED = {"failed": "failed", "incomplete": "is incomplete"}
"""Words for the status of a run without step times."""

LONGEST_REASON = 120
"""Most characters of the reason why a run without step times ended."""

SAME_PLACE = 10
"""Number of records by which the place of a change may differ between two runs and still be the
same change.
"""


def _changes_alike(one: RunResult, other: RunResult) -> bool:
    """Return whether the speeds of two runs change equally often and at the same places."""
    before = one.summary.segments[1:]
    after = other.summary.segments[1:]
    if len(before) != len(after):
        return False
    for first, second in zip(before, after, strict=True):
        place = bisect.bisect_left(one.run.steps, first.first_step)
        if abs(place - bisect.bisect_left(other.run.steps, second.first_step)) > SAME_PLACE:
            return False
    return True


def _averaged(segments: Sequence[SegmentMetrics]) -> SegmentMetrics:
    """Return one segment for the same segment of several runs: the first run's, with the geometric
    means of step time and speed.
    """
    if len(segments) == 1:
        return segments[0]
    rates = []
    for segment in segments:
        if rate := segment.tokens_per_second_per_gpu:
            rates.append(rate)
    return dataclasses.replace(
        segments[0],
        mean=statistics.geometric_mean([segment.mean for segment in segments]),
        tokens_per_second_per_gpu=statistics.geometric_mean(rates) if rates else None,
        interval=None,
    )


@dataclasses.dataclass(frozen=True)
class SegmentRatio:
    """Speed ratio of one segment of each system.

    Attributes:
        value: the system's rate over the baseline's.
        system_steps, baseline_steps: of the segment, such as 3–160; None for a system whose speed
            doesn't change.
    """

    value: float
    system_steps: str | None
    baseline_steps: str | None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The ratio of two systems' rates.

    Attributes:
        value: the system's rate over the baseline's, each the geometric mean over its runs.
        low, high: bounds of its 95 % confidence interval; None with a single run of each, or with
            one and two.
        method: how the bounds were computed, see intervals.Difference; None without bounds.
        minimum_detectable_effect: relative difference that this number of runs detects with 80 %
            power; None if unknown.
        runs_needed: runs of each system that would confirm the difference; None if it is
            significant, or if no number up to a hundred would.
        segments: the ratio of each pair of segments, if a system's speed changes
            (SystemResult.segments); of many pairs, the smallest and the largest ratio.
        is_too_wide: whether the interval is omitted because it is wider than intervals.WIDEST.
        unresolved: without an interval, the relative difference that the coarse clocks of the logs
            can't distinguish from none, if the ratio is within it; else 0.
    """

    value: float
    low: float | None
    high: float | None
    method: Method | None = None
    minimum_detectable_effect: float | None = None
    runs_needed: int | None = None
    segments: tuple[SegmentRatio, ...] = ()
    is_too_wide: bool = False
    unresolved: float = 0.0

    @property
    def bounds(self) -> Bounds:
        """The least and the greatest value that it may have: the interval; without one, the
        smallest and the largest ratio of segments; else the value twice.
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        return min(self.estimates), max(self.estimates)

    @property
    def estimates(self) -> list[float]:
        """The ratios of the pairs of segments if there is no interval; else the ratio itself."""
        return [segment.value for segment in self.segments if self.low is None] or [self.value]

    @property
    def is_significant(self) -> bool | None:
        """Whether the interval excludes that both are equally fast; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 1 <= self.high

    def inverted(self) -> Ratio:
        """Return the ratio of the baseline's rate over the system's."""
        segments = []
        for segment in self.segments:
            steps = segment.baseline_steps, segment.system_steps
            segments.append(SegmentRatio(1 / segment.value, *steps))
        low = None if self.high is None else 1 / self.high
        high = None if self.low is None else 1 / self.low
        return dataclasses.replace(
            self, value=1 / self.value, low=low, high=high, segments=tuple(segments)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """Two systems of one model.

    Attributes:
        ratio: the system's rate over the baseline's; None if the two can't be compared.
        reasons: why there is no ratio; empty if there is one.
        config_diff: every setting that costs time, side by side.
        training: whether it was the same training.
        sensitivity: the ratio under the windows of steps that other tools use, by their names.
        clocks: what measured the step times of the system and of the baseline: several if no clock
            is common to all.
        is_short: whether a run of either is too short to have a steady speed.
    """

    baseline: SystemResult
    system: SystemResult
    ratio: Ratio | None
    reasons: tuple[Note, ...]
    config_diff: ConfigDiff
    training: TrainingMatch
    sensitivity: tuple[tuple[str, float], ...] = ()
    clocks: tuple[Clock, ...] = ()
    is_short: bool = False

    @property
    def is_unsettled(self) -> bool:
        """Whether the ratio can't be relied on: a run is too short to have a steady speed, or too
        few runs differ too much.
        """
        return self.is_short or self.lacks is not None

    @property
    def lacks(self) -> Literal["steps", "runs"] | None:
        """What more is needed if the interval is too wide to be useful: steps or runs; else
        None.
        """
        too_wide = self.ratio is not None and self.ratio.is_too_wide
        if not too_wide:
            return None
        if self.steps[0] < SHORT:
            return "steps"
        return "runs"

    @property
    def steps(self) -> tuple[int, int]:
        """The smallest and the largest number of steps of the runs that count."""
        runs = (*self.system.valid_runs, *self.baseline.valid_runs)
        return min(counts := [result.summary.performance.total_steps or 0 for result in runs]), max(
            counts
        )

    @property
    def faster(self) -> SystemResult:
        """The faster system; the system, not the baseline, if there is no ratio."""
        if self.ratio is not None and self.ratio.value < 1:
            return self.baseline
        return self.system

    @property
    def slower(self) -> SystemResult:
        """The slower system; the baseline if there is no ratio."""
        if self.faster is self.baseline:
            return self.system
        return self.baseline

    @property
    def speedup(self) -> Ratio | None:
        """The faster system's rate over the slower one's, 1 or more; None if they can't be
        compared.
        """
        if self.ratio is not None and self.ratio.value < 1:
            return self.ratio.inverted()
        return self.ratio


@dataclasses.dataclass(frozen=True)
class SettingRow:
    """A setting of the systems of a group, with its values in their order; None if unknown."""

    title: str
    values: tuple[str | None, ...]
    essential: bool

    @property
    def differs(self) -> bool:
        """Whether the systems are known to differ, or one states it and another doesn't."""
        return len(set(self.values)) > 1

    @property
    def unknown(self) -> bool:
        """Whether no system states it."""
        return all(value is None for value in self.values)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Systems of a model that are compared with each other.

    Attributes:
        systems: the fastest first; those that are not compared last.
        baseline: the system that the others are compared with: the one that the user named, else
            the fastest of another vendor than the fastest system's, else the second fastest.
        pairs: one for each system except the baseline, in their order.
        leaders: the pair that the headline is about: that of the fastest system; if this is the
            baseline, that of the fastest system of another vendor, or of the second fastest one.
            None if none are compared.
        caveats: what could overturn the answer, or should be known with it, by its effect on the
            decision.
        runner_up: the fastest system compared with the second fastest one; None if that is the
            baseline.
        title: the model, with what tells the work of these systems from that of other groups.
    """

    systems: tuple[SystemResult, ...]
    baseline: SystemResult
    pairs: tuple[Pair, ...]
    settings: tuple[SettingRow, ...]
    leaders: Pair | None = None
    caveats: tuple[Caveat, ...] = ()
    runner_up: Pair | None = None
    title: str = ""

    @property
    def compared(self) -> list[SystemResult]:
        """The baseline, and the systems that have a ratio to it."""
        return [self.baseline, *(pair.system for pair in self.pairs if pair.ratio)]


@dataclasses.dataclass(frozen=True, eq=False)
class ModelComparison:
    """All systems that trained one model; `short_title` omits the parameters of a scaled-down
    model.
    """

    model: str | None
    title: str
    groups: tuple[Group, ...]
    short_title: str

    @property
    def systems(self) -> tuple[SystemResult, ...]:
        """All systems, group by group."""
        return tuple(system for group in self.groups for system in group.systems)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, group by group."""
        return tuple(pair for group in self.groups for pair in group.pairs)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What the results say, model by model.

    Attributes:
        shared: texts of the parts (GPU, label, framework, stack, scale) that all systems have in
            common.
        notes: about the results as a whole: what was skipped, counted only once, or split.
        files: the files that were compared.
        system_names: names without duplicates, in the order of the files; prices without a name are
            in this order.
        mode: "same" if every difference of configuration is rejected.
        prices: by the name of a system; systems without a price are omitted.
        options: what the user knows and the results don't say.
    """

    models: tuple[ModelComparison, ...]
    shared: tuple[str, ...]
    notes: tuple[Note, ...]
    files: tuple[Loaded, ...]
    system_names: tuple[str, ...]
    mode: Mode = "best"
    prices: Mapping[str, Price] = dataclasses.field(default_factory=dict)
    options: Options = dataclasses.field(default_factory=Options)

    @property
    def systems(self) -> list[SystemResult]:
        """All systems, model by model."""
        return [system for model in self.models for system in model.systems]

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, model by model."""
        return [pair for model in self.models for pair in model.pairs]

    @property
    def status(self) -> ExitStatus:
        """OK with a ratio or with a single system; IMPLAUSIBLE if all that could be compared is.

        NOT_COMPARABLE otherwise, and in mode "same" if the settings of any pair differ.
        """
        pairs = self.pairs
        other = self.mode == "same" and any(
            pair.config_diff.verdict == "not comparable" for pair in pairs
        )
        if any(pair.ratio for pair in pairs):
            if other:
                return ExitStatus.NOT_COMPARABLE
            return ExitStatus.OK
        if any(
            system.exclusion and system.exclusion.severity == "error" for system in self.systems
        ):
            return ExitStatus.IMPLAUSIBLE
        identities = set()
        for system in self.systems:
            identities.add((system.gpu, system.count, system.framework, system.parts))
        if len(identities) == 1 and not pairs:
            return ExitStatus.OK
        return ExitStatus.NOT_COMPARABLE
