"""Recording of live runs: recorder.py is pure, one adapter per framework feeds it."""

from __future__ import annotations

import importlib
import sys
from types import TracebackType
from typing import Any

from tprimat.errors import INSTALL, UsageError, missing_package


class MissingTrainingPackageError(UsageError, ImportError):
    """A package that a training needs is missing; an ImportError too, for scripts that try."""


OFFERED = {
    "BenchmarkCallback": "tprimat.frameworks.lightning.callback",
    "TrainerBenchmarkCallback": "tprimat.frameworks.transformers.callback",
    "record": "tprimat.record.loop",
}
"""Names exported by benchmark_utils, with their modules."""


def offered(name: str) -> Any:
    """Return one of OFFERED.

    Raises MissingTrainingPackageError if a package that it needs is missing. In a script that
    doesn't catch it, Python prints error and hint instead of a traceback.
    """
    try:
        # record imports torch only when it is entered, and would fail there in the midst of a
        # script.
        importlib.import_module("torch")
        return getattr(importlib.import_module(OFFERED[name]), name)
    except ModuleNotFoundError as failure:
        package = (failure.name or "").split(".")[0]
        if package in ("", "tprimat"):
            raise
        error = missing_package(package, INSTALL, name)
        missing = MissingTrainingPackageError(error.problem, heading=error.heading, hint=error.hint)
        _print_without_traceback(missing)
        raise missing from None


def _print_without_traceback(error: UsageError) -> None:
    """Print only this error's text, without a traceback, if it isn't caught."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            print(error.line(), file=sys.stderr)
        else:
            usual(kind, value, trace)

    sys.excepthook = hook
