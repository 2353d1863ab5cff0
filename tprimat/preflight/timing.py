"""Rates of an operation that is repeated for seconds, in windows, so that heat and noise are visible."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

from tprimat.analysis import stats
from tprimat.preflight.kernels import Kernel
from tprimat.results.preflight import Rate

WINDOW_S = 0.25
LEAST_WINDOWS = 4
SHORTEST_S = 1e-9

MEDIAN_ERROR = 1.2533
"""Standard error of the median of normal values over that of their mean, √(π/2)."""


class Stopwatch:
    """Moments on a device: events on a GPU, the host's clock on a CPU."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._cuda = torch.cuda if device.type == "cuda" else None

    def mark(self) -> Any:
        """Return the moment after all work that was queued so far."""
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Wait for the end, and return the time between two moments, s."""
        if self._cuda is None:
            return max(float(end - start), SHORTEST_S)
        end.synchronize()
        return max(float(start.elapsed_time(end)) / 1e3, SHORTEST_S)


def call_seconds(kernel: Kernel, watch: Stopwatch) -> float:
    """Return the time of one call, after a first one that chooses kernels and workspaces, s."""
    kernel.run()
    start = watch.mark()
    kernel.run()
    return watch.seconds(start, watch.mark())


def repeat(kernel: Kernel, watch: Stopwatch, seconds: float) -> list[float]:
    """Repeat an operation for so many seconds; return the rate of each window, in its work per second."""
    # At least LEAST_WINDOWS, also of a short time.
    calls = max(1, round(min(WINDOW_S, seconds / LEAST_WINDOWS) / call_seconds(kernel, watch)))
    marks, total = [watch.mark()], 0.0
    rates: list[float] = []
    while total < seconds or len(rates) < LEAST_WINDOWS:
        for _ in range(calls):
            kernel.run()
        marks.append(watch.mark())
        # The window before is timed while this one is queued, so that a GPU doesn't wait for its host.
        if len(marks) > 2:
            elapsed = watch.seconds(*marks[-3:-1])
            rates.append(kernel.work * calls / elapsed)
            total += elapsed
    # What is still queued would disturb the next measurement.
    watch.seconds(*marks[-2:])
    return rates


def rate_of(rates: Sequence[float], shape: str | None = None) -> Rate:
    """Return the rates of windows of equal work in short."""
    quarter = math.ceil(len(rates) / 4)
    median = statistics.median(rates)
    return Rate(
        median=median,
        # Of windows of equal work the harmonic mean is all work over all time.
        mean=statistics.harmonic_mean(rates),
        best=max(rates),
        error=MEDIAN_ERROR * stats.robust_sigma(rates) / median / math.sqrt(len(rates)),
        drop=1 - statistics.harmonic_mean(rates[-quarter:]) / statistics.harmonic_mean(rates[:quarter]),
        shape=shape,
    )
