"""Rates as text: with their unit, and with the levels of a run that has several."""

from __future__ import annotations

from collections.abc import Iterable

from tprimat import units
from tprimat.compare import SideResult

RATE = "tokens_per_second_per_gpu"


def rate_unit(sides: Iterable[SideResult]) -> str:
    """tokens/s/GPU, or what stands for it where a processor trained."""
    platforms = {(side.run.platform, side.side.count) for side in sides}
    kinds = {platform for platform, _ in platforms}
    if kinds == {"cpu"}:
        return "tokens/s" if {count for _, count in platforms} == {1} else "tokens/s/process"
    return "tokens/s/device" if "cpu" in kinds else "tokens/s/GPU"


def rate(value: float | None) -> str:
    """A rate with at least three digits."""
    digits = 0 if value is None or value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return units.number(value, digits)


def untimed(side: SideResult) -> str:
    """What stands for a time or a rate that a side has none of."""
    return "emulated" if side.run.environment.emulated else units.UNKNOWN


def rate_of(side: SideResult) -> str:
    """A side's rate; of runs that change their level or drift, the lowest and the highest one."""
    if side.value(RATE) is None and not side.levels:
        return untimed(side)
    if side.settled:
        return rate(side.value(RATE))
    rates = [each.tokens_per_second_per_gpu for result in side.counted for each in result.summary.step_ranges]
    known = [each for each in rates if each is not None]
    return f"{rate(min(known))}–{rate(max(known))}" if known else units.UNKNOWN
