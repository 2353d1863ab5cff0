"""From timelines to a result's trace and breakdown: each step's parts, and the kernels that take
their time.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import statistics
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import msgspec

from tprimat.analysis.traces.division import IdleCauses, divide
from tprimat.analysis.traces.steps import Period, periods
from tprimat.analysis.traces.timeline import RangeKind, Timeline, Work
from tprimat.catalog import kernels
from tprimat.results.fields import LARGEST_COUNT, Figures
from tprimat.results.trace import (
    COMMUNICATION,
    COMPUTATION,
    COPIES,
    IDLE,
    Trace,
    TracedStep,
    TracedWork,
)

SECOND = 1_000_000_000
"""ns."""

MOST_WORK = 150
"""Kinds of work that a result holds, the longest of them."""

SMALLEST_SHARE = 1e-4
"""Share of the time of all work; kinds of work with less are omitted."""

LONGEST_NAME = 400
"""Characters of a kernel's name."""


@dataclasses.dataclass
class _Total:
    """Sums over steps."""

    calls: int = 0
    duration: int = 0
    exposed: int = 0


_Key = tuple[str, str, "str | None", "str | None", bytes, bytes]
"""Kernel, part, operator, phase, shapes and types."""


class Breakdown:
    """The breakdown of several processes, added one after the other so that one timeline is held at
    a time.

    Attributes:
        empty: step annotations in which a GPU computed nothing.
    """

    def __init__(self) -> None:
        self.empty = 0
        self._steps: list[TracedStep] = []
        self._totals: dict[_Key, _Total] = {}
        self._key_of = functools.cache(_key)

    def add(self, timeline: Timeline) -> None:
        """Add the steps of a process; each GPU that it drives has its own."""
        by_device: dict[int, list[Work]] = {}
        for each in timeline.work:
            by_device.setdefault(each.device, []).append(each)
        for device in sorted(by_device):
            self._add(timeline, sorted(by_device[device], key=lambda each: each[:2]))

    def trace(self) -> Trace | None:
        """Return the steps and the work of all processes; None if no GPU did anything."""
        if not self._steps:
            return None
        count = len(self._steps)
        least = SMALLEST_SHARE * sum(total.duration for total in self._totals.values())
        ordered = sorted(
            self._totals.items(),
            key=lambda each: (-each[1].duration, *each[0][:2], each[0][2] or ""),
        )
        work = []
        for (kernel, part, operator, phase, shapes, types), total in ordered[:MOST_WORK]:
            if total.duration >= least:
                work.append(
                    TracedWork(
                        kernel=kernel[:LONGEST_NAME],
                        part=part,
                        operator=operator,
                        phase=phase,  # type: ignore[arg-type]
                        shapes=_shapes(shapes),
                        types=_types(types),
                        calls=total.calls / count,
                        seconds=total.duration / SECOND / count,
                        exposed_seconds=total.exposed / SECOND / count,
                    )
                )
        return Trace(steps=tuple(self._steps), work=tuple(work))

    def _add(self, timeline: Timeline, work: list[Work]) -> None:
        steps = {name for name, *_ in timeline.steps}
        keys = [self._key(timeline, item, steps) for item in work]
        causes = IdleCauses(timeline, work)
        stretches = periods(timeline, work)
        self.empty += len(timeline.steps) - sum(bool(period.name) for period in stretches)
        for period, places in _by_period(stretches, work):
            concerned = [work[place] for place in places]
            parts = [keys[place][1] for place in places]
            division = divide(period.start, period.end, concerned, parts)
            sums: dict[str, int] = {}
            for place, part, exposed in zip(places, parts, division.exposed, strict=True):
                total = self._totals.setdefault(keys[place], _Total())
                total.exposed += exposed
                if period.start <= work[place].start:
                    total.calls += 1
                    total.duration += work[place].end - work[place].start
                if exposed:
                    sums[part] = sums.get(part, 0) + exposed
            for start, end, next_work in division.gaps:
                for cause, time in causes.of(start, end, next_work, period.thread).items():
                    sums[cause] = sums.get(cause, 0) + time
            self._steps.append(_step(timeline, period, concerned, sums, division.communication))

    def _key(self, timeline: Timeline, work: Work, steps: Set[str]) -> _Key:
        launch = timeline.launches.get(work.correlation)
        ranges = None
        if launch:
            ranges = timeline.ranges.get(launch.thread)
        around = ranges.around(launch.start) if ranges and launch else ()
        # A step's annotation is no operator.
        around = tuple(each for each in around if each.name not in steps)
        return self._key_of(work.name, work.is_copy, around)


def _by_period(
    stretches: Sequence[Period], work: Sequence[Work]
) -> Iterator[tuple[Period, list[int]]]:
    """Yield each period with the places of the work that lies in it at least in part, sorted by
    start.
    """
    position = 0
    running: list[int] = []
    for period in stretches:
        end = bisect.bisect_left(work, period.end, position, key=lambda item: item.start)
        candidates = (*running, *range(position, end))
        concerned = []
        for place in candidates:
            if work[place].end > period.start:
                concerned.append(place)
        yield period, concerned
        position = end
        running = [place for place in concerned if work[place].end > period.end]


def _step(
    timeline: Timeline,
    period: Period,
    work: Sequence[Work],
    sums: Mapping[str, int],
    communication: int,
) -> TracedStep:
    exposed_communication = sum(
        time for part, time in sums.items() if part.startswith(COMMUNICATION)
    )
    gpu = 0
    if work:
        gpu = max(each.end for each in work) - min(each.start for each in work)
    return TracedStep(
        name=period.name,
        rank=timeline.rank,
        seconds=(period.end - period.start) / SECOND,
        parts={
            part: time / SECOND for part, time in sorted(sums.items(), key=lambda each: -each[1])
        },
        overlapped_communication=(communication - exposed_communication) / SECOND,
        gpu_seconds=gpu / SECOND,
    )


def _key(name: str, is_copy: bool, around: tuple[RangeKind, ...]) -> _Key:
    names = tuple(each.name for each in around)
    operator = next((each for each in around if not kernels.is_python(each.name)), None)
    collective = next((each.collective for each in around if each.collective), "")
    types = _types(operator.types) if operator else ()
    part = COPIES
    if not is_copy:
        part = kernels.part_of(name, names, types, collective)
    return (
        name,
        part,
        operator.name if operator else None,
        kernels.phase_of(names),
        operator.shapes if operator else b"",
        operator.types if operator else b"",
    )


def _shapes(encoded: bytes) -> tuple[tuple[int, ...], ...]:
    """Return dimensions of inputs; those of a list of tensors are left out."""
    return tuple(
        tuple(row) if isinstance(row, list) and all(map(_is_size, row)) else ()
        for row in _inputs(encoded)
    )


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _types(encoded: bytes) -> tuple[str, ...]:
    return tuple(row if isinstance(row, str) else "" for row in _inputs(encoded))


def _inputs(encoded: bytes) -> list[Any]:
    """Return a trace's values for the inputs of an operator; empty if they aren't a list."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(encoded, type=list[Any])
    return []


def mean_parts(steps: Sequence[TracedStep]) -> dict[str, float]:
    """Return the mean of each part over steps, longest first."""
    names = dict.fromkeys(part for step in steps for part in step.parts)
    means = {}
    for name in names:
        means[name] = statistics.fmean([step.parts.get(name, 0.0) for step in steps])
    return dict(sorted(means.items(), key=lambda each: -each[1]))


def sums(parts: dict[str, float]) -> dict[str, float]:
    """Return computation, exposed communication, exposed copies and idle time of a step's parts."""
    return {
        "computation": sum(parts.get(name, 0.0) for name in COMPUTATION),
        "exposed_communication": sum(
            time for part, time in parts.items() if part.startswith(COMMUNICATION)
        ),
        "exposed_copies": parts.get(COPIES, 0.0),
        "idle": sum(parts.get(name, 0.0) for name in IDLE),
    }


def breakdown_of(trace: Trace) -> Figures:
    """Return a trace as a result's breakdown, in the words of trace reports: means per step, s."""
    parts = mean_parts(trace.steps)
    overlapped = statistics.fmean([step.overlapped_communication for step in trace.steps])
    whole = sums(parts)
    computation = {}
    communication = {}
    idle = {}
    for part, time in parts.items():
        if part in COMPUTATION:
            computation[f"category {part}"] = time
        if part.startswith(COMMUNICATION):
            communication[f"collective {part.removeprefix(COMMUNICATION)}"] = time
        if part in IDLE:
            idle[part.replace("_", " ", 1)] = time
    named = {**computation, **communication, **idle}
    return {
        "total": statistics.fmean([step.seconds for step in trace.steps]),
        **whole,
        "communication": whole["exposed_communication"] + overlapped,
        **named,
    }
