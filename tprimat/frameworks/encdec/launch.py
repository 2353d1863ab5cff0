"""The encoder-decoder: what is trained where the user leaves it open, what can't be, and the command.

Every refusal comes before anything starts, and names a value that would do.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks.defaults import FIRST_WITH_BF16, has_bf16
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.settings import Settings, parameters
from tprimat.frameworks.loops.launch import ENVIRONMENT, cores, threads
from tprimat.frameworks.request import REPOSITORY, Device, Launch
from tprimat.units import GB, gigabytes

MODULE = "tprimat.frameworks.encdec.loop"
PRECISIONS = ("fp16", "bf16", "fp32")
FULL_BYTES = 30e9

SAMPLES_ON_GPU = 65_536
SAMPLES_ON_CPU = 1024
"""An epoch of the default model: some tens of seconds on one GPU, and on two processor cores."""

BYTES_PER_PARAMETER = 16
"""Weights, gradients and AdamW's two moments, all fp32."""

MOST_WORKERS = 4


@dataclasses.dataclass(frozen=True)
class RequestedConfig:
    """What the user said; None for what was left open. Names are those of Settings.

    Attributes:
        full: as many samples as make FULL_BYTES of data.
        num_gpus: how many processes train.
    """

    d_model: int = Settings.d_model
    nhead: int = Settings.nhead
    num_encoder_layers: int = Settings.num_encoder_layers
    num_decoder_layers: int = Settings.num_decoder_layers
    dim_feedforward: int = Settings.dim_feedforward
    vocab_size: int = Settings.vocab_size
    seq_len: int = Settings.seq_len
    batch_size: int = Settings.batch_size
    epochs: int = Settings.epochs
    warmup_epochs: int = Settings.warmup_epochs
    seed: int = Settings.seed
    precision: str | None = None
    num_samples: int | None = None
    full: bool = False
    data_dir: Path | None = None
    num_shards: int | None = None
    workers: int | None = None
    drop_caches: bool = False
    num_gpus: int | None = None
    time_limit_s: float | None = None
    label: str | None = None


def check(wishes: RequestedConfig) -> None:
    """Refuses what no machine could do. Raises UsageError."""
    if wishes.d_model % wishes.nhead:
        raise UsageError(
            f"--nhead {wishes.nhead} does not divide --d-model {wishes.d_model}: "
            f"choose {' or '.join(str(each) for each in _divisors_near(wishes.d_model, wishes.nhead))}",
            heading="encoder-decoder",
        )
    if wishes.full and wishes.num_samples is not None:
        raise UsageError("--full and --num-samples contradict each other: choose one", heading="encoder-decoder")
    if wishes.data_dir is None:
        named = {
            "--num-shards": wishes.num_shards,
            "--workers": wishes.workers,
            "--drop-caches": wishes.drop_caches or None,
        }
        for option, value in named.items():
            if value is not None:
                raise UsageError(
                    f"{option} is about data on disk, and these are made in memory: add --disk or --data-dir PATH",
                    heading="encoder-decoder",
                )


def resolve_config(wishes: RequestedConfig, place: Device, output_dir: Path) -> tuple[Settings, tuple[str, ...]]:
    """A training with every choice made, and what the user should know of it.

    Raises UsageError for wishes that can't be met.
    """
    check(wishes)
    notes: list[str] = []
    processes = _processes(wishes, place)
    effective = wishes.batch_size * processes
    pairs = Pairs(wishes.vocab_size, wishes.seq_len, wishes.seed)
    asked = wishes.num_samples or (SAMPLES_ON_CPU if place.platform == "cpu" else SAMPLES_ON_GPU)
    if wishes.full:
        asked = round(FULL_BYTES / pairs.bytes)
    if wishes.num_samples is None:
        # Nothing was asked for that a larger epoch would contradict.
        asked = max(asked, effective)
    used = asked - asked % effective
    if not used:
        raise UsageError(
            f"--num-samples {asked} is less than one step of {effective} (--batch-size {wishes.batch_size} × "
            f"{_named(processes)}): choose {effective} or more, or a smaller --batch-size",
            heading="encoder-decoder",
        )
    if wishes.num_samples is not None and used != asked:
        notes.append(
            f"an epoch is {used:,} samples, not {asked:,}: the last {asked - used:,} make no whole step of "
            f"{effective} (--batch-size {wishes.batch_size} × {_named(processes)})"
        )
    settings = Settings(
        platform=place.platform,
        num_gpus=processes,
        precision=_precision(wishes, place),
        num_samples=asked,
        output_dir=output_dir,
        d_model=wishes.d_model,
        nhead=wishes.nhead,
        num_encoder_layers=wishes.num_encoder_layers,
        num_decoder_layers=wishes.num_decoder_layers,
        dim_feedforward=wishes.dim_feedforward,
        vocab_size=wishes.vocab_size,
        seq_len=wishes.seq_len,
        batch_size=wishes.batch_size,
        epochs=wishes.epochs,
        warmup_epochs=wishes.warmup_epochs,
        seed=wishes.seed,
        data_dir=wishes.data_dir,
        num_shards=_shards(wishes, asked, pairs),
        workers=_workers(wishes, place, processes),
        drop_caches=wishes.drop_caches,
        time_limit_s=wishes.time_limit_s,
        label=wishes.label,
    )
    return settings, (*notes, *_memory(settings, place))


def launch(settings: Settings) -> Launch:
    """One process, or one for each GPU under torchrun; on a CPU they share its cores."""
    environment = dict(ENVIRONMENT)
    argv = [sys.executable]
    if settings.num_gpus > 1:
        # --standalone finds a free port, so that two trainings on one machine don't meet.
        argv += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={settings.num_gpus}"]
    if settings.platform == "cpu":
        environment |= threads(settings.num_gpus)
    argv += ["-m", MODULE, *settings.to_arguments()]
    return Launch(tuple(argv), environment, REPOSITORY)


def _processes(wishes: RequestedConfig, place: Device) -> int:
    on_cpu = place.platform == "cpu"
    processes = wishes.num_gpus or (1 if on_cpu else place.devices)
    if processes > place.devices:
        what = "processor core" if on_cpu else "GPU"
        there = f"{place.devices} {what}{'' if place.devices == 1 else 's'}"
        raise UsageError(
            f"{_named(processes)}, and this machine has {there}: {place.devices} is the most", heading="too-many-gpus"
        )
    return processes


def _precision(wishes: RequestedConfig, place: Device) -> str:
    precision = wishes.precision or ("fp32" if place.platform == "cpu" else "fp16")
    if place.platform == "cpu" and precision == "fp16":
        raise UsageError("fp16 takes a GPU: on a CPU leave it out (fp32), or choose --bf16", heading="precision")
    if precision == "bf16" and place.platform == "nvd" and not has_bf16(place):
        raise UsageError(
            f"--bf16 takes a GPU from sm_{FIRST_WITH_BF16} on, and this one is {place.architecture}: leave it out for "
            "fp16",
            heading="precision",
        )
    return precision


def _shards(wishes: RequestedConfig, samples: int, pairs: Pairs) -> int:
    if wishes.data_dir is None:
        return 0
    if wishes.num_shards is not None and wishes.num_shards > samples:
        raise UsageError(
            f"--num-shards {wishes.num_shards}: there are {samples} samples for them: choose {samples} or fewer",
            heading="encoder-decoder",
        )
    return wishes.num_shards or min(samples, shards.default_shards(samples * pairs.bytes))


def _workers(wishes: RequestedConfig, place: Device, processes: int) -> int:
    if wishes.data_dir is None:
        return 0
    if wishes.workers is not None:
        return wishes.workers
    # On a CPU a worker takes from the training what it needs itself.
    return 1 if place.platform == "cpu" else max(1, min(MOST_WORKERS, cores() // processes - 1))


def _memory(settings: Settings, place: Device) -> list[str]:
    if place.memory_bytes is None:
        return []
    number = parameters(settings)
    needed = number * BYTES_PER_PARAMETER
    device = "this machine" if place.platform == "cpu" else "a GPU here"
    if place.platform == "cpu":
        needed *= settings.num_gpus
    if needed > place.memory_bytes:
        raise UsageError(
            f"a model of {number / 1e6:,.1f} M parameters takes {gigabytes(needed / GB)} for weights, gradients and "
            f"AdamW's states, and {device} has {gigabytes(place.memory_bytes / GB)}: choose a smaller --d-model, "
            "--dim-feedforward or fewer layers",
            heading="model-too-large",
        )
    return []


def _named(processes: int) -> str:
    return f"{processes} {'process' if processes == 1 else 'processes'}"


def _divisors_near(number: int, wanted: int) -> list[int]:
    """The next divisors below and above."""
    divisors = [each for each in range(1, number + 1) if number % each == 0]
    below = [each for each in divisors if each < wanted][-1:]
    return below + [each for each in divisors if each > wanted][:1]
