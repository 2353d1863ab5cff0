"""Setup values in a NeMo log besides its training lines."""

from __future__ import annotations

import re
from typing import Any

from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.records import LogContext
from tprimat.read.parsing.text import without_prefixes
from tprimat.read.parsing.values import number, precision_of, read_statements, state, statements
from tprimat.settings.rows import SHAPE, by_key, names

LISTED, ECHOED, COMPUTED = 1, 2, 3

_COUNTED = {*SHAPE, "sequence_length", "micro_batch_size"} - {"vocab_size"}
_COUNTS = {name: field for name, field in names("megatron").items() if field in _COUNTED}
_COUNTS["encoder_seq_length"] = "sequence_length"
"""Settings as configurations print them, `name=8` or `'name': 8`, and their names here."""

_PARALLEL = (
    "tensor_model_parallel",
    "pipeline_model_parallel",
    "context_parallel",
    "expert_model_parallel",
)
_CONFIG = r"OptimizerConfig\(.{0,4000}?\b"
_OPTIONS = {
    name: field for name, field in names("megatron").items() if by_key(field).kind == "number"
}


def _product(allocated: str) -> int:
    nodes, devices = re.findall(r"^\d+|\d+(?=\]$)", allocated)
    return int(nodes) * int(devices)


_STATEMENTS = statements(
    ("processes", int, COMPUTED, r"\bStarting with (?P<num_gpus>\d{1,7}) processes"),
    ("MEMBER:", int, COMPUTED, r"\bMEMBER: \d{1,7}/(?P<num_gpus>\d{1,7})\b"),
    ("world_sizes", int, COMPUTED, r"\bglobal_world_sizes=\[(?P<num_gpus>\d{1,7})[,\]]"),
    # SkyPilot's queue: nodes × [device:number].
    ("x[", _product, LISTED, r"\b(?P<num_gpus>\d{1,5}x\[[A-Za-z][\w-]{1,30}:\d{1,5}\])"),
    ("x[", str, LISTED, r"\b\d{1,5}x\[(?P<device_name>[A-Za-z][\w-]{1,30}):\d{1,5}\]"),
    *(
        (name, int, ECHOED, rf"(?<![\w.]){name}['\"]?\s*[=:]\s*(?P<{field}>\d{{1,15}})\b")
        for name, field in _COUNTS.items()
    ),
    *(
        (kind, int, ECHOED, rf"\b{kind}(?:_size)?['\"]?\s*[=:]\s*(?P<{kind}_size>\d{{1,6}})\b")
        for kind in _PARALLEL
    ),
    ("max_steps", int, ECHOED, r"max_steps(?:'? \(| was set to |=|: )(?P<max_steps>\d{1,12})\b"),
    ("vocab_size", int, COMPUTED, r"Padded vocab_size: (?P<vocab_size>\d{1,9}),"),
    ("OptimizerConfig", str, ECHOED, rf"{_CONFIG}optimizer=['\"]?(?P<optimizer>[^,'\")\s]+)"),
    *(
        (
            name,
            number,
            ECHOED,
            rf"{_CONFIG}{name}=['\"]?(?P<{field}>[-+\d.eE]{{1,30}})(?![^,'\")\s])",
        )
        for name, field in _OPTIONS.items()
    ),
    ("", str, ECHOED, r"(?i:\bnemo[_-]toolkit[ =:v]+)(?P<nemo_version>[\d.]+\w*)"),
)
_GROUPS = re.compile(
    r"All (tensor model|pipeline model|context) parallel group ranks: (\[\[[\d, \[\]]+\]\])"
)
_PRECISION = re.compile(
    r"(?<![\w.])(bf16|fp16|fp8|fp8_recipe|precision)['\"]?\s*[=:]\s*['\"]?([\w.-]{1,30})"
)
_OF_RANK = re.compile(
    r"number of parameters on \(tensor, pipeline\) model parallel rank \((\d+) ?, ?(\d+)\):"
    r" (\d{1,15})"
)
SUCCESS = re.compile(r"`?Trainer\.fit`? stopped: `?max_(?:steps|epochs|time)")

SIGNS = (
    "processes", "MEMBER:", "world_sizes", "parallel", "seq_length", "_batch_size", "num_layers", "hidden_size",
    "num_attention_heads", "num_query_groups", "kv_channels", "bf16", "fp16", "fp8", "precision", "max_steps",
    "vocab_size", "OptimizerConfig", "x[", "nemo",
)  # fmt: skip
"""A line without any of these states nothing."""


def feed(line: int, text: str, around: LogContext) -> None:
    """Read a line that is no training line."""
    if "stopped:" in text and SUCCESS.search(text):
        around.marks["success"] = line
    if not has_sign(text, SIGNS):
        return
    text = text[:20_000]
    bare = without_prefixes(text)

    def add(name: str, value: Any, weight: int = ECHOED) -> None:
        state(around.stated, name, value, bare, line, weight)

    read_statements(_STATEMENTS, text, line, around.stated, bare)
    if groups := _GROUPS.search(text):
        _state_groups(groups[1], groups[2], add)
    for name, value in (
        _PRECISION.findall(text) if has_sign(text, ("recision", "fp8", "16")) else ()
    ):
        low = value.lower()
        if name == "precision":
            add("precision", precision_of(value))
        elif name in ("bf16", "fp16") and low == "true":
            add("precision", name)
        elif name == "fp8" and low not in ("none", "false", "null", "0"):
            add("precision", "fp8", COMPUTED)
            add("precision_detail", f"fp8 {value}", COMPUTED)
        elif low.startswith("mxfp8") and around.stated.value("precision") == "fp8":
            # Values of an fp8_recipe.
            add("precision", "mxfp8", COMPUTED + 1)
    for tensor, pipeline, parameters in _OF_RANK.findall(text):
        add(f"parameters of rank {int(tensor)}, {int(pipeline)}", int(parameters))


def _state_groups(kind: str, listed: str, add: Any) -> None:
    """State a parallel size, and the number of GPUs, from the ranks of the groups of a kind."""
    groups = re.findall(r"\[([\d, ]+)\]", listed)
    sizes = {group.count(",") + 1 for group in groups}
    if len(sizes) != 1:
        return
    size = sizes.pop()
    # One process of its own is in one group of each kind; that is a layout only for the layers.
    if len(groups) > 1 or size > 1 or kind == "tensor model":
        add(f"{kind.replace(' ', '_')}_parallel_size", size, COMPUTED)
    if kind == "tensor model":
        ranks = {rank.strip() for group in groups for rank in group.split(",")}
        add("num_gpus", len(ranks), ECHOED)
