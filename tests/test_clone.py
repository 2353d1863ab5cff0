"""A stranger's way in: clone, install the analysis tier, run the README's example, then `pip
install`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow


SETUP = ("tools/make_venv.py", "--venv", ".venv", "--requirements", "requirements-analysis.txt")


def said(*command: object, cwd: Path) -> str:
    """What a command prints; the test fails with its words when it doesn't end well."""
    # A PYTHONPATH would let the clone's environment see packages that it hasn't got.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone of what is committed."""
    if shutil.which("git") is None:
        pytest.skip("there is no git here")
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this copy of the repository has no history to clone")
    folder = tmp_path_factory.mktemp("clone") / "TensorPrimat"
    said("git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, folder, cwd=REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def python(clone, package_index):
    """The clone's own environment, with the analysis tier only."""
    said(sys.executable, *SETUP, cwd=clone)
    return clone / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def test_the_environment_has_no_torch(clone, python):
    code = "from importlib.util import find_spec; print(find_spec('torch'), find_spec('lightning'))"
    assert said(python, "-c", code, cwd=clone) == "None None\n"


def test_set_up_a_second_time_nothing_is_installed(clone, python, monkeypatch):
    def installed() -> list[int]:
        return sorted(
            path.stat().st_mtime_ns for path in (clone / ".venv").rglob("*.dist-info/RECORD")
        )

    before = installed()
    assert len(before) > 10
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said(sys.executable, *SETUP, cwd=clone)
    assert installed() == before


@pytest.mark.skipif(shutil.which("bash") is None, reason="this system has no bash")
@pytest.mark.parametrize(
    "is_bare", [False, True], ids=["its own Python", "a Python without packages"]
)
def test_c1_the_readmes_examples_run(clone, python, tmp_path, is_bare):
    if is_bare:
        # What python3 is for who doesn't activate .venv.
        said(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare", cwd=clone)
        python = tmp_path / "bare" / python.relative_to(clone / ".venv")
    readme = load(clone / "tests" / "test_readme.py")
    examples = [block for block in readme.readme_blocks() if block.kind == "quick"]
    assert any("compare_results.py" in block.text for block in examples)
    for block in examples:
        done = readme.run_block(block, clone, python=python)
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout


@pytest.fixture(scope="module")
def installed(clone, python):
    """The environment with the package itself, and pandas, in it; the tests that need neither come
    first.
    """
    said(python, "-m", "pip", "install", "-qq", ".[pandas]", "-c", "constraints.txt", cwd=clone)
    return python


def test_installed_it_has_a_command_and_all_its_tables(clone, installed, tmp_path):
    python = installed
    command = python.parent / ("tprimat.exe" if os.name == "nt" else "tprimat")
    assert said(command, "compare", "--help", cwd=tmp_path).startswith("usage: ")
    # The installed package, not the clone: nothing of it lies in this directory.
    code = "import tprimat; print(tprimat.__path__[0])"
    package = Path(said(python, "-c", code, cwd=tmp_path).strip())
    assert clone / "tprimat" != package
    tracked = said("git", "ls-files", "tprimat", cwd=clone).split()
    assert [name for name in tracked if not (package.parent / name).is_file()] == []


def test_with_pandas_the_notebook_runs(clone, installed, tmp_path):
    shutil.copytree(clone / "docs" / "examples", tmp_path / "examples")
    code = (
        "import json\n"
        "for cell in json.load(open('python.ipynb', encoding='utf-8'))['cells']:\n"
        "    if cell['cell_type'] == 'code': exec(''.join(cell['source']))\n"
        "print(len(steps), tprimat.__file__)\n"
    )
    rows, _, file = said(installed, "-c", code, cwd=tmp_path / "examples").strip().partition(" ")
    assert int(rows) > 100
    assert not Path(file).is_relative_to(clone / "tprimat")


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"clone_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
