"""Printed values: numbers, and ratios of them."""

from __future__ import annotations

import pytest

from tprimat import api
from tprimat.read.parsing import values
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
        # Two roundings of half a unit: of three digits 49 is told from 48 and 50, of four 499 from
        # 500.
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
    printed = {
        "peak_memory_allocated_mib": 1024.0,
        "total_memory_gib": 80.0,
        "peak_memory_reserved_gb": None,
    }
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
        assert stated == {
            "seed": LoggedValue(7, 1, "seed: 7", 1),
            "batch": LoggedValue(8, 5, "batch of 8", 2),
        }

    @pytest.mark.parametrize(
        ("weight", "value", "kept"),
        [(1, 8, (4, 9)), (2, 8, (8, 12)), (3, 8, (8, 12)), (2, 4, (4, 9)), (3, 4, (4, 9))],
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
        assert (
            LoggedValues().count("n")
            is LoggedValues().number("n")
            is LoggedValues().word("n")
            is None
        )


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (2.5, 2.5),
        (3, 3.0),
        (" 2.5 ", 2.5),
        ("45.1%", 45.1),
        ("1.2e+03", 1200.0),
        ("nan", pytest.approx(float("nan"), nan_ok=True)),
        ("inf", float("inf")),
        ("1_000", None),
        ("x", None),
        ("", None),
        (None, None),
        (True, None),
        (False, None),
        ([], None),
        (10**400, None),
        ("-1,234.5", -1234.5),
        ("+7", 7.0),
    ],
)
def test_a_number(value, known):
    assert number(value) == known


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("5", 5),
        (5.0, 5),
        ("0", 0),
        (-1, None),
        (5.5, None),
        (2**53, 2**53),
        (2**53 + 2, None),
        ("x", None),
        ("nan", None),
        ("inf", None),
        ("1,024", 1024),
    ],
)
def test_a_whole_number(value, known):
    assert values.whole(value) == known
    assert values.count(value) == (known or None)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("0.0869", 3),
        ("1,234.50", 6),
        ("-7", 1),
        ("+1.20e-05", 3),
        ("1.2E5", 2),
        ("0.0", 0),
        ("100", 3),
    ],
)
def test_digits(text, known):
    assert values.digits(text) == known


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("MXFP8", "mxfp8"),
        ("torch.float8_e4m3", "fp8"),
        ("fp8-hybrid", "fp8"),
        ("torch.bfloat16", "bf16"),
        ("BF16-mixed", "bf16"),
        ("tf32", "tf32"),
        ("half", "fp16"),
        ("torch.float16", "fp16"),
        ("float32", "fp32"),
        ("fp32", "fp32"),
        ("16-true", "fp16"),
        ("16-mixed", "fp16"),
        (16, "fp16"),
        (32, "fp32"),
        ("32-true", "fp32"),
        ("64", None),
        (None, None),
        ("mixed", None),
    ],
)
def test_precisions(value, known):
    assert values.precision_of(value) == known


@pytest.mark.parametrize(
    ("text", "whole", "begun"),
    [
        ('{"a": 1}', {"a": 1}, {"a": 1}),
        ('{"a": NaN}', None, None),
        ('{"a": 1} x', None, {"a": 1}),
        ('[{"a": 1}]', None, None),
        ('{"a"', None, None),
        ("", None, None),
        ("{" * 10 + '"a":' * 9, None, None),
        ('{"a":' * 200_000, None, None),
        ("7", None, None),
    ],
)
def test_objects(text, whole, begun):
    if "NaN" in text:
        assert [str(read(text)) for read in (values.json_object, values.object_at)] == [
            "{'a': nan}"
        ] * 2
        return
    assert (values.json_object(text), values.object_at(text)) == (whole, begun)


def test_an_object_at_a_place():
    text = 'x {"a": 1} y'
    assert [values.object_at(text, place) for place in (2, 0, -1)] == [{"a": 1}, None, None]


def test_flat():
    assert list(values.flat({"a": {"b": {"c": 1}, "d": 2}, "e": [3], "f": {}})) == [
        ("a.b.c", 1), ("a.d", 2), ("e", [3]),
    ]  # fmt: skip
    deep: dict = {"x": 1}
    for _ in range(12):
        deep = {"n": deep}
    ((name, value),) = values.flat(deep)
    assert (name, value) == (".".join("n" * 9), {"n": {"n": {"n": {"x": 1}}}})


@pytest.mark.parametrize(
    ("name", "value", "result", "known"),
    [
        ("cumulative_milliseconds", 1500.0, "cumulative_seconds", 1.5),
        ("train_hours", 2.0, "train_seconds", 7200.0),
        ("peak_gib", 10.0, "peak_gb", 10.73741824),
        ("peak_mib", 1024.0, "peak_gb", 1.073741824),
        ("peak_mb", 1500.0, "peak_gb", 1.5),
        ("peak_bytes", 2.5e9, "peak_gb", 2.5),
        ("seconds", 7.0, "seconds", None),
    ],
)
def test_units(name, value, result, known):
    named, convert = values.name_and_unit(name)
    assert (named, convert and convert(value)) == (result, known and pytest.approx(known))


ROWS = values.statements(
    ("layers", values.count, 2, r"layers=(?P<layers>\w+)(?: of (?P<of>\w+))?"),
    ("", str, 5, r"size=(?P<size>\w+)"),
)


def test_statements_of_a_line():
    stated = LoggedValues()
    for line, text, quote in (
        (3, "layers=8 layers=9 size=a", ""),
        (4, "layers=x size=b", "other"),
        (5, "Layers=7", ""),
        (6, "layers=6 of 5", "  an  other "),
    ):
        values.read_statements(ROWS, text, line, stated, quote)
    assert {name: tuple(vars(each).values()) for name, each in stated.items()} == {
        "layers": (6, 6, "an other", 2), "of": (5, 6, "an other", 2), "size": ("b", 4, "other", 5),
    }  # fmt: skip
    assert tuple(values.Statement(ROWS[0].pattern))[1:] == (values.count, 1, "")


def test_what_says_nothing_is_not_stated():
    stated = LoggedValues()
    state(stated, "a", None)
    state(stated, "b", 5, "x" * 400, 7, 3)
    assert {name: tuple(vars(each).values()) for name, each in stated.items()} == {
        "b": (5, 7, "x" * 300, 3)
    }


def test_a_repeated_statement_keeps_its_first_line():
    stated, later = LoggedValues(), LoggedValues()
    state(stated, "a", 5, "first", 3)
    state(later, "a", 5, "later", 9)
    state(later, "b", 6, "b", 10)
    stated.absorb(later)
    assert {name: (each.value, each.line) for name, each in stated.items()} == {
        "a": (5, 3),
        "b": (6, 10),
    }
    assert (stated.count_statement("a"), stated.count_statement("c")) == (stated["a"], None)
    assert (stated.value("a"), stated.value("c"), stated.word("a")) == (5, None, None)


def test_a_statement_weighs_1_by_itself():
    assert LoggedValue(5, 3, "a") == LoggedValue(5, 3, "a", 1)


@pytest.mark.parametrize(
    ("printed", "factor", "value"),
    [
        (1537.6, "1e-3", 1.5376),
        (324.721609, "1e-3", 0.324721609),
        (1e-05, "1e-3", 1e-08),
        (0.07, "3600", 252.0),
        (5000.0, "1e-3", 5.0),
    ],
)
def test_c16_a_change_of_unit_adds_no_digits(printed, factor, value):
    assert values.times(printed, factor) == value


@pytest.mark.parametrize("name", ["step_time_ms", "time_ms"])
def test_c16_times_of_a_log_have_the_digits_that_it_prints(name, tmp_path):
    printed = [1537.6, 1026.62, 324.721609, 99.3, 1234.5678, 640.07]
    path = tmp_path / "log.csv"
    rows = [f"{step},{time},2.0" for step, time in enumerate(printed, 1)]
    path.write_text("\n".join([f"step,{name},loss", *rows, ""]), encoding="utf-8")
    (run,) = api.read_log(path, columns={"step": "step", "time_ms": name, "loss": "loss"})
    assert [repr(time) for time in run.step_times] == [
        "1.5376",
        "1.02662",
        "0.324721609",
        "0.0993",
        "1.2345678",
        "0.64007",
    ]
