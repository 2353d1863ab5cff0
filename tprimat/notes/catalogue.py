"""The words of notes: a row for each code, and words(), which turns a note into its sentence.

Only what writes for people imports this: a test keeps it.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tprimat import units
from tprimat.notes import SYSTEM, TEXT, Note, NoteValue, of_checks, of_comparisons, of_runs
from tprimat.notes.row import NoteRow
from tprimat.text import counted, join_names, plain

ROWS = {
    TEXT: NoteRow("warning", "{text}"),
    **of_runs.ROWS,
    **of_checks.ROWS,
    **of_comparisons.ROWS,
}
"""Rows by code."""


def words(note: Note, known: str = "", *, briefly: bool = False) -> str:
    """Return the sentence of a note, without a full stop; without the name of the system if that is
    known; briefly: without its optional clauses.

    What stands in square brackets is left out if a field in it is None or missing:
    "failed[: {cause}]" is "failed" without a cause. A note of a system that its sentence doesn't
    name begins with it. A note of a newer version, or one that somebody wrote by hand, may have
    another code or other fields: it is shown as its code and its values.
    """
    if row := ROWS.get(note.code):
        try:
            text = _OPTIONAL.sub(
                lambda match: "" if briefly else _clause(match[1], note.fields), row.sentence
            )
            text = _FORM.vformat(text, (), note.fields)
        except (LookupError, ValueError, TypeError, ArithmeticError):
            pass
        else:
            is_named = note.fields.get(SYSTEM) in (None, known) or f"{{{SYSTEM}" in row.sentence
            if not is_named:
                text = f"{note.fields[SYSTEM]}: {text}"
            return text
    values = [f"{name} {value}" for name, value in note.fields.items() if name != SYSTEM]
    named = "" if note.fields.get(SYSTEM) in (None, known) else f"{note.fields[SYSTEM]}: "
    return named + ", ".join([note.code, *values])


def sentence(notes: Iterable[Note], known: str = "") -> str:
    """Return the sentences of notes that are told together, such as those of a caveat; without the
    name of a system that is known.
    """
    return "; ".join(words(note, known) for note in notes)


def safe_sentences(notes: Iterable[Note]) -> list[str]:
    """Return the sentence of each note as one safe line."""
    return [plain(words(note)) for note in notes]


_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def _clause(clause: str, fields: Mapping[str, NoteValue]) -> str:
    """Return an optional clause, still with its fields; empty if one of them is unknown."""
    for _, name, _, _ in string.Formatter().parse(clause):
        if name is not None and fields.get(name) is None:
            return ""
    return clause


class _Form(string.Formatter):
    """How a field is written: as str.format() writes it, or by one of WRITTEN, or counted.

    {steps:count run} is "1 run" or "3 runs"; {names:names} is "A, B and C"; {time:duration} is
    "2 min 3 s".
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a field's value as its form says."""
        if format_spec.startswith("count "):
            return counted(value, format_spec.removeprefix("count "))
        if format_spec in WRITTEN:
            return WRITTEN[format_spec](value)
        return str(super().format_field(value, format_spec))


WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "names": join_names,
    "each": "; ".join,
    "listed": ", ".join,
    "versus": " vs ".join,
    "plain": plain,
    "seconds": units.seconds,
    "duration": units.duration,
    "gigabytes": units.gigabytes,
    "magnitude": units.count,
}
"""Forms of fields by their names in a sentence."""

_FORM = _Form()


LONGEST_SENTENCE = 1000
"""Characters of a sentence whose code is looked for. Of one with a million the patterns, which have
several places for anything, would take hours.
"""


@functools.lru_cache(1 << 12)
def note_of(sentence: str) -> Note:
    """Return the note that a sentence is of, such as one in a file of schema 1, which has no codes.

    A sentence that fits no row, or is longer than LONGEST_SENTENCE, is a note of the code TEXT.
    """
    patterns = _patterns() if len(sentence) <= LONGEST_SENTENCE else []
    for code, pattern, is_number in patterns:
        match = pattern.fullmatch(sentence)
        if match:
            fields: dict[str, NoteValue] = {}
            for name, value in match.groupdict().items():
                if value is not None:
                    fields[name] = _number(value) if is_number[name] else value
            return Note(code, fields)
    return Note(TEXT, {"text": sentence})


def _number(text: str) -> float:
    """Return a number of a sentence, whole ones as int: 1 record, not 1.0 record."""
    plain_text = text.replace(",", "")
    return int(plain_text) if plain_text.isdecimal() else float(plain_text)


@functools.cache
def _patterns() -> list[tuple[str, re.Pattern[str], dict[str, bool]]]:
    r"""Return for each code what its sentences look like, and which of its fields are numbers.

    "log begins at {noun} {step}" becomes log\\ begins\\ at\\ (?P<noun>.*)\\ (?P<step>.*).
    """
    sentences = []
    for code, row in of_runs.ROWS.items():
        for sentence in (row.sentence, *row.former):
            sentences.append((code, sentence))
    # "the log doesn't state its GPUs: …" is a row of its own, and fits "the log doesn't state
    # {what}" too: the row with more words of its own goes first.
    sentences.sort(key=lambda row: len(_FIELD.sub("", row[1])), reverse=True)
    patterns = []
    for code, sentence in sentences:
        pattern = ""
        is_number: dict[str, bool] = {}
        for literal, name, form, _ in string.Formatter().parse(sentence):
            # What stands in brackets may be missing.
            pattern += re.escape(literal).replace(r"\[", "(?:").replace(r"\]", ")?")
            if name in is_number:
                pattern += f"(?P={name})"
            elif name is not None:
                is_number[name] = bool(form)
                pattern += f"(?P<{name}>{_NUMBER if form else '.*'})"
            if form and form.startswith("count "):
                pattern += f" {form.removeprefix('count ')}(?:e?s)?"
        patterns.append((code, re.compile(pattern, re.DOTALL), is_number))
    return patterns


_FIELD = re.compile(r"\{[^{}]*\}")
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
"""A number as a sentence has it."""
