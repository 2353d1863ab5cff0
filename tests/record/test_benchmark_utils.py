from __future__ import annotations

import subprocess
import sys

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
    assert done.stderr == (
        f"error: BenchmarkCallback needs the package {package}, which is not installed\n"
        "hint:  pip install -r requirements.txt\n"
        "see:   docs/troubleshooting.md#missing-package\n"
    )


def test_importing_the_module_alone_needs_nothing(repository):
    assert python(repository, "import benchmark_utils").returncode == 0


def test_a_script_that_tries_can_go_without(repository):
    pytest.importorskip("torch")
    program = "try:\n    from benchmark_utils import BenchmarkCallback\nexcept ImportError as error:\n    print(error)"
    done = python(repository, program)
    assert done.returncode == 0
    assert done.stdout.startswith("BenchmarkCallback needs the package lightning")


def test_other_errors_keep_their_traceback(repository):
    program = (
        "try:\n    from benchmark_utils import BenchmarkCallback\nexcept ImportError:\n    pass\nraise KeyError('x')"
    )
    done = python(repository, program)
    assert "Traceback" in done.stderr
    assert "KeyError: 'x'" in done.stderr


@pytest.mark.parametrize(
    ("name", "package"),
    [("TrainerBenchmarkCallback", "transformers"), ("TrainerBenchmarkCallback", "torch"), ("record", "torch")],
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
