"""The audit of published results -> a document, and values for --json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tprimat.checks.audit import PACKED, Audited
from tprimat.notes.catalogue import words
from tprimat.report.blocks import Block, Document, Headline, Notes, Paragraph
from tprimat.report.json_values import fields, findings_values
from tprimat.results.fields import JsonObject
from tprimat.text import counted, plain

MOST_FINDINGS = 4
MOST_LINES = 8
"""Most findings on the first screen, and most rows that are listed for a finding."""

_TITLES = {
    "contradiction": "contradictory",
    "above-peak": "above the peak",
    "precision-unstated": "possible only in an unstated precision",
    "encoders": "possibly including encoders",
    "unreadable-row": "unreadable",
    "repeated": "with the values of another row",
    "outlier": "far faster than the others",
    "claim": "with days that do not follow",
    "formula": "with a mistake in the formula of FLOPs",
    "convention": "with another convention of FLOPs (no contradiction)",
}


def document(audited: Sequence[Audited]) -> Document:
    """Return the findings, the most severe first and similar findings on a model together, and then
    their numbers.
    """
    wrong = [row for row in audited if row.findings and row.findings[0].severity != "info"]
    if not wrong:
        head = f"{counted(len(audited), 'row')} checked: no contradiction"
    else:
        unverified = sum(row.findings[0].severity == "unverified" for row in wrong)
        rows = counted(len(wrong) - unverified, "row")
        head = f"{rows} of {len(audited):,} cannot be right as printed"
        if unverified:
            head += f", {unverified} unverified"
    screen: list[Block] = [Headline(head)]
    groups: dict[object, list[Audited]] = {}
    for row in sorted(wrong, key=lambda row: (row.findings[0].severity, row.findings[0].rule)):
        groups.setdefault(_alike(row), []).append(row)
    if groups:
        screen.append(Notes([_entry(group) for group in groups.values()], most=MOST_FINDINGS))
    if counts := _counts(audited):
        screen.append(Paragraph(f"Rows: {', '.join(counts)}."))
    return Document(screen)


def _alike(row: Audited) -> object:
    """Return the key by which similar findings are listed together.

    A mistake in a formula is the same in all rows of a model; any other finding is specific to its
    row.
    """
    first = row.findings[0]
    model = row.figure.row
    if first.rule == "formula":
        return model and model.name, first.explanations
    return row.figure


def _counts(audited: Sequence[Audited]) -> list[str]:
    """Return the number of rows with findings of each rule, and of those that have only bounds."""
    counts = []
    for rule, title in _TITLES.items():
        number = sum(any(finding.rule == rule for finding in row.findings) for row in audited)
        if number:
            counts.append(f"{number} {title}")
    packed = 0
    for row in audited:
        packed += row.figure.task in PACKED and row.figure.tflops_per_gpu is not None
    if packed:
        counts.append(
            f"TFLOP/s of {packed} in fine-tuning only bounded, as sequences may be packed"
        )
    return counts


def _entry(group: Sequence[Audited]) -> tuple[str, list[str]]:
    row, *others = group
    first, *rest = row.findings
    figure = row.figure
    lines = sorted(other.figure.line for other in group)
    listed = ", ".join(map(str, lines[:MOST_LINES]))
    if len(lines) > MOST_LINES:
        listed += ", …"
    model = figure.row.title if figure.row else figure.model
    named = " on ".join(filter(None, (model, figure.gpu)))
    below = list(first.explanations[: 2 if first.rule == "encoders" else 1])
    if not others:
        below += [finding.note for finding in rest]
    text = f"{PurePath(figure.file).name}:{listed} {named}: {words(first.note)}"
    return plain(text), [plain(words(note)) for note in below]


def values(audited: Sequence[Audited]) -> list[JsonObject]:
    """Return the rows that have findings, with their place and every explanation."""
    names = ("file", "line", "model", "gpu", "precision", "task", "sequence_length")
    rows = []
    for row in audited:
        if row.findings:
            rows.append({**fields(row.figure, *names), "findings": findings_values(row.findings)})
    return rows
