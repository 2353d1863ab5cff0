"""Join what is printed on several lines: lines that a terminal wrapped at its width, and
dictionaries with a line for each value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from tprimat.read.forms.fields import LONGEST
from tprimat.read.parsing.text import Line

NARROWEST, WIDEST = 60, 300
"""Smallest and largest width of a terminal that wraps lines, in columns."""

MOSTLY = 0.15
"""Share of the lines that end at the last column, from which on a terminal has wrapped them."""

FEWEST = 3
"""Number of lines that end at the last column, from which on a terminal has wrapped them."""

BEGINNING = 8
"""Characters at the start of two lines by which they are taken for lines of one form."""

ENDS = ("|", ",", ";", "}", "]", ")")
"""Last characters of lines that are complete, not wrapped."""

LOOKED_AT = 2_000
"""Lines at the start of a text from which the width of the terminal is found."""

MOST_VALUES = 60
"""Most lines of a dictionary."""

_DIGIT = re.compile(r"\d")


def joined(lines: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    """Yield the lines of a text as its program wrote them; each has the number of its first one.

    `lines` gives the lines from the start, each time that it is called.
    """
    width = _width(itertools.islice(lines(), LOOKED_AT))
    return _without_breaks(_unwrapped(lines(), width) if width else lines())


def _width(lines: Iterable[Line]) -> int | None:
    """Return the column at which lines are wrapped; None if they aren't.

    Many wrapped lines have exactly this length, none is longer, and the next line begins
    differently. Lines of one form may have the same length, too, but begin alike, or end with one
    of ENDS.
    """
    texts = [line.text for line in lines if line.text.strip()]
    width = max(map(len, texts), default=0)
    full = [index for index, text in enumerate(texts[:-1]) if len(text) == width]
    if not NARROWEST <= width <= WIDEST or len(full) < max(FEWEST, MOSTLY * len(texts)):
        return None
    ended = 0
    for index in full:
        is_alike = _beginning(texts[index]) == _beginning(texts[index + 1])
        ended += is_alike or texts[index].endswith(ENDS)
    return width if ended < len(full) / 2 else None


def _beginning(text: str) -> str:
    return _DIGIT.sub("0", text[:BEGINNING])


def _unwrapped(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Yield the lines, joining each that ends at the last column with the next one."""
    begun: Line | None = None
    for line in lines:
        if begun is not None:
            line = begun._replace(text=begun.text + line.text, whole=line.whole)
            length = len(line.text) - len(begun.text)
        else:
            length = len(line.text)
        begun = None
        if length == width and len(line.text) < LONGEST:
            begun = line
        else:
            yield line
    if begun is not None:
        yield begun


def _without_breaks(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, joining those from one that ends with an opening brace to the one that
    begins with the closing one.
    """
    begun: list[Line] = []
    for line in lines:
        text = line.text.rstrip()
        if begun:
            begun.append(line)
            if text.lstrip()[:1] in ("}", ")") or len(begun) > MOST_VALUES:
                yield from _dictionary(begun)
                begun = []
        elif text.endswith(("{", "({")) and len(text) < LONGEST:
            begun = [line]
        else:
            yield line
    yield from begun


def _dictionary(lines: list[Line]) -> Iterator[Line]:
    """Yield the lines of a dictionary as one, if each but the first and the last has a value."""
    if all(":" in line.text or "=" in line.text for line in lines[1:-1]):
        yield lines[0]._replace(text=" ".join(line.text.strip() for line in lines)[:LONGEST])
    else:
        yield from lines
