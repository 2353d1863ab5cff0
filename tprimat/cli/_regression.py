"""The regression check of `compare`: is a candidate worse than a baseline by more than a threshold?"""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat import console, files
from tprimat.cli import _comparing
from tprimat.compare import threshold
from tprimat.compare.regression import check_regression
from tprimat.errors import UsageError
from tprimat.report import json_values
from tprimat.report import regression as report

_HEADING = "baseline-and-candidate"


def is_requested(arguments: argparse.Namespace) -> bool:
    """Return whether the regression check is requested. Raises UsageError where half of it is."""
    if arguments.baseline and arguments.candidate:
        if arguments.results:
            raise UsageError(
                f"{arguments.results[0]} is neither --baseline nor --candidate",
                heading=_HEADING,
                hint="name each result after one of them",
            )
        if arguments.cost or arguments.reference is not None or arguments.efficiency:
            raise UsageError(
                "--cost, --reference and --efficiency don't go with --baseline and --candidate",
                heading=_HEADING,
                hint="leave them out, or name the results without --baseline and --candidate",
            )
        return True
    hint = "name results for both"
    if arguments.baseline or arguments.candidate:
        raise UsageError("--baseline and --candidate go together", heading=_HEADING, hint=hint)
    given = {
        "--max-slowdown": arguments.max_slowdown is not None,
        "--threshold": arguments.threshold,
        "--fail-on-inconclusive": arguments.fail_on_inconclusive,
        "--summary": arguments.summary is not None,
    }
    if option := next((option for option, is_given in given.items() if is_given), None):
        raise UsageError(f"{option} needs --baseline and --candidate", heading=_HEADING, hint=hint)
    return False


def run(arguments: argparse.Namespace, command: str) -> int:
    """Compare the candidate with the baseline; return the exit status. `command` makes the same comparison again."""
    thresholds = threshold.parse(arguments.max_slowdown, arguments.threshold)
    options = _comparing.options(arguments)
    given = _comparing.given_values(arguments)
    hint = "name the results that ./benchmark.py wrote, or logs"
    baseline = _comparing.load(arguments.baseline, hint, "--baseline", given)
    candidate = _comparing.load(arguments.candidate, hint, "--candidate", given)
    check = check_regression(
        baseline.files,
        candidate.files,
        thresholds,
        model=arguments.model,
        mode=arguments.mode,
        notes=[*baseline.notes, *candidate.notes],
        options=options,
        fail_on_inconclusive=arguments.fail_on_inconclusive,
    )
    status = baseline.status(candidate.status(check.status))
    if arguments.json:
        console.echo(json_values.dumped({**json_values.regression_values(check), "status": int(status)}))
    elif arguments.quiet:
        console.echo(report.verdict(check))
    else:
        width, color = console.terminal_size()
        console.echo(report.console(check, width=width, color=color))
    if arguments.json or arguments.quiet:
        for line in report.warnings(check):
            console.error(line)
    if arguments.summary is not None:
        files.write_output(Path(arguments.summary), report.summary(check, command), "--summary")
    return status
