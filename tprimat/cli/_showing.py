"""Shared by the commands that print a document: the terminal and the plot."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tprimat import console
from tprimat.console import Verbosity
from tprimat.errors import UsageError
from tprimat.report import plot, terminal
from tprimat.report.blocks import Document
from tprimat.report.verdict import Report

PLOT_ENDINGS = (".png", ".svg", ".pdf")


def show(document: Document, arguments: argparse.Namespace, *, narrowest: int = 0) -> None:
    """Print as much of a document as --quiet and --verbose request, at least `narrowest` characters
    wide.
    """
    if arguments.quiet:
        verbosity = Verbosity.QUIET
    elif arguments.verbose:
        verbosity = Verbosity.VERBOSE
    else:
        verbosity = Verbosity.NORMAL
    width, color = console.terminal_size()
    console.echo(
        terminal.write(document, width=max(width, narrowest), color=color, verbosity=verbosity)
    )


def plot_path(folder: Path, name: str) -> Path:
    """Return the path of the plot of this name: in `folder`, unless the name has a directory.
    Raises UsageError for a wrong name.
    """
    path = Path(name)
    path = path.with_name(path.name + ".png") if path.name and not path.suffix else path
    if path.suffix.lower() not in PLOT_ENDINGS:
        raise UsageError(
            f"--output: {name!r} is not a plot file",
            hint=f"use a name that ends in {', '.join(PLOT_ENDINGS)}",
            heading="wrong-usage",
        )
    return path if os.path.dirname(name) else folder / path  # noqa: PTH120, ./plot.png has a directory


def draw(report: Report, path: Path, layout: plot.Layout = "standard") -> bytes | None:
    """Return the plot; None, with one line on standard error, if matplotlib is missing."""
    try:
        return plot.render(report, form=path.suffix.lower().removeprefix("."), layout=layout)
    except plot.NoMatplotlibError as error:
        console.error(f"no plot: {error}")
        return None
