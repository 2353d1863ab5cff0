"""What the console and the Markdown show in tables, before either knows how a table looks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.metrics import Metric
from tprimat.catalog.prices import Price
from tprimat.compare import Comparison, Group, Pair, RunResult, SystemResult
from tprimat.compare.cost import efficiencies
from tprimat.report.blocks import DETAIL, Content, Paragraph, Table, text_of
from tprimat.report.efficiency import figure
from tprimat.report.rates import RATE, bounds_of, plus_minus, rate, rate_of, rate_unit, untimed
from tprimat.report.verdict import speedup_text
from tprimat.text import counted, plain

WORTH = (
    *(
        "samples_per_second",
        "seconds_per_epoch",
        "model_tflops_per_gpu",
        "mfu",
        "share_of_preflight",
    ),
    *(
        "joules_per_token",
        "tokens_per_joule",
        "electricity_dollars_per_billion_tokens",
        "tokens_per_dollar",
    ),
    *(
        "dollars_per_billion_tokens",
        "dollars_per_trillion_tokens",
        "dollars_per_epoch",
        "dollars_per_million_samples",
    ),
)
"""Rows of efficiency.METRICS that a comparison shows beside the speeds."""

SHOWS_WORTH = (
    "mfu",
    "share_of_preflight",
    "joules_per_token",
    "tokens_per_dollar",
    "samples_per_second",
)
"""Metrics of which one makes the table of efficiency worth showing."""

BESIDE = 4
"""Systems that stand side by side; more stand below each other."""

MEMORY = tuple(metric for metric in metrics.METRICS if "_memory_" in metric.name)


FRAMEWORKS = {
    "deepspeed": "DeepSpeed",
    "fsdp": "FSDP",
    "lightning": "Lightning",
    "megatron": "Megatron",
    "megatron_bridge": "Megatron-Bridge",
    "mlperf": "MLPerf",
    "nemo": "NeMo",
    "primus": "Primus",
    "transformers": "Transformers",
}
"""How the makers write the names."""

STACKS = ("cuda", "rocm", "cpu")
"""What a GPU's name says already."""


def shared(comparison: Comparison, systems: Sequence[SystemResult] = ()) -> str:
    """Return what all systems share but neither their names nor the model's say, with the MLPerf
    round of `systems`.
    """
    runs = [system.run for system in systems or comparison.systems]
    if runs and all(run.platform == "cpu" and run.scale not in (None, "full") for run in runs):
        return "on a CPU (to try the tool, not to judge GPUs)"
    names = " ".join(comparison.system_names)
    known = []
    for part in comparison.shared:
        if not part.startswith("scale ") and part not in names:
            known.append(part)
    rounds = {plain(run.framework_config.get("mlperf_round") or "") for run in runs}
    if len(rounds) == 1 and rounds != {""}:
        known = [*(part for part in known if part != "mlperf"), f"MLPerf {rounds.pop()}"]
    return ", ".join(FRAMEWORKS.get(part, plain(part)) for part in known if part not in STACKS)


class Footnotes:
    """Warnings with numbers, each text once: first those about values, then those about runs."""

    def __init__(self, comparison: Comparison) -> None:
        systems = comparison.systems
        texts = [text for system in systems for text in system.value_warnings]
        texts += [text for system in systems for text in system.run_warnings]
        self._numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), start=1)}

    def numbers(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of texts, rising."""
        return tuple(sorted(self._numbers[text] for text in texts))

    def entries(self) -> list[tuple[int, str]]:
        """Return numbers and texts."""
        return [(number, text) for text, number in self._numbers.items()]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A text and the footnotes that belong to it."""

    text: str
    notes: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Row:
    """A quantity of all systems of a group, with its unit; on the first screen a short title for a
    narrow column.
    """

    title: str
    cells: tuple[Cell, ...]
    short: str = ""


def grid(
    names: Sequence[str],
    rows: Sequence[Row],
    cell: Callable[[Row, int], Content] = lambda row, system: row.cells[system].text,
    *,
    caption: str = "",
) -> Table:
    """A table of rows, with the systems side by side, or below each other if there are many.

    `cell` returns the content for a row and the number of a system, by default the text of the
    row's cell.
    """
    systems = range(len(names))
    if len(names) <= BESIDE:
        beside = [[row.title, *(cell(row, system) for system in systems)] for row in rows]
        return Table(["", *names], beside, caption=caption)
    below = [[names[system], *(cell(row, system) for row in rows)] for system in systems]
    return Table(["", *(row.title for row in rows)], below, caption=caption, many=bool(caption))


def texts(names: Sequence[str], rows: Sequence[Row]) -> Table:
    """Return a table of texts: few systems side by side; of many, each value once with the systems
    that have it.
    """
    if len(names) <= BESIDE:
        return dataclasses.replace(grid(names, rows), right_from=99)
    lines = []
    for row in rows:
        of: dict[str, list[str]] = {}
        for name, cell in zip(names, row.cells, strict=True):
            of.setdefault(cell.text, []).append(name)
        *some, most = sorted(of, key=lambda text: len(of[text]))
        lines += [["", text, "; ".join(of[text])] for text in some] + [
            ["", most, "all others" if some else "all"]
        ]
        lines[-len(of)][0] = row.title
    return Table(["", "Value", "Systems"], lines, 99)


def titled(metric: Metric) -> str:
    """A metric with its unit."""
    return f"{metric.title}, {metric.unit}"


def speed_rows(group: Group, footnotes: Footnotes) -> list[Row]:
    """Throughput, step times, and what they are of."""
    unit = rate_unit(group.systems)
    speedups = {pair.system: versus(pair) for pair in group.pairs}
    has_outliers = any(map(_outliers, group.systems))

    def throughput(system: SystemResult) -> Cell:
        excluded = " (excluded)" if system.exclusion else ""
        return Cell(
            f"{rate_of(system)}{between(system)}{excluded}",
            footnotes.numbers(system.value_warnings),
        )

    has_within = any(map(_within, group.systems))
    return _rows(
        group,
        (f"Throughput, {unit}", throughput),
        (
            "Within-run CI",
            lambda system: (_within(system) or _no_within(system)) if has_within else None,
        ),
        ("Run-to-run range", _range),
        (
            f"Speedup vs {group.baseline.name}",
            lambda system: speedups.get(system, "1.00× (baseline)") if speedups else None,
        ),
        ("Step time, mean", lambda system: _step_time(system, "avg_step_time_seconds")),
        ("Step time, median", lambda system: _step_time(system, "median_step_time_seconds")),
        ("Runs", lambda system: Cell(_runs_text(system), footnotes.numbers(system.run_warnings))),
        ("Steady-state steps", _steady_of),
        ("Outlier steps", lambda system: (_outliers(system) or "none") if has_outliers else None),
    )


PREDICTED = "†"


def versus(pair: Pair) -> str:
    """Return a system's rate over the baseline's, with its interval; marked if that is a prediction
    interval.
    """
    if pair.ratio is None:
        if pair.system.exclusion:
            return "excluded"
        return "not compared"
    return speedup_text(pair.ratio) + PREDICTED * (pair.ratio.method == "prediction")


def explained(table: Table) -> list[Table | Paragraph]:
    """Return a table and, if one of its intervals is marked, what the mark means."""
    is_marked = any(f"]{PREDICTED}" in text_of(cell) for row in table.rows for cell in row)
    text = f"{PREDICTED} one run: prediction interval, which assumes equal run-to-run variation"
    return [table, *[Paragraph(text, DETAIL)] * is_marked]


SCREEN = {
    "mfu": "MFU",
    "share_of_preflight": "of sustained",
    "tokens_per_joule": "tokens/J",
    "electricity_dollars_per_billion_tokens": "energy USD/10⁹",
    "dollars_per_billion_tokens": "USD/10⁹ tokens",
    "dollars_per_epoch": "USD/epoch",
}
"""Efficiency metrics of the first screen, and what they are called there."""


def screen_rows(comparison: Comparison, group: Group) -> list[Row]:
    """Return the rows of the first screen: throughput, step time, cost or peak memory, MFU."""
    unit = rate_unit(group.systems)
    found = _values(comparison, group)
    in_ms = (
        min(
            filter(None, (system.value("avg_step_time_seconds") for system in group.systems)),
            default=1.0,
        )
        < 0.1
    )
    rows = _rows(
        group,
        (
            unit,
            lambda system: (
                f"{rate_of(system)}{between(system)}{' (excluded)' if system.exclusion else ''}"
            ),
        ),
        (
            "step time, mean",
            lambda system: _step_time(system, "avg_step_time_seconds", in_ms=in_ms),
        ),
    )
    rows = [dataclasses.replace(row, short=row.title.partition(",")[0]) for row in rows]
    if comparison.prices:
        prices = (
            str(comparison.prices.get(system.name) or units.UNKNOWN) for system in group.systems
        )
        rows.append(Row("price per GPU-hour", tuple(map(Cell, prices)), "USD/h"))
    elif len(group.systems) == 2:
        # With prices there is no line for memory on a screen of 24.
        kinds = (
            each for each in MEMORY if each.name.startswith("peak") and "process" not in each.name
        )
        known = [kind for kind in kinds if all(system.value(kind.name) for system in group.systems)]
        rows += _rows(
            group, *((each.title.lower(), _gigabytes_of(each.name)) for each in known[:1])
        )
    in_samples = any(system.unit == "samples" for system in group.systems)
    # Whose peak an MFU is a share of.
    precisions = [system.run.training_config.precision for system in group.systems]
    peaks = []
    for precision in precisions:
        peaks.append(f" of {precision.upper()}" if precision and len(set(precisions)) > 1 else "")
    shown = {**SCREEN, "dollars_per_million_samples": "USD/10⁶ samples"} if in_samples else SCREEN
    for metric in _metrics_of(group):
        if metric.name in shown and any(_has(each, metric.name) for each in found):
            title = shown[metric.name]
            cells = (
                Cell(
                    _short(
                        each.get(metric.name), metric.name, comparison.prices.get(system.name), peak
                    )
                )
                for each, system, peak in zip(found, group.systems, peaks, strict=True)
            )
            rows.append(
                Row(f"{title} (share of peak)" if title == "MFU" else title, tuple(cells), title)
            )
    rounds = (row for row in group.settings if row.title == "MLPerf round" and row.differs)
    return [*rows, *(Row(row.title, _texts(row.values), "MLPerf") for row in rounds)]


def _metrics_of(group: Group) -> list[Metric]:
    """Return the metrics of efficiency; if no tokens are compared, without those of tokens, which
    not all have.
    """
    has_tokens = all(system.unit == "tokens" for system in group.systems)
    return [metric for metric in efficiency.METRICS if has_tokens or "token" not in metric.name]


def mismatch_rows(group: Group) -> list[Row]:
    """Return what keeps two systems from being compared: the work of a step, and how many steps are
    recorded.
    """
    differing = {entry.title for pair in group.pairs for entry in pair.config_diff.of("blocking")}
    if not differing or any(system.exclusion for system in group.systems):
        return []
    runs = [system.run for system in group.systems]
    rows = [Row(row.title, _texts(row.values)) for row in group.settings if row.title in differing]
    rows.append(Row("tokens per step", _texts([run.tokens_per_step for run in runs])))
    return [*rows, Row("steps recorded", _texts([len(run.steps) for run in runs]))]


def _texts(values: Sequence[int | str | None]) -> tuple[Cell, ...]:
    return tuple(
        Cell(units.number(value, 0) if isinstance(value, int) else value or units.UNKNOWN)
        for value in values
    )


def _short(got: Value | None, name: str, price: Price | None, peak: str) -> str:
    """Return a value of the first screen without its interval; what a range of prices costs as a
    range.
    """
    if got is None or (value := got.value) is None:
        return units.UNKNOWN
    if name == "tokens_per_joule" and got.low is not None and got.high is not None:
        if text := plus_minus(got.low, got.high):
            return f"{figure(Value(value))}{text}"
        return figure(got)
    if name in ("mfu", "share_of_preflight"):
        return f"{figure(Value(value))}%{peak if name == 'mfu' else ''}"
    if price is not None and price.low < price.high:
        return "–".join(
            figure(Value(value * price.cost(1, bound) / price.cost(1)))
            for bound in (price.low, price.high)
        )
    return figure(Value(value))


def _rows(
    group: Group, *table: tuple[str, Callable[[SystemResult], Cell | str | None]]
) -> list[Row]:
    """Rows by title and what a system has; without those of which no system has anything."""
    rows = []
    for title, read in table:
        found = [read(system) for system in group.systems]
        if any(found):
            cells = (
                each if isinstance(each, Cell) else Cell(each or units.UNKNOWN) for each in found
            )
            rows.append(Row(title, tuple(cells)))
    return rows


def _step_time(system: SystemResult, metric: str, *, in_ms: bool = False) -> str:
    value = system.value(metric)
    if value is None:
        return untimed(system)
    if in_ms:
        return f"{value * 1e3:,.1f} ms"
    return units.seconds(value)


def _within(system: SystemResult) -> str | None:
    """The interval within a single run, relative to its figure, and of which figure it is."""
    summaries = [result.summary for result in system.valid_runs]
    if len(summaries) != 1 or not summaries[0].is_stationary:
        return None
    level = summaries[0].segments[0]
    interval = level.interval
    if interval is None or interval.about == "range":
        return None
    centre = level.mean if interval.about == "mean" else level.median
    half = max(interval.high - centre, centre - interval.low) / centre
    of = "" if interval.about == "mean" else "median "
    return f"{of}±{half:.1%} ({interval.coverage:.0%} CI)"


def _no_within(system: SystemResult) -> str:
    runs = system.valid_runs
    if len(runs) == 1:
        if runs[0].summary.is_stationary:
            return "– (too few steps)"
        return "– (speed changes or drifts)"
    if runs:
        return f"– ({counted(len(runs), 'run')})"
    return units.UNKNOWN


def between(system: SystemResult) -> str:
    """Half the width of the interval between runs, relative, or its bounds if it is wide; nothing
    for one run.
    """
    bounds = bounds_of(system)
    if bounds is None:
        # Of several runs it is wider than intervals.WIDEST, from half to twice the value.
        if len(system.speeds) > 1:
            return " ± >100%"
        return ""
    return plus_minus(bounds.low, bounds.high) or f" [{rate(bounds.low)}–{rate(bounds.high)}]"


def efficiency_rows(comparison: Comparison, group: Group) -> list[Row]:
    """Share of the peak, if the precision is known; and what tokens cost, if prices are."""
    found = _values(comparison, group)
    if not any(_has(each, name) for each in found for name in SHOWS_WORTH):
        return []

    def text(values: Mapping[str, Value], name: str) -> str:
        value = values.get(name)
        if value is not None and "dollar" not in name and "joule" not in name:
            # Costs and energies have intervals of their own; that of the others is the speed's,
            # which stands above.
            value = Value(value.value)
        return figure(value)

    return [
        Row(titled(metric), tuple(Cell(text(each, metric.name)) for each in found))
        for metric in _metrics_of(group)
        if metric.name in WORTH and any(_has(each, metric.name) for each in found)
    ]


def _values(comparison: Comparison, group: Group) -> list[Mapping[str, Value]]:
    """Return the metrics of efficiency of each system; none of one that is excluded."""
    return [
        each[0].values if each else {}
        for each in (efficiencies(comparison, system) for system in group.systems)
    ]


def _has(values: Mapping[str, Value], name: str) -> bool:
    return (value := values.get(name)) is not None and value.value is not None


def _outliers(system: SystemResult) -> str | None:
    levels = [level for result in system.valid_runs for level in result.summary.segments]
    count = sum(level.outliers for level in levels)
    if not count:
        return None
    steps = [level.last_step - level.first_step + 1 for level in levels]
    share = sum(
        level.outlier_share * size for level, size in zip(levels, steps, strict=True)
    ) / sum(steps)
    return f"{count} ({share:.1%} of time)"


def memory_rows(group: Group) -> list[Row]:
    """Each kind of memory that a system has a figure of. The kinds are never compared with each
    other.
    """
    return _rows(group, *((each.title, _gigabytes_of(each.name)) for each in MEMORY))


def _gigabytes_of(name: str) -> Callable[[SystemResult], str | None]:
    return lambda system: (
        None if system.value(name) is None else units.gigabytes(system.value(name))
    )


def steady_steps(result: RunResult) -> str:
    """Which steps a run's figures are of."""
    steady = result.summary.steady
    if steady.first_step is None:
        return units.UNKNOWN
    steps = f"{steady.first_step}–{steady.last_step}"
    if steady.found:
        return steps
    return f"none found (steps {steps} used)"


def _runs_text(system: SystemResult) -> str:
    """Return the number of runs behind the values, and of all runs if it differs."""
    counted = len(system.valid_runs)
    every = len(system.runs)
    text = str(every) if counted == every else f"{counted} of {every}"
    statuses = sorted(
        {result.run.status for result in system.runs if result.run.status != "complete"}
    )
    if statuses:
        return f"{text} ({', '.join(statuses)})"
    return text


def _range(system: SystemResult) -> str | None:
    figure = system.figure(RATE)
    if figure is None or figure.min is None:
        return None
    return f"{rate(figure.min)}–{rate(figure.max)}"


def _steady_of(system: SystemResult) -> str:
    texts = list(dict.fromkeys(steady_steps(result) for result in system.valid_runs))
    if not texts:
        return units.UNKNOWN
    if len(texts) == 1:
        return texts[0]
    return f"{texts[0]} and {counted(len(texts) - 1, 'other')}"
