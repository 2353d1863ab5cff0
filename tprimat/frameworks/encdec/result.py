"""Parts of an encoder-decoder result beyond its steps: setup, epochs, metrics. Needs no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec

from tprimat import units
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import IN_MEMORY, ON_DISK
from tprimat.frameworks.encdec.settings import DROPOUT, FRAMEWORK, MODEL, OPTIMIZER, Settings
from tprimat.machine import page_cache, utilisation
from tprimat.machine.utilisation import Reading
from tprimat.record import describe
from tprimat.results.run import MemoryMetrics, Run, TrainingConfig
from tprimat.units import GB, round_figure

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first of an epoch from the epoch's "
    "start; without what lies between epochs"
)
SHORTEST_MEASURE_S = 10.0
"""Measured epochs that take less altogether show that it runs; a clock that rises or one disturbance decides them."""


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One pass over the data.

    Attributes:
        number: from 1, warm-up included.
        warmup: whether it is excluded from the metrics.
        began, ended: on the first process's monotonic clock, s.
        wall_s: of the slowest process, from when all were ready until all were done.
        samples, steps: sequence pairs over all processes, and optimizer steps.
        data_wait_s: of the process that waited longest; what the device stood idle for want of data.
        read_s: seconds that workers spent reading, of the process whose workers read longest; None without a disk.
        cached_share: share of the data that lay in the page cache before it; None where that isn't known.
        whole: false where the time limit cut it.
        gpu_utilisation: mean of the readings during the epoch, percent; None where there are none.
    """

    number: int
    warmup: bool
    began: float
    ended: float
    wall_s: float
    samples: int
    steps: int
    data_wait_s: float
    read_s: float | None = None
    cached_share: float | None = None
    whole: bool = True
    gpu_utilisation: float | None = None


@dataclasses.dataclass
class TrainingState:
    """State of a training on the first process, beyond its steps.

    Attributes:
        epochs: those that have ended.
        readings: of GPU utilisation, with times on the clock of the epochs.
        utilisation_unknown: why there are none.
        memory: of the process that needs most, once all have ended.
        loss_scale, skipped_steps: of fp16; None otherwise.
    """

    epochs: list[Epoch] = dataclasses.field(default_factory=list)
    readings: Sequence[Reading] = ()
    utilisation_unknown: str | None = None
    memory: MemoryMetrics | None = None
    loss_scale: float | None = None
    skipped_steps: int | None = None
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def measured(self) -> list[Epoch]:
        """The epochs after the warm-up."""
        return [epoch for epoch in self.epochs if not epoch.warmup]


def setup_of(settings: Settings, precision_detail: str) -> Run:
    """Return what is known before the training: a Run without records."""
    world = settings.num_gpus
    return Run(
        framework=FRAMEWORK,
        model=MODEL,
        scale=settings.scale,
        label=settings.label,
        model_config=settings.shape(),
        training_config=TrainingConfig(
            max_steps=settings.all_epochs * settings.steps_per_epoch,
            global_batch_size=settings.effective_batch,
            micro_batch_size=settings.batch_size,
            sequence_length=settings.seq_len,
            num_gpus=world,
            precision="tf32" if "TF32_OVERRIDE" in precision_detail else settings.precision,
            precision_detail=precision_detail,
            recomputation="none",
            seed=settings.seed,
        ),
        parallelism_config=describe.undivided("one process" if world == 1 else "DistributedDataParallel", world, 1),
        optimizer=OPTIMIZER,
        data=settings.pairs.described(
            _kind(settings), repeats=settings.data_dir is not None and settings.all_epochs > 1
        ),
        framework_config={"dropout": DROPOUT, "reading_workers": settings.workers, "num_samples": settings.num_samples},
    )


def completed(run: Run, settings: Settings, state: TrainingState) -> Run:
    """Return the run with its epochs and their metrics."""
    return msgspec.structs.replace(
        run,
        memory_metrics=state.memory or run.memory_metrics,
        native_metrics=_metrics(settings, state),
        breakdown=_breakdown(state.measured),
        epochs=tuple(stored(epoch, settings) for epoch in state.epochs),
    )


def samples_per_second(epochs: Sequence[Epoch]) -> float | None:
    """Return the rate of several epochs together: all samples over all time, not the mean of the rates."""
    seconds = sum(epoch.wall_s for epoch in epochs)
    return sum(epoch.samples for epoch in epochs) / seconds if seconds > 0 else None


def line_of(epoch: Epoch, settings: Settings) -> str:
    """Return a line about an epoch that has ended."""
    kind = " (warm-up)" if epoch.warmup else "" if epoch.whole else " (cut by the time limit)"
    rate = samples_per_second([epoch])
    parts = [
        f"epoch {epoch.number} of {settings.all_epochs}{kind}: {epoch.wall_s:.2f} s",
        f"{units.number(rate)} samples/s",
        f"{_share(epoch.data_wait_s / epoch.wall_s)} waiting for data" if epoch.wall_s > 0 else "",
        "" if epoch.cached_share is None else f"{_share(epoch.cached_share)} of the data in the page cache",
    ]
    return ", ".join(part for part in parts if part)


def with_highest(memory: MemoryMetrics, highest: Callable[[Sequence[float]], list[float]]) -> MemoryMetrics:
    """Return each value as that of the process where it is highest."""
    known = memory.known()
    return MemoryMetrics(**dict(zip(known, highest(list(known.values())), strict=True)))


def stored(epoch: Epoch, settings: Settings) -> dict[str, float | None]:
    """Return an epoch as a result holds it; the unit is in the name."""
    rate = samples_per_second([epoch])
    figures = {
        "epoch": epoch.number,
        "warmup": int(epoch.warmup),
        "steps": epoch.steps,
        "samples": epoch.samples,
        "wall_time_s": round_figure(epoch.wall_s),
        "samples_per_second": round_figure(rate),
        "tokens_per_second": round_figure(rate * settings.seq_len) if rate is not None else None,
        "data_wait_s": round_figure(epoch.data_wait_s),
        "compute_s": round_figure(epoch.wall_s - epoch.data_wait_s),
        "gpu_utilisation_percent": round_figure(epoch.gpu_utilisation),
    }
    if settings.data_dir is None:
        return figures
    return {
        **figures,
        "read_gb": round_figure(_bytes(settings, [epoch]) / GB),
        "delivered_gb_per_second": round_figure(_delivered(settings, [epoch])),
        "read_gb_per_second_per_worker": round_figure(_reading(settings, [epoch])),
        "cached_share": round_figure(epoch.cached_share),
    }


def _metrics(settings: Settings, state: TrainingState) -> dict[str, float | tuple[float | None, ...] | None]:
    """Return the metrics of the measured epochs together."""
    measured = state.measured
    rate = samples_per_second(measured)
    whole = [epoch.wall_s for epoch in measured if epoch.whole]
    busy = utilisation.mean(state.readings, measured[0].began, measured[-1].ended) if measured else None
    figures: dict[str, float | tuple[float | None, ...] | None] = {
        "samples_per_second": round_figure(rate),
        "samples_per_second_per_gpu": round_figure(rate / settings.num_gpus) if rate is not None else None,
        "samples_per_epoch": settings.samples_per_epoch,
        "seconds_per_epoch": round_figure(sum(whole) / len(whole)) if whole else None,
        "gpu_utilisation_percent": round_figure(busy),
    }
    if settings.precision == "fp16":
        figures |= {"loss_scale": state.loss_scale, "skipped_steps": state.skipped_steps}
    if settings.data_dir is not None:
        written = shards.write_rate(settings.data_dir)
        figures |= {
            "dataset_gb": round_figure(settings.num_samples * settings.pairs.bytes / GB),
            "delivered_gb_per_second": round_figure(_delivered(settings, measured)),
            "read_gb_per_second_per_worker": round_figure(_reading(settings, measured)),
            "written_gb_per_second": round_figure(written / GB) if written is not None else None,
            "reading_workers": settings.workers * settings.num_gpus,
        }
    return figures


def _breakdown(measured: Sequence[Epoch]) -> dict[str, float | None]:
    """Return the seconds of a mean step of the measured epochs, by part."""
    steps = sum(epoch.steps for epoch in measured)
    if not steps:
        return {}
    waited = sum(epoch.data_wait_s for epoch in measured) / steps
    return {
        "data_wait_s": round_figure(waited),
        "compute_s": round_figure(sum(epoch.wall_s for epoch in measured) / steps - waited),
    }


def warnings_of(settings: Settings, state: TrainingState) -> list[str]:
    """Return what is doubtful or unknown."""
    warnings, measured = list(state.warnings), state.measured
    if state.utilisation_unknown and settings.platform != "cpu":
        warnings.append(f"GPU utilisation unknown: {state.utilisation_unknown}")
    if state.skipped_steps:
        warnings.append(
            f"{state.skipped_steps} steps changed no weights: their fp16 gradients overflowed and the loss scale was "
            "lowered; they took their time all the same"
        )
    took = sum(epoch.wall_s for epoch in measured)
    if not measured:
        warnings.append("no epoch beyond the warm-up was measured: no samples/s")
    elif took < SHORTEST_MEASURE_S:
        warnings.append(
            f"the measured epochs took {units.duration(took)} altogether: a figure to rely on takes "
            f"{units.duration(SHORTEST_MEASURE_S)} or more (--num-samples, --epochs)"
        )
    if settings.data_dir is not None:
        warnings += _cache_warnings(measured)
    return warnings


def _kind(settings: Settings) -> str:
    if settings.data_dir is None:
        return IN_MEMORY
    return f"{ON_DISK}, page cache emptied" if settings.drop_caches else ON_DISK


def _cache_warnings(measured: Sequence[Epoch]) -> list[str]:
    shares = [epoch.cached_share for epoch in measured]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return ["the page cache may have helped: how much of the data lay in it isn't known here"]
    if known and max(known) > page_cache.MIN_SHARE:
        return [
            f"the page cache helped: before a measured epoch up to {_share(max(known))} of the data lay in memory, so "
            "this isn't the storage's own speed (--drop-caches empties it before each epoch)"
        ]
    return []


def _bytes(settings: Settings, epochs: Sequence[Epoch]) -> int:
    return sum(epoch.samples for epoch in epochs) * settings.pairs.bytes


def _delivered(settings: Settings, epochs: Sequence[Epoch]) -> float | None:
    """Return the GB/s that all processes took in: what the training needed, not what the storage could give."""
    seconds = sum(epoch.wall_s for epoch in epochs)
    return _bytes(settings, epochs) / GB / seconds if seconds > 0 else None


def _reading(settings: Settings, epochs: Sequence[Epoch]) -> float | None:
    """Return the GB/s of one worker while it reads, in the process whose workers read longest."""
    seconds = sum(epoch.read_s or 0.0 for epoch in epochs)
    return _bytes(settings, epochs) / settings.num_gpus / GB / seconds if seconds > 0 else None


def _share(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
