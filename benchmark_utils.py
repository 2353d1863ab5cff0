"""What a training script of one's own imports: BenchmarkCallback, TrainerBenchmarkCallback, record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tprimat.collect.lightning import BenchmarkCallback
    from tprimat.collect.loop import record
    from tprimat.collect.trainer import TrainerBenchmarkCallback

__all__ = ["BenchmarkCallback", "TrainerBenchmarkCallback", "record"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tprimat import collect

    return collect.offered(name)
