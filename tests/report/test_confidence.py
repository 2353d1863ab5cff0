"""The confidence level is one constant: another value of it changes every interval and every text
that names it.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.analysis import intervals

TESTS = Path(__file__).resolve().parents[1]


def texts(confidence: float) -> dict[str, str]:
    """Return the texts of a program of its own, as nothing may be imported before the level is
    set.
    """
    result = subprocess.run(
        [sys.executable, TESTS / "texts_at_level.py", str(confidence)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent), "PYTHONIOENCODING": "utf-8"},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("confidence", [0.9, 0.995])
def test_every_text_names_the_level_of_its_intervals(confidence):
    usual, other = texts(0.95), texts(confidence)
    level = f"{100 * confidence:g}%"
    for name, text in other.items():
        said = re.sub(r"\s+", " ", text)
        assert f"{level} " in said, name
        assert not re.search(r"(?<![\d.])95% (CI|confidence|interval|prediction)", said), name
        assert text.replace(level, "95%") != usual[name], (
            f"{name}: the level is another, the interval is not"
        )


def test_the_interval_within_a_run_is_of_the_level(monkeypatch):
    values = [1 + 0.01 * math.sin(37 * step) for step in range(100)]
    usual = intervals.within_run_interval(values)
    monkeypatch.setattr(intervals, "CONFIDENCE", 0.99)
    wider = intervals.within_run_interval(values)
    assert usual.about == wider.about == "median"
    assert wider.high - wider.low > usual.high - usual.low
    assert (usual.coverage, wider.coverage) == (0.92, 0.96)
