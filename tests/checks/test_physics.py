"""Impossible figures are found, with what would explain them; possible ones are let be."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from made_runs import make_run
from stored_runs import notes_of, series

from tprimat import read_log
from tprimat.analysis import conventions, flops
from tprimat.analysis.summary import summarize
from tprimat.catalog import models
from tprimat.checks import physics
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.run import (
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    TrainingConfig,
)
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
    assert finding.severity == "error"
    assert finding.rule == "own-rate"
    assert (
        "it reports 107,401 tokens/s, but 128 × 2,048 tokens in 9.754 s are 26,875 tokens/s (3.996×"
        " less)" in words(finding.note)
    )
    sequence, batch, gpus = map(words, finding.explanations)
    assert sequence.startswith("sequence length 8192 instead of 2048: the primus default")
    assert batch.startswith("global batch 512 instead of 128")
    assert "no supporting evidence" in batch
    assert gpus.startswith("32 GPUs instead of 8 (ruled out")


@pytest.mark.parametrize(
    "name",
    ["benchmark_cuda_llama-627dfac", "train_amd_prim_llama-516b342", "train_nvd_nemo_qwen-516b342"],
)
def test_possible_results_are_let_be(samples, name):
    (run,) = store.read(samples / "results" / f"{name}.json")
    assert judge(run) == ()


def test_deepspeed_row_is_impossible_in_bf16(published):
    (finding,) = judge(declared(published["deepspeed"], "bf16"))
    assert finding.severity == "error"
    assert "103% of the dense BF16 peak of H100 SXM (989 TFLOP/s)" in words(finding.note)
    assert any("FP8" in explanation for explanation in map(words, finding.explanations))


def test_deepspeed_row_cannot_be_judged_without_precision(published):
    (finding,) = judge(published["deepspeed"])
    assert finding.severity == "unverified"
    assert (
        "1,023 TFLOP/s per GPU is 103% of the dense BF16 peak of H100 SXM; only possible in"
        " FP8, but" in words(finding.note)
    )


@pytest.mark.parametrize("framework", ["megatron", "transformers"])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_other_rows_are_possible(published, framework, precision):
    assert judge(declared(published[framework], precision)) == ()


def test_above_every_peak_is_impossible_whatever_the_precision(published):
    run = published["deepspeed"]
    faster = msgspec.structs.replace(run, step_times=(0.2,), native_metrics={})
    (finding,) = judge(faster)
    assert finding.severity == "error"
    assert "in any precision" in words(finding.note)


def test_unknown_gpu_has_no_peak_to_be_held_against(published):
    info = msgspec.structs.replace(published["deepspeed"].gpu_info, device_name="NVIDIA Q1000")
    assert judge(msgspec.structs.replace(published["deepspeed"], gpu_info=info)) == ()


@pytest.mark.parametrize(
    ("platform", "memory_gb", "seconds", "precision", "severity", "part"),
    [
        # The fastest GPU of all, of a vendor, of a memory size.
        (
            None,
            None,
            0.15,
            "bf16",
            "error",
            "of the dense BF16 peak of MI355X, the fastest GPU that it may be",
        ),
        ("nvd", None, 0.15, "bf16", "error", "of GB"),
        ("amd", 206.158, 0.4, "bf16", "error", "of the dense BF16 peak of MI300X"),
        ("amd", 206.158, 0.4, None, "unverified", "only possible in FP8"),
        ("nvd", None, 0.01, None, "error", "in any precision"),
        (None, None, 0.4, "bf16", None, ""),
        ("cpu", None, 0.01, "bf16", None, ""),
    ],
)
def test_an_unnamed_gpu_is_judged_by_the_fastest_that_it_may_be(
    platform, memory_gb, seconds, precision, severity, part
):
    run = make_run(
        None, precision=precision, step_time=seconds, warmup=(), batch=8, length=2048, gpus=1
    )
    run = msgspec.structs.replace(
        run, platform=platform, gpu_info=GpuInfo(total_memory_gb=memory_gb)
    )
    found = judge(run)
    assert [each.severity for each in found] == [severity] * bool(severity)
    assert all(part in words(each.note) for each in found)


def test_memory_beyond_the_card():
    run = made_up(
        platform="amd",
        gpu_info=GpuInfo(device_name="AMD Instinct MI300X", total_memory_gb=206.142),
        memory_metrics=MemoryMetrics(peak_memory_device_used_gb=210.0),
    )
    (finding,) = judge(run)
    assert finding.rule == "beyond-memory"
    assert "of 210.00 GB exceeds the 206.14 GB of the device" in words(finding.note)
    assert "GiB reported as GB" in words(finding.explanations[0])


def seventy(gpus, optimizer="AdamW", trainable=None, **changes):
    run = make_run(
        "NVIDIA H100 80GB HBM3",
        precision="bf16",
        step_time=60.0,
        warmup=(),
        batch=8,
        length=2048,
        gpus=gpus,
    )
    shape = msgspec.structs.replace(
        models.find("llama-3.1-70b").shape, trainable_parameters=trainable
    )
    info = GpuInfo(device_name="NVIDIA H100 80GB HBM3", device_count=gpus, total_memory_gb=85.02)
    return msgspec.structs.replace(
        run, model_config=shape, gpu_info=info, optimizer=Optimizer(name=optimizer), **changes
    )


# 70.55 billion parameters: 423.3 GB with AdamW, 282.2 GB without its states, 35.3 GB frozen.
@pytest.mark.parametrize(
    ("gpus", "optimizer", "trainable", "refused"),
    [
        (1, "AdamW", None, True),
        (4, "AdamW", None, True),
        (5, "AdamW", None, False),
        (3, None, None, True),
        (4, None, None, False),
        (4, "SGD", None, False),
        (1, "AdamW", 40_000_000, False),
    ],
)
def test_states_that_all_gpus_together_cannot_hold(gpus, optimizer, trainable, refused):
    found = [
        each for each in judge(seventy(gpus, optimizer, trainable)) if each.rule == "beyond-memory"
    ]
    assert [each.severity for each in found] == ["unverified"] * refused
    assert all("70.6B parameters take at least" in words(each.note) for each in found)


@pytest.mark.parametrize(
    ("offload", "refused"), [(True, False), ("cpu", False), (False, True), (None, True)]
)
def test_states_in_the_memory_of_the_cpu_are_not_judged(offload, refused):
    run = seventy(1, framework_config={"optimizer_cpu_offload": offload})
    assert bool([each for each in judge(run) if each.rule == "beyond-memory"]) == refused


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
        energy_metrics={
            "mean_power_watts_per_gpu": float(power),
            "measured_seconds": float(seconds),
            "power_cap_watts": 700.0,
        },
    )
    assert [finding.severity for finding in judge(run)] == ["error"] * found


@pytest.mark.parametrize(
    ("device", "power"),
    [("AMD Instinct MI250X", 520), ("NVIDIA GeForce RTX 4090", 520), ("NVIDIA B300", 1300)],
)
def test_power_above_the_data_sheet_is_a_warning_where_no_cap_is_recorded(device, power):
    metrics = {"mean_power_watts_per_gpu": float(power), "measured_seconds": 60.0}
    severities = [
        each.severity
        for each in judge(made_up(gpu_info=GpuInfo(device_name=device), energy_metrics=metrics))
    ]
    assert severities in ([], ["warning"])
    capped = made_up(
        gpu_info=GpuInfo(device_name=device), energy_metrics={**metrics, "power_cap_watts": 400.0}
    )
    assert [finding.severity for finding in judge(capped)] == ["error"]


CONFIG = TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8)


@pytest.mark.parametrize(
    ("factor", "severity"),
    [
        (1.0, None),
        (1.009, None),
        (0.97, "warning"),
        (1.04, "warning"),
        (1.06, "error"),
        (0.93, "warning"),
        (0.5, "warning"),
    ],
)
def test_printed_rate_against_the_declared_work(factor, severity):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    assert [finding.severity for finding in judge(run)] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (8.0, "total rate reported as per-GPU"),
        (1 / 8, "per-GPU rate reported as the total"),
        (1000.0, "milliseconds read as seconds"),
        (GIB / 1e9, "GiB read as GB"),
        (2.0, "sequence length 4096 instead of 2048"),
        (3.0, "global batch 192 instead of 64"),
    ],
)
def test_single_corrections(factor, text):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    (finding,) = judge(run)
    assert any(explanation.startswith(text) for explanation in map(words, finding.explanations))


def test_a_rate_that_nothing_explains_has_no_explanation():
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * 1.2345})
    (finding,) = judge(run)
    assert finding.explanations == ()


def test_printed_series_are_averaged_as_totals():
    rates = (None, 100.0, 300.0)
    run = made_up(
        steps=3, training_config=CONFIG, native_metrics={"tokens_per_second_per_gpu": rates}
    )
    assert physics.printed_tokens_per_second(run) == pytest.approx(8 * 150.0)


def test_shape_is_needed():
    run = made_up(0.001, model_config=ModelConfig(num_layers=32), training_config=CONFIG)
    assert judge(run) == ()


def test_a_precision_without_a_peak_is_held_against_the_highest(published):
    run = declared(
        msgspec.structs.replace(published["deepspeed"], step_times=(0.2,), native_metrics={}),
        "int8",
    )
    (finding,) = judge(run)
    assert (finding.severity, finding.rule) == ("error", "above-peak")
    assert judge(declared(published["deepspeed"], "int8")) == ()


def test_the_fastest_level_is_held_against_the_peak(published):
    slow, fast = [2.0] * 200, [0.5] * 200
    for times in (slow + fast, fast + slow):
        run = msgspec.structs.replace(
            declared(published["deepspeed"], "bf16"), **series(times), native_metrics={}
        )
        assert [finding.rule for finding in judge(run)] == ["above-peak"]


def test_what_is_possible_is_named_of_a_card_with_fp4(published):
    info = msgspec.structs.replace(published["deepspeed"].gpu_info, device_name="NVIDIA B200")
    run = msgspec.structs.replace(
        published["deepspeed"], gpu_info=info, step_times=(0.3,), native_metrics={}
    )
    (finding,) = judge(run)
    assert "only possible in FP8 or FP4, but the precision is unknown" in words(finding.note)


@pytest.mark.parametrize(
    ("factor", "batch"),
    [(0.5, "32 instead of 64, or 1/2 of"), (0.125, "8 instead of 64, or 1/8 of")],
)
def test_a_batch_may_have_been_smaller(factor, batch):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    (finding,) = judge(run)
    assert any(
        f"global batch {batch} the gradient accumulation (" in text
        for text in map(words, finding.explanations)
    )


def test_fp32_above_its_peak_may_be_tf32(published):
    (finding,) = judge(declared(published["megatron"], "fp32"))
    assert any("TF32" in explanation for explanation in map(words, finding.explanations))


LLAMA = models.by_name("llama").shape


def trained(
    device,
    tflops,
    *,
    precision="bf16",
    length=2048,
    packing=False,
    trainable=None,
    memory=None,
    **info,
):
    """A run on 16 GPUs that do so many TFLOP/s each by the FLOPs of the weights and of causal
    attention.
    """
    shape = msgspec.structs.replace(LLAMA, trainable_parameters=trainable)
    per_token = flops.flops_per_token(shape, 0 if packing else length)
    config = TrainingConfig(
        global_batch_size=128,
        sequence_length=length,
        num_gpus=16,
        precision=precision,
        packing=packing,
    )
    return made_up(
        8 * length * per_token / (tflops * 1e12),
        model_config=shape,
        training_config=config,
        gpu_info=GpuInfo(device_name=device, **info),
    )


@pytest.mark.parametrize(
    ("device", "tflops", "severity", "rule"),
    [
        ("NVIDIA A100-SXM4-80GB", 19.4, "warning", "high-mfu"),
        ("NVIDIA A100-SXM4-80GB", 19.6, "warning", "contradiction"),
        ("NVIDIA A100-SXM4-80GB", 155.9, "warning", "contradiction"),
        ("NVIDIA A100-SXM4-80GB", 156.1, "error", "above-peak"),
        # Without TF32.
        ("Tesla V100-SXM2-16GB", 15.6, "warning", "high-mfu"),
        ("Tesla V100-SXM2-16GB", 15.8, "error", "above-peak"),
    ],
)
def test_fp32_up_to_the_peak_of_tf32_contradicts_itself(device, tflops, severity, rule):
    found = judge(trained(device, tflops, precision="fp32"))
    assert [(each.severity, each.rule) for each in found] == ([(severity, rule)] if rule else [])
    if rule == "contradiction":
        assert words(found[0].note).startswith("only possible in TF32, not in the stated FP32: ")
        assert words(found[0].explanations[0]).startswith("TF32 or BF16 in the matrix products")


HONEST = (
    # Dense products of https://github.com/xzwgit/gpu-flops-bench, above the data sheet's peak.
    trained("NVIDIA GeForce RTX 4090", 179),
    trained("NVIDIA GeForce RTX 4090", 354, precision="fp8"),
    trained("NVIDIA GeForce RTX 5090", 254),
    trained("NVIDIA GeForce RTX 5090", 774, precision="fp8"),
    trained("NVIDIA H200 NVL", 853),
    # LoRA at 75 %, of the weights that are frozen and those that aren't.
    trained("NVIDIA H100 80GB HBM3", 0.75 * 989.4, trainable=41_943_040),
    # A GPU by a name that several have.
    trained("NVIDIA H100", 700),
    trained("NVIDIA A100", 200),
    trained("AMD Instinct MI250X / MI250", 120),
    trained("NVIDIA A10G", 50),
    trained("NVIDIA A10", 90),
    trained("NVIDIA RTX A6000", 110),
    trained("Tesla T4", 45, precision="fp16"),
    trained("Tesla T4", 45, precision=None),
    trained("Tesla V100-SXM2-16GB", 80, precision="fp16"),
    # By the matrix cores, above the vector peak.
    trained("AMD Instinct MI210", 30, precision="fp32"),
    trained("TPU-v5p", 400),
    trained("Intel Gaudi 3", 1500, precision="fp8"),
)


@pytest.mark.parametrize("run", HONEST, ids=lambda run: run.gpu_info.device_name)
def test_what_an_honest_run_reaches_is_let_be(run):
    # Some cards of gamers exceed the peak of their data sheet.
    assert [each.rule for each in judge(run) if each.severity != "warning"] == []
    assert {each.rule for each in judge(run)} <= {"high-mfu"}


@pytest.mark.parametrize("packing", [None, True])
def test_documents_of_1k_packed_to_131k_at_half_of_the_peak_are_let_be(packing):
    length, documents = 131_072, 1024
    rate = 0.5 * 989.4e12 / flops.flops_per_token(LLAMA, documents)
    config = TrainingConfig(
        global_batch_size=8, sequence_length=length, num_gpus=1, precision="bf16", packing=packing
    )
    gpu = GpuInfo(device_name="NVIDIA H100 80GB HBM3")
    run = made_up(8 * length / rate, model_config=LLAMA, training_config=config, gpu_info=gpu)
    # If it is unknown whether they are packed, the MFU counts attention over the whole length.
    assert [each.rule for each in judge(run)] == ([] if packing else ["high-mfu"])
    whole = msgspec.structs.replace(
        run, training_config=msgspec.structs.replace(config, packing=False)
    )
    (finding,) = judge(whole)
    assert (finding.severity, finding.rule) == ("error", "above-peak")


IMPOSSIBLE = (
    trained("NVIDIA H100", 2500),
    trained("NVIDIA H100", 2500, packing=None),
    trained("NVIDIA A100", 330),
    trained("NVIDIA H100 SXM5", 1000),
    trained("NVIDIA GeForce RTX 4090", 210),
    trained("NVIDIA GeForce RTX 5090", 275),
    trained("NVIDIA H200 NVL", 1000),
    trained("NVIDIA A10G", 90),
    # It has no bf16, which takes fp32 then.
    trained("Tesla V100-SXM2-16GB", 80),
    trained("NVIDIA A100-SXM4-80GB", 400, precision="fp8"),
    trained("NVIDIA H100 80GB HBM3", 1000, trainable=41_943_040),
)


@pytest.mark.parametrize("run", IMPOSSIBLE, ids=lambda run: run.gpu_info.device_name)
def test_what_no_gpu_of_the_name_reaches_is_an_error(run):
    (finding,) = judge(run)
    assert (finding.severity, finding.rule) == ("error", "above-peak")


def test_an_ambiguous_name_is_said_to_be_one():
    (finding,) = judge(trained("NVIDIA H100", 2500))
    assert "peak of H100 SXM, the fastest GPU of this name, (989 TFLOP/s)" in words(finding.note)


def test_a_precision_that_the_gpu_lacks_is_a_warning_where_a_wider_one_reaches_it():
    (finding,) = judge(trained("Tesla V100-SXM2-16GB", 9))
    assert (finding.severity, finding.rule) == ("warning", "precision-lacking")
    assert "V100 SXM 16GB does not support BF16: the run used fp32" in words(finding.note)


def test_more_than_any_product_is_known_to_sustain_is_a_warning():
    (finding,) = judge(trained("AMD Instinct MI300X", 1250))
    assert (finding.severity, finding.rule) == ("warning", "above-sustained")
    assert (
        "1,250 TFLOP/s per GPU is 187% of the best BF16 matrix product measured on MI300X (668"
        " TFLOP/s" in words(finding.note)
    )
    assert judge(trained("AMD Instinct MI300X", 660)) == ()


def test_lora_may_explain_half_as_much_again():
    (finding,) = judge(trained("NVIDIA H100 80GB HBM3", 1100))
    assert any(
        "frozen weights, as in LoRA (would be 74% of peak or more)" in each
        for each in map(words, finding.explanations)
    )


@pytest.mark.parametrize("factor", [0.93, 0.75, 0.5, 0.125])
def test_fewer_printed_tokens_than_declared_keep_their_throughput(factor):
    run = made_up(training_config=CONFIG, native_metrics={"tokens_per_second": 64 * 2048 * factor})
    (finding,) = judge(run)
    assert (finding.severity, finding.rule) == ("warning", "contradiction")
    assert "padding" in words(finding.note)
    assert summarize(run).performance.tokens_per_second == 64 * 2048


def test_no_explanation_leaves_the_rate_above_the_peak(published):
    run = declared(published["deepspeed"], "bf16")
    faster = msgspec.structs.replace(run, step_times=tuple(time / 3 for time in run.step_times))
    (finding,) = [each for each in judge(faster) if each.rule == "above-peak"]
    assert not any(
        "FP8" in text or "half the declared" in text for text in map(words, finding.explanations)
    )
    assert "would be 39% of peak" in words(finding.explanations[0])


def printing(rate, *, recomputation="none", **shape):
    """Llama 3.1 8B, 16 sequences of 8,192 tokens on 8 GPUs in 2.0 s, with so many TFLOP/s
    printed.
    """
    config = TrainingConfig(
        global_batch_size=16, sequence_length=8192, num_gpus=8, recomputation=recomputation
    )
    known = msgspec.structs.replace(models.by_name("llama").shape, **shape)
    return made_up(
        2.0,
        model_config=known,
        training_config=config,
        native_metrics={"tflops_per_gpu": (rate,) * 40},
    )


def contradicts(run):
    return [words(finding.note) for finding in judge(run) if finding.rule == "contradiction"]


class TestPrintedFlops:
    SHAPE = models.by_name("llama").shape
    TFLOPS = 16 * 8192 / 8 / 2.0 / 1e12
    LEAST = 0.9 * flops.flops_per_token(SHAPE, 0) * TFLOPS
    ONE_LAYER_MORE = (
        flops.flops_per_token(msgspec.structs.replace(SHAPE, num_layers=33), 8192, causal=False)
        + 6 * 4096 * 128256
    )
    MOST = 1.1 * ONE_LAYER_MORE * TFLOPS

    @pytest.mark.parametrize("causal", [True, False])
    def test_every_way_of_counting_attention_is_let_be(self, causal):
        assert not contradicts(
            printing(flops.flops_per_token(self.SHAPE, 8192, causal=causal) * self.TFLOPS)
        )

    def test_fewer_than_those_of_the_weights_contradict(self):
        assert not contradicts(printing(self.LEAST * 1.001))
        (text,) = contradicts(printing(self.LEAST * 0.999))
        assert "shape, batch, sequence length and step time give 422" in text

    def test_more_than_those_of_full_attention_and_a_layer_contradict(self):
        assert not contradicts(printing(self.MOST * 0.999))
        assert contradicts(printing(self.MOST * 1.001))

    @pytest.mark.parametrize("recomputation", ["full", "selective", None])
    def test_a_second_forward_pass_may_be_counted(self, recomputation):
        most = 4 / 3 * self.MOST
        assert not contradicts(printing(most * 0.999, recomputation=recomputation))
        assert contradicts(printing(most * 1.001, recomputation=recomputation))

    def test_frozen_weights_may_be_counted_as_trained(self):
        rate = flops.flops_per_token(self.SHAPE, 8192) * self.TFLOPS
        assert not contradicts(printing(rate, trainable_parameters=20_000_000))

    def test_a_window_may_not_be_counted(self):
        rate = flops.flops_per_token(self.SHAPE, 8192, causal=False) * self.TFLOPS
        assert not contradicts(printing(rate, sliding_window=128))

    @pytest.mark.parametrize(
        ("counted", "severity", "name"),
        [
            (flops.flops_per_token(SHAPE, 8192), None, ""),
            (
                flops.flops_per_token(SHAPE, 8192, causal=False),
                "info",
                "full attention, without the causal half",
            ),
            (6 * 8_030_261_248, "info", "6 FLOPs for every parameter, no attention"),
        ],
    )
    def test_the_convention_that_explains_the_printed_value_is_named(self, counted, severity, name):
        found = [
            each
            for each in judge(printing(counted * self.TFLOPS))
            if each.rule == "flops-convention"
        ]
        assert [each.severity for each in found] == ([severity] if severity else [])
        assert all(
            f"counting {name}" in words(each.note) and words(each.note).endswith("; here 421.6")
            for each in found
        )

    def test_a_mistaken_formula_is_named(self):
        two_matrices = 6 * 32 * 4096 * 14336
        (finding,) = [
            each
            for each in judge(
                printing((flops.flops_per_token(self.SHAPE, 8192) - two_matrices) * self.TFLOPS)
            )
            if each.rule == "contradiction"
        ]
        assert (
            words(finding.explanations[0])
            == "it counts gated feed-forward layers as two matrices instead of three"
        )
        shape = models.find("gpt-oss-120b").shape
        run = printing(1.0)
        run = msgspec.structs.replace(run, model="gpt-oss-120b", model_config=shape)
        counted = conventions.explanations(30.87e9, shape, 8192)[0]
        assert counted.is_mistake
        run = msgspec.structs.replace(
            run, native_metrics={"tflops_per_gpu": (30.87e9 * self.TFLOPS,) * 40}
        )
        (warning,) = [each for each in judge(run) if each.rule == "flops-convention"]
        assert warning.severity == "warning"

    def test_another_sequence_length_that_fits_is_named(self):
        other = flops.flops_per_token(self.SHAPE, 2048) * self.TFLOPS / 4
        (finding,) = [each for each in judge(printing(other)) if each.rule == "contradiction"]
        assert words(finding.explanations[0]).startswith("sequence length 2048 instead of 8192")
        assert words(finding.explanations[-1]).startswith("a formula of the framework")

    @pytest.mark.parametrize("field", ["num_layers", "ffn_hidden_size"])
    def test_without_a_shape_nothing_is_said(self, field):
        assert not contradicts(printing(1.0, **{field: None}))

    def test_no_honest_log_contradicts_itself(self, samples):
        checked = 0
        names = ("primus", "torchtitan", "megatron")
        for path in sorted(each for name in names for each in samples.glob(f"{name}/*.log")):
            for run in read_log(path):
                checked += "tflops_per_gpu" in run.native_metrics
                assert not contradicts(run), path.name
        assert checked > 15


@pytest.mark.parametrize(
    ("warning", "told"),
    [
        (
            "global_batch_size 4 was stated, but the training shows 2: they can't both be true; the stated one is used",
            True,
        ),
        ("timer mismatch: CUDA events 1.000 s, host clock 2.000 s; step times may be wrong", True),
        ("sequence length unknown", False),
    ],
)
def test_a_contradiction_that_was_found_earlier_is_found_again(warning, told):
    assert contradicts(msgspec.structs.replace(made_up(), notes=notes_of(warning))) == (
        [warning] if told else []
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("stamps-contradict", ("warning", "contradiction")),
        ("stamps-are-clock", ("warning", "contradiction")),
        ("steps-beyond-stamps", ("error", "log-time")),
        ("other", None),
    ],
)
def test_x5_time_stamps_against_step_times_are_a_finding(code, told):
    run = msgspec.structs.replace(made_up(), notes=(Note(code, {"share": 0.5, "steps": 40}),))
    found = [(each.severity, each.rule) for each in physics.findings(run, summarize(run))]
    assert found == ([told] if told else [])


@pytest.mark.parametrize(("code", "severity"), [(None, "error"), ("stamps-are-clock", "warning")])
def test_x5_a_rate_of_times_that_are_too_short_is_told_once(code, severity):
    """An honest timer that leaves out a part of the step prints rates that are too high: they are
    not impossible.
    """
    notes = (Note(code, {"share": 1.2, "steps": 40}),) if code else ()
    config = TrainingConfig(global_batch_size=8, sequence_length=1000, num_gpus=8)
    run = made_up(
        training_config=config, native_metrics={"tokens_per_second": 1.2 * 8000}, notes=notes
    )
    assert [
        each.severity for each in physics.findings(run, summarize(run)) if each.rule == "own-rate"
    ] == [severity]


SPREAD = ParallelismConfig(data_parallel_size=8, gradient_accumulation_steps=4)
VARIED = (0.2, 0.3, 0.25, 0.28, 0.22, 0.26, 0.24, 0.27)


def repeating(*factors, unit="tokens_per_second", spread=SPREAD, batch=64, **config):
    """40 records of 1 s with a printed rate of so many times their batch, by turns."""
    sizes = TrainingConfig(global_batch_size=batch, sequence_length=2048, num_gpus=16, **config)
    work = (
        batch
        * {"tokens_per_second": 2048, "tokens_per_second_per_gpu": 128, "samples_per_second": 1}[
            unit
        ]
    )
    rates = tuple(
        work * factor for _, factor in zip(range(40), itertools.cycle(factors), strict=False)
    )
    return made_up(training_config=sizes, native_metrics={unit: rates}, parallelism_config=spread)


def found(run):
    return [(each.severity, each.rule) for each in judge(run)]


REFUSED, DOUBTED = [("error", "own-rate")], [("warning", "contradiction")]


class TestU4:
    """A printed rate that contradicts batch, sequence length and time."""

    @pytest.mark.parametrize(
        "unit", ["tokens_per_second", "tokens_per_second_per_gpu", "samples_per_second"]
    )
    @pytest.mark.parametrize("factor", [0.25, 4.0, 0.125, 8.0])
    def test_u4_one_factor_at_every_record_is_refused_with_its_cause(self, unit, factor):
        (finding,) = judge(repeating(factor, unit=unit))
        assert (finding.severity, finding.rule) == ("error", "own-rate")
        part = "gradient accumulation of 4" if factor in (0.25, 4.0) else "data-parallel size 8"
        assert part in words(finding.explanations[0])
        assert ("is not in the batch" if factor > 1 else "is not in the printed rate") in words(
            finding.explanations[0]
        )
        assert "by the same factor at each of 39 records" in words(finding.note)

    def test_u4_a_batch_that_counts_micro_batches_is_said_to(self):
        (finding,) = judge(repeating(4.0))
        assert (
            words(finding.explanations[0])
            == "one of the two counts micro-batches: gradient accumulation of 4 is not in the batch"
        )

    def test_u4_what_varies_as_padding_does_is_the_first_caveat(self):
        run = repeating(*VARIED)
        (finding,) = judge(run)
        assert (finding.severity, finding.rule) == ("warning", "contradiction")
        assert "padding may not be counted" in words(finding.note)
        assert physics.mfu_doubt([finding]) == finding.note

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            # At the same factor to 1%.
            (repeating(0.6, 0.6 * 1.0099), REFUSED),
            (repeating(0.6, 0.6 * 1.0101), DOUBTED),
            # Unexplained: of few sequences the padding would vary, of many its mean need not.
            (repeating(0.6, batch=999), REFUSED),
            (repeating(0.6, batch=1000), DOUBTED),
            (repeating(0.25, batch=1000), REFUSED),
            (repeating(0.6, packing=True), DOUBTED),
            (repeating(0.25, packing=True), DOUBTED),
            # Samples may be those of a clock without data wait.
            (repeating(0.6, unit="samples_per_second"), DOUBTED),
            (repeating(1.2, unit="samples_per_second"), DOUBTED),
            (repeating(1.0), []),
            (repeating(0.981), [("warning", "own-rate")]),
            # A rate of each record's own time is of no other window.
            (repeating(0.979), DOUBTED),
            (repeating(0.951), DOUBTED),
        ],
    )
    def test_u4_at_its_limits(self, run, expected):
        assert found(run) == expected

    @pytest.mark.parametrize(("records", "expected"), [(3, DOUBTED), (4, REFUSED)])
    def test_u4_three_records_after_the_first_show_a_factor(self, records, expected):
        run = made_up(steps=records, training_config=CONFIG, native_metrics={})
        rates = (64 * 2048 * 0.25,) * records
        assert (
            found(msgspec.structs.replace(run, native_metrics={"tokens_per_second": rates}))
            == expected
        )

    @pytest.mark.parametrize(("count", "expected"), [(8, REFUSED), (7, DOUBTED)])
    def test_u4_printed_flops_that_lack_a_part_of_the_batch_are_refused(self, count, expected):
        run = printing(flops.flops_per_token(LLAMA, 8192) * TestPrintedFlops.TFLOPS / count)
        run = msgspec.structs.replace(
            run, parallelism_config=ParallelismConfig(data_parallel_size=8)
        )
        assert found(run) == expected
        packed = msgspec.structs.replace(
            run, training_config=msgspec.structs.replace(run.training_config, packing=True)
        )
        assert found(packed) == DOUBTED
