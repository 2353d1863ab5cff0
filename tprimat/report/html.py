"""Comparison -> comparison_report.html: one file that opens by double click. See report/page for what is in it."""

from __future__ import annotations

from tprimat.compare import Comparison
from tprimat.report import Picture, Provenance, page
from tprimat.report.page import library


def render(comparison: Comparison, provenance: Provenance, picture: Picture | None) -> bytes:
    """The report as a file. See report.Form for the arguments.

    Without the package that carries the charts' script the picture stands in their place, with a
    line on how to get it.
    """
    return page.render(comparison, provenance, picture, library.load())
