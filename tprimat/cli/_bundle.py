"""Write a bundle for a command, and say so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tprimat.cli import _display
from tprimat.log_import.bundle import check, write

__all__ = ["check", "write_bundle"]


def write_bundle(path: Path, results: Sequence[Path], logs: Sequence[Path]) -> None:
    """Write a bundle and say so, and at any verbosity what is not in it. Args and raises as of write()."""
    done, left_out = write(path, results, logs)
    for line in left_out:
        _display.info(f"note: {line}")
        _display.warn(line)
    _display.info(done)
    _display.current().values["bundle"] = str(path)
