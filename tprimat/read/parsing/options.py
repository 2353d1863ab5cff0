"""Options of training scripts as logs echo them: command lines, dumps of arguments, YAML and JSON.

    --per_device_train_batch_size 8    per_device_train_batch_size=8,    "sequence_len": 4096,

Such an echo says what was asked for; what a framework says that it computed goes before it.
"""

from __future__ import annotations

import re

from tprimat.read.parsing.values import LoggedValues, count, number, precision_of, state

ECHOED = 1
COMPUTED = 3

_COUNTS = {
    "per_device_train_batch_size": "micro_batch_size",
    "micro_batch_size": "micro_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "train_batch_size": "global_batch_size",
    "global_batch_size": "global_batch_size",
    "global_train_batch_size": "global_batch_size",
    "max_seq_len": "sequence_length",
    "max_seq_length": "sequence_length",
    "sequence_len": "sequence_length",
    "block_size": "sequence_length",
    "cutoff_len": "sequence_length",
    "seq_length": "sequence_length",
    "max_steps": "max_steps",
    "logging_steps": "logging_steps",
    "num_train_epochs": "num_epochs",
    "num_epochs": "num_epochs",
}
_WORDS = {
    "model_name_or_path": "model",
    "base_model": "model",
    "lr_scheduler_type": "schedule",
}
_NUMBERS = {"learning_rate": "peak_learning_rate", "weight_decay": "weight_decay", "max_grad_norm": "gradient_clipping"}
_SWITCHES = ("bf16", "fp16", "gradient_checkpointing")
_DASHED_ONLY = {"block_size"}
"""Names that configurations of other things have, too: DeepSpeed's asynchronous I/O has a block_size."""

_NAMES = (*_COUNTS, *_WORDS, *_NUMBERS, *_SWITCHES, "seed", "torch_dtype")

_VALUE = r"""['"]?([^\s'",;)\]}]{1,200})"""
_OPTION = re.compile(rf"(--|['\"]|(?<![\w./-]))({'|'.join(_NAMES)})(['\"]?\s*[=:]\s*|\s+(?=[^-\s]))" + _VALUE)
_SWITCH = re.compile(r"--(bf16|fp16|gradient_checkpointing)(?=\s*(?:--|$|\\))")
_PROCESSES = re.compile(r"--(nproc[_-]per[_-]node|num_processes|num_gpus|nnodes|num_nodes)(?:=|\s+)(\d{1,7})\b")
_NUM_PROCESSES = re.compile(r"^\s*Num processes: (\d{1,7})\b")
_HINT = re.compile(r"batch_size|seq|block_size|cutoff_len|_steps|epochs|bf16|fp16|model|rate|seed|--n|Num proc|dtype")


_last_asked: tuple[str, bool] = ("", False)


def _hinted(text: str) -> bool:
    """Return whether a line may hold an option; cached, since several readers ask for each line."""
    global _last_asked
    if text is not _last_asked[0]:
        _last_asked = (text, _HINT.search(text) is not None)
    return _last_asked[1]


def options_in(text: str, number_of_line: int, stated: LoggedValues, *, bare: bool = True) -> None:
    """Add the script options that a line echoes.

    Args:
        text: the line.
        number_of_line: its number.
        stated: gets the statements.
        bare: whether `name: value` counts too, and not only `--name value`.
    """
    text = text[:20_000]
    if not _hinted(text):
        return

    def add(name: str, value: object) -> None:
        state(stated, name, value, text, number_of_line, ECHOED)

    for sign, name, between, value in _OPTION.findall(text):
        dashed = sign == "--"
        # A blank alone parts name and value on a command line only: prose has such pairs, too.
        if not dashed and (not between.strip() or not bare or name in _DASHED_ONLY):
            continue
        if name in _COUNTS:
            add(_COUNTS[name], count(value))
        elif name in _NUMBERS:
            add(_NUMBERS[name], number(value))
        elif name in _WORDS:
            add(_WORDS[name], value.rstrip("/") if re.search(r"[A-Za-z]", value) else None)
        elif name in ("bf16", "fp16"):
            if value.lower() in ("true", "auto"):
                add("precision", name if value.lower() == "true" else None)
        elif name == "gradient_checkpointing":
            known = {"true": "full", "false": "none"}
            add("recomputation", known.get(value.lower()))
        elif name == "torch_dtype":
            add("weights_precision", precision_of(value))
        elif name == "seed" and re.fullmatch(r"\d{1,18}", value):
            add("seed", int(value))
    for name in _SWITCH.findall(text):
        add(*(("recomputation", "full") if name == "gradient_checkpointing" else ("precision", name)))
    found = {name.replace("-", "_"): int(value) for name, value in _PROCESSES.findall(text)}
    nodes = found.get("nnodes", found.get("num_nodes", 1))
    for name in ("num_processes", "nproc_per_node", "num_gpus"):
        if name in found:
            add("num_gpus", count(found[name] * (1 if name == "num_processes" else nodes)))
            break
    if processes := _NUM_PROCESSES.match(text):
        add("num_gpus", count(processes[1]))
