"""The options of `nvd-compare`."""

from __future__ import annotations

from tprimat.cli.options import compare_frameworks
from tprimat.cli.options._parser import Parser


def parser() -> Parser:
    """Return the parser of `nvd-compare`."""
    return compare_frameworks.parser("nvd", "nvd_compare.png")
