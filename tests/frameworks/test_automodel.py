"""The framework automodel: choices, command and settings; a stand-in package trains on the CPU."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tprimat import frameworks
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.automodel import launch
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.store import store

pytest.importorskip("torch")

from tprimat.frameworks.automodel import training

AUTOMODEL = by_name("automodel")
LLAMA = models.by_name("llama")

LOADER = """
class ConfigNode:
    def __init__(self, content):
        self.__dict__.update({k: ConfigNode(v) if isinstance(v, dict) else v for k, v in content.items()})
    def instantiate(self):
        import transformers
        fields = {k: v for k, v in self.__dict__.items() if k != "_target_"}
        return getattr(transformers, self._target_.rpartition(".")[2])(**fields)
"""
RECIPE = """
import os, time, types
import torch

class TrainFinetuneRecipeForNextTokenPrediction:
    def __init__(self, cfg):
        self.cfg = cfg

    def setup(self):
        config = self.cfg.model.config.instantiate()
        assert config.architectures == ["LlamaForCausalLM"] and not self.cfg.checkpoint.enabled
        self.model_parts = [torch.nn.Linear(2, 2)]
        self.optimizer = [torch.optim.AdamW(self.model_parts[0].parameters(), lr=self.cfg.optimizer.lr)]
        self.step_scheduler = types.SimpleNamespace(step=0, max_steps=self.cfg.step_scheduler.max_steps)

    def run_train_validation_loop(self):
        while self.step_scheduler.step < self.step_scheduler.max_steps:
            self._run_train_optim_step([], 1.0)
            self.step_scheduler.step += 1

    def _run_train_optim_step(self, batches, max_grad_norm=None):
        time.sleep(0.01)
        if os.environ.get("FAIL_AT") == str(self.step_scheduler.step):
            raise RuntimeError("NCCL error")
        self.optimizer[0].step()
        loss = 5.0 - self.step_scheduler.step
        return types.SimpleNamespace(metrics={"loss": loss, "grad_norm": torch.tensor(1.5)})
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package of Automodel's names and signatures."""
    root = tmp_path / "site"
    modules = {"components/config/loader": LOADER, "recipes/llm/train_ft": RECIPE}
    for name, text in modules.items():
        path = root / "nemo_automodel" / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(root))
    return root


def resolve(gpus=8, output=Path("/some/where"), **requested):
    where = Device("nvd", gpus, 85e9, "sm_90", "NVIDIA H100 80GB HBM3")
    return AUTOMODEL.resolve_config("llama", RequestedConfig(**requested), where, output)


class TestChoices:
    def test_the_common_scale_unless_another_is_named(self):
        request, notes = resolve()
        assert (request.scale, request.precision, request.num_gpus) == ("1b", "bf16", 8)
        assert any("AdamW's states in bf16" in note for note in notes)
        whole, _ = resolve(scale="full")
        assert "--nproc-per-node=8" in launch.LAUNCHER.launch(whole).argv

    def test_states_are_shared_out(self):
        # 8 bytes for each of 8.03 billion parameters.
        assert resolve(gpus=1, scale="full")[0].scale == "full"
        with pytest.raises(UsageError, match="largest that fits"):
            AUTOMODEL.resolve_config(
                "llama", RequestedConfig(scale="full"), Device("nvd", 1, 60e9), Path()
            )

    def test_what_it_does_not_train_in(self):
        with pytest.raises(UsageError, match="automodel does not support fp16"):
            resolve(precision="fp16")

    def test_a_machine_without_a_gpu_shows_one(self):
        request, notes = AUTOMODEL.resolve_config(
            "llama", RequestedConfig(), Device("cpu", 2, 16e9), Path()
        )
        assert request.platform == "nvd"
        assert any("this machine has none" in note for note in notes)

    def test_never_unless_named(self, installed):
        assert launch.LAUNCHER.unavailable() is None
        assert frameworks.choose(None, "nvd").name != "automodel"

    def test_none_is_installed_here(self):
        assert "isn't installed" in launch.LAUNCHER.unavailable()


class TestSettings:
    def test_the_work_is_the_requests(self):
        content = training.settings(
            resolve(scale="full", global_batch_size=64, sequence_length=4096)[0]
        )
        assert content["model"]["config"]["num_key_value_heads"] == LLAMA.shape.num_query_groups
        assert content["model"]["config"]["rope_theta"] == 500000.0
        assert content["dataset"]["vocab_size"] == LLAMA.shape.vocab_size
        assert (content["dataset"]["seq_len"], content["step_scheduler"]["global_batch_size"]) == (
            4096,
            64,
        )
        # Accumulated gradients stay sharded.
        assert content["distributed"]["defer_fsdp_grad_sync"] is False
        assert "fp8" not in content

    @pytest.mark.parametrize("gpus", [1, 8])
    def test_fp8(self, gpus):
        content = training.settings(resolve(gpus=gpus, precision="fp8")[0])
        assert content["fp8"]["enabled"]
        assert content["fp8"]["enable_fsdp_float8_all_gather"] is (gpus > 1)


@pytest.mark.slow
class TestTraining:
    @pytest.fixture
    def request_on_cpu(self, tmp_path):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        request, _ = resolve(gpus=1, output=tmp_path, scale="tiny", steps=4)
        return dataclasses.replace(request, platform="cpu")

    def train(self, installed, request, **variables):
        command = launch.LAUNCHER.launch(request)
        paths = os.pathsep.join((str(installed), str(REPOSITORY)))
        settings = {**os.environ, **command.env, "PYTHONPATH": paths, **variables}
        return subprocess.run(
            command.argv, env=settings, capture_output=True, text=True, timeout=120, check=False
        )

    def test_leaves_a_result_of_what_ran(self, installed, request_on_cpu, tmp_path):
        ended = self.train(installed, request_on_cpu)
        assert ended.returncode == 0, ended.stderr
        run = store.read(tmp_path / "train_automodel_llama.json")[0]
        assert (run.status, run.framework, run.scale) == ("complete", "automodel", "tiny")
        assert list(run.loss_values) == [5.0, 4.0, 3.0, 2.0]
        assert run.training_config.recomputation == "full"
        assert run.optimizer.gradient_clipping == 1.0
        assert run.framework_config["loss_fn"] == "MaskedCrossEntropy"

    def test_one_that_fails_leaves_its_steps(self, installed, request_on_cpu, tmp_path):
        assert self.train(installed, request_on_cpu, FAIL_AT="2").returncode != 0
        run = store.read(tmp_path / "train_automodel_llama.json")[0]
        assert (run.status, len(run.steps)) == ("failed", 2)
        assert "NCCL error" in run.status_reason

    def test_ends_when_its_time_is_up(self, installed, request_on_cpu, tmp_path):
        request = dataclasses.replace(request_on_cpu, steps=100_000, time_limit_s=0.3)
        assert self.train(installed, request).returncode == 0
        run = store.read(tmp_path / "train_automodel_llama.json")[0]
        assert run.status == "complete"
        assert 2 < len(run.steps) < 1000
        assert "time limit" in run.status_reason
