"""Systems without tokens/s: they are compared by another rate that all their sources print."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat.compare.figures import in_unit
from tprimat.compare.result import PRINTED_RATES, RATE, SystemResult
from tprimat.compare.systems import device


def in_printed_unit(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return the systems, with the first rate that two or more of them print if none has tokens/s:
    samples/s, else TFLOP/s, else MFU.

    A system that lacks it keeps its unit, and the reason why it can't be compared.
    """
    are_tokens = all(system.unit == "tokens" for system in systems)
    if not are_tokens or any(system.value(RATE) is not None for system in systems):
        return list(systems)
    for unit, names in PRINTED_RATES.items():
        converted = {}
        for system in systems:
            if not system.run.native_metrics.keys().isdisjoint(names):
                converted[system] = in_unit(system, unit)
        rated = [system for system, other in converted.items() if other.value(RATE) is not None]
        if len(rated) > 1 and (unit != "mfu" or _have_one_peak(rated)):
            return [converted[system] if system in rated else system for system in systems]
    return list(systems)


def _have_one_peak(systems: Sequence[SystemResult]) -> bool:
    """Return whether all systems state one GPU and one precision: a share of another peak tells
    nothing about the speed.
    """
    peaks = set()
    for system in systems:
        peaks.add((device(system.run), system.run.training_config.precision))
    return len(peaks) == 1 and not any(None in peak for peak in peaks)
