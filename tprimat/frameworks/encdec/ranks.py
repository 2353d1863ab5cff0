"""The processes that train together: who this one is, and how they meet, wait and agree."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tprimat.errors import UsageError

if TYPE_CHECKING:
    import torch

DATA_PATIENCE = datetime.timedelta(hours=24)
"""How long the others wait for the one that writes the data: longer than any disk takes."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """Which process of how many, in all and on this machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    machine: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.rank == 0


def from_environment(environ: Mapping[str, str]) -> Ranks | None:
    """What torchrun, or whoever started this process, says of it; None where nobody does.

    Raises UsageError where only half of it is said.
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
    """The processes' way to each other. With one process alone everything is true of it at once.

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

    def tell_prepared(self, problem: str) -> None:
        """Tells the others on this machine that the data are there, or (not empty) why they aren't."""
        if self._store is not None:
            self._store.set(f"data-{self.ranks.machine}", problem or "there")

    def wait_until_prepared(self) -> bool:
        """Waits for the one that prepares the data on this machine; whether it succeeded."""
        key = f"data-{self.ranks.machine}"
        # No collective: those give up after minutes, and a disk may take hours.
        self._store.wait([key], DATA_PATIENCE)
        return bool(self._store.get(key) == b"there")

    def connect(self, device: torch.device) -> None:
        """From here on the processes can compute together."""
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
        """Waits for all."""
        self.highest([0.0])

    def highest(self, values: Sequence[float]) -> list[float]:
        """The highest of all processes, value by value."""
        if self._store is None:
            return list(values)
        import torch
        import torch.distributed as dist

        gathered = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(gathered, op=dist.ReduceOp.MAX)
        return [float(value) for value in gathered]

    def part(self) -> None:
        """All have come to their end; one that left earlier would look like a failure to the others."""
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
