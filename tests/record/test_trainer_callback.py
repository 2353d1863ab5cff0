"""TrainerBenchmarkCallback on small runs of transformers.Trainer."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if importlib.util.find_spec("accelerate") is None:
    pytest.skip(
        "transformers.Trainer needs accelerate, which is not installed", allow_module_level=True
    )

from benchmark_utils import TrainerBenchmarkCallback
from tprimat.errors import UsageError
from tprimat.store import hosts, store

VOCABULARY, LENGTH = 64, 16


def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    return transformers.LlamaForCausalLM(config)


def sequences(number):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, VOCABULARY, (number, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in rows]


@pytest.fixture
def train(tmp_path):
    def run(callback=None, kind=transformers.Trainer, samples=64, evaluated=False, **settings):
        callback = callback or TrainerBenchmarkCallback(
            tmp_path / "results", sequence_length=LENGTH, quiet=True
        )
        arguments = transformers.TrainingArguments(
            **{
                "output_dir": str(tmp_path / "checkpoints"),
                "use_cpu": True,
                "max_steps": 4,
                "per_device_train_batch_size": 2,
                "gradient_accumulation_steps": 2,
                "logging_steps": 1,
                "report_to": "none",
                "disable_tqdm": True,
                "save_strategy": "no",
                **settings,
            }
        )
        kind(
            model=model(),
            args=arguments,
            train_dataset=sequences(samples),
            eval_dataset=sequences(4) if evaluated else None,
            callbacks=[callback],
        ).train()
        return callback.result

    return run


class LossTimesThree(transformers.Trainer):
    def compute_loss(self, *arguments, **named):
        named.pop("return_outputs", None)
        return 3 * super().compute_loss(*arguments, **named)


def test_what_is_recorded(train, tmp_path):
    run = train()
    assert run.steps == (1, 2, 3, 4)
    assert all(time > 0 for time in run.step_times)
    assert all(3.5 < loss < 5 for loss in run.loss_values)
    assert all(norm > 0 for norm in run.grad_norms)
    assert (run.status, run.framework, run.platform) == ("complete", "transformers", "cpu")
    sizes = run.training_config
    assert (sizes.global_batch_size, sizes.micro_batch_size, sizes.sequence_length) == (
        4,
        2,
        LENGTH,
    )
    assert (sizes.max_steps, sizes.precision, sizes.recomputation) == (4, "fp32", "none")
    assert run.parallelism_config.gradient_accumulation_steps == 2
    assert (run.optimizer.name, run.optimizer.schedule, run.optimizer.gradient_clipping) == (
        "AdamW",
        "linear",
        1.0,
    )
    assert run.learning_rates == pytest.approx((5e-5, 3.75e-5, 2.5e-5, 1.25e-5))
    assert run.model_config.num_layers == 1
    path = tmp_path / "results" / "train_transformers_LlamaForCausalLM.json"
    assert store.read(path)[-1] == hosts.hidden(run, hosts.of_process(path.parent))


def test_the_loss_is_the_one_that_the_trainer_logs(train):
    whole = train()
    assert not [warning for warning in whole.warnings if "not those that are trained on" in warning]
    # With one micro-batch a step, the mean is the micro-batch's.
    single = train(gradient_accumulation_steps=1, per_device_train_batch_size=4)
    assert single.loss_values == pytest.approx(whole.loss_values, rel=1e-4)


def test_a_loss_of_the_trainings_own_is_taken_from_its_log(train):
    run = train(kind=LossTimesThree)
    assert all(10 < loss < 15 for loss in run.loss_values)
    assert [
        warning for warning in run.warnings if "losses from the Trainer's log are used" in warning
    ]


def test_where_the_log_is_sparse_a_doubtful_loss_is_declined(train):
    run = train(kind=LossTimesThree, logging_steps=2)
    assert run.loss_values == (None,) * 4
    assert [
        warning
        for warning in run.warnings
        if warning.startswith("the model's losses differ from the training loss")
    ]


def test_without_a_log_there_is_no_gradient_norm(train):
    run = train(logging_strategy="no")
    assert run.grad_norms == (None,) * 4
    assert all(loss is not None for loss in run.loss_values)
    assert [warning for warning in run.warnings if warning.startswith("gradient norm unknown")]


def test_evaluation_and_checkpoints_are_in_no_step(train, monkeypatch):
    from tprimat.record import lifecycle

    calls = []
    kept = lifecycle.Recorder.pause
    monkeypatch.setattr(
        lifecycle.Recorder, "pause", lambda self, *given: (calls.append(1), kept(self, *given))
    )
    run = train(
        evaluated=True, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2
    )
    assert run.steps == (1, 2, 3, 4)
    assert calls


def test_bf16_is_named(train):
    run = train(bf16=True)
    assert (run.training_config.precision, run.training_config.precision_detail) == (
        "bf16",
        "bf16-mixed",
    )


def test_an_epoch_of_no_whole_batches_has_no_one_batch_size(train):
    run = train(samples=6, max_steps=3)
    assert run.training_config.global_batch_size is None
    assert [
        warning
        for warning in run.warnings
        if "the last steps of an epoch have fewer sequences" in warning
    ]


def test_an_early_end_is_incomplete(train, tmp_path):
    class Stop(TrainerBenchmarkCallback):
        def on_step_end(self, args, state, control, **named):
            super().on_step_end(args, state, control, **named)
            control.should_training_stop = state.global_step == 2

    run = train(Stop(tmp_path, quiet=True))
    assert (run.status, run.status_reason) == (
        "incomplete",
        "2 of max_steps=4 steps: the training stopped early",
    )
    assert [warning for warning in run.warnings if warning.startswith("sequence_length unknown")]


def test_an_exception_that_nobody_catches_leaves_a_result(repository, tmp_path):
    program = f"""
        import sys
        sys.path.insert(0, {str(repository / "tests" / "record")!r})
        from test_trainer_callback import TrainerBenchmarkCallback, model, sequences
        from transformers import Trainer, TrainingArguments

        class Failing(Trainer):
            def training_step(self, *arguments):
                if self.state.global_step == 2:
                    raise ValueError("a bad batch")
                return super().training_step(*arguments)

        settings = TrainingArguments({str(tmp_path / "c")!r}, use_cpu=True, max_steps=4, report_to="none")
        callback = TrainerBenchmarkCallback({str(tmp_path)!r}, "mine", quiet=True)
        Failing(model=model(), args=settings, train_dataset=sequences(64), callbacks=[callback]).train()
    """.replace('"mine", quiet', 'model_name="mine", quiet')
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 1
    assert "ValueError: a bad batch" in done.stderr
    run = store.read(tmp_path / "train_transformers_mine.json")[-1]
    assert (run.status, run.status_reason, run.steps) == (
        "failed",
        "ValueError: a bad batch",
        (1, 2),
    )


def test_wrong_arguments_are_one_line():
    with pytest.raises(UsageError, match=r"^TrainerBenchmarkCallback: log_every=0 is invalid"):
        TrainerBenchmarkCallback(log_every=0)
