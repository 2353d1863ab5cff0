"""Sort the systems of a model into groups that did the same work, each with its baseline, pairs and
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
    """Return groups of two or more systems that have a rate and did the same work, the largest
    group first.

    A system that doesn't state its shape belongs to each group whose work it may have done. Thus
    whether two systems are compared never depends on which other systems there are.
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
    """Return how much evidence an answer has: whether there is an answer, and the numbers of
    systems and runs that are compared.
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
    """Compare systems of the same work with a baseline, and say why others can't be compared.

    Each pair is compared on the clock and the steps that its two systems share, so that no third
    system changes its ratio. Their order by these ratios may differ from that by their rates over
    all steps: then another baseline is tried.

    Args:
        work: systems that did the same work.
        others: the model's other systems.
        chosen: the baseline that the user named; None to choose one.
        mode: "same" rejects every difference of configuration.
        title: the group's title in reports.
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
    leader, shown_baseline = None, baseline
    if ranked:
        leader = _default_baseline(ranked) if ranked[0] is baseline else ranked[0]
        shown_baseline = found[leader].baseline  # with the values of the pair of the headline
    ordered = list(dict.fromkeys([*ranked, *every]))
    pairs = {}
    for system in ordered:
        if system is not baseline:
            pairs[system] = _shown(found[system], shown_baseline, system)
    systems = [pairs[system].system if system in pairs else shown_baseline for system in ordered]
    group_caveats: tuple[Caveat, ...] = ()
    if leader:
        compared = [pair for pair in pairs.values() if pair.ratio]
        group_caveats = caveats(systems[: len(ranked)], compared)
        group_caveats += tuple(_on_other_clocks(ordered, systems))
    elif len(systems) == 1 and systems[0].valid_runs:
        group_caveats = caveats(systems, ())
    return Group(
        tuple(systems),
        shown_baseline,
        tuple(pairs.values()),
        tuple(_settings(systems)),
        pairs[leader] if leader else None,
        group_caveats,
        _runner_up(ranked, baseline, mode),
        title,
    )


def _runner_up(ranked: Sequence[SystemResult], baseline: SystemResult, mode: Mode) -> Pair | None:
    """Return the fastest system compared with the second fastest; None if that is the baseline."""
    if not ranked or baseline in ranked[:2]:
        return None
    return pair(*aligned([ranked[1], ranked[0]]), mode=mode)


def _shown(compared: Pair, baseline: SystemResult, system: SystemResult) -> Pair:
    """Return a pair with the baseline as it is shown, and the system unchanged if it has no ratio."""
    shown = compared.system if compared.ratio else system
    return dataclasses.replace(compared, baseline=baseline, system=shown)


MORE_TRIES = 2
"""Most baselines that are tried after the first one. The last one is kept, even if the order of the
systems beside it would make another one the baseline.
"""


def _pairs_with(
    baseline: SystemResult, systems: Sequence[SystemResult], mode: Mode
) -> dict[SystemResult, Pair]:
    """Return the pair of each system with the baseline, on the clock and the steps that they share."""
    # A baseline with more runs than there are systems is not cached: that would take much memory
    # and save little time.
    known: Known | None = None
    if len(systems) > len(baseline.runs):
        known = {}
    pairs = {}
    for system in systems:
        if system is not baseline:
            pairs[system] = pair(*aligned([baseline, system], known), mode=mode)
    return pairs


def _settings(systems: Sequence[SystemResult]) -> Iterator[SettingRow]:
    """Yield the rows of the table of settings: essential ones, and others that all systems state."""
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
    """Return the first baseline to try: the default one by rates; if no systems did the same work,
    the first of the others that has a rate, or the first one without.
    """
    if by_rate:
        return _default_baseline(by_rate)
    return next(filter(_is_rated, others), others[0])


def _default_baseline(ranked: Sequence[SystemResult]) -> SystemResult:
    """Return the fastest system whose GPUs are of another vendor than those of the first system; if
    there is none, the second system, or the only one.
    """
    first, *others = ranked
    for other in others:
        if None not in (other.vendor, first.vendor) and other.vendor != first.vendor:
            return other
    return others[0] if others else first


def _ranked(
    systems: Sequence[SystemResult], baseline: SystemResult, found: Mapping[SystemResult, Pair]
) -> list[SystemResult]:
    """Return the baseline and the systems that have a ratio to it, the fastest first and those with
    too short runs last; empty if no system has a ratio.
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
    """Yield a caveat on the systems whose rates are shown on another clock than their own, because
    the system that they are compared with lacks theirs.
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
    """Return the row of the packages whose versions differ between the systems."""
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
