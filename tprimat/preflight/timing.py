"""Rates of an operation that is repeated for seconds, in windows, so that heat and noise are
visible.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from tprimat.analysis import stats
from tprimat.preflight.kernels import Kernel
from tprimat.record.clocks import Clock, DeviceClock, HostClock
from tprimat.results.preflight import Rate

WINDOW_S = 0.25
LEAST_WINDOWS = 4
SHORTEST_S = 1e-9

MEDIAN_ERROR = 1.2533
"""Standard error of the median of normal values over that of their mean, √(π/2)."""


def clock_of(device: Any) -> Clock:
    """Return the clock of work on a torch.device: events on a GPU, the host's on a CPU."""
    import torch

    if device.type == "cpu":
        return HostClock()
    return DeviceClock(device, torch.cuda)


def elapsed(clock: Clock, start: Any, end: Any) -> float:
    """Wait for the end, and return the time between two marks of a clock, s."""
    clock.wait(end, None)
    return max(clock.seconds(start, end), SHORTEST_S)


def call_seconds(kernel: Kernel, clock: Clock) -> float:
    """Return the time of one call, after a first one that chooses kernels and workspaces, s."""
    kernel.run()
    start = clock.mark()
    kernel.run()
    return elapsed(clock, start, clock.mark())


def repeat(kernel: Kernel, clock: Clock, seconds: float) -> list[float]:
    """Repeat an operation for a number of seconds; return the rate of each window, in its work per
    second.
    """
    # At least LEAST_WINDOWS, also of a short time.
    calls = max(1, round(min(WINDOW_S, seconds / LEAST_WINDOWS) / call_seconds(kernel, clock)))
    marks = [clock.mark()]
    total = 0.0
    rates: list[float] = []
    while total < seconds or len(rates) < LEAST_WINDOWS:
        for _ in range(calls):
            kernel.run()
        marks.append(clock.mark())
        # The window before is timed while this one is queued, so that a GPU doesn't wait for its
        # host.
        if len(marks) > 2:
            seconds_of_window = elapsed(clock, *marks[-3:-1])
            rates.append(kernel.work * calls / seconds_of_window)
            total += seconds_of_window
    # What is still queued would disturb the next measurement.
    elapsed(clock, *marks[-2:])
    return rates


def rate_of(rates: Sequence[float], shape: str | None = None) -> Rate:
    """Return the rates of windows of equal work in short."""
    quarter = math.ceil(len(rates) / 4)
    median = statistics.median(rates)
    return Rate(
        median=median,
        # For windows of equal work, the harmonic mean is all work over all time.
        mean=statistics.harmonic_mean(rates),
        best=max(rates),
        error=MEDIAN_ERROR * stats.robust_sigma(rates) / median / math.sqrt(len(rates)),
        drop=1
        - statistics.harmonic_mean(rates[-quarter:]) / statistics.harmonic_mean(rates[:quarter]),
        shape=shape,
    )
