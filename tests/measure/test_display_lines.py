"""The lines in which a dry run shows a command: each fits a screen, and together they are the command."""

from __future__ import annotations

import shlex

import pytest

from tprimat.measure import display

WORDS = [
    "cd",
    "/a directory",
    "&&",
    "env",
    "A=it's",
    "python3",
    "-m",
    "loop",
    *[f"--option-{n}={n}" for n in range(20)],
]


def test_a_command_is_continued():
    shown = display._continued(shlex.join(WORDS))
    assert shown.count("\n") > 3
    assert max(map(len, shown.split("\n"))) <= 80
    assert shlex.split(shown.replace("\\\n", "")) == WORDS


@pytest.mark.parametrize(("length", "lines"), [(display.LONGEST_LINE - 1, 1), (display.LONGEST_LINE, 2)])
def test_a_line_is_filled(length, lines):
    # The first word is a character.
    assert len(display._continued(f"a {'b' * length}").split("\n")) == lines
