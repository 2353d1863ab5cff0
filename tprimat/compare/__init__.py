"""Runs -> Comparison: which sides there are, their figures, and each against a reference.

Models are never crossed. Speed is compared by tokens/s/GPU. Where that can't be done, the reason
stands in the place of the ratio. A ratio has a place for an interval; without one it says nothing
about other runs.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from tprimat.analysis import metrics, run_order
from tprimat.analysis.efficiency import Options
from tprimat.analysis.summary import WITHHELD, summarize, summarize_segments
from tprimat.catalog import models
from tprimat.checks import physics, training
from tprimat.checks.compute import Mode
from tprimat.checks.settings import SETTINGS
from tprimat.compare.pairs import pair
from tprimat.compare.ratios import RATE
from tprimat.compare.result import (
    Comparison,
    Figure,
    Group,
    Loaded,
    ModelComparison,
    Pair,
    Ratio,
    RunResult,
    SettingRow,
    SideResult,
)
from tprimat.compare.sides import Side, measurement, name_sides, same_side
from tprimat.errors import UsageError
from tprimat.results.run import Run
from tprimat.text import plain

__all__ = [
    "Comparison",
    "Figure",
    "Group",
    "Loaded",
    "ModelComparison",
    "Pair",
    "Ratio",
    "RunResult",
    "SettingRow",
    "Side",
    "SideResult",
    "compare",
]


NOTHING_KNOWN = Options()

ABOUT_REFERENCE = "--reference sets all against one"
"""The end of a note that says which side is the reference."""


def compare(
    files: Sequence[Loaded],
    *,
    reference: str | None = None,
    model: str | None = None,
    notes: Sequence[str] = (),
    mode: Mode = "max",
    options: Options = NOTHING_KNOWN,
) -> Comparison:
    """Set the sides of each model against each other.

    Without a reference, sides that trained the same scale with the same batch and sequence are set
    against the first of them, and what is alone with its workload against the first of all.

    Args:
        files: results in the order in which they were named.
        reference: part of the name of the side that all others are compared with.
        model: look at this model alone.
        notes: what was said of the files already.
        mode: "identical" refuses every difference of configuration.
        options: what the user knows and the results don't say. A precision fills in what they leave
            open, for the judge too; the files stay as they are.

    Raises:
        UsageError: no side, several sides or no model has the name asked for.
    """
    said = list(notes)
    if model is not None:
        files = _of_model(files, model)
    by_model: dict[str | None, dict[tuple[object, ...], list[tuple[Run, str]]]] = {}
    filled = set()
    for run, file in _entries(files, said):
        if options.precision is not None and run.training_config.precision is None:
            config = msgspec.structs.replace(run.training_config, precision=options.precision)
            run = msgspec.structs.replace(run, training_config=config)
            filled.add(file)
        name = plain(run.model) or None if run.model else None
        by_model.setdefault(name, {}).setdefault(same_side(run), []).append((run, file))
    sides = name_sides({name: [runs[0][0] for runs in groups.values()] for name, groups in by_model.items()})
    results = {
        name: [_side_result(side, runs) for side, runs in zip(sides[name], groups.values(), strict=True)]
        for name, groups in by_model.items()
    }
    every = [side for group in results.values() for side in group]
    chosen = None if reference is None else _chosen(reference, every)
    compared = tuple(_model_comparison(name, group, chosen, said, mode) for name, group in results.items())
    parts = every[0].parts if every else ()
    shared = tuple(part for part in parts if all(part in side.parts for side in every))
    if filled:
        said.append(
            f"precision {options.precision} as given on the command line, where the result doesn't state it: "
            f"{', '.join(sorted(filled))}"
        )
    return Comparison(compared, shared, tuple(map(plain, said)), tuple(files), mode, options=options)


def _entries(files: Sequence[Loaded], notes: list[str]) -> list[tuple[Run, str]]:
    """All runs; one that several files hold, such as a copy in another folder, only once."""
    kept: list[tuple[Run, str]] = []
    seen: dict[tuple[object, ...], tuple[str, tuple[object, ...]]] = {}
    for file in files:
        for run in file.runs:
            side, key = same_side(run), (run.model, *measurement(run))
            timed = any(time is not None for time in run.step_times)
            earlier = seen.setdefault(key, (file.name, side)) if timed else None
            if earlier is not None and earlier != (file.name, side):
                if earlier[1] == side:
                    notes.append(f"{file.name} holds the same run as {earlier[0]}: counted once")
                    continue
                if key[-1] is None:
                    notes.append(
                        f"{file.name} and {earlier[0]} hold the same step times under different setups: "
                        "they are one measurement, so comparing them says nothing"
                    )
            kept.append((run, file.name))
    return kept


def _of_model(files: Sequence[Loaded], model: str) -> list[Loaded]:
    """The files with runs of a model, and no other runs in them."""
    kept = [
        Loaded(file.name, file.sha256, runs)
        for file in files
        if (runs := tuple(run for run in file.runs if model.casefold() in map(str.casefold, _names(run))))
    ]
    if not kept:
        there = ", ".join(sorted({_names(run)[0] for file in files for run in file.runs}))
        raise UsageError(f"no result is of the model {plain(model)!r}: there are {there}", heading="unknown-model")
    return kept


def _names(run: Run) -> tuple[str, str]:
    return plain(run.model or "unnamed model"), models.title(run.model)


def _side_result(side: Side, runs: Sequence[tuple[Run, str]]) -> SideResult:
    summaries = [summarize(run) for run, _ in runs]
    timed = [summary.performance.avg_step_time_seconds is not None for summary in summaries]
    complete = [run.status == "complete" and has for (run, _), has in zip(runs, timed, strict=True)]
    # A run that broke off says less than one that ended, and is only used where there is none.
    counted = complete if any(complete) else timed
    if sum(counted) > 1:
        # The level that one of several runs happened to end on is not its figure.
        summaries = [summarize_segments(run, summary) for (run, _), summary in zip(runs, summaries, strict=True)]
    results = tuple(
        RunResult(run, summary, file, is_counted)
        for (run, file), summary, is_counted in zip(runs, summaries, counted, strict=True)
    )
    judged = [result for result in results if result.counted]
    findings = dict.fromkeys(
        finding
        for result in judged
        for finding in (*physics.findings(result.run, result.summary), *training.findings(result.run))
    )
    doubts = [warning for result in results for warning in result.summary.warnings]
    if any(finding.rule == "own-rate" and finding.gravity == "impossible" for finding in findings):
        # The finding says the same, and what would explain it.
        doubts = [doubt for doubt in doubts if not doubt.startswith(WITHHELD)]
    statuses = [_said_of_status(result) for result in results if result.run.status != "complete"]
    warnings = [warning for result in results for warning in result.run.warnings]
    rates = [rate for result in judged if (rate := result.value(RATE)) is not None]
    return SideResult(
        **vars(side),
        runs=results,
        figures=_figures(judged),
        doubts=_each_once([*doubts, *(finding.text for finding in findings if finding.gravity != "note")]),
        warnings=_each_once([*statuses, *warnings]),
        findings=tuple(findings),
        order=run_order.run_order_trend(rates),
    )


def _said_of_status(result: RunResult) -> str:
    outcome = "failed" if result.run.status == "failed" else "is incomplete"
    reason = f": {result.run.status_reason}" if result.run.status_reason else ""
    use = "its figures are shown" if result.counted else "left out of the figures"
    return f"a run {outcome}{reason}; {use}"


def _each_once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(plain, texts)))


def _figures(results: Sequence[RunResult]) -> dict[str, Figure]:
    figures = {}
    for metric in metrics.METRICS:
        values = [float(known) for result in results if (known := result.value(metric.name)) is not None]
        if values:
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            over = over_runs(metric.name)
            value = max(values) if over == "highest" else min(values) if over == "lowest" else statistics.fmean(values)
            figures[metric.name] = Figure(value, low, high, len(values))
    return figures


def over_runs(name: str) -> str:
    """Which value over the runs of a side is its figure of a metric: the highest, the lowest or the mean."""
    if name.startswith(("peak_", "max_")):
        return "highest"
    return "lowest" if name.startswith("min_") else "mean"


def _chosen(reference: str, sides: Sequence[SideResult]) -> str:
    """The name of the side that a user means.

    A whole name counts before a word of it, and a word before a part of a word: H200 is not GH200.
    """
    wanted, words = _matchable(reference), _words(reference)
    known: dict[str, list[str]] = {}
    for side in sides:
        known.setdefault(side.name, []).append(_words(" ".join([side.gpu or "", *side.parts])))
    tests = (
        [name for name in known if wanted == _matchable(name)],
        [name for name in known if words in _words(name)],
        [name for name in known if wanted in _matchable(name)],
        [name for name, texts in known.items() if any(words in text for text in texts)],
    )
    matching = next(filter(None, tests), []) if wanted else []
    if len(matching) == 1:
        return matching[0]
    problem = "means several sides" if matching else "is no side"
    raise UsageError(
        f"--reference {plain(reference)!r} {problem}: name one of {'; '.join(matching or known)}",
        heading="unknown-side",
    )


def _matchable(text: str) -> str:
    return " ".join(plain(text).casefold().replace("×", "x").split())


def _words(text: str) -> str:
    """Words with a space on either side; 8xh200 is two."""
    return f" {' '.join(re.sub(r'(?<=[0-9])x', ' ', _matchable(text)).replace(',', ' ').split())} "


def _model_comparison(
    name: str | None, sides: list[SideResult], reference: str | None, notes: list[str], mode: Mode
) -> ModelComparison:
    title = plain(models.title(name))
    first = next((side for side in sides if side.name == reference), None)
    if reference is not None and first is None and len(sides) > 1:
        notes.append(f"{title}: there is no side {reference}, so the first one is the reference")
    if first is None:
        gathered = [_believed_first(title, group, notes) for group in _by_workload(sides)]
    else:
        gathered = [[first, *(side for side in sides if side is not first)]]
    # The groups that have an answer come first.
    groups = tuple(
        sorted((_group(each, mode) for each in gathered), key=lambda group: not any(pair.ratio for pair in group.pairs))
    )
    if len(groups) > 1:
        notes.append(
            f"{title}: the sides did {len(groups)} different workloads, each set against the first side of its own; "
            f"{ABOUT_REFERENCE}"
        )
    return ModelComparison(name, title, groups)


def _believed_first(title: str, sides: list[SideResult], notes: list[str]) -> list[SideResult]:
    """The sides, with one in front that others can be compared with, where the first can't be."""
    best = next(
        (
            side
            for side in sides
            if side.refusal is None and side.value(RATE) is not None and not side.run.environment.emulated
        ),
        sides[0],
    )
    if best is sides[0] or len(sides) < 3:
        return sides
    notes.append(
        f"{title}: nothing can be set against {sides[0].name}, so {best.name} is the reference; {ABOUT_REFERENCE}"
    )
    return [best, *(side for side in sides if side is not best)]


def _by_workload(sides: Sequence[SideResult]) -> list[list[SideResult]]:
    """Sides that did the same work together; those alone with theirs join the first group."""
    same: dict[object, list[SideResult]] = {}
    for side in sides:
        config, run = side.run.training_config, side.run
        known = config.global_batch_size is not None and config.sequence_length is not None
        key = (run.scale, config.global_batch_size, config.sequence_length) if known else id(side)
        same.setdefault(key, []).append(side)
    first, *others = same.values()
    first = [*first, *(side for group in others if len(group) == 1 for side in group)]
    return [first, *(group for group in others if len(group) > 1)]


def _group(sides: Sequence[SideResult], mode: Mode) -> Group:
    pairs = tuple(pair(sides[0], side, mode=mode) for side in sides[1:])
    rows = [
        SettingRow(setting.title, tuple(setting.read(side.run) for side in sides), setting.essential)
        for setting in SETTINGS
    ]
    rows.append(_versions(sides))
    return Group(tuple(sides), pairs, tuple(row for row in rows if row.essential or not row.unknown))


def _versions(sides: Sequence[SideResult]) -> SettingRow:
    """Packages whose versions the sides state and don't share."""
    stated = [side.run.environment.versions for side in sides]
    packages = sorted({name for versions in stated for name in versions})
    # torch has a row of its own.
    differing = [name for name in packages if name != "torch" and len({each.get(name) for each in stated}) > 1]
    values = tuple(
        plain(", ".join(f"{name} {each[name]}" for name in differing if name in each), 240) or None for each in stated
    )
    return SettingRow("other versions", values, essential=False)
