"""Reader of logs with Megatron's iteration lines: Megatron-LM, its ROCm fork, Primus.

Lines become records, by the number of the iteration; the lines around them say the setup. One
log can hold doubled lines, several attempts at one training, and several runs:

    the same iteration, the same moment        a double; skipped
    an iteration again, later in time          a restart: its records take the place of the former
    again from the first iteration or before   another training: a Reading of its own, unless this one has failed and
                                               the same is started again
    a later one that doesn't follow from it    another training too: other GPUs, batch or plan
    any, after the dump of another model       another training too

What stands between iteration lines is read before the first ones of an attempt and around them,
where a process dumps its arguments, and after the last; elsewhere it is skipped. In blocks of
bytes a line is found by its bars and the word elapsed, which colors must not part.
"""

from __future__ import annotations

import itertools
from typing import Any

from tprimat.notes import Note, NoteValue
from tprimat.read.megatron.layout import Layout, ParsedLine, find_line, layout_of
from tprimat.read.megatron.line import TIMED, Record, goes_on, is_wrapped, parse
from tprimat.read.megatron.run import MegatronRun
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import (
    ARGUMENT_DUMP,
    SIGNS,
    Context,
    MegatronTraining,
    differ,
    same_moment,
)
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.sequencer import LAGGING
from tprimat.read.parsing.text import ZEROS, Line, Numbers, lines_of, numpy_if_there
from tprimat.read.parsing.values import LoggedValues

WORTH_NUMPY = 64 << 20
"""Bytes of a log after which numpy is worth its start."""

MOST_LAYOUTS = 1024
"""Spellings of lines that are learnt."""

_DUMP = ARGUMENT_DUMP.encode()
_DOTS = _DUMP[_DUMP.index(b".") :]


class Reader:
    """A parsed_log.Reader of Megatron logs."""

    name = "megatron"
    all_signs = (TIMED, *SIGNS)

    def __init__(self) -> None:
        self._trainings: list[MegatronTraining] = []
        self._stretch = Context()
        self._cut_off: int | None = None
        # The first parts of an iteration line that goes on in the next line.
        self._begun: Line | None = None
        self._layouts: dict[bytes, Layout] = {}
        self._last: ParsedLine | None = None
        self._fed = 0
        self._numpy: Any = None

    @property
    def recognized(self) -> bool:
        """Whether an iteration line or an argument dump was seen."""
        if self._trainings or self._begun is not None:
            return True
        return "num_layers" in self._stretch.read().stated

    @property
    def steps_found(self) -> int:
        """Iterations of the last training found so far."""
        table = self._trainings[-1].table if self._trainings else ()
        return len(table) + (self._begun is not None)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if self._begun is not None and goes_on(line.text):
            line = self._begun._replace(text=self._begun.text + line.text, whole=line.whole)
            self._begun = None
        self._end_line()
        records = [record for record, _ in parse(line)]
        if len(records) == 1 and is_wrapped(line.text):
            self._begun = line
            return
        for record in records:
            self._take(record, line.text, whole=line.whole)
        if not records:
            self._stretch.feed(line.number, line.text)

    def _end_line(self) -> None:
        """Take a line that might have gone on, as it is."""
        if self._begun is not None:
            for record, _ in parse(self._begun):
                self._take(record, self._begun.text, whole=self._begun.whole)
            self._begun = None

    def feed_block(self, number: int, block: bytes) -> int:
        """Read whole lines at once, as feed() would one by one; return the number of the line after
        them.
        """
        self._fed += len(block)
        if self._fed > WORTH_NUMPY and self._numpy is None:
            self._numpy = numpy_if_there()
        numbers = Numbers(number, block, self._numpy)
        dump = _dump_in(block, 0)
        unread = 0
        layout: Layout | None
        while True:
            if self._begun is not None and unread < len(block):
                end = block.find(b"\n", unread) + 1 or len(block)
                for text in lines_of(block[unread:end], numbers.at(unread)):
                    self.feed(text)
                unread = end
                dump = _dump_in(block, unread)
                continue
            last = self._last
            if (
                last is not None
                and block.startswith(b"\n", end := unread + len(last.layout.spelling))
                and (raw := block[unread:end]).translate(ZEROS) == last.layout.spelling
            ):
                start = unread
                layout = last.layout
            elif (line := find_line(block, unread)) is not None:
                start, end = line
                raw = block[start:end]
                layout = self._layouts.get(raw.translate(ZEROS))
            else:
                break
            dumped = dump < start
            if (
                last is not None
                and layout is not None
                and not dumped
                and last.is_repeated_by(raw, layout)
            ):
                self._trainings[-1].lines_of_other_ranks += 1
                if self._stretch.held:
                    self._trainings[-1].around.events.absorb_marks(self._stretch.own_events())
                    self._stretch = Context()
            else:
                if unread < start:
                    self._hold(numbers.at(unread), block[unread:start], dumped=dumped)
                self._take_line(raw, layout, numbers.at(start))
            unread = end + 1
            if dump < unread:
                dump = _dump_in(block, unread)
        if unread < len(block):
            self._hold(numbers.at(unread), block[unread:], dumped=dump < len(block))
        return numbers.at(len(block))

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        self._end_line()
        pending = self._stretch.read()
        self._stretch = Context()
        if self._trainings:
            training = self._trainings[-1]
            if _started_again(pending):
                why = pending.causes.reason() or "no reason in the log"
                facts: dict[str, NoteValue] = {"line": pending.marks["start"], "why": why}
                training.warnings.append(Note("attempt-without-iteration", facts))
                pending.stated = LoggedValues()
            training.around.absorb(pending)
            training.cut_off = self._cut_off
        elif "num_layers" in pending.stated or _is_of_primus(pending):
            self._trainings.append(MegatronTraining(around=pending))
        for training in self._trainings:
            training.table.settle()
        return [MegatronRun.of(training).reading() for training in self._trainings]

    def _hold(self, number: int, block: bytes, *, dumped: bool) -> None:
        """Keep lines unread; after a dump of arguments the next record needs a closer look."""
        self._stretch.hold(number, block, dumped=dumped)
        if dumped:
            self._last = None

    def _take_line(self, raw: bytes, layout: Layout | None, number: int) -> None:
        """Take a line by its layout, or learn that; a line without a record is held."""
        record = layout.record(raw, number) if layout is not None else None
        if layout is not None and record is not None:
            self._take(record, raw.decode())
        else:
            lines = list(lines_of(raw + b"\n", number))
            parsed = list(itertools.chain.from_iterable(map(parse, lines)))
            if not parsed:
                self._hold(number, raw + b"\n", dumped=_dump_in(raw, 0) < len(raw))
                return
            if len(lines) > 1 or len(parsed) > 1:
                for line in lines:
                    self.feed(line)
                return
            record, places = parsed[0]
            if is_wrapped(lines[0].text):
                self._begun = lines[0]
                return
            self._take(record, lines[0].text)
            if (
                layout is None
                and len(self._layouts) < MOST_LAYOUTS
                and (layout := layout_of(raw, record, places))
            ):
                self._layouts[layout.spelling] = layout
        training = self._trainings[-1]
        if layout is not None and record is training.table.latest and not training.young:
            self._last = ParsedLine.of(raw, layout, record)

    def _take(self, record: Record, text: str, *, whole: bool = True) -> None:
        """Put a record where it belongs by the table at the top of this file."""
        if not whole and record.seconds is None:
            self._cut_off = record.iteration
            return
        training = self._trainings[-1] if self._trainings else None
        stretch = self._stretch
        if stretch.held:
            self._stretch = Context()
        if training is None:
            self._begin(record, text, stretch)
            return
        table = training.table
        onward = record.iteration > table.latest.iteration
        former = None if onward else table.get(record.iteration)
        # With one seed, another training may repeat the values of the first iteration. After
        # iterations 1 and 2, another 1 may be from a rank that lags; after 1, 2 and 3 it isn't.
        again = len(table) > LAGGING and record.iteration == table.first
        reach = 0 if again else table.interval
        if former is not None and same_moment(former, record, table.last, reach):
            training.read_context(stretch)
            training.repeat(former, record)
            return
        self._last = None
        # Iteration 41 after 42, written later but done earlier, is no step back.
        follows = onward or (former is None and is_late(record, training))
        if _is_of_another(training, record, stretch, onward=onward, follows=follows):
            self._begin(record, text, stretch)
            return
        if not follows:
            stretch.read().events.restart(record.line)
            training.restart(record)
            training.around.absorb(stretch)
        else:
            training.read_context(stretch)
            if onward and stretch.dumped and _started_again(stretch):
                training.attempt(record.iteration)
        training.add(record, text)

    def _begin(self, record: Record, text: str, pending: Context) -> None:
        pending.read()
        if self._trainings:
            pending.hand_over_end(self._trainings[-1].around)
        training = MegatronTraining()
        training.attempt(record.iteration)
        self._trainings.append(training)
        training.around.absorb(pending)
        training.add(record, text)


def _dump_in(block: bytes, at: int) -> int:
    """Return where a process dumps its arguments in a block, from a place on; its length where none
    does.
    """
    while (at := block.find(_DOTS, at)) >= 0:
        begin = at - len(_DUMP) + len(_DOTS)
        if begin >= 0 and block.startswith(_DUMP, begin):
            return begin
        at += len(_DOTS)
    return len(block)


def _is_of_primus(pending: Context) -> bool:
    """Return whether Primus started a training, or tried to, in a log without a dump and without
    iterations.
    """
    tried = "hostname" in pending.stated and bool(pending.causes.exit_code)
    return "primus" in pending.marks and ("world_size" in pending.stated or tried)


def _started_again(pending: Context) -> bool:
    """Return whether a process dumped its arguments in this stretch."""
    return "start" in pending.marks and "num_layers" in pending.stated


def _is_of_another(
    training: MegatronTraining, record: Record, stretch: Context, *, onward: bool, follows: bool
) -> bool:
    """Return whether a record begins another training: of another model, foreign, or back at the
    first iteration.

    Back at iteration 1, with the same plan and GPUs, is another attempt only if this one has failed
    and the very same arguments are dumped again; back at iteration 300 of 400 is one in any case.
    """
    if stretch.dumped and is_another_model(training.around.stated, stretch.read().stated):
        return True
    if onward and is_foreign(training.table, record):
        return True
    if follows or record.iteration > training.table.first:
        return False
    if signs_of_another(training.table.latest, record):
        return True
    return not training.around.starts_over(stretch.read())


def is_another_model(stated: LoggedValues, later: LoggedValues) -> bool:
    """Return whether a later dump of arguments describes a model of another shape."""
    for name in ("num_layers", "hidden_size", "num_attention_heads"):
        sizes = stated.count(name), later.count(name)
        if None not in sizes and sizes[0] != sizes[1]:
            return True
    return False


def signs_of_another(last: Record, record: Record) -> int:
    """Return in how many ways a later iteration looks like one of another training: plan, GPUs,
    batch and samples.

    Iteration 20 after 10, with a batch of 64, has consumed 640 samples more; with 1,280 more it
    belongs to another training.
    """
    batch = last.figures.get("batch")
    later_batch = record.figures.get("batch")
    samples = last.figures.get("samples")
    later_samples = record.figures.get("samples")
    other_batch = differ("batch", last, record)
    if samples is not None and later_samples is not None and later_batch is not None:
        steps = record.iteration - last.iteration
        other_batch = later_samples - samples != steps * later_batch
        if not other_batch and batch != later_batch:
            # Samples that go on with another batch are of one training.
            return 0
    return differ("planned", last, record) + differ("world", last, record) + other_batch


def is_foreign(table: Table, record: Record) -> bool:
    """Return whether a later iteration belongs to another run than the records: its log was
    appended to theirs.

    A training goes on with other GPUs, another batch or a longer plan; but then it goes on where it
    was: at iteration 110 after 100, in a log of every tenth iteration, not at 150.
    """
    last = table.latest
    if record.iteration == last.iteration + 1:
        return False
    signs = signs_of_another(last, record)
    if not signs or (signs == 1 and last.iteration < last.planned):
        return False
    return record.iteration - last.iteration > max(1, table.interval)


def is_late(record: Record, training: MegatronTraining) -> bool:
    """Return whether an iteration that is over was only logged late: not by another attempt."""
    last = training.table.latest
    if differ("planned", last, record) or differ("world", last, record):
        return False
    after = record.seconds_after(last)
    if after is not None:
        return after <= 0
    return record.iteration > training.table.first
