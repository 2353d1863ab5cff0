"""Plausibility checks: compare values with the data sheet and with the result's other values."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tprimat.analysis import conventions, flops, records
from tprimat.analysis.efficiency.subject import HIGH_MFU, Options, Subject, Value
from tprimat.analysis.summary import Summary
from tprimat.catalog import gpus, models
from tprimat.catalog.gpus import Gpu
from tprimat.checks import CONTRADICTION, Finding, Severity, corrections, finding_of
from tprimat.notes import Note, NoteValue
from tprimat.results.run import Run
from tprimat.units import GB, GIB

SAME = 0.01
NEAR = 0.05
"""Relative distance of the printed rate from the one that batch, sequence length and step time
give. Up to SAME is rounding, up to NEAR may be due to averaging over other steps; beyond it, they
are different quantities.
"""

LEAST_RECORDS = 3
AVERAGED = 1000
"""LEAST_RECORDS: fewest records after the first that show that the work of a record is constant.
AVERAGED: sequences of a record from which the share of padding is constant, too: it varies with the
lengths of texts, whose mean over 128 sequences varies by some 5 %, over 1,000 by 1 %.
"""

POWER_MARGIN = 1.1
POWER_SECONDS = 10.0
"""A GPU may exceed its power cap briefly; a ten-second mean above 1.1× the cap is implausible."""

PACKED_SHARE = 0.9
"""Share of the peak that no training reaches with the matrix products of its weights alone. Packed
documents make attention cheaper than the sequence length implies. If it is unknown whether
documents are packed, attention is counted only above this share.
"""

PRINTED_FLOPS = 0.1
"""Relative distance by which a printed TFLOP/s may be outside the range of all ways of counting,
which differ in the parts that they count.
"""

_TWICE = (
    "sizes-contradict",
    "model-against-shape",
    "stated-against-seen",
    "rates-against-stamps",
    "timer-mismatch",
)
"""Codes of notes that a source contradicts itself."""

STAMPS: Mapping[str, tuple[Severity, str]] = {
    "steps-beyond-stamps": ("error", "log-time"),
    "stamps-are-clock": ("warning", CONTRADICTION),
    "stamps-contradict": ("warning", CONTRADICTION),
}
"""Severities and rules of findings on step times that time stamps of the same source contradict, by
the codes of notes.
"""

DRIFT = 0.02
"""Relative difference up to which the work of a record, computed from what it prints, is equal to
the batch or to the work of other records.
"""

LEAST_PRODUCTS, ALIKE, MOSTLY = 15, 0.005, 0.9
"""A printed rate is computed from each record's own time if there are at least LEAST_PRODUCTS
records, and the share MOSTLY of them has the work of the record before to within ALIKE. Of 49
iterations of Primus all do; with packed documents, one in five does.
"""

_HALF = ("bf16", "fp16")
_NARROW = (*_HALF, "fp8", "fp4")


def findings(run: Run, summary: Summary) -> tuple[Finding, ...]:
    """Return the findings on impossible and implausible values of a run."""
    match = gpus.match(run.gpu_info)
    own_rate = _own_rate(run, summary)
    own_work = () if own_rate and own_rate.severity == "error" else tuple(_own_work(run))
    results = (
        *_compute(run, summary, match.candidates or _possible(run)),
        *_memory(run, match.gpu),
        _power(run, match.gpu),
        # If a rate is computed from each record's own time, averaging over other steps is no
        # explanation.
        *(own_work or (own_rate,)),
        _own_time(run),
        _own_flops(run),
        *_of_notes(run),
    )
    return tuple(result for result in results if result is not None)


def _of_notes(run: Run) -> Iterator[Finding]:
    """Yield findings for those notes of a run's reader that are as severe as findings on values."""
    for code, row in STAMPS.items():
        for note in run.notes:
            if note.code == code:
                yield Finding(*row, note)
    for note in run.notes:
        if note.code in _TWICE:
            yield Finding("warning", CONTRADICTION, note)


def mfu_doubt(results: Sequence[Finding]) -> Note | None:
    """Return why no MFU is shown: the source contradicts itself on batch, sequence length, shape or
    time, from which it is computed. None if it doesn't.
    """
    for result in results:
        if result.rule == CONTRADICTION:
            return result.note
    return None


def printed_tokens_per_second(run: Run) -> float | None:
    """Return the tokens/s over all devices that the source itself printed; None if it printed
    none.
    """
    if total := _printed(run, "tokens_per_second"):
        return total
    per_gpu = _printed(run, "tokens_per_second_per_gpu")
    if per_gpu and run.num_gpus:
        return per_gpu * run.num_gpus
    return None


def _printed(run: Run, name: str) -> float | None:
    """Return a printed rate, or the harmonic mean of a series of them; None if none is printed."""
    rate = run.native_metrics.get(name)
    if isinstance(rate, tuple):
        # The first record includes initialization, as in every other series.
        known = [each for each in rate[1:] if each and each > 0]
        if known:
            return statistics.harmonic_mean(known)
        return None
    if isinstance(rate, (int, float)):
        return float(rate)
    return None


def _own_flops(run: Run) -> Finding | None:
    """Compare the printed TFLOP/s with those that follow from batch, sequence length, shape and
    time, and explain a difference; None if there is none.
    """
    shape = flops.model_shape(run)[0]
    printed = run.native_metrics.get("tflops_per_gpu")
    tokens = run.tokens_per_step
    length = run.training_config.sequence_length
    if (
        shape is None
        or not tokens
        or not length
        or not run.num_gpus
        or not isinstance(printed, tuple)
    ):
        return None
    # Record by record, since the printed value is computed from the record's own time.
    work = _work(printed, run.step_times)
    least = flops.flops_per_token(shape, 0)
    usual = flops.flops_per_token(shape, length)
    if not work or least is None or usual is None:
        return None
    # The most that frameworks count: every weight as trained, every layer without a window, and a
    # further layer that predicts a second token.
    layers = (shape.num_layers or 0) + 1
    head = 6 * (shape.hidden_size or 0) * (shape.vocab_size or 0)
    whole = msgspec.structs.replace(
        shape, trainable_parameters=None, sliding_window=None, num_layers=layers
    )
    most = (flops.flops_per_token(whole, length, causal=False) or 0.0) + head
    if run.training_config.recomputation != "none":
        # Megatron-DeepSpeed prints the second forward pass, too.
        most *= 4 / 3
    per_token = statistics.median(work) * run.num_gpus * 1e12 / tokens
    shown = statistics.median(rate for rate in printed if rate)
    packed = run.training_config.packing is True
    match = next(iter(conventions.explanations(per_token, shape, length, packed=packed)), None)
    if (1 - PRINTED_FLOPS) * least <= per_token <= (1 + PRINTED_FLOPS) * most:
        if match is None or match.is_usual:
            return None
        return finding_of(
            "warning" if match.is_mistake else "info",
            "flops-convention",
            "flops-convention",
            printed=shown,
            counted=match.name,
            own=shown * usual / per_token,
        )
    causes = []
    if match and match.is_mistake:
        causes.append(Note("flops-count", {"counted": match.name}))
    left_out = [cause for _, cause in corrections.left_out(run, per_token / usual, SAME)]
    causes += [*left_out, *corrections.flops_per_step(shape, length, per_token * length)]
    is_refused = left_out and not packed and _constant_over(run, "tflops_per_gpu")
    kind: tuple[Severity, str] = ("error", "own-rate") if is_refused else ("warning", CONTRADICTION)
    own = shown * usual / per_token
    return finding_of(*kind, "flops-differ", tuple(causes), printed=shown, own=own)


def _possible(run: Run) -> tuple[Gpu, ...]:
    """Return the GPUs that an unnamed one may be: AMD's with its memory, or all of its vendor;
    empty if it has a name or a CPU trained.
    """
    info = run.gpu_info
    if info.device_name or "cpu" in (run.platform, info.software_stack):
        return ()
    vendor = {"nvd": "NVIDIA", "amd": "AMD"}.get(run.platform or "")
    rows = gpus.gpus()
    if vendor == "AMD" and info.total_memory_gb:
        rows = tuple(gpus.amd_gpus_by_memory(info.total_memory_gb * GB / GIB)) or rows
    # A GPU without a known peak can't exclude any value.
    return tuple(
        gpu for gpu in rows if vendor in (None, gpu.vendor) and _ceiling(gpu, None) < math.inf
    )


def _compute(run: Run, summary: Summary, candidates: Sequence[Gpu]) -> Iterator[Finding]:
    """Compare the achieved FLOP/s with the peak of the GPU, or of the fastest GPU that it may
    be.
    """
    rate = _highest_rate(summary)
    if not rate or not candidates:
        return
    precision = run.training_config.precision
    gpu = max(candidates, key=lambda gpu: _ceiling(gpu, precision))
    named: dict[str, NoteValue] = {"gpu": gpu.title, "among": None}
    if len(candidates) > 1:
        named["among"] = "of this name" if run.gpu_info.device_name else "that it may be"
    ceiling = _ceiling(gpu, precision)
    achieved = _tflops(run, rate, ceiling)
    if achieved is None:
        return
    if achieved > ceiling:
        yield _above_peak(run, gpu, named, rate, achieved)
        return
    if precision and gpu.lacks(precision):
        yield finding_of(
            "warning",
            "precision-lacking",
            "precision-lacking",
            gpu=gpu.title,
            precision=precision.upper(),
            used=gpu.computes_in(precision),
        )
    peaks = {}
    for narrow in _NARROW:
        if not gpu.lacks(narrow) and (peak := gpu.ceiling_tflops(narrow)):
            peaks[narrow] = peak
    half = next((peaks[name] for name in _HALF if name in peaks), math.inf)
    needed = _tflops(run, rate, half) or 0.0
    if precision is None and needed > half:
        possible = [name.upper() for name, peak in peaks.items() if peak >= needed]
        yield finding_of(
            "unverified",
            "precision-unstated",
            "precision-unstated",
            corrections.above_peak(run, needed / half),
            achieved=needed,
            share=needed / half,
            precisions=" or ".join(possible),
            **named,
        )
    else:
        yield from _high(run, summary, gpu, named, achieved)


def _high(
    run: Run, summary: Summary, gpu: Gpu, named: Mapping[str, NoteValue], achieved: float
) -> Iterator[Finding]:
    """Yield a finding if FLOP/s below the peak are above what matrix products, or trainings, are
    known to sustain.
    """
    if (
        run.gpu_info.device_name
        and run.training_config.precision == "bf16"
        and (best := gpu.sustained_bf16_tflops)
        and achieved > best
    ):
        yield finding_of(
            "warning",
            "above-sustained",
            "above-sustained",
            (),
            achieved=achieved,
            share=achieved / best,
            best=best,
            **named,
        )
    else:
        speed = Value(summary.performance.tokens_per_second_per_gpu)
        mfu = Subject([run], speed, Options()).mfu or 0.0
        if mfu > HIGH_MFU:
            yield finding_of("warning", "high-mfu", "high-mfu", mfu=mfu, highest=HIGH_MFU)


def _highest_rate(summary: Summary) -> float:
    """Return the tokens/s/GPU of a run or of its fastest segment, whichever is higher, since no
    segment may be above the peak; 0 if unknown.
    """
    rate = summary.performance.tokens_per_second_per_gpu or 0.0
    for segment in summary.segments:
        rate = max(rate, segment.tokens_per_second_per_gpu or 0.0)
    return rate


def _above_peak(
    run: Run, gpu: Gpu, named: Mapping[str, NoteValue], rate: float, achieved: float
) -> Finding:
    """Return the finding that a rate needs more TFLOP/s than the GPU's peak, with what would
    explain it. `named` has the fields that name the GPU.
    """
    precision = run.training_config.precision
    peak = _ceiling(gpu, precision)
    fields: dict[str, NoteValue] = {
        **named,
        "rate": rate,
        "achieved": achieved,
        "share": achieved / peak,
        "precision": (precision or "").upper(),
        "peak": peak,
    }
    causes = corrections.above_peak(run, achieved / peak)
    if precision == "fp32" and achieved <= (gpu.ceiling_tflops("tf32") or 0.0):
        # Frameworks call both FP32, and many compute in TF32 by default.
        return Finding("warning", CONTRADICTION, Note("tf32-as-fp32", fields), causes)
    if gpu.lacks(precision):
        fields |= {"lacking": fields["precision"], "used": gpu.computes_in(precision)}
    code = "above-peak" if gpu.ceiling_tflops(precision) else "above-every-peak"
    return Finding("error", "above-peak", Note(code, fields), causes)


def _ceiling(gpu: Gpu, precision: str | None) -> float:
    """Return a GPU's highest TFLOP/s in a precision, or in any precision if that one's is unknown;
    infinity if none is known.
    """
    if peak := gpu.ceiling_tflops(precision):
        return peak
    return max(filter(None, map(gpu.ceiling_tflops, _NARROW)), default=math.inf)


def _tflops(run: Run, rate: float, ceiling: float) -> float | None:
    """Return the least TFLOP/s that a rate needs, given what is known about packing; None if shape
    or sequence length is unknown.
    """
    shape, _ = flops.model_shape(run)
    length = run.training_config.sequence_length
    packing = run.training_config.packing
    if shape is None or length is None:
        return None
    weights, whole = (flops.flops_per_token(shape, tokens) for tokens in (0, length))
    if weights is None or whole is None:
        return None
    whole = rate * whole / 1e12
    weights = rate * weights / 1e12
    if packing is False or (packing is None and weights > PACKED_SHARE * ceiling):
        return whole
    return weights


def _memory(run: Run, gpu: Gpu | None) -> Iterator[Finding]:
    total = run.gpu_info.total_memory_gb or (gpu.memory_gb * GIB / GB if gpu else None)
    if total is None or run.platform == "cpu":
        return
    yield from _states(run, total)
    for name, value in run.memory_metrics.known().items():
        # Logs round the memory of a whole GPU to two decimals.
        if value > total * 1.001:
            causes: tuple[Note, ...] = ()
            if value / total < GIB / GB * 1.001:
                causes = (Note("memory-gib-as-gb", {"memory": total * GIB / GB}),)
            rule = "beyond-memory"
            yield finding_of("error", rule, rule, causes, metric=name, used=value, memory=total)


WEIGHT_BYTES, GRADIENT_BYTES, STATE_BYTES, FROZEN_BYTES = 2.0, 2.0, 2.0, 0.5
"""Least bytes per parameter: weights and gradients in BF16, two moments of 8 bits each, frozen
weights of 4 bits.
"""


def _states(run: Run, total: float) -> Iterator[Finding]:
    """Compare the memory of all GPUs with the least that weights, gradients and optimizer states
    take.

    Yields nothing if some of them may be in the memory of the CPU.
    """
    shape, _ = flops.model_shape(run)
    count = models.parameters(shape) if shape else None
    offloaded = any(
        "offload" in name and value not in (False, None, 0)
        for name, value in run.framework_config.items()
    )
    if shape is None or count is None or not run.num_gpus or offloaded or run.environment.emulated:
        return
    trained = min(count, shape.trainable_parameters or count)
    states = 0.0
    if "adam" in (run.optimizer.name or "").lower():
        states = STATE_BYTES
    bytes_each = WEIGHT_BYTES + GRADIENT_BYTES + states
    least = (trained * bytes_each + (count - trained) * FROZEN_BYTES) / GB
    if least > total * run.num_gpus:
        yield finding_of(
            "unverified",
            "beyond-memory",
            "states-beyond-memory",
            parameters=count,
            least=least,
            bytes=bytes_each,
            gpus=run.num_gpus,
            memory=total,
            total=total * run.num_gpus,
        )


def _power(run: Run, gpu: Gpu | None) -> Finding | None:
    power = run.energy_metrics.get("mean_power_watts_per_gpu")
    seconds = run.energy_metrics.get("measured_seconds")
    recorded = run.energy_metrics.get("power_cap_watts")
    if any(issue.code == "power-cap" for issue in run.telemetry.issues):
        # The recorded cap is the lowest one: it may apply to some steps only, or to one of several
        # GPUs.
        recorded = run.energy_metrics.get("power_default_watts")
    cap = recorded or (gpu.tdp_w if gpu else None)
    if (
        power is None
        or seconds is None
        or cap is None
        or seconds < POWER_SECONDS
        or power <= POWER_MARGIN * cap
    ):
        return None
    # Without a recorded cap it is only a warning: the cap may be higher than the data sheet's, and
    # the counter of one die may include the other one.
    code = "above-power-cap" if recorded else "above-rated-power"
    return finding_of(
        "error" if recorded else "warning",
        "above-power-cap",
        code,
        power=power,
        seconds=seconds,
        cap=cap,
        ratio=power / cap,
    )


def _windows(run: Run, summary: Summary) -> dict[str, float]:
    """Return the step times that a printed rate may be computed from, s, by the steps that they
    average.
    """
    windows = {}
    if mean := summary.performance.avg_step_time_seconds:
        windows["the steady-state steps"] = mean
    times = [time for time in run.step_times if time is not None]
    if any(times[1:]):
        windows["all steps after the first"] = statistics.fmean(times[1:])
    if any(times):
        windows["all steps"] = statistics.fmean(times)
        windows["the median step"] = statistics.median(times)
    return windows


def _likeliest(run: Run, factors: Mapping[str, float], unit: str) -> str:
    """Return the window of steps that a printed rate is most likely computed from. `factors`: the
    printed rate divided by that of each window.
    """
    closest = min(factors, key=lambda name: abs(factors[name] - 1))
    if abs(factors[closest] - 1) > NEAR:
        # No window gives the printed rate: one for which a correction explains it is likelier.
        for name, factor in factors.items():
            if corrections.tokens_per_step(run, factor, unit):
                return name
    return closest


def _own_rate(run: Run, summary: Summary) -> Finding | None:
    """Compare the printed rate with batch × sequence length / step time, over every window of steps
    that it may be computed from.
    """
    batch = run.training_config.global_batch_size
    length = run.training_config.sequence_length
    printed = printed_tokens_per_second(run)
    work = run.tokens_per_step
    unit = "tokens/s"
    if printed is None or work is None:
        printed = _printed(run, "samples_per_second")
        work = batch
        unit = "samples/s"
    if printed is None or work is None:
        return None
    windows = _windows(run, summary)
    factors = {name: printed * time / work for name, time in windows.items() if time}
    if not factors:
        return None
    closest = _likeliest(run, factors, unit)
    factor = factors[closest]
    if abs(factor - 1) <= SAME:
        return None
    rate = "token-rate" if unit == "tokens/s" else "sample-rate"
    if abs(factor - 1) <= NEAR:
        return finding_of(
            "warning",
            "own-rate",
            f"{rate}-near",
            printed=printed,
            deviation=factor - 1,
            window=closest,
        )
    fields: dict[str, NoteValue] = {
        "printed": printed,
        "batch": batch,
        "length": length,
        "time": windows[closest],
        "own": printed / factor,
        "factor": factor if factor > 1 else None,
    }
    code = f"{rate}-differs"
    causes = corrections.tokens_per_step(run, factor, unit)
    if any(note.code in STAMPS for note in run.notes):
        # If time stamps contradict the printed times, so does the rate from these times, and a
        # finding says so already.
        return Finding("warning", "own-rate", Note(code, fields), causes)
    records = 0
    if not run.training_config.packing:
        records = _constant_over(run, *_RATES[unit])
    # A framework that doesn't count padding prints fewer tokens than are computed; samples/s may be
    # measured by a timer without data wait.
    is_sure = unit == "tokens/s" and (factor > 1 or (batch or 0) * max(run.window_steps) < AVERAGED)
    fields["records"] = records or None
    if (records and (is_sure or causes)) or (is_sure and factor > 1):
        return Finding("error", "own-rate", Note(code, fields), causes)
    if unit == "tokens/s" and factor < 1:
        fields["uncounted"] = "padding"
    return Finding("warning", CONTRADICTION, Note(code, fields), causes)


_RATES = {
    "tokens/s": ("tokens_per_second", "tokens_per_second_per_gpu"),
    "samples/s": ("samples_per_second",),
}


def _work(rates: Sequence[float | None], times: Sequence[float | None]) -> list[float]:
    """Return printed rate × time of the records that have both."""
    both = zip(rates, times, strict=False)
    return [rate * time for rate, time in both if rate and time]


def _constant_over(run: Run, *names: str) -> int:
    """Return the number of records over which the work, printed rate × time, is constant; 0 if it
    varies.

    Padding varies by more than rounding does. The first record isn't counted: it includes
    initialization.
    """
    rates = next(
        (each for name in names if isinstance(each := run.native_metrics.get(name), tuple)), ()
    )
    work = _work(rates[1:], run.step_times[1:])
    if len(work) >= LEAST_RECORDS and max(work) <= (1 + SAME) * min(work):
        return len(work)
    return 0


def _own_work(run: Run) -> Iterator[Finding]:
    """Check the work of steps, each printed rate × the time of its own step: it is constant for one
    batch size.

    If the rate is computed from another time, or documents are packed, the products vary, and
    nothing follows from them.
    """
    tokens = None
    if run.training_config.global_batch_size:
        tokens = run.tokens_per_step
    shares = {
        "tokens_per_second": tokens,
        "tokens_per_second_per_gpu": (tokens or 0) / (run.num_gpus or 1),
    }
    for name, stated in {"tflops_per_gpu": None, **shares}.items() if tokens else ():
        printed = run.native_metrics.get(name)
        if not isinstance(printed, tuple):
            continue
        work = _work(printed, run.step_times)
        # The first records include initialization, and means over a window that isn't full yet.
        work = work[max(1, len(work) // 10) :]
        alike = sum(abs(after / before - 1) <= ALIKE for before, after in itertools.pairwise(work))
        if len(work) < LEAST_PRODUCTS or alike < MOSTLY * (len(work) - 1):
            continue
        size = len(work) // 4
        quarters = []
        for place in range(4):
            quarters.append(statistics.median(work[place * size : (place + 1) * size]))
        if (change := max(quarters) / min(quarters)) > 1 + DRIFT:
            yield finding_of("warning", CONTRADICTION, "work-changes", metric=name, ratio=change)
            continue
        if stated and (run.num_gpus or name == "tokens_per_second"):
            share = quarters[-1] / stated
        else:
            share = 1.0
        # Larger differences have causes, which _own_rate() names.
        if DRIFT <= abs(share - 1) <= NEAR:
            yield finding_of("warning", CONTRADICTION, "work-differs", metric=name, ratio=share)


def _own_time(run: Run) -> Finding | None:
    """Compare the step times of a live run with the wall time of its training, since one clock
    measured both; None if they agree.
    """
    entries = [entry for entry in run.timeline if entry.kind != "end"]
    steps = sum(entry.steps for entry in entries)
    kinds = ("training", "start-up")
    if run.source is None or run.source.kind != "live" or steps != sum(run.window_steps):
        return None
    total = records.total_time(run)[0]
    if not total:
        return None
    trained, begun = (
        math.fsum(entry.duration for entry in entries if entry.kind == kind) for kind in kinds
    )
    # A pause within the first step counts as start-up, with the time before it.
    excess = max(
        total - trained - begun, total - trained - (run.step_times[0] or 0.0) * run.window_steps[0]
    )
    # With several ranks, each step has the longest time of any rank, and the sum exceeds the time
    # of one rank; a pause after the last step may be recorded late.
    is_longer = run.timing.over_ranks == "one process" and excess > SAME * trained
    is_shorter = entries[-1].kind == "training" and trained - total > SAME * trained
    if is_longer or is_shorter:
        return finding_of("error", "own-time", "times-differ", steps=total, training=trained)
    return None
