"""Building blocks of result fields: numbers with bounds, groups of fields.

A field's description, the text in its Annotated[...], is for the JSON Schema and
docs/result-file.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

JsonObject = dict[str, Any]
"""An object of JSON, by the names of its members."""

FieldValues = dict[str, Any]
"""Values of fields, by name."""

Figures = dict[str, float | None]
"""Figures by name; None for an unknown one."""

# The upper bounds are far above anything that is counted or timed. Without them the figures of a
# hostile file overflow a float, or take more digits than Python prints.
LARGEST_COUNT = 2**53
SHORTEST_STEP, LONGEST_STEP = 1e-9, 1e9
LARGEST_VALUE = 1e300

COMPILE_TIME = "compile_time_seconds"
"""In native_metrics: what compiling took before the first step."""

Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_COUNT)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
StepTime = Annotated[float, msgspec.Meta(ge=SHORTEST_STEP, le=LONGEST_STEP)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Value = Annotated[float, msgspec.Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


AnyValue = TypeVar("AnyValue")
AnyFixed = TypeVar("AnyFixed", bound="Fixed")
AnySection = TypeVar("AnySection", bound="Section")


def known_values(values: Iterable[AnyValue | None]) -> list[AnyValue]:
    """Return the values that are known, in their order."""
    return [value for value in values if value is not None]


def known_items(values: Mapping[str, AnyValue | None]) -> dict[str, AnyValue]:
    """Return the known ones of values by name."""
    return {name: value for name, value in values.items() if value is not None}


class Fixed(msgspec.Struct, frozen=True):
    """A struct that never changes; but() makes another one."""

    def but(self: AnyFixed, **changes: Any) -> AnyFixed:
        """Return the same with other values of these fields."""
        return msgspec.structs.replace(self, **changes)


class Section(Fixed, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A group of fields. None means unknown; the reason is in the run's warnings."""

    def known(self) -> JsonObject:
        """Return the fields that are known, by name."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }

    def over(self: AnySection, other: AnySection) -> AnySection:
        """Return another group of this kind, overridden field by field by the values that this one
        states.
        """
        stated = {name: value for name, value in self.known().items() if value not in ((), {})}
        return other.but(**stated)
