"""Values of a system from those of its runs, and the clock and steps that several systems share."""

from __future__ import annotations

import dataclasses
import datetime
import math
import statistics

import msgspec
import pytest
from made_runs import H100, make_run
from made_systems import finding_of, result, system
from stored_runs import notes_of, series

from tprimat.analysis.summary import UNLIKE_BLOCKS, UnlikeBlock, summarize
from tprimat.compare import figures
from tprimat.compare.figures import aligned, share_at_cap, system_result, trained_seconds
from tprimat.compare.result import SAMPLES_RATE, MetricValue, RunResult
from tprimat.compare.systems import System
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.report.rates import run_warnings, value_warnings
from tprimat.results.account import Entry, Timing
from tprimat.results.run import MemoryMetrics
from tprimat.results.telemetry import Telemetry, TelemetryIssue

SYSTEM = System(H100, 8, "nemo", "A", ("8×H100", "nemo"))
START = datetime.datetime(2026, 2, 1, tzinfo=datetime.timezone.utc)


def timed(times, **fields):
    return msgspec.structs.replace(make_run(steps=0, warmup=()), **{**series(times), **fields})


def block(seconds, first, last, start=0.0):
    return Entry(kind="training", start=start, duration=seconds, first_step=first, last_step=last)


def figures_of(value, low, high, runs):
    return MetricValue(
        pytest.approx(value), low and pytest.approx(low), high and pytest.approx(high), runs
    )


class TestValues:
    RATES, STEPS, MEMORY = (100.0, 200.0, 400.0), (10, 30, 20), (7.0, 3.0, 5.0)

    def results(self, **fields):
        return [
            result(
                rate,
                make_run(
                    memory_metrics=MemoryMetrics(
                        avg_memory_allocated_gb=used, peak_memory_process_gb=used
                    )
                ),
                performance={
                    "total_steps": count,
                    "median_step_time_seconds": 4000 / rate,
                    "min_step_time_seconds": 1 / rate,
                    "max_step_time_seconds": 9 / rate,
                },
                **fields,
            )
            for rate, count, used in zip(self.RATES, self.STEPS, self.MEMORY, strict=True)
        ]

    def test_of_steps(self):
        found = system_result(SYSTEM, self.results()).values
        assert dict(found) == {
            "tokens_per_second_per_gpu": figures_of(200.0, 100.0, 400.0, 3),
            # 400 over the rate.
            "avg_step_time_seconds": figures_of(2.0, 1.0, 4.0, 3),
            "median_step_time_seconds": figures_of(70 / 3, 10.0, 40.0, 3),
            "min_step_time_seconds": figures_of(1 / 400, 1 / 400, 1 / 100, 3),
            "max_step_time_seconds": figures_of(9 / 100, 9 / 400, 9 / 100, 3),
            "avg_memory_allocated_gb": figures_of(5.0, 3.0, 7.0, 3),
            "peak_memory_process_gb": figures_of(7.0, 3.0, 7.0, 3),
        }

    def test_of_blocks_each_step_counts_once(self):
        found = system_result(SYSTEM, self.results(clock="blocks", unit="samples")).values
        seconds = [4.0, 2.0, 1.0]
        # 64 sequences over 8 GPUs.
        samples = [8 / each for each in seconds]
        assert found["avg_step_time_seconds"] == figures_of(
            (4 * 10 + 2 * 30 + 1 * 20) / 60, 1.0, 4.0, 3
        )
        assert found["median_step_time_seconds"] == figures_of(20.0, 10.0, 40.0, 3)
        assert found["tokens_per_second_per_gpu"] == figures_of(
            60 / (10 / 100 + 30 / 200 + 20 / 400), 100.0, 400.0, 3
        )
        assert found[SAMPLES_RATE] == figures_of(
            60 / (10 / 2 + 30 / 4 + 20 / 8), min(samples), max(samples), 3
        )

    def test_samples_are_a_value_where_they_are_compared(self):
        results = self.results()
        mixed = [results[0], *(dataclasses.replace(each, unit="samples") for each in results[1:])]
        assert system_result(SYSTEM, mixed).values[SAMPLES_RATE] == figures_of(
            math.sqrt(4.0 * 8.0), 4.0, 8.0, 2
        )
        assert SAMPLES_RATE not in system_result(SYSTEM, results).values

    def test_what_runs_dont_state_counts_for_none(self):
        results = [
            result(
                rate,
                performance={"total_steps": steps, "median_step_time_seconds": 3.0},
                clock="blocks",
                unlike_block=UnlikeBlock("x", ""),
            )
            for rate, steps in ((100.0, None), (None, 7), (200.0, 3))
        ]
        found = system_result(SYSTEM, results).values
        # Unknown steps are one.
        assert found["tokens_per_second_per_gpu"] == figures_of(
            4 / (1 / 100 + 3 / 200), 100.0, 200.0, 2
        )
        assert "final_loss" not in found
        one = system_result(SYSTEM, results[:1]).values
        assert one["tokens_per_second_per_gpu"] == MetricValue(pytest.approx(100.0), None, None, 1)
        assert system_result(SYSTEM, []).values == {}

    @pytest.mark.parametrize(
        ("clocks", "are_blocks"),
        [
            ((), False),
            (("blocks",), True),
            (("blocks", "blocks"), True),
            (("blocks", "timer"), False),
        ],
    )
    def test_blocks_are_those_of_all_runs(self, clocks, are_blocks):
        assert figures.is_of_blocks([result(clock=each) for each in clocks]) is are_blocks


class TestSystemResult:
    def test_in_full(self):
        runs = (
            make_run(notes=notes_of("x", "y\n z")),
            make_run(status="failed", status_reason="lost", notes=notes_of("y z", "w")),
            make_run(status="incomplete"),
            make_run(status="incomplete", status_reason="killed"),
        )
        results = [
            result(rate, run, is_valid=place not in (1, 3), notes=notes_of(f"of {place}", "of all"))
            for place, (rate, run) in enumerate(
                zip((100.0, 900.0, 121.0, 700.0), runs, strict=True)
            )
        ]
        found = system_result(SYSTEM, results)
        assert {
            name: getattr(found, name) for name in ("gpu", "count", "framework", "name", "parts")
        } == vars(SYSTEM)
        assert found.runs == tuple(results)
        assert found.values["tokens_per_second_per_gpu"] == figures_of(110.0, 100.0, 121.0, 2)
        assert tuple(value_warnings(found)) == ("of 0", "of all", "of 1", "of 2", "of 3")
        assert tuple(run_warnings(found)) == (
            "a run failed: lost; it is excluded",
            "a run is incomplete; it is used",
            "a run is incomplete: killed; it is excluded",
            "x",
            "y z",
            "w",
        )
        assert (found.findings, found.order) == ((), None)

    @pytest.fixture
    def with_findings(self, monkeypatch):
        """A system of one run with these findings of the checks on values and on losses."""

        def make(physical, of_training=(), warnings=(), runs=1):
            monkeypatch.setattr(figures.physics, "findings", lambda run, summary: tuple(physical))
            monkeypatch.setattr(figures.training, "findings", lambda run: iter(of_training))
            return system_result(SYSTEM, [result(notes=notes_of(*warnings))] * runs)

        return make

    def test_findings_are_those_of_both_checks_and_each_is_there_once(self, with_findings):
        one, other = finding_of("warning", "a", "text a"), finding_of("info", "b", "text b")
        third = finding_of("unverified", "c", "text c")
        found = with_findings([one, other, one], [third], ["w"], runs=2)
        assert found.findings == (one, other, third)
        assert tuple(value_warnings(found)) == ("w", "text a", "text c")

    @pytest.mark.parametrize(
        ("rule", "severity", "is_repeated"),
        [("own-rate", "error", False), ("own-rate", "warning", True), ("other", "error", True)],
    )
    def test_why_a_rate_is_withheld_is_said_once(self, with_findings, rule, severity, is_repeated):
        withheld = Note("rate-withheld", {"printed": 8.0, "times": 2, "batch": 2, "length": 2})
        warnings = [words(withheld), "y"]
        found = with_findings(
            [finding_of("info", "a", "b"), finding_of(severity, rule, "text")], (), warnings
        )
        assert tuple(value_warnings(found)) == (*warnings[not is_repeated :], "text")

    def test_runs_that_don_t_count_are_not_checked(self, with_findings):
        with_findings([finding_of("error", "a", "b")])
        assert system_result(SYSTEM, [result(is_valid=False)]).findings == ()

    @pytest.mark.parametrize(
        ("steps", "typical", "text"),
        [
            # The mean over all steps is (10 · 4 + 30 · 2) / 40; the typical block's of the runs 2.0
            # and 1.0.
            ((10, 30), (2.0, 1.0), "a step takes on average 2.5 s, in the median block 1.5 s; b"),
            ((10, 30), (2.5, 2.5), None),
        ],
    )
    def test_of_blocks_the_typical_one_is_told_once(self, steps, typical, text):
        results = [
            result(
                400 / seconds,
                performance={"total_steps": count, "median_step_time_seconds": middle},
                clock="blocks",
                unlike_block=UnlikeBlock(unlike, ""),
                notes=notes,
            )
            for seconds, count, middle, unlike, notes in zip(
                (4.0, 2.0),
                steps,
                typical,
                "ab",
                (notes_of("x"), (Note(UNLIKE_BLOCKS), *notes_of("y"))),
                strict=True,
            )
        ]
        found = system_result(SYSTEM, results)
        assert tuple(value_warnings(found)) == (*([text] if text else []), "x", "y")

    def test_without_such_a_note_of_a_run_the_block_is_the_first_run_s(self):
        results = [
            result(
                performance={"median_step_time_seconds": 2.0},
                clock="blocks",
                unlike_block=UnlikeBlock(block, ": why"),
            )
            for block in "az"
        ]
        (text,) = tuple(value_warnings(system_result(SYSTEM, results)))
        assert text == "a step takes on average 4 s, in the median block 2 s; a: why"

    def test_of_records_there_is_no_typical_block(self):
        results = [
            result(
                performance={"median_step_time_seconds": 2.0},
                clock=each,
                notes=(Note(UNLIKE_BLOCKS),),
            )
            for each in ("blocks", "timer")
        ]
        assert tuple(value_warnings(system_result(SYSTEM, results))) == ()


def at(second, count=10, seconds=40.0):
    """A run of 400 s that begins at a second."""
    moment = None if second is None else (START + datetime.timedelta(seconds=second)).isoformat()
    return timed([seconds] * count, timestamp=moment)


@pytest.mark.parametrize(
    ("runs", "overlap"),
    [
        ([], False),
        ([at(0)], False),
        ([at(0), at(400), at(800)], False),
        # Half of the earlier one has passed, or hasn't.
        ([at(0), at(200)], False),
        ([at(0), at(199)], True),
        ([at(199), at(0)], True),
        ([at(0), at(500), at(699)], True),
        ([at(0), at(None), at(400)], False),
        ([at(0, 4), at(100), at(500)], False),
        ([at(0), at(100, 4), at(500)], True),
    ],
)
def test_runs_beside_each_other(runs, overlap):
    assert figures._overlap(runs) is overlap


def test_order_follows_the_rates_of_runs_that_count_and_lie_behind_each_other():
    rates = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0]

    def order(runs, valid=lambda _: True):
        results = [
            result(rate, run, is_valid=valid(rate)) for rate, run in zip(rates, runs, strict=True)
        ]
        return system_result(SYSTEM, results).order

    found = order([at(500 * number) for number in range(8)])
    assert found.kind == "rises"
    assert found.size == pytest.approx(105.5 / 101.5 - 1, rel=1e-3)
    assert order([at(100 * number) for number in range(8)]) is None
    assert order([at(500 * number) for number in range(8)], lambda rate: rate < 104) is None


def test_the_wall_time_of_a_run():
    assert trained_seconds(timed([1.0, None, 2.5])) == 3.5
    pause = Entry(kind="checkpoint", start=200.0, duration=30.0)
    assert trained_seconds(timed([1.0] * 3, timeline=(block(200.0, 1, 3), pause))) == 230.0
    assert trained_seconds(timed([])) == 0


def reading(share, samples, *codes):
    shares = {} if share is None else {"power-cap": share, "thermal": 0.9}
    issues = tuple(TelemetryIssue(code=code, text="x") for code in codes)
    return make_run(telemetry=Telemetry(samples=samples, throttle_shares=shares, issues=issues))


@pytest.mark.parametrize(
    ("runs", "share"),
    [
        ([], 0.0),
        ([make_run()], 0.0),
        ([reading(0.7, 10)], 0.7),
        (
            [reading(0.2, 30), reading(0.8, 90), reading(None, 40), reading(0.9, None)],
            (6 + 72) / 160,
        ),
        ([reading(0.7, 10), reading(0.7, 10, "thermal", "power-cap")], 0.0),
        ([reading(0.7, 10, "thermal")], 0.7),
    ],
)
def test_the_share_at_the_power_cap(runs, share):
    made = system(
        "A", *(result(run=run) for run in runs), result(run=reading(0.1, 99), is_valid=False)
    )
    assert share_at_cap(made) == pytest.approx(share)


def of(*runs, name="A"):
    return system_result(
        dataclasses.replace(SYSTEM, name=name),
        [RunResult(run, summarize(run), "f", True) for run in runs],
    )


def slow(count, steps, day=1, time=1.0, **fields):
    """A run whose first steps take five times as long."""
    moment = (START + datetime.timedelta(days=day)).isoformat()
    wobble = [time * (1 + 0.004 * math.sin(index)) for index in range(steps - count)]
    return timed([5.0 * time] * count + wobble, timestamp=moment, **fields)


def bounds(systems):
    return [
        [(each.summary.skipped, each.summary.stop) for each in made.valid_runs] for made in systems
    ]


class TestAligned:
    @pytest.mark.parametrize(
        ("runs", "found"),
        [
            # The latest slow start of any run, and the end of the shortest.
            (([(5, 80), (8, 100)], [(3, 90)]), [[(8, 80), (8, 80)], [(8, 80)]]),
            (([(8, 80), (5, 100)], [(3, 90)]), [[(8, 80), (8, 80)], [(8, 80)]]),
            (([(5, 80)], [(5, 80)]), [[(5, 80)], [(5, 80)]]),
            (([(0, 80)], [(0, 90)]), [[(0, 80)], [(0, 80)]]),
            # Where a slow start takes more than half of the shortest run, ends stay as they are. A
            # run is cut as far as its middle.
            (([(20, 100)], [(3, 40)]), [[(20, 40)], [(20, 40)]]),
            (([(21, 100)], [(3, 40)]), [[(21, 100)], [(20, 40)]]),
        ],
    )
    def test_the_steps_that_all_have(self, runs, found):
        systems = [
            of(*(slow(*each, day=day) for day, each in enumerate(runs_of, 1)), name=name)
            for name, runs_of in zip("AB", runs, strict=True)
        ]
        assert bounds(aligned(systems)) == found
        assert bounds(aligned(systems[::-1])) == found[::-1]

    def test_the_values_are_those_of_these_steps(self):
        long = slow(3, 60)
        times = (*long.step_times, *[3.0] * 40)
        long = timed(times)
        short = slow(10, 60, time=2.0)
        one, other = aligned([of(long, name="A"), of(short, name="B")])
        assert len(of(long).runs[0].summary.segments) == 2
        # A speed that changes counts with all that it becomes.
        assert bounds([one, other]) == [[(10, 100)], [(10, 60)]]
        long = slow(3, 100)
        one, other = aligned([of(long, name="A"), of(short, name="B")])
        (summary,) = (each.summary for each in one.valid_runs)
        assert (summary.steady.first_step, summary.steady.last_step) == (11, 60)
        assert one.value("avg_step_time_seconds") == pytest.approx(
            statistics.fmean(long.step_times[10:60])
        )
        assert [text for text in tuple(value_warnings(one)) if "MFU" not in text] == [
            "steps 61–100 are excluded: not all runs of the comparison are as long"
        ]
        assert (one.name, one.gpu, tuple(value_warnings(other))) == ("A", H100, ())

    def test_what_needs_no_change_stays_the_same(self):
        systems = [of(slow(5, 80), name=name) for name in "AB"]
        assert all(one is other for one, other in zip(aligned(systems), systems, strict=True))

    def test_what_is_excluded_is_compared_with_nothing(self):
        long, short = of(slow(5, 100)), of(slow(5, 80))
        excluded = dataclasses.replace(short, findings=(finding_of("error", "x", "y"),))
        for systems in ([long, excluded], [excluded, long]):
            assert all(one is other for one, other in zip(aligned(systems), systems, strict=True))

    def test_runs_that_don_t_count_cut_nothing(self):
        both = [
            RunResult(run, summarize(run), "f", valid)
            for run, valid in ((slow(5, 100), True), (slow(9, 60), False))
        ]
        made = system_result(SYSTEM, both)
        one, _ = aligned([made, of(slow(3, 90), name="B")])
        assert bounds([one]) == [[(5, 90)]]

    def test_all_are_measured_by_one_clock(self):
        timer, blocks = Timing(kind="timer"), (block(100.0, 1, 50), block(150.0, 51, 100, 100.0))
        both = slow(5, 100, timing=timer, timeline=blocks)
        alone = msgspec.structs.replace(both, step_times=(None,) * 100)
        stamps = slow(5, 100, timing=Timing(kind="stamps"))
        clock = [each.runs[0].summary.clock for each in aligned([of(both), of(alone)])]
        assert clock == ["blocks", "blocks"]
        assert aligned([of(both), of(alone)])[0].value("avg_step_time_seconds") == pytest.approx(
            2.5
        )
        assert [each.runs[0].summary.clock for each in aligned([of(both), of(slow(5, 100))])] == [
            "timer",
            "timer",
        ]
        # Without a common one each keeps its own.
        systems = [of(stamps), of(alone), of(slow(5, 80, timing=stamps.timing))]
        assert [each.runs[0].summary.clock for each in aligned(systems)] == [
            "stamps",
            "blocks",
            "stamps",
        ]
        # What has no records limits none.
        assert bounds(aligned(systems)) == [[(5, 80)], [(0, 0)], [(5, 80)]]

    def test_of_windows_the_bounds_move_to_the_next_records(self):
        def windows(width, count, start):
            run = slow(start, count)
            return msgspec.structs.replace(
                run,
                steps=tuple(range(width, width * count + 1, width)),
                window_steps=(width,) * count,
            )

        # Records of 10 steps begin after 40, those of 7 steps at 42 at the earliest, and then those
        # of 10 at 50.
        systems = [of(windows(10, 40, 4), name="A"), of(windows(7, 50, 2), name="B")]
        assert bounds(systems) == [[(40, 400)], [(14, 350)]]
        # Without the records that go beyond 350, and again at the next bounds: 50 and 42.
        assert bounds(aligned(systems)) == [[(50, 350)], [(56, 350)]]

    def test_summaries_of_the_first_system_are_kept(self, monkeypatch):
        calls = []
        original = figures.summarize

        def counting(run, *arguments, **options):
            calls.append(run)
            return original(run, *arguments, **options)

        monkeypatch.setattr(figures, "summarize", counting)
        first, second, third = (
            of(slow(5, 100)),
            of(slow(5, 80), name="B"),
            of(slow(5, 80, time=2.0), name="C"),
        )
        known = {}
        one = aligned([first, second], known)
        two = aligned([first, third], known)
        assert (len(calls), len(known)) == (1, 1)
        assert one[0] is two[0]
        # Other steps, another system.
        aligned([first, of(slow(5, 70), name="D")], known)
        aligned([of(slow(5, 100)), second], known)
        assert (len(calls), len(known)) == (3, 3)
        aligned([first, second])
        assert (len(calls), len(known)) == (4, 3)


def test_an_untimed_system_is_compared_as_it_is():
    empty = make_run(steps=0, warmup=())
    untimed = system_result(SYSTEM, [RunResult(empty, summarize(empty), "f", False)])
    assert bounds(aligned([of(slow(5, 80)), untimed])) == [[(5, 80)], []]
    assert aligned([untimed, untimed]) == [untimed, untimed]
