"""export: the steps of results and logs as CSV, JSON lines or Parquet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tprimat import console
from tprimat.compare import compare
from tprimat.errors import ExitStatus, UsageError
from tprimat.files import write_output
from tprimat.log_import.load import load
from tprimat.report import json_values, steps
from tprimat.text import plain

FORMATS = {"csv": steps.csv_text, "jsonl": steps.json_lines, "parquet": steps.parquet}


def main(arguments: argparse.Namespace) -> int:
    """Write one row per step. A named file that can't be read doesn't keep the others from being exported."""
    name = next(name for name in FORMATS if getattr(arguments, name))
    target = getattr(arguments, name)
    paths = arguments.paths or ["output"]
    inputs = load(paths)
    for problem, hint in inputs.errors:
        console.error(f"error: {plain(problem)}" + (f"\nhint:  {plain(hint)}" if hint else ""), see="not-a-result")
    if not inputs.files:
        if inputs.errors:
            return ExitStatus.USAGE
        hint = "run ./benchmark.py first, or name results or logs"
        raise UsageError(f"no results or logs in {', '.join(paths)}", hint=hint, heading="no-results")
    comparison = compare(inputs.files, notes=inputs.notes)
    content = FORMATS[name](comparison)
    status = ExitStatus.USAGE if inputs.errors else ExitStatus.OK
    if target == "-":
        sys.stdout.buffer.write(content)
        return status
    write_output(Path(target), content, f"--{name}")
    rows = sum(len(result.run.steps) for system in comparison.systems for result in system.runs)
    files = [file.name for file in inputs.files]
    if arguments.json:
        values = {"path": target, "rows": rows, "files": files, "notes": comparison.notes, "status": int(status)}
        console.echo(json_values.dumped(values))
    elif arguments.quiet:
        console.echo(plain(target))
    else:
        console.echo(f"{rows:,} rows: {plain(target)}")
        for line in (*files, *comparison.notes) if arguments.verbose else ():
            console.echo(f"  {plain(line)}")
    return status
