"""The steps of a trace: which stretch of a GPU's time each takes, from the host code that launched
its work.

A GPU lags the host, often by more than a step. So a step doesn't last from its annotation's start
to its end: it ends when the GPU has done what was launched until its end, and the next begins
there.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from tprimat.analysis.traces.timeline import Annotation, Timeline, Work

_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+$")
_STEP = re.compile(
    r"(?:^|[^a-z])(?:train(?:ing)?[_ ]?)?(?:step|iteration|iter|batch)(?:[^a-z]|$)", re.IGNORECASE
)
_NO_STEP = re.compile(r"optimizer|dataloader|nccl:", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


class Period(NamedTuple):
    """A step's stretch of a GPU's time.

    Attributes:
        name: its annotation; empty for a whole trace without steps.
        thread: that the annotation is on, or None.
    """

    name: str
    start: int
    end: int
    thread: int | str | None


def choose_steps(annotations: Sequence[Annotation]) -> list[Annotation]:
    """Return the annotations (name, start, end, thread) that mark steps, in order; none if none
    does.

    They are the profiler's own, else those of one name, but for its numbers, that looks like a
    step's and covers the longest time.
    """
    groups: dict[tuple[str, int | str], list[Annotation]] = {}
    for each in annotations:
        if _PROFILER_STEP.match(each[0]):
            groups.setdefault(("", ""), []).append(each)
        elif _STEP.search(each[0]) and not _NO_STEP.search(each[0]):
            groups.setdefault((_NUMBER.sub("#", each[0]), each[3]), []).append(each)
    steps = groups.get(("", "")) or max(
        groups.values(),
        key=lambda group: sum(end - start for _, start, end, _ in group),
        default=[],
    )
    steps = sorted(steps, key=lambda each: each[1])
    overlapping = any(later[1] < earlier[2] for earlier, later in itertools.pairwise(steps))
    if overlapping:
        return []
    return steps


def periods(timeline: Timeline, work: Sequence[Work]) -> list[Period]:
    """Return the periods of the steps on one GPU, whose work is sorted by start.

    An annotation in which no kernel was launched, such as the one that is open when the profiler
    stops, is no step. If no launch is known, the whole is one period.
    """
    if not timeline.steps or not any(each.correlation in timeline.launches for each in work):
        if work:
            return [Period("", work[0].start, max(each.end for each in work), None)]
        return []
    starts = [start for _, start, _, _ in timeline.steps]
    over = timeline.steps[-1][2]
    # When each step begins, at the earliest, and at last when the last one ends. Times are
    # relative: 0 is one of them.
    begins = [*starts, over]
    computing = set()
    latest: dict[int | str, int] = {}
    for each in work:
        launch = timeline.launches.get(each.correlation)
        # Without its launch, work belongs where the work before it on its stream does; at first,
        # before the trace.
        if launch:
            number = bisect.bisect_right(starts, launch.start)
        else:
            number = latest.get(each.stream, 0)
        latest[each.stream] = number
        begins[number] = max(begins[number], each.end)
        if not each.is_copy and (launch is None or launch.start < over):
            computing.add(number)
    begins = list(itertools.accumulate(begins, max))
    found = []
    for number, (name, _, _, thread) in enumerate(timeline.steps, start=1):
        if number in computing:
            found.append(Period(name, begins[number - 1], begins[number], thread))
    return found
