"""The options of `verify`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

EPILOG = """\
The logs in the bundle are read again, and every step and setting in them is compared with the results; the metrics are
recomputed from the steps. A result without a log, such as a measured one, is checked against its own steps only.

Before publishing, verify also checks that values are plausible and consistent, that no secret or name remains, and
that every file is a result, a log, an environment or README.txt; all others are rejected. Nothing in the bundle is
executed. Settings that the log doesn't state are listed. It can't detect a log that was invented.

Exit status: {OK} can be accepted, {USAGE} wrong usage or no bundle, {IMPLAUSIBLE} not acceptable: a value differs
or is impossible, a file was changed after it was packed or is not plain data, or a secret or name is left;
{INCONCLUSIVE} undecided: a log or the result of a log is missing, a run has no speed, or a value can't be checked,
contradicts another or differs from the log by --override.
"""


def parser() -> Parser:
    """Return the parser of `verify`."""
    parser = Parser(
        "verify",
        description=(
            "Recompute the values of a bundle from its logs; report whether it can be accepted."
        ),
        epilog=EPILOG,
    )
    parser.add_argument(
        "bundle", metavar="BUNDLE", help="archive written by --bundle (.tar.gz, .tgz, .zip)"
    )
    parser.add_output_options(
        False,
        quiet="print only the conclusion",
        verbose="print every difference",
        json="print JSON: runs, differences, findings, exit status",
    )
    return parser
