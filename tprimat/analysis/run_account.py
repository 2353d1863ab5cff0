"""The account of a run, by the warm-up rule of its summary."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from tprimat.analysis.account import account
from tprimat.analysis.records import trained
from tprimat.analysis.summary import Summary, summarize
from tprimat.results.account import Account
from tprimat.results.run import Run


def account_of(run: Run, summary: Summary | None = None) -> Account | None:
    """Return the parts of a run's wall time, given its summary if that is known; None if nothing
    has a time.
    """
    return account(run, (summary or summarize(run)).steady.first_step)


PERCENTILES = (50, 90, 99)


def percentiles(measured: Iterable[tuple[Run, Summary]]) -> tuple[float | None, ...]:
    """Return percentiles of the steady step times of all runs, s; empty if a record is of several
    steps.

    The p-th one is None below 100 / (100 - p) steps: it would be the longest step, whatever that
    is.
    """
    times = []
    for run, summary in measured:
        first = summary.steady.first_step or 0
        run = trained(run)
        records = zip(run.steps, run.step_times, run.window_steps, strict=True)
        steady = []
        for step, time, window in records:
            if time and step >= first:
                steady.append((time, window))
        if run.timing.kind == "partial" or any(window > 1 for _, window in steady):
            return ()
        for time, _ in steady:
            times.append(time)
    least = {p: math.ceil(100 / (100 - p)) for p in PERCENTILES}
    if len(times) > 1:
        cuts = statistics.quantiles(times, n=100, method="inclusive")
    else:
        cuts = []
    if times:
        return tuple(cuts[p - 1] if len(times) >= least[p] else None for p in PERCENTILES)
    return ()
