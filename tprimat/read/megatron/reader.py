"""Reader of logs with Megatron's iteration lines: Megatron-LM, its ROCm fork, Primus.

Lines become records, by the number of the iteration; the lines around them say the setup. One
log can hold doubled lines, several attempts at one training, and several trainings:

    the same iteration, the same moment        a double; skipped
    an iteration again, later in time          a restart: its records take the place of the former
    again from the first iteration or before   another training: a Reading of its own
    a later one that doesn't follow from it    another training too: other GPUs, batch or plan
    any, behind the dump of another model      another training too

What stands between iteration lines is read before the first ones of an attempt and around them,
where a process dumps its arguments, and after the last; elsewhere it is skipped. In blocks of
bytes a line is found by its bars and the word elapsed, which colours must not part.
"""

from __future__ import annotations

from typing import Any

from tprimat.read.megatron.fast_path import FastPath
from tprimat.read.megatron.line import FIELDS, TIMED, Record, records
from tprimat.read.megatron.run import MegatronRun
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import (
    ARGUMENT_DUMP,
    MOST_CONFLICTS,
    SAME_MOMENT,
    Context,
    MegatronTraining,
    Stretch,
)
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.text import Line, Numbers, lines_of, numpy_if_there
from tprimat.read.parsing.values import LoggedValues

WORTH_NUMPY = 64 << 20
"""Bytes of a log after which numpy is worth its start."""

_DUMP = ARGUMENT_DUMP.encode()
_DOTS = _DUMP[_DUMP.index(b".") :]


class Reader:
    """A parsed_log.Reader of Megatron logs."""

    name = "megatron"
    looks_for = "Megatron's iteration lines (“iteration 3/ 50 | … elapsed time per iteration (ms): …”)"

    def __init__(self) -> None:
        self._trainings: list[MegatronTraining] = []
        self._stretch = Stretch()
        self._cut_off: int | None = None
        self._fast = FastPath()
        self._fed = 0
        self._numpy: Any = None

    @property
    def recognised(self) -> bool:
        """Whether an iteration line or an argument dump was seen."""
        return bool(self._trainings) or "num_layers" in self._stretch.context().stated

    @property
    def steps_found(self) -> int:
        """Iterations of the last training found so far."""
        return len(self._trainings[-1].table) if self._trainings else 0

    def feed(self, line: Line) -> None:
        """Take the next line."""
        parsed = list(records(line)) if TIMED in line.text else []
        for record in parsed:
            self._take(record, line.text, whole=line.whole)
        if not parsed:
            self._stretch.feed(line)

    def feed_block(self, number: int, block: bytes) -> int:
        """Read whole lines at once, as feed() would one by one; return the number of the line after them."""
        self._fed += len(block)
        if self._fed > WORTH_NUMPY and self._numpy is None:
            self._numpy = numpy_if_there()
        numbers = Numbers(number, block, self._numpy)
        dump = _dump_in(block, 0)
        training = self._ongoing()
        at = unread = 0
        while (line := self._fast.next_line(block, at)) is not None:
            start, end = line
            raw = block[start:end]
            at = end + 1
            if training is not None and not 0 <= dump < start and self._fast.take(training, raw, start, numbers):
                if self._stretch.held:
                    self._stretch = Stretch()
                at = unread = self._fast.take_repeats(training, block, at, numbers)
            elif self._take_slowly(block, unread, start, raw, numbers):
                unread = at
                if 0 <= dump < unread:
                    dump = _dump_in(block, unread)
                training = self._ongoing()
        if unread < len(block):
            self._stretch.hold(numbers.at(unread), block[unread:])
        return numbers.at(len(block))

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        pending, self._stretch = self._stretch.context(), Stretch()
        if self._trainings:
            training = self._trainings[-1]
            if _started_again(pending):
                training.warnings.append(
                    f"started again on line {pending.marks['start']}, and that attempt logged no iteration: "
                    f"{pending.causes.reason() or 'the log gives no reason'}"
                )
                pending.stated = LoggedValues()
            training.around.absorb(pending)
            training.cut_off = self._cut_off
        elif "num_layers" in pending.stated or _is_of_primus(pending):
            self._trainings.append(MegatronTraining(around=pending))
        return [MegatronRun.of(training).reading() for training in self._trainings]

    def _ongoing(self) -> MegatronTraining | None:
        """Return the training that goes on, if what stands before its next line need not be read."""
        training = self._trainings[-1] if self._trainings else None
        if training is None or training.young or (self._stretch.held and self._stretch.dumped):
            return None
        return training

    def _take_slowly(self, block: bytes, unread: int, start: int, raw: bytes, numbers: Numbers) -> bool:
        """Take a line with what stands before it; return False for a line without a record."""
        lines = list(lines_of(raw + b"\n", 0))
        parsed = [record for line in lines for record in records(line)]
        if not parsed:
            return False
        if unread < start:
            self._stretch.hold(numbers.at(unread), block[unread:start])
        number = numbers.at(start)
        if len(lines) == len(parsed) == 1:
            record = parsed[0]._replace(line=number)
            is_last = self._take(record, lines[0].text, whole=True)
            self._fast.learn(raw, record, self._trainings[-1], is_last=is_last)
        else:
            for line in lines:
                self.feed(Line(number, line.text, line.whole))
        return True

    def _take(self, record: Record, text: str, *, whole: bool) -> bool:
        """Add a record with its line; return whether it is now the last one of its training."""
        if record.seconds is None and not whole:
            self._cut_off = record.iteration
            return False
        training = self._trainings[-1] if self._trainings else None
        stretch, self._stretch = self._stretch, Stretch()
        if training is None:
            self._begin(record, text, stretch.context())
            return True
        known = training.table.get(record.iteration)
        if known is not None and same_moment(known, record, training.table.last):
            training.read_context(stretch)
            take_double(training, known, record)
            return False
        onward = record.iteration > training.table.last
        other = stretch.dumped and is_another_model(training.around.stated, stretch.context().stated)
        if other or (onward and is_foreign(training.table, record)):
            self._begin(record, text, stretch.context())
            return True
        if known is None and (onward or is_late(record, training)):
            training.read_context(stretch)
            if onward:
                self._fast.forget()
            if onward and stretch.dumped and _started_again(stretch.context()):
                training.attempt(record.iteration)
            training.add(record, text)
            return onward
        if record.iteration <= training.table.first:
            self._begin(record, text, stretch.context())
        else:
            self._fast.forget()
            training.restart(record)
            training.around.absorb(stretch.context())
            training.add(record, text)
        return True

    def _begin(self, record: Record, text: str, pending: Context) -> None:
        self._fast.forget()
        if self._trainings:
            pending.hand_over_end(self._trainings[-1].around)
        training = MegatronTraining()
        training.attempt(record.iteration)
        self._trainings.append(training)
        training.around.absorb(pending)
        training.add(record, text)


def _dump_in(block: bytes, at: int) -> int:
    """Return where a process dumps its arguments in a block, from a place on; -1 where none does."""
    while (at := block.find(_DOTS, at)) >= 0:
        begin = at - len(_DUMP) + len(_DOTS)
        if begin >= 0 and block.startswith(_DUMP, begin):
            return begin
        at += len(_DOTS)
    return -1


def _is_of_primus(pending: Context) -> bool:
    """Return whether Primus started a training, or tried to, in a log without a dump and without iterations."""
    tried = "hostname" in pending.stated and bool(pending.causes.exit_code)
    return "primus" in pending.marks and ("world_size" in pending.stated or tried)


def _started_again(pending: Context) -> bool:
    """Return whether a process dumped its arguments in this stretch."""
    return "start" in pending.marks and "num_layers" in pending.stated


def is_another_model(stated: LoggedValues, later: LoggedValues) -> bool:
    """Return whether a later dump of arguments is of a model of another shape."""
    shapes = ((stated.count(name), later.count(name)) for name in ("num_layers", "hidden_size", "num_attention_heads"))
    return any(None not in pair and pair[0] != pair[1] for pair in shapes)


def signs_of_another(last: Record, record: Record) -> int:
    """Return in how many ways a later iteration looks like one of another training: plan, GPUs, batch and samples."""
    batches = [each.figures.get("batch") for each in (last, record)]
    samples = [each.figures.get("samples") for each in (last, record)]
    other_batch = _differ(*batches)
    if None not in (*samples, batches[1]):
        steps = record.iteration - last.iteration
        other_batch = (samples[1] or 0.0) - (samples[0] or 0.0) != steps * (batches[1] or 0.0)
        if not other_batch and batches[0] != batches[1]:
            # Samples that go on with another batch are of one training.
            return 0
    return (record.kind.planned != last.kind.planned) + _differ(record.kind.world, last.kind.world) + other_batch


def is_foreign(table: Table, record: Record) -> bool:
    """Return whether a later iteration is of another training than the records: a log behind another one.

    A training goes on with other GPUs, another batch or a longer plan; but then it goes on where it was.
    """
    last = table.latest
    interval = table.last - (table.iterations[-2] if len(table) > 1 else 0)
    if record.iteration - table.last <= max(1, interval):
        return False
    signs = signs_of_another(last, record)
    return signs >= 2 or (signs == 1 and last.iteration >= last.kind.planned)


def is_late(record: Record, training: MegatronTraining) -> bool:
    """Return whether an iteration that is over was only logged late: not by another attempt."""
    last = training.table.latest
    if record.kind.planned != last.kind.planned or _differ(record.kind.world, last.kind.world):
        return False
    after = record.seconds_after(last)
    return after <= 0 if after is not None else record.iteration > training.table.first


def same_moment(known: Record, record: Record, last: int) -> bool:
    """Return whether two lines of one iteration were written at one moment, not by two attempts at it.

    `last` is the iteration that the training had come to.
    """
    apart = record.seconds_after(known)
    if apart is not None:
        step = max(known.seconds or 0.0, record.seconds or 0.0)
        return abs(apart) <= max(SAME_MOMENT * step, known.kind.resolution)
    if _differ(known.kind.rank, record.kind.rank):
        return record.iteration >= last - 1
    return all(known.figures.get(name) == record.figures.get(name) for name in ("elapsed_ms", "samples"))


def _differ(one: float | None, other: float | None) -> bool:
    """Return whether two lines state different values."""
    return one is not None and other is not None and one != other


def take_double(training: MegatronTraining, known: Record, record: Record) -> None:
    """Skip a duplicate; fill the first line's gaps from it, and note differences."""
    training.doubles += 1
    for field in FIELDS:
        if field in record.figures and field not in known.figures:
            training.table.fill(known.iteration, field, record.figures[field])
    if known.kind.rank != record.kind.rank:
        training.lines_of_other_ranks += 1
        return
    fields = [field for field in FIELDS if _differ(known.figures.get(field), record.figures.get(field))]
    if fields and len(training.conflicts) < MOST_CONFLICTS:
        training.conflicts.append(
            f"iteration {record.iteration} is printed twice with different figures ({', '.join(fields)}; lines "
            f"{known.line} and {record.line}): the first is kept"
        )
