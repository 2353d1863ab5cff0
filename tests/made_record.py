"""A record for tests of the site: the published rows, and five made ones whose values no source
changes.
"""

from __future__ import annotations

from tprimat.publish import data, points, series, site
from tprimat.publish.record import Point, PointPair, Record

LOG = {
    "source": "mlcommons/example/A/results/x/llama31_8b@441d65f4",
    "url": "https://github.com/mlcommons/example/x",
}
TABLE = {
    "source": "example/tables/docs/table.md@067f987df03b:12",
    "url": "https://github.com/example/tables/y#L12",
}
WORK = {
    "model": "llama",
    "task": "pretrain",
    "sequence_length": 8192,
    "num_gpus": 8,
    "date": "2025-10-08",
}
MADE = (
    Point(
        **{**WORK, **LOG}, publisher="Lab A", gpu="b200-hgx", precision="fp4", global_batch_size=16, version="made 1",
        tokens_per_second_per_gpu=360_000.0, rates=(359_000.0, 361_000.0),
        target="loss 3", time_to_target_seconds=3600.0, mark="recomputed from the log",
    ),
    Point(
        **{**WORK, **LOG}, publisher="Lab B", gpu="mi355x", precision="fp8", global_batch_size=32, version="made 2",
        tokens_per_second_per_gpu=300_000.0, rates=(299_000.0, 301_000.0),
        target="loss 3", time_to_target_seconds=5400.0, mark="recomputed from the log",
    ),
    Point(
        **{**WORK, **TABLE}, publisher="Lab C", gpu="h100-sxm5", precision="fp8", version="made 3",
        tokens_per_second_per_gpu=150_000.0, mark="as published",
        note="a long note of this table; " + "with more than fits " * 3,
    ),
    Point(
        **{**WORK, **LOG, "num_gpus": 16}, publisher="Lab D", gpu="h200-sxm", precision="fp8", version="made 4",
        tokens_per_second_per_gpu=160_000.0, rates=(159_000.0, 161_000.0), mark="recomputed from the log",
    ),
    Point(
        **{**WORK, **LOG}, publisher="Lab E", gpu="mi355x", precision="fp8", global_batch_size=16, version="made 5",
        system="e_1", tokens_per_second_per_gpu=285_000.0, mark="recomputed from the log",
    ),
)  # fmt: skip


def record(times=1):
    evidence = points.published_points()
    shown = [each.point for each in evidence] * times
    first = len(shown)
    pair = PointPair(first=first, second=first + 1, ratio=1.2, low=1.15, high=1.25)
    return Record(points=(*shown, *MADE), pairs=(pair,), changes=series.changes(evidence))


def write(record, folder):
    tables = data.values(record, "2026-11-26")
    site.write(record, tables, folder)
    data.write(record, tables, folder)
    return tables
