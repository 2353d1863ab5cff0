"""tprimat read (scripts/analyze_existing_logs.py): logs of any framework -> a result file per training."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.cli import _display
from tprimat.cli._arguments import Parser, add_output_options, verbosity
from tprimat.errors import UsageError

if TYPE_CHECKING:
    from tprimat.log_import.sources import LogSource, Outcome

_EPILOG = """\
Each file is recognised by what it holds, not by its name. Read are the consoles of Megatron-LM, Primus, NeMo,
torchtitan, Hugging Face's Trainer, Axolotl, DeepSpeed, MLPerf and others, trainer_state.json, TensorBoard's event
files, Lightning's metrics.csv and TraceLens' reports. Where two sources tell of one training, the one written for
machines is its result, and the other fills what that one leaves open.

exit status: 0 a result was written (whatever became of the training); 2 wrong usage, a file that was named can't be
read, or nothing readable was found
"""

PARALLEL_FROM = 1 << 23
"""Bytes; less than this is read before other processes have started."""


def _parser() -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        prog="tprimat read" if program in ("tprimat", "__main__.py") else program,
        description="Turns the logs of trainings, of whatever framework, into results.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="log, or folder of logs; several, patterns and - for standard input"
    )
    parser.add_argument(
        "--output-dir", metavar="DIR", default="output", help="folder for the results (default: output)"
    )
    parser.add_argument("--label", metavar="NAME", help="a name for this setup: stored, shown, and part of file names")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=None, help="files that are read at a time (default: one a processor)"
    )
    add_output_options(
        parser,
        quiet="print the paths of the results alone, a line each",
        verbose="show every training in full, its sources, and every file that was passed over with the reason",
        json="print one document for a program: results with their figures, what was passed over, exit status",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Reads logs and writes their results.

    Returns:
        An ExitStatus. What can't be read doesn't keep the rest from being read.
    """
    arguments = _parser().parse_args(argv)
    if not arguments.paths:
        raise UsageError(
            "nothing is named: name a log, a folder of logs, or - for standard input", heading="wrong-usage"
        )
    if arguments.jobs is not None and arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: at least 1 file is read at a time", heading="wrong-usage")
    from tprimat.cli import _import
    from tprimat.log_import import inputs, sources

    with _display.capture_output(verbosity(arguments), results=[]) as output:
        names = inputs.named_files(arguments.paths)
        units, passed = sources.units_of(names)
        campaign = _import.LogImport(Path(arguments.output_dir), arguments.label)
        for each in passed:
            campaign.pass_over(each.path, each.reason)
        for unit, outcome in _outcomes(units, arguments.jobs):
            campaign.take(unit, outcome)
        return output.finish(campaign.finish() if units or passed else _nothing(names))


def _nothing(names: Sequence[str]) -> int:
    from tprimat.errors import UnreadableError

    raise UnreadableError(", ".join(names), "there is no file in it: name a log", heading="not-a-training-log")


def _outcomes(units: list[LogSource], jobs: int | None) -> Iterator[tuple[LogSource, Outcome]]:
    """What becomes of each unit, in their order; read in other processes where that is worth it."""
    import os

    from tprimat.cli import _import
    from tprimat.log_import import sources

    workers = min(jobs or os.cpu_count() or 1, len(units))
    piped = any(unit.size == 0 for unit in units)
    if workers < 2 or piped or sum(unit.size for unit in units) < PARALLEL_FROM:
        with _import.progress(len(units)) as advance:
            for unit in units:
                yield unit, sources.read_unit(unit)
                advance(unit.title)
        return
    import concurrent.futures
    import multiprocessing

    # A forked process would inherit locks of whatever the parent runs at the time.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: deque[tuple[LogSource, concurrent.futures.Future[Outcome]]] = deque()
    rest = iter(units)
    try:
        with _import.progress(len(units)) as advance:
            # A few more than there are workers: what has been read waits in memory until its turn comes.
            for unit in rest:
                waiting.append((unit, pool.submit(sources.read_unit, unit)))
                if len(waiting) >= 2 * workers:
                    done, future = waiting.popleft()
                    yield done, _result(done, future)
                    advance(done.title)
            while waiting:
                done, future = waiting.popleft()
                yield done, _result(done, future)
                advance(done.title)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result(unit: LogSource, future: object) -> Outcome:
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    from tprimat.log_import.sources import Outcome

    assert isinstance(future, Future)
    try:
        outcome = future.result()
    except BrokenProcessPool:
        return Outcome(error=f"{unit.title}: the process that read it was ended from outside, by lack of memory maybe")
    assert isinstance(outcome, Outcome)
    return outcome
