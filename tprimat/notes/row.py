"""A row of the catalogue of notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Severity = Literal["decisive", "warning", "info"]
"""Decisive: the result can't be used without knowing it; marked `!` on the first screen. Warning:
shown where there is room. Info: an explanation.
"""


@dataclasses.dataclass(frozen=True)
class NoteRow:
    """The sentence for a code, and its severity.

    Attributes:
        severity: how much it affects whether the result can be used.
        sentence: with the fields of the note in braces, as str.format() fills them.
        next_step: what the reader can do, with fields in braces; empty if nothing.
        former: sentences of earlier versions, by which note_of() recognizes the notes in files of
            schema 1: these have sentences and no codes.
    """

    severity: Severity
    sentence: str
    next_step: str = ""
    former: tuple[str, ...] = ()


def rows_of(severity: Severity, sentences: Mapping[str, str]) -> dict[str, NoteRow]:
    """Return the rows for these sentences, by code, all of one severity."""
    return {code: NoteRow(severity, sentence) for code, sentence in sentences.items()}
