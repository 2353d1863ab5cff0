"""extract_primus_metrics.py: the log of a Primus or Megatron training -> a result file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tprimat import console
from tprimat.analysis.summary import summarize
from tprimat.cli import _imported
from tprimat.cli._arguments import prints_outcome
from tprimat.console import info
from tprimat.errors import TensorPrimatError, UnreadableError, UsageError, most_severe
from tprimat.log_import import bundle, inputs
from tprimat.log_import import extract as log_extract
from tprimat.log_import.extract import GivenValues
from tprimat.store import store
from tprimat.store.naming import file_name
from tprimat.store.store import Saved
from tprimat.text import plain


@prints_outcome("results")
def main(arguments: argparse.Namespace) -> int:
    """Read logs and write their results. A log that can't be read doesn't keep the others from being read."""
    if not arguments.log_file:
        raise UsageError("no log is named: --log-file F, or --log-file - for standard input", heading="wrong-usage")
    _check_output(arguments)
    if arguments.bundle:
        bundle.check(Path(arguments.bundle))
    given = GivenValues(
        arguments.model_name,
        arguments.num_gpus,
        arguments.global_batch_size,
        arguments.sequence_length,
        arguments.label,
        arguments.override,
    )
    statuses = []
    results: list[Path] = []
    logs: list[Path] = []
    for path in inputs.named_files(arguments.log_file):
        try:
            results += [saved.path for saved in extract(path, arguments.output_dir, given, arguments.output)]
            logs += [Path(path)] if path != inputs.STANDARD_INPUT else []
        except TensorPrimatError as error:
            print(error.line(), file=sys.stderr)
            statuses.append(error.status)
    if arguments.bundle and results:
        bundle.write_and_report(Path(arguments.bundle), list(dict.fromkeys(results)), logs)
    return most_severe(statuses)


def extract(log_file: str, output_dir: Path | str, given: GivenValues, output: Path | str | None = None) -> list[Saved]:
    """Make, save and show the results of a log.

    Args:
        log_file: the log.
        output_dir: directory for the results.
        given: the user's values.
        output: the result file, instead of one of the usual name in `output_dir`.

    Raises:
        UnreadableError, UsageError: it can't be read, or contradicts what is given.
    """
    log = inputs.Log(log_file)
    saved = []
    for each in log_extract.extract(log, given):
        summary = summarize(each.run)
        _imported.show_extracted(each, summary)
        place = Path(output) if output else Path(output_dir, file_name(each.run))
        saved.append(store.save_as(each.run, place, summary))
        _show_saved(saved[-1])
        console.record(each.run, saved[-1].path, each.title)
        console.current().notes.extend(f"{each.title}: {note}" for note in each.parsed.notes)
    return saved


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse to put a result where something else is."""
    if arguments.output is None:
        return
    path = Path(arguments.output)
    if path.is_dir():
        raise UsageError(
            f"{path}: is a folder: --output names a file, --output-dir a folder", heading="output-is-no-result"
        )
    if path.exists():
        try:
            store.read(path)
        except UnreadableError as error:
            raise UsageError(
                f"{path}: is there already and is no result, so it is left alone: choose another --output",
                heading="output-is-no-result",
            ) from error


def _show_saved(saved: Saved) -> None:
    """Print where the result is."""
    if saved.moved:
        info(f"  the file held another setup, which is now {plain(str(saved.moved))}")
    runs = "1 run" if saved.runs == 1 else f"{saved.runs} runs"
    again = "; this training was in it already and is not counted twice" if saved.known else ""
    info(plain(f"Results saved to: {saved.path} ({runs}{again})"))
