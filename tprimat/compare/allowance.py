"""How much worse than a baseline a metric may become: what a user types, and what it means."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from tprimat.analysis import metrics
from tprimat.analysis.metrics import Metric
from tprimat.compare.ratios import RATE as RATE
from tprimat.errors import UsageError

HEADING = "wrong-allowance"

GATED = tuple(metric for metric in metrics.METRICS if metric.name not in ("final_loss", "steps_per_second"))
"""What can be held against a baseline. A loss can't: which training is the better one depends on more
than speed."""

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*")


@dataclasses.dataclass(frozen=True)
class Allowance:
    """How much worse a metric may become: not negative, in percent of the baseline or in the metric's unit."""

    metric: Metric
    percent: bool
    amount: float

    @property
    def falls(self) -> bool:
        """Whether worse is less; of metrics without a better direction, such as memory, more is worse."""
        return self.metric.better == "higher"

    def __str__(self) -> str:
        word = "less" if self.falls else "more"
        return f"{self.amount:g}{'%' if self.percent else f' {self.metric.unit}'} {word}"


def parse(slower: str | None, others: Sequence[str]) -> tuple[Allowance, ...]:
    """The allowances of a gate; throughput per GPU is always among them, and first.

    Args:
        slower: what was typed after --allow-slower, such as 3%; None allows nothing.
        others: what was typed after each --allow: NAME=3% or NAME=0.5, in the metric's unit.

    Raises:
        UsageError: a metric that there is not, one that is named twice, or no amount.
    """
    found: dict[str, Allowance] = {}
    if slower is not None:
        percent, amount = _amount("--allow-slower", slower)
        if not percent:
            raise UsageError(f"--allow-slower {slower!r}: write a share of the speed, such as 3%", heading=HEADING)
        found[RATE] = Allowance(metrics.by_name(RATE), True, amount)
    for text in others:
        name, equals, value = text.partition("=")
        metric = next((each for each in GATED if each.name == name.strip()), None)
        if not equals or metric is None:
            names = ", ".join(each.name for each in GATED)
            raise UsageError(f"--allow {text!r}: write NAME=3% or NAME=0.5, NAME one of {names}", heading=HEADING)
        if metric.name in found:
            raise UsageError(f"{metric.name} has two allowances: give one", heading=HEADING)
        found[metric.name] = Allowance(metric, *_amount(f"--allow {metric.name}", value))
    rate = found.pop(RATE, None) or Allowance(metrics.by_name(RATE), True, 0.0)
    return (rate, *found.values())


def _amount(option: str, text: str) -> tuple[bool, float]:
    matched = _AMOUNT.fullmatch(text)
    percent, amount = (bool(matched[2]), float(matched[1])) if matched else (False, math.inf)
    if not math.isfinite(amount) or (percent and amount >= 100):
        raise UsageError(
            f"{option}: {text.strip()!r} is no amount: write a percentage below 100, such as 3%, or a number",
            heading=HEADING,
        )
    return percent, amount
