"""compare: compare results; print a summary, write a plot and a report."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tprimat import __version__, console
from tprimat.cli import _comparing, _regression
from tprimat.cli._showing import show
from tprimat.cli.options import compare as options
from tprimat.compare import compare
from tprimat.compare.curves import scaling_of
from tprimat.errors import ExitStatus, UsageError
from tprimat.files import write_output
from tprimat.report import FORMATS, Plot, Sources, document, efficiency, json_values, scaling, verdict
from tprimat.report.efficiency import efficiency_tables, micro_batches
from tprimat.report.verdict import Report


def main(arguments: argparse.Namespace) -> int:
    """Compare results."""
    arguments.results += _comparing.files_apart(arguments)
    if _regression.is_requested(arguments):
        return _regression.run(arguments, _command_line(arguments.argv))
    report, path, status = _compared(arguments)
    _print(report, arguments, status)
    written = _write(report, arguments, path)
    if not arguments.json and not arguments.quiet:
        console.echo("\n" + "   ".join(written))
    return status


def for_program(argv: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Compare for a command that has a document of its own; return the exit status, and what --json would print."""
    arguments = options.parser().parse_args(argv)
    report, path, status = _compared(arguments)
    _write(report, arguments, path)
    return status, json_values.comparison_values(report)


def _command_line(argv: Sequence[str]) -> str:
    program = options.program()
    return shlex.join([*(["python3"] if program.endswith(".py") else []), *program.split(), *argv])


def _compared(arguments: argparse.Namespace) -> tuple[Report, Path, ExitStatus]:
    """Return what the reports show, where its plot goes, and the exit status."""
    hint = "run ./benchmark.py first, or name results or logs to compare"
    folder, loss = Path(arguments.results_dir), arguments.target_loss
    if loss is not None and not 0 < loss < math.inf:
        raise UsageError("--target-loss must be above zero", heading="wrong-usage")
    path = _comparing.plot_path(folder, arguments.output)
    inputs = _comparing.load(
        arguments.results or _comparing.result_folders(folder, hint), hint, given=_comparing.given_values(arguments)
    )
    comparison = compare(
        inputs.files,
        reference=arguments.reference,
        model=arguments.model,
        notes=inputs.notes,
        mode=arguments.mode,
        options=dataclasses.replace(_comparing.options(arguments), target_loss=loss),
    )
    report = verdict.report(_comparing.priced(comparison, arguments))
    if not arguments.scaling:
        return report, path, inputs.status(comparison.status)
    report = dataclasses.replace(report, scaling=scaling_of(report.comparison))
    is_scaled = report.scaling is not None and report.scaling.curves
    status = ExitStatus.OK if is_scaled else comparison.status or ExitStatus.NOT_COMPARABLE
    return report, path, inputs.status(status)


def _print(report: Report, arguments: argparse.Namespace, status: ExitStatus) -> None:
    if arguments.json:
        curves = {} if report.scaling is None else {"scaling": scaling.values(report.scaling)}
        console.echo(json_values.dumped({**json_values.comparison_values(report), **curves, "status": int(status)}))
        return
    shown = document.on_screen(report)
    if report.scaling is None and (
        arguments.efficiency or arguments.peak_tflops is not None or arguments.energy_from_tdp
    ):
        values = efficiency.document(efficiency_tables(report.comparison), micro_batches(report.comparison))
        shown = dataclasses.replace(shown, screen=[*shown.screen, *values.screen])
    show(shown, arguments)


def _write(report: Report, arguments: argparse.Namespace, path: Path) -> list[str]:
    """Write the plot and the reports; return lines that name them."""
    folder = Path(arguments.results_dir)
    content = None
    if not arguments.no_plot:
        content = _comparing.draw(report, path, "standard" if report.scaling is None else "scaling")
    shown = None
    if content is not None:
        write_output(path, content, "--results-dir" if path.parent == folder else "--output")
        shown = Plot(_link(path, folder), path.suffix.lower().removeprefix("."), content)
    sources = Sources(__version__, _command_line(arguments.argv))
    for each in FORMATS:
        content = importlib.import_module(each.module).render(report, sources, shown)
        write_output(folder / each.file_name, content, "--results-dir")
    *others, main = FORMATS
    names = [f"Report: {folder / main.file_name}", *(Path(each.file_name).suffix for each in others)]
    written = [", ".join(names), *([] if shown is None else [f"Plot: {path}"])]
    line = "   ".join(written)
    return [line] if len(line) <= console.NOTE_WIDTH else written


def _link(plot: Path, folder: Path) -> str:
    """Return the plot's path from the report's directory."""
    try:
        return Path(os.path.relpath(plot, folder)).as_posix()
    except ValueError:
        # On Windows there is no relative path from one drive to another.
        return plot.resolve().as_uri()
