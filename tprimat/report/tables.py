"""What the console and the Markdown show in tables, before either knows how a table looks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.analysis.metrics import Metric
from tprimat.compare import Comparison, Group, RunResult, SettingRow, SideResult
from tprimat.compare.money import efficiencies
from tprimat.compare.ratios import steps
from tprimat.report.blocks import Content, Table
from tprimat.report.efficiency import figure
from tprimat.report.rates import RATE, bounds_of, rate, rate_of, rate_unit, untimed
from tprimat.report.verdict import ratio_text
from tprimat.text import counted

SHORT_VALUE = 60
"""Characters; longer values of settings that don't differ are left to the report."""

MONEY = ("tokens_per_dollar", "dollars_per_trillion_tokens", "dollars_per_epoch", "dollars_per_million_samples")
WORTH = {
    "samples_per_second": "samples /s",
    "seconds_per_epoch": "s /epoch",
    "model_tflops_per_gpu": "TFLOP/s /GPU",
    "mfu": "MFU, %",
    "tokens_per_dollar": "tokens /$",
    "dollars_per_trillion_tokens": "$/10¹² tokens",
    "dollars_per_epoch": "$/epoch",
    "dollars_per_million_samples": "$/10⁶ samples",
}
"""Rows of efficiency.METRICS that a comparison shows beside the speeds, and what they are called above
a narrow column."""

BESIDE = 4
"""Sides that stand beside each other; more stand below each other."""

MEMORY = tuple(metric for metric in metrics.METRICS if "_memory_" in metric.name)


class Footnotes:
    """Warnings with numbers, each text once: first those about figures, then those about runs."""

    def __init__(self, comparison: Comparison) -> None:
        doubts = dict.fromkeys(text for side in comparison.sides for text in side.doubts)
        warnings = dict.fromkeys(text for side in comparison.sides for text in side.warnings)
        self._about_figures = len(doubts)
        self._numbers = {text: number for number, text in enumerate({**doubts, **warnings}, start=1)}

    def numbers(self, texts: Iterable[str]) -> tuple[int, ...]:
        """The numbers of texts, rising."""
        return tuple(sorted(self._numbers[text] for text in texts))

    def entries(self) -> list[tuple[int, str]]:
        """Numbers and texts."""
        return [(number, text) for text, number in self._numbers.items()]

    def first(self, limit: int) -> tuple[list[tuple[str, str]], int]:
        """Marks and texts, those about figures always, those about runs up to a limit; and how many are left."""
        shown = max(self._about_figures, limit)
        entries = [(f"[{number}]", text) for number, text in self.entries()]
        return entries[:shown], len(entries[shown:])


@dataclasses.dataclass(frozen=True)
class Cell:
    """A text and the footnotes that belong to it."""

    text: str
    notes: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Row:
    """A quantity of all sides of a group, with its unit; its short title stands above a narrow column."""

    title: str
    short: str
    cells: tuple[Cell, ...]


def grid(
    names: Sequence[str],
    rows: Sequence[Row],
    cell: Callable[[Row, int], Content],
    *,
    caption: str = "",
    right_from: int = 1,
) -> Table:
    """A table of rows, with the sides beside each other, or below each other where there are many.

    `cell` gives what stands there for a row and the number of a side. For the others see blocks.Table.
    """
    sides = range(len(names))
    if len(names) <= BESIDE:
        beside = [[row.title, *(cell(row, side) for side in sides)] for row in rows]
        return Table(["", *names], beside, right_from, caption)
    below = [[names[side], *(cell(row, side) for row in rows)] for side in sides]
    return Table(["", *(row.title for row in rows)], below, right_from, caption, many=bool(caption))


def titled(metric: Metric) -> str:
    """A metric with its unit."""
    return f"{metric.title}, {metric.unit}"


def speed_rows(group: Group, footnotes: Footnotes) -> list[Row]:
    """Throughput, step times, and what they are of."""
    unit = rate_unit(group.sides)
    ratios = {id(pair.side): ratio_text(pair.ratio) for pair in group.pairs}
    has_spikes = any(map(_spikes, group.sides))

    def throughput(side: SideResult) -> Cell:
        refused = " (refused)" if side.refusal else ""
        return Cell(f"{rate_of(side)}{_between(side)}{refused}", footnotes.numbers(side.doubts))

    return _rows(
        group,
        (f"Throughput, {unit}", unit.replace("s/s", "s /s"), throughput),
        ("Within the run", "in the run", _within),
        ("range over runs", "range", _range),
        ("Against the reference", "ratio", lambda side: ratios.get(id(side), "reference") if ratios else None),
        ("Step time, mean", "step mean", lambda side: _step_time(side, "mean", "avg_step_time_seconds")),
        ("Step time, median", "step median", lambda side: _step_time(side, "median", "median_step_time_seconds")),
        ("Runs", "runs", lambda side: Cell(_runs_text(side), footnotes.numbers(side.warnings))),
        ("Steady steps", "steady steps", _steady_of),
        ("Spikes (share of time)", "spikes", lambda side: (_spikes(side) or "none") if has_spikes else None),
    )


def _rows(group: Group, *table: tuple[str, str, Callable[[SideResult], Cell | str | None]]) -> list[Row]:
    """Rows by title, short title and what a side has; without those of which no side has anything."""
    rows = []
    for title, short, read in table:
        found = [read(side) for side in group.sides]
        if any(found):
            cells = (each if isinstance(each, Cell) else Cell(each or units.UNKNOWN) for each in found)
            rows.append(Row(title, short, tuple(cells)))
    return rows


def _step_time(side: SideResult, of_level: str, of_side: str) -> str:
    """A step time; of a run that changes its level, each level's."""
    if side.levels:
        return ", ".join(units.seconds(getattr(level, of_level)) for level in side.levels)
    value = side.value(of_side)
    return untimed(side) if value is None else units.seconds(value)


def _within(side: SideResult) -> str | None:
    """The interval within a single run, relative to its figure, and of which figure it is."""
    summaries = [result.summary for result in side.counted]
    if len(summaries) != 1 or not summaries[0].is_stationary:
        return None
    level = summaries[0].segments[0]
    interval = level.interval
    if interval is None or interval.about == "range":
        return None
    centre = level.mean if interval.about == "mean" else level.median
    half = max(interval.high - centre, centre - interval.low) / centre
    of = "" if interval.about == "mean" else "median "
    return f"{of}±{half:.1%} ({interval.coverage:.0%})"


def _between(side: SideResult) -> str:
    """Half the width of the interval between runs, relative; nothing below three runs."""
    bounds = bounds_of(side)
    if bounds is None or bounds.kind != "between":
        return ""
    return f" ±{(bounds.high / bounds.low) ** 0.5 - 1:.1%}"


def worth_rows(comparison: Comparison, group: Group) -> list[Row]:
    """Share of the peak, where the precision is known; and what tokens cost, where prices are."""
    found = [efficiencies(comparison, side) for side in group.sides]
    if not any(_has(each, name) for each in found for name in ("mfu", "tokens_per_dollar", "samples_per_second")):
        return []
    return [
        Row(titled(metric), WORTH[metric.name], tuple(Cell(_worth(each, metric.name)) for each in found))
        for metric in efficiency.METRICS
        if metric.name in WORTH and any(_has(each, metric.name) for each in found)
    ]


def _worth(found: Sequence[efficiency.Efficiency], name: str) -> str:
    """A figure of each level; once where it is of the whole run, and so the same in all."""
    values = [each.values.get(name) for each in found]
    if name not in MONEY:
        # A cost is told with its interval; that of the others is the speed's, which stands above.
        values = [value and dataclasses.replace(value, low=None, high=None) for value in values]
    texts = [figure(value) for value in values]
    return ", ".join(texts[:1] if len(set(texts)) == 1 else texts) or units.UNKNOWN


def _has(found: Sequence[efficiency.Efficiency], name: str) -> bool:
    return any((value := each.values.get(name)) is not None and value.value is not None for each in found)


def _spikes(side: SideResult) -> str | None:
    levels = [level for result in side.counted for level in result.summary.segments]
    count = sum(level.outliers for level in levels)
    if not count:
        return None
    steps = [level.last_step - level.first_step + 1 for level in levels]
    share = sum(level.outlier_share * size for level, size in zip(levels, steps, strict=True)) / sum(steps)
    return f"{count} ({share:.1%})"


def memory_rows(group: Group) -> list[Row]:
    """Each kind of memory that a side has a figure of. The kinds are never compared with each other."""
    return _rows(
        group, *((each.title, each.title.removeprefix("Memory "), _gigabytes_of(each.name)) for each in MEMORY)
    )


def _gigabytes_of(name: str) -> Callable[[SideResult], str | None]:
    return lambda side: None if side.value(name) is None else units.gigabytes(side.value(name))


def differing(group: Group) -> list[SettingRow]:
    """Settings that differ between sides, or that one side states and another doesn't."""
    return [row for row in group.settings if row.differs]


def equal(group: Group) -> list[str]:
    """Essential settings that all sides state and share, with their value."""
    return [
        f"{row.title} {row.values[0]}"
        for row in group.settings
        if row.essential and not row.unknown and not row.differs and len(str(row.values[0])) <= SHORT_VALUE
    ]


def unstated(group: Group) -> list[str]:
    """Essential settings that no side states."""
    return [row.title for row in group.settings if row.unknown and row.essential]


def steady_steps(result: RunResult) -> str:
    """Which steps a run's figures are of."""
    steady = result.summary.steady
    if steady.first_step is None:
        return units.UNKNOWN
    steps = f"{steady.first_step}–{steady.last_step}"
    return steps if steady.found else f"none found; {steps}"


def _runs_text(side: SideResult) -> str:
    """How many runs the figures are of, and of how many, where that is not the same."""
    counted, every = len(side.counted), len(side.runs)
    text = str(every) if counted == every else f"{counted} of {every}"
    statuses = sorted({result.run.status for result in side.runs if result.run.status != "complete"})
    return f"{text} ({', '.join(statuses)})" if statuses else text


def _range(side: SideResult) -> str | None:
    figure = side.figures.get(RATE)
    if figure is None or figure.low is None:
        return None
    return f"{rate(figure.low)}–{rate(figure.high)}"


def _steady_of(side: SideResult) -> str:
    if side.levels:
        return ", ".join(steps(level) for level in side.levels)
    texts: Sequence[str] = list(dict.fromkeys(steady_steps(result) for result in side.counted))
    if not texts:
        return units.UNKNOWN
    return texts[0] if len(texts) == 1 else f"{texts[0]} and {counted(len(texts) - 1, 'other')}"
