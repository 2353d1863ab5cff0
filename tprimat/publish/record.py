"""What a site shows: points with their evidence, pairs that are compared when it is made, and
changes over time.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tprimat.catalog.published import Speed

Mark = Literal[
    "recomputed from the log",
    "agrees with its own FLOPs",
    "as published",
    "contradicts itself",
    "rejected",
]
REJECTED = ("contradicts itself", "rejected")
"""Marks of values that no ranking, change or pair uses."""


COLUMNS = (
    "publisher", "gpu", "model", "task", "precision", "sequence_length", "num_gpus", "global_batch_size", "framework",
    "version", "system", "date", "configuration", "work", "clock", "tokens_per_second_per_gpu", "samples_per_second",
    "tflops_per_gpu", "printed_tflops_per_gpu", "time_to_target_seconds", "target", "rates", "low", "high", "mark",
    "reason", "note", "source", "url",
)  # fmt: skip
"""The fields of a Point, in the order in which files have them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point(Speed):
    """A training speed, or a time to a target, of one setup on one date.

    Attributes:
        configuration: micro-batch and parallelism, as far as they are stated: micro-batch 1, TP 2,
            PP 4, EP 8.
        work: the publisher's words that set the work of a token apart, such as On policy or
            functional check.
        clock: what measured the speed, as in a result: blocks, timer, stamps, …; empty if the
            publisher doesn't say.
        tflops_per_gpu: by the formula of results, so that points of all sources compare; None
            without a known shape.
        rates: of each run where they are known, in the unit of the speed per GPU.
        low, high: confidence interval over the runs; None with a single run.
        mark: how the value was checked.
        url: where the evidence can be read; empty for a file of one's own.
    """

    configuration: str = ""
    work: str = ""
    clock: str = ""
    tflops_per_gpu: float | None = None
    rates: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    mark: Mark
    url: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointPair:
    """Two points of the same model, task and number of GPUs, compared by compare's rules.

    Attributes:
        first, second: places of the points in the record.
        ratio: of the first's speed to the second's, with `low` and `high`, its confidence interval.
    """

    first: int
    second: int
    ratio: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """Two successive points of a series that differ in their date or software.

    Attributes:
        before, after: places of the points in the record.
        ratio: of the later speed to the earlier one; `low` and `high` are None if a point is a
            single run: run-to-run variation is unknown.
        is_found: whether it holds for all series together (Holm); None between two machines of
            different names, whose software isn't all that differs.
    """

    before: int
    after: int
    ratio: float
    low: float | None = None
    high: float | None = None
    is_found: bool | None = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """Everything that a site shows."""

    points: tuple[Point, ...]
    pairs: tuple[PointPair, ...] = ()
    changes: tuple[Change, ...] = ()
