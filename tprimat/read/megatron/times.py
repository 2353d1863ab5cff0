"""The steps that a Megatron record's time covers.

A line gives the mean of the steps since the line before it. There is one trap. From Megatron core
0.16 on (Primus' core runtime with it) the timer and the sums are not reset after the first
iteration of a process, so that the second line's time, rates and loss are means that contain the
first iteration: 2 × e₂ − e₁ is its own time. Older trainers reset. The time stamps of the lines
tell the two apart; where there are none, the shape of the lines can.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence, Set

from tprimat.read.megatron.line import Record
from tprimat.results.run import SHORTEST_STEP

CORE_SHAPES = ("primus-core", "primus-26.5", "primus-26.5.1")

AGREEMENT = 0.02
"""Share of a time by which the stamps may miss it: printing and barriers lie between them."""


START = 5.0
"""s. No process starts in less time, and a pause that is shorter is of an evaluation or a checkpoint."""


@dataclasses.dataclass(frozen=True)
class Restored:
    """A time that was worked out from two printed ones.

    Attributes:
        seconds: mean time of the steps after the first one, s.
        steps: how many these are: 1 where every iteration is logged.
        evidence: why the printed time is taken for a mean with the first iteration in it.
    """

    seconds: float
    steps: int
    evidence: str


def log_interval(iterations: Sequence[int], stated: int | None) -> int:
    """Return the logging interval in iterations: as stated, else as the numbers show, else 1."""
    if stated:
        return stated
    # Newer versions print iteration 1 in addition: 1, 10, 20, 30.
    regular = iterations[1:] if iterations and iterations[0] == 1 else iterations
    apart = {later - earlier for earlier, later in itertools.pairwise(regular)}
    if len(regular) >= 3 and len(apart) == 1:
        (interval,) = apart
        return interval if regular[0] % interval == 0 else 1
    return 1


def windows(iterations: Sequence[int], interval: int) -> list[int]:
    """Return how many steps each line averages, by iteration."""
    found = []
    before = 0
    for iteration in iterations:
        # A line that was lost doesn't make the next one the mean of more.
        since = iteration - before if before else (1 if iteration == 1 else interval)
        found.append(max(1, min(interval, since)))
        before = iteration
    return found


def restored(first: Record, second: Record, *, core: bool) -> Restored | None:
    """Return the time of the second line of a process without the first iteration; None where it has none in it.

    Args:
        first: the first line after a process started.
        second: the one after it.
        core: whether the log shows Primus' core runtime.
    """
    if first.seconds is None or second.seconds is None:
        return None
    steps = second.iteration - first.iteration
    printed = second.seconds * steps
    without = second.seconds * (steps + 1) - first.seconds
    if without <= SHORTEST_STEP * steps:
        return None
    apart = None
    if first.stamp is not None and second.stamp is not None:
        apart = second.stamp.seconds_after(first.stamp)
        resolution = max(first.stamp.resolution, second.stamp.resolution)
    if apart is not None:
        fits = [abs(apart - time) <= AGREEMENT * time + resolution for time in (without, printed)]
        if fits == [True, False]:
            to_seconds = " by whole seconds" if resolution >= 1 else ""
            evidence = f"the time stamps of the two lines lie {apart:.6g} s apart{to_seconds}"
            return Restored(round(without / steps, 7), steps, evidence)
        if fits == [False, True]:
            return None
    if core and first.iteration == 1 and _bare(first) and _bare(second):
        return Restored(round(without / steps, 7), steps, "both lines have the shape of Primus' core runtime")
    return None


def in_doubt(first: Record, second: Record, *, core: bool) -> bool:
    """Return whether nothing in the log tells if the second line's time contains the first iteration.

    Args:
        first: the first line after a process started.
        second: the one after it.
        core: whether the log shows Primus' core runtime, whose timer is of the newer kind at every start.
    """
    if first.seconds is None or second.seconds is None:
        return False
    if not core and not (_bare(first) and _bare(second) and first.iteration == 1):
        return False
    stamped = first.stamp is not None and second.stamp is not None
    # Versions that printed neither stamps nor rates are older than the trap.
    old = second.tflops is None
    without = 2 * second.seconds - first.seconds
    return not stamped and not old and 0 < without < 0.95 * second.seconds


def _bare(record: Record) -> bool:
    return not record.paired and record.tokens_rate is None


def is_core(shapes: Set[str], *, marked: bool) -> bool:
    """Return whether the lines are those of Primus' core runtime.

    Args:
        shapes: of the lines.
        marked: whether other lines of the log name it.
    """
    return marked or not shapes.isdisjoint(CORE_SHAPES)
