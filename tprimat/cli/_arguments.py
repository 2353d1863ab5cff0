"""Output options of a command: how much it prints."""

from __future__ import annotations

import argparse
import contextlib
import importlib
from typing import Any

from tprimat import console
from tprimat.console import Output, Verbosity


def verbosity(options: argparse.Namespace) -> Verbosity:
    """Return how much to print, from the options that add_output_options() adds."""
    levels = (("quiet", Verbosity.QUIET), ("verbose", Verbosity.VERBOSE), ("json", Verbosity.JSON))
    return next((each for name, each in levels if getattr(options, name)), Verbosity.NORMAL)


def capture_output(options: argparse.Namespace, **values: Any) -> contextlib.AbstractContextManager[Output]:
    """Make everything that is printed follow the options; the reports write the document for a program.

    Args:
        options: of the command.
        values: initial contents of the JSON document.
    """
    # report/ is loaded for --json alone.
    return console.capture_output(
        verbosity(options), lambda: importlib.import_module("tprimat.report.json_values"), **values
    )
