"""The projection of a curve to another number of GPUs -> a document, and values for --json."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis import projection as forms
from tprimat.analysis.intervals import level
from tprimat.analysis.projection import FAR, FORMS, LEAST, Projection
from tprimat.compare.curves import Curve, Scaling
from tprimat.notes.catalogue import sentence
from tprimat.report.blocks import DETAIL, Block, Blocks, Document, Headline, Paragraph, Table, notes
from tprimat.report.json_values import fields
from tprimat.report.rates import rate
from tprimat.report.scaling import process, processes, rate_title, remarks, unit_of
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, plain

TITLES = {"communication": "communication model", "line": "straight line in log-log"}
MOST_PROJECTIONS = 3
WIDE = 2.0
"""Quotient of an interval's bounds above which it is too wide for planning."""

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
        """Whether the number of GPUs is between measured ones."""
        return self.curve.sizes[0].gpus <= self.found.gpus <= self.curve.sizes[-1].gpus


def of_curve(curve: Curve, gpus: int, batch: int | None) -> CurveProjection | None:
    """Return the projection of a curve to a number of GPUs; None if it has too few sizes.

    `batch` is the global batch; None for the default one.
    """
    points = curve.points
    projected = forms.project(points, gpus, batch or forms.default_batch(points, gpus))
    if projected is None:
        return None
    return CurveProjection(curve, projected)


def document(
    projections: Sequence[CurveProjection], found: Scaling, *, verbose: bool = False
) -> Document:
    """Return each projection: its throughput, how well the fitted forms project the measured sizes,
    and what is doubtful.

    Several projections are shown in short form unless verbose.
    """
    if not projections:
        return _no_projection(found)
    is_short = len(projections) > 1 and not verbose
    screen: list[Block] = []
    answer = []
    for number, projection in enumerate(projections):
        title = headline(projection)
        answer.append(Headline(f"{title}, {interval(projection)}"))
        if verbose or number < MOST_PROJECTIONS:
            certainty = f"{capitalized(interval(projection))}; {details(projection)}"
            screen.append(Headline(title, certainty))
            screen += _rest(projection, is_short=is_short)
    if not verbose and len(projections) > MOST_PROJECTIONS:
        screen.append(Paragraph(f"{len(projections) - MOST_PROJECTIONS} more with --verbose"))
    if not is_short:
        screen.append(Paragraph(OPEN))
    return Document(screen, answer=answer)


def _no_projection(found: Scaling) -> Document:
    texts = []
    for curve in found.curves:
        texts.append(f"{curve.model.title}, {curve.name}: {len(curve.sizes)} GPU counts")
    head = (
        f"No projection: no system was measured at {LEAST} GPU counts (the largest tests the model)"
    )
    return Document([Headline(head), *notes([*texts, *remarks(found)], most=8)])


def _rest(projection: CurveProjection, *, is_short: bool) -> Blocks:
    """Yield what follows the headline of a projection."""
    if is_short:
        yield Paragraph(backtest(projection), DETAIL)
        yield from notes(warnings(projection), "", "!", 1)
        return
    yield _table(projection)
    yield Paragraph(backtest(projection), DETAIL)
    yield Paragraph(f"{formula(projection)}.", DETAIL)
    yield from notes(warnings(projection), "Caveats", "!", MOST_CAVEATS)


def headline(projection: CurveProjection) -> str:
    """Return the projected throughput of all GPUs, as a sentence without its period."""
    curve = projection.curve
    found = projection.found
    word = "interpolated" if projection.is_within else "projected"
    total = rounded(found.rate * found.gpus)
    return plain(
        f"{curve.model.title}, {found.gpus:,}×{curve.name}: {total} {rate_title(curve)} {word}"
    )


def rounded(value: float) -> str:
    """Return a projected value with three significant digits: more would suggest a precision that
    it doesn't have.
    """
    return f"{float(f'{value:.3g}'):,.15g}"


def interval(projection: CurveProjection) -> str:
    """Return the interval of the throughput of all GPUs."""
    found = projection.found
    return (
        f"{level()} interval {rounded(found.low * found.gpus)}–{rounded(found.high * found.gpus)}"
    )


def details(projection: CurveProjection) -> str:
    """Return the throughput per GPU and the efficiency, with the batch that they assume."""
    curve = projection.curve
    found = projection.found
    first = curve.sizes[0]
    batch = "batch unknown" if found.batch is None else f"batch {found.batch:,}"
    return (
        f"{rounded(found.rate)} {unit_of(curve)}, {found.rate / first.rate:.1%} efficiency "
        f"({first.gpus:,} = 100%); {batch}"
    )


def formula(projection: CurveProjection) -> str:
    """Return the form that is used, with its parameters."""
    fit = projection.found.fit
    first, second = fit.parameters
    if fit.form == "line":
        return (
            "Straight line: each doubling multiplies the throughput per"
            f" {process(projection.curve)} by {2**second:.3f}"
        )
    return f"Model: step time = {first:.4g} s × batch / GPUs + {second:.4g} s × log2(GPUs)"


def backtest(projection: CurveProjection) -> str:
    """Return how well each form projects the largest measured size, and which one is used."""
    curve = projection.curve
    found = projection.found
    texts = []
    for form in FORMS:
        if form in found.backtest:
            texts.append(f"{found.backtest[form]:+.1%} ({TITLES[form]})")
    return (
        f"Backtest: {curve.sizes[-1].gpus:,} {processes(curve)} projected from the smaller GPU"
        f" counts: error {' and '.join(texts)}; the {TITLES[found.fit.form]} is used."
    )


def warnings(projection: CurveProjection) -> list[str]:
    """Return what makes a projection doubtful."""
    of_curve = map(sentence, projection.curve.notes)
    return [*_of_size(projection), *_of_batch(projection), *of_curve]


def _of_size(projection: CurveProjection) -> Iterator[str]:
    """Yield remarks on the size: it was measured, the interval is wide, or it is far from the
    measured sizes.
    """
    curve = projection.curve
    found = projection.found
    for size in curve.sizes:
        if size.gpus == found.gpus:
            text = f"{found.gpus:,} {processes(curve)} were measured: {rate(size.rate)}"
            batch = "" if size.batch is None else f" with batch {size.batch:,}"
            yield f"{text} {unit_of(curve)}{batch}"
            break
    if found.high > WIDE * found.low:
        yield (
            f"the interval is too wide for planning: only {len(curve.sizes)} GPU counts were"
            " measured"
        )
    smallest = curve.sizes[0].gpus
    largest = curve.sizes[-1].gpus
    if found.gpus >= FAR * largest:
        yield (
            f"{found.gpus / largest:.3g} times the largest measured GPU count ({largest:,}):"
            " untested at that scale"
        )
    elif found.gpus < smallest:
        yield f"below the smallest measured GPU count ({smallest:,})"


def _of_batch(projection: CurveProjection) -> Iterator[str]:
    """Yield remarks on the batch: it is assumed, has no effect, is far from the measured ones, or
    too small.
    """
    curve = projection.curve
    found = projection.found
    if found.batch is None:
        return
    usual = forms.default_batch(curve.points, found.gpus)
    if found.batch == usual and curve.kind != "strong":
        text = f"batch {found.batch:,} assumed (change it with --batch)"
        if found.fit.form != "communication":
            text += "; the straight line doesn't depend on it"
        yield text
    elif found.batch != usual and found.fit.form == "line":
        yield "the straight line doesn't depend on the batch: --batch has no effect"
    elif usual is not None and max(found.batch / usual, usual / found.batch) >= FAR:
        yield (
            f"batch {found.batch:,} is far from the measured batches ({usual:,} at this GPU count):"
            " the model is untested there"
        )
    if found.batch < found.gpus and curve.kind == "strong":
        share = f"{found.batch / found.gpus:.3g} sequences per {process(curve)}"
        yield f"{share}: the model must be divided further to use all {processes(curve)}"


def values(projection: CurveProjection) -> JsonObject:
    """Return a projection for --json."""
    curve = projection.curve
    found = projection.found
    per_gpu = fields(found, "value=rate", "low", "high")
    return {
        **fields(projection, "model=curve.model.model", "system=curve.name", "gpus=found.gpus"),
        "global_batch_size": found.batch,
        "unit": unit_of(curve),
        "per_gpu": per_gpu,
        "total": {name: value * found.gpus for name, value in per_gpu.items()},
        "efficiency": found.rate / curve.sizes[0].rate,
        **fields(found.fit, "form", "parameters"),
        "backtest": {"gpus": curve.sizes[-1].gpus, **found.backtest},
        "measured_gpus": [size.gpus for size in curve.sizes],
        "warnings": warnings(projection),
    }


def _table(projection: CurveProjection) -> Table:
    curve = projection.curve
    fit = projection.found.fit
    rows = []
    for point in curve.points:
        batch = units.number(point.batch, 0)
        fitted = rate(fit.rate(point.gpus, point.batch, point.work))
        left = forms.left_out(curve.points, point.gpus, fit.form)
        error = units.UNKNOWN if left is None else f"{left:+.1%}"
        rows.append([f"{point.gpus:,}", batch, rate(point.rate), fitted, error])
    return Table([processes(curve), "batch", unit_of(curve), "fitted", "backtest error"], rows[-8:])
