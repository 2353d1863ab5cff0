"""The options of `export`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, add_output_options, option

EPILOG = """\
One row per system, run and step: step time, loss, learning rate, whether the step is steady, segment, line of the log.
docs/python.md lists the columns. A FILE of - is the standard output.
"""


def parser() -> Parser:
    """Return the parser of `export`."""
    parser = Parser(
        "export", description="Export the steps of results and logs as one table.", epilog=EPILOG
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="result files, logs, directories, globs (default: output)",
    )
    group = parser.add_mutually_exclusive_group(required=True)
    option(group, "--csv FILE", "write CSV")
    option(group, "--jsonl FILE", "write a JSON object per line")
    option(group, "--parquet FILE", "write Parquet (needs pyarrow)")
    add_output_options(
        parser,
        quiet="print only the file's path",
        verbose="print every file that was loaded or skipped",
        json="print JSON: file, rows, loaded files, notes",
    )
    return parser
