"""What a row of the catalogue has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Severity = Literal["decisive", "warning", "info"]
"""Decisive: the result can't be used without it, `!` on the first screen. Warning: shown where
there is room. Info: it explains.
"""


@dataclasses.dataclass(frozen=True)
class NoteRow:
    """The words for a code, and how much they weigh.

    Attributes:
        severity: how much it changes what the result is worth.
        sentence: with the fields of the note in braces, as str.format() fills them.
        next_step: what the reader can do, with fields in braces; empty if nothing.
        former: what the sentence was: files of schema 1 have sentences and no codes.
    """

    severity: Severity
    sentence: str
    next_step: str = ""
    former: tuple[str, ...] = ()


def rows_of(severity: Severity, sentences: Mapping[str, str]) -> dict[str, NoteRow]:
    """Return rows of one severity from sentences by code."""
    return {code: NoteRow(severity, sentence) for code, sentence in sentences.items()}
