"""run_encdec.sh and run_benchmark.sh: what they start, seen by a Python that only says what it was
called with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("bash") is None,
    reason="scripts for bash on Linux and macOS",
)

SCRIPTS = ("run_encdec.sh", "run_benchmark.sh")


@pytest.fixture
def called(repository, tmp_path):
    """called("run_encdec.sh", "--full") -> the arguments of `tprimat`, and what else was said."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$2" = --version ] && exit 0\n'
        'for word in "$@"; do echo "<$word>"; done\necho "as $TPRIMAT_SCRIPT" >&2\nexit 7\n'
    )
    python.chmod(0o755)

    def call(script, *argv):
        done = subprocess.run(
            [str(repository / "scripts" / script), *argv],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": str(python)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 7, done.stderr
        words = [word.removeprefix("<").removesuffix(">") for word in done.stdout.splitlines()]
        assert words[:2] == [str(repository / "tprimat" / "__main__.py"), "benchmark"]
        return words[2:], done.stderr.strip()

    return call


class TestEncdec:
    def test_everything_is_passed_on(self, called):
        assert called("run_encdec.sh")[0] == ["--model", "encdec"]
        argv = ["--single", "--full", "--disk", "--batch-size", "64", "--data-dir", "a b"]
        assert called("run_encdec.sh", *argv) == (["--model", "encdec", *argv], "as run_encdec.sh")


class TestBenchmark:
    @pytest.mark.parametrize(
        "argv", [[], ["--single"], ["--disk", "--batch-size", "64"], ["--full"]]
    )
    def test_without_a_model_it_is_the_encoder_decoder(self, called, argv):
        assert called("run_benchmark.sh", *argv) == (
            ["--model", "encdec", *argv],
            "as run_benchmark.sh",
        )

    def test_by_its_name_too(self, called):
        assert called("run_benchmark.sh", "encdec", "--disk")[0] == ["--model", "encdec", "--disk"]

    @pytest.mark.parametrize(
        ("argv", "passed"),
        [
            (["llama"], ["--model", "llama"]),
            (["llama", "5"], ["--model", "llama", "--runs", "5"]),
            (["qwen", "2", "--steps", "60"], ["--model", "qwen", "--runs", "2", "--steps", "60"]),
            (["mistral", "--label", "a b"], ["--model", "mistral", "--label", "a b"]),
        ],
    )
    def test_a_model_and_how_often(self, called, argv, passed):
        assert called("run_benchmark.sh", *argv)[0] == [
            *passed[:2],
            "--training-lines",
            *passed[2:],
        ]


@pytest.mark.parametrize("script", SCRIPTS)
class TestEach:
    def test_through_a_symbolic_link(self, script, repository, tmp_path):
        link = tmp_path / "mine.sh"
        link.symlink_to(repository / "scripts" / script)
        done = subprocess.run(
            [str(link), "--no-such-option"],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert (
            "unrecognized arguments: --no-such-option\nhint:  mine.sh --help lists the options"
            in done.stderr
        )

    def test_shellcheck_has_nothing_to_say(self, script, repository):
        if shutil.which("shellcheck") is None:
            pytest.skip("shellcheck is not installed")
        done = subprocess.run(
            ["shellcheck", "-x", f"scripts/{script}"],
            cwd=repository,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, "")
