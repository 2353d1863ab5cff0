"""Every real log of these shapes, held against what a careful reading of it finds."""

import msgspec
import pytest
from cut_logs import cut
from read_truth import followed, runs_of

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.results.result_file import decode
from tprimat.results.run import Run
from tprimat.store.store import as_file, encode
from tprimat.units import gib_to_gb

WHOLE_LOGS = (
    "megatron_light_llama31_8B_bf16_50it.log",
    "megatron_legacy_llama2_7B_4layer_mi300x_3it.log",
    "megatron_legacy_deepseek_v3_mi300x_3it.log",
    "megatron_legacy_deepseek_v2_lite_mi300x_3it.log",
    "megatron_legacy_interleaved_pp_mi300x_3it.log",
    "megatron_core_dsv2lite_fp8_mi355x_19of20it_SIGTERM_DUP.log",
    "megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log",
    "megatron_core_dsv4_ep8_mi355x_10it.log",
    "megatron_core_dsv4_proxy_p57_mi355x_10it.log",
    "megatron_core_dsv4_p34_triton_off_iterlines.log",
    "megatron_core_dsv4_p37_hc_on_iterlines.log",
    "megatron_legacy_multinode_line_it12125.log",
    "megatron_legacy_multinode_line_it424.log",
    "megatron_rocm_fork_llama2_7B_fp8_mi300x_tail.log",
)
UPSTREAM_LOGS = (
    "aws_gpt3_39b_skipped.log",
    "aws_gpt3_slurm_small.log",
    "bigscience_meg_gpt2_perf_n16.log",
)


def single(path) -> Run:
    (run,) = runs_of(path)
    return run


def series(run: Run, name: str) -> dict[int, float | None]:
    values = getattr(run, name) if hasattr(run, name) else run.native_metrics.get(name, ())
    return dict(zip(run.steps, values, strict=False))


def check(run: Run, expected: dict) -> None:
    restored = {int(step): time for step, time in expected.get("restored", {}).items()}
    times = {int(step): time for step, time in (expected["step_time_s"] or {}).items()}
    pairs = {
        "step_times": times | restored,
        "loss_values": expected["loss"],
        "grad_norms": expected["grad_norm"],
        "learning_rates": expected["learning_rate"],
        "tokens_per_second_per_gpu": expected["tokens_per_second_per_gpu"],
        "tflops_per_gpu": expected["tflops_per_gpu"],
    }
    for name, values in pairs.items():
        found = series(run, name)
        if values is None:
            assert not any(value is not None for value in found.values()), name
        else:
            for step, value in values.items():
                assert found[int(step)] == pytest.approx(value, rel=1e-9), (name, step)
    assert len(run.steps) == expected["records"]
    assert (run.steps[0], run.steps[-1]) == (expected["first_step"], expected["last_step"])
    assert set(run.window_steps) == {expected["window_steps"]}
    assert run.framework == expected["framework"]
    sums = expected["sum_step_time_s"]
    assert sum(run.step_times) == pytest.approx(
        sums.get("sum_with_restored", sums["sum"]), abs=1e-3
    )
    if expected.get("sum_loss"):
        assert sum(loss for loss in run.loss_values if loss is not None) == pytest.approx(
            expected["sum_loss"]["sum"], abs=2e-3
        )


def check_setup(run: Run, expected: dict) -> None:
    training, spread = run.training_config, run.parallelism_config
    assert training.global_batch_size == expected["global_batch_size"]
    assert training.micro_batch_size == expected["micro_batch_size"]
    if expected["sequence_length"] is None and "sequence_length" in followed(run):
        assert run.native_metrics["tokens_per_second_per_gpu"] is not None
    else:
        assert training.sequence_length == expected["sequence_length"]
    assert training.num_gpus == expected["world_size"]
    assert spread.tensor_model_parallel_size == expected["tensor_model_parallel_size"]
    assert spread.pipeline_model_parallel_size == expected["pipeline_model_parallel_size"]
    assert training.precision == expected["precision"]
    assert training.max_steps == expected["total_steps_planned"]
    if expected["status"]:
        assert run.status in {expected["status"], *expected.get("status_also_acceptable", [])}
    assert expected.get("failure_reason_contains", "") in (run.status_reason or "")


@pytest.mark.parametrize("name", WHOLE_LOGS)
def test_a_real_log_of_primus_is_read_whole(name, samples, truth):
    expected = truth("primus")[name]
    run = single(samples / "primus" / name)
    check(run, expected)
    check_setup(run, expected)
    memory = expected["memory_gib"]
    if memory and name != "megatron_rocm_fork_llama2_7B_fp8_mi300x_tail.log":
        found = series(run, "memory_device_used_gb")
        assert all(
            found[int(step)] == pytest.approx(gib_to_gb(gib), abs=1e-4)
            for step, gib in memory.items()
        )
        most = max(value for value in found.values() if value is not None)
        assert run.memory_metrics.peak_memory_device_used_gb == pytest.approx(most, abs=1e-3)


@pytest.mark.parametrize("name", UPSTREAM_LOGS)
def test_a_real_log_of_megatron_itself_is_read_whole(name, samples, truth):
    expected = truth("megatron")[name]
    run = single(samples / "megatron" / name)
    check(run, expected)
    check_setup(run, expected)


@pytest.mark.parametrize("name", [*WHOLE_LOGS, "megatron_FAILED_llama3_70B_gated_repo.log"])
def test_what_is_read_is_a_result_that_reads_back(name, samples):
    run = single(samples / "primus" / name)
    assert decode(encode(as_file([run]))) == (run,)


def test_every_step_knows_its_line(samples):
    path = samples / "primus" / "megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log"
    run = single(path)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for step, line in zip(run.steps, run.lines, strict=True):
        assert f"iteration {step:8d}/" in text.clean(lines[line - 1])


def test_the_setup_of_a_full_model(samples):
    run = single(samples / "primus" / "megatron_light_llama31_8B_bf16_50it.log")
    assert (run.model, run.scale, run.platform, run.status) == ("llama", "full", "amd", "complete")
    assert run.model_config.num_parameters == 8_030_261_248
    assert run.model_config.vocab_size == 128256
    assert (
        run.parallelism_config.data_parallel_size,
        run.parallelism_config.gradient_accumulation_steps,
    ) == (8, 8)
    assert run.data.kind == "mock"
    assert run.optimizer.name == "adam"
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(
        gib_to_gb(136020.943359375 / 1024), abs=1e-3
    )
    assert run.memory_metrics.peak_memory_reserved_gb == pytest.approx(
        gib_to_gb(141650 / 1024), abs=1e-3
    )
    assert not any("mean that includes" in warning for warning in run.warnings)


def test_a_model_with_four_layers_is_not_the_full_one(samples):
    run = single(samples / "primus" / "megatron_legacy_llama2_7B_4layer_mi300x_3it.log")
    assert (run.model, run.scale) == ("llama2_7B", None)
    assert run.model_config.num_layers == 4


def test_attention_over_the_whole_sequence_is_no_packing(samples):
    assert (
        single(
            samples / "primus" / "megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log"
        ).training_config.packing
        is False
    )


def test_the_reading_machine_leaves_no_trace(samples):
    run = single(samples / "primus" / "megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log")
    assert run.gpu_info.device_name is None
    assert (run.gpu_info.software_version, run.gpu_info.pytorch_version) == (None, None)
    assert any("MI355X" in warning for warning in run.warnings)
    assert run.environment.known().keys() <= {
        "hostname",
        "versions",
        "emulated",
        "settings",
        "nodes",
    }
    assert run.environment.hostname == "mi355-gpu-26"


def test_the_restored_iteration_is_said_with_both_values(samples):
    run = single(samples / "primus" / "megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log")
    (said,) = (warning for warning in run.warnings if "corrected to" in warning)
    assert "9.8556" in said
    assert "0.6973" in said
    assert "loss" in said


def test_pipeline_stages_add_up(samples):
    run = single(samples / "primus" / "megatron_legacy_interleaved_pp_mi300x_3it.log")
    assert run.model_config.num_parameters == 870851584 + 2 * 1169695744 + 1374694400
    assert run.parallelism_config.data_parallel_size == 2


def test_experts_and_latent_attention_are_part_of_the_shape(samples):
    shape = single(
        samples / "primus" / "megatron_core_dsv2lite_fp8_mi355x_19of20it_SIGTERM_DUP.log"
    ).model_config
    assert (shape.num_experts, shape.experts_per_token, shape.num_dense_layers) == (64, 6, 1)
    assert (shape.key_value_lora_rank, shape.value_head_dim, shape.rope_head_dim) == (512, 128, 64)
    assert shape.num_parameters == 15_820_000_000
    assert "rounded" in shape.source


def test_a_gated_model_is_the_reason_of_the_failure(samples, truth):
    name = "megatron_FAILED_llama3_70B_gated_repo.log"
    run = single(samples / "primus" / name)
    check_setup(run, truth("primus")[name])
    assert run.status == "failed"
    assert run.steps == ()
    assert "ChildFailedError" not in run.status_reason


def test_lines_of_two_trainings_are_two(samples, truth):
    name = "cvs_megatron_and_primus_v265_lines.log"
    fork, primus = runs_of(samples / "primus" / name)
    first, second = truth("primus")[name]["trainings"]
    for run, expected in ((fork, first), (primus, second)):
        assert run.framework == expected["framework"]
        assert len(run.steps) == expected["records"]
        for field, values in (
            ("step_times", expected["step_time_s"]),
            ("loss_values", expected["loss"]),
            ("grad_norms", expected["grad_norm"]),
            ("learning_rates", expected["learning_rate"]),
        ):
            assert series(run, field) == {int(step): value for step, value in values.items()}
    assert fork.native_metrics["memory_used_fraction"] == (0.5462,)
    assert primus.window_steps == (2, 1)
    assert any("counts as the mean of both" in warning for warning in primus.warnings)


def test_what_is_no_log_is_one_line_with_a_hint(samples):
    with pytest.raises(UnreadableError, match="no supported training log in it") as raised:
        runs_of(samples / "torchtitan" / "losses_llama3_cuda.txt")
    assert raised.value.line().startswith("error: ")


@pytest.mark.parametrize(
    "name", ["megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log", *WHOLE_LOGS[1:2]]
)
def test_a_log_cut_anywhere_is_read_for_what_it_holds(name, samples):
    content = (samples / "primus" / name).read_bytes()
    complete = single(samples / "primus" / name)
    known = {
        step: set(values)
        for step, *values in zip(complete.steps, complete.loss_values, strict=True)
    }
    before = 0
    for _, runs in cut(content, range(0, len(content), max(1, len(content) // 60)), name):
        if not runs:
            assert before == 0
            continue
        (run,) = runs
        assert len(run.steps) >= before
        before = len(run.steps)
        assert all(
            loss in known[step] for step, loss in zip(run.steps, run.loss_values, strict=True)
        )
        assert run.status in ("failed", "incomplete", "complete")
        assert run.status == "complete" or run.status_reason
        msgspec.json.encode(run)


def test_the_end_of_a_log_cut_byte_by_byte(samples):
    content = (samples / "primus" / "megatron_core_dsv4_p37_hc_on_iterlines.log").read_bytes()
    complete = single(samples / "primus" / "megatron_core_dsv4_p37_hc_on_iterlines.log")
    for _, (run,) in cut(content, range(len(content) - 900, len(content))):
        assert run.steps in (complete.steps, complete.steps[:-1])
        assert run.step_times == complete.step_times[: len(run.steps)]
        assert run.loss_values[: len(run.steps) - 1] == complete.loss_values[: len(run.steps) - 1]
        assert run.loss_values[-1] in (None, complete.loss_values[len(run.steps) - 1])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_log_in_another_encoding_says_the_same(encoding, samples):
    path = samples / "primus" / "megatron_legacy_llama2_7B_4layer_mi300x_3it.log"
    content = path.read_text(encoding="utf-8").replace("\n", "\r\n").encode(encoding)
    (run,) = read.read(text.lines([content]), path.name)
    assert run == single(path)


def test_recognition_needs_only_the_head(samples):
    path = samples / "primus" / "megatron_light_llama31_8B_bf16_50it.log"
    feeder = read.new_feeder()
    feeder.feed(path.read_bytes())
    assert [reader.name for reader in feeder.readers if reader.recognized] == ["megatron"]
    feeder = read.new_feeder()
    feeder.feed(b"nothing of that kind\n")
    assert not any(reader.recognized for reader in feeder.readers)
