"""What words of a command line name: files, patterns, NAME=PATH, one training of a text."""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from tprimat import files
from tprimat.errors import UnreadableError
from tprimat.text import for_encoding

STANDARD_INPUT = "-"

SMALL = 1 << 18
"""Bytes that are read of a small file."""


def named_files(names: Sequence[str]) -> list[str]:
    """Return the files for names and for patterns that the shell did not expand.

    Raises UnreadableError for an empty or too long name, and for a pattern that nothing matches.
    """
    paths = []
    for name in names:
        if not name:
            # A variable of a script that is not set; as a path it would be the working directory.
            raise UnreadableError('""', "the name is empty", heading="unreadable-file")
        try:
            is_there = Path(name).exists()
        except OSError as error:
            raise files.unreadable(name, error) from error
        if is_there or name == STANDARD_INPUT or not glob.has_magic(name):
            paths.append(name)
            continue
        try:
            # Path.glob takes no absolute pattern.
            matches = glob.glob(name, recursive=True)  # noqa: PTH207
        except RecursionError as error:
            problem = "directories are nested too deep for this pattern"
            hint = "name their directory instead"
            raise UnreadableError(name, problem, hint=hint, heading="unreadable-file") from error
        matches = sorted(match for match in matches if not Path(match).is_dir())
        if not matches:
            raise UnreadableError(name, "no file matches this pattern", heading="unreadable-file")
        paths += matches
    return list(dict.fromkeys(paths))


def read_small(path: Path) -> bytes | None:
    """Return the content of a small file next to a log; None if it can't be read. It is cut after
    SMALL bytes.
    """
    try:
        with files.open_plain(path) as stream:
            return stream.read(SMALL)
    except OSError:
        return None


def apart(word: str) -> tuple[str | None, str]:
    """Return the name and the path in NAME=PATH; no name if that is itself a file."""
    name, _, path = word.partition("=")
    if not name or not path or re.search(r"[/\\]", name) or os.path.exists(word) or glob.glob(word):  # noqa: PTH110, PTH207
        return None, word
    # As it is typed elsewhere: macOS gives names of files with accents apart from their letters.
    name = for_encoding(unicodedata.normalize("NFC", name), "utf-8")
    # The shell expands neither after =.
    return name, str(Path(path).expanduser()) if path.startswith("~") else path


def selected(path: str) -> tuple[str, str | None]:
    """Return the text and the number or heading in FILE#2; the path and None if that is itself a
    file.
    """
    for sign in re.finditer(r"(?<!\.json)#(?=.)", "" if os.path.lexists(path) else path):
        if Path(path[: sign.start()]).is_file():
            return path[: sign.start()], path[sign.end() :]
    return path, None
