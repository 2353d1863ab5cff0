"""Summary of a session: results, comparison, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tprimat import console, units
from tprimat.analysis.summary import Summary
from tprimat.catalog import gpus
from tprimat.checks import physics, training
from tprimat.compare import Comparison, SystemResult, compare
from tprimat.compare.cost import efficiencies
from tprimat.console import Verbosity
from tprimat.frameworks import roofline
from tprimat.frameworks.request import Request
from tprimat.measure.display import framework_cell, print_table
from tprimat.measure.plan import Plan
from tprimat.report import document, published, terminal
from tprimat.report.rates import rate_of, rate_unit
from tprimat.report.verdict import report
from tprimat.results.run import Run, sentences
from tprimat.store import store
from tprimat.text import counted

Group = tuple[Request, Sequence[tuple[Run, Summary]]]
"""A request with those of its runs that left a result, complete or not."""

MOST_NAMES = 3
"""Runs that are named; of more, the number is printed."""


def results(
    plan: Plan, groups: Sequence[Group], files: Sequence[Path], without: str = "failed"
) -> None:
    """Print a row for each request and who is faster, as compare_results.py has it: of all runs in
    the files.

    A run that left no result has the status `without`.
    """
    comparison = compare(store.find(files)[0])
    by_run = {}
    for system in comparison.systems:
        for result in system.runs:
            by_run[store.fingerprint(result.run)] = system
    several = len(comparison.system_names) > 1
    is_named = several or len({(request.model, request.framework) for request, _ in groups}) < len(
        groups
    )
    rate = rate_unit(comparison.systems) if comparison.systems else "tokens/s"
    rows = []
    reached = []
    for request, runs in groups:
        marks = [store.fingerprint(run) for run, _ in runs]
        of_runs = next((by_run[mark] for mark in marks if mark in by_run), None)
        statuses = [run.status for run, _ in runs] + [without] * (plan.runs - len(runs))
        row = {"model": request.model, **framework_cell(plan, request)}
        if is_named:
            row["system"] = request.label or request.precision
        row |= {"runs": f"{statuses.count('complete')}/{plan.runs}", "steps": _steps(runs)}
        row |= {"step time": units.UNKNOWN, rate: units.UNKNOWN}
        row["status"] = next((status for status in statuses if status != "complete"), "complete")
        if of_runs is not None:
            if several and is_named:
                row["system"] = of_runs.name
            step_time = of_runs.value("avg_step_time_seconds")
            if step_time:
                row["step time"] = units.seconds(step_time)
            row[rate] = rate_of(of_runs)
            if of_runs.exclusion is not None:
                row["status"] = "excluded"
            valid = [store.fingerprint(result.run) for result in of_runs.valid_runs]
            earlier = len(valid) - sum(mark in valid for mark in marks)
            if earlier > 0:
                row["runs"] += f" and {counted(earlier, 'earlier run')}"
            text = _beside_calculated(comparison, request, of_runs)
            if text is not None:
                reached.append(f"{plan.name_of(request)}: {text}")
        rows.append(row)
    print_table(rows)
    for text in reached:
        console.info(text)
    for model in comparison.models:
        for text in published.beside(model):
            console.note(text)
    if len(plan.frameworks) == 1:  # of several, the whole comparison follows
        _answer(comparison)


def _steps(runs: Sequence[tuple[Run, Summary]]) -> str:
    """Return how many steps runs have, such as 30–50 of 100."""
    if not runs:
        return units.UNKNOWN
    counts = sorted(summary.performance.total_steps or 0 for _, summary in runs)
    steps = "–".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    requested = max(run.training_config.max_steps or 0 for run, _ in runs)
    if requested > counts[-1]:
        steps += f" of {requested}"
    return steps


def _beside_calculated(
    comparison: Comparison, request: Request, system: SystemResult
) -> str | None:
    """Return the MFU of a system with the calculated one; None if either is unknown."""
    gpu = gpus.match(system.run.gpu_info).gpu
    if gpu is None:
        return None
    held_bytes = 1e9 * (system.run.environment.memory_held_by_others_gb or 0.0)
    expected = roofline.expected(request, gpu, held_bytes)
    values = [efficiency.values for efficiency in efficiencies(comparison, system)]
    mfu = next((figures["mfu"].value for figures in values if "mfu" in figures), None)
    if expected is None or mfu is None:
        return None
    return f"MFU {mfu:.1f}%, {mfu / 100 / expected.mfu:.0%} of the calculated {expected.mfu:.0%}"


def _answer(comparison: Comparison) -> None:
    """Print which system is faster, by how much and how sure that is, if there are two to
    compare.
    """
    if any(len(group.systems) > 1 for model in comparison.models for group in model.groups):
        console.info("")
        answer = document.on_screen(report(comparison))
        text = terminal.write(answer, width=console.terminal_size()[0], verbosity=Verbosity.QUIET)
        console.info(text.rstrip("\n"))


def findings(plan: Plan, groups: Sequence[Group]) -> list[str]:
    """Return what should be known of the runs beyond the plan's notes, each text once and with the
    runs it concerns.

    These are the recorder's warnings and failed checks; with --verbose, all warnings and notes of
    the results.
    """
    verbose = console.verbosity() in (Verbosity.VERBOSE, Verbosity.JSON)
    concerned: dict[str, list[str]] = {}
    for request, runs in groups:
        for number, (run, summary) in enumerate(runs, 1):
            judgments = []
            for finding in (*training.findings(run), *physics.findings(run, summary)):
                if verbose or finding.severity != "info":
                    judgments.append(finding.note)
            # Runs that a time limit ended have different steps in what comes before the last colon.
            ended_early = run.status_reason if run.status == "complete" else None
            texts = [
                *([ended_early.rpartition(": ")[2]] if ended_early else []),
                *run.warnings,
                *(summary.warnings if verbose else ()),
                *sentences(judgments),
            ]
            name = plan.name_of(request) + (f", run {number}" if len(runs) > 1 else "")
            for text in dict.fromkeys(texts):
                if text not in plan.notes:
                    concerned.setdefault(text, []).append(name)
    everywhere = sum(len(runs) for _, runs in groups)
    return [_with_names(text, names, everywhere) for text, names in concerned.items()]


def _with_names(text: str, names: Sequence[str], everywhere: int) -> str:
    """Return a text with the runs it concerns, unless these are all of several."""
    if len(names) == everywhere > 1:
        return text
    if len(names) <= MOST_NAMES:
        return f"{'; '.join(names)}: {text}"
    return f"{len(names)} of {counted(everywhere, 'run')}: {text}"
