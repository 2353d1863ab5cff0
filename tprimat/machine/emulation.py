"""Whether a device is simulated, as the tests do that have no GPU: every result then says so."""

from __future__ import annotations

import os

EMULATED = "TPRIMAT_EMULATED"
"""Set to 1 by whoever simulates a device. Times mean nothing then, and no comparison shows them."""


def is_emulated() -> bool:
    """Return whether this process trains on an emulated device."""
    return os.environ.get(EMULATED) == "1"
