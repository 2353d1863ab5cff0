"""Records of steps: their values, what a training makes of them, and how it ended."""

from __future__ import annotations

import datetime

import pytest
from stored_runs import sentences_of

from tprimat.read.parsing import records
from tprimat.read.parsing.events import SIGNS, Mark
from tprimat.read.parsing.failures import HINTS
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.text import NO_YEAR, Stamp
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP, SHORTEST_STEP

NOW = datetime.datetime(2026, 5, 11, 2, 17, 24)


def put(name: str, printed: object) -> Record:
    record = Record(3, 7)
    record.put(name, printed)
    return record


@pytest.mark.parametrize(
    ("name", "printed", "values"),
    [
        ("loss", "2.5", {"loss": 2.5}),
        ("grad_norm", 0.25, {"grad_norm": 0.25}),
        ("learning_rate", "3e-4", {"learning_rate": 3e-4}),
        ("tflops_per_gpu", "412.5", {"native": {"tflops_per_gpu": 412.5}}),
        ("loss", "-", {}),
        ("loss", None, {}),
        ("loss", "nan", {"not_finite": ("loss",)}),
        ("tflops", "inf", {"not_finite": ("tflops",)}),
        ("tflops", LARGEST_VALUE, {"native": {"tflops": LARGEST_VALUE}}),
        ("tflops", -LARGEST_VALUE, {"native": {"tflops": -LARGEST_VALUE}}),
        ("tflops", LARGEST_VALUE * 1.001, {"not_finite": ("tflops",)}),
        ("tflops", LARGEST_VALUE * -1.001, {"not_finite": ("tflops",)}),
        ("seconds", SHORTEST_STEP, {"seconds": SHORTEST_STEP}),
        ("seconds", SHORTEST_STEP * 0.99, {"not_finite": ("seconds",)}),
        ("seconds", LONGEST_STEP, {"seconds": LONGEST_STEP}),
        ("seconds", LONGEST_STEP * 1.001, {"not_finite": ("seconds",)}),
        # Units by the end of the name; sizes have four decimals.
        ("milliseconds", "1234.5", {"seconds": 1.2345}),
        ("elapsed_hours", "0.5", {"native": {"elapsed_seconds": 1800.0}}),
        ("memory_mb", "1234.56789", {"native": {"memory_gb": 1.2346}}),
        ("memory_gib", "10", {"native": {"memory_gb": 10.7374}}),
        ("memory_gb", "1.23456", {"native": {"memory_gb": 1.23456}}),
        ("train_milliseconds", "0.123456", {"native": {"train_seconds": 0.000123456}}),
    ],
)
def test_a_value(name, printed, values):
    assert put(name, printed) == Record(3, 7, **values)


def test_each_value_that_is_not_finite_is_named():
    record = put("loss", "nan")
    record.put("grad_norm", "inf")
    assert record.not_finite == ("loss", "grad_norm")


def test_all_its_values():
    record = Record(3, 7, seconds=2.0, loss=0.0, native={"tflops": 5.0}, window=4)
    assert record.figures() == {"seconds": 2.0, "loss": 0.0, "tflops": 5.0}
    assert [record.figure(name) for name in ("seconds", "loss", "grad_norm", "tflops", "window")] == [
        2.0, 0.0, None, 5.0, None,
    ]  # fmt: skip


def test_a_policys_loss():
    record, other = Record(3, 7, loss=0.5), Record(3, 7)
    record.set_policy_loss()
    other.set_policy_loss()
    assert (record, other) == (Record(3, 7, native={"policy_loss": 0.5}), Record(3, 7))


def test_known_names_alone_are_set_and_the_first_of_a_kind_holds():
    record = Record(3, 7)
    printed = {
        "b": "2",
        "a": "1",
        "ms": "700",
        "s": "0.9",
        "step": "3",
        "text": "x",
        "more": 4.5,
        "odd": "nan",
    }
    record.put_all(
        printed,
        {
            "a": "loss",
            "b": "loss",
            "c": "grad_norm",
            "ms": "milliseconds",
            "s": "seconds",
            "step": "",
        },
    )
    assert record == Record(3, 7, loss=1.0, seconds=0.7, unread=("more", "odd"))


SINCE = datetime.datetime(2026, 3, 1, 12)
UTC = datetime.timezone.utc


def stamp(seconds: float = 0.0, zone: datetime.tzinfo | None = UTC, year: int = 2026) -> Stamp:
    return Stamp(
        (SINCE + datetime.timedelta(seconds=seconds)).replace(tzinfo=zone, year=year), 1e-3
    )


@pytest.mark.parametrize(
    ("first", "known", "warnings"),
    [
        (None, None, ["timestamp unknown: the source has no time of day"]),
        (stamp(5), "2026-03-01T12:00:05+00:00", []),
        (
            stamp(zone=None),
            None,
            ["timestamp unknown: no time zone in the log (2026-03-01 12:00:00)"],
        ),
        (stamp(year=NO_YEAR), None, ["timestamp unknown: no year in the log"]),
        (stamp(year=NO_YEAR + 1), "2001-03-01T12:00:00+00:00", []),
    ],
)
def test_when_a_training_began(first, known, warnings):
    found = []
    assert (records.timestamp(first, found), sentences_of(found)) == (known, warnings)


@pytest.mark.parametrize(
    ("steps", "elapsed", "windows", "seconds"),
    [
        ([10, 20, 40], [25.0, 45.0, 105.0], [10, 10, 20], [2.5, 2.0, 3.0]),
        # The first one is of a resumed training: its time counts from the resumption.
        ([30, 40, 50], [25.0, 45.0, 75.0], [10, 10, 10], [None, 2.0, 3.0]),
        ([7], [14.0], [7], [2.0]),
        # A time is of all steps since the time before, and so is its window.
        ([5, 10], [None, 20.0], [5, 10], [None, 2.0]),
        ([5, 10, 15], [10.0, None, 60.0], [5, 5, 10], [2.0, None, 5.0]),
        # Time that goes back, or stands still.
        ([5, 10, 15], [10.0, 9.0, 19.0], [5, 5, 5], [2.0, None, 2.0]),
        ([5, 10, 15], [10.0, 10.0, 19.0], [5, 5, 10], [2.0, None, 0.9]),
        ([3, 10], [10.0, 11.0], [3, 7], [3.333333333, 0.142857143]),
        ([0, 1], [5.0, 7.0], [1, 1], [5.0, 2.0]),
        ([11, 21], [5.0, 25.0], [10, 10], [None, 2.0]),
    ],
)
def test_times_from_the_time_since_the_start(steps, elapsed, windows, seconds):
    found = [
        Record(step, step, native={} if now is None else {"elapsed_seconds": now})
        for step, now in zip(steps, elapsed, strict=True)
    ]
    records.set_times(found)
    assert [each.window for each in found] == windows
    assert [each.seconds for each in found] == seconds
    assert {name for each in found for name in each.not_finite} == set()


@pytest.mark.parametrize(
    ("in_whole_seconds", "windows", "seconds"),
    [
        (True, [1, 2, 1, 2, 1, 3], [None, 0.5, None, 0.5, None, 1 / 3]),
        # A clock that starts at the first record says nothing of its step.
        (False, [1, 1, 1, 2, 1, 3], [None, 1.0, None, 0.5, None, 1 / 3]),
    ],
)
def test_t7_records_less_than_a_second_apart(in_whole_seconds, windows, seconds):
    elapsed = [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]
    steps = [1, 2, 3, 4, 5, 7]
    found = [
        Record(step, 1, native={"elapsed_seconds": now})
        for step, now in zip(steps, elapsed, strict=True)
    ]
    records.set_times(found, in_whole_seconds=in_whole_seconds)
    assert [each.window for each in found] == windows
    assert [each.seconds for each in found] == pytest.approx(seconds)


@pytest.mark.parametrize("in_whole_seconds", [False, True])
@pytest.mark.parametrize(
    ("apart", "seconds"), [(1, 0.07), (1, 0.31), (1, 0.95), (1, 1.05), (1, 2.3), (10, 0.07)]
)
def test_t7_the_mean_by_whole_seconds_is_that_of_the_steps(apart, seconds, in_whole_seconds):
    steps = range(apart, 400 * apart + 1, apart)
    found = [
        Record(step, 1, native={"elapsed_seconds": float(int(step * seconds))}) for step in steps
    ]
    records.set_times(found, in_whole_seconds=in_whole_seconds)
    timed = [each for each in found if each.seconds is not None]
    covered = sum(each.window for each in timed)
    mean = sum(each.seconds * each.window for each in timed) / covered
    # By whole seconds, the ends of the timed steps are off by less than one step each, or by one
    # second.
    assert mean == pytest.approx(seconds, abs=(1 + 2 * apart * seconds) / covered)
    if in_whole_seconds:
        # No step is in two windows, and none but the last is in none.
        assert covered == timed[-1].step


def test_windows():
    found = [Record(step, 1) for step in (5, 7, 12)]
    records.set_windows(found)
    assert [each.window for each in found] == [1, 2, 5]


@pytest.mark.parametrize("shift", [0, 1])
def test_series(shift):
    found = [
        Record(4, 40, seconds=2.0, loss=3.0, window=2, native={"a": 5.0}),
        Record(6, 60, learning_rate=0.5, grad_norm=7.0, native={"b": 6.0}),
    ]
    printed = {"printed_step": (4.0, 6.0)} if shift else {}
    assert records.series(found, shift=shift) == {
        "steps": (4 + shift, 6 + shift),
        "window_steps": (2, 1),
        "step_times": (2.0, None),
        "loss_values": (3.0, None),
        "learning_rates": (None, 0.5),
        "grad_norms": (None, 7.0),
        "lines": (40, 60),
        "native_metrics": {"a": (5.0, None), "b": (None, 6.0)} | printed,
    }
    assert records.series(found) == records.series(found, shift=0)
    assert records.series([], shift=1)["native_metrics"] == {}


def test_peaks_are_the_highest_of_all_records():
    values = ({"a_gb": 3.0}, {"a_gb": 5.0, "b_gb": 2.0}, {"a_gb": 4.0, "c_gb": 9.0})
    found = [Record(step, step, native=native) for step, native in enumerate(values)]
    names = {"a_gb": "peak_gb", "b_gb": "other_gb", "d_gb": "none_gb"}
    assert records.peaks(found, names) == {"peak_gb": 5.0, "other_gb": 2.0}
    assert records.peaks(found, {"a_gb": "same_gb", "c_gb": "same_gb", "b_gb": "same_gb"}) == {
        "same_gb": 9.0
    }


class TestConflicts:
    def test_up_to_five_are_listed(self):
        training = LoggedTraining()
        for step in range(1, 8):
            training.note_conflict("iteration", step, ["loss", "time"], (3 * step, 5 * step))
        assert sentences_of(training.conflicts) == [
            f"iteration {step} is printed twice with different values (loss, time; lines {3 * step}"
            f" and {5 * step}); the first is used"
            for step in range(1, 6)
        ]

    def test_equal_values_are_none(self):
        training = LoggedTraining()
        training.note_conflict("step", 3, iter(()), (1, 2))
        assert training.conflicts == []


@pytest.mark.parametrize(("restarts", "more"), [(50, []), (51, ["restarted 1 more times"])])
def test_restarts_up_to_fifty_are_listed(restarts, more):
    training = LoggedTraining()
    for number in range(restarts):
        training.note_restart("step", 40, 100 + number, [40, 44, 47])
    assert training.again == list(range(100, 100 + restarts))
    assert sentences_of(training.warnings) == [
        f"restarted on line {100 + number} from step 40: steps 40 to 47 before the restart were"
        " dropped"
        for number in range(50)
    ]
    assert sentences_of(training.many_restarts()) == more


def test_a_training_counts_and_orders_its_records():
    training = LoggedTraining({7: Record(7, 1), 2: Record(2, 9)}, doubles=3)
    assert (training.step_count, [each.step for each in training.ordered()]) == (2, [2, 7])
    assert training.notes() == ("3 repeated step lines skipped",)
    assert LoggedTraining().notes() == ()


SILENT = "without an error (killed, still running, or truncated)"
NEITHER = "neither the planned steps nor a normal end are logged"


def ended(
    *, steps: int = 6, success: int = 0, cause: str = "", code: int = 0, cut_off: int | None = None
):
    training = LoggedTraining(cut_off=cut_off)
    for step in range(1, steps + 1):
        training.records[step] = training.last = Record(step, 10 * step)
    if success:
        training.around.marks["success"] = success
    if cause:
        training.around.causes.feed(65, cause)
    if code:
        training.around.causes.feed(66, f"E0301 the process exited with code {code}")
    return training


@pytest.mark.parametrize(
    ("how", "planned", "done", "status", "warnings"),
    [
        ({"steps": 0}, 8, None, ("failed", "log ends before the first step without an error"), []),
        ({"steps": 0, "cause": "ValueError: x"}, 8, None, ("failed", "line 65: ValueError: x"), []),
        (
            {"steps": 0, "success": 4, "cause": "ValueError: x"}, 8, None,
            ("incomplete", "the run completed (line 4) but logged no step"), [],
        ),
        ({}, 6, None, ("complete", None), []),
        ({}, 6, 5, ("incomplete", f"log ends at step 5 of 6 {SILENT}"), []),
        ({}, 8, 8, ("complete", None), []),
        ({}, 7, None, ("incomplete", f"log ends at step 6 of 7 {SILENT}"), []),
        ({}, 5, None, ("complete", None), []),
        ({}, None, None, ("incomplete", f"log ends at step 6; {NEITHER}"), []),
        # Behind or at the last record.
        ({"success": 60}, 9, None, ("complete", None), []),
        ({"success": 61}, None, None, ("complete", None), []),
        ({"success": 59}, None, None,
         ("incomplete", f"log ends at step 6; {NEITHER}"), []),
        ({"cause": "ValueError: x"}, 6, None, ("complete", None), []),
        ({"cause": "ValueError: x", "code": 3}, 6, None, ("complete", None),
         ["the run completed, then: line 65: ValueError: x"]),
        ({"code": 3}, 6, None, ("complete", None),
         ["the run completed, then: line 66: the launcher exited with code 3"]),
        ({"code": 3}, 7, None, ("failed", "log ends at step 6 of 7: line 66: the launcher exited with code 3"), []),
        ({"cause": "ValueError: x"}, None, None, ("failed", "log ends at step 6: line 65: ValueError: x"), []),
        ({"cut_off": 7, "cause": "ValueError: x"}, 8, None,
         ("incomplete", "log ends at step 6 of 8; file truncated within the next record"), []),
        ({"cut_off": 7}, None, None, ("incomplete", "log ends at step 6; file truncated within the next record"), []),
    ],
)  # fmt: skip
def test_how_it_ended(how, planned, done, status, warnings):
    found: list[str] = []
    assert records.outcome(ended(**how), planned, done, found)[:2] == status
    assert sentences_of(found) == warnings


class TestContext:
    def test_a_statement_is_quoted_in_one_line(self):
        context = LogContext()
        context.state("size", 3, 7, "  a \t b" + 300 * "c")
        context.state("size", 4, 8, "later", 0)
        assert {name: tuple(vars(each).values()) for name, each in context.stated.items()} == {
            "size": (3, 7, "a b" + 297 * "c", 1)
        }

    def test_the_first_time_and_what_goes_on_behind_a_cause(self):
        context = LogContext()
        context.feed(1, "nothing")
        context.feed(2, "[2026-03-01 12:00:05] saving checkpoint at iteration 7")
        context.feed(3, "2026-03-01 12:00:09 ValueError: a list")
        context.feed(4, "of words")
        context.feed(5, "of others")
        assert context.first_stamp == Stamp(datetime.datetime(2026, 3, 1, 12, 0, 5), 1.0)
        at = (1772366405.0, False)
        assert context.events.marks == [Mark("checkpoint", "begins", 2, at, None, 7)]
        assert context.causes.reason() == "line 3: ValueError: a list of words"

    @pytest.mark.parametrize(("length", "heard"), [(380, True), (381, False)])
    def test_a_time_is_looked_for_in_400_characters(self, length, heard):
        context = LogContext()
        context.feed(1, "x" * length + " 2026-03-01 12:00:05 ")
        assert (context.first_stamp is not None) == heard

    def test_events_and_causes_without_a_time_are_heard(self):
        context = LogContext()
        for number, text in enumerate(
            ("nothing", "saving checkpoint at iteration 7", "x", "ValueError: y"), 1
        ):
            context.feed(number, text)
        assert context.events.marks == [Mark("checkpoint", "begins", 2, None, None, 7)]
        assert context.causes.reason() == "line 4: ValueError: y"
        assert context.first_stamp is None
        later = LogContext()
        later.feed(6, "2026-03-01 12:00:05")
        context.absorb(later)
        assert context.first_stamp == Stamp(datetime.datetime(2026, 3, 1, 12, 0, 5), 1.0)

    @pytest.mark.parametrize("length", [10_000 - 26, 10_000 - 25])
    def test_and_a_cause_in_ten_thousand(self, length):
        context = LogContext()
        context.feed(1, "x" * length + "Memory access fault by GPU")
        assert (context.causes.reason() is None) == (length > 10_000 - 26)

    def test_what_goes_on_takes_the_first_time_and_the_last_cause(self):
        one, later = LogContext(), LogContext()
        one.feed(1, "[2026-03-01 12:00:05] ValueError: x")
        later.feed(3, "[2026-03-01 12:00:09] ValueError: y")
        one.state("size", 3, 1, "a")
        later.state("length", 4, 3, "b")
        one.marks, later.marks = {"start": 1, "success": 2}, {"start": 3, "primus": 4}
        one.absorb(later)
        assert one.marks == {"start": 1, "success": 2, "primus": 4}
        assert one.first_stamp == Stamp(datetime.datetime(2026, 3, 1, 12, 0, 5), 1.0)
        assert one.causes is later.causes
        assert {name: each.value for name, each in one.stated.items()} == {"size": 3, "length": 4}
        assert (one.events.first, one.events.last) == ((1772366405.0, False), (1772366409.0, False))

    def test_an_end_belongs_to_the_training_before(self):
        former, later = LogContext(), LogContext(marks={"success": 8, "start": 9})
        later.causes.feed(5, "ValueError: x")
        later.hand_over_end(former)
        assert (former.marks, later.marks) == ({"success": 8}, {"start": 9})
        assert (former.causes.reason(), later.causes.reason()) == ("line 5: ValueError: x", None)
        later.hand_over_end(former)
        assert (former.marks, former.causes.reason()) == ({"success": 8}, None)

    @pytest.mark.parametrize(
        ("lines", "marks", "stated", "over"),
        [
            (["ValueError: x", "-- arguments --"], {}, {"size": 3}, True),
            (["ValueError: x", "-- arguments --"], {}, {"size": 3, "hostname": "b"}, True),
            (["ValueError: x", "-- arguments --"], {}, {"other": 5}, True),
            (
                ["ValueError: x", "-- arguments --", "saving checkpoint at iteration 3"],
                {},
                {"size": 3},
                True,
            ),
            (["ValueError: x", "-- arguments --"], {}, {"size": 4}, False),
            (["ValueError: x", "-- arguments --"], {"success": 4}, {"size": 3}, False),
            (["ValueError: x", "saving checkpoint at iteration 3"], {}, {"size": 3}, False),
            (["-- arguments --"], {}, {"size": 3}, False),
        ],
    )
    def test_another_attempt_at_the_very_same(self, lines, marks, stated, over):
        context, later = LogContext(), LogContext(marks=marks)
        for name, value in (("size", 3), ("hostname", "a"), ("length", 7)):
            context.state(name, value, 1, "")
        for number, text in enumerate(lines, 4):
            later.feed(number, text)
        for name, value in stated.items():
            later.state(name, value, 5, "")
        assert context.starts_over(later) is over


@pytest.mark.parametrize(
    ("said", "is_empty"),
    [
        ("x", True),
        ("2026-05-11 02:17:24 x", False),
        ("saving checkpoint at iteration 3", False),
        ("ValueError: no", False),
        ("During handling of the above exception, another one", False),
        ("job exited with code 0", False),
        ("NCCL version 2.22.3", False),
        ("Time limit reached. Elapsed time is 1:00. Signaling Trainer to stop.", False),
    ],
)
def test_whether_a_stretch_has_said_anything(said, is_empty):
    context = LogContext()
    assert context.is_empty
    context.feed(7, said)
    assert context.is_empty is is_empty


@pytest.mark.parametrize(
    "context",
    [
        LogContext(marks={"success": 3}),
        LogContext(begun=True),
        LogContext(first_stamp=Stamp(NOW, 1)),
    ],
)
def test_what_a_reader_itself_notes_is_something_said(context):
    assert not context.is_empty
    stated = LogContext()
    stated.state("num_gpus", 8, 3, "8 GPUs")
    assert not stated.is_empty


@pytest.mark.parametrize("longer", [0, 1])
def test_signs_of_lines_whose_spelling_is_kept_and_of_longer_ones(longer):
    """No sign has a digit, so that lines of one spelling have the same ones."""
    context = LogContext()
    for number in range(10, 14):
        said = f"saving checkpoint at iteration {number}"
        context.feed(number, said.rjust(records.LONGEST_SPELLING + longer))
    assert [mark.step for mark in context.events.marks] == [10, 11, 12, 13]
    assert not any(map(str.isdigit, "".join((*SIGNS, *HINTS))))
