"""The systems of a model -> groups that did the same work, each with its baseline, pairs and
caveats.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

from tprimat.checks.compute import Mode
from tprimat.checks.settings import rows_of
from tprimat.compare.caveats import caveats
from tprimat.compare.figures import Known, aligned
from tprimat.compare.pairs import different_work, pair
from tprimat.compare.result import RATE, Caveat, Group, Pair, SettingRow, SystemResult
from tprimat.notes import Note
from tprimat.results.account import Clock
from tprimat.text import plain


def by_work(systems: Sequence[SystemResult]) -> list[list[SystemResult]]:
    """Return the systems that have a rate and did the same work, two or more together, the most
    first.

    A system that leaves its shape open belongs to each work that it may have done. So the systems
    with which another one is compared never depend on what else there is.
    """
    rated = list(filter(_is_rated, systems))
    kinds = {_work(system): system for system in rated}
    conflicts = {}
    for key, system in kinds.items():
        conflicts[key] = {other for other in kinds if different_work(system, kinds[other])}
    firsts: list[tuple[object, ...]] = []
    for key in sorted(kinds, key=lambda key: -len(conflicts[key])):
        if all(first in conflicts[key] for first in firsts):
            firsts.append(key)
    works = []
    for first in firsts:
        works.append([system for system in rated if _work(system) not in conflicts[first]])
    several = [work for work in works if len(work) > 1]
    return sorted(several, key=len, reverse=True)


def _is_rated(system: SystemResult) -> bool:
    return system.exclusion is None and system.value(RATE) is not None


def _work(system: SystemResult) -> tuple[object, ...]:
    """Return what decides whether the work of two systems is the same."""
    run = system.run
    length = None
    if system.unit != "samples":
        length = run.training_config.sequence_length
    return run.model, run.scale, run.model_config, system.unit, length


def evidence(group: Group) -> tuple[bool, int, int]:
    """Return how much an answer rests on: whether there is one, and how many systems and runs are
    compared.
    """
    compared = group.compared
    runs = sum(len(system.valid_runs) for system in compared)
    return group.leaders is not None and not group.leaders.is_unsettled, len(compared), runs


def group_of(
    work: Sequence[SystemResult],
    others: Sequence[SystemResult],
    chosen: SystemResult | None,
    mode: Mode,
    title: str,
) -> Group:
    """Compare systems that did the same work with a baseline, and say why others can't be compared
    with it.

    Each pair is compared on the clock and the steps that its two systems share, so that no third
    one changes a ratio. On these another system may be the fastest than by the rates of all steps:
    then another baseline is tried.
    """
    by_rate = sorted(work, key=lambda system: (system.is_unsettled, -(system.value(RATE) or 0.0)))
    every = [*work, *others]
    baseline = chosen or _first_baseline(by_rate, others)
    found = _pairs_with(baseline, every, mode)
    ranked = _ranked([*by_rate, *others], baseline, found)
    for _ in range(MORE_TRIES):
        if chosen or not ranked or _default_baseline(ranked) is baseline:
            break
        baseline = _default_baseline(ranked)
        found = _pairs_with(baseline, every, mode)
        ranked = _ranked([*by_rate, *others], baseline, found)
    leader, beside = None, baseline
    if ranked:
        leader = _default_baseline(ranked) if ranked[0] is baseline else ranked[0]
        # The baseline's values are those beside the system that the headline names.
        beside = found[leader].baseline
    ordered = list(dict.fromkeys([*ranked, *every]))
    pairs = {}
    systems = []
    for system in ordered:
        if system is baseline:
            systems.append(beside)
            continue
        shown = found[system].system if found[system].ratio else system
        pairs[system] = dataclasses.replace(found[system], baseline=beside, system=shown)
        systems.append(shown)
    of_group: tuple[Caveat, ...] = ()
    if leader:
        compared = [pair for pair in pairs.values() if pair.ratio]
        of_compared = caveats(systems[: len(ranked)], compared)
        of_group = (*of_compared, *_on_other_clocks(ordered, systems))
    elif len(systems) == 1 and systems[0].valid_runs:
        of_group = caveats(systems, ())
    second = None
    if ranked and baseline not in ranked[:2]:
        second = pair(*aligned([ranked[1], ranked[0]]), mode=mode)
    return Group(
        tuple(systems),
        beside,
        tuple(pairs.values()),
        tuple(_settings(systems)),
        pairs[leader] if leader else None,
        of_group,
        second,
        title,
    )


MORE_TRIES = 2
"""Baselines that are tried after the first, before one is kept though others are fastest beside
it.
"""


def _pairs_with(
    baseline: SystemResult, systems: Sequence[SystemResult], mode: Mode
) -> dict[SystemResult, Pair]:
    """Return the pair of each system with the baseline, on the clock and the steps that they share."""
    # With many runs of the baseline, the cache takes more memory than it saves time.
    known: Known | None = None
    if len(systems) > len(baseline.runs):
        known = {}
    pairs = {}
    for system in systems:
        if system is not baseline:
            pairs[system] = pair(*aligned([baseline, system], known), mode=mode)
    return pairs


def _settings(systems: Sequence[SystemResult]) -> Iterator[SettingRow]:
    """Yield the settings of systems side by side: those that count, and others that all state."""
    for setting, values in rows_of([system.run for system in systems]):
        row = SettingRow(setting.title, values, setting.essential)
        if row.essential or not row.unknown:
            yield row
    versions = _versions(systems)
    if not versions.unknown:
        yield versions


def _first_baseline(
    by_rate: Sequence[SystemResult], others: Sequence[SystemResult]
) -> SystemResult:
    """Return what systems are compared with first: by their rates, or where none did the same work
    the first one that has a rate.
    """
    if by_rate:
        return _default_baseline(by_rate)
    return next(filter(_is_rated, others), others[0])


def _default_baseline(ranked: Sequence[SystemResult]) -> SystemResult:
    """Return the fastest system of another vendor than the first one's; without such a system the
    second one.
    """
    first, *others = ranked
    for other in others:
        if None not in (other.vendor, first.vendor) and other.vendor != first.vendor:
            return other
    return others[0] if others else first


def _ranked(
    systems: Sequence[SystemResult], baseline: SystemResult, found: Mapping[SystemResult, Pair]
) -> list[SystemResult]:
    """Return the systems that are compared, the fastest first and those that are too short last;
    none without any.
    """
    places = {baseline: (baseline.is_unsettled, -1.0)}
    for system, pair_of_it in found.items():
        if pair_of_it.ratio:
            places[system] = pair_of_it.is_unsettled, -pair_of_it.ratio.value
    if len(places) == 1:
        return []
    return sorted(filter(places.__contains__, systems), key=lambda system: places[system])


def _on_other_clocks(
    own: Sequence[SystemResult], shown: Sequence[SystemResult]
) -> Iterator[Caveat]:
    """Yield which systems are shown by another clock than their own, since what they are compared
    with has no such.
    """
    texts = []
    for alone, here in zip(own, shown, strict=True):
        if _clocks(alone) != _clocks(here) and alone.speeds and here.speeds:
            own_rate = statistics.geometric_mean(alone.speeds)
            change = statistics.geometric_mean(here.speeds) / own_rate - 1
            size = f"{abs(change):.1%}"
            text = "as"
            if size != "0.0%":
                text = f"{size} {'lower' if change < 0 else 'higher'} than"
            texts.append(f"{here.name} {text} on its own")
    if texts:
        note = Note("rates-on-common-clock", {"rates": tuple(texts)})
        yield Caveat("clock-differs", "info", (note,))


def _clocks(system: SystemResult) -> set[Clock | None]:
    return {result.summary.clock for result in system.valid_runs}


def _versions(systems: Sequence[SystemResult]) -> SettingRow:
    """Packages whose versions the systems state and don't share."""
    stated = [system.run.environment.versions for system in systems]
    packages = sorted({name for versions in stated for name in versions})
    # torch has a row of its own.
    differing = []
    for name in packages:
        if name != "torch" and len({versions.get(name) for versions in stated}) > 1:
            differing.append(name)
    values = []
    for versions in stated:
        text = ", ".join(f"{name} {versions[name]}" for name in differing if name in versions)
        values.append(plain(text, 240) or None)
    return SettingRow("other versions", tuple(values), essential=False)
