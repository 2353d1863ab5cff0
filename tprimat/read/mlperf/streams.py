"""MLPerf events -> step records: which stream of figures to take, and at which step each figure stands.

Submitters log a step's time, or samples per second, singly or as the mean of a block between two
evaluations. The position beside it is a step, a count of samples or of tokens, counted to the
block's start or its end, from 0 or from 1. What it is shows in the events' own times: a figure that
says 3.2 s per step, logged every 155 s, stands 48 steps apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tprimat.read.parsing import values
from tprimat.results.run import LARGEST_COUNT, LARGEST_VALUE, LONGEST_STEP, SHORTEST_STEP

TIMES = ("train_step_time", "train_step_timing in s", "step_time", "train_step_timing")
LOSSES = ("reduced_train_loss", "train_loss", "loss")
RATE = "throughput"

SAMPLED = 0.001
"""Median share by which printed means miss the wall clock at most; sampled single steps miss by more."""

FITS = math.log(1.5)
"""How far a unit may miss the wall clock and still be the unit: others miss by a batch or a sequence."""

FITS_LOOSELY = math.log(5)
"""The same for losses, between which evaluations may take longer than the steps."""


@dataclasses.dataclass(slots=True)
class Event:
    """A tracked figure or a loss, as logged.

    Attributes:
        time: s since 1970.
        place: numbers of the metadata, such as step and samples_count.
        block: number of the block that it was logged in, from 0; None outside of blocks.
    """

    time: float
    line: int
    values: dict[str, float]
    place: dict[str, float]
    block: int | None

    def kind(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what distinguishes streams: the names of metrics and positions."""
        return tuple(sorted(self.values)), tuple(sorted(self.place))


@dataclasses.dataclass(slots=True)
class Block:
    """A stretch of training between two evaluations."""

    start: float
    line: int
    start_place: dict[str, float]
    stop: float | None = None
    stop_place: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Point:
    """A figure at a completed optimizer step."""

    step: int
    event: Event
    seconds: float | None = None
    window: int = 1


@dataclasses.dataclass(frozen=True)
class StepPoints:
    """What was made of the events.

    Attributes:
        points: timed ones, in the order of their steps.
        losses: points with a loss, in the order of their steps.
        kind: of the timed ones: means of blocks, means of the steps since the record before, single
            steps, or worked out from the blocks' own start and stop.
        missed: share by which the first block's wall time is longer than its printed mean says.
        unplaced: events whose position fits no unit.
    """

    points: list[Point]
    losses: list[Point]
    kind: Literal["block", "mean", "sampled", "derived"] | None
    missed: float | None = None
    unplaced: int = 0


def number(value: Any) -> float | None:
    """Return a finite number of JSON, also one that was written as a text; None for anything else."""
    known = values.number(value)
    return known if known is not None and abs(known) <= LARGEST_VALUE else None


def find(
    events: Sequence[Event],
    blocks: Sequence[Block],
    batch: int | None,
    sequence: int | None,
    last: float | None,
) -> StepPoints:
    """Return step records from the events of one training, before its end, in the order of the log.

    Batch is of all devices; `last` is the samples at the training's end, where it says so.
    """
    ends = block_ends(blocks, batch, last)
    groups: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        groups[event.kind()].append(event)
    total = max((end for end in ends if end), default=None)
    timed = [group for group in groups.values() if _seconds(group[0], batch) is not None]
    singles = [group for group in timed if not _per_block(group, blocks)]
    whole = [group for group in timed if _per_block(group, blocks)]
    points, kind, unplaced = _timed(singles, whole, ends, (batch, sequence, total))
    typical = sorted(point.seconds for point in points if point.seconds)
    middle = typical[len(typical) // 2] if typical else None
    losses: list[Point] = []
    for group in groups.values():
        if any(name in group[0].values for name in LOSSES):
            # Where a loss stands shows in the times as well: by its own step time, or the training's.
            placed = _placed(
                group, batch, sequence, total, lambda event: _seconds(event, batch) or middle, FITS_LOOSELY
            )
            unplaced += 0 if placed else len(group)
            losses += placed
    if points:
        return StepPoints(points, losses, kind, _missed(points, blocks) if kind == "block" else None, unplaced)
    derived = _derived(blocks, ends)
    return StepPoints(derived, losses, "derived" if derived else None, None, unplaced)


def _timed(
    singles: list[list[Event]],
    whole: list[list[Event]],
    ends: Sequence[int | None],
    sizes: tuple[int | None, int | None, int | None],
) -> tuple[list[Point], Literal["block", "mean", "sampled"] | None, int]:
    """Return the stream of times to use, what they are, and how many events have a position of no unit.

    Single records go before means of blocks; `sizes` are batch, sequence and the last step, where known.
    """
    batch, sequence, total = sizes
    unplaced = 0

    def seconds(event: Event) -> float | None:
        return _seconds(event, batch)

    for candidates in (singles, whole):
        # Printed times before those that follow from a rate; then the stream with most of them.
        candidates.sort(key=lambda group: (not any(name in group[0].values for name in TIMES), -len(group)))
        for group in candidates:
            if candidates is whole:
                if points := _at_blocks(group, ends, batch):
                    return points, "block", unplaced
            elif points := _placed(group, batch, sequence, total, seconds):
                return points, _windows(points, seconds), unplaced
            unplaced += len(group)
    return [], None, unplaced


def block_ends(blocks: Sequence[Block], batch: int | None, last: float | None) -> list[int | None]:
    """Return completed steps at the end of each block; None where they are unknown.

    A block's samples_count is the position at its end, the one at its start (again, at its stop),
    or its length.
    """
    ends: list[int | None] = []
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        step = block.stop_place.get("step", block.stop_place.get("curr_global_step"))
        if step is None and batch:
            begun = block.start_place.get("samples_count")
            stopped = block.stop_place.get("samples_count")
            after = following.start_place.get("samples_count") if following else last
            if stopped is not None and begun is not None and stopped > begun:
                step = stopped / batch
            elif stopped is not None and begun is not None and after is not None and after > begun:
                step = after / batch
        whole = _count(step)
        former = max((end for end in ends if end), default=0)
        ends.append(whole if whole and whole > former and block.stop is not None else None)
    return ends


def _count(value: float | None) -> int | None:
    if value is None or not 1 <= value <= LARGEST_COUNT or abs(value - round(value)) > 1e-6:
        return None
    return round(value)


def _seconds(event: Event, batch: int | None) -> float | None:
    """Return the step time that an event states, or that its samples per second imply."""
    for name in TIMES:
        value = event.values.get(name)
        if value is not None and SHORTEST_STEP <= value <= LONGEST_STEP:
            return value
    rate = event.values.get(RATE)
    implied = batch / rate if rate and rate > 0 and batch else 0.0
    return implied if SHORTEST_STEP <= implied <= LONGEST_STEP else None


def _per_block(group: Sequence[Event], blocks: Sequence[Block]) -> bool:
    """Return whether a stream has one event a block, and none outside."""
    seen = [event.block for event in group]
    return bool(blocks) and None not in seen and len(set(seen)) == len(seen)


def _placed(
    group: Sequence[Event],
    batch: int | None,
    sequence: int | None,
    total: int | None,
    seconds: Callable[[Event], float | None],
    fits: float = FITS,
) -> list[Point]:
    """Return the events of a stream at the steps where they stand; empty where no unit fits."""
    units: list[tuple[str, int]] = []
    if batch:
        units.append(("samples_count", batch))
    units.append(("step", 1))
    if batch:
        units.append(("step", batch))
        units += [("epoch_num", batch), ("step", batch * sequence)] if sequence else [("epoch_num", batch)]
    best: list[Point] = []
    least = math.inf
    for name, unit in units:
        points = _in_unit(group, name, unit)
        if not points or (total is not None and points[-1].step > total * 1.01 + 1):
            continue
        miss = _miss(points, seconds)
        if miss <= fits and miss < least - 0.01:
            least, best = miss, points
    for point in best:
        point.seconds = seconds(point.event)
    return best


def _in_unit(group: Sequence[Event], name: str, unit: int) -> list[Point]:
    raw = [event.place.get(name) for event in group]
    if any(value is None for value in raw):
        return []
    steps = [value / unit for value in raw if value is not None]
    if unit == 1 and len(steps) > 1:
        apart = {later - earlier for earlier, later in itertools.pairwise(steps)}
        first, least = steps[0], min(apart)
        # 31, 63, 95: an index from 0 of the last step of every 32.
        if (least > 0 and first % least and not (first + 1) % least) or first == 0:
            steps = [step + 1 for step in steps]
    points: dict[int, Point] = {}
    for step, event in zip(steps, group, strict=True):
        whole = _count(step)
        if whole is None:
            return []
        points.setdefault(whole, Point(whole, event))
    placed = list(points.values())
    rising = all(later.step > earlier.step for earlier, later in itertools.pairwise(placed))
    # A length, which is the same for every block, is no position.
    return placed if rising and (len(placed) > 1 or len(group) == 1) else []


def _clocked(points: Sequence[Point], seconds: Callable[[Event], float | None]) -> list[tuple[int, float]]:
    """Return the steps between neighbours, and the ratio of what these take by their times to the wall clock."""
    ratios = []
    for earlier, later in itertools.pairwise(points):
        wall, steps = later.event.time - earlier.event.time, later.step - earlier.step
        if wall > 0 and (time := seconds(later.event)):
            ratios.append((steps, steps * time / wall))
    return ratios


def _miss(points: Sequence[Point], seconds: Callable[[Event], float | None]) -> float:
    """Return how far step times and distances miss the wall clock, as the logarithm of their ratio."""
    ratios = sorted(ratio for _, ratio in _clocked(points, seconds))
    return abs(math.log(ratios[len(ratios) // 2])) if ratios else 0.0


def _windows(points: Sequence[Point], seconds: Callable[[Event], float | None]) -> Literal["mean", "sampled"]:
    """Set the windows of a stream of single records: means of their interval, or one step of it."""
    misses = sorted(abs(ratio - 1) for steps, ratio in _clocked(points, seconds) if steps > 1)
    # An evaluation in between makes a few of them miss: the middle one tells.
    if misses and misses[len(misses) // 2] > SAMPLED:
        return "sampled"
    for point, before in zip(points if misses else (), [0, *(each.step for each in points)], strict=False):
        point.window = point.step - before
    return "mean"


def _at_blocks(group: Sequence[Event], ends: Sequence[int | None], batch: int | None) -> list[Point]:
    points = []
    for event in group:
        assert event.block is not None
        end = ends[event.block]
        if end is None:
            continue
        former = max((known for known in ends[: event.block] if known), default=0)
        points.append(Point(end, event, _seconds(event, batch), end - former))
    return points


def _missed(points: Sequence[Point], blocks: Sequence[Block]) -> float | None:
    """Return the share of the first block's wall time that its printed mean excludes."""
    first = points[0]
    if first.event.block is None or not first.seconds:
        return None
    wall = first.event.time - blocks[first.event.block].start
    return wall / (first.seconds * first.window) - 1 if wall > 0 else None


def _derived(blocks: Sequence[Block], ends: Sequence[int | None]) -> list[Point]:
    """Return the mean step times of blocks that state none, from their start and stop."""
    points, former = [], 0
    for index, (block, end) in enumerate(zip(blocks, ends, strict=True)):
        if end is None or block.stop is None:
            continue
        seconds = (block.stop - block.start) / (end - former)
        if SHORTEST_STEP <= seconds <= LONGEST_STEP:
            event = Event(block.stop, block.line, {}, {}, index)
            points.append(Point(end, event, round(seconds, 9), end - former))
        former = end
    return points
