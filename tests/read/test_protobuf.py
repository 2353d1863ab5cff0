"""Messages of protocol buffers without their schema."""

from __future__ import annotations

import pytest

from tprimat.read.parsing.protobuf import MOST_FIELDS, fields_of, varint


@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b"\x05", 0, (5, 1)),
        (b"\x7f\x01", 0, (127, 1)),
        (b"\x80\x01", 0, (128, 2)),
        (b"\xff\xac\x02\x09", 1, (300, 3)),
        (b"\xff" * 9 + b"\x01", 0, (2**64 - 1, 10)),
    ],
)
def test_a_number(content, place, found):
    assert varint(content, place) == found


def test_a_number_of_more_than_ten_bytes_is_none():
    with pytest.raises(ValueError, match=r"^a number of more than ten bytes$"):
        varint(b"\x80" * 10 + b"\x01", 0)
    with pytest.raises(LookupError):
        varint(b"\x80", 0)


def test_fields():
    content = (
        b"\x08\x96\x01"
        + b"\x12\x03abc"
        + b"\x1d\x01\x02\x03\x04"
        + b"\x21"
        + bytes(range(8))
        + b"\x08\x07"
    )
    assert dict(fields_of(content)) == {
        (1, 0): [150, 7], (2, 2): [b"abc"], (3, 5): [b"\x01\x02\x03\x04"], (4, 1): [bytes(range(8))],
    }  # fmt: skip
    assert fields_of(b"")[9, 9] == []


@pytest.mark.parametrize(("content", "error"), [(b"\x12\x04abc", ValueError), (b"\x0b", KeyError)])
def test_what_is_no_message(content, error):
    with pytest.raises(error):
        fields_of(content)


def key(number: int) -> bytes:
    return bytes([number << 3 & 0x7F | 0x80, number >> 4 & 0x7F | 0x80, number >> 11, 0])


@pytest.mark.parametrize(("count", "fits"), [(MOST_FIELDS, True), (MOST_FIELDS + 1, False)])
def test_the_number_of_fields_is_limited(count, fits):
    content = b"".join(map(key, range(count)))
    if fits:
        assert len(fields_of(content)) == count
    else:
        with pytest.raises(ValueError, match=r"^more fields than any message has$"):
            fields_of(content)
