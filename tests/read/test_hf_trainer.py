"""Hugging Face's Trainer and Axolotl: console dictionaries, trainer_state.json,
train_results.json.
"""

import io
import json

import msgspec
import pytest
import read_truth
from hypothesis import given, settings
from hypothesis import strategies as st

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.hf_trainer import reader as hf_reader
from tprimat.read.hf_trainer import state as hf_state
from tprimat.read.hf_trainer.steps import StepHint, number_steps
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.results.run import SERIES

STATES = ("Checkpoint-of-CPT__trainer_state.json", "luojiu-7b-base__trainer_state.json")
RESULTS = (
    "Checkpoint-of-CPT__train_results.json",
    "llm-finetuning-experiments__train_results.json",
    "luojiu-7b-base__train_results.json",
)
NATIVE = {
    "train_runtime": "train_runtime_seconds",
    "train_samples_per_second": "train_samples_per_second",
    "train_steps_per_second": "train_steps_per_second",
    "train_loss": "train_loss",
    "total_flos": "total_flos",
    "num_input_tokens_seen": "tokens_seen",
}


@pytest.mark.parametrize("epoch", ["1e6", "1000001", "1e308", "-1e308", "nan", "inf", "9" * 400])
def test_x3_an_epoch_that_no_training_reaches_is_none(epoch):
    reader = hf_reader.Reader()
    for step, shown in ((10, "0.1"), (20, "0.2"), (30, epoch)):
        reader.feed(text.Line(step, f"  1%|# | {step}/1000 [00:10<01:00, 1.0s/it]", True))
        reader.feed(
            text.Line(step, f"{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': {shown}}}", True)
        )
    (reading,) = reader.finish()
    assert reading.run().loss_values == (2.5,) * 3


@pytest.mark.parametrize(("epoch", "is_one"), [("1000000", True), ("1000001", False)])
def test_x3_the_largest_epoch(epoch, is_one):
    reader = hf_reader.Reader()
    reader.feed(text.Line(1, f"{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}", True))
    (entry,) = reader._trainings[0].entries
    assert (entry.epoch is not None) == is_one


def run_of_bytes(content: bytes):
    file_format = read.file_format_of(content[: read.HEAD])
    assert file_format is not None
    (reading,) = file_format.read([InputFile("a file", io.BytesIO(content))], {})
    return reading.run()


def runs_of_text(content: str):
    return read.read(text.lines([content.encode()]), "a log")


@pytest.mark.parametrize("name", [*STATES, *RESULTS])
def test_a_real_file_is_read_as_its_truth_says(name, samples, truth):
    expected = truth("hf_trainer")[name]
    run = run_of_bytes((samples / "hf_trainer" / name).read_bytes())
    if name in RESULTS and run.steps:
        # The truth has no record of the mean of the whole training, which a precise rate gives.
        figures = run.native_metrics
        assert figures["train_steps_per_second"] >= 0.05
        steps = figures["train_runtime_seconds"] * figures["train_steps_per_second"]
        assert run.steps == run.window_steps == (round(steps),)
        run = msgspec.structs.replace(run, **dict.fromkeys(SERIES, ()))
    assert read_truth.check(run, expected) == []
    for key, value in expected["final"].items():
        if key in NATIVE:
            assert run.native_metrics[NATIVE[key]] == value
    if expected.get("max_steps"):
        assert run.training_config.max_steps == expected["max_steps"]
        assert run.training_config.micro_batch_size == expected["train_batch_size_per_device"]
    codes = {note.code for note in run.notes}
    assert codes & {"whole-run-values", "no-step-times", "whole-run-mean"}


def test_a_console_without_step_numbers_gets_them_from_bars_and_epochs(samples, truth):
    expected = truth("hf_trainer")["aws_esm2_slurm_prefix.log"]
    (run,) = read_truth.runs_of(samples / "hf_trainer" / "aws_esm2_slurm_prefix.log")
    assert list(run.steps) == expected["steps_inferred"]
    assert run.window_steps == (16,) * 5
    assert run.training_config.max_steps == expected["max_steps"]
    for name, series in (
        ("loss", run.loss_values),
        ("grad_norm", run.grad_norms),
        ("learning_rate", run.learning_rates),
    ):
        by_epoch = dict(zip(run.native_metrics["epoch"], series, strict=True))
        assert {epoch: by_epoch[float(epoch)] for epoch in expected[name]} == expected[name]
    assert run.status == expected["status"]
    assert not any(run.step_times)


def test_sixteen_summaries_of_one_training_are_one(samples, truth):
    expected = truth("hf_trainer")["bigscience_hf_ds_gpt2_perf_n16.log"]
    (run,) = read_truth.runs_of(samples / "hf_trainer" / "bigscience_hf_ds_gpt2_perf_n16.log")
    assert read_truth.check(run, expected) == []
    low, high = expected["train_runtime_range_s"]
    assert low <= run.native_metrics["train_runtime_seconds"] <= high


def test_axolotl_with_quoted_figures(samples, truth):
    expected = truth("axolotl")["axolotl_0.18_h100_sft_lora.log"]
    (run,) = read_truth.runs_of(samples / "axolotl" / "axolotl_0.18_h100_sft_lora.log")
    assert read_truth.check(run, expected) == []
    assert run.native_metrics["train_runtime_seconds"] == expected["extra"]["train_runtime_s"]
    assert run.native_metrics["epoch"] == tuple(expected["extra"]["epochs"].values())
    assert any("numbered in order" in warning for warning in run.warnings)


class TestConsole:
    SETUP = (
        "***** Running training *****\n  Num examples = 1,000\n  Num Epochs = 2\n"
        "  Instantaneous batch size per device = 4\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
        "  Gradient Accumulation steps = 2\n  Total optimization steps = 30\n"
    )

    def test_processes_follow_from_the_trainers_own_arithmetic(self):
        (run,) = runs_of_text(self.SETUP + "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.67}\n")
        assert run.training_config.known() == {
            "max_steps": 30, "global_batch_size": 64, "micro_batch_size": 4, "num_gpus": 8,
        }  # fmt: skip
        assert run.parallelism_config.gradient_accumulation_steps == 2
        assert (run.steps, run.status) == ((10,), "incomplete")

    def test_the_parameters_that_are_trained_are_those_that_peft_prints(self):
        peft = "trainable params: 41,943,040 || all params: 8,072,204,288 || trainable%: 0.5196\n"
        share = "  Number of trainable parameters = 5,242,880\n"
        step = "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.67}\n"
        (run,) = runs_of_text(peft + self.SETUP + share + step)
        shape = run.model_config
        assert (shape.trainable_parameters, shape.num_parameters) == (41_943_040, 8_072_204_288)
        (run,) = runs_of_text(self.SETUP + share + step)
        assert run.model_config.trainable_parameters is None

    def test_a_dictionary_that_is_glued_to_its_bar(self):
        bars = "".join(
            f"\r {n * 3}%|#  | {n}/30 [00:{n:02d}<00:30,  1.0s/it]"
            + (
                f"{{'loss': '{3 - n / 30:.4g}', 'learning_rate': '1e-05', 'epoch': '{n / 15:.4g}'}}"
                if n % 5 == 0
                else ""
            )
            for n in range(1, 31)
        )
        (run,) = runs_of_text(
            bars + "\n{'train_runtime': '30.5', 'train_samples_per_second': '1', 'epoch': '2'}\n"
        )
        assert run.steps == (5, 10, 15, 20, 25, 30)
        assert run.window_steps == (5,) * 6
        assert run.status == "complete"
        assert run.native_metrics["train_runtime_seconds"] == 30.5
        assert run.native_metrics["whole_run_seconds_per_step"] == pytest.approx(30.5 / 30)

    def test_a_step_that_ms_swift_prints(self):
        lines = "".join(
            "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'memory(GiB)': 10.0, "
            f"'train_speed(iter/s)': 0.5, 'epoch': 0.1, 'global_step/max_steps': '{step}/40'}}\n"
            for step in (1, 5, 10)
        ).replace("'loss': 2.5", "'loss': 2.5", 1)
        (run,) = runs_of_text(lines)
        assert run.steps == (1, 5, 10)
        assert run.window_steps == (1, 4, 5)
        assert run.training_config.max_steps == 40
        assert run.native_metrics["memory_reserved_gb"][0] == pytest.approx(10.7374, abs=1e-4)

    def test_megatron_swift_prints_iterations_and_a_mean_time(self):
        elapsed = {1: "3m 12s", 5: "9m 40s", 10: "1h 7m 17s", 15: "1h 9m 54s"}
        means = {1: 191.764682, 5: 116.095699, 10: 403.737077, 15: 279.622367}
        lines = "".join(
            f"{{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 2e-08, 'iteration': '{step}/10635',"
            f" 'elapsed_time': '{elapsed[step]}', 'remaining_time': '23d 14h', 'train_speed(s/it)':"
            f" {means[step]}}}\n"
            for step in elapsed
        )
        (run,) = runs_of_text(lines)
        assert (run.steps, run.window_steps) == ((1, 5, 10, 15), (1, 4, 5, 5))
        assert run.training_config.max_steps == 10635
        assert run.step_times == pytest.approx((191.7647, 97.1784, 691.3785, 31.3930), abs=1e-3)
        # Behind a restart the mean covers fewer steps than the number says.
        resumed = lines.replace("3m 12s", "0m 12s").replace("9m 40s", "4m 40s")
        assert runs_of_text(resumed)[0].step_times[:2] == (None, None)
        assert len(runs_of_text(lines + lines.replace("0.5", "0.4"))) == 2

    def test_a_time_since_the_start_in_each_dictionary_is_no_end(self):
        lines = "".join(
            f"{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': {step / 100},"
            f" 'num_input_tokens_seen': {step * 64}, 'train_runtime': {40 + 2.0125 * step},"
            f" 'train_tokens_per_second': 20.5}}\n {step}%|#  | {step}/30 [00:{step:02d}<00:30, "
            " 1.0s/it]\n"
            for step in (10, 20, 30)
        )
        end = (
            "{'train_runtime': 103.5, 'train_loss': 2.5, 'epoch': 0.3, 'num_input_tokens_seen':"
            " 1920}\n"
        )
        (run,) = runs_of_text("--logging_steps 10\n" + lines + end)
        assert (run.steps, run.status) == ((10, 20, 30), "complete")
        assert run.step_times == pytest.approx((6.0125, 2.0125, 2.0125))
        assert run.native_metrics["train_runtime_seconds"] == 103.5
        assert not any("sequence lengths vary" in warning for warning in run.warnings)
        (run,) = runs_of_text(
            "--logging_steps 10\n" + lines.replace("_seen': 1920", "_seen': 1420") + end
        )
        assert any(
            "sequence lengths vary: 14 to 64 tokens per step" in warning for warning in run.warnings
        )
        # transformers 5 prints four digits, of which a difference keeps too few.
        assert not any(
            runs_of_text(lines.replace(".125", "").replace(".25", "").replace(".375", ""))[
                0
            ].step_times
        )

    def test_not_a_number(self):
        (run,) = runs_of_text(
            "{'loss': nan, 'grad_norm': inf, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
        )
        assert (run.loss_values, run.grad_norms) == ((None,), (None,))
        assert any("not a number" in warning for warning in run.warnings)

    def test_evaluations_and_two_trainings(self):
        one = (
            "{'loss': 1.0, 'learning_rate': 1e-05, 'epoch': 0.5}\n{'eval_loss': 0.9,"
            " 'eval_runtime': 3.0}\n"
        )
        end = "{'train_runtime': 10.0, 'train_loss': 1.0, 'epoch': 1.0}\n"
        runs = runs_of_text(one + end + one + end)
        assert [len(run.steps) for run in runs] == [1, 1]
        assert all(run.status == "complete" for run in runs)

    def test_a_crash_is_told(self):
        log = self.SETUP + "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.67}\n"
        (run,) = runs_of_text(
            log
            + "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory.\n"
        )
        assert (run.status, run.ending.kind) == ("failed", "failed")
        assert "OutOfMemoryError" in run.status_reason

    def test_prose_with_a_dictionary_of_something_else_is_no_training(self):
        with pytest.raises(UnreadableError):
            runs_of_text("config = {'loss': 'mse', 'layers': 3}\n{'accuracy': 0.5, 'epoch': 1}\n")


class TestSteps:
    def test_interval_of_the_arguments(self):
        seen = [StepHint(epoch, 0.005) for epoch in (0.05, 0.1, 0.15)]
        assert number_steps(seen, None, None, 10).steps == (10, 20, 30)

    def test_first_step_is_logged_too(self):
        seen = [StepHint(0.01, 0.005), StepHint(0.1, 0.005), StepHint(0.2, 0.005)]
        assert number_steps(seen, None, None, 10).steps == (1, 10, 20)

    def test_coarse_epochs_alone_leave_it_open(self):
        found = number_steps(
            [StepHint(0.01, 0.005), StepHint(0.02, 0.005), StepHint(0.03, 0.005)],
            100000,
            None,
            None,
        )
        assert found.evidence is None
        assert found.steps == (1, 2, 3)

    @given(st.integers(1, 50), st.integers(2, 6), st.integers(1, 30))
    def test_exact_epochs_give_exact_steps(self, interval, epochs, records):
        per_epoch = 997
        total = per_epoch * epochs
        steps = [
            interval * (index + 1) for index in range(records) if interval * (index + 1) <= total
        ]
        seen = [StepHint(step / per_epoch, 1e-9) for step in steps]
        assert list(number_steps(seen, total, epochs, None).steps) == steps


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e6), st.floats(0, 1), st.floats(0, 1e6)),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 100),
)
def test_what_the_trainer_writes_is_read_back(entries, interval):
    history = [
        {
            "loss": loss,
            "learning_rate": rate,
            "grad_norm": norm,
            "epoch": 0.1 * n,
            "step": interval * n,
        }
        for n, (loss, rate, norm) in enumerate(entries, 1)
    ]
    state = {"global_step": interval * len(entries), "max_steps": 10**6, "logging_steps": interval}
    run = run_of_bytes(json.dumps({**state, "log_history": history}, indent=2).encode())
    assert run.loss_values == tuple(loss for loss, _, _ in entries)
    assert run.learning_rates == tuple(rate for _, rate, _ in entries)
    assert run.grad_norms == tuple(norm for _, _, norm in entries)
    assert run.steps == tuple(interval * n for n in range(1, len(entries) + 1))
    assert set(run.window_steps) == {interval}
    assert run.status == "incomplete"


def test_a_time_since_the_start_in_a_file_gives_step_times():
    history = [
        {
            "loss": 2.0,
            "learning_rate": 1e-5,
            "epoch": 0.1 * n,
            "step": n,
            "train_runtime": 9.5 + 1.0001 * n,
        }
        for n in range(1, 5)
    ]
    end = {"train_runtime": 14.5, "train_loss": 2.0, "step": 4}
    run = run_of_bytes(
        json.dumps({"global_step": 4, "max_steps": 4, "log_history": [*history, end]}).encode()
    )
    assert run.steps == (1, 2, 3, 4)
    assert run.step_times == pytest.approx((10.5001, 1.0001, 1.0001, 1.0001))
    assert "since the start" in run.timing.clock
    assert run.native_metrics["train_runtime_seconds"] == 14.5


def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(samples):
    content = (samples / "hf_trainer" / STATES[0]).read_bytes()
    whole = run_of_bytes(content)
    for end in range(700, len(content) - 2, 211):
        run = run_of_bytes(content[:end])
        assert run.steps == whole.steps[: len(run.steps)]
        assert run.loss_values == whole.loss_values[: len(run.steps)]
        assert run.status == "incomplete" or not run.steps
        assert any("truncated" in warning for warning in run.warnings)


def test_a_console_cut_anywhere_is_read_as_far_as_it_goes(samples):
    content = (samples / "hf_trainer" / "aws_esm2_slurm_prefix.log").read_text()
    for end in range(300, len(content), 17):
        (run,) = runs_of_text(content[:end])
        assert run.loss_values == (2.9859, 2.8209, 2.716, 2.6697, 2.6591)[: len(run.steps)]


def test_results_without_a_runtime_say_so():
    with pytest.raises(ValueError, match="truncated"):
        hf_state.FILE_FORMATS[1].read(
            [InputFile("x", io.BytesIO(b'{"epoch": 1.0, "train_runtime": '))], {}
        )


def with_bars(*rows: tuple[str, int | None], total: int, bar_first: bool = False) -> str:
    """A console whose progress bar has lines of its own, behind each dictionary or before it."""
    parts = []
    for epoch, step in rows:
        pair = [f"{{'loss': 2.5, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n"]
        if step is not None:
            pair.append(f" 11%|████      | {step}/{total} [1:00:00<6:53:09, 46.16s/it]\n")
        parts += pair[::-1] if bar_first else pair
    return "".join(parts)


@pytest.mark.parametrize("bar_first", [False, True])
def test_a_bar_beside_each_record_is_its_step(bar_first):
    rows = [(f"{step / 301:.2f}", step) for step in range(100, 170, 10)]
    (run,) = runs_of_text(with_bars(*rows, total=903, bar_first=bar_first))
    assert (run.steps, set(run.window_steps)) == (tuple(range(100, 170, 10)), {10})


def test_the_last_record_may_lack_its_bar():
    rows = [(f"{step / 301:.2f}", step if step < 160 else None) for step in range(100, 170, 10)]
    (run,) = runs_of_text(with_bars(*rows, total=903))
    assert run.steps == tuple(range(100, 170, 10))


def test_bars_that_the_epochs_contradict_are_no_steps():
    """A log that begins with a record whose own bar was cut off: the bars behind are of the records
    that follow.
    """
    rows = [(f"{step / 301:.4f}", step + 10) for step in range(100, 170, 10)]
    (run,) = runs_of_text(with_bars(*rows, total=903))
    assert run.steps != tuple(range(110, 180, 10))


def test_i3_an_epoch_without_its_zeros_is_as_exact_as_the_others():
    rows = [(f"{round(step / 40, 2)}", None) for step in range(2, 42, 2)]
    banner = "***** Running training *****\n  Num Epochs = 2\n  Total optimization steps = 80\n"
    (run,) = runs_of_text(banner + with_bars(*rows, total=80))
    assert run.steps == tuple(range(2, 42, 2))


def test_i3_four_digits_in_all_are_fewer_behind_the_point():
    seen = [StepHint(0.1234, 0.00005), StepHint(12.5, 0.05)]
    assert number_steps(seen, 20_000, 20, None).evidence is None


@pytest.mark.parametrize("bar_first", [False, True])
def test_i3_two_gaps_in_a_paste(bar_first):
    rows = [
        (f"{step / 400:.2f}", step)
        for step in (*range(100, 170, 10), *range(300, 360, 10), 390, 400)
    ]
    (run,) = runs_of_text(with_bars(*rows, total=800, bar_first=bar_first))
    assert run.steps == tuple(step for _, step in rows)


def test_i3_two_records_with_a_bar_behind_each():
    """The bars are theirs, or those of the steps before or after: the epochs tell, or nothing
    does.
    """
    (run,) = runs_of_text(with_bars(("0.5", 100), ("0.55", 110), total=400))
    assert run.steps == (100, 110)
    (run,) = runs_of_text(with_bars(("0.46", 100), ("0.51", 110), total=400))
    assert run.steps == (1, 2)


def test_i3_two_records_whose_epochs_allow_the_bar_behind_and_the_one_before():
    seen = [StepHint(0.0, 0.005, 0, 3001), StepHint(0.0, 0.005, 3001, 3002)]
    assert number_steps(seen, 900_000, None, None).evidence is None


def test_i3_bars_that_are_drawn_now_and_then_are_no_steps():
    hints = [
        StepHint(0.1 * n, 0.05, before, after)
        for n, (before, after) in enumerate(((0, 18), (18, 35), (35, 53)), 1)
    ]
    assert number_steps(hints, 97, None, None).evidence is None


def test_t7_times_that_stand_still_are_of_the_steps_that_follow():
    history = [
        {"loss": 2.0, "learning_rate": 1e-5, "step": step, "train_runtime": seconds}
        for step, seconds in ((1, 10000.5), (2, 10001.5), (3, 10001.5), (4, 10004.5))
    ]
    run = run_of_bytes(
        json.dumps({"global_step": 4, "max_steps": 4, "log_history": history}).encode()
    )
    assert (run.step_times[1:], run.window_steps[1:]) == ((1.0, None, 1.5), (1, 1, 2))
