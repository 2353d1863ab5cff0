"""Which step a dictionary of Hugging Face's Trainer is of: the console prints none with it.

What is there: the epoch, rounded; progress bars before and after, which show a step that the
training had reached; how many steps an epoch has, and the steps between two dictionaries, where
the log says so. Where these leave one answer, that is it; otherwise the records are numbered in
their order, and that is said.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of one dictionary's step.

    Attributes:
        epoch: as printed.
        resolution: by how much the printed epoch may be off.
        before: step of the last progress bar before it, or 0.
        after: step of the next bar after it, or None.
    """

    epoch: float | None
    resolution: float
    before: int = 0
    after: int | None = None


@dataclasses.dataclass(frozen=True)
class Numbered:
    """The steps of dictionaries, in their order.

    Attributes:
        steps: rising.
        evidence: what they follow from; None where they are only the order.
    """

    steps: tuple[int, ...]
    evidence: str | None


MOST_EPOCHS = 64
"""Numbers of epochs that are tried where a log doesn't say how many there are."""


def numbered(seen: Sequence[Seen], total: int | None, epochs: int | None, interval: int | None) -> Numbered:
    """Return the steps of the dictionaries of one training.

    Args:
        seen: in the order of the log.
        total: steps that were planned.
        epochs: epochs that were planned.
        interval: steps between two dictionaries (logging_steps).
    """
    order = tuple(range(1, len(seen) + 1))
    if not seen:
        return Numbered((), "there are none")
    if interval and (grid := _on_grid(seen, interval)) and _fits(seen, grid, total):
        return Numbered(grid, f"one record in {interval} steps (logging_steps)")
    if total:
        found = {
            steps
            for count in ([epochs] if epochs else range(1, MOST_EPOCHS + 1))
            if (steps := _by_epoch(seen, total / count)) is not None and _fits(seen, steps, total)
        }
        if len(found) == 1:
            return Numbered(found.pop(), f"epochs and progress bars, of {total} steps")
    exact = [each.after for each in seen]
    if all(each.after is not None and each.after == each.before for each in seen):
        steps = tuple(step for step in exact if step is not None)
        if _rising(steps):
            return Numbered(steps, "the progress bar beside each record")
    if total and (found_interval := _interval(seen, total)) is not None:
        return Numbered(
            tuple(found_interval * step for step in order), f"one record in {found_interval} steps, by progress bars"
        )
    return Numbered(order, None)


def _on_grid(seen: Sequence[Seen], interval: int) -> tuple[int, ...] | None:
    """Return multiples of the interval, from where bars or epochs show the start."""
    start = -(-max(seen[0].before, 1) // interval) if seen[0].before else 1
    steps = tuple(interval * (start + index) for index in range(len(seen)))
    if _fits(seen, steps, None) and _linear(seen, steps):
        return steps
    # logging_first_step adds step 1.
    steps = (1, *(interval * index for index in range(1, len(seen))))
    return steps if _rising(steps) and _fits(seen, steps, None) and _linear(seen, steps) else None


def _by_epoch(seen: Sequence[Seen], per_epoch: float) -> tuple[int, ...] | None:
    steps = []
    for each in seen:
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


def _interval(seen: Sequence[Seen], total: int) -> int | None:
    """Return the only interval consistent with all bars and epochs; None where several or none are."""
    low = max(each.before / number for number, each in enumerate(seen, start=1))
    high = min((each.after / number for number, each in enumerate(seen, start=1) if each.after), default=0.0)
    if len(seen) < 3 or high <= 0 or high - low > 10_000:
        return None
    fitting = [
        interval
        for interval in range(max(1, math.ceil(low)), math.floor(high) + 1)
        if interval * len(seen) <= total
        and _linear(seen, [interval * (index + 1) for index in range(len(seen))])
        and _whole_epochs(seen, interval, total)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _whole_epochs(seen: Sequence[Seen], interval: int, total: int) -> bool:
    """Return whether the planned steps would be some whole number of epochs."""
    low, high = _per_epoch(seen, [interval * (index + 1) for index in range(len(seen))])
    if not low or math.isinf(high):
        return True
    return math.floor(total / low + 1e-9) >= math.ceil(total / high - 1e-9)


def _per_epoch(seen: Sequence[Seen], steps: Sequence[int]) -> tuple[float, float]:
    """Return the fewest and most steps that an epoch can have."""
    low, high = 0.0, math.inf
    for each, step in zip(seen, steps, strict=True):
        if each.epoch is None:
            continue
        low = max(low, step / (each.epoch + each.resolution)) if each.epoch + each.resolution > 0 else low
        high = min(high, step / (each.epoch - each.resolution)) if each.epoch > each.resolution else high
    return low, high


def _linear(seen: Sequence[Seen], steps: Sequence[int]) -> bool:
    low, high = _per_epoch(seen, steps)
    return low <= high * (1 + 1e-6)


def _fits(seen: Sequence[Seen], steps: Sequence[int], total: int | None) -> bool:
    return all(
        each.before <= step <= (each.after if each.after is not None else step) and (not total or step <= total)
        for each, step in zip(seen, steps, strict=True)
    )


def _rising(steps: Sequence[int]) -> bool:
    return all(later > earlier for earlier, later in itertools.pairwise(steps))
