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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.errors import ExitStatus, TensorPrimatError, TrainingFailedError
from tprimat.frameworks.encdec import data
from tprimat.frameworks.encdec import result as encdec_result
from tprimat.frameworks.encdec.data import DataWait
from tprimat.frameworks.encdec.launch import LAUNCHER
from tprimat.frameworks.encdec.request import OPTIMIZER, EncDecRequest
from tprimat.frameworks.encdec.result import Epoch, TrainingState
from tprimat.frameworks.loops.processes import joined
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.machine import page_cache
from tprimat.machine.telemetry import trace
from tprimat.machine.telemetry.sampler import Sampler
from tprimat.record.lifecycle import Options, Recording
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
    return ExitStatus.OK if recording.run and recording.run.status == "complete" else ExitStatus.TRAINING_FAILED


def train(request: EncDecRequest, process: Process, *, say: Callable[[str], None], dataset: Any = None) -> Recording:
    """Train, and write the result to the request's folder; also one that is incomplete. Return the ended recording.

    The first process calls `say` with each progress line; `dataset` are batches instead of those of the request.
    Raises UsageError where the data can't be had or there is no such GPU, and TrainingFailedError.
    """
    say = say if process.is_first else lambda line: None
    with contextlib.suppress(Interrupted), _connected(request, process, say) as connected:
        training = Training(request, connected, say, dataset)
        training.run()
    return training.recording


class Training:
    """One training in one process: the recording of its steps, and the state of what is known beyond them."""

    def __init__(self, request: EncDecRequest, process: Process, say: Callable[[str], None], dataset: Any) -> None:
        from tprimat.frameworks.encdec import model

        self._request = request
        self._process = process
        self._say = say
        options = Options(
            request.output_dir,
            request.platform,
            log_every=request.steps_per_epoch,
            known=encdec_result.setup_of(request, model.set_precision(request)),
            quiet=True,
            on_step=reporter(process.rank),
        )
        self.recording = Recording(
            options,
            process,
            covers=encdec_result.COVERS,
            warnings=lambda: self.state.warnings(),
            complete=lambda run: self.state.completed(run),
        )
        self._waits = DataWait(self.recording.clock)
        self._files: list[Path] = []
        if dataset is None:
            dataset = data.dataset(request, process)
            if request.data_dir is not None and not process.local_rank:
                self._files = [request.data_dir / shard.name for shard in request.pairs.shards()]
        self._order: list[int] = []
        self._loader = data.loader(dataset, self._order, request)
        self._step = model.Step(request, process)
        # Only the first process knows the machine's devices, and starts one that samples them.
        self.state = TrainingState(
            request, Sampler(request.platform, self.recording.machine.devices[: process.local_world_size])
        )
        self._window = -(-request.steps // MOST_RECORDS)
        self._steps = 0
        self._stopped: str | None = None

    def run(self) -> None:
        """Train all epochs, and write the result however they end. Raises Interrupted or TrainingFailedError."""
        previous = signal.signal(signal.SIGTERM, self._interrupt)
        try:
            self._train()
        except BaseException as error:
            self.recording.fail(error)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted from error
            process, run = self._process, self.recording.run
            if run is None or not isinstance(error, (RuntimeError, MemoryError, OSError)):
                raise
            problem = run.status_reason or ""
            if problem.startswith(OUT_OF_MEMORY):
                problem += f": choose a --batch-size below {self._request.micro_batch_size}, or a smaller model"
            if process.world_size > 1:
                problem = f"process {process.rank} of {process.world_size}: {problem}"
            raise TrainingFailedError(problem, heading="training-failed") from error
        finally:
            self.state.sampler.stop()
            signal.signal(signal.SIGTERM, previous)

    def _interrupt(self, number: int, frame: object) -> None:
        """Let SIGTERM interrupt as Ctrl-C does, but not while the result is being written."""
        if not (self.recording.is_ending or self.recording.has_ended):
            self.recording.sigterm.received = True
            raise KeyboardInterrupt

    def _train(self) -> None:
        process, request, recording, state = self._process, self._request, self.recording, self.state
        process.highest([0.0])  # all are ready
        self._started = self._reported = time.monotonic()
        self._limit = TimeLimit(request.steps, request.time_limit_s, process.world_size, process.agree)
        recording.start(Run())
        recording.pause()
        while self._stopped is None and len(state.epochs) < request.all_epochs:
            epoch = self._epoch(len(state.epochs))
            state.epochs.append(epoch)
            recording.epoch_end(state.stored(epoch))
            self._say(state.line_of(epoch))
        state.loss_scale, state.skipped_steps = self._step.loss_scaling()
        # Only processes that have all come to their end can still talk to each other.
        memory = recording.memory.metrics().known()
        state.memory = MemoryMetrics(**dict(zip(memory, process.highest(list(memory.values())), strict=True)))
        recording.end(Outcome("complete", self._stopped), regular=True)

    def _epoch(self, index: int) -> Epoch:
        """Train on all the data once, or until the time is up."""
        request, process, recording = self._request, self._process, self.recording
        steps, clock, first = request.steps_per_epoch, recording.clock, self._steps
        cached = self._caches(index)
        self._order[:] = range(index * steps, (index + 1) * steps)
        process.highest([0.0])  # all are ready
        began = time.perf_counter()
        recording.resume()
        batches = iter(self._loader)
        read_s, whole = 0.0, False
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
            self._stopped = f"{self._stopped}; the last epoch's values cover its first steps only"
        clock.wait(clock.mark(), None)
        process.highest([0.0])  # all are done
        ended = time.perf_counter()
        wall, waited, read_s = process.highest([ended - began, self._waits.take(), read_s])
        recording.memory.sample()
        return Epoch(
            number=index + 1,
            warmup=index < request.warmup_epochs,
            whole=whole,
            began=began,
            ended=ended,
            wall_s=wall,
            samples=(self._steps - first) * request.global_batch_size,
            steps=self._steps - first,
            data_wait_s=min(waited, wall),
            read_s=read_s,
            cached_share=cached,
            gpu_utilisation=trace.mean_utilisation(self.state.sampler.so_far(), began, ended),
        )

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
        LAUNCHER.prepare(request, say)
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
    key, outcome = f"data-{process.machine}", "failed"
    if process.local_rank:
        # No collective: those give up after minutes, and a disk may take hours.
        store.wait([key], DATA_TIMEOUT)
        if store.get(key) != b"there":
            # The process that prepares them has printed why.
            sys.exit(int(ExitStatus.USAGE))
        return
    try:
        LAUNCHER.prepare(request, say)
        outcome = "there"
    finally:
        store.set(key, outcome)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
