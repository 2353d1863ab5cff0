"""compare-frameworks: the comparison of train_*.json, grouped by model; scripts/compare.py, scripts/nvd_compare.py."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.cli import _display
from tprimat.cli._arguments import Parser, add_output_options
from tprimat.cli._overrides import PRECISIONS
from tprimat.errors import UsageError
from tprimat.files import write_atomically
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS, TRAIN_FILE
from tprimat.text import for_encoding, plain

if TYPE_CHECKING:
    from tprimat.compare import Comparison, Loaded
    from tprimat.results.run import Run

DEFAULT_FOLDER = "output"
PICTURE_ENDINGS = (".png", ".svg", ".pdf")
NAMED = "train_{framework}_{model}.json, also with nvd_ or amd_ before the framework or the whole name"
SHORT = ", ".join(f"{short} ({name})" for short, name in FRAMEWORKS.items())


def main(argv: Sequence[str]) -> int:
    """Compares frameworks across platforms.

    Args:
        argv: arguments, without the program's name.
    """
    return compare_frameworks(argv)


def compare_frameworks(argv: Sequence[str], *, platform: str | None = None, picture: str = "compare.png") -> int:
    """Compares frameworks.

    Args:
        argv: arguments.
        platform: the one platform that is looked at; None lets the user choose.
        picture: the picture's name where the user gives none.

    Returns:
        The exit status.
    """
    arguments = _parser(platform, picture).parse_args(argv)
    folder = Path(arguments.results_dir)
    drawn_to = _picture_path(folder, arguments.output)
    wanted = platform or (PLATFORMS.get(arguments.platform) if arguments.platform else None)
    comparison = _comparison(arguments, folder, wanted)
    _print(comparison, arguments)
    written = not arguments.no_plot and _draw(comparison, drawn_to)
    if written and not arguments.quiet and not arguments.json:
        _display.echo(f"\nPicture: {drawn_to}")
    return comparison.status


def _print(comparison: Comparison, arguments: argparse.Namespace) -> None:
    from tprimat.report import evidence, frameworks, machine

    if arguments.json:
        _display.echo(machine.dumped(machine.comparison_values(comparison)))
        return
    room, _ = _display.terminal_size()
    width = max(room, 100) if sys.stdout.isatty() else 100
    if arguments.quiet:
        _display.echo(frameworks.brief(comparison, width=width))
        return
    _display.echo(frameworks.render(comparison, width=width))
    if arguments.verbose:
        _display.echo("\n".join(evidence.lines(comparison)))


def _parser(platform: str | None, picture: str) -> argparse.ArgumentParser:
    what = {"nvd": "NVIDIA's results", "amd": "AMD's results"}.get(platform or "", "results of all platforms")
    name = Path(sys.argv[0]).name
    command = "nvd-compare" if platform else "compare-frameworks"
    parser = Parser(
        prog=f"tprimat {command}" if name in ("tprimat", "__main__.py") else name,
        description=f"Sets the frameworks in {what} against each other, model by model. Files: {NAMED}. "
        "What can't be true wins nothing; exit status as of compare_results.py.",
    )
    parser.add_argument(
        "--results-dir",
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="where the results are, read with all that lies below, and where the picture goes (default: output)",
    )
    parser.add_argument(
        "--output", default=picture, metavar="NAME", help=f"the picture's name: .png, .svg or .pdf (default: {picture})"
    )
    if platform is None:
        parser.add_argument(
            "--platform", choices=sorted(PLATFORMS), metavar="PLATFORM", help="nvd, amd or cpu alone (default: all)"
        )
    parser.add_argument(
        "--frameworks", nargs="+", default=[], metavar="NAME", help=f"these alone, by name or in short: {SHORT}"
    )
    parser.add_argument(
        "--reference", metavar="SIDE", help="the side that all others are set against (default: the first one)"
    )
    parser.add_argument("--model", metavar="MODEL", help="compare this model alone")
    parser.add_argument(
        "--precision", choices=PRECISIONS, help="of the matrix products, where a result doesn't state it"
    )
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    add_output_options(
        parser,
        quiet="print who is at the front, and nothing else",
        verbose="print the files too, and every doubt about a run",
        json="print the comparison and the metrics for a program, as compare does",
    )
    return parser


def _picture_path(folder: Path, name: str) -> Path:
    path = Path(name)
    if path.name and not path.suffix:
        path = path.with_name(path.name + ".png")
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise UsageError(
            f"--output {name!r} is no name of a picture: let it end in {', '.join(PICTURE_ENDINGS)}",
            heading="wrong-usage",
        )
    return folder / path


def _comparison(arguments: argparse.Namespace, folder: Path, platform: str | None) -> Comparison:
    from tprimat.analysis.efficiency import Options
    from tprimat.compare import Loaded, compare
    from tprimat.store import store

    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}: name the one that holds your results with --results-dir",
            heading="no-results",
        )
    found, notes = store.find([folder])
    named = [each for each in found if TRAIN_FILE.fullmatch(each.path.name)]
    files = [Loaded(str(each.path), each.sha256, each.runs) for each in named]
    if len(found) > len(named):
        others = len(found) - len(named)
        notes.append(
            f"{others} {'result is' if others == 1 else 'results are'} not named train_*.json and left out: "
            "compare_results.py takes them all"
        )
    if platform is not None:
        files = _only(files, lambda run: run.platform == platform)
    if not files:
        of = f" of platform {platform}" if platform else ""
        passed = f" ({'; '.join(notes[:3])})" if notes else ""
        raise UsageError(
            f"no train_*.json{of} in {folder} or below{passed}: name the folder with --results-dir; files are named "
            f"{NAMED}",
            heading="no-results",
        )
    files = _of_frameworks(files, arguments.frameworks)
    options = Options(precision=arguments.precision)
    return compare(files, reference=arguments.reference, model=arguments.model, notes=notes, options=options)


def _of_frameworks(files: list[Loaded], names: Sequence[str]) -> list[Loaded]:
    wanted = {name.strip().lower() for text in names for name in text.split(",") if name.strip()}
    if not wanted:
        return files
    there = sorted({plain(run.framework) for file in files for run in file.runs if run.framework})
    wanted = {FRAMEWORKS.get(name, name) for name in wanted}
    strange = sorted(name for name in wanted if name not in there)
    if strange:
        raise UsageError(
            f"no result is of the framework {', '.join(strange)}: there are {', '.join(there) or 'none'}",
            heading="wrong-usage",
        )
    return _only(files, lambda run: run.framework in wanted)


def _only(files: Sequence[Loaded], belongs: Callable[[Run], bool]) -> list[Loaded]:
    """The files with the runs that belong."""
    from tprimat.compare import Loaded

    kept = [(file, tuple(run for run in file.runs if belongs(run))) for file in files]
    return [Loaded(file.name, file.sha256, runs) for file, runs in kept if runs]


def _draw(comparison: Comparison, path: Path) -> bool:
    """Writes the picture; False, said in one line, where matplotlib is missing."""
    from tprimat.report import plot

    try:
        content = plot.render(comparison, form=path.suffix.lower().removeprefix("."), layout="frameworks")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except plot.NoMatplotlibError as error:
        print(for_encoding(f"no picture: {error}", sys.stderr.encoding), file=sys.stderr)
        return False
    except OSError as error:
        raise UsageError(
            f"{path}: can't be written: {error.strerror or error}: choose another --output",
            heading="unwritable-folder",
        ) from error
    return True
