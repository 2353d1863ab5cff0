"""Fields of records by name, as the values for --json are made."""

from __future__ import annotations

import dataclasses

from tprimat.checks import finding_of
from tprimat.notes import Note
from tprimat.report.json_values import dumped, fields, findings_values


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


FIELDS = {"faster": 4.0, "slower": 2.0, "own": 2.0, "stated": 3.0}


def test_json_is_indented_by_two():
    assert dumped({"a": {"b": float("inf")}}) == '{\n  "a": {\n    "b": null\n  }\n}'


def test_a_finding_has_its_codes_beside_its_sentences():
    half = Note("half-counted")
    finding = finding_of("error", "claim", "ratio-differs", (half,), **FIELDS)
    (values,) = findings_values([finding])
    assert values == {
        "severity": "error",
        "rule": "claim",
        "text": "4 tokens/s/GPU is 2 times 2, not 3",
        "text_code": finding.note,
        "explanations": [
            "half of it is missing: tokens of half the batch, or of twice the time",
        ],
        "explanation_codes": (half,),
    }
