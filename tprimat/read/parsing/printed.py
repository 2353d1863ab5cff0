"""Printed figures with their units: 55.7K, 512 ms, 9.5 it/s, 1.2 Mtok/s, 41.2%, 1 day, 2:03:04."""

from __future__ import annotations

import re
from typing import NamedTuple

from tprimat.catalog import meanings
from tprimat.read.forms.fields import seconds_of
from tprimat.read.parsing.values import digits, duration, number, times

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf)"

PER_SECOND, PERCENT = "per second", "%"
"""Units of a rate where a time may stand, and of a share; others are decimal factors."""

DURATIONS = ("time", "interval", "elapsed")
RATES = ("tokens_per_second", "tokens_per_second_per_gpu")
"""What may have a unit of time, and what may count thousands or millions of tokens."""

_WITH_WORDS = ("_second", "_gpu", "tokens", "batch")
"""How values end behind which a cell may have words: 9.5 it/s, 410 TFLOP/s, 32 samples."""

_SCALE = f"(?-i:[{''.join(meanings.MULTIPLIERS)}])"
SCALE = re.compile(rf"\A{_SCALE}(?![A-Za-z])")
"""The K of 55.7K, which belongs to the number."""

_UNIT_BEFORE = re.compile(
    r"(?:[(\[] ?(?P<unit>[^()\[\]]{1,20})|(?P<name>\b\w{1,60}_[^\W_]{1,20}))\W*\Z"
)
_PERCENT_BEFORE = re.compile(r"(?:%|percent)\W*\Z", re.IGNORECASE)

_CLOCK = r"(?:\d{1,5} days?, )?(?:\d{1,5}:)?\d{1,2}:\d\d(?:\.\d{1,9})?"
_FIGURE = re.compile(rf"(?P<figure>{NUMBER})(?P<behind>\s{{0,4}}\S.{{0,41}})?", re.IGNORECASE)


class Printed(NamedTuple):
    """A figure as it is printed.

    Attributes:
        figure: with the K or M behind it, in its unit.
        unit: a decimal factor, PER_SECOND or PERCENT; empty if none is printed with it.
        digits: significant ones.
        is_rounded: whether it is in thousands or millions.
    """

    figure: float
    unit: str = ""
    digits: int = 0
    is_rounded: bool = False

    def text(self) -> str:
        """Return it with its digits, without the K or M."""
        return f"{self.figure:.{max(self.digits - 1, 0)}e}"


def pattern_of(value: str) -> str:
    """Return a regular expression of what is printed for a value, with its unit if one follows."""
    if value in ("step", "micro_step"):
        return rf"({NUMBER}(?!\.?\d))"
    # 01:12 is no 1.
    figure = rf"{NUMBER}(?!\.?\d|:\d\d)(?:{_SCALE}(?![a-z]))?"
    unit = rf"(?:\s?{meanings.UNIT_OF_TIME})?"
    if value == "elapsed":
        return rf"({_CLOCK}(?![:\d])|{figure}{unit})"
    if value in DURATIONS:
        return f"({figure}{unit})"
    if value in RATES:
        return rf"({figure}(?:\s?{_SCALE}\s?(?=tok))?)"
    return rf"({figure}\s?%|{figure})" if value == "mfu" else f"({figure})"


def unit_beside(value: str, before: str, behind: str = "") -> str:
    """Return the unit of a value that the text before or behind it has, as the name of a column
    before it; empty for none.
    """
    if value in DURATIONS or value == "time_ms":
        if (found := _unit_of_time(behind.lstrip())) or value == "time_ms":
            return found or "1e-3"
        label = _UNIT_BEFORE.search(before)
        in_name = meanings.unit_in(label["name"] or "") if label else None
        return in_name.factor if in_name else _unit_of_time((label and label["unit"]) or "")
    if value in RATES:
        unit, factor, _ = meanings.unit_of(behind)
        if unit is None or unit.kind not in RATES:
            factor = meanings.multiplier_in(before)
        return factor if factor != "1" else ""
    if value == "mfu" and (behind.lstrip().startswith("%") or _PERCENT_BEFORE.search(before)):
        return PERCENT
    return ""


def printed(value: str, cell: object) -> Printed | None:
    """Return the figure of a cell, or of a text that pattern_of() matches; None for anything
    else.
    """
    figure = number(cell)
    if not isinstance(cell, str):
        # A float has lost its zeros.
        return Printed(figure, "", max(digits(f"{figure:.15g}"), 3)) if figure is not None else None
    text = cell.strip()
    if figure is not None:
        return Printed(figure, PERCENT if text.endswith("%") else "", digits(text.rstrip("%")))
    if value == "elapsed" and (seconds := _elapsed(text)) is not None:
        return Printed(seconds, "1")
    match = _FIGURE.fullmatch(text)
    if match is None:
        return None
    behind = (match["behind"] or "").lstrip()
    _, factor, _ = meanings.unit_of(behind)
    unit = _unit_of_time(behind) if value in DURATIONS or value == "time_ms" else ""
    # A time with an unknown unit is none; of another value only words that name it may follow.
    is_bare = behind in meanings.MULTIPLIERS or not behind
    if not is_bare and not unit and not value.endswith(_WITH_WORDS):
        return None
    figure = number(match["figure"]) or 0.0
    if factor != "1":
        # Of a column ktok/s with 1.2M in a cell the cell counts.
        figure = times(figure, factor)
        unit = "1" if value in RATES else unit
    return Printed(figure, unit, digits(match["figure"]), is_rounded=factor != "1")


def _unit_of_time(behind: str) -> str:
    """Return the unit of a time that a text begins with; empty for none."""
    unit, _, _ = meanings.unit_of(behind)
    if unit is None or not (unit.is_time or unit.kind in (meanings.TIME, meanings.STEP_RATE)):
        return ""
    return unit.factor if unit.kind != meanings.STEP_RATE else PER_SECOND


def _elapsed(text: str) -> float | None:
    """Return a time since the start in s, from 2:03:04, 03:04 or 1h 9m 40s; None for else."""
    return seconds_of(text) if re.fullmatch(_CLOCK, text) else duration(text)
