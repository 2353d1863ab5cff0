"""All that a reader finds, as a text: every statement with its line and weight, every note, every
field of the Run.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import golden
import msgspec

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import InputFile, ParsedLog


def _known(value: Any) -> Any:
    """Leaves out of an object what is empty or unknown; in a list everything has its place."""
    if isinstance(value, dict):
        return {
            name: each for name, old in value.items() if (each := _known(old)) not in (None, {}, [])
        }
    return [_known(each) for each in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> str:
    """Returns a value of a statement; of an object, whose fields the Run has, the class alone."""
    return repr(value) if isinstance(value, (str, int, float)) else type(value).__name__


_OF_THE_READER = ("native_metrics", "breakdown", "framework_config")


def written(logs: list[ParsedLog], given: Mapping[str, Any] | None = None) -> str:
    """Writes down what was read, a line a field."""
    lines = []
    for parsed in logs:
        lines.append(f"== {parsed.steps} steps, resumed {parsed.resumed}, began {parsed.began}")
        lines += [f"note: {note}" for note in parsed.notes]
        # The lines and weights come first, the quoted words last.
        lines += [
            f"stated on {each.line}, weight {each.weight}: {name} = {_plain(each.value)} |"
            f" {each.text}"
            for name, each in parsed.stated.items()
        ]
        fields = msgspec.to_builtins(parsed.run(given))
        # Of names that a reader chooses an unknown value is one.
        for name, value in {
            **_known(fields),
            **{name: fields[name] for name in _OF_THE_READER},
        }.items():
            if (
                isinstance(value, list)
                and value
                and not isinstance(value[0], (int, float, type(None)))
            ):
                lines += [f"{name}: {_json(each)}" for each in value]
            elif isinstance(value, dict) and name not in ("source",):
                lines += [f"{name}.{key}: {_json(each)}" for key, each in value.items()]
            else:
                lines.append(f"{name}: {_json(value)}")
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def log(content: bytes, given: Mapping[str, Any] | None = None) -> str:
    """Writes down what a log of lines holds."""
    try:
        return written(read.parse_lines(text.lines([content]), "a.log"), given)
    except UnreadableError as error:
        return f"{error}\n"


NOISE = 70
"""Lines before a log, more than are read by all readers until one knows the log."""


def log_behind_others(content: bytes) -> str:
    """Writes down what a log of lines holds behind other lines, with its lines counted as if these
    weren't there.
    """
    noise = b"".join(b"noise %d\n" % number for number in range(NOISE))
    return "".join(f"{_moved(line)}\n" for line in log(noise + content).splitlines())


def _moved(line: str) -> str:
    if line.startswith("lines: "):
        return f"lines: {[number - NOISE for number in json.loads(line.removeprefix('lines: '))]}"
    # A statement that has no line of its own is on line 1.
    number = r"(\bon |\bon line |\bline |\"line\": |\(line |^ending\.line: )(\d+)"
    return re.sub(number, lambda each: f"{each[1]}{max(int(each[2]) - NOISE, 1)}", line)


def files(contents: Mapping[str, bytes], beside: Mapping[str, bytes] | None = None) -> str:
    """Writes down what files of one training hold, in the format of the first."""
    file_format = read.file_format_of(next(iter(contents.values()))[: read.HEAD])
    if file_format is None:
        return "no known format\n"
    inputs = [InputFile(name, io.BytesIO(content)) for name, content in contents.items()]
    try:
        found = written(file_format.read(inputs, beside or {}))
    except ValueError as error:
        found = f"ValueError: {error}\n"
    return f"format: {file_format.name}\n{found}"


def is_format(name: str, head: bytes) -> bool:
    """Returns whether a file that begins like this is in a format."""
    known = read.file_format_of(head)
    return known is not None and known.name == name


def check(name: str, found: str) -> None:
    """Holds what was found against tests/read/whole_found/<name>, by the rules of
    golden.check().
    """
    golden.check(name, found, Path(__file__).parent / "whole_found")
