"""Fields of records by name, as the values for --json are made."""

from __future__ import annotations

import dataclasses

from tprimat.report.json_values import fields


@dataclasses.dataclass
class Part:
    size: int
    bounds: tuple[int, int] | None = None


@dataclasses.dataclass
class Whole:
    name: str
    part: Part | None = None


def test_fields_in_their_order():
    assert list(fields(Whole("a", Part(3, (1, 2))), "part", "name").items()) == [
        ("part", Part(3, (1, 2))),
        ("name", "a"),
    ]


def test_parts_of_parts_and_what_is_unknown_on_the_way():
    paths = ("size=part.size", "high=part.bounds.1")
    assert fields(Whole("a", Part(0, (1, 2))), *paths) == {"size": 0, "high": 2}
    assert fields(Whole("a", Part(0)), *paths) == {"size": 0, "high": None}
    assert fields(Whole("a"), *paths) == {"size": None, "high": None}
