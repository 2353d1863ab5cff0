"""When each step ran, on the clock of the readings; and the readings of a time."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import Sample
from tprimat.results.run import Run

_Reading = TypeVar("_Reading")


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The records of a training with their ends.

    Attributes:
        steps: number of each record's last step, shape (records,).
        ends: end of each, s on time.perf_counter().
        seconds: time of all steps of each, without pauses, s.
        began: start of the first step, s.
    """

    steps: tuple[int, ...]
    ends: tuple[float, ...]
    seconds: tuple[float, ...]
    began: float

    @classmethod
    def of(cls, run: Run, ends: Mapping[int, float], began: float) -> Timeline:
        """Return the records of a run whose end and time are known, without those that a profiler
        watched.
        """
        steps = []
        times = []
        records = zip(run.steps, run.step_times, run.window_steps, strict=True)
        for step, seconds, window in records:
            if step in ends and seconds is not None and step not in run.profiled_steps:
                steps.append(step)
                times.append(seconds * window)
        return cls(tuple(steps), tuple(ends[step] for step in steps), tuple(times), began)

    def steps_between(self, start: float, end: float) -> tuple[int, int]:
        """Return the first and the last step that run within a time."""
        first = min(bisect.bisect_right(self.ends, start), len(self.ends) - 1)
        last = min(bisect.bisect_left(self.ends, end), len(self.ends) - 1)
        begins = self.steps[first - 1] + 1 if first else self.steps[0]
        return begins, self.steps[max(first, last)]

    def part(self, first_step: int, last_step: int) -> Timeline:
        """Return the records from one step to another."""
        low = bisect.bisect_left(self.steps, first_step)
        high = bisect.bisect_right(self.steps, last_step)
        began = self.ends[low - 1] if low else self.began
        return Timeline(self.steps[low:high], self.ends[low:high], self.seconds[low:high], began)

    def intervals(self) -> list[tuple[float, float]]:
        """Return the times in which steps ran, neighbors joined: what lies between is a pause, such
        as validation.
        """
        joined: list[tuple[float, float]] = []
        for end, seconds in zip(self.ends, self.seconds, strict=True):
            start = end - seconds
            # Sums of floats, and of a device's clock and the host's.
            if joined and start - joined[-1][1] < 0.001 + 0.01 * seconds:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return joined

    def running_s(self) -> float:
        """Return the time in which steps ran, s."""
        return sum(end - start for start, end in self.intervals())

    def running(self, rows: Sequence[tuple[float, _Reading]]) -> list[tuple[float, _Reading]]:
        """Return those of some rows, with their times first, that were read while steps ran."""
        intervals = self.intervals()
        starts = [start for start, _ in intervals]
        places = ((row, bisect.bisect_right(starts, row[0]) - 1) for row in rows)
        return [row for row, index in places if index >= 0 and row[0] <= intervals[index][1]]


Rows = list[tuple[float, GpuState]]
"""The readings of a GPU, with their times."""


def rows_of(samples: Sequence[Sample], ids: Sequence[str]) -> dict[str, Rows]:
    """Return the readings of each GPU, by its id."""
    rows: dict[str, Rows] = {name: [] for name in ids}
    for sample in samples:
        for gpu in sample.gpus:
            if gpu.id in rows:
                rows[gpu.id].append((sample.at, gpu))
    return rows


CLOCK_JUMP = "the timestamps of the readings don't increase: the machine's clock was changed"


def clock_jumps(samples: Sequence[Sample]) -> bool:
    """Return whether a reading is no later than the one before it."""
    return any(later.at <= earlier.at for earlier, later in itertools.pairwise(samples))


def around(samples: Sequence[Sample], start: float, end: float) -> list[Sample]:
    """Return the readings between two moments, with the last one before and the first one after."""
    times = [sample.at for sample in samples]
    low = bisect.bisect_right(times, start) - 1
    high = bisect.bisect_left(times, end) + 1
    return list(samples[max(0, low) : high])


def within(samples: Sequence[Sample], start: float, end: float) -> list[Sample]:
    """Return the readings between two moments."""
    return [sample for sample in samples if start <= sample.at <= end]
