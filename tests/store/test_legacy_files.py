"""Real results of an earlier tool: each agrees with a careful reading, and what is wrong in it is
said.
"""

from __future__ import annotations

import hashlib

import pytest
from made_runs import said

from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.read import read
from tprimat.read.parsing.text import lines
from tprimat.store import store


@pytest.fixture(scope="module")
def real(samples):
    """A real result of the earlier tool by its name: real("train_nvd_nemo_llama")."""

    def read(stem: str):
        (path,) = (samples / "results").glob(f"{stem}-*.json")
        (run,) = store.read(path)
        return run

    return read


STEMS = [
    "benchmark_cuda_llama",
    "benchmark_rocm_llama",
    "train_amd_prim_llama",
    "train_amd_prim_qwen",
    "train_nvd_nemo_llama",
    "train_nvd_nemo_qwen",
]


@pytest.mark.parametrize("stem", STEMS)
def test_a_real_result_agrees_with_a_careful_reading_of_it(real, truth, stem):
    run = real(stem)
    entry = next(entry for name, entry in truth("results").items() if name.startswith(stem))
    times = dict(zip(run.steps, run.step_times, strict=True))
    assert len(run.steps) == entry["records"]
    assert run.steps[0] == entry["first_step"]
    assert run.steps[-1] == entry["last_step"]
    assert set(run.window_steps) == {entry["window_steps"]}
    assert {step: times[int(step)] for step in entry["step_time_s"]} == entry["step_time_s"]
    for name, values in (("loss", run.loss_values), ("learning_rate", run.learning_rates)):
        by_step = dict(zip(run.steps, values, strict=True))
        if entry[name] is None:
            assert set(values) == {None}
        else:
            assert {step: by_step[int(step)] for step in entry[name]} == entry[name]
    assert run.gpu_info.device_name == entry["accelerator"]
    assert run.num_gpus == entry["world_size"]
    assert run.platform == entry["platform"]
    for name in (
        "global_batch_size",
        "micro_batch_size",
        "sequence_length",
        "max_steps",
        "precision",
    ):
        assert getattr(run.training_config, name) == entry[name]
    assert (
        run.parallelism_config.gradient_accumulation_steps == entry["gradient_accumulation_steps"]
    )
    assert run.status == entry["status"]
    for name, printed in entry["summary"].items():
        assert name == "throughput_per_gpu_core" or run.native_metrics[name] == printed


@pytest.mark.parametrize("stem", STEMS)
def test_a_real_result_survives_saving_as_a_file_of_today(real, stem, tmp_path):
    run = real(stem)
    assert store.read(store.save(run, tmp_path).path) == (run,)


@pytest.mark.parametrize(
    ("stem", "framework", "model", "stack"),
    [
        ("benchmark_cuda_llama", "nemo", "llama", "cuda"),
        ("benchmark_rocm_llama", "primus", "llama", "rocm"),
        ("train_amd_prim_llama", "primus", "llama", "rocm"),
        ("train_amd_prim_qwen", "primus", "qwen", "rocm"),
        ("train_nvd_nemo_llama", "nemo", "llama", "cuda"),
        ("train_nvd_nemo_qwen", "nemo", "qwen", "cuda"),
    ],
)
def test_who_trained_what_is_found_and_its_origin_said(real, stem, framework, model, stack):
    run = real(stem)
    assert (run.framework, run.model, run.gpu_info.software_stack) == (framework, model, stack)
    assert said(run, f"model: {model} (from file name)")
    # Only these state the framework themselves: by software_stack "nemo", and by their source.
    stated = stem.startswith("train_nvd") or stem == "benchmark_rocm_llama"
    assert said(run, f"framework: {framework} (from file name)") != stated


@pytest.mark.parametrize("stem", STEMS)
def test_nothing_is_claimed_that_the_files_do_not_say(real, stem):
    run = real(stem)
    assert run.scale is None
    assert run.label is None
    assert run.timestamp is None
    assert run.model_config.known() == {}
    assert run.optimizer.known() == {}
    assert run.data.known() == {}
    assert run.environment.known() == {
        "versions": {},
        "emulated": False,
        "settings": {},
        "nodes": (),
    }
    assert run.training_config.precision is None
    assert said(run, "unknown: ", "precision", "recomputation", "the model's shape")


def test_the_file_itself_is_named_as_the_source(samples, real):
    path = next((samples / "results").glob("train_nvd_nemo_llama-*.json"))
    source = real("train_nvd_nemo_llama").source
    assert source.kind == "result"
    (file,) = source.files
    assert file.path == path.name
    assert file.bytes == path.stat().st_size
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_learning_rates_that_are_one_too_few_are_not_assigned(real):
    run = real("train_amd_prim_llama")
    assert set(run.learning_rates) == {None}
    assert said(run, "learning_rates ignored: 499 values for 500 steps")
    assert None not in real("train_nvd_nemo_llama").learning_rates


def test_another_cards_core_count_is_left_out(real):
    run = real("benchmark_rocm_llama")
    assert run.gpu_info.gpu_cores is None
    assert said(run, "gpu_cores 16896", "MI300X has 19456")
    assert real("train_amd_prim_llama").gpu_info.gpu_cores == 19456
    assert real("train_nvd_nemo_llama").gpu_info.gpu_cores == 16896


def test_an_empty_version_is_unknown(real):
    run = real("benchmark_rocm_llama")
    assert run.gpu_info.pytorch_version is None
    assert said(run, "unknown: ", "gpu_info.pytorch_version")


def test_times_without_offset_or_of_another_event_are_left_out(real):
    assert said(real("train_nvd_nemo_llama"), "2026-02-02T21:44:16.399662", "no time zone")
    assert said(
        real("train_amd_prim_llama"), "2026-02-02T15:28:08.851681", "when the log was parsed"
    )


def test_the_memory_in_use_of_a_primus_log_is_not_called_allocated(real):
    run = real("benchmark_rocm_llama")
    assert run.memory_metrics.known() == {"peak_memory_device_used_gb": 126.691}
    assert said(run, "117.99", "126.691", "hip mem usage", "GiB")


def test_a_peak_that_was_read_at_step_ends_is_no_peak(real):
    run = real("benchmark_cuda_llama")
    assert run.memory_metrics.known() == {
        "avg_memory_allocated_gb": 22.295,
        "avg_memory_reserved_gb": 32.507,
        "peak_memory_reserved_gb": 32.588,
    }
    assert said(run, "peak_memory_allocated_gb 22.295", "step ends only")


def test_memory_that_was_not_measured_is_missing_and_said(real):
    run = real("train_amd_prim_qwen")
    assert run.memory_metrics.known() == {}
    assert said(run, "unknown: ", "memory_metrics")


def test_time_between_the_steps_is_said_with_both_figures(real):
    assert said(real("train_nvd_nemo_llama"), "1779.24868", "by 31.76 s", "1747.49 s")
    assert not said(real("train_amd_prim_llama"), "total_time_seconds")


def test_an_average_that_leaves_out_the_first_step_alone_is_said(real):
    run = real("train_nvd_nemo_llama")
    assert said(run, "avg_step_time_seconds 3.42805", "excludes only step 1")
    assert round(summarize(run).performance.avg_step_time_seconds, 4) == 3.2411


def test_throughput_that_contradicts_its_own_batch_is_withheld(real):
    run = real("benchmark_rocm_llama")
    summary = summarize(run)
    assert run.training_config.sequence_length == 2048
    assert run.native_metrics["tokens_per_second"] == 107400.711
    assert summary.performance.tokens_per_second is None
    assert summary.performance.tokens_per_second_per_gpu is None
    assert any(
        "107,401 tokens/s" in warning and "4.000 times" in warning for warning in summary.warnings
    )


def test_figures_that_measure_nothing_are_dropped_with_a_word(real):
    run = real("train_nvd_nemo_llama")
    assert "throughput_per_gpu_core" not in run.native_metrics
    assert said(run, "throughput_per_gpu_core", "not comparable across architectures")


def test_a_strategy_that_is_called_unknown_gives_way(real):
    assert real("train_nvd_nemo_llama").parallelism_config.strategy_name == "minimal_communication"
    assert real("train_amd_prim_llama").parallelism_config.strategy_name == "TP1_PP2_SP0"
    assert real("train_amd_prim_llama").parallelism_config.pipeline_model_parallel_size == 2


def test_what_a_step_time_covers_differs_by_who_wrote_it(real):
    callback, log = real("train_nvd_nemo_llama").timing, real("train_amd_prim_llama").timing
    assert "not the wait for data or the time between batches" in callback.covers
    assert log.covers.startswith("data wait, forward and backward")


def test_a_primus_log_is_timed_alike_whoever_read_it(real, samples):
    path = samples / "primus" / "megatron_light_llama31_8B_bf16_50it.log"
    (today,) = read(lines([path.read_bytes()]), path.name)
    assert today.timing == real("train_amd_prim_llama").timing


def test_the_list_of_truths_itself_is_no_result(samples):
    with pytest.raises(UnreadableError, match="not a result"):
        store.read(samples / "results" / "truth.json")
