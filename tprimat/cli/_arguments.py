"""The output of a command: as much as its options say, and its outcome at its end."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tprimat import console
from tprimat.console import Verbosity

Main = Callable[[Any], int]
"""A command's main, which takes the options that its parser makes."""


def prints_outcome(*lists: str) -> Callable[[Main], Main]:
    """Make all that a command's main prints follow --quiet, --verbose and --json, and its outcome
    come last.

    The `lists` are names in the JSON document that are there even if nothing is added to them.
    """

    def decorate(main: Main) -> Main:
        @functools.wraps(main)
        def wrapped(options: Any) -> int:
            levels = {
                "quiet": Verbosity.QUIET,
                "verbose": Verbosity.VERBOSE,
                "json": Verbosity.JSON,
            }
            level = next(
                (level for name, level in levels.items() if getattr(options, name)),
                Verbosity.NORMAL,
            )
            values: dict[str, list[object]] = {name: [] for name in lists}
            # report/ is loaded for --json alone.
            encoder = functools.partial(importlib.import_module, "tprimat.report.json_values")
            with console.capture_output(level, encoder, **values) as output:
                return output.finish(main(options))

        return wrapped

    return decorate
