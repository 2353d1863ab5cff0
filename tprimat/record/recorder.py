"""Step ends in, records out. Pure: the clock is an argument, and tensors are unknown here.

A mark is set at each step's end and read later, when the clock reports that it is ready, so that
a GPU never waits for the recorder. A step's time is the sum of the differences between
neighboring marks while the training runs; the time between pause() and resume() is in no step.

Ctrl-C or a signal may strike between any two lines. Therefore each change of state is one
assignment or one append, and a mark that was already resolved is recognized.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tprimat.notes import Note
from tprimat.record.clocks import Clock
from tprimat.record.wall_time import Pause
from tprimat.results.account import EntryKind
from tprimat.results.fields import LARGEST_VALUE, SHORTEST_STEP
from tprimat.results.run import SERIES

DISAGREEMENT = 0.01
"""Fraction by which the sum of the clock's times may differ from the host's before they are
doubtful.
"""

NEGLIGIBLE_S = 1e-3
"""A smaller difference, s, is ignored: waiting for a device takes up to some tenths of a
millisecond.
"""

NAMED_STEPS = 5
"""How many steps a warning names before it only counts them."""

Pair = tuple["float | None", "float | None"]
Values = Pair | Callable[[], Pair]
"""(loss, gradient norm) of a step; or a function that reads them, called once the step's mark is
ready.
"""

NOTHING = (None, None)


class Record(NamedTuple):
    """One optimizer step, or a window of steps that weren't timed one by one.

    Attributes:
        step: number of the (last) step, from 1.
        window: number of steps that the record averages.
        seconds: wall time of one step, s; None if it couldn't be read.
        loss: nats/token; None if unknown, NaN or infinite, as is grad_norm.
        learning_rate: that of this step.
        grad_norm: gradient norm before clipping.
    """

    step: int
    window: int
    seconds: float | None
    loss: float | None
    learning_rate: float | None
    grad_norm: float | None


# Plain tuples: a step makes several marks, and named tuples take several times as long to create.
# _Mark: its stamp; whether the time after it belongs to a step; then, at a step's end, the step,
# its window, its learning rate and its values. A mark within a step has no step, window 1, and its
# kind in place of the values. A start, pause, resume or end has no step and window 0; a pause has
# its kind in place of the values.
_Mark = tuple[Any, bool, "int | None", int, "float | None", Any]
# _Position, how far the marks are resolved: the last resolved mark; seconds of the step in
# progress; seconds since the start, pauses included; seconds that the step has waited for data,
# None before the first wait.
_Position = tuple[_Mark, float, float, "float | None"]

_LAP, _ASKED, _GIVEN = "lap", "asked for data", "given data"


NANOSECONDS = 9
"""Decimals of a step time, s: no clock is finer, and further digits of a sum of floats were not
measured.
"""


class Recorder:
    """Converts step ends to records; `sink` is called with each, in order, as soon as it is known.

    Marks before start() and after finish() are ignored. Without `takes_laps`, so are laps: only a
    training with several processes compares them.

    Attributes:
        records: those resolved so far.
        doubts: notes on doubtful times and gradient norms.
        not_finite: by value, the steps whose loss or gradient norm is NaN or infinite.
        laps: for each step in which lap() was called, the time from the step's start to the call,
            s.
        waits: by the last step of each record, how long its steps waited for data, s; empty if the
            loop marks no waits.
        ends: by step, the time from the start to its end, pauses included, s.
        pauses: finished ones.
    """

    def __init__(
        self, clock: Clock, sink: Callable[[Record], None] | None = None, *, takes_laps: bool = True
    ) -> None:
        self.records: list[Record] = []
        self.doubts: list[Note] = []
        self.laps: list[float] = []
        self.waits: dict[int, float] = {}
        self.ends: dict[int, float] = {}
        self.pauses: list[Pause] = []
        self._pause: tuple[float, EntryKind | None] | None = None
        self._kind: EntryKind | None = None
        self._lapped = 0
        self._takes_laps = takes_laps
        self._clock = clock
        self._sink = sink
        self._marks: deque[_Mark] = deque()
        self._position: _Position | None = None
        self._last_step = 0
        self._running = False
        self.not_finite: dict[str, list[int]] = {"loss": [], "grad_norm": []}
        self._started_ns = 0

    @property
    def started_s(self) -> float:
        """The start on the host's clock, s."""
        return self._started_ns / 1e9

    @property
    def notes(self) -> tuple[Note, ...]:
        """The note on steps whose loss is NaN or infinite, if there are any."""
        steps = sorted({*self.not_finite["loss"]})
        if not steps:
            return ()
        return (
            Note(
                "loss-not-finite",
                {"steps": format_steps(steps), "first": steps[0], "last": steps[-1]},
            ),
        )

    @property
    def paused(self) -> bool:
        """Whether time passing now is excluded from steps."""
        return not self._running

    def start(self, step: int = 0) -> None:
        """Start the training after `step` steps: 0, or more if it is resumed."""
        mark = (self._clock.mark(), True, None, 0, None, NOTHING)
        # The device may still be busy with earlier work; from here on the two clocks count the same
        # time.
        self._clock.wait(mark[0], None)
        self._started_ns = self._clock.host_ns()
        self._last_step = step
        self._position = (mark, 0.0, 0.0, None)
        self._running = True

    def pause(self, kind: EntryKind | None = None) -> None:
        """Exclude the time until resume() from the steps. Another call changes the pause's kind."""
        if self._running or (self._position and kind not in (None, self._kind)):
            self._running = False
            self._kind = kind
            self._marks.append((self._clock.mark(), False, None, 0, None, kind))

    def resume(self) -> None:
        """Continue the step in progress."""
        if not self._running and self._position:
            self._running = True
            self._marks.append((self._clock.mark(), True, None, 0, None, NOTHING))

    def lap(self) -> None:
        """Mark a point within the step, such as the start of its backward pass; only the first call
        in a step counts. The time from the step's start goes to `laps`.
        """
        if self._takes_laps and self._running and self._lapped != self._last_step + 1:
            self._lapped = self._last_step + 1
            self._mark_within(_LAP)

    def ask_for_data(self) -> None:
        """Mark that the loop begins to wait for a batch."""
        self._mark_within(_ASKED)

    def take_data(self) -> None:
        """Mark that the host has the batch.

        The time between the two marks is how long the device was idle for lack of data, not how
        long the host slept: while a GPU is still busy with the previous step, both marks come after
        that work, one right after the other.
        """
        self._mark_within(_GIVEN)

    def _mark_within(self, what: str) -> None:
        if self._running:
            self._marks.append((self._clock.mark(), True, None, 1, None, what))

    def step_end(
        self, step: int, values: Values = NOTHING, learning_rate: float | None = None
    ) -> None:
        """End a step, as far as the host sees. Raises ValueError if its number didn't rise.

        If the number rose by more than one, the record is a window of those steps.
        """
        window = step - self._last_step
        if window < 1:
            raise ValueError(f"step {step} ends after step {self._last_step}")
        self._marks.append((self._clock.mark(), self._running, step, window, learning_rate, values))
        self._last_step = step
        self.resolve()

    def resolve(self) -> None:
        """Turn the marks that are ready into records."""
        marks = self._marks
        is_ready = self._clock.is_ready
        while marks:
            mark = marks[0]
            if not is_ready(mark[0]):
                return
            self._resolve_mark(mark)
            marks.popleft()

    def finish(self, timeout_s: float | None = None) -> None:
        """Finish the training: resolve the remaining marks, and compare the two clocks.

        Args:
            timeout_s: how long to wait for the device; None waits as long as it takes. A device
                that hangs must not keep the result from being written.
        """
        if self._position is None:
            return
        try:
            last = self._clock.mark()
            self._marks.append((last, False, None, 0, None, NOTHING))
            is_ready = self._clock.wait(last, timeout_s)
            elapsed = (self._clock.host_ns() - self._started_ns) / 1e9
            self.resolve()
        except RuntimeError as error:
            # torch raises it for each call once a device has failed.
            self._drop_marks(
                "the device reports an error:"
                f" {(str(error).splitlines() or [type(error).__name__])[0]}"
            )
        else:
            if is_ready:
                self._cross_check(elapsed)
            else:
                self._drop_marks(f"the device did not answer within {timeout_s:g} s")
        self._running = False
        if norms := sorted({*self.not_finite["grad_norm"]}):
            self.doubts.append(Note("grad-norm-infinite", {"steps": format_steps(norms)}))
        self._position = None

    def _drop_marks(self, reason: str) -> None:
        """Record the steps whose marks can't be read without a time, and note the reason."""
        untimed = []
        for _, _, step, window, learning_rate, _ in self._marks:
            if step is not None:
                untimed.append(step)
                self._record(Record(step, window, None, None, learning_rate, None))
        self._marks.clear()
        if untimed:
            self.doubts.append(
                Note("steps-unread", {"steps": format_steps(untimed), "why": reason})
            )

    def _resolve_mark(self, mark: _Mark) -> None:
        if self._position is None or self._position[0] is mark:
            return
        last, seconds, total, waited = self._position
        passed = self._clock.seconds(last[0], mark[0])
        total += passed
        if last[1]:
            seconds += passed
        _, is_running, step, window, learning_rate, values = mark
        if step is not None:
            loss, grad_norm = values() if callable(values) else values
            loss = self._finite("loss", loss, step)
            grad_norm = self._finite("grad_norm", grad_norm, step)
            time: float | None = round(seconds / window, NANOSECONDS)
            if seconds < SHORTEST_STEP * window:
                time = None
                self.doubts.append(Note("step-untimed", {"step": step}))
            self.ends[step] = total
            if waited is not None:
                self.waits[step] = waited
                waited = 0.0
            self._record(Record(step, window, time, loss, learning_rate, grad_norm))
            seconds = 0.0
        elif values is _LAP:
            self.laps.append(seconds)
        elif values is _GIVEN:
            waited = (waited or 0.0) + passed
        elif not window:
            if self._pause is not None:
                self.pauses.append(Pause(self._pause[0], total, self._pause[1]))
            self._pause = None if is_running or values == NOTHING else (total, values)
        self._position = (mark, seconds, total, waited)

    def _finite(self, name: str, value: float | None, step: int) -> float | None:
        """Return the value; None, with the step in `not_finite`, if it is NaN or infinite."""
        # The comparison is also false for NaN.
        if value is None or abs(value) <= LARGEST_VALUE:
            return value
        self.not_finite[name].append(step)
        return None

    def _record(self, record: Record) -> None:
        if self.records and self.records[-1].step >= record.step:
            return  # an interruption struck after the append and before the mark was removed
        self.records.append(record)
        if self._sink:
            self._sink(record)

    def _cross_check(self, host_seconds: float) -> None:
        if self._position is None:
            return
        clock_seconds = self._position[2]
        difference = abs(clock_seconds - host_seconds)
        if difference > NEGLIGIBLE_S and difference > DISAGREEMENT * host_seconds:
            self.doubts.append(
                Note(
                    "timer-mismatch",
                    {"clock": self._clock.name, "seconds": clock_seconds, "host": host_seconds},
                )
            )


def series(records: Sequence[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Return records as the fields of a Run."""
    columns = zip(*records, strict=True) if records else [()] * len(Record._fields)
    # The last series, the lines of a log, is unknown in a recording.
    return dict(zip(SERIES, (*columns, (None,) * len(records)), strict=True))


def format_steps(steps: Sequence[int]) -> str:
    """Return steps as text for a warning: all of a few, or the first ones of many."""
    shown = ", ".join(map(str, steps[:NAMED_STEPS]))
    more = f" and {len(steps) - NAMED_STEPS} more" if len(steps) > NAMED_STEPS else ""
    return f"{'step' if len(steps) == 1 else 'steps'} {shown}{more}"
