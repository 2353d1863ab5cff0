"""A file that is one JSON document, taken line by line."""

from __future__ import annotations

import json
from typing import Any

from tprimat.read.parsing.text import Line

LARGEST = 32 << 20
"""Characters; a document of step records has fewer."""


class Document:
    """Collects the lines of a file that begins like a JSON object, until it can't be one."""

    def __init__(self) -> None:
        self._lines: list[str] | None = []
        self._size = 0

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if self._lines is None:
            return
        text = line.text
        if not self._lines:
            if not text or text.isspace():
                return
            if not text.lstrip().startswith("{"):
                self._lines = None
                return
        elif text.startswith("{") and self._lines[-1].rstrip().endswith("}"):
            # An object a line is no document.
            self._lines = None
            return
        self._lines.append(text)
        self._size += len(text) + 1
        if self._size > LARGEST:
            self._lines = None

    @property
    def may_be_one(self) -> bool:
        """Whether all lines so far are of a JSON object."""
        return bool(self._lines)

    def value(self) -> dict[str, Any] | None:
        """Return the document; None where the file is none, or is cut off."""
        if not self._lines:
            return None
        try:
            found = json.loads("\n".join(self._lines))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


_DECODER = json.JSONDecoder()


def object_at(text: str, begin: int = 0) -> dict[str, Any] | None:
    """Return the JSON object that begins at a place of a text, whatever follows it; None where none does."""
    if begin < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
