"""The form of the golden files: compact JSON in which a case may refer to another, and what differs
between two.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

ABSENT = "(absent)"
SHARE_OF_DIFFERENCE, LOOK_BACK = 0.75, 60
"""A case is written as another and what differs where that takes less than this share; so many are
tried.
"""


def to_text(value: Any, indent: str = "") -> str:
    """Return JSON with sorted keys, and a line for whatever fits into one."""
    short = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(short) + len(indent) <= 118 or not value or not isinstance(value, (dict, list)):
        return short
    inner = indent + " "
    if isinstance(value, list):
        rows = [to_text(each, inner) for each in value]
        return "[\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}]"
    rows = [
        f"{json.dumps(name, ensure_ascii=False)}: {to_text(value[name], inner)}"
        for name in sorted(value)
    ]
    return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}}}"


def compressed(found: dict[str, Any]) -> dict[str, Any]:
    """Write a case that is much like another, of its kind or of its name, as that one's name and
    what differs.
    """
    result: dict[str, Any] = {}
    bases: list[tuple[str, str, dict[str, Any]]] = []
    for kind in sorted(found):
        result[kind] = {}
        for name in sorted(found[kind]):
            flat, best = _flat(found[kind][name]), found[kind][name]
            size = len(json.dumps(best)) * SHARE_OF_DIFFERENCE
            near = [base for base in bases if base[0] == kind][-LOOK_BACK:] + [
                base for base in bases if base[1] == name
            ]
            for base_kind, base, known in near:
                but = {
                    place: value
                    for place, value in flat.items()
                    if place not in known or known[place] != value
                }
                trial: dict[str, Any] = {"like": [base_kind, base], "but": but}
                if absent := sorted(set(known) - set(flat)):
                    trial["without"] = absent
                if len(json.dumps(trial)) < size:
                    best, size = trial, len(json.dumps(trial))
            if best is found[kind][name]:
                bases.append((kind, name, flat))
            result[kind][name] = best
    assert expanded(result) == found
    return result


def expanded(content: dict[str, Any]) -> dict[str, Any]:
    """Undo compressed()."""
    result: dict[str, Any] = {}
    for kind, each in content.items():
        result[kind] = {}
        for name, value in each.items():
            if isinstance(value, dict) and "like" in value:
                base_kind, base = value["like"]
                flat = {**_flat(content[base_kind][base]), **value["but"]}
                value = _nested(
                    {place: flat[place] for place in flat if place not in value.get("without", ())}
                )
            result[kind][name] = value
    return result


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    """Return the leaves by their paths, such as " > out > #3"."""
    if isinstance(value, (dict, list)) and value:
        pairs = (
            value.items()
            if isinstance(value, dict)
            else ((f"#{index}", each) for index, each in enumerate(value))
        )
        return {
            inner: leaf
            for name, each in pairs
            for inner, leaf in _flat(each, f"{place} > {name}").items()
        }
    return {place: value}


def _nested(flat: dict[str, Any]) -> Any:
    """Undo _flat()."""
    if set(flat) == {""}:
        return flat[""]
    parts: dict[str, dict[str, Any]] = {}
    for place, leaf in flat.items():
        name, more, rest = place.removeprefix(" > ").partition(" > ")
        parts.setdefault(name, {})[more + rest] = leaf
    built = {name: _nested(each) for name, each in parts.items()}
    if all(re.fullmatch(r"#\d+", name) for name in built):
        return [built[f"#{index}"] for index in range(len(built))]
    return built


def differences(before: Any, now: Any) -> list[str]:
    """Return the differences between two recordings: a text for each kind, with the places where it
    occurs.
    """
    places: dict[tuple[str, str], list[str]] = {}
    for place, old, new in _walk(before, now, ""):
        places.setdefault((old, new), []).append(place)
    found = []
    for (old, new), where in places.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        found.append(f"{where[0]}{more}\n  - {old}\n  + {new}")
    return found


def _walk(before: Any, now: Any, place: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            inner = f"{place} > {name}" if place else name
            if name in before and name in now:
                yield from _walk(before[name], now[name], inner)
            else:
                yield (
                    inner,
                    *(_line(each[name]) if name in each else ABSENT for each in (before, now)),
                )
    elif isinstance(before, list) and isinstance(now, list):
        # Whatever is the same in both goes, so that one line more doesn't shift all that follow.
        left, right = [_line(each) for each in before], [_line(each) for each in now]
        for tag, a, b, c, d in difflib.SequenceMatcher(
            None, left, right, autojunk=False
        ).get_opcodes():
            if tag == "replace" and b - a == d - c:
                for index in range(b - a):
                    yield from _walk(before[a + index], now[c + index], f"{place} > {a + index}")
            elif tag != "equal":
                inner = f"{place} > {a}"
                yield inner, *(" ".join(texts) or ABSENT for texts in (left[a:b], right[c:d]))
    elif isinstance(before, str) and isinstance(now, str) and before != now:
        yield place, *_parts(before.split(" "), now.split(" "))
    elif before != now or isinstance(before, bool) != isinstance(now, bool):
        yield place, _line(before), _line(now)


def _parts(before: list[str], now: list[str]) -> tuple[str, str]:
    """Return two texts without their long common beginnings and ends."""
    if min(len(before), len(now)) < 10:
        return _line(" ".join(before)), _line(" ".join(now))
    shorter = min(len(before), len(now))
    start = next((index for index in range(shorter) if before[index] != now[index]), shorter)
    end = next(
        (index for index in range(shorter - start) if before[-1 - index] != now[-1 - index]),
        shorter - start,
    )
    old, new = (f"… {' '.join(words[start : len(words) - end])} …" for words in (before, now))
    return old, new


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
