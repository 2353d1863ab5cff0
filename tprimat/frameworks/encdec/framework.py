"""The encoder-decoder as a framework of its own: what a measurement session asks of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

from tprimat import units
from tprimat.analysis import efficiency
from tprimat.analysis.summary import Summary
from tprimat.frameworks.encdec import data, shards
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.settings import FRAMEWORK, MODEL, Settings, parameters
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import launch as loops
from tprimat.frameworks.request import Launch, Request
from tprimat.results.run import Run
from tprimat.units import GB


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncDecTraining(Request):
    """A request with the settings that only the encoder-decoder has."""

    config: Settings


def request_of(settings: Settings) -> EncDecTraining:
    """Return the settings as a request; a sequence is a source and its target."""
    return EncDecTraining(
        framework=FRAMEWORK,
        platform=settings.platform,
        model=MODEL,
        scale=settings.scale,
        precision=settings.precision,
        steps=settings.all_epochs * settings.steps_per_epoch,
        global_batch_size=settings.effective_batch,
        micro_batch_size=settings.batch_size,
        sequence_length=settings.seq_len,
        seed=settings.seed,
        num_gpus=settings.num_gpus,
        output_dir=settings.output_dir,
        time_limit_s=settings.time_limit_s,
        label=settings.label,
        config=settings,
    )


def prepare(request: Request, say: Callable[[str], None]) -> Request:
    """Write or check the data on disk. Raises UsageError."""
    data.prepare(_settings(request), say)
    return request_of(dataclasses.replace(_settings(request), data_checked=True))


def log_name(request: Request, moment: str) -> str:
    """Return the name of a training's log, without its ending."""
    return f"encdec_{moment}"


def result_name(request: Request) -> str:
    """Return the name of the result file, as far as it is known before the training."""
    return f"bench_{{GPU}}_{request.num_gpus}gpu_{{TIMESTAMP}}.json"


def introduce(request: Request) -> list[str]:
    """Return the model, the training and its data, a line each."""
    settings = _settings(request)
    pairs, steps = f"{settings.samples_per_epoch:,} pairs", f"{settings.steps_per_epoch:,} steps"
    amount = shards.size_text(settings.num_samples * settings.pairs.bytes)
    if settings.data_dir is None:
        source = f"data: made in memory, {amount} an epoch"
    else:
        source = (
            f"data: {amount} in {_counted(settings.num_shards, 'shard', 'shards')} in {settings.data_dir}, read by "
            f"{_counted(settings.workers, 'worker', 'workers')} a process; "
            f"{'checked' if shards.read_manifest(settings.data_dir) else 'written'} first"
        )
    return [
        f"encoder-decoder, {parameters(settings) / 1e6:,.2f} M parameters: d_model {settings.d_model}, "
        f"{settings.nhead} heads, {settings.num_encoder_layers} + {settings.num_decoder_layers} layers, feed-forward "
        f"{settings.dim_feedforward}, vocabulary {settings.vocab_size}",
        f"{settings.precision}, batch {settings.batch_size} × {_counted(settings.num_gpus, 'process', 'processes')} = "
        f"{settings.effective_batch} sequence pairs of {settings.seq_len} tokens a step; {pairs} and {steps} an epoch; "
        f"{_counted(settings.epochs, 'epoch', 'epochs')}, after {settings.warmup_epochs} to warm up",
        source,
    ]


def figures(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """Return what a training reached, beyond what all trainings have: (name, value)."""
    native = {name: value for name, value in run.native_metrics.items() if isinstance(value, (int, float))}
    memory, parts = run.memory_metrics, run.breakdown
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
            "memory of a GPU, peak" if run.platform != "cpu" else "memory of a process, peak",
            units.gigabytes(peak if peak is not None else memory.peak_memory_process_gb),
        ),
    ]
    if run.platform != "cpu":
        busy = native.get("gpu_utilisation_percent")
        rows.append(("GPU utilisation", units.UNKNOWN if busy is None else f"{busy:.0f} %"))
    rows += [("achieved", text) for text in _achieved(run, summary)]
    if "delivered_gb_per_second" in native:
        delivered, read, written = (
            _rate(native.get(name))
            for name in ("delivered_gb_per_second", "read_gb_per_second_per_worker", "written_gb_per_second")
        )
        rows.append(
            ("storage", f"{delivered} taken in; {read} by a worker while it reads; {written} when it was written")
        )
    return rows


def _achieved(run: Run, summary: Summary) -> list[str]:
    found = efficiency.efficiencies(run, summary, efficiency.Options())
    if not found or (reached := found[-1].values["model_tflops_per_gpu"].value) is None:
        return []
    share = found[-1].values.get("mfu")
    mfu = f", MFU {share.value:.1f} %" if share is not None and share.value is not None else ""
    return [f"{reached:.3g} TFLOP/s {'a process' if run.platform == 'cpu' else 'a GPU'}{mfu}"]


def _rate(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{shards.size_text(value * GB)}/s"


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _settings(request: Request) -> Settings:
    return cast(EncDecTraining, request).config


class EncDecFramework(Framework):
    """The one model's framework: not among FRAMEWORKS, as it trains no other and nothing else trains it."""

    def unavailable(self) -> str | None:
        """Return None: what is missing is said when it is imported."""
        return None

    def launch(self, request: Request) -> Launch:
        """Return the command for a request."""
        return encdec.launch(_settings(request))

    def hook(self, name: str) -> Any:
        """Return a function of this file, or its default."""
        return globals().get(name) or getattr(loops, name)


ENCDEC = EncDecFramework(FRAMEWORK, models=(MODEL,), data="pairs")
