"""Series of points over time, and the changes between them, by the rules of the regression
check.
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

    The points of a series have the same publisher, GPU, number of GPUs, model, task, precision,
    sequence length, batch and clock. Two publishers have different machines; one publisher changes
    software and configuration, and sometimes the machine. Times to a target have the same target,
    whatever the precision, batch and length; the user's own results have the same label. If a date
    or round has several points, from several machines or from tuning, the fastest represents it. A
    rejected value, or one that lacks the date or one of these properties, is in no series.
    """
    every = []
    for group in places_by(evidence, _key).values():
        fastest = {}
        for index in sorted(group, key=lambda index: speed(evidence[index].point) or 0.0):
            point = evidence[index].point
            # The dates of a submission are those of its single runs, so its round, which is in the
            # name of the repository, takes the place of the date.
            occasion = point.source.split("/")[1] if point.clock and point.url else point.date
            fastest[occasion] = index
        if len(fastest) > 1:
            every.append(sorted(fastest.values(), key=lambda index: evidence[index].point.date))
    return every


def changes(evidence: Sequence[Evidence]) -> tuple[Change, ...]:
    """Return the changes between successive points of all series, without duplicates.

    A change is found if it is significant at 5% after Holm's correction for all changes that can be
    tested, which takes several runs of both points. Between two machines of different names it
    remains undecided: they may differ in speed with the same software.
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
    """Return the key that the points of a series share; None for a point in no series."""
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
