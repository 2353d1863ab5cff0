"""The regression check of `compare`: is a candidate worse than a baseline by more than is allowed?"""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat import console, files
from tprimat.cli import _comparing
from tprimat.compare import allowance
from tprimat.compare.gate import gate
from tprimat.errors import UsageError
from tprimat.report import gate as report
from tprimat.report import json_values

_HEADING = "baseline-and-candidate"


def is_requested(arguments: argparse.Namespace) -> bool:
    """Return whether the regression check is requested.

    Raises:
        UsageError: half of it is.
    """
    if arguments.baseline and arguments.candidate:
        if arguments.results:
            raise UsageError(
                f"{arguments.results[0]} is neither --baseline nor --candidate: name each result after one of them",
                heading=_HEADING,
            )
        if arguments.cost or arguments.reference is not None or arguments.enhanced:
            raise UsageError(
                "--cost, --reference and --enhanced are of the comparison, not of --baseline and --candidate",
                heading=_HEADING,
            )
        return True
    if arguments.baseline or arguments.candidate:
        raise UsageError("--baseline and --candidate go together: name results for both", heading=_HEADING)
    if arguments.allow_slower is not None or arguments.allow or arguments.summary is not None:
        raise UsageError("--allow-slower, --allow and --summary need a --baseline and a --candidate", heading=_HEADING)
    return False


def run(arguments: argparse.Namespace, command: str) -> int:
    """Compare the candidate with the baseline; return the exit status. `command` makes the same comparison again."""
    allowances = allowance.parse(arguments.allow_slower, arguments.allow)
    options = _comparing.options(arguments)
    hint = "name the results that ./benchmark.py wrote"
    baseline, notes = _comparing.load(arguments.baseline, hint, "--baseline")
    candidate, more = _comparing.load(arguments.candidate, hint, "--candidate")
    check = gate(
        baseline,
        candidate,
        allowances,
        model=arguments.model,
        mode=arguments.mode,
        notes=[*notes, *more],
        options=options,
    )
    if arguments.json:
        console.echo(json_values.dumped(json_values.gate_values(check)))
    elif arguments.quiet:
        console.echo(report.verdict(check))
    else:
        width, color = console.terminal_size()
        console.echo(report.console(check, width=width, color=color))
    if arguments.summary is not None:
        files.write_output(Path(arguments.summary), report.summary(check, command), "--summary")
    return check.status
