"""Runs -> Comparison: which systems there are, their values, and the ratio of each to a baseline.

Models are never crossed. Speed is compared by tokens/s/GPU. Where that can't be done, there is a reason instead of a
ratio.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tprimat import units
from tprimat.analysis.efficiency import Options
from tprimat.analysis.summary import summarize
from tprimat.catalog import models
from tprimat.checks.compute import Mode
from tprimat.checks.settings import rows_of, texts
from tprimat.compare import precision
from tprimat.compare.caveats import caveats
from tprimat.compare.figures import aligned, system_result
from tprimat.compare.pairs import pair
from tprimat.compare.result import (
    RATE,
    Caveat,
    Comparison,
    Group,
    Loaded,
    MetricValue,
    ModelComparison,
    Pair,
    Ratio,
    RunResult,
    SettingRow,
    SystemResult,
)
from tprimat.compare.systems import System, device, measurement, name_systems, same_system
from tprimat.errors import UsageError
from tprimat.results.run import Run
from tprimat.text import join_names, plain

__all__ = [
    "Caveat",
    "Comparison",
    "Group",
    "Loaded",
    "MetricValue",
    "ModelComparison",
    "Pair",
    "Ratio",
    "RunResult",
    "SettingRow",
    "System",
    "SystemResult",
    "compare",
]


NOTHING_KNOWN = Options()


def compare(
    files: Sequence[Loaded],
    *,
    reference: str | None = None,
    model: str | None = None,
    notes: Sequence[str] = (),
    mode: Mode = "best",
    options: Options = NOTHING_KNOWN,
    per_sample: bool = True,
) -> Comparison:
    """Compare the systems of each model with each other.

    Systems that trained the same scale with the same batch and sequence are compared with the slowest of them, unless
    a baseline is named; what is alone with its workload joins the first group.

    Args:
        files: results in the order in which they were named.
        reference: part of the name of the system that all others are compared with.
        model: look at this model alone.
        notes: about the files, to be passed on.
        mode: "same" rejects every difference of configuration.
        options: what the user knows and the results don't say. A precision fills in what they leave
            open, for the checks too; the files stay as they are.
        per_sample: whether MLPerf's logs may be compared in samples, where not all state their sequence length.

    Raises:
        UsageError: no system, several systems or no model has the name asked for.
    """
    remarks = list(notes)
    if model is not None:
        files = _of_model(files, model)
    by_model: dict[str | None, dict[tuple[object, ...], list[tuple[Run, str]]]] = {}
    for run, file in _entries(precision.fill(files, options, remarks), remarks):
        name = _model(run)
        # Runs of models that nobody names may be of different ones, but for those of one file.
        unknown = file if name is None and run.model_config.num_layers is None else None
        by_model.setdefault(name, {}).setdefault((same_system(run), unknown), []).append((run, file))
    systems = name_systems({name: [runs[0][0] for runs in groups.values()] for name, groups in by_model.items()})
    results = {
        name: [
            _system_result(system, runs, per_sample=per_sample and _in_samples(groups.values()))
            for system, runs in zip(systems[name], groups.values(), strict=True)
        ]
        for name, groups in by_model.items()
    }
    every = [system for group in results.values() for system in group]
    remarks += [
        f"{_title(name, group)}: rates are in samples/s/GPU, since not all logs state the sequence length"
        for name, group in results.items()
        if group[0].per_sample and any(system.value(RATE) for system in group)
    ]
    chosen = None if reference is None else _chosen(reference, every)
    compared = tuple(_model_comparison(name, group, chosen, remarks, mode) for name, group in results.items())
    parts = every[0].parts if every else ()
    shared = tuple(part for part in parts if all(part in system.parts for system in every))
    names = tuple(dict.fromkeys(system.name for system in every))
    return Comparison(compared, shared, tuple(map(plain, remarks)), tuple(files), names, mode, options=options)


def _entries(files: Sequence[Loaded], notes: list[str]) -> list[tuple[Run, str]]:
    """All runs; one that several files hold, such as a copy in another folder, only once."""
    kept: list[tuple[Run, str]] = []
    seen: dict[tuple[object, ...], tuple[str, Run]] = {}
    for file in files:
        for run in file.runs:
            key = (run.model, *measurement(run))
            timed = bool(run.timeline) or any(time is not None for time in run.step_times)
            earlier = seen.setdefault(key, (file.name, run)) if timed else None
            if earlier and (earlier[0] != file.name or not _is_copy(run, earlier[1])):
                if _is_copy(run, earlier[1]):
                    notes.append(f"{file.name} holds the same run as {earlier[0]}: counted once")
                    continue
                if key[-1] is None:
                    notes.append(
                        f"{file.name} and {earlier[0]} hold the same step times under different setups: "
                        "they are one measurement, so comparing them says nothing"
                    )
            kept.append((run, file.name))
    return kept


def _is_copy(run: Run, earlier: Run) -> bool:
    """Return whether one measurement is of one system, in one file or, of MLPerf, in the submissions of two rounds."""
    if same_system(run) == same_system(earlier):
        return True
    kinds = [(each.framework, each.label, device(each), each.num_gpus, each.timestamp) for each in (run, earlier)]
    return run.framework == "mlperf" and run.timestamp is not None and kinds[0] == kinds[1]


def _of_model(files: Sequence[Loaded], model: str) -> list[Loaded]:
    """The files with runs of a model, and no other runs in them."""
    kept = [
        Loaded(file.name, file.sha256, runs)
        for file in files
        if (runs := tuple(run for run in file.runs if model.casefold() in map(str.casefold, _names(run))))
    ]
    if not kept:
        there = ", ".join(sorted({_names(run)[0] for file in files for run in file.runs}))
        problem = f"no results for model {plain(model)!r}"
        raise UsageError(problem, hint=f"available: {there}", heading="unknown-model")
    return kept


def _model(run: Run) -> str | None:
    """Return the name of a run's model; that of the shape where an earlier import has it under its name in the log."""
    row = None if models.find(run.model) else models.with_shape(run.model_config)
    return row.name if row else plain(run.model or "") or None


def _names(run: Run) -> tuple[str, str, str]:
    return plain(run.model or "unnamed model"), _model(run) or "", models.title(_model(run))


def _in_samples(groups: Iterable[Sequence[tuple[Run, str]]]) -> bool:
    """Return whether all runs are of MLPerf, whose benchmarks fix what a sample is, and not all state its length."""
    runs = [run for group in groups for run, _ in group]
    return {run.framework for run in runs} == {"mlperf"} and any(
        run.training_config.sequence_length is None for run in runs
    )


def _system_result(system: System, runs: Sequence[tuple[Run, str]], *, per_sample: bool) -> SystemResult:
    summaries = [summarize(run) for run, _ in runs]
    timed = [summary.performance.avg_step_time_seconds is not None for summary in summaries]
    complete = [run.status == "complete" and has for (run, _), has in zip(runs, timed, strict=True)]
    # A run that broke off says less than one that ended, and is only used where there is none.
    counted = complete if any(complete) else timed
    return system_result(
        system,
        [
            RunResult(run, summary, file, is_valid, per_sample)
            for (run, file), summary, is_valid in zip(runs, summaries, counted, strict=True)
        ],
    )


def _chosen(reference: str, systems: Sequence[SystemResult]) -> str:
    """The name of the system that a user means.

    A whole name counts before a word of it, and a word before a part of a word: H200 is not GH200.
    """
    wanted, words = _matchable(reference), _words(reference)
    known: dict[str, list[str]] = {}
    for system in systems:
        known.setdefault(system.name, []).append(_words(" ".join([system.gpu or "", *system.parts])))
    tests = (
        [name for name in known if wanted == _matchable(name)],
        [name for name in known if words in _words(name)],
        [name for name in known if wanted in _matchable(name)],
        [name for name, texts in known.items() if any(words in text for text in texts)],
    )
    matching = next(filter(None, tests), []) if wanted else []
    if len(matching) == 1:
        return matching[0]
    names = "; ".join(list(matching or known)[:5])
    if matching:
        problem = f"--reference: {plain(reference)!r} is ambiguous"
        raise UsageError(problem, hint=f"use a longer part of one name: {names}", heading="unknown-system")
    problem = f"--reference: no system matches {plain(reference)!r}"
    raise UsageError(problem, hint=f"available: {names}", heading="unknown-system")


def _matchable(text: str) -> str:
    return " ".join(plain(text).casefold().replace("×", "x").split())


def _words(text: str) -> str:
    """Words with a space on either system; 8xh200 is two."""
    return f" {' '.join(re.sub(r'(?<=[0-9])x', ' ', _matchable(text)).replace(',', ' ').split())} "


def _model_comparison(
    name: str | None, systems: list[SystemResult], reference: str | None, notes: list[str], mode: Mode
) -> ModelComparison:
    title = _title(name, systems)
    baseline = next((system for system in systems if system.name == reference), None)
    if reference is not None and baseline is None and len(systems) > 1:
        notes.append(f"{title}: there is no system {reference}, so the slowest one is the baseline")
    workloads = _by_workload(systems) if baseline is None else [systems]
    groups = []
    for each in workloads:
        index = each.index(baseline or _default_baseline(each))
        each = aligned(each)
        groups.append(_group(each, each[index], mode))
    # The groups that have an answer come first.
    groups.sort(key=lambda group: not any(pair.ratio for pair in group.pairs))
    if len(groups) > 1:
        notes.append(f"{title}: {WORKLOADS.format(len(groups))}")
    return ModelComparison(name, title, tuple(groups))


WORKLOADS = "{} workloads found; systems are compared within each. Use --reference to compare all with one"


def _title(name: str | None, systems: Sequence[SystemResult]) -> str:
    """Return what a model is called, or the models of this name where they are several."""
    titles = list(dict.fromkeys(_title_of(name, system.run) for system in systems))
    return join_names(titles) if len(titles) <= MOST_TITLES else f"{len(titles)} models named {plain(name or '')}"


MOST_TITLES = 3
"""Models of one name, of several scales or sizes, that its title lists."""


def _title_of(name: str | None, run: Run) -> str:
    """Return what a run's model is called: by scale or size where it isn't the full one, never as that."""
    title, count = plain(models.title(name)), models.parameters(run.model_config)
    if run.scale not in (None, "full"):
        return f"{title.split()[0]} {plain(run.scale)}" + (f", {units.count(count)} parameters" if count else "")
    if models.denies(name, run.model_config):
        size = f"of {units.count(count)} parameters" if count else "of another shape"
        return f"a model {size}, named {plain(name or '')}"
    return title


def _default_baseline(systems: Sequence[SystemResult]) -> SystemResult:
    """Return the slowest of the systems that others can be compared with; the first one where there is none."""
    usable = [
        system
        for system in systems
        if system.exclusion is None and system.value(RATE) is not None and not system.run.environment.emulated
    ]
    # Of the first system's sequence length: speeds at another one are not compared.
    same = [system for system in usable if _workload(system)[::2] == _workload(usable[0])[::2]]
    return min(same, key=lambda system: system.value(RATE) or 0.0, default=systems[0])


def _workload(system: SystemResult) -> tuple[object, ...]:
    config = system.run.training_config
    return system.run.scale, config.global_batch_size, 1 if system.per_sample else config.sequence_length


def _by_workload(systems: Sequence[SystemResult]) -> list[list[SystemResult]]:
    """Systems that did the same work together; those alone with theirs join the first group."""
    same: dict[object, list[SystemResult]] = {}
    for system in systems:
        workload = _workload(system)
        same.setdefault(id(system) if None in workload[1:] else workload, []).append(system)
    first, *others = same.values()
    first = [*first, *(system for group in others if len(group) == 1 for system in group)]
    return [first, *(group for group in others if len(group) > 1)]


def _group(systems: Sequence[SystemResult], baseline: SystemResult, mode: Mode) -> Group:
    pairs = {id(system): pair(baseline, system, mode=mode) for system in systems if system is not baseline}
    compared = [system for system in systems if system is not baseline and pairs[id(system)].ratio]
    ranked = sorted([baseline, *compared] if compared else [], key=lambda system: -(system.value(RATE) or 0.0))
    first = set(map(id, ranked))
    ordered = [*ranked, *(system for system in systems if id(system) not in first)]
    runs = [system.run for system in ordered]
    settings = [SettingRow(setting.title, texts(setting, runs), setting.essential) for setting in rows_of(runs)]
    settings.append(_versions(ordered))
    ordered_pairs = tuple(pairs[id(system)] for system in ordered if system is not baseline)
    leaders = None
    if compared:
        fastest, second = ranked[:2]
        leaders = pairs[id(fastest)] if second is baseline else pairs[id(second)] if fastest is baseline else None
        leaders = leaders or pair(second, fastest, mode=mode)
    return Group(
        tuple(ordered),
        baseline,
        ordered_pairs,
        tuple(row for row in settings if row.essential or not row.unknown),
        leaders,
        caveats(ranked, [each for each in ordered_pairs if each.ratio]) if compared else (),
    )


def _versions(systems: Sequence[SystemResult]) -> SettingRow:
    """Packages whose versions the systems state and don't share."""
    stated = [system.run.environment.versions for system in systems]
    packages = sorted({name for versions in stated for name in versions})
    # torch has a row of its own.
    differing = [name for name in packages if name != "torch" and len({each.get(name) for each in stated}) > 1]
    values = tuple(
        plain(", ".join(f"{name} {each[name]}" for name in differing if name in each), 240) or None for each in stated
    )
    return SettingRow("other versions", values, essential=False)
