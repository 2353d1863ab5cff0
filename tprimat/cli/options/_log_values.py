"""The options for values that a log doesn't state, shared by the commands that read logs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tprimat.cli.options._parser import Options, Parser
from tprimat.cli.options._training import at_least
from tprimat.settings import Setting
from tprimat.settings.rows import SETTINGS

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "mxfp8", "mxfp4", "nvfp4")


def add_mapping(parser: Parser) -> None:
    """Add the options for reading logs in unknown formats."""
    parser.option("--columns MAP", "read any CSV or JSON lines, e.g. step=iter,time=step_time_s")
    parser.option(
        "--pattern TEXT", "read any text log, e.g. 'step {step} .* {time}ms .* loss {loss}'"
    )


def add_as_read(parser: Parser) -> None:
    """Add the option that confirms what is assumed of a log of no known format."""
    parser.option("--as-read", "confirm what is assumed of the lines of an unknown log")


def add_log_values(parser: Parser, *, precision: bool = True) -> None:
    """Add the options; each takes a value for all logs, or FILE=VALUE, and may be repeated.

    Args:
        parser: of a command.
        precision: whether --precision belongs to them; `compare` has its own.
    """
    group = parser.add_argument_group(
        "values missing in logs: VALUE for all, FILE=VALUE for some (repeatable)"
    )
    for setting in SETTINGS:
        if setting.log_flag and (precision or setting.key != "precision"):
            _add(group, setting)
    group.option("--override", "use these options instead of values from the log")


def _add(group: Options, setting: Setting) -> None:
    name = setting.log_flag.partition(" ")[0]
    kinds: dict[str, Callable[[str], Any]] = {
        "count": at_least(1),
        "word": _precision,
        "name": str,
        "file": _shape,
    }
    read = kinds[setting.kind]

    def by_file(word: str) -> tuple[str, str, Any]:
        file, _, value = word.rpartition("=")
        return file, name, read(value)

    text = setting.log_help.format(", ".join(PRECISIONS))
    group.option(setting.log_flag, text, action="append", type=by_file, dest="log_values")


def _shape(path: str) -> Any:
    from tprimat.catalog import shapes

    return shapes.of_file(path)


def _precision(text: str) -> str:
    if text.lower() not in PRECISIONS:
        raise argparse.ArgumentTypeError(
            f"unknown precision {text!r}; choose from {', '.join(PRECISIONS)}"
        )
    return text.lower()
