"""The training loop of the encoder-decoder, as a program of its own:

    python -m tprimat.frameworks.encdec.loop --framework=pytorch --platform=cpu --num-gpus=1 …

Its options are an EncDecRequest's. Under torchrun each process runs it, and the first one writes the
result. A loop in plain PyTorch: what is measured is the machine, not a framework.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.errors import ExitStatus, TensorPrimatError, TrainingFailedError
from tprimat.frameworks.encdec import data
from tprimat.frameworks.encdec import result as encdec_result
from tprimat.frameworks.encdec.data import DataWait
from tprimat.frameworks.encdec.launch import prepare
from tprimat.frameworks.encdec.request import FRAMEWORK, OPTIMIZER, EncDecRequest
from tprimat.frameworks.encdec.result import Epoch, TrainingState
from tprimat.frameworks.loops.processes import joined
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.machine import page_cache, utilisation
from tprimat.machine.utilisation import Sampler
from tprimat.record.describe import Description
from tprimat.record.lifecycle import Recording
from tprimat.record.options import Options
from tprimat.record.outcome import OUT_OF_MEMORY, Outcome
from tprimat.record.progress import reporter
from tprimat.record.ranks import Process, from_environment
from tprimat.results.run import MemoryMetrics, Run

if TYPE_CHECKING:
    import torch

MOST_RECORDS = 20_000
"""Longer trainings are recorded in windows of steps, so that the result stays readable."""

REPORT_EVERY_S = 30.0

DATA_TIMEOUT = datetime.timedelta(hours=24)
"""How long the others wait for the one that writes the data: longer than any disk takes."""


class Interrupted(BaseException):
    """SIGTERM or Ctrl-C ended the training, whose result is written."""


def main(arguments: list[str]) -> int:
    """Train as requested; return the exit status of the process."""
    try:
        process = from_environment(os.environ) or Process()
        recording = train(EncDecRequest.from_arguments(arguments), process, say=partial(print, flush=True))
    except TensorPrimatError as error:
        if isinstance(error, TrainingFailedError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)  # for the log
        print(error.line(), file=sys.stderr, flush=True)
        return error.status
    return ExitStatus.WELL if recording.run and recording.run.status == "complete" else ExitStatus.TRAINING_FAILED


def train(request: EncDecRequest, process: Process, *, say: Callable[[str], None], dataset: Any = None) -> Recording:
    """Train, and write the result to the request's folder; also one that is incomplete. Return the ended recording.

    Args:
        request: what, on what, how long.
        process: which one this is.
        say: called by the first process with each progress line.
        dataset: batches instead of those that the request describes.

    Raises:
        UsageError: the data can't be had, or there is no such GPU.
        TrainingFailedError: the training failed; what was recorded until then is written.
    """
    say = say if process.is_first else lambda line: None
    with contextlib.suppress(Interrupted), _connected(request, process, say) as connected:
        training = Training(request, connected, say, dataset)
        with _sigterm_interrupts(training.recording):
            training.run()
    return training.recording


class Training:
    """One training in one process.

    Attributes:
        recording: of its steps.
        state: what is known beyond them.
    """

    def __init__(self, request: EncDecRequest, process: Process, say: Callable[[str], None], dataset: Any) -> None:
        from tprimat.frameworks.encdec import model

        self._request = request
        self._process = process
        self._say = say
        self.state = TrainingState(request)
        self.recording = Recording(
            Options(
                request.output_dir,
                request.platform,
                log_every=request.steps_per_epoch,
                known=encdec_result.setup_of(request, model.set_precision(request)),
                quiet=True,
                on_step=reporter(process.rank),
            ),
            process,
            covers=encdec_result.COVERS,
            warnings=self.state.warnings,
            complete=self._complete,
        )
        self._waits = DataWait(self.recording.clock)
        self._files = [] if dataset is not None or process.local_rank else data.files_of(request)
        dataset = dataset if dataset is not None else data.dataset(request, process)
        self._order = data.EpochSampler()
        self._loader = data.loader(dataset, self._order, request)
        self._step = model.Step(request, process)
        self._sampler = None
        if process.is_first:
            self._sampler = Sampler(request.platform, self.recording.machine.devices[: process.local_world_size])
        self._window = -(-request.steps // MOST_RECORDS)
        self._steps = 0
        self._stopped: str | None = None

    def run(self) -> None:
        """Train all epochs, and write the result however they end.

        Raises:
            Interrupted: by SIGTERM or Ctrl-C.
            TrainingFailedError: by what a training may fail on.
        """
        try:
            self._train()
        except BaseException as error:
            self.recording.fail(error)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted from error
            if isinstance(error, (RuntimeError, MemoryError, OSError)) and self.recording.run is not None:
                raise self._failure(self.recording.run.status_reason or "") from error
            raise
        finally:
            if self._sampler is not None:
                self._sampler.stop()

    def _train(self) -> None:
        process, request = self._process, self._request
        process.highest([0.0])  # all are ready
        self._started = self._reported = time.monotonic()
        self._limit = TimeLimit(request.steps, request.time_limit_s, process.world_size, process.agree)
        self.recording.start(Description(FRAMEWORK), planned=request.steps)
        self.recording.pause()
        for index in range(request.all_epochs):
            if self._stopped is None:
                self._epoch(index)
        self.state.loss_scale, self.state.skipped_steps = self._step.loss_scaling()
        # Only processes that have all come to their end can still talk to each other.
        memory = self.recording.memory.metrics().known()
        highest = process.highest(list(memory.values()))
        self.state.memory = MemoryMetrics(**dict(zip(memory, highest, strict=True)))
        self.recording.end(Outcome("complete", self._stopped), regular=True)

    def _failure(self, reason: str) -> TrainingFailedError:
        process, advice = self._process, ""
        who = f"process {process.rank} of {process.world_size}: " if process.world_size > 1 else ""
        if reason.startswith(OUT_OF_MEMORY):
            advice = f": choose a --batch-size below {self._request.micro_batch_size}, or a smaller model"
        return TrainingFailedError(f"{who}{reason}{advice}", heading="training-failed")

    def _complete(self, run: Run) -> Run:
        """Add what only this loop knows."""
        self._read_utilisation()
        return self.state.completed(run)

    def _read_utilisation(self) -> None:
        if self._sampler is not None:
            self.state.readings, self.state.utilisation_unknown = self._sampler.readings(), self._sampler.unknown

    def _epoch(self, index: int) -> None:
        """Train on all the data once, or until the time is up."""
        request, recording, steps = self._request, self.recording, self._request.steps_per_epoch
        process, clock = self._process, self.recording.clock
        cached = self._caches(index)
        self._order.batches = range(index * steps, (index + 1) * steps)
        process.highest([0.0])  # all are ready
        began = time.monotonic()
        recording.resume()
        batches = iter(self._loader)
        read_s, first, whole = 0.0, self._steps, False
        while not whole and self._stopped is None:
            self._waits.begin()
            tokens, seconds = next(batches)
            self._waits.end()
            loss = self._step(tokens)
            read_s += float(seconds)
            self._steps += 1
            whole = self._steps == first + steps
            self._stopped = self._limit.reached(self._steps)
            if whole or self._stopped is not None:
                # Before the record: the time that writing it takes is none of the next epoch's first step.
                recording.pause()
                self._record(loss)
            elif self._steps % self._window == 0:
                self._record(loss)
        if not whole:
            self._stopped = f"{self._stopped}; what its last epoch gives is of its first steps alone"
        clock.wait(clock.mark(), None)
        process.highest([0.0])  # all are done
        ended = time.monotonic()
        wall, waited, read_s = process.highest([ended - began, self._waits.take(), read_s])
        recording.memory.sample()
        self._read_utilisation()
        epoch = Epoch(
            number=index + 1,
            warmup=index < request.warmup_epochs,
            began=began,
            ended=ended,
            wall_s=wall,
            samples=(self._steps - first) * request.global_batch_size,
            steps=self._steps - first,
            data_wait_s=min(waited, wall),
            read_s=read_s,
            cached_share=cached,
            whole=whole,
            gpu_utilisation=utilisation.mean(self.state.readings, began, ended),
        )
        self.state.epochs.append(epoch)
        recording.epoch_end(self.state.stored(epoch))
        self._say(self.state.line_of(epoch))

    def _record(self, loss: torch.Tensor) -> None:
        """End a record with the step that has just been given to the device."""
        scalars = self.recording.scalars
        copied = scalars.copy(loss.detach())
        self.recording.step_end(self._steps, lambda: (scalars.read(copied), None), OPTIMIZER.learning_rate)
        now = time.monotonic()
        if now - self._reported > REPORT_EVERY_S:
            self._reported = now
            self.recording.memory.sample()
            self._say(f"step {self._steps} of {self._request.steps}, after {units.duration(now - self._started)}")

    def _caches(self, index: int) -> float | None:
        """Empty the page cache where requested; return the share of the data that it holds now."""
        if self._files and self._request.drop_caches:
            problem = page_cache.drop_caches(self._files)
            if problem and index == 0:
                self.state.problems.append(f"--drop-caches: {problem}")
        return page_cache.cached_share(self._files)


@contextlib.contextmanager
def _connected(request: EncDecRequest, process: Process, say: Callable[[str], None]) -> Iterator[Process]:
    """Yield the process with its device, in the group of all, once the data are there."""
    if process.world_size == 1:
        _prepare_data(request, process, None, say)
        yield process.on(request.platform)
        return
    import torch.distributed as dist

    store = dist.PrefixStore("tensorprimat", next(dist.rendezvous("env://"))[0])
    _prepare_data(request, process, store, say)
    process = process.on(request.platform)
    # Without the device NCCL guesses the GPU of each process at the first collective.
    device_id = process.device if process.device.type == "cuda" else None
    with joined(process, store=store, rank=process.rank, world_size=process.world_size, device_id=device_id):
        yield process


def _prepare_data(request: EncDecRequest, process: Process, store: Any, say: Callable[[str], None]) -> None:
    """Write or check the data, in one process of each machine; the others wait for it."""
    if request.data_dir is None or request.data_checked:
        return
    key = f"data-{process.machine}"
    if process.local_rank:
        # No collective: those give up after minutes, and a disk may take hours.
        store.wait([key], DATA_TIMEOUT)
        if store.get(key) != b"there":
            # The process that prepares them has printed why.
            sys.exit(int(ExitStatus.USAGE))
        return
    outcome = "failed"
    try:
        prepare(request, say)
        outcome = "there"
    finally:
        if store is not None:
            store.set(key, outcome)


@contextlib.contextmanager
def _sigterm_interrupts(recording: Recording) -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does, but not while the result is being written."""

    def handle(number: int, frame: object) -> None:
        if not (recording.is_ending or recording.has_ended):
            recording.sigterm.received = True
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
