"""The options of `benchmark`; those of the encoder-decoder are in encdec.py."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat.catalog import models
from tprimat.cli.options import _nemo, encdec
from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options, option
from tprimat.cli.options._training import add_gpus, add_output_dir, add_sizes, at_least, duration, label, names, seconds
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, scales
from tprimat.frameworks import names as framework_names
from tprimat.frameworks.request import PRECISIONS, PROFILERS

DEFAULT_TIME_LIMIT = "10m"

DESCRIPTION = """\
Trains language models on this machine and records the time of every step. With
nothing said: all models, on all GPUs, at the largest scale that one GPU's
memory holds; without a GPU, tiny models of the same architectures on the CPU.
Nothing is downloaded: weights are random, tokens are generated.
"""

EPILOG = """\
Exit status: 0 well, 2 wrong usage, 3 a result that can't be matched, 5 a
training failed or was interrupted. What was measured until then stays.
"""


class BenchmarkParser(Parser):
    """The parser of `benchmark`, which leaves the options of the encoder-decoder to a parser of their own."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the options; `encdec` says whose they are."""
        words = sys.argv[1:] if args is None else args
        if is_meant(words, os.environ):
            return encdec.parser().parse_args(words)
        return super().parse_args(words, namespace)


def parser() -> Parser:
    """Return the parser of `benchmark`."""
    parser = BenchmarkParser("benchmark", description=DESCRIPTION, epilog=EPILOG)
    _add_setup(parser.add_argument_group("what to train"))
    _add_measuring(parser.add_argument_group("how to measure"))
    _nemo.add_options(parser.add_argument_group("with NeMo (--framework nemo, pretrain_*.py)"))
    add_output_options(parser, **OF_TRAININGS)
    parser.set_defaults(encdec=False)
    return parser


def own_options() -> set[str]:
    """Return the encoder-decoder's options that no other model has: any of them means it where no model is named."""
    return encdec.parser().flags() - parser().flags()


def is_meant(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether the arguments of `benchmark` are for the encoder-decoder.

    Raises:
        UsageError: they name it beside other models, or torchrun started a command that starts its processes itself.
    """
    models = _named(argv, "--model")
    if models is None:
        # What started several processes means the one benchmark whose processes can be started so.
        return bool(own_options() & {word.split("=", 1)[0] for word in argv}) or environ.get("WORLD_SIZE", "1") != "1"
    if models == [encdec.MODEL]:
        return True
    if encdec.MODEL in models:
        raise UsageError(
            f"{encdec.MODEL} has options of its own: measure it in a call of its own (--model {encdec.MODEL})",
            heading="encoder-decoder",
        )
    if "TORCHELASTIC_RUN_ID" in environ and _named(argv, "--framework") != ["nemo"]:
        raise UsageError(
            f"torchrun starts only the encoder-decoder and NeMo (pretrain_*.py); for {', '.join(models)} benchmark.py "
            "starts its processes itself: leave torchrun out, and say how many with --gpus",
            heading="torchrun",
        )
    return False


def _named(argv: Sequence[str], option: str) -> list[str] | None:
    """Return the values of an option, with commas between; None where there are none."""
    named = [following for word, following in itertools.pairwise(argv) if word == option]
    named += [word.split("=", 1)[1] for word in argv if word.startswith(f"{option}=")]
    return sorted({name.strip().lower() for each in named for name in each.split(",")}) or None


def _add_setup(group: argparse._ArgumentGroup) -> None:
    option(
        group,
        "--model NAME",
        f"{', '.join(models.names())}, several with commas between, or all (default: all); or encdec, the "
        "encoder-decoder, whose options are others: --model encdec --help",
        type=names(models.names(), "model", all_allowed=True),
    )
    option(
        group,
        "--scale NAME",
        f"size of the models: {', '.join(scales.names())} (default: the largest whose weights, gradients and "
        f"optimizer states leave {scales.SPARE:.0%}% of a GPU's memory free; {scales.SCALES[0].name} on a CPU)",
    )
    option(
        group,
        "--precision NAME",
        f"{', '.join(PRECISIONS)}; several with commas between are measured in turn, each labelled by its name "
        f"(default: {defaults.PRECISION_ON_GPU} on a GPU that has it, {defaults.PRECISION_ON_CPU} on a CPU)",
        type=names(PRECISIONS, "precision"),
    )
    add_sizes(group)
    option(
        group,
        "--match RESULT",
        "take model, shape, batch, sequence, precision, seed and steps from this result; what can't be taken "
        "over is said",
        type=Path,
    )


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    text = "trainings of each setup, each in a fresh process (default: 1; to tell two sides apart takes 3 or more)"
    option(group, "--runs N", text, type=at_least(1), default=1)
    text = f"steps of a training (default: {defaults.STEPS_ON_CPU} on a CPU, {defaults.STEPS_ON_GPU} on a GPU)"
    option(group, "--steps N", text, type=at_least(1))
    text = f"ends the steps of a training early, such as 90s, 10m or 1h30m (default: {DEFAULT_TIME_LIMIT})"
    option(group, "--time-limit TIME", text, type=duration, default=DEFAULT_TIME_LIMIT)
    option(group, "--cooldown SECONDS", "rest between two trainings (default: 30 on a GPU, 0 on a CPU)", type=seconds)
    add_gpus(group)
    option(
        group,
        "--framework NAME",
        f"what trains: {', '.join(framework_names())}; several with commas between, or all that can run here, are "
        "measured in turn and compared (default: the first that can run here)",
    )
    option(group, "--label NAME", "your name for the setup; also in the file's name", type=label)
    add_output_dir(group, "output")
    text = "put results, logs and environment into one .tar.gz or .zip to send to whoever compares"
    option(group, "--bundle FILE", text, type=Path)
    option(
        group,
        "--profile NAME",
        "a profiler watches the last steps, which are marked and which no figure is of: "
        + "; ".join(f"{name}: {text}" for name, text in PROFILERS.items()),
        choices=tuple(PROFILERS),
    )
    option(group, "--dry-run", "show the commands and what they would do; run nothing")
