"""compare: compare results; print a summary, write a plot and a report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import math
import os
import shlex
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tprimat import __version__, console
from tprimat.cli import _comparing, _regression
from tprimat.cli._showing import draw, plot_path, show
from tprimat.cli.options import compare as options
from tprimat.compare import compare
from tprimat.compare.curves import scaling_of
from tprimat.errors import ExitStatus, UsageError
from tprimat.files import read_plain, write_output
from tprimat.redaction import relative_words
from tprimat.report import FORMATS, Plot, Sources, document, efficiency, json_values, scaling, screen, verdict
from tprimat.report.efficiency import efficiency_tables, micro_batches
from tprimat.report.verdict import Report
from tprimat.text import plain

MOST_REPLACED = 4
"""Systems of a report that is replaced that are named."""


def main(arguments: argparse.Namespace) -> int:
    """Compare results."""
    arguments.results += _comparing.files_apart(arguments)
    arguments.results_dir = _results_dir(arguments)
    if _regression.is_requested(arguments):
        return _regression.run(arguments, _command_line(arguments.argv))
    report, path, status = _compared(arguments)
    _print(report, arguments, status)
    written = _write(report, arguments, path)
    if not arguments.json and not arguments.quiet:
        console.echo("\n" + "\n".join(written))
    _comparing.show_unread(report.comparison.notes)
    return status


def for_program(argv: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Compare for a command that has a document of its own; return the exit status, and what --json would print."""
    arguments = options.parser().parse_args(argv)
    arguments.results_dir = _results_dir(arguments)
    report, path, status = _compared(arguments)
    _write(report, arguments, path)
    return status, json_values.comparison_values(report)


def _results_dir(arguments: argparse.Namespace) -> str:
    """Return the directory of the reports: that given, the only one compared if it has benchmark_*.json, or output."""
    compared = arguments.results[0] if len(arguments.results) == 1 else "output"
    has_results = any(Path(compared).glob("[bt]*_*.json")) and os.access(compared, os.W_OK)
    return arguments.results_dir or (compared if has_results else "output")


def _command_line(argv: Sequence[str]) -> str:
    program = options.program()
    return shlex.join([*(["python3"] if program.endswith(".py") else []), *program.split(), *relative_words(argv)])


def _compared(arguments: argparse.Namespace) -> tuple[Report, Path, ExitStatus]:
    """Return what the reports show, where its plot goes, and the exit status."""
    hint = "run ./benchmark.py first, or pass results or logs"
    folder, loss = Path(arguments.results_dir), arguments.target_loss
    if not (arguments.results or folder.exists() or folder == _comparing.FOLDER):
        hint = "without PATH, the results to compare are in --results-dir too: pass results or logs"
    if loss is not None and not 0 < loss < math.inf:
        raise UsageError("--target-loss must be above zero", heading="wrong-usage")
    path = plot_path(folder, arguments.output)
    names, given = arguments.results or _comparing.result_folders(folder, hint), _comparing.given_values(arguments)
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
        console.echo(json_values.dumped({**json_values.comparison_values(report), **curves, "status": int(status)}))
        return
    shown = screen.timed(report) if arguments.time else document.on_screen(report, verbose=arguments.verbose)
    if report.scaling is None and (
        arguments.efficiency or arguments.peak_tflops is not None or arguments.energy_from_tdp
    ):
        values = efficiency.document(efficiency_tables(report.comparison), micro_batches(report.comparison))
        shown = dataclasses.replace(shown, screen=[*shown.screen, *values.screen])
    show(shown, arguments)


def _write(report: Report, arguments: argparse.Namespace, path: Path) -> list[str]:
    """Write the plot and the reports; return lines that name them."""
    folder = Path(arguments.results_dir)
    content = None if arguments.no_plot else draw(report, path, "scaling" if report.scaling else "standard")
    shown = None
    if content is not None:
        write_output(path, content, "--results-dir" if path.parent == folder else "--output")
        shown = Plot(_link(path, folder), path.suffix.lower().removeprefix("."), content)
    sources = Sources(__version__, _command_line(arguments.argv))
    for name, module in FORMATS.items():
        content = importlib.import_module(module).render(report, sources, shown)
        if name.endswith(".md"):
            content = _marked(content, folder / name, report, arguments)
        write_output(folder / name, content, "--results-dir")
    *others, main = FORMATS
    also = f" (also {', '.join(Path(name).suffix for name in others)})"
    written = [f"Report: {folder / main}{also}", *([] if shown is None else [f"Plot: {path}"])]
    whole = "   ".join(written)
    return next(([line] for line in (whole, whole.replace(also, "")) if len(line) <= console.NOTE_WIDTH), written)


def _marked(content: bytes, page: Path, report: Report, arguments: argparse.Namespace) -> bytes:
    """Return the Markdown with hashes of what was compared; print whose comparison the earlier one here was.

    That is another one if one of its inputs is none of this one, nor in a directory of this one.
    """
    paths = [Path(_link(Path(name), page.parent)) for name in arguments.results or [arguments.results_dir]]
    inputs = [[sha256(os.fsencode(each)).hexdigest()[:16] for each in (path, *path.parents)] for path in paths]
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        _, mark, rest = read_plain(page).decode("utf-8", "replace").rpartition("<!-- compared: ")
        earlier = json.loads(rest.partition(" -->")[0]) if mark else {"inputs": [], "systems": []}
        if any({*each}.isdisjoint(known[0] for known in inputs) for each in earlier["inputs"]):
            systems = "; ".join(map(plain, earlier["systems"][:MOST_REPLACED]))
            console.error(f"note: replaced the report of another comparison ({systems})")
    names = list(map(plain, report.comparison.system_names))
    known = json.dumps({"inputs": inputs, "systems": names}).replace("--", "-\\u002d")
    return content + f"\n<!-- compared: {known} -->\n".encode()


def _link(plot: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(plot, folder)).as_posix()
    except ValueError:
        # On Windows there is no relative path from one drive to another.
        return plot.resolve().as_uri()
