"""The data set on disk: shards of sequence pairs, written once, checked each time, completed when broken.

A manifest beside the shards says what they were made of and what each must hold. It grows with
every shard that has reached the disk, so that whoever comes after a kill goes on where it struck.
Knows no torch.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.errors import UsageError
from tprimat.frameworks.encdec.pairs import Pairs

SHARD_BYTES = 128_000_000
MANIFEST = "manifest.json"
LOCK = ".tprimat.lock"
PART = ".part"
FORM = 1

SPARE_SHARE = 0.01
SPARE_BYTES = 1 << 20
"""What is left free beside the data: file systems need some of their own, and the manifest a little."""

CHUNK_BYTES = 4 << 20
CHECKING_THREADS = 4
TOLD_EVERY_S = 5.0

_SHARD = re.compile(r"shard_\d{4,}\.bin(\.part)?")


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a data set is made of: two of equal contents hold the same bytes."""

    num_samples: int
    seq_len: int
    vocab_size: int
    seed: int
    num_shards: int

    def pairs(self) -> Pairs:
        """The pairs that it holds."""
        return Pairs(self.vocab_size, self.seq_len, self.seed)

    @property
    def bytes(self) -> int:
        """Of all shards."""
        return self.num_samples * self.pairs().bytes

    def shards(self) -> tuple[Shard, ...]:
        """The shards: equal ones, the first of them one pair longer where it doesn't come out even."""
        share, longer = divmod(self.num_samples, self.num_shards)
        return tuple(
            Shard(
                name=f"shard_{index:04d}.bin",
                first=index * share + min(index, longer),
                samples=share + (index < longer),
            )
            for index in range(self.num_shards)
        )


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of the data set: its pairs are first … first + samples - 1."""

    name: str
    first: int
    samples: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of a shard. seconds: what writing it took, up to the disk."""

    bytes: int
    sha256: str
    seconds: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in a folder."""

    tensorprimat_data: int = FORM
    contents: Contents
    shards: dict[str, Written] = {}


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What it took to have the data set there.

    Attributes:
        written: shards that were written now.
        kept: shards that were there.
    """

    written: int
    kept: int


def size_text(num_bytes: float) -> str:
    """Bytes for people, in GB, MB or kB of powers of ten."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= size:
            return f"{num_bytes / size:.1f} {unit}"
    return f"{num_bytes / 1e3:.1f} kB"


def default_shards(num_bytes: int) -> int:
    """How many shards of SHARD_BYTES hold so much."""
    return max(1, -(-num_bytes // SHARD_BYTES))


def prepare(folder: Path, contents: Contents, say: Callable[[str], None]) -> Prepared:
    """Has the data set lie in a folder, whole and checked.

    Args:
        folder: is made where it isn't there.
        contents: what it shall hold. Shards of other contents that we wrote make room.
        say: called with each line about what is done, and what was wrong with what was there.

    Raises UsageError, one line, where the folder can't be used or lacks the space. Nothing is
    removed before that is known.
    """
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(str(folder / LOCK))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            say(f"{folder}: another process is writing or checking the data: waiting for it")
            lock.acquire()
        try:
            return _prepare(folder, contents, say)
        finally:
            lock.release()
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            raise UsageError(
                f"{folder}: the disk is full; the shards written so far stay, and the next start goes on from there: "
                "free some space, or choose another --data-dir",
                heading="disk-full",
            ) from error
        raise UsageError(
            f"{error.filename or folder}: can't be written: {error.strerror or error}: choose another --data-dir",
            heading="unwritable-folder",
        ) from error


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none. Raises UsageError where it isn't one of ours."""
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise _foreign(path, str(error)) from error
    if manifest.tensorprimat_data != FORM:
        raise _foreign(path, "it is of another version")
    return manifest


def write_rate(folder: Path) -> float | None:
    """Bytes/s at which the shards of a folder reached its disk; None where that isn't known."""
    manifest = read_manifest(folder)
    if manifest is None or not manifest.shards:
        return None
    seconds = sum(shard.seconds for shard in manifest.shards.values())
    return sum(shard.bytes for shard in manifest.shards.values()) / seconds if seconds > 0 else None


def _foreign(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path}: not the manifest of a data set of ours ({why}): choose another --data-dir", heading="data-folder"
    )


def _prepare(folder: Path, contents: Contents, say: Callable[[str], None]) -> Prepared:
    manifest = read_manifest(folder)
    there = {path.name for path in folder.iterdir() if _SHARD.fullmatch(path.name)}
    if manifest is None and there:
        raise UsageError(
            f"{folder}: holds {min(there)} without a {MANIFEST}, which is not of our writing: choose another "
            "--data-dir, or remove it",
            heading="data-folder",
        )
    if manifest is None:
        manifest = Manifest(contents=contents)
    elif manifest.contents != contents:
        say(f"{folder}: the data there are of other parameters ({_differences(manifest, contents)}): made again")
        manifest = Manifest(contents=contents)
    sound: dict[str, Written] = {}
    for shard, written, wrong in _checked(folder, manifest, say):
        if wrong is None:
            sound[shard.name] = written
        else:
            say(f"{folder / shard.name}: {wrong}: written again")
    missing = [shard for shard in contents.shards() if shard.name not in sound]
    stale = sorted(there - set(sound))
    _check_space(folder, contents, missing, stale)
    # From here on the folder changes. The manifest first: what it doesn't name counts for nothing.
    manifest = Manifest(contents=contents, shards=sound)
    _save(folder, manifest)
    for name in stale:
        (folder / name).unlink()
    if missing:
        say(
            f"writing {len(missing)} {'shard' if len(missing) == 1 else 'shards'}, "
            f"{size_text(sum(shard.samples for shard in missing) * contents.pairs().bytes)}, to {folder}"
        )
    told = time.monotonic()
    for number, shard in enumerate(missing, 1):
        written = _write(folder / shard.name, shard, contents.pairs())
        manifest = msgspec.structs.replace(manifest, shards={**manifest.shards, shard.name: written})
        _save(folder, manifest)
        if time.monotonic() - told > TOLD_EVERY_S:
            told = time.monotonic()
            say(f"{number} of {len(missing)} shards written")
    return Prepared(len(missing), len(sound))


def _checked(
    folder: Path, manifest: Manifest, say: Callable[[str], None]
) -> Iterator[tuple[Shard, Written, str | None]]:
    """Each shard that the manifest names, and what is wrong with it; None where nothing is."""
    named = [
        (shard, manifest.shards[shard.name]) for shard in manifest.contents.shards() if shard.name in manifest.shards
    ]
    if not named:
        return
    amount = sum(written.bytes for _, written in named)
    say(f"checking the data in {folder}: {len(named)} of {manifest.contents.num_shards} shards, {size_text(amount)}")
    # Hashing leaves the interpreter's lock, so threads do it side by side.
    with concurrent.futures.ThreadPoolExecutor(CHECKING_THREADS) as pool:
        found = pool.map(lambda each: _wrong(folder / each[0].name, each[1]), named)
        for (shard, written), wrong in zip(named, found, strict=True):
            yield shard, written, wrong


def _wrong(path: Path, written: Written) -> str | None:
    try:
        size = path.stat().st_size
        if size != written.bytes:
            return f"{size} bytes, and {written.bytes} were written"
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        return "has gone"
    return None if digest.hexdigest() == written.sha256 else "its content is not what was written (checksum)"


def _write(path: Path, shard: Shard, pairs: Pairs) -> Written:
    """Writes a shard, whole or not at all."""
    part = path.with_name(path.name + PART)
    digest = hashlib.sha256()
    rows = max(1, CHUNK_BYTES // pairs.bytes)
    seconds = 0.0
    try:
        with part.open("wb", buffering=0) as file:
            for first in range(shard.first, shard.first + shard.samples, rows):
                count = min(rows, shard.first + shard.samples - first)
                chunk = memoryview(pairs.rows(first, count).astype("<i4", copy=False).data).cast("B")
                digest.update(chunk)
                began = time.perf_counter()
                while chunk:
                    chunk = chunk[file.write(chunk) :]
                seconds += time.perf_counter() - began
            began = time.perf_counter()
            os.fsync(file.fileno())
            seconds += time.perf_counter() - began
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return Written(bytes=shard.samples * pairs.bytes, sha256=digest.hexdigest(), seconds=round(seconds, 6))


def _save(folder: Path, manifest: Manifest) -> None:
    files.write_atomically(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def _check_space(folder: Path, contents: Contents, missing: Sequence[Shard], stale: Sequence[str]) -> None:
    """Raises UsageError where what is missing doesn't fit, with what makes room counted in."""
    needed = sum(shard.samples for shard in missing) * contents.pairs().bytes
    if not needed:
        return
    needed += int(needed * SPARE_SHARE) + SPARE_BYTES
    free = shutil.disk_usage(folder).free + sum((folder / name).stat().st_size for name in stale)
    if needed > free:
        raise UsageError(
            f"{folder}: the data take {size_text(needed)}, and {size_text(free)} are free there: choose a smaller "
            "--num-samples, or another --data-dir",
            heading="disk-full",
        )


def _differences(manifest: Manifest, contents: Contents) -> str:
    return ", ".join(
        f"{name} {getattr(manifest.contents, name)}, now {getattr(contents, name)}"
        for name in contents.__struct_fields__
        if getattr(manifest.contents, name) != getattr(contents, name)
    )
