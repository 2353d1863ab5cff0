import codecs
import datetime
import random

import pytest

from tprimat.read.parsing import text

LINE = "iteration 3/ 50 | lm loss: 1.0 |"


def read(content: bytes, size: int = 7) -> list[text.Line]:
    return list(text.lines(content[at : at + size] for at in range(0, len(content), size)))


def test_lines_are_numbered_and_the_last_one_is_known_to_be_cut():
    assert read(b"one\n\nthree") == [(1, "one", True), (2, "", True), (3, "three", False)]


def test_windows_line_ends_and_no_content():
    assert [line.text for line in read(b"a\r\nb\r\n")] == ["a", "b"]
    assert read(b"") == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_byte_order_marks_decide_over_the_encoding(encoding, size):
    marks = {
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
        "utf-32-le": codecs.BOM_UTF32_LE,
        "utf-8": codecs.BOM_UTF8,
    }
    content = marks[encoding] + f"{LINE}\r\nzweite Zeile: ä\r\n".encode(encoding)
    assert [line.text for line in read(content, size)] == [LINE, "zweite Zeile: ä"]


def test_broken_bytes_lose_only_themselves():
    assert [line.text for line in read(b"ab\xff\xfecd\nef\n")] == ["ab\ufffd\ufffdcd", "ef"]


def test_a_progress_bar_is_parted_and_keeps_its_line_number():
    assert read(b"10%\r20%\riteration 1\nnext\n", 4) == [
        (1, "10%", True),
        (1, "20%", True),
        (1, "iteration 1", True),
        (2, "next", True),
    ]


def test_a_file_without_line_ends_takes_bounded_memory():
    size = text.LONGEST_LINE
    found = list(text.lines(iter([b"x" * (1 << 18)] * 40 + [b"\n" + LINE.encode() + b"\n"])))
    assert len(found[0].text) <= size + (1 << 18)
    assert found[1] == (2, LINE, True)


def test_a_long_progress_bar_is_parted_before_its_line_ends():
    content = b"".join(b"%07d\r" % number for number in range(300_000)) + b"done\n"
    found = list(text.lines(iter([content])))
    assert found[-1] == (1, "done", True)
    assert all(line.number == 1 for line in found)


@pytest.mark.parametrize(
    "coloured",
    [
        "\x1b[32miteration 3\x1b[0m/ 50 |\x1b[1;34m lm loss: 1.0 |\x1b[0m",
        "[32miteration 3[0m/ 50 |[1;34m lm loss: 1.0 |[0m",
        "^[[32miteration 3^[[0m/ 50 | lm loss: 1.0 |^[[0m",
        "\\u001b[32miteration 3\\u001b[0m/ 50 | lm loss: 1.0 |",
        "\x1b]0;title\x07iteration 3/ 50 | lm loss: 1.0 |\x1b[K",
        "\x1b[38;5;196miteration 3\x1b[m/ 50 | lm loss: 1.0 |",
        "\x00\x00iteration 3/ 50 | lm loss: 1.0 |",
        "[1m[31miteration 3[39m/ 50 |[0m[38;2;180;60;0m lm loss: 1.0 |[39m[0m",
    ],
)
def test_colours_are_taken_out_with_and_without_their_escape_byte(coloured):
    assert text.clean(coloured) == LINE


@pytest.mark.parametrize(
    "plain", ["rate[5m] of queries", "[main] ready", "[20260511 02:18:01][rank-7/8]", "x[1]"]
)
def test_brackets_that_are_no_colours_stay(plain):
    assert text.clean(plain) == plain


PREFIXES = (
    "2026-05-11T02:17:24.123456789Z ",
    "2026-05-11T02:17:24.123456789Z stdout F ",
    "[pod/train-0/pytorch] ",
    "[rank3]: ",
    "[default0]:",
    "12: ",
    "trainer-1  | ",
    "[1,0]<stdout>:",
    "stdout: ",
    "[20260511 02:17:24][rank-0/8][DEBUG]    [----------logging.py:99] : ",
    "[20251030 07:32:08][rank-0/8][INFO ] [---------trainer.py:842] : ",
    "[20260511 02:17:24][team/user][pre_trainer][ip-10][rank-0/8][INFO] ",
    "[2026-05-08 02:14:02] [NODE-0(host)] [ERROR] ",
    "[NODE-0(gpu-40)] [INFO] ",
    "May 11 02:17:24 gpu-40 python3[123]: ",
    "May  1 02:17:24 ",
    "2026-05-11 02:17:24 ",
)


def test_prefixes_come_off_in_any_order():
    rng = random.Random(0)
    for _ in range(200):
        chosen = rng.sample(PREFIXES, rng.randint(0, 4))
        assert (
            text.without_prefixes("".join(chosen) + "RuntimeError: no memory").strip()
            == "RuntimeError: no memory"
        )


def test_text_that_only_resembles_a_prefix_stays():
    for said in ("iteration 5/ 20 | x", "  seq_length ..... 4096", "OSError: no"):
        assert text.without_prefixes(said) == said


def test_stamps_are_read_with_their_resolution_and_offset():
    naive = text.last_stamp("[20260511 02:17:24][rank-7/8] [2026-05-11 02:17:23.861530] ")
    assert naive == (datetime.datetime(2026, 5, 11, 2, 17, 23, 861530), 1e-6)
    first = text.first_stamp("[20260511 02:17:24][rank-7/8] [2026-05-11 02:17:23.861530] ")
    assert first == (datetime.datetime(2026, 5, 11, 2, 17, 24), 1.0)
    aware = text.first_stamp("2026-05-11T02:17:24.5+02:00 x")
    assert aware is not None
    assert aware.time.isoformat() == "2026-05-11T02:17:24.500000+02:00"
    assert aware.seconds_after(naive) is None


@pytest.mark.parametrize(
    "said", ["no time", "2026-13-41 02:17:24", "12026-05-11 02:17:24", "[20261332 99:00:00]"]
)
def test_what_is_no_time_is_no_stamp(said):
    assert text.first_stamp(said) is None
