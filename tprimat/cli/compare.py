"""compare: sets results against each other; prints a summary, writes a picture and a report."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat import __version__
from tprimat.cli import _display, _gate, _overrides
from tprimat.cli._arguments import Parser, add_output_options
from tprimat.errors import UsageError
from tprimat.files import write_atomically
from tprimat.text import for_encoding

if TYPE_CHECKING:
    from tprimat.compare import Comparison

DEFAULT_FOLDER = "output"
PICTURE_ENDINGS = (".png", ".svg", ".pdf")
EPILOG = """\
Without FILE_OR_FOLDER the results of the folder --results-dir are compared. Folders are read with
all that lies below them. A side is GPU, count, framework, stack, scale and label, in one setup;
models are never crossed. With --baseline and --candidate the question is whether the candidate is
slower than allowed. Exit status: 0 well, 1 slower than allowed for sure, 2 wrong usage or nothing
readable, 3 not comparable, 4 the verdict would rest on figures that can't be true.
"""


def main(argv: Sequence[str]) -> int:
    """Compares results.

    Args:
        argv: arguments, without the program's name.
    """
    arguments = _parser().parse_args(argv)
    arguments.results += _overrides.files_apart(arguments)
    if _gate.wanted(arguments):
        return _gate.run(arguments, _command_line(argv))
    folder = Path(arguments.results_dir)
    picture = _picture_path(folder, arguments.output)
    comparison = _comparison(arguments, folder)
    _print(comparison, arguments)
    written = _write(comparison, folder, None if arguments.no_plot else picture, _command_line(argv))
    if not arguments.json and not arguments.quiet:
        _display.echo("\n".join(["", *written]))
    return comparison.status


def for_program(argv: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Compares for a command that has a document of its own: the exit status, and what --json would print.

    Args:
        argv: as of main(); the picture and the reports are written too.
    """
    from tprimat.report import machine

    arguments = _parser().parse_args(argv)
    folder = Path(arguments.results_dir)
    comparison = _comparison(arguments, folder)
    _write(comparison, folder, _picture_path(folder, arguments.output), _command_line(argv))
    return comparison.status, machine.comparison_values(comparison)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_program(),
        description="Sets results of trainings against each other: which side is faster, by how much, and what "
        "must be known to believe it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="*", metavar="FILE_OR_FOLDER", help="results, or folders that hold some")
    parser.add_argument(
        "--results-dir",
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="where the picture and the report go, and where the results are when none are named (default: output)",
    )
    parser.add_argument(
        "--output",
        default="comparison_plot.png",
        metavar="NAME",
        help="the picture's name, which ends in .png, .svg or .pdf (default: comparison_plot.png)",
    )
    parser.add_argument(
        "--reference",
        metavar="SIDE",
        help="the side that all others are set against: its name or a part of it (default: the first one)",
    )
    parser.add_argument("--model", metavar="MODEL", help="compare this model alone")
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    parser.add_argument(
        "--mode",
        choices=("max", "identical"),
        default="max",
        help="max: each side at its best, differences are listed (default); identical: any difference of "
        "configuration is refused, with status 3",
    )
    parser.add_argument(
        "--enhanced", action="store_true", help="print MFU, memory, cost, energy and time to train of each side too"
    )
    add_output_options(
        parser,
        quiet="print the verdict alone",
        verbose="print every reason, setting and warning",
        json="print the comparison and the metrics for a program",
    )
    _overrides.add_options(parser)
    _gate.add_options(parser)
    return parser


def _program() -> str:
    name = Path(sys.argv[0]).name
    return name if name.endswith(".py") and name != "__main__.py" else "tprimat compare"


def _command_line(argv: Sequence[str]) -> str:
    program = _program()
    return shlex.join([*(["python3"] if program.endswith(".py") else []), *program.split(), *argv])


def _picture_path(folder: Path, name: str) -> Path:
    path = Path(name)
    if not path.suffix:
        path = path.with_name(path.name + ".png") if path.name else path
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise UsageError(
            f"--output {name!r} is no name of a picture: let it end in {', '.join(PICTURE_ENDINGS)}",
            heading="wrong-usage",
        )
    return folder / path


def _comparison(arguments: argparse.Namespace, folder: Path) -> Comparison:
    from tprimat.compare import Loaded, compare
    from tprimat.store import store

    paths = [Path(name) for name in arguments.results] or [folder]
    if not arguments.results and not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}: run ./benchmark.py first, or name the results to compare",
            heading="no-results",
        )
    found, notes = store.find(paths)
    if not found:
        more = f", and {len(notes) - 1} more" if len(notes) > 1 else ""
        passed = f" ({notes[0]}{more})" if notes else ""
        raise UsageError(
            f"no results in {', '.join(map(str, paths))}, looked for *.json there and below{passed}: "
            "run ./benchmark.py first, or name the results to compare",
            heading="no-results",
        )
    files = [Loaded(str(each.path), each.sha256, each.runs) for each in found]
    comparison = compare(
        files,
        reference=arguments.reference,
        model=arguments.model,
        notes=notes,
        mode=arguments.mode,
        options=_overrides.options(arguments),
    )
    return _overrides.priced(comparison, arguments)


def _print(comparison: Comparison, arguments: argparse.Namespace) -> None:
    from tprimat.report import console, efficiency, machine
    from tprimat.report.sheets import micro_batches, sheets

    if arguments.json:
        _display.echo(machine.dumped(machine.comparison_values(comparison)))
        return
    width, color = _display.terminal_size()
    limits = console.QUIET if arguments.quiet else console.VERBOSE if arguments.verbose else console.NORMAL
    _display.echo(console.render(comparison, width=width, color=color, limits=limits))
    if arguments.enhanced or arguments.peak_tflops is not None or arguments.energy_from_tdp:
        found = efficiency.console(sheets(comparison), micro_batches(comparison), width=width, color=color)
        _display.echo(f"\n{found}")


def _write(comparison: Comparison, folder: Path, picture: Path | None, command: str) -> list[str]:
    """Writes the picture and the reports; returns what was written, in words."""
    from tprimat.report import FORMS, Picture, Provenance

    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = None if picture is None else _drawn(comparison, picture)
        shown = None
        if picture is not None and content is not None:
            picture.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(picture, content)
            written.append(f"Picture: {picture}")
            shown = Picture(_link(picture, folder), picture.suffix.lower().removeprefix("."), content)
        for form in FORMS:
            report = importlib.import_module(form.module).render(comparison, Provenance(__version__, command), shown)
            write_atomically(folder / form.file_name, report)
            written.append(f"Report:  {folder / form.file_name}")
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder}: can't be written: {error.strerror or error}: choose another --results-dir",
            heading="unwritable-folder",
        ) from error
    return written


def _link(picture: Path, folder: Path) -> str:
    """The picture's path from the report's folder."""
    try:
        return Path(os.path.relpath(picture, folder)).as_posix()
    except ValueError:
        # On Windows there is no relative path from one drive to another.
        return picture.resolve().as_uri()


def _drawn(comparison: Comparison, picture: Path) -> bytes | None:
    """The picture; None, said in one line, where matplotlib is missing."""
    from tprimat.report import plot

    try:
        return plot.render(comparison, form=picture.suffix.lower().removeprefix("."))
    except plot.NoMatplotlibError as error:
        print(for_encoding(f"no picture: {error}", sys.stderr.encoding), file=sys.stderr)
        return None
