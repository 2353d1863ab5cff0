"""What stands above each training of a text that holds several: a heading of a page, or a line put
above a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tprimat.read.parsing.text import first_stamp

LONGEST_GAP = 4_000
"""Characters before a training in which its heading is looked for."""

_FENCE = re.compile(r"^[ \t]{0,9}(?:```|~~~).*$", re.MULTILINE)
_ALONE = re.compile(
    r"(?:\A[\W_]{0,200}|\n[\W_]{0,200}\n[\W_]{0,200})([^\W_][^\n]{0,79})\n[\W_]{0,200}\Z"
)
"""A line right above the records, with nothing but rulers around it: `bf16`, `**Mixed
precision:**`.
"""

_SECTION = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S[^\n]{0,79})$", re.MULTILINE)
_NO_HEADING = re.compile(r":\s*[-+]?[\d.]|[.;,{}\[\]|]\s*$")
"""What prose or a log has: `Training time: 120.53s`."""


def headings(lines: Sequence[str], records: Iterable[tuple[int, int]]) -> tuple[str | None, ...]:
    """Return the heading of each training of a text; None for all if some have none, or several the
    same.

    Args:
        lines: lines of the text.
        records: numbers of the first and the last line of each training, from 1, in their order.
    """
    titles: list[str | None] = []
    end = 0
    for first, last in records:
        titles.append(_heading("\n".join([*lines[end : first - 1], ""])))
        end = last
    if None not in titles and len({*titles}) == len(titles):
        return tuple(titles)
    return (None,) * len(titles)


def _heading(gap: str) -> str | None:
    gap = _FENCE.sub("", gap)
    alone = _ALONE.search(gap[-LONGEST_GAP:])
    line = alone[1] if alone else ""
    if not line or _NO_HEADING.search(line) or first_stamp(line):
        sections = _SECTION.findall(gap) if len(gap) <= LONGEST_GAP else []
        line = sections[-1] if sections else ""
    return line.strip(" \t#*=_`~:-") or None
