"""The options of `read`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, add_output_options, option
from tprimat.cli.options._training import at_least

EPILOG = """\
Each file is recognised by what it holds, not by its name. Read are the consoles of Megatron-LM, Primus, NeMo,
torchtitan, Hugging Face's Trainer, Axolotl, DeepSpeed, MLPerf and others, trainer_state.json, TensorBoard's event
files, Lightning's metrics.csv and TraceLens' reports. Where two sources tell of one training, the one written for
machines is its result, and the other fills what that one leaves open.

exit status: 0 a result was written (whatever became of the training); 2 wrong usage, a file that was named can't be
read, or nothing readable was found
"""


def parser() -> Parser:
    """Return the parser of `read`."""
    description = "Turns the logs of trainings, of whatever framework, into results."
    parser = Parser("read", description=description, epilog=EPILOG)
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="log, or folder of logs; several, patterns and - for standard input"
    )
    option(parser, "--output-dir DIR", "folder for the results (default: output)", default="output")
    option(parser, "--label NAME", "a name for this setup: stored, shown, and part of file names")
    option(parser, "--jobs N", "files that are read at a time (default: one a processor)", type=at_least(1))
    add_output_options(
        parser,
        quiet="print the paths of the results alone, a line each",
        verbose="show every training in full, its sources, and every file that was passed over with the reason",
        json="print one document for a program: results with their figures, what was passed over, exit status",
    )
    return parser
