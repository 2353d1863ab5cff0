"""Import of local logs, if `./benchmark.py` can't or needn't measure."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tprimat import console, frameworks, units
from tprimat.catalog import models
from tprimat.cli import extract_primus
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus
from tprimat.frameworks.request import BenchmarkOptions
from tprimat.location import REPOSITORY
from tprimat.log_import import find_logs
from tprimat.log_import.find_logs import Search
from tprimat.log_import.given import GivenValues
from tprimat.machine.platforms import Machine
from tprimat.measure.display import comparison_of
from tprimat.measure.plan import given_options
from tprimat.text import plain

MOST_NAMED = 6
"""Most skipped files that are named; the others are counted."""


def import_local_logs(options: BenchmarkOptions, machine: Machine) -> int | None:
    """Read the logs on this machine, if that is what a command without options means; return the
    exit status.

    None if a measurement is requested or there is no log. Raises UnreadableError if LLAMA_LOG, …
    names no file.
    """
    named = []
    for model in models.names():
        if os.environ.get(find_logs.variable(model), "").strip():
            named.append(model)
    if (
        # Whoever gives an option that only makes sense for a measurement wants to measure.
        given_options(options).keys() - {"label", "time_limit_s"}
        or any(
            getattr(options, name) is not None
            for name in ("framework", "precision", "match", "cooldown", "only")
        )
        or options.runs != 1
        or options.resume
        or options.retry_failed
    ):
        return None
    on_rocm = machine.platform == "amd" and importlib.util.find_spec("nemo") is None
    if not on_rocm and machine.platform != "cpu" and not named:
        return None
    requested = options.model or models.names()
    where = find_logs.folders(Path.cwd(), options.output_dir, REPOSITORY, os.environ)
    search = find_logs.search(requested, where, os.environ)
    if not search.logs:
        return None
    _show(search, requested)
    here = []
    for framework in frameworks.FRAMEWORKS:
        if machine.platform in framework.automatic_on:
            here.append(framework)
    if usable := next(
        (framework.name for framework in here if framework.unavailable() is None), None
    ):
        console.note(f"to measure this machine instead: ./benchmark.py --framework {usable}")
    if options.dry_run:
        for log in search.logs:
            console.summary(plain(log.path))
        console.info("\nDry run: nothing was imported.")
        return ExitStatus.OK
    logs = _logs(search, options.label)
    status, results = extract_primus.extract(logs, options.output_dir, bundle_path=options.bundle)
    if results:
        console.info(f"\nNext:    {comparison_of(options.output_dir)}")
    return status


def _show(search: Search, requested: Sequence[str]) -> None:
    """Print what was found, why, how old it is, and what was skipped."""
    console.info("Importing local training logs; nothing is trained:")
    now = time.time()
    for log in search.logs:
        age = units.duration(max(0.0, now - log.modified))
        stated = f" ({plain(log.stated, 60)})" if log.stated and log.stated != log.model else ""
        console.info(f"  {log.model:<8} {log.path}")
        console.info(f"  {'':<8} found by {log.why}{stated}; written {age} ago")
    most = len(search.skipped) if console.verbosity() is Verbosity.VERBOSE else MOST_NAMED
    for text in search.skipped[:most]:
        console.info(f"  skipped: {plain(text)}")
    if len(search.skipped) > most:
        console.info(f"  skipped: {len(search.skipped) - most} more")
    for folder in search.looked_in:
        console.debug(f"  searched: {plain(folder)}")
    shown = []
    for log in search.logs:
        shown.append({"model": log.model, "path": str(log.path), "found_by": log.why})
    console.current().values["logs"] = shown
    missing = [model for model in requested if model not in {log.model for log in search.logs}]
    if missing:
        variables = " ".join(f"{find_logs.variable(model)}=FILE" for model in missing)
        console.info(f"  no log of {', '.join(missing)} (set {variables})")


def _logs(search: Search, label: str | None) -> Iterator[tuple[str, GivenValues]]:
    """Yield each log, with its model if the log doesn't state it or the user does; print a blank
    line before each.
    """
    for log in search.logs:
        console.info("")
        is_given = log.stated is None or log.why == find_logs.variable(log.model)
        yield (
            str(log.path),
            GivenValues(model=log.model if is_given else None, label=label, trained=True),
        )
