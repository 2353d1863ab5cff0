"""Values of the settings: the functions that rows of tprimat.settings refer to by name."""

from __future__ import annotations

import fnmatch
import functools
import math
import re
import sys
from collections.abc import Callable, Sequence

import msgspec

from tprimat import units
from tprimat.analysis import flops
from tprimat.catalog import gpus
from tprimat.notes import Note
from tprimat.results.run import FROM_DESCRIPTION, ModelConfig, Run
from tprimat.settings import Setting, value_of
from tprimat.settings.rows import HARMLESS, LEDGER, SHAPE, fields_of, parts_of
from tprimat.text import plain

PADDING = 1024
"""Vocabularies whose sizes differ by less are equal: Megatron pads them."""

FLOPS_TOLERANCE = 0.01
"""Relative difference of the FLOPs per token of two shapes up to which they are equal: one shape
may state less than the other.
"""

CAP_TOLERANCE = 0.01
"""Share by which a power cap may be below the GPU's rated power and still count as uncapped:
drivers report it with decimals.
"""

_RECIPES = (
    {"e4m3", "hybrid"},
    {"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8", "mxfp4", "nvfp4"},
)
"""Words in the description of a precision below 16 bits that mean the same in every framework: its
format, and its scaling.
"""

_WORD = re.compile(r"[a-z0-9]+")


def own_value(setting: Setting, run: Run) -> str | None:
    """Return a run's value of a setting as text, without those of its parts; None if unknown."""
    if setting.value:
        return VALUES[setting.value](run)
    return text_of(setting.of(run))


def read(setting: Setting, run: Run) -> str | None:
    """Return a run's value of a setting as text, with its parts or its unit; None if unknown."""
    text = own_value(setting, run)
    if parts := parts_of(setting.title):
        values = ((part, read(part, run)) for part in parts if part.label)
        # A part that a shape doesn't have, with the value 0, is omitted.
        return joined(
            text, *(part.label.format(value) for part, value in values if value not in (None, "0"))
        )
    if text:
        return joined(text, setting.unit, by=" ")
    return None


def texts(setting: Setting, runs: Sequence[Run]) -> tuple[str | None, ...]:
    """Return the values of several runs. If one run states the setting, an unknown value becomes
    what the setting means if it isn't stated (`null`).
    """
    return _stated(setting, tuple(read(setting, run) for run in runs))


def _stated(setting: Setting, found: tuple[str | None, ...]) -> tuple[str | None, ...]:
    if setting.null and any(found):
        return tuple(text or setting.null for text in found)
    return found


def rows_of(runs: Sequence[Run]) -> list[tuple[Setting, tuple[str | None, ...]]]:
    """Return the settings of runs with their values, those of frameworks last."""
    columns = [_ledger(_Same(run)) for run in runs]
    rows = []
    for setting, values in zip(LEDGER, zip(*columns, strict=True), strict=True):
        rows.append((setting, _stated(setting, values)))
    for setting in of_frameworks(runs):
        rows.append((setting, texts(setting, runs)))
    return rows


def of_frameworks(runs: Sequence[Run]) -> list[Setting]:
    """Return a setting for each key of framework_config that has no row, if the runs' values of it
    differ.

    A name of one framework means nothing in another, so a key that only some runs state counts only
    if all runs are of one framework.
    """
    keys = sorted({key for run in runs for key in run.framework_config} - _READ)
    more = []
    for key in keys:
        field = f"framework_config.{key}"
        if any(fnmatch.fnmatchcase(field, name) for name in _PATTERNS):
            continue
        values = []
        for run in runs:
            if key in run.framework_config:
                values.append(run.framework_config[key])
        is_missing = len(values) < len(runs) and len({framework(run) for run in runs}) == 1
        if is_missing or len(set(map(text_of, values))) > 1:
            more.append(Setting(key, field, role="explains", named=False, optional=True))
    return more


class _Same:
    """A run that is equal only to itself, as the key of a cache."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __hash__(self) -> int:
        return object.__hash__(self.run)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.run is other.run


@functools.lru_cache(maxsize=2)
def _ledger(same: _Same) -> tuple[str | None, ...]:
    """Return a run's values of all settings, cached since a baseline is compared with many
    systems.
    """
    found = (read(setting, same.run) for setting in LEDGER)
    return tuple(None if text is None else sys.intern(text) for text in found)


def agree(setting: Setting, first: Run, second: Run) -> bool:
    """Return whether two runs have the same value; settings with their own rule (`same`) may also
    agree if a value is unknown.
    """
    if setting.same:
        return SAMES[setting.same](setting, first, second)
    values = texts(setting, (first, second))
    return values[0] == values[1]


def applies(setting: Setting, first: Run, second: Run) -> bool:
    """Return whether a difference in this setting can explain a difference between two runs."""
    if setting.within == "device":
        names = first.gpu_info.device_name, second.gpu_info.device_name
        return None not in names and names[0] == names[1]
    return setting.within == "any" or framework(first) == framework(second)


def text_of(value: object) -> str | None:
    """Return a value as text, to be compared and shown; None for None or an empty text."""
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:g}"
    return plain(value, 400) or None


def joined(*parts: str | None, by: str = ", ") -> str | None:
    """Return the known parts, joined to one text; None if none is known."""
    return by.join(part for part in parts if part) or None


def framework(run: Run) -> str | None:
    """Return a run's framework, with its backend if that is stated; None if unknown."""
    backend = run.framework_config.get("backend")
    return text_of(f"{run.framework} ({backend})" if run.framework and backend else run.framework)


OTHER_MODEL = 1.5
"""Ratio of parameter counts above which two models of one name are different; below it, one source
may have omitted the embeddings.
"""


def shape_conflict(one: ModelConfig, other: ModelConfig) -> Note | None:
    """Return a note on the first known difference of two shapes; None if there is none.

    A window that only one of them states is no difference, since few sources state it.
    """
    has_windows = bool(one.sliding_window and other.sliding_window)
    for name in SHAPE:
        first = getattr(one, name)
        second = getattr(other, name)
        if name == "full_attention_layers":
            first, second = (first or 0, second or 0) if has_windows else (None, None)
        if first is None or second is None:
            continue
        # Some sources count the token itself as part of its window, and some don't.
        tolerance = {"vocab_size": PADDING, "sliding_window": 2}.get(name, 1)
        if first != second if isinstance(first, str) else abs(first - second) >= tolerance:
            title = name.replace("_", " ")
            return Note("shape-conflict", {"title": title, "first": first, "second": second})
    counts = sorted(each for each in (one.num_parameters, other.num_parameters) if each)
    if len(counts) == 2 and counts[1] > OTHER_MODEL * counts[0]:
        fields = {"first": one.num_parameters, "second": other.num_parameters}
        return Note("parameter-conflict", fields)
    return None


def same_known_shape(one: ModelConfig, other: ModelConfig) -> bool:
    """Return whether both state the main sizes of their shapes, and these don't differ."""
    are_known = all(
        getattr(one, name) is not None and getattr(other, name) is not None for name in SHAPE[:5]
    )
    return are_known and shape_conflict(one, other) is None


def _precision(run: Run) -> str | None:
    config = run.training_config
    if config.precision and config.precision_detail and config.precision != config.precision_detail:
        return plain(f"{config.precision} ({config.precision_detail})", 80)
    return text_of(config.precision or config.precision_detail)


def _same_precision(_: Setting, first: Run, second: Run) -> bool:
    """Return whether two precisions are equal; so must be their details in one framework, or the
    recipes in these in two frameworks.
    """
    one = first.training_config
    other = second.training_config
    if one.precision is None or other.precision is None:
        return None in (_precision(first), _precision(second)) or _precision(first) == _precision(
            second
        )
    if one.precision != other.precision:
        return False
    details = one.precision_detail, other.precision_detail
    if None in details or any(detail.startswith(FROM_DESCRIPTION) for detail in details if detail):
        return True
    if framework(first) == framework(second):
        return details[0] == details[1]
    # All other words are specific to a framework.
    words = [set(_WORD.findall((detail or "").lower())) for detail in details]
    stated = [(words[0] & kind, words[1] & kind) for kind in _RECIPES]
    return all(not a or not b or a == b for a, b in stated)


def _layers(run: Run) -> str | None:
    layers = run.model_config.num_layers
    encoders = run.model_config.num_encoder_layers
    own = None
    if layers:
        own = f"{layers} {'decoder ' if encoders else ''}layers"
    return joined(f"{encoders} encoder layers" if encoders else None, own)


def _head_size(run: Run) -> str | None:
    """Return the size of a head, unless it is the hidden size divided by the number of heads."""
    shape = run.model_config
    if shape.hidden_size and shape.num_attention_heads:
        share = shape.hidden_size // shape.num_attention_heads
    else:
        share = None
    if shape.head_dim != share:
        return text_of(shape.head_dim)
    return None


def _same_shape(_: Setting, first: Run, second: Run) -> bool:
    shapes = [flops.model_shape(run)[0] for run in (first, second)]
    return shapes[0] is None or shapes[1] is None or shape_conflict(shapes[0], shapes[1]) is None


def _flops_per_token(run: Run) -> str | None:
    shape = flops.model_shape(run)[0]
    length = run.training_config.sequence_length
    if shape is not None and length is not None:
        count = flops.flops_per_token(shape, length)
    else:
        count = None
    if count is None:
        return None
    return f"{count / 1e9:.3g} GFLOP"


def _same_flops(_: Setting, first: Run, second: Run) -> bool:
    """Return whether a token costs the same FLOPs, apart from what has its own row or is rarely
    stated.

    These are the sequence length, trained parameters, padding of the vocabulary, and windows or
    query groups that only one of the shapes states.
    """
    one, other = (flops.model_shape(run)[0] for run in (first, second))
    length = first.training_config.sequence_length
    if one is None or other is None or length is None:
        return True
    shared = {"trainable_parameters": None, "vocab_size": one.vocab_size or other.vocab_size}
    if not (one.sliding_window and other.sliding_window):
        shared["sliding_window"] = None
    if one.num_query_groups is None or other.num_query_groups is None:
        shared["num_query_groups"] = None
    counts = []
    for each in (one, other):
        counts.append(flops.flops_per_token(msgspec.structs.replace(each, **shared), length))
    return (
        counts[0] is None
        or counts[1] is None
        or math.isclose(counts[0], counts[1], rel_tol=FLOPS_TOLERANCE)
    )


def _trainable(run: Run) -> str | None:
    """Return how many parameters are trained; None if all are, or if it is unknown.

    The number of all parameters is the stated one, else the number of those in matrix products.
    """
    trained = run.model_config.trainable_parameters
    every = run.model_config.num_parameters
    shape, _ = flops.model_shape(run)
    if every is None and shape is not None:
        products = flops.flops_per_token(
            msgspec.structs.replace(shape, trainable_parameters=None), 0
        )
        every = None if products is None else round(products / 6)
    if trained is None or (every is not None and trained >= every):
        return None
    return units.count(trained)


def _same_fields(setting: Setting, first: Run, second: Run) -> bool:
    """Return whether the fields that both runs state are equal, apart from spelling."""
    for field in fields_of(setting):
        one = value_of(first, field)
        other = value_of(second, field)
        if isinstance(one, float) and isinstance(other, float):
            if not math.isclose(one, other, rel_tol=1e-6):
                return False
        elif one is not None and other is not None and _letters(one) != _letters(other):
            return False
    return True


def _letters(value: object) -> str:
    return "".join(letter for letter in str(value).casefold() if letter.isalnum())


def _attention(run: Run) -> str | None:
    # Our own training loops state it only if it isn't their default, sdpa. That a run is of these
    # loops shows in chunked_cross_entropy, which they always state on a GPU.
    is_default = "chunked_cross_entropy" in run.framework_config
    return text_of(run.framework_config.get("attention") or ("sdpa" if is_default else None))


def _compiler(run: Run) -> str | None:
    is_compiled = run.framework_config.get("torch_compile")
    if is_compiled is None:
        return None
    if is_compiled:
        return "torch.compile"
    return "eager"


def _turbo(run: Run) -> str | None:
    is_on = run.framework_config.get("enable_primus_turbo")
    prefix = "use_turbo_"
    if not is_on:
        if is_on is None:
            return None
        return "off"
    kernels = []
    for name, used in sorted(run.framework_config.items()):
        if name.startswith(prefix) and used:
            kernels.append(name.removeprefix(prefix))
    return text_of(", ".join(kernels) or "without kernels")


def _power_cap(run: Run) -> str | None:
    cap = run.energy_metrics.get("power_cap_watts")
    if cap is None:
        return None
    return f"{cap:.0f} W"


def _same_power_cap(_: Setting, first: Run, second: Run) -> bool:
    """Return whether the power caps are equal, or neither is below its GPU's rated power."""
    one = _power_cap(first)
    other = _power_cap(second)
    return one == other or (_is_uncapped(first) and _is_uncapped(second))


def _is_uncapped(run: Run) -> bool:
    cap = run.energy_metrics.get("power_cap_watts")
    gpu = gpus.match(run.gpu_info).gpu
    return bool(cap and gpu and gpu.tdp_w and cap >= gpu.tdp_w * (1 - CAP_TOLERANCE))


def _heads(run: Run) -> str | None:
    shape = run.model_config
    return joined(text_of(shape.num_attention_heads), text_of(shape.num_query_groups), by="/")


def _not_gated(run: Run) -> str | None:
    if run.model_config.gated_ffn is False:
        return "not gated"
    return None


def _digest(run: Run) -> str | None:
    return plain(run.data.digest)[:12] if run.data.digest else None


def _cpu_threads(run: Run) -> str | None:
    if run.platform == "cpu":
        return text_of(run.environment.cpu_threads)
    return None


def _numa_balancing(run: Run) -> str | None:
    return {None: None, True: "on", False: "off"}[run.environment.numa_balancing]


def _host_cpu(run: Run) -> str | None:
    if run.platform == "cpu":
        return None
    return text_of(run.environment.cpu)


def _environment_settings(run: Run) -> str | None:
    return text_of(", ".join(map("=".join, sorted(run.environment.settings.items()))))


VALUES: dict[str, Callable[[Run], str | None]] = {
    "framework": framework,
    "software_stack": lambda run: joined(
        text_of(run.gpu_info.software_stack), text_of(run.gpu_info.software_version), by=" "
    ),
    "num_gpus": lambda run: text_of(run.num_gpus),
    "precision": _precision,
    "attention": _attention,
    "compiler": _compiler,
    "turbo": _turbo,
    "trainable_parameters": _trainable,
    "layers": _layers,
    "heads": _heads,
    "head_size": _head_size,
    "not_gated": _not_gated,
    "flops_per_token": _flops_per_token,
    "digest": _digest,
    "power_cap": _power_cap,
    "cpu_threads": _cpu_threads,
    "numa_balancing": _numa_balancing,
    "host_cpu": _host_cpu,
    "environment_settings": _environment_settings,
}
"""Functions that compute the value of a setting, by the name in its row."""

SAMES: dict[str, Callable[[Setting, Run, Run], bool]] = {
    "same_precision": _same_precision,
    "same_shape": _same_shape,
    "same_flops": _same_flops,
    "same_fields": _same_fields,
    "same_power_cap": _same_power_cap,
}
"""Functions that decide whether two runs agree in a setting, by the name in its row."""

_FIELDS = {*HARMLESS, *(field for setting in LEDGER for field in fields_of(setting))}
_READ = {
    field.removeprefix("framework_config.")
    for field in _FIELDS
    if field.startswith("framework_config.")
}
_PATTERNS = tuple(field for field in _FIELDS if field.endswith("*"))
