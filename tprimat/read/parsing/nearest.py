"""The first line of an unknown log that looks like a step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.parsed_log import columns_of
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import flat, json_object, number
from tprimat.redaction import redacted_start
from tprimat.text import plain

LFS_POINTER = "version https://git-lfs"
"""What the text begins with that Git keeps of a file in Git LFS."""

_STEP = re.compile(
    r"\b(?:global_)?(?:step|iter|iteration|epoch|batch|update|train)s?\b|loss|tok(?:ens)?/s",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_]{2,}")
_LONGEST = 400


_SIGNS = ("step", "iter", "epoch", "batch", "update", "train", "loss", "tok")


def looks_like_a_step(line: Line) -> bool:
    """Return whether a line has a word for a step or a loss, and numbers for it and for something
    else; no command.
    """
    text = line.text[:_LONGEST]
    if text.startswith(("$ ", "+ ")) or not has_sign(text.lower(), _SIGNS):
        return False
    numbers = len(_NUMBER.findall(text))
    # A sentence of a letter or an article has fewer.
    return (
        _STEP.search(text) is not None and numbers > 1 and 5 * numbers >= len(_WORD.findall(text))
    )


def columns_in(lines: Sequence[str]) -> Sequence[str]:
    """Return the columns of a table that --columns can read and that begins with these lines; none
    if it is none.

    They are JSON objects with two numbers, or a header and a row of as many cells, of which two are
    numbers.
    """
    if any(line.startswith("{") for line in lines):
        for each in map(json_object, lines):
            if each and sum(type(value) in (int, float) for value in each.values()) > 1:
                return [name for name, _ in flat(each)]
        return ()
    names = columns_of("\n".join(lines).encode())
    cells = columns_of("\n".join(lines[1:]).encode())
    is_table = len(names) == len(cells) and sum(number(cell) is not None for cell in cells) > 1
    return names if is_table else ()


def described(line: Line | None) -> str:
    """Return what to say of an unknown log; nothing if no line looked like a step."""
    if line is None:
        return ""
    shown = plain(redacted_start(line.text.strip(), _LONGEST), 100)
    return f"; line {line.number} looks like a step, “{shown}”"
