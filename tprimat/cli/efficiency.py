"""efficiency: MFU, memory, energy, cost and time to train of results; alias: enhanced-metrics."""

from __future__ import annotations

import argparse
import dataclasses

from tprimat import console
from tprimat.cli import _comparing
from tprimat.cli._showing import show
from tprimat.compare import compare
from tprimat.compare.caveats import doubts, told_of
from tprimat.errors import ExitStatus
from tprimat.notes.catalogue import safe_sentences, sentence
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
    in_doubt = []
    for system in comparison.systems:
        if told := tuple(told_of(system.name, doubts(system))):
            in_doubt.append(sentence(told))
    notes = [*safe_sentences(comparison.notes), *in_doubt, *micro_batches(comparison)]
    tables = efficiency_tables(comparison)
    if arguments.json:
        console.echo(
            json_values.dumped(
                {
                    "results": json_values.efficiency_values(tables),
                    "notes": notes,
                    "note_codes": comparison.notes,
                }
            )
        )
    else:
        evidence = list(document.evidence(comparison))
        show(dataclasses.replace(efficiency.document(tables, notes), details=evidence), arguments)
    return inputs.status(ExitStatus.OK)
