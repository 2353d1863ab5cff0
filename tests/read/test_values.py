"""Printed values: numbers, and ratios of them."""

from __future__ import annotations

import pytest

from tprimat.read.parsing.text import utc
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    duration,
    number,
    state,
    summary_values,
    whole_ratio,
)
from tprimat.results.fields import LARGEST_COUNT, LARGEST_VALUE


@pytest.mark.parametrize(
    ("printed", "known"),
    [
        ("1,234", 1234.0), ("45,538.5", 45538.5), ("1,234,567", 1234567.0), ("12,345%", 12345.0), ("1,234e3", 1.234e6),
        # No comma between thousands: a decimal comma, or a torn number.
        ("7,95", None), ("45,", None), ("45,5", None), ("1234,567", None), ("1,2345", None), (",5", None),
    ],
)  # fmt: skip
def test_commas_stand_between_thousands(printed, known):
    assert number(printed) == known


@pytest.mark.parametrize(
    ("above", "below", "whole"),
    [
        # Two roundings of half a unit: of three digits 49 is told from 48 and 50, of four 499 from 500.
        (("49.0",), ("1.00",), 49), (("50.0",), ("1.00",), None),
        (("499.0",), ("1.000",), 499), (("500.0",), ("1.000",), None),
        (("8.07",), ("1.00",), 8), (("8.09",), ("1.00",), None),
        (("9876.00",), ("1234.50",), 8), ((812345,), ("40.010", "2538.0"), 8), ((70000.0,), (50.01, 1399.72), 1),
        # Nothing of a GPU, or less than one.
        (("1000",), ("2000",), None), ((0.0,), (1.0,), None), ((1.0,), (0.0,), None), ((None,), (8.0,), None),
        (("nan",), ("1.0",), None), (("1e300", "1e300"), ("1e300", "1e300"), None), (("-8",), ("-1",), None),
    ],
)  # fmt: skip
def test_ratios_that_are_whole(above, below, whole):
    assert whole_ratio(above, below) == whole


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00:50", 50.0),
        ("1 day, 1:09:40", 90_580.0),
        ("2 days, 0:00:00", 172_800.0),
        ("25s", 25.0),
        ("25.5s", 25.5),
        ("1h 9m 40s", 4180.0),
        ("1d 2h", 93_600.0),
        ("", None),
        ("12:30", None),
        ("25", None),
        ("1h 9m 40s ago", None),
    ],
)
def test_printed_durations(text, seconds):
    assert duration(text) == seconds


def test_values_of_a_summary_are_in_the_units_of_a_result():
    printed = {"peak_memory_allocated_mib": 1024.0, "total_memory_gib": 80.0, "peak_memory_reserved_gb": None}
    assert summary_values(printed) == {"peak_memory_allocated_gb": 1.074, "total_memory_gb": 85.899}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, None),
        (0, None),
        (-1.0, None),
        ((1 << 32) - 1, "2106-02-07T06:28:15+00:00"),
        (1 << 32, None),
        (1.7e9, "2023-11-14T22:13:20+00:00"),
    ],
)
def test_times_since_1970(seconds, shown):
    assert utc(seconds) == shown


class TestLoggedValues:
    def test_what_is_stated_without_a_place_is_of_the_first_line(self):
        stated = LoggedValues()
        state(stated, "seed", 7)
        state(stated, "model", None, "model: none", 3)
        state(stated, "batch", 8, " batch \t of  8 ", 5, 2)
        state(stated, "long", 1, "x" * 301)
        assert stated.pop("long").text == "x" * 300
        assert stated == {"seed": LoggedValue(7, 1, "seed: 7", 1), "batch": LoggedValue(8, 5, "batch of 8", 2)}

    @pytest.mark.parametrize(
        ("weight", "value", "kept"), [(1, 8, (4, 9)), (2, 8, (8, 12)), (3, 8, (8, 12)), (2, 4, (4, 9)), (3, 4, (4, 9))]
    )
    def test_the_heavier_statement_holds_and_of_equal_ones_the_later(self, weight, value, kept):
        stated, later = LoggedValues(), LoggedValues()
        state(stated, "batch", 4, "", 9, 2)
        state(later, "batch", value, "", 12, weight)
        stated.absorb(later)
        assert (stated["batch"].value, stated["batch"].line) == kept

    @pytest.mark.parametrize(
        ("value", "count", "number_", "word"),
        [
            (0, None, 0.0, None),
            (1, 1, 1.0, None),
            (LARGEST_COUNT, LARGEST_COUNT, float(LARGEST_COUNT), None),
            (LARGEST_COUNT + 1, None, float(LARGEST_COUNT + 1), None),
            (LARGEST_VALUE, None, LARGEST_VALUE, None),
            (-LARGEST_VALUE, None, -LARGEST_VALUE, None),
            (LARGEST_VALUE * 1.01, None, None, None),
            (float("nan"), None, None, None),
            (True, None, None, None),
            (2.0, None, 2.0, None),
            ("two", None, None, "two"),
            ("", None, None, None),
            (None, None, None, None),
        ],
    )
    def test_a_value_is_only_what_it_can_be(self, value, count, number_, word):
        stated = LoggedValues(n=LoggedValue(value, 1, ""))
        assert (stated.count("n"), stated.number("n"), stated.word("n")) == (count, number_, word)
        assert (stated.count_statement("n") is None) == (count is None)
        assert LoggedValues().count("n") is LoggedValues().number("n") is LoggedValues().word("n") is None
