"""Console output for imported logs."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence

from tprimat import console, units
from tprimat.analysis.summary import Summary
from tprimat.console import info
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.importer import ImportedResult
from tprimat.report import terminal, traces
from tprimat.report.rates import throughput
from tprimat.results.fields import FieldValues
from tprimat.results.run import Run
from tprimat.text import plain, runnable, shortened

NARROWEST = 20
"""Least width of the name of a log, in characters."""

Row = tuple[str, object, str | None]
"""Label, value, and the field whose line in the log is shown beside it."""


def show_extracted(extracted: ImportedRun, summary: Summary) -> None:
    """Print what was recognized, its line in the log, and the metrics."""
    run = extracted.run
    figures = summary.performance
    training = run.training_config
    spread = run.parallelism_config
    sizes = (
        ("TP", spread.tensor_model_parallel_size),
        ("PP", spread.pipeline_model_parallel_size),
        ("CP", spread.context_parallel_size),
        ("EP", spread.expert_model_parallel_size),
        ("DP", spread.data_parallel_size),
    )
    model = run.model
    if model and run.scale == "full":
        model += ", full size"
    rows = [
        ("model", model, "model"),
        ("GPUs", run.num_gpus, "num_gpus"),
        ("global batch size", training.global_batch_size, "global_batch_size"),
        ("micro-batch size", training.micro_batch_size, "micro_batch_size"),
        ("sequence length", training.sequence_length, "sequence_length"),
        (
            "parallelism",
            ", ".join(f"{name} {size}" for name, size in sizes if size),
            "tensor_model_parallel_size",
        ),
        ("precision", training.precision, "precision"),
        ("steps", _steps(run, summary), None),
    ]
    if figures.avg_step_time_seconds is not None:
        first = summary.steady.first_step
        last = summary.steady.last_step
        which = f"only step {first}" if first == last else f"mean of steps {first} to {last}"
        rows.append(("step time", f"{units.seconds(figures.avg_step_time_seconds)}, {which}", None))
    if figures.tokens_per_second_per_gpu is not None:
        rows.append(("throughput", "{1} {0}{2}".format(*throughput(summary)), None))
    memory = run.memory_metrics
    for label, held in (
        ("memory in use", memory.peak_memory_device_used_gb),
        ("memory allocated", memory.peak_memory_allocated_gb),
        ("memory reserved", memory.peak_memory_reserved_gb),
    ):
        if held is not None:
            rows.append((label, f"{units.gigabytes(held)} peak (highest GPU)", None))
    overridden = run.source.overrides if run.source else {}
    lines = {}
    for name, line in extracted.lines.items():
        if name not in overridden:
            lines[name] = f"line {line}"
    dialect = run.source.dialect if run.source else None
    _show(extracted.title, f"{run.framework} training, {dialect}", run, rows, lines)
    _show_rest(run, summary, extracted.notes)


def show_imported(result: ImportedResult) -> None:
    """Print what was recognized and the metrics."""
    run = result.run
    training = result.run.training_config
    if run.trace is not None and not run.steps:
        gpu = run.gpu_info.device_name or "unknown GPU"
        _show(result.title, f"{_log_format(run)}, {gpu}", run, (), {})
        info(terminal.write(traces.document(run.trace)).rstrip())
        _show_rest(run, dataclasses.replace(result.summary, notes=()), result.notes)
        info(f"Results saved to: {plain(str(result.path))}")
        return
    unit, *rate = throughput(result.summary)
    rows = [
        ("model", run.model, None),
        ("GPUs", run.num_gpus, None),
        ("global batch size", training.global_batch_size, None),
        ("sequence length", training.sequence_length, None),
        ("precision", training.precision, None),
        ("steps", _steps(run, result.summary), None),
        ("step time", _speed(result.summary)[0], None),
        (unit, "".join(rate), None),
    ]
    parts = list(run.breakdown.items())[:12]
    rows += [(f"part {shortened(name, 60)}", units.seconds(value), None) for name, value in parts]
    _show(result.title, _log_format(run), run, rows, {})
    _show_rest(run, result.summary, result.notes)
    info(f"Results saved to: {plain(str(result.path))}")


def show_table(results: Sequence[ImportedResult]) -> None:
    """Print a row for each result, as wide as the terminal. Long paths are cut at the start, since
    their ends tell more.
    """
    rows = [("steps", "step time", "tokens/s/GPU", "format", "status")]
    for result in results:
        steps = f"{result.summary.performance.total_steps or 0:,}"
        name = _log_format(result.run).split(" (")[0]
        rows.append((steps, *_speed(result.summary), name, result.run.status))
    cells = console.table(rows)
    folder = os.path.commonprefix([result.title for result in results]).rpartition(os.sep)[0]  # noqa: RUF071 - no paths
    titles = ["log"]
    for result in results:
        titles.append(plain(result.title.removeprefix(folder).strip(os.sep + " ")))
    room = max(console.terminal_size()[0] - 2 - max(map(len, cells)), NARROWEST)
    short = [shortened(title, room) for title in titles]
    for line in console.table(list(zip(short, cells, strict=True))):
        info(line)
    saved = str(results[0].path.parent)
    command = runnable(f"./compare_results.py {shlex.quote(saved)}")
    info(
        f"{len(results)} results saved in {plain(saved)}, with their warnings; to compare them:"
        f" {command}"
    )


def _log_format(run: Run) -> str:
    return (run.source and run.source.dialect) or run.framework or "unknown"


def _steps(run: Run, summary: Summary) -> str:
    """Return the last step, how many are planned, and how many of them are recorded."""
    if not run.steps:
        return "0"
    recorded = summary.performance.total_steps or 0
    notes = []
    if recorded != run.steps[-1]:
        notes.append(f"{recorded:,} recorded")
    if len(run.steps) != recorded:
        notes.append(f"{len(run.steps):,} log records")
    text = f"{run.steps[-1]:,}"
    if run.training_config.max_steps:
        text += f" of {run.training_config.max_steps:,}"
    if notes:
        return f"{text} ({', '.join(notes)})"
    return text


def _speed(summary: Summary) -> tuple[str, str]:
    return units.seconds(summary.performance.avg_step_time_seconds), units.number(
        summary.performance.tokens_per_second_per_gpu
    )


def _show(
    title: str, recognized: str, run: Run, rows: Sequence[Row], lines: dict[str, str]
) -> None:
    """Print how the training ended and a line for each row; `lines` has the places of fields in the
    log.
    """
    info(plain(f"{title}: {recognized}: {run.status}"))
    if run.status_reason:
        info(f"  reason: {plain(run.status_reason)}")
    for label, value, field in rows:
        shown = units.UNKNOWN if value in (None, "") else plain(str(value))
        info(f"  {label:<18} {shown:<44} {lines.get(field or '', '')}".rstrip())


def _show_rest(run: Run, summary: Summary, notes: Sequence[str]) -> None:
    """Print notes and warnings; the sources and all other facts only on request."""
    for file in run.source_files:
        console.debug(
            f"  {'source':<18} {plain(file.path)}, {file.bytes} bytes, sha256 {file.sha256}"
        )
    steady = summary.steady
    if steady.first_step is not None:
        covered = f"steps {steady.first_step} to {steady.last_step}, by {steady.method}"
        console.debug(f"  {'metrics from':<18} {covered}")
    facts: FieldValues = {}
    for group in (
        run.gpu_info,
        run.environment,
        run.model_config,
        run.training_config,
        run.parallelism_config,
        run.optimizer,
        run.data,
        summary.performance,
        run.memory_metrics,
    ):
        facts |= group.known()
    for name, value in facts.items():
        if value not in ({}, ()) and value is not False:
            console.debug(f"  {name:<18} {plain(value)}")
    for note in notes:
        info(f"  note: {plain(note)}")
    for warning in dict.fromkeys((*run.warnings, *summary.warnings)):
        info(f"  warning: {plain(warning)}")
