"""Compare the training of two runs, to decide whether quality and time to quality may be compared.

Synthetic data is normal for a test of speed. It is recognized and reported, and quality is not
compared then.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator

from tprimat.analysis import flops
from tprimat.analysis.intervals import Bounds
from tprimat.checks import Finding, finding_of
from tprimat.notes import Note
from tprimat.results.run import Run

STEP_TOLERANCE = 0.05
BAD_STEPS_SHARE = 0.01
"""Relative difference of two losses of a step, and share of the n common steps that may exceed it:
max(1, n / 100) steps, as in Megatron's functional tests.
"""

FIRST_LOSS_TOLERANCE = 0.01
"""Relative difference of the first losses of two runs that start from the same weights with the
same batch. Our own choice; there is no published value.
"""

LEAST_STEPS = 20
"""Fewest steps that losses must cover before their level shows what the data are: every training
starts near ln V, V being the size of the vocabulary.
"""

NEAR_UNIFORM = 0.02
COLLAPSED_LOSS = 0.1
"""NEAR_UNIFORM: relative distance from ln V within which a loss is that of uniformly random tokens.
COLLAPSED_LOSS, nats/token: no text has so little entropy; below it, the model memorized its data.
"""

COLLAPSE_TOKENS = 1e9
SYNTHETIC_KINDS = ("mock", "markov", "synthetic", "random", "null")
LEARNING_RATE_TOLERANCE = 1e-3

MOCK_LOSSES = ("uniform-loss", "collapsed-loss")
"""Codes of losses that only mock data have."""


def is_mock(synthetic: Note) -> bool:
    """Return whether synthetic data, given by its note, is mock data, by its loss or its name."""
    return synthetic.code in MOCK_LOSSES or "mock" in str(synthetic.fields.get("kind"))


@dataclasses.dataclass(frozen=True)
class TrainingMatch:
    """Whether two runs are the same training.

    Attributes:
        same: None if the evidence doesn't decide.
        reasons: the evidence, with values.
        agreeing_steps: share of the common steps at which the first run's loss is within
            STEP_TOLERANCE of the second run's; None without common losses.
    """

    same: bool | None
    reasons: tuple[Note, ...]
    agreeing_steps: float | None


def synthetic_data(run: Run) -> Note | None:
    """Return a note on what shows that a run's data is synthetic, by the loss curve or the name of
    the data; None if it is real or unknown.
    """
    kind = run.data.kind
    if run.data.entropy is not None:
        return Note("known-entropy", {"kind": kind, "entropy": run.data.entropy})
    level = _uniform_loss(run)
    # Steps are counted rather than records, since one record may average a whole training.
    covered = 0
    for window, loss in zip(run.window_steps, run.loss_values, strict=True):
        if loss is not None:
            covered += window
    if covered >= LEAST_STEPS:
        end = statistics.fmean(_losses(run)[-10:])
        if level is not None and abs(end / level - 1) < NEAR_UNIFORM:
            return Note("uniform-loss", {"level": level})
        if end < COLLAPSED_LOSS and _tokens(run) < COLLAPSE_TOKENS:
            return Note("collapsed-loss", {"loss": end, "millions": _tokens(run) / 1e6})
    return Note("synthetic-data", {"kind": kind}) if _is_named_synthetic(run) else None


def findings(run: Run) -> Iterator[Finding]:
    """Yield what a run's losses show about the run itself."""
    if 0 < len(_losses(run)) < len(run.steps):
        lost = []
        for step, loss in zip(run.steps, run.loss_values, strict=True):
            if loss is None:
                lost.append(step)
        yield finding_of(
            "warning",
            "loss-missing",
            "loss-missing",
            missing=len(lost),
            records=len(run.steps),
            step=lost[0],
        )
    if below := below_entropy(run):
        yield Finding("error", "below-entropy", below)
    synthetic = synthetic_data(run)
    if synthetic is None:
        return
    kind = run.data.kind
    if kind is not None and not _is_named_synthetic(run) and synthetic.code in MOCK_LOSSES:
        note = Note(synthetic.code, {**synthetic.fields, "kind": kind})
        yield Finding("warning", "loss-of-real-data", note)
    else:
        yield Finding("info", "synthetic-data", synthetic)


def below_entropy(run: Run, window: int = 20) -> Note | None:
    """Return a note on the first window of losses whose mean is below what any model can reach:
    the entropy of the data, by more than four standard errors.

    None if there is no such window, or if the entropy is unknown.
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
            place = {"window": window, "first": first + 1}
            return Note("below-entropy", {**place, "mean": mean, "entropy": entropy})
    return None


def same_training(first: Run, second: Run) -> TrainingMatch:
    """Return whether two runs trained the same model on the same data in the same way."""
    evidence = []
    digests = first.data.digest, second.data.digest
    if data := _different_data(first, second):
        evidence.append((False, data))
    elif None not in digests:
        evidence.append((True, Note("same-data")))
    starts = _first_loss(first), _first_loss(second)
    if starts[0] is not None and starts[1] is not None:
        apart = math.inf
        if starts[1]:
            apart = abs(starts[0] / starts[1] - 1)
        fields = {"first": starts[0], "second": starts[1], "level": _uniform_loss(first)}
        evidence.append((apart <= FIRST_LOSS_TOLERANCE, Note("first-losses", fields)))
    if rates := _learning_rates(first, second):
        evidence.append((False, rates))
    share = None
    if losses := _common_steps(first, second, "loss_values"):
        agreeing = sum(
            abs(loss - other) <= STEP_TOLERANCE * abs(other) for _, loss, other in losses
        )
        share = agreeing / len(losses)
        is_alike = len(losses) - agreeing <= max(1, int(len(losses) * BAD_STEPS_SHARE))
        note = Note("losses-agree", {"tolerance": STEP_TOLERANCE, "share": share})
        evidence.append((is_alike, note))
    if against := tuple(note for agrees, note in evidence if not agrees):
        return TrainingMatch(False, against, share)
    # Equal curves alone prove nothing: on uniformly random tokens all models have the same curve.
    proven = None not in digests and share is not None
    return TrainingMatch(True if proven else None, tuple(note for _, note in evidence), share)


def no_loss_comparison(first: Run, second: Run) -> Note | None:
    """Return why losses after the same tokens can't compare two programs; None if no reason is
    known.

    A difference of the losses themselves is no reason, since it is what the comparison is to find.
    """
    if differing := _different_data(first, second) or _learning_rates(first, second):
        return differing
    for run in (first, second):
        synthetic = synthetic_data(run)
        if synthetic is not None and synthetic.code in MOCK_LOSSES:
            return synthetic
    return None


def _different_data(first: Run, second: Run) -> Note | None:
    digests = (first.data.digest, second.data.digest)
    kinds = (first.data.kind, second.data.kind)
    if None not in digests:
        return None if digests[0] == digests[1] else Note("checksums-differ")
    if all(kinds) and kinds[0] != kinds[1]:
        return Note("training-data-differs", {"first": kinds[0], "second": kinds[1]})
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
    """Return the steps at which both runs have a value of a series, each with both values."""
    others = dict(zip(second.steps, getattr(second, series), strict=True))
    common = []
    for step, value in zip(first.steps, getattr(first, series), strict=True):
        other = others.get(step)
        if value is not None and other is not None:
            common.append((step, value, other))
    return common


def _learning_rates(first: Run, second: Run) -> Note | None:
    """Return how the learning rates are known to differ; None if no difference is known."""
    common = _common_steps(first, second, "learning_rates")
    for step, rate, other in common:
        if not math.isclose(rate, other, rel_tol=LEARNING_RATE_TOLERANCE, abs_tol=1e-12):
            fields = {"step": step, "first": rate, "second": other}
            return Note("learning-rates-differ", fields)
    if common:
        return None
    ends = _end_rates(first)
    others = _end_rates(second)
    if ends and others and ends != others:
        names = ("first_begins", "first_ends", "second_begins", "second_ends")
        fields = dict(zip(names, (*ends, *others), strict=True))
        return Note("learning-rate-ends-differ", fields)
    peaks = first.optimizer.learning_rate, second.optimizer.learning_rate
    if None not in peaks and peaks[0] != peaks[1]:
        return Note("peak-learning-rates-differ", {"first": peaks[0], "second": peaks[1]})
    return None


def _end_rates(run: Run) -> Bounds | None:
    """Return the first and the last learning rate, from the series, or as printed if no record has
    one; None if unknown.
    """
    known = [rate for rate in run.learning_rates if rate is not None]
    first = run.native_metrics.get("first_learning_rate")
    last = run.native_metrics.get("last_learning_rate")
    if known:
        return known[0], known[-1]
    if isinstance(first, float) and isinstance(last, float):
        return (first, last)
    return None
