"""Directories of results: replaced ones in history/, leftovers of killed writers, and all files but
these.
"""

from __future__ import annotations

import datetime
import filecmp
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tprimat import files

HISTORY = "history"
TRIALS = "autotune"
"""Directory of the trials of --tune, which are no results to compare."""

UNFINISHED = ".result.part"
"""Ending of a result on its way to disk; written under the lock alone."""


def files_below(folder: Path, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the files in a directory and below, by name; hidden ones, history/ and autotune/ are
    skipped.

    A link to a directory is followed once, unless it leads to one of its parents.
    """
    roots = [os.path.realpath(folder)]

    def is_new(path: Path) -> bool:
        if path.is_symlink():
            real = Path(os.path.realpath(path))
            folder = Path(os.path.realpath(path.parent))
            if folder.is_relative_to(real) or any(map(real.is_relative_to, roots)):
                return False
            roots.append(str(real))
        return True

    left = [folder]
    while left:
        # One directory at a time: before Python 3.12 os.walk() calls itself for each one that lies
        # in another.
        for parent, folders, names in itertools.islice(os.walk(left.pop(), onerror=on_error), 1):
            shown = sorted(
                name
                for name in folders
                if name not in (HISTORY, TRIALS) and not name.startswith(".")
            )
            left += reversed([path for name in shown if is_new(path := Path(parent, name))])
            yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def keep_in_history(path: Path) -> Path:
    """Link a result under a second name in history/, so that it may be replaced under its own.
    Return that name.
    """
    stem = f"{path.stem}_{datetime.datetime.fromtimestamp(path.stat().st_mtime):%Y%m%d_%H%M%S}"
    target = path.parent / HISTORY / f"{stem}.json"
    target.parent.mkdir(exist_ok=True)
    number = 1
    while target.exists():
        # It is there already if a program was killed between this and the replacing.
        if filecmp.cmp(path, target, shallow=False):
            return target
        number += 1
        target = target.with_name(f"{stem}_{number}.json")
    try:
        os.link(os.path.realpath(path), target)
    except OSError:
        # FAT knows no second names, nor does any system across its borders.
        with files.write_temp_beside(target, path.read_bytes(), UNFINISHED) as whole:
            shutil.copystat(path, whole)
            os.replace(whole, target)
    return target


def clear_unfinished(folder: Path) -> None:
    """Remove what killed writers have left behind. Raises OSError or UsageError if it can't."""
    if unfinished(folder):
        with files.lock_folder(folder):
            remove_unfinished(folder)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers have left behind. Takes the lock of the directory, which a writer
    holds, as given.
    """
    for left in (*unfinished(folder), *unfinished(folder / HISTORY)):
        left.unlink(missing_ok=True)


def unfinished(folder: Path) -> list[Path]:
    """Return what killed writers have left in a directory; nothing of one that is a link in a
    directory of results.
    """
    if folder.name == HISTORY and folder.is_symlink():
        return []
    files = []
    for file in folder.glob(f".*{UNFINISHED}"):
        if file.is_file() and not file.is_symlink():
            files.append(file)
    return files
