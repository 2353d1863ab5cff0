"""Printed values: numbers, and ratios of them."""

from __future__ import annotations

import pytest

from tprimat.read.parsing.values import number, whole_ratio


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
