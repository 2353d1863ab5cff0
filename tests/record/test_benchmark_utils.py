from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import benchmark_utils

WITHOUT = """
import sys
sys.modules[{package!r}] = None
{program}
"""


def python(repository, program, package="lightning"):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, program=program)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=1800,
    )


@pytest.mark.parametrize("package", ["lightning", "torch"])
def test_a_missing_package_is_two_lines(repository, package):
    pytest.importorskip("torch")
    done = python(repository, "from benchmark_utils import BenchmarkCallback", package)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"error: BenchmarkCallback needs the package {package}, which is not installed\n"
        "hint:  pip install -r requirements.txt\n"
        "see:   docs/troubleshooting.md#missing-package\n"
    )


def test_importing_the_module_alone_needs_nothing(repository):
    assert python(repository, "import benchmark_utils").returncode == 0


def test_a_script_that_tries_can_go_without(repository):
    pytest.importorskip("torch")
    program = (
        "try:\n    from benchmark_utils import BenchmarkCallback\nexcept ImportError as error:\n   "
        " print(error)"
    )
    done = python(repository, program)
    assert done.returncode == 0
    assert done.stdout.startswith("BenchmarkCallback needs the package lightning")


def test_other_errors_keep_their_traceback(repository):
    program = (
        "try:\n    from benchmark_utils import BenchmarkCallback\nexcept ImportError:\n   "
        " pass\nraise KeyError('x')"
    )
    done = python(repository, program)
    assert "Traceback" in done.stderr
    assert "KeyError: 'x'" in done.stderr


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("TrainerBenchmarkCallback", "transformers"),
        ("TrainerBenchmarkCallback", "torch"),
        ("record", "torch"),
    ],
)
def test_so_it_is_for_the_others(repository, name, package):
    pytest.importorskip("torch")
    done = python(repository, f"from benchmark_utils import {name}", package)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"error: {name} needs the package {package}, which is not installed\nhint:  pip install"
    )
    assert done.stderr.count("\n") == 3


def test_it_offers_this_and_nothing_else():
    assert benchmark_utils.__all__ == ["BenchmarkCallback", "TrainerBenchmarkCallback", "record"]
    with pytest.raises(AttributeError, match="has no attribute 'Callback'"):
        benchmark_utils.Callback  # noqa: B018 - the access is what is tested


SCRIPT = """
import benchmark_utils, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with benchmark_utils.record(model="mine", module=model, optimizer=optimizer, global_batch_size=8) as recorder:
    for _ in range(3):
        loss = model(torch.ones(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        recorder.step(loss=loss)
print(benchmark_utils.__file__)
"""


@pytest.fixture(params=["PYTHONPATH", "pip install"])
def importable(request, repository, tmp_path):
    """The directory in which a script elsewhere finds benchmark_utils: the clone, or where pip
    installed it.
    """
    if request.param == "PYTHONPATH":
        return repository
    # What pyproject.toml builds with; without a network there is no environment of its own to build
    # in.
    pytest.importorskip("setuptools", minversion="77")
    clone, site = tmp_path / "tensorprimat", tmp_path / "site"
    clone.mkdir()
    shutil.copytree(repository / "published", clone / "published")
    shutil.copytree(
        repository / "tprimat", clone / "tprimat", ignore=shutil.ignore_patterns("__pycache__")
    )
    for pattern in ("*.py", "*.txt", "*.toml", "README.md", "LICENSE"):
        for path in repository.glob(pattern):
            shutil.copy(path, clone)
    command = [
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
        str(clone),
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", *command], cwd=tmp_path, check=True, capture_output=True
    )
    return site


def test_a_script_in_another_folder_records_there(importable, tmp_path):
    pytest.importorskip("torch")
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(importable)}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-1]) == importable / "benchmark_utils.py"
    assert (project / "output" / "train_own_mine.json").is_file()
    compared = subprocess.run(
        [sys.executable, "-m", "tprimat", "compare", "output/", "--quiet"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "Only one system found" in compared.stdout
