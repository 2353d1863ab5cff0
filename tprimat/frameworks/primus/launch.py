"""The framework `primus`: AMD's trainer, where it is installed.

Primus writes a log and no result. `./benchmark.py --framework primus` therefore starts our command
run-primus, which checks, starts Primus, keeps its log and makes the result of it; the scripts start
the same.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, resolve, scales
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.installation import PRECISIONS
from tprimat.frameworks.primus.plan import Plan, PrimusRequest, plan
from tprimat.frameworks.request import Launch, Request, RequestedConfig
from tprimat.frameworks.scales import Scale
from tprimat.machine import platforms
from tprimat.results.run import ModelConfig

NAME = "primus"


def unavailable() -> str | None:
    """Return why Primus can't run here and what to do; None where it can."""
    if shutil.which("bash") is None:
        return "its scripts need bash, which isn't here"
    return primus_installation.from_environment(os.environ).problem()


class Resolver(resolve.Resolver):
    """The choices of Primus' own configuration."""

    def prepare(self) -> None:
        """Refuse all but the full size, and let the configuration fill what is open."""
        requested, model, device = self.requested, self.model, self.device
        if requested.scale not in (None, scales.FULL):
            raise UsageError(
                f"Primus trains models at full size: leave --scale {requested.scale} out", heading="unknown-scale"
            )
        if requested.shape is not None and models.with_shape(requested.shape) is not model:
            raise UsageError(
                f"Primus trains {model.title} at full size only: that result is of another shape", heading="cant-match"
            )
        steps = requested.steps or defaults.STEPS_ON_GPU
        gpu = primus_installation.gpu_by_facts(device.architecture, device.memory_bytes)
        self.plan = _plan(
            dataclasses.replace(requested, steps=steps),
            model.name,
            gpu,
            device.devices if device.platform != "cpu" else 0,
        )
        configuration = self.plan.configuration
        seed = configuration.value("seed")
        self.requested = dataclasses.replace(
            requested,
            steps=steps,
            sequence_length=configuration.count("seq_length"),
            seed=seed if isinstance(seed, int) else None,
        )
        self.notes += [f"Primus in {self.plan.installation.path}, {self.plan.launcher}, {configuration.path.name}"]
        self.notes += self.plan.notes
        if device.platform != "amd":
            self.notes.append("torch sees no AMD GPU here: Primus will hardly train")
        self.device = dataclasses.replace(device, platform="amd")

    def precision(self) -> str:
        """Return the configuration's."""
        return self.plan.precision

    def size(self) -> tuple[Scale, ModelConfig]:
        """Return the full size."""
        return scales.by_name(scales.FULL), self.model.shape

    def processes(self) -> tuple[int, int]:
        """Return the GPUs of this machine."""
        return self.plan.gpus, 1

    def batch(self, replicas: int, gpus: int) -> tuple[int, int]:
        """Return the configuration's micro and global batch size, which its plan has checked."""
        configuration = self.plan.configuration
        micro, batch = configuration.count("micro_batch_size"), configuration.count("global_batch_size")
        if batch is None or micro is None or self.requested.sequence_length is None:
            raise UsageError(
                f"{configuration.path}: doesn't state the batch and the sequence length: give --global-batch-size, "
                "--micro-batch-size and --sequence-length",
                heading="primus-config",
            )
        return micro, batch

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Return the request as it is: what the memory holds, Primus' configuration knows."""
        return request


def _plan(requested: RequestedConfig, model: str, gpu: str | None, devices: int) -> Plan:
    config = os.environ.get("PRIMUS_CONFIG", "").strip()
    return plan(
        PrimusRequest(
            model=model,
            precision=requested.precision,
            iterations=requested.steps,
            global_batch_size=requested.global_batch_size,
            micro_batch_size=requested.micro_batch_size,
            sequence_length=requested.sequence_length,
            seed=requested.seed,
            gpus=requested.num_gpus,
            time_limit_s=requested.time_limit_s,
            config=Path(config) if config else None,
        ),
        primus_installation.from_environment(os.environ),
        os.environ,
        gpu=gpu,
        devices=devices,
    )


def launch(request: Request) -> Launch:
    """Return our command that runs Primus and makes the result."""
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
    """Return the command of Primus itself that launch()'s command comes to, for showing."""
    requested = RequestedConfig(
        precision=request.precision if request.precision in PRECISIONS else None,
        steps=request.steps,
        global_batch_size=request.global_batch_size,
        micro_batch_size=request.micro_batch_size,
        sequence_length=request.sequence_length,
        seed=request.seed,
        num_gpus=request.num_gpus,
        time_limit_s=request.time_limit_s,
    )
    gpu = primus_installation.gpu_of(platforms.detect().gpu_info)
    chosen = _plan(requested, request.model, gpu, request.num_gpus)
    name = experiment(chosen, "TIME")
    return chosen.launch(name, train_log(request.output_dir, name))


def train_log(output_dir: Path, name: str) -> Path:
    """Return where Primus' own copy of an experiment's log goes."""
    return output_dir.absolute() / NAME / name / "train.log"


def experiment(chosen: Plan, moment: str) -> str:
    """Return a name for Primus' folder of logs that tells trainings apart."""
    return f"tprimat_{chosen.model}_{chosen.precision}_{moment}"
