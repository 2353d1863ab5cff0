"""Lines into which another process wrote, or that end early: a number there may be a part of one.

Lines of a log differ in their numbers and in little else. One that is like those before it up to a number, and no
further, is torn at this number unless the number itself shows that it is whole: its decimals are those of the others.
Torn numbers are taken out before a reader sees the line. Knows no log format.
"""

from __future__ import annotations

import collections
import os.path
import re
from collections.abc import Callable

from tprimat.read.parsing.text import Line

LEAST = 3
"""Lines of a shape, or decimals of a number, that make it a known one."""

MOST_SHAPES = 256
"""Shapes of lines that are told apart."""

LONGEST = 20_000
"""Characters of a line that is looked at."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*\.?(?:[eE][-+]?\d*)?")
_DECIMALS = re.compile(r"[.eE].*")
_DIGIT = re.compile(r"\d")


class _Shape:
    """Lines that differ in their numbers alone: how often they came, and what is known of each of their numbers."""

    def __init__(self, numbers: int) -> None:
        self.count = 0
        self.decimals = [collections.Counter[str]() for _ in range(numbers)]
        self.shortest: float = float("inf")

    def known(self, place: int) -> list[str]:
        """Return the decimals that a number mostly has."""
        return [each for each, count in self.decimals[place].items() if count >= LEAST]


class TornLines:
    """Knows the shapes of the lines that a reader takes."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}

    def read(self, line: Line, take: Callable[[Line], bool]) -> bool:
        """Give a line without torn numbers to what reads it; return whether that takes it."""
        text = line.text
        numbers = list(_NUMBER.finditer(text)) if len(text) <= LONGEST else []
        if not numbers:
            return take(line)
        printed = [number[0] for number in numbers]
        # Each number is one 0 there, and nothing else is.
        outline = _NUMBER.sub("0", text)
        place = self._torn(outline, printed)
        if place is not None:
            begin, end = numbers[place].span()
            line = line._replace(text=f"{text[:begin]}?{text[end:]}")
        taken = take(line)
        if taken and (outline in self._shapes or len(self._shapes) < MOST_SHAPES):
            shape = self._shapes.setdefault(outline, _Shape(len(printed)))
            shape.count += 1
            for known, number in zip(shape.decimals, printed, strict=True):
                known[_decimals(number)] += 1
            if place is None:
                shape.shortest = min(shape.shortest, len(printed[-1]))
        return taken

    def _torn(self, outline: str, printed: list[str]) -> int | None:
        """Return which number of a line may be a part of one."""
        shape = self._shapes.get(outline)
        if shape is not None and shape.count >= LEAST:
            place = len(printed) - 1
            if not outline.rstrip().endswith("0") or _is_whole(printed[place], shape.known(place)):
                return None
            longer = any(each.startswith(_decimals(printed[place])) for each in shape.known(place))
            unseen = shape.decimals[place][_decimals(printed[place])] < LEAST
            return place if len(printed[place]) < shape.shortest or (longer and unseen) else None
        alike, nearest = 0, None
        for other, shape in self._shapes.items():
            if shape.count >= LEAST and (shared := len(os.path.commonprefix((outline, other)))) > alike:
                alike, nearest = shared, shape
        end = outline.rfind("0", 0, alike) + 1
        if nearest is None or not end or outline[end:alike].strip():
            return None
        place = outline.count("0", 0, end) - 1
        return None if _is_whole(printed[place], nearest.known(place)) else place


def _decimals(number: str) -> str:
    """Return the decimals and the exponent of a number, digits as 0; empty for a whole number."""
    found = _DECIMALS.search(number)
    return _DIGIT.sub("0", found[0]) if found else ""


def _is_whole(number: str, known: list[str]) -> bool:
    """Return whether the decimals of a number are among the known ones, of which none goes on from there."""
    own = _decimals(number)
    return own != "" and own in known and not any(each != own and each.startswith(own) for each in known)
