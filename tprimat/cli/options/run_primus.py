"""The options of `run-primus`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tprimat.cli.options._parser import OF_TRAININGS, Parser
from tprimat.cli.options._training import add_bundle, add_sizes, at_least, seconds
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import DEFAULT_PRECISION, LAUNCHERS

DEFAULT_ITERATIONS = 10

PRIMUS = by_name("primus")

DESCRIPTION = """\
Train with AMD Primus, keep the log and save the result. Checks the configuration
before it starts. Arguments after -- are passed to Primus, e.g. -- --lr 1.0e-4.
"""

EPILOG = """\
Environment: PRIMUS_PATH (default: /workspace/Primus), PRIMUS_CONFIG, TRAIN_ITERS, RUNS; and those of
Primus: NNODES, NODE_RANK, GPUS_PER_NODE, MASTER_ADDR, MASTER_PORT, HF_TOKEN, HF_HOME, NCCL_*, ...

Exit status: that of the training; {USAGE} wrong usage or a failed check, {TRAINING_FAILED} the training succeeded
but logged no complete run.
"""


class PrimusParser(Parser):
    """The parser of `run-primus`, whose default model is the one that a script for one model names
    first.
    """

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words before --."""
        words = list(sys.argv[1:] if args is None else args)
        if (
            os.environ.get("TPRIMAT_SCRIPT")
            and words[:1] == ["--model"]
            and len(words) > 1
            and words[1] != "--"
        ):
            self.set_defaults(model=words[1])
        return super().parse_args(words, namespace)


def parser() -> Parser:
    """Return the parser of `run-primus`."""
    parser = PrimusParser(
        "run-primus",
        hint="put Primus' own arguments after --",
        passes=True,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    what = parser.add_argument_group("model and configuration")
    what.option(
        "--model NAME",
        f"train {', '.join(PRIMUS.models)} or all (default: %(default)s)",
        default="all",
    )
    what.option("--config FILE", "use your own configuration (PRIMUS_CONFIG)", type=Path)
    what.option(
        "--precision NAME",
        f"use {', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})",
        choices=PRIMUS.precisions,
    )
    what.option("--match RESULT", "reuse batch, parallelism and precision of RESULT", type=Path)
    add_sizes(what)
    how = parser.add_argument_group("measurement")
    how.option("--primus-path DIR", "set the Primus directory (PRIMUS_PATH)", type=Path)
    text = f"train N steps (TRAIN_ITERS; default: {DEFAULT_ITERATIONS}, a smoke test)"
    iterations = _of_environment("TRAIN_ITERS", DEFAULT_ITERATIONS)
    how.option("--train-iters N", text, type=at_least(1), default=iterations)
    runs = _of_environment("RUNS", 1)
    how.option(
        "--runs N",
        "run each configuration N times (RUNS; default: 1)",
        type=at_least(1),
        default=runs,
    )
    how.option("--gpus N", "use N GPUs (GPUS_PER_NODE; default: all)", type=at_least(1))
    how.option(
        "--launcher NAME",
        f"start with {' or '.join(LAUNCHERS)} (default: the newer)",
        choices=LAUNCHERS,
    )
    how.option("--cooldown SECONDS", "pause between runs (default: 30 on a GPU)", type=seconds)
    how.option("--exit-after SECONDS", "let Megatron stop after SECONDS", type=seconds)
    how.option("--time-limit SECONDS", "kill a run after SECONDS (default: none)", type=seconds)
    how.option("--dry-run", "check and show the commands; run nothing")
    where = parser.add_argument_group("results")
    where.option("--label NAME", "name this configuration; becomes part of the file name")
    text = "write results to DIR (default: output)"
    where.option("--output-dir DIR", text, type=Path, default=Path("output"))
    add_bundle(where, "bundle result, log and environment into one archive")
    parser.add_output_options(**OF_TRAININGS)
    return parser


def _of_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return at_least(1)(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}", heading="wrong-usage") from error
