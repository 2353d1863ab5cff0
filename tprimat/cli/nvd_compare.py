"""nvd-compare: the comparison of frameworks with NVIDIA's results alone; scripts/nvd_compare.py."""

from __future__ import annotations

from tprimat.cli.compare_frameworks import main

__all__ = ["main"]
