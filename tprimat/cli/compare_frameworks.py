"""compare-frameworks: the comparison of train_*.json, grouped by model; scripts/compare.py, scripts/nvd_compare.py."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tprimat import console
from tprimat.analysis.efficiency import Options
from tprimat.cli import _comparing
from tprimat.cli.options.compare_frameworks import NAMED
from tprimat.compare import Comparison, compare
from tprimat.errors import UsageError
from tprimat.files import write_output
from tprimat.report import console as console_report
from tprimat.report import frameworks, json_values
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS, TRAIN_FILE
from tprimat.text import plain


def main(arguments: argparse.Namespace) -> int:
    """Compare frameworks; for `nvd-compare` too."""
    folder = Path(arguments.results_dir)
    path = _comparing.plot_path(folder, arguments.output)
    platform = arguments.only_platform or PLATFORMS.get(arguments.platform or "")
    comparison = _comparison(arguments, folder, platform)
    _print(comparison, arguments)
    content = None if arguments.no_plot else _comparing.draw(comparison, path, "frameworks")
    if content is not None:
        write_output(path, content, "--output")
        if not arguments.quiet and not arguments.json:
            console.echo(f"\nPicture: {path}")
    return comparison.status


def _print(comparison: Comparison, arguments: argparse.Namespace) -> None:
    if arguments.json:
        console.echo(json_values.dumped(json_values.comparison_values(comparison)))
        return
    room, _ = console.terminal_size()
    width = max(room, 100) if sys.stdout.isatty() else 100
    if arguments.quiet:
        console.echo(frameworks.brief(comparison, width=width))
        return
    console.echo(frameworks.render(comparison, width=width))
    if arguments.verbose:
        console.echo(console_report.evidence(comparison))


def _comparison(arguments: argparse.Namespace, folder: Path, platform: str | None) -> Comparison:
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}: name the one that holds your results with --results-dir",
            heading="no-results",
        )
    results, notes = store.find([folder])
    files = [each for each in results if TRAIN_FILE.fullmatch(Path(each.name).name)]
    if others := len(results) - len(files):
        notes.append(
            f"{others} {'result is' if others == 1 else 'results are'} not named train_*.json and left out: "
            "compare_results.py takes them all"
        )
    if platform is not None:
        files = _only(files, lambda run: run.platform == platform)
    if not files:
        of = f" of platform {platform}" if platform else ""
        passed = f" ({'; '.join(notes[:3])})" if notes else ""
        raise UsageError(
            f"no train_*.json{of} in {folder} or below{passed}: name the folder with --results-dir; files are named "
            f"{NAMED}",
            heading="no-results",
        )
    files = _of_frameworks(files, arguments.frameworks)
    options = Options(precision=arguments.precision)
    return compare(files, reference=arguments.reference, model=arguments.model, notes=notes, options=options)


def _of_frameworks(files: list[Loaded], names: Sequence[str]) -> list[Loaded]:
    requested = {name.strip().lower() for text in names for name in text.split(",") if name.strip()}
    if not requested:
        return files
    there = sorted({plain(run.framework) for file in files for run in file.runs if run.framework})
    requested = {FRAMEWORKS.get(name, name) for name in requested}
    unknown = sorted(name for name in requested if name not in there)
    if unknown:
        raise UsageError(
            f"no result is of the framework {', '.join(unknown)}: there are {', '.join(there) or 'none'}",
            heading="wrong-usage",
        )
    return _only(files, lambda run: run.framework in requested)


def _only(files: Sequence[Loaded], belongs: Callable[[Run], bool]) -> list[Loaded]:
    """Return the files with the runs that belong."""
    kept = [(file, tuple(run for run in file.runs if belongs(run))) for file in files]
    return [Loaded(file.name, file.sha256, runs) for file, runs in kept if runs]
