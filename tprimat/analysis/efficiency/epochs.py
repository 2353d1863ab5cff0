"""Metrics of trainings that count epochs: samples/s, time per epoch, and cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tprimat.analysis import intervals
from tprimat.analysis.efficiency.value import Value
from tprimat.catalog.prices import Price
from tprimat.results.run import Run

MILLION = 1e6
HOUR_S = 3600.0


def figures(runs: Sequence[Run], price: Price | None) -> dict[str, Value]:
    """Return samples/s, time per epoch and their costs, by the name of the row; nothing for runs without epochs.

    Args:
        runs: of one setup; several have the interval between them.
        price: USD per GPU-hour.
    """
    rates = [_samples_per_second(run) for run in runs]
    seconds = [_seconds_per_epoch(run) for run in runs]
    values = {}
    if (rate := _between(rates)) is not None:
        values["samples_per_second"] = rate
    if (epoch := _between(seconds)) is not None:
        values["seconds_per_epoch"] = epoch
    gpus = runs[0].num_gpus
    if price is None or not gpus:
        return values
    if rate is not None:
        values["dollars_per_million_samples"] = _cost(_turned(rate, MILLION), gpus, price)
    if epoch is not None:
        values["dollars_per_epoch"] = _cost(epoch, gpus, price)
    return values


def _measured(run: Run) -> list[Mapping[str, float | None]]:
    return [epoch for epoch in run.epochs if not epoch.get("warmup") and epoch.get("wall_time_s")]


def _samples_per_second(run: Run) -> float | None:
    """Return samples/s over the measured epochs: all samples over all time, not the mean of the rates."""
    counted = [(epoch.get("samples"), epoch.get("wall_time_s")) for epoch in _measured(run)]
    whole = [(samples, seconds) for samples, seconds in counted if samples and seconds]
    return sum(samples for samples, _ in whole) / sum(seconds for _, seconds in whole) if whole else None


def _seconds_per_epoch(run: Run) -> float | None:
    """Return the mean over the measured epochs with as many samples as the fullest; truncated ones are skipped."""
    measured = _measured(run)
    fullest = max((epoch.get("samples") or 0.0 for epoch in measured), default=0.0)
    times = [epoch.get("wall_time_s") for epoch in measured if fullest and epoch.get("samples") == fullest]
    # The fullest epoch may itself be the only one, cut by a time limit: the result's own figure knows.
    if run.native_metrics.get("seconds_per_epoch") is None:
        return None
    known = [time for time in times if time]
    return statistics.fmean(known) if known else None


def _between(found: Sequence[float | None]) -> Value | None:
    known = [value for value in found if value is not None]
    if not known or len(known) < len(found):
        return None
    between = intervals.between_run_interval(known)
    return Value(statistics.fmean(known), *((between.low, between.high) if between else (None, None)))


def _turned(rate: Value, factor: float) -> Value:
    value, low, high = (None if each is None else factor / each for each in (rate.value, rate.high, rate.low))
    return Value(value, low, high)


def _cost(seconds: Value, gpus: int, price: Price) -> Value:
    """Return the cost of this time on all GPUs; its interval combines those of time and price."""
    assert seconds.value is not None
    hours = gpus / HOUR_S
    if seconds.low is None and seconds.high is None and price.low == price.high:
        return Value(seconds.value * hours * price.low)
    low, high = seconds.low or seconds.value, seconds.high or seconds.value
    return Value(seconds.value * hours * price.middle, low * hours * price.low, high * hours * price.high)
