"""tprimat read (scripts/analyze_existing_logs.py): logs of any framework -> a result file per
training.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from tprimat import console
from tprimat.catalog import models
from tprimat.cli import _comparing, _form, _imported
from tprimat.cli._arguments import prints_outcome
from tprimat.console import Verbosity, info
from tprimat.errors import ExitStatus, TensorPrimatError, UnreadableError, UsageError
from tprimat.location import REPOSITORY
from tprimat.log_import import bundle, find_logs, sources
from tprimat.log_import.bundle_names import names_a_bundle
from tprimat.log_import.importer import LogImport
from tprimat.log_import.logs import under_names
from tprimat.log_import.named import STANDARD_INPUT, named_files
from tprimat.log_import.unread import NotRead
from tprimat.report import json_values
from tprimat.results.result_file import Loaded
from tprimat.store import store
from tprimat.text import counted, plain, shortened

MOST_SKIPPED = 4
"""Most files skipped for one reason that are named; the others are counted."""

FULL_ACCOUNT = 3
"""Most runs that are shown in full; more are shown as a table, and their warnings are only in the
results.
"""


@prints_outcome("results")
def main(arguments: argparse.Namespace) -> int:
    """Read logs and write their results. If a log can't be read, the others are read all the
    same.
    """
    if arguments.explain:
        return _form.explain(named_files(arguments.paths))
    bundle.check(arguments.bundle)
    there = []
    if not arguments.paths:
        output_dir = Path(arguments.output_dir)
        there = store.find([*filter(Path.is_dir, (output_dir, _comparing.OLDEST_FOLDER))])[0]
        arguments.paths = _usual_paths(output_dir)
        if there and not arguments.paths:
            return _list(there)
        if not arguments.paths:
            raise UsageError(
                "no training log of a known model in this directory, output/ or logs/",
                hint="pass a log file, a directory, or - for stdin",
                heading="not-a-training-log",
            )
    given = _comparing.given_values(arguments)
    names = named_files(arguments.paths)
    with contextlib.ExitStack() as stack:
        places, broken, named = _unpacked(names, stack)
        logs, skipped, errors = sources.log_sources(places)
        errors[:0] = broken
        if errors and not logs and not skipped:
            raise errors[0]
        if not logs and not skipped:
            raise UnreadableError(
                ", ".join(names), "directory has no files", heading="not-a-training-log"
            )
        batch = LogImport(
            Path(arguments.output_dir),
            arguments.label,
            lambda result: console.record(result.run, result.path, result.title, result.notes),
        )
        batch.skipped += [dataclasses.replace(file, path=named(file.path)) for file in skipped]
        for error in errors:
            batch.errors.append(NotRead(error.problem, error.hint, error.heading, ""))
        given.check([*names, *(path for source in logs for path in source.paths)])
        packed: list[Path] = []
        with _progress(len(logs)) as advance:
            for source, outcome in sources.read_sources(logs, arguments.jobs, given):
                title = named(source.title)
                batch.add(source, under_names(outcome, named), title)
                packed += map(Path, source.paths if isinstance(outcome, list) else ())
                advance(title)
        batch.save()
        if arguments.bundle and batch.results:
            logs_left = [path for path in packed if str(path) != STANDARD_INPUT]
            bundle.write_and_report(
                arguments.bundle, [result.path for result in batch.results], logs_left
            )
    status = _report(batch)
    _list(there, {result.path.absolute() for result in batch.results})
    return status


def _usual_paths(output_dir: Path) -> list[str]:
    """Return the directories of older tools and the logs of known models where logs usually are."""
    paths = []
    for parent in (".", ".."):
        for name in find_logs.EARLIER_FOLDERS:
            if Path(parent, name).is_dir():
                paths.append(str(Path(parent, name)))
    folders = find_logs.folders(Path.cwd(), output_dir, REPOSITORY, os.environ)
    logs = find_logs.search(models.names(), folders, os.environ).logs
    return paths + [str(log.path) for log in logs]


def _list(files: Sequence[Loaded], written: Collection[Path] = ()) -> int:
    """Print a line for each result that existed before; those that were just written are already
    shown.
    """
    for file in files:
        if Path(file.name).absolute() not in written:
            model = plain(file.runs[0].model or "model unknown")
            info(f"Result:  {plain(file.name)}: {model}, {counted(len(file.runs), 'run')}")
    return ExitStatus.OK


def _unpacked(
    names: Sequence[str], stack: contextlib.ExitStack
) -> tuple[list[str], list[TensorPrimatError], Callable[[str], str]]:
    """Return the names, with bundles replaced by the directories that they are unpacked to; an
    error for each broken bundle; and a function that restores the names.
    """
    places = []
    errors: list[TensorPrimatError] = []
    renames = []
    for name in names:
        try:
            is_bundle = names_a_bundle(Path(name))
            folder: Path | str = name
            rename: Callable[[str], str] = str
            if is_bundle:
                folder, rename = stack.enter_context(bundle.unpacked(Path(name)))
            places.append(str(folder))
            renames.append(rename)
        except UnreadableError as error:
            errors.append(error)
    return (
        places,
        errors,
        lambda text: functools.reduce(lambda text, rename: rename(text), renames, text),
    )


def _report(batch: LogImport) -> int:
    """Show what was saved, skipped and not readable; return the exit status."""
    is_verbose = console.verbosity() is Verbosity.VERBOSE
    if is_verbose or len(batch.results) <= FULL_ACCOUNT:
        for result in batch.results:
            _imported.show_imported(result)
    else:
        _imported.show_table(batch.results)
    reasons: dict[str, list[str]] = {}
    for file in batch.skipped:
        reasons.setdefault(file.reason, []).append(file.path)
    values = console.current().values
    values["passed_over"] = list(map(dataclasses.asdict, batch.skipped))
    values["errors"] = [error.error().message for error in batch.errors]
    if batch.asked:
        values["asked"] = [
            {"file": title, **json_values.note_values("notes", notes)}
            for title, notes in batch.asked.items()
        ]
    if batch.skipped:
        info(f"skipped: {counted(len(batch.skipped), 'file')}")
    for reason, paths in reasons.items():
        most = len(paths) if is_verbose else MOST_SKIPPED
        shown = ", ".join(plain(path, 100) for path in paths[:most])
        more = f" and {len(paths) - most} more" if len(paths) > most else ""
        info(f"  {plain(reason, 200)}: {shown}{more}")
    for error in batch.errors:
        console.error(error.error().line())
    if not batch.results and not batch.errors:
        console.error("error: no training log found", see="not-a-training-log")
    if batch.errors or not batch.results:
        return ExitStatus.USAGE
    return ExitStatus.OK


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal, and nothing elsewhere; yield the function to call when a
    source is done.
    """
    is_shown = console.verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE)
    if total < 2 or not sys.stderr.isatty() or not is_shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda title: bar.update(
            task, advance=1, description=shortened(plain(title), 40).replace("[", "(")
        )
