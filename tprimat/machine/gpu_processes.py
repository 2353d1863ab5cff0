"""The processes on this machine's GPUs, of all users; and the end of the caller's own.

A number that nvidia-smi prints may be of another container, where it means another process. So
nothing is ended that doesn't itself have a GPU open, that isn't the caller's, or that is no longer
the process that was listed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat.machine import gpu_users
from tprimat.machine.host import Host
from tprimat.units import GB

GRACE_SECONDS = 10.0
"""How long a process has to end after TERM before it is killed."""

_POLL_SECONDS = 0.1
_UNITS = {"B": 1, "KB": 2**10, "KIB": 2**10, "MB": 2**20, "MIB": 2**20, "GB": 2**30, "GIB": 2**30}
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD")


@dataclasses.dataclass(frozen=True)
class Process:
    """A process that holds GPU memory.

    Attributes:
        pid: its number, as the driver's tool tells it.
        gpu: which GPU, as the tool calls it; None where it doesn't say.
        name: as the tool tells it.
        memory_gb: GB of 10⁹ bytes; None where hidden.
        user: who owns the process of this number here; None where there is none.
        command: of the process of this number here.
        started: ticks since the machine's start, by which a number that is used again is known.
    """

    pid: int
    gpu: str | None = None
    name: str | None = None
    memory_gb: float | None = None
    user: str | None = None
    command: str | None = None
    started: str | None = None


def listed(host: Host) -> tuple[Process, ...] | None:
    """The processes on all GPUs, in the order of their GPUs; None where no tool of a vendor answers."""
    for tool, ask in (("nvidia-smi", _nvidia), ("amd-smi", _amd_smi), ("rocm-smi", _rocm_smi)):
        if not host.finds(tool):
            continue
        found = ask(host)
        if found is not None:
            return tuple(_known(process, host) for process in found if process.pid != os.getpid())
    return None


def may_end(process: Process, host: Host) -> bool:
    """Whether a process is the caller's, and surely the one that holds GPU memory."""
    if process.pid in (os.getpid(), os.getppid(), 0, 1) or process.started is None:
        return False
    try:
        owner = host.path(f"/proc/{process.pid}").stat().st_uid
    except OSError:
        return False
    return owner == os.getuid() and _started(process.pid, host) == process.started and _has_gpu_open(process.pid, host)


def end(
    processes: Sequence[Process],
    host: Host,
    *,
    say: Callable[[str], None],
    send: Callable[[int, int], None] = os.kill,
    grace_s: float = GRACE_SECONDS,
) -> tuple[Process, ...]:
    """Asks processes to end, and kills those that don't.

    Args:
        processes: what may_end() allowed; it is asked again before each signal.
        host: where processes are looked at.
        say: called with a line about each.
        send: sends a signal to a process.
        grace_s: seconds between asking and killing.

    Returns:
        Those that are still there.
    """
    left = list(processes)
    for number, word in ((signal.SIGTERM, "asked to end"), (getattr(signal, "SIGKILL", signal.SIGTERM), "killed")):
        asked = []
        for process in left:
            if not may_end(process, host):
                continue
            try:
                send(process.pid, number)
            except (ProcessLookupError, PermissionError) as error:
                say(f"process {process.pid}: {error.strerror or error}")
                continue
            say(f"process {process.pid}: {word}")
            asked.append(process)
        deadline = time.monotonic() + grace_s
        left = [process for process in asked if may_end(process, host)]
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            left = [process for process in left if may_end(process, host)]
        if not left:
            return ()
    for process in left:
        say(f"process {process.pid}: is still there; a process that waits for its GPU ends when the driver lets it")
    return tuple(left)


def _nvidia(host: Host) -> list[Process] | None:
    names = host.command(["nvidia-smi", "--query-gpu=uuid,index", "--format=csv,noheader"])
    if names is None:
        return None
    indices = {}
    for line in names.splitlines():
        uuid, _, index = line.partition(",")
        indices[uuid.strip().removeprefix("GPU-").lower()] = index.strip()
    return [
        Process(pid, indices.get(uuid), name, gigabytes)
        for uuid, pid, name, gigabytes in gpu_users.nvidia_processes(host)
    ]


def _amd_smi(host: Host) -> list[Process] | None:
    text = host.command(["amd-smi", "process", "--json"])
    stated = _json(text)
    if not isinstance(stated, list):
        # Since 2025 the list stands below a name.
        stated = next((each for each in stated.values() if isinstance(each, list)), None) if stated else None
    if stated is None:
        return None
    return list(_of_amd_smi(stated))


def _of_amd_smi(stated: Sequence[Any]) -> Iterator[Process]:
    for gpu in stated:
        if not isinstance(gpu, Mapping):
            continue
        for entry in gpu.get("process_list") or ():
            info = entry.get("process_info") if isinstance(entry, Mapping) else None
            # Without any process a sentence stands here.
            if not isinstance(info, Mapping) or not str(info.get("pid", "")).isdigit():
                continue
            usage = info.get("memory_usage")
            held = usage.get("vram_mem") if isinstance(usage, Mapping) else info.get("mem_usage")
            memory = _gigabytes(held)
            if memory != 0:
                name = str(info["name"]) if info.get("name") else None
                yield Process(int(info["pid"]), str(gpu.get("gpu", "")) or None, name, memory)


def _gigabytes(held: Any) -> float | None:
    if isinstance(held, Mapping):
        value, unit = held.get("value"), str(held.get("unit", "B")).upper()
    else:
        value, unit = held, "B"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or unit not in _UNITS:
        return None
    return value * _UNITS[unit] / GB


def _rocm_smi(host: Host) -> list[Process] | None:
    if host.command(["rocm-smi", "--showpids", "--json"]) is None:
        return None
    return [Process(pid, None, name, gigabytes) for pid, name, gigabytes in gpu_users.amd_processes(host)]


def _json(text: str | None) -> Any:
    """JSON that warnings may stand before."""
    starts = [position for position in ((text or "").find("["), (text or "").find("{")) if position >= 0]
    try:
        return json.loads((text or "")[min(starts) :]) if starts else None
    except ValueError:
        return None


def _known(process: Process, host: Host) -> Process:
    """A process with what this machine knows of the number."""
    folder = host.path(f"/proc/{process.pid}")
    try:
        owner = folder.stat().st_uid
    except OSError:
        return process
    words = (host.read(f"/proc/{process.pid}/cmdline") or "").split("\0")
    return dataclasses.replace(
        process,
        user=_user(owner),
        command=" ".join(word for word in words if word) or None,
        started=_started(process.pid, host),
    )


def _user(number: int) -> str:
    try:
        import pwd
    except ImportError:
        return str(number)
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _started(pid: int, host: Host) -> str | None:
    """When a process was started; None where there is none, or where it has ended and only waits to be read."""
    text = host.read(f"/proc/{pid}/stat")
    # The second field, in brackets, may hold blanks and brackets.
    words = (text or "").rpartition(")")[2].split()
    return words[19] if len(words) > 19 and words[0] not in ("Z", "X") else None


def _has_gpu_open(pid: int, host: Host) -> bool:
    try:
        links = list(host.path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(_target(link).startswith(_DEVICES) for link in links)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
