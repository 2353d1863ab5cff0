"""efficiency: MFU, memory, energy, cost and time to train of results; alias: enhanced-metrics."""

from __future__ import annotations

import argparse
import dataclasses

from tprimat import console
from tprimat.cli import _comparing
from tprimat.cli._showing import show
from tprimat.compare import compare
from tprimat.compare.caveats import doubt
from tprimat.errors import ExitStatus
from tprimat.report import document, efficiency, json_values
from tprimat.report.efficiency import efficiency_tables, micro_batches


def main(arguments: argparse.Namespace) -> int:
    """Print the metrics of results."""
    arguments.results += _comparing.files_apart(arguments)
    names = arguments.results or ["output"]
    options = _comparing.options(arguments)
    given = _comparing.given_values(arguments)
    inputs = _comparing.load(
        names, "run ./benchmark.py first, or pass results or logs", given=given
    )
    comparison = _comparing.priced(
        compare(inputs.files, notes=inputs.notes, options=options), arguments
    )
    doubts = [f"{system.name}: {text}" for system in comparison.systems if (text := doubt(system))]
    notes = [*comparison.notes, *doubts, *micro_batches(comparison)]
    tables = efficiency_tables(comparison)
    if arguments.json:
        console.echo(
            json_values.dumped({"results": json_values.efficiency_values(tables), "notes": notes})
        )
    else:
        evidence = list(document.evidence(comparison))
        show(dataclasses.replace(efficiency.document(tables, notes), details=evidence), arguments)
    return inputs.status(ExitStatus.OK)
