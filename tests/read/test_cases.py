"""Small inputs that were read wrongly once, where they lie beside this clone: what a careful reader
finds in them.
"""

from __future__ import annotations

import statistics

import pytest

from tprimat.analysis.run_account import account_of
from tprimat.analysis.summary import summarize
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues


@pytest.fixture
def case(samples):
    """Reads one of them as a command does."""

    def runs_of(name, columns=None):
        path = samples.parent / "cases" / name
        if not path.is_file():
            pytest.skip("the directory of cases does not lie beside this clone")
        (source,) = sources.log_sources([str(path)])[0]
        outcome = sources.read_source(source, GivenValues(columns=columns))
        assert isinstance(outcome, list), outcome
        return [each.run for each in outcome]

    return runs_of


@pytest.mark.parametrize("name", ["sorted", "first_event_late", "empty_last_step"])
def test_traces_have_two_steps_of_a_tenth(case, name):
    (run,) = case(f"trace_{name}.pt.trace.json")
    assert [round(step.seconds, 3) for step in run.trace.steps] == [0.1, 0.1]


def test_four_nodes_are_one_training(case):
    (run,) = case("megatron_four_nodes.log")
    assert (run.status, len(run.steps)) == ("complete", 40)


def test_a_gpu_hang_is_the_reason(case):
    (run,) = case("megatron_gpu_hang.log")
    assert run.status_reason.endswith("reason :GPU Hang")


def test_the_bar_behind_a_record_is_its_step(case):
    (run,) = case("hf_bar_after_record.log")
    assert (run.steps, run.training_config.max_steps) == (tuple(range(100, 170, 10)), 903)


def test_an_unknown_mfu_of_llmc(case):
    (run,) = case("llmc_negative_mfu.log")
    assert "mfu_percent" not in run.native_metrics


def test_tokens_of_nanochat(case):
    (run,) = case("nanochat_own_peak.log")
    assert run.native_metrics["tokens_per_step"] == 524_288
    assert not any("A100" in warning for warning in run.warnings)


def test_rates_of_olmo_contradict(case):
    (run,) = case("olmo_half_ratio.log")
    assert any("contradict" in warning for warning in run.warnings)


@pytest.mark.parametrize("name", ["semicolon", "quoted"])
def test_tables_with_decimal_commas(case, name):
    (run,) = case(f"table_{name}_comma.csv", {"step": "step", "time": "time", "loss": "loss"})
    assert (run.step_times[0], run.loss_values[0]) == (2.351, 7.95)


def test_a_chart_of_two_runs(case):
    first, second = case("wandb_chart_step_time.csv")
    means = [round(statistics.fmean(run.step_times), 2) for run in (first, second)]
    assert means == [2.35, 2.59]


def test_i3_bars_beside_records_in_a_paste_with_its_middle_cut_out(case):
    (run,) = case("4/a_08_hf_clipped_middle.log")
    assert (run.steps, run.status) == ((*range(1, 12), *range(90, 101)), "complete")
    assert account_of(run).parts["training"] / 100 == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "steps", "planned"),
    [
        ("c_hf_two_records_with_bars", (360, 370), 900),
        ("b_29_slice_ends_with_record", tuple(range(2041, 2047)), 29_000),
    ],
)
def test_i3_bars_beside_the_records_of_a_short_paste(case, name, steps, planned):
    (run,) = case(f"4/{name}.log")
    assert (run.steps, run.training_config.max_steps) == (steps, planned)


@pytest.mark.parametrize(("name", "seconds"), [("a", 0.45), ("b", 0.75)])
def test_t7_steps_below_a_second_by_a_clock_in_whole_seconds(case, name, seconds):
    (run,) = case(f"4/c_llamafactory_below_one_second_{name}.jsonl")
    assert summarize(run).performance.avg_step_time_seconds == pytest.approx(seconds, rel=0.01)


def test_i4_two_ranks_that_write_one_file(case):
    (run,) = case("4/b_22_two_ranks_one_jsonl.jsonl")
    assert not any("restart" in warning for warning in run.warnings)
    assert (run.status, len(run.steps)) == ("complete", 30)
    assert summarize(run).performance.avg_step_time_seconds == pytest.approx(4.0, rel=0.01)


def test_i8_two_trainings_with_equal_first_step_times(case):
    runs = case("4/d_two_trainings_same_first_step.log")
    assert [len(run.steps) for run in runs] == [40, 40]
    assert [round(summarize(run).performance.avg_step_time_seconds, 2) for run in runs] == [
        0.5,
        0.7,
    ]


@pytest.mark.parametrize(
    ("name", "labels", "seconds"),
    [
        ("a_03_two_trainings_one_paste.log", ["bf16", "fp8"], [4.01, 2.71]),
        ("a_12_two_runs_one_page.md", ["Mixed precision", "Full precision"], [0.051, 0.081]),
    ],
)
def test_i1_trainings_of_one_text_are_named_by_their_headings(case, name, labels, seconds):
    runs = case(f"4/{name}")
    assert [run.label for run in runs] == labels
    assert [round(summarize(run).performance.avg_step_time_seconds, 3) for run in runs] == seconds


class TestMlperf:
    def test_t1_training_goes_on_without_a_block_start(self, case):
        (run,) = case("4/a_05_mlperf_one_block_start.txt")
        assert [entry.last_step for entry in run.timeline if entry.kind == "training"] == list(
            range(10, 81, 10)
        )
        performance = summarize(run).performance
        # The first block takes 80 s and counts, as in every log; the seven others take 50 s.
        assert (performance.total_steps, performance.avg_step_time_seconds) == (
            80,
            pytest.approx(430 / 80),
        )
        assert performance.median_step_time_seconds == 5.0

    def test_t1_an_unmarked_first_block_is_bounded_by_its_own_steps(self, case):
        (run,) = case("4/a_06_mlperf_first_block_unmarked.txt")
        assert summarize(run).performance.avg_step_time_seconds is None
        (warning,) = (each for each in run.warnings if "at most" in each)
        assert "at most 6.556 s there" in warning
        assert warning.endswith("in steps 1–192 at most 6.208 s")

    def test_t1_steps_are_placed_in_the_blocks_after_the_first(self, case):
        (run,) = case("4/a_10_mlperf_steps_in_tokens.txt")
        assert len(run.steps) == 50
        performance = summarize(run).performance
        assert performance.avg_step_time_seconds == pytest.approx(4.1)
        assert performance.median_step_time_seconds == pytest.approx(4.0)

    def test_t2_tokens_of_reinforcement_learning_are_those_printed(self, case):
        (run,) = case("4/a_07_mlperf_rl.txt")
        assert (run.num_gpus, run.training_config.sequence_length) == (64, None)
        performance = summarize(run).performance
        assert performance.avg_step_time_seconds == pytest.approx(101)
        assert 61 < performance.tokens_per_second_per_gpu < 64
        assert set(run.loss_values) == {None}
        assert run.native_metrics["policy_loss"] == (-0.02,) * 12

    @pytest.mark.parametrize(
        ("name", "precision"),
        [("amd_primus_8b", "mxfp4"), ("nvidia_bridge_8b_console", "fp4"), ("nvidia_dsv3", "fp8")],
    )
    def test_precisions_of_the_sixth_round(self, case, name, precision):
        (run,) = case(f"4/f_v6_{name}.log")
        assert run.training_config.precision == precision

    @pytest.mark.parametrize(
        ("name", "seconds", "count"),
        [
            ("amd_primus_8b", 1.0, None),
            ("nvidia_8b_plain", 0.340, 3),
            ("nvidia_bridge_8b_console", 0.340, 3),
            ("nvidia_dsv3", 4.0, None),
            ("nvidia_lora_512", 0.175, 11),
        ],
    )
    def test_t3_steps_of_the_sixth_round(self, case, name, seconds, count):
        (run,) = case(f"4/f_v6_{name}.log")
        summary = summarize(run)
        assert summary.performance.avg_step_time_seconds == pytest.approx(seconds, rel=1e-4)
        assert [note.fields["count"] for note in run.notes if note.code == "early-block-ends"] == [
            count
        ] * bool(count)
        assert not any("median block" in warning for warning in summary.warnings)
        assert account_of(run).whole == pytest.approx(
            run.native_metrics["time_to_train_minutes"] * 60, abs=0.02
        )


def test_u4_a_printed_utilization_above_the_peak_is_said(case):
    (run,) = case("4/b_28_nemorl_mfu_above_100.log")
    assert summarize(run).performance.avg_step_time_seconds == pytest.approx(60.05, abs=0.01)
    assert "a utilization of 233.6%, which is impossible" in run.told("utilization-above-peak")[0]


def test_u4_pairs_of_a_reward_model_are_no_sequences(case):
    (run,) = case("4/b_21_dschat_reward_pairs.log")
    config, performance = run.training_config, summarize(run).performance
    assert (run.num_gpus, config.global_batch_size, config.precision) == (8, 32, "fp16")
    assert performance.avg_step_time_seconds == pytest.approx(0.2, rel=0.005)
    assert performance.tokens_per_second_per_gpu is None
    assert any("a sample is a pair of sequences" in warning for warning in run.warnings)


@pytest.mark.parametrize("name", ["b_20_dschat_ppo", "a_08_hf_clipped_middle"])
def test_u5_no_step_times_is_not_said_beside_a_step_time(case, name):
    (run,) = case(f"4/{name}.log")
    assert summarize(run).performance.avg_step_time_seconds is not None
    assert not any(warning.startswith("no step times") for warning in run.warnings)
    assert any(
        warning.startswith("no printed step times, so the speed is that between time stamps: ")
        for warning in run.warnings
    )


def test_u5_no_step_times_is_said_where_there_are_none(case):
    (run,) = case("4/b_29_slice_ends_with_record.log")
    assert any(warning.startswith("no step times: ") for warning in run.warnings)


def test_u5_what_a_command_states_in_another_form_is_named(case):
    (run,) = case("4/b_20_dschat_ppo.log")
    (warning,) = (
        each for each in run.warnings if "the source doesn't state" in each and "batch" in each
    )
    assert "in a form that is read (--per_device_generation_batch_size 2, " in warning
    (other,) = case("4/b_28_nemorl_mfu_above_100.log")
    assert any(
        each.endswith("number of GPUs unknown: the source doesn't state them")
        for each in other.warnings
    )


@pytest.mark.parametrize("name", ["4/f_v6_nvidia_8b_plain.log", "megatron_four_nodes.log"])
def test_item3_steps_take_no_longer_than_their_training(case, name):
    (run,) = case(name)
    assert run.told("steps-exceed-training") == ()
