"""Read a table that lies beside this module."""

from __future__ import annotations

import csv
import importlib.resources
from typing import TypeVar

import msgspec

_Row = TypeVar("_Row")


def read(name: str, row: type[_Row]) -> tuple[_Row, ...]:
    """Return the rows of a CSV file whose columns are the fields of `row`; an empty cell leaves the default."""
    content = importlib.resources.files("tprimat.catalog").joinpath(name).read_text(encoding="utf-8")
    cells = ({column: text for column, text in line.items() if text} for line in csv.DictReader(content.splitlines()))
    return tuple(msgspec.convert(fields, row, strict=False) for fields in cells)
