"""Shared by the comparing commands: loading results, and the values and prices the user gives."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import math
import os
from collections.abc import Sequence
from pathlib import Path

from tprimat import console
from tprimat.analysis.efficiency import Options
from tprimat.catalog import prices
from tprimat.cli.options.compare import PRECISIONS
from tprimat.compare import Comparison, cost
from tprimat.errors import UsageError
from tprimat.log_import import load as loader
from tprimat.log_import.given import NOTHING_GIVEN, GivenValues
from tprimat.log_import.loaded import Inputs
from tprimat.log_import.unread import LOGS_UNREAD
from tprimat.notes import ASKED, LOST, NO_LOG, TWIN, Note, by_reason
from tprimat.notes.catalogue import safe_sentences, words
from tprimat.store.history import TRIALS

COLLECTED = 50_000
"""Number of new objects after which Python searches for reference cycles."""

FOLDER, OLDEST_FOLDER = Path("output"), Path("benchmark_results")


def load(
    names: Sequence[str | Path],
    hint: str,
    option: str | None = None,
    given: GivenValues = NOTHING_GIVEN,
    *,
    shows_unread: bool = True,
) -> Inputs:
    """Return the results and logs in files and directories.

    Files that were named and can't be read are printed; with `shows_unread`, notes on skipped files
    too. Raises UsageError, with the hint and the option that named them, if there are no results.
    """
    # Results have no cycles, and for thousands of them a search after every 700 objects takes 5 to
    # 9% of the time.
    gc.set_threshold(COLLECTED)
    inputs = loader.load(map(str, names), given)
    for error in inputs.errors if inputs.files else inputs.errors[:-1]:
        console.error(error.line())
    if shows_unread:
        show_unread(inputs.notes)
    if inputs.files:
        if option is None:
            check(given, names, inputs)
        return inputs
    if inputs.errors:
        raise inputs.errors[-1]
    notes = [note for note in inputs.notes if note.fields.get("kind") != NO_LOG] or inputs.notes
    more = f", and {len(notes) - 1} more" if len(notes) > 1 and option is None else ""
    skipped = f" ({words(notes[0])}{more})" if notes else ""
    for folder in map(Path, names):
        if (folder / TRIALS).is_dir():
            hint = f"run --tune again, or compare its trials: {folder / TRIALS}"
        elif any(folder.glob("logs/[bt]*_*_*.log")):
            hint = "no run there has left a result: repeat its ./benchmark.py command with --resume"
    problem = f"no benchmark results or logs in {', '.join(map(str, names))}{skipped}"
    raise UsageError(f"{option}: {problem}" if option else problem, hint=hint, heading="no-results")


_UNREAD = (LOGS_UNREAD, "copies", "compared-apart")
"""Codes of notes that are always printed: see show_unread()."""


def show_unread(notes: Sequence[Note]) -> None:
    """Print the notes on skipped logs, unreadable files, duplicates, and runs of one configuration
    that are compared as several systems.
    """
    for note in by_reason(notes):
        kind = note.fields.get("kind")
        if note.code in _UNREAD or kind in (TWIN, LOST, ASKED):
            (text,) = safe_sentences([note])
            console.error(f"{'warning' if kind == LOST else 'note'}: {text}")


def check(given: GivenValues, names: Sequence[str | Path], *inputs: Inputs) -> None:
    """Raise UsageError if a value that the user gave names an unknown file, or no file needs it."""
    files = [file for group in inputs for file in group.files]
    if not any(group.errors for group in inputs):
        named = [*map(str, names), *(file.name for file in files)]
        given.check(named, [(file.name, run) for file in files for run in file.runs])


def result_folders(folder: Path, hint: str) -> list[Path]:
    """Return the directories with results that exist: `folder`, and also OLDEST_FOLDER if `folder`
    is the default. Raises UsageError if none exists.
    """
    folders = []
    for directory in (folder, OLDEST_FOLDER):
        if directory.is_dir() and (directory == folder or folder == FOLDER):
            folders.append(directory)
    if not folders:
        raise UsageError(f"directory not found: {folder}", heading="no-results", hint=hint)
    return folders


def files_apart(arguments: argparse.Namespace) -> list[str]:
    """Return the files among the words after --cost and --precision, and remove them there: these
    options take all words up to the next option.
    """
    files = []
    for name, belongs in (("cost", prices.is_price), ("precision", _is_precision)):
        words = getattr(arguments, name, [])
        apart = [word for word in words if not belongs(word) and os.path.exists(word)]  # noqa: PTH110, a name may be long
        setattr(arguments, name, [word for word in words if word not in apart])
        files += apart
    return files


def _is_precision(word: str) -> bool:
    return word.rpartition("=")[2].lower() in PRECISIONS


def precisions(words: Sequence[str]) -> Options:
    """Return options with the precisions after --precision: one for all systems, or by their names.
    Raises UsageError for wrong ones.
    """
    hint = f"use one of {', '.join(PRECISIONS)}, or NAME=PRECISION, such as MI355X=fp8"
    if wrong := next((word for word in words if not _is_precision(word)), None):
        raise UsageError(
            f"--precision: {wrong!r} is not a precision", heading="wrong-usage", hint=hint
        )
    pairs = []
    for name, _, precision in (word.rpartition("=") for word in words):
        pairs.append((name, precision.lower()))
    if pairs and not any(name for name, _ in pairs):
        if len(pairs) > 1:
            raise UsageError(
                "--precision: more than one value for all systems", heading="wrong-usage", hint=hint
            )
        return Options(precision=pairs[0][1])
    if not all(name for name, _ in pairs) or len(dict(pairs)) < len(pairs):
        raise UsageError("--precision: a system is given twice", heading="wrong-usage", hint=hint)
    return Options(precisions=dict(pairs))


def given_values(arguments: argparse.Namespace) -> GivenValues:
    """Return the values that the user gives for logs that lack them, and the columns of logs of no
    known format, if the command has the options for these.
    """
    columns = getattr(arguments, "columns", None)
    pattern = getattr(arguments, "pattern", None)
    as_read = getattr(arguments, "as_read", False)
    given = GivenValues(override=arguments.override, as_read=as_read)
    if columns is not None or pattern is not None:
        from tprimat.read import mapped  # here, since results need none of the readers

        given = dataclasses.replace(given, columns=mapped.given(columns, pattern))
    return given.with_options(arguments.log_values or ())


def options(arguments: argparse.Namespace) -> Options:
    """Return the values that the user states for systems, except the prices. Raises UsageError for
    wrong ones.
    """
    peak = arguments.peak_tflops
    if peak is not None and not 0 < peak < math.inf:
        raise UsageError(
            "--peak-tflops must be above zero",
            hint="use e.g. 989, in TFLOP/s",
            heading="wrong-usage",
        )
    if (arguments.cost_source or arguments.cost_date) and not arguments.cost:
        raise UsageError("--cost-source and --cost-date need --cost", heading="wrong-cost")
    electricity = arguments.electricity
    pue = arguments.pue
    if electricity is not None and not 0 <= electricity <= prices.MOST:
        raise UsageError(
            "--electricity must be a price per kWh", hint="use e.g. 0.12", heading="wrong-cost"
        )
    if pue is not None and not 1 <= pue < math.inf:
        raise UsageError("--pue must be at least 1", hint="use e.g. 1.3", heading="wrong-cost")
    if pue is not None and electricity is None:
        raise UsageError("--pue needs --electricity", heading="wrong-cost")
    energy = {
        "tdp_energy": arguments.energy_from_tdp,
        "electricity": electricity,
        "pue": pue or 1.0,
    }
    return dataclasses.replace(precisions(arguments.precision), peak_tflops=peak, **energy)


def priced(comparison: Comparison, arguments: argparse.Namespace) -> Comparison:
    """Return the comparison with the prices, if any are given."""
    if not arguments.cost:
        return comparison
    are_files = bool(arguments.results) and all(Path(name).is_file() for name in arguments.results)
    stated = {"source": arguments.cost_source, "date": arguments.cost_date, "ordered": are_files}
    priced = cost.with_prices(comparison, arguments.cost, **stated)
    for doubt in safe_sentences(priced.doubts):
        console.error(f"warning: --cost: {doubt}")
    return priced.comparison
