"""The block of DeepSpeed's flops profiler: one step, taken apart."""

from __future__ import annotations

import re

from tprimat.read.parsing.options import COMPUTED
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import LoggedValues, count, number, state

_BEGIN = re.compile(r"Profile Summary at step (\d{1,12})")
_ROW = re.compile(
    r"^\s*(?:\S+\s+)??([a-zA-Z][\w +*/=().{}:]{3,120}?):\s{1,80}([\d.,]{1,30})\s*([kKMGTP]?)\s*([a-zA-Zμµ]{0,10})\s*$"
)
_FACTOR = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "μs": 1e-6, "µs": 1e-6}
LONGEST = 60
"""Lines of the block."""


class Profile:
    """Collects the rows of the block, line by line; the latest block of a log holds."""

    def __init__(self) -> None:
        self._rows: dict[str, float] = {}
        self._begun: int | None = None
        self._line = 1
        self.step: int | None = None

    @property
    def has_block(self) -> bool:
        """Whether a block was seen."""
        return self.step is not None

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if "Profile Summary at step" in line.text and (begin := _BEGIN.search(line.text)):
            self.step, self._begun, self._line, self._rows = int(begin[1]), line.number, line.number, {}
            return
        if self._begun is None:
            return
        if line.number - self._begun > LONGEST:
            self._begun = None
            return
        row = _ROW.match(line.text[:300])
        if row is None:
            return
        name, value = " ".join(row[1].lower().split()), number(row[2])
        if value is None:
            return
        # "ms" is milliseconds, "M" a million; "TFLOPS" a rate.
        unit = row[3] + row[4]
        if unit in _SECONDS:
            value *= _SECONDS[unit]
        elif row[3]:
            value *= _FACTOR[row[3]]
        self._rows[name] = value

    def state(self, stated: LoggedValues) -> None:
        """State what the block says of the setup."""
        for name, field in (
            ("world size", "num_gpus"),
            ("data parallel size", "data_parallel_size"),
            ("batch size per gpu", "micro_batch_size"),
        ):
            if name in self._rows:
                state(stated, field, count(self._rows[name]), f"{name}: {self._rows[name]:g}", self._line, COMPUTED)

    def figures(self) -> dict[str, float | None]:
        """Return what the block measured, by names of native_metrics; its FLOPS estimate the backward pass."""
        found: dict[str, float | None] = {}
        if self.step is not None:
            found["profile_step"] = float(self.step)
        for start, name, factor in (
            ("iter latency", "profile_step_seconds", 1.0),
            ("samples/second", "profile_samples_per_second", 1.0),
            ("samples/s", "profile_samples_per_second", 1.0),
            ("fwd+bwd flops per gpu", "profile_tflops_per_gpu", 1e-12),
            ("flops per gpu", "profile_step_tflops_per_gpu", 1e-12),
            ("params per gpu", "profile_parameters_per_gpu", 1.0),
            ("fwd flops per gpu", "profile_forward_flops_per_gpu", 1.0),
        ):
            value = next((value for row, value in self._rows.items() if row.startswith(start)), None)
            if value is not None and name not in found:
                found[name] = value * factor
        return found

    def breakdown(self) -> dict[str, float | None]:
        """Return seconds of the profiled step by part."""
        parts = {"fwd latency": "forward", "bwd latency": "backward", "step latency": "optimizer"}
        return {part: self._rows[name] for name, part in parts.items() if name in self._rows}
