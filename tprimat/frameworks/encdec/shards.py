"""The data set on disk: shards of sequence pairs, written once, checked at each start, repaired if
damaged.

A manifest next to the shards has their parameters and checksums. It is written again after each
shard that has reached the disk, so that a start after a kill continues there. Knows no torch.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tprimat import files, units
from tprimat.errors import UsageError
from tprimat.frameworks.encdec.pairs import Pairs, Shard
from tprimat.text import counted
from tprimat.units import GB

SHARD_BYTES = 128_000_000
MANIFEST = "manifest.json"
PART = ".part"
FORM = 1

SPARE_SHARE = 0.01
SPARE_BYTES = 1 << 20
"""Free space besides the data, for the file system and the manifest: a share of them, and bytes."""

CHUNK_BYTES = 4 << 20
CHECKING_THREADS = 4
REPORT_EVERY_S = 5.0

_SHARD = re.compile(r"shard_\d{4,}\.bin(\.part)?")


class ShardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A shard in the manifest. seconds: what writing it took, up to the disk."""

    bytes: int
    sha256: str
    seconds: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a directory."""

    tensorprimat_data: int = FORM
    contents: Pairs
    shards: dict[str, ShardRecord] = {}


def default_shards(num_bytes: int) -> int:
    """Return how many shards of SHARD_BYTES hold a number of bytes."""
    return max(1, -(-num_bytes // SHARD_BYTES))


def prepare(folder: Path, pairs: Pairs, say: Callable[[str], None]) -> int:
    """Write the data set, or check it and write missing and changed shards; return how many were
    written.

    Our shards of other contents are replaced. `say` is called with a line about each thing that is
    done or wrong.

    Raises UsageError if the directory can't be used or lacks the space. Nothing is removed before
    that is known.
    """
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(str(folder / files.LOCK_NAME))
        try:
            held = lock.acquire(timeout=0)
        except filelock.Timeout:
            say(f"{folder}: another process is writing or checking the data: waiting for it")
            held = lock.acquire()
        with held:
            return _prepare(folder, pairs, say)
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            raise UsageError(
                f"{folder}: disk full; shards written so far are kept, and the next start continues"
                " there",
                hint="free some space, or choose another --data-dir",
                heading="disk-full",
            ) from error
        raise files.unwritable(error.filename or folder, error, option="--data-dir") from error


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a directory; None if there is none. Raises UsageError if it isn't one
    of ours.
    """
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        if manifest.tensorprimat_data != FORM:
            raise msgspec.DecodeError("it has another version")
    except (FileNotFoundError, NotADirectoryError):
        return None  # what is in the way is refused when the directory is made
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path}: not a TensorPrimat data set manifest ({error})",
            hint="choose another --data-dir",
            heading="data-directory",
        ) from error
    return manifest


def written_gb_per_second(folder: Path) -> float | None:
    """Return the speed at which the shards of a directory were written to disk; None if that isn't
    known.
    """
    manifest = read_manifest(folder)
    shards = manifest.shards.values() if manifest is not None else ()
    seconds = sum(shard.seconds for shard in shards)
    if seconds > 0:
        return sum(shard.bytes for shard in shards) / GB / seconds
    return None


def _prepare(folder: Path, pairs: Pairs, say: Callable[[str], None]) -> int:
    manifest = read_manifest(folder)
    there = {path.name for path in folder.iterdir() if _SHARD.fullmatch(path.name)}
    if manifest is None and there:
        raise UsageError(
            f"{folder}: contains {min(there)}, but no {MANIFEST}: not a TensorPrimat data set",
            hint="choose another --data-dir",
            heading="data-directory",
        )
    sound = {}
    if manifest is not None and manifest.contents == pairs:
        sound = _check(folder, manifest, say)
    elif manifest is not None:
        before = msgspec.structs.asdict(manifest.contents)
        now = msgspec.structs.asdict(pairs)
        changes = []
        for name, value in now.items():
            if before[name] != value:
                changes.append(f"{name} {before[name]}, now {value}")
        say(f"{folder}: data set regenerated with new parameters ({', '.join(changes)})")
    missing = [shard for shard in pairs.shards() if shard.name not in sound]
    stale = sorted(there - set(sound))
    num_bytes = sum(shard.samples for shard in missing) * pairs.bytes
    _check_space(folder, num_bytes, stale)
    # From here on the directory changes. The manifest first: a shard that isn't in it doesn't
    # count.
    manifest = Manifest(contents=pairs, shards=sound)
    _save(folder, manifest)
    for name in stale:
        (folder / name).unlink()
    if missing:
        say(f"writing {counted(len(missing), 'shard')}, {units.size(num_bytes)}, to {folder}")
    reported = time.monotonic()
    for number, shard in enumerate(missing, 1):
        manifest.shards[shard.name] = _write(folder / shard.name, shard, pairs)
        _save(folder, manifest)
        if time.monotonic() - reported > REPORT_EVERY_S:
            reported = time.monotonic()
            say(f"{number} of {len(missing)} shards written")
    return len(missing)


def _check(folder: Path, manifest: Manifest, say: Callable[[str], None]) -> dict[str, ShardRecord]:
    """Return the shards of the manifest that are as they were written."""
    names = [shard.name for shard in manifest.contents.shards() if shard.name in manifest.shards]
    sound = {name: manifest.shards[name] for name in names}
    if sound:
        amount = units.size(sum(written.bytes for written in sound.values()))
        say(
            f"checking the data in {folder}: {len(sound)} of {manifest.contents.num_shards} shards,"
            f" {amount}"
        )
    # Hashing releases the interpreter's lock, so threads run in parallel.
    with concurrent.futures.ThreadPoolExecutor(CHECKING_THREADS) as pool:
        problems = pool.map(lambda name: _problem(folder / name, manifest.shards[name]), names)
        for name, problem in zip(names, problems, strict=True):
            if problem is not None:
                say(f"{folder / name}: {problem}: rewritten")
                del sound[name]
    return sound


def _problem(path: Path, written: ShardRecord) -> str | None:
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
    if digest.hexdigest() == written.sha256:
        return None
    return "its content is not what was written (checksum)"


def _write(path: Path, shard: Shard, pairs: Pairs) -> ShardRecord:
    """Write a shard, whole or not at all."""
    part = path.with_name(path.name + PART)
    digest = hashlib.sha256()
    rows = max(1, CHUNK_BYTES // pairs.bytes)
    end = shard.first + shard.samples
    seconds = 0.0
    try:
        with part.open("wb") as file:
            for first in range(shard.first, end, rows):
                chunk = pairs.rows(first, min(rows, end - first)).astype("<i4").tobytes()
                digest.update(chunk)
                began = time.perf_counter()
                file.write(chunk)
                seconds += time.perf_counter() - began
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            seconds += time.perf_counter() - began
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return ShardRecord(
        bytes=shard.samples * pairs.bytes, sha256=digest.hexdigest(), seconds=round(seconds, 6)
    )


def _save(folder: Path, manifest: Manifest) -> None:
    files.write_atomically(
        folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    )


def _check_space(folder: Path, num_bytes: int, stale: Sequence[str]) -> None:
    """Raise UsageError if a number of bytes doesn't fit in the free space and that of the stale
    shards.
    """
    needed = num_bytes + int(num_bytes * SPARE_SHARE) + SPARE_BYTES
    free = shutil.disk_usage(folder).free + sum((folder / name).stat().st_size for name in stale)
    if num_bytes and needed > free:
        raise UsageError(
            f"{folder}: the data needs {units.size(needed)}, {units.size(free)} are free",
            hint="choose a smaller --num-samples, or another --data-dir",
            heading="disk-full",
        )
