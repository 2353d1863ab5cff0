"""What a training script of one's own imports: BenchmarkCallback, TrainerBenchmarkCallback,
record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tprimat.frameworks.lightning.callback import BenchmarkCallback
    from tprimat.frameworks.transformers.callback import TrainerBenchmarkCallback
    from tprimat.record.loop import record

__all__ = ["BenchmarkCallback", "TrainerBenchmarkCallback", "record"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tprimat import record as collect

    return collect.offered(name)
