"""Setup values in DeepSpeed's own lines, in any log: its configuration and its launcher."""

from __future__ import annotations

import re

from tprimat.read.parsing.options import COMPUTED, ECHOED
from tprimat.read.parsing.values import LoggedValues, count, state

_DUMPED = re.compile(
    r"\[config\.py:\d+:print\] +(train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|world_size"
    r"|fp16_enabled|bfloat16_enabled|float16_config|bfloat16_config|zero_optimization_stage|gradient_clipping)"
    r"[ .]+(.{1,200})$"
)
_REPLICAS = re.compile(r"\bdata_parallel_size: (\d{1,7}), parameter_parallel_size\b")
_PIPELINE = re.compile(r"\bCONFIG: micro_batches=(\d{1,9}) micro_batch_size=(\d{1,9})\b")
_WORLD = re.compile(r"\bdist_world_size=(\d{1,7})\b")
_LOCAL = re.compile(r"\bnnodes=(\d{1,6}), num_local_procs=(\d{1,4})\b")
_VERSION = re.compile(r"DeepSpeed info: version=([\w.+-]{1,40})")
_OVERFLOW = re.compile(r"\bOVERFLOW! Rank \d+ Skipping step\.")

_SIGNS = re.compile(r"config\.py:|data_parallel_size|CONFIG: micro|dist_world|num_local_procs|DeepSpeed info|OVERFLOW!")
_NAMES = {
    "train_batch_size": "global_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    # Of the ranks that share no layer: with pipeline or tensor parallelism it is not the world.
    "world_size": "data_parallel_size",
}


def statements_in(text: str, number: int, stated: LoggedValues) -> None:
    """Add what a line of DeepSpeed states."""
    text = text[:10_000]
    if not _SIGNS.search(text):
        return

    def add(name: str, value: object, weight: int = COMPUTED) -> None:
        state(stated, name, value, text, number, weight)

    if "OVERFLOW!" in text and _OVERFLOW.search(text):
        add("precision", "fp16", ECHOED)
        return
    if dumped := _DUMPED.search(text):
        name, value = dumped[1], dumped[2].strip()
        if name in _NAMES:
            add(_NAMES[name], count(value))
        elif name == "zero_optimization_stage":
            add("strategy_name", f"DeepSpeed ZeRO stage {value}" if value.isdigit() and value != "0" else "DeepSpeed")
        elif value == "True" or re.search(r"\benabled=True\b", value):
            add("precision", "bf16" if name.startswith("b") else "fp16")
    elif replicas := _REPLICAS.search(text):
        add("data_parallel_size", count(replicas[1]))
    elif pipeline := _PIPELINE.search(text):
        add("gradient_accumulation_steps", count(pipeline[1]))
        add("micro_batch_size", count(pipeline[2]))
    elif world := _WORLD.search(text):
        add("num_gpus", count(world[1]))
    elif local := _LOCAL.search(text):
        add("num_gpus", count(int(local[1]) * int(local[2])), ECHOED)
    elif version := _VERSION.search(text):
        add("deepspeed_version", version[1])


def world_from_replicas(stated: LoggedValues) -> None:
    """State the number of GPUs where nothing but data parallelism spreads the work."""
    replicas = stated.get("data_parallel_size")
    split = any(stated.count(f"{kind}_model_parallel_size") for kind in ("tensor", "pipeline"))
    if replicas is not None and not split and stated.count("num_gpus") is None:
        state(stated, "num_gpus", replicas.value, replicas.text, replicas.line)
