"""The audit of published figures -> a document, and values for --json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tprimat.checks.audit import PACKED, Audited
from tprimat.report.blocks import Block, Document, Headline, Notes, Paragraph
from tprimat.report.json_values import fields
from tprimat.results.fields import JsonObject
from tprimat.text import counted, plain

MOST_FINDINGS = 4
MOST_LINES = 8
"""Findings of the first screen, and lines of a finding that are listed."""

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
    """Return what contradicts, the gravest first and alike findings of a model together, then
    counts.
    """
    wrong = [row for row in audited if row.findings and row.findings[0].severity != "info"]
    groups: dict[object, list[Audited]] = {}
    for row in sorted(wrong, key=lambda row: (row.findings[0].severity, row.findings[0].rule)):
        first = row.findings[0]
        model = row.figure.row
        # A mistake in a formula is the same one in every row of the model.
        alike: object = row.figure
        if first.rule == "formula":
            alike = (model and model.name, first.explanations)
        groups.setdefault(alike, []).append(row)
    counts = [
        f"{number} {title}"
        for rule, title in _TITLES.items()
        if (number := sum(any(finding.rule == rule for finding in row.findings) for row in audited))
    ]
    if packed := sum(
        row.figure.task in PACKED and row.figure.tflops_per_gpu is not None for row in audited
    ):
        counts.append(
            f"TFLOP/s of {packed} in fine-tuning only bounded, as sequences may be packed"
        )
    unverified = sum(row.findings[0].severity == "unverified" for row in wrong)
    head = (
        f"{counted(len(wrong) - unverified, 'row')} of {len(audited):,} cannot be right as printed"
    )
    head += f", {unverified} unverified" if unverified else ""
    screen: list[Block] = [
        Headline(head if wrong else f"{counted(len(audited), 'row')} checked: no contradiction")
    ]
    screen += (
        [Notes([_entry(group) for group in groups.values()], most=MOST_FINDINGS)] if groups else []
    )
    return Document([*screen, *([Paragraph(f"Rows: {', '.join(counts)}.")] if counts else [])])


def _entry(group: Sequence[Audited]) -> tuple[str, list[str]]:
    row, *others = group
    first, *rest = row.findings
    model = row.figure.row
    lines = sorted(each.figure.line for each in group)
    shown = ", ".join(map(str, lines[:MOST_LINES])) + (", …" if len(lines) > MOST_LINES else "")
    named = " on ".join(
        part for part in (model.title if model else row.figure.model, row.figure.gpu) if part
    )
    causes = 2 if first.rule == "encoders" else 1
    below = [*first.explanations[:causes], *(each.text for each in rest if not others)]
    return plain(f"{PurePath(row.figure.file).name}:{shown} {named}: {first.text}"), [
        plain(each) for each in below
    ]


def values(audited: Sequence[Audited]) -> list[JsonObject]:
    """Return the rows that have findings, with their place and every explanation."""
    names = ("model", "gpu", "precision", "task", "sequence_length")
    return [
        {**fields(row.figure, "file", "line", *names), "findings": row.findings}
        for row in audited
        if row.findings
    ]
