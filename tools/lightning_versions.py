#!/usr/bin/env python3
"""Runs the tests of the collector with older versions of Lightning, each in an environment of its own.

    lightning_versions.py [VERSION ...]

Each older version has an environment of its own (`.venv-lightning-2.2.5` and so on), laid over this one: torch
stays, and what an older Lightning can't live with is taken in a version that it can. The newest version is the
one of this environment.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import make_venv

ROOT = Path(__file__).resolve().parent.parent

VERSIONS = ("2.2.5", "2.4.0")
"""The oldest that requirements.txt admits, and the one of NeMo's containers."""

NEWEST = "newest"

FREED = ("lightning", "pytorch-lightning", "fsspec", "packaging", "setuptools")
"""Pins that an older Lightning contradicts: fsspec[http] < 2026, packaging < 25."""

LAST_WITH_PKG_RESOURCES = "setuptools<81"
"""Lightning before 2.5 imports pkg_resources, which later releases no longer bring."""

TESTS = (
    "test_benchmark_utils.py",
    "test_bad_places.py",
    "test_callback_endings.py",
    "test_callback_options.py",
    "test_journal.py",
    "test_lightning_callback.py",
    "test_ranks.py",
)


def main(versions: list[str]) -> int:
    """Test with each version; return the first status that isn't 0."""
    if importlib.util.find_spec("torch") is None:
        print("error: this Python has no torch: make venv (docs/troubleshooting.md#setting-up)", file=sys.stderr)
        return 2
    for version in versions or (*VERSIONS, NEWEST):
        python = Path(sys.executable) if version == NEWEST else _environment(version)
        status = 2 if python is None else _test(python)
        if status != 0:
            return status
    return 0


def constraints(version: str, lines: list[str]) -> list[str]:
    """Return the lines of constraints.txt for another version of Lightning."""
    kept = [line for line in lines if line.split("==")[0].strip() not in FREED]
    return [*kept, f"lightning=={version}", f"pytorch-lightning=={version}", LAST_WITH_PKG_RESOURCES]


def _environment(version: str) -> Path | None:
    """Return the Python of an environment with a version; None, with a message, where there can't be one."""
    environment = make_venv.Environment(ROOT / f".venv-lightning-{version}", [])
    with tempfile.TemporaryDirectory() as scratch:
        pins = Path(scratch, "constraints.txt")
        lines = environment.constraints.read_text(encoding="utf-8").splitlines()
        pins.write_text("\n".join(constraints(version, lines)) + "\n", encoding="utf-8")
        environment.constraints = pins
        try:
            make_venv.check_python()
            environment.lay_over([f"lightning=={version}", LAST_WITH_PKG_RESOURCES])
        except make_venv.SetupError as error:
            print(f"error: {error} (docs/troubleshooting.md#setting-up)", file=sys.stderr)
            return None
    if _installed(environment.python) != version:
        print(f"error: {environment.folder} has Lightning {_installed(environment.python)}: remove it", file=sys.stderr)
        return None
    return environment.python


def _test(python: Path) -> int:
    print(f"Lightning {_installed(python)}", flush=True)
    # What is marked slow tests processes and signals, once, with the newest version.
    options = ["-q", "-r", "fE", "-m", "not slow and not reliability", "-p", "no:cacheprovider"]
    command = [str(python), "-m", "pytest", *options]
    files = [str(Path("tests", "record", name)) for name in TESTS]
    return subprocess.run([*command, *files], cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": "ignore"}).returncode


def _installed(python: Path) -> str:
    code = "from importlib.metadata import version; print(version('lightning'))"
    return subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
