"""Means, medians and deviations of measured values."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

MAD_TO_SIGMA = 1.4826
"""The standard deviation of normal values over their median absolute deviation."""

OUTLIER_FRACTION, OUTLIER_SIGMAS = 0.10, 4.0
"""Share of the median, and robust sigmas, by both of which an outlier differs from the median."""

LEAST_ALTERNATING, ALTERNATING, SWING = 6, 0.25, 0.1
"""Fewest values that alternate; how far every second one differs then at most, relative to
neighbors; and how far neighbors do at least, relative to all.
"""


def mean(values: Sequence[float], weights: Sequence[int] | None = None) -> float:
    """Return the weighted mean of at least one value."""
    if weights is None:
        return statistics.fmean(values)
    if len(values) != len(weights):
        raise ValueError(f"{len(values)} values, {len(weights)} weights")
    return math.fsum(map(operator.mul, values, weights)) / sum(weights)


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for a single value."""
    if len(values) < 2:
        return None
    # From the first value on, since the mean of equal ones may be rounded. hypot scales before it
    # squares: a sum of squares overflows beyond 1e154.
    shifted = [value - values[0] for value in values]
    centre = statistics.fmean(shifted)
    return math.hypot(*[value - centre for value in shifted]) / math.sqrt(len(values) - 1)


def median_index(values: Sequence[float]) -> int:
    """Return the index of the median value; of an even number, of the lower of the middle two.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(range(len(values)), key=lambda index: values[index])[(len(values) - 1) // 2]


def median(values: Sequence[float] | Values) -> float:
    """Return the median of one value or more, shape (values,). For a few, numpy.median takes 20
    times as long.
    """
    import numpy as np

    ordered = np.array(values, dtype=np.float64)
    ordered.sort()
    middle = len(ordered) // 2
    return float(
        ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    )


def robust_sigma(values: Sequence[float] | Values) -> float:
    """Return the standard deviation that normal values of this median absolute deviation have."""
    import numpy as np

    return MAD_TO_SIGMA * median(np.abs(np.subtract(values, median(values))))


def outlier_distance(values: Sequence[float] | Values, center: float) -> float:
    """Return how far from their median values are outliers: by more than both 10 % and four robust
    sigmas. Among times around 1.00 s whose sigma is 0.01 s, those above 1.10 s.
    """
    return max(OUTLIER_FRACTION * abs(center), OUTLIER_SIGMAS * robust_sigma(values))


def alternates(values: Sequence[float] | Values) -> bool:
    """Return whether values alternate between two levels: 3.4, 21.1, 3.2, 20.8, …, of a step that
    generates every second time. Neighbors are 17.7 apart there, every second value 0.3.
    """
    import numpy as np

    if len(values) < LEAST_ALTERNATING:
        return False
    series = np.asarray(values, dtype=np.float64)
    swing = median(abs(np.diff(series)))
    return (
        swing > SWING * median(series)
        and median(abs(series[2:] - series[:-2])) < ALTERNATING * swing
    )


def resolution(values: Iterable[float]) -> float:
    """Return the unit of the last decimal that any of some printed values has: 0.01 for 1.5 and
    1.25.
    """
    # A decimal.Decimal of each takes four times as long.
    printed = (repr(float(value)).partition("e") for value in values)
    return 10.0 ** min(
        (int(power or 0) - len(digits.partition(".")[2]) for digits, _, power in printed), default=0
    )
