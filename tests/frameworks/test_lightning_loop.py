"""The embedded training: what it trains, records and says, on the smallest of models."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_runs import SMALL

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.lightning import loop as lightning_loop
from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.request import Request
from tprimat.record import progress
from tprimat.store import store


@pytest.fixture
def request_for(tmp_path):
    def make(**changes) -> Request:
        usual = {
            "framework": "lightning",
            "platform": "cpu",
            "model": "llama",
            "scale": scales.OTHER,
            "precision": "fp32",
            "steps": 3,
            "global_batch_size": 4,
            "micro_batch_size": 2,
            "sequence_length": 16,
            "seed": 1234,
            "num_gpus": 1,
            "output_dir": tmp_path,
            "shape": SMALL,
        }
        return Request(**{**usual, **changes})

    return make


@pytest.fixture
def trained(request_for, tmp_path, monkeypatch, capfd):
    """Trains in this process; returns the run and what was printed."""
    monkeypatch.delenv(progress.VARIABLE, raising=False)

    def run(**changes):
        lightning_loop.train(request_for(**changes))
        # Each setup has a file of its own.
        newest = max(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        return store.read(newest)[-1], capfd.readouterr().out

    return run


@pytest.fixture(autouse=True)
def one_thread():
    """Several threads for so little work wait for each other, on a busy machine for ever."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_what_is_recorded(trained):
    run, printed = trained(label="mine")
    assert (run.status, run.status_reason) == ("complete", None)
    assert (run.platform, run.framework, run.model, run.scale, run.label) == (
        "cpu",
        "lightning",
        "llama",
        "other",
        "mine",
    )
    assert run.steps == (1, 2, 3)
    assert all(time > 0 for time in run.step_times)
    assert run.learning_rates == (1e-3,) * 3
    assert all(norm > 0 for norm in run.grad_norms)
    assert run.model_config.known().items() >= SMALL.known().items()
    configuration = run.training_config
    assert (
        configuration.max_steps,
        configuration.global_batch_size,
        configuration.micro_batch_size,
    ) == (3, 4, 2)
    assert (configuration.sequence_length, configuration.num_gpus, configuration.seed) == (
        16,
        1,
        1234,
    )
    assert (configuration.precision, configuration.recomputation) == ("fp32", "none")
    assert run.parallelism_config.gradient_accumulation_steps == 2
    assert run.optimizer == recipe.hyperparameters(SMALL)
    assert run.data == TokenSource(64, 1234).described(4, 16)
    assert run.source.kind == "live"
    assert "Recorded llama: " in printed
    assert progress.MARK not in printed


def test_the_loss_is_the_models_own_on_the_sources_tokens(trained):
    """The first step's loss, computed by hand from the seed."""
    run, _ = trained(steps=1)
    model = recipe.build(models.by_name("llama"), SMALL, 16, seed=1234, device=torch.device("cpu"))
    tokens = torch.from_numpy(
        TokenSource(64, 1234).rows(*(torch.tensor(x).numpy() for x in ([1] * 4, [0, 1, 2, 3])), 16)
    )
    with torch.no_grad():
        logits = model(input_ids=tokens).logits[:, :-1]
    by_hand = torch.nn.functional.cross_entropy(
        logits.reshape(-1, 64), tokens[:, 1:].reshape(-1)
    ).item()
    assert run.loss_values[0] == pytest.approx(by_hand, rel=1e-5)


def test_it_learns(trained):
    run, _ = trained(steps=60)
    assert run.loss_values[0] == pytest.approx(math.log(64), abs=0.3)
    last = sum(run.loss_values[-10:]) / 10
    assert run.data.entropy < last < run.data.unigram_entropy


def test_the_losses_are_the_same_however_the_batch_is_split(trained):
    split, whole = (trained(micro_batch_size=size)[0] for size in (2, 4))
    assert split.parallelism_config.gradient_accumulation_steps == 2
    assert whole.parallelism_config.gradient_accumulation_steps == 1
    assert split.data == whole.data
    assert split.loss_values == pytest.approx(whole.loss_values, rel=1e-4)


def test_bf16_keeps_its_weights_in_fp32(trained):
    run, _ = trained(precision="bf16")
    assert (run.training_config.precision, run.training_config.precision_detail) == (
        "bf16",
        "bf16-mixed",
    )


def test_nothing_is_moved_at_the_end(trained, monkeypatch):
    optimizers, modules = [], []
    monkeypatch.setattr(
        "lightning.pytorch.strategies.strategy._optimizers_to_device",
        lambda each, _: optimizers.append(len(each)),
    )
    monkeypatch.setattr(torch.nn.Module, "cpu", lambda module: modules.append(module) or module)
    trained()
    # At the start Lightning moves them to the device that trains.
    assert (optimizers[0], optimizers[-1], modules) == (1, 0, [])


def test_a_time_limit_ends_it_well_and_is_said(trained):
    run, _ = trained(steps=500, time_limit_s=1e-6)
    assert run.steps == (1,)
    assert run.status == "complete"
    assert "1 of max_steps=500 steps: the time limit of 0.0 s was reached" in run.status_reason
    assert run.training_config.max_steps == 500


def test_messages_for_the_parent(request_for, monkeypatch, capfd, tmp_path):
    monkeypatch.setenv(progress.VARIABLE, "1")
    lightning_loop.train(request_for())
    messages = [
        message
        for line in capfd.readouterr().out.splitlines()
        if (message := progress.decode(line))
    ]
    steps = [message for message in messages if isinstance(message, progress.Step)]
    assert (steps[-1].step, steps[-1].max_steps) == (3, 3)
    path = tmp_path / "benchmark_cpu_llama.json"
    (run,) = store.read(path)
    assert messages[-1] == progress.Saved(str(path), store.fingerprint(run))
    assert store.locate(path, messages[-1].fingerprint) == (run, path)


def test_an_error_of_the_user_is_one_line(request_for, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    arguments = request_for(model="gpt2").to_arguments()
    assert processes.main(arguments, lightning_loop.train) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: unknown model 'gpt2'")
    assert error.startswith("error: ")


def test_a_scale_gives_its_shape(request_for):
    request = request_for(shape=None, scale="tiny", model="qwen")
    assert recipe.shape_of(request) == scales.shape(models.by_name("qwen"), scales.by_name("tiny"))
    assert recipe.shape_of(request_for(output_dir=Path("/x"))) == SMALL
