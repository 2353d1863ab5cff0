"""The training loop of the encoder-decoder, as a program of its own:

    python -m tprimat.frameworks.encdec.loop --platform=cpu --num-gpus=1 …

Its options are those of Settings. Under torchrun each process runs it, and the first one writes the
result. A loop in plain PyTorch: what is measured is the machine, not a framework.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.errors import ExitStatus, TensorPrimatError, TrainingFailedError
from tprimat.frameworks.encdec import data
from tprimat.frameworks.encdec import result as encdec_result
from tprimat.frameworks.encdec.ranks import Ranks, Rendezvous, from_environment
from tprimat.frameworks.encdec.result import Epoch, TrainingState
from tprimat.frameworks.encdec.settings import FRAMEWORK, OPTIMIZER, Settings
from tprimat.frameworks.encdec.waits import DataWait
from tprimat.machine import page_cache, utilisation
from tprimat.machine.utilisation import Sampler
from tprimat.record.describe import Description
from tprimat.record.lifecycle import Processes, Recording
from tprimat.record.options import Options
from tprimat.record.outcome import OUT_OF_MEMORY, Outcome
from tprimat.record.progress import reporter

if TYPE_CHECKING:
    import torch

    from tprimat.results.run import Run

MOST_RECORDS = 20_000
"""Longer trainings are recorded in windows of steps, so that the result stays readable."""

LIMIT_CHECKED_EVERY = 10
"""Steps between the processes' agreeing whether to end early; each time costs a short wait."""

REPORT_EVERY_S = 30.0


class Terminated(BaseException):
    """SIGTERM came."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """The result of a training: the run and its file, both None on other processes than the first."""

    run: Run | None
    path: Path | None


def main(arguments: list[str]) -> int:
    """Train as requested; return the exit status of the process."""
    try:
        trained = train(Settings.from_arguments(arguments), from_environment(os.environ) or Ranks(), say=_print)
    except TensorPrimatError as error:
        if isinstance(error, TrainingFailedError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)  # for the log
        print(error.line(), file=sys.stderr, flush=True)
        return error.status
    return ExitStatus.WELL if trained.run is None or trained.run.status == "complete" else ExitStatus.TRAINING_FAILED


def train(settings: Settings, ranks: Ranks, *, say: Callable[[str], None], dataset: Any = None) -> Trained:
    """Train, and write the result to the settings' folder; also one that is incomplete.

    Args:
        settings: what, on what, how long.
        ranks: which process this is.
        say: called by the first process with each progress line.
        dataset: batches instead of those that the settings describe.

    Raises:
        UsageError: the data can't be had, or there is no such GPU.
        TrainingFailedError: the training failed; what was recorded until then is written.
    """
    say = say if ranks.first else lambda line: None
    rendezvous = Rendezvous(ranks)
    _prepare_data(settings, rendezvous, say)
    training = Training(settings, rendezvous, say, dataset)
    recording = training.recording
    with _sigterm_raises(recording):
        try:
            training.run()
        except BaseException as error:
            training.fail(error)
            if isinstance(error, (RuntimeError, MemoryError, OSError)) and recording.run is not None:
                raise _failed(recording.run.status_reason or "", ranks, settings) from error
            if not isinstance(error, (Terminated, KeyboardInterrupt)):
                raise
    return Trained(recording.run, recording.path) if ranks.first else Trained(None, None)


class Training:
    """One training in one process.

    Attributes:
        recording: of its steps.
        state: what is known beyond them.
    """

    def __init__(self, settings: Settings, rendezvous: Rendezvous, say: Callable[[str], None], dataset: Any) -> None:
        import torch

        from tprimat.frameworks.encdec import step

        self._settings = settings
        self._rendezvous = rendezvous
        self._ranks = ranks = rendezvous.ranks
        self._say = say
        on_gpu = settings.platform != "cpu"
        self._device = torch.device("cuda", ranks.local_rank) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self._device)
        rendezvous.connect(self._device)
        self.state = TrainingState()
        self.recording = Recording(
            Options(
                settings.output_dir,
                settings.platform,
                log_every=settings.steps_per_epoch,
                known=encdec_result.setup_of(settings, step.set_precision(settings)),
                quiet=True,
                on_step=reporter(ranks.rank),
            ),
            self._device,
            Processes(ranks.rank, ranks.world_size),
            covers=encdec_result.COVERS,
            warnings=lambda: encdec_result.warnings_of(settings, self.state),
            complete=self._complete,
        )
        self._scalars = self.recording.scalars
        self._waits = DataWait(self.recording.clock)
        self._files = [] if dataset is not None or ranks.local_rank else data.files_of(settings)
        dataset = dataset if dataset is not None else data.dataset(settings, ranks)
        self._order = data.EpochSampler()
        self._loader = data.loader(dataset, self._order, settings, on_gpu)
        self._step = step.Step(settings, self._device, ranks)
        self._sampler = None
        if ranks.first:
            self._sampler = Sampler(settings.platform, self.recording.machine.devices[: ranks.local_world_size])
        self._total = settings.all_epochs * settings.steps_per_epoch
        self._window = -(-self._total // MOST_RECORDS)
        self._steps = 0
        self._stopped: str | None = None
        self._started = self._reported = time.monotonic()

    def run(self) -> None:
        """Train all epochs, and write the result."""
        self._rendezvous.barrier()
        self._started = time.monotonic()
        self.recording.start(Description(FRAMEWORK), planned=self._total)
        self.recording.pause()
        for index in range(self._settings.all_epochs):
            if not self._epoch(index):
                break
        self.state.loss_scale, self.state.skipped_steps = self._step.loss_scaling()
        # Only processes that have all come to their end can still talk to each other.
        memory = self.recording.memory.metrics()
        self.state.memory = encdec_result.with_highest(memory, self._rendezvous.highest)
        self.recording.end(Outcome("complete", self._stopped), regular=True)
        self._release()
        self._rendezvous.leave()

    def fail(self, error: BaseException) -> None:
        """Write what there is."""
        self.recording.fail(error)
        self._release()

    def _release(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()

    def _complete(self, run: Run) -> Run:
        """Add what only this loop knows; in the first process, which alone samples the GPUs."""
        self._read_utilisation()
        return encdec_result.completed(run, self._settings, self.state)

    def _read_utilisation(self) -> None:
        if self._sampler is not None:
            self.state.readings, self.state.utilisation_unknown = self._sampler.readings(), self._sampler.unknown

    def _epoch(self, index: int) -> bool:
        """Train on all the data once; return False where the time is up."""
        settings, recording, steps = self._settings, self.recording, self._settings.steps_per_epoch
        cached = self._caches(index)
        self._order.batches = range(index * steps, (index + 1) * steps)
        self._rendezvous.barrier()
        began = time.monotonic()
        recording.resume()
        batches = iter(self._loader)
        read_s, last, going = 0.0, self._steps, True
        while going and self._steps < last + steps:
            self._waits.begin()
            tokens, seconds = next(batches)
            self._waits.end()
            loss = self._step(tokens)
            read_s += float(seconds)
            self._steps += 1
            going = self._steps == last + steps or not self._time_is_up()
            if not going or self._steps == last + steps:
                # Before the record: the time that writing it takes is none of the next epoch's first step.
                recording.pause()
                self._record(loss)
            elif self._steps % self._window == 0:
                self._record(loss)
        self._synchronize()
        self._rendezvous.barrier()
        ended = time.monotonic()
        wall, waited, read_s = self._rendezvous.highest([ended - began, self._waits.take(), read_s])
        recording.memory.sample()
        self._read_utilisation()
        epoch = Epoch(
            number=index + 1,
            warmup=index < settings.warmup_epochs,
            began=began,
            ended=ended,
            wall_s=wall,
            samples=(self._steps - last) * settings.effective_batch,
            steps=self._steps - last,
            data_wait_s=min(waited, wall),
            read_s=read_s if settings.data_dir is not None else None,
            cached_share=cached,
            whole=self._steps == last + steps,
            gpu_utilisation=utilisation.mean(self.state.readings, began, ended),
        )
        self.state.epochs.append(epoch)
        recording.epoch_end(encdec_result.stored(epoch, settings))
        self._say(encdec_result.line_of(epoch, settings))
        return going

    def _record(self, loss: torch.Tensor) -> None:
        """End a record with the step that has just been given to the device."""
        copied = self._scalars.copy(loss.detach())
        self.recording.step_end(self._steps, lambda: (self._scalars.read(copied), None), OPTIMIZER.learning_rate)
        now = time.monotonic()
        if now - self._reported > REPORT_EVERY_S:
            self._reported = now
            self.recording.memory.sample()
            self._say(f"step {self._steps} of {self._total}, after {units.duration(now - self._started)}")

    def _time_is_up(self) -> bool:
        limit, several = self._settings.time_limit_s, self._ranks.world_size > 1
        if limit is None or (several and self._steps % LIMIT_CHECKED_EVERY):
            return False
        elapsed = self._rendezvous.highest([time.monotonic() - self._started])[0]
        if elapsed < limit:
            return False
        self._stopped = (
            f"{self._steps} of {self._total} steps: the time limit of {units.duration(limit)} was reached; what its "
            "last epoch gives is of its first steps alone"
        )
        return True

    def _caches(self, index: int) -> float | None:
        """Empty the page cache where requested; return the share of the data that it holds now."""
        if self._files and self._settings.drop_caches:
            problem = page_cache.drop_caches(self._files)
            if problem and index == 0:
                self.state.warnings.append(f"--drop-caches: {problem}")
        return page_cache.cached_share(self._files)

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            import torch

            torch.cuda.synchronize(self._device)


def _print(line: str) -> None:
    print(line, flush=True)


def _prepare_data(settings: Settings, rendezvous: Rendezvous, say: Callable[[str], None]) -> None:
    """Write or check the data, in one process of each machine; the others wait for it."""
    if settings.data_dir is None or settings.data_checked:
        return
    if rendezvous.ranks.local_rank != 0:
        if not rendezvous.wait_for_data():
            # The process that prepares them has printed why.
            sys.exit(int(ExitStatus.USAGE))
        return
    try:
        data.prepare(settings, say)
    except TensorPrimatError as error:
        rendezvous.announce_data(error.message)
        raise
    rendezvous.announce_data("")


@contextlib.contextmanager
def _sigterm_raises(recording: Recording) -> Iterator[None]:
    """Let SIGTERM raise Terminated within, but not while the result is being written."""

    def handle(number: int, frame: object) -> None:
        if not (recording.is_ending or recording.has_ended):
            raise Terminated

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _failed(reason: str, ranks: Ranks, settings: Settings) -> TrainingFailedError:
    who = f"process {ranks.rank} of {ranks.world_size}: " if ranks.world_size > 1 else ""
    advice = ""
    if reason.startswith(OUT_OF_MEMORY):
        advice = f": choose a --batch-size below {settings.batch_size}, or a smaller model"
    return TrainingFailedError(f"{who}{reason}{advice}", heading="training-failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
