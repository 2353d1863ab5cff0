"""Defaults of every framework.

Batch and sequence length come with the model's size (scales.py), for NeMo from nemo/defaults.py.
"""

from __future__ import annotations

import re

from tprimat.frameworks.request import Device

STEPS_ON_CPU = 60
STEPS_ON_GPU = 200
"""Intervals within one run have their nominal coverage from some 200 steps on; a CPU takes too long
for that many.
"""

SEED = 1234
"""Megatron's own default, and that of NeMo's recipes."""

PRECISION_ON_CPU = "fp32"
PRECISION_ON_GPU = "bf16"
PRECISION_WITHOUT_BF16 = "fp16"

FIRST_WITH_BF16 = 80
"""Compute capability × 10: NVIDIA GPUs before sm_80 (Ampere) have no bf16 matrix units."""


def precision(device: Device) -> str:
    """Return the fastest precision of a GPU that trains like fp32; fp32 on a CPU, since few compute
    bf16.
    """
    if device.platform == "cpu":
        return PRECISION_ON_CPU
    if has_bf16(device):
        return PRECISION_ON_GPU
    return PRECISION_WITHOUT_BF16


def has_bf16(device: Device) -> bool:
    """Return whether a GPU has bf16 matrix units; true if its architecture is unknown."""
    version = re.fullmatch(r"sm_(\d+)[a-z]?", device.architecture or "")
    return version is None or int(version[1]) >= FIRST_WITH_BF16
