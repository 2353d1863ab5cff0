"""Systems of a comparison: which runs each holds, its name, and the settings in which they differ.

A system is GPU, count, framework, stack, scale and label, in one setup: runs whose batch, precision
or software differ are systems of their own, so that they are never averaged.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence

from tprimat.checks.settings import framework, joined, read, text_of
from tprimat.results.run import Run, setup_key
from tprimat.settings.rows import LEDGER
from tprimat.text import plain

LONGEST_PART = 60
"""Characters of one part of a system's name; longer device names and labels are cut."""

TELLING_RECORDS = 20
"""Two runs may have fewer equal step times by chance, rounded as they are printed."""

_TRADE_WORDS = re.compile(r"\((?:R|TM|tm)\)|\bNVIDIA\b|\bAMD\b|\bInstinct\b|\bCPU\b|\bProcessor\b|@ [\d.]+ ?GHz")


@dataclasses.dataclass(frozen=True)
class System:
    """A system under test: hardware and software in one configuration.

    Attributes:
        gpu: the device as the driver names it; the processor on a CPU; None where unknown.
        count: devices that trained.
        name: short: only what tells the systems of this comparison apart. Unique within a model.
        parts: all that is known of what it is, as text.
    """

    gpu: str | None
    count: int | None
    framework: str | None
    name: str
    parts: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """All that is known of what it is."""
        return " · ".join(self.parts)


def device(run: Run) -> str | None:
    """What trained: the GPU's name, or the processor's where there is none."""
    name = run.gpu_info.device_name or (run.environment.cpu if run.platform == "cpu" else None)
    return plain(name, LONGEST_PART) or None if name else None


def short_device(name: str) -> str:
    """A device's name without its maker and trade marks: H100 80GB HBM3."""
    return " ".join(_TRADE_WORDS.sub(" ", name).split()) or name


def same_system(run: Run) -> tuple[object, ...]:
    """What two runs share when they are runs of one system."""
    return (device(run), setup_key(run))


def measurement(run: Run) -> tuple[object, ...]:
    """Return the identity of a measurement: two runs with the same one are copies, whatever else their files say.

    It includes the timestamp where the run has so few records that two runs may have the same by chance.
    """
    few = sum(time is not None for time in run.step_times) < TELLING_RECORDS
    times = run.step_times or run.timeline
    return times, hash(tuple(run.loss_values)), run.session, run.round, run.timestamp if few else None


def name_systems(models: Mapping[str | None, Sequence[Run]]) -> dict[str | None, list[System]]:
    """Names for the systems of a comparison, as short as tells those of each model apart.

    The same parts are shown for all models, so that a system is called the same everywhere. Where
    nothing that has a title tells two setups apart they have a number.

    Args:
        models: for each model one run of each of its systems.

    Returns:
        For each model its systems, in the same order.
    """
    runs = [run for group in models.values() for run in group]
    parts = _telling_parts(runs, [model for model, group in models.items() for _ in group])
    systems: dict[str | None, list[System]] = {}
    for model, group in models.items():
        systems[model] = []
        seen: collections.Counter[str] = collections.Counter()
        for run in group:
            name = _name(run, parts)
            seen[name] += 1
            systems[model].append(
                System(
                    gpu=device(run),
                    count=run.num_gpus,
                    framework=run.framework,
                    name=name if seen[name] == 1 else f"{name}, setup {seen[name]}",
                    parts=tuple(text for part in (*_IDENTITY, _PRECISION) if (text := _known_text(part, run))),
                )
            )
    return systems


def _name(run: Run, parts: Sequence[Part]) -> str:
    """Return what a run's system is called. A GPU's precision belongs to it: 8×B200 (FP4)."""
    if run.platform == "cpu":
        return ", ".join(text for part in parts if (text := _part_text(part, run))) or _device_text(run)
    told = [part for part in parts if part is not _PRECISION]
    name = ", ".join(text for part in told if (text := _part_text(part, run))) or _device_text(run)
    precision = run.training_config.precision
    if precision and (not told or _GPU in told or _PRECISION in parts):
        return f"{name} ({precision.upper()})"
    return f"{name} (precision unknown)" if _PRECISION in parts else name


def _work(run: Run) -> str | None:
    batch, length = run.training_config.global_batch_size, run.training_config.sequence_length
    if batch is None and length is None:
        return None
    return f"batch {batch or 'unknown'}×{length or 'unknown'}"


def _device_text(run: Run) -> str:
    name, count = device(run), run.num_gpus
    if name is None:
        kind = "CPU" if run.platform == "cpu" else "GPU"
        return f"unknown {kind}" if count is None else f"{count}× unknown {kind}"
    short = short_device(name)
    return short if count is None or (run.platform == "cpu" and count == 1) else f"{count}×{short}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part that a name may have: its title, and how it is read from a run."""

    title: str
    read: Callable[[Run], str | None]


_GPU = Part("GPU", _device_text)
_SCALE = Part("scale", lambda run: text_of(run.scale))
_LABEL = Part("label", lambda run: text_of(run.label))
_IDENTITY = (
    _GPU,
    _LABEL,
    Part("framework", framework),
    Part("stack", lambda run: text_of(run.gpu_info.software_stack)),
    _SCALE,
)

_PRECISION = Part(
    "precision", lambda run: text_of(run.training_config.precision or run.training_config.precision_detail)
)
_NAMES_BEYOND_IDENTITY = (
    _PRECISION,
    Part("batch", _work),
    Part("platform", lambda run: text_of(run.framework_config.get("submission_platform"))),
    *(
        Part(setting.title, functools.partial(read, setting))
        for setting in LEDGER
        if setting.named and setting.title != "precision"
    ),
    Part("versions", lambda run: text_of(joined(*(f"{k} {v}" for k, v in sorted(run.environment.versions.items()))))),
    Part("date", lambda run: text_of(run.timestamp[:10]) if run.timestamp else None),
)
_SELF_EXPLAINING = {
    "GPU",
    "label",
    "framework",
    "stack",
    "precision",
    "batch",
    "parallelism strategy",
    "platform",
    "versions",
    "date",
}
"""Parts of a name whose value says what it is; of the others the title stands before it."""


def _known_text(part: Part, run: Run) -> str | None:
    return None if part.read(run) is None else _part_text(part, run)


def _part_text(part: Part, run: Run) -> str | None:
    value = part.read(run)
    if value is None:
        return None if part.title == "label" else f"{part.title} unknown" if part not in _IDENTITY else None
    value = plain(value, LONGEST_PART)
    if part is _PRECISION and run.platform != "cpu":
        value = value.upper()
    return value if part.title in _SELF_EXPLAINING else f"{part.title} {value}"


def _telling_parts(runs: Sequence[Run], model_of: Sequence[str | None]) -> list[Part]:
    """The fewest parts, in order of how well a reader knows them, that tell the systems apart."""
    chosen: list[Part] = []

    def extend(keys: list[tuple[object, ...]], part: Part, *, wanted: bool = False) -> list[tuple[object, ...]]:
        """Choose a part that tells more systems apart."""
        extended = [(*key, _part_text(part, run)) for key, run in zip(keys, runs, strict=True)]
        if len(set(extended)) == len(set(keys)) and not wanted:
            return keys
        chosen.append(part)
        return extended

    # What a system is must be told over all models: one name is one machine everywhere.
    keys: list[tuple[object, ...]] = [() for _ in runs]
    for part in _IDENTITY:
        if part is _SCALE and any(run.scale is None for run in runs):
            # Logs don't state it, and what tells models apart is no name for a system.
            continue
        # A label was given to be seen, even where the GPU already tells the systems apart.
        keys = extend(keys, part, wanted=part is _LABEL and len({run.label for run in runs}) > 1)
    # How it was set up need only be told within a model.
    keys = [(model, *key) for model, key in zip(model_of, keys, strict=True)]
    # A system is rather called by what every system states than by "precision unknown".
    for part in sorted((*_NAMES_BEYOND_IDENTITY, _SCALE), key=lambda part: any(part.read(run) is None for run in runs)):
        if len(set(keys)) < len(runs):
            keys = extend(keys, part)
    return chosen
