"""Where the reports of a comparison go: next to those of other comparisons, never replacing
them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tprimat.files import read_plain
from tprimat.report import FORMATS

MOST_REPORTS = 1000
"""Most reports of different comparisons in a directory; beyond that, the last one is replaced."""


def hashes_of(names: Sequence[str], folder: str) -> list[list[str]]:
    """Return hashes for the inputs of a report in a folder: for each path, those of the path and of
    the directories that contain it.
    """
    paths = [Path(link(Path(name), Path(folder))) for name in names]
    return [
        [sha256(os.fsencode(directory)).hexdigest()[:16] for directory in (path, *path.parents)]
        for path in paths
    ]


def free_number(folder: Path, inputs: Sequence[Sequence[str]]) -> int:
    """Return the number for a report in a directory, so that it replaces no report of another
    comparison.
    """
    for number in range(1, MOST_REPORTS):
        pages = [numbered(folder / name, number) for name in FORMATS]
        if not any(page.exists() for page in pages) or _is_of(pages[0], inputs):
            return number
    return MOST_REPORTS


def _is_of(page: Path, inputs: Sequence[Sequence[str]]) -> bool:
    """Return whether a report in Markdown states that each of its inputs is one of these, or in a
    directory of these.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, IndexError):
        mark = read_plain(page).decode("utf-8", "replace").rpartition("<!-- compared: ")[2]
        earlier = json.loads(mark.partition(" -->")[0])["inputs"]
        return not any({*places}.isdisjoint(own[0] for own in inputs) for places in earlier)
    return False


def numbered(path: Path, number: int) -> Path:
    """Return the file of a report with this number: the first one has none in its name."""
    if number == 1:
        return path
    return path.with_name(f"{path.stem}_{number}{path.suffix}")


def link(plot: Path, folder: Path) -> str:
    """Return the path of a plot for a link from a report in a folder."""
    try:
        return Path(os.path.relpath(plot, folder)).as_posix()
    except ValueError:
        # On Windows there is no relative path from one drive to another.
        return plot.resolve().as_uri()
