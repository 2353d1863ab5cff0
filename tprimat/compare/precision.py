"""The precision that a user states for results that don't."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tprimat.analysis.efficiency import Options
from tprimat.catalog import prices
from tprimat.compare.result import Loaded
from tprimat.compare.systems import name_systems, same_system
from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.results.run import Run
from tprimat.text import plain


def fill(files: Sequence[Loaded], options: Options, notes: list[Note]) -> Sequence[Loaded]:
    """Return the files with the user's precision in each run that doesn't state its own.

    Adds to `notes` which files it was filled in for. Raises UsageError for a name that matches no
    system, or for several precisions of one system.
    """
    if options.precision is None and not options.precisions:
        return files
    chosen = _chosen(files, options, notes)
    filled: dict[str, dict[str, None]] = {}

    def complete(run: Run, file: str) -> Run:
        if run.training_config.precision is not None:
            return run
        precision = chosen.get(_key(run), options.precision)
        if precision is not None:
            filled.setdefault(precision, {})[plain(file)] = None
        config = msgspec.structs.replace(run.training_config, precision=precision)
        return msgspec.structs.replace(run, training_config=config)

    completed = []
    for each in files:
        completed.append(
            Loaded(each.name, each.sha256, tuple(complete(run, each.name) for run in each.runs))
        )
    for precision, names in filled.items():
        notes.append(Note("precision-given", {"precision": precision, "files": tuple(names)}))
    return completed


def _key(run: Run) -> tuple[object, ...]:
    return (run.model, *same_system(run))


def _chosen(
    files: Sequence[Loaded], options: Options, notes: list[Note]
) -> dict[tuple[object, ...], str]:
    """Return the precisions that the user states for systems by name, by the keys of the
    systems.
    """
    if not options.precisions:
        return {}
    models: dict[str | None, dict[tuple[object, ...], Run]] = {}
    for file in files:
        for run in file.runs:
            models.setdefault(run.model, {}).setdefault(_key(run), run)
    named = name_systems({model: list(runs.values()) for model, runs in models.items()})
    systems = []
    for model, runs in models.items():
        for system, (key, run) in zip(named[model], runs.items(), strict=True):
            systems.append((system, key, run))
    names = list(dict.fromkeys(system.name for system, _, _ in systems))
    # Systems of two models may share a name.
    full = [f"{system.gpu or ''} {system.full_name}" for system, _, _ in systems]
    chosen: dict[tuple[object, ...], str] = {}
    for name, precision in options.precisions.items():
        fitting = prices.fitting_names(name, names) or prices.fitting_names(name, full)
        if not fitting:
            problem = f"--precision: no system matches {plain(name)!r}"
            raise UsageError(
                problem, hint=f"available: {'; '.join(names[:5])}", heading="unknown-system"
            )
        unstated = []
        for (system, key, run), text in zip(systems, full, strict=True):
            if (
                system.name in fitting or text in fitting
            ) and run.training_config.precision is None:
                unstated.append(key)
        if any(key in chosen for key in unstated):
            problem = f"--precision: {plain(name)!r} matches a system with another --precision"
            raise UsageError(problem, heading="wrong-usage", hint="use a longer part of its name")
        if not unstated:
            notes.append(Note("precision-ignored", {"name": name, "precision": precision}))
        chosen |= dict.fromkeys(unstated, precision)
    return chosen
