"""What of a file is in the page cache, and dropping it."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("numpy")

from tprimat.machine import page_cache
from tprimat.machine.page_cache import cached_share, drop_caches


@pytest.fixture
def files(tmp_path):
    files = [tmp_path / name for name in ("a", "b")]
    for path in files:
        path.write_bytes(b"12345678" * 5000)
    return files


@pytest.fixture
def on_disk(files):
    if drop_caches(files) is not None or cached_share(files) is None:
        pytest.skip(
            "the temporary directory is in memory, or this system doesn't report what it caches"
        )
    return files


def test_dropped_and_read_again(on_disk):
    assert cached_share(on_disk) == 0.0
    for path in on_disk:
        path.read_bytes()
    assert cached_share(on_disk) == 1.0
    assert drop_caches(on_disk) is None
    assert cached_share(on_disk) == 0.0


def test_an_unknown_share_is_none(files, monkeypatch):
    assert cached_share([]) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cached_share(files) is None


def test_the_share_of_files_that_can_not_be_written_is_unknown(files, monkeypatch):
    monkeypatch.setattr(page_cache.os, "access", lambda path, mode: False)
    assert cached_share(files) is None


def test_files_that_can_not_be_dropped_are_a_problem(files, monkeypatch):
    monkeypatch.setattr(page_cache, "cached_share", lambda files: 0.5)
    monkeypatch.setattr(page_cache, "DROP_ALL", files[0] / "no" / "such" / "file")
    assert drop_caches(files).startswith("50% of the data stay in the page cache")
    monkeypatch.delattr(page_cache.os, "posix_fadvise", raising=False)
    assert "cannot drop files" in drop_caches([])
