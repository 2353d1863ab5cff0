"""The times of steps by all clocks that a text has, and how well they are known."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence

import pytest

from tprimat.read.forms import clocks
from tprimat.read.forms.clocks import PRINTED, Timed, timed
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.text import Stamp

DAY = datetime.datetime(2026, 1, 30, 12)


def times_of(
    distances: Sequence[float] = (),
    *,
    stride: int = 1,
    resolution: float = 1e-6,
    has_unit: bool = True,
    is_of_step: bool = True,
    paused: Sequence[int] = (),
    took: float | None = None,
    batch: float | None = None,
    **native: Sequence[float | None],
) -> Timed:
    """The times by records of every `stride` steps with these values; their time stamps are so far
    apart, s.
    """
    count = max([len(distances) + 1 if distances else 0, *map(len, native.values())])
    found = [Record(stride * number, number) for number in range(1, count + 1)]
    for record, at in zip(found, itertools.accumulate(distances, initial=0.0), strict=False):
        if distances:
            record.stamp = Stamp(DAY + datetime.timedelta(seconds=at), resolution)
    for name, values in native.items():
        for record, value in zip(found, values, strict=True):
            if value is not None:
                record.native[PRINTED if name == "printed" else name] = value
    return timed(
        found,
        has_unit=has_unit,
        is_of_step=is_of_step,
        paused=frozenset(paused),
        took=took,
        batch=batch,
    )


def codes_of(found: Timed) -> list[str]:
    return [note.code for note in found.doubts]


def test_without_times_there_are_none():
    assert times_of(loss=[3, 2, 1]) == Timed()


class TestPrintedTimes:
    """A printed time that a clock confirms, corrects or contradicts."""

    @pytest.mark.parametrize(
        ("printed", "is_certain"),
        [(1.0, True), (1.0299, True), (0.9701, True), (0.9699, False)],
    )
    def test_two_clocks_agree_within_three_percent(self, printed, is_certain):
        found = times_of([1.0] * 5, printed=[printed] * 6)
        assert clocks.AGREEMENT == 0.03
        assert (found.kind, found.is_certain) == ("seconds", is_certain)
        assert list(found.seconds) == [printed] * 6
        assert found.doubts == []
        assert found.quotients["stamp"] == pytest.approx(printed)

    def test_a_step_that_takes_longer_than_passed_contradicts(self):
        found = times_of([1.0] * 5, printed=[1.0301] * 6)
        assert found.contradiction.code == "form-clocks-contradict"
        assert (found.contradiction.fields["share"], list(found.seconds)) == (1.03, [])

    def test_without_a_unit_it_is_milliseconds_where_the_clock_says_so(self):
        found = times_of([1.0] * 5, printed=[1005.0] * 6, has_unit=False)
        assert found.is_certain
        assert list(found.seconds) == pytest.approx([1.005] * 6)
        assert times_of([1.0] * 5, printed=[1005.0] * 6).contradiction

    def test_without_a_unit_and_a_clock_seconds_are_assumed(self):
        found = times_of(printed=[1.2] * 4, has_unit=False)
        assert codes_of(found) == ["form-unit-assumed"]
        assert list(found.seconds) == [1.2] * 4

    @pytest.mark.parametrize(
        ("printed", "kind", "seconds", "codes"),
        [
            (0.51, "seconds", 0.51, ["form-unit-assumed"]),
            (1.04, "stamp", 1.0, ["form-printed-is-part"]),
            (499.0, "stamp", 1.0, ["form-printed-is-part"]),
            (501.0, "seconds", 0.501, ["form-milliseconds-assumed"]),
            (1040.0, "", None, []),
        ],
    )
    def test_what_did_not_pass_is_not_assumed(self, printed, kind, seconds, codes):
        """A time without a unit: seconds while they fit into 1 s, milliseconds above."""
        found = times_of([1.0] * 5, printed=[printed] * 6, has_unit=False)
        assert (found.kind, codes_of(found)) == (kind, codes)
        assert list(found.seconds)[1:] == ([pytest.approx(seconds)] * 5 if kind else [])
        assert (found.contradiction is not None) == (not kind)

    def test_it_is_that_of_all_steps_since_the_line_before_where_the_clock_says_so(self):
        found = times_of([10.0] * 5, stride=10, printed=[10.1] * 6, is_of_step=False)
        assert found.is_certain
        assert list(found.seconds) == pytest.approx([1.01] * 6)

    @pytest.mark.parametrize(
        ("stride", "is_of_step", "codes"),
        [
            (10, False, ["form-interval-assumed"]),
            (2, False, ["form-interval-assumed"]),
            (1, False, []),
            (10, True, []),
        ],
    )
    def test_without_a_clock_it_is_assumed_to_be_one_steps(self, stride, is_of_step, codes):
        found = times_of(printed=[1.2] * 4, stride=stride, is_of_step=is_of_step)
        assert (codes_of(found), list(found.seconds)) == (codes, [1.2] * 4)
        if codes:
            assert found.doubts[0].fields["steps"] == stride

    def test_that_of_an_interval_is_divided_by_its_steps(self):
        found = times_of(stride=10, interval_seconds=[12.0] * 4, is_of_step=False)
        assert list(found.seconds) == pytest.approx([1.2] * 4)
        assert codes_of(found) == []

    def test_the_first_record_has_as_many_steps_as_it_can(self):
        records = [Record(step, 1, native={"interval_seconds": 10.0}) for step in (1, 11, 21)]
        found = timed(records, has_unit=True, is_of_step=False)
        assert list(found.seconds) == [10.0, 1.0, 1.0]

    @pytest.mark.parametrize(("printed", "kind"), [(0.501, "seconds"), (0.499, "stamp")])
    def test_less_than_half_of_what_passed_is_a_part_of_a_step(self, printed, kind):
        found = times_of([1.0] * 5, printed=[printed] * 6)
        assert clocks.PART == 0.5
        assert found.kind == kind
        assert codes_of(found) == (["form-printed-is-part"] if kind == "stamp" else [])

    def test_a_tiny_part_is_told_as_such(self):
        (doubt,) = times_of([10.0] * 5, printed=[0.0012] * 6).doubts
        assert doubt.fields["share"] == 0.00012

    def test_a_rate_makes_no_part_of_a_printed_time(self):
        found = times_of(printed=[0.3] * 5, steps_per_second=[1.0013] * 5)
        assert (found.kind, codes_of(found)) == ("seconds", [])


class TestTimesSinceTheStart:
    """Printed times that only rise."""

    def test_a_clock_says_that_they_count_from_the_start(self):
        found = times_of([1.0] * 5, printed=[5.0, 6.0, 7.0, 8.0, 9.0, 10.0], has_unit=False)
        assert found.is_certain
        assert list(found.seconds) == [None, 1.0, 1.0, 1.0, 1.0, 1.0]

    @pytest.mark.parametrize(
        ("printed", "kind"),
        [
            ([1.0, 1.2, 1.4, 1.5], "elapsed_seconds"),
            ([1.0, 1.2, 1.4, 1.499], "seconds"),
            ([1.0, 2.0, 1.9, 3.0], "seconds"),
            ([1.0, 2.0, 2.0, 3.0], "seconds"),
            ([1.0, 2.0, 2.8], "seconds"),
            ([1.0, 2.0, 3.0, 3.6], "elapsed_seconds"),
        ],
    )
    def test_without_a_clock_they_rise_by_half_over_four_lines(self, printed, kind):
        found = times_of(printed=printed, is_of_step=False)
        assert (clocks.GROWTH, clocks.FEWEST) == (1.5, 3)
        assert found.kind == kind
        if kind == "elapsed_seconds":
            assert found.seconds[0] is None
            assert found.seconds[1] == pytest.approx(printed[1] - printed[0])
        without = times_of(printed=printed, has_unit=False, is_of_step=False)
        is_assumed = ["form-elapsed-assumed"] if kind == "elapsed_seconds" else []
        assert codes_of(without) == ["form-unit-assumed", *is_assumed]

    def test_times_as_many_as_the_steps_are_not_asked(self):
        found = times_of(printed=[0.5, 1.0, 1.5, 2.0], is_of_step=False)
        assert (found.kind, codes_of(found)) == ("elapsed_seconds", [])

    def test_what_a_label_calls_a_steps_may_rise(self):
        """`step time: 1.0 s`, then 1.4, 1.8 and 2.2 s, as of longer and longer sequences."""
        assert list(times_of(printed=[1.0, 1.4, 1.8, 2.2]).seconds) == [1.0, 1.4, 1.8, 2.2]

    def test_stated_ones_are_a_clock(self):
        found = times_of(elapsed_seconds=[5.1, 6.3, 7.5, 8.7], stride=2)
        assert (found.kind, list(found.windows)) == ("elapsed_seconds", [2, 2, 2, 2])
        assert list(found.seconds) == [None, *[pytest.approx(0.6)] * 3]

    def test_they_never_fall(self):
        assert times_of(elapsed_seconds=[5.1, 6.3, 6.2, 8.7]) == Timed()


class TestImpossibleTimes:
    """Printed times of which none passes."""

    @pytest.mark.parametrize("printed", [0.0, -0.5])
    def test_they_are_none(self, printed):
        assert times_of(printed=[printed] * 5) == Timed()
        found = times_of(printed=[printed] * 5, steps_per_second=[2.05] * 5)
        assert found.kind == "steps_per_second"
        assert found.seconds[0] == pytest.approx(1 / 2.05)

    def test_a_rate_below_zero_is_none(self):
        assert times_of(steps_per_second=[-2.05] * 5) == Timed()

    @pytest.mark.parametrize(("rate", "share"), [(16.0, None), (64.0, 4.0)])
    def test_a_batch_that_each_line_prints_is_that_of_the_rate(self, rate, share):
        found = times_of(printed=[2.0] * 5, samples_per_second=[rate] * 5, batch=32.0)
        contradiction = found.contradiction
        assert (contradiction.fields["share"] if contradiction else None) == share


class TestCoarseClocks:
    """Time stamps of whole seconds."""

    @pytest.mark.parametrize(("last", "kind"), [(4.0, "stamp"), (3.0, "")])
    def test_four_of_its_units_pass_on_a_clock(self, last, kind):
        found = times_of([1.0] * int(last), resolution=1.0)
        assert clocks.FAINT == 4
        assert found.kind == kind

    @pytest.mark.parametrize(("usual", "is_certain"), [(4.0, True), (3.0, False)])
    def test_from_four_units_on_single_differences_say_something(self, usual, is_certain):
        """One difference holds an evaluation: the median leaves it out, the sum doesn't."""
        found = times_of([usual] * 4 + [36.0], resolution=1.0, printed=[usual] * 6)
        assert clocks.CLEAR == 4
        assert found.is_certain == is_certain

    def test_a_clock_that_agrees_with_two_meanings_decides_nothing(self):
        """1.4 s in lines of two steps are 0.7 or 1.4 s a step: 4 s in whole seconds are both."""
        given = {"stride": 2, "printed": [1.4] * 5, "is_of_step": False}
        coarse = times_of([2.0] * 4, resolution=2.0, **given)
        assert (coarse.is_certain, codes_of(coarse)) == (False, ["form-interval-assumed"])
        fine = times_of([1.4] * 4, resolution=1e-3, **given)
        assert fine.is_certain
        assert list(fine.seconds) == pytest.approx([0.7] * 5)

    @pytest.mark.parametrize(
        ("elapsed", "kind"),
        [
            # Whole seconds have a resolution of 1 s, tenths one of 0.1 s.
            ([1, 2, 3, 4], ""),
            ([1, 2, 3, 5], "elapsed_seconds"),
            ([0.1, 0.2, 0.3, 0.4], ""),
            ([0.1, 0.2, 0.3, 0.5], "elapsed_seconds"),
        ],
    )
    def test_digits_are_the_resolution_of_a_printed_time(self, elapsed, kind):
        assert times_of(elapsed_seconds=elapsed).kind == kind


class TestClocksAlone:
    """No time is printed: the best clock gives the times."""

    def test_two_that_agree_are_certain(self):
        found = times_of([1.0] * 5, steps_per_second=[1.001] * 6)
        assert (found.kind, found.is_certain, found.doubts) == ("stamp", True, [])
        assert set(found.quotients) == {"stamp", "steps_per_second"}

    @pytest.mark.parametrize(("rate", "contradicts"), [(1.0299, False), (1.0301, True)])
    def test_two_that_differ_contradict_each_other(self, rate, contradicts):
        found = times_of([1.0] * 5, steps_per_second=[1 / rate] * 6)
        assert (found.contradiction is not None) == contradicts
        assert found.is_certain != contradicts

    @pytest.mark.parametrize(("far", "codes"), [(2, []), (3, ["form-stamps-vary"])])
    def test_three_quarters_of_the_distances_are_alike(self, far, codes):
        distances = [1.0] * (8 - far) + [1.6] * far
        assert clocks.VARYING == 0.75
        assert codes_of(times_of(distances)) == codes
        # Within half of the usual one they are alike.
        assert codes_of(times_of([1.0] * 5 + [1.5] * 3)) == []

    @pytest.mark.parametrize(("count", "codes"), [(2, ["form-few-records"]), (3, [])])
    def test_three_differences_make_a_clock(self, count, codes):
        found = times_of([1.0] * count)
        assert codes_of(found) == codes
        assert [note.fields["count"] for note in found.doubts] == [count] * len(codes)
        assert codes_of(times_of([1.0] * count, steps_per_second=[1.001] * (count + 1))) == []

    @pytest.mark.parametrize(("rate", "doubts"), [(1.2, ["form-coarse-rate"]), (1.25, [])])
    def test_three_digits_of_a_rate_give_a_time(self, rate, doubts):
        found = times_of(steps_per_second=[rate] * 4)
        assert clocks.LEAST_DIGITS == 3
        assert found.kind == "steps_per_second"
        assert list(found.seconds) == [1 / rate] * 4
        assert [note.code for note in found.doubts] == doubts

    @pytest.mark.parametrize(
        ("native", "seconds"),
        [
            ({"tokens_per_step": [4096] * 4, "tokens_per_second": [8192] * 4}, [0.5] * 4),
            ({"consumed_tokens": [1e3, 2e3, 3e3, 4e3], "tokens_per_second": [2e3] * 4},
             [None, 0.5, 0.5, 0.5]),
            ({"global_batch_size": [64] * 4, "samples_per_second": [128] * 4}, [0.5] * 4),
            ({"consumed_samples": [64, 128, 192, 256], "samples_per_second": [128] * 4},
             [None, 0.5, 0.5, 0.5]),
            # Tokens of each line, not since the start.
            ({"consumed_tokens": [30e3, 31e3, 30.5e3, 32e3], "tokens_per_second": [2e3] * 4}, []),
            # A rate of one GPU says nothing without their number.
            ({"tokens_per_step": [4096] * 4, "tokens_per_second_per_gpu": [8192] * 4}, []),
        ],
    )  # fmt: skip
    def test_a_rate_and_a_size_give_a_time(self, native, seconds):
        assert list(times_of(**native).seconds) == seconds


class TestPauses:
    """What lies between two records besides their steps."""

    def test_the_time_of_an_evaluation_is_not_a_steps(self):
        found = times_of([1.0, 1.0, 9.0, 1.0, 1.0], paused=[3])
        assert list(found.seconds) == [None, 1.0, 1.0, None, 1.0, 1.0]

    def test_records_of_one_moment_are_covered_by_the_next(self):
        found = times_of([2.0, 0.0, 2.0, 1.0])
        assert list(found.seconds) == [None, 2.0, None, 1.0, 1.0]
        assert list(found.windows) == [1, 1, 1, 2, 1]


class TestTimeOfAll:
    """What a text says of the whole training bounds its steps."""

    @pytest.mark.parametrize(
        ("took", "seconds", "codes"),
        [
            # Five lines of 10 s, each of 10 steps: 500 s if of a step, 50 s if of ten.
            (476.3, 10.0, ["form-interval-assumed"]),
            (476.1, 1.0, ["form-window-assumed"]),
            (47.7, 1.0, ["form-window-assumed"]),
        ],
    )
    def test_steps_take_no_longer_than_all(self, took, seconds, codes):
        found = times_of(printed=[10.0] * 5, stride=10, is_of_step=False, took=took)
        assert clocks.LONGER == 0.05
        assert list(found.seconds) == [seconds] * 5
        assert codes_of(found) == codes

    def test_what_is_longer_in_any_case_contradicts(self):
        found = times_of(printed=[10.0] * 5, stride=10, is_of_step=False, took=47.5)
        assert found.contradiction.code == "form-clocks-contradict"

    def test_two_clocks_that_agree_need_no_third_one(self):
        found = times_of([1.0] * 4, printed=[1.0] * 5, took=1.0)
        assert found.is_certain


class TestTimesAsManyAsSteps:
    """Times that are proportional to the steps count from the start, however few they are."""

    @pytest.mark.parametrize(
        ("printed", "kind"),
        [
            ([2.0, 4.0, 6.0], "elapsed_seconds"),
            ([2.0, 4.0], "seconds"),
            ([2.0, 4.0, 5.7], "seconds"),
        ],
    )
    def test_the_last_step_is_three_times_the_first(self, printed, kind):
        found = times_of(printed=printed, is_of_step=False)
        assert clocks.PROPORTIONAL == 3
        assert found.kind == kind


class TestCoarseTimes:
    @pytest.mark.parametrize(("seconds", "codes"), [(10.0, []), (9.9, ["form-coarse-clock"])])
    def test_a_clock_of_whole_seconds_is_doubted_below_forty(self, seconds, codes):
        # Its ends may be off by 2 s together: 5% of 40 s.
        found = times_of([seconds] * 4, resolution=1.0)
        assert clocks.COARSE == 0.05
        assert codes_of(found) == codes

    def test_a_rate_is_finer_than_whole_seconds_that_confirm_it(self):
        found = times_of([3.0, 2.0, 3.0], resolution=1.0, steps_per_second=[0.01, 0.44, 0.4, 0.44])
        assert (found.kind, found.is_certain) == ("steps_per_second", True)
        assert found.seconds[1] == 1 / 0.44
