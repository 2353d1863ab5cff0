"""NeMo's defaults and limits."""

from __future__ import annotations

import dataclasses
import math

from tprimat.analysis import flops
from tprimat.catalog import gpus, models
from tprimat.errors import UsageError
from tprimat.frameworks import resolve, scales
from tprimat.frameworks.nemo.defaults import (
    MICRO_BATCHES,
    PERFORMANCE,
    PRECISIONS,
    PRESETS,
    PUBLISHED,
    Defaults,
    choose,
)
from tprimat.frameworks.request import DEFAULT, MOCK, Request
from tprimat.frameworks.scales import Scale
from tprimat.machine.host import is_emulated
from tprimat.results.fields import FieldValues
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import DIVISION
from tprimat.text import counted
from tprimat.units import GB, gigabytes

CONNECTIONS = 32
"""What NVIDIA's scripts set as CUDA_DEVICE_MAX_CONNECTIONS from Blackwell on, 1 before."""

BYTES_PER_REPLICA, BYTES_SHARED = 6, 12
"""Per parameter: bf16 weights and fp32 gradients on each replica; fp32 weights and Adam's two fp32
states, which the distributed optimizer divides among the replicas."""

LIKELY_MFU = 0.4
"""Share of the peak that a training is expected to reach, for an estimate of its duration."""

START_MINUTES = 2.0
"""Importing NeMo, drawing the weights, the first step's compilation."""


class Resolver(resolve.Resolver):
    """The choices of NeMo: a published configuration for the GPU, or the recipe's own; those of
    Megatron-Bridge too.
    """

    row: Defaults
    title = "NeMo"
    full_size = True
    replica = "model replica"

    def prepare(self) -> None:
        """Refuse a CPU; find the preset and the GPU."""
        if self.device.platform == "cpu" and not is_emulated():
            raise UsageError(
                f"{self.title} needs a GPU, and PyTorch finds none",
                hint="to train on the CPU: ./benchmark.py chooses a framework that is installed",
                heading="nemo-needs-a-gpu",
            )
        self.preset = self.requested.preset or PERFORMANCE
        self.gpu = gpus.short_name(self.device.device_name) if self.device.device_name else None

    def default_precision(self) -> str:
        """Return that of the preset."""
        return PRECISIONS[self.preset]

    def size(self) -> tuple[Scale | None, ModelConfig]:
        """Return the scale and the shape; the full size also for one whose vocabulary Megatron has
        padded.
        """
        if (
            self.requested.scale is None
            and self.requested.shape is not None
            and models.with_shape(self.requested.shape) is self.model
        ):
            return self.default_scale(), self.model.shape
        return super().size()

    def choose_defaults(self, scale: Scale | None, precision: str) -> Defaults:
        """Return a row of nemo/defaults.py; that of a smaller model comes from its scale,
        undivided.
        """
        row = self.published(precision)
        if scale is None or scale.name != scales.FULL:
            scale = scale or self.default_scale()
            micro = scale.micro_batch_size
            length = scale.sequence_length
            source = f"the scale {scale.name}"
            batch = micro * scale.gradient_accumulation_steps
            row = Defaults(
                row.model, row.gpus, row.precisions, 1, 1, 1, 1, micro, batch, length, False, source
            )
        if row.note is not None:
            self.notes.append(f"{row.note} ({row.source})")
        elif row.source == self.preset:
            self.notes.append(f"defaults {self.preset}: {PRESETS[self.preset]}")
        else:
            self.notes.append(
                f"unset options{f' for {self.gpu}' if row.gpus else ''} come from {row.source}"
            )
        return row

    def published(self, precision: str) -> Defaults:
        """Return the configuration of the full-size model."""
        return choose(self.model.name, self.preset, self.gpu, precision)

    def default_batch(self, unit: int, gpus: int) -> int:
        """Return the row's global batch for this number of GPUs; without a preset by name at most
        MICRO_BATCHES.
        """
        batch = self.row.global_batch_size * (
            1 if self.row.num_gpus is None else gpus / self.row.num_gpus
        )
        published = max(1, round(batch / unit))
        if self.requested.preset is not None or published <= MICRO_BATCHES:
            return published * unit
        self.notes.append(
            f"{MICRO_BATCHES} micro-batches per step instead of {published}, so that enough steps"
            f" fit into some minutes: --preset {self.preset} keeps the global batch of"
            f" {published * unit}"
        )
        return MICRO_BATCHES * unit

    def divide(self, shape: ModelConfig, gpus: int) -> tuple[int, int, int]:
        """Return tensor, pipeline and context parallelism. What is requested stays; defaults shrink
        until they fit.
        """
        defaults = (self.row.tensor, self.row.pipeline, self.row.context)
        stated = [getattr(self.requested, name) for name in DIVISION]
        sizes = [size or own for size, own in zip(stated, defaults, strict=True)]
        before = ", ".join(map(str, sizes))
        # Context first: without it nothing is lost but memory.
        for index in (2, 1, 0):
            while stated[index] is None and sizes[index] > 1 and gpus % math.prod(sizes):
                sizes[index] //= 2
        tensor, pipeline, context = sizes
        if problem := self._problem(shape, gpus, tensor, pipeline, context):
            raise UsageError(problem, heading="nemo-parallelism")
        if before != ", ".join(map(str, sizes)):
            division = f"tensor {tensor}, pipeline {pipeline}, context {context}"
            self.notes.append(f"{counted(gpus, 'GPU')}: {division} parallel instead of {before}")
        return tensor, pipeline, context

    def _problem(
        self, shape: ModelConfig, gpus: int, tensor: int, pipeline: int, context: int
    ) -> str | None:
        """Return why a model can't be divided so."""
        product = tensor * pipeline * context
        if gpus % product:
            division = f"tensor {tensor} × pipeline {pipeline} × context {context}"
            return (
                f"{division} parallelism needs a multiple of {product} GPUs, but {gpus} were"
                " requested"
            )
        for size, count, what in (
            (tensor, shape.num_query_groups, "key/value heads"),
            (tensor, shape.num_attention_heads, "heads"),
            (pipeline, shape.num_layers, "layers"),
        ):
            if count is not None and count % size:
                return (
                    f"the model's {count} {what} cannot be divided by {size}: choose a divisor of"
                    f" {count}"
                )
        length = self.requested.sequence_length or self.row.sequence_length
        if context > 1 and length % (2 * context):
            multiple = f"it must be a multiple of {2 * context}"
            return (
                f"sequence length {length} cannot be shared by {context} GPUs (context parallel):"
                f" {multiple}"
            )
        return None

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Return the request with NeMo's own fields; refuse a training that doesn't fit in the
        memory.
        """
        smaller = self._check_memory(request, shape)
        if smaller is not None:
            origins = {**self.requested.origins, "scale": DEFAULT}
            self.requested = self.requested.but(scale=smaller.name, origins=origins)
            return self.resolve(request.output_dir)
        self._note_duration(request, shape)
        return dataclasses.replace(
            request,
            data=request.data or MOCK,
            cuda_graphs=self.row.cuda_graphs,
            vendor_settings=self.row in PUBLISHED,
            max_connections=CONNECTIONS if (self.capability or 0) >= resolve.BLACKWELL else 1,
        )

    def _check_memory(self, request: Request, shape: ModelConfig) -> Scale | None:
        """Return the scale to train instead if the memory can't hold a model whose scale the user
        left open.
        """
        memory = self.device.free_bytes
        if memory is None:
            if self.device.platform != "cpu":
                self.notes.append("the memory of a GPU here is unknown: it may run out")
            return None
        needed = bytes_needed(request, shape)
        what = (
            f"{self.model.title} takes {gigabytes(needed / GB)} of each GPU for weights, gradients"
            " and Adam's states, without activations"
        )
        if needed <= memory:
            self.note_tight(f"{what},", needed)
            return None
        problem = f"{what}; each has {gigabytes(memory / GB)} free"
        # A smaller model is divided only as the user requests.
        sizes: FieldValues = {name: getattr(self.requested, name) or 1 for name in DIVISION}
        undivided = dataclasses.replace(request, **sizes)
        smaller = scales.largest_that_fits(
            self.model, memory, lambda shape: bytes_needed(undivided, shape)
        )
        if self.requested.scale is None and self.requested.shape is None:
            self.notes[:] = [f"{problem}: scale {smaller.name} is trained, the largest that fits"]
            return smaller
        can_divide = request.num_gpus > request.tensor_model_parallel_size
        divide = "divide the model (--tensor-model-parallel-size), " if can_divide else ""
        raise UsageError(
            problem,
            hint=f"{divide}use more GPUs, or --scale {smaller.name}",
            heading="model-too-large",
        )

    def _note_duration(self, request: Request, shape: ModelConfig) -> None:
        """Note how long it will take, as far as that is known before."""
        work = flops.flops_per_token(shape, request.sequence_length)
        gpu = next((gpu for gpu in gpus.gpus() if gpu.short_name == self.gpu), None)
        peak = gpu.peak_tflops(request.precision) if gpu is not None else None
        if work is None or peak is None:
            return
        tokens = request.global_batch_size * request.sequence_length
        step_s = work * tokens / (peak * 1e12 * LIKELY_MFU * request.num_gpus)
        unlimited_s = request.steps * step_s
        if request.time_limit_s is None:
            training_s = unlimited_s
        else:
            training_s = min(unlimited_s, request.time_limit_s)
        ended = ", ended by the time limit" if training_s < unlimited_s else ""
        self.notes.append(
            f"estimated time: {START_MINUTES + training_s / 60:.0f} min ({START_MINUTES:.0f} min"
            f" start-up){ended}: at {LIKELY_MFU:.0%} of the peak a step takes {step_s:.2g} s"
        )


def bytes_needed(request: Request, shape: ModelConfig) -> float:
    """Return the memory of one GPU for weights, gradients and Adam's states, without
    activations.
    """
    share = (shape.num_parameters or 0) / (
        request.tensor_model_parallel_size * request.pipeline_model_parallel_size
    )
    return share * (
        BYTES_PER_REPLICA
        + BYTES_SHARED / (request.data_parallel_size * request.context_parallel_size)
    )
