"""enhanced-metrics: what the speed of results is worth: MFU, memory, energy, money, time to train."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tprimat.cli import _display, _overrides
from tprimat.cli._arguments import Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError

EPILOG = """\
Nothing is assumed: without --cost there is no money, without a stated precision no MFU, without
measured energy no energy. Each figure that can't be given is listed with the reason.
"""


def main(argv: Sequence[str]) -> int:
    """Prints the figures of results.

    Args:
        argv: arguments, without the program's name.
    """
    arguments = _parser().parse_args(argv)
    arguments.results = [*arguments.results, *_overrides.files_apart(arguments)] or ["output"]
    options = _overrides.options(arguments)
    from tprimat.compare import Loaded, compare
    from tprimat.store import store

    found, notes = store.find([Path(name) for name in arguments.results])
    if not found:
        raise UsageError(
            f"no results in {', '.join(arguments.results)}: run ./benchmark.py first, or name the results",
            heading="no-results",
        )
    files = [Loaded(str(each.path), each.sha256, each.runs) for each in found]
    comparison = _overrides.priced(compare(files, notes=notes, options=options), arguments)
    from tprimat.report import efficiency, evidence, machine
    from tprimat.report.sheets import micro_batches, sheets

    said = [*comparison.notes, *micro_batches(comparison)]
    if arguments.json:
        _display.echo(machine.dumped({"results": machine.sheet_values(sheets(comparison)), "notes": said}))
        return ExitStatus.WELL
    if arguments.quiet:
        _display.echo("\n".join(efficiency.brief(sheets(comparison))))
        return ExitStatus.WELL
    width, color = _display.terminal_size()
    _display.echo(efficiency.console(sheets(comparison), said, width=width, color=color))
    if arguments.verbose:
        _display.echo("\n".join(evidence.lines(comparison)))
    return ExitStatus.WELL


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="enhanced_metrics.py" if sys.argv[0].endswith("enhanced_metrics.py") else "tprimat enhanced-metrics",
        description="What the speed of results is worth: achieved TFLOP/s, MFU, memory, energy, cost, time to train.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="*", metavar="FILE_OR_FOLDER", help="default: output")
    _overrides.add_options(parser)
    add_output_options(
        parser,
        quiet="print a line for each side, with the figures that are known",
        verbose="print the files too, and every doubt about a run",
        json="for programs: every figure with interval and reason",
    )
    return parser
