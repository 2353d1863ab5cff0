"""Detect emulated devices, as in tests without a GPU; every result then states it."""

from __future__ import annotations

import os

EMULATED = "TPRIMAT_EMULATED"
"""Set to 1 by whoever simulates a device. Times mean nothing then, and no comparison shows them."""


def is_emulated() -> bool:
    """Return whether this process trains on an emulated device."""
    return os.environ.get(EMULATED) == "1"
