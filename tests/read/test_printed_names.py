"""What each framework prints under which name, and the value that a result has of it: a row each,
none twice.
"""

from __future__ import annotations

import pytest

from tprimat import read
from tprimat.read import tracked
from tprimat.read.hf_trainer import fields
from tprimat.read.parsing.records import LoggedTraining

READERS = {each.name: each for each in read.log_formats()}
GIB = 1.073741824

# By format: the printed name, the name of the value, and what 50 of the printed unit are.
PRINTED = {
    "automodel": (
        ("loss", "loss", 50.0),
        ("grad_norm", "grad_norm", 50.0),
        ("lr", "learning_rate", 50.0),
        ("tps", "tokens_per_second", 50.0),
        ("tps_per_gpu", "tokens_per_second_per_gpu", 50.0),
        ("mfu", "mfu_percent", 50.0),
        ("num_tokens_per_step", "tokens_per_step", 50.0),
        ("num_label_tokens", "label_tokens_per_step", 50.0),
        ("mem", "memory_allocated_gb", 50 * GIB),
    ),
    "composer": (
        ("loss/train/total", "loss", 50.0),
        ("metrics/train/LanguageCrossEntropy", "loss", 50.0),
        ("throughput/device/tokens_per_sec", "tokens_per_second_per_gpu", 50.0),
        ("throughput/tokens_per_sec", "tokens_per_second", 50.0),
        ("throughput/samples_per_sec", "samples_per_second", 50.0),
        ("throughput/device/mfu", "mfu", 50.0),
        ("l2_norm/grad/global", "grad_norm", 50.0),
        ("optimizer/global_grad_norm", "grad_norm", 50.0),
        ("time/token", "tokens_seen", 50.0),
        ("memory/peak_allocated_mem", "memory_max_allocated_gb", 50.0),
        ("memory/peak_reserved_mem", "memory_max_reserved_gb", 50.0),
        ("memory/current_allocated_mem", "memory_allocated_gb", 50.0),
        ("time/train", "cumulative_train_seconds", 180000.0),
    ),
    "llama_factory": (
        ("loss", "loss", 50.0),
        ("lr", "learning_rate", 50.0),
        ("epoch", "epoch", 50.0),
        ("reward", "reward", 50.0),
        ("accuracy", "accuracy", 50.0),
        ("total_tokens", "tokens_seen", 50.0),
        ("throughput", "mean_tokens_per_second", 50.0),
        ("vram_allocated", "memory_max_allocated_gb", 50 * GIB),
        ("vram_reserved", "memory_max_reserved_gb", 50 * GIB),
    ),
    "maxtext": (
        ("seconds", "seconds", 50.0),
        ("tflop/s/device", "tflops_per_gpu", 50.0),
        ("tokens/s/device", "tokens_per_second_per_gpu", 50.0),
        ("samples/s/device", "samples_per_second_per_gpu", 50.0),
        ("frames/s/device", "frames_per_second_per_gpu", 50.0),
        ("total_weights", "target_tokens", 50.0),
        ("loss", "loss", 50.0),
        ("lm_loss", "lm_loss", 50.0),
        ("perplexity", "perplexity", 50.0),
        ("learning_rate", "learning_rate", 50.0),
        ("grad_norm", "grad_norm", 50.0),
        ("raw_grad_norm", "grad_norm", 50.0),
    ),
    "ms_swift": (
        ("loss", "loss", 50.0),
        ("grad_norm", "grad_norm", 50.0),
        ("learning_rate", "learning_rate", 50.0),
        ("epoch", "epoch", 50.0),
        ("token_acc", "token_accuracy", 50.0),
        ("acc", "token_accuracy", 50.0),
        ("memory(GiB)", "memory_max_reserved_gb", 50 * GIB),
    ),
    "nemo": (
        ("lr", "learning_rate", 50.0),
        ("learning_rate", "learning_rate", 50.0),
        ("reduced_train_loss", "loss", 50.0),
        ("train_loss", "loss", 50.0),
        ("loss", "loss", 50.0),
        ("grad_norm", "grad_norm", 50.0),
        ("train_step_timing in s", "seconds", 50.0),
        ("train_step_timing", "seconds", 50.0),
        ("tflops_per_gpu", "tflops_per_gpu", 50.0),
        ("tokens_per_sec_per_gpu", "tokens_per_second_per_gpu", 50.0),
        ("consumed_samples", "consumed_samples", 50.0),
        ("max_memory_reserved", "memory_reserved_gb", 50.0),
        ("max_memory_allocated", "memory_allocated_gb", 50.0),
        ("peak_memory_usage", "memory_reserved_gb", 50.0),
        ("memory_allocated", "memory_allocated_gb", 50.0),
    ),
    "nemo_rl": (
        ("Total step time", "seconds", 50.0),
        ("Loss", "loss", 50.0),
        ("Avg Reward", "reward", 50.0),
        ("Avg Total Reward", "reward", 50.0),
        ("Generation KL Error", "generation_kl_error", 50.0),
        ("Mean Generation Length", "response_length", 50.0),
        ("E2E (Tokens/sec/gpu)", "tokens_per_second_per_gpu", 50.0),
        ("Total valid tokens", "tokens_per_step", 50.0),
    ),
    "olmo": (
        ("train/CE loss", "loss", 50.0),
        ("train/CrossEntropyLoss", "loss", 50.0),
        ("optim/total grad norm", "grad_norm", 50.0),
        ("optim/total_grad_norm", "grad_norm", 50.0),
        ("optim/LR (group 0)", "learning_rate", 50.0),
        ("optim/learning_rate_group0", "learning_rate", 50.0),
        ("throughput/device/TPS", "tokens_per_second_per_gpu", 50.0),
        ("throughput/device/tokens_per_second", "tokens_per_second_per_gpu", 50.0),
        ("throughput/device/TPS (actual avg)", "cumulative_tokens_per_second_per_gpu", 50.0),
        ("throughput/device/MFU", "mfu_percent", 50.0),
        ("throughput/total tokens", "tokens_seen", 50.0),
        ("throughput/total_tokens", "tokens_seen", 50.0),
        ("System/Peak GPU Memory (MB)", "memory_max_allocated_gb", 0.05),
        ("gpu_memory/peak active (GiB)", "memory_active_gb", 50 * GIB),
        ("gpu_memory/peak reserved (GiB)", "memory_max_reserved_gb", 50 * GIB),
    ),
    "torchtune": (
        ("loss", "loss", 50.0),
        ("learning_rate", "learning_rate", 50.0),
        ("lr", "learning_rate", 50.0),
        ("grad_norm", "grad_norm", 50.0),
        ("tokens_per_second_per_gpu", "counted_tokens_per_second_per_gpu", 50.0),
        ("tokens_per_second", "counted_tokens_per_second", 50.0),
        ("iterations_per_second", "steps_per_second", 50.0),
        ("peak_memory_alloc", "memory_max_allocated_gb", 50 * GIB),
        ("peak_memory_active", "memory_active_gb", 50 * GIB),
        ("peak_memory_reserved", "memory_max_reserved_gb", 50 * GIB),
    ),
    "verl": (
        ("perf/time_per_step", "seconds", 50.0),
        ("timing_s/step", "seconds", 50.0),
        ("train/time(s)", "seconds", 50.0),
        ("train/loss", "loss", 50.0),
        ("actor/grad_norm", "grad_norm", 50.0),
        ("train/grad_norm", "grad_norm", 50.0),
        ("actor/lr", "learning_rate", 50.0),
        ("train/lr", "learning_rate", 50.0),
        ("train/mfu", "mfu", 50.0),
        ("train/global_tokens", "tokens_per_step", 50.0),
        ("perf/total_num_tokens", "tokens_per_step", 50.0),
        ("perf/throughput", "tokens_per_second_per_gpu", 50.0),
        ("perf/mfu/actor", "mfu_actor", 50.0),
        ("perf/max_memory_allocated_gb", "memory_max_allocated_gb", 50 * GIB),
        ("perf/max_memory_reserved_gb", "memory_max_reserved_gb", 50 * GIB),
        ("actor/pg_loss", "policy_loss", 50.0),
        ("critic/rewards/mean", "reward", 50.0),
        ("critic/score/mean", "score", 50.0),
        ("response_length/mean", "response_length", 50.0),
    ),
}

OF_TRAINER = (
    ("loss", "loss", 50.0),
    ("learning_rate", "learning_rate", 50.0),
    ("grad_norm", "grad_norm", 50.0),
    ("epoch", "epoch", 50.0),
    ("ppl", "perplexity", 50.0),
    ("tokens/train_per_sec_per_gpu", "trainable_tokens_per_second_per_gpu", 50.0),
    ("num_input_tokens_seen", "tokens_seen", 50.0),
    ("num_tokens", "tokens_seen", 50.0),
    ("mean_token_accuracy", "token_accuracy", 50.0),
    ("entropy", "entropy", 50.0),
    ("step_time", "seconds", 50.0),
    ("reward", "reward", 50.0),
    ("reward_std", "reward_std", 50.0),
    ("kl", "kl", 50.0),
    ("completions/mean_length", "response_length", 50.0),
    ("completion_length", "response_length", 50.0),
    ("tokens/total", "tokens_seen", 50.0),
    ("tokens/trainable", "trainable_tokens_seen", 50.0),
    ("train_runtime", "cumulative_train_seconds", 50.0),
    ("train_speed(iter/s)", "cumulative_steps_per_second", 50.0),
    ("train_speed(s/it)", "cumulative_seconds_per_step", 50.0),
    ("memory/device_mem_reserved(gib)", "memory_reserved_gb", 50 * GIB),
    ("memory/device_reserved (GiB)", "memory_reserved_gb", 50 * GIB),
    ("memory(GiB)", "memory_reserved_gb", 50 * GIB),
    ("memory/max_mem_active(gib)", "memory_active_gb", 50 * GIB),
    ("memory/max_active (GiB)", "memory_active_gb", 50 * GIB),
    ("memory/max_mem_allocated(gib)", "memory_allocated_gb", 50 * GIB),
    ("memory/max_allocated (GiB)", "memory_allocated_gb", 50 * GIB),
)

OF_TRAINERS_SUMMARY = {
    "train_runtime": "train_runtime_seconds",
    "train_samples_per_second": "train_samples_per_second",
    "train_steps_per_second": "train_steps_per_second",
    "train_tokens_per_second": "train_tokens_per_second",
    "train_loss": "train_loss",
    "total_flos": "total_flos",
    "num_input_tokens_seen": "tokens_seen",
    "train_samples": "samples_in_data_set",
    "epoch": "epochs",
}

OF_TRACKERS = {
    "loss": (
        "train_loss_step",
        "train/loss_step",
        "loss_step",
        "reduced_train_loss",
        "train_loss",
        "train/loss",
        "loss",
        "training_loss",
        "train_loss/step",
        "train/train_loss",
        "train/lm_loss",
        "lm loss",
        "reduced_train_loss",
        "train_loss",
        "loss_metrics/global_avg_loss",
        "train/loss",
        "learning/loss",
        "train_loss_step",
        "train/loss_step",
        "loss_step",
        "reduced_train_loss",
        "train_loss",
        "train/loss",
        "loss",
        "training_loss",
        "train_loss/step",
        "train/train_loss",
    ),
    "grad_norm": (
        "grad_norm",
        "train/grad_norm",
        "grad_2.0_norm_total",
        "gradient_norm",
        "actor/grad_norm",
        "grad-norm",
        "grad_norm",
        "gradient_norm",
        "grad_norm",
        "train/grad_norm",
        "learning/grad_norm",
        "grad_norm",
        "train/grad_norm",
        "grad_2.0_norm_total",
        "gradient_norm",
    ),
    "seconds": (
        "train_step_timing in s",
        "step_time",
        "train/step_time",
        "train/step_time_s",
        "iteration-time",
        "train_step_timing in s",
        "time_metrics/end_to_end(s)",
        "perf/step_time_seconds",
        "train_step_timing in s",
        "step_time",
        "train/step_time",
        "perf/step_time",
        "perf/time_per_step",
        "timing_s/step",
    ),
    "epoch": ("epoch",),
    "perplexity": (
        "train_perplexity_step",
        "train_perplexity",
        "perplexity",
    ),
    "iteration_seconds": ("iter_time",),
    "total_tokens": ("total_tokens",),
    "tokens_per_second_per_gpu": (
        "throughput/device/tokens_per_sec",
        "device/items_per_sec",
        "perf/throughput",
        "tps_per_gpu",
        "throughput/tokens/device",
        "tokens_per_sec_per_gpu",
        "throughput(tps)",
        "wps",
        "perf/per_device_tokens_per_sec",
        "throughput/device/tokens_per_sec",
        "device/items_per_sec",
    ),
    "tokens_per_second": (
        "throughput/tokens_per_sec",
        "train/tokens_per_second",
        "tokens_per_second",
        "tps",
    ),
    "samples_per_second": ("throughput/samples_per_sec",),
    "learning_rate": (
        "train/learning_rate",
        "learning_rate",
        "lr",
        "train/lr",
        "actor/lr",
        "learning-rate",
        "lr",
        "lr",
        "train/learning_rate",
        "learning/current_learning_rate",
        "lr",
        "learning_rate",
        "lr-AdamW",
        "lr-Adam",
        "lr-SGD",
        "lr-AdamW/pg1",
    ),
    "policy_loss": (
        "actor/pg_loss",
        "actor/loss",
    ),
}


@pytest.mark.parametrize(
    ("log_format", "printed", "name", "value"),
    [(log_format, *row) for log_format, rows in PRINTED.items() for row in rows],
)
def test_a_value_is_read_under_each_name_that_a_framework_prints(log_format, printed, name, value):
    reader = READERS[log_format]()
    figure = "50e9" if (log_format, name[-3:]) == ("nemo", "_gb") else "50"
    assert reader.new_record(1, 1, {printed: figure}).figures() == {
        name: pytest.approx(value, rel=1e-4)
    }


@pytest.mark.parametrize(("printed", "name", "value"), OF_TRAINER)
def test_a_value_is_read_under_each_key_of_the_trainer(printed, name, value):
    training = LoggedTraining()
    fields.add_record(training, 1, 1, {printed: 50.0}, 1)
    expected = {name: pytest.approx(value, rel=1e-4)}
    assert training.last.figures() == expected
    assert training.last.unread == ()


def test_the_summary_of_the_trainer_has_each_key():
    summary = {key: 1.5 + place for place, key in enumerate(OF_TRAINERS_SUMMARY)}
    assert fields.summary_of(summary) == {
        name: summary[key] for key, name in OF_TRAINERS_SUMMARY.items()
    }
    assert fields.summary_of(summary, 4, 3)["whole_run_seconds_per_step"] == 1.5
    assert "whole_run_seconds_per_step" not in fields.summary_of(summary, 4, 4)


@pytest.mark.parametrize(
    ("name", "printed"), [(name, each) for name, every in OF_TRACKERS.items() for each in every]
)
def test_a_value_is_read_under_each_name_that_a_tracker_has(name, printed):
    assert tracked.values_of({printed: 2.5}) == {name: 2.5}
    assert printed in tracked.READ


def test_of_several_names_the_first_counts():
    for name, every in OF_TRACKERS.items():
        row = {printed: float(place) for place, printed in reversed([*enumerate(every)])}
        assert tracked.values_of(row)[name] == 0.0


@pytest.mark.parametrize(
    "column",
    [
        "train/global_step",
        "trainer/global_step",
        "global_step",
        "training/global_step",
        "Step",
        "_step",
    ],
)
@pytest.mark.parametrize(("clock", "zero"), [("_runtime", 30.0), ("_timestamp", 1.7e9)])
def test_a_tracker_counts_steps_and_time_in_each_column(column, clock, zero):
    rows = [
        (0, {column: step, clock: zero + 2.0 * step, "loss": 3.0 - step}) for step in range(1, 6)
    ]
    (training,) = tracked.trainings_of(rows)
    records = training.ordered()
    assert [record.step for record in records] == [1, 2, 3, 4, 5]
    assert [record.seconds for record in records] == [None, 2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("summary", ["train/train_runtime", "train_runtime"])
def test_a_trackers_row_of_the_whole_training_is_no_step(summary):
    rows = [(0, {"Step": step, "loss": 3.0}) for step in range(1, 4)]
    (training,) = tracked.trainings_of([*rows, (0, {"Step": 4, "loss": 9.0, summary: 100.0})])
    assert len(training.ordered()) == 3


@pytest.mark.parametrize("optimizer", ["AdamW", "Adam", "DecoupledLionW", "SomebodysOwn"])
def test_composer_has_the_rate_of_any_optimizer(optimizer):
    reader = READERS["composer"]()
    record = reader.record(1, 1, {f"lr-{optimizer}/group0": "0.0003"})
    assert record.figures() == {"learning_rate": 0.0003}
