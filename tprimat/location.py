"""Where this package is, and where it works. Imports next to nothing, since every --help does."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
"""The clone or installation that this package is part of."""


def python_path() -> str:
    """Return PYTHONPATH for a child in another directory: a clone that is not installed is found by
    it alone.
    """
    # An empty entry would be that directory.
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join([str(REPOSITORY), *map(os.path.abspath, given)])


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """Leave the current directory for a moment, and yield it. Raises OSError if there is no way
    back.

    It may be that of somebody's logs. multiprocessing starts its processes there, which import from
    it, and matplotlib looks there for its settings; in Python's own directory they find neither
    modules nor settings.
    """
    here = Path.cwd()
    os.chdir(here)
    os.chdir(sys.prefix)
    try:
        yield here
    finally:
        os.chdir(here)


def go_on_in_own_environment(program: Sequence[str]) -> None:
    """Restart a program, a file with its arguments, in the clone's .venv, unless there is none or
    this is it.

    In one without its pyvenv.cfg, Python doesn't know that it is there, and would restart for ever.
    """
    folder = REPOSITORY / ".venv"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    is_there = Path(sys.executable) == python or Path(sys.prefix).resolve() == folder.resolve()
    if is_there or not python.exists() or not Path(program[0]).is_file():
        return
    command = [str(python), *program]
    if os.name == "nt":
        # Windows has no exec that keeps the caller waiting.
        import subprocess

        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)
