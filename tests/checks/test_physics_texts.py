"""What plausibility checks say: whole findings, a row for each case."""

from __future__ import annotations

import msgspec
import pytest
from stored_runs import notes_of, series

from tprimat.analysis import flops
from tprimat.analysis.summary import summarize
from tprimat.catalog import models
from tprimat.checks import CONTRADICTION, corrections, physics
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.account import Entry, Timing
from tprimat.results.run import (
    Environment,
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    Run,
    Source,
    TrainingConfig,
)
from tprimat.results.telemetry import Telemetry, TelemetryIssue

LLAMA = models.by_name("llama").shape
H100, A100, V100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"
REST = "skipped steps, or timing without GPU synchronization"


def told(run):
    found = physics.findings(run, summarize(run))
    return [
        (each.severity, each.rule, words(each.note), *map(words, each.explanations))
        for each in found
    ]


def made_up(times=(1.0,) * 40, **fields):
    return Run(**{**series(times), **fields})


def working(
    device,
    tflops,
    precision="bf16",
    *,
    platform=None,
    packing=False,
    length=2048,
    shape=LLAMA,
    **info,
):
    """16 GPUs that do so many TFLOP/s each by the FLOPs of the weights and of causal attention,
    46.64 per token.
    """
    sizes = {"global_batch_size": 128, "sequence_length": length, "num_gpus": 16}
    config = TrainingConfig(**sizes, precision=precision, packing=packing)
    time = 8 * 2048 * flops.flops_per_token(LLAMA, 2048) / (tflops * 1e12)
    gpu = GpuInfo(device_name=device, **info)
    return made_up(
        (time,) * 40, model_config=shape, training_config=config, gpu_info=gpu, platform=platform
    )


def causes(share, precision="BF16"):
    """What may be behind a share of the peak between 1 and 1.5."""
    fp8 = (
        [f"FP8 instead of {precision} (the peak would be about twice as high)"] if precision else []
    )
    half = f"half the declared tokens per step (would be {share / 2:.0%} of peak)"
    lora = f"frozen weights, as in LoRA (would be {share / 1.5:.0%} of peak or more)"
    return (*fp8, half, f"{lora}: state model_config.trainable_parameters", REST)


def above(text, *explanations):
    return [("error", "above-peak", text, *explanations)]


UNNAMED = [
    # 206.158 GB are 192 GiB: an MI300X, or any GPU of AMD, where no row has the memory.
    (
        ("amd", 206.158, None, 1500),
        above(
            "32,162.2 tokens/s/GPU is 1,500 TFLOP/s per GPU, 115% of the dense BF16 peak of MI300X"
            " (1,307 TFLOP/s)",
            *causes(1.147),
        ),
    ),
    (
        ("amd", 20.0, None, 2600),
        above(
            "55,747.9 tokens/s/GPU is 2,600 TFLOP/s per GPU, 103% of the dense BF16 peak of MI355X,"
            " the fastest GPU that it may be, (2,517 TFLOP/s)",
            *causes(1.033),
        ),
    ),
    (
        ("nvd", 206.158, None, 2600),
        above(
            "55,747.9 tokens/s/GPU is 2,600 TFLOP/s per GPU, 104% of the dense BF16 peak of GB200,"
            " the fastest GPU that it may be, (2,500 TFLOP/s)",
            *causes(1.04),
        ),
    ),
    (
        (None, 206.158, "rocm", 2600),
        above(
            "55,747.9 tokens/s/GPU is 2,600 TFLOP/s per GPU, 103% of the dense BF16 peak of MI355X,"
            " the fastest GPU that it may be, (2,517 TFLOP/s)",
            *causes(1.033),
        ),
    ),
    (("nvd", None, None, 1300), []),
    (("nvd", None, "cpu", 5000), []),
    (("cpu", None, None, 5000), []),
]


def high(percent):
    text = (
        f"MFU of {percent}%: hardly any training is above 75%; check batch, sequence length, times"
    )
    return [("warning", "high-mfu", text)]


@pytest.mark.parametrize(("known", "expected"), UNNAMED)
def test_an_unnamed_gpu(known, expected):
    platform, memory, stack, tflops = known
    run = working(None, tflops, platform=platform, total_memory_gb=memory, software_stack=stack)
    assert told(run) == expected


ONLY_FP8 = "only possible in FP8, but the precision is unknown"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (
            (H100, 1000, "fp16"),
            above(
                "21,441.5 tokens/s/GPU is 1,000 TFLOP/s per GPU, 101% of the dense FP16 peak of"
                " H100 SXM (989 TFLOP/s)",
                *causes(1.0107, "FP16"),
            ),
        ),
        (
            (H100, 2000, None),
            above(
                "42,883.0 tokens/s/GPU is 2,000 TFLOP/s per GPU, more than H100 SXM reaches in any"
                " precision (1,979 TFLOP/s dense)",
                *causes(1.0107, None),
            ),
        ),
        (
            (H100, 1000, None),
            [
                (
                    "unverified",
                    "precision-unstated",
                    f"1,000 TFLOP/s per GPU is 101% of the dense BF16 peak of H100 SXM; {ONLY_FP8}",
                    *causes(1.0107, None),
                )
            ],
        ),
        (
            ("NVIDIA H100", 1000, None),
            [
                (
                    "unverified",
                    "precision-unstated",
                    (
                        "1,000 TFLOP/s per GPU is 101% of the dense BF16 peak of H100 SXM, the"
                        f" fastest GPU of this name; {ONLY_FP8}"
                    ),
                    *causes(1.0107, None),
                )
            ],
        ),
        (
            ("NVIDIA B200", 5000, None),
            [
                (
                    "unverified",
                    "precision-unstated",
                    (
                        "5,000 TFLOP/s per GPU is 222% of the dense BF16 peak of B200; only"
                        " possible in FP4, but the precision is unknown"
                    ),
                    "total of 16 GPUs reported as per-GPU (would be 14% of peak)",
                    REST,
                )
            ],
        ),
        ((V100, 100, None), []),
        (
            (A100, 400, "fp8"),
            above(
                "8,576.6 tokens/s/GPU is 400 TFLOP/s per GPU, 128% of the dense FP8 peak of A100"
                " SXM 80GB (312 TFLOP/s); it does not support FP8 and computes it in bf16",
                *causes(1.282, None),
            ),
        ),
        (
            (A100, 100, "fp8"),
            [
                (
                    "warning",
                    "precision-lacking",
                    "A100 SXM 80GB does not support FP8: the run used bf16 or another precision",
                )
            ],
        ),
        (
            (V100, 16, "fp32"),
            above(
                "343.1 tokens/s/GPU is 16 TFLOP/s per GPU, 102% of the dense FP32 peak of V100 SXM"
                " 16GB (16 TFLOP/s)",
                "TF32 or BF16 in the matrix products instead of FP32 (the peak would be several"
                " times higher)",
                *causes(1.019, None),
            ),
        ),
        (
            (A100, 150, "fp32"),
            [
                (
                    "warning",
                    "contradiction",
                    (
                        "only possible in TF32, not in the stated FP32: 3,216.2 tokens/s/GPU is 150"
                        " TFLOP/s per GPU, 769% of the dense FP32 peak of A100 SXM 80GB (20"
                        " TFLOP/s)"
                    ),
                    (
                        "TF32 or BF16 in the matrix products instead of FP32 (the peak would be"
                        " several times higher)"
                    ),
                    "total of 16 GPUs reported as per-GPU (would be 48% of peak)",
                    REST,
                )
            ],
        ),
        (
            (H100, 800, "bf16"),
            [
                (
                    "warning",
                    "above-sustained",
                    (
                        "800 TFLOP/s per GPU is 101% of the best BF16 matrix product measured on"
                        " H100 SXM (794 TFLOP/s)"
                    ),
                )
            ],
        ),
        ((H100, 800, "fp16"), high(81)),
        ((H100, 793, "bf16"), high(80)),
        ((H100, 743, "bf16"), high(75)),
        ((H100, 741, "bf16"), []),
    ],
)
def test_compute_against_the_peak(known, expected):
    assert told(working(*known)) == expected


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_fastest_segment_is_compared_with_the_peak(order):
    """700 TFLOP/s over the whole, 1,750 in its faster half."""
    times = tuple((*(2.0,) * 200, *(0.5,) * 200)[order])
    run = msgspec.structs.replace(working(H100, 700), **series(times))
    scale = 8 * 2048 * flops.flops_per_token(LLAMA, 2048) / (700 * 1e12) / 1.25
    run = msgspec.structs.replace(run, step_times=tuple(time * scale for time in times))
    assert [(each[1], each[2][:38]) for each in told(run)] == [
        ("above-peak", "37,522.6 tokens/s/GPU is 1,750 TFLOP/s")
    ]


def test_what_is_not_known_is_not_compared():
    assert told(working(H100, 5000, length=None)) == []
    assert told(working(H100, 5000, shape=ModelConfig(num_layers=32))) == []
    assert told(working("Q1000", 5000)) == []
    # The name of nothing that any vendor builds has no vendor's best product either.
    assert told(working(None, 2400, platform="nvd")) == []


@pytest.mark.parametrize(
    ("packing", "factor", "is_told"),
    [
        (True, 1.03, False),
        (True, 1.04, True),
        (None, 0.93, False),
        (None, 0.94, True),
        (False, 0.999, False),
    ],
)
def test_attention_of_packed_documents(packing, factor, is_told):
    """45.03 GFLOP without attention, 46.64 with that of 2,048 tokens; without a word of packing,
    from 90% on.
    """
    run = working(H100, factor * 989.4, packing=packing)
    assert (told(run)[0][1] == "above-peak") is is_told if packing else True
    if packing is None:
        # At 32,768 tokens attention alone is 12.9 GFLOP more.
        weights = flops.flops_per_token(LLAMA, 0)
        time = 8 * 32_768 * weights / ((factor - 0.035) * 989.4e12)
        config = msgspec.structs.replace(run.training_config, sequence_length=32_768)
        run = msgspec.structs.replace(run, training_config=config, step_times=(time,) * 40)
        assert ("above-peak" in [each[1] for each in told(run)]) is is_told


def of_memory(used, total=None, device=None, platform="nvd", **memory):
    metrics = MemoryMetrics(peak_memory_device_used_gb=used, **memory)
    gpu = GpuInfo(device_name=device, total_memory_gb=total)
    return made_up(gpu_info=gpu, memory_metrics=metrics, platform=platform)


GIBIBYTES = "GiB reported as GB (the device would have {} GB)"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            of_memory(105.0, 100.0),
            [("of 105.00 GB exceeds the 100.00 GB of the device", GIBIBYTES.format("107.37"))],
        ),
        (of_memory(110.0, 100.0), [("of 110.00 GB exceeds the 100.00 GB of the device",)]),
        # Of the catalog's row: 80 GiB, 85.90 GB.
        (of_memory(85.9, None, H100), []),
        (of_memory(100.0, None, H100), [("of 100.00 GB exceeds the 85.90 GB of the device",)]),
        (of_memory(100.0, 110.0, H100), []),
        (of_memory(100.0, None, "Q1000"), []),
        (of_memory(110.0, 100.0, platform="cpu"), []),
    ],
)
def test_memory_of_the_device(run, expected):
    name = "peak_memory_device_used_gb"
    assert told(run) == [
        ("error", "beyond-memory", f"{name} {text}", *more) for text, *more in expected
    ]


def holding(gpus=2, *, shape=None, optimizer="AdamW", emulated=None, **config):
    """70.55 billion parameters on GPUs of 85.02 GB."""
    known = shape or models.find("llama-3.1-70b").shape
    return made_up(
        model_config=known,
        training_config=TrainingConfig(num_gpus=gpus),
        gpu_info=GpuInfo(total_memory_gb=85.02),
        optimizer=Optimizer(name=optimizer),
        environment=Environment(emulated=emulated),
        framework_config=config,
    )


@pytest.mark.parametrize(
    ("run", "numbers"),
    [
        (holding(), ("423", "6", "2 GPUs", "170")),
        (holding(1), ("423", "6", "1 GPU", "85")),
        (holding(optimizer="SGD"), ("282", "4", "2 GPUs", "170")),
        (holding(optimizer=None), ("282", "4", "2 GPUs", "170")),
        # 10 of 70.55 billion trained: 60 GB, and 30.3 GB of half a byte each.
        (
            holding(
                1,
                shape=msgspec.structs.replace(
                    models.find("llama-3.1-70b").shape, trainable_parameters=10_000_000_000
                ),
            ),
            ("90", "6", "1 GPU", "85"),
        ),
        (
            holding(1, optimizer_offload=False, param_offload=None, offload=0),
            ("423", "6", "1 GPU", "85"),
        ),
        (holding(cpu_offload=True), None),
        (holding(emulated="MI300X"), None),
        (holding(None), None),
        (holding(shape=ModelConfig(num_layers=80)), None),
        (holding(shape=ModelConfig()), None),
    ],
)
def test_least_memory_of_the_states(run, numbers):
    if numbers is None:
        assert told(run) == []
        return
    least, each, gpus, total = numbers
    text = (
        f"70.6B parameters take at least {least} GB with gradients and optimizer states ({each}"
        f" bytes for each that is trained), but {gpus} of 85 GB have {total} GB: possible only with"
        " frozen or offloaded weights, which are not stated"
    )
    assert told(run) == [("unverified", "beyond-memory", text)]


CAP = (TelemetryIssue(code="power-cap", text="capped"),)


def powered(watts, *, seconds=60.0, device=H100, issues=(), **metrics):
    known = {"mean_power_watts_per_gpu": watts, "measured_seconds": seconds, **metrics}
    return made_up(
        gpu_info=GpuInfo(device_name=device),
        energy_metrics=known,
        telemetry=Telemetry(issues=issues),
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            powered(600.0, power_cap_watts=500.0),
            ("error", "mean power of 600 W per GPU over 60 s exceeds the 500 W power cap (1.20×)"),
        ),
        (powered(549.0, power_cap_watts=500.0), None),
        (powered(800.0, power_cap_watts=900.0), None),
        (
            powered(800.0),
            (
                "warning",
                (
                    "mean power of 800 W per GPU over 60 s exceeds the 700 W of the data sheet"
                    " (1.14×); the power cap is not recorded"
                ),
            ),
        ),
        (powered(800.0, device="Q1000"), None),
        (powered(600.0, power_cap_watts=500.0, seconds=9.0), None),
        (powered(600.0, power_cap_watts=500.0, seconds=None), None),
        (powered(None, power_cap_watts=500.0), None),
        # The lowest of several caps is recorded.
        (powered(600.0, power_cap_watts=300.0, power_default_watts=560.0, issues=CAP), None),
        (
            powered(600.0, power_cap_watts=300.0, power_default_watts=400.0, issues=CAP),
            ("error", "mean power of 600 W per GPU over 60 s exceeds the 400 W power cap (1.50×)"),
        ),
        (powered(600.0, power_cap_watts=300.0, issues=CAP), None),
    ],
)
def test_power_and_its_cap(run, expected):
    assert told(run) == ([(expected[0], "above-power-cap", expected[1])] if expected else [])


CONFIG = TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8)


@pytest.mark.parametrize(
    ("native", "gpus", "rate"),
    [
        ({"tokens_per_second": 900, "tokens_per_second_per_gpu": 7.0}, 8, 900.0),
        ({"tokens_per_second": 900.5}, None, 900.5),
        # Automodel's rate per GPU is not divided by all GPUs.
        (
            {"tokens_per_second": (1.0, 200.0, 600.0), "tokens_per_second_per_gpu": (7.0,) * 3},
            8,
            300.0,
        ),
        ({"tokens_per_second": (1.0, None, 0.0), "tokens_per_second_per_gpu": 7.0}, 8, 56.0),
        ({"tokens_per_second_per_gpu": 7.0}, 8, 56.0),
        ({"tokens_per_second_per_gpu": 7.0}, None, None),
        ({"tokens_per_second_per_gpu": (900.0, 100.0, 300.0)}, 8, 8 * 150.0),
        ({"tokens_per_second_per_gpu": (900.0, None, 300.0)}, 8, 8 * 300.0),
        ({"tokens_per_second_per_gpu": (900.0, 0.0, 300.0)}, 8, 8 * 300.0),
        ({"tokens_per_second_per_gpu": (900.0, None, None)}, 8, None),
        ({}, 8, None),
    ],
)
def test_the_rate_that_a_source_printed(native, gpus, rate):
    run = made_up((1.0,) * 3, training_config=TrainingConfig(num_gpus=gpus), native_metrics=native)
    assert physics.printed_tokens_per_second(run) == (None if rate is None else pytest.approx(rate))


SLOW_FIRST = (9.0, *(1.0,) * 37, 2.0, 4.0)
"""Steady from the second step on: a mean of 43 / 39 s, of 52 / 40 s with the first; the median is 1
s.
"""


def printing(rate, times=(1.0,) * 40, config=CONFIG):
    return made_up(times, training_config=config, native_metrics={"tokens_per_second": rate})


def sampling(rate, batch=64):
    rates = {"samples_per_second": (1.0, *(rate,) * 39)}
    return made_up(
        (1.0,) * 40,
        training_config=TrainingConfig(global_batch_size=batch, num_gpus=8),
        native_metrics=rates,
    )


OFFERS = (
    "sequence length 4096 instead of 2048 (no supporting evidence)",
    "global batch 128 instead of 64, or 2 times the gradient accumulation (no supporting evidence)",
    "16 GPUs instead of 8 (dual-die GPU counted as one device; no supporting evidence)",
)
ALWAYS = ", by the same factor at each of 39 records"
FIRST, *OTHERS = (
    "it reports 262,144 tokens/s, but 64 × 2,048 tokens in 1 s are 131,072 tokens/s (2.000× less)",
    *OFFERS,
)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (printing(131_072.0), None),
        (printing(131_072 * 1.0099), None),
        (
            printing(131_072 * 1.0101),
            (
                "warning",
                (
                    "132,396 tokens/s reported, +1.0% from batch × sequence length / step time (of"
                    " the steady-state steps)"
                ),
            ),
        ),
        (
            printing(131_072 * 0.97),
            (
                "warning",
                (
                    "127,140 tokens/s reported, -3.0% from batch × sequence length / step time (of"
                    " the steady-state steps)"
                ),
            ),
        ),
        (
            printing(131_072 * 0.97, SLOW_FIRST),
            (
                "warning",
                (
                    "127,140 tokens/s reported, -3.0% from batch × sequence length / step time (of"
                    " the median step)"
                ),
            ),
        ),
        (
            printing(131_072 / (52 / 40) * 1.03, SLOW_FIRST),
            (
                "warning",
                (
                    "103,849 tokens/s reported, +3.0% from batch × sequence length / step time (of"
                    " all steps)"
                ),
            ),
        ),
        (printing(262_144.0), ("error", FIRST, *OTHERS)),
        # Of the windows, one under which something explains it.
        (printing(262_144.0, SLOW_FIRST), ("error", FIRST, *OTHERS)),
        (
            printing(131_072 * 1.234),
            (
                "error",
                (
                    "it reports 161,743 tokens/s, but 64 × 2,048 tokens in 1 s are 131,072 tokens/s"
                    " (1.234× less)"
                ),
            ),
        ),
        (
            printing(131_072 * 0.777),
            (
                "warning",
                (
                    "it reports 101,843 tokens/s, but 64 × 2,048 tokens in 1 s are 131,072"
                    " tokens/s; padding may not be counted"
                ),
            ),
        ),
        (printing(262_144.0, (None,) * 3), None),
        (printing(262_144.0, (1.0,)), ("error", FIRST, *OTHERS)),
        (printing(262_144.0, config=TrainingConfig(global_batch_size=64)), None),
        (printing((1.0, *(262_144.0,) * 39)), ("error", f"{FIRST}{ALWAYS}", *OTHERS)),
        (sampling(64.0), None),
        (sampling(64 * 1.0099), None),
        (
            sampling(64 * 1.0101),
            (
                "warning",
                (
                    "64.65 samples/s reported, +1.0% from batch / step time (of the steady-state"
                    " steps)"
                ),
            ),
        ),
        (
            sampling(128.0),
            (
                "error",
                (
                    "it reports 128 samples/s, but 64 samples in 1 s are 64 samples/s (2.000×"
                    f" less){ALWAYS}"
                ),
                (
                    "global batch 128 instead of 64, or 2 times the gradient accumulation (no"
                    " supporting evidence)"
                ),
                "16 GPUs instead of 8 (dual-die GPU counted as one device; no supporting evidence)",
            ),
        ),
        (
            sampling(32.0),
            (
                "error",
                f"it reports 32 samples/s, but 64 samples in 1 s are 64 samples/s{ALWAYS}",
                (
                    "global batch 32 instead of 64, or 1/2 of the gradient accumulation (no"
                    " supporting evidence)"
                ),
                "4 GPUs instead of 8 (dual-die GPU counted as one device; no supporting evidence)",
            ),
        ),
        (sampling(128.0, None), None),
    ],
)
def test_the_printed_rate_against_the_declared_work(run, expected):
    rule = (
        CONTRADICTION
        if expected and "it reports" in expected[1] and expected[0] == "warning"
        else "own-rate"
    )
    assert told(run) == ([(expected[0], rule, *expected[1:])] if expected else [])


def timed(times, entries, *, kind="live", ranks="one process", windows=None):
    known = (
        {"steps": tuple(range(1, len(times) + 1))}
        if windows is None
        else {
            "window_steps": windows,
            "steps": tuple(sum(windows[: at + 1]) for at in range(len(windows))),
        }
    )
    return made_up(
        times,
        **known,
        timeline=tuple(
            Entry(kind=name, start=at, duration=long, first_step=first, last_step=last)
            for name, at, long, first, last in entries
        ),
        timing=Timing(kind="timer", over_ranks=ranks),
        source=Source(kind=kind) if kind else None,
    )


START = ("start-up", 0.0, 5.0, None, None)
END = ("end", 60.0, 50.0, None, None)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        # 20 s in steps; the first may have begun in the start-up.
        (timed((5.0,) * 4, [START, ("training", 5.0, 20.0, 1, 4), END]), None),
        (
            timed((5.0,) * 4, [START, ("training", 5.0, 30.0, 1, 4), END]),
            "20.000 s, but its training took 30.000 s",
        ),
        (timed((5.0,) * 4, [START, ("training", 5.0, 15.0, 1, 4)]), None),
        (
            timed((5.0,) * 4, [("training", 5.0, 14.0, 1, 4)]),
            "20.000 s, but its training took 14.000 s",
        ),
        (
            timed((2.0, 6.0, 6.0, 6.0), [START, ("training", 5.0, 17.0, 1, 4)]),
            "20.000 s, but its training took 17.000 s",
        ),
        (timed((1.0, 5.0), [START, ("training", 5.0, 5.1, 1, 4)], windows=(3, 1)), None),
        # A step before the checkpoint, three after it; what comes last may have begun late.
        (
            timed(
                (5.0,) * 4,
                [
                    ("training", 5.0, 10.0, 1, 1),
                    ("checkpoint", 15.0, 9.0, None, None),
                    ("training", 24.0, 20.0, 2, 4),
                ],
            ),
            "20.000 s, but its training took 30.000 s",
        ),
        (
            timed(
                (5.0,) * 4, [("training", 5.0, 30.0, 1, 4), ("checkpoint", 35.0, 9.0, None, None)]
            ),
            None,
        ),
        (timed((5.0,) * 4, [START, ("training", 5.0, 30.0, 1, 4)], kind="log"), None),
        (timed((5.0,) * 4, [START, ("training", 5.0, 30.0, 1, 4)], kind=None), None),
        (timed((5.0,) * 4, [START, ("training", 5.0, 30.0, 1, 3)]), None),
        (timed((5.0, None, 5.0, 5.0), [START, ("training", 5.0, 30.0, 1, 4)]), None),
        (timed((9.0,) * 4, [("training", 5.0, 20.0, 1, 4)], ranks="max over 8 ranks"), None),
        (
            timed((1.0,) * 4, [("training", 5.0, 20.0, 1, 4)], ranks="max over 8 ranks"),
            "4.000 s, but its training took 20.000 s",
        ),
    ],
)
def test_step_times_against_the_wall_time(run, text):
    expected = (
        [("error", "own-time", f"its step times add up to {text} on the same clock")]
        if text
        else []
    )
    assert told(run) == expected


def counting(
    per_token,
    *,
    recomputation="none",
    packing=None,
    gpus=8,
    batch=16,
    length=8192,
    shape=LLAMA,
    printed=None,
):
    """16 sequences of 8,192 tokens on 8 GPUs in 2 s with so many FLOPs per token printed."""
    sizes = {"global_batch_size": batch, "sequence_length": length, "num_gpus": gpus}
    rate = per_token * 16 * 8192 / 8 / 2.0 / 1e12
    return made_up(
        (2.0,) * 40,
        model_config=shape,
        training_config=TrainingConfig(**sizes, recomputation=recomputation, packing=packing),
        native_metrics={"tflops_per_gpu": (rate,) * 40 if printed is None else printed},
    )


PRINTS = "it prints {} TFLOP/s per GPU, counting {}; here 421.6"
SAYS = "the log prints {} TFLOP/s per GPU; shape, batch, sequence length and step time give 422"
FORMULA = (
    "a formula of the framework that doesn't fit this model; another batch, shape or number of GPUs"
)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (counting(51.47e9), None),
        (
            counting(57.91e9),
            (
                "info",
                "flops-convention",
                PRINTS.format("474.4", "full attention, without the causal half"),
            ),
        ),
        # Between the conventions; packed, the attention of short sequences.
        (counting(54.6e9), None),
        (counting(48.2e9, packing=True), None),
        (
            counting(30e9),
            ("warning", "contradiction", SAYS.format("245.8"), FORMULA),
        ),
        (
            counting(46.64e9 / 4),
            (
                "warning",
                "contradiction",
                SAYS.format("95.52"),
                "sequence length 2048 instead of 8192",
                FORMULA,
            ),
        ),
        *((counting(30e9, **{name: None}), None) for name in ("gpus", "batch", "length")),
        (counting(30e9, shape=msgspec.structs.replace(LLAMA, vocab_size=None)), None),
        (counting(30e9, shape=ModelConfig()), None),
        (counting(30e9, printed=(None,) * 40), None),
        (counting(30e9, printed=(0.0,) * 40), None),
        (counting(30e9, printed=200.0), None),
        # The median of the records that print it.
        (
            counting(51.47e9, printed=(None, 1.0, *(245.8,) * 37, 9e9)),
            ("warning", "contradiction", SAYS.format("245.8"), FORMULA),
        ),
    ],
)
def test_printed_flops(run, expected):
    assert told(run) == ([expected] if expected else [])


def test_findings_come_in_the_order_of_the_checks():
    run = working(H100, 1000, total_memory_gb=85.0)
    run = msgspec.structs.replace(
        run,
        memory_metrics=MemoryMetrics(peak_memory_device_used_gb=99.0),
        energy_metrics={"mean_power_watts_per_gpu": 900.0, "measured_seconds": 60.0},
        native_metrics={"tokens_per_second": 1.0, "tflops_per_gpu": (1.0,) * 40},
        notes=(
            *notes_of(
                "a", "timer mismatch: host 1.000 s, host clock 2.000 s; step times may be wrong"
            ),
            Note("stated-against-seen", {"name": "x", "stated": 1, "seen": "2"}),
            Note("stamps-contradict", {"share": 2.0}),
        ),
    )
    assert [(each[1], each[2][:10]) for each in told(run)] == [
        ("above-peak", "21,441.5 t"),
        ("beyond-memory", "peak_memor"),
        ("above-power-cap", "mean power"),
        ("own-rate", "it reports"),
        ("contradiction", "the log pr"),
        ("contradiction", "time stamp"),
        ("contradiction", "timer mism"),
        ("contradiction", "x 1 was st"),
    ]


def configured(factor, *, batch=64, length=2048, gpus=8, native=None, **fields):
    config = TrainingConfig(global_batch_size=batch, sequence_length=length, num_gpus=gpus)
    return made_up(training_config=config, native_metrics=native or {}, **fields), factor


RATES = {"tokens_per_second": 8000.0, "tokens_per_second_per_gpu": 1000.0}
RULED_OUT = "(ruled out: the printed total is 8.000 times the printed rate per GPU)"
UNITS = "milliseconds read as seconds (the factor is exactly 1000)"


BATCH = "global batch {} instead of {}, or {} the gradient accumulation (no supporting evidence)"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (configured(2.0), OFFERS),
        (
            configured(0.5),
            (
                "sequence length 1024 instead of 2048 (no supporting evidence)",
                (
                    "global batch 32 instead of 64, or 1/2 of the gradient accumulation (no"
                    " supporting evidence)"
                ),
                "4 GPUs instead of 8 (dual-die GPU counted as one device; no supporting evidence)",
            ),
        ),
        (
            configured(4.0, gpus=16),
            (
                "sequence length 8192 instead of 2048 (no supporting evidence)",
                BATCH.format(256, 64, "4 times"),
                "64 GPUs instead of 16 (no supporting evidence)",
            ),
        ),
        (
            configured(0.25, gpus=16),
            (
                BATCH.format(16, 64, "1/4 of"),
                "4 GPUs instead of 16 (no supporting evidence)",
            ),
        ),
        (configured(2.0, native=RATES), (*OFFERS[:2], f"16 GPUs instead of 8 {RULED_OUT}")),
        (configured(2.0, native={**RATES, "tokens_per_second_per_gpu": 0.0}), OFFERS),
        (configured(2.0, native={**RATES, "tokens_per_second": 9000.0}), OFFERS),
        (configured(2.0, native={"tokens_per_second": 8000.0}), OFFERS),
        (configured(2.0, gpus=None), OFFERS[:2]),
        (configured(2.0, length=None), OFFERS[1:]),
        (configured(2.0, batch=None), (OFFERS[0], OFFERS[2])),
        (configured(1000.0), (UNITS,)),
        # Of equal support: in the order of the table, not of the letters.
        (
            configured(1000.0, gpus=1000),
            ("total rate reported as per-GPU (the factor is exactly 1000)", UNITS),
        ),
        (configured(999.1), (UNITS,)),
        (configured(998.9), ()),
        (configured(1 / 999.1), (UNITS,)),
        (
            configured(3.0, gpus=3),
            (
                "total rate reported as per-GPU (the factor is exactly 3)",
                BATCH.format(192, 64, "3 times"),
            ),
        ),
        (
            configured(1 / 3, gpus=3),
            ("per-GPU rate reported as the total (the factor is exactly 1/3)",),
        ),
        (
            configured(1.0, gpus=1),
            ("sequence length 2048 instead of 2048 (no supporting evidence)",),
        ),
        (configured(1.5), ()),
        (
            configured(1 / 3, batch=63),
            (
                (
                    "global batch 21 instead of 63, or 1/3 of the gradient accumulation (no"
                    " supporting evidence)"
                ),
            ),
        ),
        (configured(1 / 3, batch=64), ()),
    ],
)
def test_corrections_of_the_tokens_of_a_step(asked, expected):
    assert tuple(map(words, corrections.tokens_per_step(*asked))) == expected


def test_the_order_of_corrections_of_one_rank_is_that_of_the_table():
    """Of equal support: GPUs, units, lengths, batches; not by their letters."""
    gpu = GpuInfo(device_name="AMD Instinct MI300X")
    found = corrections.tokens_per_step(
        *configured(2.0, length=8192, gpus=2, framework="primus", model="llama", gpu_info=gpu)
    )
    source = "https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs/MI300X"
    assert tuple(map(words, found)) == (
        (
            "global batch 128 instead of 64, or 2 times the gradient accumulation: the primus"
            f" default for this model ({source})"
        ),
        "total rate reported as per-GPU (the factor is exactly 2)",
        "sequence length 16384 instead of 8192 (no supporting evidence)",
        "4 GPUs instead of 2 (dual-die GPU counted as one device; no supporting evidence)",
    )


def peaked(share, *, precision="bf16", gpus=8, batch=64, length=2048, trained=None):
    config = TrainingConfig(
        global_batch_size=batch, sequence_length=length, num_gpus=gpus, precision=precision
    )
    shape = ModelConfig(trainable_parameters=trained)
    return made_up(training_config=config, model_config=shape), share


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            peaked(1.2),
            (
                *causes(1.2)[:1],
                "total of 8 GPUs reported as per-GPU (would be 15% of peak)",
                *causes(1.2)[1:],
            ),
        ),
        (peaked(1.2, gpus=None), causes(1.2)),
        (peaked(1.2, gpus=1), causes(1.2)),
        (peaked(1.2, gpus=12), causes(1.2)),
        (peaked(1.2, gpus=1, precision=None), causes(1.2, None)),
        (peaked(1.2, gpus=1, precision="fp16"), causes(1.2, "FP16")),
        (peaked(1.2, gpus=1, batch=None), (causes(1.2)[0], *causes(1.2)[2:])),
        (peaked(1.2, gpus=1, length=None), (causes(1.2)[0], *causes(1.2)[2:])),
        (peaked(1.2, gpus=1, trained=9), (*causes(1.2)[:2], REST)),
        (peaked(1.6, gpus=1), (*causes(1.6)[:2], REST)),
        (peaked(2.5, gpus=1), (REST,)),
    ],
)
def test_what_may_be_behind_a_rate_above_the_peak(asked, expected):
    texts = [*map(words, corrections.above_peak(*asked))]
    assert sorted(texts) == sorted(expected)
    assert texts[-1] == REST


@pytest.mark.parametrize(
    ("length", "work", "lengths"),
    [
        (8192, flops.flops_per_token(LLAMA, 2048) * 2048, (2048,)),
        (8192, flops.flops_per_token(LLAMA, 2048, causal=False) * 2048 * 1.019, (2048,)),
        (8192, flops.flops_per_token(LLAMA, 2048) * 2048 * 0.97, ()),
        (2048, flops.flops_per_token(LLAMA, 2048) * 2048, ()),
        (8192, flops.flops_per_token(LLAMA, 131_072) * 131_072, (131_072,)),
    ],
)
def test_lengths_of_printed_flops(length, work, lengths):
    expected = [f"sequence length {other} instead of {length}" for other in lengths]
    found = map(words, corrections.flops_per_step(LLAMA, length, work))
    assert list(dict.fromkeys(found)) == [*expected, FORMULA]
    assert corrections.flops_per_step(ModelConfig(), length, work) == (Note("formula-unfit"),)
