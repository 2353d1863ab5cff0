"""Comparison -> bytes or text: a file for each format. Reports judge nothing and write no files."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where a report comes from: the program's version, and the command that makes it again."""

    version: str
    command: str


@dataclasses.dataclass(frozen=True)
class Plot:
    """The plot of a comparison: its path from the report's directory; png, svg or pdf; and its
    content.
    """

    link: str
    kind: str
    content: bytes


FORMATS = {
    "comparison_report.md": "tprimat.report.markdown",
    "comparison_report.html": "tprimat.report.page",
}
"""The files that `compare` writes, and the module of each with its render(report, sources, plot) ->
bytes; report is a verdict.Report, plot a Plot or None.
"""
