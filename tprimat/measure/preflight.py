"""Run a preflight: start a process per device, collect their measurements, measure the disk, write
the file.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from tprimat import console, files
from tprimat.errors import TrainingFailedError, UsageError
from tprimat.frameworks.loops import launch as loops
from tprimat.frameworks.request import Launch
from tprimat.location import REPOSITORY
from tprimat.machine import host as hosts
from tprimat.machine import page_cache, torch_build
from tprimat.machine.platforms import Machine
from tprimat.measure import process as child
from tprimat.measure import shared_memory, training_files
from tprimat.measure.display import short_path
from tprimat.preflight import findings, worker
from tprimat.preflight.plan import plan_of
from tprimat.preflight.worker import Measured
from tprimat.record.ranks import Process
from tprimat.results.preflight import Disk, PreflightFile
from tprimat.results.run import Platform, sentences
from tprimat.text import plain
from tprimat.units import GB

START_S = 240.0
"""What the processes may take beyond the measurements: importing torch, loading libraries, a slow
CPU.
"""

CHUNK = 1 << 24
SPARE_SHARE = 0.1
"""Share of the free space that the file of a preflight may take at most."""


def measure(machine: Machine, processes: int, output_dir: Path, *, quick: bool) -> PreflightFile:
    """Measure every device in a process of its own.

    Raises UsageError if nothing can be measured or written, TrainingFailedError if a process fails.
    """
    if machine.platform != "cpu":
        shared_memory.check(processes)
    files.check_writable(output_dir)
    began = time.monotonic()
    limit_s = START_S + 4 * plan_of(machine.platform, quick=quick).seconds(processes)
    measured = _start(machine.platform, processes, output_dir, quick=quick, limit_s=limit_s)
    return _as_file(machine.platform, measured, output_dir, quick=quick, began=began)


def measure_here(
    process: Process, platform: Platform, output_dir: Path, *, quick: bool
) -> PreflightFile | None:
    """Measure the device of this process, one of those that torchrun has started; None in all but
    the first.
    """
    if process.is_first:
        files.check_writable(output_dir)
    began = time.monotonic()
    measured = worker.measure(process, platform, plan_of(platform, quick=quick))
    if measured is None:
        return None
    return _as_file(platform, measured, output_dir, quick=quick, began=began)


def check_torch() -> None:
    """Raise UsageError if torch can't be imported."""
    _, problem = torch_build.import_torch()
    if problem:
        raise UsageError(
            f"preflight: {sentences([problem])[0]}",
            hint="tprimat doctor shows what this machine has",
            heading="preflight",
        )


def _start(
    platform: Platform, processes: int, output_dir: Path, *, quick: bool, limit_s: float
) -> Measured:
    """Start the processes and return their measurements."""
    log = output_dir / "logs" / f"preflight_{datetime.datetime.now():%Y%m%d_%H%M%S_%f}.log"
    with tempfile.TemporaryDirectory(prefix="tensorprimat-") as folder:
        result = Path(folder, "measured.json")
        launcher = loops.torchrun_here(processes) if processes > 1 else ()
        program = ("-m", worker.__name__, str(result), platform, *(("quick",) if quick else ()))
        variables = loops.environment(platform, processes)
        launch = Launch((sys.executable, *launcher, *program), variables, REPOSITORY)
        done = child.run(
            launch, log, on_line=console.debug, on_message=lambda _: None, limit_s=limit_s
        )
        with contextlib.suppress(OSError, ValueError):
            return msgspec.json.decode(files.read_plain(result), type=Measured)
    if done.interrupted:
        raise KeyboardInterrupt
    for line in training_files.last_words(log, done.tail):
        console.error(f"    {plain(line, 160)}")
    if done.overdue:
        why = f"not finished after {limit_s:.0f} s"
    else:
        why = f"a process exited with status {done.status}"
    raise TrainingFailedError(
        f"preflight: {why}", hint=f"the log is {short_path(log)}", heading="preflight"
    )


def _as_file(
    platform: Platform, measured: Measured, output_dir: Path, *, quick: bool, began: float
) -> PreflightFile:
    disk = measure_disk(output_dir, plan_of(platform, quick=quick).file_bytes)
    file = PreflightFile(
        timestamp=datetime.datetime.now(datetime.timezone.utc)
        .astimezone()
        .isoformat(timespec="seconds"),
        platform=platform,
        quick=quick,
        seconds=round(time.monotonic() - began, 1),
        tprimat_commit=hosts.commit(hosts.Host(), REPOSITORY),
        nodes=measured.nodes,
        devices=measured.devices,
        all_reduce=measured.all_reduce,
        all_reduce_backend=measured.backend,
        disk=disk,
    )
    return file.but(findings=findings.findings(file))


def measure_disk(folder: Path, size: int) -> Disk:
    """Write a file of random bytes to a directory, drop it from the page cache, and read it.

    The file is never larger than a tenth of the free space, and removed at the end.
    """
    free, _ = hosts.free_space(folder)
    size = min(size, int((free or 0.0) * GB * SPARE_SHARE)) // CHUNK * CHUNK
    if size <= 0:
        return Disk(bytes=0, unknown="too little space is free")
    # Random bytes: some disks and file systems compress.
    chunk = os.urandom(CHUNK)
    try:
        # It has no name: it is gone even if this process is killed.
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            began = time.perf_counter()
            for _ in range(size // CHUNK):
                file.write(chunk)
            os.fsync(file.fileno())
            write = size / (time.perf_counter() - began) / GB
            if (
                cached := page_cache.drop_caches([Path(f"/proc/self/fd/{file.fileno()}")])
            ) is not None:
                return Disk(
                    bytes=size, write_gb_per_s=write, unknown=f"read speed not measured: {cached}"
                )
            file.seek(0)
            began = time.perf_counter()
            while file.read(CHUNK):
                pass
            return Disk(
                bytes=size,
                write_gb_per_s=write,
                read_gb_per_s=size / (time.perf_counter() - began) / GB,
            )
    except OSError as error:
        return Disk(bytes=size, unknown=f"{error.strerror or error}")
