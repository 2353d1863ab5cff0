"""Records to trainings: doubles, restarts, steps that were logged late, other trainings."""

from __future__ import annotations

import datetime

import pytest
from stored_runs import sentences_of

from tprimat.read.parsing import sequencer
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Stamp

SINCE = datetime.datetime(2026, 3, 1, 12)


def record(
    step: int, at: float | None = None, *, zone: datetime.tzinfo | None = None, **values
) -> Record:
    stamp = (
        None
        if at is None
        else Stamp((SINCE + datetime.timedelta(seconds=at)).replace(tzinfo=zone), 1e-3)
    )
    return Record(step, 100 + step, stamp=stamp, **values)


@pytest.mark.parametrize(
    ("known", "again", "last", "same"),
    [
        # The same moment: 2 s, half a step, or the resolution.
        (record(4, 0.0, loss=1.0), record(4, 2.0, loss=9.0), 9, True),
        (record(4, 0.0, loss=1.0), record(4, 2.001, loss=1.0), 4, False),
        (record(4, 2.001, loss=1.0), record(4, 0.0, loss=1.0), 4, False),
        (record(4, 0.0, seconds=10.0), record(4, 5.0, loss=9.0), 9, True),
        (record(4, 0.0, seconds=10.0), record(4, 5.001), 4, False),
        # Equal values without a time, or with times of two kinds.
        (record(4, loss=1.0), record(4, loss=1.0), 9, True),
        (record(4, 0.0, loss=1.0), record(4, loss=1.0), 9, True),
        (record(4, loss=1.0), record(4, 50.0, loss=1.0), 9, True),
        (record(4, 0.0, loss=1.0), record(4, 0.0, loss=1.0, zone=datetime.timezone.utc), 9, True),
        # Others: of another process, up to the step before the last one.
        (record(4, loss=1.0, origin="a"), record(4, loss=2.0, origin="b"), 4, True),
        (record(4, loss=1.0, origin="a"), record(4, loss=2.0, origin="b"), 5, True),
        (record(4, loss=1.0, origin="a"), record(4, loss=2.0, origin="b"), 6, False),
        (record(4, loss=1.0, origin="a"), record(4, loss=2.0, origin="a"), 4, False),
        (record(4, loss=1.0, origin="a"), record(4, loss=2.0), 4, False),
        (record(4, loss=1.0), record(4, loss=2.0, origin="b"), 4, False),
        # Ranks print the same loss and rates of their own.
        (record(4, loss=3.0, seconds=1.0), record(4, loss=3.0, seconds=1.05), 4, True),
        (record(4, loss=3.0, seconds=1.0), record(4, loss=3.0, seconds=1.06), 4, False),
        (record(4, loss=3.0, seconds=1.0), record(4, loss=3.01, seconds=1.0), 4, False),
        (record(4, loss=3.0, seconds=1.0), record(4, loss=3.0, seconds=1.01), 5, False),
        (record(4, loss=3.0, seconds=1.0), record(4, loss=3.0, grad_norm=1.0), 4, False),
        (record(4, loss=3.0), record(4, loss=3.0, grad_norm=1.0), 4, False),
    ],
)
def test_two_records_of_one_step(known, again, last, same):
    assert sequencer._same(known, again, Record(last, 1)) is same


@pytest.mark.parametrize(
    ("known", "again", "last", "reach", "same"),
    [
        # A rank is behind by three records of ten steps.
        (record(40, loss=3.0, seconds=1.0), record(40, loss=3.0, seconds=1.04), 70, 30, True),
        (record(40, loss=3.0, seconds=1.0), record(40, loss=3.0, seconds=1.04), 71, 30, False),
        (record(40, loss=3.0, seconds=1.0), record(40, loss=3.1, seconds=1.0), 70, 30, False),
        (record(40, seconds=1.0), record(40, seconds=1.04), 70, 30, False),
        # A clock in whole seconds is one off.
        (record(4, loss=3.0, native={"elapsed_seconds": 1.0}), record(4, loss=3.0, native={"elapsed_seconds": 2.0}),
         7, 3, True),
        (record(4, loss=3.0, native={"elapsed_seconds": 1.0}), record(4, loss=3.0, native={"elapsed_seconds": 2.1}),
         7, 3, False),
    ],
)  # fmt: skip
def test_i4_a_rank_that_lags(known, again, last, reach, same):
    assert sequencer._same(known, again, Record(last, 1), reach) is same


@pytest.mark.parametrize("records", [3, 4, 5])
@pytest.mark.parametrize("equal", [1, 2])
def test_i8_another_training_begins_as_the_first_one_did(records, equal):
    """Of one seed, the first losses and coarse times are equal."""
    sorter, losses = RecordSequencer(), [3.0 - step / 10 for step in range(5)]
    others = [*losses[:equal], *(loss - 0.05 for loss in losses[equal:])]
    for each in (losses, others):
        for step, loss in enumerate(each[:records], 1):
            sorter.take(record(step, loss=loss, seconds=1.0))
    found = [[one.loss for one in training.ordered()] for training in sorter.finish()]
    assert found == [losses[:records], others[:records]]


@pytest.mark.parametrize("lag", [1, 2])
def test_i4_a_rank_that_lags_from_the_first_step_on(lag):
    sorter = RecordSequencer()
    for step in range(1, 9):
        sorter.take(record(step, loss=9.0 - step, seconds=1.0))
        if step > lag:
            sorter.take(record(step - lag, loss=9.0 - step + lag, seconds=1.01))
    (training,) = sorter.finish()
    assert (len(training.records), training.doubles, training.again) == (8, 8 - lag, [])


@pytest.mark.parametrize("records", [4, 40])
def test_i8_a_repetition_of_one_seed_in_one_log(records):
    """With the same losses, and step times that differ a little: fewer records may be of a rank
    that lags.
    """
    sorter = RecordSequencer()
    for seconds in (1.0, 1.003):
        for step in range(1, records + 1):
            sorter.take(record(step, loss=9.0 - step / 10, seconds=seconds))
    assert [len(each.records) for each in sorter.finish()] == [records] * 2


def test_the_resolution_of_a_time_is_a_moment():
    known = Record(4, 1, stamp=Stamp(SINCE, 60.0))
    for apart, same in ((60, True), (61, False)):
        again = Record(4, 2, stamp=Stamp(SINCE + datetime.timedelta(seconds=apart), 60.0))
        assert sequencer._same(known, again, known) is same


@pytest.mark.parametrize(
    ("steps", "step", "jumps"),
    [
        # More than twice the last distance behind the last one.
        ([10, 20, 30], 50, False), ([10, 20, 30], 51, True), ([5, 30], 80, False), ([5, 30], 81, True),
        ([10], 30, False), ([10], 31, True), ([30, 10, 20], 50, False),
    ],
)  # fmt: skip
def test_a_step_that_is_too_far(steps, step, jumps):
    training = LoggedTraining({each: record(each) for each in steps})
    assert sequencer._jumps(record(step), training) is jumps


@pytest.mark.parametrize(
    ("at", "last", "late"),
    [
        (2.0, 0.0, True),
        (2.001, 0.0, False),
        (-50.0, 0.0, True),
        (None, 0.0, True),
        (5.0, None, True),
    ],
)
def test_a_step_that_was_logged_late(at, last, late):
    training = LoggedTraining({3: record(3), 9: record(9)})
    assert sequencer._late(record(5, at), record(9, last), training) is late


@pytest.mark.parametrize(("step", "late"), [(3, False), (4, True)])
def test_without_times_the_first_step_tells(step, late):
    training = LoggedTraining({3: record(3), 9: record(9)})
    assert sequencer._late(record(step), record(9), training) is late
    zoned = record(9, 0.0, zone=datetime.timezone.utc)
    assert sequencer._late(record(step, 50.0), zoned, training) is late


def taken(*records: Record | str) -> RecordSequencer:
    """A sequencer of records and of what the lines between them say."""
    sorter = RecordSequencer()
    for number, each in enumerate(records, 1):
        if each == "success":
            sorter.pending.marks["success"] = number
        elif isinstance(each, str):
            sorter.pending.feed(number, each)
        else:
            each.line = number
            sorter.take(each)
    return sorter


def told(sorter: RecordSequencer) -> list[dict]:
    return [
        {
            "records": [(each.step, each.line) for each in training.records.values()],
            "last": training.last and training.last.step,
            "lost": [(each.step, each.line) for each in training.lost],
            "doubles": training.doubles,
            "again": training.again,
            "conflicts": sentences_of(training.conflicts),
            "warnings": sentences_of(training.warnings),
            "marks": training.around.marks,
            "cause": training.around.causes.reason(),
            "cut": training.cut_off,
        }
        for training in sorter.finish()
    ]


def one(records: list, last: int, **others) -> dict:
    empty = {
        "lost": [],
        "doubles": 0,
        "again": [],
        "conflicts": [],
        "warnings": [],
        "marks": {},
        "cause": None,
    }
    return {"records": records, "last": last, "cut": None, **empty, **others}


CRASH, START = "RuntimeError: x", "-- arguments --"
RESTART = "restarted on line {} from step {}: steps {} to {} before the restart were dropped"


def test_no_record():
    assert RecordSequencer().last is None
    assert RecordSequencer().finish() == []


@pytest.mark.parametrize(
    ("records", "trainings"),
    [
        ([record(3), record(5)], [one([(3, 1), (5, 2)], 5)]),
        # Late, and still the last one is that of the highest step.
        ([record(3), record(9), record(5)], [one([(3, 1), (9, 2), (5, 3)], 9)]),
        # The same step again at another time: a restart.
        (
            [record(3, 0), record(5, 10), record(7, 20), record(5, 90), record(6, 95)],
            [one([(3, 1), (5, 4), (6, 5)], 6, lost=[(5, 2), (7, 3)], again=[4], warnings=[RESTART.format(4, 5, 5, 7)])],
        ),
        # So is a step that was there, whenever it comes; one that wasn't was logged late, even
        # before the first.
        (
            [record(3, 0), record(5, 10), record(7, 20), record(5, 21)],
            [one([(3, 1), (5, 4)], 5, lost=[(5, 2), (7, 3)], again=[4], warnings=[RESTART.format(4, 5, 5, 7)])],
        ),
        ([record(5, 0), record(7, 10), record(3, 11)], [one([(5, 1), (7, 2), (3, 3)], 7)]),
        # A step that wasn't there, much later.
        (
            [record(3, 0), record(9, 10), record(5, 90)],
            [one([(3, 1), (5, 3)], 5, lost=[(9, 2)], again=[3], warnings=[RESTART.format(3, 5, 9, 9)])],
        ),
        # From the first one, or before: another training, unless this one failed and the same
        # started again.
        ([record(3, 0), record(5, 10), record(3, 90)], [one([(3, 1), (5, 2)], 5), one([(3, 3)], 3)]),
        ([record(3, 0), record(5, 10), record(2, 90)], [one([(3, 1), (5, 2)], 5), one([(2, 3)], 2)]),
        (
            [record(3, 0), record(5, 10), CRASH, START, record(3, 90)],
            [one([(3, 5)], 3, lost=[(3, 1), (5, 2)], again=[5],
                 warnings=[RESTART.format(5, 3, 3, 5)])],
        ),
        (
            [record(3, 0), record(5, 10), CRASH, record(3, 90)],
            [one([(3, 1), (5, 2)], 5, cause="line 3: RuntimeError: x"), one([(3, 4)], 3)],
        ),
        # Success, and a step far behind the last one; or one that goes on.
        (
            [record(3), record(5), "success", record(10)],
            [one([(3, 1), (5, 2)], 5, marks={"success": 3}), one([(10, 4)], 10)],
        ),
        ([record(3), record(5), "success", record(9)], [one([(3, 1), (5, 2), (9, 4)], 9, marks={"success": 3})]),
        ([record(3), record(5), record(10)], [one([(3, 1), (5, 2), (10, 3)], 10)]),
        # What follows the last record ends it.
        ([record(3), record(5), CRASH, "success"],
         [one([(3, 1), (5, 2)], 5, marks={"success": 4}, cause="line 3: RuntimeError: x")]),
    ],
)  # fmt: skip
def test_trainings(records, trainings):
    assert told(taken(*records)) == trainings


def test_another_training_whatever_its_steps():
    sorter = taken(record(3), record(5))
    sorter.take(Record(6, 30), another=True)
    assert sorter.last == Record(6, 30)
    assert told(sorter) == [one([(3, 1), (5, 2)], 5), one([(6, 30)], 6)]


def test_a_double_fills_gaps_and_differences_are_told():
    """Values are those of the first; one that lies 5% apart is that of another rank."""
    first = record(4, 0.0, loss=1.0, native={"rate": 100.0, "far": 10.0})
    again = record(4, 1.0, loss=3.0, grad_norm=7.0, native={"rate": 104.0, "far": 10.6})
    sorter = taken(first, "success", again)
    words = (
        "step 4 is printed twice with different values (far, loss; lines 1 and 3); the first is"
        " used"
    )
    assert told(sorter) == [one([(4, 1)], 4, doubles=1, conflicts=[words], marks={"success": 2})]
    assert sorter.last.figures() == {"loss": 1.0, "grad_norm": 7.0, "rate": 100.0, "far": 10.0}


@pytest.mark.parametrize(
    ("begun", "cause", "warnings"),
    [
        (
            True,
            CRASH,
            ["restarted after line 1; that attempt logged no step: line 2: RuntimeError: x"],
        ),
        (False, CRASH, []),
        (True, "fine", []),
    ],
)
def test_an_attempt_that_came_to_nothing(begun, cause, warnings):
    sorter = taken(record(3), cause)
    sorter.pending.begun, sorter.cut_off = begun, 8
    reason = "line 2: RuntimeError: x" if cause == CRASH else None
    assert told(sorter) == [one([(3, 1)], 3, warnings=warnings, cause=reason, cut=8)]


def test_the_first_time_of_a_training_is_that_of_its_first_record():
    sorter = taken(record(3, 5.0), "2026-03-01 12:00:30", record(5, 40.0))
    assert [each.around.first_stamp.seconds for each in sorter.finish()] == [1772366405.0]
    sorter = taken("2026-03-01 12:00:01", record(3, 5.0))
    assert [each.around.first_stamp.seconds for each in sorter.finish()] == [1772366401.0]


def test_a_restart_is_a_start_in_the_timeline():
    (training,) = taken(record(3, 0), record(5, 10), record(4, 90)).finish()
    assert [(mark.kind, mark.phase, mark.line) for mark in training.around.events.marks] == [
        ("start", "begins", 3)
    ]


SAID = [
    "2026-03-01 12:00:00 x",
    "ValueError: no",
    "Time limit reached. Elapsed time is 1:00. Signaling Trainer to stop.",
    "saving checkpoint at iteration 1",
]


def said_before(said: str, *, at_once: bool, at: float | None) -> RecordSequencer:
    """A sequencer of records behind a line; `at_once` is whether they may be added at once."""
    sorter = RecordSequencer()
    for number, step in enumerate((1, 2, 3, 5), 1):
        if number == 2:
            sorter.pending.feed(9, said)
        # Whoever begins a stretch has said something.
        sorter.pending.begun = not at_once
        sorter.take(record(step, at and at + number))
    return sorter


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("at", [None, 7.0])
def test_records_right_after_each_other_are_as_others(said, at):
    """A cause stays after a further record, and a presumed end is none any more."""
    found = [said_before(said, at_once=at_once, at=at) for at_once in (True, False)]
    assert told(found[0]) == told(found[1])
    for name in ("first_stamp", "stated", "hinted", "events"):
        assert len({repr(getattr(each.trainings[0].around, name)) for each in found}) == 1
    for each in found:
        causes = each.trainings[0].around.causes
        assert causes.cause() is None
        assert (causes.asked is not None) is said.startswith("Time limit")
        assert each._interval == 2
