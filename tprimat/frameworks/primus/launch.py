"""The framework `primus`: AMD's trainer, where it is installed.

Primus writes a log and no result: the log is read, with the record of its start beside it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, resolve, scales
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.primus import checks, start_record
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.plan import Plan, PrimusRequest, plan
from tprimat.frameworks.primus.start_record import StartRecord
from tprimat.frameworks.request import Launch, PreflightResult, Request
from tprimat.machine import host as hosts
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.results.run import GpuInfo

NAME = "primus"
ROCM_VERSION_FILE = "/opt/rocm/.info/version"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrimusTraining(Request):
    """A request with what Primus is started with: its configuration, its command line, its machines."""

    plan: Plan

    @property
    def result_elsewhere(self) -> str | None:
        """Why another machine makes the result; None where this one does."""
        last = self.plan.nodes - 1
        if self.plan.node == last:
            return None
        return f"the iteration lines are printed by the last machine (NODE_RANK={last}): the result is made there"


def unavailable() -> str | None:
    """Return why Primus can't run here and what to do; None where it can."""
    if shutil.which("bash") is None:
        return "its scripts need bash, which isn't here"
    return primus_installation.from_environment(os.environ).problem()


class Resolver(resolve.Resolver):
    """The choices of Primus: those of its own configuration, which is planned with what is requested."""

    def resolve(self, output_dir: Path) -> Request:
        """Return the request with its plan. Raises UsageError for all but the full size."""
        requested, model, device = self.requested, self.model, self.device
        if requested.scale not in (None, scales.FULL):
            raise UsageError(
                f"Primus trains models at full size: leave --scale {requested.scale} out", heading="unknown-scale"
            )
        if requested.shape is not None and models.with_shape(requested.shape) is not model:
            raise UsageError(
                f"Primus trains {model.title} at full size only: that result is of another shape", heading="cant-match"
            )
        gpu = primus_installation.gpu_by_facts(device.architecture, device.memory_bytes)
        devices = device.devices if device.platform != "cpu" else 0
        config = os.environ.get("PRIMUS_CONFIG", "").strip()
        options = {**vars(requested), "steps": requested.steps or defaults.STEPS_ON_GPU}
        chosen = plan(
            PrimusRequest(model=model.name, config=Path(config) if config else None, **options),
            primus_installation.from_environment(os.environ),
            os.environ,
            gpu=gpu,
            devices=devices,
        )
        request = request_of(chosen, output_dir, label=requested.label, time_limit_s=requested.time_limit_s)
        if not (request.global_batch_size and request.micro_batch_size and request.sequence_length):
            raise UsageError(
                f"{chosen.configuration.path}: doesn't state the batch and the sequence length: give "
                "--global-batch-size, --micro-batch-size and --sequence-length",
                heading="primus-config",
            )
        self.notes += notes(chosen)
        if device.platform != "amd":
            self.notes.append(checks.NO_AMD_GPU)
        return request


def notes(chosen: Plan) -> tuple[str, ...]:
    """Return what the user should know of a plan."""
    spread = chosen.setup().parallelism_config
    sizes = {
        "TP": spread.tensor_model_parallel_size,
        "PP": spread.pipeline_model_parallel_size,
        "CP": spread.context_parallel_size,
        "EP": spread.expert_model_parallel_size,
    }
    divided = "".join(f", {name} {size}" for name, size in sizes.items() if size and size > 1)
    where = f"Primus in {chosen.installation.path}, {chosen.launcher}, {chosen.configuration.path.name}{divided}"
    return (where, *chosen.notes)


def request_of(
    chosen: Plan, output_dir: Path, *, label: str | None = None, time_limit_s: float | None = None
) -> PrimusTraining:
    """Return a plan as a request; sizes that the configuration leaves open are 0."""
    setup = chosen.setup()
    training, spread = setup.training_config, setup.parallelism_config
    seed = chosen.configuration.value("seed")
    return PrimusTraining(
        framework=NAME,
        platform="amd",
        model=chosen.model,
        scale=scales.FULL,
        precision=chosen.precision,
        steps=chosen.configuration.count("train_iters") or 0,
        global_batch_size=training.global_batch_size or 0,
        micro_batch_size=training.micro_batch_size or 0,
        sequence_length=training.sequence_length or 0,
        seed=seed if isinstance(seed, int) else defaults.SEED,
        num_gpus=chosen.num_gpus,
        output_dir=output_dir,
        time_limit_s=time_limit_s,
        label=label,
        num_nodes=chosen.nodes,
        tensor_model_parallel_size=spread.tensor_model_parallel_size or 1,
        pipeline_model_parallel_size=spread.pipeline_model_parallel_size or 1,
        context_parallel_size=spread.context_parallel_size or 1,
        plan=chosen,
    )


def launch(request: PrimusTraining) -> Launch:
    """Return Primus' own command, with TIME in the place of the moment of its start."""
    name = _experiment(request.plan, "TIME")
    return request.plan.launch(name, _train_log(request, name))


def preflight(request: PrimusTraining, machine: Machine) -> PreflightResult:
    """Return what Primus would fail on after minutes of starting."""
    return checks.check(request.plan, machine, os.environ, request.output_dir)


def start(framework: Framework, request: PrimusTraining, machine: Machine, log: Path) -> Launch:
    """Return Primus' command for the training of a log; write the record of the start beside the log.

    Raises:
        UsageError: the folder for Primus' own logs can't be made.
    """
    chosen = request.plan
    moment = re.search(r"\d{8}_\d{6}.*", log.stem)
    name = _experiment(chosen, f"{moment[0] if moment else log.stem}_{os.getpid()}")
    copy = _train_log(request, name)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{copy.parent}: can't be made: {error.strerror or error}: choose another --output-dir",
            heading="unwritable-folder",
        ) from error
    command = chosen.launch(name, copy)
    files.write_atomically(start_record.path_for(log), start_record.encode(_record(chosen, name, command, machine)))
    return command


def _record(chosen: Plan, name: str, command: Launch, machine: Machine) -> StartRecord:
    run, host = chosen.setup(), Host()
    # Where this Python's torch sees no AMD GPU it isn't the one that Primus trains with: neither the device nor the
    # packages are of the training then. ROCm may be another one than torch's own.
    amd = machine.platform == "amd"
    own = {
        "primus": hosts.commit(host, chosen.installation.path),
        "rocm": (host.read(ROCM_VERSION_FILE) or "").strip(),
    }
    versions = machine.environment.versions if amd else {}
    versions = {**versions, **{package: version for package, version in own.items() if version}}
    return StartRecord(
        experiment=name,
        started=start_record.now(),
        platform="amd" if amd else None,
        gpu_info=machine.gpu_info if amd else GpuInfo(),
        environment=msgspec.structs.replace(machine.environment, versions=versions),
        model=run.model or chosen.model,
        scale=run.scale,
        model_config=run.model_config,
        training_config=run.training_config,
        parallelism_config=run.parallelism_config,
        command=command.argv,
    )


def log_name(request: PrimusTraining, moment: str) -> str:
    """Return the name of a training's log, without its ending."""
    return f"primus_training_{request.model}_{moment}{_node(request)}"


def latest_log(request: PrimusTraining) -> str | None:
    """Return the file that is always a copy of the newest log."""
    return f"training_{request.model}{_node(request)}.log"


def _node(request: PrimusTraining) -> str:
    return f"_node{request.plan.node}" if request.plan.nodes > 1 else ""


def _train_log(request: PrimusTraining, name: str) -> Path:
    """Return where Primus' own copy of an experiment's log goes."""
    return request.output_dir.absolute() / NAME / name / "train.log"


def _experiment(chosen: Plan, moment: str) -> str:
    """Return a name for Primus' folder of logs that tells trainings apart."""
    return f"tprimat_{chosen.model}_{chosen.precision}_{moment}"
