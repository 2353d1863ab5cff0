"""`run-primus`: a training by AMD's Primus, from the checks before it to its result.

The scripts run_primus_*.sh call this, and so does `./benchmark.py --framework primus`.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.catalog import models
from tprimat.cli import _display
from tprimat.cli._arguments import verbosity
from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.primus.installation import FILES, LAUNCHERS, PRECISIONS, Installation

if TYPE_CHECKING:
    from tprimat.frameworks.primus.plan import Plan
    from tprimat.machine.platforms import Machine
    from tprimat.results.run import Run

DEFAULT_ITERATIONS = 10
MEASUREMENT_ITERATIONS = 200
COOLDOWN_ON_GPU = 30.0

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


def main(argv: Sequence[str]) -> int:
    """Checks, trains and reads.

    Args:
        argv: arguments, without the program's name; those after -- are for Primus.

    Returns:
        The status of the training that ended last, or an ExitStatus where none was started.
    """
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    # A script for one model names it before what the user says.
    own = words[1] if os.environ.get("TPRIMAT_SCRIPT") and words[:1] == ["--model"] and cut > 1 else "all"
    options = _parser(own).parse_args(words[:cut])
    with _display.capture_output(verbosity(options), results=[]) as output:
        return output.finish(_trained(options, tuple(words[cut + 1 :])))


def _trained(options: argparse.Namespace, passed: tuple[str, ...]) -> int:
    from tprimat.cli import _bundle
    from tprimat.cli import _primus_session as session
    from tprimat.frameworks.primus import installation as primus_installation
    from tprimat.machine import platforms

    if options.bundle is not None:
        _bundle.check(options.bundle)
    installation = primus_installation.from_environment(os.environ, options.primus_path)
    if problem := installation.problem():
        raise UsageError(problem, heading="no-primus")
    machine = platforms.detect()
    plans = _plans(options, passed, installation, machine)
    iterations = min(made.configuration.count("train_iters") or 0 for made in plans)
    advice = _advice(options, iterations)
    session.introduce(plans, machine, advice)
    ready = session.checked(plans, machine, options.output_dir)
    if options.dry_run:
        session.show(plans, options.output_dir)
    if options.dry_run or not ready:
        return ExitStatus.WELL if ready else ExitStatus.USAGE
    job = session.Job(machine, options.output_dir, options.label, options.time_limit, options.bundle)
    status: int = ExitStatus.WELL
    for number in range(options.runs):
        for made in plans if number % 2 == 0 else tuple(reversed(plans)):
            if job.trained and not _rest(options.cooldown, machine):
                return 128 + 2
            status = job.train(made, f"run {number + 1} of {options.runs}" if options.runs > 1 else None)
            if status:
                job.stop(made, plans)
                return status
    job.sum_up(advice)
    return status


def _plans(
    options: argparse.Namespace, passed: tuple[str, ...], installation: Installation, machine: Machine
) -> tuple[Plan, ...]:
    """The trainings that are asked for, all of them planned before any is started."""
    from tprimat.frameworks.primus import installation as primus_installation
    from tprimat.frameworks.primus.plan import PrimusRequest, plan

    config = options.config or (Path(os.environ["PRIMUS_CONFIG"]) if os.environ.get("PRIMUS_CONFIG") else None)
    names, own = _models(options.model, config, installation)
    matched = _matched(options.match)
    made = [
        plan(
            PrimusRequest(
                model=name,
                precision=options.precision,
                iterations=options.train_iters,
                global_batch_size=options.global_batch_size,
                micro_batch_size=options.micro_batch_size,
                sequence_length=options.sequence_length,
                seed=options.seed,
                gpus=options.gpus,
                time_limit_s=options.exit_after,
                config=config if name == own else None,
                matched=matched,
                passed=passed,
                launcher=options.launcher,
            ),
            installation,
            os.environ,
            gpu=primus_installation.gpu_of(machine.gpu_info),
            devices=(machine.gpu_info.device_count or 0) if machine.platform == "amd" else 0,
        )
        for name in names
    ]
    return tuple(made)


def _models(asked: str, config: Path | None, installation: Installation) -> tuple[tuple[str, ...], str | None]:
    """Models to train, and the one that the user's own configuration is for."""
    if asked != "all":
        names = tuple(dict.fromkeys(models.by_name(name.strip()).name for name in asked.split(",")))
        if config is None or len(names) == 1:
            return names, names[0] if config is not None else None
    else:
        names = tuple(FILES)
    if config is None:
        from tprimat.cli import _benchmark_display as display

        display.note(
            "Primus has no configuration for Mistral: it is left out; PRIMUS_CONFIG=FILE with one of your own adds it"
        )
        return names, None
    from tprimat.frameworks.primus import config as primus_config

    content = primus_config.read(config.expanduser().absolute(), installation.path, os.environ)
    model = primus_config.setup(content, None).model
    if model not in models.names():
        raise UsageError(
            f"{config}: is a configuration of {model or 'an unknown model'}, which is none of "
            f"{', '.join(models.names())}: unset PRIMUS_CONFIG, or name one of these",
            heading="primus-config",
        )
    return (*names, *([model] if model not in names else [])), model


def _matched(path: Path | None) -> tuple[Run, str] | None:
    if path is None:
        return None
    from tprimat.store import store

    return store.read(path)[0], str(path)


def _advice(options: argparse.Namespace, iterations: int) -> str | None:
    """What is said of a training that is too short, with the command for a measurement; None for a long one."""
    from tprimat.cli._benchmark_display import SMOKE_TEST_BELOW

    if iterations >= SMOKE_TEST_BELOW:
        return None
    script = "./run_primus_all.sh" if options.model == "all" else f"scripts/run_primus_{options.model}.sh"
    if options.model not in ("all", *FILES):
        script = f"tprimat run-primus --model {shlex.quote(options.model)}"
    return (
        f"{iterations} iterations are a smoke test: they show that it runs, not how fast. "
        f"For a measurement: TRAIN_ITERS={MEASUREMENT_ITERATIONS} RUNS=3 {script}"
    )


def _rest(cooldown: float | None, machine: Machine) -> bool:
    """Cools down; False where the user has ended that."""
    from tprimat.cli import _benchmark_display as display

    seconds = cooldown if cooldown is not None else COOLDOWN_ON_GPU if machine.platform == "amd" else 0.0
    if seconds:
        display.say(f"cooling down for {seconds:g} s")
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        return False
    return True


def _parser(model: str) -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        hint="what is for Primus goes after --",
        prog=os.environ.get("TPRIMAT_SCRIPT")
        or ("tprimat run-primus" if program in ("tprimat", "__main__.py") else program),
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to train")
    what.add_argument(
        "--model", default=model, metavar="NAME", help=f"{', '.join(FILES)}, or all (default: {model}); {_OWN}"
    )
    what.add_argument("--config", type=Path, metavar="FILE", help="a configuration of your own (PRIMUS_CONFIG)")
    what.add_argument(
        "--precision", choices=PRECISIONS, metavar="NAME", help=f"{', '.join(PRECISIONS)} (default: bf16)"
    )
    what.add_argument(
        "--match", type=Path, metavar="RESULT", help="take batch, sequence, parallelism and precision from this result"
    )
    what.add_argument("--global-batch-size", type=_count, metavar="N", help="sequences per step, over all GPUs")
    what.add_argument("--micro-batch-size", type=_count, metavar="N", help="sequences per forward pass of a GPU")
    what.add_argument("--sequence-length", type=_count, metavar="N", help="tokens per sequence")
    what.add_argument("--seed", type=_natural, metavar="N", help="of weights and data")
    how = parser.add_argument_group("how")
    how.add_argument("--primus-path", type=Path, metavar="DIR", help="folder of Primus (PRIMUS_PATH)")
    how.add_argument(
        "--train-iters",
        type=_count,
        default=_of_environment("TRAIN_ITERS", DEFAULT_ITERATIONS),
        metavar="N",
        help=f"steps (TRAIN_ITERS; default: {DEFAULT_ITERATIONS}, which is a smoke test)",
    )
    how.add_argument(
        "--runs",
        type=_count,
        default=_of_environment("RUNS", 1),
        metavar="N",
        help="trainings of each (RUNS; default: 1)",
    )
    how.add_argument("--gpus", type=_count, metavar="N", help="GPUs of this machine (GPUS_PER_NODE; default: all)")
    how.add_argument(
        "--launcher", choices=LAUNCHERS, metavar="NAME", help=f"{' or '.join(LAUNCHERS)} (default: the newer)"
    )
    how.add_argument(
        "--cooldown", type=_seconds, metavar="SECONDS", help="rest between trainings (default: 30 on a GPU)"
    )
    how.add_argument("--exit-after", type=_seconds, metavar="SECONDS", help="let Megatron end the training by then")
    how.add_argument(
        "--time-limit", type=_seconds, metavar="SECONDS", help="end a training that runs longer (default: none)"
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


_OWN = "mistral with --config only, since Primus has no configuration for it"


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _natural(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def _of_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return _count(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}", heading="wrong-usage") from error


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 600")
    return value
