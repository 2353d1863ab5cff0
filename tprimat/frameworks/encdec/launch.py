"""The encoder-decoder as a framework: defaults, limits and command of a training, and what a session shows of it.

Every refusal comes before anything starts, and names a value that would do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tprimat import units
from tprimat.analysis import efficiency
from tprimat.analysis.summary import Summary
from tprimat.errors import UsageError
from tprimat.frameworks.defaults import FIRST_WITH_BF16, has_bf16
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.request import FRAMEWORK, MODEL, EncDecRequest, RequestedSettings, Settings
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops.launch import command, cores
from tprimat.frameworks.request import Device, Launch, Request
from tprimat.frameworks.resolve import check_memory, check_processes
from tprimat.frameworks.scales import BYTES_PER_PARAMETER
from tprimat.results.run import Run
from tprimat.text import counted
from tprimat.units import GB

ENCDEC = Framework(FRAMEWORK, models=(MODEL,), data="pairs", room="encdec")
"""Not among FRAMEWORKS: it trains no other model, and nothing else trains this one."""

MODULE = "tprimat.frameworks.encdec.loop"
PRECISIONS = ("fp16", "bf16", "fp32")
FULL_BYTES = 30e9

SAMPLES_ON_GPU = 65_536
SAMPLES_ON_CPU = 1024
"""An epoch of the default model: some tens of seconds on one GPU, and on two processor cores."""

MOST_WORKERS = 4


def check(requested: RequestedSettings) -> None:
    """Refuse what no machine can train. Raises UsageError."""
    if requested.d_model % requested.nhead:
        divisors = [each for each in range(1, requested.d_model + 1) if requested.d_model % each == 0]
        nearest = [each for each in divisors if each < requested.nhead][-1:]
        nearest += [each for each in divisors if each > requested.nhead][:1]
        raise _usage_error(
            f"--nhead {requested.nhead} does not divide --d-model {requested.d_model}: choose "
            f"{' or '.join(map(str, nearest))}"
        )
    if requested.full and requested.num_samples is not None:
        raise _usage_error("--full and --num-samples contradict each other: choose one")
    for field in ("num_shards", "workers", "drop_caches") if requested.data_dir is None else ():
        if getattr(requested, field):
            raise _usage_error(
                f"--{field.replace('_', '-')} is about data on disk, and these are made in memory: add --disk or "
                "--data-dir PATH"
            )


def resolve_config(
    requested: RequestedSettings, device: Device, output_dir: Path
) -> tuple[EncDecRequest, tuple[str, ...]]:
    """Make every choice that the user left open; return the request, and notes for the user.

    Args:
        requested: what the user asked for.
        device: what trains.
        output_dir: folder for the result, absolute.

    Raises:
        UsageError: that can't be trained.
    """
    check(requested)
    processes = requested.num_gpus or (1 if device.platform == "cpu" else device.devices)
    check_processes(processes, device)
    pair_bytes = Pairs(requested.vocab_size, requested.seq_len, requested.seed).bytes
    samples, notes = _samples(requested, device, processes, pair_bytes)
    batch = requested.batch_size * processes
    request = EncDecRequest(
        **{field.name: getattr(requested, field.name) for field in dataclasses.fields(Settings)},
        framework=FRAMEWORK,
        platform=device.platform,
        model=MODEL,
        scale=requested.sizes,
        precision=_precision(requested, device),
        steps=requested.all_epochs * (samples // batch),
        global_batch_size=batch,
        micro_batch_size=requested.batch_size,
        sequence_length=requested.seq_len,
        seed=requested.seed,
        num_gpus=processes,
        output_dir=output_dir,
        time_limit_s=requested.time_limit_s,
        label=requested.label,
        num_samples=samples,
        num_shards=_shards(requested, samples, samples * pair_bytes),
        workers=_workers(requested, device, processes),
    )
    check_memory(
        f"a model of {requested.parameters / 1e6:,.1f} M parameters",
        requested.parameters * BYTES_PER_PARAMETER * (processes if device.platform == "cpu" else 1),
        device,
        lambda: "choose a smaller --d-model, --dim-feedforward or fewer layers",
    )
    return request, notes


def launch(request: Request) -> Launch:
    """Return the command for a request."""
    return command(MODULE, request)


def prepare(request: Request, say: Callable[[str], None]) -> Request:
    """Write or check the data on disk. Raises UsageError."""
    training = cast(EncDecRequest, request)
    if training.data_dir is not None:
        shards.prepare(training.data_dir, training.contents, say)
    return dataclasses.replace(training, data_checked=True)


def log_name(request: Request, moment: str) -> str:
    """Return the name of a training's log, without its ending."""
    return f"encdec_{moment}"


def result_name(request: Request) -> str:
    """Return the name of the result file, as far as it is known before the training."""
    return f"bench_{{GPU}}_{request.num_gpus}gpu_{{TIMESTAMP}}.json"


def introduce(request: Request) -> list[str]:
    """Return the model, the training and its data, a line each."""
    training = cast(EncDecRequest, request)
    pairs, steps = f"{training.samples_per_epoch:,} pairs", f"{training.steps_per_epoch:,} steps"
    amount = units.size(training.num_samples * training.contents.bytes)
    if training.data_dir is None:
        source = f"data: made in memory, {amount} an epoch"
    else:
        source = (
            f"data: {amount} in {counted(training.num_shards, 'shard')} in {training.data_dir}, read by "
            f"{counted(training.workers, 'worker')} a process; "
            f"{'checked' if shards.read_manifest(training.data_dir) else 'written'} first"
        )
    return [
        f"encoder-decoder, {training.parameters / 1e6:,.2f} M parameters: d_model {training.d_model}, "
        f"{training.nhead} heads, {training.num_encoder_layers} + {training.num_decoder_layers} layers, feed-forward "
        f"{training.dim_feedforward}, vocabulary {training.vocab_size}",
        f"{training.precision}, batch {training.micro_batch_size} × "
        f"{counted(training.num_gpus, 'process')} = {training.global_batch_size} sequence pairs of "
        f"{training.sequence_length} tokens a step; {pairs} and {steps} an epoch; "
        f"{counted(training.epochs, 'epoch')}, after {training.warmup_epochs} to warm up",
        source,
    ]


def figures(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """Return what a training reached, beyond what all trainings have: (name, value)."""
    native = {name: value for name, value in run.native_metrics.items() if isinstance(value, (int, float))}
    memory, parts, on_cpu = run.memory_metrics, run.breakdown, run.platform == "cpu"
    rate, length = native.get("samples_per_second"), run.training_config.sequence_length
    tokens = units.number(rate * length if rate and length else None, 0)
    peak = memory.peak_memory_allocated_gb
    waiting = f"{units.seconds(parts.get('data_wait_s'))} waiting for data"
    rows = [
        ("measured epochs", str(sum(1 for epoch in run.epochs if not epoch.get("warmup")))),
        ("wall time per epoch", units.duration(native.get("seconds_per_epoch"))),
        ("throughput", f"{units.number(rate)} samples/s, {tokens} tokens/s"),
        ("step", f"{units.seconds(parts.get('compute_s'))} compute, {waiting}"),
        (
            f"memory of a {'process' if on_cpu else 'GPU'}, peak",
            units.gigabytes(peak if peak is not None else memory.peak_memory_process_gb),
        ),
    ]
    if not on_cpu:
        busy = native.get("gpu_utilisation_percent")
        rows.append(("GPU utilisation", units.UNKNOWN if busy is None else f"{busy:.0f} %"))
    rows += [("achieved", text) for text in _achieved(run, summary)]
    if "delivered_gb_per_second" in native:
        delivered, read, written = (
            units.UNKNOWN if name not in native else f"{units.size(native[name] * GB)}/s"
            for name in ("delivered_gb_per_second", "read_gb_per_second_per_worker", "written_gb_per_second")
        )
        rows.append(
            ("storage", f"{delivered} taken in; {read} by a worker while it reads; {written} when it was written")
        )
    return rows


def _achieved(run: Run, summary: Summary) -> list[str]:
    tables = efficiency.efficiencies(run, summary, efficiency.Options())
    if not tables or (reached := tables[-1].values["model_tflops_per_gpu"].value) is None:
        return []
    share = tables[-1].values.get("mfu")
    mfu = f", MFU {share.value:.1f} %" if share is not None and share.value is not None else ""
    return [f"{reached:.3g} TFLOP/s {'a process' if run.platform == 'cpu' else 'a GPU'}{mfu}"]


def _samples(
    requested: RequestedSettings, device: Device, processes: int, pair_bytes: int
) -> tuple[int, tuple[str, ...]]:
    """Return how many sequence pairs there are, and a note where an epoch leaves some out."""
    step = requested.batch_size * processes
    named = f"--batch-size {requested.batch_size} × {counted(processes, 'process')}"
    samples = requested.num_samples
    if samples is None:
        samples = SAMPLES_ON_CPU if device.platform == "cpu" else SAMPLES_ON_GPU
        if requested.full:
            samples = round(FULL_BYTES / pair_bytes)
        return max(samples, step), ()
    left_out = samples % step
    if samples < step:
        raise _usage_error(
            f"--num-samples {samples} is less than one step of {step} ({named}): choose {step} or more, or a smaller "
            "--batch-size"
        )
    if not left_out:
        return samples, ()
    return samples, (
        f"an epoch is {samples - left_out:,} samples, not {samples:,}: the last {left_out:,} make no whole step of "
        f"{step} ({named})",
    )


def _precision(requested: RequestedSettings, device: Device) -> str:
    precision = requested.precision or ("fp32" if device.platform == "cpu" else "fp16")
    if device.platform == "cpu" and precision == "fp16":
        raise UsageError("fp16 takes a GPU: on a CPU leave it out (fp32), or choose --bf16", heading="precision")
    if precision == "bf16" and device.platform == "nvd" and not has_bf16(device):
        raise UsageError(
            f"--bf16 takes a GPU from sm_{FIRST_WITH_BF16} on, and this one is {device.architecture}: leave it out for "
            "fp16",
            heading="precision",
        )
    return precision


def _shards(requested: RequestedSettings, samples: int, num_bytes: int) -> int:
    if requested.data_dir is None:
        return 0
    if requested.num_shards is not None and requested.num_shards > samples:
        raise _usage_error(
            f"--num-shards {requested.num_shards}: there are {samples} samples for them: choose {samples} or fewer"
        )
    return requested.num_shards or min(samples, shards.default_shards(num_bytes))


def _workers(requested: RequestedSettings, device: Device, processes: int) -> int:
    if requested.data_dir is None or requested.workers is not None:
        return requested.workers or 0
    # On a CPU a worker takes from the training what it needs itself.
    return 1 if device.platform == "cpu" else max(1, min(MOST_WORKERS, cores() // processes - 1))


def _usage_error(message: str) -> UsageError:
    return UsageError(message, heading="encoder-decoder")
