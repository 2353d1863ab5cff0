"""Infer the steps of the Hugging Face Trainer's dictionaries, which the console doesn't print.

Evidence: the rounded epoch; progress bars before and after; and, if stated, the steps per epoch and between two
dictionaries. Where these leave one answer, it is used; otherwise the records are numbered in order, with a warning.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class StepHint(NamedTuple):
    """Evidence of one dictionary's step.

    Attributes:
        resolution: by how much the printed epoch may be off.
        before: step of the last progress bar before it, or 0.
        after: step of the next bar after it, or None.
    """

    epoch: float | None
    resolution: float
    before: int = 0
    after: int | None = None


class StepNumbers(NamedTuple):
    """The steps of dictionaries, rising, and what they follow from; None if they are only the order."""

    steps: tuple[int, ...]
    evidence: str | None


MOST_EPOCHS = 64
"""Numbers of epochs that are tried if a log doesn't say how many there are."""


def number_steps(hints: Sequence[StepHint], total: int | None, epochs: int | None, interval: int | None) -> StepNumbers:
    """Return the steps of the dictionaries of one training, in the order of the log.

    `total` steps and `epochs` were planned, with a dictionary every `interval` steps (logging_steps).
    """
    order = tuple(range(1, len(hints) + 1))
    if not hints:
        return StepNumbers((), "there are none")
    if interval and (grid := _on_grid(hints, interval)) and _fits(hints, grid, total):
        return StepNumbers(grid, f"one record in {interval} steps (logging_steps)")
    if total:
        candidates = {
            steps
            for count in ([epochs] if epochs else range(1, MOST_EPOCHS + 1))
            if (steps := _by_epoch(hints, total / count)) is not None and _fits(hints, steps, total)
        }
        if len(candidates) == 1:
            return StepNumbers(candidates.pop(), f"epochs and progress bars, of {total} steps")
    beside = {steps for steps in _beside(hints) if _rising(steps) and _fits(hints, steps, total)}
    if len(beside) == 1:
        return StepNumbers(beside.pop(), "the progress bar beside each record")
    if total and (shown_interval := _interval(hints, total)) is not None:
        steps = tuple(shown_interval * step for step in order)
        return StepNumbers(steps, f"one record in {shown_interval} steps, by progress bars")
    return StepNumbers(order, None)


def _beside(hints: Sequence[StepHint]) -> Iterator[tuple[int, ...]]:
    """Yield what the progress bars show that stand next to the records, one to each: around them, before, or behind."""
    before = tuple(each.before for each in hints)
    behind = tuple(each.after or 0 for each in hints)
    if before == behind:
        yield from [before] if before[0] else []
    elif before[1:] == behind[:-1] and len({b - a for a, b in itertools.pairwise(before[1:])}) == 1:
        # A log that ends with a record lacks the bar behind it.
        behind = (*behind[:-1], behind[-1] or 2 * before[-1] - before[-2])
        yield from (steps for steps in (before, behind) if steps[0] and _linear(hints, steps))


def _on_grid(hints: Sequence[StepHint], interval: int) -> tuple[int, ...] | None:
    """Return multiples of the interval, from where bars or epochs show the start."""
    start = -(-max(hints[0].before, 1) // interval) if hints[0].before else 1
    steps = tuple(interval * (start + index) for index in range(len(hints)))
    if _fits(hints, steps, None) and _linear(hints, steps):
        return steps
    # logging_first_step adds step 1.
    steps = (1, *(interval * index for index in range(1, len(hints))))
    return steps if _rising(steps) and _fits(hints, steps, None) and _linear(hints, steps) else None


def _by_epoch(hints: Sequence[StepHint], per_epoch: float) -> tuple[int, ...] | None:
    steps = []
    for each in hints:
        if each.epoch is None:
            return None
        low = math.ceil((each.epoch - each.resolution) * per_epoch - 1e-6)
        high = math.floor((each.epoch + each.resolution) * per_epoch + 1e-6)
        low, high = max(low, each.before, 1), min(high, each.after if each.after is not None else high)
        if low != high:
            # Too coarse to single one step out, or none fits.
            return None
        steps.append(low)
    return tuple(steps) if _rising(steps) else None


def _interval(hints: Sequence[StepHint], total: int) -> int | None:
    """Return the only interval consistent with all bars and epochs; None if several or none are."""
    low = max(each.before / number for number, each in enumerate(hints, start=1))
    high = min((each.after / number for number, each in enumerate(hints, start=1) if each.after), default=0.0)
    if len(hints) < 3 or high <= 0 or high - low > 10_000:
        return None
    fitting = []
    for interval in range(max(1, math.ceil(low)), min(math.floor(high), total // len(hints)) + 1):
        fewest, most = _per_epoch(hints, [interval * (index + 1) for index in range(len(hints))])
        # The planned steps would be some whole number of epochs.
        whole = not fewest or math.isinf(most) or int(total / fewest + 1e-9) >= math.ceil(total / most - 1e-9)
        if fewest <= most * (1 + 1e-6) and whole:
            fitting.append(interval)
    return fitting[0] if len(fitting) == 1 else None


def _per_epoch(hints: Sequence[StepHint], steps: Sequence[int]) -> tuple[float, float]:
    """Return the fewest and most steps that an epoch can have."""
    low, high = 0.0, math.inf
    for each, step in zip(hints, steps, strict=True):
        if each.epoch is None:
            continue
        low = max(low, step / (each.epoch + each.resolution)) if each.epoch + each.resolution > 0 else low
        high = min(high, step / (each.epoch - each.resolution)) if each.epoch > each.resolution else high
    return low, high


def _linear(hints: Sequence[StepHint], steps: Sequence[int]) -> bool:
    low, high = _per_epoch(hints, steps)
    return low <= high * (1 + 1e-6)


def _fits(hints: Sequence[StepHint], steps: Sequence[int], total: int | None) -> bool:
    return all(
        each.before <= step <= (each.after if each.after is not None else step) and (not total or step <= total)
        for each, step in zip(hints, steps, strict=True)
    )


def _rising(steps: Sequence[int]) -> bool:
    return all(later > earlier for earlier, later in itertools.pairwise(steps))
