"""The numbers of a line, each with its label, its unit and its meaning."""

from __future__ import annotations

import datetime
import math

import pytest

from tprimat.read.forms import fields
from tprimat.read.forms.fields import LONGEST, Piece, Pieces, seconds_of, value_of
from tprimat.read.parsing.text import NO_YEAR


def pieces_of(*lines: str) -> list[Piece]:
    """The pieces of the last of these lines of a text."""
    pieces = Pieces()
    for line in lines[:-1]:
        list(pieces.of(line))
    return list(pieces.of(lines[-1]))


def fields_of(*lines: str) -> list[tuple[str, str | None, float | None]]:
    """Label, kind and value of the numbers in the last of these lines."""
    found = []
    for piece in pieces_of(*lines):
        for field in piece.outline.fields:
            found.append((field.label, field.kind, value_of(field, piece.printed)))
    return found


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+0.5", 0.5),
        (".5", 0.5),
        ("5.", 5),
        ("3.2e-1", 0.32),
        ("1.09E+01", 10.9),
        ("1,024", 1024),
        ("1,234,567.5", 1_234_567.5),
        ("14.4K", 14_400),
        ("0.524M", 524_000),
        ("1.2B", 1.2e9),
        ("2G", 2e9),
        ("12:34", 754),
        ("2:03:04", 7384),
        ("1 day, 2:03:04", 93_784),
        ("10 days, 0:00:01.5", 864_001.5),
    ],
)
def test_numbers_as_programs_print_them(printed, value):
    ((label, _, found),) = fields_of(f"loss: {printed}")
    assert (label, found) == ("loss", value)


@pytest.mark.parametrize("printed", ["nan", "NaN", "-inf", "inf"])
def test_what_is_not_finite_is_a_number(printed):
    ((_, kind, found),) = fields_of(f"loss {printed}")
    assert kind == "loss"
    assert not math.isfinite(found)


@pytest.mark.parametrize(
    "text", ["v1.2.3", "sha1a2b", "0x1f", "fp16", "model_2", "10.0.0.1", "3a5f"]
)
def test_parts_of_names_versions_and_hashes_are_no_numbers(text):
    assert fields_of(f"on {text} now") == []


def test_a_count_of_nan_iterations_is_a_label():
    assert fields_of("number of nan iterations:   3 |") == [("number of nan iterations", "", 3)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:07", 7), ("1:00:00", 3600), ("1 day, 0:00:00", 86_400), ("2 days, 0:00:01", 172_801)],
)
def test_times_of_the_clock(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("loss: 2.5", ("loss", "loss", 2.5)),
        ("loss=2.5", ("loss", "loss", 2.5)),
        ("'loss': 2.5,", ("loss", "loss", 2.5)),
        ('"train/loss": 2.5}', ("train/loss", "loss", 2.5)),
        ("lr ......... 1e-4", ("lr", "learning_rate", 1e-4)),
        ("| elapsed time per iteration (ms): 4010.0 |", (
            "elapsed time per iteration (ms)", "seconds", 4.01)),
        ("Batch (t): 0.380,", ("Batch (t", "seconds", 0.38)),
        # Behind the number, where nothing stands before it.
        ("10.5 loss", ("loss", "loss", 10.5)),
        ("throughput per GPU: 900 tok/s", ("throughput per GPU", "tokens_per_second_per_gpu", 900)),
        ("speed: 900 tok/s", ("speed", "tokens_per_second", 900)),
        ("490 ms", ("", "seconds", 0.49)),
        # A time of something unknown is a part of a step.
        ("Matmul 490 ms", ("Matmul", "", 0.49)),
        ("avg step time: 1.2 s", ("avg step time", "mean_seconds", 1.2)),
        ("avg loss: 1.2", ("avg loss", "mean_loss", 1.2)),
        ("val loss: 1.2", ("val loss", "evaluation", 1.2)),
        # A unit doesn't make an estimate a speed.
        ("eta 90 s", ("eta", "", 90)),
        ("val 900 tok/s", ("val", "evaluation", 900)),
    ],
)  # fmt: skip
def test_a_label_and_a_unit_say_what_a_number_means(line, expected):
    assert fields_of(line) == [expected]


def test_a_label_behind_a_number_is_not_that_of_the_next_one():
    assert fields_of("10.5 loss, 18.70 s") == [("loss", "loss", 10.5), ("", "seconds", 18.7)]
    assert fields_of("78) loss: 9.2") == [("", None, 78), ("loss", "loss", 9.2)]


@pytest.mark.parametrize("total", ["12/90", "12 / 90", "12 of 90", "12 out of 90", "  12/    90"])
def test_a_count_has_its_total(total):
    (piece,) = pieces_of(f"step {total}, loss 2.5")
    step, loss = piece.outline.fields
    assert (step.kind, loss.kind) == ("step", "loss")
    assert piece.printed[step.total] == "90"


def test_what_stands_in_parentheses_is_a_mean_or_something_else():
    line = "time: 0.512 (0.498) data: 0.010 (0.020) loss 4.37"
    assert [value for _, _, value in fields_of(line)] == [0.512, 0.01, 4.37]
    assert ("", "seconds", 0.0806) in fields_of("step 100 4.37 (80.6 ms)")
    # The second of two times is a mean of the first.
    assert fields_of("time 0.512 s (0.498 s)") == [("time", "seconds", 0.512)]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("2026-01-30 12:00:01", (2026, 1, 30, 12, 0, 1)),
        ("2026-01-30 12:00:01,250", (2026, 1, 30, 12, 0, 1, 250_000)),
        ("2026/1/3 2:00:01", (2026, 1, 3, 2, 0, 1)),
        ("01/30/2026 12:00:01", (2026, 1, 30, 12, 0, 1)),
        ("31/01/2026 12:00:01", (2026, 1, 31, 12, 0, 1)),
        ("1/30/26, 3:00:01 PM", (2026, 1, 30, 15, 0, 1)),
        ("1/30/26, 12:00:01 AM", (2026, 1, 30, 0, 0, 1)),
        ("20260130 12:00:01", (2026, 1, 30, 12, 0, 1)),
        ("01-30 12:00:01", (NO_YEAR, 1, 30, 12, 0, 1)),
        ("Jan 30 12:00:01", (NO_YEAR, 1, 30, 12, 0, 1)),
        ("I0130 12:00:01.000250", (NO_YEAR, 1, 30, 12, 0, 1, 250)),
        ("12:00:01", (NO_YEAR, 1, 1, 12, 0, 1)),
        ("[12:00:01", (NO_YEAR, 1, 1, 12, 0, 1)),
    ],
)
def test_time_stamps_are_taken_out(printed, expected):
    (piece,) = pieces_of(f"{printed} step 3 loss 2.5")
    assert piece.stamp.time == datetime.datetime(*expected)
    assert [field.kind for field in piece.outline.fields if field.kind] == ["step", "loss"]


def test_a_stamp_with_an_offset_has_a_zone():
    (piece,) = pieces_of("2026-01-30T12:00:01.250+02:00 step 3")
    assert piece.stamp.time.utctimetuple()[:6] == (2026, 1, 30, 10, 0, 1)
    assert piece.stamp.resolution == pytest.approx(1e-3)


def test_the_finest_stamp_of_a_line_counts():
    (piece,) = pieces_of("2026-01-30 12:00:01 pod | 2026-01-30 12:00:00.875 step 3")
    assert piece.stamp.time.microsecond == 875_000
    assert piece.stamp.resolution == pytest.approx(1e-3)


@pytest.mark.parametrize("text", ["elapsed 0:01:02", "eta: 2:03:04", "2026-13-40 12:00:01"])
def test_a_time_in_a_line_is_no_stamp(text):
    (piece,) = pieces_of(f"step 3 {text} loss 2.5")
    assert piece.stamp is None


@pytest.mark.parametrize(
    ("title", "label"),
    [("", "bar"), ("Epoch 1: ", "bar"), ("Training: ", "bar"),
     ("Downloading: ", "other"), ("Map: ", "other"), ("Validating: ", "other"),
     ("Loading checkpoint shards: ", "other")],
)  # fmt: skip
def test_a_progress_bar_counts_unless_its_title_names_other_work(title, label):
    (piece,) = pieces_of(f"{title}12%|█▏   | 11/90 [00:44<05:16,  4.00s/it, loss=1.2]")
    assert piece.is_bar
    values = {field.label: value_of(field, piece.printed) for field in piece.outline.fields}
    assert values[label] == 11
    assert (values["elapsed"], values[""], values["loss"]) == (44, 4, 1.2)


@pytest.mark.parametrize(("between", "label"), [(109, "other"), (110, "bar")])
def test_the_title_of_a_bar_has_a_limited_length(between, label):
    """Of `Downloading` all eleven letters must be within 120 characters before the bar."""
    title = "Downloading" + " " * between
    assert fields.LONGEST_TITLE == 120
    (piece,) = pieces_of(f"{title}12%|█▏   | 11/90 [00:44<05:16,  4.00s/it]")
    assert piece.outline.field(label) is not None


def test_what_is_glued_to_a_bar_is_a_line_of_its_own():
    bar, line = pieces_of("12%|█▏  | 11/90 [00:44<05:16, 4.00s/it]step 12 loss 1.3")
    assert (bar.is_bar, line.is_bar) == (True, False)
    assert line.printed == ("12", "1.3")


@pytest.mark.parametrize(
    ("header", "rule", "row"),
    [
        ("| step | loss | time (ms) |", "|---:|:---|---|", "| 1 | 2.5 | 120 |"),
        ("step,loss,time_ms", "", "1,2.5,120"),
        ("step\tloss\ttime (ms)", "", "1\t2.5\t120"),
        ("step  train loss  time (ms)", "====  ==========  ====", "   1   2.5   120"),
        ("step loss time_ms", "", "1 2.5 120"),
    ],
)
def test_labels_of_a_table_stand_in_its_header(header, rule, row):
    found = fields_of(header, rule, row)
    assert [(kind, value) for _, kind, value in found] == [
        ("step", 1), ("loss", 2.5), ("seconds", 0.12)
    ]  # fmt: skip
    assert fields_of(header, rule, row, row) == found


def test_a_header_ends_with_its_table():
    header = "| step | loss |"
    without = [("", None, 1), ("", None, 2.5)]
    assert fields_of(header, "found 3 of 4 files", "| 1 | 2.5 |") == without
    # One number isn't a line of another table: a page has numbers between rows.
    assert fields_of(header, "page 2", "| 1 | 2.5 |")[1][1] == "loss"
    # A header of more columns is none of the row.
    assert fields_of("| step | loss | lr |", "| 1 | 2.5 |") == without


def test_quotes_and_comments_are_read_and_event_logs_are_not():
    expected = [("step", "step", 3), ("loss", "loss", 2.5)]
    for line in ("> step 3 loss 2.5", ">> step 3 loss 2.5", "# step 3 loss 2.5"):
        assert fields_of(line) == expected
    assert fields_of(':::MLLOG {"key": "loss", "value": 2.5}') == []


@pytest.mark.parametrize(
    ("line", "is_evaluation", "is_mixed"),
    [
        ("eval step 500: loss 4.49", True, True),
        ("Validation at step 500: loss 4.49", True, True),
        ("Train and test at 500: loss 4.49", False, True),
        ("step 500: loss 4.49, val loss 4.54", False, True),
        # A time beside it says that the line is a step's.
        ("step 500: loss 4.49, val loss 4.54, 80 ms", False, False),
        ("step 500: loss 4.49", False, False),
    ],
)
def test_lines_of_evaluations(line, is_evaluation, is_mixed):
    (piece,) = pieces_of(line)
    assert (piece.outline.is_evaluation, piece.outline.is_mixed) == (is_evaluation, is_mixed)


@pytest.mark.parametrize(
    ("line", "kind", "label"),
    [
        ("lm loss of batch loss: 3, loss: 2.5", "loss", "loss"),
        ("lm loss: 3, train lm loss: 2.5", "loss", "lm loss"),
        ("time: 9 s, time per step: 2.5 s", "seconds", "time per step"),
        ("time: 9 s, 2.5 s/it", "seconds", ""),
        ("a loss: 3, b loss: 2.5", "loss", "a loss"),
    ],
)
def test_of_several_labels_of_a_kind_the_plainest_counts(line, kind, label):
    (piece,) = pieces_of(line)
    assert piece.outline.kinds[kind].label == label


def test_a_long_line_is_looked_at_to_a_limit():
    fits = "x " * ((LONGEST - len("loss 2.5")) // 2) + "loss 2.5"
    assert len(fits) == LONGEST
    assert fields_of(fits)[-1][2] == 2.5
    assert fields_of(" " + fits)[-1][2] == 2
    assert fields_of("x " * (LONGEST // 2) + "loss 2.5") == []


@pytest.mark.parametrize(("word", "says"), [("train", True), ("Training", True), ("strain", False)])
def test_a_word_says_that_a_line_is_of_a_training(word, says):
    (piece,) = pieces_of(f"{word} step 3 loss 2.5")
    assert piece.says_training == says
