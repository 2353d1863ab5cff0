"""Readers' help for a record that is a block: a header with the step, and a line per metric below it."""

from __future__ import annotations

from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line


class BlockReader(StepReader):
    """Collects the metrics of a block; the next header, or the end of the log, closes it."""

    def __init__(self) -> None:
        super().__init__()
        self._block: dict[str, str] = {}
        self._step: int | None = None
        self._line = 0
        self.headless = 0

    def begin(self, step: int | None, line: int) -> None:
        """Open the block of a step, None if its header is missing."""
        self.close()
        self._step, self._line = step, line

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a metric to the open block; a repeated name opens another one, whose header is lost."""
        if name in self._block:
            self.begin(None, line.number)
        if not self._block and self._step is None:
            self._line = line.number
        # The last word of a file that ends within a line may be half a figure.
        if line.whole:
            self._block[name] = value

    def close(self) -> None:
        """Make a record of the open block."""
        block, self._block = self._block, {}
        step, self._step = self._step, None
        if not block or not self.counts(block):
            return
        if step is None:
            step = self.step_within(block)
        if step is None:
            self.headless += 1
            last = self.sorter.trainings[-1].last if self.sorter.trainings else None
            step = (last.step if last else 0) + 1
        self.add(self.record(step, self._line, block))

    def counts(self, block: dict[str, str]) -> bool:
        """Return whether a block is of training steps."""
        raise NotImplementedError

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the step of a block whose header is missing, where a metric tells it."""
        return None

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block."""
        raise NotImplementedError

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        self.close()
        return super().finish()

    def done(self, training: LoggedTraining) -> None:
        """Note missing headers, and set windows."""
        if self.headless:
            training.warnings.append(
                f"{self.headless} records have no header with a step: they are numbered in their order"
            )
        before = None
        for record in training.ordered():
            record.window = 1 if before is None else record.step - before
            before = record.step


def digits(text: str) -> int:
    """Return the number of significant digits of a printed number: 0.0869 has three."""
    mantissa = text.lower().partition("e")[0].replace(",", "").lstrip("+-")
    return len(mantissa.replace(".", "").lstrip("0"))
