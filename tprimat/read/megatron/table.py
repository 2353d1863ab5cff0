"""The records of a training, in columns: of a million steps there is no room for a million objects."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence

from tprimat.read.megatron.layout import micros, stamp_of
from tprimat.read.megatron.line import FIELDS, Record

FIGURES = (*FIELDS, "memory_total_gib")
"""Fields of a Record that are figures, None where a line doesn't have them."""


@dataclasses.dataclass(frozen=True)
class Kind:
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


class Column:
    """A figure of each record, NaN for none; takes no room as long as it is the same one all along.

    Attributes:
        values: the figures, once they differ.
    """

    def __init__(self, length: int, value: float = math.nan) -> None:
        self.values: array[float] | None = None
        self._value = value
        self._length = length

    def __len__(self) -> int:
        return self._length if self.values is None else len(self.values)

    def __getitem__(self, index: int) -> float:
        return self._value if self.values is None else self.values[index]

    def __iter__(self) -> Iterator[float]:
        return itertools.repeat(self._value, self._length) if self.values is None else iter(self.values)

    def append(self, value: float) -> None:
        """Adds a figure."""
        if self.values is None:
            if not self._length:
                self._value = value
            if value == self._value or (value != value and self._value != self._value):
                self._length += 1
                return
        self.spread().append(value)

    def spread(self) -> array[float]:
        """The figures, each with room of its own from now on."""
        if self.values is None:
            self.values = array("d", [self._value]) * self._length
        return self.values

    def cut(self, length: int) -> None:
        """Takes away the figures from a place on."""
        self._length = length
        if self.values is not None:
            del self.values[length:]

    def extend(self, other: Column, start: int) -> None:
        """Adds another column's figures from a place on."""
        if other.values is not None:
            self.spread().extend(other.values[start:])
            return
        for _ in range(min(1, len(other) - start)):
            self.append(other._value)
        if self.values is None:
            self._length += max(0, len(other) - start - 1)
        else:
            self.values.extend(array("d", [other._value]) * max(0, len(other) - start - 1))


class Table:
    """Records by iteration, ascending; such as come late stand aside until settled() puts them in.

    Attributes:
        iterations: of each record.
        lines: of each record, in the log.
    """

    def __init__(self) -> None:
        self.iterations = array("q")
        self.lines = array("q")
        self._stamps = array("q")
        self._kinds = array("I")
        self._kind_list: list[Kind] = []
        self._kind_numbers: dict[Kind, int] = {}
        self._columns: dict[str, Column] = {}
        self._in_order: dict[tuple[str, ...], tuple[list[Column], list[Column]]] = {}
        self._late: dict[int, Record] = {}
        self._late_order: list[int] = []

    def __len__(self) -> int:
        return len(self.iterations) + len(self._late)

    @property
    def first(self) -> int:
        """The lowest iteration; there must be one."""
        return min(self.iterations[0], *self._late_order[:1], self.iterations[0])

    @property
    def last(self) -> int:
        """The highest iteration; there must be one. What comes late is lower."""
        return self.iterations[-1]

    @property
    def interval(self) -> int:
        """Iterations from the record before the last one to that; from none to a first one."""
        return self.iterations[-1] - (self.iterations[-2] if len(self.iterations) > 1 else 0)

    def number_of(self, kind: Kind) -> int:
        """The number of a kind, a new one where it wasn't there yet."""
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = len(self._kind_list)
            self._kind_list.append(kind)
        return number

    def add(self, record: Record) -> None:
        """Adds a record of an iteration that isn't there yet."""
        if self.iterations and record.iteration < self.iterations[-1]:
            self._late[record.iteration] = record
            bisect.insort(self._late_order, record.iteration)
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
        figures = {name: value for name in FIGURES if (value := getattr(record, name)) is not None}
        time = 0 if stamp is None else micros(stamp)
        self.append(record.iteration, record.line, time, self.number_of(kind), tuple(figures), tuple(figures.values()))

    def append(
        self, iteration: int, line: int, stamp: int, kind: int, names: tuple[str, ...], figures: Sequence[float | bytes]
    ) -> None:
        """Adds the parts of a record of a higher iteration than all.

        Args:
            iteration: of the record.
            line: of the record.
            stamp: as micros() gives it; anything where the kind has none.
            kind: number of its kind.
            names: of the figures, in FIGURES.
            figures: as numbers or as they are written.
        """
        columns = self._in_order.get(names)
        if columns is None:
            columns = self._ordered(names)
        for column, figure in zip(columns[0], figures, strict=True):
            if column.values is None:
                column.append(float(figure))
            else:
                column.values.append(float(figure))
        for column in columns[1]:
            column.append(math.nan)
        self.iterations.append(iteration)
        self.lines.append(line)
        self._stamps.append(stamp)
        self._kinds.append(kind)

    def _ordered(self, names: tuple[str, ...]) -> tuple[list[Column], list[Column]]:
        """The columns of some figures in their order, and all others."""
        if len(self._in_order) > 64 or not self._columns.keys() >= set(names):
            self._in_order = {}
        for name in names:
            self._columns.setdefault(name, Column(len(self.iterations)))
        others = [column for name, column in self._columns.items() if name not in names]
        self._in_order[names] = ([self._columns[name] for name in names], others)
        return self._in_order[names]

    def get(self, iteration: int) -> Record | None:
        """The record of an iteration, as it is now; None where there is none."""
        place = self.place(iteration)
        return self._late.get(iteration) if place is None else self.record(place)

    def record_of(self, iteration: int) -> Record:
        """The record of an iteration that is there."""
        record = self.get(iteration)
        assert record is not None
        return record

    def place(self, iteration: int) -> int | None:
        """Where an iteration stands; None where it doesn't, or came late and isn't settled."""
        if not self.iterations or iteration > self.iterations[-1]:
            return None
        place = bisect.bisect_left(self.iterations, iteration)
        return place if self.iterations[place] == iteration else None

    def record(self, place: int) -> Record:
        """The record at a place."""
        kind = self._kind_list[self._kinds[place]]
        stamp = None
        if kind.aware is not None and kind.resolution is not None:
            stamp = stamp_of(self._stamps[place], kind.resolution, aware=kind.aware)
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
        for name, column in self._columns.items():
            value = column[place]
            if value == value:
                setattr(record, name, value)
        return record

    def fill(self, iteration: int, name: str, value: float) -> None:
        """Gives a record a figure that it lacks."""
        place = self.place(iteration)
        if place is None:
            setattr(self._late[iteration], name, value)
            return
        if name not in self._columns:
            self._in_order = {}
            self._columns[name] = Column(len(self.iterations))
        self._columns[name].spread()[place] = value

    def cut(self, iteration: int) -> int:
        """Takes away the records from an iteration on, of which there must be one; returns the lowest of them."""
        place = bisect.bisect_left(self.iterations, iteration)
        gone = [self.iterations[place]]
        late = bisect.bisect_left(self._late_order, iteration)
        for each in self._late_order[late:]:
            gone.append(each)
            del self._late[each]
        del self._late_order[late:]
        for values in (self.iterations, self.lines, self._stamps, self._kinds):
            del values[place:]
        for column in self._columns.values():
            column.cut(place)
        return min(gone)

    def extend(self, other: Table, start: int, lines: int) -> None:
        """Adds the records of another table from a place on: all of higher iterations than these.

        Args:
            other: settled.
            start: place of the first record that is added.
            lines: to be added to their line numbers.
        """
        numbers = [self.number_of(kind) for kind in other._kind_list]
        length = len(self.iterations)
        self._in_order = {}
        for name in other._columns:
            self._columns.setdefault(name, Column(length))
        nothing = Column(len(other.iterations))
        for name, column in self._columns.items():
            column.extend(other._columns.get(name, nothing), start)
        self.iterations.extend(other.iterations[start:])
        self.lines.extend(array("q", [line + lines for line in other.lines[start:]]))
        self._stamps.extend(other._stamps[start:])
        self._kinds.extend(array("I", [numbers[kind] for kind in other._kinds[start:]]))

    def settled(self) -> Table:
        """The same with those in their places that came late."""
        if not self._late:
            return self
        made = Table()
        for iteration in sorted([*self.iterations, *self._late_order]):
            record = self.get(iteration)
            assert record is not None
            made.add(record)
        return made

    def after_pauses(self, longer: float) -> list[int]:
        """Places of records whose time doesn't fill the time since the record before; of a settled table.

        Args:
            longer: by how much the stamps must be farther apart than the time, s.
        """
        found = []
        before, steps = None, 0
        stamped = [kind.aware for kind in self._kind_list]
        times = self._columns.get("elapsed_ms", ())
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
        """The kind of each record; of a settled table."""
        return map(self._kind_list.__getitem__, self._kinds)

    def kinds_there(self) -> list[Kind]:
        """All kinds of records, in the order in which they first come; of a settled table."""
        return [self._kind_list[number] for number in dict.fromkeys(self._kinds)]

    def of_kind(self, wanted: Callable[[Kind], bool]) -> list[int]:
        """The iterations of records whose kind is wanted; of a settled table."""
        numbers = {number for number, kind in enumerate(self._kind_list) if wanted(kind)}
        if not numbers:
            return []
        return [each for each, number in zip(self.iterations, self._kinds, strict=True) if number in numbers]

    def column(self, name: str) -> Sequence[float | None]:
        """A figure of each record; of a settled table."""
        column = self._columns.get(name)
        if column is None:
            return (None,) * len(self.iterations)
        return tuple(None if value != value else value for value in column)

    def there(self, name: str) -> Iterator[float]:
        """The figures that are there of a kind, in order; of a settled table."""
        return (value for value in self._columns.get(name, ()) if value == value)
