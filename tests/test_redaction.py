"""The forms of secrets that are removed from text, and what stays."""

from __future__ import annotations

import pytest
from made_secrets import KEPT, SECRETS

from tprimat.redaction import REMOVED, is_secret, redacted
from tprimat.results.result_file import without_secrets


@pytest.mark.parametrize(("line", "secret"), SECRETS)
def test_a_secret_is_removed_and_the_rest_stays(line, secret):
    assert len(SECRETS) >= 40
    before, after = line.split(secret)
    assert redacted(line) == f"{before}{REMOVED}{after}"
    # In the middle of others, in a message that quotes it, and once more.
    many = f"step 1\n[rank0]: {line}\r\nİ step 2\n"
    assert redacted(many) == many.replace(secret, REMOVED)
    assert redacted(redacted(many)) == redacted(many)


@pytest.mark.parametrize("line", KEPT)
def test_what_only_looks_like_one_stays(line):
    assert redacted(line) == line


def test_a_key_of_several_lines_leaves_as_many():
    text = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nAAKC+/==\n-----END RSA PRIVATE KEY-----\nstep 1\n"
    assert redacted(text) == "-----BEGIN RSA PRIVATE KEY-----[removed]\n\n\n-----END RSA PRIVATE KEY-----\nstep 1\n"


@pytest.mark.parametrize(
    ("shown", "removed"),
    [
        ("hf_" + "a" * 15, "hf_" + "a" * 16),
        ("my_secret=" + "x" * 7, "my_secret=" + "x" * 8),
        ("key: " + "a" * 31, "key: " + "a" * 32),
        ("key: " + "aB3" + "a" * 12, "key: " + "aB3" + "a" * 13),
        ("https://abcdefg@host", "https://abcdefgh@host"),
        ("api_token=12345678", "api_token=1234567x"),
    ],
)
def test_the_shortest(shown, removed):
    assert redacted(shown) == shown
    assert REMOVED in redacted(removed)


def test_time_is_linear_in_the_text():
    # No mark makes a pattern look at the rest of the text again and again.
    for mark in (
        "key=",
        "login ",
        "://a",
        "-----begin ",
        "sig=",
        "auth: bearer ",
        "password=",
        'token", \\',
        "sk-",
        "secret-",
        "token: a1",
        "-token a1",
        "curl -u ",
        "cookie: ",
        "hooks.slack.com/",
        "1q~",
        "1:aa",
        "a_" + "a1" * 20,
        "a-a-a-",
    ):
        assert redacted(mark * 20_000) is not None


def test_variables_of_the_environment():
    assert is_secret("NCCL_AUTH_TOKEN", "1")
    assert is_secret("TORCH_EXTRA", "a" * 32)
    assert not is_secret("TORCH_EXTRA", "a" * 31)
    assert not is_secret("NCCL_DEBUG", "INFO")


TOKEN = "hf_" + "abcDEF123456ghiJKL789"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([["--hub-token", TOKEN], ["--steps", "3"]], [["--hub-token", "[removed]"], ["--steps", "3"]]),
        ([[["x", [TOKEN]]]], [[["x", ["[removed]"]]]]),
        ({TOKEN: "on"}, {"[removed]": "on"}),
        ({TOKEN: TOKEN}, {"[removed]": "[removed]"}),
        ({"hub_token": "abcd-1234-efgh", "lr": "0.001"}, {"hub_token": "[removed]", "lr": "0.001"}),
    ],
)
def test_what_lies_deep_in_a_result_or_is_a_name_is_removed_too(value, expected):
    assert without_secrets(value) == expected


@pytest.mark.parametrize("value", [(1.5, None, 2.0), [[1, 2], [3, 4]], {"tokens": (1.0, 2.0)}, "a text", None, 3])
def test_without_a_secret_the_same_object_comes_back(value):
    assert without_secrets(value) is value
