"""explain: split the difference between two step times, from two profiler traces, into parts that
add up.
"""

from __future__ import annotations

import argparse
from pathlib import PurePath

from tprimat import console
from tprimat.catalog import gpus
from tprimat.cli._showing import show
from tprimat.compare.step_difference import Traced, explain, traced
from tprimat.compare.systems import short_device
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.log_import import load as loader
from tprimat.report import explain as report
from tprimat.report import json_values
from tprimat.results.run import Run


def main(arguments: argparse.Namespace) -> int:
    """Explain the difference of two traces."""
    runs = list(map(_traced_run, (arguments.before, arguments.after)))
    paths = [arguments.before, arguments.after]
    explanation = explain(*map(_traced, runs, _names(runs, paths), paths))
    if arguments.json:
        console.echo(json_values.dumped(report.values(explanation)))
    else:
        show(report.document(explanation), arguments)
    if explanation.is_comparable:
        return ExitStatus.OK
    return ExitStatus.NOT_COMPARABLE


def _traced_run(name: str) -> Run:
    """Return the only run with a trace in a file or directory. Raises UnreadableError if there is
    none, or several.
    """
    inputs = loader.load([name])
    if inputs.errors:
        raise inputs.errors[0]
    runs = [run for file in inputs.files for run in file.runs if run.trace is not None]
    if not runs:
        hint = "./benchmark.py --profile torch records one; docs/profiling.md"
        raise UnreadableError(name, "no profiler trace", heading="profile", hint=hint)
    if len(runs) > 1:
        problem = f"{len(runs)} runs with a trace"
        raise UnreadableError(name, problem, heading="profile", hint="pass one of them")
    return runs[0]


def _traced(run: Run, name: str, path: str) -> Traced:
    """Return a run with its name. Raises UnreadableError if its steps take no time."""
    of_run = traced(run, name)
    if of_run is None:
        raise UnreadableError(
            path, "the steps in its trace take no time: it is damaged", heading="profile"
        )
    return of_run


def _names(runs: list[Run], paths: list[str]) -> list[str]:
    """Return names for both runs: the first of labels, GPUs and files that differ."""
    labels = [run.label or "" for run in runs]
    devices = [run.gpu_info.device_name or "" for run in runs]
    files = [PurePath(path).name.split(".")[0] for path in paths]
    folders = [PurePath(path).parent.name for path in paths]
    with_parts = list(map(short_device, devices))
    for names in (labels, list(map(gpus.short_name, devices)), with_parts, files, folders):
        if all(names) and names[0] != names[1]:
            return names
    return ["A", "B"]
