"""The records of a training, in arrays: of a million steps there is no room for a million objects."""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tprimat.read.megatron.line import FIELDS, Kind, Record

FIGURES = (*FIELDS, "memory_total_gib")
"""Figures of a Record."""

_PLACES = {name: place for place, name in enumerate(FIGURES)}
_WIDTH = len(FIGURES)


class Table:
    """Records by iteration, ascending."""

    def __init__(self) -> None:
        self.iterations = array("q")
        self.lines = array("q")
        self._micros = array("q")
        self._kinds = array("I")
        self._figures = array("d")
        """So many of each record as there are FIGURES; NaN for none."""
        self._kind_numbers: dict[Kind, int] = {}
        self._kind_list: list[Kind] = []

    def __len__(self) -> int:
        return len(self.iterations)

    @property
    def first(self) -> int:
        """The lowest iteration; there must be one."""
        return self.iterations[0]

    @property
    def last(self) -> int:
        """The highest iteration; there must be one."""
        return self.iterations[-1]

    @property
    def latest(self) -> Record:
        """The record of the highest iteration; there must be one."""
        return self.record(len(self) - 1)

    def number_of(self, kind: Kind) -> int:
        """Return the number of a kind, a new one for a new kind."""
        number = self._kind_numbers.setdefault(kind, len(self._kind_list))
        if number == len(self._kind_list):
            self._kind_list.append(kind)
        return number

    def add(self, record: Record) -> None:
        """Add a record of an iteration that isn't there yet."""
        figures = (record.figures.get(name, math.nan) for name in FIGURES)
        self.insert(record.iteration, record.line, record.micros, self.number_of(record.kind), figures)

    def insert(self, iteration: int, line: int, micros: int, kind: int, figures: Iterable[float]) -> None:
        """Insert a record by its parts: the number of its kind, and NaN for each of FIGURES that it lacks."""
        place = bisect.bisect_left(self.iterations, iteration)
        self._figures[place * _WIDTH : place * _WIDTH] = array("d", figures)
        self.iterations.insert(place, iteration)
        self.lines.insert(place, line)
        self._micros.insert(place, micros)
        self._kinds.insert(place, kind)

    def get(self, iteration: int) -> Record | None:
        """Return the record of an iteration, as it is now; None where there is none."""
        place = self.place(iteration)
        return None if place is None else self.record(place)

    def place(self, iteration: int) -> int | None:
        """Return the place of an iteration; None where there is none."""
        place = bisect.bisect_left(self.iterations, iteration)
        return place if place < len(self.iterations) and self.iterations[place] == iteration else None

    def record(self, place: int) -> Record:
        """Return the record at a place."""
        figures = zip(FIGURES, self._figures[place * _WIDTH : (place + 1) * _WIDTH], strict=True)
        return Record(
            self.iterations[place],
            self.lines[place],
            self._micros[place],
            self._kind_list[self._kinds[place]],
            {name: value for name, value in figures if value == value},
        )

    def fill(self, iteration: int, name: str, value: float) -> None:
        """Give a record a figure that it lacks."""
        self._figures[bisect.bisect_left(self.iterations, iteration) * _WIDTH + _PLACES[name]] = value

    def cut(self, iteration: int) -> array[int]:
        """Remove the records from an iteration on; return these iterations."""
        place = bisect.bisect_left(self.iterations, iteration)
        removed = self.iterations[place:]
        for values in (self.iterations, self.lines, self._micros, self._kinds):
            del values[place:]
        del self._figures[place * _WIDTH :]
        return removed

    def after_pauses(self, longer: float) -> list[int]:
        """Return places of records before which more time passed than theirs, by so many seconds at least."""
        aware = [kind.aware for kind in self._kind_list]
        clocks = map(aware.__getitem__, self._kinds)
        rows = zip(self.iterations, self._micros, clocks, self._column("elapsed_ms"), strict=True)
        return [
            place
            for place, ((iteration, begin, clock, _), (later, end, same_clock, ms)) in enumerate(pairwise(rows), 1)
            if clock is not None and clock is same_clock and end - begin > 1e3 * ms * (later - iteration) + 1e6 * longer
        ]

    def kinds(self) -> Iterator[Kind]:
        """Yield the kind of each record."""
        return map(self._kind_list.__getitem__, self._kinds)

    def column(self, name: str) -> tuple[float | None, ...]:
        """Return a figure of each record."""
        return tuple(None if value != value else value for value in self._column(name))

    def present(self, name: str) -> list[float]:
        """Return the figures of a name that are there, in order."""
        return [value for value in self._column(name) if value == value]

    def _column(self, name: str) -> array[float]:
        return self._figures[_PLACES[name] :: _WIDTH]
