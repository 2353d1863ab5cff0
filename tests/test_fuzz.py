"""The short form of tools/fuzz.py, and that it finds what it looks for."""

from __future__ import annotations

import signal
import sys

import pytest
from tool_modules import load_tool

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the limits of a process are Linux's here"
)


@pytest.fixture(scope="module")
def fuzzer():
    return load_tool("fuzz")


def test_every_kind_is_answered_and_nothing_is_found(fuzzer):
    found = list(fuzzer.fuzz(3, inputs=2 * len(fuzzer.KINDS)))
    assert {kind for kind, _ in found} == set(fuzzer.KINDS)
    assert [finding for _, finding in found if finding] == []


def test_the_same_seed_makes_the_same_input(fuzzer):
    for number, kind in enumerate(fuzzer.KINDS):
        if kind == "bundle":
            continue  # gzip and tar note the time
        assert fuzzer.given(5, number, list(fuzzer.KINDS)) == fuzzer.given(
            5, number, list(fuzzer.KINDS)
        )


def test_secrets_that_are_known_by_themselves_are_planted(fuzzer):
    assert len(fuzzer._BY_THEMSELVES) >= 3
    planted = [fuzzer.given(1, number, list(fuzzer.KINDS)) for number in range(45)]
    assert sum(secret.encode() in made.content for _, made, _, secret in planted) > 10


def crash(arguments):
    raise ZeroDivisionError


def print_secret(arguments):
    print("see, the secret")
    return 0


def write_half(arguments):
    with open("out/half.json", "w") as file:  # noqa: PTH123
        file.write('{"a": ')
    return 0


def take_memory(arguments):
    return len(bytearray(4 << 30))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (crash, "a traceback"),
        (print_secret, "the secret is printed"),
        (write_half, "torn: half.json"),
        (lambda arguments: 70, "status 70"),
        (take_memory, "a traceback"),
        (lambda arguments: signal.raise_signal(signal.SIGKILL), "ended by signal 9"),
        (lambda arguments: 0, None),
    ],
)
def test_what_must_not_be_is_found(fuzzer, monkeypatch, tmp_path, answer, expected):
    monkeypatch.setattr(fuzzer, "answer", answer)
    made = fuzzer.Input("given.json", b"{}", ("read {}",))
    finding = fuzzer._tried(tmp_path, 1, "result", made, "read {}", "the secret")
    assert expected in finding.what if expected else finding is None


def test_an_answer_that_takes_too_long_is_ended(fuzzer, monkeypatch, tmp_path):
    import time

    monkeypatch.setattr(fuzzer, "LIMIT_S", 0.3)
    monkeypatch.setattr(fuzzer, "answer", lambda arguments: time.sleep(60))
    finding = fuzzer._tried(tmp_path, 1, "result", fuzzer.Input("x", b"", ()), "read {}", "s")
    assert "no answer within" in finding.what
