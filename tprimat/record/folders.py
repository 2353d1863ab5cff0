"""Locations of journals. Needs no packages, since every command looks there first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

JOURNALS = ".journal"
"""The folder, beside the results, of the journals of trainings that are going on."""

DEFAULTS = ("output", "results")
"""Folders that commands work in where none is named."""


def with_journals(arguments: Iterable[str]) -> list[Path]:
    """Return the results folders with journals: default ones, and those among a command's arguments."""
    folders: dict[Path, None] = {}
    for text in (*DEFAULTS, *arguments):
        name = text.partition("=")[2] if text.startswith("-") else text
        # What can't be looked at is the command's own matter.
        with contextlib.suppress(OSError, ValueError):
            path = Path(name)
            folder = path.parent if path.is_file() else path
            if name and folder.is_dir():
                # One folder a machine is how people collect results.
                journals = (folder / JOURNALS, *folder.glob(f"*/{JOURNALS}"))
                folders.update(dict.fromkeys(each.parent for each in journals if each.is_dir()))
    return list(folders)
