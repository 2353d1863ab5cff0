"""Runs of recorders that are still going on, in a directory of results: their journals show how far
they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tprimat.record import recovery
from tprimat.record.folders import JOURNALS
from tprimat.record.journal import SUFFIX
from tprimat.results.run import Run


def journals(folder: Path) -> list[Path]:
    """Return the journals of running trainings in a directory."""
    return sorted(
        folder / JOURNALS / name for name in recovery.names(folder) if name.endswith(SUFFIX)
    )


def going_on(folder: Path) -> Iterator[tuple[Path, Run]]:
    """Yield each journal in a directory with its run so far."""
    for path in journals(folder):
        # It was removed just now, or something else lies there.
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if (run := recovery.so_far(path)) is not None:
                yield path, run
