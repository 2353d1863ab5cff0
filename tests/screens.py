"""What a terminal shows of a report."""

from __future__ import annotations

from tprimat.console import Verbosity
from tprimat.report import document, projection, terminal


def shown(report, **options):
    """Return what compare_results.py prints of a report (verdict.Report)."""
    return terminal.write(document.on_screen(report), **options)


def projected(projections, found, **options):
    """Return what `tprimat project` prints of projections."""
    verbose = options.get("verbosity") is Verbosity.VERBOSE
    return terminal.write(projection.document(projections, found, verbose=verbose), **options)
