"""The options of `publish`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

EPILOG = """\
The site needs no server and no network: open its index.html, or copy the directory to any static host. It has the
published training results that come with TensorPrimat, each with its source and the outcome of its audit, and your
results with confidence intervals. Names of hosts and users are replaced. docs/publish.md explains pages and data.

Exit status: {OK} site written, {USAGE} wrong usage, an unreadable file or no results.
"""


def parser() -> Parser:
    """Return the parser of `publish`."""
    parser = Parser(
        "publish",
        usage="%(prog)s [PATH ...] [options]",
        description=(
            "Publish training results as a static site: how fast GPUs train, when and on which"
            " software."
        ),
        epilog=EPILOG,
    )
    parser.add_argument(
        "results",
        nargs="*",
        metavar="PATH",
        help=(
            "your results, logs, bundles, directories, or globs; NAME=PATH adds a name to a result"
        ),
    )
    parser.option("--output-dir DIR", "directory of the site (default: site)", default="site")
    parser.option("--results-only", "exclude results published by others")
    parser.add_output_options(
        False,
        quiet="print only the path of the first page",
        verbose="print every file that was skipped and every note",
        json="print JSON: page, numbers of points, pairs and changes, notes, exit status",
    )
    return parser
