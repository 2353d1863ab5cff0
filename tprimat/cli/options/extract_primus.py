"""The options of `extract-primus`."""

from __future__ import annotations

import argparse
import re

from tprimat.cli.options._parser import Parser, add_output_options, program

_EPILOG = """\
What the log states is taken from the log; an option fills only what it leaves open. An option that
contradicts the log is an error, unless --override is given: then yours is used and both are recorded.
Logs may be compressed (gzip, bzip2, xz, zstd), coloured, doubled or cut off.

exit status: 0 a result was written (whatever became of the training); 2 wrong usage, or no training in a log
"""


def parser() -> Parser:
    """Return the parser of `extract-primus`."""
    parser = Parser(
        prog=program("extract-primus"),
        description="Turns the log of a Primus or Megatron-LM training into a result.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--log-file",
        metavar="F",
        nargs="+",
        action="extend",
        help="log to read (needed); several, patterns and - for standard input work",
    )
    parser.add_argument("--model-name", metavar="M", help="the model, where the log doesn't name it")
    parser.add_argument("--num-gpus", metavar="N", type=_count, help="GPUs that trained, where the log doesn't say")
    parser.add_argument("--global-batch-size", metavar="B", type=_count, help="sequences per optimizer step")
    parser.add_argument("--sequence-length", metavar="S", type=_count, help="tokens per sequence")
    parser.add_argument("--override", action="store_true", help="use these options against the log's own word")
    parser.add_argument(
        "--label", metavar="NAME", help="a name for this setup: stored, shown, and part of the file's name"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="FILE", help="result file to write")
    where.add_argument(
        "--output-dir",
        metavar="DIR",
        default="output",
        help="folder for the result under its usual name (default: output)",
    )
    parser.add_argument(
        "--bundle", metavar="FILE", help="also put result, log and environment into one .tar.gz or .zip to send"
    )
    add_output_options(
        parser,
        quiet="print the paths of the results alone, a line each",
        verbose="print the log's hash, and every fact and figure that the result states",
        json="print one document for a program: results with their figures, notes, exit status",
    )
    return parser


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
