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


WINDOWS = (
    Window("all but the first", "earlier versions of this kind of tool", lambda times: times[1:]),
    Window(
        "steps 35–44",
        "NVIDIA dgxc-benchmarking, pretrain_log_parser.py",
        lambda times: _whole(times, 34, 44),
    ),
    Window("10 ending at 90", "torchtitan, benchmarks/", lambda times: _whole(times, 80, 90)),
    Window("skip 10 %", "Megatron-Bridge, evaluate.py", lambda times: times[len(times) // 10 :]),
    Window("last 10", "NVIDIA cloudai", lambda times: times[-10:] if len(times) > 20 else ()),
    Window("100 after 40", "optimum-benchmark, defaults", lambda times: _whole(times, 40, 140)),
)


def sensitivity(baseline: Run, system: Run, unit: Unit = "tokens") -> tuple[tuple[str, float], ...]:
    """The ratio of throughputs by each window that both runs are long enough for.

    Above 1 if the system is faster. Empty if a rate is unknown, a
    record averages steps, or not all steps are timed.
    """
    work = []
    for run in (baseline, system):
        share = share_of_step(run, unit)
        if not share or any(window != 1 for window in run.window_steps):
            return ()
        if run.timing.kind not in (None, "timer", "stamps"):
            return ()
        work.append(share)
    times = []
    for run in (baseline, system):
        times.append([time for time in trained(run).step_times if time is not None])
    found = []
    for window in WINDOWS:
        picked = [window.pick(time) for time in times]
        if all(picked):
            means = [statistics.fmean(each) for each in picked]
            found.append((window.name, work[1] / means[1] / (work[0] / means[0])))
    return tuple(found)


def _whole(times: Sequence[float], start: int, stop: int) -> Sequence[float]:
    if len(times) >= stop:
        return times[start:stop]
    return ()
