"""What the encoder-decoder benchmark shows. Measures and decides nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.cli import _benchmark_display as display
from tprimat.cli import _display
from tprimat.cli._benchmark_display import note, say
from tprimat.cli._benchmark_session import why_failed
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec import shards as encdec_shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.settings import FRAMEWORK, MODEL, Settings, parameters
from tprimat.measure import process
from tprimat.results.run import Environment, GpuInfo, Run
from tprimat.text import plain
from tprimat.units import GB

__all__ = ["failure", "introduce", "next_command", "note", "results", "say", "show", "why_failed"]


def introduce(settings: Settings, gpu: GpuInfo | None, environment: Environment | None, notes: Sequence[str]) -> None:
    """Where and what will be trained."""
    if gpu is not None and environment is not None:
        for line in display.machine(settings.platform, gpu, environment):
            say(line)
        for line in display.software(environment):
            _display.debug(line)
    processes = "process" if settings.num_gpus == 1 else "processes"
    pairs, steps = f"{settings.samples_per_epoch:,} pairs", f"{settings.steps_per_epoch:,} steps"
    say(
        f"encoder-decoder, {parameters(settings) / 1e6:,.2f} M parameters: d_model {settings.d_model}, "
        f"{settings.nhead} heads, {settings.num_encoder_layers} + {settings.num_decoder_layers} layers, feed-forward "
        f"{settings.dim_feedforward}, vocabulary {settings.vocab_size}"
    )
    say(
        f"{settings.precision}, batch {settings.batch_size} × {settings.num_gpus} {processes} = "
        f"{settings.effective_batch} sequence pairs of {settings.seq_len} tokens a step; {pairs} and {steps} an epoch; "
        f"{settings.epochs} {'epoch' if settings.epochs == 1 else 'epochs'}, after {settings.warmup_epochs} to warm up"
    )
    pair = Pairs(settings.vocab_size, settings.seq_len, settings.seed)
    amount = encdec_shards.size_text(settings.num_samples * pair.bytes)
    if settings.data_dir is None:
        say(f"data: made in memory, {amount} an epoch")
    else:
        say(
            f"data: {amount} in {settings.num_shards} {'shard' if settings.num_shards == 1 else 'shards'} in "
            f"{settings.data_dir}, read by {settings.workers} "
            f"{'worker' if settings.workers == 1 else 'workers'} a process"
        )
    for each in notes:
        note(each)


def show(settings: Settings, runs: int) -> None:
    """What would be run, to the last option."""
    say(f"\nrun {runs} {'time' if runs == 1 else 'times'}:")
    display.would_run(encdec.launch(settings).shell_line(), model=MODEL, framework=FRAMEWORK)
    if settings.data_dir is not None:
        there = encdec_shards.read_manifest(settings.data_dir)
        say(f"data: {'there are some, which would be checked' if there else 'would be written first'}")
    say(f"result: {settings.output_dir}/bench_{{GPU}}_{settings.num_gpus}gpu_{{TIMESTAMP}}.json")
    say("\nNothing was run.")


def results(run: Run, path: Path | None) -> None:
    """The figures of a training that has ended and left a result."""
    _display.record(run, path)
    if path is None:
        _display.warn("the result was not saved")
    say("")
    for line in display.table(_rows(run)):
        say(line)
    said = [*run.warnings, *metrics.summarize(run).warnings]
    for each in dict.fromkeys(said):
        note(each)
    for epoch in run.epochs:
        _display.debug(", ".join(f"{name} {value}" for name, value in epoch.items()))
    say(f"\nResults saved to: {path}" if path is not None else "\nResults were not saved")


def failure(run: Run | None, ended: process.ProcessResult, log: Path) -> None:
    """Why a training failed, and where all of it stands."""
    say(f"error: {plain(why_failed(run, ended))} (docs/troubleshooting.md#training-failed)", error=True)
    # Of several processes torchrun reports at length; what matters is what the one that failed said first.
    written = log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in [line for line in written if line.startswith("error: ")] or ended.tail:
        say(f"    {plain(line, 160)}", error=True)
    say(f"    all of it: {log}", error=True)


def next_command(folder: Path) -> None:
    """The command that comes next."""
    say(f"Next: {shlex.join(['python3', 'compare_results.py', str(folder)])}")


def _rows(run: Run) -> list[tuple[str, str]]:
    figures = {name: value for name, value in run.native_metrics.items() if isinstance(value, (int, float))}
    memory, parts = run.memory_metrics, run.breakdown
    rate, length = figures.get("samples_per_second"), run.training_config.sequence_length
    peak = memory.peak_memory_allocated_gb
    rows = [
        ("measured epochs", str(sum(1 for epoch in run.epochs if not epoch.get("warmup")))),
        ("wall time per epoch", units.duration(figures.get("seconds_per_epoch"))),
        (
            "throughput",
            f"{units.number(rate)} samples/s, {units.number(rate * length if rate and length else None, 0)} tokens/s",
        ),
        (
            "step",
            f"{units.seconds(parts.get('compute_s'))} compute, "
            f"{units.seconds(parts.get('data_wait_s'))} waiting for data",
        ),
        (
            "memory of a GPU, peak" if run.platform != "cpu" else "memory of a process, peak",
            units.gigabytes(peak if peak is not None else memory.peak_memory_process_gb),
        ),
    ]
    if run.platform != "cpu":
        busy = figures.get("gpu_utilisation_percent")
        rows.append(("GPU utilisation", units.UNKNOWN if busy is None else f"{busy:.0f} %"))
    rows += [("achieved", text) for text in _achieved(run)]
    if "delivered_gb_per_second" in figures:
        rows.append(
            (
                "storage",
                f"{_rate(figures['delivered_gb_per_second'])} taken in; "
                f"{_rate(figures.get('read_gb_per_second_per_worker'))} by a worker while it reads; "
                f"{_rate(figures.get('written_gb_per_second'))} when it was written",
            )
        )
    return rows


def _achieved(run: Run) -> list[str]:
    found = efficiency.efficiencies(run, metrics.summarize(run), efficiency.Options())
    if not found or (reached := found[-1].values["model_tflops_per_gpu"].value) is None:
        return []
    share = found[-1].values.get("mfu")
    mfu = f", MFU {share.value:.1f} %" if share is not None and share.value is not None else ""
    return [f"{reached:.3g} TFLOP/s {'a process' if run.platform == 'cpu' else 'a GPU'}{mfu}"]


def _rate(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{encdec_shards.size_text(value * GB)}/s"
