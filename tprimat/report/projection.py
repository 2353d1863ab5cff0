"""A curve projected to another number of GPUs -> a document, and values for --json."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tprimat import units
from tprimat.analysis import projection as forms
from tprimat.analysis.intervals import level
from tprimat.analysis.projection import FAR, FORMS, LEAST, Projection
from tprimat.compare.curves import Curve, Scaling
from tprimat.report.blocks import DETAIL, Block, Document, Headline, Paragraph, Table, notes
from tprimat.report.json_values import fields
from tprimat.report.rates import rate
from tprimat.report.scaling import process, processes, rate_title, unit_of
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, plain

TITLES = {"communication": "communication model", "line": "straight line in log-log"}
MOST_PROJECTIONS = 3
WIDE = 2.0
"""From this factor between its bounds on, an interval is too wide to plan with."""

MOST_CAVEATS = 3

OPEN = (
    "Not covered: limits of parallelism, the network beyond the measured GPU counts, failures,"
    " evaluation, checkpoints, and the samples needed to converge."
)


@dataclasses.dataclass(frozen=True)
class CurveProjection:
    """A curve with its projection."""

    curve: Curve
    found: Projection

    @property
    def is_within(self) -> bool:
        """Whether the size lies between measured ones."""
        return self.curve.sizes[0].gpus <= self.found.gpus <= self.curve.sizes[-1].gpus


def of(curve: Curve, gpus: int, batch: int | None) -> CurveProjection | None:
    """Return the projection of a curve; None if its sizes allow none."""
    points = curve.points
    found = forms.project(points, gpus, batch or forms.default_batch(points, gpus))
    if found is None:
        return None
    return CurveProjection(curve, found)


def document(
    projections: Sequence[CurveProjection], found: Scaling, *, verbose: bool = False
) -> Document:
    """Return each projection: its throughput, how well the forms project the measured sizes, and
    what is doubtful.

    Several projections are short unless verbose.
    """
    if not projections:
        few = []
        for curve in found.curves:
            few.append(f"{curve.model.title}, {curve.name}: {len(curve.sizes)} GPU counts")
        text = (
            f"No projection: no system was measured at {LEAST} GPU counts (the largest tests the"
            " model)"
        )
        return Document([Headline(text), *notes([*few, *found.notes], most=8)])
    is_short = len(projections) > 1 and not verbose
    shown = projections if verbose else projections[:MOST_PROJECTIONS]
    screen: list[Block] = []
    for each in shown:
        screen.append(Headline(headline(each), f"{capitalized(interval(each))}; {details(each)}"))
        if not is_short:
            screen.append(_table(each))
        texts = [backtest(each), *([] if is_short else [f"{formula(each)}."])]
        screen += [Paragraph(text, DETAIL) for text in texts]
        screen += notes(
            warnings(each), "" if is_short else "Caveats", "!", 1 if is_short else MOST_CAVEATS
        )
    if left := len(projections) - len(shown):
        screen.append(Paragraph(f"{left} more with --verbose"))
    if not is_short:
        screen.append(Paragraph(OPEN))
    return Document(
        screen,
        answer=[
            Headline(f"{headline(projection)}, {interval(projection)}")
            for projection in projections
        ],
    )


def headline(each: CurveProjection) -> str:
    """Return the projected throughput of all GPUs, as a sentence without its period."""
    curve = each.curve
    found = each.found
    word = "interpolated" if each.is_within else "projected"
    total = rounded(found.rate * found.gpus)
    return plain(
        f"{curve.model.title}, {found.gpus:,}×{curve.name}: {total} {rate_title(curve)} {word}"
    )


def rounded(value: float) -> str:
    """Return a projected value with three digits: more would claim what a projection doesn't
    know.
    """
    return f"{float(f'{value:.3g}'):,.15g}"


def interval(each: CurveProjection) -> str:
    """Return the interval of the throughput of all GPUs."""
    low = each.found.low
    high = each.found.high
    return f"{level()} interval {rounded(low * each.found.gpus)}–{rounded(high * each.found.gpus)}"


def details(each: CurveProjection) -> str:
    """Return throughput per GPU and efficiency, with the batch that they are for."""
    curve = each.curve
    found = each.found
    first = curve.sizes[0]
    batch = "batch unknown" if found.batch is None else f"batch {found.batch:,}"
    return (
        f"{rounded(found.rate)} {unit_of(curve)}, {found.rate / first.rate:.1%} efficiency "
        f"({first.gpus:,} = 100%); {batch}"
    )


def formula(each: CurveProjection) -> str:
    """Return the form that is used, with its parameters."""
    fit = each.found.fit
    first, second = fit.parameters
    if fit.form == "line":
        return (
            f"Straight line: each doubling multiplies the throughput per {process(each.curve)} by"
            f" {2**second:.3f}"
        )
    return f"Model: step time = {first:.4g} s × batch / GPUs + {second:.4g} s × log2(GPUs)"


def backtest(each: CurveProjection) -> str:
    """Return how well either form projects the largest measured size, and which one is used."""
    curve = each.curve
    found = each.found
    tests = [(form, found.backtest[form]) for form in FORMS if form in found.backtest]
    texts = [f"{error:+.1%} ({TITLES[form]})" for form, error in tests]
    return (
        f"Backtest: {curve.sizes[-1].gpus:,} {processes(curve)} projected from the smaller GPU"
        f" counts: error {' and '.join(texts)}; the {TITLES[found.fit.form]} is used."
    )


def warnings(each: CurveProjection) -> list[str]:
    """Return what makes a projection doubtful."""
    curve = each.curve
    found = each.found
    largest = curve.sizes[-1]
    smallest = curve.sizes[0]
    texts = []
    if measured := next((size for size in curve.sizes if size.gpus == found.gpus), None):
        batch = "" if measured.batch is None else f" with batch {measured.batch:,}"
        texts.append(
            f"{found.gpus:,} {processes(curve)} were measured: {rate(measured.rate)}"
            f" {unit_of(curve)}{batch}"
        )
    if found.high > WIDE * found.low:
        texts.append(
            f"the interval is too wide for planning: only {len(curve.sizes)} GPU counts were"
            " measured"
        )
    if found.gpus >= FAR * largest.gpus:
        factor = found.gpus / largest.gpus
        texts.append(
            f"{factor:.3g} times the largest measured GPU count ({largest.gpus:,}): untested at"
            " that scale"
        )
    elif found.gpus < smallest.gpus:
        texts.append(f"below the smallest measured GPU count ({smallest.gpus:,})")
    usual = forms.default_batch(curve.points, found.gpus)
    if found.batch is None:
        return [*texts, *curve.notes]
    if found.batch == usual and curve.kind != "strong":
        if found.fit.form == "communication":
            effect = ""
        else:
            effect = "; the straight line doesn't depend on it"
        texts.append(f"batch {found.batch:,} assumed (change it with --batch){effect}")
    elif found.batch != usual and found.fit.form == "line":
        texts.append("the straight line doesn't depend on the batch: --batch has no effect")
    elif usual is not None and max(found.batch / usual, usual / found.batch) >= FAR:
        texts.append(
            f"batch {found.batch:,} is far from the measured batches ({usual:,} at this GPU count):"
            " the model is untested there"
        )
    if found.batch < found.gpus and curve.kind == "strong":
        share = f"{found.batch / found.gpus:.3g} sequences per {process(curve)}"
        texts.append(f"{share}: the model must be divided further to use all {processes(curve)}")
    return [*texts, *curve.notes]


def values(each: CurveProjection) -> JsonObject:
    """Return a projection for --json."""
    curve = each.curve
    found = each.found
    per_gpu = fields(found, "value=rate", "low", "high")
    return {
        **fields(each, "model=curve.model.model", "system=curve.name", "gpus=found.gpus"),
        "global_batch_size": found.batch,
        "unit": unit_of(curve),
        "per_gpu": per_gpu,
        "total": {name: value * found.gpus for name, value in per_gpu.items()},
        "efficiency": found.rate / curve.sizes[0].rate,
        **fields(found.fit, "form", "parameters"),
        "backtest": {"gpus": curve.sizes[-1].gpus, **found.backtest},
        "measured_gpus": [size.gpus for size in curve.sizes],
        "warnings": warnings(each),
    }


def _table(each: CurveProjection) -> Table:
    curve = each.curve
    found = each.found
    rows = []
    for point in curve.points:
        fitted = found.fit.rate(point.gpus, point.batch, point.work)
        left = forms.left_out(curve.points, point.gpus, found.fit.form)
        rows.append(
            [
                f"{point.gpus:,}",
                units.UNKNOWN if point.batch is None else f"{point.batch:,}",
                rate(point.rate),
                rate(fitted),
                units.UNKNOWN if left is None else f"{left:+.1%}",
            ]
        )
    return Table([processes(curve), "batch", unit_of(curve), "fitted", "backtest error"], rows[-8:])
