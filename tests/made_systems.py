"""Systems of a comparison with the values that a test states: nothing is computed from steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from made_runs import H100, make_run

from tprimat.analysis.summary import SegmentMetrics, Summary
from tprimat.checks import Finding
from tprimat.checks.compute import ConfigDiff, Entry
from tprimat.checks.training import TrainingMatch
from tprimat.compare.result import RATE, MetricValue, Pair, RunResult, SystemResult, Unit
from tprimat.notes import TEXT, Note
from tprimat.results.run import PerformanceMetrics, Run, Steady

PLAIN = make_run(timing=make_run().timing)


def finding_of(severity, rule, text):
    """A finding with any sentence."""
    return Finding(severity, rule, Note(TEXT, {"text": text}))


def segment(first: int, last: int, mean: float, **fields: object) -> SegmentMetrics:
    """Steps of one speed."""
    known: dict = {
        "tokens_per_second_per_gpu": 1000 / mean,
        "median": mean,
        "interval": None,
        "drift": None,
    }
    return SegmentMetrics(
        first, last, mean, **{**known, "outliers": 0, "outlier_share": 0.0, **fields}
    )


def result(
    rate: float | None = 100.0,
    run: Run = PLAIN,
    *,
    file: str = "a.json",
    is_valid: bool = True,
    unit: Unit = "tokens",
    performance: dict | None = None,
    **summary: object,
) -> RunResult:
    """A run of this rate with one segment."""
    values = {
        "tokens_per_second_per_gpu": rate,
        "avg_step_time_seconds": rate and 400 / rate,
        "total_steps": 60,
    }
    known: dict = {
        "steady": Steady(first_step=4, last_step=60, found=True),
        "performance": PerformanceMetrics(**{**values, **(performance or {})}),
        "notes": (),
        "segments": (segment(4, 60, 4.0),),
        "clock": "timer",
        "stop": 60,
    }
    return RunResult(run, Summary(**{**known, **summary}), file, is_valid, unit)


def value(mean: float) -> MetricValue:
    """A value of one run."""
    return MetricValue(mean, None, None, 1)


def system(
    name: str = "A", *results: RunResult, values: dict | None = None, **fields: object
) -> SystemResult:
    """A system of these runs; its rate is their geometric mean."""
    runs = results or (result(),)
    rates = [each.rate for each in runs if each.is_valid and each.rate]
    figures = {RATE: value(statistics.geometric_mean(rates))} if rates else {}
    known: dict = {
        "gpu": H100,
        "count": 8,
        "framework": "nemo",
        "parts": (f"8×{name}",),
        "runs": runs,
    }
    known |= {"values": {**figures, **(values or {})}, "value_notes": (), "run_notes": ()}
    return SystemResult(name=name, **{**known, **fields})


def pair_of(baseline: SystemResult, other: SystemResult, *entries: Entry, **fields: object) -> Pair:
    """A pair whose settings differ as stated."""
    known: dict = {"ratio": None, "reasons": (), "training": TrainingMatch(None, (), None)}
    return Pair(
        baseline,
        other,
        **{**known, "config_diff": ConfigDiff(tuple(entries), "best configuration"), **fields},
    )


def of_runs(
    runs: Sequence[Run], name: str = "A", rate: float = 100.0, **fields: object
) -> SystemResult:
    """A system with these runs, all of one rate."""
    return system(name, *(result(rate, run) for run in runs), **fields)
