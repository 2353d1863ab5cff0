"""Every loop of ours records how long it waits for data."""

from __future__ import annotations

import importlib
import time

import pytest
from made_runs import SMALL

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

from tprimat.frameworks import by_name
from tprimat.frameworks.loops import own_loop
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.store import store

SLOW_S, STEPS, MICRO_BATCHES = 0.05, 4, 2
ENGINES = {"fsdp": "FullyShard", "deepspeed": "Zero"}


@pytest.fixture
def slow(monkeypatch):
    """What each micro-batch of the training really took; the token source is asked for nothing else
    meanwhile.
    """
    slept, draw = [], TokenSource.in_order

    def drawn(self, *arguments):
        began = time.perf_counter()
        time.sleep(SLOW_S)
        tokens = draw(self, *arguments)
        slept.append(time.perf_counter() - began)
        return tokens

    monkeypatch.setattr(TokenSource, "digest", lambda *_: "0")
    monkeypatch.setattr(TokenSource, "in_order", drawn)
    return slept


@pytest.mark.parametrize("name", ["lightning", "transformers", "fsdp", "deepspeed-zero1"])
def test_a_slow_loader_is_found(name, slow, tmp_path, monkeypatch):
    framework = by_name(name)
    if reason := framework.unavailable():
        pytest.skip(f"{name}: {reason}")
    wanted = RequestedConfig(
        shape=SMALL,
        steps=STEPS,
        global_batch_size=2 * MICRO_BATCHES,
        micro_batch_size=2,
        sequence_length=16,
    )
    request, _ = framework.resolve_config("llama", wanted, Device("cpu", 2, None), tmp_path)
    for variable, value in framework.launcher.launch(request).environment().items():
        monkeypatch.setenv(variable, value)
    loop = importlib.import_module(f"tprimat.frameworks.{framework.folder}.loop")
    if framework.folder in ENGINES:
        own_loop._train(request, getattr(loop, ENGINES[framework.folder]))
    else:
        loop.train(request)
    (path,) = tmp_path.glob("*.json")
    (run,) = store.read(path)
    assert run.steps == tuple(range(1, STEPS + 1))
    # The first step is in no mean: a loader's start is in it. The Trainer draws a micro-batch
    # ahead.
    first = MICRO_BATCHES + (name == "transformers")
    took = sum(slow[first:]) / (STEPS - 1)
    # A busy machine lets a loop that was given its data wait for a core.
    assert 0.99 * took < run.breakdown["data_wait_s"] < 1.5 * took
    assert sum(run.breakdown.values()) == pytest.approx(
        sum(run.step_times[1:]) / (STEPS - 1), rel=0.01
    )
