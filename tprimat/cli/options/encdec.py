"""The options of `benchmark --model encdec`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tprimat.cli.options._parser import OF_TRAININGS, Group, Parser, program
from tprimat.cli.options._training import (
    add_gpus,
    add_numbers,
    add_output_dir,
    add_telemetry,
    at_least,
    duration,
    label,
    seconds,
)

MODEL = "encdec"
DISK_FOLDER = "data"
LARGEST_SEED = 2**62
PRECISIONS = ("fp16", "bf16", "fp32")

DESCRIPTION = """\
Train a Transformer encoder-decoder (torch.nn.Transformer) on synthetic sequence
pairs, on all GPUs, or on the CPU if there are none. The default model has 3.5 M
parameters. Data is generated in memory; with --disk or --data-dir it is written
once and read during training, to measure storage too.
"""

EPILOG = """\
With torchrun:
  torchrun --nproc_per_node=8 benchmark.py --batch-size 128 --epochs 5

Exit status: {OK} success, {USAGE} wrong usage, {TRAINING_FAILED} the training failed or was interrupted.
"""


def parser() -> Parser:
    """Return the parser; an option that isn't given and has no default is None."""
    parser = Parser(
        "benchmark",
        # The name of a script implies the model.
        prog=os.environ.get("TPRIMAT_SCRIPT") or f"{program('benchmark')} --model {MODEL}",
        usage="%(prog)s [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.option("--model NAME", argparse.SUPPRESS, default=MODEL)
    add_numbers(
        parser.add_argument_group("model"),
        ("d-model", 1, "set the model width (default: 128)"),
        ("nhead", 1, "set attention heads; must divide the width (default: 4)"),
        ("num-encoder-layers", 1, "set encoder layers (default: 3)"),
        ("num-decoder-layers", 1, "set decoder layers (default: 3)"),
        ("dim-feedforward", 1, "set the feed-forward width (default: 512)"),
        ("seq-len", 1, "set tokens per source and per target (default: 128)"),
        ("vocab-size", 2, "set source and target vocabulary size (default: 5480)"),
    )
    group = parser.add_argument_group("training")
    add_numbers(
        group,
        ("batch-size", 1, "set sequence pairs per step and GPU (default: 32)"),
        ("epochs", 1, "measure N passes over the data (default: 3)"),
        ("warmup-epochs", 0, "run N passes first, excluded from results (default: 1)"),
    )
    precision = group.add_mutually_exclusive_group()
    as_precision = {"dest": "precision", "action": "store_const"}
    precision.option("--bf16", "use bf16 mixed precision", const="bf16", **as_precision)
    precision.option("--no-amp", "use fp32 without TF32", const="fp32", **as_precision)
    precision.option(
        "--precision NAME",
        f"use {', '.join(PRECISIONS)} (default: fp16; fp32 on a CPU)",
        choices=PRECISIONS,
    )
    group.option(
        "--seed N", "seed weights and data (default: 1234)", type=at_least(0, LARGEST_SEED)
    )
    group = parser.add_argument_group("data")
    add_numbers(group, ("num-samples", 1, "set pairs per epoch (default: 65536; 1024 on a CPU)"))
    group.option("--full", "generate 30 GB of data")
    group.option("--disk", f"store data on disk, in ./{DISK_FOLDER}/")
    group.option("--data-dir PATH", "store data on disk, in this directory", type=Path)
    add_numbers(
        group,
        ("num-shards", 1, "split data into N files (default: 128 MB each)"),
        ("workers", 1, "use N readers per GPU (default: up to 4; 1 on a CPU)"),
    )
    group.option("--drop-caches", "drop the data's page cache before each epoch", default=None)
    _add_measuring(parser.add_argument_group("measurement"))
    parser.add_output_options(**OF_TRAININGS)
    return parser


def _add_measuring(group: Group) -> None:
    group.option("--single", "train on one GPU only")
    add_gpus(group)
    group.option(
        "--runs N",
        "run N times, each in new processes (default: 1)",
        type=at_least(1),
        default=1,
    )
    group.option("--cooldown SECONDS", "pause between runs (default: 30; 0 on a CPU)", type=seconds)
    group.option("--time-limit TIME", "stop after TIME, e.g. 90s, 10m, 1h30m", type=duration)
    group.option("--label NAME", "name this configuration", type=label)
    add_output_dir(group, "results")
    add_telemetry(group)
    group.option("--dry-run", "show the command; run nothing")
