"""What systems, pairs and comparisons say of themselves, from values that the test states."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from made_runs import H100, MI300X, make_run
from made_systems import finding_of, pair_of, result, segment, system, value
from stored_runs import note, notes_of

from tprimat.analysis.intervals import Interval
from tprimat.compare.result import (
    RATE,
    SAMPLES_RATE,
    Comparison,
    Group,
    MetricValue,
    ModelComparison,
    Ratio,
    SegmentRatio,
    SettingRow,
)
from tprimat.errors import ExitStatus
from tprimat.read.parsing.remarks import no_step_times
from tprimat.results.run import Environment, MemoryMetrics

RANGE = Interval(1.0, 3.0, "range", None)


class TestRun:
    @pytest.mark.parametrize(
        ("run", "seconds", "rate"),
        [
            (make_run(batch=64, gpus=8), 4.0, 2.0),
            (make_run(batch=None), 4.0, None),
            (make_run(gpus=None), 4.0, None),
            (make_run(), None, None),
        ],
    )
    def test_its_rate_in_samples(self, run, seconds, rate):
        made = result(100.0, run, unit="samples", performance={"avg_step_time_seconds": seconds})
        assert made.rate == rate
        assert dataclasses.replace(made, unit="tokens").rate == 100.0

    def test_its_values_by_the_names_of_metrics(self):
        run = make_run(
            memory_metrics=MemoryMetrics(avg_memory_allocated_gb=3.0, peak_memory_process_gb=5.0)
        )
        made = result(100.0, run, performance={"std_step_time_seconds": 0.25})
        names = (
            "avg_memory_allocated_gb",
            "peak_memory_process_gb",
            "std_step_time_seconds",
            RATE,
            "final_loss",
            "x",
        )
        assert [made.value(name) for name in names] == [3.0, 5.0, 0.25, 100.0, None, None]


def changing(at, first=2.0, second=1.0, run=None, **fields):
    parts = (segment(4, at - 1, first), segment(at, 60, second, **fields))
    return result(100.0, run or make_run(), segments=parts)


class TestSegments:
    def test_of_a_single_run_they_are_its_own(self):
        parts = (segment(4, 20, 2.0, interval=RANGE), segment(21, 60, 1.0), segment(61, 80, 3.0))
        assert system("A", result(segments=parts)).segments == parts
        assert system("A", result(segments=parts[:1])).segments == ()
        assert (
            system("A", result(segments=parts), result(segments=parts[:1], is_valid=False)).segments
            == parts
        )

    @pytest.mark.parametrize(
        ("places", "others", "is_shared"),
        [
            ((31,), 1, False),
            ((31, 31), 0, True),
            ((31, 31), 1, True),
            ((31, 31), 2, False),
            ((31, 31, 31), 2, True),
            ((31, 31, 31), 3, False),
            # Ten records apart are one place, eleven aren't, in either direction.
            ((31, 41), 0, True),
            ((31, 42), 0, False),
            ((41, 31), 0, True),
            ((42, 31), 0, False),
            # One run that changes elsewhere takes nothing from those that agree.
            ((10, 31, 32, 33), 1, True),
        ],
    )
    def test_of_several_runs_they_are_what_most_share(self, places, others, is_shared):
        made = system("A", *[result()] * others, *map(changing, places))
        assert bool(made.segments) is is_shared

    def test_their_speeds_are_the_geometric_means_of_the_runs_that_agree(self):
        runs = (
            changing(12, 9.0, 9.0),
            changing(31, 2.0, 1.0, cause="x", interval=RANGE),
            changing(33, 4.0, 3.0),
            changing(30, 8.0, 9.0, tokens_per_second_per_gpu=None),
        )
        first, second = system("A", *runs).segments
        # 1000 tokens/s/GPU over the step time; of the last run the second is unknown.
        of_first = {"mean": pytest.approx(4.0), "tokens_per_second_per_gpu": pytest.approx(250.0)}
        assert vars(first) == {**vars(segment(4, 30, 2.0)), **of_first}
        of_second = {
            "mean": pytest.approx(3.0),
            "tokens_per_second_per_gpu": pytest.approx((1000 * 1000 / 3) ** 0.5),
        }
        assert vars(second) == {**vars(segment(31, 60, 1.0, cause="x")), **of_second}

    def test_without_any_rate_there_is_none(self):
        parts = [segment(4, 30, 2.0, tokens_per_second_per_gpu=None), segment(31, 60, 1.0)]
        first, second = system("A", result(segments=parts), result(segments=parts)).segments
        assert (first.tokens_per_second_per_gpu, second.tokens_per_second_per_gpu) == (
            None,
            pytest.approx(1000.0),
        )

    def test_places_are_counted_in_records(self):
        run = make_run()
        run = msgspec.structs.replace(run, steps=tuple(range(10, 610, 10)), window_steps=(10,) * 60)
        for apart, is_shared in ((100, True), (110, False)):
            made = system("A", changing(300, run=run), changing(300 + apart, run=run))
            assert bool(made.segments) is is_shared

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_run_that_changes_more_often_isn_t_alike(self, turn):
        three = (segment(4, 30, 2.0), segment(31, 40, 1.0), segment(41, 60, 2.0))
        made = system("A", *(changing(31), result(segments=three))[::turn])
        assert made.segments == ()

    def test_each_place_of_a_change_counts(self):
        def twice(second):
            return result(
                segments=(
                    segment(4, 20, 2.0),
                    segment(21, second - 1, 1.0),
                    segment(second, 60, 2.0),
                )
            )

        assert [bool(system("A", twice(31), twice(at)).segments) for at in (41, 42)] == [
            True,
            False,
        ]


class TestSystem:
    @pytest.mark.parametrize(
        ("severities", "place"),
        [
            ((), None),
            (("info", "warning"), None),
            (("warning", "unverified", "error"), 1),
            (("error", "unverified"), 0),
        ],
    )
    def test_the_first_finding_that_excludes_it(self, severities, place):
        findings = tuple(
            finding_of(each, "rule", str(number)) for number, each in enumerate(severities)
        )
        assert system("A", findings=findings).exclusion == (
            None if place is None else findings[place]
        )

    def test_what_its_runs_say(self):
        runs = (
            result(120.0, make_run(batch=2), is_valid=False, unsettled=True),
            result(None, make_run(batch=1)),
            result(100.0, make_run(batch=3)),
            result(150.0, make_run(batch=4)),
        )
        made = system("A", *runs)
        assert made.valid_runs == runs[1:]
        assert made.run is runs[1].run
        assert (made.speeds, made.spread) == ([100.0, 150.0], 1.5)
        assert (made.is_unsettled, made.unit) == (False, "tokens")
        other = system("B", *(dataclasses.replace(each, is_valid=False) for each in runs))
        assert (other.valid_runs, other.run, other.speeds, other.spread) == (
            (),
            runs[0].run,
            [],
            1.0,
        )
        assert system("A", runs[2], result(unsettled=True)).is_unsettled
        assert system("A", result(unit="samples")).unit == "samples"

    @pytest.mark.parametrize(
        ("run", "vendor"),
        [
            (make_run(), "NVIDIA"),
            (make_run(MI300X), "AMD"),
            (make_run(MI300X, stack="rocm"), "AMD"),
            (make_run("Unheard-of 9"), "NVIDIA"),
            (make_run(None), "NVIDIA"),
            (make_run(None, stack="rocm"), "AMD"),
            (make_run("AMD EPYC", stack="cpu"), None),
            (make_run(H100, stack="cpu"), None),
            (make_run(None, stack=None), None),
        ],
    )
    def test_its_vendor(self, run, vendor):
        assert system("A", result(run=run)).vendor == vendor

    @pytest.mark.parametrize(
        ("sessions", "is_one"),
        [
            (("s",), True),
            ((None,), True),
            (("s", "s", "s"), True),
            ((None, None), False),
            (("s", None), False),
            (("s", "t"), False),
        ],
    )
    def test_whether_one_session_measured_it(self, sessions, is_one):
        runs = [result(run=make_run(session=each)) for each in sessions]
        assert (
            system("A", *runs, result(run=make_run(session="x"), is_valid=False)).is_one_session
            is is_one
        )

    @pytest.mark.parametrize(
        ("fields", "warnings", "why"),
        [
            ({}, (), note("untimed")),
            (
                {},
                (*notes_of("x"), no_step_times("A", but="; B; C"), no_step_times("D")),
                note("untimed", why="A"),
            ),
            ({"status": "failed"}, (), note("untimed", ended="failed")),
            (
                {"status": "incomplete", "status_reason": "killed"},
                (),
                note("untimed", ended="is incomplete", reason="killed"),
            ),
            ({"status_reason": "x" * 121}, (), note("untimed", reason=f"{'x' * 119}…")),
            (
                {"environment": Environment(emulated=True)},
                (no_step_times("A"),),
                note("on-emulated-device"),
            ),
        ],
    )
    def test_why_it_is_untimed(self, fields, warnings, why):
        runs = (
            result(None, make_run(**fields), is_valid=False),
            result(None, make_run(), is_valid=False),
        )
        assert system("A", *runs, run_notes=warnings).why_untimed == why

    @pytest.mark.parametrize(
        ("unit", "rate"), [("tokens", 100.0), ("samples", 7.0), ("steps", 0.5)]
    )
    def test_its_figures(self, unit, rate):
        figures = {SAMPLES_RATE: value(7.0), "final_loss": MetricValue(2.5, 2.0, 3.0, 4)}
        made = system(
            "A",
            result(100.0),
            values={**figures, RATE: value(100.0), "steps_per_second": value(0.5)},
        )
        made = dataclasses.replace(made, runs=(result(100.0, unit=unit),))
        assert (made.value(RATE), made.figure(RATE)) == (rate, value(rate))
        assert (made.value("final_loss"), made.figure("final_loss")) == (2.5, figures["final_loss"])
        assert (made.value("x"), made.figure("x")) == (None, None)


PARTS = (
    SegmentRatio(1.25, "4–30", None),
    SegmentRatio(2.0, "31–60", "5–9"),
    SegmentRatio(1.6, None, "10–60"),
)


@pytest.mark.parametrize(
    ("ratio", "estimates", "bounds", "is_significant"),
    [
        (Ratio(1.5, None, None), [1.5], (1.5, 1.5), None),
        (Ratio(1.5, 1.2, 1.9), [1.5], (1.2, 1.9), True),
        (Ratio(1.5, 1.2, 1.9, segments=PARTS), [1.5], (1.2, 1.9), True),
        (Ratio(1.5, None, None, segments=PARTS), [1.25, 2.0, 1.6], (1.25, 2.0), None),
        (Ratio(0.8, 0.7, 0.9), [0.8], (0.7, 0.9), True),
        (Ratio(1.5, None, 1.9), [1.5], (1.5, 1.5), None),
        (Ratio(1.5, 1.2, None), [1.5], (1.5, 1.5), None),
        (Ratio(1.1, 0.9, 1.3), [1.1], (0.9, 1.3), False),
        # An interval that ends at 1 doesn't exclude it.
        (Ratio(1.1, 1.0, 1.3), [1.1], (1.0, 1.3), False),
        (Ratio(0.9, 0.8, 1.0), [0.9], (0.8, 1.0), False),
    ],
)
def test_a_ratio(ratio, estimates, bounds, is_significant):
    assert (ratio.estimates, ratio.bounds, ratio.is_significant) == (
        estimates,
        bounds,
        is_significant,
    )


def test_an_inverted_ratio():
    made = Ratio(0.5, 0.4, 0.8, "welch", 0.03, 7, PARTS, is_too_wide=True)
    segments = (
        SegmentRatio(0.8, None, "4–30"),
        SegmentRatio(0.5, "5–9", "31–60"),
        SegmentRatio(0.625, "10–60", None),
    )
    assert made.inverted() == Ratio(2.0, 1.25, 2.5, "welch", 0.03, 7, segments, is_too_wide=True)
    assert Ratio(0.5, None, None).inverted() == Ratio(2.0, None, None)


def steps(*counts):
    return [result(performance={"total_steps": each}) for each in counts]


class TestPair:
    @pytest.mark.parametrize(
        ("ratio", "is_turned"),
        [
            (Ratio(1.5, None, None), False),
            (Ratio(0.5, None, None), True),
            (Ratio(1.0, None, None), False),
            (None, False),
        ],
    )
    def test_the_faster_one(self, ratio, is_turned):
        one, other = system("A"), system("B")
        made = pair_of(one, other, ratio=ratio)
        assert (made.faster, made.slower) == ((one, other) if is_turned else (other, one))
        assert made.speedup == (Ratio(2.0, None, None) if is_turned else ratio)

    def test_of_equal_speeds_the_ratio_stays_as_it_is(self):
        ratio = Ratio(1.0, 0.5, 1.6)
        assert pair_of(system("A"), system("B"), ratio=ratio).speedup == ratio

    @pytest.mark.parametrize(
        ("ratio", "is_short", "counts", "lacks", "is_unsettled"),
        [
            (Ratio(1.5, None, None), False, (10, 80), None, False),
            (Ratio(1.5, None, None), True, (10, 80), None, True),
            (Ratio(1.5, None, None, is_too_wide=True), False, (29, 80), "steps", True),
            (Ratio(1.5, None, None, is_too_wide=True), False, (30, 80), "runs", True),
            (Ratio(1.5, None, None, is_too_wide=True), False, (80, 29), "steps", True),
            (None, False, (10, 20), None, False),
        ],
    )
    def test_what_it_lacks(self, ratio, is_short, counts, lacks, is_unsettled):
        one, other = (
            system(name, *steps(50, count)) for name, count in zip("AB", counts, strict=True)
        )
        made = pair_of(one, other, ratio=ratio, is_short=is_short)
        assert (made.lacks, made.is_unsettled) == (lacks, is_unsettled)
        assert made.steps == (min(counts), max(*counts, 50))

    def test_unknown_steps_are_none(self):
        assert pair_of(system("A", *steps(7, None)), system("B", *steps(9))).steps == (0, 9)


@pytest.mark.parametrize(
    ("values", "differs", "unknown"),
    [
        (("1", "1"), False, False),
        (("1", "2"), True, False),
        (("1", None), True, False),
        ((None, None), False, True),
    ],
)
def test_a_row_of_settings(values, differs, unknown):
    row = SettingRow("x", values, essential=True)
    assert (row.differs, row.unknown) == (differs, unknown)


A, B, C = (system(name) for name in "ABC")
ERROR, UNVERIFIED = (
    system(each, findings=(finding_of(each, "x", "y"),)) for each in ("error", "unverified")
)
RATIO = Ratio(1.5, None, None)


def compared(systems, *pairs, mode="best", apart=False):
    halves = [systems[:1], systems[1:]] if apart else [systems]
    groups = tuple(
        Group(tuple(each), each[0], pairs if each is halves[-1] else (), ()) for each in halves
    )
    models = [ModelComparison("m", "M", (group,), "M") for group in groups]
    return Comparison(tuple(models), (), (), (), (), mode)


def of(verdict, ratio, other=B):
    pair = pair_of(A, other, ratio=ratio)
    return dataclasses.replace(
        pair, config_diff=dataclasses.replace(pair.config_diff, verdict=verdict)
    )


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (compared([A, B], of("best configuration", RATIO)), ExitStatus.OK),
        (compared([A, B], of("not comparable", RATIO)), ExitStatus.OK),
        (compared([A, B], of("best configuration", RATIO), mode="same"), ExitStatus.OK),
        (
            compared([A, B, C], of("not comparable", None), of("same configuration", RATIO, C)),
            ExitStatus.OK,
        ),
        (
            compared(
                [A, B, C],
                of("not comparable", None),
                of("same configuration", RATIO, C),
                mode="same",
            ),
            ExitStatus.NOT_COMPARABLE,
        ),
        (compared([A, ERROR, B], of("best configuration", None), of("", RATIO)), ExitStatus.OK),
        (compared([A, ERROR], of("best configuration", None)), ExitStatus.IMPLAUSIBLE),
        (compared([ERROR]), ExitStatus.IMPLAUSIBLE),
        (compared([A, UNVERIFIED], of("best configuration", None)), ExitStatus.NOT_COMPARABLE),
        (compared([A, B], of("best configuration", None)), ExitStatus.NOT_COMPARABLE),
        # One system, alone or of two models.
        (compared([A]), ExitStatus.OK),
        (compared([A, dataclasses.replace(A, name="B")], apart=True), ExitStatus.OK),
        (
            compared([A, dataclasses.replace(A, name="B")], of("best configuration", None)),
            ExitStatus.NOT_COMPARABLE,
        ),
        *(
            (
                compared([A, dataclasses.replace(A, **changed)], apart=True),
                ExitStatus.NOT_COMPARABLE,
            )
            for changed in ({"gpu": "x"}, {"count": 4}, {"framework": "x"}, {"parts": ("x",)})
        ),
    ],
)
def test_the_status_of_a_comparison(made, status):
    assert made.status == status


def test_systems_and_pairs_are_those_of_all_groups_and_models():
    pairs = [pair_of(one, other) for one, other in ((A, B), (B, C), (C, A))]
    groups = [
        Group((A, B), A, (pairs[0],), ()),
        Group((C,), C, (pairs[1],), ()),
        Group((B,), B, (pairs[2],), ()),
    ]
    models = (
        ModelComparison("m", "M", tuple(groups[:2]), "M"),
        ModelComparison("n", "N", (groups[2],), "N"),
    )
    made = Comparison(models, (), (), (), ())
    assert (models[0].systems, models[0].pairs) == ((A, B, C), (pairs[0], pairs[1]))
    assert (made.systems, made.pairs) == ([A, B, C, B], pairs)
