"""Locations of journals. Needs no packages, since every command looks there first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from tprimat.store.history import unfinished

JOURNALS = ".journal"
"""The directory, beside the results, of the journals of runs that are going on."""

DEFAULTS = ("output", "results")
"""Directories that commands work in if none is named."""


def with_journals(arguments: Iterable[str]) -> list[Path]:
    """Return the results directories, default ones and a command's arguments, with journals or
    unfinished files.
    """
    folders = {}
    for text in (*DEFAULTS, *arguments):
        name = text.partition("=")[2] if text.startswith("-") else text
        # What can't be looked at is the command's own matter.
        with contextlib.suppress(OSError, ValueError):
            path = Path(name)
            folder = path.parent if path.is_file() else path
            if name and folder.is_dir():
                # One directory a machine is how people collect results. What a link leads to wasn't
                # named.
                below = (
                    each for each in folder.glob(f"*/{JOURNALS}") if not each.parent.is_symlink()
                )
                journals = []
                for each in (folder / JOURNALS, *below):
                    if each.is_dir() and not each.is_symlink():
                        journals.append(each)
                folders.update(
                    dict.fromkeys(each.parent for each in (*journals, *unfinished(folder)))
                )
    return list(folders)
