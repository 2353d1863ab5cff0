"""What a site shows: points with their evidence, pairs compared ahead, and changes over time."""

from __future__ import annotations

import dataclasses
from typing import Literal

Mark = Literal["recomputed from the log", "agrees with its own FLOPs", "as published", "contradicts itself", "rejected"]
REJECTED = ("contradicts itself", "rejected")
"""Marks of values that no ranking, change or pair uses."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """A training speed, or a time to a target, of one setup on one date.

    Attributes:
        gpu: key of a row of gpus.csv, or what the publisher prints.
        model: key of a model of the catalog, or what the publisher prints.
        task: pretrain, sft, lora or rl.
        framework: what trained, as results name it; with `version` the software.
        system: what a submitter calls the machine.
        date: of the value: a day, a month or a year.
        configuration: micro-batch and parallelism, as far as they are stated: micro-batch 1, TP 2, PP 4, EP 8.
        work: the publisher's words that set the work of a token apart, such as On policy or functional check.
        clock: what measured the speed, as in a result: blocks, timer, stamps, …; empty if the publisher doesn't say.
        tokens_per_second_per_gpu: None for a speed in samples, or a time to a target alone.
        samples_per_second: of all GPUs together.
        tflops_per_gpu: by the formula of results, so that points of all sources compare; None without a known shape.
        printed_tflops_per_gpu: as the publisher prints it, by whatever formula.
        time_to_target_seconds: training until the quality that `target` or the note names, None if there is none.
        rates: of each run where they are known, in the unit of the speed per GPU.
        low, high: confidence interval over the runs; None with a single run.
        mark: how the value was checked.
        reason: why a value contradicts itself or is rejected, and the correction where one is known.
        source: repository, path, commit and line, or the result file.
        url: where the evidence can be read; empty for a file of one's own.
    """

    publisher: str
    gpu: str
    model: str
    task: str
    precision: str = ""
    sequence_length: int | None = None
    num_gpus: int | None = None
    global_batch_size: int | None = None
    framework: str = ""
    version: str = ""
    system: str = ""
    date: str = ""
    configuration: str = ""
    work: str = ""
    clock: str = ""
    tokens_per_second_per_gpu: float | None = None
    samples_per_second: float | None = None
    tflops_per_gpu: float | None = None
    printed_tflops_per_gpu: float | None = None
    time_to_target_seconds: float | None = None
    target: str = ""
    rates: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    mark: Mark
    reason: str = ""
    note: str = ""
    source: str
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
        ratio: of the later speed to the earlier one; `low` and `high` are None if a point is a single run: run-to-run
            variation is unknown.
        is_found: whether it holds for all series together (Holm); None between two machines of different names, whose
            software isn't all that differs.
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
