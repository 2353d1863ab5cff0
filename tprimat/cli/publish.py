"""publish: the user's own results and published ones as a static site."""

from __future__ import annotations

import argparse
import datetime
import os
from pathlib import Path

from tprimat import console
from tprimat.cli import _comparing
from tprimat.errors import ExitStatus, UsageError
from tprimat.notes import Note
from tprimat.notes.catalogue import sentence, words
from tprimat.publish import data, exchange, pairs, points, series, site
from tprimat.publish.record import Record
from tprimat.redaction import INCLUDE_HOST
from tprimat.report import json_values
from tprimat.text import counted

CHECK = (
    "check labels, model names and software versions before you publish it: names in other forms"
    " may remain"
)
HINT = "pass results or logs, or a directory with them"


def main(arguments: argparse.Namespace) -> int:
    """Write the site."""
    # A site is public: host names are omitted, even if other commands include them.
    os.environ.pop(INCLUDE_HOST, None)
    folder = Path(arguments.output_dir)
    exchange.check(folder)
    status = ExitStatus.OK
    remarks: list[Note] = []
    evidence = [] if arguments.results_only else points.published_points()
    if arguments.results or not evidence:
        if not arguments.results:
            raise UsageError("no results to publish", hint=HINT, heading="no-results")
        inputs = _comparing.load(arguments.results, HINT)
        status = inputs.status(status)
        remarks = [*inputs.notes]
        evidence += points.without_published(
            points.result_points(inputs.files, remarks), evidence, remarks
        )
    if not evidence:
        raise UsageError(
            f"no results to publish ({sentence(remarks)})", hint=HINT, heading="no-results"
        )
    shown = tuple(item.point for item in evidence)
    record = Record(points=shown, pairs=pairs.pairs(evidence), changes=series.changes(evidence))
    tables = data.values(record, datetime.date.today().isoformat())
    with exchange.exchanged(folder) as new:
        site.write(record, tables, new)
        data.write(record, tables, new)
    page = folder / exchange.INDEX
    numbers = {
        "points": len(record.points),
        "pairs": len(record.pairs),
        "changes": len(record.changes),
    }
    if arguments.json:
        console.echo(
            json_values.dumped(
                {
                    "page": str(page),
                    **numbers,
                    "notes": list(map(words, remarks)),
                    "note_codes": remarks,
                    "status": int(status),
                }
            )
        )
        return status
    for remark in remarks if arguments.verbose else ():
        console.error(f"note: {words(remark)}")
    summary = ", ".join(counted(number, name[:-1]) for name, number in numbers.items())
    console.echo(str(page) if arguments.quiet else f"Site: {page} ({summary})")
    if arguments.results and not arguments.quiet:
        console.echo(CHECK)
    return status
