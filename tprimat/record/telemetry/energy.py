"""The energy of the steady steps, from counters that are read once a second: its coverage, and its
validity.

A counter never falls, so its value at a step's end lies between those of the readings around it.
The value is interpolated, and the most by which it can be wrong is part of the result. It is
compared with the power readings times the time; a counter that contradicts them is rejected. No
energy is computed from a data sheet.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import Sample
from tprimat.record.telemetry.timeline import (
    CLOCK_JUMP,
    Rows,
    Timeline,
    around,
    clock_jumps,
    rows_of,
)
from tprimat.results.fields import known_values
from tprimat.results.telemetry import VALID_ENERGY

TOLERANCE, TOLERANCE_OF_ONE = 0.1, 0.5
"""Relative difference from power times time: of many power readings, and in addition of one that
isn't an average.
"""

Readings = Sequence[tuple[float, float]]
"""Times and values of a counter or of a power, s and J or W."""

LEAST_READINGS = 5
"""Power readings without which the counter can't be checked."""

LARGEST_ERROR = 0.1
"""Share of the energy by which it may be wrong at the ends of the window; in a longer window the
share is smaller.
"""

STUCK_SHARE = 0.2
"""Share of the window: a counter that stands still for longer while power is drawn is stuck."""

IDLE_PERCENT = 5.0
"""Utilization up to which a GPU isn't training."""

ABOVE_CAP = 1.1
"""Times the power cap: what no GPU draws over a window."""

UPDATED_EVERY_S = 0.1
"""Time between updates of a counter, s (ml.energy's measurements of NVIDIA's)."""


class Energy(NamedTuple):
    """An energy, or why there is none.

    Attributes:
        code: validity, see docs/telemetry.md.
        reason: in words; None for a plain measurement.
        joules: over all GPUs or packages; error_joules: the most by which the ends of the window
            make it wrong.
    """

    code: str
    reason: str | None = None
    joules: float | None = None
    error_joules: float = 0.0


class Counter(NamedTuple):
    """A counter's readings without its wraps: times and joules, shape (readings,)."""

    times: list[float]
    joules: list[float]
    wraps: int = 0

    def between(self, start: float, end: float) -> tuple[float, float]:
        """Return the energy between two moments within the readings, and the most by which it is
        wrong.
        """
        (first, first_error), (last, last_error) = self._at(start), self._at(end)
        return last - first, first_error + last_error

    def _at(self, moment: float) -> tuple[float, float]:
        right = min(max(bisect.bisect_left(self.times, moment), 1), len(self.times) - 1)
        low = self.joules[right - 1]
        high = self.joules[right]
        span = self.times[right] - self.times[right - 1]
        share = min(max((moment - self.times[right - 1]) / span, 0.0), 1.0)
        power = (high - low) / span
        # The value lies between both readings, each of which is up to one update old.
        return (
            low + share * (high - low),
            max(share, 1 - share) * (high - low) + power * UPDATED_EVERY_S,
        )


def of_gpus(
    samples: Sequence[Sample], ids: Sequence[str], steady: Timeline, expected: int
) -> Energy:
    """Return the energy of a machine's GPUs over the steady steps, from the samples of the whole
    training.

    `expected` is the number of processes that train here, one per GPU.
    """
    if clock_jumps(samples):
        return Energy("clock-jump", CLOCK_JUMP)
    start = steady.intervals()[0][0]
    end = steady.ends[-1]
    covered = around(samples, start, end)
    if len(covered) < 2 or covered[0].at > start or covered[-1].at < end:
        return Energy("no-counter", "the readings don't cover the steady-state steps")
    rows = rows_of(covered, ids)
    missing = [name for name in ids if len(rows[name]) < len(covered)]
    if missing or len(ids) != expected:
        text = (
            f"{len(ids) - len(missing)} GPUs report during the whole training, {expected} train"
            " here"
        )
        return Energy("devices-missing", text)
    states = [gpu for readings in rows.values() for _, gpu in readings]
    if any(gpu.partitioned for gpu in states):
        return Energy(
            "partitioned",
            "the counter of a GPU in MIG mode covers all its instances, those of others too",
        )
    if swapped := _swapped(rows):
        return Energy("devices-swapped", swapped)
    for name in ids:
        if _is_idle(steady.running(rows[name])):
            text = f"GPU {short_id(name)} is idle while the steps run: it isn't the one that trains"
            return Energy("wrong-device", text)
    parts = [_of_gpu(name, rows[name], steady) for name in ids]
    if any(gpu.counter_is_shared for gpu in states):
        indices = [rows[name][0][1].index for name in ids]
        return _of_packages(dict(zip(indices, parts, strict=True)))
    return _sum(parts)


def of_cpu(samples: Sequence[Sample], steady: Timeline) -> Energy:
    """Return the energy of the CPU packages and their memory over the steady steps, that of other
    programs included.
    """
    start = steady.intervals()[0][0]
    end = steady.ends[-1]
    rows = []
    for sample in around(samples, start, end):
        if sample.cpu is not None and sample.cpu.energy_j:
            rows.append((sample.at, sample.cpu))
    if len(rows) < 2 or rows[0][0] > start or rows[-1][0] < end:
        return Energy("no-counter", "no RAPL counter could be read over the steady-state steps")
    names = sorted(set.intersection(*(set(cpu.energy_j) for _, cpu in rows)))
    parts = []
    for name in names:
        readings = [(at, cpu.energy_j[name]) for at, cpu in rows]
        counter = unwrapped(readings, rows[0][1].energy_range_j.get(name))
        if isinstance(counter, Counter):
            parts.append(_within_error(counter, steady, name))
        else:
            parts.append(counter)
    if parts:
        return _sum(parts)
    return Energy("no-counter", "RAPL's counters changed while they were read")


def unwrapped(readings: Readings, top: float | None) -> Counter | Energy:
    """Return a counter that never falls: where it starts again at `top`, that is added. Units: s,
    J.
    """
    times = [readings[0][0]]
    joules = [readings[0][1]]
    wraps = 0
    added = 0.0
    for (_, before), (at, now) in itertools.pairwise(readings):
        if now < before:
            # Within a second no counter comes around twice, and none falls but by coming around.
            if top is None or before > top or before < top / 2:
                return Energy(
                    "counter-reset",
                    "the energy counter decreased: the driver was reloaded, or the counter is"
                    " broken",
                )
            wraps = wraps + 1
            added = added + top
        times.append(at)
        joules.append(now + added)
    return Counter(times, joules, wraps)


def _of_gpu(name: str, rows: Rows, steady: Timeline) -> Energy:
    counted = [(at, gpu.energy_j) for at, gpu in rows if gpu.energy_j is not None]
    drawn = [(at, gpu.power_w) for at, gpu in rows if gpu.power_w is not None]
    newest = rows[-1][1]
    if len(counted) < len(rows):
        return _from_power(name, drawn, newest, steady, len(rows))
    counter = unwrapped(counted, newest.energy_range_j)
    if isinstance(counter, Energy):
        return counter
    energy = _within_error(counter, steady, f"GPU {short_id(name)}")
    if energy.joules is None:
        return energy
    if _stands_still(counter, drawn):
        return Energy(
            "counter-stuck",
            f"the energy counter of GPU {short_id(name)} doesn't change while power is drawn",
        )
    measured_s = steady.running_s()
    cap = newest.power_cap_w or newest.power_max_w
    if (
        cap is not None
        and energy.joules / measured_s > ABOVE_CAP * cap
        and not newest.counter_is_shared
    ):
        watts = energy.joules / measured_s
        text = (
            f"the counter of GPU {short_id(name)} states {watts:.0f} W, above its cap of"
            f" {cap:.0f} W"
        )
        return Energy("above-power-cap", text)
    return _checked(energy, name, drawn, newest, steady)


def _checked(energy: Energy, name: str, drawn: Readings, gpu: GpuState, steady: Timeline) -> Energy:
    """Return a counter's energy as power times time confirms it."""
    assert energy.joules is not None
    if len(drawn) < LEAST_READINGS:
        return energy._replace(
            code="unverified", reason="too few power readings to check the counter with"
        )
    expected = _power_times_time(drawn, steady)
    if not expected:
        return energy._replace(
            code="unverified", reason="the power readings are 0 W: the counter can't be checked"
        )
    ratio = energy.joules / expected
    if gpu.power_is_average:
        tolerance = TOLERANCE
    else:
        tolerance = TOLERANCE + TOLERANCE_OF_ONE / math.sqrt(len(drawn))
    if abs(ratio - 1) <= tolerance:
        return energy
    if gpu.power_is_average is False and 0.5 < ratio < 2:
        text = (
            "power readings of this GPU cover about a quarter of the time, so they can't confirm"
            " the counter"
        )
        return energy._replace(code="partly-sampled", reason=f"{text} ({ratio:.2f}× power × time)")
    text = f"the energy counter of GPU {short_id(name)} states {ratio:.2f}× its power × time"
    return Energy("power-disagrees", text)


def _from_power(
    name: str, drawn: Readings, gpu: GpuState, steady: Timeline, readings: int
) -> Energy:
    if len(drawn) < max(readings, LEAST_READINGS):
        return Energy(
            "no-counter", f"GPU {short_id(name)} reports no energy counter and no power throughout"
        )
    if gpu.power_is_average is False:
        text = (
            f"GPU {short_id(name)} has no counter, and its power readings cover about a quarter of"
            " the time"
        )
        return Energy("no-counter", text)
    joules = _power_times_time(drawn, steady)
    spread = statistics.pstdev(watts for _, watts in drawn)
    error = spread / math.sqrt(len(drawn)) * steady.running_s()
    return Energy("from-power", "no energy counter: power readings × time", joules, 3 * error)


def _within_error(counter: Counter, steady: Timeline, name: str) -> Energy:
    parts = [counter.between(start, end) for start, end in steady.intervals()]
    joules, error = map(sum, zip(*parts, strict=True))
    if joules <= 0:
        return Energy("counter-stuck", f"the energy counter of {name} doesn't change")
    if error > LARGEST_ERROR * joules:
        text = (
            "the steady-state steps are too short for readings once a second:"
            f" ±{error / joules:.0%}"
        )
        return Energy("window-short", text)
    if counter.wraps:
        return Energy(
            "counter-wrapped", "the counter overflowed, which is accounted for", joules, error
        )
    return Energy("measured", None, joules, error)


def _of_packages(parts: Mapping[int, Energy]) -> Energy:
    """Return the energy of dies of which one counts for two: right if both dies of each package
    train.

    `parts` is by the number of a die in the order of PCI addresses, in which the dies of a package
    are adjacent.
    """
    counted = {index for index, part in parts.items() if part.joules is not None}
    refused = set(parts) - counted
    # Exactly one of neighboring dies, such as 2 and 3, has a counter: 2 ^ 1 is 3, and 3 ^ 1 is 2.
    codes = {parts[index].code for index in refused}
    if refused == {index ^ 1 for index in counted} and codes <= {"counter-stuck", "no-counter"}:
        return _sum([parts[index] for index in parts if index in counted])
    text = (
        "one counter covers two dies (MI250, MI250X), of which not both train: the other's share is"
        " unknown"
    )
    return Energy("shared-counter", text)


def _sum(parts: Sequence[Energy]) -> Energy:
    refused = next((part for part in parts if part.joules is None), None)
    if refused is not None:
        return refused
    joules = sum(part.joules or 0.0 for part in parts)
    error = sum(part.error_joules for part in parts)
    weakest = max(parts, key=lambda part: VALID_ENERGY.index(part.code))
    return Energy(weakest.code, weakest.reason, joules, error)


def _swapped(rows: Mapping[str, Rows]) -> str | None:
    """Return a sentence if the counters of two GPUs are swapped, else None."""
    counts = {}
    for name, readings in rows.items():
        joules = known_values(gpu.energy_j for _, gpu in readings)
        if len(joules) == len(readings):
            counts[name] = list(itertools.pairwise(joules))
    for one, other in itertools.combinations(counts, 2):
        for (a, b), (c, d) in zip(counts[one], counts[other], strict=True):
            # Either falls, and goes on near where the other was.
            if (b < a or d < c) and abs(b - c) + abs(d - a) < 0.1 * abs(a - c):
                return (
                    f"the energy counters of GPUs {short_id(one)} and {short_id(other)} are swapped"
                )
    return None


def _is_idle(rows: Rows) -> bool:
    shares = known_values(gpu.utilisation_percent for _, gpu in rows)
    return len(shares) >= LEAST_READINGS and max(shares) <= IDLE_PERCENT


def _stands_still(counter: Counter, drawn: Readings) -> bool:
    longest = still = 0.0
    for (before, low), (at, high) in itertools.pairwise(
        zip(counter.times, counter.joules, strict=True)
    ):
        if high == low:
            still = still + at - before
        else:
            still = 0.0
        longest = max(longest, still)
    span = counter.times[-1] - counter.times[0]
    return longest > max(STUCK_SHARE * span, 3.0) and any(watts > 0 for _, watts in drawn)


def _power_times_time(drawn: Readings, steady: Timeline) -> float:
    """Return the energy that power readings give for the steps, J."""
    parts = []
    for (before, low), (at, high) in itertools.pairwise(drawn):
        parts.append((low + high) / 2 * (at - before))
    summed = Counter([at for at, _ in drawn], list(itertools.accumulate(parts, initial=0.0)))
    return sum(summed.between(start, end)[0] for start, end in steady.intervals())


def short_id(name: str) -> str:
    """Return the part of a UUID that distinguishes GPUs; a PCI address as it is."""
    if "-" in name:
        return name[:8]
    return name
