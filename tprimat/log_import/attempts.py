"""Logs of several attempts at one training, each in a file of its own -> one run, with the time
lost between them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tprimat.analysis.account import blocks
from tprimat.checks.endings import divergence
from tprimat.log_import.extract import ImportedRun
from tprimat.notes import Note, noted
from tprimat.read.parsing import timeline
from tprimat.results.account import Entry
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import SERIES, Run
from tprimat.text import plain


def joined(runs: Sequence[ImportedRun]) -> tuple[list[ImportedRun], list[tuple[str, str]]]:
    """Return the runs of a directory with their attempts joined, and each file that was, with the
    one it joins.
    """
    kept: list[ImportedRun] = []
    files = []
    for training in sorted(runs, key=lambda run: (run.began or (0.0, None))[0]):
        index = next((i for i in reversed(range(len(kept))) if _goes_on(kept[i], training)), None)
        if index is None:
            kept.append(training)
            continue
        former = kept[index]
        run = _join(former, training)
        notes = dict.fromkeys((*former.notes, *training.notes))
        kept[index] = dataclasses.replace(former, run=run, notes=tuple(notes))
        files.append((training.title, former.title))
    order: dict[str, int] = {}
    for position, training in enumerate(runs):
        order.setdefault(training.title, position)
    return sorted(kept, key=lambda run: order[run.title]), files


def _goes_on(former: ImportedRun, later: ImportedRun) -> bool:
    """Return whether a log is of another attempt at a training, which begins at a step that this
    one has done.
    """
    one = former.run
    other = later.run
    resumed = later.resumed
    if (
        resumed is None
        or not one.steps
        or not other.steps
        or one.status == "complete"
        or former.title == later.title
    ):
        return False
    if (
        former.began
        and later.began
        and (former.began[1] is not later.began[1] or former.began[0] > later.began[0])
    ):
        return False
    same = ("framework", "model", "label", "model_config", "num_gpus", "tokens_per_step")
    interval = 1
    if len(other.steps) > 1:
        interval = other.steps[-1] - other.steps[-2]
    return (
        all(getattr(one, name) == getattr(other, name) for name in same)
        and one.training_config.max_steps == other.training_config.max_steps
        and one.steps[0] <= resumed < one.steps[-1] + interval
        and other.steps[0] > resumed
    )


def _join(former: ImportedRun, later: ImportedRun) -> Run:
    """Return the run of both logs: the steps that both have are those of the later one."""
    one = former.run
    other = later.run
    cut = sum(step < other.steps[0] for step in one.steps)
    columns = {}
    for name in SERIES:
        columns[name] = (*getattr(one, name)[:cut], *getattr(other, name))
    native: dict[str, float | tuple[float | None, ...] | None] = {}
    for name in dict.fromkeys((*one.native_metrics, *other.native_metrics)):
        before = one.native_metrics.get(name)
        after = other.native_metrics.get(name)
        if isinstance(before, tuple) or isinstance(after, tuple):
            left = before if isinstance(before, tuple) else (None,) * len(one.steps)
            right = after if isinstance(after, tuple) else (None,) * len(other.steps)
            native[name] = (*left[:cut], *right)
        else:
            native[name] = before if after is None else after
    times = _timelines(former, later)
    # What a later attempt repeated is over.
    diverged = divergence(one)
    is_repeated = diverged is not None and diverged.first >= other.steps[0]
    over = ("lost", "log-begins-late", *(DIVERGED if is_repeated else ()))
    notes = [note for note in one.notes if note.code not in over]
    for note in other.notes:
        if note.code not in over[:2]:
            notes.append(note)
    cost = timeline.lost(times)
    goes_on = Note(
        "attempt-joined",
        {
            "former": plain(Path(former.title).name, 80),
            "later": plain(Path(later.title).name, 80),
            "step": later.resumed,
            "first": other.steps[0],
        },
    )
    assert one.source is not None
    assert other.source is not None
    return one.but(
        **columns,
        native_metrics=native,
        timeline=times,
        status=other.status,
        status_reason=other.status_reason,
        ending=other.ending,
        source=one.source.but(files=(*one.source.files, *other.source.files)),
        notes=noted((*([cost] if cost else []), goes_on, *notes)),
    )


def _timelines(former: ImportedRun, later: ImportedRun) -> tuple[Entry, ...]:
    """Return the timelines of two attempts as one, with the lost time; empty if one of them has no
    clock.
    """
    one = former.run.timeline
    other = later.run.timeline
    if (
        not (blocks(former.run) and blocks(later.run))
        or former.began is None
        or later.began is None
    ):
        return ()
    shift = later.began[0] - former.began[0]
    end = one[-1].start + one[-1].duration
    kept = timeline.with_lost_steps(one, later.resumed or 0)
    idle, note = (note.format(former.run.steps[-1]) for note in (timeline.IDLE, timeline.DOWN))
    down = Entry(kind="lost", start=end, duration=max(shift - end, 0.0), note=note)
    # What comes after the last record of an attempt that doesn't end the training is no end.
    ended = []
    for entry in kept:
        if entry.kind == "end":
            entry = entry.but(kind="lost", note=idle)
        ended.append(entry)
    return (
        *ended,
        down,
        *(entry.but(start=entry.start + shift) for entry in other),
    )
