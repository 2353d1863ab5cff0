"""Options of training scripts as logs echo them (command lines, dumps of arguments, YAML, JSON), and hparams.yaml.

    --per_device_train_batch_size 8    per_device_train_batch_size=8,    "sequence_len": 4096,

Such an echo says what was asked for; what a framework says that it computed goes before it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from tprimat.read.parsing.values import LoggedValues, count, number, precision_of, state

ECHOED = 1
COMPUTED = 3

Options = dict[str, tuple[str, Callable[[str], Any]]]
"""Field and reading of its value, by the option's name."""


def _word(value: str) -> str | None:
    return value.rstrip("/") if re.search("[A-Za-z]", value) else None


_ANYWHERE: Options = {
    "micro_batch_size": ("micro_batch_size", count),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", count),
    "global_batch_size": ("global_batch_size", count),
    "max_seq_length": ("sequence_length", count),
    "seq_length": ("sequence_length", count),
    "block_size": ("sequence_length", count),
    "max_steps": ("max_steps", count),
    "learning_rate": ("peak_learning_rate", number),
    "seed": ("seed", lambda value: int(value) if re.fullmatch(r"\d{1,18}", value) else None),
}
_OPTIONS: Options = _ANYWHERE | {
    "per_device_train_batch_size": ("micro_batch_size", count),
    "train_micro_batch_size_per_gpu": ("micro_batch_size", count),
    "train_batch_size": ("global_batch_size", count),
    "global_train_batch_size": ("global_batch_size", count),
    "max_seq_len": ("sequence_length", count),
    "sequence_len": ("sequence_length", count),
    "cutoff_len": ("sequence_length", count),
    "logging_steps": ("logging_steps", count),
    "num_train_epochs": ("num_epochs", count),
    "num_epochs": ("num_epochs", count),
    "model_name_or_path": ("model", _word),
    "base_model": ("model", _word),
    "lr_scheduler_type": ("schedule", _word),
    "weight_decay": ("weight_decay", number),
    "max_grad_norm": ("gradient_clipping", number),
    "bf16": ("precision", lambda value: "bf16" if value.lower() == "true" else None),
    "fp16": ("precision", lambda value: "fp16" if value.lower() == "true" else None),
    "gradient_checkpointing": ("recomputation", lambda value: {"true": "full", "false": "none"}.get(value.lower())),
    "torch_dtype": ("weights_precision", precision_of),
}
_DASHED_ONLY = {"block_size"}
"""Names that configurations of other things have, too: DeepSpeed's asynchronous I/O has a block_size."""

_VALUE = r"""['"]?([^\s'",;)\]}]{1,200})"""
_OPTION = re.compile(rf"(--|['\"]|(?<![\w./-]))({'|'.join(_OPTIONS)})(['\"]?\s*[=:]\s*|\s+(?=[^-\s]))" + _VALUE)
_SWITCH = re.compile(r"--(bf16|fp16|gradient_checkpointing)(?=\s*(?:--|$|\\))")
_PROCESSES = re.compile(r"--(nproc[_-]per[_-]node|num_processes|num_gpus|nnodes|num_nodes)(?:=|\s+)(\d{1,7})\b")
_NUM_PROCESSES = re.compile(r"^\s*Num processes: (\d{1,7})\b")
_HINT = re.compile(r"batch_size|seq|block_size|cutoff_len|_steps|epochs|bf16|fp16|model|rate|seed|--n|Num proc|dtype")


@functools.lru_cache(maxsize=1)
def _is_hinted(text: str) -> bool:
    """Return whether a line may hold an option; cached, since several readers ask for each line."""
    return _HINT.search(text) is not None


def options_in(text: str, line: int, stated: LoggedValues, *, bare: bool = True) -> None:
    """Add the script options that a line echoes; with `bare`, `name: value` counts too and not only `--name value`."""
    text = text[:20_000]
    if not _is_hinted(text):
        return

    def add(name: str, value: str) -> None:
        field, read = _OPTIONS[name]
        state(stated, field, read(value), text, line, ECHOED)

    for sign, name, between, value in _OPTION.findall(text):
        # A blank alone parts name and value on a command line only: prose has such pairs, too.
        if sign == "--" or (between.strip() and bare and name not in _DASHED_ONLY):
            add(name, value)
    for name in _SWITCH.findall(text):
        add(name, "true")
    processes = {name.replace("-", "_"): int(value) for name, value in _PROCESSES.findall(text)}
    nodes = processes.get("nnodes", processes.get("num_nodes", 1))
    for name in ("num_processes", "nproc_per_node", "num_gpus"):
        if name in processes:
            world = processes[name] * (1 if name == "num_processes" else nodes)
            state(stated, "num_gpus", count(world), text, line, ECHOED)
            break
    if listed := _NUM_PROCESSES.match(text):
        state(stated, "num_gpus", count(listed[1]), text, line, ECHOED)


def _name(value: str) -> str | None:
    return value if re.search("[A-Za-z]", value) and value.lower() not in ("null", "none", "true") else None


_HPARAMS: Options = _ANYWHERE | {
    "sequence_length": ("sequence_length", count),
    "world_size": ("num_gpus", count),
    "num_gpus": ("num_gpus", count),
    "accumulate_grad_batches": ("gradient_accumulation_steps", count),
    "tensor_model_parallel_size": ("tensor_model_parallel_size", count),
    "pipeline_model_parallel_size": ("pipeline_model_parallel_size", count),
    "context_parallel_size": ("context_parallel_size", count),
    "expert_model_parallel_size": ("expert_model_parallel_size", count),
    "num_layers": ("num_layers", count),
    "hidden_size": ("hidden_size", count),
    "num_attention_heads": ("num_attention_heads", count),
    "num_query_groups": ("num_query_groups", count),
    "ffn_hidden_size": ("ffn_hidden_size", count),
    "vocab_size": ("vocab_size", count),
    "model_name": ("model", _name),
    "model": ("model", _name),
    "device_name": ("device_name", _name),
    "gpu_name": ("device_name", _name),
    "lr": ("peak_learning_rate", number),
    "devices": ("devices", count),
    "gpus_per_node": ("devices", count),
    "num_nodes": ("num_nodes", count),
}
_ROW = re.compile(r"^\s*(?:- )?['\"]?(\w{1,60})['\"]?:\s+['\"]?([^#'\"\n!&*{\[]{1,200}?)['\"]?\s*(?:#.*)?$")


def state_hparams(beside: Mapping[str, bytes], stated: LoggedValues) -> None:
    """Add the plain values of hparams.yaml, which Lightning's loggers leave beside their files.

    YAML as Lightning writes it: a name, a colon, a value, nested by blanks. What is more than that (tags of Python
    objects, lists) is skipped; nothing in the file is ever constructed. Earlier statements win.
    """
    own = LoggedValues()
    for number_of_line, line in enumerate(beside.get("hparams.yaml", b"").decode("utf-8", "replace").splitlines(), 1):
        row = _ROW.match(line[:500])
        if row is None:
            continue
        name, value = row[1], row[2].strip()
        text = f"hparams.yaml: {name}: {value}"
        if name == "precision":
            state(own, "precision", precision_of(value), text, number_of_line, 0)
            state(own, "precision_detail", value, text, number_of_line, 0)
        elif name in _HPARAMS:
            field, read = _HPARAMS[name]
            state(own, field, read(value), text, number_of_line, 0)
    devices, nodes = own.count("devices"), own.count("num_nodes") or 1
    own.pop("devices", None)
    own.pop("num_nodes", None)
    stated.absorb(own)
    if devices and stated.count("num_gpus") is None:
        state(stated, "num_gpus", devices * nodes, f"hparams.yaml: devices: {devices}, num_nodes: {nodes}")
