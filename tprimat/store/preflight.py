"""Preflight files in a directory of results: one for each machine, replaced by the next preflight
there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.results.conditions import Preflight
from tprimat.results.preflight import PreflightFile, in_short
from tprimat.store import hosts

LARGEST_FILE = 16 << 20
"""Bytes; a thousand devices take a megabyte."""


def path_for(folder: Path, host: str) -> Path:
    """Return the path of a machine's preflight."""
    return (
        folder
        / f"preflight_{re.sub(r'[^A-Za-z0-9.-]+', '-', host).strip('.-')[:100] or 'machine'}.json"
    )


def write(file: PreflightFile, folder: Path) -> Path:
    """Write a preflight; return its path. Raises UsageError if that can't be written."""
    with files.locked(folder):
        file = hosts.hidden(file, hosts.Hosts(folder, is_locked=True))
    path = path_for(folder, file.nodes[0].host)
    content = msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
    files.write_output(path, content, "--output-dir")
    return path


def read(path: Path) -> PreflightFile | None:
    """Return the preflight in a file; None if it holds none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return msgspec.json.decode(files.read_plain(path, LARGEST_FILE), type=PreflightFile)
    return None


def latest(folder: Path, host: str | None, ids: Sequence[str], processes: int) -> Preflight:
    """Return the values of the preflight of its machine for the result of a training; empty if
    there is none.

    The ids are those of the GPUs that train there (Device.id), each empty if unknown; none on a
    CPU. There, processes share the cores, so a preflight counts only with the same number of
    processes.
    """
    # A result of an earlier version, or with --include-host, has the machine's own name.
    names = [] if host is None else [hosts.Hosts(folder).known(host) or host, host]
    file = next(filter(None, (read(path_for(folder, name)) for name in names)), None)
    if file is None or (file.platform == "cpu") != (not ids):
        return Preflight()
    here = [device for device in file.devices if device.host in names]
    if file.platform == "cpu":
        if len(here) == processes:
            return in_short(file)
        return Preflight()
    # A preflight of other GPUs, or of fewer, is no evidence on these.
    present = {device.id for device in here if device.id}
    if set(ids) <= present if all(ids) else len(here) >= len(ids):
        return in_short(file)
    return Preflight()
