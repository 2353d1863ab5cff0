"""What the callback counts and times, in real runs on the CPU."""

from __future__ import annotations

import pytest

from tprimat.analysis.summary import summarize
from tprimat.record.clocks import HostClock
from tprimat.results.run import Optimizer
from tprimat.store import hosts, store

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on runs as small as these


def test_each_step_is_recorded_with_what_it_used(trainings, callback):
    ours = callback(global_batch_size=2, sequence_length=8, model_name="llama", label="first")
    module = trainings.fit(ours, trainings.linear(schedule=True), max_steps=6)
    run = ours.result
    assert run.status == "complete"
    assert run.status_reason is None
    assert run.steps == (1, 2, 3, 4, 5, 6)
    assert run.window_steps == (1,) * 6
    assert run.loss_values == pytest.approx(module.losses)
    # The rate of the step itself: the schedule has already gone on when the step's hook is called.
    assert run.learning_rates == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005, 0.006])
    assert run.tokens_per_step == 16
    assert (run.platform, run.framework, run.model, run.label) == (
        "cpu",
        "lightning",
        "llama",
        "first",
    )
    assert run.training_config.precision == "fp32"
    assert run.training_config.max_steps == 6
    assert run.optimizer == Optimizer(
        name="AdamW",
        learning_rate=0.01,
        schedule="LambdaLR",
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        weight_decay=0.01,
    )
    assert run.parallelism_config.strategy_name == "SingleDeviceStrategy"
    assert run.model_config.num_parameters == 9
    assert run.timing.clock == "monotonic"
    assert run.timing.over_ranks == "one process"
    assert run.source.kind == "live"
    assert run.environment.versions["lightning"]
    assert run.memory_metrics.peak_memory_process_gb > 0.05
    assert "gradient norm unknown: the training logs none as grad_norm" in run.warnings
    assert ours.path.name == "benchmark_cpu_llama_first.json"
    assert store.read(ours.path) == (hosts.hidden(run, hosts.of_process(ours.path.parent)),)


@pytest.fixture
def clock(monkeypatch):
    """The recorder's clock, which stands still but for what a test adds to it."""

    class Clock:
        now_ns = 0

        def add(self, seconds):
            self.now_ns += round(seconds * 1e9)

    ours = Clock()
    for name in ("mark", "host_ns"):
        monkeypatch.setattr(HostClock, name, staticmethod(lambda: ours.now_ns))
    return ours


def taking(clock, module, validation=100.0, between_epochs=100.0):
    """A class of modules whose batch takes a second; what is no part of a step takes far longer."""

    class Takes(module):
        def training_step(self, batch, batch_idx):
            clock.add(1.0)
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            clock.add(validation)

        def on_train_epoch_end(self):
            clock.add(between_epochs)

    return Takes()


@pytest.mark.parametrize(
    ("settings", "steps", "times"),
    [
        ({"max_steps": 6}, range(1, 7), [1.0] * 6),
        ({"max_steps": 5, "accumulate_grad_batches": 4}, range(1, 6), [4.0] * 5),
        (
            {"batches": 6, "max_epochs": 2, "accumulate_grad_batches": 4},
            range(1, 5),
            [4.0, 2.0, 4.0, 2.0],
        ),
        ({"batches": 3, "max_epochs": 4}, range(1, 13), [1.0] * 12),
        ({"batches": 3, "max_epochs": 1, "max_steps": 100}, range(1, 4), [1.0] * 3),
        ({"batches": 20, "max_epochs": 2, "limit_train_batches": 4}, range(1, 9), [1.0] * 8),
        ({"batches": 20, "max_epochs": 1, "limit_train_batches": 0.25}, range(1, 6), [1.0] * 5),
    ],
    ids=[
        "plain",
        "accumulated",
        "odd ends",
        "epochs",
        "loader ends",
        "limited",
        "limited to a share",
    ],
)
@pytest.mark.parametrize("validated", [False, True], ids=["", "validated within"])
def test_the_number_and_the_times_of_steps(
    trainings, callback, clock, settings, steps, times, validated
):
    ours = callback()
    more = {"validation": trainings.loader(1), "val_check_interval": 3} if validated else {}
    trainings.fit(ours, taking(clock, trainings.linear), **{"max_epochs": -1, **settings, **more})
    assert ours.result.steps == tuple(steps)
    assert ours.result.step_times == tuple(times)
    assert ours.result.window_steps == (1,) * len(times)
    assert ours.result.status == "complete"


def test_the_number_and_the_times_of_steps_that_a_training_makes_itself(trainings, callback, clock):
    ours = callback()
    trainings.fit(ours, taking(clock, trainings.adversarial), batches=4, max_epochs=2)
    # Two optimizers are stepped in one batch: the record holds two steps and their mean time.
    assert ours.result.steps == (2, 4, 6, 8, 10, 12, 14, 16)
    assert ours.result.window_steps == (2,) * 8
    assert ours.result.step_times == (0.5,) * 8


def test_the_number_and_the_times_of_steps_of_a_resumed_training(
    trainings, callback, clock, tmp_path
):
    from lightning.pytorch.callbacks import ModelCheckpoint

    saver = ModelCheckpoint(dirpath=tmp_path, save_last=True, every_n_train_steps=4)
    trainings.fit(
        None, more=[saver], enable_checkpointing=True, batches=6, max_epochs=1, max_steps=4
    )
    ours = callback()
    module = taking(clock, trainings.linear)
    trainings.fit(
        ours, module, checkpoint=tmp_path / "last.ckpt", batches=6, max_epochs=9, max_steps=11
    )
    # Into the next epoch: where the interrupted one goes on, Lightning 2.2 and later ones disagree
    # by a batch.
    assert ours.result.steps == (5, 6, 7, 8, 9, 10, 11)
    assert ours.result.step_times == (1.0,) * 7
    assert "resumed: the first step recorded is 5" in ours.result.warnings


def test_times_lie_between_the_steps_ends(trainings, callback):
    """The sum of the steps is the time from the training's start to the last step's end."""
    import time

    from lightning.pytorch.callbacks import Callback

    class Watch(Callback):
        def on_train_start(self, *_):
            self.began = time.perf_counter()

        def on_train_batch_end(self, *_):
            self.ended = time.perf_counter()

    before, ours, after = Watch(), callback(), Watch()
    trainings.fit(None, more=[before, ours, after], max_steps=20)
    assert before.ended - after.began <= sum(ours.result.step_times) <= after.ended - before.began


def test_optimizer_steps_are_counted_and_not_batches(trainings, callback):
    ours = callback(sequence_length=8)
    module = trainings.fit(ours, accumulate_grad_batches=4, max_steps=5)
    run = ours.result
    assert run.steps == (1, 2, 3, 4, 5)
    assert len(module.losses) == 20
    # The mean over the micro-batches, though Lightning hands out a quarter of each.
    means = [sum(module.losses[start : start + 4]) / 4 for start in range(0, 20, 4)]
    assert run.loss_values == pytest.approx(means)
    assert run.training_config.global_batch_size == 8
    assert run.training_config.micro_batch_size == 2
    assert run.parallelism_config.gradient_accumulation_steps == 4


def test_a_step_of_fewer_micro_batches_leaves_no_one_batch_size(trainings, callback):
    ours = callback(global_batch_size=8, sequence_length=8)
    trainings.fit(ours, batches=6, accumulate_grad_batches=4, max_epochs=2)
    run = ours.result
    assert run.steps == (1, 2, 3, 4)
    assert all(run.step_times)
    assert run.training_config.global_batch_size is None
    assert summarize(run).performance.tokens_per_second is None
    assert any(
        warning.startswith("steps 2, 4 of fewer than 4 micro-batches") for warning in run.warnings
    )


def test_validation_between_the_micro_batches_of_a_step_is_in_no_step(trainings, callback, clock):
    ours = callback()
    module = taking(clock, trainings.linear)
    validation = {"validation": trainings.loader(2), "val_check_interval": 3}
    trainings.fit(ours, module, batches=12, accumulate_grad_batches=2, max_epochs=1, **validation)
    assert ours.result.steps == (1, 2, 3, 4, 5, 6)
    assert ours.result.step_times == (2.0,) * 6


def test_saving_a_checkpoint_is_in_no_step(trainings, callback, clock, tmp_path):
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Slow(ModelCheckpoint):
        def _save_checkpoint(self, trainer, filepath):
            super()._save_checkpoint(trainer, filepath)
            clock.add(100.0)

    ours = callback()
    saver = Slow(dirpath=tmp_path, every_n_train_steps=2, save_top_k=-1)
    trainings.fit(
        ours, taking(clock, trainings.linear), more=[saver], enable_checkpointing=True, max_steps=7
    )
    assert len(list(tmp_path.glob("*.ckpt"))) >= 3
    assert ours.result.steps == (1, 2, 3, 4, 5, 6, 7)
    assert ours.result.step_times == (1.0,) * 7


def test_a_checkpoint_within_a_step_is_said(trainings, callback, tmp_path):
    class Saves(trainings.linear):
        def training_step(self, batch, batch_idx):
            if batch_idx == 1:
                self.trainer.save_checkpoint(tmp_path / "within.ckpt")
            return super().training_step(batch, batch_idx)

    ours = callback()
    trainings.fit(ours, Saves(), max_steps=3)
    assert "the time of step 2 includes saving a checkpoint, which the training does within it" in (
        ours.result.warnings
    )


def test_epochs_follow_each_other(trainings, callback):
    ours = callback()
    trainings.fit(ours, batches=3, max_epochs=4)
    assert ours.result.steps == tuple(range(1, 13))
    assert ours.result.status == "complete"
    assert ours.result.training_config.max_steps == 12


def test_a_loader_that_ends_early_is_said(trainings, callback):
    ours = callback()
    trainings.fit(ours, batches=3, max_epochs=1, max_steps=100)
    assert ours.result.steps == (1, 2, 3)
    assert ours.result.status == "complete"
    assert ours.result.status_reason == "3 of max_steps=100 steps: max_epochs=1 was reached first"


def test_limited_batches(trainings, callback):
    ours = callback()
    trainings.fit(ours, batches=20, limit_train_batches=4, max_epochs=2)
    assert ours.result.steps == tuple(range(1, 9))


def test_a_training_that_stops_itself_is_incomplete(trainings, callback):
    class Stops(trainings.linear):
        def on_train_batch_end(self, *_):
            self.trainer.should_stop = self.global_step >= 5

    ours = callback()
    trainings.fit(ours, Stops(), max_steps=20)
    assert ours.result.status == "incomplete"
    assert ours.result.status_reason == "5 of max_steps=20 steps: the training stopped early"


def test_several_optimizers_share_a_record(trainings, callback):
    ours = callback(global_batch_size=2, sequence_length=8)
    trainings.fit(ours, trainings.adversarial(), max_steps=10)
    run = ours.result
    # Lightning's global_step counts the steps of both.
    assert run.steps == (2, 4, 6, 8, 10)
    assert run.window_steps == (2,) * 5
    assert summarize(run).performance.total_steps == 10
    assert run.training_config.global_batch_size is None
    assert any(
        "up to 2 optimizer steps in one call of training_step" in warning
        for warning in run.warnings
    )
    assert all(run.loss_values)
    assert set(run.learning_rates) == {0.01}


def test_the_same_callback_serves_a_second_training(trainings, callback):
    ours = callback()
    trainings.fit(ours, max_steps=3)
    first = ours.result
    trainings.fit(ours, max_steps=3)
    assert ours.result is not first
    assert ours.result.steps == (1, 2, 3)
    assert len(store.read(ours.path)) == 2


def test_validating_alone_is_no_training(trainings, callback):
    ours = callback()
    trainings.trainer(ours).validate(trainings.linear(), trainings.loader(2), verbose=False)
    assert ours.result is None


@pytest.mark.parametrize("settings", [{}, {"accumulate_grad_batches": 3}])
def test_losses_are_bit_identical_with_and_without(trainings, callback, settings):
    import torch

    class Random(trainings.linear):
        def training_step(self, batch, batch_idx):
            return super().training_step(torch.nn.functional.dropout(batch), batch_idx)

    trained = []
    for ours in (callback(log_every=1), None):
        torch.manual_seed(1)
        trained.append(trainings.fit(ours, Random(schedule=True), max_steps=12, **settings))
    with_it, without = trained
    assert len(set(with_it.losses)) > 5
    assert with_it.losses == without.losses
    assert [value.tolist() for value in with_it.parameters()] == [
        value.tolist() for value in without.parameters()
    ]
