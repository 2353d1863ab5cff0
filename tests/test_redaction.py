"""The forms of secrets that are removed from text, and what stays."""

from __future__ import annotations

import itertools
import re

import pytest
from made_secrets import KEPT, SECRETS
from planted import HARMLESS, PLANTED, drawn, parts

from tprimat.redaction import REMOVED, Names, is_secret, names, redacted, redacted_start
from tprimat.redaction.forms import ISSUED_FORMS, SECRET_FORMS
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


def test_x7_tables_with_secrets_in_any_order():
    tables = [
        "user,token\nada,abcd-1234-efgh\n",
        "user,password\nada,hunter2\n",
        "user,api_key\nada,abcdef-123456\n",
    ]
    for some in itertools.permutations(tables):
        assert redacted("\n".join(some)).count(REMOVED) == 3
    assert (
        redacted("user,password\nada,hunter2\nx;y;api_key\n1;2;abcdef-123456\n").count(REMOVED) == 2
    )
    # The cells of a table are no header.
    assert redacted("user,password\nada,password\nbob,letmein\n\n").endswith(f"bob,{REMOVED}\n\n")


def test_a_key_of_several_lines_leaves_as_many():
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nAAKC+/==\n-----END RSA PRIVATE"
        " KEY-----\nstep 1\n"
    )
    shown = (
        "-----BEGIN RSA PRIVATE KEY-----\n[removed]\n[removed]\n-----END RSA PRIVATE"
        " KEY-----\nstep 1\n"
    )
    assert redacted(text) == shown


@pytest.mark.parametrize(
    ("shown", "removed"),
    [
        ("hf_" + "a" * 15, "hf_" + "a" * 16),
        ("my_secret=" + "x" * 7, "my_secret=" + "x" * 8),
        ("key: " + "a" * 31, "key: " + "a" * 32),
        ("key: " + "aB3" * 5, "key: " + "aB3" * 5 + "a"),
        # Parts of more than four characters on average, or of more than three in both cases, are a
        # name's.
        ("key: abcdefgh1jklmnop", "key: abcdefg1hijklmn2"),
        ("key: Abcdef1Ghijkl2Mn", "key: Abcdef1Ghijk2Mn3"),
        ("--db-pass x", "--db-pass 1"),
        ("password: 123", "password: 1234"),
        ("API_TOKEN=12345", "API_TOKEN=123456"),
        ("https://h/?token=abcdEF1", "https://h/?token=abcdEF12"),
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
        "machine a login ",
        "- token\n",
        "password is ",
        "7z a ",
        "mnemonic: abc ",
        "$6$abc",
        "password\n",
        "|password",
        'secret="""\n',
        "password: &a ",
        "pw: 1234 ",
        "pass\u200bword",
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
        (
            [["--hub-token", TOKEN], ["--steps", "3"]],
            [["--hub-token", "[removed]"], ["--steps", "3"]],
        ),
        ([[["x", [TOKEN]]]], [[["x", ["[removed]"]]]]),
        ({TOKEN: "on"}, {"[removed]": "on"}),
        ({TOKEN: TOKEN}, {"[removed]": "[removed]"}),
        ({"hub_token": "abcd-1234-efgh", "lr": "0.001"}, {"hub_token": "[removed]", "lr": "0.001"}),
    ],
)
def test_what_lies_deep_in_a_result_or_is_a_name_is_removed_too(value, expected):
    assert without_secrets(value) == expected


@pytest.mark.parametrize(
    "value", [(1.5, None, 2.0), [[1, 2], [3, 4]], {"tokens": (1.0, 2.0)}, "a text", None, 3]
)
def test_without_a_secret_the_same_object_comes_back(value):
    assert without_secrets(value) is value


FORMS = (*SECRET_FORMS, *ISSUED_FORMS)


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.kind}, {form.source}" for form in FORMS])
def test_x7_a_row_finds_its_example_and_not_what_only_looks_like_it(form):
    for seed in range(20):
        text = drawn(form.example, seed)
        assert redacted(re.sub("[«»]", "", text)) == re.sub("«[^»]*»", REMOVED, text)
    assert form.harmless
    assert redacted(form.harmless) == form.harmless
    assert form.source.startswith(("gitleaks ", "detect-secrets ", "logs"))


@pytest.mark.parametrize("form", PLANTED)
def test_x7_a_planted_secret_is_removed_and_nothing_else(form):
    assert len(PLANTED) >= 200
    text, shown, secrets = parts(form)
    assert secrets
    assert redacted(text) == shown
    assert redacted(shown) == shown
    assert text.count("\n") == redacted(text).count("\n")


@pytest.mark.parametrize("text", HARMLESS)
def test_x0_a_harmless_text_is_unharmed(text):
    assert len(HARMLESS) >= 200
    assert redacted(drawn(text)) == drawn(text)


def test_x7_kinds_are_known_by_rows_of_their_own():
    # Every detector of detect-secrets that isn't one of entropy, of addresses, or of values that
    # have a name.
    named = " ".join(form.source for form in FORMS)
    for kind in (
        "PrivateKey",
        "BasicAuth",
        "Keyword",
        "PypiToken",
        "SendGrid",
        "SquareOAuth",
        "Stripe",
        "DiscordBotToken",
    ):
        assert f"{kind}Detector" in named
    assert len(set(re.findall(r"gitleaks ([\w-]+)|, ([\w-]+)", named))) > 60


METRICS = (
    "forward_pass",
    "test_pass",
    "num_pass",
    "reward/tests_pass",
    "password_loss",
    "token",
    "tokens",
    "key",
    "secret",
)
METRICS += (
    "pwd",
    "passwd",
    "pw",
    "pass",
    "auth",
    "cookie",
    "sig",
    "signature",
    "credit",
    "api_key",
    "access_token",
    "value",
    "password",
)
FIGURES = (
    "0.1234",
    "123.4",
    "12",
    "1.2e-05",
    "-0.5",
    "nan",
    "99.5%",
    "12.3ms",
    "0.25 s",
    "1,234.5",
    ".5",
    "3.",
)


STATED = (
    "NAME: FIGURE",
    "NAME=FIGURE",
    '"NAME": FIGURE',
    "'NAME': FIGURE",
    "NAME FIGURE",
    "| NAME | FIGURE |",
    "NAME:FIGURE",
)
STATED += (
    "NAME = FIGURE",
    "--NAME FIGURE",
    "NAME ....... FIGURE",
    "NAME\tFIGURE",
    "NAME -> FIGURE",
)
AROUND = (
    "step 5 | § | loss: 2.5",
    '{§, "step": 5}',
    "[rank0] §\n§",
    "§",
    "[2026-01-01 00:00:01] iteration 5/ 10 | § |",
)


@pytest.mark.parametrize("name", METRICS)
def test_x0_a_figure_of_a_step_is_never_removed(name):
    for stated, figure, around in itertools.product(STATED, FIGURES, AROUND):
        text = around.replace("§", stated.replace("NAME", name).replace("FIGURE", figure))
        assert redacted(text) == text


def test_x7_what_was_a_number_in_json_stays_json():
    assert (
        redacted('{"password": 12345678, "loss": 2.5}') == '{"password": "[removed]", "loss": 2.5}'
    )


def test_x7_what_is_quoted_is_redacted_before_it_is_cut():
    secret = "abcDEF123456" * 4
    text = "x" * 90 + f" HF_TOKEN={secret}"
    assert redacted_start(text, 110) == "x" * 90 + " HF_TOKEN=[removed]"[:20]
    assert "abc" not in redacted_start(text, 103)


@pytest.mark.parametrize(
    "command",
    [
        ["train.py", "--db-pass", "1234", "--steps", "20"],
        ["train.py", "--password", "hunter2"],
        ["train.py", "--pw=hunter2"],
        ["push", "-u", "ada", "-p", "hunter2"],
        ["train.py", "--data", "https://h.example.com/?token=abcDEF123456"],
        ["sshpass", "-p", "hunter2", "ssh", "gpu"],
        ["curl", "-u", "ada:hunter2", "https://x"],
    ],
)
def test_x7_in_the_words_of_a_command(command):
    shown = " ".join(without_secrets(tuple(command)))
    assert REMOVED in shown
    assert not re.search("1234\\b|hunter2|abcDEF", shown)


class TestHosts:
    """Lists and ranges of hosts: what they stand for is never written out."""

    def replaced(self, text: str) -> str:
        found = Names(lambda name: "node-?")
        found.learn(text)
        return found.text(text)

    def test_x3_a_range_is_found_at_its_limits(self):
        text = "SLURM_NODELIST=gpu[08-12,20],login1 at {}"
        for name, is_one in (
            ("gpu07", 0),
            ("gpu08", 1),
            ("gpu10", 1),
            ("gpu20", 1),
            ("gpu21", 0),
            ("gpu8", 0),
            ("gpu100", 0),
        ):
            assert ("node-?" in self.replaced(text.format(name)).partition(" at ")[2]) == is_one, (
                name
            )
        assert self.replaced("SLURM_NODELIST=h[1-8] on h8 with h100, xh8").endswith(
            "on node-? with h100, xh8"
        )

    @pytest.mark.parametrize(
        "text",
        [
            "SLURM_NODELIST=h0[" + ",".join(["1-99999"] * 2_400) + "]",
            " ".join(
                f"SLURM_NODELIST=h{each}[1-99999," + ",".join(["1-99999"] * 120) + "]"
                for each in range(96)
            ),
            " ".join(
                "SLURM_NODELIST=" + ",".join(f"gpu{each}x{i}" for i in range(99))
                for each in range(110)
            ),
            "SLURM_NODELIST=" + "".join(f"rack-{each}[1-999999999999]," for each in range(6_000)),
            "".join(f"hostname: h{each}.cluster{each}.example.com " for each in range(3_000)),
            "".join(f"hostname: rack-{each} " for each in range(9_000)) + "rack-" * 20_000,
        ],
        ids=["label", "line", "names", "ranges", "domains", "one word"],
    )
    def test_x3_what_is_looked_for_is_bounded(self, text):
        assert len(text) > 19_000
        found = Names(lambda name: "node-?")
        found.learn(text)
        assert len(found._known) <= names.MOST_NAMES
        assert len(found._ranges) <= names.MOST_RANGES
        assert len(found._domains) <= names.MOST_RANGES
        assert found.text(text)

    def test_x3_names_and_ranges_beyond_the_limits_are_replaced_where_they_are_named(
        self, monkeypatch
    ):
        monkeypatch.setattr(names, "MOST_NAMES", 2)
        monkeypatch.setattr(names, "MOST_RANGES", 2)
        text = "hostname: alpha1 hostname: beta2 hostname: gamma3; alpha1 beta2 gamma3"
        assert self.replaced(text).partition("; ")[2] == "node-? node-? gamma3"
        text = "SLURM_NODELIST=a[1-2],b[1-2],c[1-2] at a1 b1 c1"
        assert self.replaced(text).partition(" at ")[2] == "node-? node-? c1"


def test_x7_an_account_on_a_machine():
    shown = Names(lambda name: "node-1")
    assert (
        shown.text("train.py ssh://ada@gpu17.acme.corp/data") == "train.py ssh://user-1@node-1/data"
    )
