"""The training loop of the encoder-decoder, as a program of its own:

    python -m tprimat.frameworks.encdec.loop --platform=cpu --num-gpus=1 …

Its options are those of Settings. Under torchrun each process runs it, and the first one writes the
result. A loop in plain PyTorch: what is measured is the machine, not a framework.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
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
from tprimat.frameworks.encdec import data, storage
from tprimat.frameworks.encdec import result as encdec_result
from tprimat.frameworks.encdec.ranks import Ranks, Rendezvous, from_environment
from tprimat.frameworks.encdec.result import Epoch, Seen
from tprimat.frameworks.encdec.settings import OPTIMIZER, Settings
from tprimat.frameworks.encdec.utilisation import Sampler
from tprimat.frameworks.encdec.waits import DataWait
from tprimat.record import outcome, progress, result
from tprimat.record.clocks import DeviceClock, DeviceScalars, HostClock, HostScalars, Scalars
from tprimat.record.memory import DeviceMemory, Memory, ProcessMemory
from tprimat.record.recorder import Clock, Recorder

if TYPE_CHECKING:
    import torch

    from tprimat.results.run import Run

MOST_RECORDS = 20_000
"""Longer trainings are recorded in windows of steps, so that the result stays readable."""

LIMIT_CHECKED_EVERY = 10
"""Steps between the processes' agreeing whether to end early; each time costs a short wait."""

TOLD_EVERY_S = 30.0
PATIENCE_S = 10.0
"""How long a device that has failed is waited for before what is known is written."""


class Terminated(BaseException):
    """SIGTERM came."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """What came of a training: the run and its file, both None in all processes but the first."""

    run: Run | None
    path: Path | None


def main(arguments: list[str]) -> int:
    """Trains as asked; the exit status of the process."""
    try:
        trained = train(Settings.from_arguments(arguments), from_environment(os.environ) or Ranks(), say=_print)
    except TensorPrimatError as error:
        if isinstance(error, TrainingFailedError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)  # for the log
        print(error.line(), file=sys.stderr, flush=True)
        return error.status
    return ExitStatus.WELL if trained.run is None or trained.run.status == "complete" else ExitStatus.TRAINING_FAILED


def train(settings: Settings, ranks: Ranks, *, say: Callable[[str], None], dataset: Any = None) -> Trained:
    """Trains, and writes the result to the settings' folder; also one that is incomplete.

    Args:
        settings: what, on what, how long.
        ranks: which process this is.
        say: called by the first process with each line about how far it is.
        dataset: batches in the place of those that the settings describe.

    Raises:
        UsageError: the data can't be had, or there is no such GPU.
        TrainingFailedError: the training failed; what was recorded until then is written.
    """
    say = say if ranks.first else lambda line: None
    meeting = Rendezvous(ranks)
    _data_there(settings, meeting, say)
    with _terminable() as terminated:
        training = Training(settings, meeting, say, dataset)
        try:
            training.run()
        except BaseException as error:
            status, reason = outcome.of_exception(error, terminated=isinstance(error, Terminated))
            terminated.ignore()
            ended = training.end(status, reason)
            if isinstance(error, (Terminated, KeyboardInterrupt)):
                return ended
            if isinstance(error, (RuntimeError, MemoryError, OSError)):
                raise _failed(reason, ranks, settings) from error
            raise
    return training.ended


class Training:
    """One training in one process.

    Attributes:
        seen: what has happened so far.
        ended: what came of it; empty until it has ended.
    """

    def __init__(self, settings: Settings, meeting: Rendezvous, say: Callable[[str], None], dataset: Any) -> None:
        import torch

        from tprimat.frameworks.encdec import step
        from tprimat.machine import platforms
        from tprimat.record.device import restrict_to_devices

        self.ended = Trained(None, None)
        self._settings = settings
        self._meeting = meeting
        self._ranks = meeting.ranks
        self._say = say
        on_gpu = settings.platform != "cpu"
        self._device = torch.device("cuda", self._ranks.local_rank) if on_gpu else torch.device("cpu")
        machine = platforms.detect() if self._ranks.first else None
        devices = machine.devices[: self._ranks.local_world_size] if machine else ()
        if machine is not None:
            machine = restrict_to_devices(machine, settings.platform, self._device, settings.num_gpus)
        self.seen = Seen(machine=machine, clock=DeviceClock.name if on_gpu else HostClock.name)
        if on_gpu:
            torch.cuda.set_device(self._device)
        meeting.connect(self._device)
        clock: Clock = DeviceClock(self._device, torch.cuda) if on_gpu else HostClock()
        self._scalars: Scalars = DeviceScalars() if on_gpu else HostScalars()
        self._memory: Memory = DeviceMemory(self._device, torch.cuda) if on_gpu else ProcessMemory()
        self._recorder = Recorder(clock)
        self._waits = DataWait(clock)
        self.seen.precision_detail = step.set_precision(settings)
        self._dataset = dataset if dataset is not None else data.dataset(settings, self._ranks)
        self._order = data.Order()
        self._loader = data.loader(self._dataset, self._order, settings, on_gpu)
        self._step = step.Step(settings, self._device, self._ranks)
        self._sampler = Sampler(settings.platform, devices) if self._ranks.first else None
        self._window = -(-settings.all_epochs * settings.steps_per_epoch // MOST_RECORDS)
        self._steps = 0
        self._told = time.monotonic()

    def run(self) -> None:
        """All epochs, and the result."""
        settings, seen = self._settings, self.seen
        seen.timestamp = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._memory.start()
        self._meeting.barrier()
        seen.started = time.monotonic()
        self._recorder.start()
        self._recorder.pause()
        for index in range(settings.all_epochs):
            if not self._epoch(index):
                break
        self.end("complete", seen.stopped)
        self._meeting.part()

    def end(self, status: Any, reason: str | None) -> Trained:
        """Writes what there is. In all processes but the first it only lets go of what was held."""
        seen, whole = self.seen, status == "complete"
        self._recorder.finish(None if whole else PATIENCE_S)
        seen.loss_scale, seen.skipped_steps = self._step.loss_scaling() if whole else (None, None)
        memory = self._memory.metrics()
        if whole:
            # Only processes that have all come to their end can still talk to each other.
            memory = encdec_result.with_highest(memory, self._meeting.highest)
        if self._sampler is None or seen.machine is None:
            return self.ended
        readings, seen.utilisation_unknown = self._sampler.readings(), self._sampler.unknown
        self._sampler.stop()
        run = encdec_result.assemble(
            self._settings,
            seen,
            records=self._recorder.records,
            memory=memory,
            readings=readings,
            status=status,
            reason=reason,
            warnings=[*self._recorder.warnings, *self._memory.warnings],
        )
        path, troubles = result.write(run, self._settings.output_dir)
        for line in troubles:
            print(line, file=sys.stderr, flush=True)
        if path is not None and progress.is_enabled():
            print(progress.encode(progress.Saved(str(path))), flush=True)
        self.ended = Trained(run, path)
        return self.ended

    def _epoch(self, index: int) -> bool:
        """One pass over the data; false where the time is up."""
        settings, seen, steps = self._settings, self.seen, self._settings.steps_per_epoch
        cached = self._caches(index)
        self._order.epoch(index, steps)
        self._meeting.barrier()
        began = time.monotonic()
        self._recorder.resume()
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
            if not going or self._steps % self._window == 0 or self._steps == last + steps:
                self._recorded(loss)
        self._recorder.pause()
        self._synchronize()
        self._meeting.barrier()
        ended = time.monotonic()
        wall, waited, read_s = self._meeting.highest([ended - began, self._waits.take(), read_s])
        self._memory.sample()
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
        )
        seen.epochs.append(epoch)
        self._say(encdec_result.line_of(epoch, settings))
        return going

    def _recorded(self, loss: torch.Tensor) -> None:
        """The step that has just been given to the device ends a record."""
        copied = self._scalars.copy(loss.detach())
        self._recorder.step_end(self._steps, lambda: (self._scalars.read(copied), None), OPTIMIZER.learning_rate)
        self._memory.step_end()
        now = time.monotonic()
        if now - self._told > TOLD_EVERY_S:
            self._told = now
            self._memory.sample()
            total = self._settings.all_epochs * self._settings.steps_per_epoch
            self._say(f"step {self._steps} of {total}, after {units.duration(now - self.seen.started)}")

    def _time_is_up(self) -> bool:
        limit, several = self._settings.time_limit_s, self._ranks.world_size > 1
        if limit is None or (several and self._steps % LIMIT_CHECKED_EVERY):
            return False
        elapsed = self._meeting.highest([time.monotonic() - self.seen.started])[0]
        if elapsed < limit:
            return False
        total = self._settings.all_epochs * self._settings.steps_per_epoch
        self.seen.stopped = (
            f"{self._steps} of {total} steps: the time limit of {units.duration(limit)} was reached; what its last "
            "epoch gives is of its first steps alone"
        )
        return True

    def _caches(self, index: int) -> float | None:
        """Empties the page cache where that was asked for; how much of the data lies in it now."""
        settings = self._settings
        if settings.data_dir is None or self._dataset_is_foreign:
            return None
        if self._ranks.local_rank != 0:
            return None
        files = storage.paths(settings.data_dir, data.contents_of(settings))
        if settings.drop_caches:
            problem = storage.drop_caches(files)
            if problem and index == 0:
                self.seen.warnings.append(f"--drop-caches: {problem}")
        return storage.cached_share(files)

    @property
    def _dataset_is_foreign(self) -> bool:
        return not isinstance(self._dataset, storage.FromShards)

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            import torch

            torch.cuda.synchronize(self._device)


def _print(line: str) -> None:
    print(line, flush=True)


def _data_there(settings: Settings, meeting: Rendezvous, say: Callable[[str], None]) -> None:
    """Has the data lie there, by one process of each machine; the others wait for it."""
    if settings.data_dir is None or settings.data_checked:
        return
    if meeting.ranks.local_rank != 0:
        if not meeting.wait_until_prepared():
            # It has said why.
            sys.exit(int(ExitStatus.USAGE))
        return
    try:
        data.prepare(settings, say)
    except TensorPrimatError as error:
        meeting.tell_prepared(error.message)
        raise
    meeting.tell_prepared("")


class _Terminable:
    """What a SIGTERM does."""

    def __init__(self) -> None:
        self._ignored = False

    def ignore(self) -> None:
        """From here on nothing: the result is being written."""
        self._ignored = True

    def handle(self, number: int, frame: object) -> None:
        """Raises where the training is."""
        if not self._ignored:
            raise Terminated


@contextlib.contextmanager
def _terminable() -> Iterator[_Terminable]:
    """SIGTERM raises Terminated within."""
    handler = _Terminable()
    previous = signal.signal(signal.SIGTERM, handler.handle)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGTERM, previous)


def _failed(reason: str, ranks: Ranks, settings: Settings) -> TrainingFailedError:
    who = f"process {ranks.rank} of {ranks.world_size}: " if ranks.world_size > 1 else ""
    advice = ""
    if reason.startswith("out of memory"):
        advice = f": choose a --batch-size below {settings.batch_size}, or a smaller model"
    return TrainingFailedError(f"{who}{reason}{advice}", heading="training-failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
