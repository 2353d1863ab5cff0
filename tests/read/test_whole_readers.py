"""A small log of each format in tests/read/whole_logs, and beside it all that is read of it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import msgspec
import pytest

from tprimat.read.parsing.text import Line

FOLDER = Path(__file__).parent / "whole_logs"


def known(value):
    """A value without what is unknown in it."""
    if isinstance(value, dict):
        found = {name: known(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each not in (None, [], {})}
    return [known(each) if isinstance(each, dict) else each for each in value] if isinstance(value, list) else value


def read(name: str) -> list[dict]:
    """All that a format's own reader finds: notes, Run, and each statement with its line."""
    reader = importlib.import_module(f"tprimat.read.{name}.reader").Reader()
    for number, text in enumerate((FOLDER / f"{name}.log").read_text(encoding="utf-8").splitlines(), 1):
        reader.feed(Line(number, text, True))
    return [
        {
            "notes": list(parsed.notes),
            "steps": parsed.steps,
            "stated": {name: [each.value, each.line] for name, each in parsed.stated.items()},
            "run": known(json.loads(msgspec.json.encode(parsed.run()))),
        }
        for parsed in reader.finish()
    ]


@pytest.mark.parametrize("name", ["megatron", "nemo", "torchtitan"])
def test_all_that_is_read_of_a_log(name):
    assert read(name) == json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
