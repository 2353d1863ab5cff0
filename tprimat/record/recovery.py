"""Recovery of results from the journals of killed runs."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from tprimat import files
from tprimat.errors import TensorPrimatError
from tprimat.notes import Note, noted
from tprimat.record.folders import JOURNALS
from tprimat.record.journal import SUFFIX, UNNAMED, VERSION, JournalHeader, Update
from tprimat.record.outcome import KILLED, RUNNING
from tprimat.record.process_identity import has_exited, lock
from tprimat.record.recorder import series
from tprimat.record.wall_time import Pause, timeline
from tprimat.results.account import Entry
from tprimat.results.fields import LARGEST_COUNT
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.store.history import clear_unfinished
from tprimat.store.naming import file_name
from tprimat.text import counted, plain

RECOVERED = Note("recovered")

BROKEN = ".unreadable"
"""Ending of a journal that can't be read: it is reported once, and kept."""

CLAIMED = ".claimed"
LEFT_UNNAMED_S = 3600.0
LONGEST_LINE = 1 << 20
"""Bytes of a journal's first lines: unbuffered, they are read byte by byte."""

_OWN = re.compile(
    rf"\d+-[0-9a-f]+(?:{re.escape(SUFFIX)}|{re.escape(CLAIMED)}|{re.escape(UNNAMED)})"
)
_BEGINNING = b'{"journal":'

_Record = tuple[int, int, float | None, float | None, float | None, float | None]


class _Line(msgspec.Struct):
    run: Run | None = None
    update: Update | None = None
    pause: Pause | None = None
    final: Run | None = None


class Recovered(NamedTuple):
    """The outcome of recovering a journal: a line for the user, the run and its file if any, the
    journal's name.
    """

    line: str
    run: Run | None = None
    path: Path | None = None
    journal: str = ""


def names(folder: Path) -> set[str]:
    """Return the file names of the journals in a directory of results: of plain files with names as
    Journal gives them.

    Links, pipes and other files there belong to others, and so does the target of a link with the
    directory's name.
    """
    journals = folder / JOURNALS
    if journals.is_symlink():
        return set()
    try:
        with os.scandir(journals) as entries:
            own = [entry for entry in entries if _OWN.fullmatch(entry.name)]
            return {entry.name for entry in own if entry.is_file(follow_symlinks=False)}
    except OSError:
        return set()


def running(folder: Path, requests: Collection[str]) -> bool:
    """Return whether a directory has a journal of one of these requested configurations, by their
    digests.
    """
    for name in names(folder):
        if Path(name).suffix not in (SUFFIX, CLAIMED):
            continue
        with contextlib.suppress(OSError), files.open_plain(folder / JOURNALS / name) as file:
            # The setup is at the beginning, in the second line.
            content = file.read(store.LARGEST_FILE // 1024)
            if any(request.encode() in content for request in requests):
                return True
    return False


def recover(folder: Path, ended: str | None = None) -> list[Recovered]:
    """Convert a directory's abandoned journals to results, and remove what killed writers have
    left.

    Never raises: unrecoverable journals are reported and kept. Those of an `ended` session are
        abandoned on whatever
    machine their owner was: Slurm has ended it.
    """
    recovered = []
    journals = names(folder)
    for path in sorted(folder / JOURNALS / name for name in journals):
        if path.suffix in (SUFFIX, CLAIMED):
            outcome = _recover_one(path, folder, ended)
            if outcome:
                recovered.append(outcome._replace(journal=path.name))
        elif path.suffix == UNNAMED:
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFT_UNNAMED_S and _is_begun(path):
                    path.unlink()
    with contextlib.suppress(OSError, TensorPrimatError):
        clear_unfinished(folder)
    if journals:
        with contextlib.suppress(OSError):
            (folder / JOURNALS).rmdir()
    return recovered


def _is_begun(path: Path) -> bool:
    """Return whether a file is empty or begins as a journal does: it may be left from a training
    that was killed.
    """
    with files.open_plain(path) as file:
        return file.read(len(_BEGINNING)) == _BEGINNING[: os.fstat(file.fileno()).st_size]


def read(content: bytes, *, is_living: bool = False) -> tuple[Run, bool] | None:
    """Return the Run of a journal, and whether the training itself had finished it; None if nothing
    was recorded.

    One whose training `is_living` has not ended.

    A last line that was cut is skipped, and so is everything after a broken line: a power cut
    leaves zeros.

    Raises ValueError if it is no journal of this version.
    """
    lines = content.split(b"\n")
    first = msgspec.json.decode(lines[0], type=JournalHeader)
    if first.journal != VERSION:
        raise ValueError(f"journal version {first.journal}; this TensorPrimat reads {VERSION}")
    if len(lines) < 3:
        return None  # no more than a part of the setup
    setup = final = None
    records: list[_Record] = []
    updates = []
    pauses = []
    decode_record = msgspec.json.Decoder(_Record).decode
    notes = [RECOVERED]
    for line in lines[1:-1]:
        try:
            if line.startswith(b"{"):
                entry = msgspec.json.decode(line, type=_Line)
                # Writing the result may have been interrupted, and begun again with another end.
                final = entry.final or final
                setup = entry.run or setup
                if entry.update:
                    updates.append(entry.update)
                if entry.pause:
                    pauses.append(entry.pause)
            else:
                record = decode_record(line)
                newest = records[-1][0] if records else 0
                if record[0] <= newest or not 1 <= record[1] <= LARGEST_COUNT:
                    raise ValueError("steps must rise")
                records.append(record)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            notes.append(Note("journal-damaged"))
            break
    if final is not None:
        return final, True
    if setup is None:
        raise ValueError("the journal ends before the configuration")
    setup = _updated(setup, updates)
    outcome = RUNNING if is_living else KILLED
    run = setup.but(
        status=outcome.status,
        status_reason=outcome.reason,
        ending=outcome.ending,
        notes=noted((*setup.notes, *notes)),
        timeline=_timeline(setup, records, pauses),
        **series(records),
    )
    return run, False


def so_far(path: Path) -> Run | None:
    """Return the run of a journal whose training goes on, or was killed; None if it has no steps
    yet.

    Raises OSError, and ValueError if it is no journal.
    """
    with files.open_plain(path) as file:
        content = file.read(store.LARGEST_FILE)
        owner = msgspec.json.decode(content.partition(b"\n")[0], type=JournalHeader).owner
        recovered = read(content, is_living=not has_exited(owner, file.fileno()))
    return recovered and recovered[0]


def _timeline(setup: Run, records: Sequence[_Record], pauses: Sequence[Pause]) -> tuple[Entry, ...]:
    """Return the timeline of the training until its last record."""
    ends = {}
    trained = 0.0
    left = list(pauses)
    for step, window, seconds, *_ in records:
        trained += (seconds or 0.0) * window
        paused = 0.0
        for pause in left:
            if pause.begin >= trained + paused:
                break
            paused += pause.end - pause.begin
        ends[step] = trained + paused
    first = records[0][0] - records[0][1] + 1 if records else 1
    return timeline(
        sum(entry.duration for entry in setup.timeline if entry.kind == "start-up"),
        ends,
        pauses,
        first,
        None,
    )


def _updated(setup: Run, updates: Sequence[Update]) -> Run:
    """Return the setup with the epochs that ended, and the newest metrics of them."""
    covered = 0
    for count, update in enumerate(updates, 1):
        if update.native_metrics is not None:
            covered = count
            setup = setup.but(
                native_metrics=update.native_metrics,
                breakdown=update.breakdown or {},
                notes=update.notes or (),
            )
    notes = setup.notes
    if 0 < covered < len(updates):
        stale = Note("epochs-uncovered", {"covered": covered, "epochs": len(updates)})
        notes = noted((*notes, stale))
    epochs = (*setup.epochs, *(update.epoch for update in updates))
    return setup.but(epochs=epochs, notes=notes)


def _recover_one(path: Path, folder: Path, ended: str | None) -> Recovered | None:
    if path.name.startswith(f"{os.getpid()}-"):
        return None
    try:
        # Whatever lies there: a pipe would be waited for.
        at_once = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | at_once)
        # Closing the journal, by whatever handle, gives its lock away: this one is kept to the end.
        with os.fdopen(handle, "r+b", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > store.LARGEST_FILE:
                return _left(path, "not a journal")
            if _is_abandoned(path, file, ended):
                return _turn_into_result(path, file, folder)
            return None
    except FileNotFoundError:
        return None  # its training has just ended, or another command was faster
    except (OSError, MemoryError) as error:
        return _left(
            path,
            getattr(error, "strerror", None) or str(error) or "it needs more memory than there is",
        )


def _is_abandoned(path: Path, file: IO[bytes], ended: str | None) -> bool:
    """Return whether the journal's owner is gone, and no other command is recovering it.

    Raises FileNotFoundError if another one has done so.
    """
    try:
        owner = msgspec.json.decode(file.readline(LONGEST_LINE), type=JournalHeader).owner
        gone = has_exited(owner, file.fileno()) or (
            _session(file) == ended is not None and lock(file.fileno())
        )
    except (ValueError, RecursionError):
        # A power cut may have taken the first line, which is written before the journal gets its
        # name.
        gone = lock(file.fileno())
    return gone and os.fstat(file.fileno()).st_ino == path.stat().st_ino


def _session(file: IO[bytes]) -> str | None:
    """Return the session of a journal whose first line was read; None if it has none."""
    run = msgspec.json.decode(file.readline(LONGEST_LINE), type=_Line).run
    if run:
        return run.session
    return None


def _turn_into_result(path: Path, file: IO[bytes], folder: Path) -> Recovered:
    file.seek(0)
    content = file.read()
    if os.name == "nt":
        file.close()
        if path.suffix != CLAIMED:
            # Windows refuses this while the owner has it open.
            path = path.rename(path.with_suffix(CLAIMED))
    try:
        training = read(content)
    except (ValueError, RecursionError) as error:
        kept = path.with_suffix(BROKEN)
        path.rename(kept)
        return Recovered(
            f"the journal of an interrupted run can't be read ({plain(error, 200)}): kept as {kept}"
        )
    if training is None:
        path.unlink()
        return Recovered("an interrupted run left no steps to recover")
    run, finished = training
    if finished:
        there = store.locate(folder / file_name(run), store.fingerprint(run))
        if there:
            path.unlink()
            return Recovered(
                f"an interrupted run had already written its result ({there[1]}): its journal was"
                " removed",
                *there,
            )
    elif not file.closed:
        with contextlib.suppress(OSError):
            # Should this command be ended between the result and the journal's end.
            final = msgspec.json.encode({"final": run}) + b"\n"
            file.write(final if content.endswith(b"\n") else b"\n" + final)
    try:
        saved = store.save(run, folder)
    except TensorPrimatError as error:
        return _left(path, error.message)
    path.unlink()
    count = len(run.steps)
    what = counted(count, "record") if count else "no steps"
    lost = "" if run.status == "complete" else f", {run.status}"
    moved = f"; existing file moved to {saved.moved}" if saved.moved else ""
    return Recovered(
        f"recovered {what} of an interrupted run{lost}: {saved.path}{moved}", run, saved.path
    )


def _left(path: Path, why: str) -> Recovered:
    return Recovered(f"{path}: the journal of an interrupted run can't be saved as a result: {why}")
