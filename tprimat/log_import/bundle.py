"""Bundles: one file with results, their logs and environment, to send to someone who compares."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import re
import stat
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec

from tprimat import __version__, console, files, read
from tprimat.errors import TensorPrimatError, UnreadableError, UsageError
from tprimat.log_import.bundle_names import ENDINGS, bare, place_of
from tprimat.log_import.extract import extract
from tprimat.log_import.given import NOTHING_GIVEN
from tprimat.log_import.inputs import (
    CHUNK,
    FAULTS,
    MOST_TIMES,
    UNPACKED_FREELY,
    Log,
    decompressed,
    zstd_errors,
)
from tprimat.read.parsing.text import clean, decoded
from tprimat.redaction import REMOVED, Names, names_stay, redacted
from tprimat.results.result_file import ResultFile, encode, without_names, without_secrets
from tprimat.results.run import SERIES, Run
from tprimat.store import hosts, start_record, store
from tprimat.store.hosts import Hosts
from tprimat.text import counted, for_encoding

Members = dict[str, bytes]
"""The contents of the files of a bundle, by name."""

MOST_MEMBERS, MOST_VALUES = 10_000, 2_000_000
"""Files, and values of a result, which is decoded at once: some 60 bytes each. 10⁵ steps have a
quarter as many.
"""
MOST_LEVELS = 100
"""Directories in one another. Before Python 3.12 a thousand can't be listed, nor removed again."""
LARGEST_HEADER, LARGEST_HEADERS, LARGEST_DIRECTORY = 8 << 10, 16 << 20, 2 << 20
"""Bytes of what a tar archive states of a member (a path takes 4096; tarfile may take their
square), and of all, and of what a zip states of all, which zipfile keeps twenty times as large.
"""

_GZIP = b"\x1f\x8b"
_LONG_NUMBER = re.compile(rb"\d{100}")
"""In a header: tarfile looks for what follows a number from each of its digits."""


def check(path: Path | None) -> None:
    """Raise UsageError if no bundle can be written under this name."""
    if path is None:
        return
    if not path.name.lower().endswith(ENDINGS):
        problem = f"--bundle {path}: the name must end in {', '.join(ENDINGS)}"
        raise UsageError(problem, heading="wrong-usage", hint=f"for example {path.name}.tar.gz")
    if path.exists():
        raise UsageError(
            f"--bundle {path}: already exists", heading="wrong-usage", hint="choose another name"
        )


def write(path: Path, results: Sequence[Path], logs: Sequence[Path]) -> tuple[str, list[str]]:
    """Write a bundle; return the actions, and the files that are not in the bundle or changed in
    it, a line each.

    The ending of `path` decides how it is packed. Logs may be compressed; the record of a start
    next to one is packed too. Raises UsageError if it can't be written.
    """
    check(path)
    members: Members = {}
    left_out = []
    every = [run for result in results for run in store.read(result)]
    for result in results:
        members[_free(f"results/{result.name}", members)] = _json_changed(
            result.read_bytes(), without_secrets
        )
        members[_free(f"environment/{result.stem}.json", members)] = _environment(
            store.read(result)
        )
    for log in logs:
        try:
            content = _copy(log)
        except TensorPrimatError as error:
            left_out.append(f"not in the bundle: {error.problem}")
            continue
        if removed := content.count(REMOVED.encode()):
            left_out.append(
                f"{log}: {counted(removed, 'apparent secret')} removed from the copy in the bundle"
            )
        members[_free(f"logs/{bare(log.name)}.gz", members)] = gzip.compress(content, mtime=0)
        record = start_record.path_for(log)
        if record.is_file():
            members[_free(f"environment/{record.name}", members)] = _json_changed(
                record.read_bytes(), without_secrets
            )
    replaced = "nothing (--include-host)"
    if not names_stay():
        pseudonyms = hosts.Hosts(results[0].parent)
        names = hosts.names(pseudonyms.number, every)
        names.keeps_devices = False
        members, changed = _without_names(members, names, pseudonyms)
        left_out += changed
        replaced = names.replaced()
    members["README.txt"] = _readme(members, replaced).encode()
    files.write_output(path, _packed(path, members), "--bundle")
    done = (
        f"Bundle:  {path} ({path.stat().st_size / 1e6:.1f} MB, {len(members)} files; send this one)"
    )
    return (
        f"{done}\n         names replaced: {replaced}; check it: names in other forms may remain",
        left_out,
    )


def write_and_report(path: Path, results: Sequence[Path], logs: Sequence[Path]) -> None:
    """Write a bundle and print that, and at any verbosity what is not in it. Args and raises as of
    write().
    """
    done, left_out = write(path, results, logs)
    for line in left_out:
        console.info(f"note: {line}")
        console.warn(line)
    console.info(done)
    console.current().values["bundle"] = str(path)


@contextlib.contextmanager
def unpacked(
    path: Path, odd: list[str] | None = None
) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """Unpack a bundle for a while; yield the directory, and what puts the bundle's name in its
    place in a text.

    With a list for `odd`, its environment is unpacked too, and the list gets the names of links,
    devices and programs. Errors within name the bundle too. Raises UnreadableError if it is no
    archive, or unpacks to more than logs do.
    """
    with tempfile.TemporaryDirectory() as temporary:
        # Below the bundle's own path: options for some of several logs name a part of it.
        folder = Path(temporary, *(part for part in path.parts if part not in (path.anchor, "..")))

        def named(text: str) -> str:
            return text.replace(str(folder), str(path))

        folder.mkdir(parents=True)
        try:
            _unpack(path, folder, odd)
            yield folder, named
        except TensorPrimatError as error:
            error.reword(named)
            raise


_UNREADABLE: tuple[type[Exception], ...] = (
    *(
        tarfile.TarError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        ValueError,
        MemoryError,
    ),
    *FAULTS,
)


def _unpack(path: Path, folder: Path, odd: list[str] | None) -> None:
    """Write the results and logs of a bundle into an empty directory. Args as of unpacked()."""
    left = room = max(UNPACKED_FREELY, MOST_TIMES * path.stat().st_size)
    try:
        for number, (name, content, is_odd) in enumerate(_members(path, room)):
            target = place_of(name, folder)
            if number >= MOST_MEMBERS or len(target.relative_to(folder).parts) > MOST_LEVELS:
                raise _too_large(path)
            if is_odd and odd is not None:
                odd.append(name)
            # The values of the environment are in the results too, and the list is for verify.
            is_about = target.parent.name == "environment" or target.name == "README.txt"
            if content is None or target == folder or (odd is None and is_about):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            values = sys.maxsize
            if target.suffix == ".json":
                values = MOST_VALUES
            with target.open("wb") as file:
                for piece in content:
                    left = left - len(piece)
                    values = values - piece.count(b",")
                    if left < 0:
                        raise _too_large(path)
                    if values < 0:
                        problem = f"a result in it has more than {MOST_VALUES:,} values"
                        raise UnreadableError(
                            path, problem, heading="unreadable-file", hint="pass the log instead"
                        )
                    file.write(piece)
    except (*_UNREADABLE, *zstd_errors()) as error:
        why = getattr(error, "strerror", None) or str(error) or "it needs more memory than there is"
        raise UnreadableError(
            path, f"not a readable archive: {why}", heading="unreadable-file"
        ) from error


def _too_large(path: Path) -> UnreadableError:
    return UnreadableError(
        path, "unpacks to more than logs and results do", heading="unreadable-file"
    )


def _members(path: Path, room: int) -> Iterator[tuple[str, Iterator[bytes] | None, bool]]:
    """Yield each member of an archive: name, content in pieces if it is a plain file, and whether
    it is more than data.

    A program, by its mode, is; so are links and devices.
    """
    with files.open_plain(path) as raw:
        if path.name.lower().endswith(".zip"):
            with zipfile.ZipFile(_Zip(path, raw)) as archive:
                for entry in archive.infolist():
                    # With bzip2 and LZMA, zipfile unpacks a whole piece at once, which may be
                    # gigabytes.
                    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        raise zipfile.BadZipFile("it is not packed with deflate")
                    mode = entry.external_attr >> 16
                    is_odd = not entry.is_dir() and (stat.S_ISLNK(mode) or bool(mode & 0o111))
                    yield (
                        entry.filename,
                        None if entry.is_dir() else pieces(archive.open(entry)),
                        is_odd,
                    )
            return
        archived = _Tar(path, decompressed(raw, str(path)), room)
        with tarfile.open(fileobj=archived, mode="r:") as packed:  # type: ignore[call-overload]
            for member in packed:
                archived.header = 0
                if member.issparse():
                    raise tarfile.ReadError("a file in it is sparse")
                is_odd = not member.isdir() and (not member.isfile() or bool(member.mode & 0o111))
                yield member.name, archived.content(member) if member.isfile() else None, is_odd
                # It would keep the headers of all members.
                packed.members.clear()
                packed.pax_headers.clear()


def pieces(content: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a stream, and close it."""
    with content:
        while piece := content.read(CHUNK):
            yield piece


class _Zip(io.BufferedReader):
    """A zip whose directory is bounded: it states its own length, and zipfile reads it at once."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        super().__init__(stream)  # type: ignore[arg-type]
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY:
            raise _too_large(self._path)
        return super().read(size)


class _Tar:
    """A decompressed tar archive that is read forward and no further than `room`.

    A header states its own length, and tarfile reads it at once: `header` is what was read of it so
        far.
    """

    def __init__(self, path: Path, stream: IO[bytes], room: int) -> None:
        self._path = path
        self._stream = stream
        self._room = room
        self.header = self._headers = self._position = 0

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        """Return the next bytes of a header."""
        self.header = self.header + size
        self._headers = self._headers + size
        if not 0 <= size <= self.header <= LARGEST_HEADER or self._headers > LARGEST_HEADERS:
            raise _too_large(self._path)
        if _LONG_NUMBER.search(content := self._next(size)):
            raise tarfile.ReadError("a number in a header is too long")
        return content

    def content(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        """Yield the content of a file, whose header has just been read."""
        self.seek(member.offset_data)
        end = self._position + member.size
        while piece := self._next(min(CHUNK, end - self._position)):
            yield piece

    def seek(self, position: int) -> int:
        """Go forward to a position. Raises ReadError for an earlier one, which a wrong header
        names.
        """
        if position < self._position:
            raise tarfile.ReadError("its members overlap")
        while self._position < position and self._next(min(CHUNK, position - self._position)):
            pass
        return self._position

    def _next(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._position += len(content)
        if self._position > self._room:
            raise _too_large(self._path)
        return content


def _redacted(content: bytes) -> bytes:
    """Return a text in any encoding that has the letters of ASCII, without secrets."""
    return redacted(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _copy(log: Path) -> bytes:
    """Return a log as far as it is read, decompressed and without secrets, its lines in UTF-8.

    Raises TensorPrimatError for one that can't be read, for one of a binary format with a secret in
    it, and for one that would read otherwise: a figure may never be lost.
    """
    content = b"".join(Log(str(log)).chunks())
    if read.file_format_of(content[: read.HEAD]) is None:
        text = decoded(content)
        # Colors, which may stand before a value, stay if they hide nothing.
        shown = clean(text)
        changed = redacted(shown)
        whole = text.encode("utf-8", "replace")
        copy = changed.encode("utf-8", "replace")
        if changed != shown and _values(whole) != _values(copy):
            raise UnreadableError(
                log, "reads otherwise without its apparent secrets", heading="unreadable-file"
            )
        if changed == shown:
            return whole
        return copy
    changed_bytes = _redacted(content)
    if changed_bytes != content and b"\0" in content:
        raise UnreadableError(log, "a binary file with apparent secrets", heading="unreadable-file")
    return changed_bytes


def _environment(runs: Iterable[Run]) -> bytes:
    """Return the machine and software of each run, apart from the series."""
    names = ("timestamp", "platform", "framework", "gpu_info", "environment")
    stated = []
    for run in runs:
        stated.append(
            {name: getattr(run, name) for name in names} | {"gpu_info": run.gpu_info.known()}
        )
    return msgspec.json.format(msgspec.json.encode(stated), indent=2) + b"\n"


def _without_names(members: Members, names: Names, known: Hosts) -> tuple[Members, list[str]]:
    """Return the members with pseudonyms, and which logs are left out, a line each: those that
    would read otherwise.
    """
    left_out = []
    plain = {}
    for name, content in members.items():
        plain[name] = gzip.decompress(content) if content.startswith(_GZIP) else content
    for content in plain.values():
        names.learn(content.decode("utf-8", "replace"))
    result: Members = {}
    for name, content in plain.items():
        # A log has the machines' own names, be they like pseudonyms.
        if name.startswith("logs/"):
            names.number = known.number
        else:
            names.number = known.number_unless_given
        shown = names.text(name)
        if not name.startswith("logs/"):
            result[_free(shown, result)] = json_without_names(content, names)
            continue
        changed = names.text(content.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
        if changed == content:
            result[_free(shown, result)] = members[name]
        elif b"\0" in content:
            left_out.append(
                f"not in the bundle: {shown}: a binary file with names; --include-host keeps them"
            )
        elif _values(content) != _values(changed):
            left_out.append(
                f"not in the bundle: {shown}: reads otherwise without names; --include-host keeps"
                " them"
            )
        else:
            result[_free(shown, result)] = gzip.compress(changed, mtime=0)
    return result, left_out


def json_without_names(content: bytes, names: Names) -> bytes:
    """Return a result, or what else is JSON, with pseudonyms; numbers and their notation stay."""
    return _json_changed(content, lambda value: without_names(value, names))


def _json_changed(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return a result, or what else is JSON, whose texts were changed: in JSON as such one may end
    within another.
    """
    with contextlib.suppress(ValueError):
        file = msgspec.json.decode(content, type=ResultFile)
        if (changed := change(file)) is file:
            return content
        return encode(changed)
    value = msgspec.json.decode(content)
    if (changed := change(value)) is value:
        return content
    return msgspec.json.format(msgspec.json.encode(changed), indent=2) + b"\n"


def _values(content: bytes) -> str:
    """Return a log's settings and steps, to compare (NaN equals NaN); empty if it has no
    training.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log")
        file.write_bytes(content)
        try:
            runs = [training.run for training in extract(Log(str(file)), NOTHING_GIVEN)]
        except TensorPrimatError:
            return ""
    parts = ("steps", *SERIES, "model_config", "training_config", "parallelism_config", "gpu_info")
    return repr([[getattr(run, name) for name in parts] for run in runs])


def _readme(members: Members, replaced: str) -> str:
    lines = []
    for name, content in sorted(members.items()):
        lines.append(f"  {hashlib.sha256(content).hexdigest()}  {name}")
    listed = "\n".join(lines)
    return (
        f"Benchmark results with their logs, packed by TensorPrimat {__version__}.\n\n"
        "To compare it with the results of the other machine:\n"
        "  python3 compare_results.py THIS_BUNDLE THE_OTHER_FOLDER\n\n"
        f"Logs are copies: decompressed, in UTF-8, with {REMOVED} for what looks like a secret.\n"
        "The sha256 in a result is that of the original log.\n"
        f"Names replaced: {replaced}.\n\n"
        f"sha256 of each file:\n{listed}\n"
    )


def _packed(path: Path, members: Members) -> bytes:
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


def _free(name: str, members: Members) -> str:
    """Return a name that no member has, on systems that ignore case too: results of two directories
    may share one.
    """
    name = for_encoding(name, "utf-8")
    stem, dot, ending = name.partition(".")
    names = itertools.chain(
        [name], (f"{stem}_{number}{dot}{ending}" for number in itertools.count(2))
    )
    taken = {member.casefold() for member in members}
    return next(name for name in names if name.casefold() not in taken)
