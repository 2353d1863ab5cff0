"""Live training to records: recorder.py is pure, one adapter per framework feeds it."""

from __future__ import annotations

import importlib
import sys
from types import TracebackType
from typing import Any

from tprimat.errors import UsageError, missing_package


class MissingTrainingPackageError(UsageError, ImportError):
    """A package that a training needs is missing; an ImportError too, for scripts that try."""


OFFERED = {
    "BenchmarkCallback": ("tprimat.frameworks.lightning.callback", "pip install -r requirements-train.txt"),
    "TrainerBenchmarkCallback": ("tprimat.frameworks.transformers.callback", "pip install -r requirements-train.txt"),
    "record": ("tprimat.record.loop", "pip install -r requirements-train.txt"),
}
"""What training scripts import from benchmark_utils: the module of each, and what brings its packages."""


def offered(name: str) -> Any:
    """One of OFFERED.

    Raises MissingTrainingPackageError where a package that it needs is missing. In a script that
    doesn't catch it, Python prints its one line instead of a traceback.
    """
    module, install = OFFERED[name]
    try:
        # record imports torch only when it is entered, and would fail there in the midst of a script.
        importlib.import_module("torch")
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package in ("", "tprimat"):
            raise
        said = missing_package(package, install, name)
        missing = MissingTrainingPackageError(said.message, heading=said.heading)
        _print_in_one_line(missing)
        raise missing from None


def _print_in_one_line(error: UsageError) -> None:
    """Has Python end with this very error's line, should nobody catch it; all others stay as they are."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            print(error.line(), file=sys.stderr)
        else:
            usual(kind, value, trace)

    sys.excepthook = hook
