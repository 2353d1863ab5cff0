"""Compare the runs of two runs: decides whether quality and time to quality may be compared.

Synthetic data is normal for a test of speed; it is recognized and named, and quality is not
compared then.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator
from typing import Literal

from tprimat.analysis import flops
from tprimat.analysis.intervals import Bounds
from tprimat.checks import Finding
from tprimat.results.run import Run

STEP_TOLERANCE = 0.05
BAD_STEPS_SHARE = 0.01
"""Megatron's functional tests: losses within 5 %, except for max(1, n / 100) steps."""

FIRST_LOSS_TOLERANCE = 0.01
"""From one checkpoint and one batch. Our own choice; there is no published value."""

LEAST_STEPS = 20
"""Steps that losses must cover before their level says what the data are: every training starts at
ln V.
"""

NEAR_UNIFORM = 0.02
COLLAPSED_LOSS = 0.1
"""Nats/token. No text has so little entropy; below this, the model has memorized its data."""

COLLAPSE_TOKENS = 1e9
SYNTHETIC_KINDS = ("mock", "markov", "synthetic", "random", "null")
LEARNING_RATE_TOLERANCE = 1e-3

Nature = Literal["uniform random", "predictable", "known entropy", "synthetic", "real", "unknown"]


@dataclasses.dataclass(frozen=True)
class TrainingMatch:
    """Whether two runs are the same training.

    Attributes:
        same: None if the evidence doesn't decide.
        reasons: one sentence each, with values.
        agreeing_steps: share of the common steps whose losses lie within 5 % of the second's; None
            without losses.
    """

    same: bool | None
    reasons: tuple[str, ...]
    agreeing_steps: float | None


def nature_of_data(run: Run) -> tuple[Nature, str]:
    """Return what a run was trained on, by name and by its loss curve; with the evidence in
    words.
    """
    losses = _losses(run)
    entropy = run.data.entropy
    if entropy is not None:
        return (
            "known entropy",
            f"synthetic data ({run.data.kind}, entropy {entropy:.3f} nats/token)",
        )
    level = _uniform_loss(run)
    # A single record may average a whole training.
    covered = (
        n for n, loss in zip(run.window_steps, run.loss_values, strict=True) if loss is not None
    )
    end = None
    if sum(covered) >= LEAST_STEPS:
        end = statistics.fmean(losses[-10:])
    if end is not None and level is not None and abs(end / level - 1) < NEAR_UNIFORM:
        return (
            "uniform random",
            (
                f"loss stays at ln(vocabulary) = {level:.2f}: random mock tokens, as in NeMo; speed"
                " is unaffected"
            ),
        )
    if end is not None and end < COLLAPSED_LOSS and _tokens(run) < COLLAPSE_TOKENS:
        return (
            "predictable",
            (
                f"loss reaches {end:.4f} within {_tokens(run) / 1e6:,.1f} million tokens: typical"
                " of mock data (Megatron, Primus); speed is unaffected"
            ),
        )
    if _is_named_synthetic(run):
        return "synthetic", f"synthetic data ({run.data.kind})"
    if run.data.kind:
        return ("real", f"data set {run.data.kind}")
    return ("unknown", "training data unknown")


def findings(run: Run) -> Iterator[Finding]:
    """Yield what a run's losses show of the run itself."""
    if 0 < len(_losses(run)) < len(run.steps):
        lost = []
        for step, loss in zip(run.steps, run.loss_values, strict=True):
            if loss is None:
                lost.append(step)
        text = (
            f"no finite loss in {len(lost)} of {len(run.steps)} records (first at step {lost[0]})"
        )
        yield Finding("warning", "loss-missing", text)
    if below := below_entropy(run):
        yield Finding("error", "below-entropy", below)
    nature, evidence = nature_of_data(run)
    if (
        run.data.kind is not None
        and not _is_named_synthetic(run)
        and nature in ("uniform random", "predictable")
    ):
        yield Finding(
            "warning",
            "loss-of-real-data",
            f"{evidence}; but the result names its data {run.data.kind}",
        )
    elif nature not in ("real", "unknown"):
        yield Finding("info", "synthetic-data", evidence)


def below_entropy(run: Run, window: int = 20) -> str | None:
    """Return where the mean loss of a window is below what any model can reach; None where nowhere.

    By more than four standard errors, and only for data whose entropy is known.
    """
    entropy = run.data.entropy
    losses = _losses(run)
    if entropy is None:
        return None
    for first in range(0, len(losses) - window + 1, window):
        part = losses[first : first + window]
        error = statistics.stdev(part) / math.sqrt(window)
        mean = statistics.fmean(part)
        if mean < entropy - 4 * error:
            return (
                f"mean loss of {window} records from record {first + 1} on is {mean:.4f}"
                " nats/token, more than four standard errors below the data's entropy"
                f" ({entropy:.4f}): data leakage, or the logged value is not the training loss"
            )
    return None


def same_training(first: Run, second: Run) -> TrainingMatch:
    """Return whether two runs trained the same model on the same data in the same way."""
    evidence = []
    digests = first.data.digest, second.data.digest
    if data := _different_data(first, second):
        evidence.append((False, data))
    elif None not in digests:
        evidence.append((True, "same data (matching checksum)"))
    starts = _first_loss(first), _first_loss(second)
    if starts[0] is not None and starts[1] is not None:
        apart = math.inf
        if starts[1]:
            apart = abs(starts[0] / starts[1] - 1)
        level = _uniform_loss(first)
        text = f"first losses {starts[0]:.3f} and {starts[1]:.3f}" + (
            f" (ln(vocabulary) = {level:.2f})" if level else ""
        )
        evidence.append((apart <= FIRST_LOSS_TOLERANCE, text))
    if rates := _learning_rates(first, second):
        evidence.append((False, rates))
    share = None
    if losses := _common_steps(first, second, "loss_values"):
        agreeing = sum(
            abs(loss - other) <= STEP_TOLERANCE * abs(other) for _, loss, other in losses
        )
        share = agreeing / len(losses)
        text = f"loss agrees within {STEP_TOLERANCE:.0%} on {share:.1%} of shared steps"
        evidence.append(
            (len(losses) - agreeing <= max(1, int(len(losses) * BAD_STEPS_SHARE)), text)
        )
    if against := tuple(text for agrees, text in evidence if not agrees):
        return TrainingMatch(False, against, share)
    # Equal curves alone prove nothing: uniform random tokens give everybody the same one.
    proven = None not in digests and share is not None
    return TrainingMatch(True if proven else None, tuple(text for _, text in evidence), share)


def no_loss_comparison(first: Run, second: Run) -> str | None:
    """Return why losses after the same tokens say nothing of two programs; None if nothing is known
    against it.

    How far the losses themselves differ is no reason: that is the question.
    """
    natures = (nature_of_data(run) for run in (first, second))
    mock = (evidence for nature, evidence in natures if nature in ("uniform random", "predictable"))
    return _different_data(first, second) or _learning_rates(first, second) or next(mock, None)


def _different_data(first: Run, second: Run) -> str | None:
    digests = (first.data.digest, second.data.digest)
    kinds = (first.data.kind, second.data.kind)
    if None not in digests:
        if digests[0] == digests[1]:
            return None
        return "different data (checksums differ)"
    if all(kinds) and kinds[0] != kinds[1]:
        return f"different data: {kinds[0]} and {kinds[1]}"
    return None


def _is_named_synthetic(run: Run) -> bool:
    return any(kind in (run.data.kind or "").lower() for kind in SYNTHETIC_KINDS)


def _losses(run: Run) -> list[float]:
    return [loss for loss in run.loss_values if loss is not None]


def _first_loss(run: Run) -> float | None:
    if run.steps and run.steps[0] == 1:
        return run.loss_values[0]
    return None


def _tokens(run: Run) -> float:
    return (run.tokens_per_step or 0) * (run.steps[-1] if run.steps else 0) or math.inf


def _uniform_loss(run: Run) -> float | None:
    shape, _ = flops.model_shape(run)
    if shape and shape.vocab_size:
        return math.log(shape.vocab_size)
    return None


def _common_steps(first: Run, second: Run, series: str) -> list[tuple[int, float, float]]:
    """Return the steps at which both have a value of a series, with both values."""
    count = min(len(first.steps), len(second.steps))
    if first.steps[:count] == second.steps[:count]:
        both = zip(first.steps, getattr(first, series), getattr(second, series), strict=False)
        return [
            (step, one, other) for step, one, other in both if one is not None and other is not None
        ]
    others = dict(zip(second.steps, getattr(second, series), strict=True))
    return [
        (step, value, other)
        for step, value in zip(first.steps, getattr(first, series), strict=True)
        if value is not None and (other := others.get(step)) is not None
    ]


def _learning_rates(first: Run, second: Run) -> str | None:
    """Return how the learning rates are known to differ; None if they aren't."""
    common = _common_steps(first, second, "learning_rates")
    for step, rate, other in common:
        if not math.isclose(rate, other, rel_tol=LEARNING_RATE_TOLERANCE, abs_tol=1e-12):
            return f"learning rates differ, first at step {step}: {rate:.4g} and {other:.4g}"
    if common:
        return None
    ends = _end_rates(first)
    others = _end_rates(second)
    if ends and others and ends != others:
        return (
            f"learning rates differ: {ends[0]:.3g} to {ends[1]:.3g} and {others[0]:.3g} to"
            f" {others[1]:.3g}"
        )
    peaks = first.optimizer.learning_rate, second.optimizer.learning_rate
    if None not in peaks and peaks[0] != peaks[1]:
        return f"learning rates differ: {peaks[0]:.4g} and {peaks[1]:.4g}"
    return None


def _end_rates(run: Run) -> Bounds | None:
    """Return the first and last learning rate, from the series or, if it has no places, as
    printed.
    """
    known = [rate for rate in run.learning_rates if rate is not None]
    first = run.native_metrics.get("first_learning_rate")
    last = run.native_metrics.get("last_learning_rate")
    if known:
        return known[0], known[-1]
    if isinstance(first, float) and isinstance(last, float):
        return (first, last)
    return None
