"""The trainings of one call of `run-primus`: checked, recorded, run, kept and read."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tprimat import files, units
from tprimat.cli import _benchmark_display as display
from tprimat.cli import _bundle, _display, extract_primus
from tprimat.errors import ExitStatus, TensorPrimatError, UsageError
from tprimat.frameworks.primus import checks as primus_checks
from tprimat.frameworks.primus import launch as primus
from tprimat.frameworks.primus import start_record
from tprimat.frameworks.primus.start_record import StartRecord
from tprimat.log_import.extract import GivenValues
from tprimat.machine import host as hosts
from tprimat.machine import platforms
from tprimat.machine.host import Host
from tprimat.measure import process
from tprimat.read.megatron import line as megatron_line
from tprimat.read.parsing import failures
from tprimat.read.parsing.text import Line, clean
from tprimat.record import progress
from tprimat.results.run import GpuInfo
from tprimat.store import store
from tprimat.store.store import Saved
from tprimat.text import plain

if TYPE_CHECKING:
    from tprimat.frameworks.primus.plan import Plan
    from tprimat.machine.platforms import Machine

ROCM_VERSION_FILE = "/opt/rocm/.info/version"
INTERRUPTED = 128 + 2
"""What a shell says of a command that Ctrl-C ended."""


def introduce(plans: Sequence[Plan], machine: Machine, advice: str | None) -> None:
    """Prints where and what will be trained, and what is to be known of it."""
    for line in display.machine(machine.platform, machine.gpu_info, machine.environment):
        display.say(line)
    for line in display.software(machine.environment):
        _display.debug(line)
    first = plans[0]
    display.say(f"Primus in {plain(str(first.installation.path))}, started by {first.launcher}")
    rows = [("model", "configuration", "precision", "batch", "micro", "sequence", "parallel", "steps", "GPUs")]
    for made in plans:
        run = made.setup()
        training, spread = run.training_config, run.parallelism_config
        sizes = (
            ("TP", spread.tensor_model_parallel_size),
            ("PP", spread.pipeline_model_parallel_size),
            ("CP", spread.context_parallel_size),
            ("EP", spread.expert_model_parallel_size),
        )
        rows.append(
            (
                made.model,
                made.configuration.path.name,
                made.precision,
                _shown(training.global_batch_size),
                _shown(training.micro_batch_size),
                _shown(training.sequence_length),
                " ".join(f"{name}{size}" for name, size in sizes if size and size > 1) or "data only",
                _shown(made.configuration.count("train_iters")),
                str(made.num_gpus),
            )
        )
    display.say("")
    for line in display.table(rows):
        display.say(line)
    for note in dict.fromkeys(note for made in plans for note in made.notes):
        display.note(note)
    if advice:
        display.note(advice)


def checked(plans: Sequence[Plan], machine: Machine, output_dir: Path) -> bool:
    """Whether nothing speaks against starting; says what does, and what is doubtful."""
    faults: list[str] = []
    doubts: list[str] = []
    for made in plans:
        found = primus_checks.check(made, machine, os.environ, output_dir.absolute())
        faults += [f"{made.model}: {fault}" for fault in found.faults]
        doubts += found.doubts
    if held := platforms.held_by_others(machine):
        doubts.append(held)
    for doubt in dict.fromkeys(doubts):
        display.note(doubt, wrong=True)
    for fault in dict.fromkeys(faults):
        display.say(f"error: {plain(fault)} (docs/troubleshooting.md#primus-checks)", error=True)
    return not faults


def show(plans: Sequence[Plan], output_dir: Path) -> None:
    """Prints the commands, and runs nothing."""
    for made in plans:
        name = primus.experiment(made, "TIME")
        display.say(f"\n{made.model} {made.precision}:")
        command = made.launch(name, primus.train_log(output_dir, name)).shell_line()
        display.would_run(command, model=made.model, framework=primus.NAME)
    display.say("\nNothing was run.")


class Job:
    """The trainings of one call.

    Attributes:
        trained: how many were started.
        saved: results, in the order in which they were written.
    """

    def __init__(
        self, machine: Machine, output_dir: Path, label: str | None, limit_s: float | None, bundle: Path | None
    ) -> None:
        self.trained = 0
        self.saved: list[Saved] = []
        self._machine = machine
        self._output_dir = output_dir
        self._label = label
        self._limit_s = limit_s
        self._bundle = bundle
        self._logs: list[Path] = []

    def train(self, made: Plan, which: str | None) -> int:
        """Runs one training and makes its result.

        Returns:
            The training's own status; TRAINING_FAILED where it ended well and its log holds no
            whole run, USAGE where the log can't be read.
        """
        self.trained += 1
        moment = datetime.datetime.now().astimezone()
        name = primus.experiment(made, f"{moment:%Y%m%d_%H%M%S}_{os.getpid()}_{self.trained}")
        log = self._log_path(made, moment)
        copy = primus.train_log(self._output_dir, name)
        _make_folder(copy.parent)
        launch = made.launch(name, copy)
        record = self._record(made, name, moment, launch.argv)
        start_record_path = start_record.path_for(log)
        files.write_atomically(start_record_path, start_record.encode(record))
        title = ", ".join(part for part in (f"{made.model} {made.precision}", which) if part)
        display.say(f"\n{title}: log in {log}")
        _display.debug(f"command: {launch.shell_line()}")
        _display.debug(f"what was recorded of the start: {start_record_path}")
        self._logs.append(log)
        try:
            ended = process.run(
                launch, log, on_line=_Follower().line, on_message=lambda message: None, limit_s=self._limit_s
            )
            status = INTERRUPTED if ended.interrupted else ended.status if ended.status >= 0 else 128 - ended.status
            why = _why(ended, self._limit_s)
            if why is not None:
                # The log itself can't know, and is what the result is made of.
                with log.open("a", encoding="utf-8") as file:
                    file.write(f"ERROR: TensorPrimat: {why}\n")
        finally:
            self._keep(made, log, start_record_path)
        if status:
            why = why or _cause(log) or "its log gives no reason"
            display.say(
                f"error: {title}: Primus ended with status {status}: {plain(why)} "
                "(docs/troubleshooting.md#training-failed)",
                error=True,
            )
        return self._read(made, log, status, why)

    def stop(self, made: Plan, plans: Sequence[Plan]) -> None:
        """Says what isn't run because a training failed, and where its log is."""
        display.say(f"    all of its output: {self._logs[-1]}", error=True)
        left = [each.model for each in plans if each is not made and plans.index(each) > plans.index(made)]
        if left:
            display.say(f"    not run: {', '.join(left)}", error=True)
        self._write_bundle()

    def sum_up(self, advice: str | None) -> None:
        """What was written, and what comes next."""
        display.say("")
        if advice:
            display.note(advice)
        for path in dict.fromkeys(saved.path for saved in self.saved):
            display.say(f"Result:  {path}")
        self._write_bundle()
        if self.saved:
            folder = "" if self._output_dir == Path("output") else f" {self._output_dir}"
            display.say(
                f"Next:    python3 compare_results.py{folder}, with the results of the other machine beside these"
            )

    def _log_path(self, made: Plan, moment: datetime.datetime) -> Path:
        node = f"_node{made.node}" if made.nodes > 1 else ""
        stem = f"primus_training_{made.model}_{moment:%Y%m%d_%H%M%S}{node}"
        return process.new_log(self._output_dir, stem)

    def _record(self, made: Plan, name: str, moment: datetime.datetime, command: Sequence[str]) -> StartRecord:
        run = made.setup()
        machine = self._machine
        # Where this Python's torch sees no AMD GPU it isn't the one that Primus trains with: neither the
        # device nor the packages are of the training then.
        amd = machine.platform == "amd"
        versions = {**(machine.environment.versions if amd else {}), **_primus_versions(made)}
        return StartRecord(
            experiment=name,
            started=moment.isoformat(timespec="seconds"),
            platform="amd" if amd else None,
            gpu_info=machine.gpu_info if amd else GpuInfo(),
            environment=msgspec.structs.replace(machine.environment, versions=versions),
            model=run.model or made.model,
            scale=run.scale,
            model_config=run.model_config,
            training_config=run.training_config,
            parallelism_config=run.parallelism_config,
            command=tuple(command),
        )

    def _keep(self, made: Plan, log: Path, record: Path) -> None:
        """Copies log and record to the names that are always those of the newest training."""
        node = f"_node{made.node}" if made.nodes > 1 else ""
        latest = self._output_dir / f"training_{made.model}{node}.log"
        for source, target in ((log, latest), (record, start_record.path_for(latest))):
            if not source.exists():
                continue
            part = target.with_name(f".{target.name}.part")
            try:
                shutil.copy2(source, part)
                os.replace(part, target)
            except OSError as error:
                display.note(
                    f"{target}: can't be written: {error.strerror or error}; the log is in {source}", wrong=True
                )

    def _read(self, made: Plan, log: Path, status: int, why: str | None) -> int:
        """Makes the result, and gives the status of the whole."""
        if made.nodes > 1 and made.node != made.nodes - 1:
            display.note(
                f"the iteration lines are printed by the last machine (NODE_RANK={made.nodes - 1}): the result is made "
                "there"
            )
            return status
        display.say("")
        try:
            saved = extract_primus.extract(str(log), self._output_dir, GivenValues(label=self._label))
        except TensorPrimatError as error:
            reason = why if status else error.message
            failed = msgspec.structs.replace(
                made.setup(), framework=primus.NAME, label=self._label, status="failed", status_reason=reason
            )
            _display.record(failed, None)
            if status and error.heading == "not-a-training-log":
                display.say("no result: the training ended before its first iteration", error=True)
            else:
                display.say(error.line(), error=True)
            return status or int(error.status)
        self.saved += saved
        for each in saved:
            if progress.is_enabled():
                _display.echo(progress.encode(progress.Saved(str(each.path.absolute()))))
        whole = any(run.status == "complete" for each in saved for run in store.read(each.path)[-1:])
        return status or (0 if whole else int(ExitStatus.TRAINING_FAILED))

    def _write_bundle(self) -> None:
        if self._bundle is not None and self.saved:
            results = list(dict.fromkeys(saved.path for saved in self.saved))
            _bundle.write_bundle(self._bundle, results, self._logs)


class _Follower:
    """Shows what Primus prints, and tells a parent how far it is."""

    def __init__(self) -> None:
        self._last = 0
        self._times: list[float] = []

    def line(self, text: str) -> None:
        """Takes a line of the output."""
        display.say(text)
        if not progress.is_enabled() or megatron_line.TIMED not in text:
            return
        for record in megatron_line.records(Line(1, clean(text), True)):
            if record.iteration <= self._last:
                continue
            self._last = record.iteration
            # The first iterations compile kernels, and say nothing of the time that is left.
            if record.seconds is not None and record.iteration > 2:
                self._times.append(record.seconds)
            average = sum(self._times) / len(self._times) if self._times else None
            step = progress.Step(record.iteration, max(record.planned, 1), record.seconds, average)
            _display.echo(progress.encode(step))


def _why(ended: process.ProcessResult, limit_s: float | None) -> str | None:
    """Why a training was ended from here; None where it ended by itself."""
    if ended.overdue:
        return f"ended, since it ran longer than {units.duration(limit_s)}"
    return "interrupted by the user" if ended.interrupted else None


def _cause(log: Path) -> str | None:
    """What the log gives as the cause of a training's end."""
    from tprimat.log_import import inputs

    causes = failures.FailureReasons()
    for line in inputs.Log(str(log)).lines():
        causes.feed(line.number, line.text)
    return causes.reason()


def _primus_versions(made: Plan) -> dict[str, str]:
    """The commit of Primus, and the version of ROCm that is installed beside torch's own."""
    host = Host()
    found = {"primus": hosts.commit(host, made.installation.path)}
    found["rocm"] = (host.read(ROCM_VERSION_FILE) or "").strip() or None
    return {name: version for name, version in found.items() if version}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: can't be made: {error.strerror or error}: choose another --output-dir",
            heading="unwritable-folder",
        ) from error


def _shown(value: object) -> str:
    return units.UNKNOWN if value is None else str(value)
