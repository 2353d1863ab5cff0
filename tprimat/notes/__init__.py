"""Note: what is known or doubted about a result, as a code with fields. Its words are in
catalogue.py.

A note is made where a thing is known. Code decides by codes and fields, and never looks into a
sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

TEXT = "text"
"""The code of a sentence that has no code of its own: of an older file, or of code that still
writes sentences.
"""

SYSTEM = "system"
"""The field with the name of the system that a note is about. A sentence that doesn't have it begins
with it.
"""

NoteValue = str | bool | int | float | None | tuple[int | float | str, ...]


class Note(msgspec.Struct, frozen=True):
    """A finding about a run, a system or a comparison.

    Attributes:
        code: its row in the catalogue, such as loss-not-finite.
        fields: the values that the sentence names; times in s, steps and lines as numbers.
    """

    code: Annotated[str, "what was found"]
    fields: Annotated[Mapping[str, NoteValue], "values that the sentence names"] = {}

    def __hash__(self) -> int:
        """Return a hash: a dictionary has none of its own."""
        return hash((self.code, frozenset(self.fields.items())))


OBSERVED = frozenset(
    {
        "allocation-retries",
        "blocks-too-slow",
        "early-block-ends",
        "gpu-from-platform",
        "grad-norm-not-finite",
        "loss-not-finite",
        "loss-vanished",
        "memory-nearly-full",
        "parts-exceed-wall-time",
        "precision-changes",
        "profiler-captures",
        "read-otherwise",
        "stamps-are-clock",
        "stamps-contradict",
        "steps-beyond-run",
        "steps-beyond-stamps",
        "steps-exceed-training",
        "steps-hold-other",
        "steps-outside-blocks",
        "steps-skipped",
        "utilization-above-peak",
    }
)
"""Codes of what a log itself shows of its training. Others say what it doesn't state, or where a
value comes from instead, and depend on what its user states.
"""


def noted(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return notes, each once and in order."""
    return tuple(dict.fromkeys(notes))
