"""The training loop of the encoder-decoder, as a program of its own:

    python -m tprimat.frameworks.encdec.loop --framework=pytorch --platform=cpu --num-gpus=1 …

Its options are an EncDecRequest's. Under torchrun each process runs it, and the first one writes
the result. A loop in plain PyTorch: it measures the machine, not a framework.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tprimat import units
from tprimat.errors import ExitStatus, TrainingFailedError
from tprimat.frameworks import out_of_memory_advice
from tprimat.frameworks.encdec import data, model
from tprimat.frameworks.encdec.launch import LAUNCHER
from tprimat.frameworks.encdec.request import OPTIMIZER, EncDecRequest
from tprimat.frameworks.encdec.result import Epoch, EpochRecorder
from tprimat.frameworks.loops import processes
from tprimat.frameworks.loops.processes import joined
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.machine import page_cache
from tprimat.notes import Note
from tprimat.record import ranks
from tprimat.record.ranks import Process, from_environment
from tprimat.results.run import MemoryMetrics


class Interrupted(BaseException):
    """Ctrl-C ended the training, whose result is written."""


MOST_RECORDS = 20_000
"""Longer runs are recorded in windows of steps, so that the result stays readable."""

REPORT_EVERY_S = 30.0

DATA_TIMEOUT = datetime.timedelta(hours=24)
"""How long the other processes wait for the one that writes the data: longer than any disk takes.
"""


def main(arguments: list[str]) -> int:
    """Train as requested; return the exit status of the process."""

    def run(request: EncDecRequest) -> int:
        trained = train(
            request, from_environment(os.environ) or Process(), say=partial(print, flush=True)
        ).result
        if trained and trained.status == "complete":
            return ExitStatus.OK
        return ExitStatus.TRAINING_FAILED

    return processes.main(arguments, run, EncDecRequest)


def train(
    request: EncDecRequest, process: Process, *, say: Callable[[str], None], dataset: Any = None
) -> EpochRecorder:
    """Train, and write the result to the request's directory; also one that is incomplete. Return
    the ended recorder.

    The first process calls `say` with each progress line; `dataset` are batches instead of those of
    the request. Raises UsageError if the data can't be had or there is no such GPU, and
    TrainingFailedError.
    """
    say = say if process.is_first else lambda line: None
    process = process.with_device(request.platform)
    # Without the device NCCL guesses the GPU of each process at the first collective.
    device_id = process.device if process.device.type == "cuda" else None
    is_alone = process.world_size == 1
    group = contextlib.nullcontext() if is_alone else joined(process, device_id=device_id)
    with contextlib.suppress(Interrupted), group:
        _prepare_data(request, process, say)
        training = Training(request, process, model.set_precision(request))
        try:
            with training:
                training.run(data.dataset(request, process) if dataset is None else dataset, say)
        except KeyboardInterrupt as error:
            raise Interrupted from error
        except (RuntimeError, MemoryError, OSError) as error:
            if training.result is None:
                raise
            problem = out_of_memory_advice.advised(training.result.status_reason or "", request)
            if process.world_size > 1:
                problem = f"process {process.rank} of {process.world_size}: {problem}"
            raise TrainingFailedError(problem, heading="training-failed") from error
    return training


class Training(EpochRecorder):
    """One training in one process."""

    def run(self, dataset: Any, say: Callable[[str], None]) -> None:
        """Train all epochs, or until the time is up."""
        request = self.request
        self._say = say
        # What comes before the first epoch is part of no step.
        self._recorder.pause()
        self._files: list[Path] = []
        if request.data_dir is not None and not self.process.local_rank:
            self._files = [request.data_dir / shard.name for shard in request.pairs.shards()]
        self._order: list[int] = []
        self._loader = self.watch(data.loader(dataset, self._order, request))
        self._step = model.Step(request, self.process)
        self.process.max_over_ranks([0.0])  # all are ready
        self._started = self._reported = time.monotonic()
        self._limit = TimeLimit(
            request.steps, request.time_limit_s, self.process.world_size, self.process.any_rank
        )
        while self.stop_reason is None and len(self.epochs) < request.all_epochs:
            say(self.epoch_end(self._epoch(len(self.epochs))))
        self.loss_scale, self.skipped_steps = self._step.loss_scaling()
        # Only processes that have all come to their end can still talk to each other.
        self.recording.memory.sample()
        memory = self.recording.memory.metrics().known()
        self.memory = MemoryMetrics(
            **dict(zip(memory, self.process.max_over_ranks(list(memory.values())), strict=True))
        )

    def _epoch(self, index: int) -> Epoch:
        """Train on all the data once, or until the time is up."""
        cached = self._caches(index)
        before = recorded = index * self.request.steps_per_epoch
        last = before + self.request.steps_per_epoch
        self._order[:] = range(before, last)
        window = -(-self.request.steps // MOST_RECORDS)
        read_s = 0.0
        self.process.max_over_ranks([0.0])  # all are ready
        began = time.perf_counter()
        self._recorder.resume()
        for step, (tokens, seconds) in enumerate(self._loader, before + 1):
            loss = self._step(tokens)
            read_s += float(seconds)
            self.stop_reason = self._limit.reached(step)
            if self.stop_reason is not None and step < last:
                self.stop_reason += "; the last epoch's values cover its first steps only"
                last = step
            if step == last:
                # Before the record: the time that writing it takes is none of the next epoch's
                # first step.
                self._recorder.pause()
            if step == last or step % window == 0:
                self.step(loss, learning_rate=OPTIMIZER.learning_rate, window=step - recorded)
                recorded = step
                self._report(step)
            if step == last:
                break
        self.recording.clock.wait(self.recording.clock.mark(), None)
        self.process.max_over_ranks([0.0])  # all are done
        ended = time.perf_counter()
        self._recorder.resolve()
        waited = sum(self._recorder.waits.get(step, 0.0) for step in range(before + 1, last + 1))
        wall, waited, read_s = self.process.max_over_ranks([ended - began, waited, read_s])
        steps = last - before
        waited = min(waited, wall)
        utilisation = self.utilisation(began, ended)
        return Epoch(
            wall,
            steps * self.request.global_batch_size,
            steps,
            waited,
            read_s,
            began,
            ended,
            cached,
            utilisation,
        )

    def _report(self, step: int) -> None:
        now = time.monotonic()
        if now - self._reported > REPORT_EVERY_S:
            self._reported = now
            self._say(
                f"step {step} of {self.request.steps}, after {units.duration(now - self._started)}"
            )

    def _caches(self, index: int) -> float | None:
        """Empty the page cache if requested; return the share of the data that it holds now."""
        if self._files and self.request.drop_caches:
            problem = page_cache.drop_caches(self._files)
            if problem and index == 0:
                self.problems.append(Note("caches-not-dropped", {"why": problem}))
        return page_cache.cached_share(self._files)


def _prepare_data(request: EncDecRequest, process: Process, say: Callable[[str], None]) -> None:
    """Write or check the data, in one process of each machine; the others wait for it."""
    store = ranks.open_store()
    key = f"tprimat/data/{process.node_rank}"
    outcome = "failed"
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
        if store is not None:
            store.set(key, outcome)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
