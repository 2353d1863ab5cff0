"""Losses of baseline and candidate after the same tokens: by how much they differ, and how certain
that is.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Difference
from tprimat.checks import training
from tprimat.compare.result import Pair, RunResult, work_of_step
from tprimat.notes import Note, NoteValue, about
from tprimat.results.run import sentences

WINDOW = 0.25
"""Share of the common tokens, the last ones, over which losses are averaged."""

ASSUMED_SPREAD = 0.002
"""Relative standard deviation of a run's loss by its seed, assumed if single runs don't show it."""

LEAST_RECORDS = 20
"""Fewest losses of a run in the window that show how much they vary."""


class Losses(NamedTuple):
    """Mean losses of baseline and candidate over the same tokens, nats/token.

    Attributes:
        note: what the means cover, and the limits of their difference; or why there are none.
        answer: the answer of a check if there are no means.
        means: of baseline and candidate; None if they can't be compared, or there are too few
            losses.
        difference: the candidate's minus the baseline's, transformed; None if it never varies.
    """

    note: Note
    answer: Literal["not comparable", "inconclusive"] = "not comparable"
    means: tuple[float, float] | None = None
    difference: Difference | None = None


def losses(matched: Pair, transform: Callable[[float], float]) -> Losses:
    """Return the losses of a pair over the last tokens that all of its runs trained on; or why
    there are none.

    The error is the larger one of two: between runs, from their means; and within runs, from the
    series of differences at the same tokens, in which the decrease of the loss cancels, as does the
    noise of equal batches. If a system has a single run, the error between runs is unknown, and
    ASSUMED_SPREAD is added to that within runs. `transform` is the logarithm, for a relative
    difference, or leaves the value as it is.
    """
    import numpy as np

    if reason := training.no_loss_comparison(matched.baseline.run, matched.system.run):
        return Losses(Note("losses-not-comparable", {"why": sentences([reason])[0]}))
    curves = _curves(matched)
    if isinstance(curves, Note):
        return Losses(curves)
    first = max(edges[0] for edges, _ in curves)
    end = min(edges[-1] for edges, _ in curves)
    start = end - WINDOW * (end - first)
    grid = min(([edge for edge in edges if start <= edge <= end] for edges, _ in curves), key=len)
    window: dict[str, NoteValue] = {"share": WINDOW, "work": max(end - first, 0.0)}
    window["unit"] = matched.system.unit
    if len(grid) <= LEAST_RECORDS:
        few = {"losses": max(len(grid) - 1, 0), "needed": LEAST_RECORDS}
        return Losses(Note("losses-few", {**window, **few}), "inconclusive")
    sums = np.array([np.interp(grid, edges, sums) for edges, sums in curves])
    count = len(matched.baseline.valid_runs)
    change = np.vectorize(transform)
    mean_losses = []
    for run_sums in (sums[:count], sums[count:]):
        mean_losses.append(np.diff(run_sums.mean(axis=0)) / np.diff(grid))
    means = (sums[:, -1] - sums[:, 0]) / (grid[-1] - grid[0])
    if min(map(np.min, mean_losses)) <= 0:
        return Losses(Note("losses-not-positive"))
    series = change(mean_losses[1]) - change(mean_losses[0])
    within = intervals.series_mean(series.tolist())
    between = intervals.difference(change(means[count:]).tolist(), change(means[:count]).tolist())
    if within is not None and between is None:
        # ASSUMED_SPREAD is relative; for a difference in nats/token it is converted.
        spread = ASSUMED_SPREAD * (1.0 if transform is math.log else means.mean())
        error = math.hypot(within.error, spread * math.sqrt(1 / count + 1 / (len(means) - count)))
        within = dataclasses.replace(
            within, error=error, freedom=within.freedom * (error / within.error) ** 4
        )
    widest = within
    if within is None or (between is not None and _width(between) > _width(within)):
        widest = between
    if widest is None and np.ptp(series) > 1e-9:
        return Losses(Note("losses-autocorrelated", window), "inconclusive")
    if between is None:
        window["spread"] = ASSUMED_SPREAD
    code = "losses-averaged"
    if None in (matched.baseline.run.data.digest, matched.system.run.data.digest):
        code = "losses-averaged-of-unknown-data"
    basis = Note(code, window)
    averages = float(means[:count].mean()), float(means[count:].mean())
    return Losses(basis, "inconclusive", averages, widest)


def _width(difference: Difference) -> float:
    return difference.interval()[1] - difference.value


def _curves(matched: Pair) -> list[tuple[list[float], list[float]]] | Note:
    """Return the curves of all runs, the baseline's first; or why one has none."""
    curves = []
    for system in (matched.baseline, matched.system):
        for result in system.valid_runs:
            curve = _curve(result)
            if isinstance(curve, Note):
                return about(system.name, curve)
            curves.append(curve)
    return curves


def _curve(result: RunResult) -> tuple[list[float], list[float]] | Note:
    """Return the integral of a run's loss: increasing numbers of tokens, and the sum of
    loss × tokens up to each of them; or a note on why there is none.

    The loss of a step is that of the weights before the step; a loss averaged over several steps is
    placed in the middle of them.
    """
    run = result.run
    work = work_of_step(run, result.unit)
    if work is None:
        return Note("losses-of-unknown-steps")
    known = []
    for index, loss in enumerate(run.loss_values):
        if loss is not None:
            known.append(index)
    if len(known) < 2:
        return Note("losses-absent")
    if len(run.steps) - 1 - known[-1] > max(
        after - before for before, after in itertools.pairwise(known)
    ):
        return Note("losses-end", {"step": run.steps[known[-1]], "last": run.steps[-1]})
    places = []
    for index in known:
        places.append((run.steps[index] - (run.window_steps[index] + 1) / 2) * work)
    inner = []
    for before, after in itertools.pairwise(places):
        inner.append((before + after) / 2)
    edges = [2 * places[0] - inner[0], *inner, 2 * places[-1] - inner[-1]]
    widths = (after - before for before, after in itertools.pairwise(edges))
    parts = (
        (run.loss_values[index] or 0.0) * width for index, width in zip(known, widths, strict=True)
    )
    return edges, list(itertools.accumulate(parts, initial=0.0))
