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
    ("lines", "columns"),
    [
        (["a,b,c", "1,2,x"], ["a", "b", "c"]),
        (["a,b,c", "1,y,x"], []),
        (["a,b,c", "1,2"], []),
        (["a,b"], []),
        ([], []),
        (['{"a": 1, "b": 2.5}'], ["a", "b"]),
        (['{"a": 1, "b": "x"}', '{"a": 1, "b": 2, "c": {"d": 3}}'], ["a", "b", "c.d"]),
        (['{"a": 1, "b": true}'], []),
        (['{"a": 1, "b": "2"}'], []),
        (["x", '{"a": 1'], []),
    ],
)
def test_the_columns_of_a_table(lines, columns):
    assert list(nearest.columns_in(lines)) == columns


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
