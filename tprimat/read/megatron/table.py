"""The records of a training, in columns: of a million steps there is no room for a million
objects.
"""

from __future__ import annotations

import bisect
import itertools
import math
from array import array
from collections.abc import Iterator
from typing import Any

from tprimat.read.megatron.line import Kind, Record

MOST_WAITING = 256
"""Records that wait to be put into the columns; late ones are also as many as an eighth of all."""

_NUMBERS = ("iteration", "line", "micros", "kind")
"""Columns of whole numbers."""


class Table:
    """Records by iteration, ascending, once they are settled; NaN for a value that a record
    lacks.
    """

    def __init__(self) -> None:
        self.first: int
        """The lowest iteration, once there is one."""
        self.latest: Record
        """The record of the highest iteration."""
        self._columns: dict[str, array[Any]] = {name: array("q") for name in _NUMBERS}
        self.iterations, self.lines, self.micros, self._kind_numbers = self._columns.values()
        """Columns of the settled records."""
        self._kinds: dict[Kind, int] = {}
        self._waiting: dict[int, Record] = {}
        self._has_late = False

    def __len__(self) -> int:
        return len(self.iterations) + len(self._waiting)

    @property
    def last(self) -> int:
        """The highest iteration; there must be one."""
        return self.latest.iteration

    @property
    def interval(self) -> int:
        """Iterations between the last two records; all of a single one."""
        self.settle()
        return self.last - (self.iterations[-2] if len(self) > 1 else 0)

    @property
    def kinds(self) -> Iterator[Kind]:
        """Kinds of settled records."""
        return map(list(self._kinds).__getitem__, self._kind_numbers)

    def add(self, record: Record) -> None:
        """Add a record of an iteration that isn't there yet."""
        waiting = len(self._waiting)
        if waiting >= MOST_WAITING and (not self._has_late or waiting * 8 >= len(self.iterations)):
            self.settle()
        if not waiting and not self.iterations:
            self.first = record.iteration
            self.latest = record
        self._waiting[record.iteration] = record
        if record.iteration >= self.latest.iteration:
            self.latest = record
        else:
            self._has_late = True
            self.first = min(self.first, record.iteration)

    def settle(self) -> None:
        """Put the records that wait into the columns."""
        if not self._waiting:
            return
        records = sorted(self._waiting.values())
        self._waiting = {}
        for names, group in itertools.groupby(records, lambda record: tuple(record.figures)):
            *numbers, kinds, figures = zip(*group, strict=True)
            numbers.append(tuple(self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds))
            columns = (*numbers, *zip(*(figure.values() for figure in figures), strict=True))
            values = dict(zip((*_NUMBERS, *names), columns, strict=True))
            for name in names:
                self._column(name)
            for name, column in self._columns.items():
                column.extend(values.get(name) or itertools.repeat(math.nan, len(kinds)))
        if self._has_late:
            self._has_late = False
            order = sorted(range(len(self.iterations)), key=self.iterations.__getitem__)
            for column in self._columns.values():
                column[:] = array(column.typecode, map(column.__getitem__, order))

    def get(self, iteration: int) -> Record | None:
        """Return the record of an iteration, as it is now; None if there is none."""
        if (waiting := self._waiting.get(iteration)) is not None:
            return waiting
        index = self.index_of(iteration)
        if index is None:
            return None
        return self.record(index)

    def index_of(self, iteration: int) -> int | None:
        """Return the index of an iteration among the settled ones; None if there is none."""
        index = bisect.bisect_left(self.iterations, iteration)
        if index < len(self.iterations) and self.iterations[index] == iteration:
            return index
        return None

    def record(self, index: int) -> Record:
        """Return the settled record at an index."""
        row = {name: column[index] for name, column in self._columns.items()}
        iteration, line, micros, kind = (row.pop(name) for name in _NUMBERS)
        figures = {name: value for name, value in row.items() if value == value}
        return Record(iteration, line, micros, list(self._kinds)[kind], figures)

    def fill(self, iteration: int, name: str, value: float) -> None:
        """Give a record a value that it lacks."""
        if iteration in self._waiting:
            self._waiting[iteration].figures[name] = value
        else:
            self._column(name)[bisect.bisect_left(self.iterations, iteration)] = value

    def cut(self, iteration: int, removed_to: list[Record]) -> array[int]:
        """Remove the records from an iteration on to a list; return these iterations."""
        self.settle()
        index = bisect.bisect_left(self.iterations, iteration)
        removed = self.iterations[index:]
        removed_to += map(self.record, range(index, len(self.iterations)))
        for column in self._columns.values():
            del column[index:]
        if index:
            self.latest = self.record(index - 1)
        return removed

    def column(self, name: str) -> tuple[float | None, ...]:
        """Return a value of each settled record."""
        values = self._columns.get(name) or [math.nan] * len(self.iterations)
        return tuple(None if value != value else value for value in values)

    def present(self, name: str) -> list[float]:
        """Return the values of a name that are there, in order."""
        return [value for value in self._columns.get(name, ()) if value == value]

    def _column(self, name: str) -> array[float]:
        if name not in self._columns:
            self._columns[name] = array("d", [math.nan]) * len(self.iterations)
        return self._columns[name]
