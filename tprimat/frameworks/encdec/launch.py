"""Defaults, limits and command of the encoder-decoder.

Every refusal comes before anything starts, and names a value that would do.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tprimat.errors import UsageError
from tprimat.frameworks.defaults import FIRST_WITH_BF16, has_bf16
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.settings import Settings, parameters
from tprimat.frameworks.loops.launch import cores, program
from tprimat.frameworks.request import Device, Launch
from tprimat.frameworks.resolve import check_memory, check_processes
from tprimat.frameworks.scales import BYTES_PER_PARAMETER

MODULE = "tprimat.frameworks.encdec.loop"
PRECISIONS = ("fp16", "bf16", "fp32")
FULL_BYTES = 30e9

SAMPLES_ON_GPU = 65_536
SAMPLES_ON_CPU = 1024
"""An epoch of the default model: some tens of seconds on one GPU, and on two processor cores."""

MOST_WORKERS = 4


@dataclasses.dataclass(frozen=True)
class RequestedSettings:
    """The user's options; None where not given. Names are those of Settings.

    Attributes:
        full: as many samples as make FULL_BYTES of data.
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


def check(requested: RequestedSettings) -> None:
    """Refuse what no machine can train. Raises UsageError."""
    if requested.d_model % requested.nhead:
        divisors = [each for each in range(1, requested.d_model + 1) if requested.d_model % each == 0]
        nearest = [each for each in divisors if each < requested.nhead][-1:]
        nearest += [each for each in divisors if each > requested.nhead][:1]
        raise _usage_error(
            f"--nhead {requested.nhead} does not divide --d-model {requested.d_model}: choose "
            f"{' or '.join(map(str, nearest))}"
        )
    if requested.full and requested.num_samples is not None:
        raise _usage_error("--full and --num-samples contradict each other: choose one")
    for field in ("num_shards", "workers", "drop_caches") if requested.data_dir is None else ():
        if getattr(requested, field):
            raise _usage_error(
                f"--{field.replace('_', '-')} is about data on disk, and these are made in memory: add --disk or "
                "--data-dir PATH"
            )


def resolve_config(requested: RequestedSettings, device: Device, output_dir: Path) -> tuple[Settings, tuple[str, ...]]:
    """Make every choice that the user left open.

    Args:
        requested: what the user asked for.
        device: what trains.
        output_dir: folder for the result, absolute.

    Returns:
        The settings, and notes for the user.

    Raises:
        UsageError: that can't be trained.
    """
    check(requested)
    processes = requested.num_gpus or (1 if device.platform == "cpu" else device.devices)
    check_processes(processes, device)
    samples, notes = _samples(requested, device, processes)
    chosen: dict[str, Any] = {
        field.name: getattr(requested, field.name)
        for field in dataclasses.fields(Settings)
        if hasattr(requested, field.name)
    }
    chosen |= {
        "platform": device.platform,
        "num_gpus": processes,
        "precision": _precision(requested, device),
        "num_samples": samples,
        "output_dir": output_dir,
        "num_shards": _shards(requested, samples),
        "workers": _workers(requested, device, processes),
    }
    settings = Settings(**chosen)
    number = parameters(settings)
    check_memory(
        f"a model of {number / 1e6:,.1f} M parameters",
        number * BYTES_PER_PARAMETER * (processes if device.platform == "cpu" else 1),
        device,
        lambda: "choose a smaller --d-model, --dim-feedforward or fewer layers",
    )
    return settings, notes


def launch(settings: Settings) -> Launch:
    """Return the command: one process, or one for each GPU under torchrun; on a CPU they share its cores."""
    return program(MODULE, settings.to_arguments(), settings.platform, settings.num_gpus)


def _samples(requested: RequestedSettings, device: Device, processes: int) -> tuple[int, tuple[str, ...]]:
    """Return how many sequence pairs there are, and a note where an epoch leaves some out."""
    step = requested.batch_size * processes
    named = f"--batch-size {requested.batch_size} × {processes} {'process' if processes == 1 else 'processes'}"
    samples = requested.num_samples
    if samples is None:
        samples = SAMPLES_ON_CPU if device.platform == "cpu" else SAMPLES_ON_GPU
        if requested.full:
            samples = round(FULL_BYTES / _pairs(requested).bytes)
        return max(samples, step), ()
    left_out = samples % step
    if samples < step:
        raise _usage_error(
            f"--num-samples {samples} is less than one step of {step} ({named}): choose {step} or more, or a smaller "
            "--batch-size"
        )
    if not left_out:
        return samples, ()
    return samples, (
        f"an epoch is {samples - left_out:,} samples, not {samples:,}: the last {left_out:,} make no whole step of "
        f"{step} ({named})",
    )


def _precision(requested: RequestedSettings, device: Device) -> str:
    precision = requested.precision or ("fp32" if device.platform == "cpu" else "fp16")
    if device.platform == "cpu" and precision == "fp16":
        raise UsageError("fp16 takes a GPU: on a CPU leave it out (fp32), or choose --bf16", heading="precision")
    if precision == "bf16" and device.platform == "nvd" and not has_bf16(device):
        raise UsageError(
            f"--bf16 takes a GPU from sm_{FIRST_WITH_BF16} on, and this one is {device.architecture}: leave it out for "
            "fp16",
            heading="precision",
        )
    return precision


def _shards(requested: RequestedSettings, samples: int) -> int:
    if requested.data_dir is None:
        return 0
    if requested.num_shards is not None and requested.num_shards > samples:
        raise _usage_error(
            f"--num-shards {requested.num_shards}: there are {samples} samples for them: choose {samples} or fewer"
        )
    return requested.num_shards or min(samples, shards.default_shards(samples * _pairs(requested).bytes))


def _workers(requested: RequestedSettings, device: Device, processes: int) -> int:
    if requested.data_dir is None or requested.workers is not None:
        return requested.workers or 0
    # On a CPU a worker takes from the training what it needs itself.
    return 1 if device.platform == "cpu" else max(1, min(MOST_WORKERS, cores() // processes - 1))


def _pairs(requested: RequestedSettings) -> Pairs:
    return Pairs(requested.vocab_size, requested.seq_len, requested.seed)


def _usage_error(message: str) -> UsageError:
    return UsageError(message, heading="encoder-decoder")
