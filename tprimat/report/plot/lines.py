"""The panels with lines: step time over the steps, loss over tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.compare import RunResult
from tprimat.report.plot.items import Item, note_below, nothing, time_span
from tprimat.report.rates import first_counted, first_step
from tprimat.results.run import Run
from tprimat.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FEW_SYSTEMS = 4
"""With up to so many systems the warm-up of each is shaded."""

MOST_RUNS = 20
"""Runs of each system that are lines."""

LOSS_LOG_FROM = 50.0
"""From this factor between the highest and the lowest loss on, the axis is logarithmic."""

FEW = 40
"""Records that are drawn with a marker each; of more, some ten carry one."""


def step_times(axes: Axes, items: Sequence[Item]) -> tuple[list[Line2D], list[str]]:
    """Draw step time over the steps; return lines and their texts for a legend."""
    axes.set_title("Step time over the steps")
    drawn = [item for item in items if item.system.valid_runs]
    if not drawn:
        nothing(axes, [f"{item.label}: the run {item.system.exit_summary}" for item in items])
        return [], []
    handles = []
    for item in drawn:
        for result in item.system.valid_runs[:MOST_RUNS]:
            line = _step_line(axes, item, result)
        handles.append(line)
        if len(drawn) <= FEW_SYSTEMS:
            _shade(axes, item)
    axes.set_xlabel("optimizer step")
    most = max(len(item.system.valid_runs) for item in drawn)
    many = f"the first {MOST_RUNS} of up to {most:,} runs of a system" if most > MOST_RUNS else None
    notes = [_warmup_note(drawn), _step_limits(axes, drawn), many]
    note_below(axes, [note for note in notes if note])
    return handles, [f"{item.label} (excluded)" if item.system.exclusion else item.label for item in drawn]


def loss(axes: Axes, items: Sequence[Item]) -> None:
    """Draw loss over the tokens that were trained on."""
    axes.set_title("Loss over tokens")
    drawn: list[tuple[Item, Run, int]] = []
    missing = []
    for item in items:
        runs = [each.run for each in item.system.valid_runs if any(value is not None for value in each.run.loss_values)]
        if not runs:
            missing.append(f"{item.label}: no loss was recorded")
        elif item.system.run.tokens_per_step is None:
            missing.append(f"{item.label}: tokens per step are unknown")
        else:
            drawn += [(item, run, run.tokens_per_step or 0) for run in runs[:MOST_RUNS]]
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
    notes = missing if len(missing) <= 2 else [f"{len(missing)} systems without loss over tokens"]
    for floor in sorted({entropy for item, *_ in drawn if (entropy := item.system.run.data.entropy)}):
        axes.axhline(floor, color="0.35", linestyle=(0, (1, 2)), linewidth=1.3)
        notes.append(f"dotted: {floor:.3g} nats/token, data entropy (lowest achievable loss)")
    axes.set_ylabel("loss, nats/token")
    axes.set_xlabel(f"{word} tokens".strip())
    note_below(axes, notes)


def _step_line(axes: Axes, item: Item, result: RunResult) -> Line2D:
    """Draw a run; its warm-up is faded."""
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
    alone = len(item.system.valid_runs) == 1
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


def _shade(axes: Axes, item: Item) -> None:
    """Shade the warm-up of a system's first run."""
    result = item.system.valid_runs[0]
    first = first_step(result)
    if first is not None and first > result.run.steps[0]:
        axes.axvspan(result.run.steps[0] - 0.5, first - 0.5, color=item.color, alpha=0.13, linewidth=0)


def _warmup_note(items: Sequence[Item]) -> str | None:
    """Return what faded lines mean, where there are any."""
    firsts = ((result.run.steps[0], first_step(result)) for item in items for result in item.system.valid_runs)
    if not any(steady is not None and steady > first for first, steady in firsts):
        return None
    return f"faded{' and shaded' if len(items) <= FEW_SYSTEMS else ''}: warm-up, excluded from the averages"


def _step_limits(axes: Axes, items: Sequence[Item]) -> str | None:
    """Scale the axis to the steady steps; return how many steps are off the scale."""
    span = time_span([result for item in items for result in item.system.valid_runs[:MOST_RUNS]], beyond=2)
    foot = 0.12
    in_ms = span.high < 1
    axes.set_ylabel("ms per step" if in_ms else "s per step")
    if span.is_wide:
        _log(axes)
        factor = span.high / span.low
        low, top = span.low / factor**foot, span.high * factor**0.1
    else:
        low, top = span.widened(foot, 0.1)
    if in_ms:
        axes.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
    axes.set_ylim(low, top)
    beyond = [time for time in span.times if time > top]
    return f"{counted(len(beyond), 'step')} off scale, up to {units.seconds(max(beyond))}" if beyond else None


def _log(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
