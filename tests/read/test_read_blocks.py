import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tprimat.read.parsing import text

PIECES = st.sampled_from(
    [
        b"\n", b"\r", b"\r\n", b"\r\r\n", b"x", b"iteration", b"0123456789" * 3, b"y" * 70, b"\x1b[32m", b"\x1b[0m",
        b"\x1b]0;title\x07", b"\x1b]0;open", b"[32m", b"^[[0m", b"\\u001b[1m", b"\x00", "ä".encode(), b"\xe2\x82",
        "\x9b1m".encode(), b"\xff", b" ",
    ]
)  # fmt: skip


def cut(content: bytes, seed: int) -> list[bytes]:
    """Content in chunks of any size, empty ones too."""
    rng = random.Random(seed)
    chunks, at = [], 0
    while at < len(content):
        size = rng.choice((0, 1, 2, 7, 40, 300))
        chunks.append(content[at : at + size])
        at += size
    return chunks


@pytest.fixture(autouse=True)
def short_lines(monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 64)


@given(st.lists(PIECES, max_size=60), st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_lines_are_the_same_wherever_chunks_end(pieces, seed):
    content = b"".join(pieces)
    assert list(text.lines(cut(content, seed))) == list(text.lines([content]))


@pytest.mark.parametrize("size", [1, 7, 64, 65, 1000])
@pytest.mark.parametrize("between", ["", "\x1b[0m", "\r", "\r\r", "\x1b[0m\r\x1b[0m"])
def test_what_a_long_progress_bar_leaves_empty_is_no_line(between, size):
    bar = "".join(f"{number:6d}%\r{between}" for number in range(40))
    content = f"first\r\n{bar}{between}\r\n\r\n\n{bar}{between}\nlast".encode()
    found = list(text.lines(content[at : at + size] for at in range(0, len(content), size)))
    shown = [f"{number:6d}%" for number in range(40)]
    assert [line.text for line in found] == ["first", *shown, "", "", *shown, "last"]
    assert [line.number for line in found] == [1, *[2] * 40, 3, 4, *[5] * 40, 6]
    assert [line.whole for line in found] == [True] * 83 + [False]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_lines_that_show_nothing_at_all_are_the_same_wherever_chunks_end(size):
    nothing = b"\x1b[0m" * 30
    content = (
        nothing
        + b"\r"
        + nothing
        + b"\n"
        + nothing
        + b"\r\n"
        + nothing
        + b"\n"
        + b"\r" * 200
        + b"\n"
        + b"x\r"
    )
    found = list(text.lines(content[at : at + size] for at in range(0, len(content), size)))
    assert found == [(2, "", True), (3, "", True), (5, "x", True)]


@given(st.lists(PIECES, max_size=60), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_no_chunk_makes_a_line_longer_than_the_longest(pieces, seed):
    content = b"".join(pieces)
    assert all(len(line.text) <= 64 for line in text.lines(cut(content, seed)))


@given(st.lists(PIECES, max_size=40))
@settings(max_examples=200, deadline=None)
def test_lines_cleaned_together_are_lines_cleaned_one_by_one(pieces):
    shown = b"".join(pieces).decode("utf-8", "replace")
    assert text.clean(shown).split("\n") == [text.clean(line) for line in shown.split("\n")]


@given(st.lists(PIECES, max_size=60), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_blocks_hold_all_lines_that_are_not_too_long(pieces, seed):
    content = b"ab" + b"".join(pieces).replace(b"\xff", b"")
    blocks = text.Blocks()
    found = [block for chunk in cut(content, seed) for block in blocks.feed(chunk)]
    assert all(block.endswith((b"\n", b"\r")) for block in found)
    found += [block for block, _ in blocks.finish()]
    whole = b"".join(found)
    if all(len(line) <= 64 for line in content.split(b"\n")):
        assert whole == content
    elif all(len(line) <= 64 for line in content.replace(b"\r", b"\n").split(b"\n")):
        # A progress bar longer than a line is cut between its parts, which may leave an empty one.
        assert [part for part in re.split(rb"[\r\n]", whole) if part] == [
            part for part in re.split(rb"[\r\n]", content) if part
        ]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_blocks_are_utf8_whatever_the_file_is(encoding):
    content = "\ufeffeins\nzwei ä\n".encode(encoding)
    blocks = text.Blocks()
    found = [
        block for size in range(len(content)) for block in blocks.feed(content[size : size + 1])
    ]
    assert b"".join(found) == "eins\nzwei ä\n".encode()
    assert blocks.finish() == []


def test_a_line_that_is_not_over_is_in_no_block():
    blocks = text.Blocks()
    assert blocks.feed(b"ab") == []
    assert blocks.feed(b"c\nde\nfg") == [b"abc\nde\n"]
    assert blocks.finish() == [(b"fg", False)]


@pytest.mark.parametrize("numpy", [text.numpy_if_there(), None])
def test_lines_of_a_block_are_numbered_with_and_without_numpy(numpy, monkeypatch):
    if numpy is not None:
        monkeypatch.setattr(text, "_WORTH_NUMPY", 0)
    block = b"one\n\nthree\nfour\n"
    numbers = text.Numbers(7, block, numpy)
    assert numbers.at(0) == 7
    assert numbers.at(5) == 9
    assert numbers.at(11) == 10
    assert numbers.at(len(block)) == 11
