"""The events of one process in a trace, sorted: work of the GPU, calls that launched it, and ranges
of the host.

Times are integers of ns, so that parts add up exactly.
"""

from __future__ import annotations

import array
import bisect
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Annotation = tuple[str, int, int, int | str]
"""A range that a program has named: its name, begin and end, and the thread that it is of."""

Interval = tuple[int, int]
"""Start and end, ns."""


class Work(NamedTuple):
    """A kernel, copy or buffer clear on a GPU.

    Attributes:
        is_copy: whether it is a copy or a buffer clear.
        correlation: identifies the call that launched it.
    """

    start: int
    end: int
    name: str
    is_copy: bool
    device: int
    stream: int | str
    correlation: int


class Launch(NamedTuple):
    """A call of the runtime or the driver."""

    start: int
    end: int
    thread: int | str


class RangeKind(NamedTuple):
    """What many ranges of the host share.

    Attributes:
        shapes, types: those of an operator's inputs, as JSON.
        collective: the kind of communication that NCCL recorded.
    """

    name: str
    shapes: bytes = b""
    types: bytes = b""
    collective: str = ""


class Ranges:
    """Ranges of one thread of the host (operators, annotations, Python functions), which lie within
    each other.
    """

    def __init__(self) -> None:
        # A trace of a gigabyte has millions of them: numbers in arrays take a quarter of the
        # memory.
        self._starts, self._ends = array.array("q"), array.array("q")
        self._kinds: list[RangeKind] = []

    def add(self, start: int, end: int, kind: RangeKind) -> None:
        """Add a range."""
        self._starts.append(start)
        self._ends.append(end)
        self._kinds.append(kind)

    @functools.cached_property
    def _nested(
        self,
    ) -> tuple[array.array[int], array.array[int], list[RangeKind], array.array[int]]:
        """Starts, ends, kinds, and the position of the range around each, or -1."""
        # The longer of two that begin together lies around the other.
        order = sorted(range(len(self._starts)), key=self._ends.__getitem__, reverse=True)
        order.sort(key=self._starts.__getitem__)
        starts, ends = (
            array.array("q", map(each.__getitem__, order)) for each in (self._starts, self._ends)
        )
        parents = array.array("q")
        open_ones: list[int] = []
        for index, start in enumerate(starts):
            while open_ones and ends[open_ones[-1]] <= start:
                open_ones.pop()
            parents.append(open_ones[-1] if open_ones else -1)
            open_ones.append(index)
        return starts, ends, [self._kinds[index] for index in order], parents

    def around(self, time: int) -> tuple[RangeKind, ...]:
        """Return the ranges around a time, innermost first."""
        starts, ends, kinds, parents = self._nested
        index = bisect.bisect_right(starts, time) - 1
        found = []
        while index >= 0:
            if ends[index] >= time:
                found.append(kinds[index])
            index = parents[index]
        return tuple(found)


@dataclasses.dataclass
class Timeline:
    """The events of one process that matter.

    Attributes:
        work: work of its GPUs.
        launches: by correlation.
        ranges: by thread.
        waits: calls that wait for the GPU, by thread.
        loads: ranges in which data are loaded or prepared, by thread.
        steps: the steps that annotations mark: name, start, end, thread.
        rank, world_size, device_name, software_stack, software_version: as the trace states them.
        memory_bytes, compute_units: those of each GPU, if all are alike; else None.
    """

    work: list[Work] = dataclasses.field(default_factory=list)
    launches: dict[int, Launch] = dataclasses.field(default_factory=dict)
    ranges: dict[int | str, Ranges] = dataclasses.field(default_factory=dict)
    waits: dict[int | str, list[Interval]] = dataclasses.field(default_factory=dict)
    loads: dict[int | str, list[Interval]] = dataclasses.field(default_factory=dict)
    steps: list[Annotation] = dataclasses.field(default_factory=list)
    rank: int | None = None
    world_size: int | None = None
    device_name: str | None = None
    memory_bytes: int | None = None
    compute_units: int | None = None
    software_stack: str | None = None
    software_version: str | None = None


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals without overlaps, in order."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        elif end > start:
            result.append((start, end))
    return result


def within(intervals: Sequence[Interval], start: int, end: int) -> list[Interval]:
    """Return what of merged intervals lies between two times."""
    first = max(bisect.bisect_right(intervals, (start, 1 << 62)) - 1, 0)
    inside = intervals[first : bisect.bisect_left(intervals, (end,))]
    cut = [(max(low, start), min(high, end)) for low, high in inside]
    return [(low, high) for low, high in cut if low < high]
