"""Patterns for texts that others write: a text twice as long takes twice the work, counted and not
timed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.tool_modules import load_tool
from tprimat.compare import threshold
from tprimat.machine import nvidia
from tprimat.read import nanogpt
from tprimat.read.kineto import reader as kineto
from tprimat.report.page import card

pumping = load_tool("pump_patterns")
codes, parser, fits = pumping.codes, pumping.parser, functools.cache(pumping.fits)
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
GROUPS = {codes.BRANCH, codes.SUBPATTERN, *REPEATS}


@functools.cache
def parsed(pattern: re.Pattern[Any]) -> list[Any]:
    """Return the nodes of a pattern, parsed once for all texts that it is tried on."""
    return plain(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))


def plain(nodes: Any) -> list[Any]:
    """Return the nodes as lists, which are quicker to go through than what `re` parses into."""
    return [(code, plain_value(code, value)) for code, value in nodes]


def plain_value(code: Any, value: Any) -> Any:
    """Return the value of a node; that of an assertion has the width of what it looks at."""
    if code in REPEATS:
        return (*value[:2], plain(value[2]))
    if code is codes.BRANCH:
        return (None, [plain(branch) for branch in value[1]])
    if code is codes.SUBPATTERN:
        return (*value[:-1], plain(value[-1]))
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return (value[0], plain(value[1]), value[1].getwidth()[1])
    return tuple(value) if code is codes.IN else value


class Work:
    """A backtracking matcher as `re` is one, without its shortcuts, that counts the characters it
    looks at.

    With `bound`, more repetitions than so many count as one more: a repeat of up to 400 is as
    linear as one of up to 4.
    """

    def __init__(self, pattern: re.Pattern[Any], text: Any, bound: int | None = None) -> None:
        self.done = 0
        self._nodes = parsed(pattern)
        self._text = text if isinstance(text, str) else text.decode("latin-1")
        self._ignores_case = bool(pattern.flags & re.IGNORECASE)
        self._has_lines = bool(pattern.flags & re.MULTILINE)
        self._bound = bound

    def search(self) -> int:
        """Return the characters that a search looks at."""
        any(self._matches(self._nodes, 0, start) for start in range(len(self._text) + 1))
        return self.done

    def match(self) -> int:
        """Return the characters that a match at the start of the text looks at."""
        self._matches(self._nodes, 0, 0)
        return self.done

    def fullmatch(self) -> int:
        """Return the characters that a match of the whole text looks at."""
        any(end == len(self._text) for end in self._ends(self._nodes, 0, 0))
        return self.done

    def _matches(self, nodes: list[Any], node: int, place: int) -> bool:
        return next(self._ends(nodes, node, place), None) is not None

    def _ends(self, nodes: list[Any], node: int, place: int) -> Iterator[int]:
        """Yield where the nodes from one on may end that begin at a place, in the order in which
        they are tried.
        """
        if node == len(nodes):
            yield place
            return
        code, value = nodes[node]
        if code in REPEATS:
            least, most, inner = value
            if self._bound is not None and most < codes.MAXREPEAT:
                most = max(least, min(most, self._bound))
            for end in self._repeats(inner, least, most, place, lazy=code is codes.MIN_REPEAT):
                yield from self._ends(nodes, node + 1, end)
        elif code is codes.BRANCH:
            for branch in value[1]:
                for end in self._ends(branch, 0, place):
                    yield from self._ends(nodes, node + 1, end)
        elif code is codes.SUBPATTERN:
            for end in self._ends(value[-1], 0, place):
                yield from self._ends(nodes, node + 1, end)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            direction, inner, width = value
            # What is looked back at has one width.
            begin = place if direction > 0 else place - width
            if (begin >= 0 and self._matches(inner, 0, begin)) is (code is codes.ASSERT):
                yield from self._ends(nodes, node + 1, place)
        elif code is codes.AT:
            if self._is_at(value, place):
                yield from self._ends(nodes, node + 1, place)
        else:
            self.done += 1
            if place < len(self._text) and self._fits(code, value, self._text[place]):
                yield from self._ends(nodes, node + 1, place + 1)

    def _fits(self, code: Any, value: Any, character: str) -> bool:
        if self._ignores_case and fits(code, value, character.swapcase()[0]):
            return True
        return fits(code, value, character)

    def _repeats(
        self, inner: list[Any], least: int, most: int, place: int, *, lazy: bool
    ) -> Iterator[int]:
        """Yield the ends of a repeat, the longest or the shortest first; of one of groups, those of
        every group.
        """
        if len(inner) > 1 or inner[0][0] in GROUPS:
            yield from self._of_groups(inner, least, most, place, lazy=lazy)
            return
        ends = [place]
        if least == 0 and lazy:
            yield place
        while (
            len(ends) <= most
            and (end := next(self._ends(inner, 0, ends[-1]), None)) is not None
            and end > ends[-1]
        ):
            ends.append(end)
            if lazy and len(ends) > least:
                yield end
        if not lazy:
            yield from reversed(ends[least:])

    def _of_groups(
        self, inner: list[Any], least: int, most: int, place: int, *, lazy: bool
    ) -> Iterator[int]:
        if lazy and least <= 0:
            yield place
        if most > 0:
            for end in self._ends(inner, 0, place):
                if end > place or least > 0:
                    yield from self._of_groups(inner, least - 1, most - 1, end, lazy=lazy)
        if not lazy and least <= 0:
            yield place

    def _is_at(self, where: Any, place: int) -> bool:
        self.done += 1
        if where in (codes.AT_BOUNDARY, codes.AT_NON_BOUNDARY):
            around = [
                0 <= each < len(self._text) and bool(re.match(r"\w", self._text[each]))
                for each in (place - 1, place)
            ]
            return (around[0] != around[1]) is (where is codes.AT_BOUNDARY)
        if where in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return place == 0 or (self._has_lines and self._text[place - 1] == "\n")
        rest = self._text[place:]
        return rest in (("", "\n") if where is codes.AT_END else ("",)) or (
            self._has_lines and rest[:1] == "\n"
        )


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


@pytest.mark.parametrize(
    ("pattern", "text"), [row[1:] for row in SEARCHED], ids=[row[0] for row in SEARCHED]
)
def test_a_search_of_a_longer_text_is_linear(pattern, text):
    few, many = (Work(pattern, text(size)).search() for size in (FEW, MANY))
    assert many <= 2.3 * few


@pytest.mark.parametrize(
    "text", [lambda size: " " * size + "x", lambda size: "1" + " " * size + "x"]
)
def test_a_threshold_of_many_blanks_is_linear(text):
    few, many = (Work(threshold._AMOUNT, text(size).strip()).fullmatch() for size in (FEW, MANY))
    assert many <= 2.3 * few


MADE_WHEN_THEY_RUN = {
    # What pumping.elsewhere() makes of their tables.
    "tprimat/catalog/figures.py:pattern",
    "tprimat/catalog/gpus.py:gpu.name_pattern",
    "tprimat/catalog/models.py:f'(?<![a-z0-9.])",
    "tprimat/catalog/kernels.py:pattern",
    "tprimat/catalog/meanings.py:words",
    "tprimat/catalog/meanings.py:f'(?:{words})",
    "tprimat/catalog/kernels.py:row.pattern",
    "tprimat/redaction/matching.py:rule",
    # What sees a name of ours, or a few words.
    "tprimat/catalog/figures.py:long",
    "tprimat/catalog/models.py:'",
    "tprimat/checks/audit.py:'(?i)moe",
    "tprimat/compare/cost.py:f'(?i)",
    "tprimat/redaction/names.py:f'(?<![A-Za-z0-9])",
    # What a module holds after it is imported.
    "tprimat/read/parsing/events.py:pattern",
    "tprimat/read/parsing/parsed_log.py:f'[-+]?(?:{pattern})(?:[eE][-+]?\\\\d+)?%?'",
    "tprimat/read/parsing/values.py:pattern",
    # What reads at most 1,000 characters: catalogue.LONGEST_SENTENCE.
    "tprimat/notes/catalogue.py:pattern",
    # Files of the system, names that are escaped, a user's own option, texts of ours.
    "tprimat/catalog/prices.py",
    "tprimat/compare/systems.py:version",
    "tprimat/machine/cpu.py",
    "tprimat/machine/host.py:pattern",
    "tprimat/read/forms/fields.py:separator",
    "tprimat/read/mapped.py:begin + piece",
    "tprimat/text.py",
}


SHORT = ("tprimat/catalog/kernels.csv",)
"""What reads at most 2,000 characters: kernels.LONGEST_NAME."""


def is_light(source: str) -> bool:
    """Return whether a module imports without a framework."""
    return re.search(r"^(?:import|from) (?:torch|lightning)\b", source, re.MULTILINE) is None


@pytest.mark.slow
def test_every_pattern_is_linear():
    found, unknown = pumping.uses(only=is_light)
    found += pumping.elsewhere()
    assert len(found) > 500
    made = [each for each in unknown if not each.startswith(tuple(MADE_WHEN_THEY_RUN))]
    assert made == []
    slow = []
    for use in found:
        for before, pump, end in pumping.pumps(use.pattern, variants=3, ends=2):
            times = max(12, 60 // len(pump))
            few, many = (_work(use, before + pump * number + end) for number in (times, 2 * times))
            if many > 2.8 * few + 50 and not use.place.startswith(SHORT):
                slow.append((use.place, before, pump, end, few, many))
                break
    assert slow == []


def _work(use, text: str) -> int:
    work = Work(use.pattern, text, bound=4)
    return work.fullmatch() if use.is_whole else work.match() if use.is_anchored else work.search()


@pytest.mark.parametrize(
    "pattern", [r"\d+x", r"a.*b.*c", r"(?:a|aa)+b", r"\s*(?:x|y)", r"k: \s*\S.*?\s*$"]
)
def test_a_pattern_that_is_not_linear_is_found(pattern):
    use = pumping.Use("here", re.compile(pattern), frozenset({"search"}))
    grown = []
    for before, pump, end in pumping.pumps(use.pattern):
        few, many = (_work(use, before + pump * number + end) for number in (10, 20))
        grown.append(many / few)
    assert max(grown) > 3
