"""One training under watch, whatever its loop is: its clock, its memory, its journal, its result.

An adapter says when the training starts, when a step has ended and how it ended; all else is here.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis import metrics
from tprimat.machine.platforms import Machine, detect
from tprimat.record import console, progress, ranks, result
from tprimat.record import device as place
from tprimat.record.clocks import DeviceClock, DeviceScalars, HostClock, HostScalars, Scalars
from tprimat.record.describe import Description
from tprimat.record.journal import Journal
from tprimat.record.memory import DeviceMemory, Memory, ProcessMemory
from tprimat.record.options import Options
from tprimat.record.recorder import Clock, Record, Recorder, Values
from tprimat.record.termination import TermWatch
from tprimat.results.run import Environment, GpuInfo, MemoryMetrics, Run, Status
from tprimat.store import store

PATIENCE_S = 5.0
"""How long a failed or interrupted training is asked for its last times; its GPU may hang."""

_TRAININGS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Processes:
    """Which process of how many this is."""

    rank: int = 0
    world_size: int = 1


class MeasurementSession:
    """A training from before its first step to its result.

    Args:
        said: what the caller stated.
        device: the torch.device that the training runs on.
        processes: which process of how many this is; the first one writes.
        covers: what a step's time holds.
        doubts: called at the end for what the adapter has to say.
        amended: called at the end with the records of this process; gives them with what the
            training told later than at a step's end.

    Attributes:
        recorder: where pauses are told.
        scalars: takes the values of tensors.
        step: number of the last step that has ended.
        ended: whether the result was written (or would have been, on another process than the first).
        run: the result, once it has ended.
        path: its file; None on other processes than the first.
        watch: whether SIGTERM came.
    """

    def __init__(
        self,
        said: Options,
        device: Any,
        processes: Processes,
        *,
        covers: str,
        doubts: Callable[[], Sequence[str]] = tuple,
        amended: Callable[[Sequence[Record]], Sequence[Record]] = list,
    ) -> None:
        import torch

        self.platform = place.platform_of(device, torch, said.platform)
        self.processes = processes
        on_cpu = self.platform == "cpu"
        # Only the process that writes asks the vendor's tools, which may take seconds.
        found = Machine(self.platform, GpuInfo(), Environment()) if processes.rank else detect()
        self.machine = place.restrict_to_devices(found, self.platform, device, processes.world_size)
        clock: Clock = HostClock() if on_cpu else DeviceClock(device, torch.cuda)
        self.scalars: Scalars = HostScalars() if on_cpu else DeviceScalars()
        self.memory: Memory = ProcessMemory() if on_cpu else DeviceMemory(device, torch.cuda)
        self.recorder = Recorder(clock, self._take)
        self.watch = TermWatch(self._last_words)
        self.step = self.first_step = 0
        self.ended = False
        self.run: Run | None = None
        self.path: Path | None = None
        self._clock_name = clock.name
        self._said = said
        self._covers = covers
        self._doubts = doubts
        self._amended = amended
        self._description: Description | None = None
        self._module: Any = None
        self._planned: int | None = None
        self._timestamp = _now()
        self._name = f"tprimat/training/{next(_TRAININGS)}"
        self._journal: Journal | None = None
        self._note: Callable[[Record], None] | None = None
        self._one_batch_size = True
        self._seconds_after_first = 0.0
        self._steps_after_first = 0
        self._ending = False

    def start(self, description: Description, module: Any = None, *, step: int = 0, planned: int | None = None) -> None:
        """The first step starts.

        Args:
            description: what is known of the training.
            module: what is trained, for its name; None where it is unknown.
            step: steps that were done before.
            planned: steps that were asked for.
        """
        self._description, self._module, self._planned = description, module, planned
        self.step = self.first_step = step
        if not self.processes.rank:
            self.watch.install()
            self._journal = Journal(self._said.output_dir)
            self._note = self._journal.step
            self._print(console.start(self.platform, self.machine.gpu_info, self.machine.environment))
        self.memory.start()
        self._timestamp = _now()
        if self._journal:
            self._journal.setup(self._so_far())
            self._say_trouble(self._journal)
        self.recorder.start(step)

    def step_end(self, step: int, values: Values, learning_rate: float | None) -> None:
        """A step has ended, as far as the host sees; see Recorder.step_end."""
        self.recorder.step_end(step, values, learning_rate)
        self.step = step
        if self.platform != "cpu":
            self.memory.step_end()

    def batch_varies(self) -> None:
        """Not all steps were of one global batch."""
        self._one_batch_size = False

    def end(self, status: Status, reason: str | None, *, patience_s: float | None = PATIENCE_S) -> None:
        """Writes the result, once.

        Args:
            status: how it ended.
            reason: why so; None for nothing to say.
            patience_s: how long to wait for the device; None, for a regular end, as long as it takes.
        """
        if self.ended or self._ending:
            return
        self._ending = True
        try:
            self.recorder.finish(patience_s)
            if patience_s is None:
                self.memory.sample()
            self.run = self._run(status, reason, self._gathered(status, reason, regular=patience_s is None))
            if not self.processes.rank:
                self._write(self.run)
            self.ended = True
        finally:
            self._ending = False
            self.watch.remove()
            self.watch.release()

    def _gathered(self, status: Status, reason: str | None, *, regular: bool) -> ranks.Gathered:
        records = self._amended(self.recorder.records)
        rank, world_size = self.processes.rank, self.processes.world_size
        if world_size == 1:
            return ranks.Gathered(records)
        if not regular:
            # Whoever still waits for the others after a failure may wait for ever.
            return ranks.alone(records, world_size, ranks.BEFORE_THE_END)
        if self._journal:
            # Should a launcher end this process because another one has died meanwhile.
            self._journal.final(self._run(status, reason, ranks.alone(records, world_size, ranks.WHILE_GATHERED)))
        return ranks.gather(records, self.recorder.laps, self._name, rank, world_size)

    def _last_words(self) -> bool:
        if self._ending:
            return False
        self.end("incomplete", "terminated (SIGTERM)")
        return True

    def _take(self, record: Record) -> None:
        """A step's time has become known."""
        if self._note:
            self._note(record)
        if record.step - record.window > self.first_step and record.seconds is not None:
            self._seconds_after_first += record.seconds * record.window
            self._steps_after_first += record.window
        every = self._said.log_every
        is_due = record.step // every > (record.step - record.window) // every
        if is_due:
            self.memory.sample()
        if self.processes.rank or not (is_due or self._said.on_step):
            return
        mean = self._seconds_after_first / self._steps_after_first if self._steps_after_first else record.seconds
        memory_gb = self.memory.current_gb()
        if is_due:
            self._print([console.step(self.platform, record.step, record.seconds, mean, memory_gb)])
        if self._said.on_step:
            self._said.on_step(record.step, self._planned, record.seconds, mean, record.loss, memory_gb)

    def _so_far(self) -> Run:
        """What is known before the first step, for the journal; memory is not."""
        world_size = self.processes.world_size
        before = ranks.Gathered(()) if world_size == 1 else ranks.alone((), world_size, ranks.BEFORE_THE_END)
        return msgspec.structs.replace(self._run("incomplete", None, before), memory_metrics=MemoryMetrics())

    def _run(self, status: Status, reason: str | None, gathered: ranks.Gathered) -> Run:
        run = result.assemble(
            said=self._said,
            machine=self.machine,
            description=self._description,
            module=self._module,
            over_ranks=gathered.over_ranks,
            clock=self._clock_name,
            records=gathered.records,
            memory=self.memory.metrics(),
            timestamp=self._timestamp,
            status=status,
            reason=reason,
            warnings=[
                *self.machine.warnings,
                *self.recorder.warnings,
                *gathered.warnings,
                *self.memory.warnings,
                *self._doubts(),
                *result.said_of_start(self.first_step, ()),
            ],
            batch_is_one_size=self._one_batch_size,
        )
        return msgspec.structs.replace(run, timing=msgspec.structs.replace(run.timing, covers=self._covers))

    def _write(self, run: Run) -> None:
        if self._journal:
            self._journal.final(run)
        self.path, troubles = result.write(run, self._said.output_dir)
        if self._journal:
            self._leave(self._journal)
        if self.path is not None and progress.is_enabled():
            # At once: a signal may end this process before its loop has ended.
            progress.emit(progress.Saved(str(self.path), store.fingerprint(run)))
        if not self._said.quiet:
            summary = metrics.summarize(run)
            saved = f"Results saved to: {self.path}" if self.path else "Results were not saved"
            console.say([*console.end(self.platform, run, summary), saved, console.RULE])
            warnings = dict.fromkeys((*run.warnings, *summary.warnings))
            troubles = [*(f"warning: {warning}" for warning in warnings), *troubles]
        if troubles:
            console.say(troubles, to_errors=True)

    def _leave(self, journal: Journal) -> None:
        if self.path is not None:
            journal.remove()
            return
        journal.close()
        if journal.path is not None and journal.trouble is None:
            console.say(
                [f"{journal.path} holds all that was recorded: the next command makes a result of it"], to_errors=True
            )

    def _say_trouble(self, journal: Journal) -> None:
        if journal.trouble:
            console.say(
                [
                    f"warning: {self._said.output_dir}: no journal can be written there: {journal.trouble}: should "
                    "this training be killed, its steps are lost"
                ],
                to_errors=True,
            )

    def _print(self, lines: list[str]) -> None:
        if not self._said.quiet:
            console.say(lines)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).astimezone().isoformat(timespec="seconds")
