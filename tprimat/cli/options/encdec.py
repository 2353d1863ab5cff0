"""The options of `benchmark --model encdec`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options, option, program
from tprimat.cli.options._training import add_gpus, add_numbers, add_output_dir, at_least, duration, label, seconds
from tprimat.errors import ExitStatus

FIRST_ERROR_S = 3.0
"""How long the other processes wait with an error that all of them meet, before torchrun ends them because of it."""

MODEL = "encdec"
DISK_FOLDER = "data"
LARGEST_SEED = 2**62
PRECISIONS = ("fp16", "bf16", "fp32")

DESCRIPTION = """\
Trains a Transformer encoder-decoder (torch.nn.Transformer) on synthetic
sequence pairs, for hardware that no language-model recipe knows: on all GPUs,
or on the CPU where there are none. The default model has 3.5 M parameters.
Data are made in memory, or with --disk or --data-dir written once and read
during the training, so that storage is measured too.
"""

EPILOG = """\
torchrun may start the processes instead:
  torchrun --nproc_per_node=8 benchmark.py --batch-size 128 --epochs 5

Exit status: 0 well, 2 wrong usage, 5 the training failed or was interrupted.
"""


class EncDecParser(Parser):
    """The parser, where each of several processes may be the one that parses."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, in one process of a machine; the others wait until it has printed that, and end."""
        if {"RANK", "WORLD_SIZE"} <= os.environ.keys() and os.environ.get("LOCAL_RANK", os.environ["RANK"]) != "0":
            time.sleep(FIRST_ERROR_S)
            sys.exit(ExitStatus.USAGE)
        super().error(message)


def parser() -> Parser:
    """Return the parser; an option that isn't given and has no default is None."""
    parser = EncDecParser(
        "benchmark",
        # The script says which model by its name.
        prog=os.environ.get("TPRIMAT_SCRIPT") or f"{program('benchmark')} --model {MODEL}",
        usage="%(prog)s [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    option(parser, "--model NAME", argparse.SUPPRESS, default=MODEL)
    add_numbers(
        parser.add_argument_group("the model"),
        ("d-model", 1, "width of the model (default: 128)"),
        ("nhead", 1, "attention heads; must divide the width (default: 4)"),
        ("num-encoder-layers", 1, "layers of the encoder (default: 3)"),
        ("num-decoder-layers", 1, "layers of the decoder (default: 3)"),
        ("dim-feedforward", 1, "inner width of the feed-forward parts (default: 512)"),
        ("seq-len", 1, "tokens of a source, and of a target (default: 128)"),
        ("vocab-size", 2, "tokens of source and target, with an embedding each (default: 5480)"),
    )
    _add_training(parser.add_argument_group("the training"))
    _add_data(parser.add_argument_group("the data"))
    _add_session(parser.add_argument_group("how to measure"))
    add_output_options(parser, **OF_TRAININGS)
    parser.set_defaults(encdec=True)
    return parser


def _add_training(group: argparse._ArgumentGroup) -> None:
    add_numbers(
        group,
        ("batch-size", 1, "sequence pairs of one GPU in a step (default: 32)"),
        ("epochs", 1, "passes over the data, measured (default: 3)"),
        ("warmup-epochs", 0, "passes before them, left out of the figures (default: 1)"),
    )
    precision = group.add_mutually_exclusive_group()
    for usage, const, text in (
        ("--bf16", "bf16", "mixed precision in bf16"),
        ("--no-amp", "fp32", "no mixed precision: fp32, without TF32"),
    ):
        option(precision, usage, text, dest="precision", action="store_const", const=const)
    text = f"the same by name: {', '.join(PRECISIONS)} (default: fp16 with loss scaling on a GPU, fp32 on a CPU)"
    option(precision, "--precision NAME", text, choices=PRECISIONS)
    option(group, "--seed N", "of weights and data (default: 1234)", type=at_least(0, LARGEST_SEED))


def _add_data(group: argparse._ArgumentGroup) -> None:
    add_numbers(group, ("num-samples", 1, "sequence pairs of an epoch (default: 65536 on GPUs, 1024 on a CPU)"))
    option(group, "--full", "as many as make 30 GB of data")
    option(group, "--disk", f"data on disk, in ./{DISK_FOLDER}/")
    option(group, "--data-dir PATH", "data on disk, in this folder", type=Path)
    add_numbers(
        group,
        ("num-shards", 1, "files that they are split into (default: of 128 MB each)"),
        ("workers", 1, "reading processes of each GPU (default: up to 4, by the cores; 1 on a CPU)"),
    )
    option(group, "--drop-caches", "empty the page cache of the data before each epoch", default=None)


def _add_session(group: argparse._ArgumentGroup) -> None:
    option(group, "--single", "train on one GPU only")
    add_gpus(group)
    option(group, "--runs N", "trainings, each in fresh processes (default: 1)", type=at_least(1), default=1)
    option(group, "--cooldown SECONDS", "rest between two (default: 30 on a GPU, 0 on a CPU)", type=seconds)
    option(group, "--time-limit TIME", "ends a training early, such as 90s, 10m or 1h30m", type=duration)
    option(group, "--label NAME", "your name for the setup", type=label)
    add_output_dir(group, "results")
    option(group, "--dry-run", "show the command and what it would do; run nothing")
