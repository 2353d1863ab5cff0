"""Scaling -> terminal text, blocks of a report, and values for --json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare.result import Comparison, Ratio
from tprimat.compare.scaling import BREAK, Crossover, Curve, Scaling, Size
from tprimat.report import tables
from tprimat.report.blocks import Block, Content, Heading, Image, Paragraph, Strong, Table, titled_bullets
from tprimat.report.json_values import fields
from tprimat.report.rates import bounds_of, rate, rate_unit
from tprimat.report.terminal import Terminal
from tprimat.report.verdict import Report
from tprimat.text import join_names, plain, shortened

MOST_CURVES = 8
"""Curves on the screen; the report has all."""

MOST_SIZES = 8
"""Rows of a table on the screen: the smallest sizes and the largest ones."""

BESIDE = 3
"""Curves of a model whose sizes are columns of a table."""

_EFFICIENCY = f"efficiency [{level()} CI]"

PLOT = "Throughput and efficiency over the number of GPUs"
METHOD = (
    f"Efficiency is the throughput per GPU divided by that of the smallest size, with the {level()} confidence "
    "interval of that ratio over runs (Welch's t on logarithms). Ideal: the smallest size's throughput per GPU times "
    f"the GPUs. The first size below {BREAK:.0%} is the smallest one whose whole interval is below it."
)


def render(report: Report, *, width: int = 80, color: bool = False, verbose: bool = False, quiet: bool = False) -> str:
    """Return the scaling as text, each line at most `width` wide."""
    out = Terminal(width=width, color=color)
    found = report.scaling
    assert found is not None
    if quiet:
        for curve in found.curves:
            out.line(f"{curve.model.title}, {headline(curve)}", "bold")
        return out.text() if found.curves else f"{NOTHING}\n"
    if not found.curves:
        out.line(NOTHING, "bold")
        out.entries("", [("-", note) for note in found.notes[: None if verbose else MOST_CURVES]], gap=False)
        return out.text()
    if len(found.curves) == 1:
        _one(out, found.curves[0], tables.shared(report.comparison))
    else:
        _several(out, found, report.comparison, verbose=verbose)
    for price in prices(report.comparison, found):
        out.line(price, indent=2)
    shown = [_crossover_text(each) for each in found.crossovers]
    caveats = [*notes(found), *(found.notes if verbose else ())]
    if shown:
        out.entries("", [("", text) for text in (shown if verbose else shown[:3])])
    most = len(caveats) if verbose else 4 if len(found.curves) == 1 else 3
    more = f" ({len(caveats) - most} more: --verbose)" if len(caveats) > most else ""
    out.entries(f"Caveats{more}", [("!", text if verbose else plain(text, 150)) for text in caveats[:most]], gap=False)
    return out.text()


NOTHING = "No scaling: no system was measured at two sizes"


def headline(curve: Curve) -> str:
    """Return the efficiency at the largest size, as a sentence without its period."""
    first, last = curve.sizes[0], curve.sizes[-1]
    ratio = last.efficiency
    assert ratio is not None
    interval = (
        ""
        if ratio.low is None or ratio.high is None
        else f" [{level()} CI {100 * ratio.low:.1f}–{100 * ratio.high:.1f}]"
    )
    return (
        f"{curve.name}: {ratio.value:.1%} efficiency at {last.gpus:,} {processes(curve)}, "
        f"compared with {first.gpus:,}{interval}"
    )


def kind_text(curve: Curve) -> str:
    """Return what kind of scaling it is, with its batch."""
    batch, per_gpu = curve.sizes[0].batch, _per_gpu(curve.sizes[0])
    return {
        "strong": f"strong scaling, global batch {batch} at every size",
        "weak": f"weak scaling, {per_gpu} {'sequence' if per_gpu == '1' else 'sequences'} per {process(curve)}",
        "mixed": "strong and weak scaling mixed",
        "unknown": "scaling with an unknown batch",
    }[curve.kind]


def break_text(curve: Curve) -> str:
    """Return where the efficiency falls below the limit."""
    size = curve.breaks_at
    if size is None:
        return f"not below {BREAK:.0%} at any size"
    before = curve.sizes[curve.sizes.index(size) - 1]
    return f"first below {BREAK:.0%} at {size.gpus:,} {processes(curve)}; the next smaller size is {before.gpus:,}"


def notes(found: Scaling) -> list[str]:
    """Return the notes of all curves; one that several share once."""
    curves_of: dict[str, list[str]] = {}
    for curve in found.curves:
        for note in curve.notes:
            curves_of.setdefault(note, []).append(curve.name)
    names = {curve.name for curve in found.curves}
    return [
        text if len(found.curves) == 1 or len(set(of)) == len(names) else f"{join_names(of)}: {text}"
        for text, of in curves_of.items()
    ]


def prices(comparison: Comparison, found: Scaling) -> list[str]:
    """Return the prices of the curves, with source and date."""
    known: dict[str, None] = {}
    for curve in found.curves:
        for size in curve.sizes:
            if price := comparison.prices.get(size.system.name):
                known[f"{curve.name} {price}"] = None
    note = next((note for note in comparison.notes if note.startswith("prices per GPU-hour")), "")
    return [f"Per GPU-hour: {', '.join(known)}{note.removeprefix('prices per GPU-hour')}"] if known else []


def blocks(report: Report, *, plot: bool) -> Iterator[Block]:
    """Yield the section of a report."""
    yield from answer(report, plot=plot)
    yield from sizes(report)


def answer(report: Report, *, plot: bool) -> Iterator[Block]:
    """Yield the efficiency of each curve, the plot and the caveats."""
    found = report.scaling
    assert found is not None
    if not found.curves:
        yield Paragraph([Strong(NOTHING)])
    for curve in found.curves:
        text = f"{curve.model.title}, {headline(curve)}"
        yield Paragraph([Strong(text), f". {_capital(kind_text(curve))}; {break_text(curve)}."])
    if plot and found.curves:
        yield Image(PLOT)
    yield from titled_bullets("Caveats:", notes(found))
    texts = [*map(_crossover_text, found.crossovers), *prices(report.comparison, found), *found.notes]
    yield from titled_bullets("Notes:", texts)


def sizes(report: Report) -> Iterator[Block]:
    """Yield a table for each curve, and what its columns are."""
    found = report.scaling
    assert found is not None
    for curve in found.curves:
        if len(found.curves) > 1:
            yield Heading(3, f"{curve.model.title}, {curve.name}")
        rows: list[list[Content]] = [[f"{row[0]} {processes(curve)}", *row[1:]] for row in _cells(curve)]
        yield Table(["", *_header(curve)[1:]], rows)
    if found.curves:
        yield Paragraph(METHOD)


def values(found: Scaling) -> dict[str, Any]:
    """Return the curves for --json."""
    return {
        "curves": [
            {
                **fields(curve, "model=model.model", "title=model.title", "system=name", "kind"),
                "unit": _unit(curve),
                **fields(curve, "breaks_at_gpus=breaks_at.gpus"),
                "break_below_efficiency": BREAK,
                "sizes": [_size_values(curve, size) for size in curve.sizes],
                "notes": curve.notes,
            }
            for curve in found.curves
        ],
        "crossovers": [fields(each, *_CROSSOVER) for each in found.crossovers],
        "notes": found.notes,
    }


_CROSSOVER = (
    *("faster_at_first=first.name", "other=second.name", "from_gpus=span.0", "to_gpus=span.1"),
    "turns_between_gpus=turns",
)


def _size_values(curve: Curve, size: Size) -> dict[str, Any]:
    bounds = bounds_of(size.system)
    between = bounds if bounds and bounds.kind == "between" else None
    return {
        **fields(size, "system=system.name", "gpus", "nodes", "global_batch_size=batch"),
        "runs": len(size.system.speeds),
        "per_gpu": {"value": size.rate, "low": between and between.low, "high": between and between.high},
        "total": size.rate * size.gpus,
        "ideal": _ideal(curve, size),
        "efficiency": size.efficiency and fields(size.efficiency, "value", "low", "high"),
        **fields(size, "per_usd=per_dollar", "per_joule"),
    }


def _one(out: Terminal, curve: Curve, shared: str) -> None:
    out.line(", ".join(filter(None, [curve.model.title, shared])) + f": {kind_text(curve)}")
    out.line()
    out.line(headline(curve), "bold", indent=2)
    runs = {len(size.system.speeds) for size in curve.sizes}
    each = f"; {_counted_runs(runs)} per size"
    out.line(f"{_capital(break_text(curve))}{each}", indent=2)
    out.line()
    rows = _cells(curve)
    if len(rows) > MOST_SIZES:
        half = MOST_SIZES // 2
        rows = [*rows[:half], ["…"] + [""] * (len(rows[0]) - 1), *rows[-half:]]
    header = _header(curve)
    # The screen has room for one more column: what was paid or used for goes before the ideal.
    hidden = {"sequences/GPU"} | ({"ideal"} if header[-1] != _EFFICIENCY else set())
    kept = [index for index, title in enumerate(header) if title not in hidden]
    out.table([header[index] for index in kept], [[row[index] for index in kept] for row in rows], gap=1, fold=False)
    out.line()


def _several(out: Terminal, found: Scaling, comparison: Comparison, *, verbose: bool) -> None:
    shown = found.curves if verbose else found.curves[:MOST_CURVES]
    models = {curve.model.title for curve in found.curves}
    if len(models) == 1:
        out.line(", ".join(filter(None, [*models, tables.shared(comparison)])))
        out.line()
    # Sizes beside each other show the rates already.
    is_beside = len(models) == 1 and len(shown) <= BESIDE
    is_priced = is_beside and all(size.per_dollar for curve in shown for size in curve.sizes)
    rows = []
    for curve in shown:
        name = curve.name if len(models) == 1 else f"{curve.model.short_title}, {curve.name}"
        first, last = curve.sizes[0], curve.sizes[-1]
        broken = curve.breaks_at
        rows.append(
            [
                shortened(name, 26),
                curve.kind,
                f"{first.gpus:,}–{last.gpus:,}",
                f"{_amount(first.per_dollar)}–{_amount(last.per_dollar)}"
                if is_priced
                else f"{rate(first.rate)}–{rate(last.rate)}",
                _percent(last.efficiency),
                "–" if broken is None else f"at {broken.gpus:,}",
            ]
        )
    work = rate_title(shown[0]).partition("/")[0]
    header = [
        "",
        "scaling",
        "GPUs",
        f"{work}/USD" if is_priced else "rate/GPU",
        _EFFICIENCY,
        f"< {BREAK:.0%}",
    ]
    out.table(header, rows, gap=0, fold=False)
    if len(found.curves) > len(shown):
        out.line(f"{len(found.curves) - len(shown)} more: --verbose")
    out.line()
    units_of = sorted({_unit(curve) for curve in shown})
    if is_beside:
        _beside(out, shown)
    else:
        out.line(f"Rates in {join_names(units_of)}; efficiency at the largest size, relative to the smallest.")
        out.line()


def _beside(out: Terminal, shown: Sequence[Curve]) -> None:
    """Add a table with a row for each size, of a few curves of one model beside each other."""
    places = sorted({size.gpus for curve in shown for size in curve.sizes})[: 2 * MOST_SIZES]
    rows = []
    for gpus in places:
        row = [f"{gpus:,}"]
        for curve in shown:
            size = next((size for size in curve.sizes if size.gpus == gpus), None)
            row.append(units.UNKNOWN if size is None else f"{rate(size.rate)} {_short_percent(size.efficiency)}")
        rows.append(row)
    out.table([f"{_unit(shown[0])}, GPUs", *(shortened(curve.name, 24) for curve in shown)], rows, gap=0, fold=False)
    out.line()


def _header(curve: Curve) -> list[str]:
    unit, total = _unit(curve), rate_title(curve)
    work = total.partition("/")[0]
    money = [f"{work}/USD"] if any(size.per_dollar for size in curve.sizes) else []
    energy = [f"{work}/J"] if any(size.per_joule for size in curve.sizes) else []
    nodes = ["nodes"] if _has_nodes(curve) else []
    return [processes(curve), *nodes, "batch", "sequences/GPU", unit, total, "ideal", _EFFICIENCY, *money, *energy]


def _cells(curve: Curve) -> list[list[str]]:
    """Return a row for each size."""
    nodes = _has_nodes(curve)
    money, energy = (any(getattr(size, name) for size in curve.sizes) for name in ("per_dollar", "per_joule"))
    return [
        [
            f"{size.gpus:,}",
            *([units.number(size.nodes, 0)] if nodes else []),
            units.UNKNOWN if size.batch is None else f"{size.batch:,}",
            _per_gpu(size),
            f"{rate(size.rate)}{tables.between(size.system)}",
            rate(size.rate * size.gpus),
            rate(_ideal(curve, size)),
            "100%" if size.efficiency is None else _percent(size.efficiency),
            *([_amount(size.per_dollar)] if money else []),
            *([_amount(size.per_joule)] if energy else []),
        ]
        for size in curve.sizes
    ]


def _has_nodes(curve: Curve) -> bool:
    """Return whether the sizes are known to differ in their machines."""
    return any((size.nodes or 1) > 1 for size in curve.sizes)


def _crossover_text(found: Crossover) -> str:
    first, second, unit = found.first.name, found.second.name, process(found.first)
    low, high = found.span
    if not found.turns:
        return f"{first} is faster per {unit} than {second} from {low:,} to {high:,}"
    places = join_names([f"between {before:,} and {after:,}" for before, after in found.turns])
    if len(found.turns) > 1:
        return f"The faster of {first} and {second} changes {places}"
    return f"Crossover {places}: {first} is faster per {unit} below, {second} above"


def _ideal(curve: Curve, size: Size) -> float:
    return curve.sizes[0].rate * size.gpus


def _percent(ratio: Ratio | None) -> str:
    if ratio is None:
        return "100%"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.1%}"
    return f"{ratio.value:.1%} [{100 * ratio.low:.1f}–{100 * ratio.high:.1f}]"


def _short_percent(ratio: Ratio | None) -> str:
    return "(100%)" if ratio is None else f"({ratio.value:.0%})"


def _per_gpu(size: Size) -> str:
    return units.UNKNOWN if size.batch is None else f"{size.batch / size.gpus:.3g}"


def _amount(value: float | None) -> str:
    return units.UNKNOWN if value is None else rate(value)


def _unit(curve: Curve) -> str:
    return rate_unit(size.system for size in curve.sizes)


def rate_title(curve: Curve) -> str:
    """Return the unit of all GPUs' rate."""
    return _unit(curve).removesuffix("/GPU").removesuffix("/process").removesuffix("/device")


def process(curve: Curve) -> str:
    """Return what a size counts."""
    return "process" if curve.sizes[0].system.run.platform == "cpu" else "GPU"


def processes(curve: Curve) -> str:
    """Return what a size counts, in the plural."""
    return "processes" if process(curve) == "process" else "GPUs"


def _counted_runs(runs: set[int]) -> str:
    low, high = min(runs), max(runs)
    return f"{low} run{'s' if low > 1 else ''}" if low == high else f"{low} to {high} runs"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
