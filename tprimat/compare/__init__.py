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

from tprimat.analysis import metrics, run_order, warmup
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
from tprimat.compare.sides import Side, name_sides, same_side
from tprimat.compare.values import value
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
"""How a note ends that says what was set against what."""


def compare(
    files: Sequence[Loaded],
    *,
    reference: str | None = None,
    model: str | None = None,
    notes: Sequence[str] = (),
    mode: Mode = "max",
    options: Options = NOTHING_KNOWN,
) -> Comparison:
    """Sets the sides of each model against each other.

    Without a reference, sides that trained the same scale with the same batch and sequence are set
    against the first of them, and what is alone with its workload against the first of all.

    Args:
        files: results in the order in which they were named.
        reference: part of the name of the side that all others are set against.
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
    entries = [(_with_precision(run, options), file) for run, file in _entries(files, said)]
    by_model: dict[str | None, dict[tuple[object, ...], list[tuple[Run, str]]]] = {}
    for run, file in entries:
        name = plain(run.model) or None if run.model else None
        by_model.setdefault(name, {}).setdefault(same_side(run), []).append((run, file))
    sides = name_sides({name: [runs[0][0] for runs in groups.values()] for name, groups in by_model.items()})
    results = {
        name: [_side_result(side, runs) for side, runs in zip(sides[name], groups.values(), strict=True)]
        for name, groups in by_model.items()
    }
    chosen = _chosen(reference, [side for group in results.values() for side in group])
    compared = tuple(_model_comparison(name, group, chosen, said, mode) for name, group in results.items())
    every = [side.side.parts for group in results.values() for side in group]
    shared = tuple(part for part in (every[0] if every else ()) if all(part in parts for parts in every))
    filled = sorted({file.name for file in files for run in file.runs if _with_precision(run, options) is not run})
    if filled:
        said.append(
            f"precision {options.precision} as given on the command line, where the result doesn't state it: "
            f"{', '.join(filled)}"
        )
    notes = tuple(plain(note) for note in said)
    return Comparison(compared, shared, notes, tuple(files), mode, options=options)


def _with_precision(run: Run, options: Options) -> Run:
    """The run with the precision that the user knows, where it states none."""
    if options.precision is None or run.training_config.precision is not None:
        return run
    config = msgspec.structs.replace(run.training_config, precision=options.precision)
    return msgspec.structs.replace(run, training_config=config)


def _entries(files: Sequence[Loaded], notes: list[str]) -> list[tuple[Run, str]]:
    """All runs; one that several files hold, such as a copy in another folder, only once."""
    kept: list[tuple[Run, str]] = []
    seen: dict[tuple[object, ...], tuple[str, tuple[object, ...]]] = {}
    for file in files:
        for run in file.runs:
            side, times = same_side(run), [time for time in run.step_times if time is not None]
            # So many equal times are one measurement, whatever else the files say; a few short
            # ones, rounded, may be equal by chance.
            moment = None if len(times) >= warmup.MINIMUM_RECORDS else run.timestamp
            key = (run.model, run.step_times, run.loss_values, moment)
            earlier = seen.setdefault(key, (file.name, side)) if times else None
            if earlier is not None and earlier != (file.name, side):
                if earlier[1] == side:
                    notes.append(f"{file.name} holds the same run as {earlier[0]}: counted once")
                    continue
                if moment is None:
                    notes.append(
                        f"{file.name} and {earlier[0]} hold the same step times under different setups: "
                        "they are one measurement, so comparing them says nothing"
                    )
            kept.append((run, file.name))
    return kept


def _of_model(files: Sequence[Loaded], model: str) -> list[Loaded]:
    """The files with runs of a model, and no other runs in them."""
    wanted = model.casefold()
    kept = [
        Loaded(file.name, file.sha256, runs)
        for file in files
        if (runs := tuple(run for run in file.runs if wanted in (name.casefold() for name in _names(run))))
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
    said = [_said_of_status(result) for result in results]
    warnings = [warning for result in results for warning in result.run.warnings]
    doubts = [warning for result in results for warning in result.summary.warnings]
    judged = [result for result in results if result.counted]
    findings = dict.fromkeys(
        finding
        for result in judged
        for finding in (*physics.findings(result.run, result.summary), *training.findings(result.run))
    )
    if any(finding.rule == "own-rate" and finding.gravity == "impossible" for finding in findings):
        # The finding says the same, and what would explain it.
        doubts = [doubt for doubt in doubts if not doubt.startswith(WITHHELD)]
    rates = [rate for result in judged if (rate := value(result, RATE)) is not None]
    return SideResult(
        side,
        results,
        _figures(results),
        _each_once([*doubts, *(finding.text for finding in findings if finding.gravity != "note")]),
        _each_once([*filter(None, said), *warnings]),
        tuple(findings),
        run_order.run_order_trend(rates),
    )


def _said_of_status(result: RunResult) -> str | None:
    run = result.run
    if run.status == "complete":
        return None
    outcome = "failed" if run.status == "failed" else "is incomplete"
    reason = f": {run.status_reason}" if run.status_reason else ""
    use = "its figures are shown" if result.counted else "left out of the figures"
    return f"a run {outcome}{reason}; {use}"


def _each_once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plain(text) for text in texts))


def _figures(results: Sequence[RunResult]) -> dict[str, Figure]:
    figures = {}
    for metric in metrics.METRICS:
        values = [
            float(known) for result in results if result.counted and (known := value(result, metric.name)) is not None
        ]
        if values:
            several = len(values) > 1
            figures[metric.name] = Figure(
                value=_over_runs(metric.name, values),
                low=min(values) if several else None,
                high=max(values) if several else None,
                runs=len(values),
            )
    return figures


def _over_runs(name: str, values: Sequence[float]) -> float:
    if name.startswith(("peak_", "max_")):
        return max(values)
    return min(values) if name.startswith("min_") else statistics.fmean(values)


def _chosen(reference: str | None, sides: Sequence[SideResult]) -> str | None:
    """The name of the side that a user means.

    A whole name counts before a word of it, and a word before a part of a word: H200 is not GH200.
    """
    if reference is None:
        return None
    wanted = _matchable(reference)
    names = list(dict.fromkeys(side.side.name for side in sides))
    known = {name: [_words(_known(side)) for side in sides if side.side.name == name] for name in names}
    tests = (
        [name for name in names if wanted == _matchable(name)],
        [name for name in names if _words(reference) in _words(name)],
        [name for name in names if wanted in _matchable(name)],
        [name for name in names if any(_words(reference) in text for text in known[name])],
    )
    matching = next((found for found in tests if found), []) if wanted else []
    if len(matching) == 1:
        return matching[0]
    problem = "means several sides" if matching else "is no side"
    raise UsageError(
        f"--reference {plain(reference)!r} {problem}: name one of {'; '.join(matching or names)}",
        heading="unknown-side",
    )


def _known(side: SideResult) -> str:
    return " ".join([side.side.gpu or "", *side.side.parts])


def _matchable(text: str) -> str:
    return " ".join(plain(text).casefold().replace("×", "x").split())


def _words(text: str) -> str:
    """Words with a space on either side; 8xh200 is two."""
    return f" {' '.join(re.sub(r'(?<=[0-9])x', ' ', _matchable(text)).replace(',', ' ').split())} "


def _model_comparison(
    name: str | None, sides: list[SideResult], reference: str | None, notes: list[str], mode: Mode
) -> ModelComparison:
    title = plain(models.title(name))
    first = next((side for side in sides if side.side.name == reference), None)
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
    """The sides with one in front that others can be set against, where the first can't be."""

    def serves(side: SideResult) -> bool:
        return side.refusal is None and side.value(RATE) is not None and not side.run.environment.emulated

    best = next(filter(serves, sides), sides[0])
    if best is sides[0] or len(sides) < 3:
        return sides
    notes.append(
        f"{title}: nothing can be set against {sides[0].side.name}, so {best.side.name} is the reference; "
        f"{ABOUT_REFERENCE}"
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
