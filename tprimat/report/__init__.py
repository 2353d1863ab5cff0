"""Comparison -> bytes or text: a file for each format. Reports judge nothing and write no files.

FORMATS is the list of those that the compare command writes beside its terminal summary.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where a report comes from: the program's version, and the command that makes it again."""

    version: str
    command: str


@dataclasses.dataclass(frozen=True)
class Plot:
    """The plot of a comparison: its path from the report's directory; png, svg or pdf; and its content."""

    link: str
    kind: str
    content: bytes


@dataclasses.dataclass(frozen=True)
class OutputFormat:
    """A report that is a file.

    Attributes:
        module: holds render(report, sources, plot) -> bytes, where report is a verdict.Report and plot a Plot,
            or None if none was drawn.
        file_name: what it is called.
    """

    module: str
    file_name: str


FORMATS = (
    OutputFormat("tprimat.report.markdown", "comparison_report.md"),
    OutputFormat("tprimat.report.page", "comparison_report.html"),
)
