"""Systems of a comparison: which runs each has, its name, and the settings in which they differ.

A system is GPU, count, framework, stack, scale and label, in one setup on one kind of machine: runs
whose batch, precision, software or power cap differ are systems of their own, so that they are
never averaged.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tprimat.catalog import gpus
from tprimat.checks.settings import agree, framework, of_frameworks, own_value, read, text_of
from tprimat.results.arguments import variant
from tprimat.results.run import FROM_DESCRIPTION, GpuInfo, Run, setup_key
from tprimat.settings import Setting
from tprimat.settings.rows import LEDGER, parts_of
from tprimat.text import join_names, plain

FiledRun = tuple[Run, str]
"""A run, and the name of its file."""

LONGEST_PART = 120
"""Most characters of one part of a system's name; longer device names and labels are cut."""

TELLING_RECORDS = 20
"""Number of different step times that identify a run. Fewer may be equal in two runs by chance,
since logs round them.
"""

TELLING = None
"""The last item of the identity of a measurement, if no other measurement has the same identity by
chance.
"""

LEAST_DIFFERENT = 3
"""Number of different step times below which they identify no run (all may be 1 s), unless the
losses do.
"""

_TRADE_WORDS = re.compile(
    r"\((?:R|TM|tm)\)|\bNVIDIA\b|\bAMD\b|\bInstinct\b|\bCPU\b|\bProcessor\b|@ [\d.]+ ?GHz"
)
_SOFTWARE_WORDS = re.compile(r"\b(?:NVIDIA|Framework|Release)\b ?")

_MACHINE = tuple(
    row
    for row in LEDGER
    if row.optional and row.field.rpartition(".")[0] in ("environment", "energy_metrics")
)
"""Settings of a machine that can explain a result, except environment variables, which have a
caveat in caveats.py.
"""

_VERSIONS = (r"\d+\.\d+", r"\d[^+\s]*", r"\d.*")
"""Patterns for the part of a version that a name contains, the shortest first: 2.6, 2.6.0a0,
2.6.0a0+gitfc899bf.
"""


@dataclasses.dataclass(frozen=True)
class System:
    """A system under test: hardware and software in one configuration.

    Attributes:
        gpu: the device as the driver names it; the name of the CPU if that trained; None if
            unknown.
        count: number of devices that trained; None if unknown.
        name: a short name with only what distinguishes it from the other systems of its model;
            unique within a model.
        parts: texts of what is known of its identity: GPU (by its short name), label, framework,
            stack, scale and precision.
    """

    gpu: str | None
    count: int | None
    framework: str | None
    name: str
    parts: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """All known parts, with the GPU's name in full."""
        name = self.gpu and _counted(self.gpu, self.count, short_device)
        return " · ".join((name, *self.parts[1:]) if name else self.parts)


def device(run: Run) -> str | None:
    """Return the name of the device that trained: the GPU's, or the CPU's on the platform cpu; None
    if unknown.
    """
    name = run.gpu_info.device_name or (run.environment.cpu if run.platform == "cpu" else None)
    if name:
        return plain(name, LONGEST_PART) or None
    return None


def short_device(name: str) -> str:
    """Return a device's name without its maker and trademarks: H100 80GB HBM3."""
    return " ".join(_TRADE_WORDS.sub(" ", name).split()) or name


def device_name(name: str) -> str:
    """Return the shortest name of a device: a GPU's short name in the catalog, such as H100; the
    name without its maker if the catalog lacks it.
    """
    gpu = gpus.match(GpuInfo(device_name=name)).gpu
    if gpu:
        return gpu.short_name
    return short_device(name)


def same_system(run: Run) -> tuple[object, ...]:
    """Return the key that is equal for all runs of one system."""
    return (device(run), setup_key(run), *sorted(variant(run).items()))


def parted(entries: Sequence[FiledRun]) -> list[list[FiledRun]]:
    """Split the runs of one setup, each with its file, by the settings of their machines that can
    explain a result.

    If runs differ in a setting, those that don't state it become a separate part.
    """
    keys: list[tuple[str | None, ...]] = [()] * len(entries)
    for row in _MACHINE:
        values = [own_value(row, run) for run, _ in entries]
        stated = {}
        for value, (run, _) in zip(values, entries, strict=True):
            if value is not None:
                stated[value] = run
        if not all(agree(row, *pair) for pair in itertools.pairwise(stated.values())):
            keys = [(*key, value) for key, value in zip(keys, values, strict=True)]
    parts: dict[tuple[str | None, ...], list[FiledRun]] = {}
    for key, entry in zip(keys, entries, strict=True):
        parts.setdefault(key, []).append(entry)
    return list(parts.values())


def known_of_machine(run: Run) -> int:
    """Return how many of the machine's settings, by which parted() splits runs, a run states."""
    return sum(own_value(row, run) is not None for row in _MACHINE)


def measurement(run: Run) -> tuple[object, ...]:
    """Return the identity of a measurement: two runs with the same one are copies, whatever else
    their files say.

    The step times until more than TELLING_RECORDS of them differ identify a run, even if its log
    was read before it was complete: the identity is their hash and TELLING. Fewer may be equal by
    chance, since logs round them: then the identity includes losses, session, round and, if there
    are few records or all are alike, the timestamp.
    """
    different: set[float | None] = {None}
    for place, time in enumerate(run.step_times, 1):
        different.add(time)
        if len(different) > TELLING_RECORDS:
            return hash(tuple(run.step_times[:place])), TELLING
    count = sum(time is not None for time in run.step_times)
    are_alike = len(different - {None}) < LEAST_DIFFERENT and not any(run.loss_values)
    moment = TELLING
    if count < TELLING_RECORDS or are_alike:
        moment = run.timestamp or ""
    times = hash(tuple(run.step_times)) if count else run.timeline
    return times, hash(tuple(run.loss_values)), run.session, run.round, moment


def occasion(run: Run) -> tuple[object, ...] | None:
    """Return what identifies a run whatever its step times: start, timeline and losses; None if
    start or timeline is unknown.
    """
    own = run.timestamp, run.timeline, hash(tuple(run.loss_values)), run.session, run.round
    if all(own[:2]):
        return own
    return None


def are_disjoint(parts: Sequence[Collection[object]]) -> bool:
    """Return whether no item is in two of several collections; each must have no duplicates."""
    return sum(map(len, parts)) == len(set().union(*parts))


def called(groups: Sequence[Sequence[tuple[str, int]]]) -> list[str]:
    """Return names of groups of runs whose settings don't differ, from the file of each run and its
    number in that file.

    A name is the directory or file of a group, such as `old` and `new`; if all runs are in one
    file, it has their numbers.
    """
    files = [list(dict.fromkeys(file for file, _ in group)) for group in groups]
    folders = []
    for paths in files:
        folders.append(list(dict.fromkeys(path.rpartition("/")[0] for path in paths)))
    runs = []
    for group in groups:
        runs.append([f"run {number} of {file}" for file, number in group])
    if len(set(itertools.chain(*files))) == 1:
        runs = [[_numbered([number for _, number in group])] for group in groups]
    parts = runs
    for names in (files, folders):
        if are_disjoint(names) and [""] not in names:
            parts = names
    return [part[0] if len(part) == 1 else f"group of {join_names(part, 2)}" for part in parts]


def _numbered(runs: Sequence[int]) -> str:
    """Return increasing numbers of runs as a name: run 2, group of runs 1–3, group of runs 1, 3."""
    if len(runs) == 1:
        return f"run {runs[0]}"
    if runs[-1] - runs[0] == len(runs) - 1:
        return f"group of runs {runs[0]}–{runs[-1]}"
    return f"group of runs {', '.join(map(str, runs))}"


def name_systems(models: Mapping[str | None, Sequence[Run]]) -> dict[str | None, list[System]]:
    """Return the systems of each model, with the shortest names that distinguish them. `models` has
    one run of each system.

    The GPU is in all names if it differs anywhere, and so is the label. A name has other parts only
    if it would be that of another system of its model without them; but if a setting that can
    explain a result distinguishes systems, all such settings that differ are in their names.
    Configurations that no part distinguishes are numbered.
    """
    runs = [run for group in models.values() for run in group]
    always = []
    for part in (_GPU, _LABEL):
        if len({_part_text(part, run) for run in runs}) > 1:
            always.append(part)
    return {model: _systems(group, always) for model, group in models.items()}


def _systems(runs: Sequence[Run], always: Sequence[Part]) -> list[System]:
    seen: collections.Counter[str] = collections.Counter()
    systems = []
    names = list(map(_name, runs, _telling_parts(runs, always)))
    taken = set(names)
    for run, name in zip(runs, names, strict=True):
        seen[name] += 1
        number = seen[name]
        unique = name
        # A label may happen to be such a name.
        while number > 1 and unique in taken:
            unique = f"{name}, configuration {number}"
            number += 1
        taken.add(unique)
        known = []
        for part in (*_IDENTITY, _PRECISION):
            if part.read(run) is not None:
                known.append(_part_text(part, run) or "")
        systems.append(System(device(run), run.num_gpus, run.framework, unique, tuple(known)))
    return systems


def _name(run: Run, parts: Sequence[Part]) -> str:
    """Return the name of a run's system. The precision follows the GPU: 8×B200 (FP4)."""
    told = parts
    if run.platform != "cpu":
        told = [part for part in parts if part is not _PRECISION]
    gpu = device(run)
    if _GPU in told and gpu and _LABEL.read(run) in (gpu, short_device(gpu), device_name(gpu)):
        told = [part for part in told if part is not _LABEL]
    name = ", ".join(text for part in told if (text := _part_text(part, run))) or _device_text(run)
    precision = run.training_config.precision
    if run.platform == "cpu":
        return name
    if precision and (not told or {_GPU, _DEVICE, _PRECISION} & {*parts}):
        return f"{name} ({precision.upper()})"
    if _PRECISION in parts:
        return f"{name} (precision unknown)"
    return name


def _work(run: Run) -> str | None:
    batch = run.training_config.global_batch_size
    length = run.training_config.sequence_length
    if batch is None and length is None:
        return None
    return f"batch {batch or 'unknown'}×{length or 'unknown'}"


def _global_batch(run: Run) -> str | None:
    batch = run.training_config.global_batch_size
    return f"batch {batch}" if batch else None


def _device_text(run: Run, short: Callable[[str], str] = device_name) -> str:
    name = device(run)
    count = run.num_gpus
    if name is None:
        kind = "CPU" if run.platform == "cpu" else "GPU"
        if count is None:
            return f"unknown {kind}"
        return f"{count}× unknown {kind}"
    if run.platform == "cpu" and count == 1:
        return short(name)
    return _counted(name, count, short)


def _counted(name: str, count: int | None, short: Callable[[str], str] = device_name) -> str:
    """Return a number of devices with their name, such as 8×H100."""
    if count is None:
        return short(name)
    return f"{count}×{short(name)}"


def _software(run: Run, index: int, version: str) -> str | None:
    """Return the name and version of a part of the software that a log calls its framework: NeMo
    24.09, ROCm 6.4.
    """
    stated = plain(run.environment.versions.get("framework", "")).split(", ")[index:]
    if not stated or not stated[0]:
        return None
    text = _SOFTWARE_WORDS.sub("", stated[0]).strip() or stated[0]
    if stated_version := re.search(version, text):
        return text[: stated_version.end()]
    return text


def _swept(run: Run) -> str | None:
    """Return in words the setting in a label that a sweep or --tune made, such as micro-batch 2 for
    micro2; None for other labels.
    """
    for row in LEDGER:
        if len(row.tuned) > len("{}") and run.label == row.tuned.format(value := read(row, run)):
            if value:
                return row.words(value)
            return None
    return None


def _version(run: Run, name: str) -> str | None:
    return text_of(run.environment.versions.get(name))


def _argument(run: Run, name: str) -> str | None:
    known = variant(run)
    if name in known:
        return text_of(f"{name} {known[name]}".strip())
    return text_of(f"no {name}") if known else None


def _variable(run: Run, name: str) -> str | None:
    known = run.environment.settings
    if name in known:
        return text_of(f"{name}={known[name]}")
    return text_of(f"{name} unset") if known else None


def _precision_detail(run: Run) -> str | None:
    detail = run.training_config.precision_detail
    if detail is None or detail.startswith(FROM_DESCRIPTION):
        return None
    return text_of(detail)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part that a name may have: its title, the function that reads it from a run, and the
    function that words its value (None: title and value).
    """

    title: str
    read: Callable[[Run], str | None]
    words: Callable[[str], str] | None = None


def _configured(title: str, key: str) -> Part:
    return Part(title, lambda run: text_of(run.framework_config.get(key)))


def _named_settings() -> Iterator[Part]:
    """Yield the settings that a name may have, and those that one of these consists of."""
    for row in LEDGER:
        if row.named and row.title != "precision":
            for setting in (row, *parts_of(row.title)):
                title = setting.title or setting.label.format("").strip()
                if setting is row or setting.label:
                    yield _of_setting(setting, title or setting.key.replace("_", " "))


def _of_setting(row: Setting, title: str) -> Part:
    return Part(title, lambda run: own_value(row, run) or row.null or None, row.words)


_GPU = Part("GPU", _device_text)
_SCALE = Part("scale", lambda run: text_of(run.scale))
_LABEL = Part("label", lambda run: text_of(_swept(run) or run.label))
_IDENTITY = (
    _GPU,
    _LABEL,
    Part("framework", framework),
    Part("stack", lambda run: text_of(run.gpu_info.software_stack)),
    _SCALE,
)

_DEVICE = Part("GPU", functools.partial(_device_text, short=short_device))
_PRECISION = Part(
    "precision",
    lambda run: text_of(run.training_config.precision or run.training_config.precision_detail),
)
_SOFTWARE = tuple(
    Part("software", functools.partial(_software, index=index, version=version))
    for version in _VERSIONS
    for index in (0, 1)
)
_OF_GPU = ("software stack", "compute units")
_TELLING = (
    *_IDENTITY[2:4],
    _PRECISION,
    _configured("MLPerf", "mlperf_round"),
    _configured("submitter", "submitter"),
    *_SOFTWARE,
    Part("batch", _global_batch),
    Part("batch", _work),
    _DEVICE,
    _configured("platform", "submission_platform"),
    *_named_settings(),
    *(_of_setting(row, row.title) for row in LEDGER if row.title in _OF_GPU),
    *(_of_setting(row, row.title) for row in _MACHINE),
    Part("precision detail", _precision_detail),
    _SCALE,
)
"""Parts that distinguish systems, those that readers know best first. The packages of the systems
and then the date follow.
"""

_DATE = Part("date", lambda run: text_of(run.timestamp[:10]) if run.timestamp else None)

_CLEAR = {part.title for part in (*_IDENTITY[:4], _PRECISION, _DATE)}
_CLEAR |= {"software", "batch", "platform", "precision detail"}
"""Titles of the parts whose values are clear by themselves; other values follow their titles."""

_DECISIVE = {
    row.title
    for row in LEDGER
    if row.named and row.configured and (row.tuned or row.role == "explains")
}
_DECISIVE -= {"precision"}
"""Titles of settings that can explain a result. If several differ, a name with only one of them
would present that one as the cause.
"""


def _part_text(part: Part, run: Run) -> str | None:
    value = part.read(run)
    if value is None:
        if part in _IDENTITY or part.title == "software":
            return None
        return f"{part.title} unknown"
    value = plain(value, LONGEST_PART)
    if part is _PRECISION and run.platform != "cpu":
        value = value.upper()
    title = "" if part.title in _CLEAR else f"{part.title} "
    if part.words:
        return part.words(value)
    return f"{title}{value}"


def _telling_parts(runs: Sequence[Run], always: Sequence[Part]) -> list[Sequence[Part]]:
    """Return for each run the parts of its name: those that are in all names, and as few others as
    distinguish it from the runs that are equal in these.
    """
    candidates = [*_TELLING, *_parts_of_names(runs), _DATE]
    text = functools.cache(lambda part, index: _part_text(part, runs[index]))

    def fitting(parts: Sequence[Part], indices: Sequence[int]) -> list[tuple[object, ...]]:
        """Return the texts of some parts for each of some runs."""
        return [tuple(text(part, index) for part in parts) for index in indices]

    def kinds(parts: Sequence[Part], indices: Sequence[int]) -> int:
        """Return how many of some runs the parts tell apart."""
        return len(set(fitting(parts, indices)))

    telling: list[Sequence[Part]] = [always] * len(runs)
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, key in enumerate(fitting(always, range(len(runs)))):
        alike.setdefault(key, []).append(index)
    for indices in alike.values():
        if len(indices) == 1:
            continue
        stated: list[Part] = []
        unstated: list[Part] = []
        for part in candidates:
            is_stated = all(part.read(runs[index]) for index in indices)
            (stated if is_stated else unstated).append(part)
        chosen: list[Part] = []
        # Parts that all systems state come first, to avoid names such as "precision unknown".
        for part in (*stated, *unstated):
            told_apart = kinds(chosen, indices)
            if told_apart < len(indices) and kinds([*chosen, part], indices) > told_apart:
                chosen.append(part)
        if any(part.title in _DECISIVE for part in chosen):
            for part in stated:
                if part.title in _DECISIVE and kinds([part], indices) > 1:
                    chosen.append(part)
            chosen = [part for part in (*stated, *unstated) if part in chosen]
        counts = functools.cache(lambda parts, of=indices: collections.Counter(fitting(parts, of)))
        for index in indices:
            kept = tuple(chosen)
            for part in reversed(chosen):
                if part.title in _DECISIVE:
                    continue
                fewer = tuple(other for other in kept if other is not part)
                of_fewer = counts(fewer)[fitting(fewer, [index])[0]]
                if of_fewer == counts(kept)[fitting(kept, [index])[0]]:
                    kept = fewer
            # A longer name of the GPU replaces its short name.
            first = []
            for part in always:
                first.append(_DEVICE if part is _GPU and _DEVICE in kept else part)
            telling[index] = [*first, *(part for part in kept if part not in first)]
    return telling


def _parts_of_names(runs: Sequence[Run]) -> Iterator[Part]:
    """Yield the parts of a name that only some runs can have: their packages, variables and
    arguments, and keys that only one framework has.
    """
    packages: set[str] = set()
    variables: set[str] = set()
    options: set[str] = set()
    for run in runs:
        packages.update(run.environment.versions)
        variables.update(run.environment.settings)
        options.update(variant(run))
    for name in sorted(packages - {"framework"}):
        yield Part(name, functools.partial(_version, name=name))
    for name in sorted(variables):
        yield Part(name, functools.partial(_variable, name=name), str)
    for name in sorted(options):
        yield Part("argument", functools.partial(_argument, name=name), str)
    for row in of_frameworks(runs):
        yield _of_setting(row, row.title)
