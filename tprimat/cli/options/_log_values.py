"""The options for what a log leaves open, shared by the commands that read logs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tprimat.cli.options._parser import Parser, option
from tprimat.cli.options._training import at_least

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "mxfp8", "mxfp4", "nvfp4")


def add_log_values(parser: Parser, *, precision: bool = True) -> None:
    """Add the options; each takes a value for all logs, or FILE=VALUE, and may be repeated.

    Args:
        parser: of a command.
        precision: whether --precision belongs to them; `compare` has its own.
    """
    title = "values missing in logs: VALUE for all, FILE=VALUE for some (repeatable)"
    group = parser.add_argument_group(title)
    _add(group, "--gpu", "GPU", "the GPU, such as H100 or MI300X", str)
    _add(group, "--num-gpus", "N", "the number of GPUs", at_least(1))
    _add(group, "--model-name", "M", "the model", str)
    if precision:
        _add(group, "--precision", "P", f"the precision: {', '.join(PRECISIONS)}", _precision)
    _add(group, "--global-batch-size", "B", "sequences per optimizer step", at_least(1))
    _add(group, "--sequence-length", "S", "tokens per sequence", at_least(1))
    option(group, "--override", "use these options instead of values from the log")


def _add(group: argparse._ActionsContainer, name: str, metavar: str, text: str, read: Callable[[str], Any]) -> None:
    def by_file(word: str) -> tuple[str, str, Any]:
        file, _, value = word.rpartition("=")
        return file, name, read(value)

    option(group, f"{name} {metavar}", text, action="append", type=by_file, dest="log_values")


def _precision(text: str) -> str:
    if text.lower() not in PRECISIONS:
        raise argparse.ArgumentTypeError(f"unknown precision {text!r}; choose from {', '.join(PRECISIONS)}")
    return text.lower()
