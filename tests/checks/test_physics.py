"""Impossible figures are found, with what would explain them; possible ones are let be."""

from __future__ import annotations

import msgspec
import pytest
from stored_runs import series

from tprimat.analysis.summary import summarize
from tprimat.checks import physics
from tprimat.results.run import GpuInfo, MemoryMetrics, ModelConfig, Run, TrainingConfig
from tprimat.store import store
from tprimat.units import GIB


def judge(run):
    return physics.findings(run, summarize(run))


def declared(run, precision):
    config = msgspec.structs.replace(run.training_config, precision=precision)
    return msgspec.structs.replace(run, training_config=config)


@pytest.fixture
def published(repository):
    folder = repository / "tests" / "data" / "published"
    return {path.stem.split("_")[1]: store.read(path)[0] for path in folder.glob("*.json")}


def made_up(step_time=1.0, *, steps=40, **fields):
    return Run(**series((step_time,) * steps), **fields)


def test_january_result_needs_four_times_its_tokens(samples):
    (run,) = store.read(samples / "results" / "benchmark_rocm_llama-627dfac.json")
    (finding,) = judge(run)
    assert finding.gravity == "impossible"
    assert finding.rule == "own-rate"
    assert "4.000 times the declared 128 × 2048" in finding.text
    sequence, batch, gpus = finding.explanations
    assert sequence.startswith("sequence length 8192 instead of 2048: the default of primus")
    assert batch.startswith("global batch 512 instead of 128")
    assert "no known configuration" in batch
    assert gpus.startswith("32 GPUs instead of 8: excluded")


@pytest.mark.parametrize(
    "name",
    ["benchmark_cuda_llama-627dfac", "train_amd_prim_llama-516b342", "train_nvd_nemo_qwen-516b342"],
)
def test_possible_results_are_let_be(samples, name):
    (run,) = store.read(samples / "results" / f"{name}.json")
    assert judge(run) == ()


def test_deepspeed_row_is_impossible_in_bf16(published):
    (finding,) = judge(declared(published["deepspeed"], "bf16"))
    assert finding.gravity == "impossible"
    assert "103% of the dense bf16 peak" in finding.text
    assert "107% when attention is counted in full" in finding.text
    assert any("fp8" in explanation for explanation in finding.explanations)


def test_deepspeed_row_cannot_be_judged_without_precision(published):
    (finding,) = judge(published["deepspeed"])
    assert finding.gravity == "unjudged"
    assert "can't be judged" in finding.text
    assert "only in fp8" in finding.text


@pytest.mark.parametrize("framework", ["megatron", "transformers"])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_other_rows_are_possible(published, framework, precision):
    assert judge(declared(published[framework], precision)) == ()


def test_above_every_peak_is_impossible_whatever_the_precision(published):
    run = published["deepspeed"]
    faster = msgspec.structs.replace(run, step_times=(0.2,), native_metrics={})
    (finding,) = judge(faster)
    assert finding.gravity == "impossible"
    assert "in any precision" in finding.text


def test_unknown_gpu_has_no_peak_to_be_held_against(published):
    info = msgspec.structs.replace(published["deepspeed"].gpu_info, device_name="NVIDIA Q1000")
    assert judge(msgspec.structs.replace(published["deepspeed"], gpu_info=info)) == ()


def test_memory_beyond_the_card():
    run = made_up(
        platform="amd",
        gpu_info=GpuInfo(device_name="AMD Instinct MI300X", total_memory_gb=206.142),
        memory_metrics=MemoryMetrics(peak_memory_device_used_gb=210.0),
    )
    (finding,) = judge(run)
    assert finding.rule == "beyond-memory"
    assert "210.00 GB on a device of 206.14 GB" in finding.text
    assert "GiB written as GB" in finding.explanations[0]


def test_memory_up_to_the_card_is_possible():
    run = made_up(
        platform="amd",
        gpu_info=GpuInfo(device_name="AMD Instinct MI300X", total_memory_gb=206.142),
        memory_metrics=MemoryMetrics(peak_memory_device_used_gb=206.14),
    )
    assert judge(run) == ()


@pytest.mark.parametrize(("power", "seconds", "found"), [(900, 60, 1), (900, 5, 0), (760, 60, 0)])
def test_power_above_the_cap(power, seconds, found):
    run = made_up(
        gpu_info=GpuInfo(device_name="NVIDIA H100 80GB HBM3"),
        energy_metrics={"mean_power_watts_per_gpu": float(power), "measured_seconds": float(seconds)},
    )
    assert len(judge(run)) == found


CONFIG = TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8)


@pytest.mark.parametrize(
    ("factor", "gravity"),
    [(1.0, None), (1.009, None), (0.97, "doubtful"), (1.04, "doubtful"), (1.06, "impossible"), (0.5, "impossible")],
)
def test_printed_rate_against_the_declared_work(factor, gravity):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    assert [finding.gravity for finding in judge(run)] == ([gravity] if gravity else [])


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (8.0, "a total printed as the rate per GPU"),
        (1 / 8, "a rate per GPU printed as the total"),
        (1000.0, "milliseconds taken for seconds"),
        (GIB / 1e9, "GiB taken for GB"),
        (2.0, "sequence length 4096 instead of 2048"),
        (3.0, "global batch 192 instead of 64"),
    ],
)
def test_single_corrections(factor, text):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    (finding,) = judge(run)
    assert any(explanation.startswith(text) for explanation in finding.explanations)


def test_a_rate_that_nothing_explains_has_no_explanation():
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * 1.2345})
    (finding,) = judge(run)
    assert finding.explanations == ()


def test_printed_series_are_averaged_as_totals():
    rates = (None, 100.0, 300.0)
    run = made_up(steps=3, training_config=CONFIG, native_metrics={"tokens_per_second_per_gpu": rates})
    assert physics.printed_tokens_per_second(run) == pytest.approx(8 * 150.0)


def test_shape_is_needed():
    run = made_up(0.001, model_config=ModelConfig(num_layers=32), training_config=CONFIG)
    assert judge(run) == ()


def test_a_precision_without_a_peak_is_held_against_the_highest(published):
    run = declared(msgspec.structs.replace(published["deepspeed"], step_times=(0.2,), native_metrics={}), "int8")
    (finding,) = judge(run)
    assert (finding.gravity, finding.rule) == ("impossible", "above-peak")
    assert judge(declared(published["deepspeed"], "int8")) == ()


def test_the_fastest_level_is_held_against_the_peak(published):
    slow, fast = [2.0] * 200, [0.5] * 200
    for times in (slow + fast, fast + slow):
        run = msgspec.structs.replace(declared(published["deepspeed"], "bf16"), **series(times), native_metrics={})
        assert [finding.rule for finding in judge(run)] == ["above-peak"]


def test_what_is_possible_is_named_of_a_card_with_fp4(published):
    info = msgspec.structs.replace(published["deepspeed"].gpu_info, device_name="NVIDIA B200")
    run = msgspec.structs.replace(published["deepspeed"], gpu_info=info, step_times=(0.3,), native_metrics={})
    (finding,) = judge(run)
    assert "possible only in fp8 or fp4: state the precision" in finding.text


@pytest.mark.parametrize(
    ("factor", "batch"), [(0.5, "32 instead of 64 (or 1/2 of"), (0.125, "8 instead of 64 (or 1/8 of")]
)
def test_a_batch_may_have_been_smaller(factor, batch):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    (finding,) = judge(run)
    assert any(f"global batch {batch} the gradient accumulation)" in text for text in finding.explanations)


def test_fp32_above_its_peak_may_be_tf32(published):
    (finding,) = judge(declared(published["megatron"], "fp32"))
    assert any("tf32" in explanation for explanation in finding.explanations)
