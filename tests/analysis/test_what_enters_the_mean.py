"""Which records count: queued ones, a fast first one, alternating ones, a single slow one, a start
that isn't slow.
"""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from limits import limits
from stored_runs import series
from tool_modules import load_tool

from tprimat import api
from tprimat.analysis import records, stats, warmup
from tprimat.analysis.summary import summarize
from tprimat.results.run import Run, Source
from tprimat.watch.state import state_of

QUEUED = [2.1, 0.31, 64.2, 127.9, 0.012, 63.9]
"""Of a host that runs ahead; its time stamps are 64 s apart."""

EVEN = [0.99, 1.0, 1.01]


def logged(times, **fields):
    return Run(**{**series(times), "source": Source(kind="log"), "platform": "nvd", **fields})


def mean_of(times):
    return summarize(logged(times)).performance.avg_step_time_seconds


def start(times):
    return warmup.first_steady_index(times)


def notes(times, **fields):
    return [
        each for each in summarize(logged(times, **fields)).warnings if "mean includes it" in each
    ]


@pytest.fixture
def case(samples):
    """The only run of a small input."""

    def run_of(name, pattern=None):
        path = samples.parent / "cases" / "4" / name
        if not path.is_file():
            pytest.skip("the directory of cases does not lie beside this clone")
        (run,) = api.read_log(path, pattern=pattern).runs
        return run

    return run_of


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("b_38_maxtext_async_watch.log", 63.9, 64.7),
        ("b_38b_async_artefact_is_last_but_one.log", 63.9, 64.7),
        ("c_fast_first_step_12.log", 14.95, 15.05),
        ("c_fast_first_step_30.log", 14.95, 15.05),
        ("b_02_grpo_generation_every_other_step.jsonl", 12.0, 12.3),
    ],
)
def test_t4_small_inputs(case, name, low, high):
    assert low <= summarize(case(name)).performance.avg_step_time_seconds <= high


@pytest.mark.parametrize(
    "name", ["b_38_maxtext_async_watch.log", "b_38b_async_artefact_is_last_but_one.log"]
)
def test_t4_the_last_ten_of_a_watch_leave_out_what_was_only_queued(case, name):
    assert 63.9 <= state_of(case(name)).recent_s <= 64.7


@pytest.mark.parametrize("count", [4, 5, 6])
def test_t4_a_queued_step_is_none_in_a_growing_log(count):
    assert mean_of(QUEUED[:count]) == pytest.approx(64.05, abs=0.16)
    assert state_of(logged(QUEUED[:count])).recent_s == pytest.approx(64.05, abs=0.16)


@pytest.mark.parametrize("place", range(1, 9))
def test_t4_an_impossible_step_is_none_wherever_it_stands(place):
    times = [5.0] * 9
    times[place] = 0.01
    assert records.dispatch_artifacts(logged(times)) == ((place + 1,), ())
    assert mean_of(times) == 5.0


@pytest.mark.parametrize(
    "times", [[2.0, 30.0] * 6, [30.0, 2.0] * 6, [0.01, 9.8] * 6, [9.8, 0.01] * 6]
)
@pytest.mark.parametrize("count", [6, 11, 12])
def test_t4_steps_that_alternate_are_no_artifacts(times, count):
    assert records.dispatch_artifacts(logged(times[:count])) == ((), ())


def alternating(values):
    return stats.alternates(values)


@limits(
    ("count", lambda count: alternating(([1.0, 2.0] * 3)[:count]), (5, False), (6, True)),
    (
        "every second",
        lambda off: alternating([1.0, 2.0, 1.0 + off, 2.0 + off] * 5),
        (0.19, True),
        (0.26, False),
    ),
    ("swing", lambda swing: alternating([1.0, 1.0 + swing] * 10), (0.104, False), (0.107, True)),
)
def test_t5_what_alternates(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_t5_noise_and_changes_of_speed_do_not_alternate():
    random = np.random.default_rng(4)
    found = [
        alternating(random.lognormal(0, spread, 12).tolist())
        for spread in (0.1, 0.3, 1.0)
        for _ in range(300)
    ]
    assert sum(found) <= 9
    assert not alternating([1.0] * 10 + [3.0] * 10)
    assert not alternating(np.linspace(1, 9, 20).tolist())
    assert not alternating(QUEUED)


@limits(
    ("fraction", lambda first: start([first] + [1.0] * 20), (0.979, 1), (0.981, 0)),
    # 4 × 1.4826 × 0.01
    ("sigmas", lambda first: start([first] + EVEN * 8), (0.939, 1), (0.942, 0)),
    ("a faster part", lambda second: start([0.5, second] + [1.0] * 20), (0.74, 0), (0.76, 1)),
    (
        "records",
        lambda count: summarize(logged([0.5] + [1.0] * count)).steady.first_step,
        (1, 1),
        (2, 2),
    ),
    ("not judged otherwise", lambda count: start([0.5] + [1.0] * count), (8, None), (9, 1)),
)
def test_t4_a_fast_first_record(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_t4_a_slow_start_behind_a_fast_first_record_is_cut_too():
    assert start([0.3, *[3.0] * 4, *[1.0] * 30]) == 5


def test_t4_a_first_record_of_our_own_recorder_is_judged_alike():
    assert summarize(logged([0.5] + [1.0] * 20, source=Source(kind="live"))).steady.first_step == 2


def test_t4_noise_is_rarely_a_fast_first_record():
    random = np.random.default_rng(2)
    fast = [
        warmup.starts_fast(random.normal(1, 0.03, int(random.integers(10, 100))))
        for _ in range(1000)
    ]
    assert sum(fast) <= 5


@pytest.mark.parametrize("kind", ["iid 0.3%", "t3"])
def test_t4_equal_systems_of_which_one_starts_fast_are_not_different(kind):
    tool = load_tool("simulate_comparisons")
    tally = tool.simulate(25, np.random.default_rng(3), kind, 0.001, (10, 60), tool.one_fast)
    assert tally.different <= 3
    assert tally.found >= 22


@pytest.mark.parametrize("levels", [(21.1, 3.4), (3.4, 21.1), (1.0, 1.6)])
@pytest.mark.parametrize("factor", [1.2, 3.0])
def test_t5_alternation_hides_no_slow_start(levels, factor):
    random = np.random.default_rng(1)
    kept = []
    for index in range(60):
        slow, count = (0, 2, 5, 8)[index % 4], (31, 40, 101)[index % 3]
        times = np.resize(levels, count) * random.normal(1, 0.01, count)
        times[:slow] *= factor
        first = start(times.tolist())
        # Three percent of two steps are lost in noise. As many fast steps as slow ones are left.
        assert first >= slow - 1
        assert (count - first) % 2 == 0
        assert mean_of(times.tolist()) == pytest.approx(statistics.fmean(levels), rel=0.015)
        kept.append((count - first) / (count - slow))
    assert np.mean(kept) > 0.9


def test_t5_alternation_hides_no_single_slow_step():
    assert start([45.0, 9.0, 160.0, *[3.4, 21.1] * 18]) in (3, 4)
    # Ten records are too few to tell.
    assert start([3.4, 21.1] * 5) == 0


@limits(
    ("place", lambda place: start([1.0] * place + [40.0] + [1.0] * 30), (4, 5), (5, 0)),
    ("times", lambda time: start([1.0, 1.0, time] + [1.0] * 30), (9.9, 0), (10.1, 3)),
    (
        "a pause that comes again",
        lambda later: start([1.0, 1.0, 40.0] + [1.0] * 30 + [later]),
        (3.9, 3),
        (4.1, 0),
    ),
)
def test_t5_a_single_slow_record_of_the_start_up(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    "name", ["b_03_one_slow_record_not_first.log", "b_03b_second_of_102_slow.log"]
)
def test_t5_small_inputs_with_one_slow_record(case, name):
    summary = summarize(case(name, "iter {step} loss {loss} time: {time}ms"))
    assert summary.performance.avg_step_time_seconds == pytest.approx(0.150, abs=0.001)
    assert 3 <= summary.steady.first_step <= 4


def with_one(time, count=30, place=12):
    times = [1.0] * count
    times[place] = time
    return times


@limits(
    ("times", lambda time: len(notes(with_one(time))), (1.39, 0), (1.41, 1)),
    # 1.5 s beyond the others, of 1 + count + 1.5 s
    ("share", lambda count: len(notes(with_one(2.5, count))), (147, 1), (150, 0)),
    ("others", lambda count: len(notes([*[1.0] * (count - 1), 9.0, 1.0])), (2, 0), (3, 1)),
    ("two", lambda time: len(notes([*with_one(4.0), time])), (2.8, 1), (2.9, 0)),
)
def test_t5_a_single_slow_record_is_told(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_t5_its_words():
    assert notes(with_one(5.4)) == [
        "the record of step 13 takes 5.4× as long as any other; the mean includes it"
    ]
    assert notes(with_one(5.4, place=29)) == [
        "the last record (step 30) takes 5.4× as long as any before it; the mean includes it"
    ]
    # A start that fades is none.
    assert notes([2.0 ** (9 - index) for index in range(10)]) == []


def test_t5_what_is_faster_than_the_rest_is_no_slow_start():
    evaluated = [7.4, 7.4, 54.0] * 30
    assert start([7.5] * 25 + evaluated) == 0
    # Pauses in a tenth of the rest are exceptions, and the start is told as slower than typical
    # records.
    paused = [7.5] * 25 + ([7.4] * 11 + [54.0]) * 6
    assert start(paused) == 25
    assert any(
        "they take 1.01× the time of those after" in each
        for each in summarize(logged(paused)).warnings
    )
