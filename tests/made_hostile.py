"""Hostile files, made when they are needed: what they state or unpack to is out of all proportion
to their size.

Each maker writes its file with this name into a directory. None writes more than 12 MB, holes of
sparse files aside.
"""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from event_writer import masked, varint

MIB = 1 << 20
GB = 10**9

STEP = b"step:%d/9999 train_loss:2.5 train_time:%dms step_avg:100.00ms\n"
STEPS = b"".join(STEP % (step, 100 * step) for step in range(1, 60))
"""A log that is read, before or after what is hostile."""


class Repeated(NamedTuple):
    """The same bytes again and again, and how many there are of them at least."""

    content: bytes
    size: int

    @property
    def times(self) -> int:
        return -(-self.size // len(self.content))

    @property
    def at_once(self) -> int:
        return max(1, 4 * MIB // len(self.content))


Pieces = Iterable[bytes | Repeated]


def packed(path: Path, pieces: Pieces) -> None:
    """Write pieces packed with gzip: what repeats is packed once, as a member of its own of some
    MiB.
    """
    with path.open("wb") as file:
        plain = bytearray()
        for piece in pieces:
            if isinstance(piece, bytes):
                plain += piece
                continue
            file.write(gzip.compress(plain, 6))
            plain = bytearray()
            several = gzip.compress(piece.content * (each := piece.at_once), 9)
            for _ in range(piece.times // each):
                file.write(several)
            plain += piece.content * (piece.times % each)
        file.write(gzip.compress(plain, 6))


def unpacked(pieces: Pieces) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            yield from itertools.repeat(
                piece.content * (each := piece.at_once), piece.times // each
            )
            yield piece.content * (piece.times % each)


def header(
    name: str = "b/train.log", kind: bytes = tarfile.REGTYPE, size: int = 0, **fields: str
) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    entry.linkname = fields.pop("linkname", "")
    entry.pax_headers = dict(fields)
    return entry.tobuf(tarfile.PAX_FORMAT if fields else tarfile.GNU_FORMAT)


def member(name: str, content: bytes) -> bytes:
    return header(name, size=len(content)) + content + b"\0" * (-len(content) % 512)


END = [member("b/logs/train.log", STEPS), b"\0" * 1024]


def tar(*pieces: bytes | Repeated) -> Callable[[Path], None]:
    return lambda path: packed(path, [*pieces, *END])


def pax_map(count: int) -> dict[str, str]:
    return {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": ",".join(f"{2 * index},1" for index in range(count)),
        "GNU.sparse.size": str(1 << 62),
    }


def old_sparse() -> bytes:
    """The header of a sparse member in GNU's old form, whose map goes on in the next block."""
    first = bytearray(header(kind=tarfile.GNUTYPE_SPARSE))
    first[386:482] = NONE * 4
    first[482:495] = b"\1" + b"%011o\0" % (1 << 30)
    first[148:156] = b"%06o\0 " % (sum(first[:148]) + 8 * 32 + sum(first[156:]))
    return bytes(first)


NONE = b"%011o\0%011o\0" % (0, 0)
"""An entry of a sparse member's map: nothing at the start."""

ON = NONE * 21 + b"\1" + b"\0" * 7
"""A block of such a map that has another one after it."""


def sparse_map(count: int) -> bytes:
    """A sparse member in the form 1.0, whose map stands before its content, with so many
    entries.
    """
    fields = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 62)}
    content = b"%d\n" % count + b"".join(b"%d\n1\n" % (2 * index) for index in range(count))
    content += b"\0" * (-len(content) % 512)
    return header(size=len(content), **fields) + content


def zip_of(
    members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b""
) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in members:
                info = zipfile.ZipInfo(name)
                info.comment, info.compress_type = comment, method
                archive.writestr(info, content)

    return make


def zip_of_one(
    name: str, content: Repeated, method: int = zipfile.ZIP_DEFLATED
) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with (
            zipfile.ZipFile(path, "w", method) as archive,
            archive.open(name, "w", force_zip64=True) as file,
        ):
            for piece in unpacked([content]):
                file.write(piece)

    return make


def many_in_one_place(path: Path) -> None:
    """Ten thousand entries of a zip's directory for the same 4 MiB."""
    zip_of([("b/logs/train.log", b"\n" * (4 * MIB))])(path)
    content = path.read_bytes()
    place = content.index(b"PK\1\2")
    end = content.index(b"PK\5\6")
    entry, count = content[place:end], 10_000
    directory = entry * count
    ending = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), place, 0)
    path.write_bytes(content[:place] + directory + ending)


def wide_dictionary(path: Path, name: str = "b/logs/train.log") -> None:
    """A zip entry in LZMA that states a dictionary of 4 GiB."""
    filters = [{"id": lzma.FILTER_LZMA1, "lc": 3, "lp": 0, "pb": 2}]
    raw = lzma.compress(STEPS, lzma.FORMAT_RAW, filters=filters)
    properties = b"\x5d" + struct.pack("<L", 0xFFFFFFFF)
    content = struct.pack("<BBH", 9, 4, len(properties)) + properties + raw
    zip_of([(name, b"")], zipfile.ZIP_STORED)(path)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\1\2")
    directory, ending = data[place : data.index(b"PK\5\6")], data[data.index(b"PK\5\6") :]
    for part, at in ((data, 8), (directory, 10)):
        struct.pack_into("<H", part, at, zipfile.ZIP_LZMA)
        struct.pack_into("<LLL", part, at + 6, zlib.crc32(STEPS), len(content), len(STEPS))
    body = data[:place] + content
    struct.pack_into("<L", ending, 16, len(body))
    path.write_bytes(body + directory + ending)


def wide_xz(content: bytes, dictionary: int = 39) -> bytes:
    """Content in xz whose block states a dictionary by its code: of 3 GiB, or of 128 MiB (30) or
    512 MiB (34).
    """
    raw = bytearray(
        lzma.compress(content, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}])
    )
    # Block header after the 12 bytes of the stream's: size, flags, filter 0x21, 1 byte of
    # properties: the dictionary.
    assert raw[14] == 0x21
    raw[16] = dictionary
    size = (raw[12] + 1) * 4
    raw[12 + size - 4 : 12 + size] = struct.pack("<L", zlib.crc32(raw[12 : 12 + size - 4]))
    return bytes(raw)


def wide_zstd(content: bytes) -> bytes:
    """Content in zstd that states a window of 2 GiB."""
    block = struct.pack("<L", 1 | len(content) << 3)[:3] + content
    return b"\x28\xb5\x2f\xfd" + bytes([0, 21 << 3]) + block


def zstd(content: bytes) -> bytes:
    """Content in zstd, stored: blocks of 100,000 bytes."""
    blocks = [content[place : place + 100_000] for place in range(0, len(content), 100_000)]
    stated = (
        struct.pack("<L", (block is blocks[-1]) | len(block) << 3)[:3] + block for block in blocks
    )
    return b"\x28\xb5\x2f\xfd" + bytes([0, 7 << 3]) + b"".join(stated)


def plain(*pieces: bytes | Repeated) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.writelines(unpacked(pieces))

    return make


def gz(*pieces: bytes | Repeated) -> Callable[[Path], None]:
    return lambda path: packed(path, pieces)


def hole(begin: bytes, size: int, end: bytes = b"") -> Callable[[Path], None]:
    """A sparse file: its begin, zeros, its end."""

    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(begin)
            file.truncate(len(begin) + size)
            file.seek(0, 2)
            file.write(end)

    return make


def event_record(length: int, content: bytes = b"") -> bytes:
    stated = struct.pack("<Q", length)
    return stated + masked(stated) + content


RESULT = {
    "schema_version": 1,
    "model": "llama",
    "platform": "cpu",
    "steps": [1, 2, 3],
    "step_times": [1, 1, 1],
}


def many_fields() -> Pieces:
    """An event file with a record of a million different fields."""
    fields = [varint(number << 3) + b"\0" for number in range(1 << 15, 1 << 20)]
    return [event_record(20 * MIB), *fields, Repeated(b"\x08\x01", 20 * MIB)]


def wandb_record(content: bytes) -> Iterator[bytes]:
    """The file of a W&B run with one record, in blocks of 32 KiB."""
    yield b":W&B\xbe\xba\x00"
    room, place = (1 << 15) - 7, 0
    while place < len(content):
        part = content[place : place + room - 7]
        kind = 2 if not place else 4 if place + len(part) == len(content) else 3
        yield struct.pack("<IHB", zlib.crc32(bytes((kind,)) + part), len(part), kind) + part
        place, room = place + len(part), 1 << 15


def result(field: str, item: bytes, size: int) -> list[bytes | Repeated]:
    """A result with a field whose value is an array of the same, `size` bytes of it."""
    begin = json.dumps(RESULT)[:-1].encode() + b', "%s": [' % field.encode()
    return [begin, Repeated(item + b",", size), item + b"]}"]


def in_a_result(pieces: list[bytes | Repeated]) -> Callable[[Path], None]:
    """A bundle with a result of these bytes."""
    size = sum(map(len, unpacked(pieces)))
    return tar(header("b/results/x.json", size=size), *pieces, b"\0" * (-size % 512))


def global_header(index: int, size: int) -> bytes:
    record = b"%d k%06d=%b\n" % (size, index, b"x" * (size - len(b"%d k%06d=\n" % (size, index))))
    return header(kind=b"g", size=size) + record + b"\0" * (-size % 512)


def many_global_headers() -> Iterator[bytes]:
    for index in range(9_000):
        yield global_header(index, 7_000) + LINK


def pax_of(content: bytes) -> bytes:
    """The header of an empty member, and before it one that holds this."""
    return (
        header(kind=b"x", size=len(content))
        + content
        + b"\0" * (-len(content) % 512)
        + header("b/x.log")
    )


def header_of(size: int, index: int = 0) -> bytes:
    """The header of an empty member, with a comment of so many bytes."""
    return header(f"b/{index}.log", comment="x" * size)


NOISE = random.Random(7).randbytes(10 * MIB)
"""Bytes that don't pack: with them an archive may unpack to a gigabyte."""

ZEROS = Repeated(b"\0" * 512, 2 * GB)
LINK = header("b/again.log", tarfile.LNKTYPE, linkname="b/logs/train.log")
SYMBOLIC_LINK = header("b/again.log", tarfile.SYMTYPE, linkname="/dev/zero")
LARGE = header("b/noise.bin", size=len(NOISE)) + NOISE

ARCHIVES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a pax header of 2 GB": ("b.tar.gz", tar(header(kind=b"x", size=2 * GB), ZEROS)),
    "a global header of 2 GB": ("b.tar.gz", tar(header(kind=b"g", size=2 * GB), ZEROS)),
    "a long name of 2 GB": ("b.tar.gz", tar(header(kind=b"L", size=2 * GB), ZEROS)),
    "a long link of 2 GB": ("b.tar.gz", tar(header(kind=b"K", size=2 * GB), ZEROS)),
    "a header that states 4 EB": ("b.tar.gz", tar(header(kind=b"x", size=1 << 62))),
    "a member that states 4 EB": ("b.tar.gz", tar(header("b/x.log", size=1 << 62))),
    "a skipped member of 2 GB": (
        "b.tar.gz",
        tar(header("b/environment/x.json", size=2 * GB), ZEROS),
    ),
    "headers of 1 MB": ("b.tar.gz", tar(LARGE, Repeated(header_of(1_040_000), 900 * 1_040_000))),
    "9,000 headers of 7 kB": ("b.tar.gz", tar(LARGE, Repeated(header_of(7_000), 9_000 * 8_192))),
    "9,000 global headers of 7 kB": (
        "b.tar.gz",
        lambda path: tar(LARGE, *many_global_headers())(path),
    ),
    "100,000 global headers in a row": (
        "b.tar.gz",
        tar(Repeated(global_header(1, 512), 100_000 * 1024)),
    ),
    "10^6 hard links": ("b.tar.gz", tar(Repeated(LINK, 512 * 10**6))),
    "10^6 symbolic links": ("b.tar.gz", tar(Repeated(SYMBOLIC_LINK, 512 * 10**6))),
    "a sparse map in a pax header": (
        "b.tar.gz",
        lambda path: tar(header(**pax_map(100_000)))(path),
    ),
    "a sparse map of 10^6 blocks": ("b.tar.gz", tar(old_sparse(), Repeated(ON, 512 * 10**6))),
    "a sparse map of 10^6 entries": (
        "b.tar.gz",
        lambda path: tar(sparse_map(10**6))(path),
    ),
    "a sparse map of 200,000 entries": (
        "b.tar.gz",
        lambda path: tar(sparse_map(200_000))(path),
    ),
    "a name of 1 MB": ("b.tar.gz", tar(header("b/" + "x/" * 500_000))),
    "headers of digits": ("b.tar.gz", tar(*[pax_of(b"1" * 6_900)] * 1500)),
    "one header of digits": ("b.tar.gz", tar(pax_of(b"1" * 1_000_000))),
    "a header of records in records": ("b.tar.gz", tar(pax_of(b"2 " * 200_000 + b"="))),
    "many headers of records in records": ("b.tar.gz", tar(*[pax_of(b"2 " * 3_500 + b"=")] * 1500)),
    "gzip of gzip": (
        "b.tar.gz",
        lambda path: path.write_bytes(gzip.compress(gzip.compress(b"\0" * 8 * MIB))),
    ),
    "a dictionary of xz": ("b.tar.gz", lambda path: path.write_bytes(wide_xz(b"".join(END)))),
    "a window of zstd": ("b.tar.gz", lambda path: path.write_bytes(wide_zstd(b"".join(END)))),
    "a directory of 10^5 entries": (
        "b.zip",
        zip_of((f"b/{index}.log", b"") for index in range(100_000)),
    ),
    "10^4 entries with comments": (
        "b.zip",
        zip_of(((f"b/{n}.log", b"") for n in range(170)), comment=b"x" * 65_535),
    ),
    "one place 10,000 times": ("b.zip", many_in_one_place),
    "bzip2 in a zip": (
        "b.zip",
        zip_of_one("b/logs/x.log", Repeated(b"\0", GB // 8), zipfile.ZIP_BZIP2),
    ),
    "LZMA in a zip": (
        "b.zip",
        zip_of_one("b/logs/x.log", Repeated(b"\0", GB // 8), zipfile.ZIP_LZMA),
    ),
    "a dictionary of LZMA in a zip": ("b.zip", wide_dictionary),
    "a gigabyte in a zip": ("b.zip", zip_of_one("b/logs/x.log", Repeated(b"\0", GB))),
    "a result of 10^6 runs": ("b.tar.gz", in_a_result(result("runs", b"{}", 3 * MIB))),
    "a result of unknown fields": ("b.tar.gz", in_a_result(result("unknown", b"[]", 60 * MIB))),
}
"""Archives, by what is hostile: their name, and their maker. What takes long to make is made when
it is written: importing this file is part of every collection.
"""

HOLE = GB
CSV = b"step,step_time,loss\n" + b"".join(b"%d,0.5,2.5\n" % step for step in range(1, 40))
TRACE = b'{"schemaVersion": 1, "traceEvents": ['
STATE = b'{"global_step": 3, "max_steps": 3, "log_history": ['
WORKBOOK = {
    "[Content_Types].xml": b"<Types/>",
    "xl/workbook.xml": b"<workbook/>",
}


def event(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer's message: its number, its length and its content."""
    return varint(number << 3 | 2) + varint(len(content)) + content


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a log with a line of 1 GB": ("x.log", hole(STEPS, HOLE, STEPS)),
    "a log with a line of 200 MB of letters": ("x.log", plain(STEPS, Repeated(b"abc ", 200 * MIB))),
    "a log in one line of 200 MB, steps": (
        "x.log",
        plain(Repeated(STEPS.replace(b"\n", b" "), 200 * MIB)),
    ),
    "a packed log with a line of 400 MB": ("x.log.gz", gz(STEPS, NOISE, Repeated(b"x", 400 * MIB))),
    "a log in xz with a dictionary": ("x.log.xz", lambda path: path.write_bytes(wide_xz(STEPS))),
    "a log in zstd with a window": ("x.log.zst", lambda path: path.write_bytes(wide_zstd(STEPS))),
    "an MLPerf line of 100 MB": (
        "x.log",
        plain(
            b":::MLLOG " + b'{"key": "submission_benchmark", "value": "',
            Repeated(b"x", 100 * MIB),
            b'"}\n',
            STEPS,
        ),
    ),
    "a CSV file with a line of 1 GB": ("x.csv", hole(CSV, HOLE, b"\n" + CSV)),
    "a CSV file with a line of 200 MB": ("x.csv", plain(CSV, Repeated(b"1,", 200 * MIB))),
    "a CSV file with a header of 200 MB": (
        "x.csv",
        plain(b"step,step_time,", Repeated(b"a,", 200 * MIB), CSV),
    ),
    "a CSV file with a quote that never ends": (
        "x.csv",
        plain(CSV, b'"', Repeated(b"1,2,3\n", 200 * MIB)),
    ),
    "a trace with a string of 200 MB": (
        "x.pt.trace.json",
        plain(TRACE + b'{"ph": "X", "name": "', Repeated(b"x", 200 * MIB), b'"}]}'),
    ),
    "a trace nested 100 MB deep": (
        "x.pt.trace.json",
        plain(TRACE + b'{"args": ', Repeated(b"[", 100 * MIB)),
    ),
    "a trace of 100 MB of empty events": (
        "x.pt.trace.json",
        plain(TRACE, Repeated(b"{},", 100 * MIB), b"{}]}"),
    ),
    "a trace with a head of 200 MB": (
        "x.pt.trace.json",
        plain(
            b'{"schemaVersion": 1, "x": "', Repeated(b"x", 200 * MIB), b'", ' + TRACE[1:] + b"]}"
        ),
    ),
    "a trace with a tail of 100 MB": (
        "x.pt.trace.json",
        plain(TRACE + b'{"ph": "X"}], "deviceProperties": [', Repeated(b"{},", 100 * MIB), b"{}]}"),
    ),
    "an event file with a record of 2 GB": (
        "events.out.tfevents.1",
        hole(event_record(2 * GB), HOLE),
    ),
    "an event file with a record of 250 MB": (
        "events.out.tfevents.1",
        hole(event_record(250 * MIB), 250 * MIB),
    ),
    "an event file with 20 MB of fields": (
        "events.out.tfevents.1",
        lambda path: plain(*many_fields())(path),
    ),
    "a W&B file with a record of 100 MB": (
        "run-x.wandb",
        lambda path: plain(*wandb_record(b"\x08\x01" * 50 * MIB))(path),
    ),
    "a state of 200 MB of entries": (
        "trainer_state.json",
        plain(STATE, Repeated(b"{},", 200 * MIB), b"{}]}"),
    ),
    "a state with a string of 200 MB": (
        "trainer_state.json",
        plain(STATE + b'{"step": 1, "x": "', Repeated("\U0001f600".encode(), 200 * MIB), b'"}]}'),
    ),
    "a workbook of spaces": (
        "x.xlsx",
        zip_of(
            [
                *WORKBOOK.items(),
                ("xl/styles.xml", b"<styleSheet>" + b" " * (16 * MIB - 100) + b"</styleSheet>"),
            ]
        ),
    ),
    "a workbook in bzip2": (
        "x.xlsx",
        zip_of([*WORKBOOK.items(), ("xl/styles.xml", b" " * 200 * MIB)], zipfile.ZIP_BZIP2),
    ),
    "a workbook of 10^5 parts": (
        "x.xlsx",
        zip_of((f"xl/{index}.xml", b"") for index in range(100_000)),
    ),
}
"""Files that commands which read logs are given."""

_WHOLE = ("a trace of 100 MB of empty events", "a trace with a tail of 100 MB")
_STATES = ("a state of 200 MB of entries", "a state with a string of 200 MB")
PEAKS = dict.fromkeys((*_WHOLE, *_STATES), 1 << 30)
"""Bytes of memory, if they are more than 200 MiB: what is decoded as a whole."""

RESULTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "10^6 runs": ("x.json", plain(*result("runs", b"{}", 3 * MIB))),
    "100 MB of values": ("x.json", plain(*result("grad_norms", b"1", 100 * MIB))),
    "100 MB of lists": ("x.json", plain(*result("unknown", b"[]", 100 * MIB))),
    "100 MB of numbers that are none": (
        "x.json",
        plain(b'{"x": NaN, "y": [', Repeated(b"[],", 100 * MIB), b"[]]}"),
    ),
    "100 MB of spaces": ("x.json", plain(Repeated(b" ", 100 * MIB), json.dumps(RESULT).encode())),
    "100 MB of text": ("x.json", plain(*result("warnings", b'"xx"', 100 * MIB))),
    "a hole": ("x.json", hole(json.dumps(RESULT).encode(), 900 * MIB)),
    "10^6 devices of a preflight": (
        "preflight_x.json",
        plain(b'{"devices": [', Repeated(b"{},", 10 * MIB), b"{}]}"),
    ),
    "a start record of lists": (
        "x.env.json",
        plain(
            b'{"experiment": "train_loss", "started": "2026-01-01", "framework_config": {"x": [',
            Repeated(b"[],", 3 * MIB),
            b"[]]}}",
        ),
    ),
}
"""Results and what lies beside logs."""
