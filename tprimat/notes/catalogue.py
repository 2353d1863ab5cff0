"""The sentences of notes: a row for each code, and words(), which turns a note into its sentence.

Only modules that write text for people import this; a test enforces it.
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
    """Return the sentence of a note, without a period at its end.

    Text in square brackets is omitted if a field in it is None or missing: "failed[: {cause}]" is
    "failed" without a cause.

    Args:
        note: one from a newer version, or edited by hand, may have another code or other fields; it
            is shown as its code and its values.
        known: the name of the system that the reader already knows, which isn't repeated. The
            sentence of a note about any other system begins with its name, if its row doesn't
            contain the name.
        briefly: omit all text in square brackets.
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
    """Return the sentences of several notes, such as those of a caveat, separated by semicolons;
    for `known` see words().
    """
    return "; ".join(words(note, known) for note in notes)


def safe_sentences(notes: Iterable[Note]) -> list[str]:
    """Return the sentence of each note as one line without control sequences or markup."""
    return [plain(words(note)) for note in notes]


_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def _clause(clause: str, fields: Mapping[str, NoteValue]) -> str:
    """Return an optional clause with its fields not yet filled in; empty if one of them is None or
    missing.
    """
    for _, name, _, _ in string.Formatter().parse(clause):
        if name is not None and fields.get(name) is None:
            return ""
    return clause


class _Form(string.Formatter):
    """Format fields as str.format() does, and with additional format specs: those in WRITTEN, and
    "count NOUN".

    {runs:count run} is "1 run" or "3 runs"; {names:names} is "A, B and C"; {time:duration} is
    "2 min 3 s".
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a field's value, formatted by its format spec."""
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
"""Functions that format a field, by the format spec that selects them."""

_FORM = _Form()


LONGEST_SENTENCE = 1000
"""Characters, beyond which no code is searched for a sentence. The patterns have several wildcards:
matching a sentence of a million characters would take hours.
"""


@functools.lru_cache(1 << 12)
def note_of(sentence: str) -> Note:
    """Return the note that a sentence was made from, such as a sentence in a file of schema 1,
    which has no codes.

    If a sentence matches no row, or is longer than LONGEST_SENTENCE, the note has the code TEXT.
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
    """Return a number that was written in a sentence; a whole one as int, for "1 record" rather
    than "1.0 record".
    """
    plain_text = text.replace(",", "")
    return int(plain_text) if plain_text.isdecimal() else float(plain_text)


@functools.cache
def _patterns() -> list[tuple[str, re.Pattern[str], dict[str, bool]]]:
    r"""Return for each sentence of the notes on runs, former ones included, its code, the pattern
    that it matches, and by field whether it is a number.

    "log begins at {noun} {step}" becomes log\ begins\ at\ (?P<noun>.*)\ (?P<step>.*).
    """
    sentences = []
    for code, row in of_runs.ROWS.items():
        for sentence in (row.sentence, *row.former):
            sentences.append((code, sentence))
    # "the log doesn't state its GPUs: …" has its own row, and also matches the row "the log doesn't
    # state {what}": the row with more text outside its fields is tried first.
    sentences.sort(key=lambda entry: len(_FIELD.sub("", entry[1])), reverse=True)
    patterns = []
    for code, sentence in sentences:
        pattern = ""
        is_number: dict[str, bool] = {}
        for literal, name, form, _ in string.Formatter().parse(sentence):
            # Text in square brackets is optional.
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
"""A number as sentences contain it, with commas, decimals and an exponent."""
