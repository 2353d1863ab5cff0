"""Note: what is known or doubted about a result, as a code with fields. Its sentence is in
catalogue.py.

The code that detects something makes the note. All other code decides by a note's code and fields,
never by the text of its sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import msgspec

TEXT = "text"
"""The code of a note that is only a sentence: from an older file, or from code that still writes
sentences.
"""

SYSTEM = "system"
"""The field with the name of the system that a note is about. If the note's row in the catalogue
doesn't contain this field, its sentence begins with the name.
"""

NoteValue = str | bool | int | float | None | tuple[int | float | str, ...]


class Note(msgspec.Struct, frozen=True):
    """A finding about a run, a system or a comparison.

    Attributes:
        code: its row in the catalogue, such as loss-not-finite.
        fields: the values that the sentence contains; times in seconds, steps and lines as numbers.
    """

    code: Annotated[str, "what was found"]
    fields: Annotated[Mapping[str, NoteValue], "values that the sentence names"] = {}

    def __hash__(self) -> int:
        """Return a hash; the default one fails, because it would hash the dictionary `fields`."""
        return hash((self.code, frozenset(self.fields.items())))


def about(system: str, note: Note) -> Note:
    """Return a copy of a note that is about the system of this name."""
    return Note(note.code, {**note.fields, SYSTEM: system})


def with_texts(note: Note, change: Callable[[str], str]) -> Note:
    """Return a copy of a note with change() applied to each text in it, such as a file name."""
    fields: dict[str, NoteValue] = {}
    for name, value in note.fields.items():
        if isinstance(value, str):
            value = change(value)
        elif isinstance(value, tuple):
            value = tuple(change(part) if isinstance(part, str) else part for part in value)
        fields[name] = value
    return Note(note.code, fields)


SKIPPED = "skipped"
"""The code of the note on a file that is not used."""

LOST, NO_RESULT, NO_LOG, TWIN, ASKED = "lost", "no-result", "no-log", "twin", "asked"
RESULT, DESCRIPTION = "result", "description"
"""Kinds of skipped files.

    LOST: a result or a log that can't be loaded
    NO_RESULT: not a result
    NO_LOG: not a log, judging by its name
    ASKED: a log that is read once the user confirms what is assumed
    TWIN: another log of a training that is already counted
    RESULT: a result found where logs are read
    DESCRIPTION: a description of a system; it isn't skipped, but read together with that system's
        logs
"""


def skipped(file: str, why: str, kind: str = "") -> Note:
    """Return the note on a file that is not used; `file` may also describe several, such as
    "a.log and 2 more".
    """
    return Note(SKIPPED, {"files": (file,), "why": why, "kind": kind})


def by_reason(notes: Iterable[Note]) -> list[Note]:
    """Return notes with all files that are skipped for the same reason in one note; these notes
    come first.
    """
    files: dict[tuple[NoteValue, ...], list[int | float | str]] = {}
    others = []
    for note in notes:
        names = note.fields.get("files")
        if note.code == SKIPPED and isinstance(names, tuple):
            key = (note.fields.get("why"), note.fields.get("kind"))
            files.setdefault(key, []).extend(names)
        else:
            others.append(note)
    together = []
    for (why, kind), named in files.items():
        together.append(Note(SKIPPED, {"files": tuple(named), "why": why, "kind": kind}))
    return [*together, *others]


ASSUMED = frozenset(
    {
        "form-average-assumed",
        "form-coarse-clock",
        "form-coarse-rate",
        "form-counter-assumed",
        "form-elapsed-assumed",
        "form-epoch-assumed",
        "form-few-records",
        "form-few-steps",
        "form-interval-assumed",
        "form-milliseconds-assumed",
        "form-order-assumed",
        "form-printed-is-part",
        "form-stamps-vary",
        "form-time-assumed",
        "form-training-assumed",
        "form-unit-assumed",
        "form-window-assumed",
    }
)
"""Codes of notes on what is assumed of the lines of a log that no reader knows."""


def assumed(notes: Iterable[Note]) -> list[Note]:
    """Return the notes on what is assumed of a log."""
    return [note for note in notes if note.code in ASSUMED]


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
"""Codes of notes on what a log itself shows about its training. Other notes say what it doesn't
state, or where a value comes from instead, and depend on the values that the user gives.
"""


def noted(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return notes in their order, without duplicates."""
    return tuple(dict.fromkeys(notes))
