#!/usr/bin/env python3
"""Run tests in environments of their own: without PyTorch, with further frameworks, with older
versions of Lightning.

    environment_tests.py analysis [--oldest]    the analysis tier on the oldest and newest Python here (.venv-3.10, …)
    environment_tests.py frameworks [PYTEST…]   accelerate and DeepSpeed; what is missing fails (.venv-frameworks)
    environment_tests.py lightning [VERSION…]   the collector (.venv-lightning-2.2.5, …, laid over this environment)

Returns the first status that isn't 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreters
import make_venv

ROOT = Path(__file__).resolve().parent.parent

FRAMEWORK_TESTS = ("tests/frameworks/test_alike.py", "tests/record/test_trainer_callback.py")
LIGHTNING_TESTS = (
    "test_benchmark_utils.py",
    "test_bad_places.py",
    "test_callback_endings.py",
    "test_callback_options.py",
    "test_journal.py",
    "test_lightning_callback.py",
    "test_ranks.py",
)
NOT_SLOW = ("-r", "fE", "-m", "not (slow or reliability or browser or slurm)")
"""What is marked builds environments, tests signals or needs servers; once, in the main
environment, is enough.
"""

ONCE = {
    "tests/scripts": "shell scripts, with a stand-in for Primus",
    "tests/test_architecture.py": "the source",
    "tests/test_docs.py": "pages; their commands have tests of their own",
    "tests/test_endings_in_the_check.py": "a table of what a check says of logs and recordings",
    "tests/test_hints_work.py": "texts; what they name has tests of its own",
    "tests/test_pattern_work.py": "regular expressions, by a matcher of its own",
    "tests/test_words.py": "texts",
    "tests/test_workflows.py": "workflows of GitHub, which name their Python",
    "tests/cli/test_redaction_kept.py::test_x0_the_figures_of_every_sample_log_are_unharmed": (
        "patterns, with every sample"
    ),
    "tests/read/test_invariants.py::test_item3_no_sample_has_a_violation": (
        "figures of every sample, which other tests read there"
    ),
    "tests/read/test_ways_of_keeping.py::TestRealLogs": "the same samples in other forms",
    "tests/test_redaction.py::test_time_is_linear_in_the_text": "patterns",
}
"""Tests in which nothing depends on the version of Python, and what they are about: they run in the
main environment alone.
"""

NO_HANGS = ("--timeout", "900", "--max-worker-restart", "2")
"""A test that takes 15 minutes fails. One that ends its worker is repeated, in a new worker,
without end.
"""

LIGHTNING_VERSIONS = ("2.2.5", "2.4.0")
"""The oldest that requirements.txt admits, and the one of NeMo's containers."""
NEWEST = "newest"
"""The version of this environment."""
FREED = ("lightning", "pytorch-lightning", "fsspec", "packaging", "setuptools")
"""Pins that an older Lightning contradicts: fsspec[http] < 2026, packaging < 25."""
LAST_WITH_PKG_RESOURCES = "setuptools<81"
"""Lightning before 2.5 imports pkg_resources, which later releases no longer bring."""


def pytest(python: Path, *arguments: str, **environment: str) -> int:
    """Run pytest with a Python and return its status."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode


def made(python: str, folder: Path, *options: str) -> Path | None:
    """Make an environment with make_venv.py; return its Python, or None if that failed."""
    command = [python, str(ROOT / "tools" / "make_venv.py"), "--venv", str(folder), *options]
    if subprocess.run(command).returncode != 0:
        return None
    return make_venv.Environment(folder, []).python


def analysis(arguments: list[str]) -> int:
    """Test the analysis tier on the oldest and the newest Python; a run in which most tests were
    skipped fails.
    """
    found = interpreters.find()
    if not found:
        print("error: no Python 3.10 to 3.13 was found: put one on the PATH as python3.10 to python3.13",
              file=sys.stderr)  # fmt: skip
        return 2
    versions = list(found)
    for version in dict.fromkeys(
        versions[:1] if "--oldest" in arguments else (versions[0], versions[-1])
    ):
        print(f"the analysis tier on Python {version}", flush=True)
        options = ("--requirements", "requirements-analysis.txt", "--groups", "test")
        python = made(found[version], ROOT / f".venv-{version}", *options)
        if python is None:
            return 2
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.xml")
            workers = ("-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", *NO_HANGS)
            left_out = (word for place in ONCE for word in ("--deselect", place))
            status = pytest(python, *workers, *NOT_SLOW, *left_out, f"--junitxml={report}")
            if status := status or enough(ElementTree.parse(report).getroot()):
                return status
    return 0


def enough(report: ElementTree.Element) -> int:
    """Return 0 when most tests of a JUnit report ran, else 1 after a line that says so."""
    total, skipped = (
        sum(int(suite.get(name, 0)) for suite in report.iter("testsuite"))
        for name in ("tests", "skipped")
    )
    if skipped * 2 > total or total == 0:
        print(
            f"error: {skipped} of {total} tests were skipped without PyTorch; most must run",
            file=sys.stderr,
        )
        return 1
    return 0


def frameworks(arguments: list[str]) -> int:
    """Train each model in each framework that a CPU can run, with one and with two processes."""
    options = ("--requirements", "requirements.txt", "--groups", "frameworks", "test")
    python = made(sys.executable, ROOT / ".venv-frameworks", *options)
    if python is None:
        return 2
    # ninja, which DeepSpeed builds with, may lie in this environment alone.
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    # Two runs at a time, each with a thread a process; each worker gets the next long one when it
    # is done.
    workers = ("-n", "2", "--maxschedchunk", "1")
    return pytest(
        python,
        *workers,
        *FRAMEWORK_TESTS,
        *arguments,
        TPRIMAT_ALL_FRAMEWORKS="1",
        OMP_NUM_THREADS="1",
        PATH=path,
    )


def lightning(arguments: list[str]) -> int:
    """Test the collector with each version of Lightning."""
    if importlib.util.find_spec("torch") is None:
        print(
            "error: this Python has no torch: make venv (docs/troubleshooting.md#setting-up)",
            file=sys.stderr,
        )
        return 2
    for version in arguments or (*LIGHTNING_VERSIONS, NEWEST):
        python = Path(sys.executable) if version == NEWEST else _with_lightning(version)
        if python is None:
            return 2
        print(f"Lightning {_installed(python)}", flush=True)
        files = [f"tests/record/{name}" for name in LIGHTNING_TESTS]
        if status := pytest(python, *NOT_SLOW, *files, PYTHONWARNINGS="ignore"):
            return status
    return 0


def constraints(version: str, lines: list[str]) -> list[str]:
    """Return the lines of constraints.txt for another version of Lightning."""
    kept = [line for line in lines if line.split("==")[0].strip() not in FREED]
    return [
        *kept,
        f"lightning=={version}",
        f"pytorch-lightning=={version}",
        LAST_WITH_PKG_RESOURCES,
    ]


def _with_lightning(version: str) -> Path | None:
    """Return the Python of an environment with a version, laid over this one; None, with a message,
    if it can't be.
    """
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
        print(
            f"error: {environment.folder} has Lightning {_installed(environment.python)}:"
            " remove it",
            file=sys.stderr,
        )
        return None
    return environment.python


def _installed(python: Path) -> str:
    code = "from importlib.metadata import version; print(version('lightning'))"
    return subprocess.run(
        [str(python), "-c", code], stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def main() -> int:
    """Run the tests of one kind of environment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = {"analysis": analysis, "frameworks": frameworks, "lightning": lightning}
    parser.add_argument("kind", choices=kinds)
    return kinds[parser.parse_args(sys.argv[1:2]).kind](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
