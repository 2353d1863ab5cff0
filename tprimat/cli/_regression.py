"""The regression check of `compare`: is a candidate worse than a baseline by more than a
threshold?
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path

from tprimat import console, files
from tprimat.cli import _comparing
from tprimat.cli._showing import show
from tprimat.compare import threshold
from tprimat.compare.regression import check_regression
from tprimat.errors import TensorPrimatError, UsageError
from tprimat.log_import.loaded import Inputs
from tprimat.report import github, json_values
from tprimat.report import regression as report

_HEADING = "baseline-and-candidate"

NO_BASELINE = "none"
"""The word given instead of a baseline if there is none yet; the answer is then whether the
candidate can become the first one.
"""


def is_requested(arguments: argparse.Namespace) -> bool:
    """Return whether the regression check is requested. Raises UsageError if its options are
    incomplete, or can't be combined with the others.
    """
    if arguments.baseline and arguments.candidate:
        if arguments.results:
            raise UsageError(
                f"{arguments.results[0]} is not assigned to --baseline or --candidate",
                heading=_HEADING,
                hint="pass each result after one of them",
            )
        if arguments.cost or arguments.reference is not None or arguments.efficiency:
            raise UsageError(
                "--cost, --reference and --efficiency cannot be combined with --baseline and"
                " --candidate",
                heading=_HEADING,
                hint="leave them out, or pass the results without --baseline and --candidate",
            )
        if arguments.format == "github" and (arguments.json or arguments.quiet):
            raise UsageError(
                "--format github cannot be combined with --json or --quiet",
                heading="wrong-usage",
                hint="use one of them",
            )
        return True
    hint = "pass results to both"
    if arguments.baseline or arguments.candidate:
        raise UsageError(
            "--baseline and --candidate must be given together", heading=_HEADING, hint=hint
        )
    given = {
        "--max-slowdown": arguments.max_slowdown is not None,
        "--threshold": arguments.threshold,
        "--fail-on-inconclusive": arguments.fail_on_inconclusive,
        "--summary": arguments.summary is not None,
        "--format github": arguments.format == "github",
    }
    if option := next((option for option, is_given in given.items() if is_given), None):
        raise UsageError(f"{option} needs --baseline and --candidate", heading=_HEADING, hint=hint)
    return False


def run(arguments: argparse.Namespace, command: str) -> int:
    """Compare the candidate with the baseline; return the exit status. `command` is the command
    line that repeats this comparison.
    """
    try:
        return _run(arguments, command)
    except TensorPrimatError as error:
        if arguments.format == "github":
            console.echo(github.of_error(error))
        raise


def _run(arguments: argparse.Namespace, command: str) -> int:
    thresholds = threshold.parse(arguments.max_slowdown, arguments.threshold)
    options = _comparing.options(arguments)
    given = _comparing.given_values(arguments)
    hint = "pass the results that ./benchmark.py wrote, or logs"
    if arguments.baseline == [NO_BASELINE]:
        baseline = Inputs()
    else:
        baseline = _comparing.load(arguments.baseline, hint, "--baseline", given)
    candidate = _comparing.load(arguments.candidate, hint, "--candidate", given)
    _comparing.check(given, [*arguments.baseline, *arguments.candidate], baseline, candidate)
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
    check = dataclasses.replace(check, is_partial=bool(baseline.errors or candidate.errors))
    status = baseline.status(candidate.status(check.status))
    if arguments.json:
        values = {
            "headline": report.verdict(check),
            **json_values.regression_values(check),
            "status": int(status),
        }
        texts = {
            "caveats": report.caveat_texts(check),
            "caveat_codes": report.caveat_codes(check),
            "next_step": report.next_step(check),
            "next_step_code": report.advice(check),
        }
        console.echo(json_values.dumped({**values, **texts}))
    elif arguments.format == "github":
        # Nothing else: GitHub takes any line that begins with :: as a command, and names in a table
        # are others' text.
        for line in (
            *map(github.of_error, [*baseline.errors, *candidate.errors]),
            *github.workflow_commands(check),
        ):
            console.echo(line)
        _append_job_summary(report.summary(check, command))
    else:
        show(report.document(check), arguments)
    if arguments.json or arguments.quiet:
        for line in report.warnings(check):
            console.error(line)
    if arguments.summary is not None:
        files.write_output(Path(arguments.summary), report.summary(check, command), "--summary")
    return status


def _append_job_summary(content: bytes) -> None:
    """Append Markdown to the file for the summary of a job, if GitHub names one."""
    if name := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(name).open("ab") as file:
                file.write(content + b"\n")
        except OSError as error:
            raise files.unwritable(name, error, option="GITHUB_STEP_SUMMARY") from error
