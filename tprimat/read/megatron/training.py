"""State of a training while its Megatron log is read: records, and their context."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

from tprimat.read.megatron import setup
from tprimat.read.megatron.line import FIELDS, MARKERS, Record, has_marker
from tprimat.read.megatron.table import Table
from tprimat.read.parsing.events import RAW_SIGNS, Events, has_sign
from tprimat.read.parsing.failures import FailureReasons
from tprimat.read.parsing.records import LogContext, LoggedTraining
from tprimat.read.parsing.sequencer import SAME_FIGURES
from tprimat.read.parsing.text import Line, Numbers, clean, first_stamp, lines_of
from tprimat.read.parsing.values import LoggedValue, read_statements, statements

_STATEMENTS = statements(
    ("AMD Instinct", str, 1, r"\b(?P<device>AMD Instinct MI\d{3}[A-Z]*)\b"),
    ("/hsa/", str, 1, r"/hsa/+(?P<architecture>gfx[0-9a-f]{3,4})/"),
)
_MEMORY = re.compile(
    r"\(after (?P<after>\d{1,9}) iterations\) memory \(MB\) \| allocated: *[\d.]+ "
    r"\| max allocated: *(?P<allocated>\d{1,9}(?:\.\d{1,15})?)"
    r" \| reserved: *[\d.]+ \| max reserved: *(?P<reserved>\d{1,9}(?:\.\d{1,15})?)"
)
_SUCCESS = "[after training is done]"
_EXIT = re.compile(
    r"\[exiting program (?:after (\d{1,9}(?:\.\d)?)\d{0,20} minutes|(at iteration \d{1,12}))"
)
"""What stands there instead if exit_duration_in_mins or exit_interval ended the training."""

SIGNS = (
    *setup.SIGNS, *(f"({kind})" for kind in setup.TYPES), *(sign for signs in MARKERS.values() for sign in signs),
    *(row.sign for row in _STATEMENTS), _SUCCESS, "[exiting", "memory (MB)",
)  # fmt: skip
"""A line without any of these has no information on a training."""

LONGEST_LINE = 10_000
"""Characters of a line that are looked at: no statement is longer, and patterns stay quick on any
line.
"""

ARGUMENT_DUMP = "num_layers " + "." * 32
"""Is in Megatron's dump of its arguments, whose names and dots are as wide as a column, and in no
other line.
"""

MOST_HELD = 24 << 20
"""Bytes of a stretch that are kept unread."""


@dataclasses.dataclass
class Context(LogContext):
    """The information in a stretch of a log besides its iteration lines; its statements by names of
    arguments.

    Most of a log is such stretches, and few of them have information on the training: those before
    the first iterations, where a process starts, and at the end. So a stretch can be kept unread
    until it is known to matter.

    Attributes:
        memory: highest MiB allocated and reserved, and the iteration after which they were printed
            last.
        held: whether there is anything.
        dumped: whether a process dumped its arguments.
        exited: when a limit of Megatron's ended the training, in words.
        unread: whole lines of the log that are held, each block with the number of its first.
    """

    memory: dict[str, float] = dataclasses.field(default_factory=dict)
    held: bool = False
    dumped: bool = False
    exited: str | None = None
    unread: list[tuple[int, bytes]] = dataclasses.field(default_factory=list)
    _size: int = 0

    def hold(self, number: int, block: bytes, *, dumped: bool = False) -> None:
        """Add whole lines, given the number of the first, and whether a process dumps its arguments
        in them.
        """
        self.held = True
        self.unread.append((number, block))
        self.dumped = self.dumped or dumped
        self._size += len(block)
        if self._size > MOST_HELD or self.events.marks:
            self.read()

    def own_events(self, *, untimed: bool = False) -> Events:
        """Return its events, only from lines that report one: nothing else is taken from the rest
        of a log.

        A start gets its time from the lines around it, so all lines are read if there is one; so
        they are if the records are `untimed`, since these get their times from such lines.
        """
        if untimed and any(_STAMPED.search(block) for _, block in self.unread):
            return self.read().events
        events = Events()
        for number, block in self.unread:
            for line in _lines_with_events(number, block):
                events.feed(line.number, line.text)
        if not self.unread or any(mark.kind in ("start", "started") for mark in events.marks):
            return self.read().events
        return events

    def read(self) -> Context:
        """Read the lines that are kept, and return itself."""
        unread = self.unread
        self.unread = []
        self._size = 0
        for number, block in unread:
            for line in lines_of(block, number):
                self.feed(line.number, line.text)
        return self

    def feed(self, number: int, text: str) -> None:
        """Read a line that is no iteration line."""
        self.held = True
        self.read()
        super().feed(number, text)
        text = text[:LONGEST_LINE]
        self.dumped = self.dumped or ARGUMENT_DUMP in text
        setup.read_setup(number, text, self.stated)
        for name in MARKERS:
            if name not in self.marks and has_marker(name, text):
                self.marks[name] = number
        if _SUCCESS in text:
            self.marks["success"] = number
        if "[exiting" in text and (early := _EXIT.search(text)):
            self.marks["success"] = number
            self.exited = early[2] or f"after {early[1]} minutes"
        read_statements(_STATEMENTS, text, number, self.stated)
        if "memory (MB)" in text and (memory := _MEMORY.search(text)):
            self._add_memory(**{name: float(value) for name, value in memory.groupdict().items()})

    def absorb(self, later: LogContext) -> None:
        """Add a later stretch. The training went on after it, so what looked like an end was
        none.
        """
        assert isinstance(later, Context)
        super().absorb(later.read())
        self.exited = self.exited or later.exited
        later.causes = FailureReasons()
        self._add_memory(**later.memory)

    def hand_over_end(self, former: LogContext) -> None:
        """Give what ends a training to the training it ends."""
        assert isinstance(former, Context)
        super().hand_over_end(former)
        former._add_memory(**self.memory)
        former.exited = self.exited or former.exited
        self.exited = None
        self.memory = {}

    def _add_memory(self, **figures: float) -> None:
        for name, value in figures.items():
            if name == "after":
                self.memory[name] = value
            else:
                self.memory[name] = max(value, self.memory.get(name, value))


def _lines_with_events(number: int, block: bytes) -> Iterator[Line]:
    """Yield the lines of a block that may report an event; `number` is that of its first line."""
    if not has_sign(block, RAW_SIGNS):
        return
    numbers = Numbers(number, block)
    end = 0
    for sign in _EVENT.finditer(block):
        if sign.start() >= end:
            start = block.rfind(b"\n", 0, sign.start()) + 1
            end = block.find(b"\n", sign.end()) + 1 or len(block)
            yield from lines_of(block[start:end], numbers.at(start))


_STAMPED = re.compile(rb"20\d\d-?\d\d-?\d\d[T ]\d\d:")
_EVENT = re.compile(b"|".join(map(re.escape, RAW_SIGNS)))

SAME_MOMENT = 0.5
"""Two lines of one iteration belong to one moment when less than this share of a step lies between.
"""

FIRST_RECORDS = 3
"""Around this many first records of an attempt, lines may still describe the process: its memory,
its kernels.
"""


@dataclasses.dataclass
class MegatronTraining(LoggedTraining):
    """One training of a log, while it is read.

    Attributes:
        around: the information in the lines up to the last record, and once the log is over also
            after it.
        attempts: first iteration of each start that the log shows and no later one took back,
            ascending.
        since_start: records since the latest of the attempts began.
        lines_of_other_ranks: that repeat an iteration; doubles come from the same rank.
        world: the number of GPUs that a prefix states.
    """

    around: Context = dataclasses.field(default_factory=Context)
    table: Table = dataclasses.field(default_factory=Table)
    since_start: int = 0
    lines_of_other_ranks: int = 0
    world: LoggedValue | None = None

    @property
    def step_count(self) -> int:
        """Records of iterations that it has."""
        return len(self.table)

    def notes(self) -> tuple[str, ...]:
        """Return notes on how the lines were read."""
        others = self.lines_of_other_ranks
        doubles = self.doubles + others
        notes = [f"{doubles} duplicate iteration lines skipped"] if doubles else []
        if others:
            notes.append(f"{others} of them from other ranks")
        return tuple(notes)

    @property
    def young(self) -> bool:
        """Whether the process that runs it has just started."""
        return self.since_start <= FIRST_RECORDS

    def add(self, record: Record, text: str) -> None:
        """Add a record of a new iteration, with its line."""
        self.table.add(record)
        self.since_start += 1
        for name in record.kind.marks:
            self.around.marks.setdefault(name, record.line)
        if self.around.first_stamp is None and record.kind.aware is not None:
            self.around.first_stamp = first_stamp(clean(text))
        if self.world is None and "world" in record.figures:
            rank, world = (int(record.figures[name]) for name in ("rank", "world"))
            if world:
                self.world = LoggedValue(world, record.line, f"[rank-{rank}/{world}]")

    def repeat(self, former: Record, record: Record) -> None:
        """Skip a duplicate; fill the first line's gaps from it, and note differences."""
        for field in FIELDS:
            if field in record.figures and field not in former.figures:
                self.table.fill(former.iteration, field, record.figures[field])
        if former.figures.get("rank") != record.figures.get("rank"):
            self.lines_of_other_ranks += 1
            return
        self.doubles += 1
        fields = [name for name in FIELDS if differ(name, former, record)]
        self.note_conflict("iteration", record.iteration, fields, (former.line, record.line))

    def read_context(self, stretch: Context) -> None:
        """Add the statements of a part of the log before the records."""
        if self.young or stretch.dumped:
            self.around.absorb(stretch)
        else:
            self.around.events.absorb_marks(
                stretch.own_events(untimed=self.table.latest.kind.aware is None)
            )

    def attempt(self, iteration: int) -> None:
        """Note that a process started with an iteration."""
        self.attempts.append(iteration)
        self.since_start = 0

    def restart(self, record: Record) -> None:
        """Drop the records from an iteration on: a new attempt repeats them."""
        self.note_restart(
            "iteration", record.iteration, record.line, self.table.cut(record.iteration, self.lost)
        )
        while self.attempts and self.attempts[-1] >= record.iteration:
            self.attempts.pop()
        self.attempt(record.iteration)


MEASURED = frozenset(
    (
        "elapsed_ms",
        "tflops",
        "tokens_rate",
        "samples_rate",
        "energy",
        "power",
        "memory_fraction",
        "hip_gib",
        "rocm_gib",
    )
)
"""Fields whose values differ a little between the nodes of a training; all others are the same."""


def differ(name: str, one: Record, other: Record) -> bool:
    """Return whether two lines state different values of a field, measured ones by more than nodes
    differ.
    """
    mine = one.figures.get(name)
    its = other.figures.get(name)
    if mine is None or its is None:
        return False
    return not math.isclose(mine, its, rel_tol=SAME_FIGURES if name in MEASURED else 0.0)


def same_moment(former: Record, record: Record, last: int, reach: int = 1) -> bool:
    """Return whether two lines of one iteration were written at one moment, not by two attempts at
    it.

    `last` is the iteration that the training had come to; ranks lag up to `reach` iterations. Where
    even a repeated line would be of another training, it is 0.
    """
    apart = record.seconds_after(former)
    if apart is not None:
        step = max(former.seconds or 0.0, record.seconds or 0.0)
        return abs(apart) <= max(SAME_MOMENT * step, former.kind.resolution)
    is_near = record.iteration >= last - reach
    if differ("rank", former, record):
        return is_near
    own = former.figures
    its = record.figures
    alike = all(own.get(name) == its.get(name) for name in ("elapsed_ms", "samples", "loss"))
    if alike and (reach or record.iteration == last):
        return True
    # Upstream, a rank of each node prints, with the same loss and a time of its own.
    if not is_near or not own.keys() & its.keys() >= {"elapsed_ms", "samples"}:
        return False
    decisive = [name for name in FIELDS if name == "elapsed_ms" or name not in MEASURED]
    return not any(differ(name, former, record) for name in decisive)
