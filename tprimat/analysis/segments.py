"""Segments of a run after its warm-up, between change points, and their drift."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis import warmup
from tprimat.analysis.changepoints import (
    CERTAINTY,
    LEAST_CHANGE,
    NEAR,
    change_points,
    relative_change,
)
from tprimat.analysis.intervals import BATCHES
from tprimat.analysis.stats import median

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values

DRIFT_RECORDS = 5 * BATCHES
"""A drift is looked for in segments of at least this many records."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """Records between two change points, from start until before stop, with the median of their
    values.

    Attributes:
        drift: relative change from its beginning to its end, negative if the values fall; None if
            that is small or may be noise.
    """

    start: int
    stop: int
    median: float
    drift: float | None


def find_segments(values: Sequence[float]) -> tuple[Segment, ...]:
    """Return the segments of a series after its warm-up, in order of time.

    One segment for a steady series, several for one that changes; none if no steady state is found.
    """
    import numpy as np

    start = warmup.first_steady_index(values)
    if start is None:
        return ()
    series = np.asarray(values, dtype=np.float64)
    edges = [start, *(start + point for point in change_points(series[start:])), len(series)]
    medians = []
    for low, high in itertools.pairwise(edges):
        medians.append(median(series[low:high]))
    if (
        len(edges) > 2
        and medians[0] > medians[1]
        and edges[1] <= warmup.longest_warm_up(len(series))
    ):
        # What is left of the warm-up isn't a segment.
        edges = edges[1:]
        medians = medians[1:]
    found = []
    for (low, high), middle in zip(itertools.pairwise(edges), medians, strict=True):
        found.append(Segment(low, high, middle, _drift(series[low:high])))
    return tuple(found)


def _drift(series: Values) -> float | None:
    """Return by how much a straight line through the means of ten batches rises or falls from one
    end of the segment to the other; or, if a ramp too short for that is left at the beginning, by
    how much its first ten values are off. None if that is below 2 %, or may be noise.
    """
    import numpy as np
    from scipy import special

    if len(series) < DRIFT_RECORDS:
        return None
    means = np.array([batch.mean() for batch in np.array_split(series, BATCHES)])
    places = np.arange(BATCHES) - (BATCHES - 1) / 2
    squares = float(places @ places)
    slope = float(places @ means) / squares
    middle = float(means.mean())
    rest = means - middle - slope * places
    error = math.sqrt(float(rest @ rest) / (BATCHES - 2) / squares)
    first = middle - slope * BATCHES / 2
    last = middle + slope * BATCHES / 2
    certain = error == 0 or 2 * special.stdtr(BATCHES - 2, -abs(slope) / error) < CERTAINTY
    if certain and min(first, last) > 0 and relative_change(first, last) >= LEAST_CHANGE:
        return last / first - 1
    # A ramp at the beginning shows in the medians of the first tens: each comes nearer to what
    # follows.
    tens = [median(series[low : low + NEAR]) for low in (0, NEAR, 2 * NEAR)] + [median(series)]
    steps = []
    for before, after in itertools.pairwise(tens):
        if before > 0:
            steps.append(after / before - 1)
    ramp = (
        len(steps) == 3
        and min(map(abs, steps)) >= LEAST_CHANGE
        and len({step > 0 for step in steps}) == 1
    )
    if ramp:
        return tens[-1] / tens[0] - 1
    return None
