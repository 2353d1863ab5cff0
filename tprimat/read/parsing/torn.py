"""Lines into which another process wrote, or that end early: a number there may be a part of one.

Lines of a log differ in their numbers and in little else. One that is like those before it up to a
number, and no further, is torn at this number unless the number itself shows that it is whole: its
decimals are those of the others. Torn numbers are removed before a reader sees the line.
Independent of the format; for Megatron see megatron/line.py.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import NamedTuple

from tprimat.read.parsing.text import Line, spelling_of
from tprimat.read.parsing.values import number as number_of

LEAST = 3
"""Lines of a shape, or decimals of a number, that make it a known one."""

MOST_SHAPES, MOST_SPELLINGS = 256, 4096
"""Shapes of lines that are told apart, and spellings of lines that are known as whole."""

LONGEST, LONGEST_SPELLING = 20_000, 1_000
"""Characters of a line that is looked at, and bytes of a spelling that is kept."""

ENOUGH = 8
"""Characters of a number with decimals, from which on one that lacks some is wrong by less than a
millionth.
"""

FALL = 4
"""Times as large as a whole number at the end of a line is the one before, if it is a part of one.
"""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*\.?(?:[eE][-+]?\d*)?")
_DIGIT = re.compile(r"\d")


class _Shape:
    """Lines that differ in their numbers alone: how often they came, and what is known of each of
    their numbers.
    """

    def __init__(self, numbers: int) -> None:
        self.count = 0
        self.decimals = [collections.Counter[str]() for _ in range(numbers)]
        self.last = ""
        self.falls = 0

    def is_whole(self, place: int, number: str) -> bool:
        """Return whether the decimals of a number are known ones, of which none goes on, or
        ENOUGH.
        """
        own = _decimals(number)
        seen = self.decimals[place]
        if (
            len(number) >= ENOUGH
            and own.startswith(".")
            and not any("e" in each.lower() for each in (own, *seen))
        ):
            return True
        return (
            own != ""
            and seen[own] >= LEAST
            and not any(each != own and each.startswith(own) for each in seen)
        )

    def fell(self, number: str) -> bool:
        """Return whether a whole number at the end of a line is much smaller than the last one: a
        digit less is a tenth.
        """
        is_less = FALL * (number_of(number) or 0.0) < (number_of(self.last) or 0.0)
        return is_less and self.falls < LEAST

    def is_settled(self, decimals: list[str]) -> bool:
        """Return whether a further line with these decimals and exponents would add nothing."""
        pairs = zip(self.decimals, decimals, strict=True)
        return self.count >= LEAST and all(seen[own] >= LEAST for seen, own in pairs)


class _Spelling(NamedTuple):
    """Lines that differ in digits alone, of which none is torn unless it ends in a whole number
    that `fell`. Their last number is in `place`.
    """

    shape: _Shape
    place: slice
    may_fall: bool


class TornLines:
    """Knows the shapes of the lines that a reader takes."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}
        self._spellings: dict[bytes, _Spelling] = {}

    def read(self, line: Line, take: Callable[[Line], bool]) -> bool:
        """Give a line without torn numbers to what reads it; return whether that takes it."""
        text = line.text
        spelling = spelling_of(text)
        if known := self._spellings.get(spelling) if line.whole else None:
            last = text[known.place]
            if not (known.may_fall and known.shape.fell(last)):
                if taken := take(line):
                    known.shape.falls = 0
                    known.shape.last = last
                return taken
        numbers = list(_NUMBER.finditer(text)) if len(text) <= LONGEST else []
        if not numbers:
            return take(line)
        printed = [number[0] for number in numbers]
        # Each number is one 0 there, and nothing else is.
        outline = _NUMBER.sub("0", text)
        # The file may end within a number.
        if line.whole or outline[-1] != "0":
            place = self._torn(outline, printed)
        else:
            place = len(printed) - 1
        if place is not None:
            begin, end = numbers[place].span()
            line = line._replace(text=f"{text[:begin]}?{text[end:]}")
        taken = take(line)
        if taken and (outline in self._shapes or len(self._shapes) < MOST_SHAPES):
            shape = self._shapes.setdefault(outline, _Shape(len(printed)))
            shape.count += 1
            decimals = [_decimals(number) for number in printed]
            for seen, own in zip(shape.decimals, decimals, strict=True):
                seen[own] += 1
            shape.falls = 0 if place is None else shape.falls + 1
            if place is None:
                shape.last = printed[-1]
                if shape.is_settled(decimals) and len(spelling) <= LONGEST_SPELLING:
                    self._settle(spelling, shape, slice(*numbers[-1].span()), outline, decimals[-1])
        return taken

    def _settle(
        self, spelling: bytes, shape: _Shape, place: slice, outline: str, decimals: str
    ) -> None:
        """Remember that lines of a spelling are whole."""
        if len(self._spellings) < MOST_SPELLINGS:
            may_fall = not decimals and outline.rstrip().endswith("0")
            self._spellings[spelling] = _Spelling(shape, place, may_fall)

    def _torn(self, outline: str, printed: list[str]) -> int | None:
        """Return which number of a line may be a part of one."""
        shape = self._shapes.get(outline)
        if shape is not None and shape.count >= LEAST:
            place = len(printed) - 1
            if not outline.rstrip().endswith("0") or shape.is_whole(place, printed[place]):
                return None
            own = _decimals(printed[place])
            seen = shape.decimals[place]
            is_part = (
                seen[own]
                < LEAST
                <= max((seen[each] for each in seen if each.startswith(own)), default=0)
            )
            if is_part or (own == "" and shape.fell(printed[place])):
                return place
            return None
        alike = 0
        nearest = None
        is_longer = False
        for other, shape in self._shapes.items():
            # Most shapes are told apart by one comparison, so that lines of many are read fast.
            if shape.count >= LEAST and other.startswith(outline[: alike + 1]):
                shared = _shared(outline, other, alike)
                if shared == alike:
                    continue
                # Only brackets are left of the other: {"loss": 2.5} and {"loss": 2.5, "accuracy":
                # 0.5}.
                alike = shared
                nearest = shape
                is_longer = shared >= len(other.rstrip(" \t\r}])|"))
        end = outline.rfind("0", 0, alike) + 1
        if nearest is None or not end or outline[end:alike].strip():
            return None
        if is_longer and outline[end:].lstrip()[:1] in tuple(",;|)]"):
            return None
        place = outline.count("0", 0, end) - 1
        # Digits of what is glued to a number may be taken for its decimals.
        glued = end == alike and outline[end : end + 1].strip(" \t,;|)]}%") != ""
        if glued or not nearest.is_whole(place, printed[place]):
            return place
        return None


def _shared(one: str, two: str, known: int) -> int:
    """Return how many characters two texts share at their begin, of which some are known."""
    shared = known
    for own, other in zip(one[known:], two[known:], strict=False):
        if own != other:
            break
        shared += 1
    return shared


def _decimals(number: str) -> str:
    """Return the decimals and the exponent of a number, digits as 0; empty for a whole number."""
    return _DIGIT.sub("0", number.lstrip("0123456789,"))
