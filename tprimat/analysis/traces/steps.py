"""The steps of a trace: which stretch of a GPU's time each takes, from the host code that launched its work.

A GPU lags the host, often by more than a step. So a step doesn't last from its annotation's start to its end: it ends
when the GPU has done what was launched until its end, and the next begins there.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from tprimat.analysis.traces.timeline import Timeline, Work

_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+$")
_STEP = re.compile(r"(?:^|[^a-z])(?:train(?:ing)?[_ ]?)?(?:step|iteration|iter|batch)(?:[^a-z]|$)", re.IGNORECASE)
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


def choose_steps(annotations: Sequence[tuple[str, int, int, int | str]]) -> list[tuple[str, int, int, int | str]]:
    """Return the annotations (name, start, end, thread) that mark steps, in order; none where none does.

    They are the profiler's own, else those of one name, but for its numbers, that looks like a step's and covers
    the longest time.
    """
    groups: dict[tuple[str, int | str], list[tuple[str, int, int, int | str]]] = {}
    for each in annotations:
        if _PROFILER_STEP.match(each[0]):
            groups.setdefault(("", ""), []).append(each)
        elif _STEP.search(each[0]) and not _NO_STEP.search(each[0]):
            groups.setdefault((_NUMBER.sub("#", each[0]), each[3]), []).append(each)
    steps = groups.get(("", "")) or max(
        groups.values(), key=lambda group: sum(end - start for _, start, end, _ in group), default=[]
    )
    steps = sorted(steps, key=lambda each: each[1])
    overlapping = any(later[1] < earlier[2] for earlier, later in itertools.pairwise(steps))
    return [] if overlapping else steps


def periods(timeline: Timeline, work: Sequence[Work]) -> list[Period]:
    """Return the periods of the steps on one GPU, whose work is sorted by start."""
    if not timeline.steps:
        return [Period("", work[0].start, max(each.end for each in work), None)] if work else []
    starts = [start for _, start, _, _ in timeline.steps]
    # The end of all work that was launched before each step, and at last of all that was launched.
    done = [0] * (len(starts) + 1)
    latest: dict[int | str, int] = {}
    for each in work:
        launch = timeline.launches.get(each.correlation)
        # Without its launch, work belongs where the work before it on its stream does; at first, before the trace.
        number = bisect.bisect_right(starts, launch.start) if launch else latest.get(each.stream, 0)
        latest[each.stream] = number
        done[number] = max(done[number], each.end)
    for number in range(1, len(done)):
        done[number] = max(done[number - 1], done[number])
    begins = [max(start, end) for start, end in zip(starts, done, strict=False)]
    begins.append(max(timeline.steps[-1][2], done[-1]))
    return [
        Period(name, begin, end, thread)
        for (name, _, _, thread), begin, end in zip(timeline.steps, begins, begins[1:], strict=False)
    ]
