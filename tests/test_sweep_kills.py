"""The short form of tools/sweep_kills.py: a sweep of real runs that is killed twice and resumed."""

from __future__ import annotations

import importlib.util
import random
import sys

import pytest
from tool_modules import load_tool

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.skipif(
        sys.platform != "linux", reason="what is left behind is looked for in /proc"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None, reason="lightning is not installed"
    ),
]


def test_a_sweep_that_is_killed_twice_ends_as_an_unbroken_one(monkeypatch, tmp_path, capsys):
    tool = load_tool("sweep_kills")
    options = (
        "--model=llama",
        "--steps=5",
        "--global-batch-size=2",
        "--micro-batch-size=1,2",
        "--resume",
    )
    monkeypatch.setattr(tool, "SWEEP", tool.Kind(tool.benchmark(*options), tool.SWEEP.module, 5))
    monkeypatch.setattr(tool, "CONFIGURATIONS", 2)
    assert tool.torture(2, random.Random(), tmp_path) == 0, capsys.readouterr().out
