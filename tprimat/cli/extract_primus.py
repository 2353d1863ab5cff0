"""extract_primus_metrics.py: the log of a Primus or Megatron training -> a result file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tprimat import console, units
from tprimat.analysis.summary import Summary, summarize
from tprimat.cli import _details
from tprimat.cli._arguments import capture_output
from tprimat.console import Verbosity, info
from tprimat.errors import TensorPrimatError, UnreadableError, UsageError, most_severe
from tprimat.log_import import bundle, inputs
from tprimat.log_import import extract as log_extract
from tprimat.log_import.extract import Extracted, GivenValues
from tprimat.measure.bundle import write_bundle
from tprimat.store import store
from tprimat.store.naming import file_name
from tprimat.store.store import Saved
from tprimat.text import plain


def main(arguments: argparse.Namespace) -> int:
    """Read logs and write their results. A log that can't be read doesn't keep the others from being read.

    Args:
        arguments: of `extract-primus`.
    """
    with capture_output(arguments, results=[]) as output:
        return output.finish(_extract_all(arguments))


def _extract_all(arguments: argparse.Namespace) -> int:
    if not arguments.log_file:
        raise UsageError("no log is named: --log-file F, or --log-file - for standard input", heading="wrong-usage")
    _check_output(arguments)
    if arguments.bundle:
        bundle.check(Path(arguments.bundle))
    given = GivenValues(
        arguments.model_name,
        arguments.num_gpus,
        arguments.global_batch_size,
        arguments.sequence_length,
        arguments.label,
        arguments.override,
    )
    statuses = []
    results: list[Path] = []
    logs: list[Path] = []
    for path in inputs.named_files(arguments.log_file):
        try:
            results += [saved.path for saved in extract(path, arguments.output_dir, given, arguments.output)]
            logs += [Path(path)] if path != inputs.STANDARD_INPUT else []
        except TensorPrimatError as error:
            print(error.line(), file=sys.stderr)
            statuses.append(error.status)
    if arguments.bundle and results:
        write_bundle(Path(arguments.bundle), list(dict.fromkeys(results)), logs)
    return most_severe(statuses)


def extract(log_file: str, output_dir: Path | str, given: GivenValues, output: Path | str | None = None) -> list[Saved]:
    """Make, save and show the results of a log.

    Args:
        log_file: the log.
        output_dir: directory for the results.
        given: what the user states.
        output: the result file, instead of one of the usual name in `output_dir`.

    Raises:
        UnreadableError, UsageError: it can't be read, or contradicts what is given.
    """
    log = inputs.Log(log_file)
    saved = []
    for each in log_extract.extract(log, given):
        summary = summarize(each.run)
        _show(each, summary)
        place = Path(output) if output else Path(output_dir, file_name(each.run))
        saved.append(store.save_as(each.run, place, summary))
        _show_saved(saved[-1])
        console.record(each.run, saved[-1].path, each.title)
        console.current().notes.extend(f"{each.title}: {note}" for note in each.parsed.notes)
    return saved


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse to put a result where something else is."""
    if arguments.output is None:
        return
    path = Path(arguments.output)
    if path.is_dir():
        raise UsageError(
            f"{path}: is a folder: --output names a file, --output-dir a folder", heading="output-is-no-result"
        )
    if path.exists():
        try:
            store.read(path)
        except UnreadableError as error:
            raise UsageError(
                f"{path}: is there already and is no result, so it is left alone: choose another --output",
                heading="output-is-no-result",
            ) from error


def _show(extracted: Extracted, summary: Summary) -> None:
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
    if console.verbosity() is Verbosity.VERBOSE:
        for line in _details.lines(run, summary):
            info(f"  {line}")
    for note in parsed.notes:
        info(f"  note: {plain(note)}")
    for warning in dict.fromkeys((*run.warnings, *summary.warnings)):
        info(f"  warning: {plain(warning)}")


def _show_saved(saved: Saved) -> None:
    """Print where the result is."""
    if saved.moved:
        info(f"  the file held another setup, which is now {plain(str(saved.moved))}")
    runs = "1 run" if saved.runs == 1 else f"{saved.runs} runs"
    again = "; this training was in it already and is not counted twice" if saved.known else ""
    info(plain(f"Results saved to: {saved.path} ({runs}{again})"))
