"""Decide on a text that no log format's reader knows: read its steps, ask the user, or refuse it.

Read: two independent clocks agree, or labels and units say what the numbers are. Asked: something
is assumed. Refused: no form recurs, a number is missing, or its clocks contradict each other.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.notes import Note, NoteValue
from tprimat.read.forms.pattern import pattern_of
from tprimat.read.forms.reader import Interpretation, interpretations
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.text import Line
from tprimat.redaction import redacted, redacted_start
from tprimat.text import join_names, plain

LONGEST_SHOWN = 100
"""Characters of the example line that an error shows at most."""

DESCRIBE = "if one of its numbers is the time of a step, name it with --pattern"
CONFIRM = "confirm with --as-read, or say what the numbers are with --pattern"


class FormError(UnreadableError):
    """A text whose lines have a form, but which is not read, or only once the user confirms.

    Attributes:
        notes: what would be read and what is assumed, or what is missing.
        is_asked: whether it would be read once the user confirms.
    """

    def __init__(
        self, path: object, notes: Sequence[Note], *, is_asked: bool, hint: str | None = None
    ) -> None:
        problem = "its steps can be read with an assumption" if is_asked else "no training in it"
        super().__init__(path, problem, heading="not-a-training-log", hint=hint)
        self.notes = tuple(notes)
        self.is_asked = is_asked


def logs_by_form(
    lines: Callable[[], Iterable[Line]], name: str, *, as_read: bool = False
) -> list[ParsedLog]:
    """Return the trainings of a text, read by the form of its lines; none if no form recurs.

    `lines` gives the lines from the start, each time that it is called. Raises FormError if
    something is assumed that the user hasn't confirmed by `as_read`, or if a number is missing.
    """
    found = interpretations(lines)
    readable = [each for each in found if each.lacks is None]
    if not readable:
        if found:
            raise FormError(name, _refusal(found[0]), is_asked=False, hint=DESCRIBE)
        return []
    doubts = list(dict.fromkeys(note for each in readable for note in each.doubts))
    if doubts and not as_read:
        notes = [*map(_would_read, readable), *doubts]
        pattern = pattern_of(readable[0], lines) if len(readable) == 1 else ""
        if plain(redacted(pattern)) != pattern:
            # What is shown of it can't match.
            pattern = ""
        hint = f"{CONFIRM} {shlex.quote(pattern)}" if pattern else CONFIRM
        raise FormError(name, notes, is_asked=True, hint=hint)
    return [each.log for each in readable]


def certain_logs(lines: Callable[[], Iterable[Line]]) -> list[ParsedLog]:
    """Return the trainings of a text that can be read by their form without any assumption."""
    found = interpretations(lines)
    return [each.log for each in found if each.lacks is None and not each.doubts]


def _would_read(found: Interpretation) -> Note:
    """Return the note on a training that would be read: its steps, their time and its labels."""
    run = found.log.run()
    fields: dict[str, NoteValue] = {
        "first": run.steps[0],
        "last": run.steps[-1],
        "records": len(run.steps),
        "step": found.form.counter_label,
        "seconds": summarize(run).performance.avg_step_time_seconds,
        "time": found.time_label,
        "loss": found.form.labels.get("loss"),
    }
    return Note("form-would-read", fields)


def _refusal(found: Interpretation) -> list[Note]:
    """Return the notes on a text that is refused: its example line, and what it lacks."""
    line, text = found.form.example
    shown = plain(redacted_start(" ".join(text.split()), LONGEST_SHOWN))
    assert found.lacks is not None
    notes = [Note("form-recurs", {"line": line, "text": shown}), found.lacks]
    if found.lacks.code == "form-lacks-time" and found.form.unknown:
        notes.append(Note("form-unknown", {"labels": join_names(found.form.unknown)}))
    return notes
