"""What `./benchmark.py` does where nothing can be measured or nothing needs to be: it reads the logs that are here."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat import console, units
from tprimat.catalog import models
from tprimat.cli import extract_primus
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, TensorPrimatError, UsageError, most_severe
from tprimat.log_import import find_logs
from tprimat.log_import.extract import GivenValues
from tprimat.measure.bundle import write_bundle
from tprimat.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprimat.log_import.find_logs import LocalLog, Search
    from tprimat.machine.platforms import Machine
    from tprimat.read.parsing.text import Line

MEASURING = (
    "framework",
    "scale",
    "precision",
    "match",
    "micro_batch_size",
    "global_batch_size",
    "sequence_length",
    "seed",
    "steps",
    "gpus",
    "cooldown",
)
"""Options that only make sense for a measurement: whoever gives one wants to measure."""

MOST_SAID = 6
"""Files that were passed over and are named; the rest is counted."""

_CLONE = Path(__file__).resolve().parents[2]


def instead_of_measuring(options: argparse.Namespace, machine: Machine) -> int | None:
    """Reads the logs that are here, where that is what nothing said means.

    Args:
        options: of `benchmark`.
        machine: this machine.

    Returns:
        The exit status; None where it is to be measured.

    Raises:
        UsageError: this is a machine whose trainings run in Primus, and no log is found.
        UnreadableError: LLAMA_LOG or its like names no file.
    """
    named = [model for model in models.names() if os.environ.get(find_logs.variable(model), "").strip()]
    if any(getattr(options, name, None) is not None for name in MEASURING) or options.runs != 1:
        return None
    on_rocm = machine.platform == "amd" and importlib.util.find_spec("nemo") is None
    if not on_rocm and machine.platform != "cpu" and not named:
        return None
    wanted = options.model or models.names()
    where = find_logs.folders(Path.cwd(), options.output_dir, _CLONE, os.environ)
    found = find_logs.search(wanted, where, os.environ, head)
    if not found.found:
        if on_rocm:
            raise UsageError(_nothing(found, wanted), heading="no-logs-found")
        return None
    _say(found, wanted)
    if options.dry_run:
        for each in found.found:
            console.summary(plain(each.path))
        console.info("\nNothing was read.")
        return ExitStatus.WELL
    return _read(found, options)


def head(path: Path) -> Iterator[Line]:
    """The lines of a log."""
    from tprimat.log_import import inputs

    return inputs.Log(str(path)).lines()


def _say(search: Search, wanted: Sequence[str]) -> None:
    """What was found, why, how old, what was passed over, and how to measure instead."""
    console.info("Logs of trainings are here; they are read, and nothing is trained:")
    now = time.time()
    for found in search.found:
        age = units.duration(max(0.0, now - found.modified))
        stated = f" ({plain(found.stated, 60)})" if found.stated and found.stated != found.model else ""
        console.info(f"  {found.model:<8} {found.path}")
        console.info(f"  {'':<8} found by {found.why}{stated}; written {age} ago")
    most = len(search.passed_over) if console.verbosity() is Verbosity.VERBOSE else MOST_SAID
    for text in search.passed_over[:most]:
        console.info(f"  passed over: {plain(text)}")
    if len(search.passed_over) > most:
        console.info(f"  passed over: {len(search.passed_over) - most} more")
    for folder in search.looked_in:
        console.debug(f"  looked in: {plain(folder)}")
    console.current().values["logs"] = [
        {"model": found.model, "path": str(found.path), "found_by": found.why} for found in search.found
    ]
    missing = [model for model in wanted if model not in {found.model for found in search.found}]
    if missing:
        variables = " ".join(f"{find_logs.variable(model)}=FILE" for model in missing)
        console.info(f"  no log of {', '.join(missing)}: {variables} names one")
    console.note("to measure on this machine instead: ./benchmark.py --framework lightning")


def _read(search: Search, options: argparse.Namespace) -> int:
    statuses: list[ExitStatus] = []
    results: list[Path] = []
    for found in search.found:
        console.info("")
        try:
            saved = extract_primus.extract(
                str(found.path), options.output_dir, GivenValues(model=_unsaid(found), label=options.label)
            )
        except TensorPrimatError as error:
            print(error.line(), file=sys.stderr)
            statuses.append(error.status)
            continue
        results += [each.path for each in saved]
    bundle = getattr(options, "bundle", None)
    if bundle is not None and results:
        write_bundle(bundle, list(dict.fromkeys(results)), [found.path for found in search.found])
    if results:
        folder = "" if options.output_dir == Path("output") else f" {options.output_dir}"
        console.info(f"\nNext:    python3 compare_results.py{folder}")
    return most_severe(statuses)


def _unsaid(found: LocalLog) -> str | None:
    """The model to give where the log leaves it open, or where the user says which it is."""
    if found.stated is None or (found.why == find_logs.variable(found.model)):
        return found.model
    return None


def _nothing(search: Search, wanted: Sequence[str]) -> str:
    looked = ", ".join(str(path) for path in search.looked_in)
    absent = f" ({', '.join(str(path) for path in search.missing)} are not there)" if search.missing else ""
    passed = f"; passed over: {'; '.join(search.passed_over[:MOST_SAID])}" if search.passed_over else ""
    variables = " ".join(f"{find_logs.variable(model)}=FILE" for model in wanted)
    return (
        f"no log of a training of {', '.join(wanted)} is in {looked}{absent}{passed}: train with ./run_primus_all.sh "
        f"or ./benchmark.py --framework primus; name logs with {variables}; or measure with what "
        "TensorPrimat brings: ./benchmark.py --framework lightning"
    )
