"""The pages of docs/: every command in them exists, those marked quick are run, and the site
builds.

Blocks are marked as in the README (see test_readme.py); `quick: torch` marks one that PyTorch is
needed for. A ```text block after a block that was run holds lines that the program must have
printed.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import (
    IGNORED,
    KINDS,
    SHELL,
    Block,
    blocks_of,
    command_lines,
    complaints,
    run_block,
)

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@functools.cache
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(blocks_of(page.read_text(encoding="utf-8")))


def expected(page: Path, block: Block) -> str:
    """What the text block that follows a block says that it prints."""
    found = blocks(page)
    after = found[found.index(block) + 1 :]
    return after[0].text if after and after[0].language == "text" else ""


def _needs(block: Block) -> list[pytest.MarkDecorator]:
    """Skip a block that needs PyTorch where PyTorch is missing."""
    missing = block.mark == "quick: torch" and importlib.util.find_spec("torch") is None
    return [pytest.mark.skipif(missing, reason="PyTorch is not installed")]


def cases(kind: str) -> list:
    return [
        pytest.param(page, block, id=f"{page.name}, line {block.line}", marks=_needs(block))
        for page in PAGES
        for block in blocks(page)
        if block.kind == kind
    ]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "clone"
    shutil.copytree(REPOSITORY, folder, ignore=IGNORED, symlinks=True)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_only_commands_and_options_that_there_are(page):
    assert [
        each for block in blocks(page) for line in command_lines(block) for each in complaints(line)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_becomes_of_it(page):
    shell = [block for block in blocks(page) if block.language in ("bash", "sh", "shell", "yaml")]
    assert [block.line for block in shell if block.kind not in KINDS] == []
    assert [
        block.line for block in shell if block.kind == "skip" and ":" not in (block.mark or "")
    ] == []


@pytest.mark.skipif(SHELL is None, reason="this system has no bash")
@pytest.mark.skipif(sys.platform == "win32", reason="writes into /tmp")
@pytest.mark.parametrize(("page", "block"), cases("quick"))
def test_runs_and_prints_what_the_page_says(page, block, copy, tmp_path):
    text = block.text.replace("/tmp/", f"{tmp_path.as_posix()}/")
    done = run_block(
        Block(block.line, block.language, block.mark, text), copy, python=Path(sys.executable)
    )
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    said = " ".join(done.stdout.split())
    for line in expected(page, block).splitlines():
        assert " ".join(line.split()) in said, done.stdout


PUBLISHED = "tests/data/published"


@pytest.mark.parametrize(
    "argv",
    [
        ("compair",),
        ("benchmark", "--model", "gpt5"),
        ("compare", PUBLISHED, "--cost", "foo"),
        ("compare", "--baseline", PUBLISHED),
        ("compare", "--baseline", PUBLISHED, "--candidate", PUBLISHED, "--threshold", "memory=1"),
    ],
    ids=" ".join,
)
def test_troubleshooting_shows_errors_as_they_are_printed(argv):
    done = subprocess.run(
        [sys.executable, "-m", "tprimat", *argv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    error, hint = done.stderr.splitlines()[:2]
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert f"    {error}\n" in text
    shown = text.partition(f"    {error}\n")[2].splitlines()[0].strip()
    # A long list is cut in the page; where the page shows no hint, the line is empty.
    assert hint.startswith(shown.removesuffix(", …"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (DOCS / target).exists()] == []


def test_every_page_is_in_the_site_s_menu():
    _, _, menu_text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    menu = re.findall(r"[\w-]+\.md", menu_text)
    assert sorted(menu) == [page.name for page in PAGES]


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: make docs"
)
def test_the_site_builds(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="https?://(?!www\.mkdocs\.org)', page)
