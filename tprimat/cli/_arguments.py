"""The output of a command: as much as its options request, with the outcome at its end."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tprimat import console
from tprimat.console import Verbosity

Main = Callable[[Any], int]
"""A command's main function, which takes the options from its parser."""


def prints_outcome(*lists: str) -> Callable[[Main], Main]:
    """Make the output of a command's main function obey --quiet, --verbose and --json, with its
    outcome last.

    `lists` are names of lists that are in the JSON document even if they are empty.
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
