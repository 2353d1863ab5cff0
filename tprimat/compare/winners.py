"""Who of the sides of a group is at the front, among those that may be ranked at all."""

from __future__ import annotations

import dataclasses
import operator

from tprimat.compare.result import Group, Ratio, SideResult

STEP_TIME = "avg_step_time_seconds"


@dataclasses.dataclass(frozen=True)
class Winners:
    """The front of a group.

    Attributes:
        highest, lowest: by throughput.
        fastest: with the shortest step; None where the steps differ in their work.
        doubt: a side from which the highest is not known to differ; None where there is none.
    """

    highest: SideResult
    lowest: SideResult
    fastest: SideResult | None
    doubt: SideResult | None


def winners(group: Group) -> Winners | None:
    """The front of a group; None where fewer than two sides may be ranked.

    Implausible sides, and those that could not be compared with the reference, are not among them.
    """
    ratios = {id(pair.side): pair.ratio for pair in group.pairs if pair.ratio}
    if not ratios:
        return None
    reference = group.pairs[0].reference
    ranked = [reference, *(side for side in group.sides if id(side) in ratios)]
    ranked.sort(key=lambda side: ratios[id(side)].value if id(side) in ratios else 1.0, reverse=True)
    highest = ranked[0]
    known = [(time, side) for side in ranked if (time := side.value(STEP_TIME)) is not None]
    same_work = len({_work(side) for side in ranked}) == 1 and None not in _work(highest)
    fastest = min(known, key=lambda each: each[0])[1] if same_work and len(known) == len(ranked) else None
    if highest is reference:
        doubt = next((side for side in ranked[1:] if _undecided(ratios[id(side)])), None)
    else:
        # Two sides are only ever compared through the reference.
        doubt = reference if _undecided(ratios[id(highest)]) else None
    return Winners(highest, ranked[-1], fastest, doubt)


def _undecided(ratio: Ratio) -> bool:
    low, high = ratio.bounds
    return low < high and low <= 1 <= high


_work = operator.attrgetter("run.training_config.global_batch_size", "run.training_config.sequence_length", "count")
