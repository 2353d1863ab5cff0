"""The gate of the compare command: is a candidate worse than a baseline, by more than is allowed?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.cli import _display, _overrides
from tprimat.errors import UsageError

if TYPE_CHECKING:
    from tprimat.compare import Loaded

_HEADING = "baseline-and-candidate"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the gate's options to the compare command."""
    group = parser.add_argument_group("regressions (for CI)")
    group.add_argument("--baseline", nargs="+", default=[], metavar="OLD", help="results of before")
    group.add_argument("--candidate", nargs="+", default=[], metavar="NEW", help="results of now")
    group.add_argument(
        "--allow-slower",
        metavar="PERCENT",
        help="how much less throughput is allowed, such as 3%% (default: nothing); only what the interval says for "
        "sure fails, with status 1",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="METRIC=AMOUNT",
        help="the same for any metric, in percent or in its unit: peak_memory_reserved_gb=0.5; may be repeated",
    )
    group.add_argument("--summary", metavar="FILE", help="write the answer as Markdown, for a pull request")


def wanted(arguments: argparse.Namespace) -> bool:
    """Whether the gate is asked for.

    Raises:
        UsageError: half of it is.
    """
    if arguments.baseline and arguments.candidate:
        if arguments.results:
            raise UsageError(
                f"{arguments.results[0]} is neither --baseline nor --candidate: name each result after one of them",
                heading=_HEADING,
            )
        if arguments.cost or arguments.reference is not None or arguments.enhanced:
            raise UsageError(
                "--cost, --reference and --enhanced are of the comparison, not of --baseline and --candidate",
                heading=_HEADING,
            )
        return True
    if arguments.baseline or arguments.candidate:
        raise UsageError("--baseline and --candidate go together: name results for both", heading=_HEADING)
    if arguments.allow_slower is not None or arguments.allow or arguments.summary is not None:
        raise UsageError("--allow-slower, --allow and --summary need a --baseline and a --candidate", heading=_HEADING)
    return False


def run(arguments: argparse.Namespace, command: str) -> int:
    """Holds the candidate against the baseline; returns the exit status.

    Args:
        arguments: of the compare command.
        command: command line that makes the same comparison again.
    """
    from tprimat import files
    from tprimat.compare import allowance
    from tprimat.compare.gate import gate
    from tprimat.report import gate as report
    from tprimat.report import machine

    allowances = allowance.parse(arguments.allow_slower, arguments.allow)
    options = _overrides.options(arguments)
    baseline, notes = _loaded("--baseline", arguments.baseline)
    candidate, more = _loaded("--candidate", arguments.candidate)
    found = gate(
        baseline,
        candidate,
        allowances,
        model=arguments.model,
        mode=arguments.mode,
        notes=[*notes, *more],
        options=options,
    )
    if arguments.json:
        _display.echo(machine.dumped(machine.gate_values(found)))
    elif arguments.quiet:
        _display.echo(report.verdict(found))
    else:
        width, color = _display.terminal_size()
        _display.echo(report.console(found, width=width, color=color))
    if arguments.summary is not None:
        path = Path(arguments.summary)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, report.summary(found, command))
        except OSError as error:
            raise UsageError(
                f"{path}: can't be written: {error.strerror or error}: name another --summary",
                heading="unwritable-folder",
            ) from error
    return found.status


def _loaded(option: str, names: list[str]) -> tuple[list[Loaded], list[str]]:
    from tprimat.compare import Loaded
    from tprimat.store import store

    found, notes = store.find([Path(name) for name in names])
    if not found:
        passed = f" ({notes[0]})" if notes else ""
        raise UsageError(
            f"{option}: no results in {', '.join(names)}, looked for *.json there and below{passed}: "
            "name the results that ./benchmark.py wrote",
            heading="no-results",
        )
    return [Loaded(str(each.path), each.sha256, each.runs) for each in found], notes
