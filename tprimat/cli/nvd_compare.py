"""nvd-compare: the comparison of frameworks with NVIDIA's results alone; scripts/nvd_compare.py."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat.cli.compare_frameworks import compare_frameworks


def main(argv: Sequence[str]) -> int:
    """Compares frameworks on NVIDIA's GPUs.

    Args:
        argv: arguments, without the program's name.
    """
    return compare_frameworks(argv, platform="nvd", picture="nvd_compare.png")
