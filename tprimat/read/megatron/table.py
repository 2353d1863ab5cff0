"""The records of a training, in arrays: of a million steps there is no room for a million objects."""

from __future__ import annotations

import bisect
import datetime
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tprimat.read.megatron.line import FIELDS, Record
from tprimat.read.parsing.text import Stamp

FIGURES = (*FIELDS, "memory_total_gib")
"""Fields of a Record that are figures, None where a line doesn't have them."""

_PLACES = {name: place for place, name in enumerate(FIGURES)}
_WIDTH = len(FIGURES)

_EPOCH = datetime.datetime(1970, 1, 1)
_AWARE_EPOCH = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def micros(stamp: Stamp) -> int:
    """Return microseconds from 1970 to a stamp; to a naive one on its own clock."""
    return (stamp.time - (_EPOCH if stamp.time.tzinfo is None else _AWARE_EPOCH)) // _MICROSECOND


class Kind(NamedTuple):
    """What most records of a training have in common.

    Attributes:
        planned, rank, world, shape, paired, not_finite, garbled: as in Record.
        aware, resolution: of the stamp; None where there is none.
    """

    planned: int
    rank: int | None = None
    world: int | None = None
    shape: str = "upstream"
    paired: bool = False
    not_finite: tuple[str, ...] = ()
    garbled: tuple[str, ...] = ()
    aware: bool | None = None
    resolution: float | None = None


class Table:
    """Records by iteration, ascending; late ones stand aside until finalized() puts them in.

    Attributes:
        iterations: of each record.
        lines: of each record, in the log.
    """

    def __init__(self) -> None:
        self.iterations = array("q")
        self.lines = array("q")
        self._stamps = array("q")
        self._kinds = array("I")
        self._figures = array("d")
        """So many of each record as there are FIGURES; NaN for none."""
        self._kind_numbers: dict[Kind, int] = {}
        self._kind_list: list[Kind] = []
        self._late: dict[int, Record] = {}
        self._first = 0

    def __len__(self) -> int:
        return len(self.iterations) + len(self._late)

    @property
    def first(self) -> int:
        """The lowest iteration; there must be one."""
        return self._first

    @property
    def last(self) -> int:
        """The highest iteration; there must be one. Late ones are lower."""
        return self.iterations[-1]

    @property
    def interval(self) -> int:
        """Iterations from the record before the last one to that; from none to a first one."""
        return self.iterations[-1] - (self.iterations[-2] if len(self.iterations) > 1 else 0)

    def number_of(self, kind: Kind) -> int:
        """Return the number of a kind, a new one for a new kind."""
        number = self._kind_numbers.setdefault(kind, len(self._kind_list))
        if number == len(self._kind_list):
            self._kind_list.append(kind)
        return number

    def add(self, record: Record) -> None:
        """Add a record of an iteration that isn't there yet."""
        if self.iterations and record.iteration < self.iterations[-1]:
            self._late[record.iteration] = record
            self._first = min(self._first, record.iteration)
            return
        stamp = record.stamp
        kind = Kind(
            record.planned,
            record.rank,
            record.world,
            record.shape,
            record.paired,
            record.not_finite,
            record.garbled,
            None if stamp is None else stamp.time.tzinfo is not None,
            None if stamp is None else stamp.resolution,
        )
        figures = [math.nan if (value := getattr(record, name)) is None else value for name in FIGURES]
        self.append(record.iteration, record.line, micros(stamp) if stamp else 0, self.number_of(kind), figures)

    def append(self, iteration: int, line: int, stamp: int, kind: int, figures: Sequence[float]) -> None:
        """Append the parts of a record of a higher iteration than all.

        Args:
            iteration: of the record.
            line: of the record.
            stamp: as micros() gives it; anything where the kind has none.
            kind: number of its kind.
            figures: one for each of FIGURES, NaN for none.
        """
        if not self.iterations:
            self._first = iteration
        self._figures.extend(figures)
        self.iterations.append(iteration)
        self.lines.append(line)
        self._stamps.append(stamp)
        self._kinds.append(kind)

    def get(self, iteration: int) -> Record | None:
        """Return the record of an iteration, as it is now; None where there is none."""
        place = self.place(iteration)
        return self._late.get(iteration) if place is None else self.record(place)

    def record_of(self, iteration: int) -> Record:
        """Return the record of an iteration that is there."""
        record = self.get(iteration)
        assert record is not None
        return record

    def place(self, iteration: int) -> int | None:
        """Return the place of an iteration; None where there is none, or a late one stands aside."""
        if not self.iterations or iteration > self.iterations[-1]:
            return None
        place = bisect.bisect_left(self.iterations, iteration)
        return place if self.iterations[place] == iteration else None

    def record(self, place: int) -> Record:
        """Return the record at a place."""
        kind = self._kind_list[self._kinds[place]]
        stamp = None
        if kind.aware is not None and kind.resolution is not None:
            epoch = _AWARE_EPOCH if kind.aware else _EPOCH
            stamp = Stamp(epoch + self._stamps[place] * _MICROSECOND, kind.resolution)
        record = Record(
            self.iterations[place],
            kind.planned,
            self.lines[place],
            stamp,
            kind.rank,
            kind.world,
            shape=kind.shape,
            paired=kind.paired,
            not_finite=kind.not_finite,
            garbled=kind.garbled,
        )
        for name, value in zip(FIGURES, self._figures[place * _WIDTH : (place + 1) * _WIDTH], strict=True):
            if value == value:
                setattr(record, name, value)
        return record

    def fill(self, iteration: int, name: str, value: float) -> None:
        """Give a record a figure that it lacks."""
        place = self.place(iteration)
        if place is None:
            setattr(self._late[iteration], name, value)
        else:
            self._figures[place * _WIDTH + _PLACES[name]] = value

    def cut(self, iteration: int) -> int:
        """Remove the records from an iteration on, of which there must be one; return the lowest removed."""
        place = bisect.bisect_left(self.iterations, iteration)
        late = [each for each in self._late if each >= iteration]
        lowest = min(self.iterations[place], *late, self.iterations[place])
        for each in late:
            del self._late[each]
        for values in (self.iterations, self.lines, self._stamps, self._kinds):
            del values[place:]
        del self._figures[place * _WIDTH :]
        return lowest

    def finalized(self) -> Table:
        """Return the same with the late records in their places."""
        if not self._late:
            return self
        table = Table()
        for iteration in sorted([*self.iterations, *self._late]):
            table.add(self.record_of(iteration))
        return table

    def after_pauses(self, longer: float) -> list[int]:
        """Return places of records whose time doesn't fill the time since the record before; of a finalized table.

        Args:
            longer: by how much the stamps must be farther apart than the time, s.
        """
        found = []
        before, steps = None, 0
        stamped = [kind.aware for kind in self._kind_list]
        times = self._column("elapsed_ms")
        for place, (iteration, stamp, kind, ms) in enumerate(
            zip(self.iterations, self._stamps, self._kinds, times, strict=False)
        ):
            here = (stamped[kind], stamp)
            if (
                before is not None
                and here[0] is not None
                and here[0] is before[0]
                and stamp - before[1] > 1e3 * ms * (iteration - steps) + 1e6 * longer
            ):
                found.append(place)
            before, steps = here, iteration
        return found

    def kinds(self) -> Iterator[Kind]:
        """Yield the kind of each record; of a finalized table."""
        return map(self._kind_list.__getitem__, self._kinds)

    def kinds_there(self) -> list[Kind]:
        """Return all kinds of records, in the order in which they first come; of a finalized table."""
        return [self._kind_list[number] for number in dict.fromkeys(self._kinds)]

    def of_kind(self, matches: Callable[[Kind], bool]) -> list[int]:
        """Return the iterations of records whose kind is wanted; of a finalized table."""
        numbers = {number for number, kind in enumerate(self._kind_list) if matches(kind)}
        if not numbers:
            return []
        return [each for each, number in zip(self.iterations, self._kinds, strict=True) if number in numbers]

    def column(self, name: str) -> tuple[float | None, ...]:
        """Return a figure of each record; of a finalized table."""
        return tuple(None if value != value else value for value in self._column(name))

    def present(self, name: str) -> Iterator[float]:
        """Yield the figures of a name that are there, in order; of a finalized table."""
        return (value for value in self._column(name) if value == value)

    def _column(self, name: str) -> array[float]:
        return self._figures[_PLACES[name] :: _WIDTH]
