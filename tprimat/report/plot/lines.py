"""The panels with lines: step time over the steps, loss over tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.compare import RunResult
from tprimat.report.plot.items import LOSS_LOG_FROM, Item, note_below, nothing, time_span
from tprimat.report.rates import first_counted, first_step
from tprimat.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FULL_SHADES = 4
"""Sides whose warm-up is shaded over the whole height; with more it would be mud, and each gets a
strip at the foot of the panel."""

FEW = 40
"""Records that are drawn with a marker each; of more, some ten carry one."""


def step_times(axes: Axes, items: Sequence[Item]) -> tuple[list[Line2D], list[str]]:
    """Step time over the steps, shaded where it is not in the average; returns lines and their texts for a legend."""
    axes.set_title("Step time over the steps")
    drawn = [item for item in items if item.side.counted]
    if not drawn:
        nothing(axes, [f"{item.label}: the run {item.side.ended}" for item in items])
        return [], []
    handles = []
    for index, item in enumerate(drawn):
        for result in item.side.counted:
            line = _step_line(axes, item, result)
        handles.append(line)
        _shade(axes, item, index, len(drawn))
    axes.set_ylabel("s per step")
    axes.set_xlabel("optimizer step")
    notes = [_said_of_shades(drawn), _step_limits(axes, drawn)]
    note_below(axes, [note for note in notes if note])
    return handles, [_with_mean(item) for item in drawn]


def loss(axes: Axes, items: Sequence[Item]) -> None:
    """Loss over the tokens that were trained on."""
    axes.set_title("Loss over tokens")
    drawn: list[tuple[Item, Run, int]] = []
    missing = []
    for item in items:
        runs = [each.run for each in item.side.counted if any(value is not None for value in each.run.loss_values)]
        if not runs:
            missing.append(f"{item.label}: no loss was recorded")
        elif item.side.run.tokens_per_step is None:
            missing.append(f"{item.label}: tokens per step are unknown")
        else:
            drawn += [(item, run, run.tokens_per_step or 0) for run in runs]
    if not drawn:
        nothing(axes, missing)
        return
    most = max(run.steps[-1] * tokens for _, run, tokens in drawn)
    scales = ((1e12, "10¹²"), (1e9, "10⁹"), (1e6, "10⁶"), (1e3, "10³"))
    scale, word = next(((scale, word) for scale, word in scales if most >= scale), (1.0, ""))
    seen: list[float] = []
    for item, run, tokens in drawn:
        known = [(step, value) for step, value in zip(run.steps, run.loss_values, strict=True) if value is not None]
        losses = [value for _, value in known]
        seen += losses
        axes.plot([step * tokens / scale for step, _ in known], losses, **_looks(item, len(known)))
    if min(seen) > 0 and max(seen) / min(seen) > LOSS_LOG_FROM:
        _log(axes)
    notes = missing if len(missing) <= 2 else [f"{len(missing)} sides without loss over tokens"]
    for floor in sorted({entropy for item, *_ in drawn if (entropy := item.side.run.data.entropy)}):
        axes.axhline(floor, color="0.35", linestyle=(0, (1, 2)), linewidth=1.3)
        notes.append(f"dotted: {floor:.3g}, the entropy of the data, which no loss can stay below")
    axes.set_ylabel("loss, nats/token")
    axes.set_xlabel(f"{word} tokens".strip())
    note_below(axes, notes)


def _step_line(axes: Axes, item: Item, result: RunResult) -> Line2D:
    """The run as a line; the steps that are not in the average paler."""
    run = result.run
    times = [math.nan if time is None else time for time in run.step_times]
    cut = first_counted(result)
    looks = _looks(item, len(times))
    # One step of overlap, so that the line has no gap at the cut.
    axes.plot(run.steps[: cut + 1], times[: cut + 1], **{**looks, "alpha": 0.4, "marker": None})
    (line,) = axes.plot(run.steps[cut:], times[cut:], **looks)
    return line


def _looks(item: Item, points: int) -> dict[str, Any]:
    every = 1 if points <= FEW else max(1, points // 10)
    alone = len(item.side.counted) == 1
    return {
        "color": item.color,
        "linestyle": item.line,
        "marker": item.marker,
        "markevery": every,
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "linewidth": 1.2 if alone else 0.9,
        "alpha": 0.95 if alone else 0.7,
    }


def _shade(axes: Axes, item: Item, index: int, count: int) -> None:
    result = item.side.counted[0]
    first = first_step(result)
    if first is None or first <= result.run.steps[0]:
        return
    looks: dict[str, Any] = {"alpha": 0.13, "linewidth": 0}
    if count > FULL_SHADES:
        strip = min(0.02, 0.24 / count)
        looks = {"ymin": index * strip, "ymax": (index + 0.85) * strip, "alpha": 0.75, "linewidth": 0}
    axes.axvspan(result.run.steps[0] - 0.5, first - 0.5, color=item.color, **looks)


def _said_of_shades(items: Sequence[Item]) -> str | None:
    """What pale lines and shades mean, where there are any."""
    firsts = ((result.run.steps[0], first_step(result)) for item in items for result in item.side.counted)
    if not any(steady is not None and steady > first for first, steady in firsts):
        return None
    return f"pale {'and shaded' if len(items) <= FULL_SHADES else 'and marked at the foot'}: not in the figures"


def _step_limits(axes: Axes, items: Sequence[Item]) -> str | None:
    """Makes the steady steps readable; says what that leaves off the scale."""
    span = time_span([result for item in items for result in item.side.counted], beyond=2)
    foot = 0.12 if len(items) <= FULL_SHADES else 0.35
    if span.is_wide:
        _log(axes)
        factor = span.high / span.low
        low, top = span.low / factor**foot, span.high * factor**0.1
    else:
        low, top = span.widened(foot, 0.1)
    axes.set_ylim(low, top)
    beyond = [time for time in span.times if time > top]
    return f"{len(beyond)} steps lie off the scale, the longest at {units.seconds(max(beyond))}" if beyond else None


def _log(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _with_mean(item: Item) -> str:
    if item.side.levels:
        means = " then ".join(units.seconds(level.mean) for level in item.side.levels)
        return f"{item.label}: by level {means}"
    figure = item.side.figures["avg_step_time_seconds"]
    word = "mean" if figure.runs == 1 else f"mean of {figure.runs} runs"
    return f"{item.label}: {word} {units.seconds(figure.value)}"
