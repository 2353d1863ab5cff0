"""Efficiency of a run: MFU, memory, energy, cost, time to train.

A function with its row each in table.py. Every metric is computed from the mean speed of all runs
of a setup, with its interval carried through; what can't be given has its reason.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from tprimat.analysis.efficiency import checklist, table
from tprimat.analysis.efficiency.subject import HIGH_MFU as HIGH_MFU
from tprimat.analysis.efficiency.subject import ROOM_ABOVE, Subject, highest_memory
from tprimat.analysis.efficiency.subject import Options as Options
from tprimat.analysis.efficiency.subject import Value as Value
from tprimat.analysis.efficiency.table import METRICS as METRICS
from tprimat.analysis.metrics import Metric
from tprimat.analysis.summary import SegmentMetrics, Summary, rounding_variance
from tprimat.results.run import Run


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """The values of the runs of one setup.

    Attributes:
        steps: the steps that they cover, or the number of runs.
        values: by the name of the row; a row that wasn't requested is absent.
        hints: what could be tried.
    """

    steps: str
    values: Mapping[str, Value]
    hints: tuple[str, ...]


def of_runs(
    runs: Sequence[Run],
    summaries: Sequence[Summary],
    options: Options,
    samples: Sequence[float | None] = (),
) -> Efficiency:
    """Return the values of the runs of one configuration, of the mean of their speeds.

    Several runs have the interval between them; a single one has that within it, if it kept one
    speed. `samples` are their rates in samples/s/GPU if these are compared; else empty.
    """

    def mean(rates: Sequence[float | None]) -> Value:
        speed = table.over_runs(rates, rounding_variance(summaries))
        if (
            len(runs) > 1
            and speed.value is not None
            and all(summary.clock == "blocks" for summary in summaries)
        ):
            steps = []
            for summary in summaries:
                steps.append(summary.performance.total_steps or 1)
            speed = dataclasses.replace(
                speed, value=statistics.harmonic_mean(filter(None, rates), steps)
            )
        return speed

    steady = summaries[0].steady
    segments = summaries[0].segments
    speed = mean([summary.performance.tokens_per_second_per_gpu for summary in summaries])
    if len(runs) == len(segments) == 1:
        speed = _speed(segments[0])
    subject = Subject(runs, speed, options, mean(samples) if samples else None)
    values = table.values(subject)
    if len(runs) > 1:
        steps = f"{len(runs)} runs"
    else:
        steps = f"steps {steady.first_step}–{steady.last_step}"
    return Efficiency(steps, values, checklist.hints(subject, values))


def largest_micro_batch(first: Run, second: Run) -> tuple[int | None, str]:
    """Return the largest micro-batch that fits, on the line through two measured ones, and a text
    on these.

    None, and the reason, if it is unknown.
    """
    sizes = first.training_config.micro_batch_size, second.training_config.micro_batch_size
    if None in sizes or sizes[0] == sizes[1]:
        return None, "needs two runs with different micro-batch sizes"
    memory = [highest_memory(run) for run in (first, second)]
    total = first.gpu_info.total_memory_gb
    if memory[0] is None or memory[1] is None or memory[0][1] != memory[1][1] or total is None:
        return None, "needs the same kind of memory measured in both runs"
    (low, low_memory), (high, high_memory) = sorted(
        [(sizes[0] or 0, memory[0][0]), (sizes[1] or 0, memory[1][0])]
    )
    slope = (high_memory - low_memory) / (high - low)
    if slope <= 0:
        return None, "memory doesn't grow with the micro-batch size in these runs"
    fits = int(low + (total * ROOM_ABOVE - low_memory) / slope)
    line = f"{low_memory:.1f} GB at {low} and {high_memory:.1f} GB at {high} sequences"
    return fits, f"{line}, up to 95% of {total:.1f} GB"


def rows(sets: Sequence[Efficiency]) -> list[Metric]:
    """Return the rows that at least one set of values has."""
    return [metric for metric in METRICS if any(metric.name in each.values for each in sets)]


def _speed(segment: SegmentMetrics) -> Value:
    """Return the rate with the interval of the mean step time, inverted. A median's belongs to
    another value.
    """
    rate = segment.tokens_per_second_per_gpu
    interval = segment.interval
    if rate is None or interval is None or interval.about != "mean":
        return Value(rate)
    return Value(rate, rate * segment.mean / interval.high, rate * segment.mean / interval.low)
