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
        epoch: as printed; None if it isn't.
        resolution: by how much the printed epoch may be off, in epochs.
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
    """The steps of dictionaries, rising, and the evidence for them; None if the dictionaries are
    only numbered in order.
    """

    steps: Steps
    evidence: str | None


MOST_EPOCHS = 64
"""Largest number of epochs that is tried if a log doesn't state it."""


def number_steps(
    hints: Hints, total: int | None, epochs: int | None, interval: int | None
) -> StepNumbers:
    """Return the steps of the dictionaries of one training, in the order of the log.

    `total` steps and `epochs` were planned, with a dictionary every `interval` steps
    (logging_steps).
    """
    if not hints:
        return StepNumbers((), "no dictionaries")
    if interval and (grid := _on_grid(hints, interval)) and _fits(hints, grid, total):
        return StepNumbers(grid, f"one record in {interval} steps (logging_steps)")
    finer_hints = _with_trailing_zeros(hints)
    if total and (steps := _by_epochs(hints, finer_hints, total, epochs)):
        return StepNumbers(steps, f"epochs and progress bars, of {total} steps")
    rising = set()
    for candidate in _bar_candidates(finer_hints, total):
        if _fits(hints, candidate, total) and _rising(candidate):
            rising.add(candidate)
    if len(rising) == 1:
        return StepNumbers(rising.pop(), "the progress bar beside each record")
    order = tuple(range(1, len(hints) + 1))
    if total and (shown_interval := _interval(hints, total)) is not None:
        steps = tuple(shown_interval * step for step in order)
        return StepNumbers(steps, f"one record in {shown_interval} steps, by progress bars")
    return StepNumbers(order, None)


def _with_trailing_zeros(hints: Hints) -> list[StepHint]:
    """Return the hints with a finer resolution where trailing zeros of an epoch were dropped: next
    to 0.09, 0.1 means 0.10.

    The text of transformers 5 has four digits in all, so next to 0.1234, 12.34 doesn't mean
    12.3400.
    """
    finest = min(hint.resolution for hint in hints)
    finer_hints = []
    for hint in hints:
        if hint.resolution > finest:
            least = 0.5 * 10.0 ** (math.floor(math.log10(hint.epoch or 1)) - 3)
            hint = hint._replace(resolution=min(hint.resolution, max(finest, least)))
        finer_hints.append(hint)
    return finer_hints


def _by_epochs(hints: Hints, finer_hints: Hints, total: int, epochs: int | None) -> Steps | None:
    """Return the only steps that fit the epochs and the bars; None if there are several or none.

    If the number of epochs isn't stated, each up to MOST_EPOCHS is tried.
    """
    candidates = set()
    for count in [epochs] if epochs else range(1, MOST_EPOCHS + 1):
        candidates.add(_by_epoch(hints, total / count, total))
    if epochs and finer_hints != hints:
        steps = _by_epoch(finer_hints, total / epochs, total)
        if steps and _spaced(steps):
            candidates.add(steps)
    candidates.discard(None)
    if len(candidates) == 1:
        return candidates.pop()
    return None


def _bar_candidates(hints: Hints, total: int | None) -> Iterator[Steps]:
    """Yield candidate steps read from the progress bars, one bar per record: the bar both before
    and after it, or only the one before, or only the one after.

    A pasted log may lack the first or the last bar, and may have lines cut out.
    """
    before = tuple(hint.before for hint in hints)
    after = tuple(hint.after or 0 for hint in hints)
    bars_agree = {hint.before == hint.after for hint in hints if hint.before and hint.after}
    if bars_agree == {True}:
        yield tuple(map(max, before, after))
    elif before[1:] == after[:-1] and bars_agree:
        # The bar that a cut-off first or last record lacks is estimated.
        smallest_gap = min(_gaps(sorted({*before, *after} - {0})))
        is_even = len({*_gaps(before[1:])}) == 1
        after = (*after[:-1], after[-1] or before[-1] + smallest_gap)
        if not is_even:
            before = (before[0] or before[1] - smallest_gap, *before[1:])
        for steps in filter(_spaced, (before, after)):
            if not _agrees_with_epochs(hints, steps):
                continue
            if is_even or _epochs_allow(hints, steps, total or 0):
                yield steps


def _gaps(steps: Sequence[int]) -> list[int]:
    """Return the differences of neighboring steps."""
    return [later - earlier for earlier, later in itertools.pairwise(steps)]


def _spaced(steps: Sequence[int]) -> bool:
    """Return whether steps are multiples of their smallest gap, which at least half of the gaps
    equal, as with records at a fixed interval.

    A larger gap, such as one from 60 to 890, is a part cut out of the log. Bars drawn at irregular
    times have gaps such as 17, 18 and 17.
    """
    gaps = _gaps(steps)
    smallest_gap = min(gaps, default=0)
    if not steps[0] or smallest_gap < 1 or any(step % smallest_gap for step in steps):
        return False
    return 2 * gaps.count(smallest_gap) >= len(gaps)


def _on_grid(hints: Hints, interval: int) -> Steps | None:
    """Return the multiples of the interval from the first bar on, or step 1 and the multiples; None
    if neither fits the bars and the epochs.
    """
    start = -(-hints[0].before // interval) if hints[0].before else 1
    count = len(hints)
    steps = tuple(range(interval * start, interval * (start + count), interval))
    if _fits(hints, steps, None) and _agrees_with_epochs(hints, steps):
        return steps
    # logging_first_step adds step 1.
    steps = (1, *range(interval, interval * count, interval))
    if _rising(steps) and _fits(hints, steps, None) and _agrees_with_epochs(hints, steps):
        return steps
    return None


def _by_epoch(hints: Hints, per_epoch: float, total: int | None) -> Steps | None:
    """Return the steps if the epochs and the bars leave exactly one for each dictionary, else None.

    An epoch has `per_epoch` steps.
    """
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
            # The epoch is too coarse to leave one step, or no step fits.
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
        if _epochs_allow(hints, range(interval, interval * len(hints) + 1, interval), total):
            fitting.append(interval)
    if len(fitting) == 1:
        return fitting[0]
    return None


def _per_epoch(hints: Hints, steps: Sequence[int]) -> tuple[float, float]:
    """Return the fewest and the most steps that an epoch can have; 0.0 and infinity if unknown."""
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


def _epochs_allow(hints: Hints, steps: Sequence[int], total: int) -> bool:
    """Return whether the epochs agree with the steps, and the `total` planned steps may be a whole
    number of epochs.
    """
    fewest, most = _per_epoch(hints, steps)
    if fewest > most * (1 + 1e-6):
        return False
    if not fewest or math.isinf(most):
        return True
    return int(total / fewest + 1e-9) >= math.ceil(total / most - 1e-9)


def _agrees_with_epochs(hints: Hints, steps: Sequence[int]) -> bool:
    """Return whether one number of steps per epoch fits all hints."""
    low, high = _per_epoch(hints, steps)
    return low <= high * (1 + 1e-6)


def _fits(hints: Hints, steps: Sequence[int], total: int | None) -> bool:
    """Return whether steps lie between the bars around them, and within the planned ones."""
    for hint, step in zip(hints, steps, strict=True):
        if step < hint.before or (hint.after is not None and step > hint.after):
            return False
    return not total or all(step <= total for step in steps)


def _rising(steps: Sequence[int]) -> bool:
    return all(gap > 0 for gap in _gaps(steps))
