"""Note: what is known or doubted about a result, as a code with fields. Its words are in
catalogue.py.

A note is made where a thing is known. Code decides by codes and fields, and never looks into a
sentence.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

TEXT = "text"
"""The code of a sentence that has no code of its own: of an older file, or of code that still
writes sentences.
"""

NoteValue = str | bool | int | float | None | tuple[int | float | str, ...]


class Note(msgspec.Struct, frozen=True):
    """A finding about a run, a system or a comparison.

    Attributes:
        code: its row in the catalogue, such as loss-not-finite.
        fields: the values that the sentence names; times in s, steps and lines as numbers.
    """

    code: Annotated[str, "what was found"]
    fields: Annotated[dict[str, NoteValue], "values that the sentence names"] = {}
