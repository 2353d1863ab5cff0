"""Printed values: numbers and their units, and the statements that a source makes of its setup."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from tprimat.results.fields import LARGEST_COUNT, LARGEST_VALUE, JsonObject
from tprimat.units import GB, gib_to_gb, round_figure

_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def number(value: object) -> float | None:
    """Return a value as a number: 1,234 or "1.2e+03" or 45.1%; NaN and infinity as they are; None
    for else, as 7,95 and 0,451.
    """
    if type(value) is float:
        return value
    if isinstance(value, str):
        if value[-1:].isdigit() and "," not in value:
            plain = value
        else:
            plain = value.strip().rstrip("%")
            if "," in plain and _GROUPED.fullmatch(plain):
                plain = plain.replace(",", "")
        # Python reads 1_000 as a number, which nothing prints as one.
        value = "" if "_" in plain else plain
    elif value is None or isinstance(value, bool):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return None


def whole(value: object) -> int | None:
    """Return a whole number from 0 on, such as a step; None for anything else."""
    read = number(value)
    if read is not None and 0 <= read <= 2**53 and read == int(read):
        return int(read)
    return None


def count(value: object) -> int | None:
    """Return a whole number from 1 on; None for anything else."""
    return whole(value) or None


_DURATION = re.compile(
    r"(?:(\d{1,5}) days?, )?(\d{1,2}):(\d{2}):(\d{2})"
    r"|(?:(\d{1,5})d ?)?(?:(\d{1,2})h ?)?(?:(\d{1,2})m ?)?(?:(\d{1,2}(?:\.\d{1,9})?)s)?"
)


def duration(text: str) -> float | None:
    """Return a printed duration in s: 1 day, 1:09:40 or 1h 9m 40s; None for anything else."""
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        return None
    units = (86400, 3600, 60, 1)
    parts = zip(match.groups(), (*units, *units), strict=True)
    return sum(float(part or 0) * unit for part, unit in parts)


def digits(text: str) -> int:
    """Return the number of significant digits of a printed number: 0.0869 has three."""
    mantissa = text.lower().partition("e")[0].replace(",", "").lstrip("+-")
    return len(mantissa.replace(".", "").lstrip("0"))


SMALLEST_ERROR = 1e-4
"""Relative error of a ratio of printed values at least: they needn't be of the very same moment."""


def whole_ratio(
    above: Sequence[object], below: Sequence[object], factor: float = 1.0
) -> int | None:
    """Return the product of values over that of others, such as the rate of all GPUs over that of
    one, times an exact factor, if it is whole.

    Each is taken as rounded to its printed digits; a float, which has lost its zeros, to 3 at
    least. None below 1, between two whole numbers, and if the digits don't distinguish a number
    from the next: 3 digits do up to 49.
    """
    values = []
    least_digits = 99
    for printed in (*above, *below):
        value = number(printed) or 0.0
        if not 1 / LARGEST_COUNT < value < LARGEST_COUNT:
            return None
        values.append(value)
        shown = digits(printed) if isinstance(printed, str) else max(digits(f"{printed:.15g}"), 3)
        least_digits = min(least_digits, shown)
    ratio = factor * math.prod(values[: len(above)]) / math.prod(values[len(above) :])
    error = max(10.0 ** (1 - least_digits), SMALLEST_ERROR)
    whole = round(ratio)
    if whole and abs(ratio - whole) <= error * whole < 0.5:
        return whole
    return None


_PRECISIONS = {
    "mxfp8": "mxfp8",
    "fp8": "fp8",
    "float8": "fp8",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "fp32": "fp32",
    "float32": "fp32",
}
"""Precisions as results name them, by a part of the word for one; the first counts."""


def precision_of(value: object) -> str | None:
    """Return a precision as results name it, from torch.bfloat16, bf16-mixed, 16-true and the
    like.
    """
    word = str(value).lower()
    for sign, precision in _PRECISIONS.items():
        if sign in word:
            return precision
    return {"16": "fp16", "32": "fp32"}.get(word.removesuffix("-mixed").removesuffix("-true"))


def first_of(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the value of the first of names that is there; None if none is."""
    return next((values[name] for name in names if name in values), None)


def json_object(text: str) -> JsonObject | None:
    """Return the JSON object that a text is, NaN and infinity included; None if it isn't whole, or
    is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None


_DECODER = json.JSONDecoder()


def object_at(text: str, begin: int = 0) -> JsonObject | None:
    """Return the JSON object that begins at a place of a text, whatever follows it; None if none
    does, as at -1.
    """
    if begin < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None


def flat(nested: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of an object; those of objects in it have dotted names."""
    for name, value in nested.items():
        if isinstance(value, dict) and before.count(".") < 8:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def times(printed: float, factor: str) -> float:
    """Return a printed value times a decimal factor, with no digits of its own: 1.5376 s of 1537.6
    ms.

    A division by 1e3 leaves 1.5375999999999999.
    """
    return float(Decimal(repr(printed)) * Decimal(factor))


UNITS: tuple[tuple[str, str, Callable[[float], float]], ...] = (
    ("milliseconds", "seconds", functools.partial(times, factor="1e-3")),
    ("hours", "seconds", functools.partial(times, factor="3600")),
    ("_gib", "_gb", gib_to_gb),
    ("_mib", "_gb", lambda mib: gib_to_gb(mib / 1024)),
    ("_mb", "_gb", lambda megabytes: megabytes / 1e3),
    ("_bytes", "_gb", lambda size: size / GB),
)
"""Units in which sources print, by the end of a value's name; the end that it has in a result; the
conversion.
"""


@functools.cache
def name_and_unit(name: str) -> tuple[str, Callable[[float], float] | None]:
    """Return the name that a value has in a result, and the conversion to that name's unit.

    A reader that calls a printed value `cumulative_milliseconds` gets `cumulative_seconds`.
    """
    for ending, unit, convert in UNITS:
        if name.endswith(ending):
            return name.removesuffix(ending) + unit, convert
    return name, None


def summary_values(printed: Mapping[str, float | None]) -> dict[str, float]:
    """Return the known values of a run, each by its name and in its unit of a result, as a summary
    has them.
    """
    values = {}
    for printed_name, value in printed.items():
        if value is None:
            continue
        name, convert = name_and_unit(printed_name)
        if convert:
            value = convert(value)
        values[name] = round_figure(value) or 0.0
    return values


@dataclasses.dataclass(frozen=True)
class LoggedValue:
    """A value that a log states.

    Attributes:
        value: None if the log states that there is none, as in `fp8 ... None`.
        line: line of the log, from 1.
        text: the statement as the log has it, without prefixes.
        weight: the heavier of two statements counts, the later one of equally heavy ones: an
            argument dump shows the values of the training itself, a launcher's echo the requested
            ones.
    """

    value: Any
    line: int
    text: str
    weight: int = 1


class LoggedValues(dict[str, LoggedValue]):
    """The values that a log states, by the name of the field."""

    def add(self, name: str, statement: LoggedValue) -> None:
        """Keep the heavier statement, or the later of equally heavy ones."""
        former = self.get(name)
        # A repeated statement keeps the line of the first one.
        if former is None or (
            statement.weight >= former.weight and statement.value != former.value
        ):
            self[name] = statement

    def absorb(self, later: LoggedValues) -> None:
        """Add the statements of a later part of the log."""
        for name, statement in later.items():
            self.add(name, statement)

    def value(self, name: str) -> Any:
        """Return the stated value, or None."""
        statement = self.get(name)
        if statement:
            return statement.value
        return None

    def count(self, name: str) -> int | None:
        """Return a stated number from 1 on; None for anything else."""
        value = self.value(name)
        if type(value) is int and 1 <= value <= LARGEST_COUNT:
            return value
        return None

    def count_statement(self, name: str) -> LoggedValue | None:
        """Return the statement of a number from 1 on; None for anything else."""
        if self.count(name) is None:
            return None
        return self[name]

    def number(self, name: str) -> float | None:
        """Return a stated number; None for anything else."""
        value = self.value(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and abs(value) <= LARGEST_VALUE:
            return float(value)
        return None

    def word(self, name: str) -> str | None:
        """Return a stated text; None for anything else."""
        value = self.value(name)
        if isinstance(value, str) and value:
            return value
        return None


def state(
    stated: LoggedValues, name: str, value: Any, text: str = "", line: int = 1, weight: int = 1
) -> None:
    """Add a source's statement on a field, if it has one."""
    if value is not None:
        quote = " ".join((text or f"{name}: {value}").split())[:300]
        stated.add(name, LoggedValue(value, line, quote, weight))


class Statement(NamedTuple):
    """A row of what the lines of a log may state.

    Attributes:
        pattern: with a group by the name of each field that it states.
        read: makes the value of a group's text; None of it for what states nothing.
        weight: as in LoggedValue.
        sign: text that each such line contains; to look for it costs little compared with a pattern
            that finds nothing.
    """

    pattern: re.Pattern[str]
    read: Callable[[str], Any] = count
    weight: int = 1
    sign: str = ""


def statements(*rows: tuple[str, Callable[[str], Any], int, str]) -> tuple[Statement, ...]:
    """Return rows of a sign, what reads the text of a group, a weight and a pattern, as
    statements.
    """
    return tuple(
        Statement(re.compile(pattern), read, weight, sign) for sign, read, weight, pattern in rows
    )


def read_statements(
    rows: Iterable[Statement], text: str, line: int, stated: LoggedValues, quote: str = ""
) -> None:
    """Add the statements of a line: the first occurrence of each row counts. It is quoted as
    `quote`, or as it is.
    """
    for row in rows:
        # Most lines have no sign at all, and this is asked for each of them.
        if row[3] not in text:
            continue
        pattern, read, weight, _ = row
        match = pattern.search(text)
        if match is None:
            continue
        for field, printed in match.groupdict().items():
            if printed is not None:
                state(stated, field, read(printed), quote or text, line, weight)
