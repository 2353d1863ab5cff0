"""Rates as text and with their intervals, and the records that a run's values are computed from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tprimat import units
from tprimat.analysis import intervals
from tprimat.analysis.records import trained
from tprimat.analysis.summary import Summary, rounding_variance
from tprimat.compare import RunResult, SystemResult
from tprimat.compare.result import Unit
from tprimat.compare.speedup import RATE as RATE
from tprimat.compare.speedup import kind_of_device
from tprimat.notes.catalogue import safe_sentences, words

STEP_TIME = "avg_step_time_seconds"
"""The metric of the mean step time."""

Systems = Sequence[SystemResult]


class Bounds(NamedTuple):
    """The interval of a system's rate, or of its step time, between runs."""

    low: float
    high: float


WIDE = 0.2
"""Relative half-width of an interval from which on it is shown by its bounds instead of ±."""


def bounds_of(system: SystemResult) -> Bounds | None:
    """Return the interval between runs; None if it is unknown: there is one run, or there are few
    that differ too much.
    """
    between = intervals.between_run_interval(
        system.speeds, rounding_variance([result.summary for result in system.valid_runs])
    )
    if between is None:
        return None
    return Bounds(between.low, between.high)


def counted_records(result: RunResult) -> list[bool]:
    """Return for each record of a run whether the averages count it."""
    steady = result.summary.steady
    counted = {*trained(result.run).steps}
    first = steady.first_step or 0
    last = steady.last_step or math.inf
    return [first <= step <= last and step in counted for step in result.run.steps]


def final_losses(systems: Systems, form: str = ".4g") -> list[str]:
    """Return each system's final loss, with its step and tokens if the systems differ in these."""
    places = [_place(system) for system in systems]
    if len({*places} - {""}) < 2:
        places = [""] * len(places)
    texts = []
    for system, place in zip(systems, places, strict=True):
        value = system.value("final_loss")
        if value is None:
            texts.append(units.UNKNOWN)
        else:
            texts.append(f"{value:{form}}{place}")
    return texts


def _place(system: SystemResult) -> str:
    """Return the steps and tokens after which a system has its final loss; empty without a loss."""
    steps = loss_ends(system)
    if not steps:
        return ""
    text = f"step {'–'.join(f'{step:,}' for step in steps)}"
    work = system.run.tokens_per_step
    if work:
        text += f", {'–'.join(units.count(step * work) for step in steps)} tokens"
    return f" ({text})"


def loss_ends(system: SystemResult) -> list[int]:
    """Return the last step with a loss; if it differs between the system's runs, the lowest and the
    highest one.
    """
    ends = set()
    for result in system.valid_runs:
        records = zip(result.run.steps, result.run.loss_values, strict=True)
        steps = [step for step, loss in records if loss is not None]
        if steps:
            ends.add(steps[-1])
    if ends:
        return sorted({min(ends), max(ends)})
    return []


def rate_unit(systems: Iterable[SystemResult]) -> str:
    """Return the unit of the systems' rates, such as tokens/s/GPU, or tokens/s/process on CPUs; a
    rate in steps/s is that of all GPUs together.
    """
    systems = list(systems)
    kind = kind_of_device(systems)
    if work_of(systems) is _WORKS["steps"]:
        return "steps/s"
    if systems and systems[0].unit in _PRINTED:
        return _PRINTED[systems[0].unit]
    unit = f"{work_of(systems).noun}s/s/{kind}"
    is_one_process = kind == "process" and {system.count for system in systems} == {1}
    if is_one_process:
        return unit.removesuffix("/process")
    return unit


class Work(NamedTuple):
    """What a rate counts, and the amount of it that costs are stated for."""

    noun: str
    amount: str
    size: float


def work_of(systems: Iterable[SystemResult]) -> Work:
    """Return the work that costs are stated for: tokens, or samples or steps if any system is
    compared in these, since costs per token are unknown then.
    """
    units_of = {system.unit for system in systems}
    return next((work for unit, work in _WORKS.items() if unit in units_of), _WORKS["tokens"])


_PRINTED: Mapping[Unit, str] = {"tflops": "TFLOP/s/GPU", "mfu": "% MFU"}
"""Units of rates that sources print."""

_WORKS: Mapping[Unit, Work] = {
    "samples": Work("sample", "10⁶ samples", 1e6),
    "steps": Work("step", "10³ steps", 1e3),
    "tflops": Work("TFLOP", "10⁹ TFLOP", 1e9),
    "tokens": Work("token", "10⁹ tokens", 1e9),
}


def throughput(summary: Summary) -> tuple[str, str, str]:
    """Return the unit of a run's rate, the rate as text, and a mark if its source prints it; the
    rate is that of all GPUs if that of one is unknown.
    """
    unit = "tokens/s/GPU"
    value = summary.performance.tokens_per_second_per_gpu
    if value is None and (total := summary.performance.tokens_per_second) is not None:
        unit, value = "tokens/s", total
    mark = " (printed by the source)" if summary.is_printed else ""
    return unit, units.number(value), mark


def rate(value: float | None) -> str:
    """Return a rate as text with at least three digits."""
    if value is None or value >= 1000:
        return units.number(value, 0)
    if value >= 100:
        return units.number(value, 1)
    if value >= 10:
        return units.number(value, 2)
    return units.number(value, 3)


def value_warnings(system: SystemResult) -> list[str]:
    """Return the sentences of the notes that affect a system's values, without duplicates."""
    return list(dict.fromkeys(safe_sentences(system.value_notes)))


def run_warnings(system: SystemResult) -> list[str]:
    """Return the sentences of the other notes on a system's runs, without duplicates."""
    return list(dict.fromkeys(safe_sentences(system.run_notes)))


def why_untimed(system: SystemResult) -> str:
    """Return why a system has no valid step times, as the words that follow its name."""
    note = system.why_untimed
    has = "has " if note.code == "untimed" else ""
    return f"{has}{words(note)}"


def untimed(system: SystemResult) -> str:
    """Return the text that replaces a time or a rate that a system lacks."""
    if system.run.environment.emulated:
        return "emulated"
    return units.UNKNOWN


def rate_of(system: SystemResult) -> str:
    """Return a system's rate as text."""
    if system.value(RATE) is None:
        return untimed(system)
    return rate(system.value(RATE))


def plus_minus(low: float, high: float) -> str:
    """Return the relative half-width of an interval as text; empty if it is WIDE, so that its
    bounds tell more.
    """
    half = (high / low) ** 0.5 - 1
    if half < WIDE:
        return f" ± {half:.1%}"
    return ""
