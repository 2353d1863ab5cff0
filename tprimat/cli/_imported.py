"""Console output for imported logs."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import console, units
from tprimat.analysis.summary import Summary
from tprimat.console import info
from tprimat.log_import.extract import Extracted
from tprimat.log_import.importer import ImportedResult
from tprimat.results.run import Run
from tprimat.text import plain, shortened


def show_extracted(extracted: Extracted, summary: Summary) -> None:
    """Print what was recognised, its line in the log, and the metrics."""
    run, parsed = extracted.run, extracted.parsed
    figures, steady = summary.performance, summary.steady
    training, spread = run.training_config, run.parallelism_config
    dialect = run.source.dialect if run.source else None
    info(plain(f"{extracted.title}: {run.framework} training, {dialect}: {run.status}"))
    if run.status_reason:
        info(f"  because: {plain(run.status_reason)}")
    sizes = (
        ("TP", spread.tensor_model_parallel_size),
        ("PP", spread.pipeline_model_parallel_size),
        ("CP", spread.context_parallel_size),
        ("EP", spread.expert_model_parallel_size),
        ("DP", spread.data_parallel_size),
    )
    planned = f" of {training.max_steps}" if training.max_steps else ""
    rows: list[tuple[str, object, str | None]] = [
        ("model", run.model and f"{run.model}{', full size' if run.scale == 'full' else ''}", "model"),
        ("GPUs", run.num_gpus, "num_gpus"),
        ("global batch size", training.global_batch_size, "global_batch_size"),
        ("micro batch size", training.micro_batch_size, "micro_batch_size"),
        ("sequence length", training.sequence_length, "sequence_length"),
        ("parallelism", ", ".join(f"{name} {size}" for name, size in sizes if size), "tensor_model_parallel_size"),
        ("precision", training.precision, "precision"),
        ("steps", f"{figures.total_steps}{planned}", None),
    ]
    if figures.avg_step_time_seconds is not None:
        first, last = steady.first_step, steady.last_step
        which = f"step {first} alone" if first == last else f"mean of steps {first} to {last}"
        rows.append(("step time", f"{units.seconds(figures.avg_step_time_seconds)}, {which}", None))
    if figures.tokens_per_second_per_gpu is not None:
        rows.append(("throughput", f"{units.number(figures.tokens_per_second_per_gpu)} tokens/s/GPU", None))
    memory = run.memory_metrics
    for label, held in (
        ("memory in use", memory.peak_memory_device_used_gb),
        ("memory allocated", memory.peak_memory_allocated_gb),
        ("memory reserved", memory.peak_memory_reserved_gb),
    ):
        if held is not None:
            rows.append((label, f"{units.gigabytes(held)} of one device, at most", None))
    overridden = run.source.overrides if run.source else {}
    for label, value, field in rows:
        statement = parsed.stated.get(field) if field and field not in overridden else None
        place = f"line {statement.line}" if statement else ""
        shown = units.UNKNOWN if value in (None, "") else plain(str(value))
        info(f"  {label:<18} {shown:<44} {place}".rstrip())
    _show_rest(run, summary, parsed.notes)


def _figures(run: Run, summary: Summary) -> tuple[str, str]:
    figures = summary.performance
    return units.seconds(figures.avg_step_time_seconds), units.number(figures.tokens_per_second_per_gpu)


def _recognised(run: Run) -> str:
    return (run.source.dialect if run.source else None) or run.framework or "unknown"


def show_imported(result: ImportedResult) -> None:
    """Print what was recognised and the metrics."""
    title, run, summary = result.title, result.run, result.summary
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
    _show_rest(run, summary, result.notes)
    info(f"Results saved to: {plain(str(result.path))}")


def show_table(results: Sequence[ImportedResult]) -> None:
    """Print a row for each result."""
    header = ("source", "recognised as", "records", "step time", "tokens/s/GPU", "status", "result")
    table = [header]
    for each in results:
        run, values = each.run, _figures(each.run, each.summary)
        cells = (
            shortened(plain(each.title), 56),
            plain(_recognised(run), 34),
            str(len(run.steps)),
            *values,
            run.status,
        )
        table.append((*cells, plain(each.path.name)))
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        info("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    info(f"{len(results)} results are in {plain(str(results[0].path.parent))}; each holds what is doubtful of it")


def _show_rest(run: Run, summary: Summary, notes: Sequence[str]) -> None:
    """Print every other fact where that is requested, and notes and warnings."""
    for line in _facts(run, summary):
        console.debug(f"  {line}")
    for note in notes:
        info(f"  note: {plain(note)}")
    for warning in dict.fromkeys((*run.warnings, *summary.warnings)):
        info(f"  warning: {plain(warning)}")


def _facts(run: Run, summary: Summary) -> list[str]:
    """Return its sources and every other fact that its result states, a line each."""
    steady = summary.steady
    lines = [
        f"{'source':<18} {plain(file.path)}, {file.bytes} bytes, sha256 {file.sha256}"
        for file in (run.source.files if run.source else ())
    ]
    if steady.first_step is not None:
        lines.append(f"{'figures are of':<18} steps {steady.first_step} to {steady.last_step}, by {steady.method}")
    groups = (
        run.gpu_info,
        run.environment,
        run.model_config,
        run.training_config,
        run.parallelism_config,
        run.optimizer,
        run.data,
        summary.performance,
        run.memory_metrics,
    )
    facts = {name: value for group in groups for name, value in group.known().items()}
    lines += [
        f"{name:<18} {plain(value)}" for name, value in facts.items() if value not in ({}, ()) and value is not False
    ]
    return lines
