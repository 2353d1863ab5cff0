"""Writes TensorBoard's event files, by the description of the format: another implementation than
the reader's.
"""

import binascii
import struct

CASTAGNOLI = 0x11EDC6F41


def crc32c(content: bytes) -> int:
    """Bit by bit, in the polynomial's own (unreflected) order."""
    register = 0xFFFFFFFF
    for byte in content:
        for bit in range(8):
            top = register >> 31
            register = (register << 1) & 0xFFFFFFFF
            if top ^ (byte >> bit & 1):
                register ^= CASTAGNOLI & 0xFFFFFFFF
    return int(f"{register:032b}"[::-1], 2) ^ 0xFFFFFFFF


def masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_time: float, step: int, *values: bytes) -> bytes:
    head = b"\x09" + struct.pack("<d", wall_time) + (b"\x10" + varint(step) if step else b"")
    return record(
        head + (field(5, b"".join(field(1, value) for value in values)) if values else b"")
    )


def version() -> bytes:
    return record(b"\x09" + struct.pack("<d", 1.7e9) + field(3, b"brain.Event:2"))


def restart(step: int) -> bytes:
    return record(
        b"\x09" + struct.pack("<d", 1.7e9) + b"\x10" + varint(step) + field(7, b"\x08\x01")
    )


def scalar(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def scalar_tensor(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + field(
        8, b"\x08\x01" + field(2, b"") + field(5, struct.pack("<f", value))
    )


def text(tag: str, value: str) -> bytes:
    return field(1, tag.encode()) + field(
        8, b"\x08\x07" + field(2, field(2, b"\x08\x01")) + field(8, value.encode())
    )


assert crc32c(b"123456789") == 0xE3069283, binascii.hexlify(b"the check value of CRC-32C")
