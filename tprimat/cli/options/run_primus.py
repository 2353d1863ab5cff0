"""The options of `run-primus`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options, option
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


class PrimusParser(Parser):
    """The parser of `run-primus`, whose default model is the one that a script for one model names first."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words before --."""
        words = list(sys.argv[1:] if args is None else args)
        if os.environ.get("TPRIMAT_SCRIPT") and words[:1] == ["--model"] and len(words) > 1 and words[1] != "--":
            self.set_defaults(model=words[1])
        return super().parse_args(words, namespace)


def parser() -> Parser:
    """Return the parser of `run-primus`."""
    parser = PrimusParser(
        "run-primus",
        hint="what is for Primus goes after --",
        passes=True,
        prog=os.environ.get("TPRIMAT_SCRIPT"),
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    what = parser.add_argument_group("what to train")
    models = f"{', '.join(PRIMUS.models)}, or all (default: %(default)s)"
    text = f"{models}; mistral with --config only, since Primus has no configuration for it"
    option(what, "--model NAME", text, default="all")
    option(what, "--config FILE", "a configuration of your own (PRIMUS_CONFIG)", type=Path)
    text = f"{', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})"
    option(what, "--precision NAME", text, choices=PRIMUS.precisions)
    option(what, "--match RESULT", "take batch, sequence, parallelism and precision from this result", type=Path)
    add_sizes(what)
    how = parser.add_argument_group("how")
    option(how, "--primus-path DIR", "folder of Primus (PRIMUS_PATH)", type=Path)
    text = f"steps (TRAIN_ITERS; default: {DEFAULT_ITERATIONS}, which is a smoke test)"
    iterations = _of_environment("TRAIN_ITERS", DEFAULT_ITERATIONS)
    option(how, "--train-iters N", text, type=at_least(1), default=iterations)
    runs = _of_environment("RUNS", 1)
    option(how, "--runs N", "trainings of each (RUNS; default: 1)", type=at_least(1), default=runs)
    option(how, "--gpus N", "GPUs of this machine (GPUS_PER_NODE; default: all)", type=at_least(1))
    option(how, "--launcher NAME", f"{' or '.join(LAUNCHERS)} (default: the newer)", choices=LAUNCHERS)
    option(how, "--cooldown SECONDS", "rest between trainings (default: 30 on a GPU)", type=seconds)
    option(how, "--exit-after SECONDS", "let Megatron end the training by then", type=seconds)
    option(how, "--time-limit SECONDS", "end a training that runs longer (default: none)", type=seconds)
    option(how, "--dry-run", "check, show the commands, run nothing")
    where = parser.add_argument_group("results")
    option(where, "--label NAME", "your name for the setup; also in the result file's name")
    option(where, "--output-dir DIR", "folder (default: output)", type=Path, default=Path("output"))
    text = "put result, log and environment into one .tar.gz or .zip to send"
    option(where, "--bundle FILE", text, type=Path)
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
