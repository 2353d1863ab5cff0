"""The data of a site: record.js for its pages; record.json with its schema, and record.csv, for
other programs.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tprimat import __version__
from tprimat.catalog import gpus as hardware
from tprimat.catalog import models
from tprimat.files import write_output
from tprimat.publish.record import COLUMNS, Change, Point, PointPair, Record
from tprimat.report.colors import colors_of_gpus
from tprimat.report.steps import table_as_csv
from tprimat.results.fields import JsonObject

FOLDER, NAME = "data", "record"
SCHEMA_VERSION = 1
DIGITS = 6
"""Significant digits of ratios."""

_IDENTITY = (*COLUMNS[: COLUMNS.index("clock")], "note", "source")
_ROUND = re.compile(r"mlcommons/training_results_(v\d+(?:\.\d+)*)")
UNKNOWN = "not stated"


def write(record: Record, tables: JsonObject, folder: Path) -> None:
    """Write the data of a site below its folder. `tables` is the object that values() makes of the
    record. Raises UsageError if a file can't be written.
    """
    encoded = msgspec.json.encode(tables)
    # The < is escaped, so that no text of a result can end the script.
    script = b"window.RECORD = " + encoded.replace(b"<", b"\\u003c") + b";\n"
    schema = msgspec.json.format(msgspec.json.encode(schema_of()), indent=2) + b"\n"
    files = {
        ".schema.json": schema,
        ".csv": csv_of(record),
        ".json": encoded + b"\n",
        ".js": script,
    }
    for ending, content in files.items():
        write_output(folder / FOLDER / f"{NAME}{ending}", content, "--output-dir")


def values(record: Record, made: str) -> JsonObject:
    """Return the object of record.json: points by columns, pairs and changes as rows, and what
    their keys mean.

    `made` is the day on which the site is made, YYYY-MM-DD. In the object, `newest` is the date of
    the newest point, and `mlperf_rounds` has the rounds of MLPerf in the record.
    """
    columns = {name: [_finite(getattr(point, name)) for point in record.points] for name in COLUMNS}
    columns["source_key"] = [source_key(point) for point in record.points]
    columns["id"] = _ids(record.points)
    rounds = {match[1] for match in map(_ROUND.fullmatch, columns["source_key"]) if match}
    ordered = sorted(rounds, key=lambda name: [int(part) for part in name[1:].split(".")])
    of_models = {key: models.title(key) if key else UNKNOWN for key in columns["model"]}
    return {
        "schema_version": SCHEMA_VERSION,
        "made": made,
        "newest": max(columns["date"], default=""),
        "mlperf_rounds": ordered,
        "tprimat": __version__,
        "gpus": _gpus(columns["gpu"]),
        "models": _titled("models", of_models),
        "sources": _titled("sources", {key: key for key in columns["source_key"]}),
        "points": columns,
        "pairs": [_rounded(pair) for pair in record.pairs],
        "changes": [_rounded(change) for change in record.changes],
    }


def source_key(point: Point) -> str:
    """Return the repository of a point's source; for the user's own results, the publisher."""
    if point.url:
        return "/".join(point.source.split("/")[:2])
    return point.publisher


def _ids(points: Iterable[Point]) -> list[str]:
    """Return an identifier for each point, made from its setup, note and source, which doesn't
    change when other points are added.
    """
    used: dict[str, int] = {}
    ids = []
    for point in points:
        name = f"{zlib.crc32(repr([getattr(point, field) for field in _IDENTITY]).encode()):08x}"
        used[name] = used.get(name, 0) + 1
        ids.append(name if used[name] == 1 else f"{name}-{used[name]}")
    return ids


def _gpus(keys: Iterable[str]) -> JsonObject:
    """Return each GPU with its title, vendor, color and page; GPUs in the catalog have its short
    names.
    """
    table = {gpu.key: gpu for gpu in hardware.gpus()}
    titles = {}
    vendors: dict[str, str | None] = {}
    for key in sorted({*keys}):
        titles[key] = key or UNKNOWN
        if key in table:
            titles[key], vendors[key] = table[key].short_name, table[key].vendor
        elif key.startswith("CPU "):
            vendors[key] = "CPU"
        else:
            vendors[key] = hardware.vendor(key)
    # In the catalog's order, so that the first variant of a GPU has the GPU's own tone.
    ordered = (*filter(titles.__contains__, table), *titles)
    colors = colors_of_gpus({key: (vendors[key], titles[key]) for key in ordered})
    gpus = _titled("gpus", titles)
    for key, gpu in gpus.items():
        light, dark = colors[key].tone
        gpu |= {"vendor": vendors[key] or "", "color": light, "dark": dark}
    return gpus


def _titled(folder: str, titles: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return each key with its title and the file of its page; the file's name is unique, and not
    that of the list of pages.
    """
    titled = {}
    used = {"index"}
    # In the order of a JavaScript object, in which keys like 910 come first, by their size.
    for key, title in sorted(titles.items(), key=lambda item: (_size(item[0]), item)):
        name = base = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")[:80] or "unnamed"
        number = 1
        while name in used:
            number += 1
            name = f"{base}-{number}"
        used.add(name)
        titled[key] = {"title": title, "page": f"{folder}/{name}.html"}
    return titled


def _size(key: str) -> float:
    """Return a key like 910 as a number; infinity for any other, which comes after all of them."""
    if re.fullmatch("0|[1-9][0-9]{0,8}", key):
        return int(key)
    return math.inf


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _rounded(row: PointPair | Change) -> list[Any]:
    """Return the fields of a row, its ratios rounded to DIGITS digits."""
    values = []
    for value in dataclasses.astuple(row):
        values.append(float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value)
    return values


def csv_of(record: Record) -> bytes:
    """Return the points as CSV with a header; unknown values are empty, and the rates of a point
    are separated by spaces.
    """
    rows = []
    for point in record.points:
        cells = []
        for name in COLUMNS:
            value = _finite(getattr(point, name))
            cells.append(" ".join(map(str, value)) if isinstance(value, tuple) else value)
        rows.append(cells)
    return table_as_csv(COLUMNS, rows)


def schema_of() -> JsonObject:
    """Return the JSON schema of record.json, from the types of the record."""
    # These types are only known at run time, so mypy must not check them.
    array, row, table = (typing.cast(Any, kind) for kind in (list, tuple, dict))
    hints = typing.get_type_hints(Point)
    columns = [(name, array[hints[name]]) for name in COLUMNS]
    pairs, changes = (
        array[row[tuple(typing.get_type_hints(kind).values())]] for kind in (PointPair, Change)
    )
    points = _struct("Points", [*columns, ("source_key", list[str]), ("id", list[str])])
    named = [("title", str), ("page", str)]
    about = _struct("About", named)
    gpu = _struct("Gpu", [*named, ("vendor", str), ("color", str), ("dark", str)])
    fields = [("schema_version", Literal[1]), ("made", str), ("newest", str)]
    fields += [("mlperf_rounds", array[str]), ("tprimat", str), ("gpus", table[str, gpu])]
    fields += [("models", table[str, about]), ("sources", table[str, about])]
    fields += [("pairs", pairs), ("changes", changes), ("points", points)]
    return msgspec.json.schema(_struct("Record", fields))


def _struct(name: str, fields: Sequence[tuple[str, Any]]) -> Any:
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True)
