"""`benchmark --model encdec`: the encoder-decoder, started from here or by torchrun.

Where RANK and WORLD_SIZE are set, this process is one of those that train. Where they aren't, it
starts them, watches, and sums up.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.cli import _display
from tprimat.cli import _encdec_options as encdec_options
from tprimat.cli._encdec_options import EncDecArguments
from tprimat.errors import ExitStatus, TensorPrimatError, UsageError
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.ranks import Ranks, from_environment
from tprimat.frameworks.encdec.settings import FRAMEWORK, MODEL
from tprimat.frameworks.request import Device
from tprimat.results.run import Run
from tprimat.store import store

if TYPE_CHECKING:
    from tprimat.frameworks.encdec.settings import Settings
    from tprimat.machine.platforms import Machine

COOLDOWN_ON_GPU = 30.0
LOGS = "logs"
SPEAKS_FIRST_S = 3.0
START_SECONDS = 900.0
"""What a training may take beyond twice its time limit before it is taken for hung."""


def main(argv: Sequence[str]) -> int:
    """Measures, or shows what would be run.

    Args:
        argv: arguments, without the program's name.
    """
    ranks = from_environment(os.environ)
    if ranks is None:
        asked = encdec_options.parse(argv)
        with _display.capture_output(asked.verbosity, results=[]) as output:
            return output.finish(_start(asked))
    try:
        asked = encdec_options.parse(argv)
        with _display.capture_output(asked.verbosity, results=[]) as output:
            output.speaks = ranks.first
            return output.finish(_train(asked, ranks))
    except TensorPrimatError as error:
        if ranks.local_rank == 0:
            raise
        # All of them meet the same error: one says it, before torchrun ends it because of another.
        time.sleep(SPEAKS_FIRST_S)
        return error.status


def _start(asked: EncDecArguments) -> int:
    """Starts the processes, from here."""
    from tprimat.cli.benchmark import place_of
    from tprimat.machine import platforms

    _check_packages()
    machine = platforms.detect()
    settings, notes = encdec.resolve_config(asked.wishes, place_of(machine), Path.cwd() / asked.output_dir)
    from tprimat.cli import _encdec_display as display

    display.introduce(settings, machine.gpu_info, machine.environment, [*machine.warnings, *notes])
    if asked.dry_run:
        display.show(settings, asked.runs)
        return ExitStatus.WELL
    _check_writable(settings.output_dir)
    from tprimat.frameworks.encdec import data as encdec_data

    encdec_data.prepare(settings, display.say)
    settings = dataclasses.replace(settings, data_checked=True)
    statuses = []
    for number in range(1, asked.runs + 1):
        if number > 1 and not _rest(asked, settings):
            return ExitStatus.TRAINING_FAILED
        title = f"run {number} of {asked.runs}" if asked.runs > 1 else "training"
        status, interrupted = _run(settings, machine, title)
        statuses.append(status)
        if interrupted:
            break
    if ExitStatus.WELL in statuses:
        display.next_command(asked.output_dir)
    return max(statuses)


def _run(settings: Settings, machine: Machine, title: str) -> tuple[ExitStatus, bool]:
    """One training in processes of its own: its status, and whether the user ended it."""
    from tprimat.cli import _encdec_display as display
    from tprimat.machine import platforms
    from tprimat.measure import process
    from tprimat.record.progress import Message, Saved

    if settings.platform != "cpu" and (held := platforms.held_by_others(machine)):
        display.note(held, wrong=True)
    saved: list[Path] = []

    def on_message(message: Message) -> None:
        if isinstance(message, Saved):
            saved.append(Path(message.path))

    display.say(f"\n{title}")
    log = _log_path(settings.output_dir)
    started = encdec.launch(settings)
    _display.debug(f"command: {started.shell_line()}")
    _display.debug(f"log: {log}")
    ended = process.run(
        started,
        log,
        on_line=display.say,
        on_message=on_message,
        limit_s=None if settings.time_limit_s is None else 2 * settings.time_limit_s + START_SECONDS,
    )
    run = store.read(saved[-1])[-1] if saved else None
    if run is not None:
        display.results(run, saved[-1])
        if run.status == "complete":
            return ExitStatus.WELL, ended.interrupted
    if run is None:
        reason = "interrupted" if ended.interrupted else display.why_failed(run, ended)
        failed = Run(
            platform=settings.platform, framework=FRAMEWORK, model=MODEL, status="failed", status_reason=reason
        )
        _display.record(failed, None)
    if ended.interrupted:
        kept = "what was recorded is kept, as incomplete" if run is not None else "nothing was recorded yet"
        display.say(f"interrupted; {kept}", error=True)
        return ExitStatus.TRAINING_FAILED, True
    display.failure(run, ended, log)
    return ExitStatus.TRAINING_FAILED, False


def _train(asked: EncDecArguments, ranks: Ranks) -> int:
    """Trains in this process, which torchrun or somebody else has started."""
    _check_ranks(asked, ranks)
    _check_packages()
    settings, notes = encdec.resolve_config(
        dataclasses.replace(asked.wishes, num_gpus=ranks.world_size), _place_of(ranks), Path.cwd() / asked.output_dir
    )
    from tprimat.cli import _encdec_display as display
    from tprimat.frameworks.encdec import loop as encdec_loop

    if ranks.first:
        _check_writable(settings.output_dir)
        display.introduce(settings, None, None, [*notes, *_threads_note(settings, ranks)])
    trained = encdec_loop.train(settings, ranks, say=display.say)
    run = trained.run
    if run is None:
        return ExitStatus.WELL
    display.results(run, trained.path)
    if run.status == "complete":
        display.next_command(asked.output_dir)
        return ExitStatus.WELL
    display.say(f"{run.status_reason}; what was recorded is kept, as incomplete", error=True)
    return ExitStatus.TRAINING_FAILED


def _check_ranks(asked: EncDecArguments, ranks: Ranks) -> None:
    """Refuses options that say what torchrun has said already."""
    world = ranks.world_size
    processes = f"{world} {'process' if world == 1 else 'processes'}"
    wrong = None
    if asked.single and world > 1:
        wrong = f"--single, and {processes} were started: start one (torchrun --nproc_per_node=1)"
    elif asked.wishes.num_gpus not in (None, world):
        wrong = f"--gpus {asked.wishes.num_gpus}, and {processes} were started: leave --gpus out"
    elif asked.runs > 1:
        wrong = f"--runs {asked.runs} takes fresh processes for each run: leave torchrun out"
    elif asked.dry_run:
        wrong = "--dry-run shows what would be started, and torchrun has started it already: leave torchrun out"
    if wrong is not None:
        raise UsageError(wrong, heading="torchrun")


def _check_packages() -> None:
    """Ends here, with the command that brings it, where a package is missing; what looks for a GPU goes on without."""
    for package in ("numpy", "torch"):
        importlib.import_module(package)


def _check_writable(folder: Path) -> None:
    """Refuses a folder that can't take the result, before an hour was spent on it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise UsageError(
            f"{folder}: the result can't be written: {error.strerror or error}: choose another --output-dir",
            heading="unwritable-folder",
        ) from error


def _place_of(ranks: Ranks) -> Device:
    """The machine of one of several processes, by torch alone: eight of them asking the drivers take seconds."""
    import torch

    from tprimat.frameworks.loops.launch import cores

    if not torch.cuda.is_available():
        return Device("cpu", max(ranks.world_size, cores()), None)
    there = torch.cuda.device_count()
    if ranks.local_rank >= there:
        raise UsageError(
            f"process {ranks.local_rank + 1} of this machine finds no GPU of its own, {there} are here: start {there} "
            f"(torchrun --nproc_per_node={there})",
            heading="torchrun",
        )
    properties = torch.cuda.get_device_properties(ranks.local_rank)
    return Device(
        "amd" if torch.version.hip else "nvd",
        ranks.world_size,
        float(properties.total_memory),
        None if torch.version.hip else f"sm_{properties.major}{properties.minor}",
    )


def _threads_note(settings: Settings, ranks: Ranks) -> list[str]:
    """What is said where torchrun gave each process fewer threads than the machine has."""
    import torch

    from tprimat.frameworks.loops.launch import cores

    threads, share = torch.get_num_threads(), cores() // ranks.local_world_size
    if settings.platform != "cpu" or threads >= share:
        return []
    return [f"each process computes with {threads} of {share} threads that it could have: set OMP_NUM_THREADS={share}"]


def _rest(asked: EncDecArguments, settings: Settings) -> bool:
    """Cools down; False where the user has ended that."""
    from tprimat.cli import _encdec_display as display

    seconds = asked.cooldown_s
    if seconds is None:
        seconds = 0.0 if settings.platform == "cpu" else COOLDOWN_ON_GPU
    if not seconds:
        return True
    display.say(f"cooling down for {seconds:g} s")
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        return False
    return True


def _log_path(folder: Path) -> Path:
    from tprimat.measure import process

    return process.new_log(folder / LOGS, f"encdec_{datetime.datetime.now():%Y%m%d_%H%M%S}")
