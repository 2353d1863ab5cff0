"""The names of result files."""

from __future__ import annotations

import hashlib
import re

from tprimat.catalog import gpus
from tprimat.results.arguments import variant
from tprimat.results.run import STACKS, Run, setup_key

ENCODER_DECODER = "encdec"

_STACK_OF = {"nemo": "cuda", "primus": "rocm"}
"""What the names of these frameworks' results say, whatever they ran on."""

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
        second = "amd"
    elif (stack, usual) == ("cuda", "rocm"):
        second = "nvd"
    else:
        second = None
    return "_".join(filter(None, (stem, second, run.label and _plain(run.label)))) + ".json"


def difference(run: Run, other: Run) -> str:
    """Return what tells a run from one of another setup, as a part of a file name."""
    for part, another in zip(_parts(run), _parts(other), strict=True):
        if part and part != another:
            return _plain(part)[:_LONGEST_PART]
    pairs = (run.environment.versions, other.environment.versions), (variant(run), variant(other))
    changed = (
        f"{name}{value}"
        for own, others in pairs
        for name, value in sorted(own.items())
        if others.get(name) != value
    )
    return _plain(next(changed, hashlib.sha256(setup_key(run)).hexdigest()[:8]))[:_LONGEST_PART]


def _parts(run: Run) -> tuple[str | None, ...]:
    config = run.training_config
    compiled = run.framework_config.get("torch_compile")
    sizes = (
        (run.num_gpus, "gpus"),
        (config.global_batch_size, "batch"),
        (config.micro_batch_size, "micro-batch"),
        (config.sequence_length, "tokens"),
    )
    return (
        run.platform,
        run.framework,
        gpus.short_name(run.gpu_info.device_name) if run.gpu_info.device_name else None,
        run.scale,
        config.precision,
        *(f"{size}{name}" if size else None for size, name in sizes),
        None if run.data.seed is None else f"seed{run.data.seed}",
        None if compiled is None else "compiled" if compiled else "eager",
    )


def _plain(name: str) -> str:
    """Return a name as a part of a file name: no separators, no dots at the start, not endless.

    Three parts, and what history/ and an unfinished write add, stay within 255 bytes.
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip(".-")[:60] or "unnamed"
