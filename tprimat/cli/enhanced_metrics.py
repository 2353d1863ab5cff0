"""enhanced-metrics: what the speed of results is worth: MFU, memory, energy, money, time to train."""

from __future__ import annotations

import argparse

from tprimat import console
from tprimat.cli import _comparing
from tprimat.compare import compare
from tprimat.errors import ExitStatus
from tprimat.report import console as console_report
from tprimat.report import efficiency, json_values
from tprimat.report.efficiency import micro_batches, sheets


def main(arguments: argparse.Namespace) -> int:
    """Print the metrics of results."""
    names = [*arguments.results, *_comparing.files_apart(arguments)] or ["output"]
    options = _comparing.options(arguments)
    results, notes = _comparing.load(names, "run ./benchmark.py first, or name the results")
    comparison = _comparing.priced(compare(results, notes=notes, options=options), arguments)
    notes = [*comparison.notes, *micro_batches(comparison)]
    if arguments.json:
        console.echo(json_values.dumped({"results": json_values.sheet_values(sheets(comparison)), "notes": notes}))
    elif arguments.quiet:
        console.echo("\n".join(efficiency.brief(sheets(comparison))))
    else:
        width, color = console.terminal_size()
        console.echo(efficiency.console(sheets(comparison), notes, width=width, color=color))
        if arguments.verbose:
            console.echo(console_report.evidence(comparison))
    return ExitStatus.WELL
