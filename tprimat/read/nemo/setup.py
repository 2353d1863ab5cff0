"""Setup values in a NeMo log besides its training lines."""

from __future__ import annotations

import re
from typing import Any

from tprimat.read.parsing.records import LogContext
from tprimat.read.parsing.text import without_prefixes
from tprimat.read.parsing.values import state

LISTED, ECHOED, COMPUTED = 1, 2, 3

_WORLD = (
    re.compile(r"\bStarting with (\d{1,7}) processes"),
    re.compile(r"\bMEMBER: \d{1,7}/(\d{1,7})\b"),
    re.compile(r"\bglobal_world_sizes=\[(\d{1,7})[,\]]"),
)
_ALLOCATED = re.compile(r"\b(\d{1,5})x\[([A-Za-z][\w-]{1,30}):(\d{1,5})\]")
_GROUPS = re.compile(r"All (tensor model|pipeline model|context) parallel group ranks: (\[\[[\d, \[\]]+\]\])")
_SIZES = re.compile(
    r"\b(tensor_model_parallel|pipeline_model_parallel|context_parallel|expert_model_parallel)(?:_size)?['\"]?"
    r"\s*[=:]\s*(\d{1,6})\b"
)
_FIELDS = re.compile(
    r"(?<![\w.])(seq_length|encoder_seq_length|micro_batch_size|num_layers|hidden_size|ffn_hidden_size|"
    r"num_attention_heads|num_query_groups|kv_channels)['\"]?\s*[=:]\s*(\d{1,15})\b"
)
_FIELD_NAMES = {
    "seq_length": "sequence_length",
    "encoder_seq_length": "sequence_length",
    "kv_channels": "head_dim",
}
_PRECISION = re.compile(
    r"(?<![\w.])(bf16|fp16|fp8|fp8_recipe|precision|fp8_hybrid)['\"]?\s*[=:]\s*['\"]?([\w.-]{1,30})"
)
_MAX_STEPS = re.compile(r"max_steps(?:'? \(| was set to |=|: )(\d{1,12})\b")
_PADDED = re.compile(r"Padded vocab_size: (\d{1,9}),")
_OF_RANK = re.compile(
    r"number of parameters on \(tensor, pipeline\) model parallel rank \((\d+) ?, ?(\d+)\): (\d{1,15})"
)
_OPTIMIZER = re.compile(r"OptimizerConfig\((.{1,4000})")
_OPTION = re.compile(r"\b(optimizer|lr|weight_decay|adam_beta1|adam_beta2|adam_eps|clip_grad)=['\"]?([^,'\")\s]+)")
_OPTIONS = {
    "lr": "peak_learning_rate",
    "weight_decay": "weight_decay",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "adam_eps": "epsilon",
    "clip_grad": "gradient_clipping",
}
_VERSION = re.compile(r"\bnemo[_-]toolkit[ =:v]+([\d.]+\w*)", re.IGNORECASE)
SUCCESS = re.compile(r"`?Trainer\.fit`? stopped: `?max_(?:steps|epochs|time)")

SIGNS = (
    "processes", "MEMBER:", "world_sizes", "parallel", "seq_length", "_batch_size", "num_layers", "hidden_size",
    "num_attention_heads", "num_query_groups", "kv_channels", "bf16", "fp16", "fp8", "precision", "max_steps",
    "vocab_size", "OptimizerConfig", "x[", "nemo",
)  # fmt: skip
"""A line without any of these states nothing."""


def feed(number: int, text: str, around: LogContext) -> None:
    """Read a line that is no training line."""
    if "stopped:" in text and SUCCESS.search(text):
        around.marks["success"] = number
    for sign in SIGNS:
        if sign in text:
            break
    else:
        return
    text = text[:20_000]
    bare = without_prefixes(text)

    def add(name: str, value: Any, weight: int = ECHOED) -> None:
        state(around.stated, name, value, bare, number, weight)

    for pattern in _WORLD:
        if world := pattern.search(text):
            add("num_gpus", int(world[1]), COMPUTED)
    if allocated := _ALLOCATED.search(text):
        # SkyPilot's queue: nodes × [device:number].
        add("num_gpus", int(allocated[1]) * int(allocated[3]), LISTED)
        add("device_name", allocated[2], LISTED)
    if groups := _GROUPS.search(text):
        _say_groups(groups[1], groups[2], add)
    for name, size in _SIZES.findall(text):
        add(f"{name}_size", int(size), ECHOED)
    for name, value in _FIELDS.findall(text):
        add(_FIELD_NAMES.get(name, name), int(value))
    if "recision" in text or "fp8" in text or "16" in text:
        _say_precision(text, add, around)
    if steps := _MAX_STEPS.search(text):
        add("max_steps", int(steps[1]))
    if padded := _PADDED.search(text):
        add("vocab_size", int(padded[1]), COMPUTED)
    if ranks := _OF_RANK.findall(text):
        for tensor, pipeline, count in ranks:
            add(f"parameters of rank {int(tensor)}, {int(pipeline)}", int(count))
    if options := _OPTIMIZER.search(text):
        for name, value in _OPTION.findall(options[1]):
            if name == "optimizer":
                add("optimizer", value)
            elif re.fullmatch(r"[-+\d.eE]{1,30}", value):
                try:
                    add(_OPTIONS[name], float(value))
                except ValueError:
                    continue
    if version := _VERSION.search(text):
        add("nemo_version", version[1])


def _say_groups(kind: str, listed: str, add: Any) -> None:
    groups = re.findall(r"\[([\d, ]+)\]", listed)
    sizes = {group.count(",") + 1 for group in groups}
    if len(sizes) != 1:
        return
    (size,) = sizes
    # One process of its own is in one group of each kind; that is a layout only for the layers.
    if len(groups) > 1 or size > 1 or kind == "tensor model":
        add(f"{kind.replace(' ', '_')}_parallel_size", size, COMPUTED)
    if kind == "tensor model":
        add("num_gpus", len({rank.strip() for group in groups for rank in group.split(",")}), ECHOED)


def _say_precision(text: str, add: Any, around: LogContext) -> None:
    for name, value in _PRECISION.findall(text):
        low = value.lower()
        if name in ("fp8", "fp8_hybrid") and low not in ("none", "false", "null", "0"):
            if name == "fp8_hybrid":
                continue
            add("precision", "fp8", COMPUTED)
            add("precision_detail", f"fp8 {value}", COMPUTED)
        elif name == "fp8_recipe" and low.startswith("mxfp8") and around.stated.value("precision") == "fp8":
            add("precision", "mxfp8", COMPUTED + 1)
        elif name in ("bf16", "fp16") and low == "true":
            add("precision", name)
        elif name == "precision":
            known = {"bf16": "bf16", "bf16-mixed": "bf16", "16-mixed": "fp16", "32": "fp32", "32-true": "fp32"}
            add("precision", known.get(low))
