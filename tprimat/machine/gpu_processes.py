"""The processes on this machine's GPUs, of all users; and how to stop the caller's own.

A number that a driver states may belong to another container, where it means another process. So
nothing is stopped that doesn't itself have a GPU open, that isn't the caller's, or that is no
longer the process that was listed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from tprimat.machine import amd, nvidia
from tprimat.machine.gpu import DRIVER_FILES, GpuProcess
from tprimat.machine.host import Host
from tprimat.text import for_encoding

_POLL_SECONDS = 0.1
_DEVICES = (
    "/dev/nvidia",
    "/dev/dri/renderD",
    *(file for files in DRIVER_FILES.values() for file in files),
)


def list_processes(host: Host) -> tuple[GpuProcess, ...] | None:
    """Return the processes on all GPUs, in the order of their GPUs; None if no vendor's library or
    tool answers.
    """
    for vendor in (nvidia, amd):
        held = vendor.processes(host)
        if held is not None:
            return tuple(_with_details(process) for process in held if process.pid != os.getpid())
    return None


def can_terminate(process: GpuProcess, host: Host) -> bool:
    """Return whether a process is the caller's and certainly the one that holds GPU memory."""
    if process.pid in (os.getpid(), os.getppid(), 0, 1) or not _has_gpu_open(process.pid, host):
        return False
    try:
        same = psutil.Process(process.pid)
        return (
            same.create_time() == process.started
            and same.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            and same.uids().effective == os.getuid()
        )
    except psutil.Error:
        return False


def terminate(
    processes: Sequence[GpuProcess],
    host: Host,
    *,
    report: Callable[[str], None],
    send: Callable[[int, int], None] = os.kill,
    grace_period_s: float = 10.0,
) -> tuple[GpuProcess, ...]:
    """Terminate processes, and kill those that still run after the grace period; return those that
    outlive even that.

    Each is checked by can_terminate() before each signal, and reported in a line.
    """
    remaining = list(processes)
    for number, word in (
        (signal.SIGTERM, "SIGTERM sent"),
        (getattr(signal, "SIGKILL", signal.SIGTERM), "killed"),
    ):
        signalled = []
        for process in remaining:
            if not can_terminate(process, host):
                continue
            try:
                send(process.pid, number)
            except (ProcessLookupError, PermissionError) as error:
                report(f"process {process.pid}: {error.strerror or error}")
                continue
            report(f"process {process.pid}: {word}")
            signalled.append(process)
        deadline = time.monotonic() + grace_period_s
        while remaining := [process for process in signalled if can_terminate(process, host)]:
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
    for process in remaining:
        report(
            f"process {process.pid}: still running; a process that waits for its GPU exits when the"
            " driver returns"
        )
    return tuple(remaining)


def _with_details(process: GpuProcess) -> GpuProcess:
    """Return a process with what this machine knows of its number."""
    try:
        running = psutil.Process(process.pid)
        with running.oneshot():
            if running.status() == psutil.STATUS_ZOMBIE:
                return process
            command = for_encoding(" ".join(filter(None, running.cmdline())), "utf-8") or None
            return dataclasses.replace(
                process, user=running.username(), command=command, started=running.create_time()
            )
    except psutil.Error:
        return process


def _has_gpu_open(pid: int, host: Host) -> bool:
    # psutil lists regular files alone.
    with contextlib.suppress(OSError):
        for link in host.path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(link.readlink()).startswith(_DEVICES):
                    return True
    return False
