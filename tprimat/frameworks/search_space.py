"""Search space of --tune: the settings of a framework that change its speed and not its work, as
far as they fit.

The global batch and the sequence length stay as they are, so that each setting trains the same
steps; gradient accumulation follows from the micro-batch. Precision is varied only if several are
requested: it changes what is learnt, not only how fast.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat.errors import UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops.recipe import shape_of
from tprimat.frameworks.request import (
    BUILT_IN_CHOICES,
    DEFAULT,
    TUNE,
    Device,
    Request,
    RequestedConfig,
)
from tprimat.settings.rows import DIVISION, SETTINGS

Setting = Mapping[str, str | int | bool]
"""Values of fields of RequestedConfig."""

_TUNED = {setting.request: setting for setting in SETTINGS if setting.tuned}
OPTIONS = {request: setting.option for request, setting in _TUNED.items()}
"""Settings that are varied, by the options of `benchmark` that set them."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A setting that is within the space, what is requested with it, and the request for a full
    training.
    """

    setting: Setting
    requested: RequestedConfig
    request: Request

    @property
    def name(self) -> str:
        """Short name, also the label of its results: micro4-recompute-full-eager."""
        return name_of(self.setting)


@dataclasses.dataclass(frozen=True)
class Space:
    """The settings to search, the one of an untuned training first.

    Attributes:
        knobs: the values of each setting that has several.
        excluded: names of settings that can't be trained, with the reason, such as an estimate of
            the memory.
    """

    framework: Framework
    device: Device
    candidates: tuple[Candidate, ...]
    knobs: Mapping[str, Sequence[str | int | bool]]
    excluded: Mapping[str, str]

    def request(self, candidate: Candidate, output_dir: Path, **changes: Any) -> Request:
        """Return the request for a training of a setting in another directory, with changes such as
        other steps.
        """
        return self.framework.resolve_config(
            candidate.request.model, candidate.requested.but(**changes), self.device, output_dir
        )[0]


def name_of(setting: Setting) -> str:
    """Return the short name of a setting."""
    parts = []
    for knob, value in setting.items():
        if isinstance(value, bool):
            value = "uncompiled" if value else "compiled"
        parts.append(_TUNED[knob].tuned.format(value))
    return "-".join(parts)


def space_of(
    framework: Framework,
    model: str,
    requested: RequestedConfig,
    precisions: Sequence[str],
    device: Device,
    output_dir: Path,
    micro_batches: Sequence[int] = (),
) -> Space:
    """Return the space of a model. Raises UsageError if not even the untuned configuration can be
    trained.

    A setting that was requested is not varied, except two or more precisions or micro-batches; if
    no micro-batch is given, all that divide the batch are tried.
    """
    default, _ = framework.resolve_config(model, requested, device, output_dir)
    knobs = _knobs(framework, requested, precisions, default)
    if micro_batches:
        knobs["micro_batch_size"] = tuple(micro_batches)
    knobs = {knob: values for knob, values in knobs.items() if len(values) > 1}
    work = {
        "global_batch_size": default.global_batch_size,
        "sequence_length": default.sequence_length,
    }
    origins = dict.fromkeys(work, DEFAULT) | dict.fromkeys((*knobs, "label"), TUNE)
    origins |= default.origins or {}
    fixed = requested.but(**work, origins=origins)
    candidates = []
    excluded = {}
    for values in itertools.product(*knobs.values()):
        setting = dict(zip(knobs, values, strict=True))
        asked = fixed.but(**setting, label=name_of(setting))
        try:
            request, _ = framework.resolve_config(model, asked, device, output_dir)
        except UsageError as error:
            excluded[name_of(setting)] = error.problem
            continue
        needed = memory_at_least(framework, request, requested, device)
        room = device.free_bytes
        if device.platform == "cpu" or room is None or needed <= room:
            candidates.append(Candidate(setting, asked, request))
        else:
            excluded[name_of(setting)] = (
                f"takes at least {needed / 1e9:.0f} GB of {room / 1e9:.0f} GB"
            )
    if default.finds_micro_batch:
        # The training chooses its micro-batch itself: a setting of its own.
        own = {knob: values[0] for knob, values in knobs.items() if knob != "micro_batch_size"}
        asked = fixed.but(label=f"auto-{name_of(own)}".rstrip("-"))
        request, _ = framework.resolve_config(model, asked, device, output_dir)
        candidates.insert(0, Candidate(own, asked, request))
    else:
        candidates.sort(
            key=lambda one: dataclasses.replace(one.request, label=default.label) != default
        )
    return Space(framework, device, tuple(candidates), knobs, excluded)


def memory_at_least(
    framework: Framework, request: Request, requested: RequestedConfig, device: Device
) -> float:
    """Return bytes that a training surely takes of one GPU: weights, gradients, states and
    activations that are kept.

    Each layer keeps the residual stream, and without recomputation queries, keys, values, the
    attention's output and the two halves of the gated feed-forward part, in the precision of the
    products. Everything else (norms, the logits, the allocator) comes on top, so that this excludes
    only what can't fit.
    """
    shape = shape_of(request)
    resolver = framework.resolver(request.model, requested, device)
    layers, hidden, width = (
        getattr(shape, name) or 0 for name in ("num_layers", "hidden_size", "ffn_hidden_size")
    )
    values = hidden
    if request.recomputation == "none" and not request.compiled:
        values = 4 * hidden + 2 * width
    if request.precision == "fp32":
        size = 4
    elif request.precision.startswith(("fp8", "mx", "nv")):
        size = 1
    else:
        size = 2
    divided = math.prod(getattr(request, name) for name in DIVISION)
    activations = (
        request.micro_batch_size * request.sequence_length * layers * values * size / divided
    )
    return float(activations + (resolver.bytes_needed(shape) if framework.embedded else 0.0))


def _knobs(
    framework: Framework, requested: RequestedConfig, precisions: Sequence[str], default: Request
) -> dict[str, tuple[str | int | bool, ...]]:
    """Return the values to try of each setting that the framework has and the user left open; the
    default's first.
    """
    knobs: dict[str, tuple[str | int | bool, ...]] = {}
    if len(precisions) > 1:
        knobs["precision"] = tuple(precisions)
    if framework.divides and default.num_gpus > 1:
        for name in DIVISION:
            if getattr(requested, name) is None:
                powers = (1 << power for power in range(default.num_gpus.bit_length()))
                knobs[name] = tuple(dict.fromkeys((getattr(default, name), *powers)))
    if requested.micro_batch_size is None:
        share = max(1, default.global_batch_size // default.data_parallel_size)
        sizes = (size for size in range(1, share + 1) if share % size == 0)
        knobs["micro_batch_size"] = tuple(dict.fromkeys((default.micro_batch_size, *sizes)))
    if framework.embedded:
        for name, values in BUILT_IN_CHOICES.items():
            if getattr(requested, name) is None:
                knobs[name] = values
    if default.compiled and requested.eager is None:
        knobs["eager"] = (False, True)
    return knobs
