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


def _options(read: Callable[[str], Any], same: str = "", **names: str) -> Options:
    """Return options whose values are read alike: those called as their field is, and others by field."""
    return {name: (field, read) for field, listed in names.items() for name in listed.split()} | {
        name: (name, read) for name in same.split()
    }


def _word(value: str) -> str | None:
    return value.rstrip("/") if re.search("[A-Za-z]", value) else None


def _name(value: str) -> str | None:
    return value if re.search("[A-Za-z]", value) and value.lower() not in ("null", "none", "true") else None


_ANYWHERE = (
    _options(
        count,
        "micro_batch_size gradient_accumulation_steps global_batch_size max_steps",
        sequence_length="max_seq_length seq_length block_size",
    )
    | _options(number, peak_learning_rate="learning_rate")
    | _options(lambda value: int(value) if re.fullmatch(r"\d{1,18}", value) else None, "seed")
)
_OPTIONS = (
    _ANYWHERE
    | _options(
        count,
        "logging_steps num_epochs",
        micro_batch_size="per_device_train_batch_size train_micro_batch_size_per_gpu",
        global_batch_size="train_batch_size global_train_batch_size",
        sequence_length="max_seq_len sequence_len cutoff_len",
        num_epochs="num_train_epochs",
    )
    | _options(_word, model="model_name_or_path base_model", schedule="lr_scheduler_type")
    | _options(number, "weight_decay", gradient_clipping="max_grad_norm")
    | _options(lambda value: "bf16" if value.lower() == "true" else None, precision="bf16")
    | _options(lambda value: "fp16" if value.lower() == "true" else None, precision="fp16")
    | _options(
        lambda value: {"true": "full", "false": "none"}.get(value.lower()), recomputation="gradient_checkpointing"
    )
    | _options(precision_of, weights_precision="torch_dtype")
)
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
    printed = _OPTION.findall(text) + [("--", name, "=", "true") for name in _SWITCH.findall(text)]
    for sign, name, between, value in printed:
        # A blank alone parts name and value on a command line only: prose has such pairs, too.
        if sign == "--" or (between.strip() and bare and name not in _DASHED_ONLY):
            field, read = _OPTIONS[name]
            state(stated, field, read(value), text, line, ECHOED)
    if processes := {name.replace("-", "_"): int(value) for name, value in _PROCESSES.findall(text)}:
        nodes = processes.get("nnodes", processes.get("num_nodes", 1))
        per_node = processes.get("nproc_per_node", processes.get("num_gpus", 0))
        state(stated, "num_gpus", count(processes.get("num_processes", per_node * nodes)), text, line, ECHOED)
    if listed := _NUM_PROCESSES.match(text):
        state(stated, "num_gpus", count(listed[1]), text, line, ECHOED)


_HPARAMS = (
    _ANYWHERE
    | _options(
        count,
        "sequence_length num_gpus devices num_nodes num_layers hidden_size num_attention_heads num_query_groups "
        "ffn_hidden_size vocab_size tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
        "expert_model_parallel_size",
        num_gpus="world_size",
        gradient_accumulation_steps="accumulate_grad_batches",
        devices="gpus_per_node",
    )
    | _options(_name, "model device_name", model="model_name", device_name="gpu_name")
    | _options(number, peak_learning_rate="lr")
)
_ROW = re.compile(r"^\s*(?:- )?['\"]?(\w{1,60})['\"]?:\s+['\"]?([^#'\"\n!&*{\[]{1,200}?)['\"]?\s*(?:#.*)?$")


_MODEL_CONFIG = _options(
    count,
    "hidden_size num_attention_heads vocab_size",
    num_layers="num_hidden_layers",
    num_query_groups="num_key_value_heads",
    ffn_hidden_size="intermediate_size",
) | _options(_name, model="_name_or_path")
"""Entries of a model's configuration in transformers."""


def state_config(config: Mapping[str, Any], stated: LoggedValues, source: str) -> None:
    """Add what an experiment tracker keeps of a training's configuration: of names and plain values, not nested ones.

    The same names within an object may be of something else: an evaluation, or the critic of a reinforcement learning.
    """
    per_device = "per_device_train_batch_size" in config
    known = {**_OPTIONS, **_HPARAMS, **_MODEL_CONFIG}
    own = LoggedValues()
    for name, value in config.items():
        # What transformers calls train_batch_size is of one process.
        if name in known and not (per_device and name == "train_batch_size"):
            field, read = known[name]
            state(own, field, read(str(value)), f"{source}: {name}: {value}", 1, ECHOED)
    state(own, "precision", precision_of(config.get("precision")), f"{source}: precision: {config.get('precision')}")
    if per_device:
        state(own, "only_data_parallel", True)
    stated.absorb(own)


def state_model_config(config: Mapping[str, Any], stated: LoggedValues) -> None:
    """Add the shape and the name in a configuration of transformers."""
    for name, (field, read) in _MODEL_CONFIG.items():
        state(stated, field, read(str(config.get(name))))


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
