"""The README's commands: run where the README marks them so, and checked against the programs
everywhere.

A ```bash block is preceded by a comment that says what becomes of it:

    <!-- run: quick -->              run by every test run, in a copy of the repository
    <!-- run: slow -->               run when the environment variable README_SLOW is set
    <!-- run: skip: needs a GPU -->  never run, and why

Whatever becomes of it, the scripts, options, make targets and commands that it names must exist.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
KINDS = ("quick", "slow", "skip")
IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "output", "build", "*.egg-info"
)
SHELL = shutil.which("bash")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a Markdown file.

    Attributes:
        line: of its first fence, from 1.
        language: the word after the fence, or "".
        mark: what the comment before it says, or None.
        text: its lines.
    """

    line: int
    language: str
    mark: str | None
    text: str

    @property
    def kind(self) -> str | None:
        return None if self.mark is None else self.mark.split(":")[0].strip()


def blocks_of(markdown: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in its order."""
    blocks = []
    lines = markdown.splitlines()
    mark = None
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        comment = re.fullmatch(r"<!-- run: (.+?) -->", line)
        if comment:
            mark = comment[1]
        elif line.startswith("```"):
            end = next(
                (i for i in range(number + 1, len(lines)) if lines[i].strip() == "```"), len(lines)
            )
            blocks.append(
                Block(number + 1, line[3:].strip(), mark, "\n".join(lines[number + 1 : end]))
            )
            mark, number = None, end
        elif line:
            mark = None
        number += 1
    return blocks


def command_lines(block: Block) -> list[str]:
    """The command lines of a block: all of a shell's, and what follows "$ " in a transcript."""
    joined = block.text.replace("\\\n", " ").splitlines()
    if block.language in ("bash", "sh", "shell"):
        return [
            line.strip() for line in joined if line.strip() and not line.strip().startswith("#")
        ]
    return [line.strip()[2:] for line in joined if line.strip().startswith("$ ")]


@functools.cache
def readme_blocks() -> tuple[Block, ...]:
    # A README that is missing is a failure of the tests that use it, not of their collection.
    return tuple(blocks_of(README.read_text(encoding="utf-8"))) if README.is_file() else ()


@functools.cache
def help_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command, "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def complaints(line: str) -> list[str]:
    """What a command line names that isn't there."""
    # A line may hold several commands; redirections and quotes are left to the shell.
    found = []
    for part in re.split(r"\s*(?:&&|\|\||[|;])\s*", line):
        words = shlex.split(part, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words:
            found += _complaints_of_one(words)
    return found


def _complaints_of_one(words: list[str]) -> list[str]:
    if words[0] == "make":
        makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
        targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        variables = [word.split("=")[0] for word in words[1:] if "=" in word]
        return [
            f"make has no {each}"
            for each in targets
            if not re.search(rf"^{re.escape(each)}:", makefile, re.M)
        ] + [
            f"make knows no {each}"
            for each in variables
            if not re.search(rf"\b{re.escape(each)}\b", makefile)
        ]
    program = Path(words[0]).name
    if program == "tprimat" or words[1:3] == ["-m", "tprimat"]:
        rest = words[1:] if program == "tprimat" else words[3:]
        if not rest or rest[0].startswith("-"):
            return [each for each in rest if each not in ("-h", "--help", "--version")]
        if rest[0] not in COMMANDS:
            return [f"tprimat has no command {rest[0]}"]
        return _unknown_options(rest[1:], ("-m", "tprimat", rest[0]))
    if re.fullmatch(r"python[\d.]*", program) and len(words) > 1 and words[1].endswith(".py"):
        words = words[1:]
    if not words[0].endswith((".py", ".sh")):
        return []
    script = REPOSITORY / words[0]
    if not script.is_file():
        # A person's own training script in an example of its use.
        return (
            [] if Path(words[0]).name.startswith(("my_", "your_")) else [f"there is no {words[0]}"]
        )
    return _unknown_options(words[1:], (words[0],)) if script.suffix == ".py" else []


def _unknown_options(words: list[str], command: tuple[str, ...]) -> list[str]:
    options = [word.split("=")[0] for word in words if word.startswith("-") and word != "-"]
    text = help_of(*command)
    return [
        f"{command[-1]} has no {each}"
        for each in options
        if not re.search(rf"(?<![\w-]){each}(?![\w-])", text)
    ]


def block_id(block: Block) -> str:
    return f"line {block.line}"


def run_block(block: Block, folder: Path, *, python: Path) -> subprocess.CompletedProcess[str]:
    """Runs a block with bash in a directory, `python3` and the scripts being those of an
    environment.
    """
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    # Bash stops at the first line that fails, as a person would.
    return subprocess.run(
        [SHELL, "-e", "-o", "pipefail", "-c", block.text],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": "", "NO_COLOR": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository, so that a README's command may write where it likes."""
    folder = tmp_path_factory.mktemp("readme") / "clone"
    shutil.copytree(REPOSITORY, folder, ignore=IGNORED, symlinks=True)
    return folder


class TestReadme:
    def test_is_there_and_shows_commands(self):
        assert README.is_file()
        assert any(block.kind == "quick" for block in readme_blocks())

    def test_every_shell_block_says_what_becomes_of_it(self):
        shell = [block for block in readme_blocks() if block.language in ("bash", "sh", "shell")]
        assert [block_id(block) for block in shell if block.kind not in KINDS] == []
        assert [
            block_id(block) for block in shell if block.kind == "skip" and ":" not in block.mark
        ] == []

    @pytest.mark.parametrize(
        "block", [block for block in readme_blocks() if command_lines(block)], ids=block_id
    )
    def test_names_only_what_there_is(self, block):
        assert [each for line in command_lines(block) for each in complaints(line)] == []

    @pytest.mark.skipif(SHELL is None, reason="this system has no bash")
    @pytest.mark.parametrize(
        "block", [block for block in readme_blocks() if block.kind == "quick"], ids=block_id
    )
    def test_runs(self, block, copy):
        done = run_block(block, copy, python=Path(sys.executable))
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout

    @pytest.mark.slow
    @pytest.mark.skipif(
        not os.environ.get("README_SLOW"), reason="runs when README_SLOW is set: takes minutes"
    )
    @pytest.mark.skipif(SHELL is None, reason="this system has no bash")
    @pytest.mark.parametrize(
        "block", [block for block in readme_blocks() if block.kind == "slow"], ids=block_id
    )
    def test_slow_ones_run(self, block, copy):
        done = run_block(block, copy, python=Path(sys.executable))
        assert done.returncode == 0, done.stdout

    def test_links_lead_to_files(self):
        targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", README.read_text(encoding="utf-8"))
        local = [target for target in targets if not re.match(r"[a-z]+:", target)]
        assert [target for target in local if not (REPOSITORY / target).exists()] == []


def test_the_first_screen_is_what_is_printed(samples, tmp_path):
    command, _, printed = next(
        block.text for block in readme_blocks() if block.text.startswith("$ ")
    ).partition("\n")
    logs = [
        *samples.glob("mlperf/v5.1_llama31_8b_AMD_8xMI355X_r*"),
        *samples.glob("mlperf/v5.1_llama31_8b_Nebius_8xB200_r*"),
    ]
    read = [
        "-m",
        "tprimat",
        "read",
        *sorted(logs),
        samples / "mlperf" / "systems",
        "--output-dir",
        tmp_path / "mlperf",
    ]
    for argv in (read, [REPOSITORY / "compare_results.py", *shlex.split(command)[2:]]):
        done = subprocess.run(
            [sys.executable, *map(str, argv)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "80"},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed)


class TestReadingMarkdown:
    TEXT = """\
# Title
<!-- run: quick -->
```bash
# a comment
python3 compare_results.py a \\
    b
```
Text.
<!-- run: skip: needs a GPU -->

```bash
./benchmark.py --model all
```
<!-- run: quick -->
Text that takes the mark away.
```console
$ make run
output
```
"""

    def test_blocks_and_their_marks(self):
        first, second, third = blocks_of(self.TEXT)
        assert (first.line, first.kind, first.language) == (3, "quick", "bash")
        assert (second.kind, second.mark) == ("skip", "skip: needs a GPU")
        assert (third.kind, third.language) == (None, "console")

    def test_lines(self):
        first, _, third = blocks_of(self.TEXT)
        assert [shlex.split(line) for line in command_lines(first)] == [
            ["python3", "compare_results.py", "a", "b"]
        ]
        assert command_lines(third) == ["make run"]

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("make run TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu", None),
            ("make fly", "make has no fly"),
            ("make run SPEED=1", "make knows no SPEED"),
            ("python3 compare_results.py --results-dir output && ls", None),
            (
                "NO_COLOR=1 ./compare_results.py --no-such-option",
                "compare_results.py has no --no-such-option",
            ),
            ("./no_such_script.py", "there is no ./no_such_script.py"),
            ("tprimat compare output", None),
            ("tprimat fly", "tprimat has no command fly"),
            ("pip install -r requirements-analysis.txt", None),
        ],
    )
    def test_complaints(self, line, complaint):
        found = complaints(line)
        assert found == [] if complaint is None else complaint.lstrip("./") in found[0].lstrip("./")
