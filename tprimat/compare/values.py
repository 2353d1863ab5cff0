"""The figure of a run by the name of its metric."""

from __future__ import annotations

from tprimat.compare.result import RunResult
from tprimat.results.run import MemoryMetrics, PerformanceMetrics


def value(result: RunResult, name: str) -> float | None:
    """A metric of one run, in the unit of its row; None where it is unknown."""
    if name in PerformanceMetrics.__struct_fields__:
        return getattr(result.summary.performance, name)  # type: ignore[no-any-return]
    if name in MemoryMetrics.__struct_fields__:
        return getattr(result.run.memory_metrics, name)  # type: ignore[no-any-return]
    return None
