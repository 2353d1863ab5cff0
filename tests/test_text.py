from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tprimat.errors import UsageError
from tprimat.text import counted, for_encoding, plain, runnable, suggestion


class TestPlain:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("MI300X", "MI300X"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x9b31mred", "red"),
            ("\x1b]0;title\x07name", "name"),
            ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]0;never ended", "0;never ended"),
            ("\x1b(Bname", "name"),
            ("two\nlines\tand  spaces", "two lines and spaces"),
            ("gnp\u202eexe", "gnpexe"),
            ("a\u200bb\u2066c\ufeff", "abc"),
            ("\ud800x", "x"),
            ("a\rb\x00c\x7fd", "a b c d"),
            ("8×H100 – 10⁹", "8×H100 – 10⁹"),
            ("图形卡 é", "图形卡 é"),
            (None, "None"),
        ],
    )
    def test_shows_only_what_can_be_read(self, text, shown):
        assert plain(text) == shown

    def test_cuts_with_an_ellipsis(self):
        assert plain("abcdefgh", 5) == "abcd…"
        assert plain("abcde", 5) == "abcde"

    @pytest.mark.parametrize(
        ("text", "limit", "shown"),
        [
            ("out of memory on GPU 3", 22, "out of memory on GPU 3"),
            ("out of memory on GPU 3", 21, "out of memory on …"),
            ("out of memory on GPU 12", 22, "out of memory on GPU …"),
            ("out of memory on GPU 3", 20, "out of memory on …"),
            # Between two words, where they end at the limit, too.
            ("out of memory", 8, "out of …"),
            ("out of memory", 9, "out of …"),
            # A path has no words; of a word and a path half must be left.
            ("/data/checkpoints/last", 10, "/data/che…"),
            ("at /data/checkpoints/last", 10, "at /data/…"),
            ("of /d /checkpoints", 10, "of /d …"),
        ],
    )
    def test_c12_cuts_between_words(self, text, limit, shown):
        assert plain(text, limit) == shown
        assert len(shown) <= limit

    @given(st.text(alphabet=st.characters(), max_size=60))
    def test_is_one_line_that_can_be_written_and_stays_the_same(self, text):
        shown = plain(text)
        assert plain(shown) == shown
        assert shown.isprintable()
        shown.encode()

    def test_takes_no_longer_for_many_sequences_without_end(self):
        assert len(plain("\x1b]" * 20_000)) <= 20_000

    def test_error_lines_pass_it(self):
        assert (
            UsageError("\x1b[2Jgone\nnext", heading="wrong-usage").line().splitlines()[0]
            == "error: gone next"
        )


class TestForEncoding:
    def test_leaves_what_can_be_written(self):
        assert for_encoding("8×H100 … –", "utf-8") == "8×H100 … –"
        assert for_encoding("8×H100", "cp1252") == "8×H100"

    def test_spells_what_can_not(self):
        assert for_encoding("8×H100 … 1.3× – ───", "ascii") == "8xH100 ... 1.3x - ---"

    def test_an_unknown_letter_or_encoding_is_no_error(self):
        assert for_encoding("图", "ascii") == "?"
        assert for_encoding("×", "no-such-encoding") == "x"
        assert for_encoding("×", None) == "×"


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "step", "1 step"),
        (0, "step", "0 steps"),
        (2, "process", "2 processes"),
        (1, "process", "1 process"),
    ],
)
def test_a_number_has_its_noun(number, noun, text):
    assert counted(number, noun) == text


def test_a_name_that_is_near_is_suggested():
    known = ("llama", "mistral", "qwen")
    assert suggestion("lama", known, "choose one") == "did you mean llama?"
    assert (
        suggestion("H100", ("H100X", "H100Y"), "choose one", most=3)
        == "the nearest are H100Y, H100X"
    )
    assert suggestion("xyz", known, "choose one") == "choose one"


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("/usr/bin/tprimat", "tprimat"),
        ("./benchmark.py", "python3 -m tprimat"),
        ("C:\\clone\\compare_results.py", "python3 -m tprimat"),
        ("/clone/tprimat/__main__.py", "python3 -m tprimat"),
        ("/home/me/train.py", "python3 -m tprimat"),
        ("/lib/pytest/__main__.py", "tprimat"),
        ("tprimat.exe", "tprimat"),
    ],
)
def test_c1_advice_names_a_command_that_can_be_typed(monkeypatch, program, shown):
    monkeypatch.setattr("sys.argv", [program])
    assert runnable("(tprimat doctor shows why)") == f"({shown} doctor shows why)"
    for other in ("python3 -m tprimat read", "not of tprimat", "./tprimat read", "my-tprimat read"):
        assert runnable(other) == other


ADVICE = (
    "./benchmark.py --runs 5; python3 compare_results.py; tprimat read x; pip install -r"
    " requirements.txt"
)
IN_CLONE = "./benchmark.py --runs 5; python3 compare_results.py"
ELSEWHERE = "{} benchmark --runs 5; {} compare; {} read x"


@pytest.mark.parametrize(
    ("program", "is_module", "here", "shown"),
    [
        # In the clone.
        ("compare_results.py", False, "clone", f"{IN_CLONE}; python3 -m tprimat read x"),
        ("tprimat/__main__.py", True, "clone", f"{IN_CLONE}; python3 -m tprimat read x"),
        ("/bin/tprimat", False, "clone", f"{IN_CLONE}; tprimat read x"),
        # In a directory of results.
        ("scripts/compare.py", False, "elsewhere", ELSEWHERE),
        ("tprimat/__main__.py", False, "elsewhere", ELSEWHERE),
        ("tprimat/__main__.py", True, "elsewhere", ELSEWHERE.replace("{}", "python3 -m tprimat")),
        ("/bin/tprimat", False, "elsewhere", ELSEWHERE.replace("{}", "tprimat")),
    ],
)
def test_c1_advice_for_the_directory(monkeypatch, tmp_path, program, is_module, here, shown):
    clone = Path(__file__).resolve().parent.parent
    monkeypatch.setattr("sys.argv", [str(clone / program)])
    monkeypatch.setattr(
        "sys.orig_argv", ["python3", *(["-m", "tprimat"] if is_module else [program])]
    )
    monkeypatch.chdir(clone if here == "clone" else tmp_path)
    requirements = (
        "requirements.txt" if here == "clone" else shlex.quote(str(clone / "requirements.txt"))
    )
    by_path = shlex.join(["python3", str(clone / "tprimat" / "__main__.py")])
    assert runnable(ADVICE) == f"{shown.replace('{}', by_path)}; pip install -r {requirements}"
