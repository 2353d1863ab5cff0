"""extract_primus_metrics.py: the log of a Primus or Megatron training -> a result file."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.cli import _display
from tprimat.cli._arguments import Parser, add_output_options, verbosity
from tprimat.cli._display import Verbosity, info
from tprimat.errors import TensorPrimatError, UsageError, most_severe

if TYPE_CHECKING:
    from tprimat.log_import.inputs import Log
    from tprimat.read.parsing.parsed_log import LoggedValue, ParsedLog
    from tprimat.results.run import Run
    from tprimat.store.store import Saved

_OPTIONS = {
    "model": ("--model-name", "the model"),
    "num_gpus": ("--num-gpus", "the number of GPUs"),
    "global_batch_size": ("--global-batch-size", "the global batch size"),
    "sequence_length": ("--sequence-length", "the sequence length"),
}

_EPILOG = """\
What the log states is taken from the log; an option fills only what it leaves open. An option that
contradicts the log is an error, unless --override is given: then yours is used and both are recorded.
Logs may be compressed (gzip, bzip2, xz, zstd), coloured, doubled or cut off.

exit status: 0 a result was written (whatever became of the training); 2 wrong usage, or no training in a log
"""


def _parser() -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        prog="tprimat extract-primus" if program in ("tprimat", "__main__.py") else program,
        description="Turns the log of a Primus or Megatron-LM training into a result.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--log-file",
        metavar="F",
        nargs="+",
        action="extend",
        help="log to read (needed); several, patterns and - for standard input work",
    )
    parser.add_argument("--model-name", metavar="M", help="the model, where the log doesn't name it")
    parser.add_argument("--num-gpus", metavar="N", type=_count, help="GPUs that trained, where the log doesn't say")
    parser.add_argument("--global-batch-size", metavar="B", type=_count, help="sequences per optimizer step")
    parser.add_argument("--sequence-length", metavar="S", type=_count, help="tokens per sequence")
    parser.add_argument("--override", action="store_true", help="use these options against the log's own word")
    parser.add_argument(
        "--label", metavar="NAME", help="a name for this setup: stored, shown, and part of the file's name"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="FILE", help="result file to write")
    where.add_argument(
        "--output-dir",
        metavar="DIR",
        default="output",
        help="folder for the result under its usual name (default: output)",
    )
    parser.add_argument(
        "--bundle", metavar="FILE", help="also put result, log and environment into one .tar.gz or .zip to send"
    )
    add_output_options(
        parser,
        quiet="print the paths of the results alone, a line each",
        verbose="print the log's hash, and every fact and figure that the result states",
        json="print one document for a program: results with their figures, notes, exit status",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Reads logs and writes their results.

    Returns:
        An ExitStatus. A log that can't be read doesn't keep the others from being read.
    """
    arguments = _parser().parse_args(argv)
    with _display.capture_output(verbosity(arguments), results=[]) as output:
        return output.finish(_extract_all(arguments))


def _extract_all(arguments: argparse.Namespace) -> int:
    from tprimat.log_import import inputs

    if not arguments.log_file:
        raise UsageError("no log is named: --log-file F, or --log-file - for standard input", heading="wrong-usage")
    _check_output(arguments)
    if arguments.bundle:
        from tprimat.cli import _bundle

        _bundle.check(Path(arguments.bundle))
    statuses = []
    results: list[Path] = []
    logs: list[Path] = []
    for path in inputs.named_files(arguments.log_file):
        try:
            results += [saved.path for saved in _extract(inputs.Log(path), arguments)]
            logs += [Path(path)] if path != inputs.STANDARD_INPUT else []
        except TensorPrimatError as error:
            print(error.line(), file=sys.stderr)
            statuses.append(error.status)
    if arguments.bundle and results:
        _bundle.write_bundle(Path(arguments.bundle), list(dict.fromkeys(results)), logs)
    return most_severe(statuses)


def extract(log_file: str, output_dir: Path, label: str | None = None, model: str | None = None) -> list[Saved]:
    """Makes and shows the results of a log, for commands that have just made or found it.

    Args:
        log_file: the log.
        output_dir: folder for the results.
        label: the user's name for the setup.
        model: the model, where the log doesn't name it.

    Raises:
        UnreadableError, UsageError: it can't be read, or says another thing than what is given.
    """
    from tprimat.log_import import inputs

    words = ["--log-file", log_file, "--output-dir", str(output_dir)]
    words += [f"--label={label}"] if label is not None else []
    words += [f"--model-name={model}"] if model is not None else []
    return _extract(inputs.Log(log_file), _parser().parse_args(words))


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuses to put a result where something else is."""
    from tprimat.errors import UnreadableError
    from tprimat.store import store

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


def _extract(log: Log, arguments: argparse.Namespace) -> list[Saved]:
    """Reads one log; writes and shows its trainings."""
    import msgspec

    from tprimat.log_import import large_log
    from tprimat.log_import.mlperf_systems import with_system
    from tprimat.store import store

    readings = large_log.readings(log)
    runs = [with_system(_run(reading, log, arguments), Path(log.path)) for reading in readings]
    prepared = _recorded(runs, log)
    written = []
    for number, (reading, run) in enumerate(zip(readings, prepared, strict=True), start=1):
        assert run.source is not None
        run = msgspec.structs.replace(
            run,
            label=arguments.label,
            source=msgspec.structs.replace(run.source, files=(log.source_file(),)),
        )
        which = f", training {number} of {len(readings)}" if len(readings) > 1 else ""
        _show(run, reading, log.name + which)
        saved = (
            store.save_as(run, Path(arguments.output))
            if arguments.output
            else store.save(run, Path(arguments.output_dir))
        )
        _say_saved(saved)
        _display.record(run, saved.path, log.name + which)
        _display.current().notes.extend(f"{log.name}{which}: {note}" for note in reading.notes)
        written.append(saved)
    return written


def _recorded(runs: list[Run], log: Log) -> list[Run]:
    """The runs with what was recorded when their training was started, where that lies beside the log."""
    import msgspec

    from tprimat.frameworks.primus import start_record
    from tprimat.log_import import inputs

    path = start_record.path_for(Path(log.path))
    record = start_record.read(path) if log.path != inputs.STANDARD_INPUT else None
    if record is None:
        return runs
    if len(runs) > 1 or not start_record.belongs(record, inputs.Log(log.path).lines()):
        doubt = f"{path.name} beside the log is the record of another training: it is left out"
        return [msgspec.structs.replace(run, warnings=(*run.warnings, doubt)) for run in runs]
    return [start_record.applied(run, record) for run in runs]


def _run(reading: ParsedLog, log: Log, arguments: argparse.Namespace) -> Run:
    """The training with what the options say.

    Raises UsageError when an option contradicts the log and --override is not given.
    """
    import msgspec

    from tprimat.read.parsing.parsed_log import GIVEN

    asked = {"model": arguments.model_name, **{name: getattr(arguments, name) for name in GIVEN[1:]}}
    given: dict[str, Any] = {}
    overrides: dict[str, str] = {}
    warnings = []
    for name in GIVEN:
        value, statement = asked[name], reading.stated.get(name)
        if value is None or (statement is not None and _agrees(name, value, statement)):
            continue
        given[name] = value
        option, what = _OPTIONS[name]
        if statement is None or (name == "model" and statement.weight == 0):
            warnings.append(f"{what} ({value}) is as given on the command line: the log doesn't state it")
            continue
        place = f"{log.name}:{statement.line}"
        if not arguments.override:
            raise UsageError(
                f"{place}: the log says that {what} is {statement.value} (“{statement.text[:120]}”), "
                f"{option} says {value}: leave the option out, or add --override",
                heading="option-against-log",
            )
        overrides[name] = f"{value} on the command line, {statement.value} in the log ({place})"
        warnings.append(f"{what} was overridden: {overrides[name]}")
    run = reading.run(given)
    if log.cut:
        warnings.append(f"the compressed file could not be read to its end: {log.cut}")
    assert run.source is not None
    return msgspec.structs.replace(
        run,
        warnings=(*warnings, *run.warnings),
        source=msgspec.structs.replace(run.source, overrides=overrides),
    )


def _agrees(name: str, value: Any, statement: LoggedValue) -> bool:
    """Whether an option says the same as the log, if less exactly."""
    if name != "model":
        return bool(value == statement.value)
    from tprimat.catalog import models

    stated = str(statement.value)
    row = models.recognize(value)
    # "llama" is no contradiction of llama3.2_1B, whose name the log gives more exactly.
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in (value, stated)]
    return (row is not None and row.name == stated) or (bool(plain[0]) and plain[1].startswith(plain[0]))


def _show(run: Run, reading: ParsedLog, title: str) -> None:
    """Prints what was recognised, where it stands, and the figures."""
    from tprimat import units
    from tprimat.analysis import metrics
    from tprimat.text import plain

    summary = metrics.summarize(run)
    figures, steady = summary.performance, summary.steady
    training, spread = run.training_config, run.parallelism_config
    dialect = run.source.dialect if run.source else None
    info(plain(f"{title}: {run.framework} training, {dialect}: {run.status}"))
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
        statement = reading.stated.get(field) if field and field not in overridden else None
        place = f"line {statement.line}" if statement else ""
        shown = units.UNKNOWN if value in (None, "") else plain(str(value))
        info(f"  {label:<18} {shown:<44} {place}".rstrip())
    if _display.verbosity() is Verbosity.VERBOSE:
        from tprimat.cli import _details

        for line in _details.lines(run, summary):
            info(f"  {line}")
    for note in reading.notes:
        info(f"  note: {plain(note)}")
    for warning in dict.fromkeys((*run.warnings, *summary.warnings)):
        info(f"  warning: {plain(warning)}")


def _say_saved(saved: Saved) -> None:
    """Prints where the result is."""
    from tprimat.text import plain

    if saved.moved:
        info(f"  the file held another setup, which is now {plain(str(saved.moved))}")
    runs = "1 run" if saved.runs == 1 else f"{saved.runs} runs"
    again = "; this training was in it already and is not counted twice" if saved.known else ""
    info(plain(f"Results saved to: {saved.path} ({runs}{again})"))
