"""The names of result files."""

from __future__ import annotations

import hashlib
import re

from tprimat.catalog import gpus
from tprimat.results.arguments import variant
from tprimat.results.run import STACKS, Run, setup_key

ENCODER_DECODER = "encdec"

_STACK_OF = {"nemo": "cuda", "primus": "rocm"}
"""Parts of the names of these frameworks' results, whatever they ran on."""

_LONGEST_PART = 24


def file_name(run: Run) -> str:
    """Return the name under which users know a result of this kind."""
    model = _plain(run.model or "model")
    stack = STACKS[run.platform] if run.platform else None
    usual = "cuda"
    if run.model == ENCODER_DECODER:
        # Each training has a file of its own.
        gpu = "cpu" if run.platform == "cpu" else _plain(gpus.short_name(run.gpu_info.device_name))
        moment = run.started.strftime("%Y%m%d_%H%M%S") if run.started else "unknown"
        stem = f"bench_{gpu}_{run.num_gpus or 1}gpu_{moment}"
        usual = stack or usual
    elif run.framework in _STACK_OF:
        usual = _STACK_OF[run.framework]
        stem = f"benchmark_{usual}_{model}"
    elif run.framework == "lightning" and stack:
        stem = f"benchmark_{stack}_{model}"
        usual = stack
    else:
        stem = f"train_{_plain(run.framework or 'unknown')}_{model}"
    # So that results of two platforms can be put into one directory.
    if (stack, usual) == ("rocm", "cuda"):
        stem += "_amd"
    elif (stack, usual) == ("cuda", "rocm"):
        stem += "_nvd"
    if run.label:
        stem += f"_{_plain(run.label)}"
    return f"{stem}.json"


def difference(run: Run, other: Run) -> str:
    """Return the part of a file name that distinguishes a run from those of other setups."""
    for part, another in zip(_parts(run), _parts(other), strict=True):
        if part and part != another:
            return _plain(part)[:_LONGEST_PART]
    pairs = (run.environment.versions, other.environment.versions), (variant(run), variant(other))
    for own, others in pairs:
        for name, value in sorted(own.items()):
            if others.get(name) != value:
                return _plain(f"{name}{value}")[:_LONGEST_PART]
    return hashlib.sha256(setup_key(run)).hexdigest()[:8]


def _parts(run: Run) -> list[str | None]:
    """Return the values that distinguish a setup, as parts of a file name; None if unknown."""
    config = run.training_config
    gpu = run.gpu_info.device_name
    parts = [
        run.platform,
        run.framework,
        gpu and gpus.short_name(gpu),
        run.scale,
        config.precision,
        _with_unit(run.num_gpus, "gpus"),
        _with_unit(config.global_batch_size, "batch"),
        _with_unit(config.micro_batch_size, "micro-batch"),
        _with_unit(config.sequence_length, "tokens"),
    ]
    if run.data.seed is None:
        parts.append(None)
    else:
        parts.append(f"seed{run.data.seed}")
    compiled = run.framework_config.get("torch_compile")
    if compiled is None:
        parts.append(None)
    else:
        parts.append("compiled" if compiled else "eager")
    return parts


def _with_unit(size: int | None, unit: str) -> str | None:
    if size:
        return f"{size}{unit}"
    return None


def _plain(name: str) -> str:
    """Return a name as a part of a file name: no separators, no dots at the start, not endless.

    Three parts, and what history/ and an unfinished write add, stay within 255 bytes.
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip(".-")[:60] or "unnamed"
