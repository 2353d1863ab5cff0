"""compare-frameworks: compare the frameworks in a directory, by model; scripts/compare.py,
scripts/nvd_compare.py.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from tprimat import console
from tprimat.cli import _comparing
from tprimat.cli._showing import draw, plot_path, show
from tprimat.compare import compare
from tprimat.errors import UsageError
from tprimat.files import write_output
from tprimat.report import document, frameworks, json_values, verdict
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS
from tprimat.text import join_names, plain


def main(arguments: argparse.Namespace) -> int:
    """Compare frameworks; also the main function of `nvd-compare`."""
    folder = Path(arguments.results_dir)
    path = plot_path(folder, arguments.output)
    hint = "set the directory of your results with --results-dir"
    given = _comparing.given_values(arguments)
    inputs = _comparing.load(_comparing.result_folders(folder, hint), hint, given=given)
    files = inputs.files
    if (platform := arguments.only_platform or PLATFORMS.get(arguments.platform or "")) is not None:
        files = _only(files, lambda run: run.platform == platform)
    if not files:
        raise UsageError(
            f"no results of platform {platform} in {folder} or below",
            heading="no-results",
            hint=hint,
        )
    files = _of_frameworks(files, arguments.frameworks)
    options = _comparing.precisions(arguments.precision)
    comparison = compare(
        files,
        reference=arguments.reference,
        model=arguments.model,
        notes=inputs.notes,
        options=options,
    )
    report = verdict.report(comparison)
    if arguments.json:
        console.echo(json_values.dumped(json_values.comparison_values(report)))
    else:
        shown = frameworks.document(report)
        details = [*shown.details, *document.evidence(report.comparison)]
        show(dataclasses.replace(shown, details=details), arguments, narrowest=100)
    content = None if arguments.no_plot else draw(report, path, "frameworks")
    if content is not None:
        write_output(path, content, "--output")
        if not arguments.quiet and not arguments.json:
            console.echo(f"\nPlot: {path}")
    return inputs.status(comparison.status)


def _of_frameworks(files: list[Loaded], names: Sequence[str]) -> list[Loaded]:
    words = [word.strip().lower() for text in names for word in text.split(",") if word.strip()]
    requested = {FRAMEWORKS.get(word, word) for word in words}
    there = sorted({plain(run.framework) for file in files for run in file.runs if run.framework})
    if unknown := sorted(requested.difference(there)):
        raise UsageError(
            f"no results for framework {join_names(unknown)}",
            heading="wrong-usage",
            hint=f"available: {', '.join(there) or 'none'}",
        )
    if requested:
        return _only(files, lambda run: run.framework in requested)
    return files


def _only(files: Sequence[Loaded], belongs: Callable[[Run], bool]) -> list[Loaded]:
    kept = [(file, tuple(filter(belongs, file.runs))) for file in files]
    return [Loaded(file.name, file.sha256, runs) for file, runs in kept if runs]
