"""Watch a training: read its logs as they grow, report what happens, and decide when to stop."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tprimat import units
from tprimat.checks.endings import divergence, how_ended
from tprimat.errors import ExitStatus
from tprimat.results.outcome import DIVERGED
from tprimat.results.result_file import Loaded
from tprimat.watch import lines
from tprimat.watch.growing import GrowingLogs
from tprimat.watch.state import State, state_of

STALL_STEPS, STALL_S = 10, 60.0
"""A training has stalled if it makes no step for the time of STALL_STEPS records and for STALL_S
seconds.
"""

READING_SHARE = 0.1
"""Share of the time that goes into reading: a long log is read less often."""


@dataclasses.dataclass(frozen=True)
class Conditions:
    """When to stop before the training ends.

    Attributes:
        until: share of the mean to which the within-run interval narrows.
        max_slowdown: share of the throughput that may be lost, against the baseline or the fastest
            segment so far.
        max_stall_s: seconds without a step.
    """

    until: float | None = None
    max_slowdown: float | None = None
    max_stall_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Update:
    """What a look at the logs gave.

    Attributes:
        state: None before a training is recognized.
        quiet_s: seconds since the last step, or since the watch began.
        events: what happened since the last look, a sentence each.
        status: the exit status, once the watch is over.
    """

    state: State | None
    quiet_s: float
    events: tuple[str, ...] = ()
    status: ExitStatus | None = None


def watch(
    logs: GrowingLogs,
    interval_s: float,
    baseline: Sequence[Loaded] = (),
    conditions: Conditions | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Update]:
    """Yield an update after each look at the logs, until the training or a condition ends the
    watch.

    `clock` returns seconds since the epoch. The training is compared with the results of the
    baseline.
    """
    watcher = _Watcher(logs, baseline, conditions or Conditions(), clock)
    while True:
        update = watcher.look()
        yield update
        if update.status is not None:
            return
        sleep(interval_s)


class _Watcher:
    def __init__(
        self,
        logs: GrowingLogs,
        baseline: Sequence[Loaded],
        conditions: Conditions,
        clock: Callable[[], float],
    ) -> None:
        self._logs = logs
        self._baseline = baseline
        self._conditions = conditions
        self._clock = clock
        self._state: State | None = None
        self._progress = clock()
        self._unread = False
        self._read_next = self._read_last = self._reading_s = 0.0
        self._changes = 0
        self._stalled = self._warm = False

    def look(self) -> Update:
        """Look at the logs, and read them if they have grown and were not read just now."""
        # Asked first, so that the rest of a closed pipe is read below.
        ended = self._logs.ended
        self._unread = self._logs.has_grown() or self._unread
        began = self._clock()
        events: list[str] = []
        # The written lines are read before steps are reported as missing.
        patience = min(STALL_S, self._conditions.max_stall_s or STALL_S)
        is_late = (
            began - self._progress > patience / 2 and began - self._read_last > self._reading_s
        )
        if self._unread and (ended or began >= self._read_next or is_late):
            self._unread = False
            is_first = self._state is None
            events += self._read()
            self._read_last = now = self._clock()
            self._reading_s = now - began
            # The first time, the readers are imported too.
            self._read_next = now if is_first else now + self._reading_s / READING_SHARE
        quiet_s = max(0.0, self._clock() - self._progress)
        events += self._stall(quiet_s)
        ending, status = self._ending(quiet_s, ended and not self._unread)
        events = [*self._logs.notes, *events, *([ending] if ending else [])]
        self._logs.notes.clear()
        return Update(self._state, quiet_s, tuple(events), status)

    def _read(self) -> Iterator[str]:
        runs = self._logs.read()
        # The newest log of a directory may belong to a rank that prints no steps.
        runs = [result for result in runs if result.run.steps] or runs
        if not runs:
            return
        before = self._state
        alike = [(Path(log.title).name, log.run) for log in self._logs.running(runs)]
        self._state = state = state_of(runs[-1].run, alike, self._baseline)
        if before is None or state.step != before.step or _read_to(state) != _read_to(before):
            # The time of writing, not of looking: a log may be old when the watch begins.
            self._progress = min(self._clock(), self._logs.written or self._clock())
            if self._stalled and (before is None or state.step != before.step):
                yield f"steps resumed: step {state.step:,}"
            self._stalled = False
        if before is not None and state.step < before.step:
            yield f"a new run started: step {state.step:,} after step {before.step:,}"
            self._changes = 0
            self._warm = False
        if state.summary.steady.found and not self._warm:
            self._warm = True
            yield f"steady state from step {state.summary.steady.first_step}"
        if state.cause and (before is None or state.cause != before.cause):
            source = state.run.source
            yield (
                f"an error{' in the log' if source and source.kind == 'log' else ''}: {state.cause}"
            )
        diverged = divergence(state.run)
        if diverged and (before is None or divergence(before.run) is None):
            yield f"{DIVERGED[diverged.code]} at step {diverged.first:,}"
        if state.implausible and (before is None or not before.implausible):
            yield f"implausible: {state.implausible}"
        changes = lines.changes(state)
        yield from changes[self._changes :]
        self._changes = max(self._changes, len(changes))

    def _stall(self, quiet_s: float) -> Iterator[str]:
        state = self._state
        if state is None or self._stalled or state.is_complete:
            return
        usual = (state.recent_s or 0.0) * (state.run.window_steps[-1] if state.step else 0)
        if (state.step or state.cause) and quiet_s > max(STALL_S, STALL_STEPS * usual):
            self._stalled = True
            often = f"; before that, one every {units.duration(usual)}" if usual else ""
            yield f"no step for {units.duration(quiet_s)}{often}"

    def _ending(self, quiet_s: float, closed: bool) -> tuple[str, ExitStatus | None]:
        """Return why the watch is over, and the exit status; None while it continues."""
        state = self._state
        conditions = self._conditions
        missed = ExitStatus.OK if conditions.until is None else ExitStatus.INCONCLUSIVE
        if state is not None:
            if state.cause and (self._stalled or closed):
                return "the training failed", ExitStatus.TRAINING_FAILED
            slowdown = state.slowdown
            if (
                conditions.max_slowdown is not None
                and slowdown is not None
                and slowdown > conditions.max_slowdown
            ):
                limit = f"the {conditions.max_slowdown:.1%} of --max-slowdown"
                return (
                    (
                        f"{slowdown:.1%} slower, more than {limit}: a reason to stop this run, not"
                        " a proof"
                    ),
                    ExitStatus.SLOWER,
                )
            if (
                conditions.until is not None
                and (width := state.half_width or math.inf) <= conditions.until
            ):
                return f"the within-run interval is ±{lines.percent(width)}", ExitStatus.OK
            if state.is_complete:
                steps = f"{state.step:,} steps"
                if state.max_steps is not None and state.step < state.max_steps:
                    steps = f"last record at step {state.step:,} of {state.max_steps:,}"
                return f"the training is complete: {steps}", missed
            if closed and how_ended(state.run).kind == "cut_off":
                return (
                    f"the training broke off after step {state.step:,}",
                    ExitStatus.TRAINING_FAILED,
                )
        if closed:
            if state is None:
                return f"the pipe was closed: {self._logs.problem}", ExitStatus.USAGE
            return "the pipe was closed", missed
        if conditions.max_stall_s is not None and quiet_s > conditions.max_stall_s:
            allowed = units.duration(conditions.max_stall_s)
            return (
                f"no step for {units.duration(quiet_s)}; --max-stall allows {allowed}",
                ExitStatus.TRAINING_FAILED,
            )
        return "", None


def _read_to(state: State) -> list[object]:
    """Return the last lines of a training in another form, which isn't read: it goes on."""
    return [note.fields["last"] for note in state.run.notes if note.code == "form-changes"]
