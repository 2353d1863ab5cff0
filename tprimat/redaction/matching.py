"""Marks and patterns: where rules match a text, and a text with others in place of parts of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

Spans = Iterator[tuple[int, int]]
"""Where something is in a text: beginnings and ends."""

LONGEST = 300
"""Characters behind a mark in which a rule that begins before it has to match."""
BEFORE = {"q~": 4, "-us": 32, "] nccl": LONGEST, "@": 100, ":\\": 1, "::": 40}
"""How many characters before its mark a rule may begin, where that isn't its beginning."""


@functools.cache
def compiled(rule: str) -> re.Pattern[str]:
    """Return the pattern of a rule, compiled if its mark is met: a --help meets none."""
    return re.compile(rule, re.IGNORECASE | re.MULTILINE)


def matches(text: str, rules: Iterable[tuple[str, str]]) -> Iterator[re.Match[str]]:
    """Yield where rules match. Each begins with its mark, in lower case, or some of BEFORE
    characters earlier.
    """
    # As long as the text: only of this letter the small one has two characters.
    lower = text.replace("İ", "I").lower()
    for mark, rule in rules:
        at = lower.find(mark)
        if at < 0:
            continue
        before = BEFORE.get(mark, 0)
        done = 0
        pattern = compiled(rule)
        while at >= 0:
            end = at + len(mark)
            if before:
                match = pattern.search(text, max(done, at - before), end + LONGEST)
            else:
                match = pattern.match(text, at)
            if match:
                yield match
                end = done = max(end, match.end())
            at = lower.find(mark, end)


def replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with others in place of parts of it, of which some may lie in others; its lines
    stay as many.
    """
    shown = 0
    parts = []
    for start, end, new in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= shown:
            parts += [text[shown:start], new, "\n" * text.count("\n", start, end)]
        shown = max(shown, end)
    return "".join((*parts, text[shown:]))
