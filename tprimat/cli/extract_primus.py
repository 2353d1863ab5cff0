"""extract_primus_metrics.py: the log of a Primus or Megatron training -> a result file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from tprimat import console
from tprimat.analysis.summary import summarize
from tprimat.cli import _imported
from tprimat.cli._arguments import prints_outcome
from tprimat.console import info
from tprimat.errors import ExitStatus, TensorPrimatError, UnreadableError, UsageError, most_severe
from tprimat.log_import import bundle, inputs
from tprimat.log_import import extract as log_extract
from tprimat.log_import.given import GivenValues
from tprimat.log_import.named import STANDARD_INPUT, named_files
from tprimat.store import store
from tprimat.store.store import Saved
from tprimat.text import counted, plain


@prints_outcome("results")
def main(arguments: argparse.Namespace) -> int:
    """Read logs and write their results."""
    if not arguments.log_file:
        raise UsageError(
            "--log-file is required", hint="give a log file, or - for stdin", heading="wrong-usage"
        )
    _check_output(arguments)
    bundle.check(arguments.bundle)
    # This command has always named the models that benchmark.py trains by their families.
    given = GivenValues(label=arguments.label, override=arguments.override, trained=True)
    given = given.with_options(arguments.log_values or ())
    paths = named_files(arguments.log_file)
    given.check(paths)
    logs = ((path, given) for path in paths)
    return extract(logs, arguments.output_dir, arguments.output, arguments.bundle)[0]


def extract(
    logs: Iterable[tuple[str, GivenValues]],
    output_dir: Path | str,
    output: str | None = None,
    bundle_path: Path | None = None,
) -> tuple[ExitStatus, list[Path]]:
    """Make, save and show the results of logs, under their usual names or in the file `output`;
    return the exit status and the files.

    If a log can't be read, the others are read all the same.
    """
    statuses = []
    results = []
    paths = []
    for path, given in logs:
        try:
            for training in log_extract.extract(inputs.Log(path), given):
                summary = summarize(training.run)
                _imported.show_extracted(training, summary)
                if output:
                    saved = store.save_as(training.run, Path(output), summary)
                else:
                    saved = store.save(training.run, Path(output_dir), summary)
                _show_saved(saved)
                console.record(training.run, saved.path, training.title, training.notes)
                results.append(saved.path)
            paths += [Path(path)] if path != STANDARD_INPUT else []
        except TensorPrimatError as error:
            console.error(error.line())
            statuses.append(error.status)
    if bundle_path and results:
        bundle.write_and_report(bundle_path, list(dict.fromkeys(results)), paths)
    return most_severe(statuses), results


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse to replace something else by a result."""
    if arguments.output is None:
        return
    path = Path(arguments.output)
    if path.is_dir():
        raise UsageError(
            f"{path}: is a directory",
            hint="use --output FILE or --output-dir DIR",
            heading="output-is-not-a-result",
        )
    if path.exists():
        try:
            store.read(path)
        except UnreadableError as error:
            raise UsageError(
                f"{path}: exists and is not a result file",
                hint="choose another --output",
                heading="output-is-not-a-result",
            ) from error


def _show_saved(saved: Saved) -> None:
    if saved.moved:
        info(f"  existing result of another configuration moved to {plain(str(saved.moved))}")
    again = "; already imported, not counted twice" if saved.known else ""
    info(plain(f"Results saved to: {saved.path} ({counted(saved.runs, 'run')}{again})"))
