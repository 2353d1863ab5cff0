"""The options of `extract-primus`."""

from __future__ import annotations

from tprimat.cli.options._log_values import add_log_values
from tprimat.cli.options._parser import OF_TRAININGS, Parser
from tprimat.cli.options._training import add_bundle

EPILOG = """\
Values from the log win; options fill in missing values. An option that contradicts the log is
an error; with --override the option is used and both values are recorded. Logs may be
compressed (gzip, bzip2, xz, zstd), colored, duplicated or truncated.

Exit status: {OK} a result was written (even of a failed training), {USAGE} wrong usage, or no training log found.
"""


def parser() -> Parser:
    """Return the parser of `extract-primus`."""
    parser = Parser(
        "extract-primus", description="Import a Primus or Megatron-LM log.", epilog=EPILOG
    )
    parser.option("--log-file F", "log file(s), glob, or - for stdin (required)", nargs="+")
    parser.option("--label NAME", "name this configuration; becomes part of the file name")
    where = parser.add_mutually_exclusive_group()
    where.option("--output FILE", "write the result to FILE")
    where.option("--output-dir DIR", "write the result to DIR (default: output)", default="output")
    add_bundle(parser, "bundle result, log and environment into one archive")
    add_log_values(parser)
    parser.add_output_options(
        **OF_TRAININGS | {"verbose": "print the log's hash and all values of the result"}
    )
    return parser
