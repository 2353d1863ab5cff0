"""hparams.yaml, which Lightning's loggers leave beside their files: the plain values in it.

YAML as Lightning writes it: a name, a colon, a value, nested by blanks. What is more than that
(tags of Python objects, lists) is passed over; nothing in the file is ever constructed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tprimat.read.parsing.values import LoggedValues, count, number, precision_of, state

_ROW = re.compile(r"^\s*(?:- )?['\"]?(\w{1,60})['\"]?:\s+['\"]?([^#'\"\n!&*{\[]{1,200}?)['\"]?\s*(?:#.*)?$")

_COUNTS = {
    "global_batch_size": "global_batch_size",
    "micro_batch_size": "micro_batch_size",
    "seq_length": "sequence_length",
    "sequence_length": "sequence_length",
    "max_seq_length": "sequence_length",
    "block_size": "sequence_length",
    "world_size": "num_gpus",
    "num_gpus": "num_gpus",
    "max_steps": "max_steps",
    "accumulate_grad_batches": "gradient_accumulation_steps",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "tensor_model_parallel_size": "tensor_model_parallel_size",
    "pipeline_model_parallel_size": "pipeline_model_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "expert_model_parallel_size": "expert_model_parallel_size",
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups",
    "ffn_hidden_size": "ffn_hidden_size",
    "vocab_size": "vocab_size",
}
_WORDS = {"model_name": "model", "model": "model", "device_name": "device_name", "gpu_name": "device_name"}


def state_all(beside: Mapping[str, bytes], stated: LoggedValues) -> None:
    """Add what the files beside state; earlier statements win."""
    devices = nodes = None
    for line_number, line in enumerate(beside.get("hparams.yaml", b"").decode("utf-8", "replace").splitlines(), 1):
        row = _ROW.match(line[:500])
        if row is None:
            continue
        name, value = row[1], row[2].strip()
        text = f"hparams.yaml: {name}: {value}"
        if name in _COUNTS:
            state(stated, _COUNTS[name], count(value), text, line_number, 0)
        elif name in _WORDS and re.search("[A-Za-z]", value) and value.lower() not in ("null", "none", "true"):
            state(stated, _WORDS[name], value, text, line_number, 0)
        elif name == "precision":
            state(stated, "precision", precision_of(value), text, line_number, 0)
            state(stated, "precision_detail", value, text, line_number, 0)
        elif name == "seed" and value.isdigit():
            state(stated, "seed", int(value[:18]), text, line_number, 0)
        elif name in ("lr", "learning_rate"):
            state(stated, "peak_learning_rate", number(value), text, line_number, 0)
        elif name in ("devices", "gpus_per_node"):
            devices = count(value)
        elif name == "num_nodes":
            nodes = count(value)
    if devices and stated.count("num_gpus") is None:
        state(stated, "num_gpus", devices * (nodes or 1), f"hparams.yaml: devices: {devices}, num_nodes: {nodes or 1}")
