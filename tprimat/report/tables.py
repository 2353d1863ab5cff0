"""The content of the tables in all formats, independent of how each format draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.metrics import Metric
from tprimat.catalog.prices import Price
from tprimat.compare import Comparison, Group, Pair, RunResult, SystemResult
from tprimat.compare.cost import efficiencies
from tprimat.report.blocks import DETAIL, Cells, Content, Paragraph, Table, text_of
from tprimat.report.efficiency import figure
from tprimat.report.rates import (
    RATE,
    STEP_TIME,
    Systems,
    bounds_of,
    plus_minus,
    rate,
    rate_of,
    rate_unit,
    run_warnings,
    untimed,
    value_warnings,
)
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
"""Rows of efficiency.METRICS that a comparison shows next to the speeds."""

SHOWS_WORTH = (
    "mfu",
    "share_of_preflight",
    "joules_per_token",
    "tokens_per_dollar",
    "samples_per_second",
)
"""The table of efficiency is shown if at least one of these metrics is known."""

BESIDE = 4
"""Most systems that are columns of a table; more are rows."""

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
"""Names of frameworks as their makers write them."""

STACKS = ("cuda", "rocm", "cpu")
"""Software stacks that the name of the device implies."""


def shared(comparison: Comparison, systems: Systems = ()) -> str:
    """Return what all systems share and neither their names nor the model's contain, with the
    MLPerf round of `systems`.
    """
    runs = [system.run for system in systems or comparison.systems]
    if runs and all(run.platform == "cpu" and run.scale not in (None, "full") for run in runs):
        return "on a CPU (to try the tool, not to judge GPUs)"
    names = " ".join(comparison.system_names)
    rounds = {plain(run.framework_config.get("mlperf_round") or "") for run in runs}
    has_round = len(rounds) == 1 and rounds != {""}
    parts = []
    for part in comparison.shared:
        is_named = part.startswith("scale ") or part in names or part in STACKS
        if not is_named and not (has_round and part == "mlperf"):
            parts.append(FRAMEWORKS.get(part, plain(part)))
    if has_round:
        parts.append(f"MLPerf {rounds.pop()}")
    return ", ".join(parts)


class Footnotes:
    """Warnings with numbers, each text once: first those about values, then those about runs."""

    def __init__(self, comparison: Comparison) -> None:
        texts: list[str] = []
        for system in comparison.systems:
            texts += value_warnings(system)
        for system in comparison.systems:
            texts += run_warnings(system)
        self._numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), start=1)}

    def numbers(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of texts, in increasing order."""
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

    Attributes:
        metric: the name of the metric that it shows; empty if it shows no metric.
    """

    title: str
    cells: tuple[Cell, ...]
    short: str = ""
    metric: str = ""


_Read = Callable[[SystemResult], Cell | str | None]
"""A function that returns the content of a row for a system; None if unknown."""

NO_CELL = Cell(units.UNKNOWN)


def grid(
    names: Sequence[str],
    rows: Sequence[Row],
    cell: Callable[[Row, int], Content] = lambda row, system: row.cells[system].text,
    *,
    caption: str = "",
) -> Table:
    """Return a table of rows, with the systems as columns, or as rows if there are more than
    BESIDE.

    `cell` returns the content for a row and the index of a system; by default it is the text of the
    row's cell.
    """
    lines: list[Cells] = [["", *names]]
    for row in rows:
        lines.append([row.title, *(cell(row, system) for system in range(len(names)))])
    if len(names) <= BESIDE:
        return Table(lines[0], lines[1:], caption=caption)
    below = [list(column) for column in zip(*lines, strict=True)]
    return Table(below[0], below[1:], caption=caption, many=bool(caption))


def texts(names: Sequence[str], rows: Sequence[Row]) -> Table:
    """Return a table of texts: a few systems are columns; for many, each value has a row with the
    systems that have it.
    """
    if len(names) <= BESIDE:
        return dataclasses.replace(grid(names, rows), right_from=99)
    lines = []
    for row in rows:
        of: dict[str, list[str]] = {}
        for name, cell in zip(names, row.cells, strict=True):
            of.setdefault(cell.text, []).append(name)
        title = row.title
        *some, most = sorted(of, key=lambda text: len(of[text]))
        for text in some:
            lines.append([title, text, "; ".join(of[text])])
            title = ""
        lines.append([title, most, "all others" if some else "all"])
    return Table(["", "Value", "Systems"], lines, 99)


def row_of(title: str, texts: Iterable[str], short: str = "", metric: str = "") -> Row:
    """Return a row of texts without footnotes."""
    return Row(title, tuple(map(Cell, texts)), short, metric)


def titled(metric: Metric) -> str:
    """Return a metric's title with its unit."""
    return f"{metric.title}, {metric.unit}"


def speed_rows(group: Group, footnotes: Footnotes) -> list[Row]:
    """Return the rows of throughput, step times, and the steps and runs that these cover."""
    speedups = {pair.system: versus(pair) for pair in group.pairs}
    table: list[tuple[str, str, _Read]] = [
        (
            f"Throughput, {rate_unit(group.systems)}",
            RATE,
            lambda system: Cell(_throughput(system), footnotes.numbers(value_warnings(system))),
        )
    ]
    if any(map(_within, group.systems)):
        table.append(("Within-run CI", "", lambda system: _within(system) or _no_within(system)))
    table.append(("Run-to-run range", RATE, _range))
    if speedups:
        baseline = "1.00× (baseline)"
        title = f"Speedup vs {group.baseline.name}"
        table.append((title, "", lambda system: speedups.get(system, baseline)))
    table += [
        ("Step time, mean", STEP_TIME, step_time),
        (
            "Step time, median",
            "median_step_time_seconds",
            lambda system: step_time(system, "median_step_time_seconds"),
        ),
        (
            "Runs",
            "",
            lambda system: Cell(_runs_text(system), footnotes.numbers(run_warnings(system))),
        ),
        ("Steady-state steps", "", _steady_of),
    ]
    if any(map(_outliers, group.systems)):
        table.append(("Outlier steps", "", lambda system: _outliers(system) or "none"))
    return _rows(group, *table)


def _throughput(system: SystemResult) -> str:
    text = f"{rate_of(system)}{between(system)}"
    if system.exclusion:
        return f"{text} (excluded)"
    return text


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
    if any(f"]{PREDICTED}" in text_of(cell) for row in table.rows for cell in row):
        text = f"{PREDICTED} one run: prediction interval, which assumes equal run-to-run variation"
        return [table, Paragraph(text, DETAIL)]
    return [table]


SCREEN = {
    "mfu": "MFU",
    "share_of_preflight": "of sustained",
    "tokens_per_joule": "tokens/J",
    "electricity_dollars_per_billion_tokens": "energy USD/10⁹",
    "dollars_per_billion_tokens": "USD/10⁹ tokens",
    "dollars_per_epoch": "USD/epoch",
}
"""Efficiency metrics of the first screen, with their titles there."""


def screen_rows(comparison: Comparison, group: Group) -> list[Row]:
    """Return the rows of the first screen: throughput, step time, cost or peak memory, MFU."""
    rows = _speed_on_screen(group)
    prices = comparison.prices
    if prices:
        texts = [str(prices.get(system.name) or units.UNKNOWN) for system in group.systems]
        rows.append(row_of("price per GPU-hour", texts, "USD/h"))
    elif len(group.systems) == 2:
        # With prices, a screen of 24 lines has no room for memory.
        rows += _peak_memory(group)
    in_samples = any(system.unit == "samples" for system in group.systems)
    shown = {**SCREEN, "dollars_per_million_samples": "USD/10⁶ samples"} if in_samples else SCREEN
    of_systems = _values(comparison, group)
    for metric in _metrics_of(group):
        if metric.name in shown and any(_has(values, metric.name) for values in of_systems):
            title = shown[metric.name]
            texts = []
            for system, values in zip(group.systems, of_systems, strict=True):
                text = _short(values.get(metric.name), metric.name, prices.get(system.name))
                if metric.name == "mfu" and text != units.UNKNOWN:
                    text += _peak(system, group)
                texts.append(text)
            long = "MFU (share of peak)" if title == "MFU" else title
            rows.append(row_of(long, texts, title))
    for setting in group.settings:
        if setting.title == "MLPerf round" and setting.differs:
            rows.append(row_of(setting.title, _texts(setting.values), "MLPerf"))
    return rows


def _speed_on_screen(group: Group) -> list[Row]:
    times = [system.value(STEP_TIME) for system in group.systems]
    in_ms = min(filter(None, times), default=1.0) < 0.1
    rows = _rows(
        group,
        (rate_unit(group.systems), RATE, _throughput),
        ("step time, mean", STEP_TIME, lambda system: step_time(system, in_ms=in_ms)),
    )
    return [dataclasses.replace(row, short=row.title.partition(",")[0]) for row in rows]


def _peak_memory(group: Group) -> list[Row]:
    """Return the row of the first kind of peak memory that is known for all systems."""
    for metric in MEMORY:
        is_peak = metric.name.startswith("peak") and "process" not in metric.name
        if is_peak and all(system.value(metric.name) for system in group.systems):
            return _rows(group, (metric.title.lower(), metric.name, _gigabytes_of(metric.name)))
    return []


def _peak(system: SystemResult, group: Group) -> str:
    """Return the precision whose peak a system's MFU refers to, if these differ in the group."""
    own = system.run.training_config.precision
    if own and any(other.run.training_config.precision != own for other in group.systems):
        return f" of {own.upper()}"
    return ""


def _metrics_of(group: Group) -> list[Metric]:
    """Return the metrics of efficiency; without those of tokens if rates don't count tokens, since
    not all systems have them then.
    """
    has_tokens = all(system.unit == "tokens" for system in group.systems)
    return [metric for metric in efficiency.METRICS if has_tokens or "token" not in metric.name]


def mismatch_rows(group: Group) -> list[Row]:
    """Return the rows that show why two systems can't be compared: the work of a step, and the
    number of recorded steps.
    """
    differing = {entry.title for pair in group.pairs for entry in pair.config_diff.of("blocking")}
    if not differing or any(system.exclusion for system in group.systems):
        return []
    rows = []
    for setting in group.settings:
        if setting.title in differing:
            rows.append(row_of(setting.title, _texts(setting.values)))
    runs = [system.run for system in group.systems]
    rows.append(row_of("tokens per step", _texts([run.tokens_per_step for run in runs])))
    rows.append(row_of("steps recorded", _texts([len(run.steps) for run in runs])))
    return rows


def _texts(values: Iterable[int | str | None]) -> Iterator[str]:
    for value in values:
        if isinstance(value, int):
            yield units.number(value, 0)
        else:
            yield value or units.UNKNOWN


def _short(got: Value | None, name: str, price: Price | None) -> str:
    """Return a value of the first screen without its interval; with a range of prices, a cost is a
    range.
    """
    if got is None or got.value is None:
        return units.UNKNOWN
    if name == "tokens_per_joule" and got.low is not None and got.high is not None:
        if text := plus_minus(got.low, got.high):
            return f"{figure(Value(got.value))}{text}"
        return figure(got)
    if name in ("mfu", "share_of_preflight"):
        return f"{figure(Value(got.value))}%"
    if price is not None and price.low < price.high:
        dollars = got.value / price.cost(1)
        low = figure(Value(dollars * price.cost(1, price.low)))
        return f"{low}–{figure(Value(dollars * price.cost(1, price.high)))}"
    return figure(Value(got.value))


def _rows(group: Group, *table: tuple[str, str, _Read]) -> list[Row]:
    """Return rows from titles, metrics and functions that read a system's value; rows that are
    empty for all systems are omitted.
    """
    rows = []
    for title, metric, read in table:
        cells = []
        for value in map(read, group.systems):
            cells.append(value if isinstance(value, Cell) else Cell(value or ""))
        if any(cell.text for cell in cells):
            shown = tuple(cell if cell.text else NO_CELL for cell in cells)
            rows.append(Row(title, shown, metric=metric))
    return rows


def step_time(system: SystemResult, metric: str = STEP_TIME, *, in_ms: bool = False) -> str:
    """Return a system's step time as text, or the text that replaces it."""
    value = system.value(metric)
    if value is None:
        return untimed(system)
    if in_ms:
        return f"{value * 1e3:,.1f} ms"
    return units.seconds(value)


def _within(system: SystemResult) -> str | None:
    """Return the interval within a single run, relative to the value, and which value that is; None
    if unknown.
    """
    summaries = [result.summary for result in system.valid_runs]
    if len(summaries) != 1 or not summaries[0].is_stationary:
        return None
    level = summaries[0].segments[0]
    interval = level.interval
    if interval is None or interval.about == "range":
        return None
    center = level.median
    of = "median "
    if interval.about == "mean":
        center = level.mean
        of = ""
    half = max(interval.high - center, center - interval.low) / center
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
    """Return the relative half-width of the interval between runs, or its bounds if it is wide;
    empty for one run.
    """
    bounds = bounds_of(system)
    if bounds is None:
        # Of several runs it is wider than intervals.WIDEST, from half to twice the value.
        if len(system.speeds) > 1:
            return " ± >100%"
        return ""
    return plus_minus(bounds.low, bounds.high) or f" [{rate(bounds.low)}–{rate(bounds.high)}]"


def efficiency_rows(comparison: Comparison, group: Group) -> list[Row]:
    """Return the rows of the share of the peak, if the precision is known, and of the cost of
    tokens, if prices are.
    """
    of_systems = _values(comparison, group)
    if not any(_has(values, name) for values in of_systems for name in SHOWS_WORTH):
        return []
    rows = []
    for metric in _metrics_of(group):
        if metric.name in WORTH and any(_has(values, metric.name) for values in of_systems):
            texts = [_worth(values.get(metric.name), metric.name) for values in of_systems]
            rows.append(row_of(titled(metric), texts, metric=metric.name))
    return rows


def _worth(value: Value | None, name: str) -> str:
    """Return a value of efficiency as text.

    Costs and energies have their own intervals; that of the other metrics is the speed's, which is
    shown above.
    """
    if value is not None and "dollar" not in name and "joule" not in name:
        return figure(Value(value.value))
    return figure(value)


def _values(comparison: Comparison, group: Group) -> list[Mapping[str, Value]]:
    """Return the metrics of efficiency of each system; empty for an excluded system."""
    values: list[Mapping[str, Value]] = []
    for system in group.systems:
        columns = efficiencies(comparison, system)
        values.append(columns[0].values if columns else {})
    return values


def _has(values: Mapping[str, Value], name: str) -> bool:
    value = values.get(name)
    return value is not None and value.value is not None


def _outliers(system: SystemResult) -> str | None:
    count = 0
    steps = 0
    time = 0.0
    for result in system.valid_runs:
        for segment in result.summary.segments:
            size = segment.last_step - segment.first_step + 1
            count += segment.outliers
            steps += size
            time += segment.outlier_share * size
    if not count:
        return None
    return f"{count} ({time / steps:.1%} of time)"


def memory_rows(group: Group) -> list[Row]:
    """Return a row for each kind of memory that is known for a system. Different kinds are never
    compared with each other.
    """
    return _rows(
        group, *((metric.title, metric.name, _gigabytes_of(metric.name)) for metric in MEMORY)
    )


def _gigabytes_of(name: str) -> _Read:
    def read(system: SystemResult) -> str | None:
        value = system.value(name)
        if value is None:
            return None
        return units.gigabytes(value)

    return read


def steady_steps(result: RunResult) -> str:
    """Return the steps that a run's values are computed from."""
    steady = result.summary.steady
    if steady.first_step is None:
        return units.UNKNOWN
    steps = f"{steady.first_step}–{steady.last_step}"
    if steady.found:
        return steps
    return f"none found (steps {steps} used)"


def _runs_text(system: SystemResult) -> str:
    """Return the number of runs that count, and that of all runs if it differs."""
    text = str(len(system.valid_runs))
    if len(system.valid_runs) < len(system.runs):
        text += f" of {len(system.runs)}"
    statuses = {result.run.status for result in system.runs} - {"complete"}
    if statuses:
        return f"{text} ({', '.join(sorted(statuses))})"
    return text


def _range(system: SystemResult) -> str | None:
    figure = system.figure(RATE)
    if figure is None or figure.min is None:
        return None
    return f"{rate(figure.min)}–{rate(figure.max)}"


def _steady_of(system: SystemResult) -> str:
    texts = list(dict.fromkeys(map(steady_steps, system.valid_runs)))
    if not texts:
        return units.UNKNOWN
    if len(texts) == 1:
        return texts[0]
    return f"{texts[0]} and {counted(len(texts) - 1, 'other')}"
