"""Scaling -> a document, and values for --json."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare.curves import BREAK, Crossover, Curve, Scaling, Size
from tprimat.compare.result import Comparison, Ratio
from tprimat.notes.catalogue import sentence, words
from tprimat.report import tables
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Blocks,
    Distinct,
    Document,
    Heading,
    Headline,
    Image,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.json_values import fields
from tprimat.report.rates import bounds_of, rate, rate_unit
from tprimat.report.verdict import Report
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, counted, each_once, join_names

MOST_CURVES = 8
"""Most curves on the screen; the report has all."""

MOST_SIZES = 8
"""Most rows of a table on the screen: the smallest sizes and the largest ones."""

BESIDE = 3
"""Most curves of a model that are shown as columns of one table."""

_EFFICIENCY = f"efficiency [{level()} CI]"

PLOT = "Throughput and efficiency over the number of GPUs"
METHOD = (
    f"Efficiency is the throughput per GPU divided by that of the smallest size, with the {level()}"
    " confidence interval of that ratio over runs (Welch's t on logarithms). Ideal: the smallest"
    f" size's throughput per GPU times the GPUs. The first size below {BREAK:.0%} is the smallest"
    " one whose whole interval is below it."
)


NOTHING = "No scaling data: no system was measured at two GPU counts"


def headline(curve: Curve) -> str:
    """Return the efficiency at the largest size, as a sentence without its period."""
    first = curve.sizes[0]
    last = curve.sizes[-1]
    ratio = last.efficiency
    assert ratio is not None
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" [{level()} CI {100 * ratio.low:.1f}–{100 * ratio.high:.1f}]"
    return (
        f"{curve.name}: {ratio.value:.1%} scaling efficiency at {last.gpus:,} {processes(curve)} "
        f"({first.gpus:,} = 100%){interval}"
    )


def kind_text(curve: Curve) -> str:
    """Return the kind of scaling, with the batch."""
    if curve.kind == "strong":
        return f"strong scaling, global batch {curve.sizes[0].batch} throughout"
    if curve.kind == "weak":
        per_gpu = _per_gpu(curve.sizes[0])
        noun = "sequence" if per_gpu == "1" else "sequences"
        return f"weak scaling, {per_gpu} {noun} per {process(curve)}"
    if curve.kind == "mixed":
        return "strong and weak scaling mixed"
    return "scaling kind unknown (no batch size)"


def break_text(curve: Curve) -> str:
    """Return where the efficiency falls below the limit."""
    size = curve.breaks_at
    if size is None:
        return f"efficiency is {BREAK:.0%} or more throughout"
    before = curve.sizes[curve.sizes.index(size) - 1]
    return (
        f"efficiency falls below {BREAK:.0%} between {before.gpus:,} and {size.gpus:,}"
        f" {processes(curve)}"
    )


def cautions(found: Scaling) -> list[str]:
    """Return the notes of all curves, without duplicates."""
    names = set()
    texts = []
    for curve in found.curves:
        names.add(curve.name)
        for told in curve.notes:
            texts.append((curve.name, sentence(told)))
    return each_once(texts, len(names))


def prices(comparison: Comparison, found: Scaling) -> list[str]:
    """Return the prices of the curves, with source and date."""
    texts: Distinct = {}
    for curve in found.curves:
        for size in curve.sizes:
            if price := comparison.prices.get(size.system.name):
                texts[f"{curve.name} {price}"] = None
    if not texts:
        return []
    stated = ""
    for note in comparison.notes:
        if note.code == "prices-given":
            stated = f" from the command line ({note.fields['source']}, {note.fields['date']})"
    return [f"Per GPU-hour: {', '.join(texts)}{stated}"]


def remarks(scaling: Scaling) -> list[str]:
    """Return the texts on systems that belong to no curve."""
    texts = []
    for note, why in scaling.notes:
        texts.append(": ".join(filter(None, (words(note), sentence(why)))))
    return texts


def document(report: Report) -> Document:
    """Return the scaling: the efficiency of each curve, prices, crossovers and caveats; then every
    size.
    """
    scaling = report.scaling
    assert scaling is not None
    if not scaling.curves:
        return Document([Headline(NOTHING), *notes(remarks(scaling), most=MOST_CURVES)])
    shared = tables.shared(report.comparison)
    screen: list[Block] = []
    details = notes(remarks(scaling), "Notes")
    answer = []
    for curve in scaling.curves:
        title = f"{curve.model.title}, {headline(curve)}"
        answer.append(Headline(title))
        if len(scaling.curves) > 1:
            kind = capitalized(kind_text(curve))
            details.append(Paragraph(f"{title}. {kind}; {break_text(curve)}."))
    most = 3
    if len(scaling.curves) == 1:
        most = 4
        screen += _one(scaling.curves[0], shared)
    else:
        screen += _several(scaling.curves, shared)
    screen += [Paragraph(price, DETAIL) for price in prices(report.comparison, scaling)]
    screen += notes(map(_crossover_text, scaling.crossovers), marks="", most=3)
    screen += notes(cautions(scaling), "Caveats", "!", most=most)
    return Document([*screen, Image(PLOT)], [*details, *sizes(report)], answer)


def sizes(report: Report) -> Blocks:
    """Yield a table for each curve, and an explanation of the columns."""
    scaling = report.scaling
    assert scaling is not None
    for curve in scaling.curves:
        if len(scaling.curves) > 1:
            yield Heading(3, f"{curve.model.title}, {curve.name}")
        yield _sizes(curve)
    if scaling.curves:
        yield Paragraph(METHOD)


def values(found: Scaling) -> JsonObject:
    """Return the curves for --json."""
    return {
        "curves": [_curve_values(curve) for curve in found.curves],
        "crossovers": [fields(crossover, *_CROSSOVER) for crossover in found.crossovers],
        "notes": remarks(found),
        "note_codes": [(note, *why) for note, why in found.notes],
    }


def _curve_values(curve: Curve) -> JsonObject:
    return {
        **fields(curve, "model=model.model", "title=model.title", "system=name", "kind"),
        "unit": unit_of(curve),
        **fields(curve, "breaks_at_gpus=breaks_at.gpus"),
        "break_below_efficiency": BREAK,
        "sizes": [_size_values(curve, size) for size in curve.sizes],
        "notes": list(map(sentence, curve.notes)),
        "note_codes": curve.notes,
    }


_CROSSOVER = (
    *("faster_at_first=first.name", "other=second.name", "from_gpus=span.0", "to_gpus=span.1"),
    "turns_between_gpus=turns",
)


def _size_values(curve: Curve, size: Size) -> JsonObject:
    return {
        **fields(size, "system=system.name", "gpus", "nodes", "global_batch_size=batch"),
        "runs": len(size.system.speeds),
        "per_gpu": {"value": size.rate, **fields(bounds_of(size.system), "low", "high")},
        "total": size.rate * size.gpus,
        "ideal": curve.sizes[0].rate * size.gpus,
        "efficiency": size.efficiency and fields(size.efficiency, "value", "low", "high"),
        **fields(size, "per_usd=per_dollar", "per_joule"),
    }


def _one(curve: Curve, shared: str) -> Blocks:
    runs = [len(size.system.speeds) for size in curve.sizes]
    per_point = counted(runs[0], "run")
    if min(runs) < max(runs):
        per_point = f"{min(runs)} to {max(runs)} runs"
    context = f"{', '.join(filter(None, [curve.model.title, shared]))}: {kind_text(curve)}"
    certainty = f"{capitalized(break_text(curve))}; {per_point} per point"
    yield Headline(headline(curve), certainty, context, f"{curve.model.title}, {headline(curve)}")
    yield _sizes(curve)


def _several(curves: Sequence[Curve], shared: str) -> Blocks:
    """Yield a table with a row for each curve; then the sizes, if the curves are few and of one
    model.
    """
    models = {curve.model.title for curve in curves}
    if len(models) == 1:
        yield Paragraph(", ".join(filter(None, [*models, shared])))
    # If the sizes follow in a table, it shows the rates already.
    is_beside = len(models) == 1 and len(curves) <= BESIDE
    is_priced = is_beside and all(size.per_dollar for curve in curves for size in curve.sizes)
    title = "rate/GPU"
    if is_priced:
        title = f"{rate_title(curves[0]).partition('/')[0]}/USD"
    rows = []
    for curve in curves:
        first = curve.sizes[0]
        last = curve.sizes[-1]
        name = curve.name
        if len(models) > 1:
            name = f"{curve.model.short_title}, {name}"
        rates = f"{rate(first.rate)}–{rate(last.rate)}"
        if is_priced:
            rates = f"{rate(first.per_dollar)}–{rate(last.per_dollar)}"
        breaks_at = f"at {curve.breaks_at.gpus:,}" if curve.breaks_at else "–"
        gpus = f"{first.gpus:,}–{last.gpus:,}"
        rows.append([name, curve.kind, gpus, rates, _percent(last.efficiency), breaks_at])
    header = ["", "scaling", "GPUs", title, _EFFICIENCY, f"< {BREAK:.0%}"]
    yield Table(header, rows, most=MOST_CURVES)
    if is_beside:
        yield _beside(curves)
    else:
        units_of = join_names(sorted(set(map(unit_of, curves))))
        yield Paragraph(
            f"Rates in {units_of}; efficiency at the largest GPU count, relative to the smallest."
        )


def _beside(curves: Sequence[Curve]) -> Table:
    """Return a table with a row for each size and a column for each of a few curves of one
    model.
    """
    header = [f"{unit_of(curves[0])}, GPUs"]
    rows: dict[int, list[str]] = {}
    for column, curve in enumerate(curves):
        header.append(curve.name)
        for size in curve.sizes:
            share = size.efficiency.value if size.efficiency else 1.0
            row = rows.setdefault(size.gpus, [f"{size.gpus:,}", *[units.UNKNOWN] * len(curves)])
            row[column + 1] = f"{rate(size.rate)} ({share:.0%})"
    return Table(header, [rows[gpus] for gpus in sorted(rows)], most=2 * MOST_SIZES)


def _sizes(curve: Curve) -> Table:
    """Return a table of the sizes of a curve. On the first screen the ideal is omitted if there
    are columns for cost or energy.
    """
    total = rate_title(curve)
    work = total.partition("/")[0]
    ideal = curve.sizes[0].rate
    rows = []
    for size in curve.sizes:
        rows.append(
            {
                processes(curve): f"{size.gpus:,}",
                "nodes": units.number(size.nodes, 0),
                "batch": units.number(size.batch, 0),
                "sequences/GPU": _per_gpu(size),
                unit_of(curve): f"{rate(size.rate)}{tables.between(size.system)}",
                total: rate(size.rate * size.gpus),
                "ideal": rate(ideal * size.gpus),
                _EFFICIENCY: _percent(size.efficiency),
                f"{work}/USD": rate(size.per_dollar),
                f"{work}/J": rate(size.per_joule),
            }
        )
    header = list(rows[0])
    if all((size.nodes or 1) == 1 for size in curve.sizes):
        header.remove("nodes")
    if not any(size.per_dollar for size in curve.sizes):
        header.remove(f"{work}/USD")
    if not any(size.per_joule for size in curve.sizes):
        header.remove(f"{work}/J")
    hidden = [header.index("sequences/GPU")]
    if header[-1] != _EFFICIENCY:
        hidden.append(header.index("ideal"))
    lines = [[row[title] for title in header] for row in rows]
    return Table(header, lines, hidden=hidden, most=MOST_SIZES)


def _crossover_text(found: Crossover) -> str:
    first = found.first.name
    second = found.second.name
    unit = process(found.first)
    if not found.turns:
        low, high = found.span
        return f"{first} is faster per {unit} than {second} from {low:,} to {high:,}"
    places = join_names([f"between {before:,} and {after:,}" for before, after in found.turns])
    if len(found.turns) > 1:
        return f"{first} and {second} take turns being faster: they cross {places}"
    return f"Crossover {places}: {first} is faster per {unit} below, {second} above"


def _percent(ratio: Ratio | None) -> str:
    if ratio is None:
        return "100%"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.1%}"
    return f"{ratio.value:.1%} [{100 * ratio.low:.1f}–{100 * ratio.high:.1f}]"


def _per_gpu(size: Size) -> str:
    if size.batch is None:
        return units.UNKNOWN
    return f"{size.batch / size.gpus:.3g}"


def unit_of(curve: Curve) -> str:
    """Return the unit of the rates of a curve's sizes."""
    return rate_unit(size.system for size in curve.sizes)


def rate_title(curve: Curve) -> str:
    """Return the unit of the rate of all GPUs together."""
    return unit_of(curve).removesuffix("/GPU").removesuffix("/process").removesuffix("/device")


def process(curve: Curve) -> str:
    """Return the word for what a curve's sizes count: GPU, or process on CPUs."""
    if curve.sizes[0].system.run.platform == "cpu":
        return "process"
    return "GPU"


def processes(curve: Curve) -> str:
    """Return the word for what a curve's sizes count, in the plural."""
    if process(curve) == "process":
        return "processes"
    return "GPUs"
