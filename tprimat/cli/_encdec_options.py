"""The options of the encoder-decoder benchmark, and when `benchmark` means it."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tprimat.cli._arguments import verbosity
from tprimat.cli._display import Verbosity
from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options
from tprimat.errors import UsageError
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.launch import (
    FULL_BYTES,
    MOST_WORKERS,
    PRECISIONS,
    SAMPLES_ON_CPU,
    SAMPLES_ON_GPU,
    RequestedConfig,
)
from tprimat.frameworks.encdec.settings import MODEL
from tprimat.text import plain

DEFAULT_OUTPUT = "results"
DISK_FOLDER = "data"
LARGEST_SEED = 2**62

OURS = (
    "--batch-size",
    "--bf16",
    "--d-model",
    "--data-dir",
    "--dim-feedforward",
    "--disk",
    "--drop-caches",
    "--epochs",
    "--full",
    "--nhead",
    "--no-amp",
    "--num-decoder-layers",
    "--num-encoder-layers",
    "--num-samples",
    "--num-shards",
    "--seq-len",
    "--single",
    "--vocab-size",
    "--warmup-epochs",
    "--workers",
)
"""Options that no other model has: any of them means the encoder-decoder where no model is named."""

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


@dataclasses.dataclass(frozen=True)
class EncDecArguments:
    """What the command was asked for.

    Attributes:
        wishes: of the training.
        output_dir: folder for results, as the user named it.
        runs: how many trainings, each in fresh processes.
        cooldown_s: seconds of rest between two of them; None for what the platform needs.
        single: whether --single was said.
        dry_run: whether nothing is to be run.
        verbosity: how much is printed.
    """

    wishes: RequestedConfig
    output_dir: Path
    runs: int
    cooldown_s: float | None
    single: bool
    dry_run: bool
    verbosity: Verbosity


def is_meant(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the arguments of `benchmark` are for the encoder-decoder.

    Raises UsageError where they name it beside other models, or where torchrun started a command
    that starts its processes itself.
    """
    models = _named(argv, "--model")
    if models is None:
        # What started several processes means the one benchmark whose processes can be started so.
        return any(word.split("=", 1)[0] in OURS for word in argv) or environ.get("WORLD_SIZE", "1") != "1"
    if models == [MODEL]:
        return True
    if MODEL in models:
        raise UsageError(
            f"{MODEL} has options of its own: measure it in a call of its own (--model {MODEL})",
            heading="encoder-decoder",
        )
    if "TORCHELASTIC_RUN_ID" in environ and _named(argv, "--framework") != ["nemo"]:
        raise UsageError(
            f"torchrun starts only the encoder-decoder and NeMo (pretrain_*.py); for {', '.join(models)} benchmark.py "
            "starts its processes itself: leave torchrun out, and say how many with --gpus",
            heading="torchrun",
        )
    return False


def parse(argv: Sequence[str]) -> EncDecArguments:
    """Reads the options. Raises UsageError for wrong ones."""
    options = parser().parse_args(argv)
    if options.model != MODEL:
        raise UsageError(
            f"this trains the encoder-decoder, not {options.model}: ./benchmark.py --model {options.model}",
            heading="encoder-decoder",
        )
    if options.single and options.gpus not in (None, 1):
        raise UsageError(f"--single and --gpus {options.gpus} contradict each other", heading="encoder-decoder")
    data_dir = options.data_dir or (Path(DISK_FOLDER) if options.disk else None)
    names = {field.name for field in dataclasses.fields(RequestedConfig)}
    known = {name: value for name, value in vars(options).items() if name in names and value is not None}
    wishes = RequestedConfig(
        **{
            **known,
            "data_dir": data_dir.expanduser().resolve() if data_dir is not None else None,
            "num_gpus": 1 if options.single else options.gpus,
            "time_limit_s": options.time_limit,
        }
    )
    encdec.check(wishes)
    return EncDecArguments(
        wishes=wishes,
        output_dir=options.output_dir,
        runs=options.runs,
        cooldown_s=options.cooldown,
        single=options.single,
        dry_run=options.dry_run,
        verbosity=verbosity(options),
    )


def parser() -> argparse.ArgumentParser:
    """The parser; an option that isn't given and has no default is None."""
    program = os.environ.get("TPRIMAT_SCRIPT") or Path(sys.argv[0]).name
    if program in ("tprimat", "__main__.py"):
        program = "tprimat benchmark"
    # The script says which model by its name.
    named = "" if "TPRIMAT_SCRIPT" in os.environ else f" --model {MODEL}"
    made = Parser(
        prog=program + named,
        usage="%(prog)s [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--model", default=MODEL, metavar="NAME", help=argparse.SUPPRESS)
    _add_model(made.add_argument_group("the model"))
    _add_training(made.add_argument_group("the training"))
    _add_data(made.add_argument_group("the data"))
    _add_session(made.add_argument_group("how to measure"))
    add_output_options(made, **OF_TRAININGS)
    return made


def _add_model(group: argparse._ArgumentGroup) -> None:
    sizes = (
        ("d-model", "width of the model"),
        ("nhead", "attention heads; must divide the width"),
        ("num-encoder-layers", "layers of the encoder"),
        ("num-decoder-layers", "layers of the decoder"),
        ("dim-feedforward", "inner width of the feed-forward parts"),
        ("seq-len", "tokens of a source, and of a target"),
    )
    for name, said in sizes:
        default = getattr(RequestedConfig, name.replace("-", "_"))
        group.add_argument(f"--{name}", type=_at_least(1), metavar="N", help=f"{said} (default: {default})")
    group.add_argument(
        "--vocab-size",
        type=_at_least(2),
        metavar="N",
        help=f"tokens of source and target, with an embedding each (default: {RequestedConfig.vocab_size})",
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--batch-size",
        type=_at_least(1),
        metavar="N",
        help=f"sequence pairs of one GPU in a step (default: {RequestedConfig.batch_size})",
    )
    group.add_argument(
        "--epochs",
        type=_at_least(1),
        metavar="N",
        help=f"passes over the data, measured (default: {RequestedConfig.epochs})",
    )
    group.add_argument(
        "--warmup-epochs",
        type=_at_least(0),
        metavar="N",
        help=f"passes before them, left out of the figures (default: {RequestedConfig.warmup_epochs})",
    )
    precision = group.add_mutually_exclusive_group()
    precision.add_argument(
        "--bf16", dest="precision", action="store_const", const="bf16", help="mixed precision in bf16"
    )
    precision.add_argument(
        "--no-amp", dest="precision", action="store_const", const="fp32", help="no mixed precision: fp32, without TF32"
    )
    precision.add_argument(
        "--precision",
        choices=PRECISIONS,
        metavar="NAME",
        help=f"the same by name: {', '.join(PRECISIONS)} (default: fp16 with loss scaling on a GPU, fp32 on a CPU)",
    )
    group.add_argument(
        "--seed",
        type=_at_least(0, LARGEST_SEED),
        metavar="N",
        help=f"of weights and data (default: {RequestedConfig.seed})",
    )


def _add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--num-samples",
        type=_at_least(1),
        metavar="N",
        help=f"sequence pairs of an epoch (default: {SAMPLES_ON_GPU} on GPUs, {SAMPLES_ON_CPU} on a CPU)",
    )
    group.add_argument("--full", action="store_true", help=f"as many as make {FULL_BYTES / 1e9:.0f} GB of data")
    group.add_argument("--disk", action="store_true", help=f"data on disk, in ./{DISK_FOLDER}/")
    group.add_argument("--data-dir", type=Path, metavar="PATH", help="data on disk, in this folder")
    group.add_argument(
        "--num-shards", type=_at_least(1), metavar="N", help="files that they are split into (default: of 128 MB each)"
    )
    group.add_argument(
        "--workers",
        type=_at_least(1),
        metavar="N",
        help=f"reading processes of each GPU (default: up to {MOST_WORKERS}, by the cores; 1 on a CPU)",
    )
    group.add_argument(
        "--drop-caches", action="store_true", default=None, help="empty the page cache of the data before each epoch"
    )


def _add_session(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--single", action="store_true", help="train on one GPU only")
    group.add_argument(
        "--gpus",
        type=_at_least(1),
        metavar="N",
        help="GPUs to train on (default: all); on a CPU, processes that share it (default: 1)",
    )
    group.add_argument(
        "--runs", type=_at_least(1), default=1, metavar="N", help="trainings, each in fresh processes (default: 1)"
    )
    group.add_argument(
        "--cooldown", type=_seconds, metavar="SECONDS", help="rest between two (default: 30 on a GPU, 0 on a CPU)"
    )
    group.add_argument(
        "--time-limit", type=_duration, metavar="TIME", help="ends a training early, such as 90s, 10m or 1h30m"
    )
    group.add_argument("--label", type=_label, metavar="NAME", help="your name for the setup")
    group.add_argument(
        "--output-dir",
        type=Path,
        default=Path(DEFAULT_OUTPUT),
        metavar="DIR",
        help=f"folder for results, and logs/ in it (default: {DEFAULT_OUTPUT})",
    )
    group.add_argument("--dry-run", action="store_true", help="show the command and what it would do; run nothing")


def _named(argv: Sequence[str], option: str) -> list[str] | None:
    """What is named by an option, with commas between; None where nothing is."""
    named = [following for word, following in itertools.pairwise(argv) if word == option]
    named += [word.split("=", 1)[1] for word in argv if word.startswith(f"{option}=")]
    return sorted({name.strip().lower() for each in named for name in each.split(",")}) or None


def _at_least(least: int, most: int = 10**15) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is too small: the least is {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text} is too large: the most is {most}")
        return value

    return read


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 30 or 0")
    return value


def _duration(text: str) -> float:
    """Seconds, from 90, 90s, 10m, 1h30m or 1.5h."""
    parts = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m(?:in)?)?(?:([\d.]+)s?)?", text.strip().lower())
    try:
        hours, minutes, seconds = (float(part or 0) for part in parts.groups()) if parts else (0.0, 0.0, 0.0)
    except ValueError:
        hours = minutes = seconds = 0.0
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time, such as 90s, 10m or 1h30m")
    return total


def _label(text: str) -> str:
    label = plain(text)
    if not label:
        raise argparse.ArgumentTypeError("a label needs a letter or a digit")
    return label
