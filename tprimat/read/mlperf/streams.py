"""MLPerf events -> step records: which stream of values to take, and at which step each value
stands.

Submitters log a step's time, or samples per second, singly or as the mean of a block between two
evaluations. The position next to it is a step, a count of samples or of tokens, counted to the
block's start or its end, from 0 or from 1. The times of the events show which one: values of 3.2 s
per step, logged every 155 s, are 48 steps apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tprimat.read.parsing import values
from tprimat.read.parsing.records import Record
from tprimat.results.fields import LARGEST_COUNT, LARGEST_VALUE, LONGEST_STEP, SHORTEST_STEP

TIMES = ("train_step_time", "train_step_timing in s", "step_time", "train_step_timing")
LOSSES = ("reduced_train_loss", "train_loss", "loss")
RATE = "throughput"
POSITIONS = ("samples_count", "epoch_num", "step")
"""The position of an event: in samples, in tokens, or in any of the three."""

SAMPLED = 0.001
"""Median share by which printed means miss the wall clock at most; sampled single steps miss by
more.
"""

FITS = math.log(1.5)
"""How far a unit may miss the wall clock and still be the unit: others miss by a batch or a
sequence.
"""

FITS_LOOSELY = math.log(5)
"""The same for losses, between which evaluations may take longer than the steps."""


class Event(NamedTuple):
    """An event, as logged.

    Attributes:
        time: s since 1970.
        place: numbers of the metadata, such as step and samples_count.
        values: the tracked values, or the loss.
        block: number of the block that it was logged in, from 0; None outside of blocks.
    """

    time: float
    line: int
    place: Mapping[str, float]
    values: Mapping[str, float]
    block: int | None


@dataclasses.dataclass(slots=True)
class Block:
    """A stretch of training between two evaluations.

    Attributes:
        evaluation: the first event of the evaluation after it, whose position is the block's end.
        resumed: the end of that evaluation, where training goes on.
        said: the lines within it that report something that costs time.
        span: completed steps at its start and at its end; None if they are unknown.
    """

    start: Event
    stop: Event | None = None
    evaluation: Event | None = None
    resumed: Event | None = None
    said: list[str] = dataclasses.field(default_factory=list)
    span: tuple[int, int] | None = None

    def end(self, key: str, event: Event) -> None:
        """Take an event that stands at the block's end; the first of a kind counts, later ones are
        of slower ranks.
        """
        if key == "block_stop":
            self.stop = self.stop or event
        else:
            self.evaluation = self.evaluation or event
            if key == "eval_stop":
                self.resumed = self.resumed or event

    def unmarked_after(self, key: str, event: Event) -> Block | None:
        """Return the block that an event ends if nothing has begun it: training goes on after this
        one's evaluation.

        Such an event stands further on: an evaluation at 24 steps, where the one before was at 12.
        A slower rank's copy has the position of the original.
        """
        # Some logs have evaluations without events of their own; a block without a stop is what a
        # block_stop ends.
        begun = self.resumed if self.evaluation else self.stop
        before = self.stop if key == "block_stop" else self.evaluation
        if begun is None or before is None:
            return None
        shared = event.place.keys() & before.place.keys() & {*POSITIONS, "first_epoch_num"}
        moved = [event.place[name] - before.place[name] for name in shared]
        if min(moved, default=0) >= 0 and (any(moved) or (key == "eval_start" and not moved)):
            place = {name: value for name, value in before.place.items() if name == "samples_count"}
            return Block(begun._replace(place=place))
        return None


class Point(NamedTuple):
    """An event at a completed optimizer step; `window`: steps that its time is the mean of."""

    step: int
    event: Event
    window: int = 1


Kind = Literal["block", "mean", "sampled"]


def number(value: Any) -> float | None:
    """Return a finite number of JSON, also one that was written as a text; None for anything
    else.
    """
    read = values.number(value)
    if read is not None and abs(read) <= LARGEST_VALUE:
        return read
    return None


class PlacedEvents:
    """The events of one training, before its end, at their steps.

    Args:
        events, blocks: in the order of the log.
        batch: samples of a step over all devices, if it is known.
        sequence: tokens of a sample, if they are known.
        last: samples at the training's end, if stated.

    Attributes:
        records: by step.
        steps: those with a time, ascending.
        kind: what the times are: means of blocks, means of the steps since the record before, or
            those of single steps.
        missed: time by which the first block takes longer than by its printed mean, s, for blocks.
        times: when the last record of a step was logged, by step, s since 1970; none of means of
            blocks.
        unplaced: events whose position fits no unit.
    """

    def __init__(
        self,
        events: list[Event],
        blocks: list[Block],
        batch: int | None,
        sequence: int | None,
        last: float | None,
    ) -> None:
        self.unplaced = 0
        self._blocks = blocks
        self._batch = batch
        self._sequence = sequence
        self._units = [("samples_count", batch), ("step", 1), ("step", batch), ("epoch_num", batch)]
        self._units.append(("step", batch and sequence and batch * sequence))
        self._find_spans(last)
        # A log may break off within a block, or after an evaluation that no block follows.
        is_open = not blocks or blocks[-1].span is None
        if not is_open and not last and (resumed := blocks[-1].resumed):
            is_open = bool(events) and events[-1].time > resumed.time
        ends = [block.span[1] for block in blocks if block.span]
        self._last = math.inf if is_open else max([*ends, (last or 0) / (batch or math.inf)])
        self._typical: float | None = None
        streams: dict[Any, list[Event]] = defaultdict(list)
        for event in events:
            streams[tuple(sorted(event.values)), tuple(sorted(event.place))].append(event)
        self.kind, points = self._timed(streams.values())
        self.missed: float | None = None
        if self.kind == "block":
            _, first, window = points[0]
            wall = first.time - blocks[first.block or 0].start.time
            self.missed = wall - (self._time(first) or math.inf) * window
        # Where a loss stands shows in the times as well: by its own step time, or the training's.
        times = [time for point in points if (time := self._time(point.event))]
        self._typical = statistics.median_high(times) if times else None
        losses = []
        for stream in streams.values():
            if not stream[0].values.keys().isdisjoint(LOSSES):
                losses += self._placed(stream, FITS_LOOSELY)
        self.steps = [point.step for point in points]
        self.records: dict[int, Record] = {}
        # The mean of a block may be logged before its last step is done, a record of a step is not.
        recorded = losses if self.kind == "block" else [*losses, *points]
        self.times = {step: event.time for step, event, _ in recorded}
        for step, event, window in points:
            self.records[step] = Record(step, event.line, window=window, seconds=self._time(event))
        for step, event, _ in (*points, *losses):
            record = self.records.setdefault(step, Record(step, event.line))
            values = {**event.values, "lr": event.place.get("lr")}
            record.put_all({key: values[key] for key in values.keys() & _FIGURES}, _FIGURES)

    def _find_spans(self, last: float | None) -> None:
        """Find the completed steps at the start and the end of each block."""
        former = 0
        begins = [block.start.place.get("samples_count") for block in self._blocks]
        for block, following in zip(self._blocks, [*begins[1:], last], strict=False):
            end = _count(self._end(block, former, following))
            per_step = (self._batch or 0) * (self._sequence or 0)
            # Steps before it that the log has no block of are not this block's.
            before = block.start.place.get("first_epoch_num", 0) / per_step if per_step else 0
            begin = _count(block.start.place.get("step", before))
            if begin and end and former < begin < end:
                former = begin
            block.span = (former, end) if end and end > former else None
            former = max(former, end or 0)

    def _end(self, block: Block, former: int, following: float | None) -> float | None:
        """Return the completed steps at the end of a block that begins after `former` ones;
        `following` are the samples at the start of the next block.

        The evaluation after a block stands at its end, whatever the block's own samples_count is:
        the position there, the one at the block's start (again, at its stop), or the block's
        length.
        """
        if block.evaluation:
            step = self.steps_at(block.evaluation.place)
            # A slower rank's is of the evaluation before.
            if step is not None and step > former:
                return step
        start = block.start.place
        stop = block.stop.place if block.stop else {}
        step = stop.get("step", stop.get("curr_global_step"))
        begun = start.get("samples_count")
        if step is None and self._batch and begun is not None:
            for samples in (stop.get("samples_count"), following):
                if samples is not None and samples > begun:
                    return samples / self._batch
        tokens = start if "epoch_count" in start else stop
        if step is None and "epoch_count" in tokens and self._batch and self._sequence:
            step = tokens["epoch_count"] + tokens.get("first_epoch_num", 0)
            return step / (self._batch * self._sequence)
        return step

    def steps_at(self, place: Mapping[str, float]) -> float | None:
        """Return the completed steps at a position in samples or tokens."""
        samples = place.get("samples_count")
        tokens = place.get("epoch_num")
        if samples is None and tokens is not None and self._sequence:
            samples = tokens / self._sequence
        if samples is not None and self._batch:
            return samples / self._batch
        return place.get("step")

    def _time(self, event: Event) -> float | None:
        """Return the step time that an event states, or that its samples per second imply."""
        rate = event.values.get(RATE)
        implied = self._batch / rate if rate and rate > 0 and self._batch else None
        for time in (*map(event.values.get, TIMES), implied):
            if time is not None and SHORTEST_STEP <= time <= LONGEST_STEP:
                return time
        return None

    def _timed(self, streams: Iterable[list[Event]]) -> tuple[Kind | None, list[Point]]:
        """Return the stream of times to use, and the kind of these times."""

        def order(stream: list[Event]) -> tuple[bool, bool, int]:
            # Single records go before means of blocks, printed times before those that follow from
            # a rate.
            is_rate = stream[0].values.keys().isdisjoint(TIMES)
            return self._is_per_block(stream), is_rate, -len(stream)

        timed = [stream for stream in streams if self._time(stream[0])]
        for stream in sorted(timed, key=order):
            if self._is_per_block(stream):
                points = []
                for event in stream:
                    span = self._blocks[event.block or 0].span
                    if span:
                        points.append(Point(span[1], event, span[1] - span[0]))
                if points:
                    return "block", points
                self.unplaced += len(stream)
            elif points := self._placed(stream, FITS):
                return self._with_windows(points)
        return None, []

    def _is_per_block(self, stream: Sequence[Event]) -> bool:
        """Return whether a stream has one event a block, and none outside."""
        seen = {event.block for event in stream}
        return None not in seen and len(seen) == len(stream)

    def _placed(self, stream: Sequence[Event], fits: float) -> list[Point]:
        """Return the events of a stream at the steps where they stand; empty if no unit fits.

        The unit that misses the wall clock less counts; the earlier one, unless it misses it by 1%
        more. One that ends beyond the training is none: at step 1,012 of 1,000, not at 1,011.
        """
        best = []
        least = math.inf
        for name, unit in self._units:
            points = _in_unit(stream, name, unit) if unit else []
            if not points or points[-1].step > self._last * 1.01 + 1:
                continue
            # How far times and distances miss the wall clock, as the logarithm of their ratio.
            ratios = [ratio for _, ratio in self._clocked(points)]
            miss = abs(math.log(statistics.median_high(ratios))) if ratios else 0.0
            if miss <= fits and miss < least - 0.01:
                least = miss
                best = points
        if not best:
            self.unplaced += len(stream)
        return best

    def _clocked(self, points: Sequence[Point]) -> list[tuple[int, float]]:
        """Return the steps between neighbors, and the ratio of what these take by their times to
        the wall clock.
        """
        ratios = []
        for earlier, later in itertools.pairwise(points):
            wall = later.event.time - earlier.event.time
            steps = later.step - earlier.step
            if wall > 0 and (time := self._time(later.event) or self._typical):
                ratios.append((steps, steps * time / wall))
        return ratios

    def _with_windows(self, points: list[Point]) -> tuple[Kind, list[Point]]:
        """Return a stream of single records with their windows: means of their interval, or one
        step of it.
        """
        misses = [abs(ratio - 1) for steps, ratio in self._clocked(points) if steps > 1]
        if not misses:
            return "mean", points
        # An evaluation in between makes a few of them miss, so the median counts.
        if statistics.median_high(misses) > SAMPLED:
            return "sampled", points
        before = 0
        windows = []
        for point in points:
            windows.append(point._replace(window=point.step - before))
            before = point.step
        return "mean", windows


_FIGURES = {
    **dict.fromkeys(LOSSES, "loss"),
    "lr": "learning_rate",
    RATE: "samples_per_second",
    "max_memory_usage": "max_memory_usage",
    "reward": "reward",
    "global_valid_toks": "tokens_per_step",
    "valid_tokens_per_sec_per_gpu": "tokens_per_second_per_gpu",
}
"""What an event tracks, and the values that it holds."""


def _in_unit(stream: Sequence[Event], name: str, unit: int) -> list[Point]:
    """Return the events of a stream by a position in a unit; empty if that is none."""
    steps = [event.place[name] / unit for event in stream if name in event.place]
    if len(steps) < len(stream):
        return []
    if len(steps) > 1:
        first = steps[0]
        least = min(later - earlier for earlier, later in itertools.pairwise(steps))
        # 0, 32, 64, also in samples, or 31, 63, 95: an index from 0 of the first or the last step
        # of every 32.
        if first == 0 or (unit == 1 and least > 0 and first % least and not (first + 1) % least):
            steps = [step + 1 for step in steps]
    points: dict[int, Point] = {}
    for step, event in zip(map(_count, steps), stream, strict=True):
        if step is None:
            return []
        points.setdefault(step, Point(step, event))
    # A length, which is the same for every block, is no position.
    is_position = len(points) > 1 or len(stream) == 1
    if is_position and list(points) == sorted(points):
        return list(points.values())
    return []


def _count(value: float | None) -> int | None:
    if value is None or not 1 <= value <= LARGEST_COUNT or abs(value - round(value)) > 1e-6:
        return None
    return round(value)
