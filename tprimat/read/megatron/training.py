"""State of a training while its Megatron log is read: records, and their context."""

from __future__ import annotations

import dataclasses
import re

from tprimat.read.megatron import setup
from tprimat.read.megatron.line import Record
from tprimat.read.megatron.table import Table
from tprimat.read.parsing.failures import FailureReasons
from tprimat.read.parsing.records import LogContext, LoggedTraining
from tprimat.read.parsing.text import Line, first_stamp, lines_of
from tprimat.read.parsing.values import LoggedValue

# fmt: off
MARKERS: dict[str, tuple[str, ...]] = {
    "primus": ("[Primus", "primus launcher", "PRIMUS_", "primus/", "][rank-", "MegatronTrainer:"),
    "amd": (
        "hip mem usage", "rocm mem usage", "[aiter]", "iter backend", "/opt/rocm", "AMD Instinct", "AMD GPU device",
        "hipModuleLoad", "hipError", "HIP error", "HIP out of memory", "HSA_", "RCCL_", "RCCL version", "HIPBLASLT",
        "not compatible with ROCm",
    ),
    "core": ("[Primus:Runtime]", "[Runtime] Applying", "Final backend args", "print_rank_last_patches"),
    "start": ("-- arguments --", "using world size:", "[before the start of training step]"),
}
# fmt: on
"""Words that show whose log it is, on what it ran, and that a process started."""

_DEVICE = re.compile(r"\bAMD Instinct MI\d{3}[A-Z]*\b")
_ARCHITECTURE = re.compile(r"/hsa/+(gfx[0-9a-f]{3,4})/")
_MEMORY = re.compile(
    r"\(after (?P<after>\d{1,9}) iterations\) memory \(MB\) \| allocated: *[\d.]+ "
    r"\| max allocated: *(?P<allocated>\d{1,9}(?:\.\d{1,15})?)"
    r" \| reserved: *[\d.]+ \| max reserved: *(?P<reserved>\d{1,9}(?:\.\d{1,15})?)"
)
_SUCCESS = "[after training is done]"


ARGUMENT_DUMP = "num_layers " + "." * 32
"""Is in Megatron's dump of its arguments, whose names and dots are as wide as a column, and in no other line."""

LONGEST_TELLING = 10_000
"""Characters of a line that are looked at: no statement is longer, and patterns stay quick on any line."""


def shows(name: str, text: str) -> bool:
    """Return whether a line shows what MARKERS has under a name."""
    return any(word in text for word in MARKERS[name])


@dataclasses.dataclass
class Context(LogContext):
    """What a stretch of a log says besides its iteration lines; its statements by names of arguments.

    Attributes:
        words: device and architecture, where lines name them.
        memory: highest MiB allocated and reserved, and the iteration after which they were printed last.
        dumped: whether a process dumped its arguments.
    """

    words: dict[str, str] = dataclasses.field(default_factory=dict)
    memory: dict[str, float] = dataclasses.field(default_factory=dict)
    dumped: bool = False

    def absorb(self, later: LogContext) -> None:
        """Add a later stretch. The training went on after it, so what looked like an end was none."""
        super().absorb(later)
        assert isinstance(later, Context)
        self.words = later.words | self.words
        self._add_memory(**later.memory)

    def hand_over_end(self, former: Context) -> None:
        """Add end markers and trailing lines to the training they belong to."""
        former.causes, self.causes = self.causes, FailureReasons()
        if "success" in self.marks:
            former.marks["success"] = self.marks.pop("success")
        former._add_memory(**self.memory)
        self.memory = {}

    def feed(self, number: int, text: str) -> None:
        """Read a line that is no iteration line."""
        text = text[:LONGEST_TELLING]
        if self.first_stamp is None:
            self.first_stamp = first_stamp(text)
        self.causes.feed(number, text)
        self.dumped = self.dumped or ARGUMENT_DUMP in text
        setup.read_setup(number, text, self.stated)
        for name in MARKERS:
            if name not in self.marks and shows(name, text):
                self.marks[name] = number
        if _SUCCESS in text:
            self.marks["success"] = number
        for name, sign, pattern in (("device", "AMD Instinct", _DEVICE), ("architecture", "/hsa/", _ARCHITECTURE)):
            if sign in text and name not in self.words and (match := pattern.search(text)):
                self.words[name] = match[match.lastindex or 0]
        if "memory (MB)" in text and (memory := _MEMORY.search(text)):
            self._add_memory(**{name: float(value) for name, value in memory.groupdict().items()})

    def _add_memory(self, **figures: float) -> None:
        for name, value in figures.items():
            self.memory[name] = value if name == "after" else max(value, self.memory.get(name, value))


MOST_HELD = 24 << 20
"""Bytes of a stretch that are kept unread."""


class Stretch:
    """What stands between two iteration lines: read only if it is told to matter.

    Most of a log is such stretches, and few of them say anything of the training: those before the
    first iterations, where a process starts, and at the end.
    """

    def __init__(self) -> None:
        self.held = False
        """Whether there is anything."""
        self._context = Context()
        self._unread: list[tuple[int, bytes]] = []
        self._size = 0

    def feed(self, line: Line) -> None:
        """Read a line."""
        self.held = True
        if self._unread:
            self.context()
        self._context.feed(line.number, line.text)

    def hold(self, number: int, block: bytes) -> None:
        """Read whole lines of the log, given the number of the first."""
        self.held = True
        self._unread.append((number, block))
        self._size += len(block)
        if self._size > MOST_HELD:
            self.context()

    @property
    def dumped(self) -> bool:
        """Whether a process dumped its arguments in it."""
        if not self._context.dumped and any(ARGUMENT_DUMP.encode() in block for _, block in self._unread):
            self.context()
        return self._context.dumped

    def context(self) -> Context:
        """Return its statements."""
        unread, self._unread, self._size = self._unread, [], 0
        for number, block in unread:
            for line in lines_of(block, number):
                self._context.feed(line.number, line.text)
        return self._context


SAME_MOMENT = 0.5
"""Two lines of one iteration are of one moment when less than this share of a step lies between."""

FIRST_RECORDS = 3
"""Around so many first records of an attempt a process still tells of itself: its memory, its kernels."""


MOST_CONFLICTS = 5
"""Conflicts that are said."""


@dataclasses.dataclass
class MegatronTraining(LoggedTraining):
    """One training of a log, while it is read.

    Attributes:
        around: as told up to the last record, and after it once the log is over.
        table: its records.
        attempts: first iteration of each start that the log shows and no later one took back, ascending.
        since_start: records since the latest of the attempts began.
        world: the number of GPUs that a prefix states.
    """

    around: Context = dataclasses.field(default_factory=Context)
    table: Table = dataclasses.field(default_factory=Table)
    since_start: int = 0
    lines_of_other_ranks: int = 0
    world: LoggedValue | None = None
    restarts: int = 0

    @property
    def step_count(self) -> int:
        """Records of iterations that it has."""
        return len(self.table)

    def notes(self) -> tuple[str, ...]:
        """Return notes on how the lines were read."""
        notes = [f"{self.doubles} lines that repeat an iteration were passed over"] if self.doubles else []
        if self.lines_of_other_ranks:
            notes.append(f"{self.lines_of_other_ranks} of them are of other ranks")
        return tuple(notes)

    @property
    def young(self) -> bool:
        """Whether the process that runs it has just started."""
        return self.since_start <= FIRST_RECORDS

    def add(self, record: Record, text: str) -> None:
        """Add a record of a new iteration, with its line."""
        self.table.add(record)
        self.since_start += 1
        marks, kind = self.around.marks, record.kind
        for name in ("primus", "amd"):
            if name not in marks and shows(name, text):
                marks[name] = record.line
        if kind.shape.startswith("primus"):
            marks.setdefault("primus", record.line)
        if self.around.first_stamp is None:
            self.around.first_stamp = first_stamp(text)
        if kind.world and self.world is None:
            self.world = LoggedValue(kind.world, record.line, f"[rank-{kind.rank}/{kind.world}]")

    def read_context(self, stretch: Stretch) -> None:
        """Add what a part of the log before the records states."""
        if self.young or stretch.dumped:
            self.around.absorb(stretch.context())

    def attempt(self, iteration: int) -> None:
        """Note that a process started with an iteration."""
        self.attempts.append(iteration)
        self.since_start = 0

    def restart(self, record: Record) -> None:
        """Drop the records from an iteration on: a new attempt repeats them."""
        dropped = self.table.cut(record.iteration)
        while self.attempts and self.attempts[-1] >= record.iteration:
            self.attempts.pop()
        self.restarts += 1
        if self.restarts <= MOST_RESTARTS:
            self.warnings.append(
                f"restarted on line {record.line} from iteration {record.iteration}: the records of iterations "
                f"{dropped[0]} to {dropped[-1]} before it are left out"
            )
        self.attempt(record.iteration)


MOST_RESTARTS = 50
"""Restarts that are told one by one."""
