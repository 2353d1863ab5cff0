"""The ratio over the windows of steps that other tools use. It decides nothing: it shows how much a
published ratio depends on the choice of the window.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tprimat.analysis.records import trained
from tprimat.compare.result import Unit, share_of_step
from tprimat.results.run import Run


class Window(NamedTuple):
    """A rule that selects the steps that count, and who uses it. `pick` returns no times for a run
    that is too short.
    """

    name: str
    source: str
    pick: Callable[[Sequence[float]], Sequence[float]]


def _between(start: int, stop: int) -> Callable[[Sequence[float]], Sequence[float]]:
    """Return a function that selects the steps from `start` to before `stop`, counted from 0, or
    none if the run has fewer than `stop`.
    """

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
    """Return the ratio of throughputs for each window that both runs are long enough for, by its
    name.

    It is above 1 if the system is faster. Empty if the work of a step is unknown, a record averages
    several steps, or not all steps are timed.
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
        first, second = map(window.pick, times)
        if first and second:
            baseline_rate = work[0] / statistics.fmean(first)
            ratios.append((window.name, work[1] / statistics.fmean(second) / baseline_rate))
    return tuple(ratios)
