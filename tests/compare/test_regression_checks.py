"""Each part of the regression check in full, of systems whose values the test states; intervals by
scipy.
"""

from __future__ import annotations

import dataclasses
import math
import statistics

import msgspec
import pytest
import scipy.stats
from made_runs import MI300X, make_run
from made_systems import finding_of, pair_of, result, system, value
from stored_runs import note, notes_of

from tprimat.analysis import intervals
from tprimat.analysis.efficiency import Options
from tprimat.analysis.intervals import Difference
from tprimat.compare import Loaded, regression
from tprimat.compare.loss import Losses
from tprimat.compare.regression import (
    CHOOSE,
    FIRST,
    LONGER,
    MORE_STEPS,
    Check,
    RegressionCheck,
    check_regression,
)
from tprimat.compare.result import Ratio
from tprimat.compare.threshold import parse
from tprimat.errors import ExitStatus
from tprimat.results.run import Environment, MemoryMetrics, Steady

FASTER = Ratio(1.5, None, None)


def threshold(text):
    (found,) = parse(None, [text])
    return found


SLOWER, STEP = threshold("tokens_per_second_per_gpu=3%"), threshold("avg_step_time_seconds=4%")
SECONDS, MEMORY = threshold("avg_step_time_seconds=0.25"), threshold("peak_memory_reserved_gb=2")
RATE, LOSS = threshold("tokens_per_second_per_gpu=5"), threshold("final_loss=2%")


def runs(rates, day, memory=None, **fields):
    """Runs of these rates, each another measurement."""
    found = []
    for place, rate in enumerate(rates):
        run = make_run(
            step_time=3 + day + place / 10,
            timestamp=f"2026-03-{day + place:02d}T00:00:00+00:00",
            **fields,
        )
        if memory:
            run = msgspec.structs.replace(
                run, memory_metrics=MemoryMetrics(peak_memory_reserved_gb=memory[place])
            )
        found.append(
            result(rate, run, file=f"{day}.json", unsettled=fields.get("session") == "short")
        )
    return found


def sides(before, after, *, memory=(None, None), ratio=FASTER, second=None, **fields):
    """A pair of a baseline and a candidate of these rates."""
    one = system("A (baseline)", *runs(before, 1, memory[0], **fields))
    other = system("B (candidate)", *runs(after, 11, memory[1], **{**fields, **(second or {})}))
    return pair_of(one, other, ratio=ratio, reasons=() if ratio else (note("why"),))


STEPS, BASIS = note("steps"), note("basis")
LEAVE_OUT = note("leave-out-threshold", metric="tokens_per_second_per_gpu")


def checked(matched, each, steps=STEPS):
    (found,) = regression._checks("title", matched, [each], steps)
    return found


def of_logs(before, after, limit):
    """The bounds of the ratio and the p value of a true one that equals the limit."""
    logs = [[math.log(each) for each in of] for of in (after, before)]
    bounds = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval()
    p = scipy.stats.ttest_ind(
        [each - math.log(limit) for each in logs[0]], logs[1], equal_var=False
    ).pvalue
    return [math.exp(each) for each in bounds], p


def of_values(before, after, limit):
    bounds = scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval()
    return bounds, scipy.stats.ttest_ind(
        [each - limit for each in after], before, equal_var=False
    ).pvalue


BEFORE, AFTER = (100.0, 104.0, 103.0), (97.0, 98.5)
ALL = (
    "threshold",
    "values",
    "runs",
    "change",
    "low",
    "high",
    "method",
    "p",
    "p_adjusted",
    "basis",
    "answer",
    "notes",
)


def told(check):
    return {name: getattr(check, name) for name in ALL}


def expected(each, values, change, bounds, p, *, count=(3, 2), basis=STEPS, method="welch"):
    low, high = bounds
    return {
        "threshold": each,
        "values": tuple(map(pytest.approx, values)),
        "runs": count,
        "change": pytest.approx(change),
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "method": method,
        "p": pytest.approx(p),
        "p_adjusted": pytest.approx(p),
        "basis": basis,
        "answer": "inconclusive",
        "notes": (),
    }


class TestCheck:
    def test_of_a_share(self):
        matched = sides(BEFORE, AFTER)
        found = checked(matched, SLOWER)
        means = [statistics.geometric_mean(each) for each in (BEFORE, AFTER)]
        assert told(found) == expected(
            SLOWER, means, means[1] / means[0], *of_logs(BEFORE, AFTER, 0.97)
        )
        assert (found.model, found.baseline, found.candidate) == (
            "title",
            "A (baseline)",
            "B (candidate)",
        )
        assert found.advice == LEAVE_OUT
        assert found.pair is matched
        # The candidate's two runs vary by 1.1 %, the baseline's by 2 %.
        distance = means[1] / means[0] / 0.97 - 1
        spread = statistics.stdev(BEFORE) / statistics.fmean(BEFORE)
        assert found.runs_needed == max(3, intervals.runs_needed(abs(distance), spread))

    def test_of_an_amount(self):
        found = checked(sides(BEFORE, AFTER), RATE)
        means = [statistics.fmean(each) for each in (BEFORE, AFTER)]
        assert told(found) == expected(
            RATE, means, means[1] - means[0], *of_values(BEFORE, AFTER, -5.0)
        )

    def test_of_step_times(self):
        before, after = ([400 / rate for rate in each] for each in (BEFORE, AFTER))
        means = [statistics.geometric_mean(each) for each in (before, after)]
        found = checked(sides(BEFORE, AFTER), STEP)
        assert told(found) == expected(
            STEP, means, means[1] / means[0], *of_logs(before, after, 1.04)
        )
        means = [statistics.fmean(each) for each in (before, after)]
        found = checked(sides(BEFORE, AFTER), SECONDS)
        assert told(found) == expected(
            SECONDS, means, means[1] - means[0], *of_values(before, after, 0.25)
        )

    def test_of_memory_no_steps_are_told(self):
        memory = (40.0, 40.5, 41.5), (43.0, 42.0)
        means = [statistics.fmean(each) for each in memory]
        # That runs are too short says nothing of their memory.
        found = checked(sides(BEFORE, AFTER, memory=memory, session="short"), MEMORY)
        assert told(found) == expected(
            MEMORY, means, means[1] - means[0], *of_values(*memory, 2.0), basis=None
        )

    @pytest.mark.parametrize(
        ("count", "bounds", "p"), [((2, 2), 1.5, 0.0), ((2, 3), 1.5, 0.0), ((1, 2), None, None)]
    )
    def test_what_never_varies_is_exact_from_two_runs_of_each_on(self, count, bounds, p):
        memory = [[used] * number for used, number in zip((40.0, 41.5), count, strict=True)]
        found = checked(
            sides(BEFORE[: count[0]], (90.0, 91.0, 92.0)[: count[1]], memory=memory), MEMORY
        )
        assert (found.low, found.high, found.p, found.method) == (bounds, bounds, p, None)
        assert (found.change, found.runs) == (1.5, count)

    def test_in_samples_the_threshold_is_of_samples(self):
        matched = sides(BEFORE, AFTER)
        one, other = (
            dataclasses.replace(
                each,
                runs=tuple(dataclasses.replace(run, unit="samples") for run in each.runs),
                values={"samples_per_second_per_gpu": value(2.0)},
            )
            for each in (matched.baseline, matched.system)
        )
        found = checked(dataclasses.replace(matched, baseline=one, system=other), SLOWER)
        # 64 sequences over 8 GPUs, in 400 / rate seconds.
        means = [statistics.geometric_mean(each) * 8 / 400 for each in (BEFORE, AFTER)]
        metric = (found.threshold.metric.name, found.threshold.metric.unit, found.threshold.percent)
        assert metric == ("samples_per_second_per_gpu", "samples/s/GPU", True)
        assert found.values == tuple(map(pytest.approx, means))
        assert found.threshold.amount == 3.0
        steps = checked(dataclasses.replace(matched, baseline=one, system=other), STEP)
        assert steps.threshold == STEP

    @pytest.mark.parametrize(
        ("batches", "each", "both"),
        [
            ((64, 128), STEP, (64, 128)),
            (
                (None, 128),
                SECONDS,
                ("unknown", 128),
            ),
            (
                (64, None),
                STEP,
                (64, "unknown"),
            ),
            (
                (None, None),
                STEP,
                ("unknown", "unknown"),
            ),
            ((64, 64), STEP, None),
            ((64, 128), SLOWER, None),
        ],
    )
    def test_step_times_are_compared_of_one_batch_alone(self, batches, each, both):
        found = checked(sides(BEFORE, AFTER, batch=batches[0], second={"batch": batches[1]}), each)
        assert (found.answer == "not comparable") is (both is not None)
        if both:
            metric = {"metric": "avg_step_time_seconds"}
            differ = note("steps-differ-in-work", **metric, first=both[0], second=both[1])
            assert (found.notes, found.values) == ((differ,), None)
            assert (found.threshold, found.advice) == (each, note("leave-out-threshold", **metric))

    @pytest.mark.parametrize(
        ("memory", "whose"),
        [
            ((None, (1.0, 2.0)), ("the baseline",)),
            (((1.0, 2.0, 3.0), None), ("the candidate",)),
            ((None, None), ("the baseline", "the candidate")),
        ],
    )
    def test_what_nobody_measured(self, memory, whose):
        found = checked(sides(BEFORE, AFTER, memory=memory), MEMORY)
        unknown = note("metric-unknown", metric="peak_memory_reserved_gb", sides=whose)
        assert (found.answer, found.notes) == ("not comparable", (unknown,))
        assert found.threshold is MEMORY
        assert (found.runs, found.values, found.change) == ((0, 0), None, None)

    @pytest.mark.parametrize("zero", [0, 1])
    def test_nothing_has_no_relative_change(self, zero):
        memory = [[0.5, 2.0, 3.0], [0.25, 5.0]]
        memory[zero][1] = 0.0
        share = threshold("peak_memory_reserved_gb=2%")
        found = checked(sides(BEFORE, AFTER, memory=memory), share)
        metric = {"metric": "peak_memory_reserved_gb"}
        assert (found.answer, found.notes, found.advice) == (
            "not comparable",
            (note("metric-is-zero", **metric),),
            note("threshold-in-unit", **metric, unit="GB"),
        )
        assert checked(sides(BEFORE, AFTER, memory=memory), MEMORY).answer == "inconclusive"
        memory[zero][1] = 0.125
        assert checked(sides(BEFORE, AFTER, memory=memory), share).answer == "inconclusive"

    @pytest.mark.parametrize(
        ("short", "who"),
        [
            ((True, False), ("A (baseline)",)),
            ((False, True), ("B (candidate)",)),
            ((True, True), ("A (baseline)", "B (candidate)")),
        ],
    )
    def test_runs_that_are_too_short(self, short, who):
        sessions = [{"session": "short"} if each else {"session": None} for each in short]
        found = checked(sides(BEFORE, AFTER, **sessions[0], second=sessions[1]), SLOWER)
        short = note("too-short", systems=who)
        assert (found.answer, found.notes) == ("inconclusive", (short,))
        assert found.advice == MORE_STEPS
        means = [statistics.geometric_mean(each) for each in (BEFORE, AFTER)]
        assert (found.change, found.runs, found.basis) == (
            pytest.approx(means[1] / means[0]),
            (3, 2),
            STEPS,
        )
        assert (found.low, found.p, found.runs_needed) == (None, None, None)


class TestLoss:
    @pytest.fixture
    def found(self, monkeypatch):
        def make(losses, each=LOSS, counts=(3, 2), **more):
            transforms = []
            monkeypatch.setattr(
                regression, "losses", lambda _, transform: transforms.append(transform) or losses
            )
            check = checked(sides(BEFORE[: counts[0]], AFTER[: counts[1]], **more), each)
            assert transforms == [math.log if each.percent else float]
            return check

        return make

    def test_with_its_interval(self, found):
        check = found(
            Losses(
                BASIS,
                "inconclusive",
                (2.5, 2.6),
                Difference(math.log(1.04), 0.01, 9.0, "batches"),
            )
        )
        bounds = [1.04 * math.exp(sign * scipy.stats.t.ppf(0.975, 9) * 0.01) for sign in (-1, 1)]
        p = 2 * scipy.stats.t.sf(abs(math.log(1.04 / 1.02)) / 0.01, 9)
        assert told(check) == expected(
            LOSS, (2.5, 2.6), 1.04, bounds, p, basis=BASIS, method="batches"
        )
        assert check.runs_needed is None

    def test_in_its_unit_and_of_runs_that_are_short(self, found):
        each = threshold("final_loss=0.25")
        losses = Losses(BASIS, "inconclusive", (2.5, 2.6), Difference(0.1, 0.02, 9.0, "welch"))
        check = found(losses, each, session="short")
        half = scipy.stats.t.ppf(0.975, 9) * 0.02
        p = 2 * scipy.stats.t.sf(0.15 / 0.02, 9)
        assert told(check) == expected(
            each, (2.5, 2.6), 0.1, (0.1 - half, 0.1 + half), p, basis=BASIS
        )

    def test_that_never_varies_is_exact_even_of_single_runs(self, found):
        check = found(Losses(BASIS, "inconclusive", (2.5, 2.6), None), counts=(1, 1))
        assert (check.low, check.high, check.p, check.method) == (
            pytest.approx(1.04),
            pytest.approx(1.04),
            0.0,
            None,
        )

    @pytest.mark.parametrize(
        ("answer", "advice"),
        [
            ("not comparable", note("leave-out-threshold", metric="final_loss")),
            ("inconclusive", LONGER),
        ],
    )
    def test_without_means(self, found, answer, advice):
        check = found(Losses(note("why"), answer))
        assert (check.answer, check.notes, check.advice, check.values) == (
            answer,
            (note("why"),),
            advice,
            None,
        )
        assert (check.threshold, check.basis) == (LOSS, None)


def runs_needed(threshold, baseline, candidate, change, difference):
    check = Check(
        "t",
        "A",
        "B",
        "inconclusive",
        (),
        threshold=threshold,
        change=change,
        runs=(len(baseline), len(candidate)),
    )
    measured = regression._Measured(baseline, candidate, difference)
    return regression._runs_needed(check, measured)


@pytest.mark.parametrize(
    ("each", "baseline", "candidate", "change", "difference", "distance", "spread"),
    [
        # Without an interval a spread of 1 % is assumed, or that of the side with several runs.
        (SLOWER, [100.0], [95.0], 0.95, None, 0.95 / 0.97 - 1, 0.01),
        (
            SLOWER,
            [100.0, 104.0],
            [95.0],
            0.93,
            None,
            0.93 / 0.97 - 1,
            statistics.stdev([100, 104]) / 102,
        ),
        (
            SLOWER,
            [100.0],
            [94.0, 99.0, 95.0],
            0.96,
            None,
            0.96 / 0.97 - 1,
            statistics.stdev([94, 99, 95]) / 96,
        ),
        # The larger one of the spreads, or the error's where that is larger.
        (
            SLOWER,
            [100, 102],
            [94, 99],
            0.9,
            Difference(0.1, 0.001, 2.0),
            0.9 / 0.97 - 1,
            statistics.stdev([94, 99]) / 96.5,
        ),
        (SLOWER, [100, 103], [98, 99], 0.9, Difference(0.1, 0.05, 2.0), 0.9 / 0.97 - 1, 0.05),
        (
            SLOWER,
            [100, 103],
            [98, 99],
            0.9,
            Difference(0.1, 0.05, 2.0, "paired"),
            0.9 / 0.97 - 1,
            0.05,
        ),
        (
            SLOWER,
            [100, 140, 90, 100],
            [98, 99, 100, 120],
            0.95,
            Difference(0.1, 0.01, 3.0, "paired"),
            0.95 / 0.97 - 1,
            0.01 / math.sqrt(1 / 2),
        ),
        (
            SLOWER,
            [100],
            [98, 99, 97],
            0.9,
            Difference(0.1, 0.05, 2.0, "prediction"),
            0.9 / 0.97 - 1,
            0.05 / math.sqrt(4 / 3),
        ),
        (
            SLOWER,
            [100, 101, 111],
            [98],
            0.93,
            None,
            0.93 / 0.97 - 1,
            statistics.stdev([100, 101, 111]) / 104,
        ),
        # An amount, relative to the baseline's mean.
        (MEMORY, [40.0, 40.0, 70.0], [60.0], 20.0, None, 18 / 50, math.sqrt(300) / 50),
        (
            MEMORY,
            [40.0, 41.0, 45.0],
            [43.0],
            3.0,
            Difference(1.0, 4.2, 2.0),
            1 / 42,
            4.2 / math.sqrt(4 / 3) / 42,
        ),
        (MEMORY, [40.0], [43.0], 3.0, None, 1 / 40, 0.01),
        (MEMORY, [40.0, 44.0], [43.0, 43.5], 1.0, Difference(1.0, 4.2, 2.0), -1 / 42, 0.1),
        (MEMORY, [-40.0, -44.0], [43.0, 43.5], 1.0, Difference(1.0, 4.2, 2.0), -1 / 42, 0.1),
        (
            RATE,
            [100.0, 101.0],
            [94.0, 95.0],
            -6.0,
            Difference(-6, 0.1, 2.0),
            1 / 100.5,
            statistics.stdev([94, 95]) / 94.5,
        ),
    ],
)
def test_the_runs_that_would_decide(
    each, baseline, candidate, change, difference, distance, spread
):
    found = runs_needed(each, baseline, candidate, change, difference)
    needed = intervals.runs_needed(abs(distance), spread, most=100)
    assert found == (needed and max(needed, min(len(baseline), len(candidate)) + 1))


def test_one_more_run_than_the_side_with_fewer_has_is_asked_for_at_least():
    near = [100.0 + number / 1000 for number in range(5)]
    far = [50.0 + number / 1000 for number in range(4)]
    assert runs_needed(SLOWER, near, far, 0.5, None) == 5
    assert runs_needed(SLOWER, near, far[:2], 0.5, None) == 3
    # Of nothing, each amount is far from the threshold; and the spread is that of the values
    # themselves.
    assert runs_needed(MEMORY, [0.0], [3.0], 3.0, None) == 2
    assert runs_needed(MEMORY, [0.0], [3.0, 3.0, 4.0], 3.0, Difference(3.0, 0.1, 2.0)) == 2
    assert runs_needed(SLOWER, [100.0], [97.0], 0.97, None) is None


BASE = Check(
    "m",
    "a",
    "b",
    "inconclusive",
    (),
    SLOWER,
    (100.0, 96.0),
    (3, 3),
    0.96,
    0.95,
    0.98,
    "welch",
    0.03,
    0.03,
)


def of(**fields):
    return dataclasses.replace(BASE, **fields)


@pytest.mark.parametrize(
    ("check", "excess"),
    [
        (BASE, 0.01),
        (of(change=0.98), -0.01),
        (of(change=None), None),
        (of(threshold=None), None),
        (of(threshold=RATE, change=-7.0), 2.0),
        (of(threshold=RATE, change=-4.0), -1.0),
        (of(threshold=STEP, change=1.06), 0.02),
        (of(threshold=SECONDS, change=0.125), -0.125),
    ],
)
def test_how_far_a_change_is_beyond_the_threshold(check, excess):
    assert check.excess == (None if excess is None else pytest.approx(excess))


VARY_LESS = note("vary-less", most=100)
SET_ONE = note("set-threshold")
BEYOND = {"threshold": "3% slower"}
INCLUDES = note("interval-includes-threshold", level="95%")
NONE = {"low": None, "high": None}
SAID, DO = note("said"), note("do")


@pytest.mark.parametrize(
    ("check", "excess", "why", "advice"),
    [
        (
            of(low=0.95, high=0.98, runs_needed=7),
            0.01,
            note("interval-includes-threshold", **BEYOND, level="95%"),
            note("measure-runs", runs=7),
        ),
        (
            of(low=0.95, high=0.98, runs_needed=7),
            0.0,
            INCLUDES,
            note("measure-runs", runs=7),
        ),
        (
            of(low=0.97, high=0.98, runs_needed=7),
            -0.01,
            INCLUDES,
            note("measure-runs", runs=7),
        ),
        (
            of(low=0.95, high=0.97, runs_needed=7),
            -0.01,
            INCLUDES,
            note("measure-runs", runs=7),
        ),
        (
            of(low=0.95, high=0.969, runs_needed=7),
            0.01,
            note("not-significant", **BEYOND, checks=5),
            note("measure-runs", runs=7),
        ),
        (
            of(low=0.971, high=0.98, runs_needed=7),
            -0.01,
            note("not-significant", checks=5),
            note("measure-runs", runs=7),
        ),
        (
            of(**NONE, runs=(1, 1), runs_needed=4),
            0.01,
            note("variation-unknown", **BEYOND, baseline=1, candidate=1),
            note("measure-runs", runs=4, spread=0.01),
        ),
        (
            of(**NONE, runs=(2, 1), runs_needed=3),
            -0.01,
            note("variation-of-sides-unknown", baseline=2, candidate=1),
            note("measure-runs", runs=3),
        ),
        # Where one side has enough runs, those of the other.
        (
            of(runs=(2, 5), runs_needed=5),
            -0.01,
            INCLUDES,
            note("measure-baseline-runs", runs=5),
        ),
        (
            of(runs=(5, 2), runs_needed=5),
            -0.01,
            INCLUDES,
            note("measure-candidate-runs", runs=5),
        ),
        (
            of(runs=(5, 2), runs_needed=4),
            -0.01,
            INCLUDES,
            note("measure-candidate-runs", runs=4),
        ),
        (
            of(runs=(5, 2), runs_needed=6),
            -0.01,
            INCLUDES,
            note("measure-runs", runs=6),
        ),
        (BASE, -0.01, INCLUDES, VARY_LESS),
        (of(threshold=parse("0%", ())[0], low=0.95, high=1.02), -0.01, INCLUDES, SET_ONE),
        (
            of(threshold=parse("0%", ())[0], low=0.95, high=1.02, runs_needed=9),
            -0.01,
            INCLUDES,
            note("measure-runs", runs=9),
        ),
        (
            of(threshold=LOSS, low=1.0, high=1.04, runs_needed=9),
            0.01,
            note("interval-includes-threshold", threshold="+2%", level="95%"),
            LONGER,
        ),
        (of(threshold=LOSS, low=1.0, high=1.04), -0.01, INCLUDES, LONGER),
        (of(notes=(SAID,), advice=DO, runs_needed=7), 0.01, SAID, DO),
    ],
)
def test_why_a_check_is_inconclusive(check, excess, why, advice):
    assert regression._undecided(check, excess, 5) == dataclasses.replace(
        check, notes=(why,), advice=advice
    )


@pytest.mark.parametrize(
    ("check", "answer", "why"),
    [
        (
            of(p_adjusted=0.049, low=0.95, high=0.969),
            "worse",
            note("beyond-threshold", level="95%"),
        ),
        (of(p_adjusted=1 - 0.95, low=0.95, high=0.969), "inconclusive", None),
        (of(p_adjusted=0.049, change=0.98), "within", note("within-threshold", level="95%")),
        (of(p_adjusted=0.0, low=0.96, high=0.96), "worse", note("change-beyond-threshold")),
        (
            of(p_adjusted=0.0, change=0.98, low=0.98, high=0.98),
            "within",
            note("change-within-threshold"),
        ),
        (of(p_adjusted=None), "inconclusive", None),
        # A change that equals the threshold, but for rounding, doesn't exceed it.
        (
            of(p_adjusted=0.0, change=0.97, low=0.97, high=0.97),
            "within",
            note("change-within-threshold"),
        ),
        (
            of(p_adjusted=0.0, change=0.97 - 9e-10, low=0.96, high=0.96),
            "within",
            note("change-within-threshold"),
        ),
        (
            of(p_adjusted=0.0, change=0.97 - 1.1e-9, low=0.96, high=0.96),
            "worse",
            note("change-beyond-threshold"),
        ),
        (of(p_adjusted=0.0, change=0.97), "inconclusive", None),
        (of(p_adjusted=None, change=0.97, low=0.97, high=0.97), "inconclusive", None),
        (
            of(threshold=RATE, p_adjusted=0.0, change=-5.0 - 4.9e-9, low=1, high=1),
            "within",
            note("change-within-threshold"),
        ),
        (
            of(threshold=RATE, p_adjusted=0.0, change=-5.0 - 5.1e-9, low=1, high=1),
            "worse",
            note("change-beyond-threshold"),
        ),
    ],
)
def test_the_answer(check, answer, why):
    check = dataclasses.replace(check, runs_needed=7, advice=DO)
    found = regression._answered(check, check.excess, 5)
    if why is None:
        assert found == regression._undecided(check, check.excess, 5)
        assert found.answer == "inconclusive"
    else:
        assert found == dataclasses.replace(
            check, answer=answer, notes=(why,), runs_needed=None, advice=None
        )


def test_holm_corrects_all_that_have_a_p_value():
    certain, close = of(p=0.001, change=0.98), of(p=0.03, change=0.98)
    untested, refused = (
        of(p=None, low=None, high=None),
        of(threshold=None, answer="not comparable", notes=(SAID,)),
    )
    refused = dataclasses.replace(refused, p=None, p_adjusted=None)
    found = regression._decided([close, untested, certain, refused, close])
    # Three tests: 0.001 · 3, 0.03 · 2, and no less for the next one.
    assert [each.p_adjusted for each in found] == [
        pytest.approx(0.06),
        None,
        pytest.approx(0.003),
        None,
        pytest.approx(0.06),
    ]
    assert [each.answer for each in found] == [
        *("inconclusive", "inconclusive", "within", "not comparable", "inconclusive")
    ]
    assert found[3] == refused
    assert regression._decided([close])[0].answer == "within"
    apart = of(p=0.04, low=0.95, high=0.969)
    for checks in ([apart] * 2, [apart, apart, untested, refused]):
        (why,) = regression._decided(checks)[1].notes
        assert why == note("not-significant", **BEYOND, checks=2)


@pytest.mark.parametrize(
    ("answers", "fails", "status"),
    [
        (("within",), False, ExitStatus.OK),
        (("within", "worse", "inconclusive"), False, ExitStatus.SLOWER),
        (("inconclusive", "within"), False, ExitStatus.OK),
        (("inconclusive", "within"), True, ExitStatus.INCONCLUSIVE),
        (("worse", "not comparable"), True, ExitStatus.NOT_COMPARABLE),
        (("not comparable", "implausible", "worse"), False, ExitStatus.IMPLAUSIBLE),
        ((), True, ExitStatus.OK),
    ],
)
def test_the_status_of_all(answers, fails, status):
    checks = tuple(of(answer=each) for each in answers)
    assert RegressionCheck(checks, (), (), fails).status == status
    assert RegressionCheck(checks, (), ()).status == RegressionCheck(checks, (), (), False).status


class TestRefusals:
    def test_the_same_measurement(self):
        one = system("A", *runs(BEFORE, 1))
        other = system("B", *runs(AFTER, 11), dataclasses.replace(one.runs[1], file="x.json"))
        found = regression._checks("t", pair_of(one, other, ratio=FASTER), [SLOWER, STEP], None)
        assert [(each.answer, each.notes, each.advice, each.threshold) for each in found] == [
            (
                "not comparable",
                (note("same-run", file="x.json"),),
                note("choose-other-candidate"),
                None,
            )
        ]
        # Runs that don't count are no matter.
        unused = dataclasses.replace(
            other, runs=(*other.runs[:2], dataclasses.replace(other.runs[2], is_valid=False))
        )
        assert (
            len(regression._checks("t", pair_of(one, unused, ratio=FASTER), [SLOWER, STEP], None))
            == 2
        )

    @pytest.mark.parametrize(
        ("before", "after", "batches", "thresholds", "answer", "code"),
        [
            ((), (), (64, 64), [SLOWER, STEP], "not comparable", "why"),
            (("error",), (), (64, 64), [SLOWER], "implausible", "why"),
            (("unverified",), ("error",), (None, 64), [STEP], "implausible", "why"),
            (("unverified",), ("warning",), (None, 64), [STEP], "not comparable", "why"),
            (
                (),
                (),
                (None, 64),
                [STEP, SECONDS],
                "not comparable",
                "batch-unknown",
            ),
            (
                (),
                (),
                (64, None),
                [STEP],
                "not comparable",
                "batch-unknown",
            ),
            ((), (), (64, None), [STEP, SLOWER], "not comparable", "why"),
            ((), (), (64, 32), [STEP], "not comparable", "why"),
        ],
    )
    def test_without_a_ratio(self, before, after, batches, thresholds, answer, code):
        matched = sides(BEFORE, AFTER, ratio=None, batch=batches[0], second={"batch": batches[1]})
        one, other = (
            dataclasses.replace(
                each, findings=tuple(finding_of(severity, "x", "y") for severity in severities)
            )
            for each, severities in ((matched.baseline, before), (matched.system, after))
        )
        matched = dataclasses.replace(matched, baseline=one, system=other)
        (found,) = regression._checks("t", matched, thresholds, None)
        assert found == Check("t", one.name, other.name, answer, (note(code),), pair=matched)
        (found,) = regression._checks(
            "t", dataclasses.replace(matched, reasons=()), thresholds, None
        )
        assert found.notes == (note("no-values" if code == "why" else code),)


def stepped(name, *ranges):
    return system(
        name,
        *(
            result(steady=Steady(first_step=each and each[0], last_step=each and each[1]))
            for each in ranges
        ),
    )


@pytest.mark.parametrize(
    ("own", "cut", "steps"),
    [
        ([[(4, 60)], [(6, 60)]], [[(4, 60)], [(6, 60)]], None),
        # Another end, and another start.
        ([[(6, 60)], [(6, 90), (6, 80)]], [[(6, 60)], [(6, 60), (6, 70)]], (6, 60)),
        ([[(4, 60), (8, 60)], [(6, 60)]], [[(8, 60), (8, 60)], [(10, 60)]], (10, 60)),
        ([[(4, 60)], [(6, 60)]], [[None], [None]], None),
        ([[None], [None]], [[None], [None]], None),
        ([[(4, 60)], [(6, 60)]], [[(4, 60)], [None]], (4, 0)),
    ],
)
def test_the_steps_that_all_have(own, cut, steps):
    own, cut = (
        [stepped(name, *each) for name, each in zip("AB", of, strict=True)] for of in (own, cut)
    )
    assert regression._common_steps(own, cut) == (
        steps and note("steps-in-common", first=steps[0], last=steps[1])
    )


def unit(name, *, samples=False, **fields):
    return system(name, result(100.0, make_run(**fields), unit="samples" if samples else "tokens"))


MLPERF = {"framework": "mlperf"}


@pytest.mark.parametrize(
    ("one", "other", "in_samples"),
    [
        ({}, {"length": 4096}, False),
        ({"length": None}, {"length": None}, True),
        ({"length": None}, {"length": None, "batch": 32}, False),
        ({"length": None, "batch": None}, {"length": None, "batch": None}, False),
        ({"length": None}, {}, False),
        ({**MLPERF, "length": None}, {**MLPERF, "batch": 32}, True),
        ({**MLPERF}, {**MLPERF, "length": 4096}, False),
        ({**MLPERF, "length": None}, {"batch": 32}, False),
    ],
)
def test_the_unit_of_two_systems(one, other, in_samples):
    for samples in ((False, False), (True, False), (False, True), (True, True)):
        systems = [
            unit(name, samples=each, **fields)
            for name, each, fields in zip("AB", samples, (one, other), strict=True)
        ]
        found = regression._of_one_unit(*systems)
        assert [each.unit for each in found] == ["samples" if in_samples else "tokens"] * 2
        assert [each.name for each in found] == ["A", "B"]
        # What has the unit already stays as it is.
        assert [each is given for each, given in zip(found, systems, strict=True)] == [
            each == in_samples for each in samples
        ]


def keyed(name, **fields):
    return system(name, result(100.0, make_run(**fields)))


NEWER = Environment(versions={"torch": "3.0"})


def test_systems_are_matched_by_their_setup():
    one, other, third = keyed("A"), keyed("B", precision="fp8"), keyed("C", batch=32)

    def matched(*sets):
        pairs = regression._matched_pairs(*sets)
        return [(a.name, b and b.name, reason) for a, b, reason in pairs]

    assert matched([one], [other]) == [("A", "B", None)]
    assert matched([one], []) == [("A", None, None)]
    assert matched([one], [other, third]) == [("A", None, None)]
    twin = keyed("D", environment=NEWER)
    assert matched([one, other], [keyed("E", precision="fp8"), twin]) == [
        ("A", "D", None),
        ("B", "E", None),
    ]
    assert matched([one, twin], [keyed("E")]) == [
        (name, None, note("several-match", baselines=2, candidates=1)) for name in ("A", "D")
    ]
    assert matched([one], [twin, keyed("E"), third]) == [
        ("A", None, note("several-match", baselines=1, candidates=2))
    ]
    assert matched([one, twin, third], [keyed("E"), keyed("F"), keyed("G", batch=32)]) == [
        ("A", None, note("several-match", baselines=2, candidates=2)),
        ("D", None, note("several-match", baselines=2, candidates=2)),
        ("C", "G", None),
    ]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"model": None}, 1),
        ({"model": "x"}, 2),
        ({"model": None, "model_config": {"num_layers": 3}}, 2),
    ],
)
def test_systems_of_a_model_that_nobody_names_stand_for_one_reason(fields, count):
    config = make_run().model_config
    fields = {
        **fields,
        "model_config": msgspec.structs.replace(config, **fields.get("model_config", {})),
    }
    assert len(regression._comparable([keyed("A", **fields), keyed("B", **fields)])) == count


def files(kind, *groups):
    return [
        Loaded(f"{kind}_{number}.json", str(number) * 64, tuple(each))
        for number, each in enumerate(groups)
    ]


def measured(step_time, day, count=2, **fields):
    return [
        make_run(
            step_time=step_time + place / 1000,
            timestamp=f"2026-03-{day + place:02d}T00:00:00+00:00",
            **fields,
        )
        for place in range(count)
    ]


class TestWhole:
    def test_notes_and_order(self):
        before = files(
            "old",
            measured(3.2, 1),
            measured(3.0, 5, model="qwen"),
            measured(3.3, 9, model="qwen", batch=32),
        )
        after = files(
            "new",
            measured(3.25, 11),
            measured(2.9, 15, model="qwen"),
            measured(2.9, 17, model="mistral"),
        )
        found = check_regression(before, after, [STEP], notes=notes_of("first"))
        assert [
            (each.model, each.baseline, each.candidate, each.answer) for each in found.checks
        ] == [
            ("Qwen 2.5 7B", "batch 64 (baseline)", "8×H100 (BF16) (candidate)", "within"),
            ("Qwen 2.5 7B", "batch 32", None, "not comparable"),
            ("Llama 3.1 8B", "8×H100 (BF16) (baseline)", "8×H100 (BF16) (candidate)", "within"),
        ]
        assert found.checks[1] == Check(
            "Qwen 2.5 7B",
            "batch 32",
            None,
            "not comparable",
            (note("candidate-absent"),),
            advice=note("measure-candidate"),
        )
        assert [each.pair for each in found.checks] == [found.pairs[0], None, found.pairs[1]]
        assert found.notes == (
            note("text", text="first"),
            note("throughput-unchecked"),
            note("systems-without-baseline", model="Mistral 7B", systems=("8×H100 (BF16)",)),
        )
        assert found.fail_on_inconclusive is False
        assert (
            check_regression(before, after, [STEP], fail_on_inconclusive=True).fail_on_inconclusive
            is True
        )
        (only,) = check_regression(before, after, [SLOWER], model="llama").checks
        assert only.model == "Llama 3.1 8B"

    def test_a_baseline_without_a_run(self):
        found = check_regression(files("old", ()), files("new", measured(3.2, 1)), [SLOWER])
        assert found.checks == (
            Check(
                "all results",
                None,
                None,
                "not comparable",
                (note("baseline-empty"),),
                advice=CHOOSE,
            ),
        )
        assert found.notes == (
            note("systems-without-baseline", model="Llama 3.1 8B", systems=("8×H100 (BF16)",)),
        )

    def test_e1_without_a_baseline(self):
        found = check_regression([], files("new", measured(3.2, 1)), [SLOWER])
        assert (found.checks, found.notes, found.first_not_passed) == ((FIRST,), (), None)

    def test_several_that_match_ask_for_a_choice(self):
        before = files("old", measured(3.2, 1), measured(3.2, 5, environment=NEWER))
        found = check_regression(before, files("new", measured(3.3, 11)), [SLOWER])
        several = note("several-match", baselines=2, candidates=1)
        assert [(each.notes, each.advice) for each in found.checks] == [((several,), CHOOSE)] * 2
        assert found.pairs == ()

    def test_what_a_source_says_twice_and_the_notes_of_each_set(self):
        twice = ("timer mismatch: x 1.000 s, host clock 2.000 s; step times may be wrong",)
        clocks = {"clock": "x", "seconds": 1.0, "host": 2.0}
        before = files(
            "old",
            measured(3.2, 1, notes=notes_of(*twice)),
            measured(3.2, 1, notes=notes_of(*twice)),
        )
        after = files("new", measured(3.3, 11, notes=notes_of(*twice), precision=None))
        found = check_regression(before, after, [SLOWER], options=Options(precision="bf16"))
        assert found.notes == (
            note("precision-given", precision="bf16", files=("new_0.json",)),
            note("run-again", file="old_1.json", other="old_0.json", system="baseline"),
            note("timer-mismatch", **clocks, system="8×H100 (BF16) (baseline)"),
            note("timer-mismatch", **clocks, system="8×H100 (BF16) (candidate)"),
        )

    def test_in_samples(self):
        before, after = (
            files(kind, measured(3.2, day, length=None, **MLPERF))
            for kind, day in (("old", 1), ("new", 9))
        )
        found = check_regression(before, after, [SLOWER])
        assert found.notes == (note("checked-in-samples", model="Llama 3.1 8B"),)

    def test_in_samples_it_is_told_of_a_ratio_alone(self):
        days = (("old", 1, 16), ("new", 9, 32))
        before, after = (
            files(kind, measured(3.2, day, batch=batch, length=None, **MLPERF))
            for kind, day, batch in days
        )
        found = check_regression(before, after, [SLOWER], mode="same")
        assert (found.pairs[0].ratio, found.pairs[0].system.unit, found.notes) == (
            None,
            "samples",
            (),
        )

    def test_a_precision_of_one_side_alone(self):
        before = files("old", measured(3.2, 1, precision=None))
        after = files("new", measured(2.9, 9, device=MI300X, stack="rocm"))
        found = check_regression(
            before, after, [SLOWER], options=Options(precisions={"H100": "bf16"})
        )
        assert found.notes == (note("precision-given", precision="bf16", files=("old_0.json",)),)
        assert found.checks[0].baseline == "8×H100 (BF16) (baseline)"

    def test_in_the_same_mode(self):
        before, after = files("old", measured(3.2, 1)), files("new", measured(3.21, 9, batch=32))
        (check,) = check_regression(before, after, [SLOWER], mode="same").checks
        assert check.notes == (note("configurations-not-equal", settings=("global batch",)),)
        (check,) = check_regression(before, after, [SLOWER]).checks
        assert check.answer != "not comparable"

    def test_the_steps_that_both_have(self):
        before, after = files("old", measured(3.2, 1, steps=80)), files("new", measured(3.21, 9))
        (check,) = check_regression(before, after, [SLOWER]).checks
        assert check.basis == note("steps-in-common", first=4, last=60)
        assert [each.summary.stop for each in check.pair.baseline.runs] == [60, 60]
