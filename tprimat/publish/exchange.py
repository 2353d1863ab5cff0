"""Replace a site by a new one. If a call is killed or runs out of space, the old site remains; the
files of two simultaneous calls don't mix.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.files import LOCK_NAME, locked, open_plain

STAGING = ".tprimat-site"
"""The directory within a site that has the new site until it is complete. Thus it is on the same
file system, even if the site is a mount point or the working directory.
"""

INDEX = "index.html"

_MARK = b'<meta name="generator" content="tprimat publish">'
_HEAD = 2000
"""Number of bytes at the beginning of a page that contain the mark of a site. No text of a result
can be the mark, since its < is escaped.
"""


def check(folder: Path) -> None:
    """Raise UsageError for a directory that has files, but neither a site nor the remains of a
    killed call.
    """
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else {STAGING}
    # A link leads out of the directory; no call makes a link of this name.
    has_staging = STAGING in names and not (folder / STAGING).is_symlink()
    if not has_staging and names - {LOCK_NAME} and not _is_page(folder / INDEX):
        raise UsageError(
            f"{folder}: not a site of tprimat publish",
            hint="choose an empty directory or an earlier site with --output-dir",
            heading="not-a-site",
        )


@contextlib.contextmanager
def exchanged(folder: Path) -> Iterator[Path]:
    """Yield a directory to write a site to; then replace the earlier site by it, and keep other
    files there.

    Raises UsageError for a directory that isn't a site, can't be written, or is being written by
    another program.
    """
    new = folder / STAGING / "new"
    old = folder / STAGING / "old"
    check(folder)
    try:
        with locked(folder):
            _restore(folder)
            check(folder)
            try:
                old.mkdir(parents=True)
                new.mkdir()
                yield new
                _keep(folder, new)
                # The page that makes it a site comes last: until then the old one can be restored.
                # Without one it comes first, and the next call knows the rest by it.
                has_old = os.path.lexists(folder / INDEX)
                for entry in sorted(
                    new.iterdir(), key=lambda path: (path.name == INDEX) == has_old
                ):
                    target = folder / entry.name
                    if entry.name != INDEX and os.path.lexists(target):
                        target.rename(old / entry.name)
                    entry.replace(target)
            finally:
                _restore(folder)
    except RecursionError:
        # Before Python 3.12, os.walk() and rmtree() recurse once for each level of directories.
        raise UsageError(
            f"{folder}: directories in it are nested too deeply",
            hint="choose another --output-dir",
            heading="not-a-site",
        ) from None


def _restore(folder: Path) -> None:
    """Put back what a killed or failed call moved, unless its site is complete; remove the rest."""
    new = folder / STAGING / "new"
    old = folder / STAGING / "old"
    if (folder / STAGING).is_symlink():
        (folder / STAGING).unlink()
    is_incomplete = (new / INDEX).exists()
    for entry in old.iterdir() if is_incomplete else ():
        target = folder / entry.name
        if os.path.lexists(target):
            target.rename(new / entry.name)
        entry.rename(target)
    shutil.rmtree(folder / STAGING, ignore_errors=True)


def _is_page(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            return _MARK in file.read(_HEAD)
    except OSError:
        return False


def _keep(folder: Path, new: Path) -> None:
    """Copy the files in the directories of a site that tprimat didn't write."""
    for top in new.iterdir():
        # A link leads out of the site.
        own = folder / top.name
        if not top.is_dir() or own.is_symlink():
            continue
        for current, names, files in os.walk(own):
            # A link to a directory is a file of the site, and isn't walked into.
            for path in (Path(current, name) for name in (*files, *names)):
                target = new / path.relative_to(folder)
                is_folder = path.is_dir() and not path.is_symlink()
                if not (is_folder or os.path.lexists(target) or _is_page(path)):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target, follow_symlinks=False)
