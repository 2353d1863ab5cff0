"""Segments of a run after its warm-up, between change points, and their drift."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis import warmup
from tprimat.analysis.changepoints import (
    CHANGE_SIGMAS,
    LEAST_CHANGE,
    LEAST_RECORDS,
    MEDIAN_ERROR,
    NEAR,
    change_points,
    relative_change,
)
from tprimat.analysis.stats import MAD_TO_SIGMA, median

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values


@dataclasses.dataclass(frozen=True)
class Segment:
    """Records between two change points, from start until before stop, with the median of their values.

    Attributes:
        drift: largest quarter median over the smallest, minus one, where that is more than noise;
            where only the first ten values are off, their median against that of all; None where
            the segment is steady.
    """

    start: int
    stop: int
    median: float
    drift: float | None


def find_segments(values: Sequence[float], *, minimum: int = warmup.MINIMUM_RECORDS) -> tuple[Segment, ...]:
    """Return the segments of a series after its warm-up, in order of time; the minimum is warmup.minimum_records'.

    One segment for a steady series, several for one that changes; none where no steady state is found.
    """
    import numpy as np

    start = warmup.first_steady_index(values, minimum=minimum)
    if start is None:
        return ()
    series = np.asarray(values, dtype=np.float64)
    edges = [start, *(start + each for each in change_points(series[start:])), len(series)]
    if len(edges) > 2:
        second = median(series[edges[1] : edges[2]])
        if warmup.is_brief(edges[1], len(series)) and warmup.fades(values[start : edges[1]], second):
            # What is left of the warm-up isn't a segment.
            edges = edges[1:]
        else:
            # The warm-up leads to the first segment, so that is what it is judged by.
            first = warmup.detect_warmup(values[: edges[1]])
            if first is not None and first.start <= min(warmup.EARLIEST_CHANGE, edges[1] - LEAST_RECORDS):
                edges[0] = first.start
    parts = ((low, high, series[low:high]) for low, high in itertools.pairwise(edges))
    return tuple(Segment(low, high, median(part), _drift(part)) for low, high, part in parts)


def _drift(series: Values) -> float | None:
    """Return by how much the quarters of a segment differ, or its first values from all, where that is
    more than noise.
    """
    import numpy as np

    if len(series) < LEAST_RECORDS:
        return None
    centre = median(series)
    sigma = MAD_TO_SIGMA * median(abs(series - centre))
    change = relative_change(*(median(quarter) for quarter in np.array_split(series, 4)))
    noise = CHANGE_SIGMAS * MEDIAN_ERROR * sigma / math.sqrt(len(series) / 4) / centre if sigma else 0.0
    if change > max(LEAST_CHANGE, noise):
        return change
    # A ramp of less than half a quarter shows in no quarter's median.
    first = median(series[:NEAR])
    if abs(first - centre) > max(warmup.BAND_SIGMAS * sigma, warmup.BAND_FRACTION * centre):
        return relative_change(first, centre)
    return None
