"""project: the throughput of more GPUs, from measured GPU counts."""

from __future__ import annotations

import argparse

from tprimat import console
from tprimat.cli import _comparing
from tprimat.cli._showing import show
from tprimat.compare import compare
from tprimat.compare.curves import scaling_of
from tprimat.errors import ExitStatus
from tprimat.report import json_values, projection
from tprimat.report.scaling import remarks


def main(arguments: argparse.Namespace) -> int:
    """Project the curves of the results to a number of GPUs."""
    hint = "pass results or logs of two or more GPU counts"
    arguments.results += _comparing.files_apart(arguments)
    inputs = _comparing.load(
        arguments.results or _comparing.result_folders(_comparing.FOLDER, hint),
        hint,
        given=_comparing.given_values(arguments),
    )
    options = _comparing.precisions(arguments.precision)
    curves = scaling_of(
        compare(inputs.files, model=arguments.model, notes=inputs.notes, options=options)
    )
    projections = []
    for curve in curves.curves:
        if projected := projection.of_curve(curve, arguments.gpus, arguments.batch):
            projections.append(projected)
    status = inputs.status(ExitStatus.OK if projections else ExitStatus.NOT_COMPARABLE)
    if arguments.json:
        values = {
            "projections": list(map(projection.values, projections)),
            "notes": remarks(curves),
            "note_codes": [(note, *why) for note, why in curves.notes],
            "status": int(status),
        }
        console.echo(json_values.dumped(values))
        return status
    show(projection.document(projections, curves, verbose=arguments.verbose), arguments)
    return status
