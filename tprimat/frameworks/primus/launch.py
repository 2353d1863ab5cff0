"""The framework `primus`: AMD's trainer, whose log is read, with the record of its start next to
it.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
import shutil
from pathlib import Path

from tprimat import files
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, scales
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.primus.checks import NO_AMD_GPU, preflight
from tprimat.frameworks.primus.installation import CLI, SCRIPT, from_environment
from tprimat.frameworks.primus.request import PrimusRequest, PrimusTraining
from tprimat.frameworks.primus.resolve import Planner
from tprimat.frameworks.request import DEFAULT, Launch, PreflightResult, Request
from tprimat.machine import host as hosts
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.results.run import GpuInfo, ModelConfig
from tprimat.store import start_record
from tprimat.store.history import UNFINISHED
from tprimat.store.start_record import StartRecord

ROCM_VERSION_FILE = "/opt/rocm/.info/version"

_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


class Resolver(Planner):
    """The choices of `benchmark`, which trains the full size, in 200 steps unless the user requests
    others.
    """

    def prepare(self) -> None:
        """Refuse all but the full size; take the configuration that the environment names."""
        if self.requested.scale not in (None, scales.FULL):
            raise UsageError(
                f"Primus trains models at full size: leave --scale {self.requested.scale} out",
                heading="unknown-scale",
            )
        if (
            self.requested.shape is not None
            and models.with_shape(self.requested.shape) is not self.model
        ):
            raise UsageError(
                f"Primus trains {self.model.title} at full size only: that result has another"
                " shape",
                heading="cant-match",
            )
        config = os.environ.get("PRIMUS_CONFIG", "").strip()
        options = vars(self.requested)
        if self.requested.steps is None:
            options = {
                **options,
                "steps": defaults.STEPS_ON_GPU,
                "origins": {**self.requested.origins, "steps": DEFAULT},
            }
        self.requested = PrimusRequest(**options, config=Path(config) if config else None)
        super().prepare()

    def complete(self, request: Request, shape: ModelConfig) -> PrimusTraining:
        """Return the request with Primus' own fields. Raises UsageError if the configuration states
        no sizes.
        """
        training = super().complete(request, shape)
        if not (
            training.global_batch_size and training.micro_batch_size and training.sequence_length
        ):
            raise UsageError(
                f"{training.configuration.path}: batch size and sequence length are missing",
                hint="give --global-batch-size, --micro-batch-size and --sequence-length",
                heading="primus-config",
            )
        self.notes = [*notes(training), *([NO_AMD_GPU] if self.device.platform != "amd" else [])]
        return training


def notes(request: PrimusTraining) -> tuple[str, ...]:
    """Return texts for the user on a training: Primus, launcher, division, notes."""
    sizes = {
        **request.division,
        "EP": request.setup.parallelism_config.expert_model_parallel_size or 1,
    }
    divided = "".join(f", {name} {size}" for name, size in sizes.items() if size > 1)
    where = (
        f"Primus in {request.installation.path}, {request.launcher},"
        f" {request.configuration.path.name}{divided}"
    )
    return (where, *request.notes)


class Primus(Loop[PrimusTraining]):
    """AMD's launchers, and the record of a training's start next to its log."""

    logged = True
    start_s = 120.0
    full_size_only = True
    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why Primus can't run here and what to do; None if it can."""
        if shutil.which("bash") is None:
            return "its scripts need bash, which isn't here"
        return from_environment(os.environ).problem()

    def preflight(self, request: PrimusTraining, machine: Machine) -> PreflightResult:
        """Return what Primus would fail on after minutes of starting."""
        return preflight(request, machine)

    def launch(self, request: PrimusTraining) -> Launch:
        """Return Primus' own command, with TIME in the place of the moment of its start."""
        return command(request, "TIME")

    def start(self, request: PrimusTraining, machine: Machine, log: Path) -> Launch:
        """Return Primus' command for the training of a log; write the record of its start next to
        it.
        """
        moment = re.search(r"\d{8}_\d{6}.*", log.stem)
        made = command(request, f"{moment[0] if moment else log.stem}_{os.getpid()}")
        folder = Path(made.env["TRAIN_LOG"]).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise files.unwritable(folder, error, "cannot be made") from error
        path = start_record.path_for(log)
        content = start_record.encode(_record(request, made, machine))
        # As a result is written: the next command removes what one that was killed has left.
        with (
            files.lock_folder(path.parent),
            files.write_temp_beside(path, content, UNFINISHED) as whole,
        ):
            os.replace(whole, path)
        return made

    def log_name(self, request: PrimusTraining, moment: str) -> str:
        """Return the name of a training's log, without its ending."""
        return f"primus_training_{request.model}_{moment}{request.node_suffix}"

    def latest_log(self, request: PrimusTraining) -> str | None:
        """Return the file that is always a copy of the newest log."""
        return f"training_{request.model}{request.node_suffix}.log"


LAUNCHER = Primus()


def command(request: PrimusTraining, moment: str) -> Launch:
    """Return the command of a training that starts at a moment, of which there is only one.

    The directory of TRAIN_LOG, Primus' own copy of the log, must be there: some versions don't make
    it, and the default of some can't be written at all.
    """
    path = request.configuration.path.absolute()
    root = request.installation.path
    config = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    if not _SAFE.fullmatch(config):
        raise UsageError(
            f"{path}: Primus' scripts don't support spaces or special characters in a path",
            hint="copy the configuration to another path",
            heading="primus-config",
        )
    # Primus appends to the files in a directory of this name, and its default name is the same for
    # all precisions.
    experiment = f"tprimat_{request.model}_{request.precision}_{moment}"
    train_log = str(request.output_dir.absolute() / "primus" / experiment / "train.log")
    environment = {
        "EXP": config,
        "PRIMUS_EXP_NAME": experiment,
        # Its name before v0.5.
        "EXP_NAME": experiment,
        "TRAIN_LOG": train_log,
        "GPUS_PER_NODE": str(request.gpus_per_node),
        "PYTHONUNBUFFERED": "1",
    }
    if request.rendezvous is not None:
        # As primus-cli-slurm-entry.sh sets them on each node before it calls `primus-cli direct`
        # (Primus fd1eeab).
        address, _, port = request.rendezvous.rpartition(":")
        environment |= {"NNODES": str(request.num_nodes), "NODE_RANK": str(request.node_index)}
        environment |= {"MASTER_ADDR": address, "MASTER_PORT": port}
    if request.visible is not None:
        # Primus' launchers set HIP_VISIBLE_DEVICES to the first GPUs: the first of these.
        environment["ROCR_VISIBLE_DEVICES"] = request.visible
    evaluated = request.installation.evaluates(request.launcher)
    words = [shlex.quote(word) if evaluated else word for word in request.arguments]
    command = ["bash", str(SCRIPT)]
    if request.launcher != "run_pretrain.sh":
        # Several versions pass the file's name through a shell unquoted; all that is printed is
        # kept here anyway.
        copy = train_log if not evaluated or _SAFE.fullmatch(train_log) else os.devnull
        command = [
            "bash",
            str(CLI),
            "direct",
            "--log_file",
            copy,
            "--",
            "train",
            "pretrain",
            "--config",
            config,
        ]
    return Launch((*command, *words), environment, root)


def _record(request: PrimusTraining, command: Launch, machine: Machine) -> StartRecord:
    host = Host()
    # If this Python's torch sees no AMD GPU it isn't the one that Primus trains with: neither the
    # device nor the packages are of the training then. ROCm may be another one than torch's own.
    amd = machine.platform == "amd"
    rocm = (host.read(ROCM_VERSION_FILE) or "").strip()
    own = {"primus": hosts.commit(host, request.installation.path), "rocm": rocm}
    versions = {
        **(machine.environment.versions if amd else {}),
        **{name: version for name, version in own.items() if version},
    }
    return StartRecord(
        experiment=command.env["PRIMUS_EXP_NAME"],
        started=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        platform="amd" if amd else None,
        gpu_info=machine.gpu_info if amd else GpuInfo(),
        environment=machine.environment.but(versions=versions),
        model=request.setup.model or request.model,
        command=command.argv,
        **{
            name: getattr(request.setup, name)
            for name in (
                "scale",
                "model_config",
                "training_config",
                "parallelism_config",
                "framework_config",
            )
        },
    )
