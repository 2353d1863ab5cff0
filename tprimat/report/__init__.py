"""Comparison -> bytes or text: a file for each form. Reports judge nothing and write no files.

FORMS is the list of those that the compare command writes beside its terminal summary.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Provenance:
    """What a report says of its own making: the program's version, and the command that makes it again."""

    version: str
    command: str


@dataclasses.dataclass(frozen=True)
class Picture:
    """The picture of a comparison: its path from the report's folder; png, svg or pdf; and its content."""

    link: str
    kind: str
    content: bytes


@dataclasses.dataclass(frozen=True)
class Form:
    """A report that is a file.

    Attributes:
        module: holds render(comparison, provenance, picture) -> bytes, where picture is a Picture,
            or None where none was drawn.
        file_name: what it is called.
    """

    module: str
    file_name: str


FORMS = (
    Form("tprimat.report.markdown", "comparison_report.md"),
    Form("tprimat.report.page", "comparison_report.html"),
)
