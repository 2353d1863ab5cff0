"""What the time of two or more runs is spent on, side by side: from trace reports, or from a
framework's own timers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tprimat import units
from tprimat.compare import ModelComparison, RunResult
from tprimat.report.blocks import Table
from tprimat.report.explain import of_model
from tprimat.results.run import Run
from tprimat.text import plain, shortened

PARTS = (
    "total",
    "computation",
    "exposed_communication",
    "exposed_copies",
    "idle",
    "communication",
    "copies",
)
"""Parts that come first, in this order; the others follow, the longest first."""

ADDING_UP = ("computation", "exposed_communication", "exposed_copies", "idle")
"""Parts of a trace report that make up its total, without overlap."""

OF_LOOP = ("data_wait_s", "compute_s")
"""Parts that the training loop measures over all steps; they don't belong to a trace, which covers
other steps.
"""

MOST_KERNELS = 5
"""Most kernels of each run in a table."""

LONGEST_NAME = 72
"""Most characters of a kernel's name."""

_TRACED = (
    "A trace report covers all that was traced and does not state the number of steps: compare"
    " shares of the total, and times only if the traced work is equal. Kernels are the"
    f" {MOST_KERNELS} longest of each run; their names differ between vendors."
)
_PROFILED = (
    "Means per profiled step, from the traces of PyTorch's profiler, which slows the training."
    " Categories, collectives (as far as computation doesn't hide them), exposed copies and idle"
    " time by cause add up to the total."
)
_TIMED = (
    "Mean times per step by each framework's own timers. They may cover different parts of a step,"
    " and steps that the mean step time excludes."
)


_NOTES = {"report": _TRACED, "trace": _PROFILED, "timers": _TIMED}
"""Notes below a table, by the source of its breakdowns."""


def breakdowns(model: ModelComparison, caption: str = "") -> list[tuple[Table, str]]:
    """Return a table with a note for each kind of breakdown that at least two runs have."""
    tables = []
    for kind, note in _NOTES.items():
        names, runs = _named(model, (kind,))
        # For two systems with traces, the explanation of their difference replaces the table.
        if len(runs) > 1 and not (kind == "trace" and of_model(model)):
            rows = [[_title(part), *(_cell(run, part) for run in runs)] for part in _parts(runs)]
            tables.append((Table(["", *names], rows, caption=caption), note))
    return tables


def _kind(run: Run) -> str:
    if run.trace is not None:
        return "trace"
    if run.framework == "tracelens":
        return "report"
    return "timers"


def _named(
    model: ModelComparison, kinds: Sequence[str], needed: str | None = None
) -> tuple[list[str], list[Run]]:
    """Return names and runs. Each run is a column: traces seldom state their GPU, so two systems
    may look like one.
    """
    names = []
    of_files = []
    of_runs = []
    runs = []
    for system in model.systems:
        for number, result in enumerate(system.runs, 1):
            breakdown = result.run.breakdown
            has_values = breakdown.get(needed) if needed else breakdown
            if has_values and _kind(result.run) in kinds:
                names.append(system.name)
                of_files.append(f"{system.name}, {_origin(result)}")
                of_runs.append(f"{system.name}, run {number}")
                runs.append(result.run)
    # The shortest names that tell the runs apart.
    if len(set(names)) < len(names):
        names = of_files
    if len(set(names)) < len(names):
        names = of_runs
    return list(map(plain, names)), runs


def _title(part: str) -> str:
    if " " not in part:
        part = part.removesuffix("_s").replace("_", " ")
    return shortened(plain(part), LONGEST_NAME)


def _parts(runs: Sequence[Run]) -> list[str]:
    most: dict[str, float] = {}
    kernels: set[str] = set()
    for run in runs:
        of_run: list[tuple[float, int, str]] = []
        for part, time in run.breakdown.items():
            if part in OF_LOOP and run.trace is not None:
                continue
            most[part] = max(most.get(part, 0.0), time or 0.0)
            if part.startswith("kernel "):
                of_run.append((-(time or 0.0), len(of_run), part))
        kernels |= {part for *_, part in sorted(of_run)[:MOST_KERNELS]}
    others = []
    for part in most:
        if part not in PARTS and (not part.startswith("kernel ") or part in kernels):
            others.append(part)
    kinds = {"category": 0, "collective": 1, "kernel": 2}
    others.sort(key=lambda part: (kinds.get(part.split(" ")[0].rstrip(","), 3), -most[part]))
    return [*(part for part in PARTS if part in most), *others]


def _cell(run: Run, part: str) -> str:
    value = run.breakdown.get(part)
    if value is None:
        return units.UNKNOWN
    total = run.breakdown.get("total")
    time = f"{value * 1e3:,.2f} ms" if value < 1 else units.seconds(value)
    if not total or part == "total":
        return time
    return f"{time} ({value / total:.1%})"


def _origin(result: RunResult) -> str:
    """Return what distinguishes runs of one system: the log, else the result file."""
    source = result.run.source
    path = source.files[0].path if source is not None and source.files else result.file
    return PurePath(path).name


def shares(model: ModelComparison) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """Return the names of the runs with trace reports, and the parts that add up to the total, in
    %; None if unknown.
    """
    names, runs = _named(model, ("report", "trace"), needed="total")
    parts = []
    for part in ADDING_UP:
        values: list[float | None] = []
        for run in runs:
            time = run.breakdown.get(part)
            total = run.breakdown["total"]
            values.append(None if time is None or not total else 100 * time / total)
        if any(value is not None for value in values):
            parts.append((_title(part), values))
    return names, parts
