"""The account of a run, percentiles of its steps, what its records cover, and causes of changes:
whole answers.
"""

from __future__ import annotations

import math
import statistics

import msgspec
import pytest
from stored_runs import series

from tprimat.analysis import records, run_order
from tprimat.analysis.account import account, blocks, clocks, common_clock
from tprimat.analysis.causes import cause_of_change
from tprimat.analysis.run_account import account_of, percentiles
from tprimat.analysis.summary import Summary
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.account import Account, Entry, Timing
from tprimat.results.run import PerformanceMetrics, Run, Source, Steady
from tprimat.results.telemetry import Telemetry, TelemetryIssue


def entry(kind, start, duration, *steps, **more):
    first, last = steps or (None, None)
    return Entry(
        kind=kind, start=start, duration=duration, first_step=first, last_step=last, **more
    )


def a_run(times=(), *timeline, windows=None, steps=None, kind=None, **fields):
    windows = windows or (1,) * len(times)
    known = {"steps": tuple(steps or (sum(windows[: at + 1]) for at in range(len(windows))))}
    return Run(
        **series(times, window_steps=tuple(windows), **known),
        timeline=timeline,
        timing=Timing(kind=kind),
        **fields,
    )


TRAINING = entry("training", 5.0, 20.0, 1, 10)


def test_blocks_are_training_whose_steps_and_time_are_known():
    tiny = entry("training", 40.0, 1e-9, 21, 22)
    others = (
        entry("evaluation", 25.0, 3.0, 1, 10),
        entry("training", 28.0, 4.0),
        entry("training", 50.0, 2.0, 23, 22),
    )
    one = entry("training", 60.0, 2.0, 23, 23)
    assert blocks(a_run((), TRAINING, *others, tiny, one)) == (TRAINING, one)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (a_run((None, None)), ()),
        (a_run((None, 2.0)), ("timer",)),
        (a_run((2.0,), kind="stamps"), ("stamps",)),
        (a_run((2.0,), TRAINING), ("timer", "blocks")),
        (a_run((2.0,), TRAINING, kind="stamps"), ("stamps", "blocks")),
        (a_run((2.0,), TRAINING, kind="sampled"), ("blocks", "sampled")),
        (a_run((2.0,), TRAINING, kind="partial"), ("blocks", "partial")),
        (a_run((None,), TRAINING, kind="stamps"), ("blocks",)),
    ],
)
def test_the_clocks_of_a_run(run, expected):
    assert clocks(run) == expected


def of(*kinds):
    """Runs that state their speed by these clocks; with a + behind it, a run has blocks too."""
    return [
        a_run((2.0,), *([TRAINING] if each.endswith("+") else []), kind=each.rstrip("+") or None)
        for each in kinds
    ]


@pytest.mark.parametrize(
    ("runs", "clock"),
    [
        ([], None),
        ([a_run()], None),
        (of("timer", "timer+"), "timer"),
        ([*of("stamps"), a_run()], "stamps"),
        (of("sampled", "sampled"), "sampled"),
        (of("timer+", "stamps+"), "blocks"),
        (of("timer+", "sampled+", "stamps+"), "blocks"),
        (of("timer", "stamps"), None),
        (of("sampled+", "sampled"), None),
    ],
)
def test_the_clock_that_runs_are_compared_by(runs, clock):
    assert common_clock(runs) == clock


def an_account(parts, before=0.0, waiting=None, *, whole=True):
    return Account(parts, before, waiting) if whole else Account(parts, before, is_whole=False)


START, CHECK, END = (
    entry("start-up", 0.0, 5.0),
    entry("checkpoint", 26.0, 4.0),
    entry("end", 30.0, 1.0),
)
EARLY, LOST = entry("start-up", -8.0, 7.0), entry("lost", 31.0, 3.0)


@pytest.mark.parametrize(
    ("run", "first_steady", "expected"),
    [
        (a_run(), None, None),
        (a_run((None, None)), 2, None),
        (
            a_run((2.0, None, 3.0), windows=(2, 1, 4)),
            None,
            an_account({"training": 16.0}, whole=False),
        ),
        # The records before the first steady step.
        (a_run((9.0, 2.0, 3.0)), 3, an_account({"training": 3.0, "warm-up": 11.0}, whole=False)),
        (
            a_run((9.0, 2.0, 3.0), windows=(2, 1, 4)),
            4,
            an_account({"training": 12.0, "warm-up": 20.0}, whole=False),
        ),
        (a_run((9.0, None, 3.0)), 9, an_account({"warm-up": 12.0}, whole=False)),
        (a_run((2.0,), CHECK), None, an_account({"training": 2.0, "checkpoint": 4.0}, whole=False)),
        (
            a_run((2.0,), CHECK, entry("evaluation", 30.0, 6.0), EARLY),
            None,
            an_account({"training": 2.0, "evaluation": 6.0, "checkpoint": 4.0}, 7.0, whole=False),
        ),
        (a_run((), CHECK), None, an_account({"checkpoint": 4.0}, whole=False)),
        # A timeline adds up to its end; gaps are unknown.
        (
            a_run((2.0,) * 10, EARLY, START, TRAINING, CHECK, END, LOST),
            4,
            an_account(
                {
                    "start-up": 5.0,
                    "warm-up": 6.0,
                    "training": 14.0,
                    "checkpoint": 4.0,
                    "lost": 3.0,
                    "end": 1.0,
                    "unknown": 1.0,
                },
                7.0,
            ),
        ),
        (a_run((9.0,) * 10, TRAINING), 4, an_account({"warm-up": 20.0, "unknown": 5.0})),
        (
            a_run(
                (2.0,) * 10,
                TRAINING,
                entry("training", 25.0, 10.0, 11, 13),
                entry("evaluation", 35.0, 1.0, 1, 90),
                breakdown={"data_wait_s": 0.5},
            ),
            None,
            an_account({"training": 30.0, "evaluation": 1.0, "unknown": 5.0}, waiting=6.5),
        ),
        # Less than 10 µs is what rounding leaves; 6 digits count.
        (
            a_run((), entry("training", 0.0, 2.0, 1, 2), entry("end", 2.00001, 1.23456789)),
            None,
            an_account({"training": 2.0, "end": 1.234568}),
        ),
        (
            a_run((), entry("training", 0.0, 2.0, 1, 2), entry("end", 2.00002, 1.0)),
            None,
            an_account({"training": 2.0, "end": 1.0, "unknown": 2e-05}),
        ),
    ],
)
def test_the_account_of_a_run(run, first_steady, expected):
    found = account(run, first_steady)
    assert found == expected
    if expected is not None:
        assert list(found.parts) == [name for name in found.parts if name in expected.parts]


def summary(first):
    return Summary(Steady(first_step=first), PerformanceMetrics(), ())


def test_an_account_uses_the_summary_that_is_known():
    run = a_run((9.0, 2.0, 2.0))
    assert account_of(run, summary(2)).parts == {"training": 4.0, "warm-up": 9.0}
    assert account_of(run, summary(None)).parts == {"training": 13.0}
    assert account_of(run).parts == account_of(run).parts == {"training": 4.0, "warm-up": 9.0}


def measured(*runs):
    return [(run, summary(first)) for run, first in runs]


TIMES = tuple(float(1 + at * at % 103) for at in range(99))


@pytest.mark.parametrize(
    ("runs", "times"),
    [
        ([], ()),
        ([(a_run((None, None)), None)], ()),
        ([(a_run((5.0,)), None)], (5.0,)),
        ([(a_run((5.0, 7.0)), None)], (5.0, 7.0)),
        ([(a_run((50.0, 5.0, None, 7.0, 6.0)), 2)], (5.0, 7.0, 6.0)),
        ([(a_run(TIMES[:9]), None)], TIMES[:9]),
        ([(a_run(TIMES[:10]), None)], TIMES[:10]),
        ([(a_run(TIMES), None)], TIMES),
        ([(a_run(TIMES), None), (a_run((900.0, 70.0)), 2)], (*TIMES, 70.0)),
        # Means of several steps, of one run or one record, hide the longest.
        ([(a_run((5.0, 7.0), windows=(1, 2)), None)], ()),
        ([(a_run((5.0, 7.0), windows=(2, 1)), 3)], (7.0,)),
        ([(a_run((5.0, 7.0)), None), (a_run((5.0, 7.0), kind="partial"), None)], ()),
    ],
)
def test_percentiles_of_steady_steps(runs, times):
    """By linear interpolation between the sorted times, of which the first is the least and the
    last the most.
    """
    ordered = sorted(times)

    def at(p, least):
        place = p / 100 * (len(ordered) - 1)
        low = min(math.floor(place), len(ordered) - 2)
        return (
            ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])
            if len(times) >= least
            else None
        )

    expected = (
        tuple(at(p, least) for p, least in ((50, 2), (90, 10), (99, 100)))
        if len(times) > 1
        else (None,) * len(times) * 3
    )
    assert percentiles(measured(*runs)) == tuple(
        each if each is None else pytest.approx(each) for each in expected
    )


def issue(code, first=None, last=None, **more):
    return TelemetryIssue(code=code, text=code.upper(), first_step=first, last_step=last, **more)


def clocked(value, expected, first=100):
    return issue("clock-change", first, 300, value=value, expected=expected)


@pytest.mark.parametrize(
    ("issues", "interval", "times", "expected"),
    [
        # A limit that begins within two steps, and two readings of the faster of both speeds.
        ([issue("thermal", 98, 300)], None, (1.0, 2.0), "THERMAL"),
        ([issue("thermal", 102, 300)], None, (1.0, 2.0), "THERMAL"),
        ([issue("thermal", 103, 300)], None, (1.0, 2.0), None),
        ([issue("thermal", 97, 300)], None, (1.0, 2.0), None),
        ([issue("thermal", 106, 300)], 2.0, (1.0, 2.0), "THERMAL"),
        ([issue("thermal", 107, 300)], 2.0, (1.0, 2.0), None),
        ([issue("thermal", 10, 99)], None, (2.0, 1.0), "end of THERMAL"),
        ([issue("thermal", 10, 101)], None, (2.0, 1.0), "end of THERMAL"),
        ([issue("thermal", 10, 102)], None, (2.0, 1.0), None),
        ([issue("thermal", 10, 97)], None, (2.0, 1.0), "end of THERMAL"),
        ([issue("thermal", 10, 96)], None, (2.0, 1.0), None),
        ([issue("thermal", 100, 300)], None, (2.0, 1.0), None),
        ([issue("thermal", 10, 99)], None, (1.0, 2.0), None),
        ([issue("thermal", 100, None)], None, (1.0, 2.0), None),
        ([issue("thermal", None, 99)], None, (2.0, 1.0), None),
        ([issue("other", 100, 300)], None, (1.0, 2.0), None),
        ([issue("other", 100, 300, value=1.0, expected=2.0)], None, (1.0, 2.0), None),
        ([clocked(1000.0, 1500.0)], None, (1.0, 2.0), "CLOCK-CHANGE"),
        ([clocked(1500.0, 1000.0)], None, (1.0, 2.0), None),
        ([clocked(1500.0, 1000.0)], None, (2.0, 1.0), "CLOCK-CHANGE"),
        ([clocked(1000.0, 1000.0)], None, (2.0, 1.0), None),
        ([clocked(1000.0, None)], None, (1.0, 2.0), None),
        ([clocked(None, 1000.0)], None, (1.0, 2.0), None),
        # The most severe is listed first.
        (
            [issue("other", 100, 300), issue("power-cap", 100, 300), issue("thermal", 100, 300)],
            None,
            (1.0, 2.0),
            "POWER-CAP",
        ),
        ([], None, (1.0, 2.0), None),
    ],
)
def test_the_cause_of_a_change_at_step_100(issues, interval, times, expected):
    run = a_run(telemetry=Telemetry(issues=tuple(issues), interval_seconds=interval))
    note = cause_of_change(run, 100, *times)
    assert (note and words(note)) == expected


@pytest.mark.parametrize(
    ("steps", "windows", "kind", "expected"),
    [
        ((), (), None, 0),
        ((1, 2, 3), (1, 1, 1), None, 3),
        ((1, 5, 9), (1, 1, 1), None, 3),
        # Of windows, each step counts once.
        ((10, 20, 30), (10, 10, 10), None, 30),
        ((10, 15, 30), (10, 10, 10), None, 25),
        ((10, 15, 17), (3, 10, 2), None, 12),
        ((20, 30), (20, 25), None, 30),
        ((12, 14), (2, 3), None, 4),
        # Of sampled steps all, at the least distance of two.
        ((10, 20, 40), (1, 1, 1), "sampled", 40),
        ((10, 30, 37), (1, 1, 1), "sampled", 34),
        ((10,), (1,), "sampled", 1),
        ((10,), (4,), "sampled", 4),
    ],
)
def test_the_steps_that_records_cover(steps, windows, kind, expected):
    run = a_run((2.0,) * len(steps), windows=windows, steps=steps, kind=kind)
    assert records.recorded_steps(run) == expected


def untimed(count, among):
    return Note("total-time-untimed", {"untimed": count, "records": among})


def gap(before, after):
    return Note("total-time-gap", {"before": before, "after": after})


@pytest.mark.parametrize(
    ("times", "steps", "windows", "expected"),
    [
        ((2.0, 3.0, 7.0), (4, 5, 6), None, (12.0, [])),
        ((2.0, 3.0, 7.0), (2, 5, 9), (2, 3, 4), (41.0, [])),
        ((2.0, 3.0, 7.0), (4, 5, 7), None, (None, [gap(5, 7)])),
        ((2.0, 3.0, 7.0), (4, 6, 7), None, (None, [gap(4, 6)])),
        ((2.0, 3.0, 7.0), (2, 5, 9), (2, 3, 3), (None, [gap(5, 9)])),
        ((2.0, None, 7.0), (4, 5, 6), None, (None, [untimed(1, 3)])),
        ((None, None, 7.0), (4, 5, 6), None, (None, [untimed(2, 3)])),
        ((2.0, 7.0, None), (4, 5, 6), None, (None, [untimed(1, 3)])),
        # A record without a time within the window of one with a time.
        ((2.0, None, 7.0), (4, 6, 8), (4, 1, 4), (36.0, [])),
        ((2.0, None, 7.0), (4, 5, 8), (4, 1, 3), (None, [untimed(1, 3)])),
        ((None, 7.0), (1, 4), (1, 4), (28.0, [])),
    ],
)
def test_the_time_of_a_whole_run(times, steps, windows, expected):
    assert records.total_time(a_run(times, windows=windows, steps=steps)) == expected


def test_records_without_some_steps():
    native = {"tflops_per_gpu": (1.0, 2.0, 3.0), "seconds": 4.0}
    known = {
        "loss_values": (9.0, 8.0, 7.0),
        "lines": (11, 12, 13),
        "learning_rates": (0.1, 0.2, 0.3),
    }
    run = Run(**series((5.0, 6.0, 7.0), **known), native_metrics=native, profiled_steps=(2, 9))
    kept = Run(
        **series(
            (5.0, 7.0),
            steps=(1, 3),
            loss_values=(9.0, 7.0),
            lines=(11, 13),
            learning_rates=(0.1, 0.3),
        ),
        native_metrics={"tflops_per_gpu": (1.0, 3.0), "seconds": 4.0},
    )
    assert records.trained(run) == kept
    assert records.without(run, [2]) == kept
    assert records.without(run, []) is run
    assert records.without(run, [8]) is run


SLOW = (2.0, 2.1, 2.2, 2.0, 2.1, 2.2)
HANDED = (*SLOW, 0.01, 0.02, 6.0, *SLOW)


@pytest.mark.parametrize(
    ("times", "fields", "expected"),
    [
        (HANDED, {}, ((7, 8), (9,))),
        (HANDED, {"source": Source(kind="live")}, ((), ())),
        (HANDED, {"source": Source(kind="result"), "framework": "nemo"}, ((), ())),
        (HANDED, {"source": Source(kind="result"), "framework": "primus"}, ((7, 8), (9,))),
        (HANDED, {"source": Source(kind="log"), "framework": "nemo"}, ((7, 8), (9,))),
        (HANDED, {"platform": "cpu"}, ((), ())),
        ((None, *HANDED), {}, ((8, 9), (10,))),
        # None waits so long that it made up for the others.
        ((*SLOW, 0.01, 0.02, 2.1, *SLOW), {}, ((7, 8), ())),
        # The waiting step is one of the next five, and the first of them.
        ((*SLOW, 0.01, 0.02, 2.1, 2.0, 2.2, 2.1, 6.0, 6.0), {}, ((7, 8), (13,))),
        ((*SLOW, 0.01, 0.02, 2.1, 2.0, 2.2, 2.1, 2.0, 6.0), {}, ((7, 8), ())),
        # Five at once are handed over; six are steps that became slower.
        ((*SLOW, *[0.01] * 5, 12.0, *SLOW), {}, ((7, 8, 9, 10, 11), (12,))),
        ((*SLOW, *[0.01] * 6, 14.0, *SLOW), {}, ((), ())),
        # At the end of a run, and at its beginning.
        ((*SLOW, 0.01, 0.02), {}, ((7, 8), ())),
        ((0.01, 0.02, 6.0, *SLOW), {}, ((1, 2), (3,))),
        ((0.01, 2.0), {}, ((), ())),
        ((), {}, ((), ())),
        # The usual time is the lower median of the five that follow; at the end of a run, of five
        # before.
        ((*SLOW, 0.3, 9.0, 2.0, 9.0, 2.0, 2.0), {}, ((), ())),
        ((*SLOW, 0.3, 9.0, 4.0, 2.0, 9.0, 4.0, 2.0, 2.0), {}, ((7,), (8,))),
        ((2.0, 2.0, 2.0, 9.0, 9.0, 9.0, 0.5), {}, ((7,), ())),
        ((9.0, 2.0, 2.0, 2.0, 9.0, 9.0, 0.5), {}, ((), ())),
        ((9.0, 9.0, 0.5), {}, ((), ())),
        ((9.0, 9.0, 9.0, 0.5), {}, ((4,), ())),
        # A jump near the end is compared with two records or more, before it too.
        ((*SLOW, 0.01, 2.0), {}, ((7,), ())),
        ((2.0, 0.01, 2.0), {}, ((), ())),
        ((2.0, 2.0, 0.01, 2.0), {}, ((3,), ())),
        ((*SLOW, 0.01, 4.0, 2.0), {}, ((7,), (8,))),
        # Half of what is missing is enough: 2 and 1.9 s.
        ((*SLOW, 0.1, 0.1, 3.85, 2.0, 2.0, 2.0, 2.0), {}, ((7, 8), ())),
        ((*SLOW, 0.1, 0.1, 3.95, 2.0, 2.0, 2.0, 2.0), {}, ((7, 8), (9,))),
        # Several stretches, in the order of the steps.
        ((*HANDED, 0.01, 0.02, 6.0, *SLOW), {}, ((7, 8, 16, 17), (9, 18))),
        # Faster steps than a tenth alone are none.
        ((*SLOW, 0.19, 2.0, *SLOW), {}, ((7,), ())),
        ((*SLOW, 0.22, 2.0, *SLOW), {}, ((), ())),
    ],
)
def test_steps_that_were_only_handed_over(times, fields, expected):
    known = {"source": Source(kind="log"), "platform": "nvd"}
    assert records.dispatch_artifacts(a_run(times, **{**known, **fields})) == expected


RISING = [1.0, 1.02, 1.01, 1.05, 1.06, 1.10, 1.08, 1.20]


@pytest.mark.parametrize(
    ("means", "kind", "size"),
    [
        (RISING, "rises", statistics.fmean(RISING[4:]) / statistics.fmean(RISING[:4]) - 1),
        (
            [*RISING, 1.3],
            "rises",
            statistics.fmean([*RISING[5:], 1.3]) / statistics.fmean(RISING[:4]) - 1,
        ),
        (
            [-each + 3 for each in RISING],
            "falls",
            (12 - sum(RISING[4:])) / (12 - sum(RISING[:4])) - 1,
        ),
        # The mean of the odd runs over that of the even ones, not their medians.
        ([1.0, 2.0, 1.01, 2.02, 1.05, 2.01, 1.0, 2.0], "alternates", 4.06 / 8.03 - 1),
        ([2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0], "alternates", 1.0),
        ([1.0, 1.3, 1.1, 1.2, 1.15, 1.0, 1.3, 1.1], None, None),
    ],
)
def test_the_order_of_runs(means, kind, size):
    found = run_order.run_order_trend(means)
    assert found == (None if kind is None else run_order.Order(kind, pytest.approx(size)))


@pytest.mark.parametrize(("score", "count"), [(0, 45), (1, 45), (100, 45), (-5, 45), (300, 60)])
def test_the_normal_approximation_of_kendalls_test(score, count):
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    expected = 2 * (1 - statistics.NormalDist().cdf(max(score - 1, 0) / deviation))
    assert run_order._kendall_p(score, count) == pytest.approx(expected)


def test_a_result_keeps_its_account():
    run = a_run((2.0,) * 10, START, TRAINING, CHECK)
    assert account_of(msgspec.json.decode(msgspec.json.encode(run), type=Run)) == account_of(run)
