"""Parts of an encoder-decoder result beyond its steps: setup, epochs, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tprimat import units
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import IN_MEMORY, ON_DISK
from tprimat.frameworks.encdec.request import DROPOUT, OPTIMIZER, EncDecRequest
from tprimat.machine import page_cache
from tprimat.machine.telemetry import trace
from tprimat.notes import Note
from tprimat.record import describe
from tprimat.record.loop import LoopRecorder
from tprimat.record.progress import reporter
from tprimat.record.ranks import Process
from tprimat.results.account import Timing
from tprimat.results.fields import Figures, known_values
from tprimat.results.run import MemoryMetrics, Run
from tprimat.units import GB, round_figure

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first of an epoch"
    " from the epoch's start; without what lies between epochs"
)
SHORTEST_MEASURE_S = 10.0
"""Measured epochs that take less altogether show that it runs; a clock that rises or one
disturbance decides them.
"""


class Epoch(NamedTuple):
    """One pass over the data, or several together.

    Attributes:
        wall_s: time of the slowest process, from when all were ready until all were done.
        samples, steps: sequence pairs over all processes, and optimizer steps; fewer where the time
            limit cut it.
        data_wait_s: time that the device was idle for lack of data, in the process that waited
            longest.
        read_s: seconds that workers spent reading, of the process whose workers read longest.
        began, ended: on the first process's time.perf_counter(), s.
        cached_share: share of the data that lay in the page cache before it; None if that isn't
            known.
        gpu_utilization: mean of the readings in it, percent; None if there are none.
    """

    wall_s: float
    samples: int
    steps: int
    data_wait_s: float
    read_s: float
    began: float
    ended: float
    cached_share: float | None = None
    gpu_utilisation: float | None = None

    @property
    def samples_per_second(self) -> float | None:
        """All samples over all time: of several epochs not the mean of their rates."""
        return _ratio(self.samples, self.wall_s)


class EpochRecorder(LoopRecorder):
    """Recorder of one process's training, with its known values beyond the steps.

    Attributes:
        epochs: those that have ended, warm-up included.
        memory: that of the process that needs most, once all have ended.
        loss_scale, skipped_steps: those of fp16; None otherwise.
        problems: notes so far.
    """

    _absent: Mapping[str, str] = {}  # nothing clips the gradient, so it has no norm

    def __init__(self, request: EncDecRequest, process: Process, precision_detail: str) -> None:
        super().__init__(
            output_dir=request.output_dir,
            device=process.device,
            setup=setup_of(request, precision_detail),
            quiet=True,
            on_step=reporter(process.rank),
        )
        self.request = request
        self.process = process
        self.epochs: list[Epoch] = []
        self.memory: MemoryMetrics | None = None
        self.loss_scale: float | None = None
        self.skipped_steps: int | None = None
        self.problems: list[Note] = []

    def utilisation(self, began: float, ended: float) -> float | None:
        """Return the GPUs' mean utilization between two moments, percent; None if nothing read
        it.
        """
        sampler = self.recording.sampler
        return trace.mean_utilisation(sampler.so_far() if sampler else None, began, ended)

    def epoch_end(self, epoch: Epoch) -> str:
        """Add an epoch, to the journal too; return a line about it."""
        self.epochs.append(epoch)
        number = len(self.epochs)
        cached = epoch.cached_share
        self.recording.epoch_end(self.stored(number, epoch))
        is_whole = epoch.steps == self.request.steps_per_epoch
        if number <= self.request.warmup_epochs:
            kind = " (warm-up)"
        elif is_whole:
            kind = ""
        else:
            kind = " (cut by the time limit)"
        in_cache = "" if cached is None else f", {_share(cached)} of the data in the page cache"
        return (
            f"epoch {number} of {self.request.all_epochs}{kind}: {epoch.wall_s:.2f} s, "
            f"{units.number(epoch.samples_per_second)} samples/s, "
            f"{_share(epoch.data_wait_s / epoch.wall_s)} waiting for data{in_cache}"
        )

    @property
    def measured(self) -> list[Epoch]:
        """The epochs after the warm-up."""
        return self.epochs[self.request.warmup_epochs :]

    @property
    def total(self) -> Epoch:
        """The measured epochs together; zeros if there are none."""
        epochs = self.measured
        sums = (sum(epoch[index] or 0 for epoch in epochs) for index in range(5))
        return Epoch._make(
            (*sums, *((epochs[0].began, epochs[-1].ended) if epochs else (0.0, 0.0)), None, None)
        )

    def completed(self, run: Run) -> Run:
        """Return the run with its epochs and their metrics."""
        total = self.total
        request = self.request
        rate = total.samples_per_second
        whole = [epoch.wall_s for epoch in self.measured if epoch.steps == request.steps_per_epoch]
        metrics = {
            "samples_per_second": rate,
            "samples_per_second_per_gpu": rate and rate / request.num_gpus,
            "samples_per_epoch": request.samples_per_epoch,
            "seconds_per_epoch": _ratio(sum(whole), len(whole)),
            "gpu_utilisation_percent": self.utilisation(total.began, total.ended),
        }
        if request.precision == "fp16":
            metrics |= {"loss_scale": self.loss_scale, "skipped_steps": self.skipped_steps}
        if request.data_dir is not None:
            metrics |= {
                "dataset_gb": request.num_samples * request.pairs.bytes / GB,
                **{name: value for name, value in self.storage(total).items() if name != "read_gb"},
                "written_gb_per_second": shards.written_gb_per_second(request.data_dir),
                "reading_workers": request.workers * request.num_gpus,
            }
        parts = {"data_wait_s": total.data_wait_s, "compute_s": total.wall_s - total.data_wait_s}
        return run.but(
            memory_metrics=self.memory or run.memory_metrics,
            native_metrics={**_rounded(metrics)},
            breakdown=_rounded(
                {name: part / total.steps for name, part in parts.items()} if total.steps else {}
            ),
            epochs=tuple(self.stored(*numbered) for numbered in enumerate(self.epochs, 1)),
        )

    def stored(self, number: int, epoch: Epoch) -> Figures:
        """Return an epoch as a result holds it; the unit is in the name."""
        rate = epoch.samples_per_second
        figures = {
            "epoch": number,
            "warmup": int(number <= self.request.warmup_epochs),
            "steps": epoch.steps,
            "samples": epoch.samples,
            "wall_time_s": epoch.wall_s,
            "samples_per_second": rate,
            "tokens_per_second": rate and rate * self.request.sequence_length,
            "data_wait_s": epoch.data_wait_s,
            "compute_s": epoch.wall_s - epoch.data_wait_s,
            "gpu_utilisation_percent": epoch.gpu_utilisation,
        }
        if self.request.data_dir is not None:
            figures |= {**self.storage(epoch), "cached_share": epoch.cached_share}
        return _rounded(figures)

    def storage(self, epoch: Epoch) -> Figures:
        """Return the data that all processes took in, and two rates.

        That of delivery to all processes, which is what the training needed and no limit of the
        storage, and that of one worker while it reads, in the process whose workers read longest.
        """
        amount = epoch.samples * self.request.pairs.bytes / GB
        return {
            "read_gb": amount,
            "delivered_gb_per_second": _ratio(amount, epoch.wall_s),
            "read_gb_per_second_per_worker": _ratio(amount / self.request.num_gpus, epoch.read_s),
        }

    def notes(self) -> list[Note]:
        """Return notes on doubtful and unknown values."""
        notes = list(self.problems)
        measured = self.measured
        took = self.total.wall_s
        sampler = self.recording.sampler
        unknown = sampler and (sampler.unknown or sampler.gpus_unknown)
        if unknown and self.request.platform != "cpu":
            notes.append(Note("utilization-unread", {"why": unknown}))
        if self.skipped_steps:
            notes.append(Note("gradients-overflowed", {"steps": self.skipped_steps}))
        if not measured:
            notes.append(Note("no-epoch-measured"))
        elif took < SHORTEST_MEASURE_S:
            least = units.duration(SHORTEST_MEASURE_S)
            notes.append(Note("epochs-too-short", {"took": units.duration(took), "least": least}))
        if self.request.data_dir is not None:
            notes += cache_notes([epoch.cached_share for epoch in measured])
        return notes


def setup_of(request: EncDecRequest, precision_detail: str) -> Run:
    """Return the values that are known before the training: a Run without records."""
    world = request.num_gpus
    kind = IN_MEMORY
    if request.data_dir is not None:
        kind = f"{ON_DISK}, page cache emptied" if request.drop_caches else ON_DISK
    return request.to_run(
        model_config=request.model_config,
        training_config=request.training_config(
            num_gpus=world,
            precision="tf32" if "TF32_OVERRIDE" in precision_detail else request.precision,
            precision_detail=precision_detail,
            recomputation="none",
        ),
        parallelism_config=describe.undivided(
            "one process" if world == 1 else "DistributedDataParallel", world, 1
        ),
        optimizer=OPTIMIZER,
        data=request.pairs.described(
            kind, repeats=request.data_dir is not None and request.all_epochs > 1
        ),
        timing=Timing(covers=COVERS),
        framework_config={
            "dropout": DROPOUT,
            "reading_workers": request.workers,
            "num_samples": request.num_samples,
        },
    )


def cache_notes(shares: Sequence[float | None]) -> list[Note]:
    """Return the note on the page cache's effect on a training, from the share of the data in it
    before each measured epoch.
    """
    read = known_values(shares)
    if len(read) < len(shares):
        return [Note("page-cache-unknown")]
    if read and max(read) > page_cache.MIN_SHARE:
        return [Note("page-cache-helped", {"share": _share(max(read))})]
    return []


def _ratio(amount: float, divisor: float) -> float | None:
    if divisor > 0:
        return amount / divisor
    return None


def _rounded(figures: Figures) -> Figures:
    return {name: round_figure(value) for name, value in figures.items()}


def _share(share: float) -> str:
    if share < 0.1:
        return f"{share:.1%}"
    return f"{share:.0%}"
