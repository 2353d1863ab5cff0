"""The timeline of a recording: the use of its process's time, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tprimat.results.account import Entry, EntryKind


class Pause(NamedTuple):
    """A pause of the steps: begin and end, s since the first step began, and its kind; None if
    unknown.
    """

    begin: float
    end: float
    kind: EntryKind | None = None


def timeline(
    start_up: float,
    ends: Mapping[int, float],
    pauses: Iterable[Pause],
    first_step: int,
    until: float | None,
) -> tuple[Entry, ...]:
    """Return the entries of a recording; `start_up` is the time before its first step, s.

    `ends` has the end of each record by its last step, s since the first step began; it and the
    pauses ascend. `until` is the end of the recording; None if unknown.
    """
    entries: list[Entry] = []
    now = -start_up
    step = first_step - 1

    def add(kind: EntryKind, end: float, last: int | None = None) -> None:
        nonlocal now, step
        has_steps = last is not None and last > step
        if end > now:
            start = round(now + start_up, 6)
            first = step + 1 if has_steps else None
            if entries and entries[-1].kind == kind == "start-up":
                start = entries.pop().start
            seconds = round(end + start_up - start, 6)
            final = last if has_steps else None
            entries.append(
                Entry(kind=kind, start=start, duration=seconds, first_step=first, last_step=final)
            )
        now = max(now, end)
        step = max(step, last or 0)

    add("start-up", 0.0)
    steps = sorted(ends.items())
    index = 0
    for begin, end, kind in [*pauses, Pause(steps[-1][1], steps[-1][1])] if steps else pauses:
        last = None
        while index < len(steps) and steps[index][1] <= begin:
            last = steps[index][0]
            index = index + 1
        # What delays the first step is no pause.
        is_begun = last is not None or step >= first_step
        add("training" if is_begun else "start-up", begin, last)
        add(kind or ("unknown" if is_begun else "start-up"), end)
    if until is not None:
        add("end", until)
    return tuple(entries)
