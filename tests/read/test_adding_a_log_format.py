"""docs/adding-things.md and its example, a log format that is there."""

from __future__ import annotations

import re

import pytest

from tprimat import read
from tprimat.cli import run
from tprimat.store import store


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "adding-things.md").read_text(encoding="utf-8")


def test_every_piece_of_code_on_the_page_stands_in_the_source(repository, page):
    source = (repository / "tprimat/read/forms/programs.py").read_text(encoding="utf-8")
    pieces = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(pieces) >= 5
    assert [piece for piece in pieces if piece not in source] == []


def test_every_file_that_the_page_names_is_there(repository, page):
    named = set(re.findall(r"`((?:tprimat|tests|docs)/[\w./-]+)`", page))
    named |= {text.removeprefix("../") for text in re.findall(r"\]\((\.\./[^)]+)\)", page)}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (repository / name).exists()] == []


def test_the_log_format_is_found():
    assert [reader.name for reader in read.log_formats()].count("mmengine") == 1


def test_its_data_become_steps(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = repository / "tests" / "read" / "whole_files" / "mmengine.log"
    assert run("read", [str(log)]) == 0
    (path,) = (tmp_path / "output").glob("train_mmengine_*.json")
    (found,) = store.read(path)
    # The second epoch goes on after the 25 steps of the first one.
    assert found.steps == (10, 20, 35)
    assert found.step_times == (0.52, 0.49, 0.5)
    assert found.loss_values == (2.4, 2.3, 2.2)
    assert found.lines == (1, 2, 4)
    assert found.memory_metrics.peak_memory_allocated_gb == pytest.approx(16.012)
