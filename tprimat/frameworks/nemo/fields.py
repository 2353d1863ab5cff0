"""`--set path=value`: sets any field of a NeMo recipe, and suggests paths for a wrong one.

A recipe is a tree of fiddle configurations: each holds a class and the arguments that it will be
made with. Knows fiddle only through that form.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from tprimat.errors import UsageError
from tprimat.settings.rows import by_key, names
from tprimat.text import suggestion

OWN_OPTIONS = {
    path: option for path, key in names("nemo").items() if (option := by_key(key).option)
}
"""Fields on which other choices depend: each has an option, which keeps them in step."""

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def assign(recipe: Any, setting: str) -> None:
    """Set one field of NeMo's recipe by path=value, such as
    trainer.strategy.sequence_parallel=true.

    The path's parts are fields, or places in a list. Raises UsageError for any other form.
    """
    path, sign, text = (part.strip() for part in setting.partition("="))
    if not sign or not path:
        raise _refusal(
            f"{setting}: write path=value, such as trainer.strategy.sequence_parallel=true"
        )
    if path in OWN_OPTIONS:
        raise _refusal(f"{path}: use {OWN_OPTIONS[path]}, which keeps the rest in step")
    *parents, last = path.split(".")
    owner = recipe
    for depth, part in enumerate(parents):
        _check(owner, part, parents[:depth], setting)
        owner = owner[int(part)] if isinstance(owner, (list, tuple)) else getattr(owner, part, None)
    _check(owner, last, parents, setting)
    if isinstance(owner, list):
        owner[int(last)] = parsed(text)
    else:
        setattr(owner, last, parsed(text))


def parsed(text: str) -> Any:
    """Return a value as Python has it: true, false, none, numbers, lists, torch.bfloat16; else the
    text itself.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith("torch."):
        import torch

        if isinstance(value := getattr(torch, text.removeprefix("torch."), None), torch.dtype):
            return value
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def fields(owner: Any) -> list[str]:
    """Return the names of the fields that a configuration can have; empty for anything else."""
    if isinstance(owner, (list, tuple)):
        return list(map(str, range(len(owner))))
    target = getattr(owner, "__fn_or_cls__", None)
    if target is None:
        return []
    names = []
    # A class that takes **kwargs hands them on to the one it derives from.
    for kind in inspect.getmro(target) if inspect.isclass(target) else (target,):
        try:
            parameters = inspect.signature(kind).parameters.values()
        except (TypeError, ValueError):
            continue
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                names.append(parameter.name)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(dict.fromkeys(names))


def _check(owner: Any, part: str, before: list[str], setting: str) -> None:
    stated = fields(owner)
    where = ".".join(before) or "the recipe"
    if not stated:
        raise _refusal(f"{setting}: {where} has no fields: set it as a whole, or leave it")
    if part not in stated:
        meant = suggestion(part, stated, f"it has {', '.join(stated[:8])}, …", most=3, cutoff=0.5)
        raise _refusal(f"{setting}: {where} has no field {part!r}: {meant}")


def _refusal(problem: str) -> UsageError:
    return UsageError(f"--set {problem}", heading="nemo-set")
