"""What a person meets who starts a command: from anywhere, wrongly, too old, without a package, at
a fault.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat import __version__, location
from tprimat.__main__ import FIRST, GROUPS
from tprimat.cli import COMMANDS, run

REPOSITORY = Path(__file__).resolve().parent.parent
PUBLISHED = REPOSITORY / "tests" / "data" / "published"
HERE = "--no-plot --results-dir ."
SCRIPTS = sorted(
    path
    for path in [*REPOSITORY.glob("*.py"), *(REPOSITORY / "scripts").glob("*.py")]
    if path.read_text(encoding="utf-8").startswith("#!")
)


def start(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a person would, with its output as text."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture
def broken_package(tmp_path):
    """Puts a module that ends with an error before the installed one: broken_package("rich", "1 /
    0").
    """

    def put(name: str, code: str) -> str:
        folder = tmp_path / "broken"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
        return str(folder)

    return put


@pytest.fixture
def command(monkeypatch):
    """Runs a command whose main is the function given: command(main) -> exit status."""

    def as_command(main) -> int:
        module = type(sys)("tprimat.cli.sample")
        module.main = main
        monkeypatch.setitem(sys.modules, "tprimat.cli.sample", module)
        options = type(sys)("tprimat.cli.options.sample")
        options.parser = argparse.ArgumentParser
        monkeypatch.setitem(sys.modules, "tprimat.cli.options.sample", options)
        return run("sample", [])

    return as_command


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
class TestEveryScript:
    def test_help_from_another_folder(self, script, tmp_path):
        done = start(sys.executable, script, "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("usage: ")
        assert done.stderr == ""
        assert list(tmp_path.iterdir()) == []

    def test_version(self, script, tmp_path):
        done = start(sys.executable, script, "--version", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"tprimat {__version__}\n", "")

    def test_help_through_a_symbolic_link(self, script, tmp_path):
        link = tmp_path / "elsewhere" / "my-command"
        link.parent.mkdir()
        try:
            link.symlink_to(script)
        except OSError:
            pytest.skip("this system lets nobody make symbolic links")
        done = start(sys.executable, link, "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_wrong_option_is_wrong_usage(self, script, tmp_path):
        done = start(sys.executable, script, "--no-such-option", cwd=tmp_path)
        assert done.returncode == 2
        assert "--no-such-option" in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_missing_package_is_named_with_the_command_that_brings_it(
        self, script, tmp_path, broken_package
    ):
        folder = broken_package(
            "msgspec", "raise ModuleNotFoundError('No module named msgspec', name='msgspec')"
        )
        done = start(sys.executable, script, "--help", cwd=tmp_path, PYTHONPATH=folder)
        if done.returncode == 0:
            done = start(sys.executable, script, cwd=tmp_path, PYTHONPATH=folder)
        assert done.returncode == 2
        if "no log of a known model" in done.stderr:
            pytest.skip("this command asks for its files before it needs a package")
        error, hint, _ = done.stderr.splitlines()
        assert "msgspec" in error
        assert hint == f"hint:  pip install -r {REPOSITORY / 'requirements-analysis.txt'}"

    @pytest.mark.skipif(
        sys.platform == "win32", reason="Windows starts no script by its first line"
    )
    def test_can_be_started_by_its_name(self, script, tmp_path):
        # The first line asks for python3 on the PATH.
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / "python3").chmod(0o755)
        done = start(
            script, "--help", cwd=tmp_path, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module", params=["3.6", "3.7", "3.8", "3.9"])
def older_python(request, interpreters):
    found = interpreters.find((request.param,))
    if not found:
        pytest.skip(f"this machine has no Python {request.param}")
    return found[request.param]


class TestOlderPython:
    @pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
    def test_says_one_sentence(self, older_python, script, tmp_path):
        done = start(older_python, script, "--help", cwd=tmp_path)
        assert done.returncode == 2
        assert re.fullmatch(
            r"TensorPrimat needs Python 3\.10 or newer; this is Python 3\.[6789]\n", done.stderr
        )

    @pytest.mark.parametrize(
        "words", [["-m", "tprimat"], [REPOSITORY / "tprimat" / "__main__.py"]], ids=["-m", "path"]
    )
    def test_c1_the_module_says_the_same_sentence(self, older_python, words, tmp_path):
        done = start(older_python, *words, "doctor", cwd=tmp_path, PYTHONPATH=str(REPOSITORY))
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(
            r"TensorPrimat needs Python 3\.10 or newer; this is Python 3\.[6789]\n", done.stderr
        )

    def test_makes_no_environment(self, older_python, interpreters, tmp_path):
        if older_python == interpreters.find(("3.6",)).get("3.6"):
            pytest.skip("make_venv.py is written for 3.7 and newer")
        folder = tmp_path / "env"
        done = start(
            older_python, REPOSITORY / "tools" / "make_venv.py", "--venv", folder, cwd=tmp_path
        )
        assert done.returncode == 2
        line = done.stderr.rstrip()
        assert "needs Python 3.10 or newer" in line
        assert not folder.exists()


def test_c1_an_old_python_can_read_as_far_as_the_sentence():
    """Also where there is no old Python to try it with."""
    for name in ("__init__", "__main__"):
        text = (REPOSITORY / "tprimat" / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 6))
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert "__future__" not in [node.module for node in imported]
    _, *first, check = tree.body[:4]
    assert [ast.unparse(node) for node in first] == ["import os", "import sys"]
    assert ast.unparse(check).startswith(
        "if sys.version_info < (3, 10):\n    sys.stderr.write('TensorPrimat needs"
    )


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python without any package: what `python3` is on many machines."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone after README's setup: its .venv is the environment of this test."""
    folder = tmp_path_factory.mktemp("a") / "clone of tprimat"
    shutil.copytree(REPOSITORY / "tprimat", folder / "tprimat")
    for path in [
        *REPOSITORY.glob("*.py"),
        *REPOSITORY.glob("published"),
        *REPOSITORY.glob("tests"),
    ]:
        (folder / path.name).symlink_to(path) if path.is_dir() else shutil.copy(path, folder)
    return folder


@pytest.fixture
def own_environment(clone):
    """Makes .venv of the clone: a link to the environment of this test, or a program that says how
    it is started.
    """
    made = clone / ".venv"

    def make(*, real: bool) -> None:
        if real:
            made.symlink_to(sys.prefix)
            return
        (made / "bin").mkdir(parents=True)
        (made / "bin" / "python").write_text('#!/bin/sh\nshift\necho went on: "$@"\n')
        (made / "bin" / "python").chmod(0o755)

    yield make
    made.unlink() if made.is_symlink() else shutil.rmtree(made, ignore_errors=True)


# What each command is given, so that it gets to where it needs a package.
WORDS = {
    "audit": "tests/data/published/README.md",
    "collect": "tests",
    "convert": "--model llama --to nemo tests tests",
    "explain": "tests/data/traces/rank0_trace.json tests/data/traces/rank1_trace.json",
    "export": "--csv steps.csv tests/data/published",
    "extract-primus": "--log-file tests/data/logs/primus_core_doubled.log",
    "project": "tests/data/scaling --gpus 128",
    "read": "tests/data/logs/litgpt_small.log",
    "verify": "tests/data/published/README.md",
    "watch": "tests/data/logs/litgpt_small.log --max-stall 1",
}


@pytest.mark.skipif(
    sys.platform == "win32", reason="a shell script stands for the environment's Python"
)
class TestOwnEnvironment:
    """README's commands after README's setup: `python3` has no package, the clone's .venv has
    them.
    """

    @pytest.mark.parametrize("name", COMMANDS)
    def test_c1_every_command_goes_on_there(self, bare_python, clone, own_environment, name):
        own_environment(real=False)
        words = WORDS.get(name, "").split()
        done = start(bare_python, "-m", "tprimat", name, *words, cwd=clone)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == " ".join(["went on:", name, *words]) + "\n"

    @pytest.mark.parametrize(
        "script",
        [each for each in SCRIPTS if each.parent == REPOSITORY],
        ids=lambda each: each.name,
    )
    def test_c1_every_script_goes_on_there(self, bare_python, clone, own_environment, script):
        own_environment(real=False)
        done = start(bare_python, script.name, "--log-file", "x", cwd=clone)
        if done.returncode == 2 and "unrecognized arguments" in done.stderr:
            done = start(bare_python, script.name, cwd=clone)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("went on:")

    def test_c1_it_is_done_there(self, bare_python, clone, own_environment):
        own_environment(real=True)
        done = start(bare_python, "-m", "tprimat", "project", *WORDS["project"].split(), cwd=clone)
        assert (done.returncode, done.stderr) == (0, "")
        again = start(
            bare_python,
            "-m",
            "tprimat",
            "project",
            *WORDS["project"].split(),
            "--nonsense",
            cwd=clone,
        )
        assert (again.returncode, again.stdout) == (2, "")
        activated = f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        same = start(
            "python3",
            "-m",
            "tprimat",
            "project",
            *WORDS["project"].split(),
            cwd=clone,
            PATH=activated,
        )
        assert (same.returncode, same.stdout) == (0, done.stdout)

    def test_c1_from_another_directory(self, bare_python, clone, own_environment, tmp_path):
        own_environment(real=True)
        words = ["project", str(REPOSITORY / "tests/data/scaling"), "--gpus", "128"]
        done = start(bare_python, "-m", "tprimat", *words, cwd=tmp_path, PYTHONPATH=str(clone))
        assert (done.returncode, done.stderr) == (0, "")

    def test_c1_without_an_environment_the_package_is_named(self, bare_python, clone):
        done = start(bare_python, "-m", "tprimat", "project", *WORDS["project"].split(), cwd=clone)
        assert done.returncode == 2
        error, hint, _ = done.stderr.splitlines()
        assert re.search("needs the package (msgspec|psutil|filelock|numpy)", error)
        assert hint == "hint:  pip install -r requirements-analysis.txt"

    def test_c1_readmes_commands_are_among_them(self):
        text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        named = set(re.findall(r"python3 -m tprimat ([\w-]+)", text))
        assert {"doctor", "publish", "read", "watch"} <= named
        assert named <= {*COMMANDS}


class TestTprimat:
    def tprimat(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return start(
            sys.executable, "-m", "tprimat", *arguments, cwd=cwd, PYTHONPATH=str(REPOSITORY)
        )

    def test_help_lists_every_command(self, tmp_path):
        done = self.tprimat("--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(re.search(rf"^  {name} ", done.stdout, re.MULTILINE) for name in COMMANDS)
        assert max(map(len, done.stdout.splitlines())) <= 80
        usage, first, *groups, _ = done.stdout.split("\n\n")
        assert usage == "usage: tprimat COMMAND [...]"
        assert re.findall(r"^  ([\w-]+)", first, re.MULTILINE) == [
            "doctor",
            "benchmark",
            "read",
            "compare",
            "watch",
        ]
        assert [group.split(",")[0] for group in groups] == [
            "measure",
            "read",
            "compare",
            "cluster",
            "tools",
        ]

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no such pipe")
    def test_help_for_a_reader_that_is_gone(self, tmp_path):
        command = f"{sys.executable} -u -m tprimat --help | true"
        done = start(
            "bash",
            "-o",
            "pipefail",
            "-c",
            f"sleep 0.2; {command}",
            cwd=tmp_path,
            PYTHONPATH=str(REPOSITORY),
        )
        assert done.stderr == ""

    def test_the_examples_of_the_help_are_parsed(self):
        calls = [f"{name} {words}" for name, words in FIRST.items()]
        calls += [title.partition("e.g. tprimat ")[2] for title in GROUPS]
        assert len(calls) == 10
        assert sorted(
            name for names in GROUPS.values() for name in names.split() if name != "watch"
        ) == sorted(name for name in COMMANDS if name != "watch")
        for call in calls:
            name, *words = call.split()
            importlib.import_module(
                f"tprimat.cli.options.{name.replace('-', '_')}"
            ).parser().parse_args(words)

    def test_version(self, tmp_path):
        assert self.tprimat("--version", cwd=tmp_path).stdout == f"tprimat {__version__}\n"

    def test_nothing_said_is_wrong_usage(self, tmp_path):
        assert self.tprimat(cwd=tmp_path).returncode == 2

    def test_an_unknown_command_names_those_that_there_are(self, tmp_path):
        done = self.tprimat("compair", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == "error: unknown command 'compair'\nhint:  did you mean compare?\n"

    def test_a_command_like_no_other_gets_the_most_used_and_where_all_are(self, tmp_path):
        done = self.tprimat("train", cwd=tmp_path)
        assert done.returncode == 2
        assert all(
            name in done.stderr
            for name in ("benchmark measures", "read imports", "tprimat --help lists all")
        )

    def test_help_needs_no_package_except_where_it_lists_models(self, tmp_path):
        code = (
            "import contextlib, os\nfrom tprimat.__main__ import _help\nfrom tprimat.cli import"
            " COMMANDS, run\n_help()\nfor name in COMMANDS:\n    with"
            " contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(os.devnull, 'w')):\n"
            "        run(name, ['--help'])\n"
        )
        # Without site-packages.
        done = start(sys.executable, "-S", "-c", code, cwd=tmp_path, PYTHONPATH=str(REPOSITORY))
        needing = re.findall(
            r"^error: tprimat (\S+) needs the package msgspec", done.stderr, re.MULTILINE
        )
        assert needing == ["benchmark", "convert", "primus-config", "run-primus"]

    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_has_its_help(self, name, tmp_path):
        done = self.tprimat(name, "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("usage: ")


class TestFault:
    def test_is_reported_with_a_file_with_the_traceback(self, tmp_path, broken_package):
        folder = broken_package("msgspec", "1 / 0")
        places = {name: str(tmp_path) for name in ("TMPDIR", "TEMP", "TMP")}
        done = start(
            sys.executable,
            REPOSITORY / "compare_results.py",
            tmp_path,
            cwd=tmp_path,
            PYTHONPATH=folder,
            **places,
        )
        assert done.returncode == 70
        line = done.stderr.rstrip()
        assert "ZeroDivisionError" in line
        assert line.endswith("docs/troubleshooting.md#fault")
        (report,) = tmp_path.glob("tprimat-error-*.txt")
        assert str(report) in line
        assert "Traceback (most recent call last)" in report.read_text(encoding="utf-8")

    def test_a_missing_module_of_our_own_is_a_fault(self, command, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

        def main(options):
            raise ModuleNotFoundError("No module named 'tprimat.nowhere'", name="tprimat.nowhere")

        assert command(main) == 70
        assert "internal error" in capsys.readouterr().err


class TestEndings:
    def test_an_interruption_is_no_fault(self, command, capsys):
        def main(options):
            raise KeyboardInterrupt

        assert command(main) == 5
        assert capsys.readouterr().err == "interrupted\n"

    def test_a_users_error_is_its_line_and_status(self, command, capsys):
        from tprimat.errors import NotComparableError

        def main(options):
            raise NotComparableError("two models: name one", heading="wrong-usage")

        assert command(main) == 3
        assert capsys.readouterr().err == "error: two models: name one\n"

    def test_the_status_is_what_the_command_returns(self, command):
        assert command(lambda options: 4) == 4

    @pytest.mark.skipif(
        sys.platform == "win32" or shutil.which("sh") is None, reason="needs a Unix shell"
    )
    def test_a_closed_output_is_no_fault(self, tmp_path):
        command = (
            f'"{sys.executable}" "{REPOSITORY / "compare_results.py"}" "{PUBLISHED}" {HERE}'
            " --quiet >&-"
        )
        done = start("sh", "-c", command, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_disk_under_the_output_is_no_fault(self, tmp_path):
        command = (
            f'"{sys.executable}" "{REPOSITORY / "compare_results.py"}" "{PUBLISHED}" {HERE} --json'
            " >/dev/full"
        )
        done = start("sh", "-c", command, cwd=tmp_path)
        assert done.returncode == 2
        line = done.stderr.rstrip()
        assert line.startswith("error: No space left on device\n")

    @pytest.mark.skipif(
        sys.platform == "win32" or shutil.which("sh") is None, reason="needs a Unix shell"
    )
    def test_a_reader_that_goes_away_is_no_error(self, tmp_path):
        code = (
            "import sys\n"
            "from tprimat.cli import run\n"
            "module = type(sys)('tprimat.cli.sample')\n"
            "module.main = lambda options: [print('line') for _ in range(100_000)] and 0\n"
            "sys.modules['tprimat.cli.sample'] = module\n"
            "options = type(sys)('tprimat.cli.options.sample')\n"
            "options.parser = __import__('argparse').ArgumentParser\n"
            "sys.modules['tprimat.cli.options.sample'] = options\n"
            "sys.exit(run('sample', []))\n"
        )
        (tmp_path / "long.py").write_text(code, encoding="utf-8")
        line = f'{{ "{sys.executable}" long.py; echo "status $?" >&2; }} | head -n 1'
        done = start("sh", "-c", line, cwd=tmp_path, PYTHONPATH=str(REPOSITORY))
        assert done.stdout == "line\n"
        assert done.stderr == "status 0\n"


def test_x1_an_environment_that_python_does_not_know_is_not_started_again_and_again(
    tmp_path, monkeypatch
):
    """Of a .venv whose pyvenv.cfg is gone, sys.prefix is that of the Python that it was made of."""
    python = tmp_path / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    python.parent.mkdir(parents=True)
    for path in (python, tmp_path / "benchmark.py"):
        path.write_text("")
    started = []
    monkeypatch.setattr(location, "REPOSITORY", tmp_path)
    monkeypatch.setattr(os, "execv", lambda *command: started.append(command[0]))
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: sys.exit(started.append(command[0]))
    )
    for executable, times in ((sys.executable, 1), (str(python), 1)):
        monkeypatch.setattr(sys, "executable", executable)
        with contextlib.suppress(SystemExit):
            location.go_on_in_own_environment([str(tmp_path / "benchmark.py")])
        assert started == [str(python)] * times
