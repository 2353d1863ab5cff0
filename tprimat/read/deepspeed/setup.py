"""Setup values in DeepSpeed's own lines, in any log: its configuration and its launcher."""

from __future__ import annotations

import math
import re

from tprimat.read.parsing.options import COMPUTED, ECHOED
from tprimat.read.parsing.values import LoggedValues, count, read_statements, state, statements


def _strategy(stage: str) -> str:
    if stage.isdigit() and stage != "0":
        return f"DeepSpeed ZeRO stage {stage}"
    return "DeepSpeed"


def _precision(setting: str) -> str | None:
    if not setting.endswith(" True") and not re.search(r"\benabled=True\b", setting):
        return None
    if setting.startswith("b"):
        return "bf16"
    return "fp16"


def _product(sizes: str) -> int | None:
    return count(math.prod(int(size) for size in re.findall(r"=(\d+)", sizes)))


_CONFIG = r"\[config\.py:\d+:print\] +"
_STATEMENTS = statements(
    (
        "config.py:",
        count,
        COMPUTED,
        rf"{_CONFIG}(?:train_batch_size[ .]+(?P<global_batch_size>.{{1,200}})"
        r"|train_micro_batch_size_per_gpu[ .]+(?P<micro_batch_size>.{1,200})"
        r"|gradient_accumulation_steps[ .]+(?P<gradient_accumulation_steps>.{1,200})"
        # The number of ranks that share no layer: with pipeline or tensor parallelism it is not the
        # world size.
        r"|world_size[ .]+(?P<data_parallel_size>.{1,200}))$",
    ),
    (
        "config.py:",
        _precision,
        COMPUTED,
        (
            rf"{_CONFIG}(?P<precision>(?:fp16_enabled|b?float16_(?:enabled|config))["
            r" .]+.{1,200}?)\s*$"
        ),
    ),
    (
        "zero_o",
        _strategy,
        COMPUTED,
        rf"{_CONFIG}zero_optimization_stage[ .]+(?P<strategy_name>\S{{1,200}})\s*$",
    ),
    (
        "parameter_par",
        count,
        COMPUTED,
        r"\bdata_parallel_size: (?P<data_parallel_size>\d{1,7}), parameter_par",
    ),
    (
        "CONFIG: micro",
        count,
        COMPUTED,
        r"\bCONFIG: micro_batches=(?P<gradient_accumulation_steps>\d{1,9}) "
        r"micro_batch(?:_size=(?P<micro_batch_size>\d{1,9}))?",
    ),
    ("dist_world", count, COMPUTED, r"\bdist_world_size=(?P<num_gpus>\d{1,7})\b"),
    ("num_local", _product, ECHOED, r"\b(?P<num_gpus>nnodes=\d{1,6}, num_local_procs=\d{1,4})\b"),
    (
        "DeepSpeed info",
        str,
        COMPUTED,
        r"DeepSpeed info: version=(?P<deepspeed_version>[\w.+-]{1,40})",
    ),
    # BF16 has no dynamic loss scale.
    (
        "Attempted loss scale",
        lambda _: "fp16",
        ECHOED,
        r"\b(?P<precision>Skipping step\. Attempted loss scale): \d",
    ),
)


SIGNS = tuple({row.sign for row in _STATEMENTS})


def statements_in(text: str, number: int, stated: LoggedValues) -> None:
    """Add the statements of a line of DeepSpeed."""
    read_statements(_STATEMENTS, text[:10_000], number, stated)


def world_from_replicas(stated: LoggedValues) -> None:
    """State the number of GPUs if nothing but data parallelism spreads the work."""
    replicas = stated.get("data_parallel_size")
    split = any(stated.count(f"{kind}_model_parallel_size") for kind in ("tensor", "pipeline"))
    if replicas is not None and not split and stated.count("num_gpus") is None:
        state(stated, "num_gpus", replicas.value, replicas.text, replicas.line)
