"""Bytes to lines, and times in them: each piece on its own."""

from __future__ import annotations

import datetime
import json

import pytest

from tprimat.read.parsing import text
from tprimat.read.parsing.text import Blocks, Numbers, Stamp

UTC = datetime.timezone.utc


def offset(minutes: int) -> datetime.timezone:
    return datetime.timezone(datetime.timedelta(minutes=minutes))


def at(*parts: int, zone: datetime.timezone | None = None) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=zone)


@pytest.mark.parametrize(
    ("said", "stamp"),
    [
        ("2026-05-11 02:17:24", Stamp(at(2026, 5, 11, 2, 17, 24), 1.0)),
        ("2026-05-11T02:17:24.5", Stamp(at(2026, 5, 11, 2, 17, 24, 500_000), 0.1)),
        ("2026-05-11 02:17:24,123", Stamp(at(2026, 5, 11, 2, 17, 24, 123_000), 1e-3)),
        ("2026-05-11 02:17:24.123456789", Stamp(at(2026, 5, 11, 2, 17, 24, 123_456), 1e-6)),
        ("2026-05-11 02:17:24Z", Stamp(at(2026, 5, 11, 2, 17, 24, zone=UTC), 1.0)),
        ("2026-05-11 02:17:24+02:30", Stamp(at(2026, 5, 11, 2, 17, 24, zone=offset(150)), 1.0)),
        (
            "2026-05-11 02:17:24.25-0730",
            Stamp(at(2026, 5, 11, 2, 17, 24, 250_000, zone=offset(-450)), 0.01),
        ),
        ("2026-05-11 02:17:24+23:59", Stamp(at(2026, 5, 11, 2, 17, 24, zone=offset(1439)), 1.0)),
        ("2026-05-11 02:17:24+24:00", Stamp(at(2026, 5, 11, 2, 17, 24), 1.0)),
        ("[20260511 02:17:24]", Stamp(at(2026, 5, 11, 2, 17, 24), 1.0)),
        ("20260511 02:17:24", None),
        ("2026-02-30 02:17:24", None),
        ("2026-05-11 02:17", None),
    ],
)
def test_a_time(said, stamp):
    for shown in (said, f"x {said} y"):
        assert text.first_stamp(shown) == text.last_stamp(shown) == stamp
        assert stamp is None or text.first_stamp(shown).time.utcoffset() == stamp.time.utcoffset()


def test_the_first_and_the_last_time():
    said = "2026-05-11 02:17:24 and [20260511 02:17:29] x"
    assert text.first_stamp(said).time.second == 24
    assert text.last_stamp(said).time.second == 29
    assert text.last_stamp_span(said) == (24, 43)
    assert (text.last_stamp("x"), text.last_stamp_span("x"), text.first_stamp("x")) == (
        None,
        None,
        None,
    )
    assert text.last_stamp_span("x 2026-02-30 02:17:24") == (2, 21)
    assert text.last_stamp_span("a: b:c 2026-05-11T02:17:24.5Z: 1:2:3") == (7, 29)


def test_times_on_their_clocks():
    naive, later = Stamp(at(2026, 5, 11, 2), 1.0), Stamp(at(2026, 5, 11, 2, 0, 7), 1.0)
    aware, west = (
        Stamp(at(2026, 5, 11, 2, zone=UTC), 1.0),
        Stamp(at(2026, 5, 11, 2, zone=offset(-60)), 1.0),
    )
    assert (naive.seconds, aware.seconds, west.seconds) == (
        1778464800.0,
        1778464800.0,
        1778468400.0,
    )
    assert later.seconds_after(naive) == 7.0
    assert west.seconds_after(aware) == 3600.0
    assert naive.seconds_after(aware) is aware.seconds_after(naive) is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (1, "1970-01-01T00:00:01+00:00"),
        (2**32 - 1, "2106-02-07T06:28:15+00:00"),
        (2**32, None),
        (0, None),
        (-5, None),
        (None, None),
        (0.5, "1970-01-01T00:00:00+00:00"),
    ],
)
def test_seconds_since_1970(seconds, shown):
    assert text.utc(seconds) == shown


def blocks(*chunks: bytes) -> list[tuple[bytes, bool]]:
    return list(text.blocks_of(chunks))


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ((), []),
        ((b"",), []),
        ((b"ab",), [(b"ab", False)]),
        ((b"abcd\nef",), [(b"abcd\n", True), (b"ef", False)]),
        ((b"a", b"b\nc", b"d\n"), [(b"ab\n", True), (b"cd\n", True)]),
        ((b"abcd", b"ef\ngh\nij", b"\n"), [(b"abcdef\ngh\n", True), (b"ij\n", True)]),
        ((b"a\nb",), [(b"a\n", True), (b"b", False)]),
        ((b"\xef\xbb\xbfab\n",), [(b"ab\n", True)]),
        (("\ufeffab\n".encode("utf-16-le"),), [(b"ab\n", True)]),
        (("\ufeffab\n".encode("utf-16-be"),), [(b"ab\n", True)]),
        (("\ufeffab\n".encode("utf-32-le"),), [(b"ab\n", True)]),
        (("\ufeffab\n".encode("utf-32-be"),), [(b"ab\n", True)]),
        (("abc\n".encode("utf-16-le"),), [(b"abc\n", True)]),
        (("abc\n".encode("utf-16-be"),), [(b"abc\n", True)]),
        # Half a character at the end.
        (("\ufeffab\n".encode("utf-16-le") + b"x",), [(b"ab\n", True), ("\ufffd".encode(), False)]),
    ],
)
def test_blocks(chunks, found):
    assert blocks(*chunks) == found


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_whole_log(encoding):
    assert text.decoded("ab ä\n".encode(encoding)) == "ab ä\n"
    assert text.decoded("\ufeffab ä\n".encode(encoding)) == "ab ä\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"x" * 65 + b"y\nab\n", [("x" * 64, True), ("ab", True)]),
        (b"x" * 64 + b"\nab\n", [("x" * 64, True), ("ab", True)]),
        (b"ab\n" + b"x" * 70, [("ab", True), ("x" * 64, False)]),
        (
            b"ab\n" + b"x" * 30 + b"\r" + b"y" * 50 + b"\nc\n",
            [("ab", True), ("x" * 30, True), ("y" * 50, True), ("c", True)],
        ),
        (b"x" * 90 + b"\r" + b"y" * 5 + b"\nc\n", [("x" * 64, True), ("y" * 5, True), ("c", True)]),
        (
            b"x" * 30 + b"\r" + b"y" * 90 + b"\nc\n",
            [("x" * 30, True), ("y" * 64, True), ("c", True)],
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 33, 200])
def test_lines_that_are_too_long(content, found, size, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 64)
    chunks = (content[place : place + size] for place in range(0, len(content), size))
    assert [(line.text, line.whole) for line in text.lines(chunks)] == found


def test_the_rest_of_a_line_that_is_too_long_is_not_kept(monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 64)
    made = Blocks()
    assert made.feed(b"x" * 64) == []
    assert (made._size, made._dropping) == (64, False)
    assert made.feed(b"y") == []
    assert (made._size, made._dropping, made._parts) == (64, True, [b"x" * 64])
    assert made.feed(b"z" * 500) == []
    assert (made._size, made._dropping) == (64, True)
    assert made.feed(b"z\nab\ncd") == [b"x" * 64 + b"\nab\n"]
    assert (made._size, made._dropping) == (2, False)
    assert made.finish() == [(b"cd", False)]
    assert made.finish() == []


DOCKER = [
    ({"log": "ab\n", "time": "2026-05-11T02:17:24Z"}, "2026-05-11T02:17:24Z ab"),
    ({"log": "ab\n", "time": "today"}, "ab"),
    ({"log": "ab\n", "time": 5}, "ab"),
    ({"log": "ab"}, "ab"),
    ({"log": "\x1b[32mab\x1b[0m\n"}, "ab"),
]


@pytest.mark.parametrize(("entry", "shown"), DOCKER)
def test_a_line_of_docker(entry, shown):
    written = json.dumps(entry, separators=(",", ":"))
    assert [*text.lines_of(f"{written}\nx".encode(), 5)] == [(5, shown, True), (6, "x", True)]


@pytest.mark.parametrize("written", ['{"log":5}', '{"log":"ab', '{"log":"ab"} x', 'x {"log":"ab"}'])
def test_a_line_that_only_resembles_docker(written):
    assert [*text.lines_of(f"{written}\n".encode(), 5)] == [(5, written, True)]


def test_lines_within_a_message_of_docker():
    written = json.dumps({"log": "a\nb\n"}, separators=(",", ":"))
    assert [*text.lines_of(f"{written}\n".encode(), 5)] == [(5, "a", True), (5, "b", True)]


@pytest.mark.parametrize(
    ("block", "whole", "found"),
    [
        (b"a\nb", True, [(5, "a", True), (6, "b", True)]),
        (b"a\nb", False, [(5, "a", True), (6, "b", False)]),
        (b"a\n\n", False, [(5, "a", True), (6, "", True)]),
        (b"a\rb\rc", False, [(5, "a", True), (5, "b", True), (5, "c", False)]),
        (b"a\rb\r\n\r\nc", False, [(5, "a", True), (5, "b", True), (6, "", True), (7, "c", False)]),
        (b"\r\r\nb\n", True, [(6, "b", True)]),
        (b"", True, []),
        # The first half of a line end.
        (b"\r", False, [(5, "", True)]),
    ],
)
def test_lines_of_a_block(block, whole, found):
    assert [*text.lines_of(block, 5, whole=whole)] == found
    assert whole is False or [*text.lines_of(block, 5)] == found


@pytest.mark.parametrize("numpy", [None, text.numpy_if_there()])
def test_numbers_of_lines(numpy, monkeypatch):
    monkeypatch.setattr(text, "_WORTH_NUMPY", 4)
    block = b"ab\ncd\n\n" * 3 + b"ef"
    numbers = Numbers(7, block, numpy)
    places = [0, 3, 6, 7, 14, 20, 21, len(block)]
    assert [numbers.at(place) for place in places] == [7, 8, 9, 10, 13, 15, 16, 16]


@pytest.mark.parametrize(
    ("shown", "bare"),
    [
        ("2026-05-11T02:17:24.5Z ab", "ab"),
        ("2026-05-11T02:17:24+02:00 stdout F ab", "ab"),
        ("[pod/a-0/b] ab", "ab"),
        ("node-3  | ab", "ab"),
        ("[default0]:ab", "ab"),
        ("[1,3]<stderr>:ab", "ab"),
        (" 7: ab", "ab"),
        ("stderr: ab", "ab"),
        ("Mar  1 12:00:05 host app[7]: ab", "ab"),
        ("Mar  1 12:00:05.5 ab", "ab"),
        ("2026-05-11 02:17:24,5 ab", "ab"),
        ("[2026-05-11 02:17:24] [NODE-0(h)] [INFO] ab", "ab"),
        ("[20260511 02:17:24][a/b][rank-3/8][INFO ] [---x.py:7] : ab", "ab"),
        ("1: 2: 3: 4: 5: 6: 7: 8: ab", "ab"),
        ("1: 2: 3: 4: 5: 6: 7: 8: 9: ab", "9: ab"),
        ("ab 7: cd", "ab 7: cd"),
    ],
)
def test_prefixes(shown, bare):
    assert text.without_prefixes(shown) == bare


@pytest.mark.parametrize(
    ("shown", "bare"),
    [
        ("a\x1b[32mb\x1b[0mc", "abc"),
        ("a\x1b]0;t\x07b", "ab"),
        ("a^[[1mb", "ab"),
        ("a\x00b", "ab"),
        ("a[32mb", "a[32mb"),
        ("a [32mb", "a b"),
        ("a[0m", "a"),
        ("x [1;31m[4mb", "x b"),
        ("\x1b(Ba", "a"),
        ("rate[5m]", "rate[5m]"),
    ],
)
def test_colours(shown, bare):
    assert text.clean(shown) == bare


def test_lines_of_one_spelling_differ_in_digits_alone():
    assert text.spelling_of("step 12: 3.5e-07 µ") == "step 00: 0.0e-00 µ".encode()
    assert text.spelling_of("\ud800 7") == text.spelling_of("\ud800 1")
