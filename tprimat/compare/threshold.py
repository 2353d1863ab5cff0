"""Thresholds of the regression check: how much worse than a baseline a metric may become."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from tprimat.analysis import metrics
from tprimat.analysis.metrics import Metric
from tprimat.compare.result import SAMPLES_RATE
from tprimat.compare.speedup import RATE as RATE
from tprimat.errors import UsageError

HEADING = "wrong-threshold"

LOSS = "final_loss"

CHECKED = tuple(
    dataclasses.replace(metric, title="Final loss") if metric.name == LOSS else metric
    for metric in metrics.METRICS
    if metric.name != "steps_per_second"
)
"""Metrics that can be checked. The loss is that after equal numbers of tokens, not that at the end
of each run: see compare.loss.
"""

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)")


@dataclasses.dataclass(frozen=True)
class Threshold:
    """How much worse a metric may become: not negative, in percent of the baseline or in the
    metric's unit.
    """

    metric: Metric
    percent: bool
    amount: float

    @property
    def falls(self) -> bool:
        """Whether a lower value is worse. Of metrics without a better direction, such as memory, a
        higher value is.
        """
        return self.metric.better == "higher"

    @property
    def limit(self) -> float:
        """The worst change that passes: candidate / baseline for a percentage, candidate - baseline
        for an amount in the metric's unit.
        """
        sign = -1 if self.falls else 1
        if self.percent:
            return 1 + sign * self.amount / 100
        return sign * self.amount

    @property
    def unit(self) -> str:
        """The unit of the amount."""
        if self.percent:
            return "%"
        return self.metric.unit

    def __str__(self) -> str:
        text = f"{self.amount:g}{'%' if self.percent else f' {self.metric.unit}'}"
        if self.amount == 0 or not self.falls:
            if self.amount == 0:
                return text
            return f"+{text}"
        return f"{text} {'lower' if self.metric.name not in (RATE, SAMPLES_RATE) else 'slower'}"


def parse(slower: str | None, others: Sequence[str]) -> tuple[Threshold, ...]:
    """Return the thresholds of a check, that of throughput per GPU first; if the user states none,
    0 % of throughput per GPU.

    Args:
        slower: the text after --max-slowdown, such as 3%; None without that option.
        others: the texts after each --threshold: NAME=3% or NAME=0.5, in the metric's unit.

    Raises:
        UsageError: for an unknown metric, one that is named twice, or an invalid amount.
    """
    found = {}
    if slower is not None:
        percent, amount = _amount("--max-slowdown", slower)
        if not percent:
            raise UsageError(
                f"--max-slowdown: {slower!r} is not a percentage",
                heading=HEADING,
                hint="use e.g. 3%",
            )
        found[RATE] = Threshold(metrics.by_name(RATE), True, amount)
    for text in others:
        name, equals, value = text.partition("=")
        metric = next((each for each in CHECKED if each.name == name.strip()), None)
        if not equals or metric is None:
            names = ", ".join(each.name for each in CHECKED)
            hint = f"use METRIC=3% or METRIC=0.5; METRIC is one of {names}"
            raise UsageError(
                f"--threshold: {text!r} is not METRIC=AMOUNT", heading=HEADING, hint=hint
            )
        if metric.name in found:
            raise UsageError(
                f"--threshold: {metric.name} is given twice", heading=HEADING, hint="use one"
            )
        found[metric.name] = Threshold(metric, *_amount(f"--threshold {metric.name}", value))
    if not found:
        found[RATE] = Threshold(metrics.by_name(RATE), True, 0.0)
    return tuple(sorted(found.values(), key=lambda each: each.metric.name != RATE))


def _amount(option: str, text: str) -> tuple[bool, float]:
    matched = _AMOUNT.fullmatch(text.strip())
    percent, amount = (bool(matched[2]), float(matched[1])) if matched else (False, math.inf)
    if not math.isfinite(amount) or (percent and amount >= 100):
        raise UsageError(
            f"{option}: invalid threshold {text.strip()!r}",
            heading=HEADING,
            hint="use e.g. 3% or 0.5",
        )
    return percent, amount
