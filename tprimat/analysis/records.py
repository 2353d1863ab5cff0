"""Coverage of a run's records: profiled steps, steps whose times are artifacts, total steps, wall
time.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from typing import Any

from tprimat.analysis.stats import alternates, robust_sigma
from tprimat.analysis.warmup import MINIMUM_RECORDS, first_steady_index
from tprimat.notes import Note
from tprimat.results.fields import known_values
from tprimat.results.run import SERIES, Run

DISPATCHED = 0.1
"""Share of the time of the steps around it below which a step was only queued on the device, not
executed.
"""

NEARBY = 5
"""Steps around it that a time is compared with, and most steps that a host hands over at once."""

OTHER = "other_seconds"
"""The native series of what something else than its steps took of the time of a record, s: an
evaluation, a save, a start, a suspended process. Such a record counts as long as it is the
exception.
"""

RESOLUTION = "clock_resolution_seconds"
"""The native value of how fine the clock is that step times are differences of, s; none if it is
fine.
"""

LONGER, LONGER_SIGMAS = 0.02, 4.0
"""How far above the records around it the time of one lies that holds something else: the larger of
the two, and two resolutions of its clock.
"""

LEAST_PLAIN = 3
"""Records without anything else that the others are compared with."""


def dispatch_artifacts(run: Run) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the steps that the host only handed over to the device, and those that took their time
    too.

    A host that runs ahead of its device prints milliseconds among seconds, until it has to wait.
    Faster steps after a slow warm-up are none, nor is anything that our own recorder timed, which
    waits for the device, or a CPU did, nor steps that alternate: 2 and 30 s where every second one
    generates, or 0.01 and 9.8 s where every second one waits.
    """
    if run.platform == "cpu" or _is_ours(run):
        return (), ()
    timed = []
    for step, time in zip(run.steps, run.step_times, strict=True):
        if time is not None:
            timed.append((step, time))
    times = [time for _, time in timed]
    if alternates(times):
        return (), ()
    fast: set[int] = set()
    payers: set[int] = set()
    # What was handed over ends with a jump, or with the run.
    jumps = []
    for at, (time, after) in enumerate(itertools.pairwise(times), 1):
        if time < 2 * DISPATCHED * after:
            jumps.append(at)
    for end in (*jumps, len(times)):
        around = times[end : end + NEARBY]
        if len(around) < 2:
            around += times[max(1, end - 1 - NEARBY) : end - 1]
        if len(around) < 2:
            continue
        usual = statistics.median_low(around)
        first = end
        while first and times[first - 1] < DISPATCHED * usual:
            first -= 1
        if end - first > NEARBY:
            # No host runs so far ahead: the steps became slower.
            continue
        fast.update(range(first, end))
        missing = (end - first) * usual - sum(times[first:end])
        # Where each step waits for the one before, none makes up for the missing time.
        enough = usual + missing / 2
        for at in range(end, min(end + NEARBY, len(times))):
            if first < end and times[at] > enough:
                payers.add(at)
                break
    if len(fast | payers) == len(timed):
        # No time of a step would be left.
        return (), ()
    steps = [step for step, _ in timed]
    waited = sorted(payers - fast)
    return tuple(steps[at] for at in sorted(fast)), tuple(steps[at] for at in waited)


def _is_ours(run: Run) -> bool:
    """Return whether our own recorder timed the steps; older results of Primus have the times of
    its log.
    """
    kind = run.source.kind if run.source else None
    return kind == "live" or (kind == "result" and run.framework != "primus")


def longer(
    times: Sequence[float | None],
    windows: Sequence[int],
    places: Collection[int],
    starts: Collection[int] = (),
    resolution: float = 0.0,
) -> dict[int, float]:
    """Return by how much records take longer than those around them, s over all their steps, by
    their place.

    Every 100th step evaluates, and takes 54.1 s among steps of 7.4 s: 46.7 s are the evaluation's.

    Args:
        times: shape (records,), of a step, s.
        windows: shape (records,), steps of each record.
        places: indices of records with another event next to them; a record that isn't longer
            doesn't include it.
        starts: places of records with which a process went on that had ended; the slow ones from
            there on are longer.
        resolution: resolution of the clock if the times are differences of its times, s.
    """
    begins = sorted(starts)
    places = {*places, *begins}
    for begin, end in itertools.pairwise((*begins, len(times))):
        part = known_values(times[begin:end])
        if len(part) >= MINIMUM_RECORDS:
            slow = first_steady_index(part) or 0
        else:
            slow = len(part)
        places.update(range(begin, begin + slow))
    plain = []
    for place, time in enumerate(times):
        if time is not None and place not in places:
            plain.append((place, time))
    found = {}
    for place in places:
        at = bisect.bisect_left(plain, (place,))
        time = times[place]
        around = [each for _, each in plain[max(at - NEARBY, 0) : at + NEARBY]]
        if time is None or len(around) < LEAST_PLAIN:
            continue
        usual = statistics.median(around)
        window = windows[place]
        if time - usual > max(
            LONGER * usual, LONGER_SIGMAS * robust_sigma(around), 2 * resolution / window
        ):
            found[place] = round((time - usual) * window, 6)
    return found


def trained(run: Run) -> Run:
    """Return the run without the steps that a profiler watched, which slows them, and without what
    isn't training.

    Records that hold something else are left out where others remain; else what they hold is taken
    out of their time.
    """
    run = without(run, run.profiled_steps)
    others = run.native_metrics.get(OTHER)
    if not isinstance(others, tuple):
        return run
    held = [step for step, other in zip(run.steps, others, strict=True) if other]
    if sum(time is not None for time in run.step_times) - len(held) >= LEAST_PLAIN:
        return without(run, held)
    times = []
    for time, window, other in zip(run.step_times, run.window_steps, others, strict=True):
        times.append(time - other / window if other and time is not None else time)
    return run.but(step_times=tuple(times))


def without(run: Run, steps: Collection[int]) -> Run:
    """Return the run without some of its steps, none of which is a profiled one then."""
    watched = set(steps)
    if not watched or watched.isdisjoint(run.steps):
        return run
    kept = [index for index, step in enumerate(run.steps) if step not in watched]

    def shortened(series: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(series[index] for index in kept)

    native = {}
    for name, value in run.native_metrics.items():
        native[name] = shortened(value) if isinstance(value, tuple) else value
    series = {name: shortened(getattr(run, name)) for name in SERIES}
    return run.but(**series, native_metrics=native, profiled_steps=())


def recorded_steps(run: Run) -> int:
    """Return the number of steps that the records cover: a step within two windows counts once.

    If one of several steps is sampled, all of them count.
    """
    if run.timing.kind == "sampled" and len(run.steps) > 1:
        return (
            run.steps[-1]
            - run.steps[0]
            + min(later - step for step, later in itertools.pairwise(run.steps))
        )
    if max(run.window_steps, default=1) == 1:
        return len(run.steps)
    counted = 0
    reached = 0
    for step, window in sorted(
        zip(run.steps, run.window_steps, strict=True), key=lambda record: record[0] - record[1]
    ):
        counted += max(0, step - max(reached, step - window))
        reached = max(reached, step)
    return counted


def total_time(run: Run) -> tuple[float | None, list[Note]]:
    """Return the wall time of the whole run, or None with the reason."""
    if (
        run.steps
        and set(run.window_steps) == {1}
        and run.steps[-1] - run.steps[0] == len(run.steps) - 1
    ):
        # Most runs have a record for each step.
        times = known_values(run.step_times)
        if len(times) == len(run.steps):
            return math.fsum(times), []
    timed = []
    for step, time, window in zip(run.steps, run.step_times, run.window_steps, strict=True):
        if time is not None:
            timed.append((step, time, window))
    if len(timed) < len(run.steps):
        # A record without a time within the window of one with a time takes nothing away.
        begins = [step - window for step, _, window in timed]
        ends = [step for step, _, _ in timed]
        untimed = 0
        for step, time in zip(run.steps, run.step_times, strict=True):
            following = bisect.bisect_left(ends, step)
            untimed += time is None and not (following < len(ends) and begins[following] < step)
        if untimed:
            counts = {"untimed": untimed, "records": len(run.steps)}
            return None, [Note("total-time-untimed", counts)]
    for (earlier, _, _), (step, _, window) in itertools.pairwise(timed):
        if step - earlier != window:
            return None, [Note("total-time-gap", {"before": earlier, "after": step})]
    return math.fsum([time * window for _, time, window in timed]), []
