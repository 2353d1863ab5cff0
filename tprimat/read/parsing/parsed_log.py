"""ParsedLog: the common output of all log format readers.

A reader is fed lines and afterwards gives one Reading per training that it saw. A Reading knows
what the log states and on which line; the command sets what the user says beside it, and asks
for the Run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tprimat.read.parsing.text import Line
from tprimat.results.run import LARGEST_COUNT, LARGEST_VALUE, Run


@dataclasses.dataclass(frozen=True)
class LoggedValue:
    """A value that a log states.

    Attributes:
        value: None where the log says that there is none, such as `fp8 ... None`.
        line: of the log, from 1.
        text: the statement as the log has it, without prefixes.
        weight: of two statements the heavier one holds, of equally heavy ones the later one: an
            argument dump is what the training itself held, a launcher's echo is what it was asked.
    """

    value: Any
    line: int
    text: str
    weight: int = 1


class LoggedValues(dict[str, LoggedValue]):
    """The values that a log states, by the name of the field."""

    def add(self, name: str, statement: LoggedValue) -> None:
        """Keep the heavier statement, or the later of equally heavy ones."""
        known = self.get(name)
        # Said again, a thing keeps the line on which it was said first.
        if known is None or (statement.weight >= known.weight and statement.value != known.value):
            self[name] = statement

    def absorb(self, later: LoggedValues) -> None:
        """Add what a later part of the log states."""
        for name, statement in later.items():
            self.add(name, statement)

    def value(self, name: str) -> Any:
        """Return the stated value, or None."""
        statement = self.get(name)
        return statement.value if statement else None

    def count(self, name: str) -> int | None:
        """Return a stated number from 1 on; None for anything else."""
        value = self.value(name)
        right = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_COUNT
        return value if right else None

    def count_statement(self, name: str) -> LoggedValue | None:
        """Return the statement of a number from 1 on; None for anything else."""
        return None if self.count(name) is None else self[name]

    def number(self, name: str) -> float | None:
        """Return a stated number; None for anything else."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST_VALUE:
            return None
        return float(value)

    def word(self, name: str) -> str | None:
        """Return a stated text; None for anything else."""
        value = self.value(name)
        return value if isinstance(value, str) and value else None


GIVEN = ("model", "num_gpus", "global_batch_size", "sequence_length")
"""Settings that a user can give for a log."""


@dataclasses.dataclass(frozen=True)
class ParsedLog:
    """One training that a log holds.

    Attributes:
        steps: records of steps that it has.
        stated: what the log says of the setup, by field; the names in GIVEN among them.
        notes: what the reader did that leaves no doubt, such as passing over doubled lines.
        build: makes the Run; see run().
    """

    steps: int
    stated: Mapping[str, LoggedValue]
    notes: tuple[str, ...]
    build: Callable[[Mapping[str, Any]], Run]

    def run(self, given: Mapping[str, Any] | None = None) -> Run:
        """Return the training as a Run; its source has no files yet, since a reader knows none.

        Args:
            given: what the user says, by names in GIVEN; it takes the place of what the log states.
        """
        return self.build(given or {})


class Reader(Protocol):
    """A log format's reader, for one log. Its class stands in LOG_FORMATS."""

    name: str
    """Of the log format."""

    looks_for: str
    """What in a line makes the reader recognise its log format, for people."""

    @property
    def recognised(self) -> bool:
        """Whether some line so far is of this log format."""

    def feed(self, line: Line) -> None:
        """Take the next line."""

    def finish(self) -> list[ParsedLog]:
        """Return the trainings of this log format, in the order of the log; none where there is none."""


class TakesBlocks(Reader, Protocol):
    """A reader that also takes many lines at once, and then needn't look at each of them."""

    @property
    def steps_found(self) -> int:
        """Steps of this log format found so far."""

    def feed_block(self, number: int, block: bytes) -> int:
        """Read whole lines, as feed() would one by one.

        Args:
            number: of the first of them.
            block: as text.Blocks gives it.

        Returns:
            The number of the line after them.
        """
