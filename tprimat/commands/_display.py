"""Text on the standard output, as wide and as colourful as it can take."""

from __future__ import annotations

import os
import shutil
import sys

from tprimat.text import for_encoding

WIDEST = 200
"""Columns; beyond, even a table of many sides is only air."""


def room() -> tuple[int, bool]:
    """Columns, and whether colour may be used."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return min(shutil.get_terminal_size().columns, WIDEST) if terminal else 80, color


def say(text: str) -> None:
    """Prints text in whatever encoding the output has."""
    print(for_encoding(text, sys.stdout.encoding).rstrip("\n"), flush=True)
