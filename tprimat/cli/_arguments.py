"""The parser of all commands: what is wrong with the arguments is said as every other error is.

And the options that all of them have: how much is printed.
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from tprimat.cli._display import Verbosity
from tprimat.errors import UsageError

OF_TRAININGS = {
    "quiet": "print the paths of the results alone, a line each",
    "verbose": "print the commands that are started, versions, settings and every note too",
    "json": "print one document for a program: results with their figures, notes, exit status",
}
"""What the three options do in commands that train."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line.

    Args:
        hint: what else helps whoever typed it wrong; follows the message.
    """

    def __init__(self, *args: Any, hint: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._hint = f"{hint}; " if hint else ""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message} ({self._hint}{self.prog} --help says more)", heading="wrong-usage")


def add_output_options(parser: argparse.ArgumentParser, *, quiet: str, verbose: str, json: str) -> None:
    """Adds --quiet, --verbose and --json, of which one may be given.

    Args:
        parser: of the command.
        quiet: what the command prints then, as its help says it; so the others.
        verbose: see quiet.
        json: see quiet.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quiet", action="store_true", help=quiet)
    group.add_argument("--verbose", action="store_true", help=verbose)
    group.add_argument("--json", action="store_true", help=json)


def verbosity(options: argparse.Namespace) -> Verbosity:
    """How much is to be printed, of options that add_output_options() has added."""
    asked = (("quiet", Verbosity.QUIET), ("verbose", Verbosity.VERBOSE), ("json", Verbosity.JSON))
    return next((each for name, each in asked if getattr(options, name)), Verbosity.NORMAL)
