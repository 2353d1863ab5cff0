"""Shared by the commands that print a document."""

from __future__ import annotations

import argparse

from tprimat import console
from tprimat.console import Verbosity
from tprimat.report import terminal
from tprimat.report.blocks import Document


def show(document: Document, arguments: argparse.Namespace, *, narrowest: int = 0) -> None:
    """Print as much of a document as --quiet and --verbose say, in at least so many columns."""
    verbosity = Verbosity.QUIET if arguments.quiet else Verbosity.VERBOSE if arguments.verbose else Verbosity.NORMAL
    width, color = console.terminal_size()
    console.echo(terminal.write(document, width=max(width, narrowest), color=color, verbosity=verbosity))
