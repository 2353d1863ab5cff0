"""Put together what stands on several lines: lines that a terminal wrapped at its width, and
dictionaries that were printed with a line for each value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from tprimat.read.forms.fields import LONGEST
from tprimat.read.parsing.text import Line

NARROWEST, WIDEST = 60, 300
"""Columns of a terminal that wraps lines."""

MOSTLY = 0.15
"""Share of the lines that end at the last column at least, if a terminal has wrapped them."""

FEWEST = 3
"""Lines that end at the last column at least, if a terminal has wrapped them."""

BEGINNING = 8
"""Characters by which lines begin alike."""

ENDS = ("|", ",", ";", "}", "]", ")")
"""Ends of a line that isn't wrapped at its width."""

LOOKED_AT = 2_000
"""Lines from which the width of the terminal is known."""

MOST_VALUES = 60
"""Lines of a dictionary at most."""

_DIGIT = re.compile(r"\d")


def joined(lines: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    """Yield the lines of a text as its program wrote them; each has the number of its first one.

    `lines` gives the lines from the start, each time that it is called.
    """
    width = _width(itertools.islice(lines(), LOOKED_AT))
    return _without_breaks(_unwrapped(lines(), width) if width else lines())


def _width(lines: Iterable[Line]) -> int | None:
    """Return the column at which lines are wrapped; None if they aren't.

    Of wrapped lines many have exactly the width, none has more, and what follows them begins in
    another way. Lines of one form may have one length, too, but begin alike, or end at a bar.
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
    """Yield lines of which those that end at the last column go on in the next one."""
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
    """Yield lines of which those between an opening brace at the end of one and the closing one
    are put together.
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
