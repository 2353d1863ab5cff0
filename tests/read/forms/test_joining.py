"""What stands on several lines: lines that a terminal wrapped, and dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tprimat.read.forms import joining
from tprimat.read.forms.joining import joined
from tprimat.read.parsing.text import Line


def texts_of(texts: Sequence[str]) -> list[str]:
    """The texts of the lines of a program that wrote these."""
    return [line.text for line in joined_lines(texts)]


def joined_lines(texts: Sequence[str]) -> list[Line]:
    lines = [Line(number, text, True) for number, text in enumerate(texts, 1)]
    return list(joined(lambda: lines))


def wrapped(texts: Sequence[str], width: int) -> list[str]:
    """Lines as a terminal shows them."""
    return [text[at : at + width] for text in texts for at in range(0, len(text), width)]


def step_line(step: int) -> str:
    return (
        f" [2026-02-03 10:00:{step:02}] iteration {step:8d}/     200 | consumed samples: {64 * step:8d}"
        f" | elapsed time per iteration (ms): 40{step:02}.0 | learning rate: 1.0E-05"
        f" | lm loss: 1.0{step:02}E+01 | grad norm: 1.000 |"
    )


STEPS = tuple(map(step_line, range(1, 9)))


@pytest.mark.parametrize("width", [60, 80, 100, 133])
def test_lines_that_a_terminal_wrapped(width):
    assert texts_of(wrapped(STEPS, width)) == list(STEPS)


def test_a_joined_line_has_the_number_of_its_first_one():
    lines = joined_lines(wrapped(STEPS, 80))
    pieces = len(wrapped(STEPS[:1], 80))
    assert [line.number for line in lines] == [1 + pieces * place for place in range(len(STEPS))]


@pytest.mark.parametrize(
    ("width", "is_wrapped"),
    [
        (joining.NARROWEST - 1, False),
        (joining.NARROWEST, True),
        (joining.WIDEST, True),
        (joining.WIDEST + 1, False),
    ],
)
def test_terminals_have_some_columns(width, is_wrapped):
    texts = [f"{step}: " + "loss 2.5 lr 1e-4 " * (2 * width // 17 + 1) for step in range(10, 20)]
    texts = [text.rstrip() for text in texts]
    assert (texts_of(wrapped(texts, width)) == texts) == is_wrapped


@pytest.mark.parametrize(("full", "is_wrapped"), [(2, False), (3, True)])
def test_three_lines_end_at_the_last_column(full, is_wrapped):
    texts = [f"{step} " + "loss 2.5 " * 10 + "end" for step in range(full)]
    lines = wrapped(texts, 70)
    assert joining.FEWEST == 3
    assert (texts_of(lines) == texts) == is_wrapped


@pytest.mark.parametrize(("others", "is_wrapped"), [(34, True), (35, False)])
def test_some_share_of_the_lines_end_at_the_last_column(others, is_wrapped):
    """Six of forty lines are 15%, six of forty-one are less."""
    texts = [f"{step} " + "loss 2.5 " * 10 + "end" for step in range(6)]
    lines = wrapped(texts, 70)
    # The second part of each wrapped line is one of the others.
    short = ["a short line"] * (others - 6)
    assert joining.MOSTLY == 0.15
    assert len(lines + short) == 6 + others
    assert (texts_of([*lines, *short]) == [*texts, *short]) == is_wrapped


@pytest.mark.parametrize(("before", "is_wrapped"), [(10, True), (11, False)])
def test_the_first_lines_show_the_width(before, is_wrapped, monkeypatch):
    monkeypatch.setattr(joining, "LOOKED_AT", 16)
    texts = [f"{step} " + "loss 2.5 " * 10 + "end" for step in range(6)]
    lines = ["a short line"] * before + wrapped(texts, 70)
    # Sixteen lines have three whole ones of seventy characters, or two and the last one.
    assert (texts_of(lines)[before:] == texts) == is_wrapped


def test_lines_of_one_length_are_no_wrapped_ones():
    # They begin alike,
    alike = [f"iteration {step:3d} | loss {step:3d}.500 | " + "x" * 40 for step in range(20)]
    assert texts_of(alike) == alike
    # or end at a bar.
    lines = [
        f"{word:>30} of the step {step} |" + "-" * 30 + "|" for step, word in enumerate("abcdef")
    ]
    assert len({len(line) for line in lines}) == 1
    assert texts_of(lines) == lines


def test_dictionaries_with_a_line_for_each_value():
    printed = ["{", "  'loss': 2.5,", "  'step': 3", "}", "next"]
    assert texts_of(printed) == ["{ 'loss': 2.5, 'step': 3 }", "next"]
    (first, second) = joined_lines(printed)
    assert (first.number, second.number) == (1, 5)
    assert texts_of(["log({", "  'loss': 2.5,", "})"]) == ["log({ 'loss': 2.5, })"]


@pytest.mark.parametrize(
    "printed",
    [
        # A function has a line without a value.
        ["def step() {", "  return", "}"],
        ["{", "  'loss': 2.5,"],
        ["{'loss': 2.5}", "{'loss': 2.4}"],
    ],
)
def test_what_is_no_dictionary_stays_as_it_is(printed):
    assert texts_of(printed) == printed


@pytest.mark.parametrize(("values", "is_joined"), [(58, True), (59, True), (60, False)])
def test_a_dictionary_has_a_limited_number_of_values(values, is_joined):
    printed = ["{", *(f"'v{number}': 1," for number in range(values)), "}"]
    assert joining.MOST_VALUES == 60
    assert (len(texts_of(printed)) == 1) == is_joined
