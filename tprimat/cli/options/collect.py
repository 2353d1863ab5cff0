"""The options of `collect`."""

from __future__ import annotations

from tprimat.cli.options._parser import OF_TRAININGS, Parser
from tprimat.cli.options._training import add_output_dir

EPILOG = """\
Exit status: {OK} all runs are complete, {USAGE} wrong usage, {TRAINING_FAILED} a training failed, or the job was
cancelled, timed out or interrupted, {INCONCLUSIVE} the job is queued or running.
"""


def parser() -> Parser:
    """Return the parser of `collect`."""
    parser = Parser(
        "collect",
        description=(
            "Show the state of a Slurm job; once it has ended, write its results and show why it"
            " ended."
        ),
        epilog=EPILOG,
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        help="the id of a job that benchmark --executor slurm submitted, or its directory",
    )
    parser.option("--wait", "follow the job until it ends")
    add_output_dir(parser, "output")
    parser.add_output_options(**OF_TRAININGS)
    return parser
