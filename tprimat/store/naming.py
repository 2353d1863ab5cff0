"""The names of result files."""

from __future__ import annotations

import re

from tprimat.catalog import gpus
from tprimat.results.run import Run

ENCODER_DECODER = "encdec"


def file_name(run: Run) -> str:
    """Return the name under which users know a result of this kind."""
    if run.model == ENCODER_DECODER:
        return _encoder_decoder_name(run)
    platform_of = {"nemo": "cuda", "primus": "rocm"}
    framework = _plain(run.framework or "unknown")
    if run.framework in platform_of:
        stem = f"benchmark_{platform_of[framework]}"
    elif run.platform == "cpu" and run.framework == "lightning":
        stem = "benchmark_cpu"
    else:
        stem = f"train_{framework}"
    parts = [stem, _plain(run.model or "model"), *([_plain(run.label)] if run.label else [])]
    return "_".join(parts) + ".json"


def _encoder_decoder_name(run: Run) -> str:
    """Return bench_{GPU}_{N}gpu_{TIMESTAMP}: each training has a file of its own."""
    on_cpu = run.platform == "cpu"
    gpu = "cpu" if on_cpu else _plain(gpus.short_name(run.gpu_info.device_name))
    moment = run.started.strftime("%Y%m%d_%H%M%S") if run.started else "unknown"
    parts = [f"bench_{gpu}_{run.num_gpus or 1}gpu_{moment}", *([_plain(run.label)] if run.label else [])]
    return "_".join(parts) + ".json"


def _plain(name: str) -> str:
    """Return a name as a part of a file name: no separators, no dots at the start, not endless.

    Three parts, and what history/ and an unfinished write add, stay within 255 bytes.
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip(".-")[:60] or "unnamed"
