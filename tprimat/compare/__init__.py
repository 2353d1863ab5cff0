"""Runs -> Comparison: which systems there are, their values, and the ratio of each to a baseline.

Models are never crossed. Speed is compared by tokens/s/GPU between systems that did the same work,
whatever their batch, precision and number of GPUs. If that can't be done, there is a reason instead
of a ratio.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tprimat import units
from tprimat.analysis import repetitions
from tprimat.analysis.account import clocks
from tprimat.analysis.efficiency import Options
from tprimat.analysis.summary import summarize
from tprimat.catalog import models
from tprimat.catalog.prices import fitting_names
from tprimat.checks import finding_of
from tprimat.checks.compute import Mode
from tprimat.checks.endings import how_ended
from tprimat.checks.settings import shape_conflict
from tprimat.compare import precision
from tprimat.compare.figures import in_printed_unit, system_result
from tprimat.compare.groups import by_work, evidence, group_of
from tprimat.compare.one_text import began_alike, in_steps, is_unnamed
from tprimat.compare.result import (
    RATE,
    Caveat,
    Comparison,
    Group,
    Loaded,
    ModelComparison,
    Pair,
    Ratio,
    RunResult,
    SettingRow,
    SystemResult,
    Unit,
)
from tprimat.compare.systems import (
    TELLING,
    FiledRun,
    are_disjoint,
    called,
    device,
    measurement,
    name_systems,
    occasion,
    parted,
    same_system,
)
from tprimat.errors import UsageError
from tprimat.notes import Note, NoteValue, with_texts
from tprimat.redaction import shown_paths
from tprimat.results.run import Run, sentences, setup_key
from tprimat.text import join_names, letters_and_digits, plain

__all__ = [
    "Caveat", "Comparison", "Group", "Loaded", "ModelComparison", "Pair", "Ratio", "RunResult", "SettingRow",
    "SystemResult", "compare",
]  # fmt: skip


NOTHING_KNOWN = Options()
IN_SAMPLES = "rates-in-samples"
"""The code of the note on models whose rates count samples."""

_RANKS = {"finished": 0, "failed": 2}
_BROKEN_OFF, _UNTIMED = 1, 3
"""Ranks of runs, by how they ended. A system's values are those of its runs with the lowest rank;
runs without step times never count.
"""


def compare(
    files: Sequence[Loaded],
    *,
    reference: str | None = None,
    model: str | None = None,
    notes: Sequence[Note] = (),
    mode: Mode = "best",
    options: Options = NOTHING_KNOWN,
    splits: bool = True,
) -> Comparison:
    """Compare the systems of each model with each other.

    Systems that did the same work are compared with one of them, the baseline: the system that
    `reference` names, else the fastest system of another vendor than the fastest one's, else the
    second fastest. Systems whose work no other system did, or that have no rate, join the first
    group, so that a reason is given for each.

    Args:
        files: results in the order in which they were named.
        reference: part of the name of the system that all others are compared with; None to choose
            the baselines.
        model: compare only systems of this model; None for all models.
        notes: about the files; they are added to those of the comparison.
        mode: "same" rejects every difference of configuration.
        options: what the user knows and the results don't say. A precision is filled in where the
            results state none, for the checks too; the result files are not changed.
        splits: whether runs of one setup may be split into several systems, by their script's
            arguments or their speed. False if the user has said which runs belong together, as in a
            regression check.

    Raises:
        UsageError: `reference` matches no system or several, or there is no such model.
    """
    remarks = list(notes)
    if model is not None:
        files = _of_model(files, model)
    files, results = systems_of(files, options, remarks, splits=splits)
    every = list(itertools.chain(*results.values()))
    for name, group in results.items():
        if any(system.unit == "samples" and system.value(RATE) for system in group):
            remarks.append(Note(IN_SAMPLES, {"model": _title(name, group)}))
    chosen = None if reference is None else _chosen(reference, every)
    compared = []
    for name, group in results.items():
        compared.append(_model_comparison(name, group, chosen, remarks, mode))
    compared.sort(key=lambda model: evidence(model.groups[0]), reverse=True)
    parts = every[0].parts if every else ()
    shared = tuple(part for part in parts if all(part in system.parts for system in every))
    names = tuple(dict.fromkeys(system.name for system in every))
    return Comparison(
        tuple(compared),
        shared,
        tuple(with_texts(remark, plain) for remark in remarks),
        tuple(files),
        names,
        mode,
        options=options,
    )


def systems_of(
    files: Sequence[Loaded], options: Options, remarks: list[Note], *, splits: bool = True
) -> tuple[list[Loaded], dict[str | None, list[SystemResult]]]:
    """Return the files with the names that reports show, and by model the systems in them, each
    timed on its own clock.

    Notes on what was counted only once, filled in or split are added to `remarks`. See compare()
    for the other arguments.
    """
    by_model: dict[str | None, dict[tuple[object, ...], list[FiledRun]]] = {}
    completed = precision.fill(files, options, remarks)
    shown = shown_paths(file.name for file in files)
    files = [dataclasses.replace(file, name=shown[file.name]) for file in files]
    completed = [dataclasses.replace(file, name=shown[file.name]) for file in completed]
    for folder in {path.removesuffix(name) for path, name in shown.items()} - {""}:
        for place, remark in enumerate(remarks):
            remarks[place] = with_texts(remark, functools.partial(_without, folder))
    for run, file in _entries(completed, remarks):
        name = _model(run)
        same = same_system(run) if splits else (device(run), setup_key(run))
        groups = by_model.setdefault(name, {})
        unknown = None
        if is_unnamed(run):
            unknown = _model_of_unnamed(run, file, same, groups)
        groups.setdefault((same, unknown), []).append((run, file))
    parts: dict[str | None, list[tuple[Run, list[RunResult]]]] = {}
    for model, groups in by_model.items():
        lengths = _sample_lengths(itertools.chain(*map(parted, groups.values())))
        labels = _labels(groups)
        parts[model] = []
        for key, entries in groups.items():
            for setup in parted(entries):
                split = _apart(_run_results(setup, lengths), remarks if splits else None)
                if len(split) == 1 and key in labels:
                    ((run, own),) = split
                    split = [(_labeled(run, labels[key]), own)]
                parts[model] += split
    systems = name_systems({name: [run for run, _ in of_model] for name, of_model in parts.items()})
    results = {}
    for name, of_model in parts.items():
        runs = [own for _, own in of_model]
        results[name] = _without_copies(list(map(system_result, systems[name], runs)))
    return files, results


def _labels(
    groups: Mapping[tuple[object, ...], Sequence[FiledRun]],
) -> dict[tuple[object, ...], str]:
    """Return a name for each group of runs on an unknown GPU that only its model's key tells from
    another group: that of its file, since neither a model nor the setup tells them apart.
    """
    alike: dict[object, list[tuple[object, ...]]] = {}
    for key, entries in groups.items():
        if device(entries[0][0]) is None:
            alike.setdefault(key[0], []).append(key)
    labels: dict[tuple[object, ...], str] = {}
    for keys in alike.values():
        if len(keys) > 1:
            files = []
            for key in keys:
                files.append([(file, 1) for _, file in groups[key]])
            names = called(files)
            labels.update(zip(keys, names, strict=True))
    return labels


def _labeled(run: Run, label: str) -> Run:
    """Return a run with a label if it has none, for its system's name."""
    if run.label is not None:
        return run
    return msgspec.structs.replace(run, label=label)


def _without(folder: str, text: str) -> str:
    """Return a text with the names of files in it as reports show them: without this folder."""
    return text.replace(folder, "")


def _model_of_unnamed(
    run: Run,
    file: str,
    same: tuple[object, ...],
    groups: Mapping[tuple[object, ...], Sequence[FiledRun]],
) -> object:
    """Return the key of a run's model if the run doesn't name it: the first file with a run of that
    model.

    Runs in one file are of one model. Runs in two files may be of different models, unless they
    began equally: if both print 9.0000, 8.9900, 8.9800, … at steps 1 to 10, digit for digit, they
    trained the same model on the same data from the same seed. A loss of 0.0000 at each of these
    steps would prove nothing.
    """
    if (same, file) in groups:
        return file
    for (setup, model), entries in groups.items():
        if setup == same and any(began_alike(run, other) for other, _ in entries):
            return model
    return file


def _apart(
    results: list[RunResult], remarks: list[Note] | None
) -> list[tuple[Run, list[RunResult]]]:
    """Split the runs of one setup into groups whose speeds are similar enough for repetitions;
    return each group with the run that its name is made from.

    Runs with a label, and runs of one session, stay together however much they differ; times from
    two clocks aren't compared. A note on each split is added to `remarks`; if that is None, nothing
    is split.
    """
    first = results[0].run
    judged = []
    for result in results:
        if result.is_valid and not result.summary.unsettled:
            judged.append(result)
    clocks_of_judged = {result.summary.clock for result in judged}
    if remarks is None or first.label is not None or len(clocks_of_judged) != 1:
        return [(first, results)]
    times = list(map(_step_time, judged))
    cuts = repetitions.cuts(times, is_known_machine=device(first) is not None)
    groups: list[list[RunResult]] = [[] for _ in range(len(cuts) + 1)]
    for result in results:
        groups[bisect.bisect([slow for _, slow in cuts], _step_time(result))].append(result)
    sessions = []
    for group in groups:
        sessions.append({result.run.session or result for result in group})
    if not cuts or not are_disjoint(sessions):
        return [(first, results)]
    groups.sort(key=lambda group: results.index(group[0]))
    numbers: dict[RunResult, tuple[str, int]] = {}
    for result in results:
        earlier = sum(file == result.file for file, _ in numbers.values())
        numbers[result] = result.file, earlier + 1
    names = called([[numbers[result] for result in group] for group in groups])
    gap = min(slow / fast - 1 for fast, slow in cuts)
    fields: dict[str, NoteValue] = {"parts": tuple(names), "systems": len(groups), "gap": gap}
    code = "compared-apart"
    if device(first) is None and gap <= repetitions.LEAST_GAP_OF_ONE:
        code = "compared-apart-by-speed"
    remarks.append(Note(code, fields))
    variables = []
    for group in groups:
        variables.append({str(result.run.environment.settings) for result in group})
    parts = []
    for name, group in zip(names, groups, strict=True):
        run = group[0].run
        if not are_disjoint(variables) or max(map(len, variables)) > 1:
            run = _labeled(run, name)
        parts.append((run, group))
    return parts


def _step_time(result: RunResult) -> float:
    """Return the step time; 1 over the rate if a source prints only that; 0 if both are unknown."""
    seconds = result.summary.performance.avg_step_time_seconds
    if seconds is None and result.rate:
        return 1 / result.rate
    return seconds or 0.0


def _without_copies(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return the systems, with a finding that excludes those that have the same measurement under
    different configurations.
    """
    holders: dict[tuple[object, ...], dict[SystemResult, str]] = {}
    for system in systems:
        for result in system.valid_runs:
            holders.setdefault(measurement(result.run), {})[system] = result.file
    checked = {system: system for system in systems}
    for key, held in holders.items():
        if len(held) == 1 or key[-1] is not TELLING:
            continue
        for system in held:
            others = join_names([file for other, file in held.items() if other is not system], 2)
            finding = finding_of(
                "unverified", "copies", "copied-measurement", file=held[system], others=others
            )
            checked[system] = dataclasses.replace(system, findings=(*system.findings, finding))
    return list(checked.values())


def _entries(files: Sequence[Loaded], notes: list[Note]) -> list[FiledRun]:
    """Return all runs. A run that the files contain several times, as in a copied file, counts
    once.
    """
    kept: list[FiledRun] = []
    seen: dict[tuple[object, ...], tuple[str, Run]] = {}
    for file in files:
        for run in file.runs:
            key = (run.model, *measurement(run))
            timed = bool(run.timeline) or any(time is not None for time in run.step_times)
            earlier = seen.get(key)
            if timed:
                seen.setdefault(key, (file.name, run))
            # Two trainings of one log may have equal times, since logs round them, but they differ
            # in something else, unless the times alone identify a run.
            is_same = earlier and (
                earlier[0] != file.name or key[2:] == (TELLING,) or run == earlier[1]
            )
            if earlier and (is_same or not _is_copy(run, earlier[1])):
                if _is_copy(run, earlier[1]):
                    note = Note("run-twice", {"file": file.name})
                    if earlier[0] != file.name:
                        note = Note("run-again", {"file": file.name, "other": earlier[0]})
                    notes.append(note)
                    if len(run.steps) > len(earlier[1].steps):
                        # A log may have been read before it was complete: the longer run counts.
                        for place, (entry, _) in enumerate(kept):
                            if entry is earlier[1]:
                                kept[place] = run, file.name
                        seen[key] = file.name, run
                    continue
                if key[-1] is TELLING:
                    notes.append(Note("copies", {"file": file.name, "other": earlier[0]}))
            kept.append((run, file.name))
            if (own := occasion(run)) is not None:
                name, twin = seen.setdefault(own, (file.name, run))
                if tuple(twin.step_times) != tuple(run.step_times):
                    notes.append(Note("run-otherwise", {"file": file.name, "other": name}))
    return kept


def _is_copy(run: Run, earlier: Run) -> bool:
    """Return whether two runs with the same measurement are of one system, or are one MLPerf run in
    the submissions of two rounds.
    """
    if same_system(run) == same_system(earlier):
        return True
    if run.framework != "mlperf" or run.timestamp is None or device(run) != device(earlier):
        return False
    names = ("framework", "label", "num_gpus", "timestamp")
    return all(getattr(run, name) == getattr(earlier, name) for name in names)


def _of_model(files: Sequence[Loaded], model: str) -> list[Loaded]:
    """Return the files that have runs of a model, with only these runs."""
    kept = []
    letters = letters_and_digits(model)
    for file in files:
        runs = []
        for run in file.runs:
            if letters in map(letters_and_digits, _names(run)):
                runs.append(run)
        if runs:
            kept.append(Loaded(file.name, file.sha256, tuple(runs)))
    if not kept:
        there = sorted({_names(run)[0] for file in files for run in file.runs})
        hint = models.suggested(model, there, f"available: {', '.join(there)}")
        raise UsageError(
            f"no results for model {plain(model)!r}", hint=hint, heading="unknown-model"
        )
    return kept


def _model(run: Run) -> str | None:
    """Return the name of a run's model in the catalog, found by its name or its shape; the name
    that the run states if the catalog lacks it; None without either.
    """
    row = models.find(run.model)
    if row and models.denies(run.model, run.model_config):
        row = None
    elif row is None:
        row = models.with_shape(run.model_config)
    if row:
        return row.name
    return plain(run.model or "") or None


def _names(run: Run) -> tuple[str, ...]:
    """Return the names by which a user may refer to a run's model: the one that the run states,
    those in the catalog, and its title in full and in short.
    """
    model = _model(run)
    row = models.named(run.model)
    title = title_of(model, run)
    return (
        *(
            plain(run.model or "unnamed model"),
            model or "",
            title,
            title.partition(", ")[0],
            models.title(model),
        ),
        *((row.title, *row.aliases) if row else ()),
    )


def _sample_lengths(groups: Iterable[Sequence[FiledRun]]) -> set[int | None]:
    """Return the sequence lengths in MLPerf's logs, with None for logs that don't state it; empty
    if all logs state one. (A benchmark fixes the length, so that samples can be compared.)
    """
    lengths = set()
    for runs in groups:
        for run, _ in runs:
            if run.framework == "mlperf":
                lengths.add(run.training_config.sequence_length)
    if None in lengths:
        return lengths
    return set()


def _run_results(runs: Sequence[FiledRun], sample_lengths: set[int | None]) -> list[RunResult]:
    first = runs[0][0]
    in_samples = bool(sample_lengths) and (
        first.framework == "mlperf"
        or sample_lengths == {None, first.training_config.sequence_length or 0}
    )
    unit: Unit = "samples" if in_samples else "tokens"
    # A mean over times from two clocks would mean nothing: all runs use one that they share.
    offered = [each for run, _ in runs if (each := clocks(run))]
    clock = None
    for shared in offered[0] if offered else ():
        if all(shared in own for own in offered):
            clock = shared
            break
    summaries = [summarize(run, clock) for run, _ in runs]
    # Runs that finished count. Runs that broke off count only if none finished, and runs that
    # failed only if there are no others.
    ranks = []
    for (run, _), summary in zip(runs, summaries, strict=True):
        rank = _RANKS.get(how_ended(run).kind, _BROKEN_OFF)
        if not summary.has_speed:
            rank = _UNTIMED
        ranks.append(rank)
    best = min(ranks)
    results = []
    for (run, file), summary, rank in zip(runs, summaries, ranks, strict=True):
        results.append(RunResult(run, summary, file, rank == best != _UNTIMED, unit))
    return results


def _chosen(reference: str, systems: Sequence[SystemResult]) -> str:
    """Return the name of the system that a user means, by the rules of fitting_names()."""
    known: dict[str, str] = {}
    for system in systems:
        known[system.name] = " ".join(
            [known.get(system.name, ""), system.gpu or "", *system.parts, system.full_name]
        )
    matching = fitting_names(reference, list(known), known)
    if len(matching) == 1:
        return matching[0]
    names = "; ".join(list(matching or known)[:5])
    if matching:
        problem = f"--reference: {plain(reference)!r} matches several systems"
        raise UsageError(
            problem, hint=f"be more specific; matches: {names}", heading="unknown-system"
        )
    problem = f"--reference: no system matches {plain(reference)!r}"
    raise UsageError(problem, hint=f"available: {names}", heading="unknown-system")


def _model_comparison(
    name: str | None,
    systems: list[SystemResult],
    reference: str | None,
    notes: list[Note],
    mode: Mode,
) -> ModelComparison:
    title = _title(name, systems)
    systems = in_printed_unit(in_steps(systems))
    baseline = next((system for system in systems if system.name == reference), None)
    if reference is not None and baseline is None and len(systems) > 1:
        notes.append(Note("baseline-absent", {"model": title, "reference": reference}))
    works = by_work(systems)
    placed = {system for work in works for system in work}
    others = [system for system in systems if system not in placed]
    if baseline is not None and baseline not in placed:
        # Nothing can be compared with this baseline: each system states why.
        works = []
        others = systems
    groups: list[Group] = []
    for work in works or [[]]:
        own = None
        if any(system is baseline for system in (*work, *others)):
            own = baseline
        if len(works) < 2:
            titled = title
        else:
            titled = _title_of_work(name, work, works)
        alone = [] if groups else others
        groups.append(group_of(work, alone, own, mode, titled))
    short = re.sub(r", [\w.]{1,12} parameters", "", title)
    return ModelComparison(name, title, tuple(sorted(groups, key=evidence, reverse=True)), short)


def _title_of_work(
    name: str | None, work: Sequence[SystemResult], works: Sequence[Sequence[SystemResult]]
) -> str:
    """Return the title of a model, with what distinguishes this group's work from that of the other
    groups.
    """
    parts = [_title(name, work)]
    others: list[Run] = []
    for group in works:
        if group is not work:
            for system in group:
                others.append(system.run)
    length = work[0].run.training_config.sequence_length
    if any(other.training_config.sequence_length != length for other in others):
        parts.append(f"sequence length {length or 'unknown'}")
    for system, other in itertools.product(work, others):
        conflict = shape_conflict(system.run.model_config, other.model_config)
        if conflict is not None:
            own = Note(conflict.code, {**conflict.fields, "second": None})
            parts += sentences([own])
    return ", ".join(dict.fromkeys(parts))


def _title(name: str | None, systems: Sequence[SystemResult]) -> str:
    """Return the title of a model, or the titles of the different models that have this name."""
    counts = Counter(title_of(name, system.run) for system in systems)
    if len(counts) <= MOST_TITLES:
        return join_names([title for title, _ in counts.most_common()])
    many = "unnamed models"
    if name:
        many = f"models named {plain(name)}"
    return f"{len(counts)} {many}"


MOST_TITLES = 3
"""Most models of one name, such as different scales or sizes, that a title lists."""


def title_of(name: str | None, run: Run) -> str:
    """Return the title of a run's model. If it isn't the full model of that name, the title has its
    scale or size instead.
    """
    title = plain(models.title(name))
    count = models.parameters(run.model_config)
    base, _, task = (name or "").lower().rpartition("_")
    words = {"lora": "LoRA", "sft": "fine-tuning"}.get(task)
    if words and (row := models.find(base)):
        title = f"{row.title}, {words}"
    if run.scale not in (None, "full"):
        size = f", {units.count(count)} parameters" if count else ""
        return f"{title.split()[0]} {plain(run.scale)}{size}"
    if models.denies(name, run.model_config):
        size = "of another shape"
        if count:
            size = f"of {units.count(count)} parameters"
        return f"a model {size}, named {plain(name or '')}"
    return title
