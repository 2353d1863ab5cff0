"""A dataclass as options of a command line and back: how a training's program learns what to train."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tprimat.results.run import ModelConfig

Read = TypeVar("Read", bound="AsArguments")


class AsArguments:
    """Base of a dataclass whose fields are int, float, bool, str, Path, ModelConfig or None, or a tuple of str."""

    def to_arguments(self) -> list[str]:
        """Return the fields as options; from_arguments() reads them back."""
        options = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # a subclass is a dataclass
            value, name = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if value is None or value == field.default:
                continue
            for each in value if isinstance(value, tuple) else (value,):
                text = msgspec.json.encode(each.known()).decode() if isinstance(each, ModelConfig) else str(each)
                # One word each: a label may begin with a dash.
                options.append(f"{name}={text}")
        return options

    @classmethod
    def from_arguments(cls: type[Read], arguments: Sequence[str]) -> Read:
        """Read what to_arguments() wrote; end the program with status 2 on anything else."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            kind = str(field.type).removesuffix(" | None")
            settings: dict[str, Any] = {"type": _READERS.get(kind, str), "default": field.default}
            if field.default is dataclasses.MISSING:
                settings["required"] = True
            if kind.startswith("tuple"):
                settings |= {"action": "append", "default": []}
            parser.add_argument(f"--{field.name.replace('_', '-')}", **settings)
        values = vars(parser.parse_args(arguments))
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


_READERS = {
    "int": int,
    "float": float,
    "bool": "True".__eq__,
    "Path": Path,
    "ModelConfig": lambda text: msgspec.json.decode(text, type=ModelConfig),
}
