"""Which single correction would make an impossible value possible, and the support for each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from tprimat.analysis import flops
from tprimat.results.run import ModelConfig, Run
from tprimat.units import GB, GIB

EXACT = 0.001
"""A correction fits when it explains the discrepancy to 0.1 %."""

NEAR = 0.02
"""The same for FLOPs, which every framework counts a little differently."""

_SIZES = ("micro_batch_size", "global_batch_size", "sequence_length")
SEQUENCE_LENGTHS = tuple(1024 * 2**power for power in range(8))
FACTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 256)


@dataclasses.dataclass(frozen=True)
class KnownConfiguration:
    """A configuration that a framework ships for a model; `gpu` is part of a device's name, or
    empty for all.
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


_NOTHING = "no supporting evidence"

_Correction = tuple[int, str]
"""A rank, the best supported first, and the correction with its support."""


def tokens_per_step(run: Run, factor: float, unit: str = "tokens/s") -> tuple[str, ...]:
    """Return the corrections that multiply the work of a step, or the rate, by a factor, the best
    supported first.

    Args:
        run: the run whose printed rate and declared work disagree.
        factor: work per step that the rate and the times need, over the declared one.
        unit: of the rate, tokens/s or samples/s; samples don't depend on the sequence length.
    """
    length = run.training_config.sequence_length
    batch = run.training_config.global_batch_size
    corrections = [*left_out(run, factor), *_gpu_counts(run, factor), *_units(run, factor)]
    for other in SEQUENCE_LENGTHS if unit == "tokens/s" else ():
        if length and _fits(other / length, factor):
            text = f"sequence length {other} instead of {length}"
            corrections.append(_of_configuration(run, text, 2, sequence_length=other))
    for times in (*FACTORS, *(1 / each for each in FACTORS)):
        if batch and _fits(times, factor) and (times > 1 or batch % round(1 / times) == 0):
            other = round(batch * times)
            if times > 1:
                accumulation = f"{times} times"
            else:
                accumulation = f"1/{round(1 / times)} of"
            text = (
                f"global batch {other} instead of {batch}, or {accumulation} the gradient"
                " accumulation"
            )
            corrections.append(_of_configuration(run, text, 3, global_batch_size=other))
    return tuple(text for _, text in sorted(corrections, key=lambda each: each[0]))


def left_out(run: Run, factor: float, tolerance: float = EXACT) -> Iterator[_Correction]:
    """Yield which known part of the batch is missing in it, or in the rate: it is exactly the
    factor.
    """
    spread = run.parallelism_config
    place = "batch" if factor > 1 else "printed rate"
    for size, name in (
        (
            spread.gradient_accumulation_steps,
            "one of the two counts micro-batches: gradient accumulation of",
        ),
        (spread.data_parallel_size, "data-parallel size"),
    ):
        if size and size > 1 and math.isclose(max(factor, 1 / factor), size, rel_tol=tolerance):
            yield 0, f"{name} {size} is not in the {place}"


def above_peak(run: Run, share: float) -> tuple[str, ...]:
    """Return what may be behind a rate above a card's peak.

    The true rate is unknown here, so nothing fits exactly; a text is there if an error of its kind
    brings the rate below the peak. `share` is the rate as a share of the peak, above one.
    """
    config = run.training_config
    gpus = run.num_gpus
    causes = []
    if config.precision == "fp32":
        causes.append(
            "TF32 or BF16 in the matrix products instead of FP32 (the peak would be several times"
            " higher)"
        )
    if gpus and gpus > 1 and gpus * 0.1 < share <= gpus:
        causes.append(
            f"total of {gpus} GPUs reported as per-GPU (would be {share / gpus:.0%} of peak)"
        )
    if config.precision in ("bf16", "fp16") and share <= 2:
        causes.append(
            f"FP8 instead of {config.precision.upper()} (the peak would be about twice as high)"
        )
    if config.global_batch_size and config.sequence_length and share <= 2:
        causes.append(f"half the declared tokens per step (would be {share / 2:.0%} of peak)")
    if run.model_config.trainable_parameters is None and share < 1.5:
        lora = f"frozen weights, as in LoRA (would be {share / 1.5:.0%} of peak or more)"
        causes.append(f"{lora}: state model_config.trainable_parameters")
    causes.append("skipped steps, or timing without GPU synchronization")
    return tuple(causes)


def flops_per_step(shape: ModelConfig, length: int, work: float) -> tuple[str, ...]:
    """Return what may be behind the printed FLOPs of a sequence that aren't those of the shape and
    length.
    """
    others = [each for each in SEQUENCE_LENGTHS if each != length]
    causes = []
    for other in others:
        for counted in (
            flops.flops_per_token(shape, other, causal=causal) or 0 for causal in (True, False)
        ):
            if math.isclose(counted * other, work, rel_tol=NEAR):
                causes.append(f"sequence length {other} instead of {length}")
    return (
        *causes,
        (
            "a formula of the framework that doesn't fit this model; another batch, shape or number"
            " of GPUs"
        ),
    )


def _fits(correction: float, factor: float) -> bool:
    return math.isclose(correction, factor, rel_tol=EXACT)


def _of_configuration(run: Run, text: str, rank: int, **corrected: int) -> _Correction:
    """Return a correction, ranked first if a shipped configuration of this framework, model and
    device has the corrected values and agrees with all else that the run states.
    """
    config = run.training_config
    values = {
        name: value for name in _SIZES if (value := getattr(config, name)) is not None
    } | corrected
    for each in KNOWN_CONFIGURATIONS:
        is_of_run = (each.framework, each.model) == (run.framework, run.model)
        fits_device = each.gpu in (run.gpu_info.device_name or "")
        if (
            is_of_run
            and fits_device
            and all(getattr(each, name) == value for name, value in values.items())
        ):
            return 0, f"{text}: the {run.framework} default for this model ({each.source})"
    return rank, f"{text} ({_NOTHING})"


def _gpu_counts(run: Run, factor: float) -> Iterator[_Correction]:
    """Yield another number of GPUs, unless the printed total and per-GPU rates exclude it."""
    gpus = run.num_gpus or 0
    total = run.native_metrics.get("tokens_per_second")
    per_gpu = run.native_metrics.get("tokens_per_second_per_gpu")
    if isinstance(total, float) and isinstance(per_gpu, float) and per_gpu:
        printed = total / per_gpu
    else:
        printed = None
    for times in (2, 4, 8, 16):
        if gpus and (_fits(times, factor) or (_fits(1 / times, factor) and gpus % times == 0)):
            text = f"{gpus * times if factor > 1 else gpus // times} GPUs instead of {gpus}"
            if printed and _fits(printed, gpus):
                yield (
                    9,
                    (
                        f"{text} (ruled out: the printed total is {printed:.3f} times the printed"
                        " rate per GPU)"
                    ),
                )
            else:
                what = ""
                if times == 2:
                    what = "dual-die GPU counted as one device; "
                yield 4, f"{text} ({what}{_NOTHING})"


def _units(run: Run, factor: float) -> Iterator[_Correction]:
    gpus = math.nan
    if run.num_gpus and run.num_gpus > 1:
        gpus = run.num_gpus
    rows = (
        ((1 / gpus,), "per-GPU rate reported as the total", f"1/{gpus}"),
        ((gpus,), "total rate reported as per-GPU", f"{gpus}"),
        ((1000, 1 / 1000), "milliseconds read as seconds", "1000"),
        ((GIB / GB, GB / GIB), "GiB read as GB", "1.0737"),
    )
    for factors, text, exactly in rows:
        if any(_fits(each, factor) for each in factors):
            yield 1, f"{text} (the factor is exactly {exactly})"
