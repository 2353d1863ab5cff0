"""The ratio under the windows of steps that other tools use. It decides nothing: it shows how
much of a published ratio is the choice of the window.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tprimat.analysis.records import trained
from tprimat.compare.result import Unit, share_of_step
from tprimat.results.run import Run


class Window(NamedTuple):
    """A rule that picks the steps that count, and who uses it. `pick` returns no times for a run
    that is too short.
    """

    name: str
    source: str
    pick: Callable[[Sequence[float]], Sequence[float]]


def _between(start: int, stop: int) -> Callable[[Sequence[float]], Sequence[float]]:
    """Return what picks these steps, counted from 0, of a run that has all of them."""

    def pick(times: Sequence[float]) -> Sequence[float]:
        return times[start:stop] if len(times) >= stop else ()

    return pick


def _last_ten(times: Sequence[float]) -> Sequence[float]:
    return times[-10:] if len(times) > 20 else ()


WINDOWS = (
    Window("all but the first", "earlier versions of this kind of tool", lambda times: times[1:]),
    Window(
        "steps 35–44",
        "NVIDIA dgxc-benchmarking, pretrain_log_parser.py",
        _between(34, 44),
    ),
    Window("10 ending at 90", "torchtitan, benchmarks/", _between(80, 90)),
    Window("skip 10 %", "Megatron-Bridge, evaluate.py", lambda times: times[len(times) // 10 :]),
    Window("last 10", "NVIDIA cloudai", _last_ten),
    Window("100 after 40", "optimum-benchmark, defaults", _between(40, 140)),
)


def sensitivity(baseline: Run, system: Run, unit: Unit = "tokens") -> tuple[tuple[str, float], ...]:
    """The ratio of throughputs by each window that both runs are long enough for.

    Above 1 if the system is faster. Empty if a rate is unknown, a
    record averages steps, or not all steps are timed.
    """
    work = []
    times = []
    for run in (baseline, system):
        share = share_of_step(run, unit)
        if not share or any(window != 1 for window in run.window_steps):
            return ()
        if run.timing.kind not in (None, "timer", "stamps"):
            return ()
        work.append(share)
        times.append([time for time in trained(run).step_times if time is not None])
    ratios = []
    for window in WINDOWS:
        before, after = map(window.pick, times)
        if before and after:
            slow = work[0] / statistics.fmean(before)
            ratios.append((window.name, work[1] / statistics.fmean(after) / slow))
    return tuple(ratios)
