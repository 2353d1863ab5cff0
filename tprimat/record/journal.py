"""The crash-recovery journal of a training: one line per step, written as it happens, next to the
results.

Nothing is forced to the disk: written lines survive the end of the program, whatever its cause, and
a power cut costs some seconds. The result replaces the journal; recover() turns a journal whose
program is gone into a result.

    {"journal": 1, "owner": {…}}      whose it is
    {"run": {…}}                      the configuration, without records; again when more is known: the last one counts
    [step, window, seconds, loss, learning rate, gradient norm]
    {"pause": [begin, end, kind]}     s since the first step began, before the step that ends after it
    {"update": {…}}                   an epoch that has ended, and the metrics so far
    {"final": {…}}                    the whole Run, just before the result is written: neither lost nor counted twice
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from tprimat.notes import Note
from tprimat.record.folders import JOURNALS
from tprimat.record.process_identity import ProcessIdentity, current_process, lock
from tprimat.record.recorder import Record
from tprimat.record.wall_time import Pause
from tprimat.results.fields import Figures
from tprimat.results.run import Run

SUFFIX = ".jsonl"
UNNAMED = ".new"
"""Ending of a journal that is being created: it gets its name when its first line is written."""

VERSION = 1
ATTEMPTS = 3


class JournalHeader(msgspec.Struct, frozen=True):
    """A journal's first line."""

    journal: int
    owner: ProcessIdentity


class Update(msgspec.Struct, frozen=True, omit_defaults=True):
    """New facts beyond the steps.

    Attributes:
        epoch: another finished one.
        native_metrics, breakdown, notes: replace the earlier ones; None if they were not computed.
    """

    epoch: Figures
    native_metrics: dict[str, float | tuple[float | None, ...] | None] | None = None
    breakdown: Figures | None = None
    notes: tuple[Note, ...] | None = None


class Journal:
    """Write the journal of one training; none if `folder` is None. Never raises, so that no journal
    error stops a run.

    Attributes:
        trouble: why it can't be written; None while it can.
    """

    def __init__(self, folder: Path | None) -> None:
        self.trouble: str | None = None
        self.path: Path | None = None
        self._handle: int | None = None
        self._encode = msgspec.json.Encoder().encode
        if folder:
            try:
                self._open(folder / JOURNALS)
            except OSError as error:
                self._give_up(error)

    def add(self, **entry: Run | Pause | Update) -> None:
        """Write an entry under its name: run, pause, update or final."""
        self._write(entry)

    def step(self, record: Record) -> None:
        """Write one step; costs a system call."""
        self._write(record)

    def remove(self) -> None:
        """Remove the journal: the result is written."""
        self.close()
        if self.path is not None:
            # A directory that has vanished has taken the journal with it.
            with contextlib.suppress(OSError):
                self.path.unlink()
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()

    def close(self) -> None:
        """Close the journal and leave it to recover(): no result could be written."""
        handle = self._handle
        self._handle = None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)

    def _open(self, folder: Path) -> None:
        owner = current_process()
        name = f"{owner.pid}-{secrets.token_hex(4)}"
        for attempt in range(ATTEMPTS):
            # Another training that ends removes the directory when it is empty.
            folder.mkdir(parents=True, exist_ok=True)
            if folder.is_symlink():
                # No command would look for the journal there.
                raise OSError(errno.ELOOP, "it is a link", str(folder))
            unnamed = folder / (name + UNNAMED)
            try:
                self._handle = os.open(
                    unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o666
                )
                break
            except FileNotFoundError:
                if attempt + 1 == ATTEMPTS:
                    raise
        try:
            lock(self._handle)  # type: ignore[arg-type]
            self._write(JournalHeader(VERSION, owner))
            if self._handle is None:
                unnamed.unlink()
                return
            path = folder / (name + SUFFIX)
            if os.name == "nt":
                # Windows renames no open file.
                os.close(self._handle)
                self._handle = None
                unnamed.rename(path)
                self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)
            else:
                unnamed.rename(path)
            self.path = path
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                unnamed.unlink()
            raise

    def _write(self, content: Any) -> None:
        handle = self._handle
        if handle is None:
            return
        left = self._encode(content) + b"\n"
        try:
            while left:
                left = left[os.write(handle, left) :]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.trouble = error.strerror or str(error)
        self.close()
