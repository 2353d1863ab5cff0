"""Step times of all ranks, gathered once, at the regular end of a training.

A step takes as long as it takes the slowest process. The times travel through the key-value store
that torch.distributed keeps beside its process group, and in no collective: a process that has died
or never comes costs the first one a bounded wait, and the training's own communication is not
touched.
"""

from __future__ import annotations

import contextlib
import datetime
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from tprimat.record.recorder import Record, format_steps

TIMEOUT_S = 30.0
"""How long the first process waits for the others' times. They end their last step together."""

CHUNK = 1 << 20
"""Characters of one entry in the store; torch's refuses more than 8 MiB."""

SLOW_SHARE = 0.1
"""Of a step's time: by so much longer must a process take before its backward pass to be named."""


BEFORE_THE_END = "the training ended before they were gathered"
WHILE_GATHERED = "the first process was ended while it gathered them"


class Store(Protocol):
    """The part of torch.distributed's store that is used."""

    def set(self, key: str, value: str) -> None:
        """Write an entry."""

    def get(self, key: str) -> bytes:
        """Return an entry that is there."""

    def wait(self, keys: list[str], timeout: datetime.timedelta) -> None:
        """Wait for entries; raise RuntimeError when they don't come."""


class Times(msgspec.Struct, frozen=True):
    """The step times of one process.

    Attributes:
        steps: numbers of the steps.
        seconds: their times, s.
        until_backward: median time from a step's start to its first backward pass, s: where a
            process doesn't yet wait for the others.
    """

    steps: tuple[int, ...]
    seconds: tuple[float | None, ...]
    until_backward: float | None = None


class Gathered(NamedTuple):
    """Records of a whole training.

    Attributes:
        records: with the times that count.
        over_ranks: which ranks' times those are.
        warnings: doubts about them.
    """

    records: Sequence[Record]
    over_ranks: str = "one process"
    warnings: tuple[str, ...] = ()


def gather(records: Sequence[Record], laps: Sequence[float], training: str, rank: int, world_size: int) -> Gathered:
    """Return the training's records with the longest time of each step; every process calls it at the regular end.

    Args:
        records: of this process.
        laps: its times from a step's start to its backward pass, s.
        training: a name for it, the same in all its processes.
        rank: of this process.
        world_size: number of processes.
    """
    store = open_store()
    if store is None:
        return alone(records, world_size, "they share no store of torch.distributed")
    own = times_of(records, laps)
    if rank:
        # Should the first process be gone, this one has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            publish_times(store, training, rank, own)
        return alone(records, world_size, "this is not the first process")
    others, missing = collect_times(store, training, world_size)
    if missing:
        return alone(records, world_size, f"{_ranks(missing)} did not tell theirs within {TIMEOUT_S:g} s of the end")
    kept, why = longest(records, others)
    if kept is None:
        return alone(records, world_size, str(why))
    slow = straggler_message(own, others)
    return Gathered(kept, f"the longest of {world_size} processes, step by step", (slow,) if slow else ())


def alone(records: Sequence[Record], world_size: int, why: str) -> Gathered:
    """Return this process's records, with the reason why the others' are missing."""
    of = f"the first of {world_size} processes"
    return Gathered(records, of, (f"step times are those of {of}, not the longest over all: {why}",))


def times_of(records: Sequence[Record], until_backward: Sequence[float]) -> Times:
    """Return the step times of this process."""
    return Times(
        tuple(record.step for record in records),
        tuple(record.seconds for record in records),
        statistics.median(until_backward) if until_backward else None,
    )


def open_store() -> Store | None:
    """Return the store of the default process group; None where there is no such group."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return None
    try:
        store: Store = dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        # A group of a kind that needs none, or a torch that keeps it elsewhere.
        return None
    return store


def publish_times(store: Store, training: str, rank: int, own: Times) -> None:
    """Publish this process's times for the first one. Raises RuntimeError where the store is gone."""
    text = msgspec.json.encode(own).decode()
    chunks = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    for number, chunk in enumerate(chunks):
        store.set(f"{training}/{rank}/{number}", chunk)
    # Last: whoever sees it finds the rest.
    store.set(f"{training}/{rank}", str(len(chunks)))


def collect_times(
    store: Store, training: str, world_size: int, timeout_s: float = TIMEOUT_S
) -> tuple[dict[int, Times], list[int]]:
    """Collect step times from all ranks; also return the ranks that timed out."""
    deadline = time.monotonic() + timeout_s
    times: dict[int, Times] = {}
    missing = []
    for rank in range(1, world_size):
        left = max(0.05, deadline - time.monotonic())
        try:
            store.wait([f"{training}/{rank}"], datetime.timedelta(seconds=left))
            chunks = [
                store.get(f"{training}/{rank}/{number}") for number in range(int(store.get(f"{training}/{rank}")))
            ]
            times[rank] = msgspec.json.decode(b"".join(chunks), type=Times)
        except (RuntimeError, ValueError):
            missing.append(rank)
    return times, missing


def longest(records: Sequence[Record], others: dict[int, Times]) -> tuple[list[Record] | None, str | None]:
    """Return each step with the time of the process that took longest.

    Returns:
        The records; or None, with the reason, where the processes didn't see the same steps.
    """
    steps = tuple(record.step for record in records)
    different = [rank for rank, times in others.items() if times.steps != steps or len(times.seconds) != len(steps)]
    if different:
        return None, f"the {_ranks(different)} recorded other steps than the first process"
    kept = []
    for record, *seconds in zip(records, *(times.seconds for times in others.values()), strict=True):
        all_seconds = (record.seconds, *seconds)
        # Where one of them is unknown, so is the longest.
        known = [each for each in all_seconds if each is not None]
        kept.append(record._replace(seconds=max(known) if len(known) == len(all_seconds) else None))
    return kept, None


def straggler_message(own: Times, others: dict[int, Times]) -> str | None:
    """Return a warning that names the straggler; None without one."""
    until = {0: own.until_backward, **{rank: times.until_backward for rank, times in others.items()}}
    known = {rank: value for rank, value in until.items() if value is not None}
    steps = [seconds for seconds in own.seconds[1:] if seconds is not None]
    if len(known) < 2 or len(known) < len(until) or not steps:
        return None
    usual = statistics.median_low(known.values())
    slow = [rank for rank, value in known.items() if value - usual > SLOW_SHARE * statistics.median(steps)]
    if not slow or len(slow) * 2 > len(known):
        return None
    worst = max(slow, key=lambda rank: known[rank])
    verb = "is" if len(slow) == 1 else "are"
    return (
        f"{_ranks(slow)} {verb} slow: up to {known[worst]:.3g} s from a step's start to the backward pass, where "
        f"{usual:.3g} s are usual; the others wait for that in each step"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return format_steps(ranks).replace("step", "rank", 1)
