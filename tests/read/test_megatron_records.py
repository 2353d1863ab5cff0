"""Megatron's records: their columns, the steps that their times cover, and whether two are of one
moment.
"""

from __future__ import annotations

import math

import pytest
from stored_runs import sentences_of

from tprimat.read.megatron import reader, times, training
from tprimat.read.megatron import table as megatron_table
from tprimat.read.megatron.line import Kind, Record, seconds_of
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import Context, MegatronTraining
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.fields import LONGEST_STEP

PLAIN = Kind(aware=False, resolution=1e-3)
UNTIMED = Kind()


def record(
    iteration: int, at: float | None = None, kind: Kind | None = None, line: int = 0, **figures
) -> Record:
    """With a time in s where there is one; `ms` is elapsed_ms."""
    kind = kind or (UNTIMED if at is None else PLAIN)
    if "ms" in figures:
        figures["elapsed_ms"] = figures.pop("ms")
    return Record(
        iteration,
        line or 10 * iteration,
        round((at or 0) * 1e6),
        kind,
        {"planned": 90.0, **figures},
    )


def table(*records: Record) -> Table:
    made = Table()
    for each in records:
        made.add(each)
    return made


class TestTable:
    def test_late_records_take_their_place(self):
        kinds = PLAIN, Kind(shape="b")
        made = table(
            record(3, 1.0, loss=3.0),
            record(9, kind=kinds[1], loss=9.0, nans=1.0),
            record(5, 2.0, skipped=5.0),
        )
        assert (len(made), made.first, made.last, made.latest.iteration) == (3, 3, 9, 9)
        assert list(made.iterations) == []
        made.settle()
        made.settle()
        assert (len(made), list(made.iterations), list(made.lines)) == (3, [3, 5, 9], [30, 50, 90])
        assert list(made.micros) == [1_000_000, 2_000_000, 0]
        assert list(made.kinds) == [PLAIN, PLAIN, kinds[1]]
        assert made.column("loss") == (3.0, None, 9.0)
        assert made.column("odd") == (None,) * 3
        assert (made.present("loss"), made.present("skipped"), made.present("odd")) == (
            [3.0, 9.0],
            [5.0],
            [],
        )
        assert [made.index_of(each) for each in (2, 3, 4, 5, 9, 10)] == [None, 0, None, 1, 2, None]
        assert made.record(1) == record(5, 2.0, skipped=5.0)
        assert (made.get(9), made.get(4)) == (record(9, kind=kinds[1], loss=9.0, nans=1.0), None)

    def test_a_record_before_the_first(self):
        made = table(record(9), record(5), record(7))
        assert (made.first, made.last) == (5, 9)

    def test_what_waits_is_found_too(self):
        made = table(record(3, loss=3.0))
        made.settle()
        made.add(record(4, loss=4.0))
        assert made.get(4) == record(4, loss=4.0)
        made.fill(4, "nans", 7.0)
        made.fill(3, "nans", 8.0)
        made.settle()
        assert made.column("nans") == (8.0, 7.0)

    @pytest.mark.parametrize(
        ("steps", "interval"), [((10,), 10), ((10, 25), 15), ((10, 25, 32), 7)]
    )
    def test_the_last_interval(self, steps, interval):
        assert table(*map(record, steps)).interval == interval

    def test_cut(self):
        made = table(*(record(step, loss=float(step)) for step in (3, 5, 7, 9)))
        removed: list[Record] = []
        assert list(made.cut(6, removed)) == [7, 9]
        assert [each.iteration for each in removed] == [7, 9]
        assert (list(made.iterations), made.column("loss"), made.last) == ([3, 5], (3.0, 5.0), 5)
        assert list(made.cut(1, removed)) == [3, 5]
        assert (len(made), [each.iteration for each in removed]) == (0, [7, 9, 3, 5])
        made.add(record(2))
        assert (made.first, made.last) == (2, 2)

    @pytest.mark.parametrize(
        ("settled", "late", "waiting"),
        [
            (0, False, 255),
            (0, False, 256),
            (0, False, 257),
            (2100, False, 257),
            (2100, True, 257),
            (2048, True, 257),
            (2057, True, 257),
        ],
    )
    def test_so_many_wait(self, settled, late, waiting):
        made = table(*(record(step + 1000) for step in range(settled)))
        made.settle()
        if late:
            made.add(record(999))
        for step in range(waiting - late):
            made.add(record(9000 + step))
        limit = megatron_table.MOST_WAITING
        is_settled = waiting > limit and (not late or limit * 8 >= settled)
        assert len(made._waiting) == (waiting - limit if is_settled else waiting)
        assert len(made) == settled + waiting


@pytest.mark.parametrize(
    ("ms", "seconds"),
    [
        (None, None), (1e-3, 1e-6), (0.9e-3, None), (77691.0, 77.691), (LONGEST_STEP * 1e3, LONGEST_STEP),
        (LONGEST_STEP * 1.001e3, None), (0.12345678, 0.0001235),
    ],
)  # fmt: skip
def test_seconds(ms, seconds):
    assert seconds_of(ms) == seconds


@pytest.mark.parametrize(
    ("iterations", "stated", "interval"),
    [
        ([], None, 1),
        ([7], None, 1),
        ([10, 20, 30], 5, 5),
        ([10, 20, 30], None, 10),
        ([1, 10, 20, 30], None, 10),
        ([10, 20], None, 1),
        ([1, 10, 20], None, 1),
        ([13, 23, 33], None, 1),
        ([10, 20, 31], None, 1),
        ([3, 4, 5], None, 1),
    ],
)
def test_the_logging_interval(iterations, stated, interval):
    assert times.log_interval(iterations, stated) == interval


@pytest.mark.parametrize(
    ("iterations", "interval", "found"),
    [
        ([1, 10, 20, 40], 10, [1, 9, 10, 10]), ([20, 30], 10, [10, 10]), ([5, 7, 8], 3, [3, 2, 1]), ([1, 2], 1, [1, 1]),
        ([2, 3], 1, [1, 1]), ([], 5, []),
    ],
)  # fmt: skip
def test_windows(iterations, interval, found):
    assert times.windows(iterations, interval) == found


PAIRED = Kind(paired=True)
BOTH = "both lines have the format of Primus' core runtime"


@pytest.mark.parametrize(
    ("first", "second", "core", "why"),
    [
        # 20 s, then a mean of 11 s: 2 s are left, and the stamps say 2.
        (record(1, 100.0, ms=20_000.0), record(2, 102.0, ms=11_000.0), False, "the two lines are 2 s apart"),
        (record(1, 100.0, ms=20_000.0), record(2, 111.0, ms=11_000.0), True, None),
        (record(1, 100.0, ms=20_000.0), record(2, 102.04, ms=11_000.0), False, "the two lines are 2.04 s apart"),
        (record(1, 100.0, ms=20_000.0), record(2, 102.05, ms=11_000.0), False, None),
        (record(1, 100.0, ms=20_000.0), record(2, 102.05, ms=11_000.0), True, BOTH),
        (record(4, 100.0, ms=20_000.0), record(5, 102.05, ms=11_000.0), True, None),
        # By stamps in whole seconds: those of either line.
        (record(1, 100.0, Kind(aware=False, resolution=1.0), ms=20_000.0), record(2, 103.0, ms=11_000.0), False,
         "the two lines are 3 s apart, in whole seconds"),
        (record(1, 100.0, ms=20_000.0), record(2, 103.0, Kind(aware=False, resolution=1.0), ms=11_000.0), False,
         "the two lines are 3 s apart, in whole seconds"),
        # Both fit, so the stamps say nothing.
        (record(1, 100.0, Kind(aware=False, resolution=1.0), ms=3_000.0), record(2, 102.5, ms=2_500.0), False, None),
        # Of more steps than one: (3 + 1) × 8 s less 20 s are 12 s.
        (record(1, 100.0, ms=20_000.0), record(4, 112.0, ms=8_000.0), False, "the two lines are 12 s apart"),
        (record(1, ms=20_000.0), record(2, ms=11_000.0), True, BOTH),
        (record(1, ms=20_000.0), record(2, ms=11_000.0), False, None),
        (record(1, 0, PAIRED, ms=20_000.0), record(2, ms=11_000.0), True, None),
        (record(1, ms=20_000.0), record(2, 0, PAIRED, ms=11_000.0), True, None),
        (record(1, ms=20_000.0), record(2, ms=11_000.0, tokens_rate=5.0), True, None),
        (record(1, ms=20_000.0, tokens_rate=5.0), record(2, ms=11_000.0), True, None),
        # Nothing is left, or a time is missing.
        (record(1, ms=20_000.0), record(2, ms=10_000.0), True, None),
        (record(1), record(2, ms=11_000.0), True, None),
        (record(1, ms=20_000.0), record(2), True, None),
    ],
)  # fmt: skip
def test_a_second_line_that_holds_the_first(first, second, core, why):
    assert times.restorable(first, second, core=core) == why


@pytest.mark.parametrize(
    ("first", "second", "core", "doubt"),
    [
        (record(1, ms=20_000.0), record(2, ms=11_000.0, tflops=1.0), False, True),
        (record(1, ms=20_000.0), record(2, ms=11_000.0), False, False),
        (record(4, ms=20_000.0), record(5, ms=11_000.0, tflops=1.0), False, False),
        (record(4, ms=20_000.0), record(5, ms=11_000.0, tflops=1.0), True, True),
        (record(1, 0, PAIRED, ms=20_000.0), record(2, ms=11_000.0, tflops=1.0), False, False),
        (record(1, ms=20_000.0), record(2, 0, PAIRED, ms=11_000.0, tflops=1.0), False, False),
        (record(1, 0, PAIRED, ms=20_000.0), record(2, ms=11_000.0, tflops=1.0), True, True),
        # Both with a time; with one it is doubtful.
        (record(1, 5.0, ms=20_000.0), record(2, 7.0, ms=11_000.0, tflops=1.0), True, False),
        (record(1, 5.0, ms=20_000.0), record(2, ms=11_000.0, tflops=1.0), True, True),
        (record(1, ms=20_000.0), record(2, 7.0, ms=11_000.0, tflops=1.0), True, True),
        # 2 × e₂ − e₁ lies between nothing and 95% of it.
        (record(1, ms=22_000.0), record(2, ms=11_000.0, tflops=1.0), True, False),
        (record(1, ms=21_999.0), record(2, ms=11_000.0, tflops=1.0), True, True),
        (record(1, ms=10_500.0), record(2, ms=10_000.0, tflops=1.0), True, False),
        (record(1, ms=10_501.0), record(2, ms=10_000.0, tflops=1.0), True, True),
        (record(1), record(2, ms=11_000.0, tflops=1.0), True, False),
        (record(1, ms=20_000.0), record(2, tflops=1.0), True, False),
    ],
)  # fmt: skip
def test_a_second_line_in_doubt(first, second, core, doubt):
    assert times.in_doubt(first, second, core=core) is doubt


def trained(*records: Record, attempts=(), core: bool = False) -> MegatronTraining:
    made = MegatronTraining(table=table(*records), attempts=list(attempts))
    made.table.settle()
    if core:
        made.around.marks["core"] = 1
    return made


def words(
    second: int, logged: str, first: int, took: str, left: str, why: str, printed: str = "rates"
) -> str:
    return (
        f"iteration {second}: the logged {logged} s are a mean that includes iteration {first}"
        f" ({took} s), since Megatron does not reset its timer; corrected to {left} s ({why}); its"
        f" {printed} are means of the same kind, kept as printed"
    )


CORE = Kind(shape="primus-core")
STEADY = [record(step, ms=2_000.0 + step) for step in (3, 4, 5)]
DOUBT = (
    "the time of iteration 2 (11 s) may be a mean that includes iteration 1, as newer Megatron"
    " versions print it; the log does not show which"
)
MISSING = "the line of iteration 1 is missing; iteration 2 (11 s) counts as the mean of both"


@pytest.mark.parametrize(
    ("made", "stated", "seconds", "windows", "warnings"),
    [
        (trained(), None, [], [], []),
        (trained(record(1, ms=20_000.0)), None, [20.0], [1], []),
        (
            trained(record(1, ms=20_000.0), record(2, ms=11_000.0), *STEADY),
            None,
            [20.0, 11.0, 2.003, 2.004, 2.005],
            [1] * 5,
            [],
        ),
        (
            trained(record(1, ms=20_000.0), record(2, ms=11_000.0, loss=3.5), *STEADY, core=True),
            None,
            [20.0, 2.0, 2.003, 2.004, 2.005],
            [1] * 5,
            [words(2, "11", 1, "20", "2", BOTH, "loss and rates (loss 3.5)")],
        ),
        (
            trained(record(1, 0, CORE, ms=20_000.0), record(2, 0, CORE, ms=11_000.0)),
            None,
            [20.0, 2.0],
            [1, 1],
            [words(2, "11", 1, "20", "2", BOTH)],
        ),
        (
            trained(record(1, ms=20_000.0), record(2, ms=11_000.0, tflops=1.0)),
            None,
            [20.0, 11.0],
            [1, 1],
            [DOUBT],
        ),
        # Iterations 1, 10, 20, 30: the second has nine steps, of which (9 + 1) × 4 − 20 are 20 s.
        (
            trained(
                record(1, 100.0, ms=20_000.0),
                record(10, 120.0, ms=4_000.0),
                record(20, 140.0, ms=2_000.0),
                record(30, 160.0, ms=2_000.0),
            ),
            None,
            [20.0, 2.2222222, 2.0, 2.0],
            [1, 9, 10, 10],
            [words(10, "4", 1, "20", "2.22222", "the two lines are 20 s apart")],
        ),
        # Another process from a step on, as it is known or as the pause before it shows.
        (
            trained(
                record(3, 100.0, ms=2_000.0),
                record(4, 130.0, ms=20_000.0),
                record(5, 132.0, ms=11_000.0),
                attempts=[4],
            ),
            None,
            [2.0, 20.0, 2.0],
            [1] * 3,
            [words(5, "11", 4, "20", "2", "the two lines are 2 s apart")],
        ),
        (
            trained(
                record(3, 100.0, ms=2_000.0),
                record(4, 125.001, ms=20_000.0),
                record(5, 127.001, ms=11_000.0),
            ),
            None,
            [2.0, 20.0, 2.0],
            [1] * 3,
            [words(5, "11", 4, "20", "2", "the two lines are 2 s apart")],
        ),
        (
            trained(
                record(3, 100.0, ms=2_000.0),
                record(4, 125.0, ms=20_000.0),
                record(5, 127.0, ms=11_000.0),
            ),
            None,
            [2.0, 20.0, 11.0],
            [1] * 3,
            [],
        ),
        (
            trained(
                record(3, ms=2_000.0),
                record(4, ms=20_000.0),
                record(5, ms=11_000.0),
                attempts=[4, 5],
            ),
            None,
            [2.0, 20.0, 11.0],
            [1] * 3,
            [],
        ),
        # The line of iteration 1 is missing.
        (
            trained(record(2, ms=11_000.0), *STEADY, core=True),
            None,
            [11.0, 2.003, 2.004, 2.005],
            [2, 1, 1, 1],
            [MISSING],
        ),
        (
            trained(record(2), *STEADY, core=True),
            None,
            [None, 2.003, 2.004, 2.005],
            [2, 1, 1, 1],
            ["the line of iteration 1 is missing"],
        ),
        (trained(record(2, ms=11_000.0), *STEADY), None, [11.0, 2.003, 2.004, 2.005], [1] * 4, []),
        (
            trained(record(2, ms=11_000.0), *STEADY, core=True),
            2,
            [11.0, 2.003, 2.004, 2.005],
            [2, 1, 1, 1],
            [],
        ),
        (
            trained(record(2, 0, PAIRED, ms=11_000.0), *STEADY, core=True),
            None,
            [11.0, 2.003, 2.004, 2.005],
            [1] * 4,
            [],
        ),
        (trained(*STEADY, core=True), None, [2.003, 2.004, 2.005], [1] * 3, []),
    ],
)
def test_step_times(made, stated, seconds, windows, warnings):
    found: list[str] = []
    assert times.step_times(made, stated, found) == (seconds, windows)
    assert sentences_of(found) == warnings


@pytest.mark.parametrize(
    ("name", "one", "other", "differs"),
    [
        ("loss", 3.0, 3.0, False),
        ("loss", 3.0, 3.001, True),
        ("loss", None, 3.0, False),
        ("loss", 3.0, None, False),
        ("elapsed_ms", 100.0, 105.0, False),
        ("elapsed_ms", 100.0, 106.0, True),
        ("tflops", 100.0, 94.0, True),
    ],
)
def test_values_that_differ(name, one, other, differs):
    found = [record(3, **({} if value is None else {name: value})) for value in (one, other)]
    assert training.differ(name, *found) is differs


LIKE = {"ms": 2_000.0, "samples": 64.0, "loss": 3.0}


@pytest.mark.parametrize(
    ("known", "again", "last", "same"),
    [
        # Half a step of the slower line, or the resolution.
        (record(4, 100.0, ms=2_000.0), record(4, 101.0, ms=1_000.0), 9, True),
        (record(4, 100.0, ms=1_000.0), record(4, 101.0, ms=2_000.0), 9, True),
        (record(4, 101.0, ms=2_000.0), record(4, 99.999, ms=2_000.0), 4, False),
        (record(4, 100.0, ms=2_000.0), record(4, 101.001, ms=2_000.0), 4, False),
        (record(4, 100.0, Kind(aware=False, resolution=1.0)), record(4, 101.0), 4, True),
        # Without times: another rank, up to the step before the last one.
        (record(4, rank=1.0, ms=2.0), record(4, rank=2.0, ms=9.0), 5, True),
        (record(4, rank=1.0, ms=2.0), record(4, rank=2.0, ms=9.0), 6, False),
        (record(4, rank=1.0, **LIKE), record(4, rank=1.0, **LIKE), 9, True),
        (record(4, **LIKE), record(4, **LIKE), 9, True),
        (record(4, **LIKE), record(4, **{**LIKE, "samples": 65.0}), 4, False),
        (record(4, **LIKE), record(4, **{**LIKE, "ms": 2_050.0}), 5, True),
        (record(4, **LIKE), record(4, **{**LIKE, "ms": 2_050.0}), 6, False),
        (record(4, **LIKE), record(4, **{**LIKE, "ms": 2_200.0}), 4, False),
        (record(4, **LIKE), record(4, **{**LIKE, "ms": 2_050.0, "loss": 3.1}), 4, False),
        (record(4, **LIKE), record(4, **{**LIKE, "ms": 2_050.0}, tflops=5.0), 4, True),
        (record(4, ms=2_000.0), record(4, ms=2_050.0), 4, False),
        (record(4), record(4), 9, True),
        (record(4, **LIKE), record(4, **{**LIKE, "loss": 3.1}), 9, False),
    ],
)
def test_two_lines_of_one_moment(known, again, last, same):
    assert training.same_moment(known, again, last) is same


@pytest.mark.parametrize(
    ("ms", "last", "reach", "same"),
    [
        (2_050.0, 14, 10, True),
        (2_050.0, 15, 10, False),
        # The first iteration again is of another training, even if its line is the same.
        (2_000.0, 9, 1, True),
        (2_000.0, 9, 0, False),
        (2_000.0, 4, 0, True),
    ],
)
def test_i8_lines_of_ranks_that_lag_and_of_another_training(ms, last, reach, same):
    assert (
        training.same_moment(record(4, **LIKE), record(4, **{**LIKE, "ms": ms}), last, reach)
        is same
    )


OTHER = {"planned": 80.0, "world": 16.0, "batch": 32.0, "samples": 640.0}


@pytest.mark.parametrize(
    ("last", "later", "signs"),
    [
        (record(4, world=8.0), record(6, world=8.0), 0),
        (record(4, world=8.0), record(6, world=16.0), 1),
        (record(4), record(6, planned=80.0), 1),
        (record(4, batch=16.0), record(6, batch=32.0), 1),
        (record(4, batch=16.0, world=8.0), record(6, batch=32.0, world=16.0, planned=80.0), 3),
        # Samples that go on: two steps of 32 more than 64 are 128.
        (record(4, batch=32.0, samples=64.0), record(6, batch=32.0, samples=128.0), 0),
        (record(4, batch=32.0, samples=64.0), record(6, batch=32.0, samples=129.0), 1),
        (
            record(4, batch=32.0, samples=64.0, world=8.0),
            record(6, batch=32.0, samples=128.0, world=4.0),
            1,
        ),
        (
            record(4, batch=16.0, samples=64.0, world=8.0),
            record(6, batch=32.0, samples=128.0, world=4.0),
            0,
        ),
        (record(4, samples=64.0, world=8.0), record(6, batch=32.0, samples=128.0, world=4.0), 0),
        (record(4, batch=16.0, samples=64.0), record(6, batch=32.0), 1),
    ],
)
def test_signs_of_another_training(last, later, signs):
    assert reader.signs_of_another(last, later) == signs


@pytest.mark.parametrize(
    ("steps", "later", "foreign"),
    [
        # Behind the next one, and further than the last two lie apart.
        ((10, 20), record(31, planned=80.0, world=16.0), True),
        ((10, 20), record(30, planned=80.0, world=16.0), False),
        ((10, 11), record(13, planned=80.0, world=16.0), True),
        ((10, 11), record(12, planned=80.0, world=16.0), False),
        ((10, 20), record(31), False),
        # One sign is enough once the plan is done.
        ((10, 20), record(31, planned=80.0), False),
        ((70, 90), record(111, planned=120.0), True),
        ((70, 90), record(110, planned=120.0), False),
    ],
)
def test_an_iteration_of_another_run(steps, later, foreign):
    assert reader.is_foreign(table(*(record(step, world=8.0) for step in steps)), later) is foreign


@pytest.mark.parametrize(
    ("last", "later", "late"),
    [
        (record(9, 100.0), record(5, 100.0), True),
        (record(9, 100.0), record(5, 100.001), False),
        (record(9), record(5), True),
        (record(9), record(3), False),
        (record(9, 100.0), record(3), False),
        (record(9), record(5, planned=80.0), False),
        (record(9, world=8.0), record(5, world=4.0), False),
    ],
)
def test_an_iteration_that_was_logged_late(last, later, late):
    assert reader.is_late(later, trained(record(3), last)) is late


def test_a_double_of_a_rank_and_of_another():
    made = trained(record(4, line=7, loss=3.0, rank=1.0, ms=100.0))
    made.repeat(made.table.get(4), record(4, line=8, loss=3.0, rank=2.0, nans=5.0))
    made.repeat(made.table.get(4), record(4, line=9, loss=3.5, rank=1.0, ms=103.0, skipped=6.0))
    assert made.table.get(4).figures == {
        "planned": 90.0, "elapsed_ms": 100.0, "loss": 3.0, "rank": 1.0, "nans": 5.0, "skipped": 6.0,
    }  # fmt: skip
    assert (made.doubles, made.lines_of_other_ranks) == (1, 1)
    assert sentences_of(made.conflicts) == [
        "iteration 4 is printed twice with different values (loss; lines 7 and 9); the first is"
        " used"
    ]
    assert made.notes() == ("2 duplicate iteration lines skipped", "1 of them from other ranks")
    made.lines_of_other_ranks = 0
    assert made.notes() == ("1 duplicate iteration lines skipped",)
    made.doubles = 0
    assert made.notes() == ()


def test_records_are_added_with_what_their_lines_show():
    made = MegatronTraining()
    kind = Kind(aware=False, resolution=1.0, marks=("primus", "amd"))
    made.add(record(4, kind=UNTIMED, rank=3.0, world=0.0), "2026-03-01 12:00:01 x")
    made.add(record(5, 7.0, kind, rank=3.0, world=8.0), "2026-03-01 12:00:07 x")
    made.add(record(6, 9.0, kind, rank=4.0, world=16.0), "2026-03-01 12:00:09 x")
    assert made.world == LoggedValue(8, 50, "[rank-3/8]")
    assert made.around.marks == {"primus": 50, "amd": 50}
    assert made.around.first_stamp.seconds == 1772366407.0
    assert (made.since_start, made.step_count, made.young) == (3, 3, True)
    made.add(record(7), "x")
    assert made.young is False
    made.attempt(8)
    assert (made.attempts, made.since_start, made.young) == ([8], 0, True)


def test_a_restart_drops_what_it_repeats():
    made = trained(*(record(step) for step in range(1, 8)), attempts=[1, 4, 6])
    made.restart(record(4, line=99))
    assert (list(made.table.iterations), [each.iteration for each in made.lost], made.attempts) == (
        [1, 2, 3],
        [4, 5, 6, 7],
        [1, 4],
    )
    assert sentences_of(made.warnings) == [
        "restarted on line 99 from iteration 4: iterations 4 to 7 before the restart were dropped"
    ]
    assert (made.again, made.since_start) == ([99], 0)


class TestContext:
    MEMORY = (
        "(after {} iterations) memory (MB) | allocated: 1.5 | max allocated: {} | reserved: 2.5 |"
        " max reserved: {}"
    )

    def test_what_lines_show(self):
        context = Context()
        for number, text in enumerate(
            (
                "[Primus:Runtime] x",
                "AMD Instinct MI300X",
                "/opt/hsa/gfx942/x",
                "using world size: 8",
                self.MEMORY.format(2, 7.5, 9.5),
                self.MEMORY.format(5, 6.5, 11.25),
                "[exiting program at iteration 30]",
                "primus/x",
                "  num_layers " + 34 * "." + " 4",
                "x",
            ),
            3,
        ):
            context.feed(number, text)
        assert context.marks == {"primus": 3, "core": 3, "amd": 4, "start": 6, "success": 9}
        assert context.memory == {"after": 5.0, "allocated": 7.5, "reserved": 11.25}
        assert (context.exited, context.dumped, context.held) == ("at iteration 30", True, True)
        assert {name: (each.value, each.line) for name, each in context.stated.items()} == {
            "device": ("AMD Instinct MI300X", 4),
            "architecture": ("gfx942", 5),
            "world_size": (8, 6),
            "num_layers": (4, 11),
        }

    @pytest.mark.parametrize(
        ("text", "success", "exited"),
        [
            ("[after training is done] x", True, None),
            ("[exiting program after 12.34567 minutes]", True, "after 12.3 minutes"),
            ("[exiting program after 7 minutes]", True, "after 7 minutes"),
            ("[exiting program at iteration 30]", True, "at iteration 30"),
            ("[exiting program]", False, None),
            ("x" * 9_976 + "[after training is done]", True, None),
            ("x" * 9_977 + "[after training is done]", False, None),
        ],
    )
    def test_how_it_ends(self, text, success, exited):
        context = Context()
        context.feed(3, text)
        assert ("success" in context.marks, context.exited) == (success, exited)

    def test_lines_are_held_until_they_are_read(self):
        context = Context()
        context.hold(3, b"using world size: 8\n")
        context.hold(4, b"  num_layers .. 4\n", dumped=True)
        assert (
            context.held,
            context.dumped,
            len(context.unread),
            context._size,
            dict(context.stated),
        ) == (
            True,
            True,
            2,
            38,
            {},
        )
        assert context.read() is context
        assert (context.unread, context._size) == ([], 0)
        assert {name: (each.value, each.line) for name, each in context.stated.items()} == {
            "world_size": (8, 3), "num_layers": (4, 4),
        }  # fmt: skip
        # The line of a start is completed by the lines behind it.
        context.hold(5, b"2026-03-01 12:00:07\n")
        assert (context.unread, context.events.marks[0].at) == ([], (1772366407.0, False))

    def test_too_many_are_read(self, monkeypatch):
        monkeypatch.setattr(training, "MOST_HELD", 8)
        context = Context()
        context.hold(3, b"1234567\n")
        assert len(context.unread) == 1
        context.hold(4, b"\n")
        assert context.unread == []

    @pytest.mark.parametrize(("untimed", "times_kept"), [(False, 0), (True, 2)])
    def test_events_alone(self, untimed, times_kept):
        context = Context()
        context.hold(3, b"2026-03-01 12:00:05 a\n")
        context.hold(
            4,
            b"b\n2026-03-01 12:00:06 saving checkpoint at iteration 7\nc\n2026-03-01 12:00:09 d\n",
        )
        events = context.own_events(untimed=untimed)
        assert [(mark.kind, mark.line, mark.step, mark.at) for mark in events.marks] == [
            ("checkpoint", 5, 7, (1772366406.0, False))
        ]
        assert len(events.stamps) == (times_kept or 1)
        assert (context.unread == []) is untimed

    def test_events_of_lines_that_are_read_or_have_no_time(self):
        context = Context()
        context.feed(3, "saving checkpoint at iteration 7")
        assert [mark.line for mark in context.own_events().marks] == [3]
        context = Context()
        context.hold(3, b"a\nsaving checkpoint at iteration 7\n")
        assert [mark.line for mark in context.own_events(untimed=True).marks] == [4]
        assert context.unread

    def test_a_start_among_the_events_needs_all_lines(self):
        context = Context()
        context.hold(3, b"2026-03-01 12:00:05 a\nusing world size: 8\n2026-03-01 12:00:09 d\n")
        (mark,) = context.own_events().marks
        assert (mark.line, mark.at, mark.first) == (4, (1772366409.0, False), (1772366405.0, False))

    def test_what_went_on_and_what_ended(self):
        one, later, former = Context(), Context(), Context()
        for context, number in ((one, 3), (later, 8)):
            context.feed(number, self.MEMORY.format(number, 17.5 - number, 1.5 + number))
        later.feed(9, "[exiting program at iteration 30]")
        later.feed(10, "ValueError: x")
        one.absorb(later)
        assert (one.memory, one.exited) == (
            {"after": 8.0, "allocated": 14.5, "reserved": 9.5},
            "at iteration 30",
        )
        assert (one.causes.reason(), later.causes.reason()) == ("line 10: ValueError: x", None)
        former.memory = {"allocated": 15.0}
        one.hand_over_end(former)
        assert (former.memory, former.exited) == (
            {"after": 8.0, "allocated": 15.0, "reserved": 9.5},
            "at iteration 30",
        )
        assert (one.memory, one.exited) == ({}, None)
        assert (former.marks.get("success"), one.marks.get("success")) == (9, None)


def test_not_a_number_is_no_value():
    made = table(record(3, loss=math.nan))
    made.settle()
    assert (made.column("loss"), made.record(0).figures) == ((None,), {"planned": 90.0})
