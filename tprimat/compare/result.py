"""Comparison: what results say of the sides in them. Data alone; how it comes about is elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tprimat.analysis.efficiency import Options
from tprimat.analysis.run_order import Order
from tprimat.analysis.summary import SegmentMetrics, Summary
from tprimat.catalog.prices import Price
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.finding import Finding
from tprimat.checks.training import TrainingMatch
from tprimat.compare.sides import Side
from tprimat.errors import ExitStatus
from tprimat.results.result_file import Loaded as Loaded
from tprimat.results.run import MemoryMetrics, Run
from tprimat.text import plain


@dataclasses.dataclass(frozen=True)
class RunResult:
    """A run with its figures, the result file that holds it, and whether the side's figures are of it."""

    run: Run
    summary: Summary
    file: str
    counted: bool

    def value(self, metric: str) -> float | None:
        """A figure by the name of its metric, in the unit of its row; None where it is unknown."""
        holder = self.run.memory_metrics if metric in MemoryMetrics.__struct_fields__ else self.summary.performance
        return getattr(holder, metric, None)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a side: mean, highest or lowest over so many runs (see over_runs), and their range if several."""

    value: float
    low: float | None
    high: float | None
    runs: int


@dataclasses.dataclass(frozen=True)
class SideResult(Side):
    """A side of one model.

    Attributes:
        figures: by the name of the metric; what is unknown is not in it.
        doubts: what must be known of the figures, each once.
        warnings: what must be known of the runs, each once.
        findings: what the judge says of the runs that the figures are of, each once.
        order: how the runs follow their order, where they do.
    """

    runs: tuple[RunResult, ...]
    figures: Mapping[str, Figure]
    doubts: tuple[str, ...]
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    order: Order | None = None

    @property
    def refusal(self) -> Finding | None:
        """Why the side is left out of every ranking; None where it isn't."""
        return next((each for each in self.findings if each.gravity in ("impossible", "unjudged")), None)

    @property
    def levels(self) -> tuple[SegmentMetrics, ...]:
        """The levels of a single run that has several; empty for a side with one figure."""
        found = self.counted[0].summary.segments if len(self.counted) == 1 else ()
        return found if len(found) > 1 else ()

    @property
    def speeds(self) -> list[float]:
        """The rate of each run that counts and has one, tokens/s/GPU."""
        rates = (result.summary.performance.tokens_per_second_per_gpu for result in self.counted)
        return [rate for rate in rates if rate]

    @property
    def settled(self) -> bool:
        """Whether no run that counts is known to change its level or to drift."""
        return all(len(result.summary.step_ranges) <= 1 for result in self.counted)

    @property
    def ended(self) -> str:
        """How the first run ended, as the words that follow "the run"."""
        run = self.runs[0].run
        if run.environment.emulated:
            return "was emulated, and its times mean nothing"
        words = {"failed": "failed", "incomplete": "is incomplete"}.get(run.status, "holds no step times")
        return f"{words} ({plain(run.status_reason, 120)})" if run.status_reason else words

    @property
    def counted(self) -> tuple[RunResult, ...]:
        """The runs that the figures are of."""
        return tuple(result for result in self.runs if result.counted)

    @property
    def run(self) -> Run:
        """A run that stands for the setup, which all runs of a side share."""
        return (self.counted or self.runs)[0].run

    def value(self, metric: str) -> float | None:
        """A figure's value; None where it is unknown."""
        figure = self.figures.get(metric)
        return None if figure is None else figure.value


@dataclasses.dataclass(frozen=True)
class LevelRatio:
    """A ratio while the side and the reference were each at one of their levels.

    Attributes:
        value: above 1 where the side is faster.
        of_side, of_reference: steps of the level, such as 3–160, with the run where there are
            several; None for a side of one level.
    """

    value: float
    of_side: str | None
    of_reference: str | None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as fast as the reference a side is.

    Attributes:
        value: above 1 where the side is faster. With levels, that of the levels on which two single
            runs ended, or of the means of several; it is never shown without the others.
        low, high: bounds of its 95 % interval; None where there are too few runs for one.
        smallest: relative difference that so many runs find in four of five cases.
        needed: runs a side that would show the difference that was seen; None where it is shown,
            or where no number up to a hundred would.
        levels: one for each pair of levels, where a run changes its level; the quarters of one that
            drifts are levels too. Of many pairs the least and the largest.
    """

    value: float
    low: float | None
    high: float | None
    smallest: float | None = None
    needed: int | None = None
    levels: tuple[LevelRatio, ...] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and most that it may be: by its levels, or its interval; twice the value without either."""
        if self.levels:
            return min(level.value for level in self.levels), max(level.value for level in self.levels)
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)

    @property
    def shown(self) -> bool | None:
        """Whether a difference is shown; None where nothing can be said of other runs."""
        return None if self.low is None or self.high is None else not self.low <= 1 <= self.high


@dataclasses.dataclass(frozen=True)
class Pair:
    """A side against the reference.

    Attributes:
        ratio: None where the two can't be compared.
        reason: why there is no ratio; None where there is one.
        caveats: what weakens the ratio, each a clause that follows "but".
        ledger: every setting that costs time, side by side.
        training: whether it was the same training.
        sensitivity: the ratio under the windows of other tools, by their names.
    """

    reference: SideResult
    side: SideResult
    ratio: Ratio | None
    reason: str | None
    caveats: tuple[str, ...]
    ledger: ConfigDiff
    training: TrainingMatch
    sensitivity: tuple[tuple[str, float], ...] = ()

    @property
    def ordered(self) -> tuple[SideResult, SideResult]:
        """The faster and the slower one of two that are compared."""
        slower_first = self.ratio is not None and self.ratio.value < 1
        return (self.reference, self.side) if slower_first else (self.side, self.reference)


@dataclasses.dataclass(frozen=True)
class SettingRow:
    """A setting of the sides of a group, with its values in their order; None where unknown."""

    title: str
    values: tuple[str | None, ...]
    essential: bool

    @property
    def differs(self) -> bool:
        """Whether the sides are known to differ, or one states it and another doesn't."""
        return len(set(self.values)) > 1

    @property
    def unknown(self) -> bool:
        """Whether no side states it."""
        return all(value is None for value in self.values)


@dataclasses.dataclass(frozen=True)
class Group:
    """Sides of a model, the reference first; a pair for each other side; and all that they can be set to."""

    sides: tuple[SideResult, ...]
    pairs: tuple[Pair, ...]
    settings: tuple[SettingRow, ...]


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """All sides that trained one model."""

    model: str | None
    title: str
    groups: tuple[Group, ...]

    @property
    def sides(self) -> tuple[SideResult, ...]:
        """All sides, group by group."""
        return tuple(side for group in self.groups for side in group.sides)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, group by group."""
        return tuple(pair for group in self.groups for pair in group.pairs)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What the results say, model by model.

    Attributes:
        shared: what all sides have in common of what a side is: GPU, label, framework, stack, scale.
        notes: about the results as a whole: what was skipped, counted once, or kept apart.
        files: what it rests on.
        mode: which comparison was wanted.
        prices: by the name of a side; what nobody gave a price is not in it.
        options: what the user knows and the results don't say.
    """

    models: tuple[ModelComparison, ...]
    shared: tuple[str, ...]
    notes: tuple[str, ...]
    files: tuple[Loaded, ...]
    mode: Mode = "max"
    prices: Mapping[str, Price] = dataclasses.field(default_factory=dict)
    options: Options = dataclasses.field(default_factory=Options)

    @property
    def sides(self) -> list[SideResult]:
        """All sides, model by model."""
        return [side for model in self.models for side in model.sides]

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, model by model."""
        return [pair for model in self.models for pair in model.pairs]

    @property
    def side_names(self) -> list[str]:
        """The names of the sides, each once."""
        return list(dict.fromkeys(side.name for side in self.sides))

    @property
    def status(self) -> ExitStatus:
        """WELL with a ratio or with a single side to show; IMPOSSIBLE where all that could be
        compared rests on what can't be true; NOT_COMPARABLE otherwise, and where identical
        configurations were wanted and any pair has others.
        """
        pairs = self.pairs
        other = self.mode == "identical" and any(pair.ledger.verdict == "not comparable" for pair in pairs)
        if any(pair.ratio for pair in pairs):
            return ExitStatus.NOT_COMPARABLE if other else ExitStatus.WELL
        if any(side.refusal and side.refusal.gravity == "impossible" for side in self.sides):
            return ExitStatus.IMPOSSIBLE
        identities = {(side.gpu, side.count, side.framework, side.parts) for side in self.sides}
        alone = len(identities) == 1 and not pairs
        return ExitStatus.WELL if alone else ExitStatus.NOT_COMPARABLE
