"""The first line of an unknown log that looks like a step, and the log formats whose lines resemble it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from tprimat.read.parsing.text import Line
from tprimat.text import plain

MOST = 3
"""Formats that are named."""

_STEP = re.compile(
    r"\b(?:global_)?(?:step|iter|iteration|epoch|batch|update|train)s?\b|loss|tok(?:ens)?/s", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_]{2,}")
_LONGEST = 400


def looks_like_a_step(line: Line) -> bool:
    """Return whether a line has a word for a step or a loss, and numbers for it and for something else."""
    text = line.text[:_LONGEST]
    return _STEP.search(text) is not None and len(_NUMBER.findall(text)) > 1


def formats(text: str, examples: Mapping[str, str]) -> list[str]:
    """Return the names whose examples share most of a line's words, the nearest first; none that shares no word.

    A word that many formats have counts less. `examples` are texts with lines of each log format; of those only lines
    with a number count.
    """
    known = {
        name: set(_words(line for line in example.splitlines() if _NUMBER.search(line)))
        for name, example in examples.items()
    }
    often = Counter(word for words in known.values() for word in words)
    line = set(_words(text[:_LONGEST].splitlines()))
    shared = {name: sum(1 / often[word] for word in line & words) for name, words in known.items()}
    return sorted((name for name, weight in shared.items() if weight), key=lambda name: -shared[name])[:MOST]


def described(line: Line | None, examples: Mapping[str, str]) -> str:
    """Return what to say of an unknown log; nothing where no line looked like a step."""
    if line is None:
        return ""
    names = formats(line.text, examples)
    nearest = f"; the nearest formats are {', '.join(names)}" if names else ""
    return f"; line {line.number} looks like a step, “{plain(line.text.strip(), 100)}”{nearest}"


def _words(lines: Iterable[str]) -> Iterable[str]:
    return (word.lower() for line in lines for word in _WORD.findall(line))
