"""Infer the steps of the Hugging Face Trainer's dictionaries, which the console doesn't print.

Evidence: the rounded epoch; progress bars before and after; and, if stated, the steps per epoch and
between two dictionaries. Where these leave one answer, it is used; otherwise the records are
numbered in order, with a warning.
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


Hints = Sequence[StepHint]
Steps = tuple[int, ...]


class StepNumbers(NamedTuple):
    """The steps of dictionaries, rising, and what they follow from; None if they are only the
    order.
    """

    steps: Steps
    evidence: str | None


MOST_EPOCHS = 64
"""Numbers of epochs that are tried if a log doesn't say how many there are."""


def number_steps(
    hints: Hints, total: int | None, epochs: int | None, interval: int | None
) -> StepNumbers:
    """Return the steps of the dictionaries of one training, in the order of the log.

    `total` steps and `epochs` were planned, with a dictionary every `interval` steps
    (logging_steps).
    """
    if not hints:
        return StepNumbers((), "there are none")
    if interval and (grid := _on_grid(hints, interval)) and _fits(hints, grid, total):
        return StepNumbers(grid, f"one record in {interval} steps (logging_steps)")
    sharp = _with_zeros(hints)
    if total:
        candidates = set()
        for count in [epochs] if epochs else range(1, MOST_EPOCHS + 1):
            candidates.add(_by_epoch(hints, total / count, total))
        if epochs:
            steps = _by_epoch(sharp, total / epochs, total)
            candidates.add(steps if steps and _spaced(steps) else None)
        candidates.discard(None)
        if len(candidates) == 1:
            steps = candidates.pop()
            return StepNumbers(steps or (), f"epochs and progress bars, of {total} steps")
    beside = {steps for steps in _beside(sharp, total) if _fits(hints, steps, total)}
    rising = [steps for steps in beside if _rising(steps)]
    if len(rising) == 1:
        return StepNumbers(rising[0], "the progress bar beside each record")
    order = tuple(range(1, len(hints) + 1))
    if total and (shown_interval := _interval(hints, total)) is not None:
        steps = tuple(shown_interval * step for step in order)
        return StepNumbers(steps, f"one record in {shown_interval} steps, by progress bars")
    return StepNumbers(order, None)


def _with_zeros(hints: Hints) -> list[StepHint]:
    """Return the hints with the resolution of an epoch whose zeros at the end are left out: beside
    0.09, 0.1 is 0.10.

    The text of transformers 5 has four digits in all, so that 12.34 beside 0.1234 is no 12.3400.
    """
    finest = min(hint.resolution for hint in hints)
    sharp = []
    for hint in hints:
        least = 0.5 * 10.0 ** (math.floor(math.log10(hint.epoch or 1)) - 3)
        sharp.append(hint._replace(resolution=min(hint.resolution, max(finest, least))))
    return sharp


def _beside(hints: Hints, total: int | None) -> Iterator[Steps]:
    """Yield what the progress bars show that stand next to the records, one to each: around them,
    before, or behind.

    A paste may begin or end with a record that lacks a bar, and lines between two records may be
    cut out.
    """
    before = tuple(hint.before for hint in hints)
    behind = tuple(hint.after or 0 for hint in hints)
    around = {hint.before == hint.after for hint in hints if hint.before and hint.after}
    if around == {True}:
        yield tuple(map(max, before, behind))
    elif before[1:] == behind[:-1] and around:
        # A paste that begins with a record lacks a bar, and one that ends with a record another.
        usual = min(_apart(sorted({*before, *behind} - {0})))
        is_even = len({*_apart(before[1:])}) == 1
        behind = (*behind[:-1], behind[-1] or before[-1] + usual)
        if not is_even:
            before = (before[0] or before[1] - usual, *before[1:])
        for steps in filter(_spaced, (before, behind)):
            if _linear(hints, steps) and (is_even or _whole_epochs(hints, steps, total or 0)):
                yield steps


def _apart(steps: Sequence[int]) -> list[int]:
    """Return how far steps lie apart."""
    return [later - earlier for earlier, later in itertools.pairwise(steps)]


def _spaced(steps: Sequence[int]) -> bool:
    """Return whether steps are multiples of the distance of most of them, as those of records are.

    From 60 to 890 in a log of every tenth step, what lay between is cut out. Bars that are drawn
    now and then, not at each record, are 17, 18 and 17 steps apart.
    """
    apart = _apart(steps)
    usual = min(apart, default=0)
    if not steps[0] or usual < 1 or any(step % usual for step in steps):
        return False
    return 2 * apart.count(usual) >= len(apart)


def _on_grid(hints: Hints, interval: int) -> Steps | None:
    """Return multiples of the interval, from where bars or epochs show the start."""
    start = -(-hints[0].before // interval) if hints[0].before else 1
    count = len(hints)
    steps = tuple(range(interval * start, interval * (start + count), interval))
    if _fits(hints, steps, None) and _linear(hints, steps):
        return steps
    # logging_first_step adds step 1.
    steps = (1, *range(interval, interval * count, interval))
    if _rising(steps) and _fits(hints, steps, None) and _linear(hints, steps):
        return steps
    return None


def _by_epoch(hints: Hints, per_epoch: float, total: int | None) -> Steps | None:
    """Return the steps that the epochs and the bars single out; None if they don't, or not all."""
    steps = []
    for hint in hints:
        if hint.epoch is None:
            return None
        low = math.ceil((hint.epoch - hint.resolution) * per_epoch - 1e-6)
        high = math.floor((hint.epoch + hint.resolution) * per_epoch + 1e-6)
        low = max(low, hint.before, 1)
        if hint.after is not None:
            high = min(high, hint.after)
        if low != high:
            # Too coarse to single one step out, or none fits.
            return None
        steps.append(low)
    if _rising(steps) and _fits(hints, steps, total):
        return tuple(steps)
    return None


def _interval(hints: Hints, total: int) -> int | None:
    """Return the only interval consistent with all bars and epochs; None if several or none are.

    A bar at step 40 after the third record and one at 60 before the fifth allow 12 or 13.
    """
    low = 0.0
    high = math.inf
    for number, hint in enumerate(hints, start=1):
        low = max(low, hint.before / number)
        if hint.after:
            high = min(high, hint.after / number)
    if len(hints) < 3 or high - low > 10_000:
        return None
    intervals = range(max(1, math.ceil(low)), min(math.floor(high), total // len(hints)) + 1)
    fitting = []
    for interval in intervals:
        if _whole_epochs(hints, range(interval, interval * len(hints) + 1, interval), total):
            fitting.append(interval)
    if len(fitting) == 1:
        return fitting[0]
    return None


def _per_epoch(hints: Hints, steps: Sequence[int]) -> tuple[float, float]:
    """Return the fewest and most steps that an epoch can have."""
    low = 0.0
    high = math.inf
    for hint, step in zip(hints, steps, strict=True):
        if hint.epoch is None:
            continue
        if hint.epoch + hint.resolution > 0:
            low = max(low, step / (hint.epoch + hint.resolution))
        if hint.epoch > hint.resolution:
            high = min(high, step / (hint.epoch - hint.resolution))
    return low, high


def _whole_epochs(hints: Hints, steps: Sequence[int], total: int) -> bool:
    """Return whether the epochs allow the steps, and the planned ones would be some whole number of
    epochs.
    """
    fewest, most = _per_epoch(hints, steps)
    if fewest > most * (1 + 1e-6):
        return False
    if not fewest or math.isinf(most):
        return True
    return int(total / fewest + 1e-9) >= math.ceil(total / most - 1e-9)


def _linear(hints: Hints, steps: Sequence[int]) -> bool:
    low, high = _per_epoch(hints, steps)
    return low <= high * (1 + 1e-6)


def _fits(hints: Hints, steps: Sequence[int], total: int | None) -> bool:
    """Return whether steps lie between the bars around them, and within the planned ones."""
    for hint, step in zip(hints, steps, strict=True):
        if step < hint.before or (hint.after is not None and step > hint.after):
            return False
    return not total or all(step <= total for step in steps)


def _rising(steps: Sequence[int]) -> bool:
    return all(later > earlier for earlier, later in itertools.pairwise(steps))
