"""The words of notes: a row for each code, and words(), which turns a note into its sentence.

Only what writes for people imports this: a test keeps it.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tprimat.notes import TEXT, Note

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
    """

    severity: Severity
    sentence: str
    next_step: str = ""


ROWS = {
    TEXT: NoteRow("warning", "{text}"),
    "loss-not-finite": NoteRow(
        "decisive",
        "loss is not a number at {steps}",
        "look for the step at which the training diverged",
    ),
    "loss-vanished": NoteRow(
        "decisive",
        "no loss is printed from step {first} on, but before",
        "look for the step at which the training diverged: some frameworks don't print a loss that"
        " is NaN",
    ),
    "grad-norm-not-finite": NoteRow(
        "decisive",
        "gradient norm is not a number at {steps}",
        "look for the step at which the training diverged",
    ),
    "steps-skipped": NoteRow(
        "decisive",
        "the optimizer skips its step at {steps}: nothing is trained there",
        "look for what makes gradients overflow",
    ),
    "stamps-contradict": NoteRow(
        "decisive",
        "time stamps are {share:.3g}× the printed step times apart: one of them is wrong, or steps"
        " are missing",
    ),
    "steps-beyond-stamps": NoteRow(
        "decisive",
        "the printed times of steps add up to more than passed between their time stamps"
        " ({share:.3g}×): one of them is wrong",
    ),
    "stamps-are-clock": NoteRow(
        "decisive",
        "time stamps are {share:.4g}× the printed step times apart, and no pause in the log"
        " explains it: step times are those printed, times {share:.4g}",
    ),
    "steps-hold-other": NoteRow(
        "info", "the time of {steps} includes {what}: it is no training step's, and excluded"
    ),
    "gpu-from-platform": NoteRow(
        "warning",
        "only the free text of the platform names the GPU {gpu}, and may be that of another system",
        "add the system description of the submission (systems/*.json), or use --gpu",
    ),
    "steps-outside-blocks": NoteRow(
        "warning", "{count} steps are in no block of the log: the speed is that of the others"
    ),
    "steps-beyond-run": NoteRow(
        "decisive",
        "all steps at the mean step time of the records take {share:.4g}× the time from run_start"
        " to run_stop: the log is not read correctly",
        "report the log: TensorPrimat reads it wrongly",
    ),
    "early-block-ends": NoteRow(
        "warning",
        "block_stop is logged before the GPU is done: {count} blocks end by the records of steps,"
        " which adds {percent:.2f}% to their time (±{doubt:.2f}%)",
    ),
    "read-otherwise": NoteRow(
        "warning",
        "an older version read this log by rules that have changed: its speed may be more than"
        " 0.5% off",
        "read the log again",
    ),
    "blocks-too-slow": NoteRow(
        "decisive",
        "{count} steps are in no block of the log, and at the speed of the others they would take"
        " longer than the run: its speed is unknown",
    ),
    "parts-exceed-wall-time": NoteRow(
        "decisive",
        "its parts add up to {seconds:,.1f} s, but its wall time is {whole:,.1f} s: the reader is"
        " at fault",
        "report it with the log",
    ),
    "steps-exceed-training": NoteRow(
        "warning",
        "its steps take {seconds:,.1f} s by their times, but their training {whole:,.1f} s: the"
        " reader is at fault, or the log's times or time stamps are not those of its steps",
        "report it with the log",
    ),
    "memory-nearly-full": NoteRow(
        "warning",
        "GPU memory is {value:.0f}% full: with so little room the allocator may have to free and"
        " retry, which is slow",
        "try a smaller micro-batch",
    ),
    "allocation-retries": NoteRow(
        "warning",
        "the allocator had to free GPU memory and retry ({value} at line {line}): the steps with it"
        " are slower",
        "try a smaller micro-batch",
    ),
    "profiler-captures": NoteRow(
        "warning",
        "a profiler captured steps (line {line}): these are slower",
        "measure without a profiler",
    ),
    "precision-changes": NoteRow(
        "warning",
        "its precision doesn't hold for the whole run: from line {line} on it trains in {value}"
        " (healing)",
    ),
    "utilization-above-peak": NoteRow(
        "warning",
        "it prints a utilization of {percent:,.1f}%, which is impossible: its peak or its count of"
        " FLOPs is wrong, so it isn't used",
    ),
}
"""Rows by code."""


def words(note: Note) -> str:
    """Return the sentence of a note, without a full stop.

    A note of a newer version, or one that somebody wrote by hand, may have another code or other
    fields: it is shown as its code and its values.
    """
    if row := ROWS.get(note.code):
        try:
            return row.sentence.format_map(note.fields)
        except (KeyError, ValueError, TypeError):
            pass
    return ", ".join([note.code, *(f"{name} {value}" for name, value in note.fields.items())])
