"""Two sides: how many times as fast one is, or why that can't be said, and what weakens it."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat.analysis.run_order import Order
from tprimat.analysis.summary import WITHHELD
from tprimat.checks import compute, training
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.settings import same_known_shape, shape_conflict
from tprimat.compare import ratios, windows
from tprimat.compare.ratios import RATE
from tprimat.compare.result import Pair, SideResult
from tprimat.results.run import Run
from tprimat.text import plain


def pair(reference: SideResult, side: SideResult, *, mode: Mode = "max") -> Pair:
    """Set a side against the reference; "identical" refuses every difference of configuration."""
    ledger = compute.ledger(reference.run, side.run, mode=mode)
    reason = (
        _different_models(reference.run, side.run)
        or _no_figures(reference)
        or _no_figures(side)
        or _not_believed(reference)
        or _not_believed(side)
        or _not_identical(ledger, mode)
        or _no_ratio(reference, side)
    )
    ratio = None if reason else ratios.ratio(reference, side)
    single = len(reference.counted) == len(side.counted) == 1
    return Pair(
        reference,
        side,
        ratio,
        reason,
        tuple(_caveats(reference, side)) if ratio else (),
        ledger,
        training.same_training(reference.run, side.run),
        windows.sensitivity(reference.run, side.run) if ratio and single else (),
    )


def _not_believed(side: SideResult) -> str | None:
    finding = side.refusal
    return None if finding is None else f"the figures of {side.name} are left out: {finding.text}"


def _not_identical(ledger: ConfigDiff, mode: Mode) -> str | None:
    if mode != "identical" or ledger.verdict != "not comparable":
        return None
    titles = [entry.title for entry in ledger.of("disqualifying")]
    return f"the configurations aren't identical: they differ in {', '.join(titles)}"


def _different_models(one: Run, other: Run) -> str | None:
    """Why the two trained something that can't be compared per token; None where they can."""
    conflict = shape_conflict(one.model_config, other.model_config)
    if conflict:
        return f"the models differ in shape ({conflict})"
    scales = {one.scale, other.scale}
    if len(scales) > 1 and scales != {None, "full"}:
        first, second = (plain(scale) if scale else "unknown" for scale in (one.scale, other.scale))
        return f"the scales differ ({first} and {second}), so these are different models"
    if one.model is None and not same_known_shape(one.model_config, other.model_config):
        return "the results don't say which model was trained"
    return None


def _no_figures(side: SideResult) -> str | None:
    name = side.name
    if side.run.environment.emulated:
        return f"{name} was an emulated device, whose times mean nothing"
    if side.value("avg_step_time_seconds") is None:
        return f"{name} has no step times: its run {side.ended}"
    return None


def _no_ratio(reference: SideResult, side: SideResult) -> str | None:
    """Why there is no ratio of throughputs. Step times are never compared: steps differ in work."""
    lacking = [_why_no_rate(each) for each in (reference, side) if each.value(RATE) is None]
    if lacking:
        return f"{'; '.join(dict.fromkeys(lacking))}; step times alone are no speed"
    lengths = [each.run.training_config.sequence_length for each in (reference, side)]
    if lengths[0] != lengths[1]:
        return f"sequences of {lengths[0]} and {lengths[1]} tokens are different work per token"
    return None


def _why_no_rate(side: SideResult) -> str:
    doubt = next((doubt for doubt in side.doubts if WITHHELD in doubt), None)
    why = f" ({doubt.removeprefix(WITHHELD).lstrip(': ')})" if doubt else ""
    return f"tokens/s/GPU of {side.name} is unknown{why}"


def _caveats(reference: SideResult, side: SideResult) -> Iterator[str]:
    batches = [each.run.training_config.global_batch_size for each in (reference, side)]
    if batches[0] != batches[1]:
        texts = [str(batch) if batch is not None else "unknown" for batch in batches]
        yield f"the batches differ ({' and '.join(texts)} sequences), so a step is not the same work"
    if len({each.run.timing.covers for each in (reference, side)} - {None}) > 1:
        yield "the step times don't cover the same parts of a step"
    for each in (reference, side):
        name = each.name
        summaries = [result.summary for result in each.counted]
        if not all(summary.steady.found for summary in summaries):
            yield f"{name}: {_unsteady(each)}"
        if any(len(summary.segments) > 1 for summary in summaries):
            yield f"{name} changed its level during the run, so a run of another length gives another ratio"
        drifts = [level.drift for summary in summaries for level in summary.segments if level.drift is not None]
        if drifts:
            yield f"the step time of {name} drifts by {max(drifts):.1%}"
        if (share := _one_step(each)) is not None:
            yield f"a single step of {name} took {share:.1%} of its steady time: without it the ratio would be another"
        if each.order is not None:
            yield _of_order(name, each.order)
        if not any(result.run.status == "complete" for result in each.counted):
            yield f"{name} has no complete run"


def _unsteady(side: SideResult) -> str:
    """Why the figures of a side are rough, as the words that follow its name."""
    counts = {len([time for time in each.run.step_times if time is not None]) for each in side.counted}
    if counts == {1}:
        return "a single record, from which no warm-up can be told"
    return "no steady state was found, so the figures may hold warm-up"


EXTREME = 0.01
"""Share of the steady time that one record may take beyond the median before it decides the ratio:
as much as the least change that is called a level."""


def _one_step(side: SideResult) -> float | None:
    """Share of a run's steady time that its longest step took beyond the median, where it decides; else None."""
    shares = []
    for each in side.counted:
        figures = each.summary.performance
        longest, median = figures.max_step_time_seconds, figures.median_step_time_seconds
        mean = figures.avg_step_time_seconds
        if longest is None or median is None or not mean or not each.summary.is_stationary:
            continue
        level = each.summary.segments[0]
        shares.append((longest - median) / (mean * (level.last_step - level.first_step + 1)))
    return max((share for share in shares if share > EXTREME), default=None)


def _of_order(name: str, order: Order) -> str:
    if order.kind == "alternates":
        return f"the runs of {name} alternate (odd against even {abs(order.size):.1%}): run the sides in turns"
    return (
        f"the throughput of {name} {order.kind} from run to run (first half against second {abs(order.size):.1%}), so "
        "its spread isn't the machine's: run the sides in turns"
    )
