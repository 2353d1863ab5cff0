"""Feed a log to the readers of all log formats until one recognizes it.

At first a reader gets the lines that may say something to it, and all once it knows the log. Once
one has counted steps enough, those that don't know the log get no more of it: in a log of millions
of lines they would only cost time. Beside one that has steps and doesn't count them they get lines
with a sign of theirs that are no steps of it. A reader that can takes blocks of bytes from then on,
and passes most of them over.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from tprimat.read.parsing.events import SIGNS
from tprimat.read.parsing.failures import HINTS
from tprimat.read.parsing.nearest import looks_like_a_step
from tprimat.read.parsing.parsed_log import ParsedLog, Reader, TakesBlocks
from tprimat.read.parsing.records import LONGEST_SPELLING
from tprimat.read.parsing.text import Line, lines_of, spelling_of


class DetectionLimits(NamedTuple):
    """How long other readers may still recognize a log that one of them knows.

    Attributes:
        steps: that a reader has found that counts them. Beside the lines of others, a second
            program may print its own, such as DeepSpeed every hundredth step of the Trainer.
        lines: after the first step, if that comes before.
        known_lines: after a reader recognized the log and has found no step.
    """

    steps: int = 25
    lines: int = 2_000
    known_lines: int = 20_000


CLOSED_BY = {"{": "}", "[": "]"}
"""First and last line of a JSON document that is printed over many lines."""

OPENING = 3
"""Lines that tell whether a file is a table."""

_ROUND = 64
"""Lines from one look at the readers to the next."""

MOST_SPELLINGS = 4096
"""Spellings of lines of which it is known who has a sign in them."""

_SIGNS_FOR_ALL = (*SIGNS, *HINTS)
_TIME = re.compile(r"\d\d:\d\d:\d\d")


@functools.cache
def _routes(by_reader: tuple[tuple[str, ...], ...]) -> dict[str, frozenset[int] | None]:
    """Return signs, none of which is a part of another one, with the numbers of the readers that
    have them.

    None stands for all readers.
    """
    signs = {*_SIGNS_FOR_ALL, *filter(None, itertools.chain.from_iterable(by_reader))}
    routes: dict[str, frozenset[int] | None] = {}
    for sign in signs:
        if any(other in sign for other in signs - {sign}):
            continue
        routes[sign] = None
        if not any(sign in longer for longer in _SIGNS_FOR_ALL):
            readers = enumerate(by_reader)
            routes[sign] = frozenset(
                number for number, own in readers if any(sign in longer for longer in own)
            )
    return routes


class _Audience:
    """The readers that a line may say something to, while none knows the log: most lines say
    nothing to anybody.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._routes = _routes(tuple(tuple(reader.all_signs) for reader in readers))
        self._attentive: list[Reader] = []
        self._signs: list[str] = []
        self._last: Sequence[Reader] = ()
        self._has_times = self._goes_on = False
        self._by_spelling: dict[bytes, list[Reader]] = {}

    def expect(self, lines: Iterable[Line]) -> None:
        """Look for signs in the next lines: in many at once that costs half as much as in each."""
        text = "\n".join(line.text for line in lines)
        self._signs = [sign for sign in self._routes if sign in text]
        self._has_times = _TIME.search(text) is not None

    def of(self, line: Line, *, is_first: bool) -> Sequence[Reader]:
        """Return the readers of a line.

        All read the first ones, what has a time, an event or a failure, and the line after it,
        where a message may go on; those that know the log or are within something read every line.
        """
        for reader in self._last:
            is_attentive = reader.recognized or getattr(reader, "within", False)
            if is_attentive and reader not in self._attentive:
                self._attentive.append(reader)
        self._last = ()
        text = line.text
        goes_on = self._goes_on
        found = [sign for sign in self._signs if sign in text]
        routes = [self._routes[sign] for sign in found]
        self._goes_on = (
            None in routes or not line.whole or (self._has_times and _TIME.search(text) is not None)
        )
        if self._goes_on or goes_on or (is_first and text):
            readers = self._readers
        elif found:
            numbers = frozenset().union(*filter(None, routes))
            readers = []
            for number, reader in enumerate(self._readers):
                if number in numbers or reader in self._attentive:
                    readers.append(reader)
        else:
            return self._attentive
        self._last = readers
        return readers

    def with_signs(self, text: str) -> list[Reader]:
        """Return the readers with a sign of their own in a line; it may differ in its digits."""
        if len(text) > LONGEST_SPELLING:
            return self._with_signs(spelling_of(text))
        spelling = spelling_of(text)
        readers = self._by_spelling.get(spelling)
        if readers is None:
            readers = self._with_signs(spelling)
            if len(self._by_spelling) < MOST_SPELLINGS:
                self._by_spelling[spelling] = readers
        return readers

    def _with_signs(self, spelling: bytes) -> list[Reader]:
        numbers = set[int]()
        for sign, readers in self._routes.items():
            if readers and spelling_of(sign) in spelling:
                numbers |= readers
        return [self._readers[number] for number in sorted(numbers)]


class LogFeeder:
    """What the readers get of one log, in its order.

    Attributes:
        number: of the next line, when blocks are fed.
        opening: the first OPENING lines with anything in them.
        alone: the reader that gets the rest of the log, if it is a single one and takes blocks.
        document: whether its first line opens a JSON document, and its last one closes it.
        step_like: the first line that looks like a step, while no reader knows the log.
    """

    def __init__(self, readers: Sequence[Reader], limits: DetectionLimits | None = None) -> None:
        self.readers = readers
        self.number = 1
        self.opening: list[str] = []
        self.alone: TakesBlocks | None = None
        self.document = False
        self.step_like: Line | None = None
        self._closed_by = ""
        self._listening = list(readers)
        self._audience = _Audience(readers)
        self._settled = self._others_overhear = False
        self._steps_since = self._known_since = math.inf
        self._limits = limits or DetectionLimits()

    def feed(self, block: bytes, *, whole: bool = True) -> None:
        """Read the next lines of the log: a block as text.Blocks gives it, and whether its last
        line is whole.
        """
        if self.alone is not None and whole:
            self.number = self.alone.feed_block(self.number, block)
            return
        self.feed_lines(lines_of(block, self.number, whole=whole))
        self.number += block.count(b"\n")

    def feed_lines(self, lines: Iterable[Line]) -> None:
        """Read the next lines of the log, one by one."""
        rest = iter(lines)
        while lines := [*itertools.islice(rest, _ROUND)]:
            if not self._settled:
                self._audience.expect(lines)
            for line in lines:
                if len(self.opening) < OPENING or self._closed_by:
                    self._look_around(line.text.strip())
                if self._settled:
                    readers: Sequence[Reader] = self._listening
                else:
                    readers = self._audience.of(line, is_first=len(self.opening) < OPENING)
                is_step = False
                for reader in readers:
                    is_step = reader.feed(line) or is_step
                if self._others_overhear and not is_step:
                    self._let_overhear(line)
                if not self._settled:
                    if self.step_like is None and looks_like_a_step(line):
                        self.step_like = line
                    if not line.number % _ROUND:
                        self._look(line.number)

    def finish(self) -> list[tuple[str, list[ParsedLog]]]:
        """Return the names of log formats with the runs that their readers found."""
        return [(reader.name, reader.finish()) for reader in self.readers]

    def _let_overhear(self, line: Line) -> None:
        """Give a line that is no step to the other readers that have a sign in it. One that knows
        the log then, which may be of two programs, reads on.
        """
        for reader in self._audience.with_signs(line.text):
            if reader not in self._listening:
                reader.feed(line)
                if reader.recognized or getattr(reader, "within", False):
                    self._listening.append(reader)

    def _look_around(self, shown: str) -> None:
        """Keep the first lines with anything in them; notice the end of a document."""
        if shown:
            if not self.opening:
                self._closed_by = CLOSED_BY.get(shown, "")
            if len(self.opening) < OPENING:
                self.opening.append(shown)
            self.document = bool(self._closed_by) and shown == self._closed_by

    def _look(self, number: int) -> None:
        """Drop readers that don't recognize the log, once another one does."""
        steps = max((getattr(reader, "steps_found", 0) for reader in self.readers), default=0)
        has_steps = any(getattr(reader, "has_steps", False) for reader in self.readers)
        if steps or has_steps:
            self._steps_since = min(self._steps_since, number)
        if steps or any(reader.recognized for reader in self.readers):
            self._known_since = min(self._known_since, number)
        if (
            steps >= self._limits.steps
            or number >= self._steps_since + self._limits.lines
            or number >= self._known_since + self._limits.known_lines
        ):
            self._listening = [reader for reader in self._listening if reader.recognized]
            self._settled = True
            self._others_overhear = has_steps and steps < self._limits.steps
            if len(self._listening) == 1 and hasattr(self._listening[0], "feed_block"):
                self.alone = cast(TakesBlocks, self._listening[0])
