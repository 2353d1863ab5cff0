"""Defaults and limits of a framework.

Every refusal comes before anything starts, and names the nearest value that would do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tprimat.catalog import gpus
from tprimat.catalog.models import Model
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, scales
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import BUILT_IN_CHOICES, USER, Device, Request, RequestedConfig
from tprimat.frameworks.scales import Scale
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import DIVISION
from tprimat.text import counted
from tprimat.units import GB, gigabytes

BLACKWELL = 100
FIRST_WITH = {"fp8": 89, "mxfp8": BLACKWELL, "nvfp4": BLACKWELL}
"""Compute capability × 10: NVIDIA GPUs before sm_89 (Ada) have no fp8 matrix units, those before
Blackwell no block scaling.
"""

_FIELDS = {field.name for field in dataclasses.fields(Request) if field.compare}


class Resolver:
    """Resolves the settings of one training; frameworks override methods.

    Attributes:
        requested, device: what the user asked for, and what trains; prepare() may replace them.
        row: where micro-batch and sequence length come from if the user leaves them open: of
            choose_defaults().
        full_size: whether the model is trained at full size if the user leaves its scale open.
        compiles: whether torch.compile makes the training's kernels on a GPU.
        finds_micro_batch: whether it takes the largest micro-batch that fits a GPU: it calls
            loops/compile_and_fit.py.
        replica: what messages call a replica of the model.
        notes: what the user should know of the choices.
    """

    row: Any
    full_size = False
    compiles = False
    finds_micro_batch = False
    replica = "process"

    def __init__(
        self, framework: Framework, model: Model, requested: RequestedConfig, device: Device
    ) -> None:
        self.framework = framework
        self.model = model
        if requested.scale == scales.LARGEST and self.full_size:
            # Full size, or the largest that fits, is what such a framework trains by default.
            requested = requested.but(scale=None)
        self.requested = requested
        self.device = device
        self.notes: list[str] = []

    def resolve(self, output_dir: Path) -> Request:
        """Return the request with every choice made. Raises UsageError if the framework can't train
        that.
        """
        self.prepare()
        self.check_embedded()
        precision = self.precision()
        scale, shape = self.size()
        self.row = self.choose_defaults(scale, precision)
        gpus, nodes = self.processes()
        tensor, pipeline, context = self.divide(shape, gpus)
        micro, batch = self.batch(gpus // (tensor * pipeline * context), gpus)
        on_cpu = self.device.platform == "cpu" and self.framework.on_cpu
        stated = {}
        origins = {}
        for name, value in vars(self.requested).items():
            if value is not None and name in _FIELDS:
                stated[name] = value
                origins[name] = self.requested.origins.get(name, USER)
        choices = {
            "steps": defaults.STEPS_ON_CPU if on_cpu else defaults.STEPS_ON_GPU,
            "sequence_length": self.row.sequence_length,
            "seed": defaults.SEED,
            **stated,
            "framework": self.framework.name,
            "platform": self.device.platform,
            "model": self.model.name,
            "scale": scale.name if scale is not None else scales.OTHER,
            "precision": precision,
            "global_batch_size": batch,
            "micro_batch_size": micro,
            "num_gpus": gpus,
            "output_dir": output_dir,
            "shape": shape if scale is None else None,
            "num_nodes": nodes,
            **dict(zip(DIVISION, (tensor, pipeline, context), strict=True)),
            "compiled": self.compiles and not on_cpu and not self.requested.eager,
            "finds_micro_batch": (
                self.finds_micro_batch and not on_cpu and self.requested.micro_batch_size is None
            ),
            "origins": origins,
        }
        return self.complete(Request(**choices), shape)

    def check_embedded(self) -> None:
        """Raise UsageError if a setting that the built-in frameworks alone take was requested of
        another one.
        """
        name = next(
            (name for name in BUILT_IN_CHOICES if getattr(self.requested, name) is not None), None
        )
        if name is not None and not self.framework.embedded:
            raise UsageError(
                f"{self.framework.name} does not support --{name}; its own configuration sets it",
                hint=(
                    f"remove --{name}, or choose a built-in framework; tprimat doctor lists what"
                    " can train here"
                ),
                heading="tuning",
            )

    def prepare(self) -> None:
        """Refuse what this framework can't train at all."""

    def show_for_gpus(self, title: str) -> None:
        """Make the choices for NVIDIA's GPUs if there are none."""
        if self.device.platform == "cpu":
            number = self.requested.num_gpus or 1
            there = f"{title} needs a GPU, and this machine has none"
            self.notes.append(f"{there}; this dry run is for {number} of NVIDIA's")
            self.device = Device("nvd", number, None)

    def default_precision(self) -> str:
        """Return the precision if the user leaves it open: the only one, or that of the device."""
        if len(self.framework.precisions) == 1:
            return self.framework.precisions[0]
        return defaults.precision(self.device)

    def precision(self) -> str:
        """Return the precision. Raises UsageError for one that the framework doesn't train in."""
        precision = self.requested.precision or self.default_precision()
        architecture = self.device.architecture
        first = FIRST_WITH.get(precision, 0)
        if precision not in self.framework.precisions:
            problem = f"{self.framework.name} does not support {precision} here"
            hint = f"available: {', '.join(self.framework.precisions)}"
        elif self.device.platform == "cpu" and precision == "fp16":
            problem = "FP16 needs a GPU"
            hint = "on a CPU use --precision fp32 or bf16"
        elif self.capability is not None and self.capability < first:
            problem = (
                f"{precision.upper()} needs a GPU of sm_{first} or newer, this one is"
                f" {architecture}"
            )
            hint = "use --precision bf16"
        elif precision == "mxfp8" and (architecture or "").startswith(gpus.OWN_FP8):
            problem = f"MXFP8 needs a GPU of gfx950 or newer, this one is {architecture}"
            hint = "use --precision fp8 or bf16"
        else:
            return precision
        raise UsageError(problem, hint=hint, heading="precision")

    @property
    def capability(self) -> int | None:
        """Compute capability × 10 of an NVIDIA GPU; None if it is unknown."""
        version = (self.device.architecture or "").removeprefix("sm_").rstrip("abcdef")
        if self.device.platform == "nvd" and version.isdigit():
            return int(version)
        return None

    def size(self) -> tuple[Scale | None, ModelConfig]:
        """Return the scale, or None for a requested shape that no scale gives; and the shape."""
        name = self.requested.scale
        shape = self.requested.shape
        if name is None and shape is not None:
            scale = scales.of_shape(self.model, shape)
            if scale is None:
                return None, shape.but(num_parameters=scales.parameters(self.model, shape))
        else:
            if name == scales.LARGEST:
                scale = self.largest_that_fits()
            elif name:
                scale = scales.by_name(name)
            else:
                scale = self.default_scale()
        return scale, scales.shape(self.model, scale)

    def default_scale(self) -> Scale:
        """Return the size if the user leaves it open: one for all GPUs that hold it, the smallest
        for a CPU.
        """
        if self.full_size:
            return scales.by_name(scales.FULL)
        if self.device.platform == "cpu":
            # What fits into its memory would take minutes a step.
            return scales.SCALES[0]
        common = scales.by_name(scales.COMMON)
        largest = self.largest_that_fits()
        needed = self.bytes_needed(scales.shape(self.model, common))
        if scales.SCALES.index(largest) >= scales.SCALES.index(common) or self.recomputes(needed):
            return common
        if self.device.free_bytes is not None:
            self.notes.append(
                f"scale {largest.name} is trained: {self.model.title} at {common.name}, the default"
                f" on larger GPUs, takes {gigabytes(needed / GB)} before activations; this GPU has"
                f" {gigabytes(self.device.free_bytes / GB)} free"
            )
        return largest

    @property
    def gpus(self) -> int:
        """Processes that train, on all machines."""
        on_each = 1 if self.device.platform == "cpu" else self.device.devices
        return self.requested.num_gpus or on_each * (self.requested.num_nodes or 1)

    def recomputes(self, needed: float) -> bool:
        """Return whether a model that takes a number of bytes of a GPU, without activations, can
        recompute these to fit.
        """
        room = (self.device.free_bytes or 0.0) * (1 - scales.LEAST_SPARE)
        return self.finds_micro_batch and self.device.platform != "cpu" and needed <= room

    def bytes_per_parameter(self) -> float:
        """Return the memory of one GPU for weights, gradients and the optimizer's states, without
        activations.

        Products in half precision take copies of the weights: half_linear's, or autocast's until
            the backward pass.
        """
        has_copies = self.device.platform != "cpu" and self.precision() in ("bf16", "fp16")
        return scales.BYTES_PER_PARAMETER + 2 * has_copies

    def bytes_needed(self, shape: ModelConfig) -> float:
        """Return what a model takes of one GPU, without activations."""
        return self.bytes_per_parameter() * scales.parameters(self.model, shape)

    def largest_that_fits(self) -> Scale:
        """Return the largest scale that fits into a GPU; the smallest if none does."""
        return scales.largest_that_fits(
            self.model, self.device.free_bytes or 0.0, self.bytes_needed
        )

    def choose_defaults(self, scale: Scale | None, precision: str) -> Any:
        """Return the row with the defaults of micro_batch_size and sequence_length."""
        return scale or scales.SCALES[0]

    def default_batch(self, unit: int, gpus: int) -> int:
        """Return the global batch if the user leaves it open: a multiple of unit."""
        return unit * int(self.row.gradient_accumulation_steps)

    def processes(self) -> tuple[int, int]:
        """Return how many processes train, and on how many machines."""
        nodes = self.requested.num_nodes or 1
        check_nodes(self.gpus, nodes)
        if self.device.platform != "cpu" or self.framework.on_cpu:
            check_processes(self.gpus // nodes, self.device)
        return self.gpus, nodes

    def divide(self, shape: ModelConfig, gpus: int) -> tuple[int, int, int]:
        """Return tensor, pipeline and context parallelism."""
        return 1, 1, 1

    def batch(self, replicas: int, gpus: int) -> tuple[int, int]:
        """Return micro and global batch size; the one that is given decides the other."""
        batch = self.requested.global_batch_size
        micro = self.requested.micro_batch_size
        if micro is None:
            micro = int(self.row.micro_batch_size)
            if batch is not None:
                # The largest micro-batch that divides the requested global one.
                share = batch // replicas
                micro = next(
                    (size for size in range(min(micro, share), 0, -1) if share % size == 0), 1
                )
        if batch is None:
            batch = self.default_batch(micro * replicas, gpus)
        check_batch(batch, micro, replicas, self.replica)
        return micro, batch

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Return the request with the framework's own fields; refuse what the memory can't hold."""
        if self.device.free_bytes is None:
            if request.scale == scales.SCALES[0].name:
                effect = f"scale {request.scale} is used"
            else:
                effect = "it may run out"
            self.notes.append(f"the memory of the device is unknown: {effect}")
            return request
        if request.shape is None:
            named = f"{self.model.title} at scale {request.scale}"
        else:
            named = f"the matched shape of {self.model.title}"
        needed = self.bytes_needed(shape)
        self.note_tight(check_memory(named, needed, self.device, self.advise_scale), needed)
        size = request.micro_batch_size
        length = request.sequence_length
        # Two bytes per value. Neither sharded weights nor recomputed activations make it smaller.
        output = 2.0 * size * length * (shape.hidden_size or 0) / request.context_parallel_size
        named = f"a micro-batch of {size} × {length} tokens"
        advice = "use a smaller micro-batch or --sequence-length"
        check_memory(named, output, self.device, lambda: advice, "the output of one layer")
        return request

    def advise_scale(self) -> str:
        """Return what to do if the model is too large."""
        largest = self.largest_that_fits()
        free = self.device.free_bytes or 0.0
        if self.bytes_needed(scales.shape(self.model, largest)) > free:
            return "no scale fits; tprimat gpu-memory lists the processes that hold memory"
        sharded = scales.bytes_sharded(self.gpus) * scales.parameters(self.model, self.size()[1])
        fits = (
            self.device.platform != "cpu" and self.gpus > 1 and sharded <= free * (1 - scales.SPARE)
        )
        shard = f"--framework fsdp shards it over {self.gpus} GPUs, " if fits else ""
        return f"{shard}--scale {largest.name} is the largest that fits"

    def note_tight(self, what: str, needed: float) -> None:
        """Add a note if memory suffices and may run out all the same."""
        memory = self.device.free_bytes or 0.0
        if needed > memory * (1 - scales.SPARE):
            if self.recomputes(needed):
                effect = "activations are recomputed if they don't fit"
            else:
                effect = "it may run out"
            self.notes.append(
                f"{what} of {gigabytes(memory / GB)}: less than {scales.SPARE:.0%} is left,"
                f" {effect}"
            )


def check_nodes(gpus: int, nodes: int) -> None:
    """Raise UsageError if machines can't have as many GPUs each."""
    if gpus % nodes:
        raise UsageError(
            f"{gpus} GPUs cannot be divided evenly among {nodes} nodes", heading="several-nodes"
        )


def check_processes(processes: int, device: Device) -> None:
    """Raise UsageError if a machine hasn't a GPU, or a processor core, for each process."""
    number = device.devices
    if processes > number:
        if device.platform == "cpu":
            there = f"{counted(number, 'CPU core')} for its processes"
        else:
            there = counted(number, "GPU")
        raise UsageError(
            f"--gpus {processes}: this machine has {there}: --gpus {number} is the most",
            heading="too-many-gpus",
        )


_STATES = "weights, gradients and AdamW's states"


def check_memory(
    named: str, needed: float, device: Device, advice: Callable[[], str], use: str = _STATES
) -> str:
    """Return what a model takes, in words. Raises UsageError if the device is known to have less.

    `needed` are bytes of one GPU, or of the machine on a CPU, without activations; `advice` returns
    what would fit.
    """
    what = f"{named} takes {gigabytes(needed / GB)} for {use}"
    if device.free_bytes is not None and needed > device.free_bytes:
        has = gigabytes(device.free_bytes / GB)
        if device.platform == "cpu":
            there = f"this machine has {has}"
        else:
            there = f"a GPU here has {has} free"
        raise UsageError(f"{what}, and {there}: {advice()}", heading="model-too-large")
    return what


def check_batch(batch: int, micro: int, replicas: int, replica: str = "replica") -> None:
    """Raise UsageError if a global batch is no multiple of its replicas' micro-batches."""
    unit = micro * replicas
    if batch % unit:
        below = batch // unit * unit
        above = -(-batch // unit) * unit
        nearest = f"the nearest are {below} and {above}" if below else f"the smallest is {above}"
        raise UsageError(
            f"global batch size {batch} is not a multiple of {unit} (micro-batch {micro} × "
            f"{counted(replicas, replica)}): {nearest}",
            heading="batch-sizes",
        )
