"""The encoder-decoder as a framework: defaults, limits and command of a training, and its values in
a session's output.

Every refusal comes before anything starts, and names a value that would do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tprimat import units
from tprimat.analysis import efficiency
from tprimat.analysis.summary import Summary
from tprimat.catalog.models import Model
from tprimat.errors import UsageError
from tprimat.frameworks import resolve
from tprimat.frameworks.defaults import FIRST_WITH_BF16, has_bf16
from tprimat.frameworks.encdec import shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.request import (
    FRAMEWORK,
    MODEL,
    EncDecRequest,
    RequestedEncDec,
    Settings,
    refused,
)
from tprimat.frameworks.framework import OUR_PAIRS, Framework
from tprimat.frameworks.loops.launch import Loop, cores
from tprimat.frameworks.request import Device, Request
from tprimat.frameworks.resolve import check_memory
from tprimat.frameworks.scales import BYTES_PER_PARAMETER
from tprimat.results.run import ModelConfig, Run
from tprimat.text import counted
from tprimat.units import GB

ENCDEC = Framework(FRAMEWORK, models=(MODEL,), data=OUR_PAIRS, room="encdec")
"""Not among FRAMEWORKS: it trains no other model, and nothing else trains this one."""

ENCODER_DECODER = Model(MODEL, "encoder-decoder", ModelConfig(), architecture="Transformer")

FULL_BYTES = 30e9

SAMPLES_ON_GPU = 65_536
SAMPLES_ON_CPU = 1024
"""An epoch of the default model: some tens of seconds on one GPU, and on two processor cores."""

MOST_WORKERS = 4


class Resolver(resolve.Resolver):
    """The choices of the encoder-decoder, whose shape is in its options, and whose steps are those
    of its epochs.
    """

    requested: RequestedEncDec

    def default_precision(self) -> str:
        """Return the precision if the user leaves it open."""
        if self.device.platform == "cpu":
            return "fp32"
        return "fp16"

    def precision(self) -> str:
        """Return the precision. Raises UsageError for one that the device lacks."""
        precision = super().precision()
        device = self.device
        if precision == "bf16" and device.platform == "nvd" and not has_bf16(device):
            raise UsageError(
                f"--bf16 needs a GPU of sm_{FIRST_WITH_BF16} or newer, this one is"
                f" {device.architecture}: omit it for fp16",
                heading="precision",
            )
        return precision

    def size(self) -> tuple[None, ModelConfig]:
        """Return the shape that the options give, at no scale."""
        return None, self.requested.model_config

    def default_batch(self, unit: int, gpus: int) -> int:
        """Return the global batch: a micro-batch of each process."""
        return unit

    def complete(self, request: Request, shape: ModelConfig) -> EncDecRequest:
        """Return the request with its samples, epochs and shards. Raises UsageError if the device
        can't train it.
        """
        requested = self.requested
        on_cpu = self.device.platform == "cpu"
        check_memory(
            f"a model of {requested.parameters / 1e6:,.1f} M parameters",
            requested.parameters * BYTES_PER_PARAMETER * (request.num_gpus if on_cpu else 1),
            self.device,
            lambda: "choose a smaller --d-model, --dim-feedforward or fewer layers",
        )
        pair_bytes = Pairs(requested.vocab_size, requested.sequence_length, request.seed).bytes
        samples = self.samples(request, round(FULL_BYTES / pair_bytes))
        num_shards = workers = 0
        if requested.data_dir is not None:
            num_shards = requested.num_shards or min(
                samples, shards.default_shards(samples * pair_bytes)
            )
            # On a CPU a worker uses cores that the training itself needs.
            workers = requested.workers or (
                1 if on_cpu else max(1, min(MOST_WORKERS, cores() // request.num_gpus - 1))
            )
        if num_shards > samples:
            raise refused(
                f"--num-shards {num_shards} is more than the {samples} samples: choose {samples} or"
                " fewer"
            )
        steps = requested.all_epochs * (samples // request.global_batch_size)
        fields = {**vars(request), "scale": requested.sizes, "shape": None, "steps": steps}
        fields |= {
            field.name: getattr(requested, field.name) for field in dataclasses.fields(Settings)
        }
        return EncDecRequest(**fields, num_samples=samples, num_shards=num_shards, workers=workers)

    def samples(self, request: Request, full: int) -> int:
        """Return how many sequence pairs there are, `full` for --full; note where an epoch leaves
        some out.

        Raises UsageError for fewer than a step.
        """
        samples = self.requested.num_samples
        step = request.global_batch_size
        named = (
            f"(--batch-size {request.micro_batch_size} × {counted(request.num_gpus, 'process')})"
        )
        if samples is None:
            usual = SAMPLES_ON_CPU if self.device.platform == "cpu" else SAMPLES_ON_GPU
            return max(step, full if self.requested.full else usual)
        if samples < step:
            raise refused(
                f"--num-samples {samples} is less than one step of {step} {named}: choose {step} or"
                " more, or a smaller --batch-size"
            )
        if left_out := samples % step:
            self.notes.append(
                f"an epoch is {samples - left_out:,} samples, not {samples:,}: the last"
                f" {left_out:,} do not fill a step of {step} {named}"
            )
        return int(samples)


def resolve_config(
    requested: RequestedEncDec, device: Device, output_dir: Path
) -> tuple[EncDecRequest, tuple[str, ...]]:
    """Make every choice that the user left open; return the request, and notes for the user.

    `output_dir` is absolute. Raises UsageError if the device can't train it.
    """
    resolver = Resolver(ENCDEC, ENCODER_DECODER, requested, device)
    request: Any = resolver.resolve(output_dir)
    return request, tuple(resolver.notes)


class EncDec(Loop[EncDecRequest]):
    """A loop of ours whose data may be on disk."""

    program = "tprimat.frameworks.encdec.loop"

    def prepare(self, request: EncDecRequest, say: Callable[[str], None]) -> EncDecRequest:
        """Write or check the data on disk, unless that was done. Raises UsageError."""
        if request.data_dir is not None and not request.data_checked:
            shards.prepare(request.data_dir, request.pairs, say)
        return dataclasses.replace(request, data_checked=True)

    def log_name(self, request: EncDecRequest, moment: str) -> str:
        """Return the name of a training's log, without its ending."""
        return f"encdec_{moment}"

    def result_name(self, request: EncDecRequest) -> str:
        """Return the name of the result file, as far as it is known before the training."""
        return f"bench_{{GPU}}_{request.num_gpus}gpu_{{TIMESTAMP}}.json"

    def introduce(self, request: EncDecRequest) -> list[str]:
        """Return the model, the training and its data, a line each."""
        amount = units.size(request.num_samples * request.pairs.bytes)
        data = f"made in memory, {amount} per epoch"
        if request.data_dir is not None:
            data = (
                f"{amount} in {counted(request.num_shards, 'shard')} in {request.data_dir}, read by"
                f" {counted(request.workers, 'worker')} per process;"
                f" {'checked' if shards.read_manifest(request.data_dir) else 'written'} first"
            )
        return [
            (
                f"encoder-decoder, {request.parameters / 1e6:,.2f} M parameters: d_model"
                f" {request.d_model}, {request.nhead} heads, {request.num_encoder_layers} +"
                f" {request.num_decoder_layers} layers, feed-forward {request.dim_feedforward},"
                f" vocabulary {request.vocab_size}"
            ),
            (
                f"{request.precision}, batch {request.micro_batch_size} ×"
                f" {counted(request.num_gpus, 'process')} = {request.global_batch_size} sequence"
                f" pairs of {request.sequence_length} tokens a step; {request.samples_per_epoch:,}"
                f" pairs and {request.steps_per_epoch:,} steps per epoch;"
                f" {counted(request.epochs, 'epoch')}, after {request.warmup_epochs} to warm up"
            ),
            f"data: {data}",
        ]

    def figures(self, run: Run, summary: Summary) -> list[tuple[str, str]]:
        """Return the results of a training beyond those of all runs: (name, value)."""
        native = {}
        for name, value in run.native_metrics.items():
            if isinstance(value, (int, float)):
                native[name] = value
        memory = run.memory_metrics
        per = "process" if run.platform == "cpu" else "GPU"
        rate = native.get("samples_per_second")
        length = run.training_config.sequence_length
        tokens = units.number(rate * length if rate and length else None, 0)
        peak = memory.peak_memory_allocated_gb
        waiting = f"{units.seconds(run.breakdown.get('data_wait_s'))} waiting for data"
        rows = [
            ("measured epochs", str(sum(1 for epoch in run.epochs if not epoch.get("warmup")))),
            ("wall time per epoch", units.duration(native.get("seconds_per_epoch"))),
            ("throughput", f"{units.number(rate)} samples/s, {tokens} tokens/s"),
            ("step", f"{units.seconds(run.breakdown.get('compute_s'))} compute, {waiting}"),
            (
                f"memory of a {per}, peak",
                units.gigabytes(memory.peak_memory_process_gb if peak is None else peak),
            ),
        ]
        if run.platform != "cpu":
            busy = native.get("gpu_utilisation_percent")
            rows.append(("GPU utilization", units.UNKNOWN if busy is None else f"{busy:.0f} %"))
        reached = efficiency.of_runs([run], [summary], efficiency.Options()).values
        tflops, mfu = (
            reached[name].value if name in reached else None
            for name in ("model_tflops_per_gpu", "mfu")
        )
        if tflops is not None:
            doubt = ", which is hardly possible" if (mfu or 0) > efficiency.HIGH_MFU else ""
            share = "" if mfu is None else f", MFU {mfu:.1f} %{doubt}"
            rows.append(("achieved", f"{tflops:.3g} TFLOP/s a {per}{share}"))
        if "delivered_gb_per_second" in native:
            delivered = _rate(native.get("delivered_gb_per_second"))
            read = _rate(native.get("read_gb_per_second_per_worker"))
            written = _rate(native.get("written_gb_per_second"))
            rows.append(("storage", f"{delivered} consumed, {read} per reader, {written} written"))
        return rows


def _rate(gb_per_second: float | None) -> str:
    if gb_per_second is None:
        return units.UNKNOWN
    return f"{units.size(gb_per_second * GB)}/s"


LAUNCHER = EncDec()
