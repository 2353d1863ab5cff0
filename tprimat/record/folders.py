"""Locations of journals. Needs no packages, since every command looks there first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from tprimat.store.history import unfinished

JOURNALS = ".journal"
"""The directory, next to the results, with the journals of running trainings."""

DEFAULTS = ("output", "results")
"""Directories that commands work in if none is named."""


def with_journals(named: Iterable[Path]) -> list[Path]:
    """Return the results directories with journals or unfinished files: of the default ones and
    those that a command names, itself or by a file in it.
    """
    folders: dict[Path, None] = {}
    for path in (*map(Path, DEFAULTS), *named):
        # What can't be looked at is the command's own matter.
        with contextlib.suppress(OSError, ValueError):
            folder = path.parent if path.is_file() else path
            if not folder.is_dir():
                continue
            # One directory a machine is how people collect results. What a link leads to wasn't
            # named.
            below = [path for path in folder.glob(f"*/{JOURNALS}") if not path.parent.is_symlink()]
            for journals in (folder / JOURNALS, *below):
                if journals.is_dir() and not journals.is_symlink():
                    folders[journals.parent] = None
            for file in unfinished(folder):
                folders[file.parent] = None
    return list(folders)
