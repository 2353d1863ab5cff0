"""The files of an earlier tool: fields, vocabulary and file names. legacy_results.py makes a Run of
it.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Annotated, Any, NamedTuple

import msgspec

from tprimat.catalog import models
from tprimat.results.account import Timing
from tprimat.results.fields import LARGEST_COUNT, StepTime
from tprimat.results.run import Platform, SoftwareStack

PLATFORMS: dict[str, Platform] = {
    **dict.fromkeys(("nvd", "nvidia", "cuda"), "nvd"),
    **dict.fromkeys(("amd", "rocm"), "amd"),
    "cpu": "cpu",
}
STACKS: dict[str, SoftwareStack] = {
    "cuda": "cuda",
    "nemo": "cuda",
    "rocm": "rocm",
    "prim": "rocm",
    "cpu": "cpu",
}
FRAMEWORKS = {
    name[:4]: name for name in ("nemo", "primus", "megatron", "transformers", "deepspeed", "fsdp")
}
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4")
UNKNOWN_WORDS = ("", "unknown", "none", "n/a", "null")

INVENTED_DEVICE = "(from log)"
"""End of the device name that was written, with a card's constants, if torch was missing."""

CALLBACK_TIMING = Timing(
    kind="timer",
    clock="host clock (time.time)",
    covers=(
        "one batch from its start hook to its end hook, the GPU synchronized at both; "
        "not the wait for data or the time between batches"
    ),
)
LOG_TIMING = Timing(
    kind="timer",
    clock=(
        "host clock at Megatron's interval timer, after a barrier of all ranks and a device"
        " synchronize"
    ),
    covers=(
        "data wait, forward and backward of all micro-batches, gradient reduction and optimizer; "
        "not evaluation and checkpoints"
    ),
    over_ranks="all ranks meet at the timer's barrier; the last rank prints",
)
"""In the words of read/megatron: the timer is the same, and checks compare the words."""

_Integer = Annotated[int, msgspec.Meta(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]

_TEXTS = ("name", "stack", "version", "precision", "strategy")
"""Ends of the names of fields that are texts; amounts end in _gb, and all others are whole numbers.
"""


def _group(name: str, fields: str) -> tuple[str, Any, Any]:
    """Return a field that is a group of others, None if a form lacks one; one of a wrong type is an
    error.
    """
    kinds = {}
    for field in fields.split():
        kinds[field] = (
            str if field.endswith(_TEXTS) else float if field.endswith("_gb") else _Integer
        )
    group = msgspec.defstruct(name, [(field, kind | None, None) for field, kind in kinds.items()])
    return name, group, msgspec.field(default_factory=group)


_SERIES = {
    **dict.fromkeys(("step_times", "raw_step_times"), list[StepTime]),
    **dict.fromkeys(("loss_values", "raw_loss_values", "learning_rates"), list[float | None]),
}

Result: Any = msgspec.defstruct(
    "Result",
    [
        *(
            (name, str | None, None)
            for name in ("platform", "framework", "model", "source", "timestamp")
        ),
        # Memory of one device, as torch or a table stated it.
        _group(
            "gpu_info",
            "device_name device_count total_memory_gb gpu_cores software_stack software_version"
            " cuda_version rocm_version pytorch_version",
        ),
        _group(
            "training_config",
            "max_steps global_batch_size micro_batch_size sequence_length num_gpus precision"
            " parallel_strategy",
        ),
        # Megatron's names; only in the February form.
        _group(
            "parallelism_config",
            "strategy_name tensor_model_parallel_size pipeline_model_parallel_size"
            " context_parallel_size expert_model_parallel_size data_parallel_size"
            " gradient_accumulation_steps",
        ),
        # On NVIDIA read from torch at the ends of steps; on AMD what a Primus log prints for the
        # whole device.
        _group(
            "memory_metrics",
            "avg_memory_allocated_gb peak_memory_allocated_gb avg_memory_reserved_gb"
            " peak_memory_reserved_gb",
        ),
        ("performance_metrics", dict[str, Any], msgspec.field(default_factory=dict)),
        *((name, kind, msgspec.field(default_factory=list)) for name, kind in _SERIES.items()),
    ],
)
"""A file: fields of all forms, since each has only some."""


class Named(NamedTuple):
    """Facts from a file's name."""

    platform: Platform | None = None
    framework: str | None = None
    model: str | None = None


PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
_PLATFORM = "|".join(PLATFORMS)
_TRAIN_NAME = re.compile(
    rf"(?:({_PLATFORM})_)?train_(?:({_PLATFORM})_)?({'|'.join(FRAMEWORKS)})_(.+)"
)
_BENCHMARK_NAME = re.compile(r"benchmark_(cuda|rocm|cpu)_(.+)")
_TIME_OF_WRITING = re.compile(r"\d{8}_\d{6}")
_COMMIT_OR_COPY = re.compile(r"(-(?=[a-f]*\d)[0-9a-f]{7,40})?( ?\(\d+\))?$")


def from_name(name: str) -> Named:
    """Return the values in the name of a file, except the commit hash and the "(1)" of a copy."""
    stem = _COMMIT_OR_COPY.sub("", name.removesuffix(".json"), count=1)
    if match := _TRAIN_NAME.fullmatch(stem):
        before, platform, framework, model = match.groups()
        return Named(
            PLATFORMS.get(platform or before or ""), FRAMEWORKS[framework], model_name(model)
        )
    if match := _BENCHMARK_NAME.fullmatch(stem):
        platform, model = match.groups()
        if _TIME_OF_WRITING.fullmatch(model):
            return Named(PLATFORMS[platform])
        # Names with a model are of the time when NVIDIA was measured through NeMo and AMD through
        # Primus.
        return Named(
            PLATFORMS[platform], {"cuda": "nemo", "rocm": "primus"}.get(platform), model_name(model)
        )
    return Named()


def model_name(text: str) -> str | None:
    """Return a model under the name of its row, or as it is written; None if it is no name."""
    if not PLAIN.fullmatch(text):
        return None
    model = models.recognize(text)
    if model:
        return model.name
    return text.lower()


def parse(content: bytes) -> Any:
    """Return JSON as Python values, with the NaN and Infinity that Python writes and JSON hasn't.

    Raises msgspec.DecodeError if it is not JSON.
    """
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        if re.search(rb"\b(NaN|Infinity)\b", content) is None:
            raise
        # If something else is wrong too, msgspec's error states the byte.
        with contextlib.suppress(ValueError):
            return json.loads(content)
        raise
