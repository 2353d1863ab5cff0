"""Write a bundle of measured or imported results, and report it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tprimat import console
from tprimat.log_import import bundle


def write_bundle(path: Path, results: Sequence[Path], logs: Sequence[Path]) -> None:
    """Write a bundle and say so, and at any verbosity what is not in it. Args and raises as of bundle.write()."""
    done, left_out = bundle.write(path, results, logs)
    for line in left_out:
        console.info(f"note: {line}")
        console.warn(line)
    console.info(done)
    console.current().values["bundle"] = str(path)
