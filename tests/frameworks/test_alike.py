"""The frameworks train alike: the same first loss, the same curve, and the judge says so.

Here a small model in one process; with TPRIMAT_ALL_FRAMEWORKS=1, which tools/environment_tests.py
frameworks sets, every model at scale tiny, in every framework that a CPU can run, with one and with
two processes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import filelock
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

from tprimat import frameworks
from tprimat.catalog import models
from tprimat.checks import compute, training
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.results.run import ModelConfig, Run
from tprimat.store import store
from tprimat.store.naming import file_name

ALL = os.environ.get("TPRIMAT_ALL_FRAMEWORKS") == "1"
REFERENCE = "lightning"
OTHERS = ("deepspeed-zero1", "transformers", "deepspeed-zero2", "fsdp", "deepspeed-zero3")
LIMIT_S = 600

FIRST_LOSS, CURVE = 1e-4, 1e-2
SMALL = ModelConfig(
    num_layers=2,
    hidden_size=64,
    num_attention_heads=4,
    num_query_groups=2,
    head_dim=16,
    ffn_hidden_size=128,
    vocab_size=256,
    tie_word_embeddings=False,
)


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Trains once for all who ask, in any worker: the run of a model in a framework with so many
    processes.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def run(name: str, model: str, processes: int) -> Run:
        folder = shared / "alike" / f"{model}-{processes}"
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / file_name(Run(platform="cpu", framework=name, model=model))
        with filelock.FileLock(str(folder / f"{name}.lock")):
            if not result.exists():
                train_in(name, model, processes, folder)
        return store.read(result)[-1]

    return run


def train_in(name: str, model: str, processes: int, folder: Path) -> None:
    framework = next(each for each in frameworks.FRAMEWORKS if each.name == name)
    reason = framework.unavailable()
    if reason is not None:
        if ALL:
            pytest.fail(f"{name}: {reason}")
        pytest.skip(f"{name}: {reason}")
    size = (
        {"scale": "tiny", "steps": 60, "sequence_length": 64}
        if ALL
        else {"shape": SMALL, "steps": 10, "sequence_length": 32}
    )
    # Accumulated in one process, two sequences each in two. With a single one each, rounding alone
    # (a sharded norm of the gradients is summed in another order) grows to 1.3 % of a loss within
    # sixty steps; so it stays below 0.3 %.
    wishes = RequestedConfig(num_gpus=processes, global_batch_size=4, micro_batch_size=2, **size)
    request, _ = framework.resolve_config(model, wishes, Device("cpu", 2, None), folder)
    command = framework.launcher.launch(request)
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env={**os.environ, **command.environment()},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]


TRAININGS = [
    (model, processes)
    for model in (models.names() if ALL else ("llama",))
    for processes in ((2, 1) if ALL else (1,))
]
# Neighbours are tested at the same time. They share no reference, which one would wait for, and not
# both begin with DeepSpeed, whose first training compiles a part of it.
QUESTIONS = [
    (OTHERS[(place + turn) % len(OTHERS)], *training)
    for turn in range(len(OTHERS))
    for place, training in enumerate(TRAININGS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "processes"), QUESTIONS)
def test_the_same_training(train, name, model, processes):
    ours, other = train(REFERENCE, model, processes), train(name, model, processes)
    assert (other.framework, other.status, other.steps) == (name, "complete", ours.steps)
    assert other.loss_values[0] == pytest.approx(ours.loss_values[0], rel=FIRST_LOSS)
    assert other.loss_values == pytest.approx(ours.loss_values, rel=CURVE)
    assert other.grad_norms[0] == pytest.approx(ours.grad_norms[0], rel=CURVE)
    assert other.learning_rates == ours.learning_rates
    assert compute.config_diff(ours, other).verdict == "same configuration"
    assert training.same_training(ours, other).same
