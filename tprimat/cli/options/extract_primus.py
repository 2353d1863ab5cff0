"""The options of `extract-primus`."""

from __future__ import annotations

from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options, option
from tprimat.cli.options._training import at_least

EPILOG = """\
What the log states is taken from the log; an option fills only what it leaves open. An option that
contradicts the log is an error, unless --override is given: then yours is used and both are recorded.
Logs may be compressed (gzip, bzip2, xz, zstd), coloured, doubled or cut off.

exit status: 0 a result was written (whatever became of the training); 2 wrong usage, or no training in a log
"""


def parser() -> Parser:
    """Return the parser of `extract-primus`."""
    description = "Turns the log of a Primus or Megatron-LM training into a result."
    parser = Parser("extract-primus", description=description, epilog=EPILOG)
    text = "log to read (needed); several, patterns and - for standard input work"
    option(parser, "--log-file F", text, nargs="+", action="extend")
    option(parser, "--model-name M", "the model, where the log doesn't name it")
    option(parser, "--num-gpus N", "GPUs that trained, where the log doesn't say", type=at_least(1))
    option(parser, "--global-batch-size B", "sequences per optimizer step", type=at_least(1))
    option(parser, "--sequence-length S", "tokens per sequence", type=at_least(1))
    option(parser, "--override", "use these options against the log's own word")
    option(parser, "--label NAME", "a name for this setup: stored, shown, and part of the file's name")
    where = parser.add_mutually_exclusive_group()
    option(where, "--output FILE", "result file to write")
    text = "folder for the result under its usual name (default: output)"
    option(where, "--output-dir DIR", text, default="output")
    option(parser, "--bundle FILE", "also put result, log and environment into one .tar.gz or .zip to send")
    verbose = "print the log's hash, and every fact and figure that the result states"
    add_output_options(parser, **OF_TRAININGS | {"verbose": verbose})
    return parser
