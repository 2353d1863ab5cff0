"""Which of several machines this is, and where their processes meet: by Slurm's variables, or by
torchrun's.
"""

from __future__ import annotations

import dataclasses

from tprimat.errors import UsageError
from tprimat.machine.host import Environ

PORT = "29500"
"""torchrun's default."""


@dataclasses.dataclass(frozen=True)
class Node:
    """This node of a training: its number, from 0, and the rendezvous HOST:PORT of all nodes, as in
    a request.
    """

    rank: int
    rendezvous: str


def of_training(rendezvous: str, number: int) -> str:
    """Return where a session's training meets, counted from 0: so that a late machine doesn't join
    the next one.
    """
    address, _, port = rendezvous.rpartition(":")
    return f"{address}:{int(port) + number}"


def this_node(environ: Environ, count: int) -> Node:
    """Return which of `count` machines this is. Raises UsageError if the environment doesn't state
    it.
    """
    in_step = "SLURM_STEP_ID" in environ
    rank, number = ("SLURM_NODEID", "SLURM_STEP_NUM_NODES") if in_step else ("NODE_RANK", "NNODES")
    stated = environ.get(number, "").strip() or str(count)
    if rank not in environ or "MASTER_ADDR" not in environ:
        absent = [name for name in (rank, "MASTER_ADDR") if name not in environ]
        verb = "is" if len(absent) == 1 else "are"
        raise _refusal(
            f"--nodes {count}: {' and '.join(absent)} {verb} not set, so this machine's number is"
            " unknown"
        )
    if stated != str(count):
        raise _refusal(f"--nodes {count}: {number} is {stated}")
    values = {rank: environ[rank], "MASTER_PORT": environ.get("MASTER_PORT", "").strip() or PORT}
    for name, text in values.items():
        if not text.isdecimal() or int(text) >= (count if name == rank else 2**16):
            raise _refusal(f"--nodes {count}: {name} is {text!r}")
    return Node(int(values[rank]), f"{environ['MASTER_ADDR']}:{int(values['MASTER_PORT'])}")


def _refusal(problem: str) -> UsageError:
    return UsageError(
        problem,
        hint="add --executor slurm, or set NODE_RANK, MASTER_ADDR and MASTER_PORT on each machine",
        heading="several-nodes",
    )
