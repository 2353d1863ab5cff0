"""TensorPrimat: measures and compares the training of language models on NVIDIA and AMD GPUs."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tprimat.api import Comparison, Results, Run, compare, load, read_log

__version__ = "0.4.0"

__all__ = ["Comparison", "Results", "Run", "compare", "load", "read_log"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tprimat.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


class _Package(types.ModuleType):
    """The package, in which `compare` stays the function: importing the directory of that name doesn't replace it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "compare" or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
