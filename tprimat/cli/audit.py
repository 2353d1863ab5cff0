"""audit: contradictions in tables of published training results."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat import console
from tprimat.catalog.figures import figures
from tprimat.checks.audit import audit
from tprimat.cli._showing import show
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.files import read_plain, unreadable
from tprimat.report import json_values
from tprimat.report.audit import document, values


def main(arguments: argparse.Namespace) -> int:
    """Audit the tables of the files."""
    every = []
    for path in arguments.files:
        try:
            rows = figures(read_plain(Path(path)).decode("utf-8", "replace"), path)
        except OSError as error:
            raise unreadable(path, error) from error
        if not rows:
            raise UnreadableError(
                path,
                "no table with a heading such as tokens/s/GPU, step time, TFLOP/s or MFU",
                heading="unreadable-file",
            )
        every += rows
    audited = audit(every)
    contradicts = any(finding.severity != "info" for row in audited for finding in row.findings)
    status = ExitStatus.IMPLAUSIBLE if contradicts else ExitStatus.OK
    if arguments.json:
        console.echo(
            json_values.dumped(
                {"rows": len(audited), "found": values(audited), "status": int(status)}
            )
        )
    else:
        show(document(audited), arguments)
    return status
