"""The text that the cells of a Jupyter notebook printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from tprimat.read.parsing.values import json_object

LARGEST = 1 << 26
"""Most bytes of a notebook."""


def is_notebook(opening: str) -> bool:
    """Return whether a file that begins with this text is a Jupyter notebook."""
    return opening.lstrip("\ufeff \t\r\n").startswith("{") and (
        '"nbformat' in opening or '"cells":' in opening
    )


def printed_text(stream: BinaryIO) -> str | None:
    """Return what the cells of a notebook printed; None for other files, and for notebooks that are
    cut off or too large. The stream is at its start afterwards.
    """
    opening = stream.read(1 << 12).decode("utf-8", errors="replace")
    stream.seek(0)
    if not is_notebook(opening):
        return None
    document = json_object(stream.read(LARGEST).decode("utf-8-sig", errors="replace"))
    stream.seek(0)
    if document is None or not isinstance(document.get("cells"), list):
        return None
    return "".join(text for cell in document["cells"] for text in _texts(cell))


def _texts(cell: Any) -> Iterator[str]:
    """Yield the texts of a cell's outputs, each with a newline at its end."""
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        shown = data.get("text/plain") if isinstance(data, dict) else None
        for text in (output.get("text"), shown, output.get("traceback")):
            pieces = text if isinstance(text, list) else [text]
            # The lines of a traceback have no newlines.
            end = "\n" if text is output.get("traceback") else ""
            joined = end.join(piece for piece in pieces if isinstance(piece, str))
            if joined:
                yield joined if joined.endswith("\n") else f"{joined}\n"
