"""Which single corrections would make an impossible value possible, and what supports each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from tprimat.analysis import flops
from tprimat.notes import Note, NoteValue
from tprimat.results.run import ModelConfig, Run
from tprimat.units import GB, GIB

EXACT = 0.001
"""A correction fits if it explains the discrepancy to within 0.1 %."""

NEAR = 0.02
"""The same for FLOPs, which every framework counts slightly differently."""

_SIZES = ("micro_batch_size", "global_batch_size", "sequence_length")
SEQUENCE_LENGTHS = tuple(1024 * 2**power for power in range(8))
FACTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 256)


@dataclasses.dataclass(frozen=True)
class KnownConfiguration:
    """A configuration that a framework ships for a model; `gpu` is part of a device's name, or
    empty for any device.
    """

    framework: str
    model: str
    gpu: str
    micro_batch_size: int
    global_batch_size: int
    sequence_length: int
    source: str


_PRIMUS = "https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs"
_NEMO = "https://github.com/NVIDIA-NeMo/NeMo/tree/v2.7.3/nemo/collections/llm/recipes"

KNOWN_CONFIGURATIONS = (
    KnownConfiguration("primus", "llama", "MI300X", 2, 128, 8192, f"{_PRIMUS}/MI300X"),
    KnownConfiguration("primus", "qwen", "MI300X", 10, 640, 2048, f"{_PRIMUS}/MI300X"),
    KnownConfiguration("primus", "llama", "MI325", 4, 128, 8192, f"{_PRIMUS}/MI325X"),
    KnownConfiguration("primus", "qwen", "MI325", 12, 384, 2048, f"{_PRIMUS}/MI325X"),
    KnownConfiguration("primus", "llama", "MI355X", 4, 256, 8192, f"{_PRIMUS}/MI355X"),
    KnownConfiguration("primus", "qwen", "MI355X", 16, 768, 2048, f"{_PRIMUS}/MI355X"),
    KnownConfiguration("nemo", "llama", "", 1, 512, 8192, _NEMO),
    KnownConfiguration("nemo", "qwen", "", 2, 32, 4096, _NEMO),
    KnownConfiguration("nemo", "mistral", "", 1, 512, 4096, _NEMO),
)


_Correction = tuple[int, Note]
"""A rank, lower for better supported corrections, and the correction."""


def tokens_per_step(run: Run, factor: float, unit: str = "tokens/s") -> tuple[Note, ...]:
    """Return the corrections that multiply the work of a step, or the rate, by a factor, the best
    supported first.

    Args:
        run: the run whose printed rate and stated work disagree.
        factor: the work of a step that follows from rate and step times, divided by the stated one.
        unit: of the rate, tokens/s or samples/s; samples don't depend on the sequence length.
    """
    length = run.training_config.sequence_length
    batch = run.training_config.global_batch_size
    corrections = [*left_out(run, factor), *_gpu_counts(run, factor), *_units(run, factor)]
    for other in SEQUENCE_LENGTHS if unit == "tokens/s" else ():
        if length and _fits(other / length, factor):
            lengths = {"length": other, "stated": length}
            corrections.append(_of_configuration(run, "length", lengths, 2, sequence_length=other))
    for times in (*FACTORS, *(1 / part for part in FACTORS)):
        if batch and _fits(times, factor) and (times > 1 or batch % round(1 / times) == 0):
            other = round(batch * times)
            accumulation = f"{times} times" if times > 1 else f"1/{round(1 / times)} of"
            batches: dict[str, NoteValue] = {"batch": other, "stated": batch}
            batches["accumulation"] = accumulation
            corrections.append(_of_configuration(run, "batch", batches, 3, global_batch_size=other))
    return tuple(note for _, note in sorted(corrections, key=lambda ranked: ranked[0]))


def left_out(run: Run, factor: float, tolerance: float = EXACT) -> Iterator[_Correction]:
    """Yield the known factors of the batch (accumulation steps, replicas) that may be missing in
    the batch, or in the printed rate: those that equal `factor`.
    """
    spread = run.parallelism_config
    place = "batch" if factor > 1 else "printed rate"
    for code, size in (
        ("accumulation-omitted", spread.gradient_accumulation_steps),
        ("replicas-omitted", spread.data_parallel_size),
    ):
        if size and size > 1 and math.isclose(max(factor, 1 / factor), size, rel_tol=tolerance):
            yield 0, Note(code, {"size": size, "place": place})


def above_peak(run: Run, share: float) -> tuple[Note, ...]:
    """Return what may explain a rate above a GPU's peak.

    The true rate is unknown here, so no explanation fits exactly; each one that would bring the
    rate below the peak is returned. `share` is the rate divided by the peak, above 1.
    """
    config = run.training_config
    gpus = run.num_gpus
    causes = []
    if config.precision == "fp32":
        causes.append(Note("narrow-as-fp32"))
    if gpus and gpus > 1 and gpus * 0.1 < share <= gpus:
        causes.append(Note("total-as-per-gpu", {"gpus": gpus, "share": share / gpus}))
    if config.precision in ("bf16", "fp16") and share <= 2:
        causes.append(Note("fp8-instead", {"precision": config.precision.upper()}))
    if config.global_batch_size and config.sequence_length and share <= 2:
        causes.append(Note("half-the-tokens", {"share": share / 2}))
    if run.model_config.trainable_parameters is None and share < 1.5:
        causes.append(Note("frozen-weights", {"share": share / 1.5}))
    return (*causes, Note("steps-not-timed"))


def flops_per_step(shape: ModelConfig, length: int, work: float) -> tuple[Note, ...]:
    """Return what may explain printed FLOPs per sequence (`work`) that differ from those of the
    shape and sequence length.
    """
    causes = []
    for other in SEQUENCE_LENGTHS:
        for causal in (True, False) if other != length else ():
            counted = flops.flops_per_token(shape, other, causal=causal) or 0
            if math.isclose(counted * other, work, rel_tol=NEAR):
                causes.append(Note("counted-length", {"length": other, "stated": length}))
    return (*causes, Note("formula-unfit"))


def _fits(correction: float, factor: float) -> bool:
    return math.isclose(correction, factor, rel_tol=EXACT)


def _of_configuration(
    run: Run, size: str, sizes: Mapping[str, NoteValue], rank: int, **corrected: int
) -> _Correction:
    """Return a correction of a length or a batch. Its rank is 0, the first, if a shipped
    configuration of this framework, model and device has the corrected value and agrees with the
    other sizes that the run states; else it is `rank`.
    """
    needed = {}
    for name in _SIZES:
        value = getattr(run.training_config, name)
        if value is not None:
            needed[name] = value
    needed |= corrected
    for shipped in KNOWN_CONFIGURATIONS:
        is_of_run = (shipped.framework, shipped.model) == (run.framework, run.model)
        fits_device = shipped.gpu in (run.gpu_info.device_name or "")
        has_sizes = all(getattr(shipped, name) == value for name, value in needed.items())
        if is_of_run and fits_device and has_sizes:
            support = {"framework": run.framework, "source": shipped.source}
            return 0, Note(f"default-{size}", {**sizes, **support})
    return rank, Note(f"other-{size}", sizes)


def _gpu_counts(run: Run, factor: float) -> Iterator[_Correction]:
    """Yield another number of GPUs that fits; with rank 9, the last, if the printed total and
    per-GPU rates exclude it.
    """
    gpus = run.num_gpus or 0
    total = run.native_metrics.get("tokens_per_second")
    per_gpu = run.native_metrics.get("tokens_per_second_per_gpu")
    printed = None
    if isinstance(total, float) and isinstance(per_gpu, float) and per_gpu:
        printed = total / per_gpu
    for times in (2, 4, 8, 16):
        if gpus and (_fits(times, factor) or (_fits(1 / times, factor) and gpus % times == 0)):
            other = gpus * times if factor > 1 else gpus // times
            counts = {"gpus": other, "stated": gpus}
            if printed and _fits(printed, gpus):
                yield 9, Note("gpu-count-excluded", {**counts, "ratio": printed})
            else:
                code = "dual-die-counted-once" if times == 2 else "other-gpu-count"
                yield 4, Note(code, counts)


def _units(run: Run, factor: float) -> Iterator[_Correction]:
    gpus = run.num_gpus or 1
    if gpus > 1 and _fits(1 / gpus, factor):
        yield 1, Note("per-gpu-rate-as-total", {"gpus": gpus})
    if gpus > 1 and _fits(gpus, factor):
        yield 1, Note("total-rate-as-per-gpu", {"gpus": gpus})
    if _fits(1000, factor) or _fits(1 / 1000, factor):
        yield 1, Note("milliseconds-as-seconds")
    if _fits(GIB / GB, factor) or _fits(GB / GIB, factor):
        yield 1, Note("gib-as-gb")
