"""What NeMo trains where the user leaves it open, and what it can't.

Every refusal comes before anything starts, and names the nearest value that would do.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from tprimat.analysis import flops
from tprimat.catalog import gpus as hardware
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.nemo.defaults import CLASSIC, PERFORMANCE, PRESETS, Defaults, choose
from tprimat.frameworks.request import DATA, MOCK, Device, Request, RequestedConfig
from tprimat.machine.emulation import is_emulated
from tprimat.results.run import ModelConfig
from tprimat.units import GB, gigabytes

NAME = "nemo"
PRECISIONS = ("bf16", "fp8")
STEPS = 200
"""Steps of a measurement: intervals within one run cover what they promise from some 200 on."""

SEED = 1234
"""Megatron's own default, and that of NeMo's recipes."""

FIRST_WITH_FP8 = 89
"""Compute capability × 10: NVIDIA GPUs before sm_89 (Ada) have no fp8 matrix units."""

BYTES_PER_REPLICA, BYTES_SHARED = 6, 12
"""Per parameter: bf16 weights and fp32 gradients on each replica; fp32 weights and Adam's two fp32
states, which the distributed optimizer divides among the replicas."""

LIKELY_MFU = 0.4
"""What a training is expected to reach of the peak, for saying how long it will take."""

START_MINUTES = 2.0
"""Importing NeMo, drawing the weights, the first step's compilation."""


def resolve_config(
    name: str, wishes: RequestedConfig, place: Device, output_dir: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request for a model with every choice made, and what the user should know of it.

    Raises UsageError for wishes that can't be met.
    """
    model = models.by_name(name)
    _check_device(place)
    preset = wishes.preset or PERFORMANCE
    if preset not in PRESETS:
        raise UsageError(f"there are no defaults {preset!r}: choose from {', '.join(PRESETS)}", heading="nemo-options")
    precision = _precision(wishes, place, preset)
    scale, shape = _size(model, wishes)
    device = hardware.short_name(place.device_name) if place.device_name else None
    row = choose(name, preset, device, precision)
    if scale is None or scale.name != scales.FULL:
        row = _scaled(row, scale or scales.by_name(scales.FULL))
    gpus, nodes = _processes(wishes, place)
    notes = [_said(row, preset, device)]
    division = _division(wishes, row, shape, gpus, notes)
    replicas = gpus // (division[0] * division[1] * division[2])
    length = wishes.sequence_length or row.sequence_length
    if division[2] > 1 and length % (2 * division[2]):
        raise UsageError(
            f"sequence length {length} can't be shared by {division[2]} GPUs (context parallel): it must be a "
            f"multiple of {2 * division[2]}",
            heading="nemo-parallelism",
        )
    micro, batch = _batch(wishes, row, replicas, gpus)
    if wishes.data not in (None, *DATA):
        raise UsageError(f"--data {wishes.data}: choose from {', '.join(DATA)}", heading="nemo-options")
    request = Request(
        framework=NAME,
        platform=place.platform,
        model=model.name,
        scale=scale.name if scale is not None else scales.OTHER,
        precision=precision,
        steps=wishes.steps or STEPS,
        global_batch_size=batch,
        micro_batch_size=micro,
        sequence_length=length,
        seed=SEED if wishes.seed is None else wishes.seed,
        num_gpus=gpus,
        output_dir=output_dir,
        time_limit_s=wishes.time_limit_s,
        label=wishes.label,
        shape=shape if scale is None else None,
        num_nodes=nodes,
        tensor_model_parallel_size=division[0],
        pipeline_model_parallel_size=division[1],
        context_parallel_size=division[2],
        data=wishes.data or MOCK,
        cuda_graphs=row.cuda_graphs,
        settings=wishes.settings or (),
    )
    notes += _memory(request, model, shape, place)
    notes += _duration(request, shape, place)
    return request, tuple(notes)


def _check_device(place: Device) -> None:
    if place.platform == "cpu" and not is_emulated():
        raise UsageError(
            "NeMo trains on GPUs, and torch sees none here: ./benchmark.py --framework lightning trains on this "
            "processor",
            heading="nemo-needs-a-gpu",
        )


def _precision(wishes: RequestedConfig, place: Device, preset: str) -> str:
    precision = wishes.precision or ("fp8" if preset == CLASSIC else "bf16")
    if precision not in PRECISIONS:
        raise UsageError(
            f"NeMo's recipes train in {' or '.join(PRECISIONS)}, not in {precision}: choose --precision bf16",
            heading="precision",
        )
    version = (place.architecture or "").removeprefix("sm_").rstrip("abcdef")
    if precision == "fp8" and place.platform == "nvd" and version.isdigit() and int(version) < FIRST_WITH_FP8:
        raise UsageError(
            f"fp8 takes a GPU with matrix units for it (sm_89 or newer), and this is {place.architecture}: "
            "choose --precision bf16",
            heading="precision",
        )
    return precision


def _size(model: models.Model, wishes: RequestedConfig) -> tuple[scales.Scale | None, ModelConfig]:
    """The scale, or None for a shape that no scale gives; and the shape."""
    if wishes.scale is None and wishes.shape is not None:
        if models.with_shape(wishes.shape) is model:
            return scales.by_name(scales.FULL), model.shape
        scale = scales.of_shape(model, wishes.shape)
        if scale is None:
            counted = scales.parameters(model, wishes.shape)
            return None, msgspec.structs.replace(wishes.shape, num_parameters=counted)
        return scale, scales.shape(model, scale)
    name = wishes.scale or scales.FULL
    if name not in scales.names():
        raise UsageError(
            f"there is no scale {name!r}: choose from {', '.join(scales.names())}", heading="unknown-scale"
        )
    scale = scales.by_name(name)
    return scale, scales.shape(model, scale)


def _scaled(row: Defaults, scale: scales.Scale) -> Defaults:
    """Defaults of a smaller model: of its scale, undivided."""
    return dataclasses.replace(
        row,
        num_gpus=1,
        tensor=1,
        pipeline=1,
        context=1,
        micro_batch_size=scale.micro_batch_size,
        global_batch_size=scale.micro_batch_size * scale.gradient_accumulation_steps,
        sequence_length=scale.sequence_length,
        cuda_graphs=False,
        source=f"the scale {scale.name}",
        note=None,
    )


def _said(row: Defaults, preset: str, device: str | None) -> str:
    if row.note is not None:
        return f"{row.note} ({row.source})"
    if row.source == preset:
        return f"defaults {preset}: {PRESETS[preset]}"
    where = f" for {device}" if row.gpus else ""
    return f"what is left open{where} is from {row.source}"


def _processes(wishes: RequestedConfig, place: Device) -> tuple[int, int]:
    """Processes that train, and machines that they are on."""
    nodes = wishes.num_nodes or 1
    gpus = wishes.num_gpus or (1 if place.platform == "cpu" else place.devices) * nodes
    if gpus % nodes:
        raise UsageError(f"{gpus} GPUs can't be spread over {nodes} nodes evenly", heading="nemo-parallelism")
    # What other machines have is not known from here.
    if nodes == 1 and gpus > place.devices and place.platform != "cpu":
        raise UsageError(
            f"--gpus {gpus}: this machine has {place.devices} "
            f"{'GPU' if place.devices == 1 else 'GPUs'}: --gpus {place.devices} is the most",
            heading="too-many-gpus",
        )
    return gpus, nodes


def _division(
    wishes: RequestedConfig, row: Defaults, shape: ModelConfig, gpus: int, notes: list[str]
) -> tuple[int, int, int]:
    """Tensor, pipeline and context parallelism. What the user says stays; defaults shrink until they fit."""
    stated = (
        wishes.tensor_model_parallel_size,
        wishes.pipeline_model_parallel_size,
        wishes.context_parallel_size,
    )
    sizes = [asked or default for asked, default in zip(stated, (row.tensor, row.pipeline, row.context), strict=True)]
    before = tuple(sizes)
    # Context first: without it nothing is lost but memory.
    for index in (2, 1, 0):
        while stated[index] is None and sizes[index] > 1 and gpus % _product(sizes):
            sizes[index] //= 2
    tensor, pipeline, context = sizes
    if gpus % _product(sizes):
        raise UsageError(
            f"tensor {tensor} × pipeline {pipeline} × context {context} parallel takes {_product(sizes)} GPUs or a "
            f"multiple of them, and {gpus} train",
            heading="nemo-parallelism",
        )
    for size, count, what in (
        (tensor, shape.num_query_groups, "key/value heads"),
        (tensor, shape.num_attention_heads, "heads"),
        (pipeline, shape.num_layers, "layers"),
    ):
        if count is not None and count % size:
            raise UsageError(
                f"the model's {count} {what} can't be divided by {size}: choose a divisor of {count}",
                heading="nemo-parallelism",
            )
    if tuple(sizes) != before:
        notes.append(
            f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}: tensor {tensor}, pipeline {pipeline}, context {context} "
            f"parallel instead of {', '.join(map(str, before))}"
        )
    return tensor, pipeline, context


def _product(sizes: list[int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]


def _batch(wishes: RequestedConfig, row: Defaults, replicas: int, gpus: int) -> tuple[int, int]:
    """Micro and global batch size; what is given decides what isn't."""
    batch, micro = wishes.global_batch_size, wishes.micro_batch_size
    if micro is None:
        micro = row.micro_batch_size
        if batch is not None and batch % (micro * replicas):
            share = batch // replicas
            micro = next((size for size in range(min(micro, share), 0, -1) if share % size == 0), 1)
    unit = micro * replicas
    if batch is None:
        wanted = row.global_batch_size if row.num_gpus is None else row.global_batch_size * gpus / row.num_gpus
        batch = max(1, round(wanted / unit)) * unit
    if batch % unit:
        below, above = batch // unit * unit, -(-batch // unit) * unit
        nearest = f"the nearest are {below} and {above}" if below else f"the least is {above}"
        raise UsageError(
            f"global batch size {batch} is not a multiple of {unit} (micro batch {micro} × {replicas} "
            f"{'replica' if replicas == 1 else 'replicas'} of the model): {nearest}",
            heading="batch-sizes",
        )
    return micro, batch


def bytes_needed(request: Request, shape: ModelConfig) -> float:
    """Memory of one GPU for weights, gradients and Adam's states, without activations."""
    share = (shape.num_parameters or 0) / (request.tensor_model_parallel_size * request.pipeline_model_parallel_size)
    return share * (BYTES_PER_REPLICA + BYTES_SHARED / (request.data_parallel_size * request.context_parallel_size))


def _memory(request: Request, model: models.Model, shape: ModelConfig, place: Device) -> list[str]:
    if place.memory_bytes is None:
        return ["the memory of a GPU here is unknown: it may run out"] if place.platform != "cpu" else []
    needed = bytes_needed(request, shape)
    what = (
        f"{model.title} takes {gigabytes(needed / GB)} of each GPU for weights, gradients and Adam's states, without "
        "activations"
    )
    if needed > place.memory_bytes:
        smaller = next(
            (
                scale.name
                for scale in reversed(scales.SCALES)
                if bytes_needed(request, scales.shape(model, scale)) <= place.memory_bytes * (1 - scales.SPARE)
            ),
            scales.SCALES[0].name,
        )
        divide = "take more GPUs"
        if request.num_gpus > request.tensor_model_parallel_size:
            divide = "divide the model (--tensor-model-parallel-size), take more GPUs"
        raise UsageError(
            f"{what}, and one has {gigabytes(place.memory_bytes / GB)}: {divide}, or --scale {smaller}",
            heading="model-too-large",
        )
    if needed > place.memory_bytes * (1 - scales.SPARE):
        return [
            f"{what}, of {gigabytes(place.memory_bytes / GB)}: less than {scales.SPARE:.0%} is left, it may run out"
        ]
    return []


def _duration(request: Request, shape: ModelConfig, place: Device) -> list[str]:
    """How long it will take, as far as that can be told before."""
    work = flops.flops_per_token(shape, request.sequence_length)
    device = hardware.short_name(place.device_name)
    gpu = next((each for each in hardware.gpus() if each.short_name == device), None)
    peak = gpu.peak_tflops(request.precision) if gpu is not None else None
    if work is None or peak is None:
        return []
    tokens = request.global_batch_size * request.sequence_length
    step = work * tokens / (peak * 1e12 * LIKELY_MFU * request.num_gpus)
    minutes = START_MINUTES + request.steps * step / 60
    limited = request.time_limit_s is not None and request.steps * step > request.time_limit_s
    if limited:
        minutes = START_MINUTES + (request.time_limit_s or 0.0) / 60
    return [
        f"expect about {minutes:.0f} minutes, of which {START_MINUTES:.0f} to start"
        + (", ended by the time limit" if limited else "")
        + f": at {LIKELY_MFU:.0%} of the peak a step takes {step:.2g} s"
    ]
