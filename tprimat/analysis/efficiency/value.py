"""A value with its confidence interval, or why there is none."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Value:
    """A figure, or why there is none.

    Attributes:
        value: in the unit of its row; None with a reason.
        low, high: the interval, where the step time has one.
        reason: why there is no value; or what must be known of it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
