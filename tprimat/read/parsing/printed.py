"""Printed figures with their units: 55.7K, 512 ms, 9.5 it/s, 1.2 Mtok/s, 41.2%, 1 day, 2:03:04."""

from __future__ import annotations

import re
from typing import NamedTuple

from tprimat.read.parsing.values import digits, duration, number, times

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf)"

PER_SECOND, PERCENT = "per second", "%"
"""Units of a rate where a time may stand, and of a share; others are decimal factors."""

DURATIONS = ("time", "interval", "elapsed")
RATES = ("tokens_per_second", "tokens_per_second_per_gpu")
"""What may have a unit of time, and what may count thousands or millions of tokens."""

_WITH_WORDS = ("_second", "_gpu", "tokens", "batch")
"""How values end behind which a cell may have words: 9.5 it/s, 410 TFLOP/s, 32 samples."""

_SCALES = {"k": "1e3", "m": "1e6", "g": "1e9", "b": "1e9"}
_SCALE = r"(?-i:[kKMGB])"
_PER = r"(?:it|iter(?:ation)?s?|steps?|batch(?:es)?)"
_UNITS = {
    "rate": (PER_SECOND, rf"{_PER}(?:/| ?per )s(?:ec(?:ond)?)?"),
    "milliseconds": ("1e-3", rf"m(?:s|secs?|illi\w*)(?:/{_PER})?"),
    "seconds": ("1", rf"s(?:ec(?:ond)?s?)?(?:/{_PER})?"),
    "minutes": ("60", r"min(?:ute)?s?"),
    "hours": ("3600", r"h(?:(?:ou)?rs?)?"),
}
_ANY = "|".join(f"(?P<{name}>{pattern})" for name, (_, pattern) in _UNITS.items())
_BEHIND = re.compile(rf"\s*(?:{_ANY})(?!\w)", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"[(\[] ?(?:{_ANY})\W*\Z", re.IGNORECASE)
# A column step_time_min has the shortest times.
_IN_NAME = re.compile(
    r"_(?:(?P<milliseconds>ms|msecs?|milliseconds?)|(?P<seconds>s|secs?|seconds?)"
    r"|(?P<minutes>minutes)|(?P<hours>hours))\W*\Z",
    re.IGNORECASE,
)
_TOKENS_BEHIND = re.compile(r"\s?(?P<scale>[kmg])\s?tok", re.IGNORECASE)
_TOKENS_BEFORE = re.compile(
    r"(?<![a-z])(?P<scale>[kmg])[ _]?(?:tps|tok(?:en)?s?)(?:\b|_)[\w/. ]{0,40}\W*\Z", re.IGNORECASE
)
_PERCENT_BEFORE = re.compile(r"(?:%|percent)\W*\Z", re.IGNORECASE)

_CLOCK = r"(?:(?P<days>\d{1,5}) days?, )?(?:(?P<hours>\d{1,5}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d\d(?:\.\d{1,9})?)"
_TIME_OF = re.compile(_CLOCK)
_FIGURE = re.compile(
    rf"(?P<figure>{NUMBER})(?:\s?(?P<scale>{_SCALE})(?![a-z]))?(?P<unit>\s{{0,4}}\S.{{0,40}})?",
    re.IGNORECASE,
)


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
    # “0.5 min” may be the least of several times.
    unit = "|".join(_UNITS[name][1] for name in ("rate", "milliseconds", "seconds"))
    if value == "elapsed":
        clock = re.sub(r"\(\?P<\w+>", "(?:", _CLOCK)
        return rf"({clock}(?![:\d])|{figure}(?:\s?(?:{unit})(?![\w/]))?)"
    if value in DURATIONS:
        return rf"({figure}(?:\s?(?:{unit})(?![\w/]))?)"
    if value in RATES:
        return rf"({figure}(?:\s?{_SCALE}\s?(?=tok))?)"
    return rf"({figure}\s?%|{figure})" if value == "mfu" else f"({figure})"


def unit_beside(value: str, before: str, behind: str = "") -> str:
    """Return the unit of a value that the text before or behind it has, as the name of a column
    before it; empty for none.
    """
    if value in DURATIONS or value == "time_ms":
        match = _BEHIND.match(behind)
        if match is None and value == "time_ms":
            return "1e-3"
        match = match or _IN_BRACKETS.search(before) or _IN_NAME.search(before)
        return _UNITS[match.lastgroup or ""][0] if match else ""
    if value in RATES:
        match = _TOKENS_BEHIND.match(behind) or _TOKENS_BEFORE.search(before)
        return _SCALES[match["scale"].lower()] if match else ""
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
    behind = match["unit"] or ""
    unit = unit_beside(value, "", behind)
    # A time with an unknown unit is none; of another value only words that name it may follow.
    if behind and not unit and (value in DURATIONS or not value.endswith(_WITH_WORDS)):
        return None
    figure = number(match["figure"]) or 0.0
    shown = digits(match["figure"])
    scale = match["scale"]
    if scale is None:
        return Printed(figure, unit, shown)
    # Of a column ktok/s with 1.2M in a cell the cell counts.
    unit = "1" if value in RATES else unit
    return Printed(times(figure, _SCALES[scale.lower()]), unit, shown, is_rounded=True)


def _elapsed(text: str) -> float | None:
    """Return a time since the start in s, from 2:03:04, 03:04 or 1h 9m 40s; None for else."""
    match = _TIME_OF.fullmatch(text)
    if match is None:
        return duration(text)
    parts = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
    return sum(float(match[name] or 0) * factor for name, factor in parts)
