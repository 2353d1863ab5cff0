"""BenchmarkCallback: measures a training of lightning.pytorch (and NeMo's, which stands on it).

It watches: no step is made to wait for the GPU, nothing is logged, no random number is drawn.
Optimizer steps are counted by trainer.global_step, since batches are something else under
gradient accumulation and in NeMo, whose hooks fire once a step with one micro-batch or none.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from lightning.pytorch.callbacks import Callback

from tprimat.analysis import metrics
from tprimat.errors import UsageError
from tprimat.frameworks.lightning.step_metrics import StepMetrics
from tprimat.machine.platforms import Machine, detect
from tprimat.record import console, options, outcome, progress, ranks, result
from tprimat.record import device as place
from tprimat.record.clocks import DeviceClock, DeviceScalars, HostClock, HostScalars, Scalars
from tprimat.record.describe import Description, describe, planned_steps
from tprimat.record.journal import Journal
from tprimat.record.memory import DeviceMemory, Memory, ProcessMemory
from tprimat.record.recorder import Clock, Record, Recorder
from tprimat.record.termination import TermWatch
from tprimat.results.run import Environment, GpuInfo, MemoryMetrics, Run, Status
from tprimat.store import store

_FITS = itertools.count()

PATIENCE_S = 5.0
"""How long a failed or interrupted training is asked for its last times; its GPU may hang."""


class BenchmarkCallback(Callback):  # type: ignore[misc]
    """Times the optimizer steps of a training and writes its result.

    Args:
        output_dir: folder of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        model_name: llama, qwen, mistral, or any name; None to take it from the model itself.
        global_batch_size: sequences per optimizer step, over all devices.
        micro_batch_size: sequences per forward pass of one replica.
        sequence_length: tokens per sequence.
        model_config: the model's shape, as a transformers configuration, a ModelConfig or a dict.
        log_every: a line is printed every so many steps, and memory is read that often where
            reading it costs.
        label: a name for this setup; stored, shown, and added to the file's name.
        setup: a Run without records that holds whatever else the caller knows.
        quiet: print nothing but errors.
        on_step: called on the first process with (step, steps asked for, time in s, mean time after
            the first step, loss, newest reading of the memory in GB), as soon as a step's time is known.

    What is stated here wins over `setup`, and both win over the trainer's configuration. Sizes
    that nobody states stay unknown: then there are step times, and no throughput in tokens.

    Attributes:
        result: the Run, once the training has ended.
        path: the file that it was written to; None on other processes than the first.
        stop_reason: set by whoever ends the training early on purpose, such as a time limit; the
            run then counts as complete, with this reason.

    Raises UsageError, one line, for an argument that is wrong.
    """

    def __init__(
        self,
        output_dir: str | Path = "./output",
        platform: str = "auto",
        model_name: str | None = None,
        *,
        global_batch_size: int | None = None,
        micro_batch_size: int | None = None,
        sequence_length: int | None = None,
        model_config: Any = None,
        log_every: int = 10,
        label: str | None = None,
        setup: Run | None = None,
        quiet: bool = False,
        on_step: options.OnStep | None = None,
    ) -> None:
        super().__init__()
        self._options = options.checked(
            output_dir=output_dir,
            platform=platform,
            model_name=model_name,
            global_batch_size=global_batch_size,
            micro_batch_size=micro_batch_size,
            sequence_length=sequence_length,
            model_config=model_config,
            log_every=log_every,
            label=label,
            setup=setup,
            quiet=quiet,
            on_step=on_step,
        )
        self.result: Run | None = None
        self.path: Path | None = None
        self.stop_reason: str | None = None
        self._fit: _Fit | None = None
        self._in_batch = False
        self._rate: float | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Finds out where the training runs; from here on its end leaves a result."""
        self._fit = None
        if stage != "fit":
            return
        if type(trainer).__module__.split(".")[0] == "pytorch_lightning":
            raise UsageError(
                "BenchmarkCallback is a callback of lightning.pytorch, and this Trainer is one of pytorch_lightning: "
                "import Trainer and LightningModule from lightning.pytorch",
                heading="benchmark-callback",
            )
        self.result = self.path = None
        self._fit = _Fit(self, trainer, pl_module, self._options)
        self._fit.prepare()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Steps aside: the trainer is about to set its own handler of SIGTERM, over the first one."""
        if self._fit:
            self._fit.watch.remove()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The first step starts."""
        if self._fit:
            self._fit.start()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Ends a pause whose end no other hook tells: that of a checkpoint."""
        fit = self._fit
        if fit is None:
            return
        self._in_batch = True
        if fit.recorder.paused:
            fit.recorder.resume()
        if fit.rate_unseen:
            self._rate = fit.watched.learning_rate()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Among several processes, notes when this one is done with what it does alone."""
        if self._fit and self._fit.several:
            self._fit.recorder.lap()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Notes the learning rate that is about to be used; at the step's end it is the next one's."""
        fit = self._fit
        if fit is not None and (fit.rate_unseen or self._rate is None):
            fit.rate_unseen = False
            self._rate = fit.watched.rate_of(optimizer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A step has ended where the count of optimizer steps rose."""
        self._in_batch = False
        fit = self._fit
        if fit is None:
            return
        fit.watched.batch_end(outputs)
        step = trainer.global_step
        if step != fit.step:
            fit.step_end(step, self._rate)
            self._rate = None

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation is no part of a step."""
        if self._fit and not trainer.sanity_checking:
            self._fit.recorder.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Training goes on."""
        if self._fit and not trainer.sanity_checking:
            self._fit.recorder.resume()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """What an epoch ends with is no part of a step."""
        if self._fit:
            self._fit.recorder.pause()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """The next step starts, with the loader's start."""
        if self._fit:
            self._fit.recorder.resume()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Saving is no part of a step, unless the training does it within one."""
        if self._fit and self._fit.started:
            if self._in_batch:
                self._fit.saved_within.append(trainer.global_step + 1)
            else:
                self._fit.recorder.pause()

    def completed(self, run: Run) -> Run:
        """The run with what a subclass knows of it beyond this class; called before each writing."""
        return run

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Writes the result."""
        if self._fit:
            ended: tuple[Status, str | None] = ("complete", self.stop_reason)
            self._fit.end(*(ended if self.stop_reason else outcome.of_end(trainer)), patience_s=None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Writes what there is, with the reason."""
        if self._fit:
            status, reason = outcome.of_exception(exception, terminated=self._fit.watch.seen)
            self._fit.end(status, reason, patience_s=PATIENCE_S)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leaves nothing behind."""
        if self._fit:
            self._fit.leave()
            self._fit = None


class _Fit:
    """One call of trainer.fit, from setup to its result."""

    def __init__(self, callback: BenchmarkCallback, trainer: Any, module: Any, said: options.Options) -> None:
        device = trainer.strategy.root_device
        self.platform = place.platform_of(device, torch, said.platform)
        self.first_process = bool(trainer.is_global_zero)
        self.several = trainer.world_size > 1
        self._name = f"tprimat/{next(_FITS)}"
        # Only the process that writes asks the vendor's tools, which may take seconds.
        found = detect() if self.first_process else Machine(self.platform, GpuInfo(), Environment())
        self.machine = place.restrict_to_devices(found, self.platform, device, trainer.world_size)
        clock: Clock = HostClock() if self.platform == "cpu" else DeviceClock(device, torch.cuda)
        scalars: Scalars = HostScalars() if self.platform == "cpu" else DeviceScalars()
        self.memory: Memory = ProcessMemory() if self.platform == "cpu" else DeviceMemory(device, torch.cuda)
        self.clock_name = clock.name
        self.recorder = Recorder(clock, self._take)
        self.watched = StepMetrics(trainer, module, scalars)
        self.watch = TermWatch(self._last_words)
        self.rate_unseen = True
        self.started = False
        self.step = 0
        self.first_step = 0
        self.saved_within: list[int] = []
        self.timestamp = _now()
        self._callback = callback
        self._trainer = trainer
        self._module = module
        self._said = said
        self._description: Description | None = None
        self._planned: int | None = None
        self._seconds_after_first = 0.0
        self._steps_after_first = 0
        self._journal: Journal | None = None
        self._note: Callable[[Record], None] | None = None
        self._ended = self._ending = False

    def prepare(self) -> None:
        """From here on nothing ends the training without a trace."""
        if self.first_process:
            self.watch.install()
            self._journal = Journal(self._said.output_dir)
            self._note = self._journal.step
            self._journal.setup(self._so_far())

    def start(self) -> None:
        """The training starts: its sizes are known, the clock runs."""
        self._description = describe(self._trainer, self._module, self.platform, self._said.sizes)
        self._planned = planned_steps(self._trainer)
        self.step = self.first_step = self._trainer.global_step
        if self.first_process:
            self.watch.install()
            self._print(console.start(self.platform, self.machine.gpu_info, self.machine.environment))
        self.memory.start()
        self.timestamp = _now()
        if self._journal:
            self._journal.setup(self._so_far())
            self._say_trouble(self._journal)
        self.started = True
        self.recorder.start(self.step)

    def step_end(self, step: int, learning_rate: float | None) -> None:
        """A step has ended, as far as the host sees."""
        values = self.watched.step_end(step, step - self.step)
        self.step = step
        self.recorder.step_end(step, values, learning_rate)
        if self.platform != "cpu":
            self.memory.step_end()

    def end(self, status: Status, reason: str | None, *, patience_s: float | None) -> None:
        """Writes the result, once; again only if writing was interrupted."""
        if self._ended:
            return
        self._ending = True
        try:
            self.recorder.finish(patience_s)
            gathered = self._gathered(status, reason, regular=patience_s is None)
            run = self._run(status, reason, gathered, ask_device=patience_s is None)
            self._callback.result = run
            if self.first_process:
                self._write(run)
            self._ended = True
        finally:
            self._ending = False
            self.watch.remove()
            self.watch.release()

    def leave(self) -> None:
        """The trainer lets go; of a training that had nothing to do there is neither result nor journal."""
        self.watch.remove()
        if self._journal and not self._ended:
            self._journal.remove()

    def _gathered(self, status: Status, reason: str | None, *, regular: bool) -> ranks.Gathered:
        records, processes = self.recorder.records, self._trainer.world_size
        if processes == 1:
            return ranks.Gathered(records)
        if not regular:
            # Whoever still waits for the others after a failure may wait for ever.
            return ranks.alone(records, processes, ranks.BEFORE_THE_END)
        if self._journal:
            # Should a launcher end this process because another one has died meanwhile.
            alone = ranks.alone(records, processes, ranks.WHILE_GATHERED)
            self._journal.final(self._run(status, reason, alone, ask_device=False))
        return ranks.gather(records, self.recorder.laps, self._name, self._trainer.global_rank, processes)

    def _last_words(self) -> bool:
        if self._ending:
            return False
        self.end("incomplete", "terminated (SIGTERM)", patience_s=PATIENCE_S)
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
        if not self.first_process or not (is_due or self._said.on_step):
            return
        mean = self._seconds_after_first / self._steps_after_first if self._steps_after_first else record.seconds
        memory_gb = self.memory.current_gb()
        if is_due:
            self._print([console.step(self.platform, record.step, record.seconds, mean, memory_gb)])
        if self._said.on_step:
            self._said.on_step(record.step, self._planned, record.seconds, mean, record.loss, memory_gb)

    def _so_far(self) -> Run:
        """What is known before the first step, for the journal; memory is not."""
        before = (
            ranks.Gathered(()) if not self.several else ranks.alone((), self._trainer.world_size, ranks.BEFORE_THE_END)
        )
        run = self._run("incomplete", None, before, ask_device=False)
        return msgspec.structs.replace(run, memory_metrics=MemoryMetrics())

    def _run(self, status: Status, reason: str | None, gathered: ranks.Gathered, *, ask_device: bool) -> Run:
        if ask_device:
            self.memory.sample()
        run = result.assemble(
            said=self._said,
            machine=self.machine,
            description=self._description,
            module=self._module,
            over_ranks=gathered.over_ranks,
            clock=self.clock_name,
            records=gathered.records,
            memory=self.memory.metrics(),
            timestamp=self.timestamp,
            status=status,
            reason=reason,
            warnings=[
                *self.machine.warnings,
                *self.recorder.warnings,
                *gathered.warnings,
                *self.memory.warnings,
                *self.watched.warnings(),
                *result.said_of_start(self.first_step, self.saved_within),
            ],
            batch_is_one_size=self.watched.batch_is_one_size,
        )
        return self._callback.completed(run)

    def _write(self, run: Run) -> None:
        if self._journal:
            self._journal.final(run)
        path, troubles = result.write(run, self._said.output_dir)
        self._callback.path = path
        self._ended = path is not None
        if self._journal:
            self._leave(self._journal, path)
        if path is not None and progress.is_enabled():
            # At once: a signal may end this process before trainer.fit returns.
            progress.emit(progress.Saved(str(path), store.fingerprint(run)))
        if not self._said.quiet:
            summary = metrics.summarize(run)
            saved = f"Results saved to: {path}" if path else "Results were not saved"
            console.say([*console.end(self.platform, run, summary), saved, console.RULE])
            warnings = dict.fromkeys((*run.warnings, *summary.warnings))
            troubles = [*(f"warning: {warning}" for warning in warnings), *troubles]
        if troubles:
            console.say(troubles, to_errors=True)

    def _leave(self, journal: Journal, path: Path | None) -> None:
        if path is not None:
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
