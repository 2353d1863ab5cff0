"""Read many sources, in several processes where that pays."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

from tprimat.log_import import sources
from tprimat.log_import.sources import LogSource, Outcome

PARALLEL_FROM = 1 << 23
"""Bytes; less than this is read before other processes have started."""


def read_sources(log_sources: list[LogSource], jobs: int | None) -> Iterator[tuple[LogSource, Outcome]]:
    """Yield each source with its outcome, in order; `jobs` are read at a time, one for each CPU where it is None."""
    workers = min(jobs or os.cpu_count() or 1, len(log_sources))
    is_piped = any(source.size == 0 for source in log_sources)
    if workers < 2 or is_piped or sum(source.size for source in log_sources) < PARALLEL_FROM:
        for source in log_sources:
            yield source, sources.read_source(source)
        return
    # A forked process would inherit locks of whatever the parent runs at the time.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: deque[tuple[LogSource, concurrent.futures.Future[Outcome]]] = deque()
    try:
        # A few more than there are workers: what has been read waits in memory until its turn comes.
        for source in log_sources:
            waiting.append((source, pool.submit(sources.read_source, source)))
            if len(waiting) >= 2 * workers:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(source: LogSource, future: concurrent.futures.Future[Outcome]) -> tuple[LogSource, Outcome]:
    try:
        return source, future.result()
    except BrokenProcessPool:
        error = f"{source.title}: the process that read it was ended from outside, by lack of memory maybe"
        return source, Outcome(error=error)
