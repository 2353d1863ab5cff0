"""Bundles: one file with results, their logs and environment, to send to whoever compares."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import os
import re
import socket
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from tprimat import __version__, console, files, read
from tprimat.errors import TensorPrimatError, UnreadableError, UsageError
from tprimat.frameworks.primus import start_record
from tprimat.log_import.anonymise import Pseudonyms
from tprimat.log_import.extract import NOTHING_GIVEN, extract
from tprimat.log_import.inputs import CHUNK, FAULTS, MOST_TIMES, UNPACKED_FREELY, Log, decompressed
from tprimat.read.parsing.text import clean, decoded
from tprimat.redaction import REMOVED, redacted
from tprimat.results.run import SERIES, Run
from tprimat.store import store
from tprimat.text import counted

ENDINGS = (".tar.gz", ".tgz", ".zip")
MOST_MEMBERS = 10_000
LARGEST_HEADER = 1 << 20
"""Bytes of what an archive states of a member: longer than any path and its attributes."""

_GZIP = b"\x1f\x8b"
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)$")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
"""Names that are devices on Windows, whatever their ending."""


def check(path: Path | None, anonymise: bool = False) -> None:
    """Raise UsageError where no bundle can be written under this name, or there is none to anonymise."""
    if path is None:
        if anonymise:
            raise UsageError("--anonymise needs --bundle FILE", hint="add --bundle FILE.tar.gz", heading="wrong-usage")
        return
    if not path.name.lower().endswith(ENDINGS):
        raise UsageError(
            f"--bundle {path}: the name must end in {', '.join(ENDINGS)}",
            heading="wrong-usage",
            hint=f"for example {path.name}.tar.gz",
        )
    if path.exists():
        raise UsageError(f"--bundle {path}: already exists", heading="wrong-usage", hint="choose another name")


def write(path: Path, results: Sequence[Path], logs: Sequence[Path], anonymise: bool = False) -> tuple[str, list[str]]:
    """Write a bundle; return what was done, and what is not in the bundle or changed in it, a line each.

    The ending of `path` says how it is packed. Logs may be compressed; the record of a start beside one goes with it.
    Raises UsageError where it can't be written.
    """
    check(path)
    members: dict[str, bytes] = {}
    left_out: list[str] = []
    for result in results:
        runs = store.read(result)
        members[_free(f"results/{result.name}", members)] = _redacted(result.read_bytes())
        members[_free(f"environment/{result.stem}.json", members)] = _environment(runs)
    for log in logs:
        try:
            content = _copy(log)
        except TensorPrimatError as error:
            left_out.append(f"not in the bundle: {error.problem}")
            continue
        if removed := content.count(REMOVED.encode()):
            left_out.append(f"{log}: {counted(removed, 'apparent secret')} removed from the copy in the bundle")
        members[_free(f"logs/{bare(log.name)}.gz", members)] = gzip.compress(content, mtime=0)
        record = start_record.path_for(log)
        if record.is_file():
            members[_free(f"environment/{record.name}", members)] = _redacted(record.read_bytes())
    if anonymise:
        members, replaced = _anonymised(members)
        left_out += replaced
    members["README.txt"] = _readme(members).encode()
    files.write_output(path, _packed(path, members), "--bundle")
    return f"Bundle:  {path} ({path.stat().st_size / 1e6:.1f} MB, {len(members)} files): send this one", left_out


def write_and_report(path: Path, results: Sequence[Path], logs: Sequence[Path], anonymise: bool = False) -> None:
    """Write a bundle and say so, and at any verbosity what is not in it. Args and raises as of write()."""
    done, left_out = write(path, results, logs, anonymise)
    for line in left_out:
        console.info(f"note: {line}")
        console.warn(line)
    console.info(done)
    console.current().values["bundle"] = str(path)


def is_packed(path: Path) -> bool:
    """Return whether a path is that of a bundle, or of another archive."""
    return path.name.lower().endswith(ENDINGS) and path.is_file()


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """Unpack a bundle for a while; yield the folder, and what puts the bundle's name in its place in a text.

    Errors within name the bundle too. Raises UnreadableError for what is no archive, or unpacks to more than logs do.
    """
    with tempfile.TemporaryDirectory() as temporary:
        # Below the bundle's own path: options for some of several logs name a part of it.
        folder = Path(temporary, *(part for part in path.parts if part not in (path.anchor, "..")))

        def named(text: str) -> str:
            return text.replace(str(folder), str(path))

        folder.mkdir(parents=True)
        try:
            _unpack(path, folder)
            yield folder, named
        except TensorPrimatError as error:
            error.reword(named)
            raise


_UNREADABLE: tuple[type[Exception], ...] = (
    *(tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError),
    *FAULTS,
)


def _unpack(path: Path, folder: Path) -> None:
    """Write the results and logs of a bundle into an empty folder."""
    left = room = max(UNPACKED_FREELY, MOST_TIMES * path.stat().st_size)
    try:
        for number, (name, content) in enumerate(_members(path, room)):
            if number >= MOST_MEMBERS:
                raise _too_large(path)
            target = place_of(name, folder)
            # What the environment says is in the results too.
            if content is None or target == folder or target.parent.name == "environment":
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                for piece in content:
                    left -= len(piece)
                    if left < 0:
                        raise _too_large(path)
                    file.write(piece)
    except _UNREADABLE as error:
        raise UnreadableError(path, f"not a readable archive: {error}", heading="unreadable-file") from error


def _too_large(path: Path) -> UnreadableError:
    return UnreadableError(path, "unpacks to more than logs and results do", heading="unreadable-file")


def place_of(name: str, folder: Path) -> Path:
    """Return where a member of an archive is written: below the folder, whatever its name says, on any system."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..")]
    plain = (re.sub(r"[^\w.+ -]|[. ]$", "_", part) for part in parts)
    return folder.joinpath(*(f"_{part}" if _DEVICE.match(part) else part for part in plain))


def _members(path: Path, room: int) -> Iterator[tuple[str, Iterator[bytes] | None]]:
    """Yield the name of each member of an archive, with its content in pieces if it is a plain file."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                yield entry.filename, None if entry.is_dir() else _pieces(archive.open(entry))
        return
    with files.open_plain(path) as raw:
        archived = _Archive(path, decompressed(raw, str(path)), room)
        with tarfile.open(fileobj=archived, mode="r:") as packed:  # type: ignore[call-overload]
            for member in packed:
                archived.after()
                content = packed.extractfile(member) if member.isfile() else None
                yield member.name, None if content is None else map(archived.after, _pieces(content))


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while piece := content.read(CHUNK):
            yield piece


class _Archive:
    """A decompressed tar archive that is read forward and no further than `room`.

    A header states its own length, and tarfile reads it at once: between two files no more than LARGEST_HEADER is read.
    """

    def __init__(self, path: Path, stream: IO[bytes], room: int) -> None:
        self._path, self._stream, self._room = path, stream, room
        self._header = 0
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        self._header += size
        if not 0 <= size <= self._header <= LARGEST_HEADER or self.tell() > self._room:
            raise _too_large(self._path)
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        """Go forward to a position. Raises ReadError for an earlier one, which a wrong header names."""
        if position < self.tell():
            raise tarfile.ReadError("its members overlap")
        if position > self._room:
            raise _too_large(self._path)
        return self._stream.seek(position)

    def after(self, piece: bytes = b"") -> bytes:
        """Return a piece of a file: what was read so far is no header."""
        self._header = 0
        return piece


def bare(name: str) -> str:
    """Return the name of a log, which may be a path of any system, without the ending of its compression."""
    return _COMPRESSED.sub("", re.split(r"[\\/]", name)[-1])


def _redacted(content: bytes) -> bytes:
    """Return a text in any encoding that has the letters of ASCII, without secrets."""
    return redacted(content.decode("latin-1")).encode("latin-1")


def _copy(log: Path) -> bytes:
    """Return a log as far as it is read, decompressed and without secrets, its lines in UTF-8.

    Raises TensorPrimatError for one that can't be read, and for one of a binary format with a secret in it.
    """
    content = b"".join(Log(str(log)).chunks())
    if read.file_format_of(content[: read.HEAD]) is None:
        text = decoded(content)
        # Colours, which may stand before a value, stay where they hide nothing.
        shown = clean(text)
        return (text if (changed := redacted(shown)) == shown else changed).encode("utf-8", "replace")
    changed_bytes = _redacted(content)
    if changed_bytes != content and b"\0" in content:
        raise UnreadableError(log, "a binary file with apparent secrets", heading="unreadable-file")
    return changed_bytes


def _environment(runs: Iterable[Run]) -> bytes:
    """Return the machine and software of each run, apart from the series."""
    names = ("timestamp", "platform", "framework", "gpu_info", "environment")
    stated = [{name: getattr(run, name) for name in names} | {"gpu_info": run.gpu_info.known()} for run in runs]
    return msgspec.json.format(msgspec.json.encode(stated), indent=2) + b"\n"


def _anonymised(members: dict[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """Return the members with pseudonyms, and what was replaced or left out, a line each.

    Raises UsageError where a log would read otherwise.
    """
    left_out = []
    plain = {name: gzip.decompress(each) if each.startswith(_GZIP) else each for name, each in members.items()}
    names = Pseudonyms(
        (each.decode("utf-8", "replace") for each in plain.values()),
        hosts=[socket.gethostname()],
        users=[os.environ.get("USER", "")],
    )
    result: dict[str, bytes] = {}
    for name, content in plain.items():
        if not name.startswith("logs/"):
            result[_free(names.text(name), result)] = names.json(content)
            continue
        changed = names.log(content)
        if changed != content and b"\0" in content:
            left_out.append(f"not in the bundle: {names.text(name)}: a binary file with names to replace")
            continue
        if _values(content) != _values(changed):
            raise UsageError(
                f"--anonymise: {name} would no longer give the same values",
                hint="a host or user has the name of something in the log: bundle without --anonymise",
                heading="wrong-usage",
            )
        result[_free(names.text(name), result)] = gzip.compress(changed, mtime=0)
    counts = ", ".join(counted(number, kind) for kind, number in names.replaced.items()) or "nothing found"
    return result, [*left_out, f"replaced: {counts}. Check the bundle: names in other forms may remain"]


def _values(content: bytes) -> str:
    """Return what a log states of settings and steps, to compare (NaN equals NaN); nothing where it has no training."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log")
        file.write_bytes(content)
        try:
            runs = [each.run for each in extract(Log(str(file)), NOTHING_GIVEN)]
        except TensorPrimatError:
            return ""
    parts = ("steps", *SERIES, "model_config", "training_config", "parallelism_config", "gpu_info")
    return repr([[getattr(run, name) for name in parts] for run in runs])


def _readme(members: dict[str, bytes]) -> str:
    listed = "\n".join(f"  {hashlib.sha256(content).hexdigest()}  {name}" for name, content in sorted(members.items()))
    return (
        f"Benchmark results with their logs, packed by TensorPrimat {__version__}.\n\n"
        "To compare it with the results of the other machine:\n"
        "  python3 compare_results.py THIS_BUNDLE THE_OTHER_FOLDER\n\n"
        f"Logs are copies: decompressed, in UTF-8, with {REMOVED} for what looks like a secret.\n"
        "The sha256 in a result is that of the original log.\n\n"
        f"sha256 of each file:\n{listed}\n"
    )


def _packed(path: Path, members: dict[str, bytes]) -> bytes:
    folder = re.sub(r"(?:\.tar\.gz|\.tgz|\.zip)$", "", path.name, flags=re.IGNORECASE)
    packed = io.BytesIO()
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{folder}/{name}", content)
        return packed.getvalue()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(content)
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _free(name: str, members: dict[str, bytes]) -> str:
    """Return a name that no member has, on systems that ignore case too: results of two folders may share one."""
    stem, dot, ending = name.partition(".")
    names = itertools.chain([name], (f"{stem}_{number}{dot}{ending}" for number in itertools.count(2)))
    taken = {each.casefold() for each in members}
    return next(each for each in names if each.casefold() not in taken)
