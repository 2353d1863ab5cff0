"""The options of `run-primus`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tprimat.cli.options._parser import OF_TRAININGS, Parser, PassingParser, add_output_options, program
from tprimat.cli.options._training import add_sizes, at_least, seconds
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import DEFAULT_PRECISION, LAUNCHERS

DEFAULT_ITERATIONS = 10

PRIMUS = by_name("primus")

DESCRIPTION = """\
Trains with AMD's Primus, keeps the log and makes a result of it. Everything that
the training would fail on is looked at before it starts. What stands after --
goes to Primus' own command line, such as -- --lr 1.0e-4.
"""

EPILOG = """\
Environment: PRIMUS_PATH (default: /workspace/Primus), PRIMUS_CONFIG, TRAIN_ITERS, RUNS; and what Primus
reads itself: NNODES, NODE_RANK, GPUS_PER_NODE, MASTER_ADDR, MASTER_PORT, HF_TOKEN, HF_HOME, NCCL_*, ...

Exit status: that of the training; 2 for wrong usage or a failed check, 5 for a training that ended
well and logged no whole run.
"""


class PrimusParser(PassingParser):
    """The parser of `run-primus`: what follows -- is for Primus."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words before --."""
        words = list(sys.argv[1:] if args is None else args)
        if os.environ.get("TPRIMAT_SCRIPT") and words[:1] == ["--model"] and len(words) > 1 and words[1] != "--":
            # A script for one model names it before what the user says.
            self._model.default = words[1]
            self._model.help = _model_help(words[1])
        return super().parse_args(words, namespace)

    def add_model(self, group: argparse._ArgumentGroup) -> None:
        """Add --model."""
        self._model = group.add_argument("--model", default="all", metavar="NAME", help=_model_help("all"))


def _model_help(default: str) -> str:
    own = "mistral with --config only, since Primus has no configuration for it"
    return f"{', '.join(PRIMUS.models)}, or all (default: {default}); {own}"


def parser() -> Parser:
    """Return the parser of `run-primus`."""
    parser = PrimusParser(
        hint="what is for Primus goes after --",
        prog=os.environ.get("TPRIMAT_SCRIPT") or program("run-primus"),
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to train")
    parser.add_model(what)
    what.add_argument("--config", type=Path, metavar="FILE", help="a configuration of your own (PRIMUS_CONFIG)")
    what.add_argument(
        "--precision",
        choices=PRIMUS.precisions,
        metavar="NAME",
        help=f"{', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})",
    )
    what.add_argument(
        "--match", type=Path, metavar="RESULT", help="take batch, sequence, parallelism and precision from this result"
    )
    add_sizes(what)
    how = parser.add_argument_group("how")
    how.add_argument("--primus-path", type=Path, metavar="DIR", help="folder of Primus (PRIMUS_PATH)")
    how.add_argument(
        "--train-iters",
        type=at_least(1),
        default=_of_environment("TRAIN_ITERS", DEFAULT_ITERATIONS),
        metavar="N",
        help=f"steps (TRAIN_ITERS; default: {DEFAULT_ITERATIONS}, which is a smoke test)",
    )
    how.add_argument(
        "--runs",
        type=at_least(1),
        default=_of_environment("RUNS", 1),
        metavar="N",
        help="trainings of each (RUNS; default: 1)",
    )
    how.add_argument("--gpus", type=at_least(1), metavar="N", help="GPUs of this machine (GPUS_PER_NODE; default: all)")
    how.add_argument(
        "--launcher", choices=LAUNCHERS, metavar="NAME", help=f"{' or '.join(LAUNCHERS)} (default: the newer)"
    )
    how.add_argument(
        "--cooldown", type=seconds, metavar="SECONDS", help="rest between trainings (default: 30 on a GPU)"
    )
    how.add_argument("--exit-after", type=seconds, metavar="SECONDS", help="let Megatron end the training by then")
    how.add_argument(
        "--time-limit", type=seconds, metavar="SECONDS", help="end a training that runs longer (default: none)"
    )
    how.add_argument("--dry-run", action="store_true", help="check, show the commands, run nothing")
    where = parser.add_argument_group("results")
    where.add_argument("--label", metavar="NAME", help="your name for the setup; also in the result file's name")
    where.add_argument(
        "--output-dir", type=Path, default=Path("output"), metavar="DIR", help="folder (default: output)"
    )
    where.add_argument(
        "--bundle", type=Path, metavar="FILE", help="put result, log and environment into one .tar.gz or .zip to send"
    )
    add_output_options(parser, **OF_TRAININGS)
    return parser


def _of_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return at_least(1)(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}", heading="wrong-usage") from error
