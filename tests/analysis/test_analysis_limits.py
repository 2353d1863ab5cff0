"""Where the analysis of a run turns: each limit with a value just below it and one just above
it.
"""

from __future__ import annotations

import io
import math

import msgspec
import numpy as np
import pytest
from limits import limits
from made_runs import make_run
from made_traces import MadeTrace
from stored_runs import series

from tprimat.analysis import (
    changepoints,
    efficiency,
    intervals,
    projection,
    records,
    run_order,
    warmup,
)
from tprimat.analysis.causes import cause_of_change
from tprimat.analysis.run_account import account_of
from tprimat.analysis.segments import find_segments
from tprimat.analysis.summary import summarize
from tprimat.analysis.traces.breakdown import Breakdown
from tprimat.analysis.traces.products import flops_of
from tprimat.read.kineto.timeline import read_timeline
from tprimat.results.account import Entry
from tprimat.results.run import Disturbance, MemoryMetrics, Run, Source, TrainingConfig
from tprimat.results.telemetry import Telemetry, TelemetryIssue

CONFIG = TrainingConfig(global_batch_size=8, sequence_length=1000, num_gpus=1)


def timed(times, **fields):
    return Run(
        **{**series(times), "training_config": CONFIG, "source": Source(kind="log"), **fields}
    )


def summary(times, **fields):
    return summarize(timed(times, **fields))


def warns(text, times):
    return any(text in warning for warning in summary(times).warnings)


def is_withheld(factor):
    # The steps after the first take 1 s and hold 8,000 tokens.
    native = {"tokens_per_second": 8000.0 * factor}
    return summary([1.0] * 40, native_metrics=native).performance.tokens_per_second is None


def outliers(time, spread):
    steady = [1 - spread, 1.0, 1 + spread] * 20
    (segment,) = summary([*steady, time, *steady]).segments
    return segment.outliers


def unit_of_times(coarse):
    """The decimal to which step times count as printed, where so many have one digit and the others
    two.
    """
    found = summary([2.0] * coarse + [2.01] * (100 - coarse))
    return round(found.rounding * found.performance.avg_step_time_seconds, 3)


def names_a_block(last):
    """Whether a last block that takes so long is named beside three of 100 s."""
    entries = [
        Entry(
            kind="training",
            start=100.0 * index,
            duration=seconds,
            first_step=first,
            last_step=first + 99,
        )
        for index, (first, seconds) in enumerate(
            ((1, 100.0), (101, 100.0), (201, 100.0), (301, last))
        )
    ]
    return any(
        each.startswith("a step takes on average")
        for each in summary((), timeline=tuple(entries)).warnings
    )


@limits(
    ("printed rate", is_withheld, (1.049, False), (1.051, True)),
    ("share of an outlier", lambda time: outliers(time, 0.0), (1.099, 0), (1.101, 1)),
    # 1 + 4 × 1.4826 × 0.03
    ("sigmas of an outlier", lambda time: outliers(time, 0.03), (1.177, 0), (1.179, 1)),
    (
        "slow last record",
        lambda time: warns("the last record", [1.0] * 39 + [time]),
        (1.39, False),
        (1.41, True),
    ),
    (
        "records before it",
        lambda count: warns("the last record", [1.0] * count + [2.0]),
        (2, False),
        (3, True),
    ),
    ("records that show the unit", unit_of_times, (49, 0.01), (50, 0.1)),
    # The mean of four blocks is above the typical one by a quarter of what the last takes more.
    ("median block", names_a_block, (103.9, False), (104.1, True)),
    (
        "named start",
        lambda count: warns("slow start", [2.0] * count + [1.0] * 80),
        (20, False),
        (21, True),
    ),
    (
        "short run",
        lambda count: summary([1.0] * count).assumed_start is not None,
        (29, True),
        (30, False),
    ),
    (
        "too few",
        lambda count: summary([2.0] * (count - 4) + [1.0] * 4).unsettled,
        (9, False),
        (10, True),
    ),
)
def test_a_summary(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("known", "averaged"),
    [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (39, 9), (40, 10), (44, 10), (400, 10)],
)
def test_the_final_loss_is_the_mean_of_the_last_ten_in_the_last_quarter(known, averaged):
    losses = [float(known - step) for step in range(known)]
    found = summary([1.0] * (known + 1), loss_values=(*losses, None)).performance.final_loss
    assert found == pytest.approx((1 + averaged) / 2)


def test_of_few_records_a_first_one_that_is_slower_is_excluded():
    assert summary([1.001, 1.0, 1.0]).steady.method == "all_after_first"
    assert summary([1.0, 1.0, 1.0]).steady.method == "all"


def test_a_step_within_two_windows_counts_once():
    run = timed([1.0] * 3, steps=(10, 15, 25), window_steps=(10, 10, 5))
    assert summarize(run).performance.total_steps == 20


@limits(
    (
        "skipped steps",
        lambda skip: summarize(timed([1.0] * 40), skip=skip).skipped,
        (20, 20),
        (21, 20),
    )
)
def test_no_more_than_half_is_skipped(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def dispatched(times):
    return records.dispatch_artifacts(timed(times))[0]


@limits(
    (
        "share of a step",
        lambda time: dispatched([1.0] * 10 + [time] + [1.0] * 9),
        (0.099, (11,)),
        (0.101, ()),
    ),
    # Where the step after it is fast, too, it isn't the end of what was handed over.
    (
        "jump",
        lambda after: dispatched([1.0] * 10 + [0.09, after] + [1.0] * 8),
        (0.44, ()),
        (0.46, (11,)),
    ),
    (
        "handed over at once",
        lambda count: len(dispatched([1.0] * 10 + [0.01] * count + [1.0] * 9)),
        (5, 5),
        (6, 0),
    ),
)
def test_artifacts_of_dispatch(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def ending_slow(count, slow):
    return changepoints.change_points(np.array([1.0] * (count - slow) + [1.5] * slow)) != []


def gradual(share, records):
    """Whether a change by a tenth is one where so many records on either side already take such a
    share of it.
    """
    off, rest = 0.1 * share, 100 - records
    steps = [1.0] * rest + [1 + off] * records + [1.1 - off] * records + [1.1] * rest
    return changepoints.change_points(np.array(steps)) != []


def noisy(spread):
    """Whether a change by 3 % among 40 records is certain under so much noise."""
    values = 1 + spread * np.random.default_rng(5).standard_normal(40)
    values[20:] *= 1.03
    return changepoints.change_points(values) != []


def overlapping(spread):
    """Whether a change by 3 % is one where values around both levels overlap, 90 % of the pairs in
    order at 0.0272.
    """
    around = spread * ((np.arange(200) * 77 % 200) / 100 - 1)
    return changepoints.change_points(np.concatenate([1.0 + around, 1.03 + around])) != []


@limits(
    ("pairs in order", overlapping, (0.0268, True), (0.0276, False)),
    (
        "change",
        lambda level: changepoints.change_points(np.repeat([1.0, level], 100)) != [],
        (1.019, False),
        (1.021, True),
    ),
    # A segment has 20 records, or a fifth of all; nine in ten of its records must be slow.
    ("records of a segment", lambda slow: ending_slow(60, slow), (17, False), (18, True)),
    ("share of a segment", lambda slow: ending_slow(200, slow), (35, False), (37, True)),
    ("half of the change", lambda share: gradual(share, 10), (0.24, True), (0.26, False)),
    ("records that tell it", lambda records: gradual(0.3, records), (5, True), (6, False)),
    # p is 0.0008 and 0.001013.
    ("certainty", noisy, (0.0135, True), (0.014, False)),
)
def test_a_change_point(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


EVEN = [0.99, 1.0, 1.01]
SLOWLY = [0.99] * 3 + [1.0] * 3 + [1.01] * 3


def start(values):
    found = warmup.detect_warmup(values)
    return None if found is None else found.start


def is_settled(values):
    return warmup.detect_warmup(values) is not None


def with_pauses(height, *, slow, pause, records, values, count):
    """The start of a run whose slow start has such a height, with a pause of some records in its
    second half.
    """
    times = [height] * slow + (values * count)[: count - slow]
    times[7 * count // 10 : 7 * count // 10 + records] = [pause] * records
    return warmup.first_steady_index(times)


@limits(
    ("records", lambda count: start([1.0] * count), (9, None), (10, 0)),
    (
        "level",
        lambda sigmas: start([1 + sigmas * 0.014826] * 12 + EVEN * 60),
        (0.99, 0),
        (1.01, 12),
    ),
    (
        "middle above the end, share",
        lambda high: is_settled([high] * 40 + [1.0] * 20),
        (1.029, True),
        (1.031, False),
    ),
    # 2.5 × 1.4826 × 0.03
    (
        "middle above the end, sigmas",
        lambda high: is_settled([high] * 40 + [0.97, 1.0, 1.03] * 10),
        (1.11, True),
        (1.1125, False),
    ),
    (
        "slow from the beginning",
        lambda slow: is_settled([1.0] * (31 - slow) + [1.5] * slow + [1.0] * 29),
        (27, True),
        (28, False),
    ),
    (
        "records at the end",
        lambda count: is_settled([1.1] * (40 - count) + [1.0] * count),
        (2, True),
        (3, False),
    ),
    (
        "height of a pause",
        lambda height: with_pauses(
            height, slow=12, pause=9.0, records=15, values=SLOWLY, count=400
        ),
        (1.068, 0),
        (1.078, 12),
    ),
    (
        "records of pauses",
        lambda records: with_pauses(
            1.3, slow=12, pause=2.0, records=records, values=EVEN, count=100
        ),
        (5, 12),
        (6, 0),
    ),
)
def test_a_warm_up(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("count", "longest"), [(30, 20), (60, 24), (199, 79), (201, 80), (399, 80), (600, 120)]
)
def test_how_long_a_warm_up_may_be(count, longest):
    assert warmup.longest_warm_up(count) == longest


def drifts(values):
    (segment,) = find_segments(list(values))
    return segment.drift is not None


@limits(
    ("records", lambda count: drifts(np.linspace(1, 1.1, count)), (49, False), (50, True)),
    ("size", lambda end: drifts(np.linspace(1, end, 100)), (1.0195, False), (1.0205, True)),
    (
        "certainty",
        lambda spread: drifts(
            np.linspace(1, 1.04, 100) + spread * np.random.default_rng(1).standard_normal(100)
        ),
        (0.034, True),
        (0.036, False),
    ),
)
def test_a_drift(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def explains(seconds, step):
    """Whether an event at step 100, read every second, explains a change at another step."""
    issue = TelemetryIssue(code="thermal", text="hot", first_step=100, last_step=1000)
    run = make_run(telemetry=Telemetry(interval_seconds=1.0, issues=(issue,)))
    return cause_of_change(run, step, seconds, 2 * seconds) is not None


@limits(
    # Two steps, and the steps of two readings.
    ("two readings", lambda step: explains(0.1, step), (122, True), (123, False)),
    ("two readings before", lambda step: explains(0.1, step), (77, False), (78, True)),
    ("two steps", lambda step: explains(1000.0, step), (102, True), (103, False)),
)
def test_a_cause(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def alternating(count, spread=0.0):
    noise = np.random.default_rng(2).standard_normal(count)
    return [
        float(1 + 0.1 * (index % 2) + spread * noise[index] + 0.0005 * index)
        for index in range(count)
    ]


def moved_back(count, places):
    """Means that rise from run to run, but for the last, which belongs so many places earlier."""
    return [*map(float, range(count - 1)), count - places - 1.5]


def kind(means):
    found = run_order.run_order_trend(means)
    return found and found.kind


@limits(
    ("runs", lambda count: kind(alternating(count)), (5, None), (6, "alternates")),
    # p is 0.00094 and 0.00112.
    (
        "alternation",
        lambda spread: kind(alternating(8, spread)),
        (0.0135, "alternates"),
        (0.014, None),
    ),
    # p is 0.00915 with ten runs, and 0.0107 with seven.
    ("order of ten runs", lambda places: kind(moved_back(10, places)), (8, "rises"), (9, None)),
    ("order of seven runs", lambda places: kind(moved_back(7, places)), (1, "rises"), (2, None)),
)
def test_an_order_of_runs(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


class TestMedianInterval:
    def test_of_values_that_hardly_depend_on_each_other(self):
        # 24 values in order, the first half below the median: an autocorrelation of 21/24, of which
        # all is left.
        values = [float(each) for each in range(24)]
        found = intervals.within_run_interval(values)
        assert (found.low, found.high) == (0.0, 23.0)

    def test_no_more_than_nine_tenths_of_autocorrelation_count(self):
        # 190 values leave ten: 95 − 1.96 × 190 / (2 √10) = 36.1 values lie outside on either side.
        values = [float(each) for each in range(190)]
        found = intervals.within_run_interval(values)
        assert (found.low, found.high) == (36.0, 153.0)

    def test_autocorrelation_below_zero_counts_as_none(self):
        # 100 values leave 100: 50 − 1.96 × 100 / (2 √100) = 40.2.
        values = [float(index if index % 2 else -index) for index in range(100)]
        found = intervals.within_run_interval(values)
        assert (found.low, found.high) == (sorted(values)[40], sorted(values)[59])


class TestFloors:
    """Rounding hides a variance: it counts where the runs vary less, and not in addition."""

    VALUES = (1.0, 1.1, 1.2)

    def width(self, floor):
        found = intervals.between_run_interval([math.exp(each) for each in self.VALUES], floor)
        return math.log(found.high / found.low)

    def test_of_one_system(self):
        assert self.width(0.0099) == pytest.approx(self.width(0.0))
        assert self.width(0.0121) == pytest.approx(1.1 * self.width(0.0))

    @pytest.mark.parametrize("second", [(2.0, 2.1, 2.2), (2.0,)])
    def test_of_two_systems(self, second):
        plain = intervals.difference(self.VALUES, second)
        assert intervals.difference(
            self.VALUES, second, floors=(0.0099, 0.0099)
        ).error == pytest.approx(plain.error)
        wider = intervals.difference(self.VALUES, second, floors=(0.0121, 0.0121))
        assert wider.error == pytest.approx(1.1 * plain.error)

    def test_a_single_run_has_the_floor_of_the_coarser_system(self):
        found = [
            intervals.difference(self.VALUES, (2.0,), floors=each).error
            for each in ((0.0121, 0), (0, 0.0121))
        ]
        assert found == pytest.approx([math.sqrt(0.0121 * 4 / 3)] * 2)


def test_a_difference_is_found_with_a_power_of_four_in_five():
    # Two-sided t at 5 % with 18 degrees of freedom: 2.9605 standard errors (Cohen, table for n =
    # 10: d = 1.325).
    assert intervals.minimum_detectable_effect(0.01, 10) == pytest.approx(
        math.expm1(1.325 * 0.01), rel=2e-3
    )


SIZES = [projection.Size(gpus, 8, 1000.0 * gpus**-0.1) for gpus in (1, 2, 4)]


def is_credible(batch):
    """Whether the straight line has a say where the communication form projects; it misses 64 GPUs
    by a tenth or so.
    """
    seconds = {gpus: 0.2 * batch / gpus + 0.05 * math.log2(gpus) for gpus in (8, 16, 32, 64)}
    sizes = [
        projection.Size(gpus, batch, batch * 4096 / gpus / each, 4096.0)
        for gpus, each in seconds.items()
    ]
    found = projection.project(sizes, 1024, batch)
    return found.high > 1.01 * found.rate


def is_credible_below(slope):
    """Whether the communication form has a say where a straight line projects; it gives too little
    for 64 GPUs.
    """
    found = projection.project(
        [projection.Size(gpus, 8, 1000.0 * gpus**-slope) for gpus in (8, 16, 32, 64)], 256, 8
    )
    return found.low < 0.99 * found.rate


@limits(
    ("runs", lambda most: intervals.runs_needed(0.01, 0.02, most=most), (64, None), (65, 65)),
    # The line misses by 10.4 % and by 9.9 %.
    ("credible", is_credible, (330, False), (350, True)),
    # The communication form misses by −9.7 % and by −11.5 %.
    ("credible, lower", is_credible_below, (0.08, True), (0.1, False)),
    # Three sizes at least.
    (
        "sizes",
        lambda count: projection.project(SIZES[:count], 64, 8) is None,
        (2, True),
        (3, False),
    ),
)
def test_what_is_needed(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def hints(**fields):
    run = make_run(
        **{
            "memory_metrics": MemoryMetrics(peak_memory_reserved_gb=60.0),
            "step_time": 2.4,
            **fields,
        }
    )
    return efficiency.of_runs([run], [summarize(run)], efficiency.Options()).hints != ()


def waits(share):
    return hints(breakdown={"data_wait_s": share, "compute_s": 1 - share})


@limits(
    (
        "GPU utilization",
        lambda busy: hints(native_metrics={"gpu_utilisation_percent": busy}),
        (89.9, True),
        (90.1, False),
    ),
    # An MFU of 26.6 % and of 25.8 %.
    ("MFU", lambda seconds: hints(step_time=seconds), (3.0, False), (3.1, True)),
    ("waiting for data", waits, (0.0499, False), (0.0501, True)),
    (
        "CPU used by others",
        lambda share: hints(disturbance=Disturbance(other_programs_cpu_share=share)),
        (0.0499, False),
        (0.0501, True),
    ),
    (
        "memory, little",
        lambda used: hints(memory_metrics=MemoryMetrics(peak_memory_reserved_gb=0.85 * used)),
        (49.9, True),
        (50.1, False),
    ),
    (
        "memory, much",
        lambda used: hints(memory_metrics=MemoryMetrics(peak_memory_reserved_gb=0.85 * used)),
        (94.9, False),
        (95.1, True),
    ),
)
def test_what_could_be_tried(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def has_checkpoint(seconds):
    entries = (
        Entry(kind="training", start=0.0, duration=10.0, first_step=1, last_step=10),
        Entry(kind="checkpoint", start=10.0, duration=seconds),
    )
    return "checkpoint" in account_of(timed([1.0] * 10, timeline=entries)).parts


@limits(("what rounding leaves", has_checkpoint, (0.9e-5, False), (1.1e-5, True)))
def test_an_account(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def kernels(*times, name="gemm"):
    """The work of a trace of kernels that take so long, µs, one after the other."""
    trace, at = MadeTrace(), 0.0
    for number, time in enumerate(times):
        trace.kernel(f"{name}{number}", None, at, at := at + time)
    breakdown = Breakdown()
    breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
    return breakdown.trace()


def knows_flops(unknown):
    """Whether the FLOPs of products are known where so many µs of 1,000 are of unknown sizes."""
    trace = kernels(1000.0 - unknown, unknown)
    shapes, types = ((4096, 8192), (8192, 1024)), ("c10::BFloat16",) * 2
    first, second = trace.work
    first = msgspec.structs.replace(first, operator="aten::mm", shapes=shapes, types=types)
    return flops_of(msgspec.structs.replace(trace, work=(first, second))) is not None


@limits(
    ("kinds of work", lambda count: len(kernels(*[10.0] * count).work), (150, 150), (151, 150)),
    ("share of a kind", lambda time: len(kernels(1e6, time).work), (99.0, 1), (101.0, 2)),
    (
        "characters of a name",
        lambda count: len(kernels(10.0, name="k" * count).work[0].kernel),
        (398, 399),
        (400, 400),
    ),
    ("unknown products", knows_flops, (9.9, True), (10.1, False)),
)
def test_a_trace(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("runs", "within", "beyond"),
    # By Student's t the width is 12.7062 ln(factor) with one degree of freedom, and 1.11058
    # ln(factor) with four.
    [((1.0,), 1.114, 1.117), ((1.0, 1.0, 1.0, 1.0), 3.47, 3.50)],
)
def test_an_interval_that_admits_half_and_twice_the_value_is_none(runs, within, beyond):
    assert intervals.between_run_interval([*runs, within]) is not None
    assert intervals.between_run_interval([*runs, beyond]) is None
