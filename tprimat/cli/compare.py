"""compare: compare results; print a summary, write a plot and a report."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import __version__, console
from tprimat.cli import _comparing, _regression
from tprimat.cli._places import free_number, hashes_of, link, numbered
from tprimat.cli._showing import draw, plot_path, show
from tprimat.cli.options import compare as options
from tprimat.compare import compare
from tprimat.compare.curves import scaling_of
from tprimat.errors import ExitStatus, UsageError
from tprimat.files import write_output
from tprimat.redaction import relative_words
from tprimat.report import (
    FORMATS,
    Plot,
    Sources,
    document,
    efficiency,
    json_values,
    scaling,
    screen,
    verdict,
)
from tprimat.report.efficiency import efficiency_tables, micro_batches
from tprimat.report.verdict import Report
from tprimat.results.fields import JsonObject


def main(arguments: argparse.Namespace) -> int:
    """Compare results."""
    arguments.results += _comparing.files_apart(arguments)
    arguments.results_dir = arguments.results_dir or "output"
    if _regression.is_requested(arguments):
        return _regression.run(arguments, _command_line(arguments.argv))
    report, path, status = _compared(arguments)
    _print(report, arguments, status)
    written = _write(report, arguments, path)
    if not arguments.json and not arguments.quiet:
        console.echo("\n" + "\n".join(written))
    _comparing.show_unread(report.comparison.notes)
    return status


def for_program(argv: Sequence[str]) -> tuple[int, JsonObject]:
    """Compare for a command that prints its own JSON document; return the exit status, and what
    --json would print.
    """
    arguments = options.parser().parse_args(argv)
    arguments.results_dir = arguments.results_dir or "output"
    report, path, status = _compared(arguments)
    _write(report, arguments, path)
    return status, json_values.comparison_values(report)


def _command_line(argv: Sequence[str]) -> str:
    program = options.program()
    return shlex.join(
        [*(["python3"] if program.endswith(".py") else []), *program.split(), *relative_words(argv)]
    )


def _compared(arguments: argparse.Namespace) -> tuple[Report, Path, ExitStatus]:
    """Return what the reports show, the path of the plot, and the exit status."""
    hint = "run ./benchmark.py first, or pass results or logs"
    folder = Path(arguments.results_dir)
    loss = arguments.target_loss
    if not (arguments.results or folder.exists() or folder == _comparing.FOLDER):
        hint = "without PATH, the results to compare are in --results-dir too: pass results or logs"
    if loss is not None and not 0 < loss < math.inf:
        raise UsageError("--target-loss must be above zero", heading="wrong-usage")
    path = plot_path(folder, arguments.output)
    names = arguments.results or _comparing.result_folders(folder, hint)
    given = _comparing.given_values(arguments)
    inputs = _comparing.load(names, hint, given=given, shows_unread=False)
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
        console.echo(
            json_values.dumped(
                {**json_values.comparison_values(report), **curves, "status": int(status)}
            )
        )
        return
    if arguments.time:
        shown = screen.timed(report)
    else:
        shown = document.on_screen(report, verbose=arguments.verbose)
    if report.scaling is None and (
        arguments.efficiency or arguments.peak_tflops is not None or arguments.energy_from_tdp
    ):
        values = efficiency.document(
            efficiency_tables(report.comparison), micro_batches(report.comparison)
        )
        shown = dataclasses.replace(shown, screen=[*shown.screen, *values.screen])
    if arguments.all and not arguments.verbose:
        # The first screen with nothing left out.
        shown = dataclasses.replace(shown, details=())
        arguments = argparse.Namespace(**{**vars(arguments), "verbose": True})
    show(dataclasses.replace(shown, all_with="--all"), arguments)


def _write(report: Report, arguments: argparse.Namespace, path: Path) -> list[str]:
    """Write the plot and the reports; return lines that name them."""
    folder = Path(arguments.results_dir)
    inputs = hashes_of(arguments.results or [arguments.results_dir], arguments.results_dir)
    number = free_number(folder, inputs)
    path = path if arguments.output != options.PLOT else numbered(path, number)
    if arguments.no_plot:
        content = None
    else:
        content = draw(report, path, "scaling" if report.scaling else "standard")
    shown = None
    if content is not None:
        write_output(path, content, "--results-dir" if path.parent == folder else "--output")
        shown = Plot(link(path, folder), path.suffix.lower().removeprefix("."), content)
    sources = Sources(__version__, _command_line(arguments.argv))
    for name, module in FORMATS.items():
        content = importlib.import_module(module).render(report, sources, shown)
        content += (
            f"\n<!-- compared: {json.dumps({'inputs': inputs})} -->\n".encode()
            if name.endswith(".md")
            else b""
        )
        write_output(numbered(folder / name, number), content, "--results-dir")
    *others, main = FORMATS
    if number > 1:
        console.error(f"note: {folder / main} is the report of another comparison, and stays")
    also = f" (also {', '.join(Path(name).suffix for name in others)})"
    written = [
        f"Report: {numbered(folder / main, number)}{also}",
        *([] if shown is None else [f"Plot: {path}"]),
    ]
    whole = "   ".join(written)
    return next(
        ([line] for line in (whole, whole.replace(also, "")) if len(line) <= console.NOTE_WIDTH),
        written,
    )
