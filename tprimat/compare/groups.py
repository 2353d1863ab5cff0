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
    for key, kind in kinds.items():
        conflicts[key] = {other for other, each in kinds.items() if different_work(kind, each)}
    firsts: list[tuple[object, ...]] = []
    for key in sorted(kinds, key=lambda key: -len(conflicts[key])):
        if all(first in conflicts[key] for first in firsts):
            firsts.append(key)
    works = []
    for first in firsts:
        works.append([system for system in rated if _work(system) not in conflicts[first]])
    return sorted((work for work in works if len(work) > 1), key=lambda work: -len(work))


def _is_rated(system: SystemResult) -> bool:
    return system.exclusion is None and system.value(RATE) is not None


def _work(system: SystemResult) -> tuple[object, ...]:
    """Return what decides whether the work of two systems is the same."""
    run = system.run
    length = None if system.unit == "samples" else run.training_config.sequence_length
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
    found: dict[SystemResult, Pair] = {}
    by_rate = sorted(work, key=lambda system: (system.is_unsettled, -(system.value(RATE) or 0.0)))
    every = [*work, *others]
    baseline = chosen or (
        _default_baseline(by_rate) if by_rate else next(filter(_is_rated, every), every[0])
    )
    ranked = []
    for last in (False, False, True):
        # With many runs of the baseline, the cache takes more memory than it saves time.
        known: Known | None = {} if len(every) > len(baseline.runs) else None
        others_of = (system for system in every if system is not baseline)
        found = {}
        for system in others_of:
            found[system] = pair(*aligned([baseline, system], known), mode=mode)
        ranked = _ranked([*by_rate, *others], baseline, found)
        again = baseline if chosen or last or not ranked else _default_baseline(ranked)
        if again is baseline:
            break
        baseline = again
    fastest = next(iter(ranked), None)
    leader = _default_baseline(ranked) if fastest is baseline else fastest
    # The baseline's values are those beside the system that the headline names.
    beside = found[leader].baseline if leader else baseline
    places = set(ranked)
    ordered = [*ranked, *(system for system in every if system not in places)]
    pairs = {}
    for system in every:
        if each := found.get(system):
            pairs[system] = dataclasses.replace(
                each, baseline=beside, system=each.system if each.ratio else system
            )
    systems = [beside if system is baseline else pairs[system].system for system in ordered]
    ordered_pairs = tuple(pairs[system] for system in ordered if system is not baseline)
    has_second = fastest is not None and fastest is not baseline and ranked[1] is not baseline
    compared = [pair for pair in ordered_pairs if pair.ratio]
    runs = [system.run for system in systems]
    settings = []
    for setting, values in rows_of(runs):
        settings.append(SettingRow(setting.title, values, setting.essential))
    settings.append(_versions(systems))
    return Group(
        tuple(systems),
        beside,
        ordered_pairs,
        tuple(row for row in settings if row.essential or not row.unknown),
        pairs[leader] if leader else None,
        (*caveats(systems[: len(ranked)], compared), *_on_other_clocks(ordered, systems))
        if leader
        else (caveats(systems, ()) if len(systems) == 1 and systems[0].valid_runs else ()),
        pair(*aligned([ranked[1], ranked[0]]), mode=mode) if has_second else None,
        title,
    )


def _default_baseline(ranked: Sequence[SystemResult]) -> SystemResult:
    """Return the fastest system of another vendor than the first one's; without such a system the
    second one.
    """
    first, *others = ranked
    rivals = (
        other
        for other in others
        if None not in (other.vendor, first.vendor) and other.vendor != first.vendor
    )
    return next(rivals, others[0] if others else first)


def _ranked(
    systems: Sequence[SystemResult], baseline: SystemResult, found: Mapping[SystemResult, Pair]
) -> list[SystemResult]:
    """Return the systems that are compared, the fastest first and those that are too short last;
    none without any.
    """
    ratios = {key: each.ratio.value for key, each in found.items() if each.ratio}
    places = {baseline: (baseline.is_unsettled, -1.0)}
    places |= {key: (found[key].is_unsettled, -ratio) for key, ratio in ratios.items()}
    compared = [system for system in systems if system in places]
    if ratios:
        return sorted(compared, key=lambda system: places[system])
    return []


def _on_other_clocks(
    own: Sequence[SystemResult], shown: Sequence[SystemResult]
) -> Iterator[Caveat]:
    """Yield which systems are shown by another clock than their own, since what they are compared
    with has no such.
    """
    texts = []
    for alone, here in zip(own, shown, strict=True):
        clocks = [{run.summary.clock for run in each.valid_runs} for each in (alone, here)]
        if clocks[0] != clocks[1] and alone.speeds and here.speeds:
            rate, own_rate = (statistics.geometric_mean(each.speeds) for each in (here, alone))
            change = (
                f"{abs(rate / own_rate - 1):.1%} {'lower' if rate < own_rate else 'higher'} than"
            )
            texts.append(f"{here.name} {'as' if change.startswith('0.0%') else change} on its own")
    if texts:
        yield Caveat("clock-differs", "info", f"rates on the common clock: {'; '.join(texts)}")


def _versions(systems: Sequence[SystemResult]) -> SettingRow:
    """Packages whose versions the systems state and don't share."""
    stated = [system.run.environment.versions for system in systems]
    packages = sorted({name for versions in stated for name in versions})
    # torch has a row of its own.
    differing = []
    for name in packages:
        if name != "torch" and len({each.get(name) for each in stated}) > 1:
            differing.append(name)
    values = tuple(
        plain(", ".join(f"{name} {each[name]}" for name in differing if name in each), 240) or None
        for each in stated
    )
    return SettingRow("other versions", values, essential=False)
