"""The account of a run: its timeline's entries, with the warm-up taken out of training, as parts
that add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tprimat.results.account import PARTS, Account, Clock, Entry
from tprimat.results.fields import SHORTEST_STEP
from tprimat.results.run import Run


def blocks(run: Run) -> tuple[Entry, ...]:
    """Return the stretches of training whose wall time and steps are known, in order."""
    training = (entry for entry in run.timeline if entry.kind == "training" and entry.steps > 0)
    return tuple(entry for entry in training if entry.duration / entry.steps >= SHORTEST_STEP)


def clocks(run: Run) -> tuple[Clock, ...]:
    """Return the clocks of a run's source; the one by which its speed is stated is the first.

    A timer that leaves out steps, or parts of them, is no clock to state a speed by if there is
    another.
    """
    own: tuple[Clock, ...] = ()
    if any(time is not None for time in run.step_times):
        own = (run.timing.kind or "timer",)
    if not blocks(run):
        return own
    if not own or own[0] in ("sampled", "partial"):
        return ("blocks", *own)
    return (*own, "blocks")


def common_clock(runs: Sequence[Run]) -> Clock | None:
    """Return the clock to compare runs by: the one that all state their speed by, else one that all
    have; or None.
    """
    offered = list(filter(None, map(clocks, runs)))
    firsts = {own[0] for own in offered}
    if len(firsts) == 1:
        return firsts.pop()
    # A sampled or partial timer that all have is no fair clock: each leaves out another part.
    fair: tuple[Clock, ...] = ("blocks", "timer", "stamps")
    for clock in fair:
        if offered and all(clock in own for own in offered):
            return clock
    return None


ROUNDING = 1e-5
"""s; less is what rounding leaves."""


def account(run: Run, first_steady: int | None) -> Account | None:
    """Return the parts of a run's wall time; None if neither its timeline nor its records have a
    time.

    `first_steady` is the first step after the warm-up; None if no warm-up is taken out.
    """
    inside = [entry for entry in run.timeline if entry.start >= 0]
    before = math.fsum(entry.duration for entry in run.timeline if entry.start < 0)
    warm_up = _until(run, first_steady)
    sums = {}
    for name in PARTS:
        sums[name] = math.fsum(entry.duration for entry in inside if entry.kind == name)
    if {entry.kind for entry in inside} <= {"evaluation", "checkpoint"}:
        if not any(run.step_times) and not inside:
            return None
        total = _until(run, math.inf)
        sums["warm-up"] = min(warm_up, total)
        sums["training"] = max(total - warm_up, 0.0)
        parts = {}
        for name, value in sums.items():
            if value:
                parts[name] = value
        return Account(parts, before, is_whole=False)
    whole = max(entry.start + entry.duration for entry in inside)
    sums["warm-up"] = min(warm_up, sums["training"])
    sums["training"] -= sums["warm-up"]
    sums["unknown"] += max(0.0, whole - math.fsum(sums.values()))
    waiting = run.breakdown.get("data_wait_s")
    if waiting is not None:
        waiting *= sum(entry.steps for entry in inside if entry.kind == "training")
    parts = {}
    for name, value in sums.items():
        if value > ROUNDING:
            parts[name] = round(value, 6)
    return Account(parts, before, waiting)


def _until(run: Run, first_steady: float | None) -> float:
    """Return the time of the steps before the first steady one, by the records."""
    if first_steady is None:
        return 0.0
    times = []
    for step, time, window in zip(run.steps, run.step_times, run.window_steps, strict=True):
        if time and step < first_steady:
            times.append(time * window)
    return math.fsum(times)
