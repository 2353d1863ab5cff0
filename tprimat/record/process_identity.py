"""The process that writes a journal, and whether it still runs.

Process IDs are reused, and have no meaning on another machine or in another container. So a journal
states its owner by more than that, and its owner holds a lock on it, which the system releases when
a process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from pathlib import Path

import msgspec

STRANGERS_WAIT_S = 24 * 3600.0
"""Time without a change, s, after which a journal of another machine is taken as abandoned: its
processes can't be seen from here.
"""

_PROC = Path("/proc")


class ProcessIdentity(msgspec.Struct, frozen=True):
    """Unique identity of a process; None for values that the system doesn't state.

    Attributes:
        started: its start, in the kernel's ticks since boot.
        boot: identifier of the machine's current boot; the same in all containers of a machine.
        namespace: in which process numbers are counted; containers have their own.
        host: the machine's or the container's name.
    """

    pid: int
    started: int | None = None
    boot: str | None = None
    namespace: str | None = None
    host: str | None = None


def current_process() -> ProcessIdentity:
    """Return the identity of this process."""
    pid = os.getpid()
    boot = None
    namespace = None
    with contextlib.suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip() or None
    with contextlib.suppress(OSError):
        namespace = str((_PROC / "self/ns/pid").readlink())
    return ProcessIdentity(pid, started_at(pid), boot, namespace, socket.gethostname())


def started_at(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if no such process still runs.

    Not by psutil, whose create_time() follows the clock of the day, which may be set while a
    training runs.
    """
    try:
        # The name, in brackets, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        return int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def has_exited(owner: ProcessIdentity, handle: int) -> bool:
    """Return whether the owner that an open journal states has certainly exited; take the journal's
    lock if so.
    """
    here = current_process()
    same_boot = owner.boot is not None and owner.boot == here.boot
    if same_boot and owner.namespace == here.namespace and owner.started is not None:
        if started_at(owner.pid) == owner.started:
            return False
    elif (
        not same_boot
        and owner.host != here.host
        and time.time() - os.fstat(handle).st_mtime < STRANGERS_WAIT_S
    ):
        # A lock is no evidence here: many network file systems keep locks to each machine.
        return False
    return lock(handle)


def lock(handle: int) -> bool:
    """Take the lock of an open file; return whether no other process has it.

    A child doesn't inherit it: a training's workers may outlive it. The system releases it when
    this process closes the file, also by another handle.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return True  # Windows: nobody else can remove a file that is open
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems have no locks; then the owner's own data must do.
        return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True
