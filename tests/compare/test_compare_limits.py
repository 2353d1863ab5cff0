"""Where a comparison turns: each limit with a value just below it and one just above it."""

from __future__ import annotations

import datetime
import io
import math
import re
import statistics

import msgspec
import pytest
import screens
from limits import limits
from made_runs import H100, MI300X, comparison, failed_run, make_run
from made_traces import MadeTrace
from stored_runs import series, text_of, texts_of

from tprimat.analysis import intervals
from tprimat.analysis.traces.breakdown import Breakdown
from tprimat.compare import Loaded, figures
from tprimat.compare.cost import cost, with_prices
from tprimat.compare.curves import scaling_of
from tprimat.compare.regression import check_regression
from tprimat.compare.result import SAMPLES_RATE
from tprimat.compare.step_difference import Traced, explain
from tprimat.compare.threshold import parse
from tprimat.compare.windows import sensitivity
from tprimat.errors import UsageError
from tprimat.read.kineto.timeline import read_timeline
from tprimat.report.verdict import report
from tprimat.results.account import Entry, Timing
from tprimat.results.conditions import Disturbance
from tprimat.results.run import MemoryMetrics, TrainingConfig
from tprimat.results.telemetry import Telemetry, TelemetryIssue

AMD = {"device": MI300X, "stack": "rocm"}
CPU = {"device": None, "stack": "cpu", "gpus": 1}


def timed(times, device=H100, **fields):
    """A run with these step times."""
    return msgspec.structs.replace(
        make_run(device, steps=0, warmup=()), **{**series(times), **fields}
    )


def dated(day, run, **fields):
    moment = datetime.datetime(2026, 2, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(
        days=day
    )
    return msgspec.structs.replace(run, timestamp=moment.isoformat(), **fields)


def pair_of(*groups):
    (pair,) = comparison(*groups).models[0].pairs
    return pair


def caveats(*groups):
    (group,) = comparison(*groups).models[0].groups
    return {caveat.code for caveat in group.caveats}


def unlike(factor):
    """Two runs with one label of which one takes so many times as long as the other, and a run of
    another system.
    """
    times = (3.0, 3.0 * factor)
    return tuple(
        dated(day, timed([time] * 40, label="x")) for day, time in enumerate(times, 1)
    ), timed([3.0] * 40, MI300X)


def disturbed(**fields):
    runs = (make_run(**CPU, label=label, disturbance=Disturbance(**fields)) for label in "ab")
    return "disturbed" in caveats(*runs)


def has_outlier(time):
    # One of 100 records of 1 s: at 2.01 s it takes 1 % of the time beyond the median.
    return "outlier" in caveats(timed([1.0] * 50 + [time] + [1.0] * 49), timed([1.1] * 100, MI300X))


def starting_slow(count):
    return "slow-start" in caveats(timed([5.0] * count + [1.0] * 80), timed([1.1] * 100, MI300X))


def several(count):
    return tuple(dated(day, timed([1.0 + 0.001 * day] * 40)) for day in range(1, count + 1))


@limits(
    (
        "runs that differ, told",
        lambda factor: "unlike-runs" in caveats(*unlike(factor)),
        (1.24, False),
        (1.26, True),
    ),
    (
        "runs that differ, refused",
        lambda factor: pair_of(*unlike(factor)).ratio is None,
        (1.99, False),
        (2.01, True),
    ),
    (
        "faster runs, refused",
        lambda factor: pair_of(*unlike(1 / factor)).ratio is None,
        (1.99, False),
        (2.01, True),
    ),
    (
        "CPU of others",
        lambda share: disturbed(other_programs_cpu_share=share),
        (0.0499, False),
        (0.0501, True),
    ),
    ("stolen CPU", lambda share: disturbed(steal_cpu_share=share), (0.0499, False), (0.0501, True)),
    ("outlier", has_outlier, (2.0, False), (2.03, True)),
    ("slow start", starting_slow, (20, False), (21, True)),
    (
        "few runs",
        lambda count: "few-runs" in caveats(several(count), timed([1.1] * 40, MI300X), several(3)),
        (1, False),
        (3, False),
    ),
)
def test_a_caveat(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_two_runs_are_few_and_three_are_not():
    other = tuple(dated(day, timed([1.1 + 0.001 * day] * 40, MI300X)) for day in range(1, 4))
    assert ["few-runs" in caveats(several(count), other) for count in (1, 2, 3)] == [
        False,
        True,
        False,
    ]


def segment_ratios(levels):
    """How many ratios of segments are listed of a run with so many levels and one with a single
    level.
    """
    times = [level for level in (1.0, 1.2, 2.4, 2.2, 2.1)[:levels] for _ in range(20)]
    return len(pair_of(timed(times), timed([1.0] * 100, MI300X)).ratio.segments)


def share_a_change(place):
    """Whether two runs change their speed at the same place, where one does after 50 steps."""
    runs = (dated(day, timed([1.0] * at + [1.2] * (120 - at))) for day, at in ((1, 50), (2, place)))
    (system,) = comparison(tuple(runs)).models[0].systems
    return len(system.segments) == 2


def method(rounds):
    """By which method runs of a session are compared in which two systems took turns in being
    first.
    """
    groups = [
        tuple(
            timed(
                [seconds * (1 + 0.003 * number * (-1) ** number)] * 40,
                device,
                session="s",
                round=number,
                timestamp=f"2026-02-02T{10 + number}:0{place ^ (number % 2)}:00+00:00",
            )
            for number in range(1, rounds + 1)
        )
        for place, (device, seconds) in enumerate(((H100, 1.0), (MI300X, 1.1)))
    ]
    return pair_of(*groups).ratio.method


def rounded(records):
    """So many times of three values."""
    return [1.0, 1.1, 1.2, *[1.0] * (records - 3)]


def copies(records):
    """How many runs are left of two with the same times at different dates."""
    runs = (dated(day, timed(rounded(records))) for day in (1, 2))
    return len(comparison(*runs).models[0].systems[0].runs)


def says_one_measurement(records):
    """Whether a note calls equal times under two setups one measurement."""
    config = TrainingConfig(
        global_batch_size=64, sequence_length=2048, num_gpus=4, precision="bf16"
    )
    runs = timed(rounded(records)), timed(rounded(records), training_config=config)
    return any("one measurement" in note for note in texts_of(comparison(*runs).notes))


def is_cut(text):
    """Whether a text is cut in the name of a system that has it as its label."""
    return not any(
        text in system.name
        for system in comparison(make_run(label=text), make_run()).models[0].systems
    )


def is_shortened(clause):
    """Whether what a step time covers is told in fewer words."""
    covers = (Timing(covers=each) for each in (clause, "forward"))
    (group,) = (
        comparison(*(make_run(label=str(index), timing=each) for index, each in enumerate(covers)))
        .models[0]
        .groups
    )
    return not any(
        clause in text_of(caveat) for caveat in group.caveats if caveat.code == "timer-differs"
    )


def differing(first, second, code="settings-differ"):
    """The text on settings of frameworks that differ between two runs."""
    runs = (
        make_run(label=str(place), framework_config=each)
        for place, each in enumerate((first, second))
    )
    (group,) = comparison(*runs).models[0].groups
    return next(text_of(caveat) for caveat in group.caveats if caveat.code == code)


def shows_whole(count):
    """Whether a value of so many characters is shown as it is."""
    return differing({"kernel": "x" * count}, {"kernel": "y"}) == f"kernel: {'x' * count} vs y"


def names_both(count):
    """Whether both of two settings are shown with their values, in a text of so many characters."""
    second = "b" * (count - len("aaa: 1 vs 2; : 1 vs 2"))
    text = differing({"aaa": 1, second: 1}, {"aaa": 2, second: 2})
    assert text in (f"aaa: 1 vs 2; {second}: 1 vs 2", f"aaa: 1 vs 2; also {second}")
    return f"{second}: 1 vs 2" in text


@pytest.mark.parametrize("unsettled", [(), (0,), (1,)])
def test_a_run_that_never_settles_takes_the_interval_of_a_pair(unsettled):
    slow, fast = (
        tuple(
            dated(
                day,
                timed(
                    [2 * seconds] * (16 if place in unsettled else 0)
                    + [seconds + 0.001 * day] * 14,
                    device,
                ),
            )
            for day in (1, 2)
        )
        for place, (device, seconds) in enumerate(((H100, 1.5), (MI300X, 1.0)))
    )
    assert (pair_of(slow, fast).ratio.low is None) == bool(unsettled)


def test_the_runs_that_are_needed_are_those_of_the_system_that_varies_more():
    even, uneven = (
        tuple(dated(day, timed([seconds] * 40, device)) for day, seconds in enumerate(times, 1))
        for device, times in (
            (H100, (1.000001, 1.000002, 1.000003)),
            (MI300X, (0.970001, 1.000001, 1.000001)),
        )
    )
    ratio = pair_of(even, uneven).ratio
    spread = statistics.stdev(map(math.log, (0.970001, 1.000001, 1.000001)))
    assert ratio.low < 1 < ratio.high
    assert ratio.runs_needed == intervals.runs_needed(abs(ratio.value - 1), spread)


def test_the_largest_drift_of_several_runs_is_told():
    rising = (1.03, 1.08, 1.05)
    runs = tuple(
        dated(day, timed([1 + (end - 1) * step / 99 for step in range(100)]))
        for day, end in enumerate(rising, 1)
    )
    (group,) = comparison(runs, timed([1.2] * 100, MI300X)).models[0].groups
    (text,) = (text_of(caveat) for caveat in group.caveats if caveat.code == "drift")
    assert "up to 8%" in text


def test_the_most_severe_event_of_a_kind_is_named():
    issues = tuple(
        TelemetryIssue(code=code, text=f"it is {code}") for code in ("power-cap", "thermal")
    )
    run = make_run(telemetry=Telemetry(issues=issues))
    (group,) = comparison(run, make_run(**AMD)).models[0].groups
    (text,) = (text_of(caveat) for caveat in group.caveats if caveat.code == "throttled")
    assert text.endswith("it is thermal")


EVENTS = {
    "throttled": (
        *(
            "thermal",
            "hardware-slowdown",
            "power-brake",
            "power-cap",
            "clock-setting",
            "sync-boost",
            "slower-gpu",
        ),
    ),
    "shared": ("gpu-shared", "cpu-quota", "memory-pressure", "io-pressure"),
    "device-errors": (
        "gpu-lost",
        "xid",
        "ecc-uncorrected",
        "memory-retired",
        "link-errors",
        "pcie-narrow",
    ),
}


@pytest.mark.parametrize(("code", "events"), EVENTS.items())
def test_each_event_of_a_kind_is_named_and_before_all_that_are_less_severe(code, events):
    for place, event in enumerate(events):
        # The least severe is recorded first.
        issues = tuple(
            TelemetryIssue(code=each, text=f"it is {each}") for each in reversed(events[place:])
        )
        (group,) = (
            comparison(make_run(telemetry=Telemetry(issues=issues)), make_run(**AMD))
            .models[0]
            .groups
        )
        (found,) = (caveat for caveat in group.caveats if caveat.code == code)
        assert (found.severity, text_of(found)) == ("warning", f"8×H100 (BF16): it is {event}")
        quiet = tuple(msgspec.structs.replace(issue, severity="info") for issue in issues)
        (group,) = (
            comparison(make_run(telemetry=Telemetry(issues=quiet)), make_run(**AMD))
            .models[0]
            .groups
        )
        assert code not in {caveat.code for caveat in group.caveats}


def test_a_range_of_prices_goes_with_the_interval_of_the_speedup():
    slow, fast = (
        tuple(dated(day, timed([seconds] * 40, device)) for day, seconds in enumerate(times, 1))
        for device, times in ((H100, (2.000001, 2.020001)), (MI300X, (0.999999, 1.010001)))
    )
    found = with_prices(comparison(slow, fast), ["H100=2:3", "MI300X=1:1.1"]).comparison
    (pair,) = found.models[0].pairs
    low, high = pair.speedup.bounds
    assert low < high
    # A token costs least with the fast one at its lowest price and its largest lead, and the slow
    # one at its highest.
    assert cost(found, pair).saving == (
        pytest.approx(1 - 1.1 / (2 * low)),
        pytest.approx(1 - 1 / (3 * high)),
    )


@limits(
    ("ratios of segments", segment_ratios, (4, 4), (5, 2)),
    ("place of a change", share_a_change, (60, True), (61, False)),
    ("rounds", method, (3, "welch"), (4, "paired")),
    ("records that tell a copy", copies, (19, 2), (20, 1)),
    ("characters of a label", lambda count: is_cut("x" * count), (120, False), (121, True)),
    (
        "characters of a clause",
        lambda count: is_shortened("word " * 7 + "x" * (count - 35)),
        (44, False),
        (45, True),
    ),
    ("records that tell a measurement", says_one_measurement, (19, False), (20, True)),
    ("characters of a setting's value", shows_whole, (60, True), (61, False)),
    ("characters of a line of settings", names_both, (78, True), (79, False)),
)
def test_systems_and_their_ratio(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("count", "name"),
    [(44, "steps 35–44"), (90, "10 ending at 90"), (21, "last 10"), (140, "100 after 40")],
)
def test_a_window_needs_its_records(count, name):
    found = [
        dict(sensitivity(timed([1.0] * each), timed([2.0] * each, MI300X))).get(name)
        for each in (count - 1, count)
    ]
    assert found == [None, pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("all but the first", range(2, 141)),
        ("steps 35–44", range(35, 45)),
        ("10 ending at 90", range(81, 91)),
        ("skip 10 %", range(15, 141)),
        ("last 10", range(131, 141)),
        ("100 after 40", range(41, 141)),
    ],
)
def test_a_window_has_its_steps(name, steps):
    # Each step takes as many seconds as its number squared, so that no two windows have the same
    # mean.
    times = [float(step**2) for step in range(1, 141)]
    mean = sum(step**2 for step in steps) / len(steps)
    assert dict(sensitivity(timed([1.0] * 140), timed(times, MI300X)))[name] == pytest.approx(
        1 / mean
    )


@pytest.mark.parametrize(
    ("metric", "of_steps", "of_blocks"),
    [
        ("avg_step_time_seconds", "geometric mean", "all seconds over all steps"),
        ("median_step_time_seconds", "mean", "median"),
        *(
            (rate, "geometric mean", "all steps over all seconds")
            for rate in (
                "steps_per_second",
                "tokens_per_second",
                "tokens_per_second_per_gpu",
                SAMPLES_RATE,
            )
        ),
        ("min_step_time_seconds", "lowest", "lowest"),
        ("max_step_time_seconds", "highest", "highest"),
        ("peak_memory_allocated_gb", "highest", "highest"),
        ("avg_memory_allocated_gb", "mean", "mean"),
        ("total_time_seconds", "mean", "mean"),
        ("final_loss", "mean", "mean"),
    ],
)
def test_how_the_values_of_runs_become_one(metric, of_steps, of_blocks):
    assert (figures.over_runs(metric), figures.over_runs(metric, of_blocks=True)) == (
        of_steps,
        of_blocks,
    )


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("highest", 4.0),
        ("lowest", 1.0),
        ("mean", 7 / 3),
        ("median", 2.0),
        ("geometric mean", 2.0),
        ("all seconds over all steps", (1 * 10 + 2 * 10 + 4 * 20) / 40),
        ("all steps over all seconds", 40 / (10 / 1 + 10 / 2 + 20 / 4)),
    ],
)
def test_each_rule_for_the_values_of_runs(rule, value):
    assert figures.OVER_RUNS[rule]((1.0, 2.0, 4.0), (10, 10, 20)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("slower", "other", "text", "limit"),
    [
        (None, None, "0%", 1.0),
        ("0%", None, "0%", 1.0),
        ("3%", None, "3% slower", 0.97),
        (None, "tokens_per_second_per_gpu=100", "100 tokens/s/GPU slower", -100.0),
        (None, "tokens_per_second=0", "0 tokens/s", 0.0),
        (None, "tokens_per_second=100", "100 tokens/s lower", -100.0),
        (None, "tokens_per_second=5%", "5% lower", 0.95),
        (None, "avg_step_time_seconds=0%", "0%", 1.0),
        (None, "avg_step_time_seconds=5%", "+5%", 1.05),
        (None, "peak_memory_allocated_gb=0", "0 GB", 0.0),
        (None, "peak_memory_allocated_gb=2", "+2 GB", 2.0),
        (None, "final_loss=0%", "0%", 1.0),
        (None, "final_loss=0.1", "+0.1 nats/token", 0.1),
    ],
)
def test_a_threshold_says_in_which_direction_it_is(slower, other, text, limit):
    (threshold,) = parse(slower, [other] if other else [])
    assert (str(threshold), threshold.limit) == (text, pytest.approx(limit))


class TestFiguresOfARun:
    def test_the_longest_and_the_shortest_step_are_those_of_all_runs(self):
        times = ([1.0] * 40 + [1.5], [1.1] * 40 + [1.3], [1.0] * 20 + [0.9] + [1.0] * 20)
        (system,) = (
            comparison(tuple(dated(day, timed(each)) for day, each in enumerate(times, 1)))
            .models[0]
            .systems
        )
        assert system.value("max_step_time_seconds") == 1.5
        assert system.value("min_step_time_seconds") == 0.9

    def test_of_blocks_the_typical_one_is_that_of_the_median_run(self):
        runs = []
        for day, seconds in enumerate((100.0, 101.0, 115.0), 1):
            blocks = (
                Entry(
                    kind="training",
                    start=200.0 * n,
                    duration=seconds,
                    first_step=1 + 100 * n,
                    last_step=100 * n + 100,
                )
                for n in range(4)
            )
            runs.append(dated(day, timed(()), timeline=tuple(blocks)))
        (system,) = comparison(tuple(runs)).models[0].systems
        assert system.value("median_step_time_seconds") == pytest.approx(1.01)
        assert system.value("avg_step_time_seconds") == pytest.approx(3.16 / 3)

    def test_memory_is_the_highest_peak_and_the_mean_of_the_averages(self):
        memory = [
            MemoryMetrics(peak_memory_allocated_gb=10.0 * day, avg_memory_allocated_gb=1.0 * day)
            for day in (1, 2, 3)
        ]
        runs = tuple(
            dated(day, timed([1.0 + 0.001 * day] * 40), memory_metrics=each)
            for day, each in enumerate(memory, 1)
        )
        (system,) = comparison(runs).models[0].systems
        assert system.value("peak_memory_allocated_gb") == 30.0
        assert system.value("avg_memory_allocated_gb") == pytest.approx(2.0)


class TestBaseline:
    def test_one_of_another_sequence_length_is_none(self):
        runs = (
            make_run(step_time=1.0),
            make_run(**AMD, step_time=2.0),
            make_run("NVIDIA A100", length=4096, step_time=9),
        )
        (group,) = comparison(*runs).models[0].groups
        assert group.baseline.gpu == MI300X

    def test_one_that_is_impossible_is_none(self):
        power = {
            "mean_power_watts_per_gpu": 900.0,
            "measured_seconds": 60.0,
            "power_cap_watts": 700.0,
        }
        impossible = make_run("NVIDIA A100-SXM4-80GB", energy_metrics=power, step_time=9.0)
        (group,) = (
            comparison(make_run(), make_run(**AMD, step_time=2.0), impossible).models[0].groups
        )
        assert group.baseline.gpu == H100

    def test_where_none_has_a_speed_it_is_the_first(self):
        for devices in ((H100, MI300X), (MI300X, H100)):
            (group,) = comparison(*(failed_run(device) for device in devices)).models[0].groups
            assert group.baseline.gpu == devices[0]


def check(before, after, slower="3%"):
    files = [
        [Loaded(f"{kind}.json", kind * 8, tuple(runs))]
        for kind, runs in (("old", before), ("new", after))
    ]
    (found,) = check_regression(*files, parse(slower, ())).checks
    return found


def of_day(day, times):
    return [dated(day + index, timed([time] * 40)) for index, time in enumerate(times)]


def alone(seconds):
    """The runs of each that would decide where one run each has such a difference from a threshold
    of 0 %.
    """
    return check(of_day(1, [1.0]), of_day(11, [seconds]), "0%").runs_needed


def answer(seconds, slower="0%"):
    """The answer to four runs each that vary by 1 %, where those of the candidate take so long."""
    # All digits, since what is printed coarsely varies by its rounding.
    spread = (0.990001, 0.999999, 1.000001, 1.010001)
    return check(of_day(1, spread), of_day(11, [seconds * each for each in spread]), slower).answer


def of_memory(factor):
    """The answer to memory that is the same in every run, and so many times that of the
    baseline.
    """
    groups = (
        [
            msgspec.structs.replace(
                run, memory_metrics=MemoryMetrics(peak_memory_allocated_gb=used)
            )
            for run in runs
        ]
        for runs, used in (
            (of_day(1, [1.0, 1.1]), 10.0),
            (of_day(11, [1.0001, 1.1001]), 10.0 * factor),
        )
    )
    files = [
        [Loaded(f"{kind}.json", kind * 8, tuple(runs))]
        for kind, runs in zip(("old", "new"), groups, strict=True)
    ]
    _, found = check_regression(*files, parse("3%", ["peak_memory_allocated_gb=1%"])).checks
    return found.answer


def takes_threshold(text):
    try:
        return bool(parse(text, ()))
    except UsageError:
        return False


def test_more_runs_are_asked_for_than_there_are():
    # By its spread the candidate differs from the threshold with two runs of each, but two alone
    # don't show a spread.
    before = [1 + 1e-6 * number for number in range(1, 21)]
    found = check(of_day(1, before), of_day(41, [1.009001, 1.011001]), "0%")
    assert (found.answer, found.runs) == ("inconclusive", (20, 2))
    assert intervals.runs_needed(0.01, 0.002 / math.sqrt(2)) == 2
    assert found.runs_needed == 3


@limits(
    # A spread of 1 % is assumed: 2.8 standard errors √(2/n) · 1 %.
    ("runs that are needed", alone, (1.00396, None), (1.00402, 100)),
    ("assumed spread", alone, (1.0125, 12), (1.0135, 11)),
    ("significance", answer, (1.0139, "inconclusive"), (1.0143, "worse")),
    ("nothing", of_memory, (0.0, "not comparable"), (1e-9, "within")),
    ("the threshold itself", of_memory, (1.01, "within"), (1.01001, "worse")),
    ("threshold", lambda amount: takes_threshold(f"{amount}%"), (99.9, True), (100.0, False)),
)
def test_a_regression_check(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def breaks(efficiency):
    """Whether scaling breaks at 16 GPUs of such an efficiency, one run of each size."""
    runs = timed([1.0] * 40), timed([0.5 / efficiency] * 40)
    config = msgspec.structs.replace(runs[1].training_config, num_gpus=16)
    (curve,) = scaling_of(
        comparison(runs[0], msgspec.structs.replace(runs[1], training_config=config))
    ).curves
    return curve.breaks_at is not None


def traced(*, work, idle=0.0, communication=0.0, rows=4096):
    """A trace with a product, idle time and communication, µs."""
    trace, end = MadeTrace(), work + idle + communication
    trace.step(1, 0, end)
    shapes = {"Input Dims": [[rows, 8192], [8192, 1024]], "Input type": ["c10::BFloat16"] * 2}
    trace.operator("aten::mm", 1, 4, **shapes)
    trace.kernel("nvjet_tst", 2, idle, idle + work)
    if communication:
        trace.kernel("ncclDevKernel_AllReduce_Sum_bf16", 5, idle + work, end)
    breakdown = Breakdown()
    breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
    return Traced("A", breakdown.trace(), None)


def is_unequal(rows):
    return (
        explain(traced(work=1000.0, rows=10_000), traced(work=1000.0, rows=rows)).unequal_work
        is not None
    )


@limits(
    ("efficiency", breaks, (0.899, True), (0.901, False)),
    (
        "idle time",
        lambda idle: traced(work=1000.0 - idle, idle=idle).limit,
        (499.0, "gpu"),
        (501.0, "idle_host_launch"),
    ),
    (
        "communication",
        lambda time: traced(work=1000.0 - time, communication=time).limit,
        (499.0, "gpu"),
        (501.0, "communication"),
    ),
    ("other work", is_unequal, (10_190, False), (10_210, True)),
)
def test_scaling_and_traces(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("sessions", "is_compared"), [(("a", "a"), True), (("a", "b"), False), ((None, None), False)]
)
def test_runs_of_one_session_are_of_one_configuration_however_much_they_differ(
    sessions, is_compared
):
    runs, other = unlike(2.01)
    runs = tuple(
        msgspec.structs.replace(run, session=each) for run, each in zip(runs, sessions, strict=True)
    )
    assert (pair_of(runs, other).ratio is not None) is is_compared


def pair_of_two(factor, other=4.0):
    """Two runs, one of which takes so many times as long as the other, and two equal ones of
    another system.
    """
    one = [dated(day, timed([time] * 40)) for day, time in enumerate((3.0, 3.0 * factor), 1)]
    return tuple(one), tuple(dated(day, timed([other] * 40, MI300X)) for day in (1, 2))


@limits(
    (
        "width",
        lambda factor: pair_of(*pair_of_two(factor)).ratio.is_too_wide,
        (1.117, False),
        (1.12, True),
    )
)
def test_an_interval_that_excludes_neither_half_nor_twice_is_withheld(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])
    pair = pair_of(*pair_of_two(above[0]))
    assert (pair.ratio.low, pair.ratio.high, pair.ratio.method, pair.is_unsettled) == (
        None,
        None,
        None,
        True,
    )
    assert pair_of(*pair_of_two(below[0])).ratio.high > 1


@limits(
    (
        "equal",
        lambda time: pair_of(*pair_of_two(1.15, time)).ratio.is_too_wide,
        (7.7, True),
        (7.8, False),
    )
)
def test_an_interval_that_excludes_equality_is_shown_however_wide(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_a_rate_on_another_clock_than_its_own_is_said_to_be():
    block = (Entry(kind="training", start=0.0, duration=200.0, first_step=1, last_step=60),)
    alone = msgspec.structs.replace(make_run(step_times=(None,) * 60), timeline=block)
    both, plain = (make_run(MI300X, stack="rocm", timeline=each) for each in (block, ()))

    def codes(*runs):
        return {each.code: text_of(each) for each in comparison(*runs).models[0].groups[0].caveats}

    assert re.search(
        r"rates on the common clock: 8×MI300X \S+ \d+\.\d% (lower|higher) than on its own",
        codes(alone, both)["clock-differs"],
    )
    assert "clock-differs" not in codes(make_run(), plain)
    assert "clock-differs" not in codes(make_run(), both)


def test_a_table_says_which_rate_is_on_another_clock_than_the_baselines():
    block = (Entry(kind="training", start=0.0, duration=200.0, first_step=1, last_step=60),)
    alone = msgspec.structs.replace(
        make_run("NVIDIA B200", step_times=(None,) * 60), timeline=block
    )
    made = comparison(
        make_run(MI300X, stack="rocm", timeline=block), alone, make_run(step_time=4.0)
    )
    (row,) = (line for line in screens.shown(report(made)).splitlines() if " vs blocks)" in line)
    assert row.split()[0] == "H100"
    assert "× (timer vs blocks)" in row
    made = comparison(
        make_run(MI300X, stack="rocm"), make_run("NVIDIA B200"), make_run(step_time=4.0)
    )
    assert "(timer" not in screens.shown(report(made))
