"""Quantities as text: scaled once, here, with their unit. Knows numbers, not benchmarks."""

from __future__ import annotations

import math

GB = 1e9
"""Bytes in a gigabyte; every name that ends in _gb means this one."""

GIB = 2**30
"""Bytes in a gibibyte, which Primus, Megatron and torchtitan print (Primus as "GB")."""

UNKNOWN = "–"
"""What a table shows if a value is unknown."""


def gib_to_gb(gib: float) -> float:
    """Return gibibytes as gigabytes of 10⁹ bytes."""
    return gib * GIB / GB


def round_figure(value: float | None) -> float | None:
    """Return a summary value as it is stored: 3 decimals, or 4 significant digits if those lose it.

    Returns None for None. Raises ValueError for a value that is not finite.
    """
    if value is None:
        return None
    if not math.isfinite(value):
        raise ValueError(f"a value must be finite, not {value}")
    if value == 0 or abs(value) >= 1:
        return round(value, 3)
    # Below 1, three decimals keep fewer than four digits: 0.0354 would become 0.035.
    return round(value, max(3, 3 - math.floor(math.log10(abs(value)))))


def seconds(value: float | None) -> str:
    """Return a step time for people. Units: s in; text in s, or ms below a tenth of a second."""
    if value is None:
        return UNKNOWN
    if value < 0.1:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.3f} s"


def duration(value: float | None) -> str:
    """Return a length of time for people, such as 1 h 05 min. Units: s."""
    if value is None:
        return UNKNOWN
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with thousands separated by commas."""
    if value is None:
        return UNKNOWN
    return f"{value:,.{digits}f}"


def count(value: float) -> str:
    """Return a large number with three digits: 4.2k, 7.48M, 8.03B (10⁹)."""
    for suffix, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:g}"


def gigabytes(value: float | None) -> str:
    """Return memory for people. Units: GB of 10⁹ bytes."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f} GB"


def size(num_bytes: float) -> str:
    """Return an amount of data for people, in GB, MB or kB of powers of ten."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.1f} {unit}"
    return f"{num_bytes / 1e3:.1f} kB"


def times(ratio: float) -> str:
    """Return a ratio such as 1.36×, with more digits close to one."""
    if 0.95 < ratio < 1.05:
        return f"{ratio:.3f}×"
    return f"{ratio:.2f}×"
