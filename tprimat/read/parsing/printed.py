"""Printed numbers with their units: 55.7K, 512 ms, 9.5 it/s, 1.2 Mtok/s, 41.2%, 1 day, 2:03:04."""

from __future__ import annotations

import re
from typing import NamedTuple

from tprimat.catalog import meanings
from tprimat.read.forms.fields import seconds_of
from tprimat.read.parsing.values import digits, duration, number, times

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf)"

PER_SECOND, PERCENT = "per second", "%"
"""Units of a rate that is printed instead of a time (9.5 it/s), and of a share; other units are
decimal factors, such as 1e-3 for ms.
"""

DURATIONS = ("time", "interval", "elapsed")
RATES = ("tokens_per_second", "tokens_per_second_per_gpu")
"""Values that may have a unit of time, and values that may count thousands or millions of tokens."""

_WITH_WORDS = ("_second", "_gpu", "tokens", "batch")
"""Ends of the names of values whose cells may have words behind the number: 9.5 it/s, 410 TFLOP/s,
32 samples.
"""

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
    """A printed number.

    Attributes:
        figure: its value in its unit; the K or M behind it is applied.
        unit: a decimal factor, PER_SECOND or PERCENT; empty if none is printed with it.
        digits: number of significant digits.
        is_rounded: whether it is printed in thousands or millions.
    """

    figure: float
    unit: str = ""
    digits: int = 0
    is_rounded: bool = False

    def text(self) -> str:
        """Return it with its digits, without the K or M."""
        return f"{self.figure:.{max(self.digits - 1, 0)}e}"


def pattern_of(value: str) -> str:
    """Return a regular expression for the number of a value, with the unit that may follow."""
    if value in ("step", "micro_step"):
        return rf"({NUMBER}(?!\.?\d))"
    # The 01 of 01:12 is not a number.
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
    """Return the unit of a value from the text before it, such as the name of its column, or behind
    it; empty for none.
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
    """Return the number in a cell, or in a text that pattern_of() matches; None for others."""
    figure = number(cell)
    if not isinstance(cell, str):
        # A float has lost its trailing zeros: 0.5 may have been 0.500.
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
    # A time with an unknown unit is not used; words may only follow values with such a name.
    is_bare = behind in meanings.MULTIPLIERS or not behind
    if not is_bare and not unit and not value.endswith(_WITH_WORDS):
        return None
    figure = number(match["figure"]) or 0.0
    if factor != "1":
        # If a cell of the column ktok/s is 1.2M, the M counts.
        figure = times(figure, factor)
        unit = "1" if value in RATES else unit
    return Printed(figure, unit, digits(match["figure"]), is_rounded=factor != "1")


def _unit_of_time(behind: str) -> str:
    """Return the unit of time at the start of a text; empty for none."""
    unit, _, _ = meanings.unit_of(behind)
    if unit is None or not (unit.is_time or unit.kind in (meanings.TIME, meanings.STEP_RATE)):
        return ""
    return unit.factor if unit.kind != meanings.STEP_RATE else PER_SECOND


def _elapsed(text: str) -> float | None:
    """Return a time such as 2:03:04, 03:04 or 1h 9m 40s in s; None for other texts."""
    return seconds_of(text) if re.fullmatch(_CLOCK, text) else duration(text)
