"""The argument parser of all commands, and the options that all of them have."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from tprimat.errors import UsageError

OF_TRAININGS = {
    "quiet": "print the paths of the results alone, a line each",
    "verbose": "print the commands that are started, versions, settings and every note too",
    "json": "print one document for a program: results with their figures, notes, exit status",
}
"""What the three options do in commands that train."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageErrors.

    Args:
        hint: appended to the error message.
    """

    def __init__(self, *args: Any, hint: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._hint = f"{hint}; " if hint else ""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep the words as `argv`."""
        options = super().parse_args(args, namespace)
        options.argv = tuple(sys.argv[1:] if args is None else args)
        return options

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message} ({self._hint}{self.prog} --help says more)", heading="wrong-usage")


class PassingParser(Parser):
    """A parser that keeps what follows -- as `passed`, for another program."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words before --."""
        words = list(sys.argv[1:] if args is None else args)
        cut = words.index("--") if "--" in words else len(words)
        options = super().parse_args(words[:cut], namespace)
        options.passed = tuple(words[cut + 1 :])
        return options


def program(script_free: str) -> str:
    """Return what the usage line calls this program: the script's name, or `tprimat COMMAND`."""
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2]
    return name if name not in ("tprimat", "__main__.py") else f"tprimat {script_free}"


def add_output_options(parser: argparse.ArgumentParser, *, quiet: str, verbose: str, json: str) -> None:
    """Add --quiet, --verbose and --json, of which one may be given.

    Args:
        parser: of the command.
        quiet: help text.
        verbose: see quiet.
        json: see quiet.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quiet", action="store_true", help=quiet)
    group.add_argument("--verbose", action="store_true", help=verbose)
    group.add_argument("--json", action="store_true", help=json)
