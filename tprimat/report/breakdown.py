"""Where the time goes, of two runs or more beside each other: from reports of traces, or a framework's own timers."""

from __future__ import annotations

import dataclasses
from pathlib import PurePath

from tprimat import units
from tprimat.compare import ModelComparison, RunResult
from tprimat.results.run import Run
from tprimat.text import plain, shortened

PARTS = ("total", "computation", "exposed_communication", "exposed_copies", "idle", "communication", "copies")
"""Parts that come first, in this order; the others follow in the order of the longest."""

MOST_KERNELS = 5
"""Kernels of each run that are shown."""

LONGEST_NAME = 72
"""Characters of a kernel's name."""


@dataclasses.dataclass(frozen=True)
class Breakdown:
    """A table of parts.

    Attributes:
        names: of the runs, the columns.
        rows: name of a part, and what each run says of it: its time and its share of the total.
        note: what must be known of it.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str


def breakdowns(model: ModelComparison) -> tuple[Breakdown, ...]:
    """Tables of the runs that have a breakdown by the same means; none where a kind has fewer than two.

    Runs of one side are columns of their own: traces seldom state their GPU, so what was meant as
    two sides may be one.
    """
    found = [(side.side.name, result) for side in model.sides for result in side.runs if result.run.breakdown]
    kinds: dict[bool, list[tuple[str, RunResult]]] = {}
    for name, result in found:
        kinds.setdefault(result.run.framework == "tracelens", []).append((name, result))
    return tuple(_table(kind, traced=traced) for traced, kind in kinds.items() if len(kind) > 1)


def _table(found: list[tuple[str, RunResult]], *, traced: bool) -> Breakdown:
    runs = [result.run for _, result in found]
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        names = [f"{name}, {_origin(result)}" for name, result in found]
    rows = []
    for part in _parts(runs):
        title = shortened(plain(part if " " in part else part.replace("_", " ")), LONGEST_NAME)
        rows.append((title, tuple(_cell(run, part) for run in runs)))
    note = (
        "Of reports of traces: each is of the whole stretch that was traced, of an unstated number of steps; shares of "
        "the total can be set against each other, times only where the stretches are of equal work. Kernels are shown "
        f"where they are among the {MOST_KERNELS} longest of a run; those of two vendors have different names."
        if traced
        else "Seconds of a step, by each framework's own timers, which needn't cover the same."
    )
    return Breakdown(tuple(plain(name) for name in names), tuple(rows), note)


def _parts(runs: list[Run]) -> list[str]:
    known = list(dict.fromkeys(part for run in runs for part in run.breakdown))
    first = [part for part in PARTS if part in known]
    most = {part: max(run.breakdown.get(part) or 0.0 for run in runs) for part in known}
    kernels = {
        part
        for run in runs
        for part in sorted(
            (part for part in run.breakdown if part.startswith("kernel ")),
            key=lambda part: -(run.breakdown[part] or 0.0),
        )[:MOST_KERNELS]
    }
    others = [part for part in known if part not in first and (not part.startswith("kernel ") or part in kernels)]
    kinds = {"category": 0, "collective": 1, "kernel": 2}
    others.sort(key=lambda part: (kinds.get(part.split(" ")[0].rstrip(","), 3), -most[part]))
    return [*first, *others]


def _cell(run: Run, part: str) -> str:
    value = run.breakdown.get(part)
    if value is None:
        return units.UNKNOWN
    total = run.breakdown.get("total")
    time = f"{value * 1e3:,.2f} ms" if value < 1 else units.seconds(value)
    return time if not total or part == "total" else f"{time} ({value / total:.1%})"


def _origin(result: RunResult) -> str:
    """What tells runs of one side apart: the log, else the result file."""
    source = result.run.source
    path = source.files[0].path if source is not None and source.files else result.file
    return PurePath(path).name


ADDING_UP = ("computation", "exposed_communication", "exposed_copies", "idle")
"""Parts of a report of a trace that make up its total, without overlap."""


def parts_of(model: ModelComparison) -> tuple[tuple[str, ...], list[tuple[str, list[float | None]]]] | None:
    """Shares of the total, in %, of the parts that add up to it, for the runs with reports of traces.

    Returns:
        Names of the runs, and each part with its share in each of them; None where fewer than two have any.
    """
    found = [
        (side.side.name, result)
        for side in model.sides
        for result in side.runs
        if result.run.framework == "tracelens" and result.run.breakdown.get("total")
    ]
    if len(found) < 2:
        return None
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        names = [f"{name}, {_origin(result)}" for name, result in found]
    parts: list[tuple[str, list[float | None]]] = []
    for part in ADDING_UP:
        values = [(result.run.breakdown.get(part), result.run.breakdown["total"]) for _, result in found]
        shares = [None if value is None or not total else 100 * value / total for value, total in values]
        if any(share is not None for share in shares):
            parts.append((part.replace("_", " "), shares))
    return tuple(plain(name) for name in names), parts
