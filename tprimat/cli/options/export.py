"""The options of `export`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

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
    group.option("--csv FILE", "write CSV")
    group.option("--jsonl FILE", "write a JSON object per line")
    group.option("--parquet FILE", "write Parquet (needs pyarrow)")
    parser.add_output_options(
        quiet="print only the file's path",
        verbose="print every file that was loaded or skipped",
        json="print JSON: file, rows, loaded files, notes",
    )
    return parser
