"""Which single correction would make an impossible value possible, and the support for each."""

from __future__ import annotations

import dataclasses
import math

from tprimat.results.run import Run
from tprimat.units import GB, GIB

EXACT = 0.001
"""A correction fits when it explains the discrepancy to 0.1 %."""

SEQUENCE_LENGTHS = tuple(1024 * 2**power for power in range(8))
FACTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 256)


@dataclasses.dataclass(frozen=True)
class KnownConfiguration:
    """A configuration that a framework ships for a model.

    Attributes:
        framework, model: as in a result.
        gpu: part of the device's name; empty where the configuration is for all.
        micro_batch_size, global_batch_size, sequence_length: its defaults.
        source: where it stands.
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


@dataclasses.dataclass(frozen=True)
class _Correction:
    text: str
    support: str
    rank: int


def tokens_per_step(run: Run, factor: float) -> tuple[str, ...]:
    """Return the corrections that multiply the tokens of a step, or the rate, by a factor, the best supported first.

    Args:
        run: the run whose printed rate and declared work disagree.
        factor: tokens per step that the rate and the times need, over the declared ones.
    """
    length, batch = run.training_config.sequence_length, run.training_config.global_batch_size
    corrections = [*_gpu_counts(run, factor), *_units(run, factor)]
    for other in SEQUENCE_LENGTHS:
        if length and _fits(other / length, factor):
            text = f"sequence length {other} instead of {length}"
            corrections.append(_of_configuration(run, text, _NOTHING, 2, sequence_length=other))
    for times in (*FACTORS, *(1 / each for each in FACTORS)):
        if batch and _fits(times, factor) and (times > 1 or batch % round(1 / times) == 0):
            other = round(batch * times)
            accumulation = f"{times} times" if times > 1 else f"1/{round(1 / times)} of"
            text = f"global batch {other} instead of {batch} (or {accumulation} the gradient accumulation)"
            support = "no known configuration has it"
            corrections.append(_of_configuration(run, text, support, 3, global_batch_size=other))
    return tuple(f"{each.text}: {each.support}" for each in sorted(corrections, key=lambda each: each.rank))


def _of_configuration(run: Run, text: str, otherwise: str, rank: int, **values: int) -> _Correction:
    """Return a correction, ranked first where a shipped configuration has the values."""
    known = _known(run, **values)
    if known is None:
        return _Correction(text, otherwise, rank)
    return _Correction(text, f"the default of {run.framework} for this model ({known.source})", 0)


def above_peak(run: Run, share: float) -> tuple[str, ...]:
    """Return what may be behind a rate above a card's peak.

    The true rate is unknown here, so nothing fits exactly; each text has how large an error of
    its kind would have to be.

    Args:
        run: the run.
        share: the rate as a share of the peak, above one.
    """
    config, causes = run.training_config, []
    gpus = run.num_gpus
    if gpus and gpus > 1 and share > gpus * 0.1:
        causes.append(f"a rate of all {gpus} GPUs taken for that of one: it would be {share / gpus:.0%} of the peak")
    if config.precision in ("bf16", "fp16"):
        causes.append("fp8 instead of the declared precision: the peak would be about twice as high")
    if config.precision == "fp32":
        causes.append(
            "tf32 or bf16 in the matrix products instead of the declared fp32: the peak is several times higher"
        )
    if config.global_batch_size and config.sequence_length:
        causes.append(
            f"fewer tokens per step than the declared {config.global_batch_size} × {config.sequence_length}: "
            f"at half of them it would be {share / 2:.0%} of the peak"
        )
    causes.append("steps that skip the work, or times taken before the device had finished")
    return tuple(causes)


_NOTHING = "nothing else speaks for it"


def _fits(correction: float, factor: float) -> bool:
    return math.isclose(correction, factor, rel_tol=EXACT)


def _known(run: Run, **corrected: int) -> KnownConfiguration | None:
    """Return a shipped configuration of this framework, model and device that has these values and
    agrees with all else that the run states.
    """
    device = run.gpu_info.device_name or ""
    stated = {
        "micro_batch_size": run.training_config.micro_batch_size,
        "global_batch_size": run.training_config.global_batch_size,
        "sequence_length": run.training_config.sequence_length,
    }
    for each in KNOWN_CONFIGURATIONS:
        if (each.framework, each.model) != (run.framework, run.model) or each.gpu not in device:
            continue
        values = {**{name: value for name, value in stated.items() if value is not None}, **corrected}
        if all(getattr(each, name) == value for name, value in values.items()):
            return each
    return None


def _gpu_counts(run: Run, factor: float) -> list[_Correction]:
    """Return another number of GPUs, unless the printed total and per-GPU rates exclude it."""
    gpus = run.num_gpus
    if not gpus:
        return []
    total, per_gpu = (run.native_metrics.get(name) for name in ("tokens_per_second", "tokens_per_second_per_gpu"))
    printed = total / per_gpu if isinstance(total, float) and isinstance(per_gpu, float) and per_gpu else None
    corrections = []
    for times in (2, 4, 8, 16):
        if not _fits(times, factor) and not _fits(1 / times, factor):
            continue
        count = gpus * times if factor > 1 else gpus // times
        if printed and _fits(printed, gpus):
            corrections.append(
                _Correction(
                    f"{count} GPUs instead of {gpus}",
                    f"excluded: the printed total is {printed:.3f} times the printed rate per GPU",
                    9,
                )
            )
        else:
            what = "a card of two dies counted as one, or " if times == 2 else ""
            corrections.append(_Correction(f"{count} GPUs instead of {gpus}", f"{what}{_NOTHING}", 4))
    return corrections


def _units(run: Run, factor: float) -> list[_Correction]:
    corrections = []
    gpus = run.num_gpus or 0
    if gpus > 1 and _fits(1 / gpus, factor):
        corrections.append(_Correction("a rate per GPU printed as the total", f"the factor is exactly 1/{gpus}", 1))
    if gpus > 1 and _fits(gpus, factor):
        corrections.append(_Correction("a total printed as the rate per GPU", f"the factor is exactly {gpus}", 1))
    if _fits(1000, factor) or _fits(1 / 1000, factor):
        corrections.append(_Correction("milliseconds taken for seconds", "the factor is exactly 1000", 1))
    if _fits(GIB / GB, factor) or _fits(GB / GIB, factor):
        corrections.append(_Correction("GiB taken for GB", "the factor is exactly 1.0737", 1))
    return corrections
