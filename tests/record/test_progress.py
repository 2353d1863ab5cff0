"""Progress: marked lines, there and back."""

from __future__ import annotations

import msgspec
import pytest

from tprimat.frameworks.torchtitan import registry
from tprimat.record import progress


@pytest.mark.parametrize(
    "message",
    [
        progress.Step(3, 60, 0.1, None),
        progress.Step(60, 60, None, 0.1),
        progress.Saved("/a directory/ü.json"),
    ],
)
def test_there_and_back(message):
    line = progress.encode(message)
    assert "\n" not in line
    assert progress.decode(line) == message


@pytest.mark.parametrize(
    "line", ["", "Step 3", '{"type":"step"}', progress.MARK, progress.MARK + '{"type":"st']
)
def test_any_other_line_is_none(line):
    assert progress.decode(line) is None


@pytest.mark.parametrize(("value", "asked"), [("1", True), ("0", False), (None, False)])
def test_marks_only_for_who_asked(monkeypatch, value, asked):
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(progress.VARIABLE, value)
    assert progress.is_enabled() is asked


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("ab12/3", ("ab12", 3)),
        ("ab12/0", (None, None)),
        ("ab12/", (None, None)),
        ("/3", (None, None)),
        ("", (None, None)),
    ],
)
def test_session_and_round_of_the_environment(value, known):
    assert progress.session_of({progress.SESSION: value}) == known
    assert progress.session_of({}) == (None, None)


def test_what_a_session_knows_reaches_its_runs():
    known = progress.Known("d1g3st", None, ("--model", "llama"))
    environ = {progress.SESSION: "ab12/3", progress.KNOWN: msgspec.json.encode(known).decode()}
    expected = {
        "session": "ab12",
        "round": 3,
        "request": "d1g3st",
        "tuning": None,
        "arguments": ("--model", "llama"),
    }
    assert progress.given(environ) == expected
    assert progress.given({**environ, progress.KNOWN: "{"})["arguments"] is None


def test_no_variable_of_a_session_is_a_frameworks_own():
    # It would replace what the launch sets.
    assert registry.REQUEST not in {progress.VARIABLE, progress.SESSION, progress.KNOWN}
