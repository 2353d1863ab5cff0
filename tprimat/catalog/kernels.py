"""Which part of a step GPU work belongs to: by the host code that launched it, and by its name.

kernels.csv holds the patterns; the first that fits decides. Kernels of two vendors share no word in
their names, but the same PyTorch operators launch them: so operators come first and names second.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from typing import Literal

from tprimat.catalog.gpus import read_table
from tprimat.results.trace import COMMUNICATION, Phase

MatchedOn = Literal["scope", "python", "operator", "kernel", "module", "data", "waiting"]


@dataclasses.dataclass(frozen=True)
class _Rule:
    """A row of kernels.csv.

    Attributes:
        matched_on: `scope`: any operator or annotation around the launch; `python`: any Python
            function around it; `operator`: the operators around it, innermost first; `kernel`: the
            kernel's name; `module`: as `python`, if nothing else fits; `data`, `waiting`: what the
            host does while the GPU is idle.
        pattern: a regular expression; case doesn't matter.
    """

    matched_on: MatchedOn
    part: str
    pattern: str
    note: str = ""


_COLLECTIVES = (
    ("all_reduce", r"all_?reduce|cross_device_reduce"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_gather", r"all_?gather"),
    ("all_to_all", r"all_?to_?all"),
    ("broadcast", r"broadcast"),
    ("send_receive", r"send|recv"),
    ("reduce", r"(?<![a-z])_?reduce(?![a-z])"),
)
"""Kinds of collectives, by how kernels, operators and NCCL's own records spell them; the first that
fits.
"""

_COLLECTIVE_KERNEL = re.compile(
    r"nccl|rccl|multimem_|cross_device_reduce|(one|two)_shot_all_reduce|deep_ep::|nvshmem|mscclpp|userbuffers_",
    re.I,
)
_COLLECTIVE_OPERATOR = re.compile(
    r"^(nccl:|c10d::|_c10d_functional::|symm_mem::|record_param_comms$)"
)
_PYTHON = re.compile(r"^nn\.Module: |^<built-in |\(\d+\): ")
_CAST_KERNEL = re.compile(
    r"direct_copy.{0,2000}LoadWithCast|(bfloat16|float16|float8)\w{0,200}_copy_kernel"
)
_COPY = re.compile(r"^aten::(copy_|_to_copy)$")


def is_python(range_name: str) -> bool:
    """Return whether a range of the host is a Python function rather than an operator or an
    annotation.
    """
    return _PYTHON.search(range_name) is not None


@functools.lru_cache(maxsize=1 << 16)
def python_matters(function: str) -> bool:
    """Return whether the name of a Python function describes the work that it launches, or the data
    that it loads.
    """
    return any(_part(kind, function) for kind in ("python", "module", "data"))


@functools.lru_cache(maxsize=1 << 12)
def loads_data(range_name: str) -> bool:
    """Return whether a range of the host loads or prepares data."""
    return _part("data", range_name) is not None


def is_backward(range_name: str) -> bool:
    """Return whether a range of the host runs a node of the backward pass."""
    return range_name.startswith("autograd::engine::evaluate_function")


@functools.lru_cache(maxsize=1 << 12)
def steps_optimizer(range_name: str) -> bool:
    """Return whether a range of the host is a whole step of an optimizer.

    It contains the forward and backward pass if the optimizer calls them in a closure, as with
    Lightning.
    """
    return range_name.startswith("Optimizer.step#") or (
        is_python(range_name) and _part("python", range_name) == "optimizer"
    )


@functools.lru_cache(maxsize=1 << 10)
def waits_for_gpu(call: str) -> bool:
    """Return whether a runtime call returns when the GPU is done."""
    return _part("waiting", call) is not None


@functools.lru_cache(maxsize=1 << 16)
def part_of(
    kernel: str, ranges: tuple[str, ...] = (), types: tuple[str, ...] = (), collective: str = ""
) -> str:
    """Return the part of a step that a kernel belongs to.

    Args:
        kernel: its name.
        ranges: operators, annotations and Python functions around its launch, innermost first.
        types: those of the inputs of the innermost operator.
        collective: its kind by NCCL's record, if known.
    """
    functions = list(filter(is_python, ranges))
    operators = list(itertools.filterfalse(is_python, ranges))
    if _COLLECTIVE_KERNEL.search(kernel) or (
        operators and _COLLECTIVE_OPERATOR.search(operators[0])
    ):
        return COMMUNICATION + _collective(kernel, collective, *operators)
    scope = _first("scope", operators) or _first("python", functions)
    if scope is not None:
        return scope
    if operators and _COPY.search(operators[0]):
        # Types of destination and source; without them the kernel's name decides.
        if len(types) > 1 and all(types[:2]):
            is_cast = types[0] != types[1]
        else:
            is_cast = bool(_CAST_KERNEL.search(kernel))
        if is_cast:
            return "quantisation"
        return "elementwise"
    return (
        _first("operator", operators)
        or _part("kernel", kernel)
        or _first("module", functions)
        or "other"
    )


@functools.lru_cache(maxsize=1 << 14)
def phase_of(ranges: tuple[str, ...]) -> Phase | None:
    """Return whether work launched within these ranges is of the forward pass, the backward pass or
    the optimizer.
    """
    operators = list(itertools.filterfalse(is_python, ranges))
    if any(_part("scope", operator) == "optimizer" for operator in operators):
        return "optimizer"
    if any(_part("python", function) == "optimizer" for function in filter(is_python, ranges)):
        return "optimizer"
    if any(map(is_backward, operators)):
        return "backward"
    if operators:
        return "forward"
    return None


@functools.cache
def _rules(matched_on: MatchedOn) -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = read_table("kernels.csv", _Rule)
    return tuple(
        (re.compile(row.pattern, re.IGNORECASE), row.part)
        for row in rows
        if row.matched_on == matched_on
    )


LONGEST_NAME = 2_000
"""Characters of a name that are looked at."""


@functools.lru_cache(maxsize=1 << 16)
def _part(matched_on: MatchedOn, name: str) -> str | None:
    return next(
        (part for pattern, part in _rules(matched_on) if pattern.search(name[:LONGEST_NAME])), None
    )


def _first(matched_on: MatchedOn, names: list[str]) -> str | None:
    """Return the part of the first of these names that has one."""
    return next(filter(None, (_part(matched_on, name) for name in names)), None)


def _collective(*names: str) -> str:
    """Return the kind of a collective by the first name that states one."""
    kinds = (
        kind
        for name in names
        for kind, pattern in _COLLECTIVES
        if re.search(pattern, name, re.IGNORECASE)
    )
    return next(kinds, "unknown")
