"""Explain a change of speed by an event that telemetry recorded."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat.notes import Note
from tprimat.results.run import Run
from tprimat.results.telemetry import THROTTLING, TelemetryIssue

NEAR_READINGS = 2.0
"""Readings by which an event may miss the step of a change: it is seen at the next one, and steps
are averaged too.
"""

NEAR_STEPS = 2
"""Steps by which a change point may miss the step that changed."""

LIMITS = frozenset(
    {
        "power-cap",
        "thermal",
        "hardware-slowdown",
        "power-brake",
        "clock-setting",
        "sync-boost",
        "gpu-shared",
    }
)
"""Events that slow a training from their first to their last step."""


def cause_of_change(run: Run, step: int, before_s: float, after_s: float) -> Note | None:
    """Return the event that explains a change of the step time at a step; None if there is none.

    A limit explains a slower speed where it begins and a faster one after it ends, a change of the
    clock one in its own direction. Among several the first counts: the most severe one is listed
    first.
    """
    interval = run.telemetry.interval_seconds or 0.0
    near = NEAR_STEPS + NEAR_READINGS * interval / min(before_s, after_s)
    for issue in run.telemetry.issues:
        for at, makes_faster in _changes(issue):
            if abs(at - step) <= near and makes_faster == (after_s < before_s):
                is_end = issue.code in LIMITS and makes_faster
                title = THROTTLING.get(issue.code, issue.text)
                fields = {"event": issue.code, "text": issue.text, "title": title}
                return Note("event-ended" if is_end else "event", fields)
    return None


def _changes(issue: TelemetryIssue) -> Iterator[tuple[int, bool]]:
    """Yield the steps from which an event changes the speed, and whether it makes them faster."""
    if issue.first_step is None or issue.last_step is None:
        return
    if issue.code in LIMITS:
        yield issue.first_step, False
        yield issue.last_step + 1, True
    elif issue.code == "clock-change" and issue.value is not None and issue.expected is not None:
        yield issue.first_step, issue.value > issue.expected
