"""The framework `primus`: AMD's trainer, where it is installed.

Primus writes a log and no result. `./benchmark.py --framework primus` therefore starts our command
run-primus, which checks, starts Primus, keeps its log and makes the result of it; the scripts start
the same.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.installation import FILES, PRECISIONS
from tprimat.frameworks.primus.plan import Plan, PrimusRequest, plan
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig
from tprimat.machine import platforms

NAME = "primus"
FULL = "full"

STEPS = 200
"""Steps of a measurement: intervals within one run cover what they promise from some 200 on."""


def unavailable() -> str | None:
    """Why Primus can't run here, and what to do; None where it can."""
    if shutil.which("bash") is None:
        return "its scripts need bash, which isn't here"
    return primus_installation.from_environment(os.environ).problem()


def resolve_config(
    name: str, wishes: RequestedConfig, place: Device, output_dir: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request with every choice made. Raises UsageError for wishes that Primus can't meet."""
    model = models.by_name(name)
    if wishes.scale not in (None, FULL):
        raise UsageError(
            f"Primus trains models at full size: leave --scale {wishes.scale} out", heading="unknown-scale"
        )
    if wishes.shape is not None and models.with_shape(wishes.shape) is not model:
        raise UsageError(
            f"Primus trains {model.title} at full size only: that result is of another shape", heading="cant-match"
        )
    steps = wishes.steps or STEPS
    asked = PrimusRequest(
        model=name,
        precision=wishes.precision,
        iterations=steps,
        global_batch_size=wishes.global_batch_size,
        micro_batch_size=wishes.micro_batch_size,
        sequence_length=wishes.sequence_length,
        seed=wishes.seed,
        gpus=wishes.num_gpus,
        time_limit_s=wishes.time_limit_s,
        config=_config_of(os.environ),
    )
    made = plan(
        asked,
        primus_installation.from_environment(os.environ),
        os.environ,
        gpu=primus_installation.gpu_by_facts(place.architecture, place.memory_bytes),
        devices=place.devices if place.platform != "cpu" else 0,
    )
    setup = made.setup().training_config
    batch, micro, length = setup.global_batch_size, setup.micro_batch_size, setup.sequence_length
    if batch is None or micro is None or length is None:
        raise UsageError(
            f"{made.configuration.path}: doesn't state the batch and the sequence length: give --global-batch-size, "
            "--micro-batch-size and --sequence-length",
            heading="primus-config",
        )
    seed = made.configuration.value("seed")
    request = Request(
        framework=NAME,
        platform="amd",
        model=model.name,
        scale=FULL,
        precision=made.precision,
        steps=steps,
        global_batch_size=batch,
        micro_batch_size=micro,
        sequence_length=length,
        seed=seed if isinstance(seed, int) else 1234,
        num_gpus=made.gpus,
        output_dir=output_dir,
        time_limit_s=wishes.time_limit_s,
        label=wishes.label,
    )
    notes = [f"Primus in {made.installation.path}, {made.launcher}, {made.configuration.path.name}", *made.notes]
    if place.platform != "amd":
        notes.append("torch sees no AMD GPU here: Primus will hardly train")
    return request, tuple(notes)


def launch(request: Request) -> Launch:
    """Our command that runs Primus and makes the result."""
    options = [
        f"--model={request.model}",
        f"--train-iters={request.steps}",
        *([f"--precision={request.precision}"] if request.precision in PRECISIONS else []),
        f"--global-batch-size={request.global_batch_size}",
        f"--micro-batch-size={request.micro_batch_size}",
        f"--sequence-length={request.sequence_length}",
        f"--seed={request.seed}",
        f"--gpus={request.num_gpus}",
        f"--output-dir={request.output_dir}",
        *([f"--exit-after={request.time_limit_s:g}"] if request.time_limit_s is not None else []),
        *([f"--label={request.label}"] if request.label is not None else []),
        "--runs=1",
    ]
    # PRIMUS_CONFIG may be a path from where the user is.
    return Launch((sys.executable, "-m", "tprimat", "run-primus", *options), {"PYTHONUNBUFFERED": "1"}, Path.cwd())


def inner(request: Request) -> Launch:
    """The command of Primus itself that launch()'s command comes to, for showing."""
    gpu = primus_installation.gpu_of(platforms.detect().gpu_info)
    asked = PrimusRequest(
        model=request.model,
        precision=request.precision if request.precision in PRECISIONS else None,
        iterations=request.steps,
        global_batch_size=request.global_batch_size,
        micro_batch_size=request.micro_batch_size,
        sequence_length=request.sequence_length,
        seed=request.seed,
        gpus=request.num_gpus,
        time_limit_s=request.time_limit_s,
        config=_config_of(os.environ),
    )
    installation = primus_installation.from_environment(os.environ)
    made = plan(asked, installation, os.environ, gpu=gpu, devices=request.num_gpus)
    name = experiment(made, "TIME")
    return made.launch(name, train_log(request.output_dir, name))


def train_log(output_dir: Path, name: str) -> Path:
    """Where Primus' own copy of an experiment's log goes."""
    return output_dir.absolute() / NAME / name / "train.log"


def experiment(made: Plan, moment: str) -> str:
    """A name for Primus' folder of logs that tells trainings apart."""
    return f"tprimat_{made.model}_{made.precision}_{moment}"


def _config_of(environ: Mapping[str, str]) -> Path | None:
    text = environ.get("PRIMUS_CONFIG", "").strip()
    return Path(text) if text else None


PRIMUS = Framework(
    NAME,
    unavailable,
    resolve_config,
    launch,
    models=tuple(FILES),
    automatic_on=(),
    precisions=PRECISIONS,
    data="mock",
    inner=inner,
)
