"""Options shared by the commands that train: parsing of values, output directory."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tprimat.cli.options._parser import Options
from tprimat.settings.rows import by_key
from tprimat.text import plain, suggestion


def names(
    known: Sequence[str],
    what: str,
    others: Sequence[str] = (),
    name_of: Callable[[str], str] = str.lower,
    advice: Callable[[str, Sequence[str], str], str] = suggestion,
) -> Callable[[str], tuple[str, ...]]:
    """Return a function that reads names separated by commas; "all" means all known ones. The error
    message also lists `others`.
    """

    def read(text: str) -> tuple[str, ...]:
        words = [word.strip() for word in text.split(",")]
        chosen = tuple(dict.fromkeys(map(name_of, words)))
        if "all" in others and chosen == ("all",):
            return tuple(known)
        for word in words:
            if name_of(word) not in known:
                meant = advice(word.lower(), known, f"choose from {', '.join([*known, *others])}")
                raise argparse.ArgumentTypeError(f"unknown {what} {word!r}; {meant}")
        return chosen

    return read


def at_least(least: int, most: int = 10**18) -> Callable[[str], int]:
    """Return a function that reads a whole number between two bounds."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        if value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most}, not {text}")
        return value

    return read


def seconds(text: str) -> float:
    """Read a number of seconds: 30, 30s or 0."""
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"invalid number of seconds {text!r}; use e.g. 30 or 0")
    return value


def duration(text: str) -> float:
    """Read 90, 90s, 10m, 1h30m or 1.5h as seconds."""
    parts = re.fullmatch(
        r"(?:([\d.]+)h)?(?:([\d.]+)m(?:in)?)?(?:([\d.]+)s?)?", text.strip().lower()
    )
    try:
        if parts:
            hours, minutes, rest = (float(part or 0) for part in parts.groups())
        else:
            hours = 0.0
            minutes = 0.0
            rest = 0.0
    except ValueError:
        hours = minutes = rest = 0.0
    total = hours * 3600 + minutes * 60 + rest
    if total <= 0:
        raise argparse.ArgumentTypeError(f"invalid duration {text!r}; use e.g. 90s, 10m, 1h30m")
    return total


def label(text: str) -> str:
    """Read a name for a setup."""
    name = plain(text)
    if not name:
        raise argparse.ArgumentTypeError("a label needs a letter or a digit")
    return name


def add_numbers(group: Options, *numbers: tuple[str, int, str]) -> None:
    """Add options that take whole numbers: (name, the least one, help) each."""
    for name, least, text in numbers:
        group.option(f"--{name} N", text, type=at_least(least))


def several(read: Callable[[str], int]) -> Callable[[str], tuple[int, ...]]:
    """Return a function that reads numbers separated by commas."""
    return lambda text: tuple(dict.fromkeys(map(read, text.split(","))))


def one_or_several(read: Callable[[str], int]) -> Callable[[str], int | tuple[int, ...]]:
    """Return a function that reads a number, or several separated by commas, which are a sweep."""

    def read_all(text: str) -> int | tuple[int, ...]:
        numbers = several(read)(text)
        if len(numbers) == 1:
            return numbers[0]
        return numbers

    return read_all


def add_setting(group: Options, key: str, *filled: object, **settings: Any) -> None:
    """Add the option of a setting, as stated in its row; `filled` completes its help text. Its
    value is a whole number by default.
    """
    row = by_key(key)
    if row.choices:
        settings["choices"] = row.choices
    elif " " in row.flag and not {"choices", "type", "action"} & settings.keys():
        settings["type"] = at_least(row.least)
    group.option(row.flag, row.help.format(*filled), dest=row.request, **settings)


def add_sizes(group: Options, *, several_micro_batches: bool = False) -> None:
    """Add the sizes of a training of a language model, and its seed."""
    row = by_key("micro_batch_size")
    if several_micro_batches:
        group.option(
            row.flag,
            f"{row.help}, or a list (1,2); the global batch follows",
            type=several(at_least(1)),
        )
    else:
        add_setting(group, row.key)
    for key in ("global_batch_size", "sequence_length", "seed"):
        add_setting(group, key)


def add_gpus(group: Options, *, sweeps: bool = False) -> None:
    """Add --gpus."""
    row = by_key("num_gpus")
    text = f"{row.help}; several values make a sweep"
    read = one_or_several(at_least(1))
    group.option(row.flag, text if sweeps else row.help, type=read if sweeps else at_least(1))


def add_output_dir(group: Options, default: str) -> None:
    """Add --output-dir."""
    group.option(
        "--output-dir DIR",
        f"write results and logs/ to DIR (default: {default})",
        type=Path,
        default=Path(default),
    )


def add_bundle(group: Options, text: str) -> None:
    """Add --bundle."""
    group.option("--bundle FILE", text, type=Path)
    # Of 0.3; it is the default.
    group.option("--anonymise", argparse.SUPPRESS)


def add_telemetry(group: Options) -> None:
    """Add --telemetry."""
    group.option(
        "--telemetry on|off",
        "record power, clocks and other programs every second: on, off (default: on)",
        choices=("on", "off"),
        default="on",
    )
