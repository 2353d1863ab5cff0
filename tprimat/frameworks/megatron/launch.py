"""The framework `megatron`: Megatron-LM's own pretrain_gpt.py, from the clone that MEGATRON_PATH names.

It trains on its own mock data, from weights of its own. What it prints is its result: the log is read.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import builtin_frameworks, external_frameworks, scales
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import building
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig
from tprimat.frameworks.resolve import default_precision
from tprimat.results.run import ModelConfig
from tprimat.units import GB, gigabytes

NAME = "megatron"
TITLE = "Megatron-LM"
VARIABLE = "MEGATRON_PATH"
SCRIPT = "pretrain_gpt.py"
PRECISIONS = ("fp32", "bf16", "fp16")

OWN_WAYS = (
    "Megatron trains on its own mock data and draws its own weights: its losses can't be set against those of the "
    "frameworks that share tokens and weights"
)


def unavailable() -> str | None:
    """Why it can't train here, and what to do."""
    return external_frameworks.unavailable(VARIABLE, TITLE, SCRIPT)


def resolve_config(
    name: str, wishes: RequestedConfig, place: Device, output_dir: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request with every choice made. Raises UsageError for wishes that can't be met."""
    external_frameworks.clone(VARIABLE, TITLE, SCRIPT)
    place, said = external_frameworks.on_gpus(place, wishes, TITLE)
    fitting = _scale(name, wishes, place)
    if wishes.scale is None and wishes.shape is None:
        wishes = dataclasses.replace(wishes, scale=fitting)
    # Its optimizer's states are divided over the GPUs, which the choices below know nothing of.
    shared = dataclasses.replace(place, memory_bytes=math.inf)
    request, notes = builtin_frameworks.settle_as(NAME, PRECISIONS)(name, wishes, shared, output_dir)
    return request, (*said, OWN_WAYS, *notes)


def bytes_per_parameter(precision: str, gpus: int) -> float:
    """Of weights, gradients and Adam's states on one GPU, with the states divided over all.

    As the guide to Megatron Core's distributed optimizer states them for fp32 and bf16; with fp16
    gradients it would be less.
    """
    return 8 + 8 / gpus if precision == "fp32" else 6 + 12 / gpus


def _scale(name: str, wishes: RequestedConfig, place: Device) -> str:
    """The largest that fits. Raises UsageError where a larger one is wished for."""
    if place.memory_bytes is None:
        return scales.SCALES[0].name
    model = models.by_name(name)
    each = bytes_per_parameter(wishes.precision or default_precision(place), wishes.num_gpus or place.devices)

    def needed(shape: ModelConfig) -> float:
        return each * (shape.num_parameters or scales.parameters(model, shape))

    room = place.memory_bytes * (1 - scales.SPARE)
    fitting = next((it for it in reversed(scales.SCALES) if needed(scales.shape(model, it)) <= room), scales.SCALES[0])
    wished = wishes.shape
    if wishes.scale in scales.names():
        wished = scales.shape(model, scales.by_name(wishes.scale or ""))
    if wished is not None and needed(wished) > place.memory_bytes:
        raise UsageError(
            f"{model.title} takes {gigabytes(needed(wished) / GB)} for weights, gradients and its share of Adam's "
            f"states, and a GPU here has {gigabytes(place.memory_bytes / GB)}: --scale {fitting.name} is the largest "
            "that fits",
            heading="model-too-large",
        )
    return fitting.name


def launch(request: Request) -> Launch:
    """Torchrun with Megatron's script, one process a GPU."""
    folder = external_frameworks.clone(VARIABLE, TITLE, SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.num_gpus}"]
    environment = {"PYTHONUNBUFFERED": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    return Launch((sys.executable, *launcher, SCRIPT, *options(request)), environment, folder)


def options(request: Request) -> list[str]:
    """Megatron's options for the training that all frameworks are given."""
    model = models.by_name(request.model)
    shape = request.shape or scales.shape(model, scales.by_name(request.scale))
    ours = building.hyperparameters(shape)
    settings: dict[str, object] = {
        **_sizes(shape),
        "seq-length": request.sequence_length,
        "max-position-embeddings": request.sequence_length,
        "norm-epsilon": model.settings["rms_norm_eps"],
        "rotary-base": f"{model.settings['rope_theta']:.0f}",
        "micro-batch-size": request.micro_batch_size,
        "global-batch-size": request.global_batch_size,
        "train-iters": request.steps,
        "seed": request.seed,
        "optimizer": "adam",  # Megatron's name for AdamW
        "lr": ours.learning_rate,
        "min-lr": ours.learning_rate,
        "lr-decay-style": "constant",
        "adam-beta1": ours.beta1,
        "adam-beta2": ours.beta2,
        "adam-eps": ours.epsilon,
        "weight-decay": ours.weight_decay,
        "clip-grad": ours.gradient_clipping,
        "attention-dropout": 0,
        "hidden-dropout": 0,
        "normalization": "RMSNorm",
        "position-embedding-type": "rope",
        "tokenizer-type": "NullTokenizer",
        "log-interval": 1,
        "eval-iters": 0,
    }
    if request.time_limit_s is not None:
        settings["exit-duration-in-mins"] = math.ceil(request.time_limit_s / 60)
    flags = [
        "swiglu",
        "group-query-attention",
        "disable-bias-linear",
        "mock-data",
        "log-throughput",
        "use-distributed-optimizer",
    ]
    if model.architecture == "Qwen2Config":
        flags.append("add-qkv-bias")
    if not shape.tie_word_embeddings:
        flags.append("untie-embeddings-and-output-weights")
    if request.precision != "fp32":
        flags.append(request.precision)
    return [*(f"--{flag}" for flag in flags), *(f"--{name}={value}" for name, value in settings.items())]


def _sizes(shape: ModelConfig) -> dict[str, object]:
    return {
        "num-layers": shape.num_layers,
        "hidden-size": shape.hidden_size,
        "ffn-hidden-size": shape.ffn_hidden_size,
        "num-attention-heads": shape.num_attention_heads,
        "num-query-groups": shape.num_query_groups,
        "kv-channels": shape.head_dim,
        # The null tokenizer adds one token for the end of a document.
        "vocab-size": (shape.vocab_size or 1) - 1,
        "make-vocab-size-divisible-by": 1,
    }


MEGATRON = Framework(
    NAME,
    unavailable,
    resolve_config,
    launch,
    automatic_on=(),
    precisions=PRECISIONS,
    plans_anywhere=True,
    data="mock",
    logged=True,
)
