"""Quantities as text, and errors as lines and statuses."""

from __future__ import annotations

import io
import itertools
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tprimat import console, errors, units
from tprimat.errors import ExitStatus


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (0.0, 0.0),
        (3.24111278, 3.241),
        (123456.78949, 123456.789),
        (0.624, 0.624),
        (0.6245678, 0.6246),
        (0.0354321, 0.03543),
        (3.7e-05, 3.7e-05),
        (1.726512e-05, 1.727e-05),
        (-0.00012345678, -0.0001235),
        (0.99999, 1.0),
        (0.1, 0.1),
        (1e300, 1e300),
        (5e-324, 5e-324),
    ],
)
def test_a_figure_keeps_three_decimals_or_four_digits(value, stored):
    assert units.round_figure(value) == stored


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_loses_less_than_it_may(value):
    stored = units.round_figure(value)
    assert (
        abs(stored - value) <= max(0.0005 if abs(value) >= 1 else 0.0, 0.0005 * abs(value)) + 5e-324
    )
    assert units.round_figure(stored) == stored


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_no_figure(value):
    with pytest.raises(ValueError, match="must be finite"):
        units.round_figure(value)


def test_gibibytes_are_more_than_gigabytes():
    assert units.gib_to_gb(191.98) == pytest.approx(206.137, abs=0.001)
    assert units.gib_to_gb(1) == 1.073741824


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (3.2411, "3.241 s"), (0.1, "0.100 s"), (0.0354, "35.4 ms"), (0.00012, "0.1 ms")],
)
def test_a_step_time_for_people(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (360000, "100 h 00 min"),
    ],
)
def test_a_duration_for_people(value, text):
    assert units.duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (5055.05, "5,055.1"), (0, "0.0")])
def test_a_number_for_people(value, text):
    assert units.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (85.018, "85.02 GB")])
def test_memory_for_people(value, text):
    assert units.gigabytes(value) == text


def test_an_amount_of_data_for_people():
    assert [units.size(size) for size in (66_600, 6_660_000, 29_999_999_999)] == [
        "66.6 kB",
        "6.7 MB",
        "30.0 GB",
    ]


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.3623, "1.36×"), (1.0123, "1.012×"), (0.987, "0.987×"), (0.5, "0.50×")]
)
def test_a_ratio_close_to_one_has_more_digits(ratio, text):
    assert units.times(ratio) == text


# Errors

MOST_SEVERE_FIRST = [70, 2, 5, 4, 3, 1, 6, 0]


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations_with_replacement(MOST_SEVERE_FIRST, 2))
)
def test_the_gravest_of_two_statuses_counts(first, second):
    assert errors.most_severe([ExitStatus(first), ExitStatus(second)]) == first
    assert errors.most_severe([ExitStatus(second), ExitStatus(first)]) == first


def test_every_status_has_its_rank():
    assert {int(status) for status in ExitStatus} == set(MOST_SEVERE_FIRST)
    assert errors.most_severe(ExitStatus) == ExitStatus.INTERNAL_ERROR


def test_with_nothing_to_tell_all_is_well():
    assert errors.most_severe([]) == ExitStatus.OK
    assert errors.most_severe(iter(())) == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("x", heading="h"), 2),
        (errors.UnreadableError("x", "y", heading="h"), 2),
        (errors.NotComparableError("x", heading="h"), 3),
        (errors.TrainingFailedError("x", heading="h"), 5),
        (errors.missing_package("p", "c", "f"), 2),
    ],
)
def test_an_error_knows_its_status(error, status):
    assert isinstance(error, errors.TensorPrimatError)
    assert error.status == status


def test_an_error_names_its_heading():
    error = errors.UsageError("wrong\n  thing:\tdo  this", heading="the-heading")
    assert error.line() == "error: wrong thing: do this\nsee:   docs/troubleshooting.md#the-heading"


def test_an_error_of_a_file_names_its_line():
    assert (
        errors.UnreadableError("a.json", "broken", heading="h", line=7).message
        == "a.json:7: broken"
    )
    assert errors.UnreadableError("a.json", "broken", heading="h").message == "a.json: broken"


@pytest.mark.parametrize(
    "text", ["a\x1b[2Jb", "a\x07b", "a\u202eb", "a\x00b", "a\ud800b", "a\x9b2Jb"]
)
def test_an_error_carries_nothing_that_a_terminal_acts_on(text):
    line = errors.UnreadableError(text, text, heading="h").line()
    assert line.replace("\n", "").isprintable()
    assert line.encode()


def test_a_missing_package_is_named_with_the_command_that_brings_it():
    error = errors.missing_package("matplotlib", "pip install matplotlib", "the picture")
    assert (
        error.message
        == "the picture needs the package matplotlib, which is not installed: pip install"
        " matplotlib"
    )
    assert error.line().splitlines() == [
        "error: the picture needs the package matplotlib, which is not installed",
        "hint:  pip install matplotlib",
        "see:   docs/troubleshooting.md#missing-package",
    ]


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [40, 80])
def test_c12_a_terminal_gets_whole_words_on_its_standard_error(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    hint = "hint:  " + "python3 -m tprimat read --output-dir results/ " * 3
    text = f"error: a.log: {'the log ends before its first step ' * 5}\n{hint}"
    for stream, is_wrapped in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        console.error(text, see="no-steps")
        *lines, command, see = stream.getvalue().splitlines()
        # A command is copied as it stands.
        assert command == hint
        assert see == "see:   docs/troubleshooting.md#no-steps"
        assert (max(map(len, lines)) <= columns) == is_wrapped
        assert " ".join(" ".join(lines).split()) == " ".join(text.partition("\n")[0].split())
