"""The names of result files."""

from __future__ import annotations

import re

from tprimat.catalog import gpus
from tprimat.results.run import Run

ENCODER_DECODER = "encdec"


def file_name(run: Run) -> str:
    """Return the name under which users know a result of this kind."""
    model = _plain(run.model or "model")
    if run.model == ENCODER_DECODER:
        # Each training has a file of its own.
        gpu = "cpu" if run.platform == "cpu" else _plain(gpus.short_name(run.gpu_info.device_name))
        moment = run.started.strftime("%Y%m%d_%H%M%S") if run.started else "unknown"
        stem = f"bench_{gpu}_{run.num_gpus or 1}gpu_{moment}"
    elif run.framework in ("nemo", "primus"):
        stem = f"benchmark_{'cuda' if run.framework == 'nemo' else 'rocm'}_{model}"
    elif run.platform == "cpu" and run.framework == "lightning":
        stem = f"benchmark_cpu_{model}"
    else:
        stem = f"train_{_plain(run.framework or 'unknown')}_{model}"
    return f"{stem}_{_plain(run.label)}.json" if run.label else f"{stem}.json"


def _plain(name: str) -> str:
    """Return a name as a part of a file name: no separators, no dots at the start, not endless.

    Three parts, and what history/ and an unfinished write add, stay within 255 bytes.
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip(".-")[:60] or "unnamed"
