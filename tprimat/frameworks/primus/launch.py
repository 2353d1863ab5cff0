"""The framework `primus`: AMD's trainer, whose log is read, with the record of its start beside it."""

from __future__ import annotations

import datetime
import os
import re
import shutil
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, resolve, scales
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.primus import start_record
from tprimat.frameworks.primus.checks import NO_AMD_GPU, preflight
from tprimat.frameworks.primus.installation import from_environment
from tprimat.frameworks.primus.plan import PrimusRequest, PrimusTraining, plan
from tprimat.frameworks.primus.start_record import StartRecord
from tprimat.frameworks.request import Launch, PreflightResult, Request
from tprimat.machine import host as hosts
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.results.run import GpuInfo

ROCM_VERSION_FILE = "/opt/rocm/.info/version"


class Resolver(resolve.Resolver):
    """The choices of Primus: those of its own configuration, which is planned with what is requested."""

    full_size = True

    def resolve(self, output_dir: Path) -> Request:
        """Return the request with its plan. Raises UsageError for all but the full size."""
        requested, model, device = self.requested, self.model, self.device
        if requested.scale not in (None, scales.FULL):
            raise UsageError(
                f"Primus trains models at full size: leave --scale {requested.scale} out", heading="unknown-scale"
            )
        if requested.shape is not None and models.with_shape(requested.shape) is not model:
            raise UsageError(
                f"Primus trains {model.title} at full size only: that result has another shape", heading="cant-match"
            )
        config = os.environ.get("PRIMUS_CONFIG", "").strip()
        options = {**vars(requested), "steps": requested.steps or defaults.STEPS_ON_GPU}
        wanted = PrimusRequest(model=model.name, config=Path(config) if config else None, **options)
        request = plan(wanted, from_environment(os.environ), os.environ, device, output_dir)
        if not (request.global_batch_size and request.micro_batch_size and request.sequence_length):
            raise UsageError(
                f"{request.configuration.path}: batch size and sequence length are missing",
                hint="give --global-batch-size, --micro-batch-size and --sequence-length",
                heading="primus-config",
            )
        self.notes += notes(request)
        if device.platform != "amd":
            self.notes.append(NO_AMD_GPU)
        return request


def notes(request: PrimusTraining) -> tuple[str, ...]:
    """Return what the user should know of a training."""
    sizes = {**request.division, "EP": request.setup.parallelism_config.expert_model_parallel_size or 1}
    divided = "".join(f", {name} {size}" for name, size in sizes.items() if size > 1)
    where = f"Primus in {request.installation.path}, {request.launcher}, {request.configuration.path.name}{divided}"
    return (where, *request.notes)


class Primus(Loop[PrimusTraining]):
    """AMD's launchers, and the record of a training's start beside its log."""

    logged = True
    full_size_only = True
    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why Primus can't run here and what to do; None where it can."""
        if shutil.which("bash") is None:
            return "its scripts need bash, which isn't here"
        return from_environment(os.environ).problem()

    def preflight(self, request: PrimusTraining, machine: Machine) -> PreflightResult:
        """Return what Primus would fail on after minutes of starting."""
        return preflight(request, machine)

    def launch(self, request: PrimusTraining) -> Launch:
        """Return Primus' own command, with TIME in the place of the moment of its start."""
        return request.launch("TIME")

    def start(self, request: PrimusTraining, machine: Machine, log: Path) -> Launch:
        """Return Primus' command for the training of a log; write the record of its start beside it."""
        moment = re.search(r"\d{8}_\d{6}.*", log.stem)
        command = request.launch(f"{moment[0] if moment else log.stem}_{os.getpid()}")
        folder = Path(command.env["TRAIN_LOG"]).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise files.unwritable(folder, error, "can't be made") from error
        files.write_atomically(start_record.path_for(log), start_record.encode(_record(request, command, machine)))
        return command

    def log_name(self, request: PrimusTraining, moment: str) -> str:
        """Return the name of a training's log, without its ending."""
        return f"primus_training_{request.model}_{moment}{_node(request)}"

    def latest_log(self, request: PrimusTraining) -> str | None:
        """Return the file that is always a copy of the newest log."""
        return f"training_{request.model}{_node(request)}.log"


LAUNCHER = Primus()


def _record(request: PrimusTraining, command: Launch, machine: Machine) -> StartRecord:
    run, host = request.setup, Host()
    # Where this Python's torch sees no AMD GPU it isn't the one that Primus trains with: neither the device nor the
    # packages are of the training then. ROCm may be another one than torch's own.
    amd = machine.platform == "amd"
    rocm = (host.read(ROCM_VERSION_FILE) or "").strip()
    own = {"primus": hosts.commit(host, request.installation.path), "rocm": rocm}
    versions = {**(machine.environment.versions if amd else {}), **{name: each for name, each in own.items() if each}}
    return StartRecord(
        experiment=command.env["PRIMUS_EXP_NAME"],
        started=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        platform="amd" if amd else None,
        gpu_info=machine.gpu_info if amd else GpuInfo(),
        environment=msgspec.structs.replace(machine.environment, versions=versions),
        model=run.model or request.model,
        command=command.argv,
        **{
            name: getattr(run, name)
            for name in ("scale", "model_config", "training_config", "parallelism_config", "framework_config")
        },
    )


def _node(request: PrimusTraining) -> str:
    return f"_node{request.node_index}" if request.num_nodes > 1 else ""
