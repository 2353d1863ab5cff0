"""Histories of experiment trackers (W&B, MLflow): rows of metrics, and what runs and frameworks
call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from tprimat.catalog.exact_names import EVENTS, names_of
from tprimat.notes import Note
from tprimat.read.parsing.mapped_records import columns_by_words
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record, set_times
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.values import first_of, whole
from tprimat.results.account import Timing
from tprimat.text import plain

_EVERY = names_of("Lightning", "W&B and MLflow", *EVENTS)
NAMES = {kind: _EVERY[kind] for kind in names_of("Lightning", "W&B and MLflow")}
"""What people and frameworks call a value; the first that is there counts."""

STEPS = names_of("steps of trackers")["step"]
"""What counts steps; the first that is there in any row of a training counts."""

_COUNTER = "_step"
(ELAPSED,), (WALL_TIME,) = names_of("clocks of trackers").values()
"""When a row was logged: s since the start of the run, or since 1970."""

_SUMMARIES = names_of("whole trainings")["train_runtime_seconds"]
"""A row with one of these is the summary that Hugging Face's Trainer logs at the end."""

READ = frozenset(
    (*STEPS, ELAPSED, WALL_TIME, *_SUMMARIES, *(name for names in NAMES.values() for name in names))
)
"""All that is read of a row."""

MOST_NAMES = 12
"""Names of metrics that an error lists."""

Row = Mapping[str, object]


def values_of(row: Row) -> dict[str, object]:
    """Return the values of a row by the fields of a record."""
    values = {field: first_of(row, names) for field, names in NAMES.items()}
    return {field: value for field, value in values.items() if value is not None}


class _LoggedRow(NamedTuple):
    """What is read of a row: its line, its steps by their names in STEPS, its values if it has
    those of a training, and when it was logged.
    """

    line: int
    steps: dict[str, int]
    values: dict[str, object]
    clocks: dict[str, object]


def _logged(line: int, row: Row) -> _LoggedRow:
    steps = {}
    for name in STEPS:
        step = whole(row.get(name))
        if step is not None:
            steps[name] = step
    values = values_of(row)
    is_summary = any(name in row for name in _SUMMARIES)
    if is_summary or values.keys().isdisjoint(("loss", "seconds", "policy_loss")):
        values = {}
    clocks = {name: row[name] for name in (ELAPSED, WALL_TIME) if name in row}
    return _LoggedRow(line, steps, values, clocks)


def trainings_of(rows: Iterable[tuple[int, Row]]) -> list[LoggedTraining]:
    """Return the runs in a history, from its rows with their lines (0: none), in the order of the
    file.

    Step times that no row holds are differences of the time since the start. Raises ValueError if
    there is no step.
    """
    logged = [_logged(line, row) for line, row in rows]
    counters: set[str] = set()
    clock = WALL_TIME
    for row in logged:
        if row.values and row.steps:
            counters.update(row.steps)
            if ELAPSED in row.clocks:
                clock = ELAPSED
    column = next((name for name in STEPS if name in counters), "")
    numbers = [row.steps[_COUNTER] for row in logged if _COUNTER in row.steps]
    # A tracker that is told no step counts its rows: one of an evaluation is no step of the
    # training.
    counts_rows = column == _COUNTER and all(
        later - earlier in (0, 1) for earlier, later in pairwise(numbers)
    )
    others = 0
    sorter = RecordSequencer()
    for line, steps, values, clocks in logged:
        if column in steps and values:
            record = Record(steps[column] - others, line, window=1)
            for field, value in values.items():
                record.put(field, value)
            record.put("elapsed_seconds", clocks.get(clock))
            sorter.take(record)
        elif column in steps and counts_rows:
            others += 1
    trainings = sorter.finish()
    if not trainings:
        raise ValueError("no row has a training loss or a step time")
    for training in trainings:
        _set_times(training, clock)
    return trainings


def with_columns(error: ValueError, rows: Iterable[tuple[int, Row]]) -> ValueError:
    """Return the error of a history, with the columns that --columns can read instead, if it has
    more than the counter.
    """
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    if len(names) < 2:
        return error
    shown = plain(", ".join(names[:MOST_NAMES])) + (", …" if len(names) > MOST_NAMES else "")
    named = columns_by_words(names)
    return ValueError(f"{error}; --columns {named} reads its columns: {shown}")


def _set_times(training: LoggedTraining, clock: str) -> None:
    records = training.ordered()
    is_timed = any(record.seconds is not None for record in records)
    timed = [record.native for record in records if "elapsed_seconds" in record.native]
    if timed and (clock == WALL_TIME or not is_timed):
        # The run starts before its training: the first step's time is unknown.
        started = timed[0]["elapsed_seconds"]
        for native in timed:
            native["elapsed_seconds"] -= started
    if is_timed:
        return
    set_times(records)
    training.around.marks["stamps"] = records[0].line
    training.warnings.append(Note("times-of-clock", {"clock": clock}))


def parsed(training: LoggedTraining, tracker: str, form: str, **known: Any) -> ParsedLog:
    """Return a training from a form of a tracker's files; `known` holds further attributes of a
    RunBuilder.
    """
    records = training.ordered()
    training.last = records[-1]
    return RunBuilder(
        tracker,
        f"{tracker} ({form})",
        training,
        Timing(
            kind="stamps" if "stamps" in training.around.marks else "timer",
            clock=(
                "the tracker's record of when a row was logged, or what the training's own code"
                " measured"
            ),
            covers="unknown: the file has the figure alone",
            over_ranks="the process that logs",
        ),
        shift=0 if records[0].step else 1,
        rate=None,
        unknown={
            "step_times": no_step_times("export a chart of the step time, or the whole history")
        },
        **known,
    ).reading()
