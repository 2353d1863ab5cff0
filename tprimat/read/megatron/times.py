"""The steps that a Megatron record's time covers.

A line gives the mean of the steps since the line before it. There is one trap. From Megatron core
0.16 on (Primus' core runtime with it) the timer and the sums are not reset after the first
iteration of a process, so that the second line's time, rates and loss are means that contain the
first iteration: 2 × e₂ − e₁ is its own time. Older trainers reset. The time stamps of the lines
tell the two apart; if there are none, the shape of the lines can.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tprimat.notes import Note, NoteValue
from tprimat.read.megatron.line import Record, seconds_of
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import MegatronTraining
from tprimat.results.fields import SHORTEST_STEP

CORE_SHAPES = frozenset({"primus-core", "primus-26.5", "primus-26.5.1"})

AGREEMENT = 0.02
"""Share of a time by which the stamps may miss it: printing and barriers lie between them."""

START = 5.0
"""s. No process starts in less time, and a shorter pause is an evaluation or a checkpoint."""


def log_interval(iterations: Sequence[int], stated: int | None) -> int:
    """Return the logging interval in iterations: as stated, else as the numbers show, else 1."""
    if stated:
        return stated
    # Newer versions print iteration 1 in addition: 1, 10, 20, 30.
    regular = iterations[1:] if iterations and iterations[0] == 1 else iterations
    apart = {later - earlier for earlier, later in itertools.pairwise(regular)}
    # For 20, 30, 40 it is 10; for 23, 33, 43, or with one missing, it is unknown.
    if len(regular) >= 3 and len(apart) == 1:
        interval = apart.pop()
        if regular[0] % interval == 0:
            return interval
    return 1


def windows(iterations: Sequence[int], interval: int) -> list[int]:
    """Return how many steps each line averages, by iteration."""
    counts = []
    before = 0
    for iteration in iterations:
        # A line that was lost doesn't make the next one the mean of more.
        since = iteration - before
        if not before:
            since = 1 if iteration == 1 else interval
        counts.append(max(1, min(interval, since)))
        before = iteration
    return counts


def step_times(
    training: MegatronTraining, interval: int | None, warnings: list[Note]
) -> tuple[list[float | None], list[int]]:
    """Return step times, with iteration 2 restored, and the windows; `interval` is that of the
    lines, as stated.
    """
    table = training.table
    interval = log_interval(table.iterations, interval)
    steps = windows(table.iterations, interval)
    seconds = [seconds_of(elapsed) for elapsed in table.column("elapsed_ms")]
    shapes = {kind.shape for kind in table.kinds}
    core = "core" in training.around.marks or not CORE_SHAPES.isdisjoint(shapes)
    starts = {index for index in map(table.index_of, training.attempts) if index is not None}
    second_lines = {1, *(index + 1 for index in starts), *_after_pauses(table)}
    # A process that goes on where another one ended may show by nothing but the time between.
    for index in sorted(second_lines):
        if index >= len(table) or index in starts:
            continue
        is_start = index == 1 or index - 1 in starts
        first = table.record(index - 1)
        second = table.record(index)
        evidence = restorable(first, second, core=core and is_start)
        if steps[index - 1] == 1 and evidence:
            steps[index] = second.iteration - first.iteration
            seconds[index] = round(without_first(first, second) / steps[index], 7)
            warnings.append(_restored(first, second, seconds[index], evidence))
        elif is_start and in_doubt(first, second, core=core):
            facts = {"iteration": second.iteration, "seconds": second.seconds}
            warnings.append(Note("time-may-be-mean", {**facts, "first": first.iteration}))
    is_second = len(table) > 0 and table.first == 2 and interval == 1
    if is_second and core and not table.record(0).kind.paired:
        steps[0] = 2
        warnings.append(Note("first-line-missing", {"seconds": seconds[0] or None}))
    return seconds, steps


def _after_pauses(table: Table) -> list[int]:
    """Return the indices after records before which START s more passed than their own time: 12 s
    between lines of 2 s, but not 6 s.
    """
    after = []
    clocks = (kind.aware for kind in table.kinds)
    rows = zip(table.iterations, table.micros, clocks, table.column("elapsed_ms"), strict=True)
    for index, (former, row) in enumerate(itertools.pairwise(rows), 1):
        before, begin, clock, _ = former
        iteration, end, same, ms = row
        if not ms or clock is None or clock is not same:
            continue
        if end - begin > 1e3 * ms * (iteration - before) + 1e6 * START:
            after.append(index + 1)
    return after


def restorable(first: Record, second: Record, *, core: bool) -> str | None:
    """Return why the time of a process's second line is taken for a mean with the first iteration
    in it, or None.

    `core` is whether the log shows Primus' core runtime.
    """
    if first.seconds is None or second.seconds is None:
        return None
    steps = second.iteration - first.iteration
    printed = second.seconds * steps
    without = without_first(first, second)
    if without <= SHORTEST_STEP * steps:
        return None
    apart = second.seconds_after(first)
    if apart is not None:
        resolution = max(first.kind.resolution, second.kind.resolution)
        fits = [abs(apart - time) <= AGREEMENT * time + resolution for time in (without, printed)]
        if fits == [True, False]:
            to_seconds = ", in whole seconds" if resolution >= 1 else ""
            return f"the two lines are {apart:.6g} s apart{to_seconds}"
        if fits == [False, True]:
            return None
    if core and first.iteration == 1 and _bare(first) and _bare(second):
        return "both lines have the format of Primus' core runtime"
    return None


def in_doubt(first: Record, second: Record, *, core: bool) -> bool:
    """Return whether it is unknown if the time of a process's second line includes the first
    iteration.

    Primus' core runtime uses the newer kind of timer at every start. The mean with a first
    iteration of 8 s is 5 s where others take 2 s: it doesn't matter where the own time would be
    more than 95% of what is printed.
    """
    if first.seconds is None or second.seconds is None:
        return False
    if not core and not (_bare(first) and _bare(second) and first.iteration == 1):
        return False
    # Versions that printed neither stamps nor rates are older than the trap.
    if None not in (first.kind.aware, second.kind.aware) or "tflops" not in second.figures:
        return False
    return 0 < 2 * second.seconds - first.seconds < 0.95 * second.seconds


def without_first(first: Record, second: Record) -> float:
    """Return the time of the steps after the first one, s, if the second line's time is a mean that
    includes it.
    """
    steps = second.iteration - first.iteration + 1
    return (second.seconds or 0.0) * steps - (first.seconds or 0.0)


def _bare(record: Record) -> bool:
    return not record.kind.paired and "tokens_rate" not in record.figures


def _restored(first: Record, second: Record, seconds: float | None, evidence: str) -> Note:
    printed = "rates"
    if "loss" in second.figures:
        printed = f"loss and rates (loss {second.figures['loss']:g})"
    fields: dict[str, NoteValue] = {
        "iteration": second.iteration,
        "logged": second.seconds,
        "first": first.iteration,
        "first_seconds": first.seconds,
        "seconds": seconds,
        "evidence": evidence,
        "printed": printed,
    }
    return Note("time-restored", fields)
