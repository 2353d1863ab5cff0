"""The options of `benchmark`; those of the encoder-decoder are in encdec.py."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat.catalog import models
from tprimat.cli.options import _groups, encdec
from tprimat.cli.options._parser import OF_TRAININGS, Group, Parser
from tprimat.cli.options._training import (
    add_bundle,
    add_gpus,
    add_output_dir,
    add_setting,
    add_sizes,
    add_telemetry,
    at_least,
    duration,
    label,
    names,
    seconds,
)
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, scales
from tprimat.frameworks import names as framework_names
from tprimat.frameworks.nemo.defaults import PRESETS
from tprimat.frameworks.request import BUILT_IN_CHOICES, PRECISIONS, PROFILERS, BenchmarkOptions

DEFAULT_TIME_LIMIT = "8m"
"""With two minutes to start, a run ends within ten."""

DESCRIPTION = """\
Train language models on this machine and record the time of every step. By
default, all models run on all GPUs: at full size in NeMo and Primus, else at
about 10⁹ parameters. Without a GPU, tiny models of the same architectures run
on the CPU. Nothing is downloaded: weights are random, tokens are generated.

examples:
  %(prog)s --dry-run               show the plan and its duration
  %(prog)s --model llama --runs 5  with a confidence interval
  %(prog)s --model llama --precision bf16,fp8 --runs 5
  %(prog)s --model encdec --help   options of the encoder-decoder
"""

EPILOG = """\
  scales      {scales}
  frameworks  {frameworks}

NeMo presets, which set what no option sets:
{presets}

Exit status: {{OK}} success, {{USAGE}} wrong usage, {{NOT_COMPARABLE}} the --match result cannot be reproduced here,
{{TRAINING_FAILED}} a training failed or was interrupted. Results measured until then are kept.
"""


class BenchmarkParser(Parser):
    """The parser of `benchmark`, which leaves the options of the encoder-decoder to a separate
    parser.
    """

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the options: BenchmarkOptions, or a Namespace of those of the encoder-decoder."""
        words = sys.argv[1:] if args is None else args
        if is_meant(words, os.environ):
            return encdec.parser().parse_args(words)
        return _groups.with_words_of_nodes(super().parse_args(words, BenchmarkOptions()), self)


def parser() -> Parser:
    """Return the parser of `benchmark`."""
    presets = "\n".join(f"  {name:13}{text}" for name, text in PRESETS.items())
    epilog = EPILOG.format(
        scales=", ".join(scales.names()), frameworks=", ".join(framework_names()), presets=presets
    )
    parser = BenchmarkParser(
        "benchmark", usage="%(prog)s [options]", description=DESCRIPTION, epilog=epilog
    )
    _add_setup(parser.most_used(), parser.add_argument_group("model and configuration"))
    _add_measuring(parser.add_argument_group("measurement"))
    _groups.add_nodes(parser.add_argument_group("several nodes"))
    _groups.add_nemo(parser.add_argument_group("NeMo (--framework nemo, pretrain_*.py)"))
    _groups.add_search(parser.add_argument_group("tuning"))
    parser.add_output_options(**OF_TRAININGS)
    return parser


def own_options() -> set[str]:
    """Return the options that only the encoder-decoder has: if no model is named, any of them
    selects it.
    """
    return encdec.parser().flags() - parser().flags()


def is_meant(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether the arguments of `benchmark` are for the encoder-decoder.

    Raises UsageError if they name it together with other models, or if torchrun started a benchmark
    that starts its processes itself.
    """
    first = Parser("benchmark", add_help=False)
    first.add_argument("--model", nargs="?", const="", action="append")
    first.add_argument("--framework", nargs="?", default="", const="")
    first.add_argument(*own_options(), dest="own", nargs="?", const=True)
    given, _ = first.parse_known_args(argv)
    if given.model is None:
        # If several processes were started, only the encoder-decoder can be meant.
        return given.own is not None or environ.get("WORLD_SIZE", "1") != "1"
    models = sorted({name.strip().lower() for name in ",".join(given.model).split(",")})
    if models == [encdec.MODEL]:
        return True
    if encdec.MODEL in models:
        raise UsageError(
            f"{encdec.MODEL} cannot be combined with other models",
            hint=f"use only --model {encdec.MODEL}",
            heading="encoder-decoder",
        )
    if "TORCHELASTIC_RUN_ID" in environ and given.framework.strip().lower() != "nemo":
        raise UsageError(
            "only the encoder-decoder and NeMo can be started by torchrun (pretrain_*.py); for"
            f" {', '.join(models)}, benchmark.py starts its own processes",
            hint="run it without torchrun; --gpus sets how many",
            heading="torchrun",
        )
    return False


def _add_setup(most_used: Group, group: Group) -> None:
    text = f"train {', '.join(models.names())} or all of these, or encdec (default: all)"
    read = names(
        models.names(), "model", (encdec.MODEL, "all"), models.trained_name, models.suggested
    )
    most_used.option("--model NAME", text, type=read)
    add_setting(
        most_used,
        "precision",
        ", ".join(PRECISIONS),
        f"default: {defaults.PRECISION_ON_GPU}; {defaults.PRECISION_ON_CPU} on a CPU",
        type=names(PRECISIONS, "precision"),
    )
    add_setting(most_used, "framework", type=str)
    most_used.option(
        "--runs N",
        "run each configuration N times, interleaved (default: 1)",
        type=at_least(1),
        default=1,
    )
    most_used.option("--dry-run", "show plan, time and commands; run nothing")
    add_setting(group, "scale", scales.COMMON, type=str)
    add_sizes(group, several_micro_batches=True)
    add_setting(group, "torch_compile")
    for key in BUILT_IN_CHOICES:
        add_setting(group, key)
    group.option(
        "--config FILE",
        "use the configuration that --tune wrote to FILE; further options override it",
        type=Path,
    )
    group.option("--match RESULT", "reuse the configuration of RESULT", type=Path)


def _add_measuring(group: Group) -> None:
    add_setting(group, "max_steps", defaults.STEPS_ON_GPU, defaults.STEPS_ON_CPU)
    add_setting(
        group, "time_limit_s", DEFAULT_TIME_LIMIT, type=duration, default=DEFAULT_TIME_LIMIT
    )
    group.option("--cooldown SECONDS", "pause between runs (default: 30; 0 on a CPU)", type=seconds)
    add_gpus(group, sweeps=True)
    add_setting(group, "label", type=label)
    add_output_dir(group, "output")
    add_bundle(group, "bundle results, logs and environment into one archive")
    group.option(
        "--profile NAME",
        f"profile 4 more steps after the measured ones: {', '.join(PROFILERS)}",
        choices=tuple(PROFILERS),
    )
    add_telemetry(group)
    group.option(
        "--training-lines", argparse.SUPPRESS
    )  # of an older tool: pretrain_*.py and run_benchmark.sh
    group.option("--resume", "run only what is missing in the output directory")
    group.option("--retry-failed", "like --resume, but also repeat failed runs")
    group.option(
        "--only N",
        "run only configuration N (as numbered by --dry-run), e.g. in a job array",
        type=at_least(1),
    )
