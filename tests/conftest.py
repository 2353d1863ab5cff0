"""What several tests share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from tool_modules import load_tool

REPOSITORY = Path(__file__).resolve().parent.parent

# A shell starts what it puts into the background with Ctrl-C ignored, nohup with SIGHUP ignored,
# and every training that a test interrupts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples at each run, so that what fails had a change as its cause.
# HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items):
    """Start with the files that have slow tests: one of them begun last would leave the other
    workers idle.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real logs and results of other people, which lie beside the repository where there are
    any.
    """
    folder = REPOSITORY.parent / "shared" / "samples"
    if not folder.is_dir():
        pytest.skip("the directory of real samples does not lie beside this clone")
    return folder


@pytest.fixture(scope="session")
def truth(samples):
    """What a careful reading finds in a sample: truth("primus")["file.log"]."""

    def read(folder: str) -> dict[str, dict]:
        return {
            entry["file"]: entry
            for entry in json.loads((samples / folder / "truth.json").read_text())
        }

    return read


@pytest.fixture(scope="session")
def interpreters():
    """tools/interpreters.py, which finds the Pythons of this machine."""
    return load_tool("interpreters")


@pytest.fixture(scope="session")
def make_venv():
    """tools/make_venv.py, which sets environments up."""
    return load_tool("make_venv")


@pytest.fixture(scope="session")
def environment_tests():
    """tools/environment_tests.py, which repeats tests in other environments."""
    return load_tool("environment_tests")


@pytest.fixture(scope="session")
def torture():
    """tools/torture.py, which kills runs."""
    return load_tool("torture")


@pytest.fixture(scope="session")
def first_gpu_run():
    """tools/first_gpu_run.py, the checks of a GPU's first minutes."""
    return load_tool("first_gpu_run")


@pytest.fixture(scope="session")
def package_index(tmp_path_factory):
    """Skips where pip can fetch nothing: no network and no mirror."""
    folder = tmp_path_factory.mktemp("download")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-qq",
        "--no-deps",
        "--dest",
        str(folder),
        "mdurl==0.1.2",
    ]
    if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode != 0:
        pytest.skip("pip reaches no package index from here")
