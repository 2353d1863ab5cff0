"""Efficiency metrics: every value of one subject, by hand, and each case of a single metric."""

from __future__ import annotations

import dataclasses

import pytest
from made_runs import shape

from tprimat.analysis import flops, intervals
from tprimat.analysis.efficiency import (
    METRICS,
    Efficiency,
    checklist,
    largest_micro_batch,
    of_runs,
    rows,
    table,
)
from tprimat.analysis.efficiency.subject import Options, Subject, Value, highest_memory
from tprimat.analysis.summary import SegmentMetrics, Summary
from tprimat.catalog.prices import Price
from tprimat.results.conditions import Disturbance, Preflight
from tprimat.results.run import (
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    PerformanceMetrics,
    Run,
    Steady,
    TrainingConfig,
)
from tprimat.results.telemetry import Telemetry

H100 = "NVIDIA H100 80GB HBM3"
LLAMA = shape(num_parameters=8_030_261_248)
CAUSAL, FULL = 46.638563328, 48.249176064
"""GFLOP per token of Llama 3.1 8B at 2,048 tokens: 45.028 of the weights, and 12 x 32 x 4096 x 2048
of attention, of which half counts if it is causal.
"""


def config(**changes):
    known = {"global_batch_size": 64, "sequence_length": 2048, "micro_batch_size": 2, "num_gpus": 8}
    return TrainingConfig(**{**known, "precision": "bf16", "recomputation": "full", **changes})


def a_run(device=H100, *, total=80.0, memory=(70.0, 60.0, 50.0), **fields):
    used, reserved, allocated = memory
    known = {
        "model": "llama",
        "scale": "full",
        "platform": "nvd",
        "model_config": LLAMA,
        "training_config": config(),
        "gpu_info": GpuInfo(device_name=device, total_memory_gb=total),
        "memory_metrics": MemoryMetrics(
            peak_memory_device_used_gb=used,
            peak_memory_reserved_gb=reserved,
            peak_memory_allocated_gb=allocated,
        ),
    }
    return Run(**{**known, **fields})


SPEED = Value(10_000.0, 8_000.0, 12_500.0)


def subject(run=None, *, speed=SPEED, samples=None, others=(), **options):
    return Subject([run or a_run(), *others], speed, Options(**options), samples)


def times(factor, reason=None):
    return Value(*(pytest.approx(each * factor) for each in (10_000.0, 8_000.0, 12_500.0)), reason)


def over(factor, reason=None):
    return Value(*(pytest.approx(factor / each) for each in (10_000.0, 12_500.0, 8_000.0)), reason)


ENERGY = {"energy_joules": 3000.0, "measured_tokens": 2000.0}
PEAK = "dense bf16 peak of H100 SXM: 989.4 TFLOP/s"


def test_every_value_of_a_run():
    assert flops.flops_per_token(LLAMA, 2048) == pytest.approx(CAUSAL * 1e9)
    assert flops.flops_per_token(LLAMA, 2048, causal=False) == pytest.approx(FULL * 1e9)
    epochs = (
        {"samples": 9.0, "wall_time_s": 9.0, "warmup": 1.0},
        {"samples": 600.0, "wall_time_s": 30.0},
    )
    run = a_run(
        epochs=(
            *epochs,
            {"samples": 600.0, "wall_time_s": 20.0},
            {"samples": 600.0, "wall_time_s": 70.0},
        ),
        native_metrics={"seconds_per_epoch": 1.0},
        energy_metrics=ENERGY,
        preflight=Preflight(matmul_tflops={"bf16": 500.0, "fp8": 900.0}),
    )
    options = {"price": Price(2.0, 6.0), "electricity": 0.25, "pue": 1.5, "tdp_energy": True}
    values = table.values(subject(run, **options))
    cost = [
        factor / rate / 3600 for factor, rate in ((4.0, 10_000.0), (2.0, 12_500.0), (6.0, 8_000.0))
    ]
    samples = 1800 / 120
    assert values == {
        "samples_per_second": Value(samples),
        "seconds_per_epoch": Value(40.0),
        "model_tflops_per_gpu": times(CAUSAL / 1e3),
        "model_tflops_per_gpu_full": times(FULL / 1e3),
        "mfu": times(CAUSAL / 10 / 989.4, PEAK),
        "mfu_full": times(FULL / 10 / 989.4),
        "hfu": times(CAUSAL / 10 / 989.4 * 4 / 3),
        "share_of_sustained": times(
            CAUSAL / 10 / 794, "794 TFLOP/s measured; the data sheet says 989.4"
        ),
        "share_of_preflight": times(CAUSAL / 10 / 500, "500 TFLOP/s sustained in the preflight"),
        "memory_used_share": Value(pytest.approx(87.5), reason="in use on the device, highest"),
        "memory_headroom_gb": Value(10.0, reason="in use on the device, highest"),
        "memory_per_token_kb": Value(
            pytest.approx(70e6 / 4096), reason="in use on the device, highest"
        ),
        "micro_batch_that_fits": Value(2, reason="from 70.0 GB at 2"),
        "joules_per_token": Value(1.5),
        "tokens_per_joule": Value(pytest.approx(2 / 3)),
        "electricity_dollars_per_billion_tokens": Value(
            pytest.approx(1e9 * 1.5 / 3.6e6 * 0.25 * 1.5), reason="$0.25 per kWh, PUE 1.5"
        ),
        "tdp_joules_per_token": over(700.0, "TDP 700 W; not measured"),
        "tokens_per_watt_hour": Value(pytest.approx(2400.0)),
        "tokens_per_dollar": Value(*(pytest.approx(1 / cost[index]) for index in (0, 2, 1))),
        "dollars_per_billion_tokens": Value(*(pytest.approx(1e9 * each) for each in cost)),
        "dollars_per_trillion_tokens": Value(*(pytest.approx(1e12 * each) for each in cost)),
        "dollars_per_epoch": Value(
            *(pytest.approx(40 / 3600 * 8 * each) for each in (4.0, 2.0, 6.0))
        ),
        "dollars_per_million_samples": Value(
            *(pytest.approx(1e6 / samples / 3600 * 8 * each) for each in (4.0, 2.0, 6.0))
        ),
        "hours_per_trillion_tokens": over(1e12 / 8 / 3600),
        "days_to_pretrain": over(15e12 / 8 / 86_400, "15 × 10¹² tokens"),
    }
    assert [metric.name for metric in METRICS] == list(values)


NO_FLOPS = "no FLOPs: the model's shape or the sequence length is incomplete"
NO_SPEED = {"speed": Value(None)}


def of_energy(*codes, **telemetry):
    energies = [
        {"energy_joules": 3000.0 * (1 + at), "measured_tokens": 2000.0} for at in range(len(codes))
    ]
    made = [
        a_run(energy_metrics=each, telemetry=Telemetry(energy_code=code, **telemetry))
        for each, code in zip(energies, codes, strict=True)
    ]
    return subject(made[0], others=made[1:])


def between(*figures):
    found = intervals.between_run_interval(figures)
    middle = figures[0] * figures[1] if len(figures) == 2 else 0.0
    return Value(pytest.approx(middle**0.5), *((found.low, found.high) if found else (None, None)))


def epochs(*each, native=1.0):
    made = tuple({"samples": samples, "wall_time_s": seconds} for samples, seconds in each)
    return a_run(
        epochs=made, native_metrics={} if native is None else {"seconds_per_epoch": native}
    )


HIGH = "above 75%, which hardly any training is: check batch, sequence length, step times and peak"

CASES = [
    # Samples are compared, or those of the epochs that state both.
    ("samples_per_second", subject(samples=Value(3.0, 2.0, 5.0)), Value(24.0, 16.0, 40.0)),
    (
        "samples_per_second",
        subject(a_run(training_config=config(num_gpus=None)), samples=Value(3.0)),
        Value(3.0),
    ),
    (
        "samples_per_second",
        subject(epochs((100.0, 20.0), (None, 7.0), (50.0, None), (200.0, 10.0))),
        Value(10.0),
    ),
    ("samples_per_second", subject(epochs((100.0, 20.0)), others=[a_run()]), None),
    # The mean of those that were not cut short.
    ("seconds_per_epoch", subject(epochs((100.0, 20.0), (100.0, 40.0), (99.0, 1.0))), Value(30.0)),
    ("seconds_per_epoch", subject(epochs((100.0, 20.0), native=None)), None),
    ("seconds_per_epoch", subject(epochs()), None),
    (
        "dollars_per_epoch",
        subject(epochs((100.0, 36.0)), price=Price(2.0, 2.0)),
        Value(pytest.approx(0.16)),
    ),
    ("dollars_per_epoch", subject(epochs((100.0, 36.0))), None),
    (
        "dollars_per_epoch",
        subject(
            a_run(
                training_config=config(num_gpus=None),
                epochs=({"samples": 100.0, "wall_time_s": 36.0},),
                native_metrics={"seconds_per_epoch": 1.0},
            ),
            price=Price(2.0, 2.0),
        ),
        None,
    ),
    # FLOPs and their shares.
    (
        "model_tflops_per_gpu",
        subject(**NO_SPEED),
        Value(None, reason="no throughput: see the warnings"),
    ),
    ("model_tflops_per_gpu", subject(**NO_SPEED, samples=Value(1.0)), None),
    (
        "model_tflops_per_gpu",
        subject(a_run(training_config=config(sequence_length=None))),
        Value(None, reason=NO_FLOPS),
    ),
    (
        "model_tflops_per_gpu",
        subject(a_run(model_config=shape(vocab_size=None))),
        Value(None, reason=NO_FLOPS),
    ),
    (
        "model_tflops_per_gpu",
        subject(a_run(training_config=config(packing=True))),
        times(45.027950592 / 1e3, "packed documents: attention is not counted"),
    ),
    (
        "model_tflops_per_gpu",
        subject(a_run(training_config=config(packing=False))),
        times(CAUSAL / 1e3),
    ),
    (
        "mfu",
        subject(peak_tflops=500.0),
        times(CAUSAL / 10 / 500, f"peak of 500 TFLOP/s from the command line; {HIGH}"),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision=None))),
        Value(None, reason="precision unknown: set it with --precision"),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision=None)), precision="fp8"),
        times(
            CAUSAL / 10 / 1978.9,
            "precision fp8 from the command line; dense fp8 peak of H100 SXM: 1978.9 TFLOP/s",
        ),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision_detail="system description: bf16"))),
        times(CAUSAL / 10 / 989.4, f"precision bf16 from the system description; {PEAK}"),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision_detail="bf16-mixed"))),
        times(CAUSAL / 10 / 989.4, PEAK),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision="fp4"))),
        Value(None, reason="no known dense fp4 peak of H100 SXM: set it with --peak-tflops"),
    ),
    # 100% of the peak, or what the clock of a card allows.
    (
        "mfu",
        subject(peak_tflops=466.386),
        times(CAUSAL / 10 / 466.386, f"peak of 466.386 TFLOP/s from the command line; {HIGH}"),
    ),
    (
        "mfu",
        subject(peak_tflops=466.385),
        times(
            CAUSAL / 10 / 466.385,
            "peak of 466.385 TFLOP/s from the command line; above 100%: the peak or the speed is"
            " wrong",
        ),
    ),
    (
        "mfu",
        subject(a_run(training_config=config(precision="fp32")), peak_tflops=466.385),
        Value(None, reason="above the FP32 peak: only possible in TF32 or BF16"),
    ),
    (
        "mfu",
        subject(a_run("Q1000"), peak_tflops=466.385),
        times(
            CAUSAL / 10 / 466.385,
            "peak of 466.385 TFLOP/s from the command line; above 100%: the peak or the speed is"
            " wrong",
        ),
    ),
    (
        "hfu",
        subject(a_run(training_config=config(recomputation="none"))),
        times(CAUSAL / 10 / 989.4),
    ),
    (
        "hfu",
        subject(a_run(training_config=config(recomputation=None))),
        Value(None, reason="recomputation is not stated"),
    ),
    (
        "hfu",
        subject(a_run(training_config=config(recomputation="selective"))),
        Value(None, reason="recomputation is selective: no closed form"),
    ),
    (
        "hfu",
        subject(a_run(model_config=shape(trainable_parameters=9))),
        Value(None, reason="some weights are frozen: no closed form"),
    ),
    ("hfu", subject(**NO_SPEED), None),
    ("share_of_sustained", subject(a_run(training_config=config(precision="fp16"))), None),
    ("share_of_sustained", subject(a_run("NVIDIA A100-SXM4-80GB")), None),
    ("share_of_sustained", subject(a_run("Q1000")), None),
    ("share_of_sustained", subject(**NO_SPEED), None),
    (
        "share_of_preflight",
        subject(
            a_run(preflight=Preflight(matmul_tflops={"bf16": 400.0})),
            others=[a_run(preflight=Preflight(matmul_tflops={"bf16": 600.0})), a_run()],
        ),
        times(CAUSAL / 10 / 600, "600 TFLOP/s sustained in the preflight"),
    ),
    ("share_of_preflight", subject(), None),
    (
        "share_of_preflight",
        subject(a_run(preflight=Preflight(matmul_tflops={"bf16": 400.0})), **NO_SPEED),
        None,
    ),
    (
        "share_of_preflight",
        subject(
            a_run(
                preflight=Preflight(matmul_tflops={"fp8": 400.0}),
                training_config=config(precision=None),
            )
        ),
        None,
    ),
    # Memory of the run that took the most.
    (
        "memory_used_share",
        subject(
            a_run(memory=(None, 60.0, 50.0)),
            others=[a_run(memory=(None, None, 76.0)), a_run(memory=(75.0, 79.0, 1.0))],
        ),
        Value(95.0, reason="allocated, highest"),
    ),
    (
        "memory_used_share",
        subject(a_run(memory=(None,) * 3), others=[a_run(memory=(None, None, 50.0))]),
        Value(62.5, reason="allocated, highest"),
    ),
    (
        "memory_used_share",
        subject(a_run(memory=(None, 60.0, 50.0))),
        Value(75.0, reason="reserved, highest"),
    ),
    (
        "memory_used_share",
        subject(a_run(total=None)),
        Value(None, reason="the device's memory is not stated"),
    ),
    (
        "memory_used_share",
        subject(a_run(memory=(None,) * 3)),
        Value(None, reason="no device memory was measured"),
    ),
    (
        "memory_used_share",
        subject(a_run(platform="cpu")),
        Value(None, reason="no device memory was measured"),
    ),
    (
        "memory_used_share",
        subject(a_run(total=50.0, memory_metrics=MemoryMetrics(avg_memory_allocated_gb=20.0))),
        Value(40.0, reason="allocated on average; the peak is unknown"),
    ),
    (
        "memory_used_share",
        subject(a_run(total=None, memory_metrics=MemoryMetrics(avg_memory_allocated_gb=20.0))),
        Value(None, reason="the device's memory is not stated"),
    ),
    (
        "memory_used_share",
        subject(a_run(platform="cpu", memory_metrics=MemoryMetrics(avg_memory_allocated_gb=20.0))),
        Value(None, reason="no device memory was measured"),
    ),
    (
        "memory_used_share",
        subject(
            a_run(
                memory_metrics=MemoryMetrics(
                    avg_memory_allocated_gb=20.0, peak_memory_allocated_gb=30.0
                )
            )
        ),
        Value(37.5, reason="allocated, highest"),
    ),
    ("memory_headroom_gb", subject(a_run(total=None)), None),
    ("memory_headroom_gb", subject(a_run(memory=(None,) * 3)), None),
    (
        "memory_per_token_kb",
        subject(a_run(total=None)),
        Value(pytest.approx(70e6 / 4096), reason="in use on the device, highest"),
    ),
    ("memory_per_token_kb", subject(a_run(training_config=config(micro_batch_size=None))), None),
    ("memory_per_token_kb", subject(a_run(training_config=config(sequence_length=None))), None),
    (
        "micro_batch_that_fits",
        subject(a_run(memory=(20.0, None, None))),
        Value(7, reason="from 20.0 GB at 2"),
    ),
    (
        "micro_batch_that_fits",
        subject(a_run(memory=(99.0, None, None))),
        Value(2, reason="from 99.0 GB at 2"),
    ),
    ("micro_batch_that_fits", subject(a_run(training_config=config(micro_batch_size=None))), None),
    ("micro_batch_that_fits", subject(a_run(total=None)), None),
    ("micro_batch_that_fits", subject(a_run(memory=(None,) * 3)), None),
    # Energy of the runs in which it is valid.
    ("joules_per_token", of_energy("measured", None), between(1.5, 3.0)),
    (
        "joules_per_token",
        of_energy("from-power", "counter-reset", "partly-sampled"),
        dataclasses.replace(between(1.5, 4.5), reason="2 of 3 runs"),
    ),
    (
        "joules_per_token",
        of_energy("counter-wrapped", "counter-reset", energy_covers="GPUs alone"),
        Value(1.5, reason="GPUs alone; 1 of 2 runs"),
    ),
    (
        "joules_per_token",
        of_energy("unverified", energy_covers="GPUs alone"),
        Value(1.5, reason="GPUs alone"),
    ),
    (
        "joules_per_token",
        of_energy("counter-reset", energy_reason="why"),
        Value(None, reason="energy: why"),
    ),
    ("joules_per_token", of_energy("counter-reset"), Value(None, reason="energy: counter-reset")),
    (
        "joules_per_token",
        subject(others=[a_run(telemetry=Telemetry(energy_code="counter-reset"))]),
        Value(None, reason="energy: counter-reset"),
    ),
    ("joules_per_token", subject(), None),
    ("joules_per_token", subject(a_run(energy_metrics={"energy_joules": 1.0})), None),
    ("joules_per_token", subject(a_run(energy_metrics={"measured_tokens": 1.0})), None),
    ("tokens_per_joule", subject(), None),
    (
        "electricity_dollars_per_billion_tokens",
        subject(electricity=0.3),
        Value(None, reason="no measured energy"),
    ),
    ("electricity_dollars_per_billion_tokens", subject(a_run(energy_metrics=ENERGY)), None),
    ("tdp_joules_per_token", subject(), None),
    ("tdp_joules_per_token", subject(**NO_SPEED, tdp_energy=True), None),
    (
        "tdp_joules_per_token",
        subject(a_run("Q1000"), tdp_energy=True),
        Value(None, reason="TDP of this device unknown"),
    ),
    (
        "tdp_joules_per_token",
        subject(a_run("AMD Instinct MI308X", total=None), tdp_energy=True),
        Value(None, reason="TDP of this device unknown"),
    ),
    (
        "tokens_per_watt_hour",
        subject(tdp_energy=True),
        times(3600 / 700, "TDP 700 W; not measured"),
    ),
    ("tokens_per_watt_hour", subject(), None),
    # Costs and times.
    ("tokens_per_dollar", subject(), None),
    ("dollars_per_billion_tokens", subject(price=Price(2.0, 2.0), **NO_SPEED), None),
    (
        "dollars_per_billion_tokens",
        subject(price=Price(2.0, 2.0), speed=Value(10_000.0)),
        Value(pytest.approx(2e5 / 3600)),
    ),
    (
        "dollars_per_billion_tokens",
        subject(price=Price(2.0, 2.0)),
        Value(*(pytest.approx(2e9 / rate / 3600) for rate in (10_000.0, 12_500.0, 8_000.0))),
    ),
    (
        "dollars_per_billion_tokens",
        subject(price=Price(2.0, 6.0), speed=Value(10_000.0)),
        Value(*(pytest.approx(price * 1e5 / 3600) for price in (4.0, 2.0, 6.0))),
    ),
    ("hours_per_trillion_tokens", subject(a_run(training_config=config(num_gpus=None))), None),
    ("days_to_pretrain", subject(a_run(training_config=config(num_gpus=None))), None),
    (
        "days_to_pretrain",
        subject(a_run(model="own")),
        Value(None, reason="the model's pretraining is not in the table"),
    ),
    (
        "days_to_pretrain",
        subject(a_run(scale="tiny")),
        Value(None, reason="a scaled-down model is never pretrained"),
    ),
    ("days_to_pretrain", subject(a_run(scale=None)), over(15e12 / 8 / 86_400, "15 × 10¹² tokens")),
    (
        "days_to_pretrain",
        subject(a_run(model_config=shape(num_layers=2))),
        Value(None, reason="a scaled-down model is never pretrained"),
    ),
    (
        "days_to_pretrain",
        subject(a_run(model="mistral", model_config=ModelConfig())),
        Value(None, reason="number of pretraining tokens of Mistral 7B not published"),
    ),
]


@pytest.mark.parametrize(("name", "asked", "expected"), CASES)
def test_a_value(name, asked, expected):
    assert table.values(asked).get(name) == expected


def test_a_doubtful_peak_is_told():
    reason = table.values(subject(a_run("NVIDIA B200", total=None)))["mfu"].reason
    assert reason.startswith("dense bf16 peak of B200: 2250 TFLOP/s; B200: sources disagree (")


def test_values_over_runs():
    assert table.over_runs([]) == Value(None)
    assert table.over_runs([2.0, None, 3.0]) == Value(None)
    assert table.over_runs([0.1 + 0.2]) == Value(0.1 + 0.2)
    assert table.over_runs([2.0, 2.1, 2.5]) == Value(
        pytest.approx(10.5 ** (1 / 3)),
        *dataclasses.astuple(intervals.between_run_interval([2.0, 2.1, 2.5]))[:2],
    )
    assert (
        table.over_runs([2.0, 2.0], 1e-6).high
        == intervals.between_run_interval([2.0, 2.0], 1e-6).high
    )


def test_the_highest_memory():
    assert highest_memory(a_run()) == (70.0, "in use on the device")
    assert highest_memory(a_run(memory=(None, 60.0, 65.0))) == (60.0, "reserved")
    assert highest_memory(a_run(memory=(None, None, 65.0))) == (65.0, "allocated")
    assert highest_memory(a_run(memory=(None, None, None))) is None


def sized(size, used, kind=0, total=100.0):
    memory = tuple(used if at == kind else None for at in range(3))
    return a_run(training_config=config(micro_batch_size=size), memory=memory, total=total)


SIZES, SAME = (
    "needs two runs with different micro-batch sizes",
    "needs the same kind of memory measured in both runs",
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # 7 GB each from 30 GB at 2 on: 65 GB more are 9.28 sequences.
        (
            sized(2, 30.0),
            sized(5, 51.0),
            (11, "30.0 GB at 2 and 51.0 GB at 5 sequences, up to 95% of 100.0 GB"),
        ),
        (
            sized(5, 51.0),
            sized(2, 30.0),
            (11, "30.0 GB at 2 and 51.0 GB at 5 sequences, up to 95% of 100.0 GB"),
        ),
        (sized(2, 30.0), sized(2, 51.0), (None, SIZES)),
        (sized(None, 30.0), sized(5, 51.0), (None, SIZES)),
        (sized(2, 30.0), sized(None, 51.0), (None, SIZES)),
        (sized(2, 30.0), sized(5, 51.0, 1), (None, SAME)),
        (sized(2, None), sized(5, 51.0), (None, SAME)),
        (sized(2, 30.0), sized(5, None), (None, SAME)),
        (sized(2, 30.0, total=None), sized(5, 51.0), (None, SAME)),
        (
            sized(2, 30.0),
            sized(5, 30.0),
            (None, "memory doesn't grow with the micro-batch size in these runs"),
        ),
        (
            sized(2, 30.0),
            sized(5, 36.0),
            (34, "30.0 GB at 2 and 36.0 GB at 5 sequences, up to 95% of 100.0 GB"),
        ),
    ],
)
def test_the_largest_micro_batch(first, second, expected):
    assert largest_micro_batch(first, second) == expected


def a_summary(rate, *, clock="timer", steps=100, segments=()):
    performance = PerformanceMetrics(tokens_per_second_per_gpu=rate, total_steps=steps)
    return Summary(Steady(first_step=3, last_step=90), performance, (), segments, 0.03, clock)


def a_segment(rate=9_000.0, about="mean", interval=True):
    held = intervals.Interval(1.6, 2.5, about, 0.95) if interval else None
    return SegmentMetrics(3, 90, 2.0, rate, 2.0, held, None, 0, 0.0)


@pytest.mark.parametrize(
    ("summaries", "speed", "steps"),
    [
        ([a_summary(10_000.0)], Value(10_000.0), "steps 3–90"),
        ([a_summary(None)], Value(None), "steps 3–90"),
        # Of one run with one speed: 9,000 x 2 / 2.5 to 9,000 x 2 / 1.6.
        (
            [a_summary(10_000.0, segments=(a_segment(),))],
            Value(9_000.0, 7_200.0, 11_250.0),
            "steps 3–90",
        ),
        (
            [a_summary(10_000.0, segments=(a_segment(about="median"),))],
            Value(9_000.0),
            "steps 3–90",
        ),
        (
            [a_summary(10_000.0, segments=(a_segment(interval=False),))],
            Value(9_000.0),
            "steps 3–90",
        ),
        ([a_summary(10_000.0, segments=(a_segment(None),))], Value(None), "steps 3–90"),
        ([a_summary(10_000.0, segments=(a_segment(), a_segment()))], Value(10_000.0), "steps 3–90"),
        (
            [a_summary(rate, segments=(a_segment(),)) for rate in (8_000.0, 8_100.0)],
            table.over_runs([8_000.0, 8_100.0], 0.03**2 / 12),
            "2 runs",
        ),
        ([a_summary(8_000.0), a_summary(None)], Value(None), "2 runs"),
        # By the wall time of all blocks: 400 steps in 100 / 8,000 + 300 / 8,100.
        (
            [a_summary(8_000.0, clock="blocks"), a_summary(8_100.0, clock="blocks", steps=300)],
            dataclasses.replace(
                table.over_runs([8_000.0, 8_100.0], 0.03**2 / 12),
                value=400 / (100 / 8_000 + 300 / 8_100),
            ),
            "2 runs",
        ),
        (
            [a_summary(8_000.0, clock="blocks"), a_summary(8_100.0, steps=300)],
            table.over_runs([8_000.0, 8_100.0], 0.03**2 / 12),
            "2 runs",
        ),
        (
            [a_summary(8_000.0, clock="blocks"), a_summary(None, clock="blocks")],
            Value(None),
            "2 runs",
        ),
    ],
)
def test_the_speed_of_runs(summaries, speed, steps):
    found = of_runs([a_run()] * len(summaries), summaries, Options())
    assert found.steps == steps
    achieved = found.values["model_tflops_per_gpu"]
    if speed.value is None:
        assert achieved == Value(None, reason="no throughput: see the warnings")
    else:
        bounds = (speed.value, speed.low, speed.high)
        assert achieved == Value(
            *(each if each is None else pytest.approx(each * CAUSAL / 1e3) for each in bounds)
        )


def test_samples_of_runs():
    summaries = [a_summary(None), a_summary(None)]
    found = of_runs([a_run()] * 2, summaries, Options(), [3.0, 4.0])
    assert found.values["samples_per_second"] == table.over_runs([3.0, 4.0], 0.03**2 / 12).scaled(8)
    assert "samples_per_second" not in of_runs([a_run()] * 2, summaries, Options()).values


def test_rows_are_those_that_a_set_has():
    sets = [
        Efficiency("", {name: Value(1.0) for name in names}, ())
        for names in (("hfu", "mfu"), ("mfu",), ())
    ]
    assert [row.name for row in rows(sets)] == ["mfu", "hfu"]
    assert rows(sets[2:]) == []


def hinted(run=None, *, used=70.0, free=True, mfu=None, others=()):
    values = {"memory_used_share": Value(used, reason="reserved, highest")}
    values |= {"memory_headroom_gb": Value(1.0)} if free else {}
    values |= {} if mfu is None else {"mfu_full": Value(mfu if mfu > 0 else None)}
    return checklist.hints(subject(run, others=others), values)


MFU = (
    (
        "MFU of {} with full attention: published BF16 runs of 1B to 70B parameters on H100 reach"
        " 26–46%"
    ),
)
IDLE = (
    "GPU utilization of {}: the GPU is often idle (waiting for the CPU, data or other GPUs);"
    " profile a few steps"
)
WAITS = "{} of the time is spent waiting for data: more loader processes or faster storage may help"
OTHERS = "other programs used {} of the CPU: close them and measure again"
LOW = "only {} of the memory is used (reserved, highest): a larger micro-batch may be faster"
HIGH = (
    "{} of the memory is used (reserved, highest): the allocator may have to retry; a smaller"
    " micro-batch, or expandable segments, may be faster"
)


def loading(waits, computes):
    return a_run(breakdown={"data_wait_s": waits, "compute_s": computes})


def beside(share):
    return a_run(disturbance=Disturbance(other_programs_cpu_share=share))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ()),
        ({"used": 49.9}, (LOW.format("50%"),)),
        ({"used": 50.0}, ()),
        ({"used": 95.0}, ()),
        ({"mfu": 26.0}, ()),
        ({"run": a_run(native_metrics={"gpu_utilisation_percent": 90.0})}, ()),
        ({"run": loading(5.0, 95.0)}, ()),
        ({"others": [beside(0.05)]}, ()),
        ({"used": 50.1}, ()),
        ({"used": 94.9}, ()),
        ({"used": 95.6}, (HIGH.format("96%"),)),
        ({"used": None}, ()),
        ({"used": 20.0, "free": False}, ()),
        ({"mfu": 25.9}, (MFU[0].format("26%"),)),
        ({"mfu": 26.1}, ()),
        ({"mfu": -1.0}, ()),
        ({"mfu": 25.0, "run": a_run(scale="tiny")}, ()),
        ({"mfu": 25.0, "run": a_run(scale=None)}, (MFU[0].format("25%"),)),
        ({"mfu": 25.0, "run": a_run(platform="cpu")}, ()),
        ({"mfu": 25.0, "run": a_run(training_config=config(precision="fp8"))}, ()),
        ({"run": a_run(native_metrics={"gpu_utilisation_percent": 89})}, (IDLE.format("89%"),)),
        ({"run": a_run(native_metrics={"gpu_utilisation_percent": 90.1})}, ()),
        ({"run": a_run(native_metrics={"gpu_utilisation_percent": ()})}, ()),
        ({"run": loading(6.0, 94.0)}, (WAITS.format("6%"),)),
        ({"run": loading(30.0, 70.0)}, (WAITS.format("30%"),)),
        ({"run": loading(4.9, 95.1)}, ()),
        ({"run": loading(None, 95.0)}, ()),
        ({"run": loading(6.0, None)}, ()),
        ({"others": [beside(0.2), beside(None), beside(0.1)]}, (OTHERS.format("20%"),)),
        ({"others": [beside(0.049)]}, ()),
        (
            {"used": 20.0, "mfu": 20.0, "run": loading(30.0, 70.0), "others": [beside(0.06)]},
            (LOW.format("20%"), MFU[0].format("20%"), WAITS.format("30%"), OTHERS.format("6%")),
        ),
    ],
)
def test_what_could_be_tried(asked, expected):
    assert hinted(**asked) == expected


def test_values_that_are_scaled_and_inverted():
    assert Value(4.0, 2.0, 5.0, "a").scaled(10.0, "b") == Value(40.0, 20.0, 50.0, "b")
    assert Value(4.0, 2.0, 5.0, "a").inverted(20.0, "b") == Value(5.0, 4.0, 10.0, "b")
    assert Value(None).scaled(2.0) == Value(None).inverted(2.0) == Value(None)
    assert Value(4.0, 2.0, 5.0).priced(Price(3.0, 3.0)) == Value(12.0, 6.0, 15.0)
    assert Value(4.0).priced(Price(3.0, 3.0)) == Value(12.0)
    assert Value(4.0).priced(Price(3.0, 5.0)) == Value(16.0, 12.0, 20.0)
