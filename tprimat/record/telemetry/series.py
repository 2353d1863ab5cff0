"""The readings on the step axis: a bounded number of entries, each with the means over its
steps.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import Sample
from tprimat.record.telemetry.timeline import Timeline
from tprimat.results.fields import known_values
from tprimat.results.telemetry import LONGEST_SERIES

SIGNIFICANT = 4

_Gpus = Sequence[GpuState]


def _over(field: str, choose: Callable[[list[float]], float]) -> Callable[[_Gpus], float | None]:
    def read(gpus: _Gpus) -> float | None:
        values = [getattr(gpu, field) for gpu in gpus]
        stated = known_values(values)
        if stated:
            return choose(stated)
        return None

    return read


OF_GPUS: dict[str, Callable[[_Gpus], float | None]] = {
    "power_watts_per_gpu": _over("power_w", statistics.fmean),
    "power_cap_watts_lowest": _over("power_cap_w", min),
    "clock_mhz_lowest": _over("clock_mhz", min),
    "temperature_celsius_highest": _over("temperature_c", max),
    "utilisation_percent": _over("utilisation_percent", statistics.fmean),
    "memory_used_gb_highest": _over("memory_used_gb", max),
}
"""Series of GPUs, each of one reading of all of them: a mean, or the GPU that limits the others."""


def join(
    samples: Sequence[Sample], steps: Timeline
) -> tuple[tuple[int, ...], dict[str, tuple[float | None, ...]]]:
    """Return the last step of each entry, and the series; those without any value are missing.

    An entry covers enough records to have a reading in most entries, and at most LONGEST_SERIES
    entries.
    """
    if not samples or not steps.ends:
        return (), {}
    duration = steps.ends[-1] - steps.began
    span = max(samples[-1].at - samples[0].at, 1e-9)
    count = max(1, min(LONGEST_SERIES, len(steps.steps), math.ceil(duration * len(samples) / span)))
    size = math.ceil(len(steps.steps) / count)
    starts = range(0, len(steps.steps), size)
    last = [min(start + size, len(steps.steps)) - 1 for start in starts]
    edges = [steps.began, *(steps.ends[index] for index in last)]
    times = [sample.at for sample in samples]
    parts = []
    for low, high in itertools.pairwise(edges):
        parts.append(samples[bisect.bisect_right(times, low) : bisect.bisect_right(times, high)])
    series = {}
    for name, read in OF_GPUS.items():
        series[name] = [_mean(read(sample.gpus) for sample in part) for part in parts]
    series |= _of_cpu(samples, edges)
    stated = {}
    for name, values in series.items():
        if any(value is not None for value in values):
            stated[name] = tuple(values)
    return tuple(steps.steps[index] for index in last), stated


def _of_cpu(samples: Sequence[Sample], edges: Sequence[float]) -> dict[str, list[float | None]]:
    """Return series of the CPU's counters, each of which has a value if two readings enclose it."""
    readings = [(sample.at, sample.cpu) for sample in samples if sample.cpu is not None]
    looked = [row for row in readings if row[1].own_s is not None]

    def watts(first: CpuState, last: CpuState, seconds: float) -> float | None:
        names = set(first.energy_j) & set(last.energy_j)
        joules = [last.energy_j[name] - first.energy_j[name] for name in names]
        if joules and min(joules) >= 0:
            return sum(joules) / seconds
        return None

    frequencies = []
    for low, high in itertools.pairwise(edges):
        frequencies.append(_mean(cpu.frequency_mhz for at, cpu in readings if low < at <= high))
    return {
        "other_programs_cpu_percent": _rates(
            looked, edges, lambda first, last, _: 100 * last.share_of_others(first)
        ),
        "steal_cpu_percent": _rates(
            readings, edges, lambda first, last, _: 100 * last.share_stolen(first)
        ),
        "cpu_power_watts": _rates(readings, edges, watts),
        "cpu_frequency_mhz": frequencies,
    }


def _rates(
    rows: Sequence[tuple[float, CpuState]],
    edges: Sequence[float],
    rate: Callable[[CpuState, CpuState, float], float | None],
) -> list[float | None]:
    """Return a rate for each entry: between the last reading before it and the first one after
    it.
    """
    times = [at for at, _ in rows]
    values = []
    for low, high in itertools.pairwise(edges):
        first = max(bisect.bisect_right(times, low) - 1, 0)
        last = min(bisect.bisect_left(times, high), len(times) - 1)
        rises = last > first and rows[last][1].total_s > rows[first][1].total_s
        value = None
        if rises:
            value = rate(rows[first][1], rows[last][1], times[last] - times[first])
        values.append(_mean([value]))
    return values


def _mean(values: Iterable[float | None]) -> float | None:
    stated = known_values(values)
    if stated:
        return float(f"{statistics.fmean(stated):.{SIGNIFICANT}g}")
    return None
