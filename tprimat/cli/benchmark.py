"""`benchmark`: measures the training of language models on this machine.

Each training is a process of its own; this one chooses, starts, watches and sums up.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.catalog import models
from tprimat.cli import _display
from tprimat.cli import _nemo_options as nemo_options
from tprimat.cli._arguments import verbosity
from tprimat.cli.options._parser import OF_TRAININGS, Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.request import PRECISIONS, PROFILERS, Device, Request, RequestedConfig
from tprimat.text import plain
from tprimat.units import GB

if TYPE_CHECKING:
    from tprimat.frameworks.framework import Framework
    from tprimat.machine.platforms import Machine

DEFAULT_OUTPUT = "output"
COOLDOWN_ON_GPU = 30.0
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


def main(argv: Sequence[str]) -> int:
    """Measures, or shows what would be run.

    Args:
        argv: arguments, without the program's name.
    """
    from tprimat.cli import _encdec_options as encdec_options

    if encdec_options.is_meant(argv, os.environ):
        from tprimat.cli import _encdec as encdec

        return encdec.main(argv)
    options = _parser().parse_args(argv)
    with _display.capture_output(verbosity(options), results=[]) as output:
        return output.finish(_measured(options))


def _measured(options: argparse.Namespace) -> int:
    # Only now: they look for packages and for GPUs, which --help shall not wait for.
    from tprimat import frameworks as launch
    from tprimat.machine import platforms

    if options.bundle is not None:
        from tprimat.cli import _bundle

        _bundle.check(options.bundle)
    machine = platforms.detect()
    from tprimat.cli import _local_logs as found_logs

    status = found_logs.instead_of_measuring(options, machine)
    if status is not None:
        return status
    elsewhere = options.dry_run or options.executor != "local"
    names = launch.several(options.framework)
    if names is not None:
        from tprimat.cli import _benchmark_frameworks as frameworks

        return frameworks.main(names, options, machine)
    framework = launch.choose(options.framework, machine.platform, to_show=elsewhere)
    plan = plan_of(options, framework, machine)
    if framework.divides and nemo_options.under_torchrun(os.environ):
        return nemo_options.train_here(plan.requests, plan.runs, plan.notes, machine)
    if options.executor != "local":
        nemo_options.submit(options, plan.requests, plan.notes)
        return ExitStatus.WELL
    from tprimat.cli import _benchmark_session as session

    if options.dry_run:
        session.show(plan, machine)
        nemo_options.show(framework, plan.requests)
        return ExitStatus.WELL
    return session.measure(plan, machine)


BF16_IN_SOFTWARE = (
    "this processor has no bf16 instructions: bf16 is computed in software, with AVX2 alone some 20 times slower "
    "than fp32"
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What will be run.

    Attributes:
        framework: with what, or the first of several.
        requests: one for each setup, in the order of the models and precisions.
        runs: of each setup.
        cooldown_s: seconds of rest between two trainings.
        notes: what the user should know before it starts.
        output_dir: folder of results and logs, as the user named it.
        bundle: file for results and logs together; None for none.
        others: further frameworks, with which some of the requests are trained.
    """

    framework: Framework
    requests: tuple[Request, ...]
    runs: int
    cooldown_s: float
    notes: tuple[str, ...]
    output_dir: Path
    bundle: Path | None = None
    others: tuple[Framework, ...] = ()

    def framework_of(self, request: Request) -> Framework:
        """The framework that trains a request."""
        return next((each for each in self.others if each.name == request.framework), self.framework)

    def order(self) -> Iterator[tuple[int, Request]]:
        """Trainings as (number of the run, request): one run of each setup before the next of any.

        Whatever drifts with time, such as the temperature, then meets all setups alike. The
        frameworks and precisions of a model change places from run to run, since whichever comes
        second finds the machine warmer.
        """
        for run in range(1, self.runs + 1):
            for model in dict.fromkeys(request.model for request in self.requests):
                setups = [request for request in self.requests if request.model == model]
                for request in setups if run % 2 else reversed(setups):
                    yield run, request


def plan_of(options: argparse.Namespace, framework: Framework, machine: Machine) -> Plan:
    """What the options mean for a framework. Raises UsageError for what it can't do."""
    shown: list[str] = []
    place = place_of(machine)
    if framework.divides:
        place = nemo_options.place(place, options, shown)
    names, wishes, notes = _wished(options, place, framework)
    notes = [*shown, *notes]
    output_dir = Path.cwd() / options.output_dir
    requests = []
    for name in names:
        for precision in options.precision or (wishes.precision,):
            label = wishes.label
            if options.precision is not None and len(options.precision) > 1:
                label = "-".join(part for part in (label, precision) if part)
            wanted = dataclasses.replace(wishes, precision=precision, label=label)
            request, said = framework.resolve_config(name, wanted, place, output_dir)
            requests.append(_profiled(request, framework, options))
            notes += said
    cooldown = options.cooldown
    if cooldown is None:
        cooldown = 0.0 if place.platform == "cpu" else COOLDOWN_ON_GPU
    in_software = place.platform == "cpu" and machine.environment.lacks_bf16
    if in_software and any(request.precision == "bf16" for request in requests):
        notes.append(BF16_IN_SOFTWARE)
    said = (*machine.warnings, *notes)
    return Plan(
        framework=framework,
        requests=tuple(requests),
        runs=options.runs,
        cooldown_s=cooldown,
        notes=tuple(dict.fromkeys(said)),
        output_dir=options.output_dir,
        bundle=options.bundle,
    )


def _profiled(request: Request, framework: Framework, options: argparse.Namespace) -> Request:
    """The request with the profiler that was asked for. Raises UsageError for one that can't watch it."""
    if options.profile is None:
        return request
    from tprimat.frameworks import profiling

    request = dataclasses.replace(request, profile=options.profile)
    torchrun = nemo_options.under_torchrun(os.environ)
    profiling.check(request, framework, executor=options.executor, torchrun=torchrun, dry_run=options.dry_run)
    return request


def _wished(
    options: argparse.Namespace, place: Device, framework: Framework
) -> tuple[tuple[str, ...], RequestedConfig, list[str]]:
    """Models and wishes: the options, over those of the result that is to be matched; and what is to be said."""
    stated = RequestedConfig(
        scale=options.scale,
        steps=options.steps,
        global_batch_size=options.global_batch_size,
        micro_batch_size=options.micro_batch_size,
        sequence_length=options.sequence_length,
        seed=options.seed,
        time_limit_s=options.time_limit,
        label=options.label,
        **nemo_options.wished(options),
    )
    nemo_options.check(framework.name, framework.divides, options)
    if options.match is None:
        return options.model or framework.models, stated, []
    if options.scale is not None:
        raise UsageError("--scale and --match contradict each other: the result states its shape", heading="cant-match")
    name, matched, notes = _matched(options, place, framework)
    if options.model not in (None, (name,)):
        raise UsageError(
            f"{options.match} is a result of {name}: leave --model out, or say --model {name}", heading="cant-match"
        )
    known = {field.name: getattr(stated, field.name) for field in dataclasses.fields(stated)}
    for field, value in known.items():
        theirs = getattr(matched, field)
        if value is not None and theirs is not None and value != theirs:
            notes.append(f"{options.match}: {field.replace('_', ' ')} {theirs} there, {value} here, as you asked")
    changed = {field: value for field, value in known.items() if value is not None}
    return (name,), dataclasses.replace(matched, **changed), notes


def _matched(
    options: argparse.Namespace, place: Device, framework: Framework
) -> tuple[str, RequestedConfig, list[str]]:
    from tprimat.frameworks import match
    from tprimat.frameworks.loops import building
    from tprimat.store import store

    run = store.read(options.match)[0]
    name, matched = match.wishes(run, options.match)
    notes = []
    if options.precision is None:
        match.check_precision(run, options.match, framework.precisions, framework.name)
    elif options.precision != (matched.precision,):
        theirs = matched.precision or "a precision that it doesn't state"
        notes.append(f"{options.match}: {theirs} there, {', '.join(options.precision)} here, as you asked")
    num_gpus = options.gpus or (1 if place.platform == "cpu" else place.devices)
    if framework.divides:
        matched = match.divided(matched, run)
    ours = building.hyperparameters(run.model_config) if framework.name == "lightning" else run.optimizer
    different = match.differences(
        run, num_gpus, ours, options.data or framework.data, framework=framework.name, divides=framework.divides
    )
    return name, matched, [*notes, *(f"{options.match}: {each}" for each in different)]


def place_of(machine: Machine) -> Device:
    """The machine as far as what is trained depends on it."""
    gpu, environment = machine.gpu_info, machine.environment
    if machine.platform == "cpu":
        from tprimat.machine.host import Host, memory_limit_gb

        limits = [limit for limit in (gpu.total_memory_gb, memory_limit_gb(Host())) if limit is not None]
        return Device("cpu", environment.cpu_threads or 1, min(limits) * GB if limits else None)
    # Where the GPUs differ, the smallest bounds what each of them can hold.
    sizes = [each.info.total_memory_gb for each in machine.devices] or [gpu.total_memory_gb]
    known = [size for size in sizes if size is not None]
    memory = min(known) * GB if known else None
    return Device(machine.platform, gpu.device_count or 1, memory, gpu.architecture, gpu.device_name)


def _parser() -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        prog="tprimat benchmark" if program in ("tprimat", "__main__.py") else program,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_setup(parser.add_argument_group("what to train"))
    _add_measuring(parser.add_argument_group("how to measure"))
    nemo_options.add(parser, _at_least)
    add_output_options(parser, **OF_TRAININGS)
    return parser


def _add_setup(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model",
        type=_names(models.names(), "model", all_allowed=True),
        metavar="NAME",
        help=f"{', '.join(models.names())}, several with commas between, or all (default: all); or encdec, the "
        "encoder-decoder, whose options are others: --model encdec --help",
    )
    group.add_argument(
        "--scale",
        metavar="NAME",
        help=f"size of the models: {', '.join(scales.names())} (default: the largest whose weights, gradients and "
        "optimizer states leave a fifth of a GPU's memory free; tiny on a CPU)",
    )
    group.add_argument(
        "--precision",
        type=_names(PRECISIONS, "precision"),
        metavar="NAME",
        help=f"{', '.join(PRECISIONS)}; several with commas between are measured in turn, each labelled by its name "
        "(default: bf16 on a GPU that has it, fp32 on a CPU)",
    )
    group.add_argument("--micro-batch-size", type=_at_least(1), metavar="N", help="sequences per forward pass of a GPU")
    group.add_argument("--global-batch-size", type=_at_least(1), metavar="N", help="sequences per step, over all GPUs")
    group.add_argument("--sequence-length", type=_at_least(2), metavar="N", help="tokens per sequence")
    group.add_argument("--seed", type=_at_least(0), metavar="N", help="of the weights and the tokens")
    group.add_argument(
        "--match",
        type=Path,
        metavar="RESULT",
        help="take model, shape, batch, sequence, precision, seed and steps from this result; what can't be taken "
        "over is said",
    )


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--runs",
        type=_at_least(1),
        default=1,
        metavar="N",
        help="trainings of each setup, each in a fresh process (default: 1; to tell two sides apart takes 3 or more)",
    )
    group.add_argument(
        "--steps",
        type=_at_least(1),
        metavar="N",
        help="steps of a training (default: 60 on a CPU, 200 on a GPU)",
    )
    group.add_argument(
        "--time-limit",
        type=_duration,
        default=DEFAULT_TIME_LIMIT,
        metavar="TIME",
        help=f"ends the steps of a training early, such as 90s, 10m or 1h30m (default: {DEFAULT_TIME_LIMIT})",
    )
    group.add_argument(
        "--cooldown",
        type=_seconds,
        metavar="SECONDS",
        help="rest between two trainings (default: 30 on a GPU, 0 on a CPU)",
    )
    group.add_argument(
        "--gpus",
        type=_at_least(1),
        metavar="N",
        help="GPUs to train on (default: all); on a CPU, processes that share it (default: 1)",
    )
    group.add_argument(
        "--framework",
        metavar="NAME",
        help="what trains: lightning, transformers, fsdp, deepspeed (or deepspeed-zero1 to -zero3), nemo, primus, "
        "megatron, torchtitan; several with commas between, or all that can run here, are measured in turn and "
        "compared (default: the first that can run here)",
    )
    group.add_argument("--label", type=_label, metavar="NAME", help="your name for the setup; also in the file's name")
    group.add_argument(
        "--output-dir",
        type=Path,
        default=Path(DEFAULT_OUTPUT),
        metavar="DIR",
        help=f"folder for results, and logs/ in it (default: {DEFAULT_OUTPUT})",
    )
    group.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="put results, logs and environment into one .tar.gz or .zip to send to whoever compares",
    )
    group.add_argument(
        "--profile",
        choices=tuple(PROFILERS),
        metavar="NAME",
        help="a profiler watches the last steps, which are marked and which no figure is of: "
        + "; ".join(f"{name}: {text}" for name, text in PROFILERS.items()),
    )
    group.add_argument("--dry-run", action="store_true", help="show the commands and what they would do; run nothing")


def _names(known: Sequence[str], what: str, *, all_allowed: bool = False) -> Callable[[str], tuple[str, ...]]:
    """Reads names with commas between them."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",")))
        if all_allowed and names == ("all",):
            return tuple(known)
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                choices = ", ".join([*known, *(["all"] if all_allowed else [])])
                raise argparse.ArgumentTypeError(
                    f"there is no {what} {name!r}: " + (f"is {near[0]} meant?" if near else f"choose from {choices}")
                )
        return names

    return read


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is too small: the least is {least}")
        return int(text)

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
