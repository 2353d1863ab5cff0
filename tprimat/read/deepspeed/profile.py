"""The block of DeepSpeed's flops profiler: one step, taken apart."""

from __future__ import annotations

import re

from tprimat.read.parsing.options import COMPUTED
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import LoggedValues, count, number, state
from tprimat.results.fields import Figures

_BEGIN = re.compile(r"Profile Summary at step (\d{1,12})")
_ROW = re.compile(
    r"^\s*(?:\S+\s+)??([a-zA-Z][\w +*/=().{}:]{3,120}?):\s{1,80}([\d.,]{1,30})"
    r"\s{0,9}([kKMGTP]?)\s{0,9}([a-zA-Zμµ]{0,10})\s*$"
)
_FACTOR = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "μs": 1e-6, "µs": 1e-6}
_SETUP = {
    "world size": "num_gpus",
    "data parallel size": "data_parallel_size",
    "batch size per gpu": "micro_batch_size",
}
_FIGURES = (
    ("iter latency", "profile_step_seconds", 1.0),
    ("samples/second", "profile_samples_per_second", 1.0),
    ("samples/s", "profile_samples_per_second", 1.0),
    ("fwd+bwd flops per gpu", "profile_tflops_per_gpu", 1e-12),
    ("flops per gpu", "profile_step_tflops_per_gpu", 1e-12),
    ("params per gpu", "profile_parameters_per_gpu", 1.0),
    ("fwd flops per gpu", "profile_forward_flops_per_gpu", 1.0),
)
"""How rows begin, their names in native_metrics, and factors."""

_PARTS = {"fwd latency": "forward", "bwd latency": "backward", "step latency": "optimizer"}
LONGEST = 60
"""Lines of the block."""


class Profile:
    """Collects the rows of the block, line by line; the latest block of a log holds, of `step`, if
    there is one.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._rows: dict[str, float] = {}
        self._line = -LONGEST

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if "Profile Summary at step" in line.text and (begin := _BEGIN.search(line.text)):
            self.step = int(begin[1])
            self._line = line.number
            self._rows = {}
        elif line.number - self._line <= LONGEST and (row := _ROW.match(line.text[:300])):
            value = number(row[2])
            unit = row[3] + row[4]
            if value is not None:
                # "ms" is milliseconds, "M" a million; "TFLOPS" a rate.
                self._rows[" ".join(row[1].lower().split())] = value * _SECONDS.get(
                    unit, _FACTOR[row[3]]
                )

    def state(self, stated: LoggedValues) -> None:
        """State the settings in the block."""
        for name, field in _SETUP.items():
            if name in self._rows:
                state(
                    stated,
                    field,
                    count(self._rows[name]),
                    f"{name}: {self._rows[name]:g}",
                    self._line,
                    COMPUTED,
                )

    def figures(self) -> Figures:
        """Return the measured values of the block, by names of native_metrics; its FLOPS estimate
        the backward pass.
        """
        figures: Figures = {} if self.step is None else {"profile_step": float(self.step)}
        for start, name, factor in _FIGURES:
            value = next(
                (value for row, value in self._rows.items() if row.startswith(start)), None
            )
            if value is not None:
                figures.setdefault(name, value * factor)
        return figures

    def breakdown(self) -> Figures:
        """Return seconds of the profiled step by part."""
        return {part: self._rows[name] for name, part in _PARTS.items() if name in self._rows}
