"""The processes that train together: which one this is, and how they connect, wait and agree."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tprimat.errors import UsageError

if TYPE_CHECKING:
    import torch

DATA_TIMEOUT = datetime.timedelta(hours=24)
"""How long the others wait for the one that writes the data: longer than any disk takes."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """Rank and number of processes, in total and on this machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    machine: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0


def from_environment(environ: Mapping[str, str]) -> Ranks | None:
    """Return the rank that torchrun or another launcher has set; None where none has.

    Raises UsageError where only a part of it is set.
    """
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return None
    known = {name: _count(environ, name) for name in ("RANK", "WORLD_SIZE")}
    local_rank = _count(environ, "LOCAL_RANK", default=known["RANK"])
    if known["RANK"] >= known["WORLD_SIZE"]:
        raise _wrong(f"RANK is {known['RANK']} and WORLD_SIZE is {known['WORLD_SIZE']}")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environ]
    if known["WORLD_SIZE"] > 1 and missing:
        raise _wrong(f"{' and '.join(missing)} is not set")
    return Ranks(
        rank=known["RANK"],
        world_size=known["WORLD_SIZE"],
        local_rank=local_rank,
        local_world_size=_count(environ, "LOCAL_WORLD_SIZE", default=known["WORLD_SIZE"]),
        machine=_count(environ, "GROUP_RANK", default=0),
    )


class Rendezvous:
    """Connects the processes. With one process alone nothing is waited for.

    Args:
        ranks: which one this is.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._store: Any = None
        self._device: Any = None
        if ranks.world_size > 1:
            import torch.distributed as dist

            store, _, _ = next(dist.rendezvous("env://"))
            self._store = dist.PrefixStore("tensorprimat", store)

    def announce_data(self, problem: str) -> None:
        """Tell the others on this machine that the data are there, or (not empty) why they aren't."""
        if self._store is not None:
            self._store.set(f"data-{self.ranks.machine}", problem or "there")

    def wait_for_data(self) -> bool:
        """Wait for the process that prepares the data on this machine; return whether it succeeded."""
        key = f"data-{self.ranks.machine}"
        # No collective: those give up after minutes, and a disk may take hours.
        self._store.wait([key], DATA_TIMEOUT)
        return bool(self._store.get(key) == b"there")

    def connect(self, device: torch.device) -> None:
        """Join the process group, in which the processes compute together."""
        self._device = device
        if self._store is None:
            return
        import torch.distributed as dist

        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=self._store,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            # Else NCCL guesses which GPU is whose when it first meets.
            device_id=device if device.type == "cuda" else None,
        )

    def barrier(self) -> None:
        """Wait for all processes."""
        self.highest([0.0])

    def highest(self, values: Sequence[float]) -> list[float]:
        """Return the highest of all processes, value by value."""
        if self._store is None:
            return list(values)
        import torch
        import torch.distributed as dist

        gathered = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(gathered, op=dist.ReduceOp.MAX)
        return [float(value) for value in gathered]

    def leave(self) -> None:
        """Leave the process group together: one that left earlier would look like a failure to the others."""
        if self._store is not None:
            import torch.distributed as dist

            self.barrier()
            dist.destroy_process_group()


def _count(environ: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise _wrong(f"{name} is {text!r}")
    return int(text)


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"the environment says that this is one of several processes, but {what}: start them with torchrun, or unset "
        "RANK and WORLD_SIZE to have benchmark.py start them",
        heading="torchrun",
    )
