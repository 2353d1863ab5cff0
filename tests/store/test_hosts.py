"""Pseudonyms of machines: what a foreign result says costs nothing and changes nobody's number."""

from __future__ import annotations

import pytest

from tprimat import files
from tprimat.store import hosts


@pytest.mark.parametrize(
    ("number", "new"), [(9_998, 9_999), (9_999, 10_000), (10_000, 1), (999_999_999, 1)]
)
def test_x3_a_number_that_no_directory_reaches_counts_for_nothing(tmp_path, number, new):
    (tmp_path / "foreign.json").write_text(f'{{"environment": {{"hostname": "node-{number}"}}}}')
    known = hosts.Hosts(tmp_path, is_locked=True)
    assert known.number("ada") == f"node-{new}"
    assert (tmp_path / hosts.FILE).stat().st_size < files.LARGEST_SMALL // 10
    assert hosts.Hosts(tmp_path).known("ada") == f"node-{new}"
