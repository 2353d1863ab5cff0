"""What the framework `lightning` trains where the user leaves it open, and what it can't.

Every refusal comes before anything starts, and names the nearest value that would do.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.request import Device, Request, RequestedConfig
from tprimat.results.run import ModelConfig
from tprimat.units import GB, gigabytes

STEPS_ON_CPU = 60
STEPS_ON_GPU = 200
"""Intervals within one run cover what they promise from some 200 steps on; on a CPU patience ends first."""

SEED = 1234
PRECISIONS = ("fp32", "bf16", "fp16")
FIRST_WITH_BF16 = 80
"""Compute capability × 10: NVIDIA GPUs before sm_80 (Ampere) have no bf16 matrix units."""


def resolve_config(
    name: str, wishes: RequestedConfig, place: Device, output_dir: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request for a model with every choice made, and what the user should know of it.

    Raises UsageError for wishes that can't be met.
    """
    model = models.by_name(name)
    scale, shape = _size(model, wishes, place)
    defaults = scale if scale is not None else scales.SCALES[0]
    notes = _memory(model, scale, shape, place)
    processes = _processes(wishes, place)
    micro, batch = _batch(wishes, defaults, processes)
    length = wishes.sequence_length or defaults.sequence_length
    request = Request(
        framework="lightning",
        platform=place.platform,
        model=model.name,
        scale=scale.name if scale is not None else scales.OTHER,
        precision=_precision(wishes, place),
        steps=wishes.steps or (STEPS_ON_CPU if place.platform == "cpu" else STEPS_ON_GPU),
        global_batch_size=batch,
        micro_batch_size=micro,
        sequence_length=length,
        seed=SEED if wishes.seed is None else wishes.seed,
        num_gpus=processes,
        output_dir=output_dir,
        time_limit_s=wishes.time_limit_s,
        label=wishes.label,
        shape=shape if scale is None else None,
    )
    return request, tuple(notes)


def default_precision(place: Device) -> str:
    """What trains fastest without being asked: bf16 on a GPU that has it; fp32 on a CPU, where few do."""
    if place.platform == "cpu":
        return "fp32"
    return "bf16" if has_bf16(place) else "fp16"


def _size(model: models.Model, wishes: RequestedConfig, place: Device) -> tuple[scales.Scale | None, ModelConfig]:
    """The scale, or None for a shape that no scale gives; and the shape."""
    if wishes.scale is not None:
        if wishes.scale not in scales.names():
            raise UsageError(
                f"there is no scale {wishes.scale!r}: choose from {', '.join(scales.names())}", heading="unknown-scale"
            )
        scale = scales.by_name(wishes.scale)
        return scale, scales.shape(model, scale)
    if wishes.shape is not None:
        same = scales.of_shape(model, wishes.shape)
        if same is not None:
            return same, scales.shape(model, same)
        counted = scales.parameters(model, wishes.shape)
        return None, msgspec.structs.replace(wishes.shape, num_parameters=counted)
    if place.platform == "cpu" or place.memory_bytes is None:
        # What fits into a CPU's memory would take minutes a step.
        return scales.SCALES[0], scales.shape(model, scales.SCALES[0])
    scale = scales.largest_that_fits(model, place.memory_bytes)
    return scale, scales.shape(model, scale)


def _memory(model: models.Model, scale: scales.Scale | None, shape: ModelConfig, place: Device) -> list[str]:
    if place.memory_bytes is None:
        unknown = "the memory of the device is unknown"
        return [
            f"{unknown}: scale {scale.name} is taken" if scale == scales.SCALES[0] else f"{unknown}: it may run out"
        ]
    needed = scales.bytes_needed(shape)
    named = f"{model.title} at scale {scale.name}" if scale is not None else f"the matched shape of {model.title}"
    what = f"{named} takes {gigabytes(needed / GB)} for weights, gradients and AdamW's states"
    device = "this machine" if place.platform == "cpu" else "a GPU here"
    if needed > place.memory_bytes:
        raise UsageError(
            f"{what}, and {device} has {gigabytes(place.memory_bytes / GB)}: "
            f"--scale {scales.largest_that_fits(model, place.memory_bytes).name} is the largest that fits",
            heading="model-too-large",
        )
    if needed > place.memory_bytes * (1 - scales.SPARE):
        return [f"{what} of {gigabytes(place.memory_bytes / GB)}: less than {scales.SPARE:.0%} is left, it may run out"]
    return []


def _processes(wishes: RequestedConfig, place: Device) -> int:
    on_cpu = place.platform == "cpu"
    processes = wishes.num_gpus or (1 if on_cpu else place.devices)
    if processes > place.devices:
        there = f"{place.devices} processor {'core' if place.devices == 1 else 'cores'} for its processes"
        if not on_cpu:
            there = f"{place.devices} {'GPU' if place.devices == 1 else 'GPUs'}"
        raise UsageError(
            f"--gpus {processes}: this machine has {there}: --gpus {place.devices} is the most", heading="too-many-gpus"
        )
    return processes


def _batch(wishes: RequestedConfig, defaults: scales.Scale, processes: int) -> tuple[int, int]:
    """Micro and global batch size; what is given decides what isn't."""
    batch = wishes.global_batch_size
    micro = wishes.micro_batch_size
    if micro is None:
        micro = defaults.micro_batch_size
        if batch is not None and batch % (micro * processes):
            # The global batch was asked for, the micro batch wasn't: the largest one that divides it.
            share = batch // processes
            micro = next((size for size in range(min(micro, share), 0, -1) if share % size == 0), 1)
    if batch is None:
        batch = micro * processes * defaults.gradient_accumulation_steps
    unit = micro * processes
    if batch % unit:
        below, above = batch // unit * unit, -(-batch // unit) * unit
        nearest = f"the nearest are {below} and {above}" if below else f"the least is {above}"
        made_of = f"micro batch {micro} × {processes} {'process' if processes == 1 else 'processes'}"
        raise UsageError(
            f"global batch size {batch} is not a multiple of {unit} ({made_of}): {nearest}", heading="batch-sizes"
        )
    return micro, batch


def _precision(wishes: RequestedConfig, place: Device) -> str:
    precision = wishes.precision or default_precision(place)
    if precision not in PRECISIONS:
        raise UsageError(
            f"the framework lightning trains in {', '.join(PRECISIONS)}, not in {precision}", heading="precision"
        )
    if place.platform == "cpu" and precision == "fp16":
        raise UsageError("fp16 takes a GPU: on a CPU choose --precision fp32 or bf16", heading="precision")
    return precision


def has_bf16(place: Device) -> bool:
    """Whether a GPU has bf16 matrix units; true where its architecture isn't known."""
    version = re.fullmatch(r"sm_(\d+)[a-z]?", place.architecture or "")
    return version is None or int(version[1]) >= FIRST_WITH_BF16
