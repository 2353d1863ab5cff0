"""Many sources -> result files: which tell of one training, under which name, and what is shown of it all."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tprimat import units
from tprimat.analysis import metrics
from tprimat.cli import _details as facts
from tprimat.cli import _display
from tprimat.cli._display import Verbosity, info
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.log_import.sources import ImportedRun, LogSource, Outcome, digest_of
from tprimat.read import merge
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.text import plain, shortened

MOST_PASSED = 4
"""Files passed over for one reason that are named; the rest is counted."""

FULL_ACCOUNT = 3
"""Up to so many trainings are shown in full; more are a table, and the warnings stand in the results."""


@dataclasses.dataclass
class _Kept:
    title: str
    found: ImportedRun
    run: Run
    told_by: list[str]


class LogImport:
    """Takes what was read, unit by unit, and writes the results of a folder once it is over.

    Args:
        folder: for the results.
        label: the user's name for the setup.
    """

    def __init__(self, folder: Path, label: str | None) -> None:
        self._folder = folder
        self._label = label
        self._group: str | None = None
        self._waiting: list[_Kept] = []
        self._rows: list[tuple[str, Run, metrics.Summary, tuple[str, ...], str]] = []
        self._passed: list[tuple[str, str]] = []
        self._errors: list[str] = []
        self._taken: set[Path] = set()

    def pass_over(self, path: str, reason: str) -> None:
        """Notes a file that is none of ours."""
        self._passed.append((path, reason))

    def take(self, unit: LogSource, outcome: Outcome) -> None:
        """Takes what became of a unit."""
        if unit.group != self._group:
            self._write()
            self._group = unit.group
        if outcome.error is not None:
            if unit.named:
                # Which dialects there are is a long list by now; the help has it.
                short = outcome.error.partition(": what is looked for")[0]
                hint = ": name the log of a training (--help lists the kinds)" if short != outcome.error else ""
                self._errors.append(short + hint)
            else:
                path, _, reason = outcome.error.partition(": ")
                reason = reason if unit.title in path else outcome.error
                self._passed.append((unit.title, reason.partition(": what is looked for")[0]))
            return
        if not outcome.found:
            self._passed.append((unit.title, "holds nothing of a training"))
        for found in outcome.found:
            self._waiting.append(_Kept(unit.title, found, found.run, [unit.title]))

    def finish(self) -> int:
        """Writes what is left, shows what there is, and says how the command ends."""
        self._write()
        self._show()
        for error in self._errors:
            print(f"error: {plain(error)} (docs/troubleshooting.md#not-a-training-log)", file=sys.stderr)
        if not self._rows and not self._errors:
            print(
                "error: no training was found: name the log of a training (docs/troubleshooting.md#not-a-training-log)",
                file=sys.stderr,
            )
        return ExitStatus.USAGE if self._errors or not self._rows else ExitStatus.WELL

    def _write(self) -> None:
        kept, self._waiting = _once(self._waiting, self._passed), []
        for each in kept:
            run = msgspec.structs.replace(each.run, label=self._label) if self._label else each.run
            path = self._place(run, each.title)
            saved = store.save_as(run, path)
            self._taken.add(saved.path)
            self._rows.append((each.title, run, metrics.summarize(run), each.found.notes, str(saved.path)))
            _display.record(run, saved.path, each.title)
            _display.current().notes.extend(f"{each.title}: {note}" for note in each.found.notes)

    def _place(self, run: Run, title: str) -> Path:
        """A file of its own for each training: the usual name, or with the source's where that is taken."""
        usual = store.file_name(run)
        stem = usual.removesuffix(".json")
        source = Path(title.partition(" (")[0])
        parts = [re.sub(r"[^A-Za-z0-9.+-]+", "-", part).strip(".-")[:40] for part in (source.parent.name, source.stem)]
        full = "_".join(part for part in parts if part)
        tries = [usual, f"{stem}_{parts[1] or 'log'}.json", f"{stem}_{full or 'log'}.json"]
        tries.append(f"{stem}_{full or 'log'}_{digest_of(run)}.json")
        number = 1
        for name in tries:
            path = self._folder / name
            if path not in self._taken and (not path.exists() or _same_source(path, run)):
                return path
        while True:
            number += 1
            path = self._folder / f"{tries[-1].removesuffix('.json')}_{number}.json"
            if path not in self._taken and (not path.exists() or _same_source(path, run)):
                return path

    def _show(self) -> None:
        everything = _display.verbosity() is Verbosity.VERBOSE
        if everything or len(self._rows) <= FULL_ACCOUNT:
            for row in self._rows:
                _show_one(*row)
        else:
            _show_table(self._rows)
        reasons: dict[str, list[str]] = {}
        for path, reason in self._passed:
            reasons.setdefault(reason, []).append(path)
        _display.current().values["passed_over"] = [{"path": path, "reason": reason} for path, reason in self._passed]
        _display.current().values["errors"] = list(self._errors)
        if self._passed:
            info(f"passed over: {len(self._passed)} file{'s' if len(self._passed) > 1 else ''}")
        for reason, paths in reasons.items():
            most = len(paths) if everything else MOST_PASSED
            shown = ", ".join(plain(path, 100) for path in paths[:most])
            more = f" and {len(paths) - most} more" if len(paths) > most else ""
            info(f"  {plain(reason, 200)}: {shown}{more}")


def _once(waiting: list[_Kept], passed: list[tuple[str, str]]) -> list[_Kept]:
    """The trainings of a folder, each once: the structured source's, filled up from the others."""
    kept: list[_Kept] = []
    # Whole ones before parts of them, what was written for machines before consoles.
    for each in sorted(waiting, key=lambda one: (not one.found.structured, -len(one.run.steps))):
        same = next((one for one in kept if _same(one, each)), None)
        if same is None:
            kept.append(each)
            continue
        untimed = not any(same.run.step_times) and any(each.run.step_times)
        first, second = (each, same) if untimed else (same, each)
        same.run = merge.filled(first.run, second.run, plain(Path(second.title).name, 80))
        same.told_by.append(each.title)
        same.found = dataclasses.replace(same.found, notes=(*same.found.notes, *each.found.notes))
        passed.append((each.title, f"tells of the training that {same.title} is of, and fills what is open there"))
    order = {id(each): index for index, each in enumerate(waiting)}
    return sorted(kept, key=lambda one: order[id(one)])


def _same(one: _Kept, other: _Kept) -> bool:
    # Two trainings of one log were told apart by its reader.
    return one.title != other.title and merge.same_training(one.run, other.run)


def _same_source(path: Path, run: Run) -> bool:
    """Whether a result is of the very files that a run was read from."""
    try:
        earlier = store.read(path)
    except UnreadableError:
        return False
    mine = [(file.path, file.sha256) for file in run.source.files] if run.source else []
    theirs = [(file.path, file.sha256) for file in earlier[0].source.files] if earlier[0].source else []
    alike = any(a == b or (c is not None and c == d) for (a, c), (b, d) in zip(mine, theirs, strict=False))
    return len(earlier) == 1 and len(mine) == len(theirs) and alike and earlier[0].lines[:1] == run.lines[:1]


def _figures(run: Run, summary: metrics.Summary) -> tuple[str, str]:
    figures = summary.performance
    return units.seconds(figures.avg_step_time_seconds), units.number(figures.tokens_per_second_per_gpu)


def _recognised(run: Run) -> str:
    return (run.source.dialect if run.source else None) or run.framework or "unknown"


def _show_one(title: str, run: Run, summary: metrics.Summary, notes: tuple[str, ...], path: str) -> None:
    info(plain(f"{title}: {_recognised(run)}: {run.status}"))
    if run.status_reason:
        info(f"  because: {plain(run.status_reason)}")
    training = run.training_config
    time, rate = _figures(run, summary)
    planned = f" of {training.max_steps}" if training.max_steps else ""
    last = f", up to step {run.steps[-1]}{planned}" if run.steps else ""
    rows = (
        ("model", run.model),
        ("GPUs", run.num_gpus),
        ("global batch size", training.global_batch_size),
        ("sequence length", training.sequence_length),
        ("precision", training.precision),
        ("records", f"{len(run.steps)}{last}"),
        ("step time", time),
        ("tokens/s/GPU", rate),
        *((f"share of {name}", units.seconds(value)) for name, value in list(run.breakdown.items())[:12]),
    )
    for label, value in rows:
        info(f"  {label:<18} {units.UNKNOWN if value in (None, '') else plain(str(value))}")
    for line in facts.lines(run, summary):
        _display.debug(f"  {line}")
    for note in notes:
        info(f"  note: {plain(note)}")
    for warning in dict.fromkeys((*run.warnings, *summary.warnings)):
        info(f"  warning: {plain(warning)}")
    info(f"Results saved to: {plain(path)}")


def _show_table(rows: list[tuple[str, Run, metrics.Summary, tuple[str, ...], str]]) -> None:
    header = ("source", "recognised as", "records", "step time", "tokens/s/GPU", "status", "result")
    table = [header]
    for title, run, summary, _, path in rows:
        figures = _figures(run, summary)
        cells = (shortened(plain(title), 56), plain(_recognised(run), 34), str(len(run.steps)), *figures, run.status)
        table.append((*cells, plain(Path(path).name)))
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        info("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    info(f"{len(rows)} results are in {plain(str(Path(rows[0][4]).parent))}; each holds what is doubtful of it")


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on a terminal, and nothing elsewhere. Gives what is to be called when a unit is done."""
    aloud = _display.verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE)
    if total < 2 or not sys.stderr.isatty() or not aloud:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda title: bar.update(task, advance=1, description=shortened(plain(title), 40).replace("[", "("))
