"""The options of `verify`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, add_output_options

EPILOG = """\
The logs in the bundle are read again, and every step and setting in them is compared with the results; the metrics are
recomputed from the steps. A result without a log, such as a measured one, is checked against its own steps only.

Exit status: 0 all values are the same, 2 wrong usage or no bundle, 4 a value differs or a file was changed after it was
packed, 6 the bundle lacks the log of a result.
"""


def parser() -> Parser:
    """Return the parser of `verify`."""
    parser = Parser("verify", description="Recompute the values of a bundle from its logs.", epilog=EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", help="archive written by --bundle (.tar.gz, .tgz, .zip)")
    add_output_options(
        parser,
        quiet="print only the conclusion",
        verbose="print every difference",
        json="print JSON: runs, differences, exit status",
    )
    return parser
