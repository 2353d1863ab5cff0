"""The processes of a training: which one this is, and the step times of all, gathered when the
training ends normally.

A step takes as long as the slowest process needs. The times are sent through the key-value store
that torch.distributed keeps next to its process group, not with a collective: a process that has
died or never arrives costs rank 0 a bounded wait, and the training's own communication is not
affected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from tprimat.errors import UsageError
from tprimat.machine.host import Environ
from tprimat.notes import Note
from tprimat.record.recorder import Record, format_steps
from tprimat.results.fields import known_values

TIMEOUT_S = 30.0
"""How long rank 0 waits for the others' times, s. All ranks end their last step together."""

CHUNK = 1 << 20
"""Most characters of one entry in the store; torch's store refuses more than 8 MiB."""

SLOW_SHARE = 0.1
"""A rank is a straggler if it reaches its backward pass later than the median rank by more than
this share of the step time.
"""

BEFORE_THE_END = "the training ended before they were collected"
WHILE_GATHERED = "rank 0 was killed while it collected them"


@dataclasses.dataclass(frozen=True)
class Process:
    """This process among those that train together, in total and on this node.

    Attributes:
        node_rank: number of this node, from 0.
        device: the torch.device that it trains on; None until it is chosen.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    device: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    @property
    def processes_here(self) -> int:
        """How many of the processes are on this node; all of them if that isn't stated."""
        if self.local_world_size > 1:
            return self.local_world_size
        stated = os.environ.get("LOCAL_WORLD_SIZE", "")
        if stated.isdecimal():
            return int(stated)
        return self.world_size

    def with_device(self, platform: str) -> Process:
        """Return the process with its device; a GPU becomes torch's current device."""
        import torch

        device = torch.device("cpu") if platform == "cpu" else torch.device("cuda", self.local_rank)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        return dataclasses.replace(self, device=device)

    def max_over_ranks(self, values: Sequence[float]) -> list[float]:
        """Return the largest of all ranks, value by value; every rank must call it."""
        if self.world_size == 1:
            return list(values)
        import torch
        import torch.distributed as dist

        gathered = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(gathered, op=dist.ReduceOp.MAX)
        return list(map(float, gathered))

    def any_rank(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank; every rank must call it."""
        return bool(self.max_over_ranks([flag])[0])


def from_environment(environ: Environ) -> Process | None:
    """Return the process that torchrun or another launcher has described; None if none has.

    Raises UsageError if the description is wrong or incomplete.
    """
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return None
    # If a launcher states only these two, all processes are on this node.
    defaults = {
        "LOCAL_RANK": environ["RANK"],
        "LOCAL_WORLD_SIZE": environ["WORLD_SIZE"],
        "GROUP_RANK": "0",
    }
    counts = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"):
        text = environ.get(name, defaults.get(name, ""))
        if not text.isdecimal():
            raise _wrong(f"{name} is {text!r}")
        counts.append(int(text))
    rank, world_size, *local = counts
    if rank >= world_size:
        raise _wrong(f"RANK is {rank} and WORLD_SIZE is {world_size}")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environ]
    if world_size > 1 and missing:
        raise _wrong(f"{' and '.join(missing)} is not set")
    return Process(rank, world_size, *local)


class Times(msgspec.Struct, frozen=True):
    """The step times of one process, s.

    Attributes:
        until_backward: median time from a step's start to its first backward pass, in which a
            process doesn't yet wait for the others; None if unknown.
        node: name of its node.
    """

    steps: tuple[int, ...]
    seconds: tuple[float | None, ...]
    until_backward: float | None = None
    node: str = ""


class Gathered(NamedTuple):
    """Records of a whole training.

    Attributes:
        over_ranks: which ranks their step times are from.
        until_backward: by node name, the longest time before a backward pass of its ranks, s.
    """

    records: Sequence[Record]
    over_ranks: str = "one process"
    notes: tuple[Note, ...] = ()
    until_backward: Mapping[str, float] = MappingProxyType({})


def gather(
    records: Sequence[Record],
    laps: Sequence[float],
    training: str,
    rank: int,
    world_size: int,
    node: str = "",
) -> Gathered:
    """Return the training's records with the longest time of each step; every rank calls it when
    the training ends normally.

    Records and laps are those of this process; a lap is the time from a step's start to its
    backward pass, s. `training` is a name that all ranks share; `node` is the name of this node,
    empty if all ranks are on one.
    """
    store = open_store()
    if store is None:
        return without_other_ranks(
            records, world_size, "the processes share no torch.distributed store"
        )
    own = Times(
        tuple(record.step for record in records),
        tuple(record.seconds for record in records),
        statistics.median(laps) if laps else None,
        node,
    )
    if rank:
        # If rank 0 is gone, nobody is left to collect the times.
        with contextlib.suppress(RuntimeError):
            publish_times(store, training, rank, own)
        return without_other_ranks(records, world_size, "this is not rank 0")
    others, missing = collect_times(store, training, world_size)
    if missing:
        return without_other_ranks(
            records,
            world_size,
            f"{_ranks(missing)} did not report within {TIMEOUT_S:g} s of the end",
        )
    different = []
    for other, times in others.items():
        if times.steps != own.steps or len(times.seconds) != len(records):
            different.append(other)
    if different:
        return without_other_ranks(
            records, world_size, f"{_ranks(different)} recorded different steps than rank 0"
        )
    return _slowest(records, own, others)


def _slowest(records: Sequence[Record], own: Times, others: dict[int, Times]) -> Gathered:
    """Return the records with the longest time of each step; None for a step whose time is unknown
    on any rank.
    """
    everyone = (own, *others.values())
    slowest = []
    for record, *seconds in zip(records, *(times.seconds for times in everyone), strict=True):
        longest = None if None in seconds else max(seconds)
        slowest.append(record._replace(seconds=longest))
    until_backward: dict[str, float] = {}
    for times in everyone:
        if times.until_backward is not None and times.node:
            longest = max(times.until_backward, until_backward.get(times.node, 0.0))
            until_backward[times.node] = longest
    straggler = straggler_note(own, others)
    return Gathered(
        slowest,
        f"the longest of {len(everyone)} processes, step by step",
        (straggler,) if straggler else (),
        until_backward,
    )


def without_other_ranks(records: Sequence[Record], world_size: int, why: str) -> Gathered:
    """Return this process's records, with a note on why those of other ranks are missing."""
    note = Note("ranks-not-gathered", {"processes": world_size, "why": why})
    return Gathered(records, f"the first of {world_size} processes", (note,))


def open_store() -> Any:
    """Return the torch.distributed.Store of the default process group; None if there is no such
    group.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return None
    try:
        return dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        # A process group that needs no store, or a torch that keeps the store elsewhere.
        return None


def publish_times(store: Any, training: str, rank: int, own: Times) -> None:
    """Publish this process's times for rank 0. Raises RuntimeError if the store is gone."""
    text = msgspec.json.encode(own).decode()
    chunks = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    for number, chunk in enumerate(chunks):
        store.set(f"{training}/{rank}/{number}", chunk)
    # Set last: once this key exists, all chunks do.
    store.set(f"{training}/{rank}", str(len(chunks)))


def collect_times(
    store: Any, training: str, world_size: int, timeout_s: float = TIMEOUT_S
) -> tuple[dict[int, Times], list[int]]:
    """Collect step times from all ranks; also return the ranks that timed out."""
    deadline = time.monotonic() + timeout_s
    times = {}
    missing = []
    for rank in range(1, world_size):
        remaining_s = max(0.05, deadline - time.monotonic())
        key = f"{training}/{rank}"
        try:
            store.wait([key], datetime.timedelta(seconds=remaining_s))
            chunks = [store.get(f"{key}/{number}") for number in range(int(store.get(key)))]
            times[rank] = msgspec.json.decode(b"".join(chunks), type=Times)
        except (RuntimeError, ValueError):
            missing.append(rank)
    return times, missing


def straggler_note(own: Times, others: dict[int, Times]) -> Note | None:
    """Return a note that names the stragglers; None if there are none."""
    everyone = {0: own, **others}
    until_backward = {}
    for rank, times in everyone.items():
        if times.until_backward is not None:
            until_backward[rank] = times.until_backward
    steps = known_values(own.seconds[1:])
    if len(until_backward) < len(everyone) or not steps:
        return None
    usual = statistics.median_low(until_backward.values())
    step = statistics.median(steps)
    slow = [rank for rank, value in until_backward.items() if value - usual > SLOW_SHARE * step]
    if not slow or len(slow) * 2 > len(until_backward):
        return None
    worst = max(slow, key=lambda rank: until_backward[rank])
    nodes = dict.fromkeys(everyone[rank].node for rank in slow if everyone[rank].node)
    return Note(
        "stragglers",
        {
            "who": f"{_ranks(slow)} on {', '.join(nodes)}" if nodes else _ranks(slow),
            "verb": "is a straggler" if len(slow) == 1 else "are stragglers",
            "longest": until_backward[worst],
            "usual": usual,
            "percent": 100 * (until_backward[worst] - usual) / step,
        },
    )


def _ranks(ranks: Sequence[int]) -> str:
    return format_steps(ranks).replace("step", "rank", 1)


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"RANK and WORLD_SIZE indicate several processes, but {what}",
        heading="torchrun",
        hint=(
            "start them with torchrun, or unset RANK and WORLD_SIZE and let benchmark.py start them"
        ),
    )
