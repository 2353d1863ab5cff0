"""Primus' back end torchtitan: its parameters under the names that Primus' Megatron has for the
same things.

    training:
      local_batch_size: 4        here micro_batch_size; on the command line --training.local_batch_size 4

As in Primus v26.2 to v26.5.1 and fd1eeabb (2026-08-22).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tprimat.results.fields import FieldValues
from tprimat.settings.rows import SETTINGS

NAME = "torchtitan"

PARAMETERS = {
    name: setting.megatron
    for setting in SETTINGS
    if setting.megatron
    for name in setting.torchtitan.split()
} | {
    "training.mock_data": "mock_data",
    "metrics.log_freq": "log_interval",
    "model.hf_assets_path": "tokenizer_model",
    "activation_checkpoint.mode": "recompute_granularity",
    "primus_turbo.enable_primus_turbo": "enable_primus_turbo",
    "primus_turbo.use_turbo_attention": "use_turbo_attention",
    "primus_turbo.use_turbo_grouped_mm": "use_turbo_grouped_gemm",
}

_REDUCED = {"bfloat16": "bf16", "float16": "fp16"}


def flat(values: FieldValues, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their dotted names."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def renamed(values: FieldValues) -> Iterator[tuple[str, Any]]:
    """Yield settings by the names that Primus' Megatron has for them; what has none there keeps its
    own.
    """
    for dotted, value in flat(values):
        name = PARAMETERS.get(dotted, dotted)
        if (name, value) == ("recompute_granularity", "none") or (
            name == "global_batch_size" and value == -1
        ):
            # No recomputation; as many sequences as the GPUs take at once.
            value = None
        yield name, value
        if dotted == "training.mixed_precision_param" and value in _REDUCED:
            yield _REDUCED[value], True
        if dotted == "model.converters":
            kinds = list(map(str, value or ()))
            is_mx = any(kind.endswith(".mx") for kind in kinds)
            is_fp8 = is_mx or any("float8" in kind for kind in kinds)
            yield "fp8", "hybrid" if is_fp8 else None
            yield "fp8_recipe", "mxfp8" if is_mx else None
