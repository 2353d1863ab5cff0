"""Pseudonyms of the machines whose results a directory has: node-1, node-2, … in the order in which
they came.

A file next to the results has the numbers of the machines: a salt, and a hash with it of each
machine's name. It has no plain names, and it is never packed into a bundle.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.redaction import PSEUDONYM, Names, names_stay
from tprimat.results.result_file import Kind, without_names
from tprimat.results.run import SETUP_FIELDS, Run
from tprimat.store.history import HISTORY, UNFINISHED

FILE = ".tprimat.hosts"


class Hosts:
    """The pseudonyms of machines in a directory: new ones are kept if its lock is held, else they
    last a process.
    """

    def __init__(self, folder: Path, *, is_locked: bool = False) -> None:
        self._folder = folder
        self._is_locked = is_locked
        self._found: tuple[str, list[str]] | None = None

    def known(self, name: str) -> str | None:
        """Return the pseudonym of a machine, by its name; None if it has none."""
        mark, (_, marks) = self._mark(name), self._read()
        if mark in marks:
            return f"node-{marks.index(mark) + 1}"
        return None

    def number(self, name: str) -> str:
        """Return the pseudonym of a machine, by its name; a new one if it has none."""
        if self.known(name) is None:
            self._read()[1].append(self._mark(name))
            if self._is_locked:
                path = self._folder / FILE
                content = msgspec.json.encode(self._read()) + b"\n"
                with files.write_temp_beside(path, content, UNFINISHED) as whole:
                    os.replace(whole, path)
        return self.known(name) or name

    def number_unless_given(self, name: str) -> str:
        """Return the pseudonym of a machine, by its name or by that pseudonym."""
        if PSEUDONYM.fullmatch(name):
            return name
        return self.number(name)

    def _mark(self, name: str) -> str:
        # The short form and the full one are one machine.
        short = name.partition(".")[0].lower().encode("utf-8", "replace")
        key = self._read()[0].encode()
        return hashlib.blake2b(short, key=key, digest_size=16).hexdigest()

    def _read(self) -> tuple[str, list[str]]:
        """Return the salt, and the hashes in the order of their numbers."""
        if self._found is None:
            with contextlib.suppress(OSError, ValueError):
                self._found = msgspec.json.decode(
                    files.read_plain(self._folder / FILE), type=tuple[str, list[str]]
                )
        if self._found is None:
            # Machines of results that lost their file, or came without it, keep their numbers. A
            # directory has results of some thousand machines at most; a foreign result may have
            # node-999999999, which would be a list of 8 GB.
            numbers = [0]
            for path in self._folder.glob("*.json"):
                with contextlib.suppress(OSError):
                    numbers += map(
                        int,
                        re.findall(rb'"host(?:name)?": ?"node-(\d{1,4})"', files.read_plain(path)),
                    )
            self._found = secrets.token_hex(16), [""] * max(numbers)
        return self._found


@functools.cache
def of_process(folder: Path) -> Hosts:
    """Return the pseudonyms in a directory that nothing is written to; results moved to history/
    are of the same.
    """
    return Hosts(folder.parent if folder.name == HISTORY else folder)


@functools.lru_cache(1 << 10)
def _words(field: bytes) -> list[str]:
    return re.findall(r"\w+", field.decode())


def names(number: Callable[[str], str], runs: Iterable[Run] = ()) -> Names:
    """Return the pseudonyms for names in these runs and in texts about them, by the numbers of
    their machines.
    """
    words = set()
    for run in runs:
        for field in SETUP_FIELDS:
            for word in _words(msgspec.json.encode(getattr(run, field))):
                words.add(word)
    pseudonyms = Names(number, words)
    with contextlib.suppress(KeyError, OSError, ImportError):
        pseudonyms.learn(getpass.getuser(), "user")
    pseudonyms.learn(socket.gethostname(), "host")
    return pseudonyms


def hidden(value: Kind, known: Hosts, *, are_results: bool = False) -> Kind:
    """Return a run, or texts on one, with pseudonyms, unless names stay; results may have some."""
    number = known.number_unless_given if are_results else known.number
    if names_stay():
        return value
    return without_names(value, names(number, [value] if isinstance(value, Run) else []))
