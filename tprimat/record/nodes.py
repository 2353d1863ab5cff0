"""The machines of a training on several: each states itself in a file, and the result holds them
all.

A file on the share rather than a message: frameworks that are measured by their log run no code of
ours that could send a message.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.machine.host import Environ
from tprimat.machine.platforms import Machine
from tprimat.notes import Note, noted
from tprimat.results.run import Node, Run
from tprimat.text import counted, join_names

VARIABLE = "TPRIMAT_NODES"
"""The environment variable with NUMBER:FOLDER for the statements of a training's machines."""


def name(environ: Environ) -> str:
    """Return this machine's name; in a Slurm job that by which Slurm knows it."""
    return environ.get("SLURMD_NODENAME") or socket.gethostname()


def state(folder: Path, rank: int, machine: Machine, environ: Environ) -> None:
    """Write what this machine is. Raises UsageError if the directory can't be written."""
    info = machine.gpu_info
    environment = machine.environment
    node = Node(
        hostname=name(environ),
        device_name=info.device_name,
        device_count=info.device_count if machine.platform != "cpu" else None,
        **{
            field: getattr(environment, field)
            for field in ("versions", "os", "container", "cpu", "cpu_threads")
        },
    )
    files.write_output(folder / f"{rank}.node", msgspec.json.encode(node), "--output-dir")


def described(environ: Environ) -> tuple[tuple[Node, ...], list[Note]]:
    """Return the machines of the training of this environment, in their order, and notes on
    problems with them.

    None for a training on one machine.
    """
    number, _, folder = environ.get(VARIABLE, "").partition(":")
    if folder and number.isdecimal():
        return read(Path(folder), int(number))
    return ((), [])


def read(folder: Path, count: int) -> tuple[tuple[Node, ...], list[Note]]:
    """Return what `count` machines state in a directory, and notes on different and on missing
    ones.
    """
    nodes = []
    for rank in range(count):
        # By its name: a listing of a directory on a share may be old.
        with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
            nodes.append(msgspec.json.decode(files.read_plain(folder / f"{rank}.node"), type=Node))
    notes = differences(nodes)
    if len(nodes) < count:
        missing = counted(count - len(nodes), "node")
        notes.append(Note("nodes-undescribed", {"nodes": missing, "count": count}))
    return tuple(nodes), notes


def added(run: Run, folder: Path, count: int) -> Run:
    """Return a run that was read from a log with the values that its machines state, and the notes
    on them.
    """
    machines, problems = read(folder, count)
    environment = run.environment.but(nodes=machines)
    return run.but(environment=environment, notes=noted((*run.notes, *problems)))


def differences(nodes: Sequence[Node]) -> list[Note]:
    """Return a note that names what differs between machines; none if they are alike."""
    stated = list(map(_facts, nodes))
    differing = []
    for fact in dict.fromkeys(fact for facts in stated for fact in facts):
        values: dict[str, list[str]] = {}
        for node, facts in zip(nodes, stated, strict=True):
            values.setdefault(facts.get(fact, "none"), []).append(node.hostname or "unknown")
        if len(values) > 1:
            shares = (f"{value} on {join_names(hosts, 3)}" for value, hosts in values.items())
            differing.append(f"{fact} {', '.join(shares)}")
    if differing:
        return [Note("nodes-differ", {"facts": "; ".join(differing)})]
    return []


def _facts(node: Node) -> dict[str, str]:
    fields = {
        "GPU": node.device_name,
        "GPUs": node.device_count,
        "CPU": node.cpu,
        "CPU threads": node.cpu_threads,
    }
    fields |= {"system": node.os, "container": node.container, **node.versions}
    return {name: str(value) for name, value in fields.items() if value is not None}


def variables(count: int, folder: Path) -> dict[str, str]:
    """Return the variable for the runs of several machines; none for one."""
    if count > 1:
        return {VARIABLE: f"{count}:{folder}"}
    return {}


def folder_of(environ: Environ, output_dir: Path, rendezvous: str | None) -> Path:
    """Return the directory that all machines of a session share: the job's, or one named after
    their rendezvous.
    """
    job = environ.get("TPRIMAT_JOB")
    if job:
        return Path(job) / "nodes"
    return output_dir / "nodes" / re.sub(r"[^\w.-]+", "-", rendezvous or "")
