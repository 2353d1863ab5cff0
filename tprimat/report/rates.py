"""Rates as text and with their intervals, and the records that a run's figures are of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tprimat import units
from tprimat.analysis import intervals
from tprimat.analysis.records import trained
from tprimat.analysis.summary import rounding_variance
from tprimat.compare import RunResult, SystemResult
from tprimat.compare.result import Unit
from tprimat.compare.speedup import RATE as RATE
from tprimat.compare.speedup import kind_of_device
from tprimat.notes.catalogue import safe_sentences, words

STEP_TIME = "avg_step_time_seconds"
"""The metric of a step's mean time."""

Systems = Sequence[SystemResult]


class Bounds(NamedTuple):
    """The interval of a system's rate, or of its step time, between runs."""

    low: float
    high: float


WIDE = 0.2
"""Half the width of an interval, relative, from which it is shown by its bounds."""


def bounds_of(system: SystemResult) -> Bounds | None:
    """Return the interval between runs; None if it is unknown: of one run, or of few that differ
    too much.
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
    """Return each system's loss at the end, with its step and tokens if the systems differ in
    these.
    """
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
    """Return after which steps and tokens a system's loss at the end is; empty without a loss."""
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
    """tokens/s/GPU, or what stands for it if a processor trained; steps/s are of all GPUs."""
    systems = list(systems)
    kind = kind_of_device(systems)
    if work_of(systems) is _WORKS["steps"]:
        return "steps/s"
    unit = f"{work_of(systems).noun}s/s/{kind}"
    is_one_process = kind == "process" and {system.count for system in systems} == {1}
    if is_one_process:
        return unit.removesuffix("/process")
    return unit


class Work(NamedTuple):
    """What a rate counts, and the amount of it whose cost is stated."""

    noun: str
    amount: str
    size: float


def work_of(systems: Iterable[SystemResult]) -> Work:
    """Return tokens; samples or steps if any are compared in these, since no system's cost per
    token is known then.
    """
    units_of = {system.unit for system in systems}
    return next((work for unit, work in _WORKS.items() if unit in units_of), _WORKS["tokens"])


_WORKS: Mapping[Unit, Work] = {
    "samples": Work("sample", "10⁶ samples", 1e6),
    "steps": Work("step", "10³ steps", 1e3),
    "tokens": Work("token", "10⁹ tokens", 1e9),
}


def rate(value: float | None) -> str:
    """A rate with at least three digits."""
    if value is None or value >= 1000:
        return units.number(value, 0)
    if value >= 100:
        return units.number(value, 1)
    if value >= 10:
        return units.number(value, 2)
    return units.number(value, 3)


def value_warnings(system: SystemResult) -> list[str]:
    """Return the sentences of what bears on a system's values, each once."""
    return list(dict.fromkeys(safe_sentences(system.value_notes)))


def run_warnings(system: SystemResult) -> list[str]:
    """Return the sentences of what else is known of a system's runs, each once."""
    return list(dict.fromkeys(safe_sentences(system.run_notes)))


def why_untimed(system: SystemResult) -> str:
    """Return why a system has no valid step times, as the words that follow its name."""
    note = system.why_untimed
    has = "has " if note.code == "untimed" else ""
    return f"{has}{words(note)}"


def untimed(system: SystemResult) -> str:
    """What stands for a time or a rate that a system has none of."""
    if system.run.environment.emulated:
        return "emulated"
    return units.UNKNOWN


def rate_of(system: SystemResult) -> str:
    """A system's rate."""
    if system.value(RATE) is None:
        return untimed(system)
    return rate(system.value(RATE))


def plus_minus(low: float, high: float) -> str:
    """Return half the width of an interval, relative; nothing if its bounds say more."""
    half = (high / low) ** 0.5 - 1
    if half < WIDE:
        return f" ± {half:.1%}"
    return ""
