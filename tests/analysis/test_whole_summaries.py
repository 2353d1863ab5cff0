"""Summaries of small runs, whole: every field, by hand."""

from __future__ import annotations

import dataclasses
import math
import statistics

import msgspec
import pytest
from stored_runs import series

from tprimat.analysis import intervals
from tprimat.analysis.segments import Segment
from tprimat.analysis.summary import (
    SegmentMetrics,
    Summary,
    UnlikeBlock,
    mean_over_blocks,
    rounded,
    rounding_variance,
    summarize,
)
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.account import Entry, Timing
from tprimat.results.run import Environment, PerformanceMetrics, Run, Source, Steady, TrainingConfig
from tprimat.results.telemetry import Telemetry, TelemetryIssue

TOKENS = 64 * 2048


def a_run(times, windows=None, *, gpus=8, batch=64, length=2048, kind="live", **fields):
    windows = windows or (1,) * len(times)
    config = TrainingConfig(global_batch_size=batch, sequence_length=length, num_gpus=gpus)
    steps = tuple(sum(windows[: index + 1]) for index in range(len(windows)))
    known = {"training_config": config, "source": Source(kind=kind)}
    return Run(**{**series(times, window_steps=tuple(windows), steps=steps), **known, **fields})


def near(value):
    return pytest.approx(value, rel=1e-12)


def test_four_steps_of_which_the_first_is_slow():
    sample = [3.0, 4.0, 8.0]
    assert summarize(a_run([9.0, *sample], loss_values=(9.0, 8.0, None, 6.0))) == Summary(
        Steady(first_step=2, last_step=4, method="all_after_first", found=False),
        PerformanceMetrics(
            total_steps=4,
            total_time_seconds=24.0,
            avg_step_time_seconds=5.0,
            median_step_time_seconds=4.0,
            min_step_time_seconds=3.0,
            max_step_time_seconds=8.0,
            std_step_time_seconds=near(math.sqrt(7)),
            steps_per_second=0.2,
            tokens_per_second=TOKENS / 5,
            tokens_per_second_per_gpu=TOKENS / 40,
            warmup_time_seconds=9.0,
            final_loss=6.0,
        ),
        (Note("too-few-records", {"used": "the steps after step 1", "count": 4, "least": 10}),),
        rounding=0.1 / 5,
        clock="timer",
        skipped=1,
        stop=4,
        assumed_start=1,
        within=intervals.run_mean(sample),
        found=(),
    )


def test_windows_of_several_steps():
    """Steps 1 to 12 are a warm-up of 29.5 s; from then on, each record averages two steps."""
    times = [3.0, 2.0, 2.5, 2.0, 2.2, 2.0, 1.9, 2.1, 2.0, 2.0, 2.3]
    windows = [3, 2, 5, 2, *[2] * 7]
    sample, mean = times[4:], 14.5 / 7
    assert summarize(a_run(times, windows, loss_values=tuple(map(float, range(11))))) == Summary(
        Steady(first_step=13, last_step=26, method="least_variance", found=True),
        PerformanceMetrics(
            total_steps=26,
            total_time_seconds=58.5,
            avg_step_time_seconds=near(mean),
            median_step_time_seconds=2.0,
            min_step_time_seconds=1.9,
            max_step_time_seconds=2.3,
            std_step_time_seconds=near(statistics.stdev(sample)),
            steps_per_second=near(1 / mean),
            tokens_per_second=near(TOKENS / mean),
            tokens_per_second_per_gpu=near(TOKENS / mean / 8),
            warmup_time_seconds=29.5,
            final_loss=9.5,
        ),
        (),
        (
            SegmentMetrics(
                13,
                26,
                near(mean),
                near(TOKENS / mean / 8),
                2.0,
                intervals.Interval(1.9, 2.3, "range", None),
                None,
                0,
                0.0,
            ),
        ),
        rounding=near(0.1 / mean),
        clock="timer",
        skipped=12,
        stop=26,
        # Of 26 steps, the first five of eleven records may be a start-up.
        assumed_start=14,
        within=intervals.run_mean(sample, [2] * 7),
        found=(Segment(4, 11, 2.0, None),),
    )


def changing():
    """2 s a step, then 3 s; outliers of 5, 9 and 12 s."""
    times = [2.0, 2.1, 1.9, 2.0] * 30 + [3.0, 3.1, 2.9, 3.0] * 30
    times[20], times[130], times[150] = 5.0, 9.0, 12.0
    return times


THROTTLED = TelemetryIssue(code="thermal", text="GPU 3 throttled", first_step=121, last_step=240)


THROTTLING = Note(
    "event", {"event": "thermal", "text": "GPU 3 throttled", "title": "thermal throttling"}
)


@pytest.mark.parametrize(("issues", "cause"), [((), None), ((THROTTLED,), THROTTLING)])
def test_segments_with_outliers_and_causes(issues, cause):
    found = summarize(a_run(changing(), telemetry=Telemetry(issues=issues)))
    # 243 s and 375.2 s; above the median by 3 s, and by 6 and 9 s.
    first = SegmentMetrics(
        1,
        120,
        near(243 / 120),
        near(TOKENS * 120 / 243 / 8),
        2.0,
        intervals.Interval(2.0, 2.0, "median", 0.92),
        None,
        1,
        near(3 / 243),
    )
    second = SegmentMetrics(
        121,
        240,
        near(375.2 / 120),
        near(TOKENS * 120 / 375.2 / 8),
        3.0,
        intervals.Interval(3.0, 3.0, "median", 0.92),
        None,
        2,
        near(15 / 375.2),
        cause,
    )
    assert found.segments == (first, second)
    why = ": GPU 3 throttled" if cause else ""
    assert found.warnings == (f"speed changed at step 121 (2.025 s → 3.127 s){why}",)
    assert (found.assumed_start, found.unsettled, found.skipped, found.stop) == (
        None,
        False,
        0,
        240,
    )
    assert not found.is_stationary


def test_a_summary_that_is_stationary_has_one_segment_without_drift():
    one = summarize(a_run([2.0, 2.1, 1.9, 2.0] * 30))
    assert one.is_stationary is True
    drifting = dataclasses.replace(one, segments=(dataclasses.replace(one.segments[0], drift=0.1),))
    assert drifting.is_stationary is False
    assert dataclasses.replace(one, segments=()).is_stationary is False
    assert dataclasses.replace(one, segments=one.segments * 2).is_stationary is False


def test_steps_are_skipped_and_segments_begin_with_the_rest():
    """The first eight are faster, so that they are no warm-up; without them, another value is the
    median.
    """
    times = [1.9] * 8 + [2.0, 2.1] * 11
    assert summarize(a_run(times)).skipped == 0
    found = summarize(a_run(times), skip=8)
    (segment,) = found.segments
    assert (segment.first_step, segment.last_step, segment.median) == (9, 30, near(2.05))
    assert (segment.mean, found.performance.avg_step_time_seconds) == (near(2.05), near(2.05))
    assert (found.skipped, found.stop, found.steady.first_step) == (8, 30, 9)
    assert found.performance.warmup_time_seconds == near(8 * 1.9)
    # No further than to the middle.
    assert summarize(a_run(times), skip=29).skipped == 15
    assert summarize(a_run([2.0]), skip=1).skipped == 0
    # A segment that ends before the first step that counts is none.
    changed = [2.0, 2.01] * 15 + [3.0, 3.01] * 30
    assert [each.first_step for each in summarize(a_run(changed)).segments] == [1, 31]
    assert [each.first_step for each in summarize(a_run(changed), skip=30).segments] == [31]
    assert [each.first_step for each in summarize(a_run(changed), skip=29).segments] == [30, 31]


def test_a_resumed_run_counts_from_its_first_record():
    times = [2.0 + 0.01 * (index % 3) for index in range(30)]
    run = msgspec.structs.replace(a_run(times), steps=tuple(range(101, 131)))
    found = summarize(run, skip=3, stop=20)
    assert (found.skipped, found.stop, found.steady.first_step, found.steady.last_step) == (
        3,
        20,
        104,
        120,
    )
    assert found.warnings == (
        "steps 121–130 are excluded: not all runs of the comparison are as long",
    )


def test_a_slow_record_where_the_steps_that_count_end_is_not_the_last():
    times = [2.0 + 0.01 * (index % 3) for index in range(30)]
    times[19] = 9.0
    assert summarize(a_run(times), stop=20).warnings == (
        "steps 21–30 are excluded: not all runs of the comparison are as long",
        "the record of step 20 takes 4.5× as long as any other; the mean includes it",
    )
    assert summarize(a_run([2.0, 2.0, 2.0, 2.8])).warnings[1:] == ()
    assert len(summarize(a_run([2.0, 2.0, 2.0, 2.81])).warnings) == 2
    assert len(summarize(a_run([2.0, 2.0, 9.0])).warnings) == 1


def test_segments_of_an_earlier_summary():
    run = a_run([2.0 + 0.01 * (index % 3) for index in range(30)])
    whole = summarize(run)
    assert summarize(run, earlier=dataclasses.replace(whole, found=None)) == whole
    assert (
        summarize(run, earlier=dataclasses.replace(whole, found=())).steady.method == "second_half"
    )


def test_logged_tokens_of_the_steps_that_count():
    """Records of 2 steps from the fifth on, of which those that count have 300 and 100 tokens."""
    tokens = (*(9e9,) * 4, *(300.0, 100.0) * 10)
    times, windows = (4.0,) * 4 + (2.0,) * 20, (1,) * 4 + (2, 4) * 10
    run = a_run(times, windows, batch=None, native_metrics={"tokens_per_step": tokens})
    found = summarize(run)
    assert found.skipped == 4
    assert found.performance.tokens_per_second == near(500 / 3 / 2)


@pytest.mark.parametrize(("stop", "last"), [(None, 30), (30, 30), (29, 29), (10, 10), (9, 30)])
def test_steps_beyond_the_last_one_that_counts(stop, last):
    times = [2.0 + 0.01 * (index % 3) for index in range(30)]
    found = summarize(a_run(times), stop=stop)
    assert (found.stop, found.steady.last_step) == (last, last)
    assert found.performance.avg_step_time_seconds == near(statistics.fmean(times[:last]))
    text = f"steps {last + 1}–30 are excluded: not all runs of the comparison are as long"
    assert found.warnings == (() if last == 30 else (text,))


def test_what_is_profiled_or_only_handed_over_is_named():
    times = [2.0, 0.01, 0.01, 5.9, *[2.0, 2.1] * 13]
    found = summarize(a_run(times, kind="log", profiled_steps=(7, 8, 9)))
    assert found.warnings == (
        "steps 7 to 9 were profiled and are excluded from the results",
        (
            "steps 2 and 3: times are artifacts of asynchronous dispatch (the host ran ahead of the"
            " device); excluded from the results with step 4, which waited for the device"
        ),
        "total time unknown: not all steps between 6 and 10 are recorded",
    )
    assert found.performance.total_steps == 27


def test_a_slow_start_and_a_slow_end_in_words():
    times = [4.0] * 25 + [2.0, 2.1] * 50 + [9.0]
    assert summarize(a_run(times)).warnings == (
        (
            "steps 1–25 are excluded as a slow start: they take 1.89× the time of those after; with"
            " them the mean step time is +17.6%"
        ),
        "the last record (step 126) takes 4.3× as long as any before it; the mean includes it",
    )


@pytest.mark.parametrize(
    ("times", "windows", "method", "first", "assumed", "warning"),
    [
        (
            [3.0],
            [7],
            "all",
            1,
            None,
            "only one record (the mean of 7 steps): it may include warm-up",
        ),
        ([3.0], [1], "all", 1, None, "only one record: it may include warm-up"),
        # The median of the others decides, not their mean.
        (
            [3.0, 2.0, 2.0, 9.0],
            None,
            "all_after_first",
            2,
            1,
            "no steady state: 4 records are too few (needs 10); results use the steps after step 1",
        ),
        (
            [3.0, 4.0, 4.0, 1.0],
            None,
            "all",
            1,
            0,
            "no steady state: 4 records are too few (needs 10); results use all steps",
        ),
        (
            [3.0, 3.0],
            None,
            "all",
            1,
            0,
            "no steady state: 2 records are too few (needs 10); results use all steps",
        ),
        (
            [2.0 ** (9 - index) for index in range(10)],
            None,
            "second_half",
            6,
            None,
            (
                "no steady state: at its middle the run is still slower than at its end; results"
                " use the steps after step 5"
            ),
        ),
    ],
)
def test_a_run_without_a_steady_state(times, windows, method, first, assumed, warning):
    found = summarize(a_run(times, windows))
    assert found.steady == Steady(
        first_step=first, last_step=sum(windows or [1] * len(times)), method=method, found=False
    )
    assert (found.segments, found.warnings, found.assumed_start) == ((), (warning,), assumed)
    assert found.unsettled is (method == "second_half")
    if len(times) == 1:
        assert found.performance.warmup_time_seconds is None


@pytest.mark.parametrize("count", [29, 30])
def test_the_start_up_of_a_short_run_is_assumed(count):
    found = summarize(a_run([2.0 + 0.01 * (index % 3) for index in range(count)]))
    assert found.assumed_start == (14 if count == 29 else None)


BLOCK_TIMES = (
    Entry(kind="start-up", start=0.0, duration=7.0),
    Entry(kind="training", start=7.0, duration=20.0, first_step=1, last_step=10),
    Entry(kind="evaluation", start=27.0, duration=3.0),
    Entry(
        kind="training", start=30.0, duration=75.0, first_step=11, last_step=40, note="a new phase"
    ),
    Entry(kind="training", start=105.0, duration=44.0, first_step=41, last_step=60),
)


def of_blocks(*entries, **fields):
    config = TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8)
    known = {"timeline": entries, "training_config": config}
    return Run(**{**series((None,) * 3, loss_values=(5.0, 3.0, 1.0)), **known, **fields})


def test_blocks_of_training():
    """10 steps of 2 s, 30 of 2.5 s, 20 of 2.2 s: 139 s for 60 steps."""
    times, windows, mean = [2.0, 2.5, 2.2], [10, 30, 20], 139 / 60
    spread = math.sqrt(sum((each - 6.7 / 3) ** 2 for each in times) / 2)
    unlike = UnlikeBlock("block 2 takes 1.14× as long (steps 11–40)", ": a new phase")
    assert summarize(of_blocks(*BLOCK_TIMES)) == Summary(
        Steady(first_step=1, last_step=60, method="all_blocks", found=True),
        PerformanceMetrics(
            total_steps=60,
            total_time_seconds=142.0,
            avg_step_time_seconds=near(mean),
            median_step_time_seconds=2.2,
            min_step_time_seconds=2.0,
            max_step_time_seconds=2.5,
            std_step_time_seconds=near(spread),
            steps_per_second=near(1 / mean),
            tokens_per_second=near(TOKENS / mean),
            tokens_per_second_per_gpu=near(TOKENS / mean / 8),
            final_loss=1.0,
        ),
        (mean_over_blocks(139 / 60, 2.2, unlike),),
        (
            SegmentMetrics(
                1,
                60,
                near(mean),
                near(TOKENS / mean / 8),
                2.2,
                intervals.Interval(2.0, 2.5, "range", None),
                None,
                0,
                0.0,
            ),
        ),
        clock="blocks",
        unlike_block=unlike,
        within=intervals.run_mean(times, windows),
    )


def test_a_block_that_is_far_slower_is_named_and_no_outlier():
    entries = [
        Entry(
            kind="training",
            start=100.0 * at,
            duration=20.0 + at % 3,
            first_step=10 * at + 1,
            last_step=10 * at + 10,
        )
        for at in range(11)
    ]
    entries[6] = msgspec.structs.replace(entries[6], duration=90.0)
    found = summarize(of_blocks(*entries))
    (segment,) = found.segments
    assert (segment.outliers, segment.outlier_share) == (0, 0.0)
    assert found.unlike_block == UnlikeBlock("block 7 takes 4.29× as long (steps 61–70)", "")


def test_the_block_by_which_a_mean_is_lower():
    """Block 3 saves most: 40 steps of half a second less; block 1 is faster, but short."""
    entries = [
        (0.0, 1.0, 1, 2),
        (10.0, 60.0, 3, 22),
        (80.0, 100.0, 23, 62),
        (200.0, 90.0, 63, 92),
        (300.0, 60.0, 93, 112),
    ]
    made = [
        Entry(kind="training", start=at, duration=long, first_step=first, last_step=last)
        for at, long, first, last in entries
    ]
    assert summarize(of_blocks(*made)).unlike_block == UnlikeBlock(
        "block 3 takes 0.83× as long (steps 23–62)", ""
    )


@pytest.mark.parametrize(
    ("mean", "text"),
    [
        (2.0199, None),
        (2.0201, "a step takes on average 2.02 s, in the median block 2 s; why"),
        (1.9801, None),
        (1.9799, "a step takes on average 1.98 s, in the median block 2 s; why"),
    ],
)
def test_a_mean_that_is_not_the_typical_one(mean, text):
    note = mean_over_blocks(mean, 2.0, UnlikeBlock("why", ""))
    assert (note and words(note)) == text


def test_clocks_that_are_asked_for():
    run = of_blocks(*BLOCK_TIMES, step_times=(2.0, 2.0, 2.1), timing=Timing(kind="sampled"))
    assert [summarize(run, each).clock for each in (None, "blocks", "sampled", "stamps")] == [
        "blocks",
        "blocks",
        "sampled",
        "blocks",
    ]
    assert summarize(of_blocks()).clock is None


def test_a_run_without_values():
    empty = PerformanceMetrics(total_steps=3, final_loss=1.0)
    assert summarize(of_blocks()) == Summary(Steady(), empty, (Note("no-times-recorded"),))
    emulated = of_blocks(
        *BLOCK_TIMES, step_times=(2.0, 2.0, 2.1), environment=Environment(emulated="MI300X")
    )
    why = Note("emulated")
    assert summarize(emulated) == Summary(Steady(), empty, (why,), clock="timer")
    untimed = of_blocks(*BLOCK_TIMES, environment=Environment(emulated="MI300X"))
    assert summarize(untimed) == Summary(Steady(), empty, (why,), clock="blocks")


NO_TOKENS = "{} unknown: step times only, no throughput in tokens"


@pytest.mark.parametrize(
    ("fields", "rates", "warnings"),
    [
        ({}, (TOKENS / 2, TOKENS / 16), ()),
        ({"gpus": None}, (TOKENS / 2, None), ("number of GPUs unknown: no throughput per GPU",)),
        ({"batch": None}, (None, None), (NO_TOKENS.format("global batch size"),)),
        ({"length": None, "gpus": None}, (None, None), (NO_TOKENS.format("sequence length"),)),
        (
            {"batch": None, "length": None},
            (None, None),
            (NO_TOKENS.format("global batch size and sequence length"),),
        ),
        # Tokens that the log states, where no batch does.
        ({"batch": None, "native_metrics": {"tokens_per_step": 1000.0}}, (500.0, 62.5), ()),
        ({"native_metrics": {"tokens_per_step": 1000.0}}, (TOKENS / 2, TOKENS / 16), ()),
        (
            {"batch": None, "gpus": None, "native_metrics": {"tokens_per_step": 1000.0}},
            (500.0, None),
            ("number of GPUs unknown: no throughput per GPU",),
        ),
        (
            {"batch": None, "native_metrics": {"tokens_per_step": (1000.0,) * 38 + (2000.0,) * 2}},
            (525.0, 65.625),
            (
                (
                    "tokens per step vary from 1,000 to 2,000: a rate is all tokens of the"
                    " steady-state steps over their time"
                ),
            ),
        ),
        (
            {"batch": None, "native_metrics": {"tokens_per_step": (1000.0,) * 39 + (1010.0,)}},
            (500.125, 500.125 / 8),
            (),
        ),
        *(
            (
                {"batch": None, "native_metrics": {"tokens_per_step": (1000.0,) * 39 + (other,)}},
                (None, None),
                (NO_TOKENS.format("global batch size"),),
            )
            for other in (None, 0.0)
        ),
        (
            {"batch": None, "native_metrics": {"tokens_per_step": (1000.0,) * 39 + (1.0,)}},
            (500 * 39.001 / 40, 500 * 39.001 / 320),
            (
                (
                    "tokens per step vary from 1 to 1,000: a rate is all tokens of the steady-state"
                    " steps over their time"
                ),
            ),
        ),
        # A rate that the source printed, of all steps after the first.
        (
            {"native_metrics": {"tokens_per_second": 1.049 * TOKENS / 2}},
            (TOKENS / 2, TOKENS / 16),
            (),
        ),
        (
            {"native_metrics": {"tokens_per_second": 1.051 * TOKENS / 2}},
            (None, None),
            (
                (
                    "no throughput: 68,878 tokens/s reported is 1.051 times batch × sequence length"
                    " / step time (64 × 2048 tokens per step); one of them is wrong"
                ),
            ),
        ),
        (
            {"native_metrics": {"tokens_per_second": 0.1 * TOKENS / 2}},
            (TOKENS / 2, TOKENS / 16),
            (),
        ),
        ({"native_metrics": {"tokens_per_second": (9e9,) * 40}}, (TOKENS / 2, TOKENS / 16), ()),
    ],
)
def test_rates(fields, rates, warnings):
    found = summarize(a_run([2.0] * 40, **fields))
    performance = found.performance
    assert (performance.tokens_per_second, performance.tokens_per_second_per_gpu) == (
        pytest.approx(rates[0]),
        pytest.approx(rates[1]),
    )
    assert found.warnings == warnings
    assert found.segments[0].tokens_per_second_per_gpu == performance.tokens_per_second_per_gpu


def test_a_printed_rate_of_runs_with_a_first_or_a_missing_time():
    printed = {"tokens_per_second": 1.04 * TOKENS / 2}
    assert summarize(
        a_run([9.0, None, *[2.0] * 38], native_metrics=printed)
    ).performance.tokens_per_second
    assert (
        summarize(
            a_run([2.0], native_metrics={"tokens_per_second": 9e9})
        ).performance.tokens_per_second
        == TOKENS / 2
    )


@pytest.mark.parametrize(
    ("losses", "final"),
    [
        ((), None),
        ((None, None), None),
        ((8.0, 4.0, 1.0), 1.0),
        # The last quarter, of those that are known: the mean of 6, 2 and 1; of no more than ten.
        ((9.0,) * 9 + (6.0, None, 2.0, 1.0), 3.0),
        ((9.0,) * 60 + (6.0,) * 7 + (2.0,) * 3, 4.8),
    ],
)
def test_the_final_loss(losses, final):
    run = a_run([2.0] * len(losses), loss_values=losses) if losses else a_run([])
    assert summarize(run).performance.final_loss == (None if final is None else near(final))


def test_rounding():
    one, other, third = (
        dataclasses.replace(summarize(a_run([2.0] * 3)), rounding=each) for each in (0.1, 0.5, 0.2)
    )
    assert rounding_variance([one, other, third]) == near((0.01 + 0.25 + 0.04) / 36)
    assert rounding_variance([]) == 0.0
    stored = rounded(
        PerformanceMetrics(
            total_steps=123456, total_time_seconds=1234.56789, final_loss=0.000123456
        )
    )
    assert stored == PerformanceMetrics(
        total_steps=123456, total_time_seconds=1234.568, final_loss=0.0001235
    )
    # 50 times show how coarsely all are printed.
    assert summarize(a_run([2.0] * 49 + [2.01] + [2.001])).rounding == near(
        0.01 / statistics.fmean([2.0] * 49 + [2.01, 2.001])
    )
