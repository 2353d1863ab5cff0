"""export: the steps of results and logs as CSV, JSON lines or Parquet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tprimat import console
from tprimat.cli import _comparing
from tprimat.compare import compare
from tprimat.errors import ExitStatus
from tprimat.files import write_output
from tprimat.notes.catalogue import safe_sentences
from tprimat.report import json_values, steps
from tprimat.text import plain

FORMATS = {"csv": steps.csv_text, "jsonl": steps.json_lines, "parquet": steps.parquet}


def main(arguments: argparse.Namespace) -> int:
    """Write one row per step. A named file that can't be read doesn't keep the others from being
    exported.
    """
    name = next(name for name in FORMATS if getattr(arguments, name))
    target = getattr(arguments, name)
    inputs = _comparing.load(
        arguments.paths or ["output"], "run ./benchmark.py first, or pass results or logs"
    )
    comparison = compare(inputs.files, notes=inputs.notes)
    content = FORMATS[name](comparison)
    status = inputs.status(ExitStatus.OK)
    if target == "-":
        sys.stdout.buffer.write(content)
        return status
    write_output(Path(target), content, f"--{name}")
    rows = sum(len(result.run.steps) for system in comparison.systems for result in system.runs)
    files = [file.name for file in inputs.files]
    notes = safe_sentences(comparison.notes)
    if arguments.json:
        values = {
            "path": target,
            "rows": rows,
            "files": files,
            "notes": notes,
            "note_codes": comparison.notes,
            "status": int(status),
        }
        console.echo(json_values.dumped(values))
    elif arguments.quiet:
        console.echo(plain(target))
    else:
        console.echo(f"{rows:,} rows: {plain(target)}")
        for line in (*files, *notes) if arguments.verbose else ():
            console.echo(f"  {plain(line)}")
    return status
