"""Points of one series over time, and the changes between them, found by the rules of the
regression check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tprimat.analysis import intervals
from tprimat.publish.pairs import compared, speed, unit
from tprimat.publish.points import Evidence, places_by
from tprimat.publish.record import REJECTED, Change


def series(evidence: Sequence[Evidence]) -> list[list[int]]:
    """Return the places of the points of each series with several dates, or rounds of submissions,
    in time.

    A series is of one publisher, GPU, number of GPUs, model, task, precision, length and batch, on
    one clock: two publishers have two machines; one publisher changes software and configuration,
    and sometimes the machine. Times to a target are of one target, whatever the precision, batch
    and length; results of one's own are of one label. Of several points of a date or round the
    fastest stands for it: they are of several machines, or of one that was tuned. A value that is
    rejected, or lacks the date or one of these, is in none.
    """
    every = []
    for group in places_by(evidence, _key).values():
        fastest = {}
        for index in sorted(group, key=lambda index: speed(evidence[index].point) or 0.0):
            point = evidence[index].point
            # A submission's dates are those of its runs: its occasion is the repository of its
            # round.
            occasion = point.source.split("/")[1] if point.clock and point.url else point.date
            fastest[occasion] = index
        if len(fastest) > 1:
            every.append(sorted(fastest.values(), key=lambda index: evidence[index].point.date))
    return every


def changes(evidence: Sequence[Evidence]) -> tuple[Change, ...]:
    """Return the changes between successive points of all series, each once.

    One is found if it is significant at 5% after Holm's correction for all that may be found; that
    takes several runs of both points. Between two machines of different names it stays open: they
    may differ on the same software.
    """
    every = []
    p_values = []
    for before, after in itertools.chain(*map(itertools.pairwise, series(evidence))):
        answer = compared(evidence[after], evidence[before])
        if answer is not None:
            ratio, difference = answer
            systems = {evidence[before].point.system, evidence[after].point.system}
            is_asked = len(systems - {""}) < 2
            every.append((before, after, ratio, difference, is_asked))
            if difference and is_asked:
                p_values.append(difference.p())
    corrected = iter(intervals.holm(p_values))
    changes = []
    for before, after, ratio, difference, is_asked in every:
        low, high = map(math.exp, difference.interval()) if difference else (None, None)
        is_found = None
        if is_asked:
            is_found = difference is not None and next(corrected) < 1 - intervals.CONFIDENCE
        changes.append(
            Change(before=before, after=after, ratio=ratio, low=low, high=high, is_found=is_found)
        )
    return tuple(changes)


def _key(one: Evidence) -> object:
    """Return what the points of a series have in common; None for a point that belongs to none."""
    point = one.point
    counted = unit(point)
    config: tuple[object, ...] = (point.precision, point.global_batch_size, point.sequence_length)
    if counted == "targets":
        # Precision, batch and length are means to the end.
        config = (point.target,)
    elif counted == "samples":
        config = config[:2]
    if not all((*config, point.num_gpus, point.date, speed(point))) or point.mark in REJECTED:
        return None
    kind = (counted, point.clock, point.work, one.system and one.system.run.label, *config)
    return (point.publisher, point.gpu, point.num_gpus, point.model, point.task, *kind)
