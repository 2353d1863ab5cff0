"""Systems that differ in the number of GPUs -> curves: throughput, efficiency and cost at each
size.

Sizes of one curve share model, scale, GPU, framework, precision, sequence length and label. The
batch may differ: that tells strong from weak scaling. If that leaves several setups of one size,
the fastest one represents it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from tprimat.analysis import projection
from tprimat.checks.settings import framework, rows_of
from tprimat.compare import speedup
from tprimat.compare.caveats import caveats, incomplete
from tprimat.compare.cost import efficiencies
from tprimat.compare.figures import aligned
from tprimat.compare.result import RATE, Comparison, ModelComparison, Ratio, SystemResult
from tprimat.compare.systems import device, device_name
from tprimat.notes import SYSTEM, Note, NoteValue
from tprimat.settings.rows import IDENTITY, LEDGER
from tprimat.text import join_names, plain

Kind = Literal["strong", "weak", "mixed", "unknown"]
"""strong: one global batch; weak: one batch per GPU; mixed: neither; unknown: a size doesn't state
its batch.
"""

BREAK = 0.9
"""Scaling breaks at the first size whose efficiency is below this by its whole interval."""

HOUR_S = 3600
_PER_SIZE = ("num_gpus", "global_batch_size")
_EXPECTED = {"data parallel", "optimizer"} | {
    row.title
    for row in LEDGER
    if row.identity or (row.role == "harmless" and row.configured and row.named)
}
"""Settings that always differ between GPU counts, have their own column in the table of sizes, or
don't affect speed.
"""

_OWN = ("precision-unknown", "precision-differs", "timer-differs", "few-runs", "batch-differs")
"""Codes of the warnings on systems for which curves have their own note, or a column."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A system of a curve.

    Attributes:
        nodes: machines; None if the results don't state them.
        batch: global batch size; None if unknown.
        efficiency: its throughput per GPU divided by that of the smallest size; None for the
            smallest size.
        per_dollar: tokens or samples per USD; None without a price.
        per_joule: tokens per joule; None if no energy is known.
    """

    system: SystemResult
    gpus: int
    nodes: int | None
    batch: int | None
    efficiency: Ratio | None
    per_dollar: float | None
    per_joule: float | None

    @property
    def rate(self) -> float:
        """Tokens or samples per second and GPU."""
        return self.system.value(RATE) or math.nan

    @property
    def breaks(self) -> bool:
        """Whether its efficiency is below BREAK, with its whole interval if it has one."""
        ratio = self.efficiency
        return ratio is not None and (ratio.value if ratio.high is None else ratio.high) < BREAK


@dataclasses.dataclass(frozen=True)
class Curve:
    """Sizes of one system, two or more, the smallest first.

    Attributes:
        name: of the system without its size, unique within its model.
        notes: what a reader must know about it: what changes with the size, and what is unknown;
            the notes of one entry make one sentence.
    """

    model: ModelComparison
    name: str
    kind: Kind
    sizes: tuple[Size, ...]
    notes: tuple[tuple[Note, ...], ...]

    @property
    def breaks_at(self) -> Size | None:
        """The first size whose efficiency is below BREAK; None if there is none."""
        for size in self.sizes:
            if size.breaks:
                return size
        return None

    @property
    def points(self) -> list[projection.Size]:
        """The sizes as the analysis module needs them."""
        length = self.sizes[0].system.run.training_config.sequence_length
        if self.sizes[0].system.unit != "tokens" or not length:
            work = 1.0
        else:
            work = float(length)
        return [projection.Size(size.gpus, size.batch, size.rate, work) for size in self.sizes]


@dataclasses.dataclass(frozen=True)
class Crossover:
    """Two curves of one model and sequence length over the sizes that both cover.

    Attributes:
        first, second: the curve that is faster per GPU at the smallest of these sizes, and the
            other one.
        span: the smallest and the largest number of GPUs that both cover.
        turns: pairs of neighboring sizes between which the order changes; rates at sizes that one
            curve lacks are interpolated.
    """

    first: Curve
    second: Curve
    span: tuple[int, int]
    turns: tuple[tuple[int, int], ...]


class Remark(NamedTuple):
    """A note on a system that belongs to no curve, and the notes that say why, if there are any."""

    note: Note
    why: tuple[Note, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The curves of a comparison, model by model.

    Attributes:
        notes: on systems that belong to no curve.
    """

    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...]
    notes: tuple[Remark, ...]


def scaling_of(comparison: Comparison) -> Scaling:
    """Return the curves of a comparison."""
    found = []
    notes = []
    uncounted = 0
    for model in comparison.models:
        usable = []
        for system in model.systems:
            if system.exclusion is None and system.count is None:
                uncounted += 1
                continue
            if remark := _why_unused(model.title, system):
                notes.append(remark)
            else:
                usable.append(system)
        sized = []
        dropped = len(usable)
        for group in _by(usable, _key):
            for line in _lines(group):
                dropped -= len(line)
                if len(line) > 1:
                    sized.append(line)
                    continue
                names = {"model": model.title, SYSTEM: line[0].name}
                notes.append(Remark(Note("size-alone", names)))
        if dropped:
            slower: dict[str, NoteValue] = {"model": model.title, "slower": dropped}
            notes.append(Remark(Note("sizes-dropped", slower)))
        for name, line in zip(_names(sized), sized, strict=True):
            found.append(_curve(comparison, model, name, line))
    measured = [tuple(_clocks(curve.sizes)) for curve in found]
    if len(set(measured)) > 1:
        for place, clocks in enumerate(measured):
            note = Note("clocks-of-curves", {"clocks": clocks})
            found[place] = dataclasses.replace(found[place], notes=((note,), *found[place].notes))
    if uncounted:
        whose = "1 system doesn't state its"
        if uncounted > 1:
            whose = f"{uncounted} systems don't state their"
        note = Note("gpus-of-systems-unstated", {"systems": uncounted, "whose": whose})
        notes.insert(0, Remark(note))
    return Scaling(tuple(found), tuple(_crossovers(found)), tuple(notes))


def _why_unused(title: str, system: SystemResult) -> Remark | None:
    """Return why a system can be in no curve; None if it can be."""
    names: dict[str, NoteValue] = {"model": title, SYSTEM: system.name}
    if system.has_failed:
        return Remark(Note("system-unused", names), incomplete(system))
    if system.exclusion is not None:
        return Remark(Note("system-excluded", names), (system.exclusion.note,))
    if system.value(RATE) is None:
        return Remark(Note("system-without-rate", names))
    return None


def _crossovers(found: Sequence[Curve]) -> list[Crossover]:
    """Compare any two curves of the same model, sequence length and clock whose sizes overlap."""
    results = []
    for one, other in itertools.combinations(found, 2):
        if (
            one.model is not other.model
            or _length(one) != _length(other)
            or _clocks(one.sizes) != _clocks(other.sizes)
        ):
            continue
        low = max(one.sizes[0].gpus, other.sizes[0].gpus)
        high = min(one.sizes[-1].gpus, other.sizes[-1].gpus)
        both = set()
        for size in (*one.sizes, *other.sizes):
            if low <= size.gpus <= high:
                both.add(size.gpus)
        if len(both) < 2:
            continue
        is_ahead = {}
        for gpus in sorted(both):
            is_ahead[gpus] = _rate_at(one, gpus) >= _rate_at(other, gpus)
        first, second = (one, other) if is_ahead[low] else (other, one)
        turns = []
        for before, after in itertools.pairwise(is_ahead):
            if is_ahead[before] != is_ahead[after]:
                turns.append((before, after))
        results.append(Crossover(first, second, (low, high), tuple(turns)))
    return results


def _curve(
    comparison: Comparison, model: ModelComparison, name: str, systems: Sequence[SystemResult]
) -> Curve:
    # As in a pair, all systems use one clock and the same steps where they share them.
    systems = aligned(systems)
    sizes = []
    for system in systems:
        ratio = None
        if system is not systems[0]:
            ratio = speedup.ratio(systems[0], system)
        sizes.append(
            Size(
                system,
                system.count or 0,
                _nodes(system),
                system.run.training_config.global_batch_size,
                ratio,
                _per_dollar(comparison, system),
                _per_joule(comparison, system),
            )
        )
    return Curve(model, name, _kind(sizes), tuple(sizes), tuple(_notes(sizes)))


def _nodes(system: SystemResult) -> int | None:
    source = system.run.source
    # Results name the machines of a training on several ones.
    nodes = len(system.run.environment.nodes)
    if not nodes and source is not None and source.kind == "live":
        return 1
    return nodes or None


def _key(system: SystemResult) -> tuple[object, ...]:
    """Return the key that is equal for all sizes of a curve."""
    run = system.run
    but = (*_PER_SIZE, "sequence_length") if system.unit == "samples" else _PER_SIZE
    shared = (setting.of(run) for setting in IDENTITY if setting.key not in but)
    shape = run.model_config.num_layers, run.model_config.hidden_size
    return device(run), run.platform, framework(run), shape, *shared


def _lines(systems: Sequence[SystemResult]) -> list[list[SystemResult]]:
    """Return the systems with one key as lines in which each size occurs once: all in one line, or
    one line for each batch.

    If a size occurs with several batches, lines have either one global batch (strong scaling) or
    one batch per GPU (weak scaling), whichever covers more of the systems.
    """
    if len({system.count for system in systems}) == len(systems):
        return [_fastest(systems)]
    kinds = []
    for batch in (_batch, _per_gpu):
        lines = map(_fastest, _by(systems, batch))
        kinds.append([line for line in lines if len(line) > 1])
    most = max(kinds, key=lambda lines: (sum(map(len, lines)), -len(lines)))
    return most or [_fastest(systems)]


def _fastest(systems: Iterable[SystemResult]) -> list[SystemResult]:
    """Return the fastest system of each size, the smallest size first."""
    fastest_first = sorted(systems, key=lambda system: system.value(RATE) or 0, reverse=True)
    best = {system.count or 0: system for system in reversed(fastest_first)}
    return [best[count] for count in sorted(best)]


def _by(
    systems: Sequence[SystemResult], value: Callable[[SystemResult], object]
) -> Iterable[list[SystemResult]]:
    groups: dict[object, list[SystemResult]] = {}
    for system in systems:
        groups.setdefault(value(system), []).append(system)
    return groups.values()


def _batch(system: SystemResult) -> float | None:
    return system.run.training_config.global_batch_size


def _per_gpu(system: SystemResult) -> float | None:
    batch = _batch(system)
    if batch is None or not system.count:
        return None
    return batch / system.count


def _kind(sizes: Sequence[Size]) -> Kind:
    if any(size.batch is None for size in sizes):
        return "unknown"
    if len({size.batch for size in sizes}) == 1:
        return "strong"
    if len({_per_gpu(size.system) for size in sizes}) == 1:
        return "weak"
    return "mixed"


def _names(lines: Sequence[Sequence[SystemResult]]) -> list[str]:
    """Return a name for each line of a model: GPU and precision, and what else tells them apart."""
    parts = [_name_parts(line[0]) for line in lines]
    shown: list[list[str]] = [[] for _ in lines]
    for place, texts in enumerate(zip(*parts, strict=True)):
        if place < ALWAYS_SHOWN or len(set(texts)) > 1:
            for name, part in zip(shown, texts, strict=True):
                if part:
                    name.append(part)
    joined = list(map(", ".join, shown))
    names = []
    for text, line in zip(joined, lines, strict=True):
        batch = _batch_text(line)
        names.append(f"{text}, {batch}" if joined.count(text) > 1 and batch else text)
    return names


ALWAYS_SHOWN = 2
"""Number of parts that are always in a name, even if they are equal for all lines: the first
ones.
"""


def _name_parts(system: SystemResult) -> Sequence[str | None]:
    run = system.run
    return (
        _device_text(system),
        plain(run.label) if run.label else None,
        framework(run),
        run.scale,
        f"sequence length {run.training_config.sequence_length}",
    )


def _device_text(system: SystemResult) -> str:
    name = device_name(system.gpu) if system.gpu else "unknown GPU"
    precision = system.run.training_config.precision
    if precision:
        return f"{name} ({precision.upper()})"
    return name


def _batch_text(line: Sequence[SystemResult]) -> str | None:
    if len(batches := {_batch(system) for system in line}) == 1:
        return f"batch {next(iter(batches))}"
    per_gpu = {_per_gpu(system) for system in line}
    if len(per_gpu) == 1:
        return f"{next(iter(per_gpu)):g} per GPU"
    return None


def _notes(sizes: Sequence[Size]) -> Iterator[tuple[Note, ...]]:
    systems = [size.system for size in sizes]
    for caveat in caveats(systems, ()):
        is_own = caveat.code in _OWN or caveat.severity != "warning"
        if caveat.code == "no-steady-state" or not is_own:
            yield caveat.notes
    if len(_clocks(sizes)) > 1:
        yield (Note("clocks-of-sizes", {"clocks": tuple(_clocks(sizes))}),)
    if single := [size.gpus for size in sizes if len(size.system.speeds) == 1]:
        unit = "GPUs"
        if sizes[0].system.run.platform == "cpu":
            unit = "processes"
        if len(single) == len(sizes):
            where = "every point"
        else:
            where = f"{join_names([*map(str, single)])} {unit}"
        yield (Note("sizes-of-one-run", {"where": where, "sizes": tuple(single)}),)
    if sizes[0].system.run.training_config.precision is None:
        yield (Note("precision-of-sizes-unknown"),)
    batches = []
    for size in sizes:
        if size.batch is not None:
            batches.append(size.batch)
    if len(set(batches)) > 1:
        yield (Note("batch-changes", {"least": min(batches), "most": max(batches)}),)
    runs = [system.run for system in systems]
    changing = []
    for setting, values in rows_of(runs):
        if setting.title not in _EXPECTED and len(set(values)) > 1:
            text = setting.title
            if len(values) <= 6:
                shown = []
                for value in values:
                    shown.append(plain(value, 24) if value else "unknown")
                text += f" ({', '.join(shown)})"
            changing.append(text)
    if changing:
        yield (Note("settings-change", {"settings": tuple(changing)}),)


def _clocks(sizes: Sequence[Size]) -> dict[str, None]:
    return dict.fromkeys(
        result.summary.clock or "unknown" for size in sizes for result in size.system.valid_runs
    )


def _length(curve: Curve) -> int | None:
    system = curve.sizes[0].system
    if system.unit == "samples":
        return None
    return system.run.training_config.sequence_length


def _rate_at(curve: Curve, gpus: int) -> float:
    """Return the logarithm of the rate per GPU, on the straight lines in log-log between
    neighbours.
    """
    for one, other in itertools.pairwise(curve.sizes):
        if one.gpus <= gpus <= other.gpus:
            share = math.log(gpus / one.gpus) / math.log(other.gpus / one.gpus)
            return (1 - share) * math.log(one.rate) + share * math.log(other.rate)
    raise ValueError(f"{gpus} GPUs are beyond the curve")


def _per_dollar(comparison: Comparison, system: SystemResult) -> float | None:
    price = comparison.prices.get(system.name)
    rate = system.value(RATE)
    if price is None or rate is None:
        return None
    return 1 / price.cost(1 / (rate * HOUR_S))


def _per_joule(comparison: Comparison, system: SystemResult) -> float | None:
    # What --energy-from-tdp assumes is no energy, and would be in the column of those that are.
    known = (
        efficiency.values.get("joules_per_token") for efficiency in efficiencies(comparison, system)
    )
    for value in known:
        if value is not None and value.value:
            return 1 / value.value
    return None
