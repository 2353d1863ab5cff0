"""The framework `fsdp`: needs a torch with public FSDP2."""

from __future__ import annotations

from importlib import metadata

OLDEST = (2, 6)
"""Version of torch from which on fully_shard is in torch.distributed.fsdp."""


def unavailable() -> str | None:
    """Return why it can't run here and what to do; torch itself is not imported: that takes a second."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    digits = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if tuple(digits) < OLDEST:
        return f"it needs torch {'.'.join(map(str, OLDEST))} or newer, and this is {version}: take a newer one"
    return None
