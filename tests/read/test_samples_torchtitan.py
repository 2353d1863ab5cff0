"""Every real log of torchtitan, held against what a careful reading of it finds."""

import msgspec
import pytest
from cut_logs import cut
from read_truth import check_all, runs_of

from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.results.result_file import decode
from tprimat.store.store import as_file, encode

UPSTREAM = (
    "ao_llama3_8b_bf16_8xH100.log",
    "ao_llama3_8b_fp8_tensorwise.log",
    "ao_mxfp8_ep_doc.log",
    "aws_p5_llama3_8b_bf16_slurm_ansi.log",
)
PRIMUS = (
    "torchtitan_llama3_8B_bf16_mi300x_3st.log",
    "torchtitan_llama3_8B_fp8_mi300x_3st.log",
    "torchtitan_llama31_70B_bf16_mi300x_3st.log",
    "torchtitan_qwen3_0p6B_mi300x_3st.log",
    "torchtitan_deepseek_v3_16b_mi300x_1st.log",
    "torchtitan_torchft_replicagroups.log",
)
WHERE = dict.fromkeys(UPSTREAM, "torchtitan") | dict.fromkeys(PRIMUS, "primus")


@pytest.mark.parametrize("name", WHERE)
def test_a_real_log_of_torchtitan_is_read_whole(name, samples, truth):
    folder = WHERE[name]
    runs = runs_of(samples / folder / name)
    wrong = check_all(runs, truth(folder)[name])
    if any("the log lacks" in warning for warning in runs[0].warnings):
        # Their times follow from the time stamps, which that reading left alone; the next test
        # holds them to these.
        wrong = [each for each in wrong if each != "step_time_s: there should be none"]
    assert wrong == []
    assert decode(encode(as_file([runs[0]]))) == (runs[0],)


@pytest.mark.parametrize(
    ("name", "seconds", "sizes"),
    [
        (
            "ao_llama3_8b_bf16_8xH100.log",
            33.83 / 29,
            {"global_batch_size": 8, "sequence_length": 8192, "num_gpus": 8},
        ),
        ("ao_mxfp8_ep_doc.log", 40.378 / 29, {}),
    ],
)
def test_without_sizes_the_time_stamps_say_how_long_a_step_takes_and_the_first_one_is_warm_up(
    name, seconds, sizes, samples
):
    (log,) = read.parse_lines(text.lines([(samples / "torchtitan" / name).read_bytes()]), name)
    performance = summarize(log.run()).performance
    assert performance.avg_step_time_seconds == pytest.approx(seconds, rel=0.02)
    assert performance.warmup_time_seconds > 10 * seconds
    if sizes:
        with_sizes = summarize(log.run(sizes)).performance
        assert performance.avg_step_time_seconds == pytest.approx(
            with_sizes.avg_step_time_seconds, rel=0.001
        )


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_times_in_whole_seconds_of_three_steps_leave_no_step_out(precision, samples):
    (run,) = runs_of(samples / "primus" / f"torchtitan_llama3_8B_{precision}_mi300x_3st.log")
    (entry,) = (entry for entry in run.timeline if entry.kind == "training")
    assert (entry.first_step, entry.last_step) == (1, 3)
    assert entry.duration == pytest.approx(sum(run.step_times), abs=1)


@pytest.mark.parametrize("name", ["losses_llama3_cuda.txt", "losses_llama3_rocm_mi350x.txt"])
def test_a_list_of_numbers_is_no_log(name, samples):
    with pytest.raises(UnreadableError, match="no supported training log in it"):
        runs_of(samples / "torchtitan" / name)


def test_ranks_that_print_the_same_step_are_one_record(samples):
    (run,) = runs_of(samples / "torchtitan" / "aws_p5_llama3_8b_bf16_slurm_ansi.log")
    assert run.steps == (1990,)
    assert any("log_freq" in warning for warning in run.warnings)
    assert any("no step times" in warning for warning in run.warnings)


def test_replica_groups_are_named(samples):
    (run,) = runs_of(samples / "primus" / "torchtitan_torchft_replicagroups.log")
    assert any("2 replica groups" in warning for warning in run.warnings)


def test_the_setup_of_a_run_through_primus(samples):
    (run,) = runs_of(samples / "primus" / "torchtitan_llama3_8B_fp8_mi300x_3st.log")
    shape = run.model_config
    assert (shape.num_layers, shape.hidden_size, shape.ffn_hidden_size, shape.vocab_size) == (
        4,
        4096,
        14336,
        128256,
    )
    assert (run.platform, run.gpu_info.device_name) == ("amd", "AMD Instinct MI300X")
    assert (run.parallelism_config.data_parallel_size, run.optimizer.learning_rate) == (8, 0.0008)
    # 4 of 32 layers: not the full model, whatever its configuration is called.
    assert run.scale is None


def test_a_step_that_is_not_printed_is_not_missing(samples):
    (run,) = runs_of(samples / "primus" / "torchtitan_deepseek_v3_16b_mi300x_1st.log")
    assert run.status == "complete"
    assert any("prints every 10 steps" in warning for warning in run.warnings)
    assert (run.model_config.num_experts, run.model_config.shared_expert_ffn_hidden_size) == (
        64,
        2816,
    )


@pytest.mark.parametrize(
    "name", ["torchtitan_qwen3_0p6B_mi300x_3st.log", "torchtitan_torchft_replicagroups.log"]
)
def test_a_log_cut_anywhere_is_read_for_what_it_holds(name, samples):
    content = (samples / "primus" / name).read_bytes()
    (whole,) = read.read(text.lines([content]), name)
    ends = {
        *range(0, len(content), max(1, len(content) // 20)),
        *range(max(0, len(content) - 400), len(content), 7),
    }
    for _, runs in cut(content, sorted(ends), name):
        if not runs:
            continue
        (run,) = runs
        assert set(run.steps) <= set(whole.steps)
        assert all(loss is None or loss in whole.loss_values for loss in run.loss_values)
        assert all(time is None or time in whole.step_times for time in run.step_times)
        msgspec.json.encode(run)
