"""Read many sources, in several processes where that pays."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool

from tprimat.log_import import sources
from tprimat.log_import.sources import LogSource, Outcome

PARALLEL_FROM = 1 << 23
"""Bytes; less than this is read before other processes have started."""


def read_sources(
    units: list[LogSource], jobs: int | None, advance: Callable[[str], None]
) -> Iterator[tuple[LogSource, Outcome]]:
    """Yield what becomes of each source, in their order.

    Args:
        units: the sources.
        jobs: how many are read at a time; None for one per CPU.
        advance: called with the title of each source that is done.
    """
    workers = min(jobs or os.cpu_count() or 1, len(units))
    is_piped = any(unit.size == 0 for unit in units)
    if workers < 2 or is_piped or sum(unit.size for unit in units) < PARALLEL_FROM:
        for unit in units:
            yield unit, sources.read_unit(unit)
            advance(unit.title)
        return
    # A forked process would inherit locks of whatever the parent runs at the time.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: deque[tuple[LogSource, concurrent.futures.Future[Outcome]]] = deque()
    try:
        # A few more than there are workers: what has been read waits in memory until its turn comes.
        for unit in units:
            waiting.append((unit, pool.submit(sources.read_unit, unit)))
            if len(waiting) >= 2 * workers:
                yield _next(waiting, advance)
        while waiting:
            yield _next(waiting, advance)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _next(
    waiting: deque[tuple[LogSource, concurrent.futures.Future[Outcome]]], advance: Callable[[str], None]
) -> tuple[LogSource, Outcome]:
    unit, future = waiting.popleft()
    try:
        outcome = future.result()
    except BrokenProcessPool:
        outcome = Outcome(
            error=f"{unit.title}: the process that read it was ended from outside, by lack of memory maybe"
        )
    advance(unit.title)
    return unit, outcome
