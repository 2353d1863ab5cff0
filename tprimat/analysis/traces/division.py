"""The division of a stretch of time among the work of a GPU, without overlaps or gaps.

If several things happen at once, time belongs to computation before communication before copies,
and of two of one kind to the one that began first; the other has the rest. So what a GPU does
besides computing shows only as far as computation doesn't hide it, and everything adds up to the
ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tprimat.analysis.traces.timeline import Interval, Launch, Timeline, Work, merged, within
from tprimat.results.trace import COMMUNICATION, COPIES


class Division(NamedTuple):
    """A stretch of time, divided.

    Attributes:
        exposed: ns of each piece of work.
        gaps: times in which the GPU does nothing, each with the work that ends it, or None for the
            last.
        communication: ns in which some communication is under way, hidden or not.
    """

    exposed: list[int]
    gaps: list[tuple[int, int, Work | None]]
    communication: int


def divide(start: int, end: int, work: Sequence[Work], parts: Sequence[str]) -> Division:
    """Divide the time from start to end among work of one GPU, sorted by start, whose parts are
    these.
    """
    levels: list[list[int]] = [[], [], []]
    for index, part in enumerate(parts):
        levels[2 if part == COPIES else 1 if part.startswith(COMMUNICATION) else 0].append(index)
    exposed = [0] * len(work)
    taken: list[Interval] = []
    communication = 0
    for level, indices in enumerate(levels):
        covered = start
        stretches = []
        for index in indices:
            low = max(work[index].start, covered)
            high = min(work[index].end, end)
            if low < high:
                exposed[index] = high - low - sum(b - a for a, b in within(taken, low, high))
                stretches.append((low, high))
                covered = high
        if level == 1:
            communication = sum(b - a for a, b in stretches)
        taken = merged([*taken, *stretches])
    return Division(exposed, _gaps(start, end, taken, work), communication)


def _gaps(
    start: int, end: int, taken: Sequence[Interval], work: Sequence[Work]
) -> list[tuple[int, int, Work | None]]:
    gaps = []
    # If several start together, the first in the trace counts.
    first_at = {each.start: each for each in reversed(work)}
    at = start
    for low, high in taken:
        if at < low:
            gaps.append((at, low, first_at.get(low)))
        at = high
    if at < end:
        gaps.append((at, end, None))
    return gaps


class IdleCauses:
    """Why a GPU was idle, by what the host did meanwhile.

    Work that the host launched only after the GPU had run dry waits for the host: from the end of
    the earlier work to its own start. The cause is what the thread that launches it did until then:
    it loaded data, it waited for the GPU, or, as far as the trace shows, it ran its program. Work
    that was launched early enough and still didn't start waits for something else.
    """

    def __init__(self, timeline: Timeline, work: Sequence[Work]) -> None:
        self._launches = timeline.launches
        self._waits = {thread: merged(intervals) for thread, intervals in timeline.waits.items()}
        self._loads = {thread: merged(intervals) for thread, intervals in timeline.loads.items()}
        delays = (
            each.start - launch.start
            for each in work
            if (launch := timeline.launches.get(each.correlation))
        )
        self._shortest_delay = max(min(delays, default=0), 0)

    def of(
        self, start: int, end: int, next_work: Work | None, thread: int | str | None
    ) -> dict[str, int]:
        """Return the ns of a gap by cause; `thread` is the one to look at if no work ends the
        gap.
        """
        launch = None
        if next_work:
            launch = self._launches.get(next_work.correlation)
        if launch is None:
            if next_work is not None or thread is None:
                return {"idle_other": end - start}
            launch = Launch(end, end, thread)
        ready = min(max(launch.start + self._shortest_delay, start), end)
        if launch.start > start:
            ready = end
        until = min(max(launch.start, start), end)
        loads = within(self._loads.get(launch.thread, []), start, until)
        data = sum(high - low for low, high in loads)
        waits = within(self._waits.get(launch.thread, []), start, until)
        waiting = sum(
            high - low - sum(b - a for a, b in within(loads, low, high)) for low, high in waits
        )
        causes = {
            "idle_data": data,
            "idle_synchronisation": waiting,
            "idle_host_launch": ready - start - data - waiting,
            "idle_other": end - ready,
        }
        return {cause: time for cause, time in causes.items() if time}
