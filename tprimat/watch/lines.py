"""The words of `watch`: a screen, a line, and an object for a program."""

from __future__ import annotations

import itertools
import statistics

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.analysis.run_account import PERCENTILES, account_of, percentiles
from tprimat.checks.endings import how_ended
from tprimat.notes import assumed
from tprimat.notes.catalogue import sentence, words
from tprimat.read.parsing import timeline
from tprimat.results.fields import JsonObject
from tprimat.text import counted, plain, shortened
from tprimat.watch.state import RECENT, State

LEFT = 12
"""Columns of the labels."""

MOST_CHANGES, MOST_CAVEATS = 3, 2
"""Lines of each on the screen."""


def screen(
    state: State, title: str, quiet_s: float | None, until: float | None = None, width: int = 80
) -> list[str]:
    """Return the shown values of a training, a line each.

    `quiet_s` is the time since the last step, s, if the training continues; `until` is the share of
    the mean to which the interval must fall, if the watch waits for that.
    """
    run = state.run
    gpus = run.gpu_info.device_name
    if run.num_gpus:
        gpus = f"{run.num_gpus} × {gpus}" if gpus else counted(run.num_gpus, "GPU")
    parts = (run.framework, run.model, gpus, run.training_config.precision)
    setup = ", ".join(plain(part, 40) for part in parts if part)
    rows = [
        ("step", _step(state)),
        ("loss", _loss(state)),
        (f"last {RECENT}", _speed(state.recent_s, state.recent_rate)),
        ("mean", _mean(state)),
        ("percentiles", _percentiles(state)),
        ("time", _time(state)),
        ("lost", _lost(state)),
        ("implausible", state.implausible or ""),
        ("interval", _interval(state, until)),
        ("warm-up", _warm_up(state)),
    ]
    rows += [("speed", text) for text in changes(state)[-MOST_CHANGES:]]
    rows.append(("baseline", against_baseline(state)))
    rows += [("caveat", text) for text in state.caveats[:MOST_CAVEATS]]
    rows += [("caveat", words(note)) for note in assumed(run.notes)]
    rows += [("ranks", _ranks(state)), ("error", state.cause or "")]
    if quiet_s is not None:
        rows.append(("last step", f"{units.duration(quiet_s)} ago"))
    lines = [f"{plain(title)}: {setup}"]
    lines += [f"  {label:<{LEFT}}{plain(text)}" for label, text in rows if text]
    return [shortened(text, width) for text in lines]


def line(state: State) -> str:
    """Return one line on a training."""
    parts = (
        ("step ", _step(state)),
        ("loss ", _loss(state)),
        ("", _speed(state.recent_s, state.recent_rate)),
        ("mean ", _mean(state)),
        ("", _width(state)),
        ("compared with the baseline: ", against_baseline(state)),
        ("", sentence(assumed(state.run.notes))),
    )
    return "; ".join(plain(label + text) for label, text in parts if text)


def values(state: State) -> JsonObject:
    """Return the known values of a training, for a program; shares of one, times in s."""
    ratio = state.pair and state.pair.ratio
    steady = state.summary.steady
    codes = [note.code for note in assumed(state.run.notes)]
    return {
        "step": state.step,
        "max_steps": state.max_steps,
        "loss": None if state.is_diverged else state.last_loss and state.last_loss[1],
        "loss_is_not_finite": state.is_diverged,
        "recent_step_time_seconds": state.recent_s,
        "recent_tokens_per_second_per_gpu": state.recent_rate,
        "avg_step_time_seconds": state.summary.performance.avg_step_time_seconds,
        "tokens_per_second_per_gpu": state.summary.performance.tokens_per_second_per_gpu,
        "mfu_percent": state.mfu,
        "implausible": state.implausible,
        "first_steady_step": steady.first_step if steady.found else None,
        "changes": [segment.first_step for segment in state.summary.segments[1:]],
        "within_run_interval": state.half_width,
        "time_left_seconds": state.time_left_s,
        "ratio_to_baseline": ratio and ratio.value,
        "assumed": codes,
        "status": state.run.status,
        "ending": how_ended(state.run).kind,
    }


def changes(state: State) -> list[str]:
    """Return a line for each change of speed so far."""
    lines = []
    for before, after in itertools.pairwise(state.summary.segments):
        word = "slower" if after.mean > before.mean else "faster"
        lines.append(
            f"step time changed at step {after.first_step}: {units.seconds(before.mean)} →"
            f" {units.seconds(after.mean)} ({percent(abs(after.mean / before.mean - 1))} {word})"
        )
    return lines


def against_baseline(state: State) -> str:
    """Return how the throughput compares with the baseline's; empty without one."""
    if state.pair is None or state.pair.ratio is None:
        if state.pair_problem:
            return f"not compared: {state.pair_problem}"
        return ""
    ratio = state.pair.ratio
    word = "faster" if ratio.value >= 1 else "slower"
    how = "one run; run-to-run variation unknown"
    if ratio.low is not None and ratio.high is not None:
        how = f"{level()} prediction interval {ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}"
    return f"{percent(abs(ratio.value - 1))} {word} so far ({how})"


def _lost(state: State) -> str:
    """Return what restarts cost; empty if nothing is lost."""
    lost = timeline.lost(state.run.timeline)
    return f"{lost.fields['time']} ({lost.fields['parts']})" if lost else ""


def _step(state: State) -> str:
    if state.max_steps is None:
        return f"{state.step:,}"
    text = f"{state.step:,} of {state.max_steps:,} ({state.step / state.max_steps:.0%})"
    if state.time_left_s:
        return f"{text}, {units.duration(state.time_left_s)} left"
    return text


def _loss(state: State) -> str:
    if state.last_loss is None:
        if state.is_diverged:
            return "not a number"
        return ""
    step, loss = state.last_loss
    if state.is_diverged:
        return f"not a number (last: {loss:.4g} at step {step:,})"
    return f"{loss:.4g}"


def _mean(state: State) -> str:
    performance = state.summary.performance
    speed = _speed(performance.avg_step_time_seconds, performance.tokens_per_second_per_gpu)
    if speed and state.mfu is not None:
        return f"{speed}, MFU {state.mfu:.1f}%"
    return speed


def _percentiles(state: State) -> str:
    """Return percentiles of the steady step times; if records are of several steps, that they are
    unknown.
    """
    values = percentiles([(state.run, state.summary)])
    if not values:
        if max(state.run.window_steps, default=1) > 1:
            return "unknown: each record averages several steps"
        return ""
    parts = []
    for name, value in zip(PERCENTILES, values, strict=True):
        if value is not None:
            parts.append(f"p{name} {units.seconds(value)}")
    return ", ".join(parts)


def _time(state: State) -> str:
    """Return the time since the start and its parts, the longest part first; empty without a
    clock.
    """
    account = account_of(state.run, state.summary)
    if account is None or not account.is_whole or not account.whole:
        return ""
    longest_first = sorted(account.shares, key=lambda part: -part[1])
    parts = [f"{name} {share:.0f}%" for name, share in longest_first if f"{share:.0f}" != "0"]
    return f"{units.duration(account.whole)}: {', '.join(parts)}"


def _speed(step_time: float | None, rate: float | None) -> str:
    if not step_time:
        return ""
    text = f"{units.seconds(step_time)} per step"
    if rate:
        return f"{text}, {units.number(rate, 0)} tokens/s/GPU"
    return text


def _interval(state: State, until: float | None) -> str:
    waiting = ""
    if until is not None:
        waiting = f"waiting for ±{percent(until)}"
    if state.half_width is not None:
        return f"{_width(state)}; {waiting or 'other runs may differ by more'}"
    return waiting


def _width(state: State) -> str:
    """Return the interval, after a change of speed with the mean of the same steps; empty without
    an interval.
    """
    if state.half_width is None or state.present is None:
        return ""
    width = f"±{percent(state.half_width)} within this run"
    if len(state.summary.segments) == 1:
        return width
    return f"since step {state.present.first_step}: {units.seconds(state.present.mean)} {width}"


def _warm_up(state: State) -> str:
    first = state.summary.steady.first_step
    if not state.summary.steady.found:
        if state.step:
            return "in progress (no steady state yet)"
        return ""
    before = [step for step in state.run.steps if first and step < first]
    if not first or not before:
        return "none found"
    if before[0] == first - 1:
        return f"step {before[0]} is excluded"
    return f"steps {before[0]}–{first - 1} are excluded"


def _ranks(state: State) -> str:
    if len(state.ranks) < 2:
        return ""
    slowest = max(state.ranks, key=lambda name: state.ranks[name])
    above = state.ranks[slowest] / statistics.median(state.ranks.values()) - 1
    return (
        f"{len(state.ranks)} logs; the slowest, {slowest}, takes {percent(above)} more than the"
        " median"
    )


def percent(share: float) -> str:
    """Return a share in percent, with the decimals that its size needs."""
    # 12%, 1.2% and 0.12%: two digits, of which the first is not 0.
    decimals = 0 if share >= 0.0995 else 1 if share >= 0.00095 else 2
    return f"{share:.{decimals}%}"
