"""Patterns for texts that others write: a text twice as long takes twice the work, counted and not timed."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tprimat.compare import threshold
from tprimat.machine import nvidia
from tprimat.read import nanogpt
from tprimat.read.kineto import reader as kineto
from tprimat.report.page import card

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser

_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


class Work:
    """A backtracking matcher as `re` is one, without its shortcuts, that counts the characters it looks at."""

    def __init__(self, pattern: re.Pattern[Any], text: Any) -> None:
        self.done = 0
        self._nodes = list(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
        self._text = text if isinstance(text, str) else text.decode("latin-1")

    def search(self) -> int:
        """Return the characters that a search looks at."""
        any(self._matches(self._nodes, 0, start) for start in range(len(self._text) + 1))
        return self.done

    def fullmatch(self) -> int:
        """Return the characters that a match of the whole text looks at."""
        any(end == len(self._text) for end in self._ends(self._nodes, 0, 0))
        return self.done

    def _matches(self, nodes: list[Any], node: int, place: int) -> bool:
        return next(self._ends(nodes, node, place), None) is not None

    def _ends(self, nodes: list[Any], node: int, place: int) -> Iterator[int]:
        """Yield where the nodes from one on may end that begin at a place, in the order in which they are tried."""
        if node == len(nodes):
            yield place
            return
        code, value = nodes[node]
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            least, most, inner = value
            for end in self._repeats(list(inner), least, most, place, lazy=code is codes.MIN_REPEAT):
                yield from self._ends(nodes, node + 1, end)
        elif code is codes.BRANCH:
            for branch in value[1]:
                for end in self._ends(list(branch), 0, place):
                    yield from self._ends(nodes, node + 1, end)
        elif code is codes.SUBPATTERN:
            for end in self._ends(list(value[-1]), 0, place):
                yield from self._ends(nodes, node + 1, end)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            direction, inner = value
            # What is looked back at here is one character wide.
            begin = place if direction > 0 else place - 1
            if (begin >= 0 and self._matches(list(inner), 0, begin)) is (code is codes.ASSERT):
                yield from self._ends(nodes, node + 1, place)
        elif code is codes.AT:
            if self._is_at(value, place):
                yield from self._ends(nodes, node + 1, place)
        else:
            self.done += 1
            if place < len(self._text) and _fits(code, value, self._text[place]):
                yield from self._ends(nodes, node + 1, place + 1)

    def _repeats(self, inner: list[Any], least: int, most: int, place: int, *, lazy: bool) -> Iterator[int]:
        """Yield the ends of a repeat of one character, or of a group, the longest or the shortest first."""
        ends = [place]
        if least == 0 and lazy:
            yield place
        while len(ends) <= most and (end := next(self._ends(inner, 0, ends[-1]), None)) is not None and end > ends[-1]:
            ends.append(end)
            if lazy and len(ends) > least:
                yield end
        if not lazy:
            yield from reversed(ends[least:])

    def _is_at(self, where: Any, place: int) -> bool:
        self.done += 1
        if where in (codes.AT_BOUNDARY, codes.AT_NON_BOUNDARY):
            around = [
                0 <= each < len(self._text) and bool(re.match(r"\w", self._text[each])) for each in (place - 1, place)
            ]
            return (around[0] != around[1]) is (where is codes.AT_BOUNDARY)
        return place == 0 if where in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING) else place == len(self._text)


def _fits(code: Any, value: Any, character: str) -> bool:
    if code is codes.LITERAL:
        return ord(character) == value
    if code is codes.NOT_LITERAL:
        return ord(character) != value
    if code is codes.ANY:
        return character != "\n"
    if code is codes.RANGE:
        return value[0] <= ord(character) <= value[1]
    if code is codes.CATEGORY:
        return re.match(_CATEGORIES[value], character) is not None
    assert code is codes.IN
    kinds = value[1:] if value[0][0] is codes.NEGATE else value
    return any(_fits(*kind, character) for kind in kinds) is (kinds is value)


class TestWork:
    @pytest.mark.parametrize(
        ("pattern", "text", "found"),
        [
            ("a+b", "xaab", True),
            ("a+?b|c", "ac", True),
            (r"(?<!\d)\d{2,3}(?=x)", "12x", True),
            (r"\ba[^b]\b$", "ab", False),
        ],
    )
    def test_it_matches_as_re_does(self, pattern, text, found):
        work = Work(re.compile(pattern), text)
        assert any(work._matches(work._nodes, 0, place) for place in range(len(text) + 1)) is found
        assert bool(re.search(pattern, text)) is found

    def test_it_sees_a_quadratic_pattern(self):
        pattern = re.compile(r"\d+x")
        few, many = (Work(pattern, "1" * size).search() for size in (100, 200))
        assert many > 3.5 * few


def _nanogpt_line(seed: str, size: int) -> str:
    return ("step:1/1" + seed * size)[:size]


SEARCHED: tuple[tuple[str, re.Pattern[Any], Callable[[int], Any]], ...] = (
    ("nvidia, names", nvidia._DRIVER_VERSION, lambda size: "Kernel Module " * (size // 14)),
    ("nvidia, digits", nvidia._DRIVER_VERSION, lambda size: "Kernel Module " + "1" * size),
    ("kineto, letters", kineto._WORKER, lambda size: "a" * size),
    ("kineto, numbers", kineto._WORKER, lambda size: "_1" * (size // 2)),
    ("kineto, array", kineto._ARRAY, lambda size: b"[{" + b'"ph" ' * (size // 5)),
    ("card", card._AMOUNT, lambda size: "1" * size),
    *(
        (f"nanogpt, {form}, {seed}", pattern, functools.partial(_nanogpt_line, seed))
        for form, (_, pattern) in nanogpt._FORMS.items()
        for seed in ("s:1 ", " val_loss:1", "1,", "step 1/1 | loss 1 ")
    ),
)

# Long enough for the bounded parts to be at their bounds.
FEW, MANY = 1_000, 2_000


@pytest.mark.parametrize(("pattern", "text"), [row[1:] for row in SEARCHED], ids=[row[0] for row in SEARCHED])
def test_a_search_of_a_longer_text_is_linear(pattern, text):
    few, many = (Work(pattern, text(size)).search() for size in (FEW, MANY))
    assert many <= 2.3 * few


@pytest.mark.parametrize("text", [lambda size: " " * size + "x", lambda size: "1" + " " * size + "x"])
def test_a_threshold_of_many_blanks_is_linear(text):
    few, many = (Work(threshold._AMOUNT, text(size).strip()).fullmatch() for size in (FEW, MANY))
    assert many <= 2.3 * few
