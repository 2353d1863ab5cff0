"""The lifecycle of a recording: one training from before its first step to its result, in any
framework.

The adapter of a framework translates its hooks into start, step_end, pause, resume, lap and end,
and describes the training. Clock, memory, journal, SIGTERM, the other ranks' times, console lines
and the result are here.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat.analysis import records
from tprimat.analysis.summary import summarize
from tprimat.catalog import shapes
from tprimat.machine.platforms import Machine, detect
from tprimat.machine.telemetry.sampler import Sampler
from tprimat.notes import Note, noted
from tprimat.record import console, nodes, progress, ranks, result, telemetry
from tprimat.record.clocks import Clock, DeviceClock, DeviceScalars, HostClock, HostScalars, Scalars
from tprimat.record.device import own_devices, platform_of, restrict_to_devices
from tprimat.record.journal import Journal, Update
from tprimat.record.memory import DeviceMemory, Memory, ProcessMemory
from tprimat.record.outcome import RUNNING, TERMINATED, of_exception
from tprimat.record.ranks import Process
from tprimat.record.recorder import Record, Recorder, Values, format_steps, series
from tprimat.record.scalars import StepValues
from tprimat.record.sigterm import SigcontWatch, SigtermWatch
from tprimat.record.telemetry.timeline import Timeline
from tprimat.record.wall_time import timeline
from tprimat.results.account import Entry, Timing
from tprimat.results.conditions import Preflight
from tprimat.results.fields import Figures
from tprimat.results.outcome import Outcome
from tprimat.results.result_file import readable
from tprimat.results.run import Environment, GpuInfo, MemoryMetrics, Platform, Run, sentences
from tprimat.store import preflight, store
from tprimat.text import runnable
from tprimat.units import round_figure

TIMEOUT_S = 5.0
"""How long to wait for the last times of a failed or interrupted training; its GPU may hang."""

METRICS_SHARE = 0.05
"""Share of a training's time that may be spent on the metrics which the journal gets at the ends of
epochs.
"""

STEPS_OF_A_LINE = 10
"""Steps after which memory is read, and a line printed where lines are wanted."""

OnStep = Callable[
    [int, "int | None", "float | None", "float | None", "float | None", "float | None"], None
]
"""Called with (step, steps requested, its time, mean time after the first step, loss, memory); in s
and GB.
"""

_RECORDINGS = itertools.count()


class Options(msgspec.Struct, frozen=True):
    """What a caller wants of a recording.

    Attributes:
        platform: None for the training's own.
        known: the caller's setup, which overrides the values that are read from the training.
    """

    output_dir: Path
    platform: Platform | None = None
    known: Run = Run()
    log_every: int | None = None
    quiet: bool = False
    on_step: OnStep | None = None


class Recording:
    """One training, from before its first step to its result. Steps before start() or after end()
    are ignored.

    Args:
        process: with the device that it trains on; the first process writes.
        module: the trained module, for its name; None if unknown.
        covers: the scope of the step timer.
        absent: why a value is unknown that no step brought; see StepValues.
        notes: returns the adapter's own notes for a Run.
        amend: completes this process's records at the end with values that arrived after their
            steps.
        complete: adds what only the adapter knows to each Run.

    Attributes:
        scalars: takes the values of tensors.
        values: takes those of a step.
        pause, resume: mark time that belongs to no step.
        step: number of the last finished step.
        batch_varies: set by the adapter if the steps are not of one global batch.
        is_ending, has_ended: whether the result is being written, or is written (on the first
            process).
        run, path: the result at the end, and its file; None on other processes than the first.
        sampler: reads the machine while the steps run, on the first process.
        measured_until: the last step that counts if others follow that a profiler watches.
    """

    clock: Clock
    scalars: Scalars
    memory: Memory

    def __init__(
        self,
        options: Options,
        process: Process,
        *,
        module: object = None,
        covers: str = result.COVERS,
        absent: Mapping[str, str] | None = None,
        notes: Callable[[], Sequence[Note]] = tuple,
        amend: Callable[[Sequence[Record]], Sequence[Record]] = list,
        complete: Callable[[Run], Run] = lambda run: run,
    ) -> None:
        import torch

        device = process.device
        self.platform = platform_of(device, torch, options.platform)
        self.process = process
        # Only the process that writes asks the vendor's tools, which may take seconds.
        machine = Machine(self.platform, GpuInfo(), Environment()) if process.rank else detect()
        self.machine = restrict_to_devices(machine, self.platform, device, process.world_size)
        if self.platform == "cpu":
            self.clock, self.scalars, self.memory = HostClock(), HostScalars(), ProcessMemory()
        else:
            self.clock = DeviceClock(device, torch.cuda)
            self.scalars = DeviceScalars()
            self.memory = DeviceMemory(device, torch.cuda)
        of_one = process.world_size == 1
        self._trains = own_devices(self.machine, device, 1 if of_one else process.processes_here)
        self.values = StepValues(self.scalars, absent or {}, process.world_size)
        self.recorder = Recorder(self.clock, self._take, takes_laps=process.world_size > 1)
        self.pause = self.recorder.pause
        self.resume = self.recorder.resume
        self.sigterm = SigtermWatch(self._terminate)
        self.suspensions = SigcontWatch(lambda: self.step + 1)
        self.step = self.first_step = 0
        self.batch_varies = self.is_ending = self.has_ended = False
        self.run: Run | None = None
        self.path: Path | None = None
        self.measured_until: int | None = None
        self._measured_memory: MemoryMetrics | None = None
        # A forked child has a copy of the recording, which isn't its own.
        self._owner = os.getpid()
        self._options = options
        self._module = module
        self._covers = covers
        self._notes = notes
        self._amend = amend
        self._complete = complete
        # Lightning alone prepares before it can describe the training.
        self._shown = Run(framework="lightning")
        self._timestamp = _now()
        self._created_ns = self.clock.host_ns()
        self._journalled = 0
        self._name = f"tprimat/training/{next(_RECORDINGS)}"
        self._journal = Journal(None)
        self.sampler: Sampler | None = None
        self._preflight = self._latest_preflight()
        self._metrics_due = 0.0
        self._seconds_after_first = 0.0
        self._steps_after_first = 0

    def _latest_preflight(self) -> Preflight:
        """Return the measurements of this machine before the first step."""
        if self.process.rank:
            return Preflight()
        return preflight.latest(
            self._options.output_dir,
            self.machine.environment.hostname,
            [train.id for train in self._trains],
            self.process.world_size,
        )

    def prepare(self) -> None:
        """From here on, leave a result however the training ends; start() calls this if needed."""
        if self.process.rank == 0:
            self.sigterm.install()
            if self._journal.path is None:
                self._journal = Journal(self._options.output_dir)
            self._journal.add(run=self._run_so_far())

    def start(self, shown: Run, *, step: int = 0) -> None:
        """Start the first step, after `step` steps that were done before, whose setup was detected
        as `run`.
        """
        self._shown, self._timestamp = shown, _now()
        self.step = self.first_step = step
        if self.process.rank == 0:
            self.sampler = Sampler(
                self.platform, self._trains, with_siblings=self.process.world_size > 1
            )
            self._print(
                [console.start(self.platform, self.machine.gpu_info, self.machine.environment)]
            )
        self.memory.start()
        self.suspensions.install()
        self.prepare()
        if self._journal.trouble:
            why = (
                f"{self._options.output_dir}: cannot write the recovery journal:"
                f" {self._journal.trouble}"
            )
            console.echo([f"warning: {why}; steps are lost if this run is killed"], to_errors=True)
        self.recorder.start(step)

    def step_end(self, step: int, values: Values, learning_rate: float | None = None) -> None:
        """End a step, as far as the host sees; see Recorder.step_end. The learning rate is by
        default the noted one.
        """
        rate = self.values.rate
        self.values.rate = None
        self.recorder.step_end(step, values, rate if learning_rate is None else learning_rate)
        self.step = step
        if not isinstance(self.memory, ProcessMemory) and self.measured_until is None:
            self.memory.step_end()

    def end_measuring(self) -> None:
        """Keep memory as it is: the steps from here on are profiled."""
        self.memory.sample()
        self._measured_memory = self.memory.metrics()
        self.measured_until = self.step

    def epoch_end(self, epoch: Figures) -> None:
        """Journal an epoch that has ended, with the metrics so far unless computing them took too
        much of the time.
        """
        if self._journal.path is None or os.getpid() != self._owner:
            return
        now = time.monotonic()
        update = Update(epoch)
        if now >= self._metrics_due:
            run = self._run_so_far()
            update = Update(epoch, run.native_metrics, run.breakdown, run.notes)
            self._metrics_due = now + (time.monotonic() - now) / METRICS_SHARE
        self._journal.add(update=update)

    def end(self, outcome: Outcome, *, regular: bool = False) -> None:
        """Write the result, once; again only if writing it was interrupted.

        An end is regular if the training reaches it by itself, as all its processes then do. Only
        then does this wait for the device as long as it takes, and gather the ranks' times.
        """
        if self.has_ended or self.is_ending or os.getpid() != self._owner:
            return
        self.is_ending = True
        try:
            self.recorder.finish(None if regular else TIMEOUT_S)
            if regular and self.measured_until is None:
                self.memory.sample()
            if self.sampler is not None:
                self.sampler.stop()
            self.run = self._joined(self._run(outcome, self._gather(outcome, regular=regular)))
            if self.process.rank == 0:
                self._write(self.run)
            self.has_ended = True
        finally:
            self.is_ending = False
            self.suspensions.remove()
            self.sigterm.remove()
            self.sigterm.release()

    def fail(self, exception: BaseException) -> None:
        """Write the result of a training that an exception ended."""
        self.end(of_exception(exception, terminated=self.sigterm.received))

    def discard(self) -> None:
        """Remove all traces of a training that had nothing to do."""
        if os.getpid() != self._owner:
            return
        self.suspensions.remove()
        self.sigterm.remove()
        if self.sampler is not None:
            self.sampler.stop()
        if not self.has_ended:
            self.has_ended = True
            self._journal.remove()

    def _terminate(self) -> bool:
        """Write the result before SIGTERM ends the process; False if it is being written
        already.
        """
        if self.is_ending:
            return False
        self.end(TERMINATED)
        return True

    def _gather(self, outcome: Outcome, *, regular: bool) -> ranks.Gathered:
        records = self._amend(self.recorder.records)
        rank = self.process.rank
        world_size = self.process.world_size
        if world_size == 1:
            return ranks.Gathered(records)
        if not regular:
            # Whoever still waits for the others after a failure may wait for ever.
            return ranks.without_other_ranks(records, world_size, ranks.BEFORE_THE_END)
        if rank == 0:
            # Should a launcher end this process because another one has died meanwhile.
            self._journal.add(
                final=self._run(
                    outcome, ranks.without_other_ranks(records, world_size, ranks.WHILE_GATHERED)
                )
            )
        node = nodes.name(os.environ) if nodes.VARIABLE in os.environ else ""
        return ranks.gather(records, self.recorder.laps, self._name, rank, world_size, node)

    def _take(self, record: Record) -> None:
        """Journal a step with its time, and report it if due; a step that doesn't count is only
        recorded.
        """
        if os.getpid() != self._owner or (
            self.measured_until is not None and record.step > self.measured_until
        ):
            return
        while self._journalled < len(self.recorder.pauses):
            self._journal.add(pause=self.recorder.pauses[self._journalled])
            self._journalled += 1
        self._journal.step(record)
        if self.recorder.not_finite["loss"] == [record.step]:
            # In the journal's lines a loss that is not a number looks like none.
            self._journal.add(run=self._run_so_far())
        if record.step - record.window > self.first_step and record.seconds is not None:
            self._seconds_after_first += record.seconds * record.window
            self._steps_after_first += record.window
        every = self._options.log_every or STEPS_OF_A_LINE
        on_step = self._options.on_step
        is_due = record.step // every > (record.step - record.window) // every
        if is_due:
            self.memory.sample()
        if self.process.rank or not (is_due or on_step):
            return
        mean = record.seconds
        if self._steps_after_first:
            mean = self._seconds_after_first / self._steps_after_first
        memory_gb = self.memory.current_gb()
        if is_due and (self._options.log_every or on_step):
            self._print([console.step(self.platform, record.step, record.seconds, mean, memory_gb)])
        if on_step:
            planned = (
                self._shown.training_config.max_steps
                or self._options.known.training_config.max_steps
            )
            on_step(record.step, planned, record.seconds, mean, record.loss, memory_gb)

    def _run_so_far(self) -> Run:
        """Return the run so far without steps and memory, for the journal."""
        world_size = self.process.world_size
        if world_size == 1:
            gathered = ranks.Gathered(())
        else:
            gathered = ranks.without_other_ranks((), world_size, ranks.BEFORE_THE_END)
        return self._run(RUNNING, gathered).but(memory_metrics=MemoryMetrics(), epochs=())

    def _run(self, outcome: Outcome, gathered: ranks.Gathered) -> Run:
        setup = result.setup_of(self._options.known, self._shown, self._module, self.machine)
        memory = self._measured_memory or self.memory.metrics()
        machines, problems = nodes.described(os.environ)
        described = []
        for node in machines:
            seconds = gathered.until_backward.get(node.hostname or "")
            described.append(node.but(until_backward_seconds=seconds))
        notes = [
            *self.recorder.notes,
            *setup.notes,
            *self.machine.notes,
            *self.recorder.doubts,
            *gathered.notes,
            *problems,
            *self.memory.notes,
            *self.values.notes(has_steps=self.step > self.first_step),
            *self._notes(),
        ]
        if self.first_step:
            notes.append(Note("resumed", {"step": self.first_step + 1}))
        if unshaped := shapes.missing(setup.model_config):
            notes.append(unshaped)
        run = setup.but(
            timestamp=self._timestamp,
            status=outcome.status,
            status_reason=outcome.reason,
            ending=outcome.ending,
            notes=noted(notes),
            memory_metrics=memory,
            environment=setup.environment.but(nodes=tuple(described)),
            preflight=self._preflight,
            timeline=self._timeline(),
            breakdown=self._mean_step(),
            timing=Timing(
                kind="timer",
                clock=self.clock.name,
                covers=self._covers,
                over_ranks=gathered.over_ranks,
            ),
            **series(gathered.records),
        )
        if self.batch_varies:
            one_less = run.training_config.but(global_batch_size=None)
            run = run.but(training_config=one_less)
        return readable(self._with_suspensions(self._complete(run)))

    def _with_suspensions(self, run: Run) -> Run:
        """Return the run with how long its process was suspended within a step: no time of the
        step.
        """
        count = len(run.steps)
        suspended = {bisect.bisect_left(run.steps, step) for step in self.suspensions.steps}
        longer = records.longer(run.step_times, run.window_steps, suspended - {count})
        if not longer:
            return run
        others = tuple(map(longer.get, range(count)))
        steps = format_steps([run.steps[index] for index in sorted(longer)])
        note = Note("steps-hold-other", {"steps": steps, "what": "a suspension of the process"})
        return run.but(
            native_metrics={**run.native_metrics, records.OTHER: others},
            notes=(*run.notes, note),
        )

    def _mean_step(self) -> Figures:
        """Return the mean of this process's measured steps after the first, in parts; empty if no
        wait is known.
        """
        recorder = self.recorder
        steps = 0
        seconds = waited = 0.0
        for record in recorder.records[1:]:
            if self.measured_until is not None and record.step > self.measured_until:
                break
            if record.seconds is not None and record.step in recorder.waits:
                steps += record.window
                seconds += record.window * record.seconds
                waited += recorder.waits[record.step]
        if not steps:
            return {}
        parts = {"data_wait_s": waited / steps, "compute_s": (seconds - waited) / steps}
        return {name: round_figure(value) for name, value in parts.items()}

    def _timeline(self) -> tuple[Entry, ...]:
        """Return what this process has spent its time on: the steps are those that this process saw
        end.
        """
        now = self.clock.host_ns() / 1e9
        began = self.recorder.started_s
        recorder = self.recorder
        created = self._created_ns / 1e9
        if not began:
            return timeline(now - created, {}, (), 1, None)
        until = now - began if self.is_ending else None
        return timeline(began - created, recorder.ends, recorder.pauses, self.first_step + 1, until)

    def _joined(self, run: Run) -> Run:
        """Return the run with the readings of the sampler."""
        sampler = self.sampler
        ends = self.recorder.ends
        if sampler is None:
            return run
        began = self.recorder.started_s
        steps = Timeline.of(run, {step: began + end for step, end in ends.items()}, began)
        return telemetry.joined(run, steps, sampler, self.process.processes_here)

    def _write(self, run: Run) -> None:
        self._journal.add(final=run)
        summary = summarize(run)
        written, messages = result.write(run, summary, self._options.output_dir)
        self.path = written and written.path
        # From here on an interruption must not have it written a second time.
        self.has_ended = self.path is not None
        journal = self._journal
        # A temporary directory may be gone with its container: what only a lock kept out is saved
        # by the next command.
        is_elsewhere = self.path is not None and self.path.parent != self._options.output_dir
        if self.path is None or (is_elsewhere and journal.trouble is None):
            journal.close()
            if journal.path is not None and journal.trouble is None:
                messages.append(
                    f"recorded steps are in {journal.path}; the next command saves them as a result"
                )
        else:
            journal.remove()
        if self.path is not None and progress.is_enabled():
            # At once: a signal may end this process before its loop has ended.
            progress.emit(progress.Saved(str(self.path), store.fingerprint(run)))
        if not self._options.quiet:
            lines = console.end(
                self.platform, run, summary, self.path, written.runs if written else 0
            )
            if self.path is not None and not progress.is_enabled():
                lines.append(
                    runnable(f"Next:    tprimat compare {shlex.quote(str(self.path.parent))}")
                )
            console.echo(lines)
            events = (
                issue.sentence for issue in run.telemetry.issues if issue.severity == "warning"
            )
            # What no step brought is unknown in the result, with the reason: the speed is none the
            # worse for it.
            unknown = self.values.notes(has_steps=self.step > self.first_step)
            others = sentences(note for note in run.notes if note not in unknown)
            texts = dict.fromkeys((*events, *summary.warnings, *others))
            messages = [*console.warnings(list(texts)), *messages]
        if messages:
            console.echo(messages, to_errors=True)

    def _print(self, lines: list[str]) -> None:
        if not self._options.quiet:
            console.echo(lines)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).astimezone().isoformat(timespec="seconds")
