"""Feed a log to the readers of all log formats until one recognises it.

At first every reader gets every line. Once one has found steps, those that don't know the log get
no more of it: in a log of millions of lines they would only cost time. A reader that can takes
blocks of bytes from then on, and passes most of them over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from tprimat.read.parsing.nearest import looks_like_a_step
from tprimat.read.parsing.parsed_log import ParsedLog, Reader, TakesBlocks
from tprimat.read.parsing.text import Line, lines_of


class DetectionLimits(NamedTuple):
    """How long other readers may still recognise a log that one of them knows.

    Attributes:
        steps: that one reader has found.
        lines: after the first of them, if that comes before.
        known_lines: after a reader recognised the log that doesn't say how many steps it has found.
    """

    steps: int = 25
    lines: int = 2_000
    known_lines: int = 20_000


_CLOSED_BY = {"{": "}", "[": "]"}

OPENING = 3
"""Lines that tell whether a file is a table."""

_ROUND = 64
"""Lines from one look at the readers to the next."""


class LogFeeder:
    """What the readers get of one log, in its order.

    Attributes:
        readers: one of each log format.
        number: of the next line, when blocks are fed.
        opening: the first OPENING lines with anything in them.
        alone: the reader that gets the rest of the log, where it is a single one and takes blocks.
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
        self._settled = False
        self._steps_since = self._known_since = math.inf
        self._limits = limits or DetectionLimits()

    def feed(self, block: bytes, *, whole: bool = True) -> None:
        """Read the next lines of the log: a block as text.Blocks gives it, and whether its last line is whole."""
        if self.alone is not None and whole:
            self.number = self.alone.feed_block(self.number, block)
            return
        self.feed_lines(lines_of(block, self.number, whole=whole))
        self.number += block.count(b"\n")

    def feed_lines(self, lines: Iterable[Line]) -> None:
        """Read the next lines of the log, one by one."""
        for line in lines:
            if (len(self.opening) < OPENING or self._closed_by) and (shown := line.text.strip()):
                if not self.opening:
                    self._closed_by = _CLOSED_BY.get(shown, "")
                if len(self.opening) < OPENING:
                    self.opening.append(shown)
                self.document = bool(self._closed_by) and shown == self._closed_by
            for reader in self._listening:
                reader.feed(line)
            if self.step_like is None and not self._settled and looks_like_a_step(line):
                self.step_like = line
            if not self._settled and not line.number % _ROUND:
                self._look(line.number)

    def finish(self) -> list[tuple[str, list[ParsedLog]]]:
        """Return the names of log formats with the trainings that their readers found."""
        return [(reader.name, reader.finish()) for reader in self.readers]

    def _look(self, number: int) -> None:
        """Drop readers that don't recognise the log, once another one does."""
        steps = max((getattr(reader, "steps_found", 0) for reader in self.readers), default=0)
        if steps:
            self._steps_since = min(self._steps_since, number)
        if steps or any(reader.recognised for reader in self.readers):
            self._known_since = min(self._known_since, number)
        if (
            steps >= self._limits.steps
            or number >= self._steps_since + self._limits.lines
            or number >= self._known_since + self._limits.known_lines
        ):
            self._listening = [reader for reader in self._listening if reader.recognised]
            self._settled = True
            if len(self._listening) == 1 and hasattr(self._listening[0], "feed_block"):
                self.alone = cast(TakesBlocks, self._listening[0])
