"""Names of bundles and of the files in them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from tprimat.results.run import Run

ENDINGS = (".tar.gz", ".tgz", ".zip")

_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)$")

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
"""Names that are devices on Windows, whatever their ending."""


def names_a_bundle(path: Path) -> bool:
    """Return whether a path is that of a bundle, or of another archive."""
    return path.name.lower().endswith(ENDINGS) and path.is_file()


def place_of(name: str, folder: Path) -> Path:
    """Return where a member of an archive is written: below the directory, whatever its name, on
    any system.
    """
    parts = []
    for part in PurePosixPath(name.replace("\\", "/")).parts:
        if part not in ("/", ".."):
            parts.append(part)
    plain = (re.sub(r"[^\w.+ -]|[. ]$", "_", part) for part in parts)
    return folder.joinpath(*(f"_{part}" if _DEVICE.match(part) else part for part in plain))


def bare(name: str) -> str:
    """Return the name of a log, which may be a path of any system, without the ending of its
    compression.
    """
    return _COMPRESSED.sub("", re.split(r"[\\/]", name)[-1])


def log_names(run: Run) -> frozenset[str]:
    """Return the names of the logs of a run as a bundle is unpacked to, without the number after
    equal names.
    """
    names = []
    for file in run.source_files:
        name = place_of(bare(file.path), Path()).name
        names.append(re.sub(r"^([^.]*?)_\d+(?=\.|$)", r"\1", name))
    return frozenset(names)
