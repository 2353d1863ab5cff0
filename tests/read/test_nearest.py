"""The error of a log that no reader knows: its first line that looks like a step."""

from __future__ import annotations

import pytest

from tprimat.read.parsing import nearest
from tprimat.read.parsing.text import Line


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("step 5 loss 2.5", True),
        ("Iteration: 5, x: 2.5", True),
        ("loss=2.5 x=7", True),
        ("7 12,345.5 tok/s", True),
        ("global_step 5 of 9", True),
        ("$ step 5 loss 2.5", False),
        ("+ step 5 loss 2.5", False),
        # Of a word and two numbers none may lack.
        ("step 5 loss", False),
        ("stop 5 at 2.5", False),
        ("stepping 5 at 2.5", False),
        ("misstep 5 at 2.5", False),
        # Five words at most for each number.
        ("step 5 of 9 aa bb cc dd ee ff gg hh", True),
        ("step 5 of 9 aa bb cc dd ee ff gg hh ii", False),
        ("step5 loss2.5", False),
        ("x" * 389 + " step 5 x 2", True),
        ("x" * 390 + " step 5 x 2", False),
    ],
)
def test_a_line_that_looks_like_a_step(text, looks):
    assert nearest.looks_like_a_step(Line(3, text, True)) is looks


@pytest.mark.parametrize(
    ("lines", "table"),
    [
        (["a,b,c", "1,2,x"], True),
        (["a,b,c", "1,y,x"], False),
        (["a,b,c", "1,2"], False),
        (["a,b"], False),
        ([], False),
        (['{"a": 1, "b": 2.5}'], True),
        (['{"a": 1, "b": "x"}', '{"a": 1, "b": 2}'], True),
        (['{"a": 1, "b": true}'], False),
        (['{"a": 1, "b": "2"}'], False),
        (["x", '{"a": 1'], False),
    ],
)
def test_a_table(lines, table):
    assert nearest.is_table(lines) is table


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (None, ""),
        (
            Line(12, "  step 1 alpha eta theta ", True),
            "; line 12 looks like a step, “step 1 alpha eta theta”",
        ),
    ],
)
def test_what_is_said(line, words):
    assert nearest.described(line) == words


def test_a_long_line_is_shown_in_a_hundred_characters():
    shown = nearest.described(Line(12, "1 " + "x" * 200, True))
    assert len(shown) == len("; line 12 looks like a step, “”") + 100
