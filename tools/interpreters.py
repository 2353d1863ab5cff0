"""Finds the Python interpreters of this machine that TensorPrimat supports.

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")
"""The versions that constraints.txt has pins for, oldest first."""


def find(versions: tuple[str, ...] = SUPPORTED) -> dict[str, str]:
    """Return the interpreters that really start: version -> path, in the order of versions.

    Looks at the running one, at `python3.10` and its like on the PATH, and at pyenv's
    versions, whose names on the PATH may be shims that only say "command not found".
    """
    found = {}
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def _candidates(version: str) -> list[str]:
    candidates = []
    # sys.executable may lie in an environment; what that stands on makes cleaner ones.
    if version == "%d.%d" % sys.version_info[:2]:
        candidates.append(str(Path(sys.base_prefix) / "bin" / ("python" + version)))
        candidates.append(sys.executable)
    on_path = shutil.which("python" + version)
    if on_path:
        candidates.append(on_path)
    root = _output(["pyenv", "root"]) if shutil.which("pyenv") else ""
    if root:
        folders = sorted(Path(root, "versions").glob(version + ".*"))
        candidates.extend(str(folder / "bin" / "python") for folder in reversed(folders))
    return candidates


def _version_of(executable: str) -> str:
    return _output([executable, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])


def _output(command: list[str]) -> str:
    """Return what a command prints, or "" when it can't be started or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
