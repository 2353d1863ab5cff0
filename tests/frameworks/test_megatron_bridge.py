"""The framework megatron_bridge: choices, command, recipe and callback; a stand-in package trains
on the CPU.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tprimat import frameworks
from tprimat.cli.options import benchmark as benchmark_options
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.megatron_bridge import launch as bridge
from tprimat.frameworks.megatron_bridge import recipe
from tprimat.frameworks.megatron_bridge.defaults import GENERAL, PERFORMANCE
from tprimat.frameworks.nemo import options as nemo_options
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.store import store

OUTPUT = Path("/some/where")
CARDS = {
    "H100": (85e9, "sm_90"),
    "H200": (150e9, "sm_90"),
    "B200": (192e9, "sm_100"),
    "GB200": (200e9, "sm_100"),
}
LLAMA = "meta-llama/Meta-Llama-3-8B"

CALLBACKS = """
import dataclasses

@dataclasses.dataclass
class CallbackContext:
    state: object
    model: list
    user_state: dict = dataclasses.field(default_factory=dict)
    optimizer: object = None
    scheduler: object = None
    loss_dict: dict = None
    grad_norm: float = None
    skipped_iter: bool = None
    total_loss_dict: dict = None
"""
CONFIG = '''
import os

class Container:
    """Takes only the fields that it is made with, as Megatron-Bridge's dataclasses do."""
    def __init__(self, **fields):
        self.__dict__.update(fields)
    def __setattr__(self, name, value):
        if name not in self.__dict__:
            raise AttributeError(name)
        self.__dict__[name] = value

def apply_environment_variables(cfg):
    for name, value in cfg.env_vars.items():
        os.environ.setdefault(name, str(value))
'''
RECIPES = """
from megatron.bridge.training.config import Container

def llama3_8b_pretrain_8gpu_h100_fp8cs_config():
    from transformers import AutoConfig
    hub = AutoConfig.from_pretrained("meta-llama/Meta-Llama-3-8B")
    assert hub.architectures == ["LlamaForCausalLM"]
    return Container(
        env_vars={"NVTE_FWD_LAYERNORM_SM_MARGIN": 20, "CUDA_DEVICE_MAX_CONNECTIONS": 32},
        model=Container(
            num_layers=hub.num_hidden_layers, hidden_size=hub.hidden_size, ffn_hidden_size=hub.intermediate_size,
            num_attention_heads=hub.num_attention_heads, num_query_groups=hub.num_key_value_heads,
            kv_channels=hub.head_dim, vocab_size=hub.vocab_size, gated_linear_unit=True,
            share_embeddings_and_output_weights=hub.tie_word_embeddings, seq_length=8192, sequence_parallel=False,
            tensor_model_parallel_size=1, pipeline_model_parallel_size=1, context_parallel_size=1,
            recompute_granularity="full", recompute_num_layers=5, cuda_graph_impl="none", fp8=None,
            fp8_recipe=None, fp4=None, pipeline_dtype=None),
        mixed_precision="bf16_with_fp8_current_scaling_mixed",
        train=Container(train_iters=50, global_batch_size=128, micro_batch_size=1, eval_iters=0),
        validation=Container(eval_interval=2000, eval_iters=32),
        scheduler=Container(lr_decay_iters=50, lr_warmup_iters=10, lr_decay_style="cosine"),
        optimizer=Container(optimizer="adam", lr=3e-4, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-5,
                            weight_decay=0.1, clip_grad=1.0, use_precision_aware_optimizer=False),
        ddp=Container(grad_reduce_in_fp32=False, overlap_grad_reduce=True),
        dataset=Container(blend=("x",), seq_length=8192, random_seed=1),
        tokenizer=Container(tokenizer_type="NullTokenizer", tokenizer_model=None, vocab_size=128256,
                            use_tokenizer_vocab_size=True),
        checkpoint=Container(save="nemo_experiments", load="nemo_experiments"),
        logger=Container(log_interval=10, tensorboard_dir="tb_logs"),
        rng=Container(seed=1),
    )
"""
PRETRAIN = """
import os, time, types
import torch
from megatron.bridge.training.callbacks import CallbackContext

def pretrain(config, forward_step_func, callbacks=None):
    # Before torch is imported for the second time, the variables of the recipe are there.
    assert os.environ["NVTE_FWD_LAYERNORM_SM_MARGIN"] == "20" and os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] == "7"
    assert config.checkpoint.save is None and config.dataset.blend is None and config.validation.eval_iters == 0
    assert config.tokenizer.vocab_size == config.model.vocab_size and not config.tokenizer.use_tokenizer_vocab_size
    config.model.fp8, config.model.fp8_recipe = "hybrid", "tensorwise"
    state = types.SimpleNamespace(cfg=config, train_state=types.SimpleNamespace(step=0))
    optimizer = types.SimpleNamespace(param_groups=[{"lr": 1e-4}])
    def fire(event, **more):
        for callback in callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                method(CallbackContext(state=state, model=[], optimizer=optimizer, **more))
    fire("on_train_start")
    while state.train_state.step < config.train.train_iters:
        fire("on_train_step_start")
        time.sleep(0.01)
        if os.environ.get("FAIL_AT") == str(state.train_state.step):
            raise RuntimeError("NCCL error")
        optimizer.param_groups[0]["lr"] = 2e-4
        loss = {"lm loss": torch.tensor(5.0 - state.train_state.step)}
        fire("on_train_step_end", loss_dict=loss, grad_norm=1.5, skipped_iter=False)
        state.train_state.step += 1
    fire("on_train_end")
"""
OVERRIDES = """
class OverridesError(Exception):
    pass

def process_config_with_overrides(config, config_filepath=None, cli_overrides=None):
    for each in cli_overrides:
        path, value = each.split("=")
        section, field = path.split(".")
        if field not in vars(getattr(config, section)):
            raise OverridesError(f"Failed to parse Hydra overrides: Key {field!r} is not in struct")
        setattr(getattr(config, section), field, int(value))
    return config
"""
SOURCES = {
    "bridge/__init__.py": "",
    "bridge/perf_recipes/__init__.py": "",
    "bridge/perf_recipes/llama/__init__.py": (
        "from megatron.bridge.perf_recipes.llama.h100.llama3 import *"
    ),
    "bridge/perf_recipes/llama/h100/__init__.py": "",
    "bridge/perf_recipes/llama/h100/llama3.py": RECIPES,
    "bridge/recipes/__init__.py": "",
    "bridge/training/__init__.py": "",
    "bridge/training/callbacks.py": CALLBACKS,
    "bridge/training/config.py": CONFIG,
    "bridge/training/gpt_step.py": (
        "def forward_step(state, data_iterator, model, return_schedule_plan=False): ..."
    ),
    "bridge/training/pretrain.py": PRETRAIN,
    "bridge/training/utils/__init__.py": "",
    "bridge/training/utils/omegaconf_utils.py": OVERRIDES,
    "../transformer_engine/__init__.py": "",
}
"""What is used of Megatron-Bridge 067f987, with its names and the order in which its loop calls."""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    folder = tmp_path / "packages"
    for name, text in SOURCES.items():
        path = folder / "megatron" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "megatron"]:
        del sys.modules[name]


def device(name="H100", devices=8):
    memory, architecture = CARDS[name]
    return Device("nvd", devices, memory, architecture, f"NVIDIA {name}")


def resolve(model="llama", where=None, output=OUTPUT, **requested):
    return by_name("megatron-bridge").resolve_config(
        model, RequestedConfig(**requested), where or device(), output
    )


class TestRecipes:
    @pytest.mark.parametrize(
        ("gpu", "precision", "recipe", "micro", "context"),
        [
            ("H100", "bf16", "h100_bf16", 1, 2),
            ("H100", "fp8", "h100_fp8cs", 1, 1),
            ("H200", "fp8", "h100_fp8cs", 1, 1),
            ("B200", "bf16", "b200_bf16", 2, 1),
            ("B200", "mxfp8", "b200_fp8mx", 2, 1),
            ("B200", "nvfp4", "b200_nvfp4", 4, 1),
            ("GB200", "fp8", "gb200_fp8cs", 2, 1),
            ("GB200", "nvfp4", "gb200_nvfp4", 4, 1),
        ],
    )
    def test_of_a_card_in_a_precision(self, gpu, precision, recipe, micro, context):
        request, notes = resolve(where=device(gpu), precision=precision)
        assert request.recipe == f"llama3_8b_pretrain_8gpu_{recipe}_config"
        assert (request.micro_batch_size, request.context_parallel_size) == (micro, context)
        assert (request.scale, request.sequence_length) == ("full", 8192)
        assert request.gradient_accumulation_steps <= 8
        assert any("publishes no settings for this GPU" in note for note in notes) is (
            gpu == "H200"
        )
        argv = bridge.LAUNCHER.launch(request).argv
        assert f"--recipe={request.recipe}" in argv
        assert "--nproc-per-node=8" in argv
        whole, _ = resolve(where=device(gpu), precision=precision, preset="performance")
        assert whole.global_batch_size == 128

    def test_each_row_names_another_recipe_of_one_precision(self):
        names = [row.source for row in (*PERFORMANCE, *GENERAL) if row.note is None]
        assert len(names) == len(set(names))
        assert all(len(row.precisions) == 1 for row in (*PERFORMANCE, *GENERAL))

    @pytest.mark.parametrize(
        ("model", "gpu", "requested", "words"),
        [
            ("llama", "H100", {"precision": "mxfp8"}, "MXFP8 needs a GPU of sm_100 or newer"),
            ("llama", "H200", {"precision": "nvfp4"}, "NVFP4 needs a GPU of sm_100 or newer"),
            ("qwen", "B200", {"precision": "nvfp4"}, "no recipe for Qwen.* in NVFP4 on B200"),
            (
                "llama",
                "B200",
                {"precision": "fp8", "preset": "recipe"},
                "no recipe for Llama.* in FP8 on B200",
            ),
            ("llama", "GB200", {"precision": "fp16"}, "megatron_bridge does not support fp16"),
            ("mistral", "H100", {}, "no recipe for Mistral"),
        ],
    )
    def test_what_has_none_is_refused(self, model, gpu, requested, words):
        with pytest.raises(UsageError, match=words):
            resolve(model, device(gpu), **requested)

    def test_a_model_without_a_performance_recipe_has_the_general_one(self):
        request, notes = resolve("qwen")
        assert request.recipe == "qwen25_7b_pretrain_2gpu_h100_bf16_config"
        assert (request.tensor_model_parallel_size, request.micro_batch_size) == (2, 2)
        assert any("no performance recipe of this model for H100" in note for note in notes)

    def test_one_gpu_trains_the_largest_scale_that_fits(self):
        request, notes = resolve(where=device(devices=1))
        assert (request.scale, request.num_gpus) == ("quarter", 1)
        assert request.recipe == "llama3_8b_pretrain_8gpu_h100_bf16_config"
        assert any("the largest that fits" in note for note in notes)


class TestAvailability:
    @pytest.fixture(autouse=True)
    def _beside_torch(self):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")

    def test_an_installed_one_comes_before_nemo(self, installed, monkeypatch):
        assert bridge.LAUNCHER.unavailable() is None
        assert frameworks.choose(None, "nvd").name == "megatron_bridge"

    @pytest.mark.parametrize(
        ("removed", "words"),
        [
            ("megatron/bridge/perf_recipes", "no performance recipes, 0.6.0 is the first"),
            ("transformer_engine", "lacks transformer_engine"),
        ],
    )
    def test_what_is_missing_is_named(self, installed, removed, words):
        shutil.rmtree(installed / removed)
        assert words in bridge.LAUNCHER.unavailable()
        assert "nvcr.io/nvidia/nemo:26.08" in bridge.LAUNCHER.unavailable()

    def test_recipes_may_move_within_their_package(self, installed):
        (installed / "megatron/bridge/perf_recipes/llama/h100").rename(
            installed / "megatron/bridge/perf_recipes/llama/moved"
        )
        assert bridge.LAUNCHER.unavailable() is None

    def test_none_is_installed_here(self):
        assert "isn't installed" in bridge.LAUNCHER.unavailable()
        with pytest.raises(UsageError, match="megatron_bridge is not available"):
            frameworks.choose("megatron-bridge", "nvd")


def train(installed, request, **variables):
    command = bridge.LAUNCHER.launch(request)
    paths = os.pathsep.join((str(installed), str(REPOSITORY)))
    settings = {
        **os.environ,
        **command.env,
        "PYTHONPATH": paths,
        "CUDA_DEVICE_MAX_CONNECTIONS": "7",
        **variables,
    }
    return subprocess.run(
        command.argv, env=settings, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def request_on_cpu(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    settings = {"precision": "fp8", "scale": "tiny", "steps": 4, "num_gpus": 1}
    request, _ = resolve(output=tmp_path, **settings)
    return dataclasses.replace(request, platform="cpu")


@pytest.mark.slow
class TestTraining:
    def test_leaves_a_result_of_what_ran(self, installed, request_on_cpu, tmp_path):
        ended = train(installed, request_on_cpu)
        assert ended.returncode == 0, ended.stderr
        run = store.read(tmp_path / "train_megatron-bridge_llama.json")[0]
        assert (run.status, run.framework, run.scale) == ("complete", "megatron_bridge", "tiny")
        assert list(run.steps) == [1, 2, 3, 4]
        assert list(run.loss_values) == [5.0, 4.0, 3.0, 2.0]
        # The rate of a step is that before the scheduler's next one.
        assert list(run.learning_rates) == [1e-4, 2e-4, 2e-4, 2e-4]
        assert run.training_config.precision == "fp8"
        assert run.training_config.recomputation == "full"
        assert run.training_config.global_batch_size == request_on_cpu.global_batch_size
        assert (run.optimizer.name, run.optimizer.gradient_clipping) == ("AdamW", 1.0)
        # A variable that the user has set stays, and the result shows those that were in force.
        assert run.framework_config["env_vars.CUDA_DEVICE_MAX_CONNECTIONS"] == "7"
        assert run.framework_config["env_vars.NVTE_FWD_LAYERNORM_SM_MARGIN"] == "20"
        assert run.framework_config["recipe"] == request_on_cpu.recipe

    def test_one_that_fails_leaves_its_steps(self, installed, request_on_cpu, tmp_path):
        assert train(installed, request_on_cpu, FAIL_AT="2").returncode != 0
        run = store.read(tmp_path / "train_megatron-bridge_llama.json")[0]
        assert (run.status, len(run.steps)) == ("failed", 2)
        assert "NCCL error" in run.status_reason

    def test_ends_when_its_time_is_up(self, installed, request_on_cpu, tmp_path):
        request = dataclasses.replace(request_on_cpu, steps=100_000, time_limit_s=0.3)
        assert train(installed, request).returncode == 0
        run = store.read(tmp_path / "train_megatron-bridge_llama.json")[0]
        assert run.status == "complete"
        assert 2 < len(run.steps) < 1000
        assert "time limit" in run.status_reason


def test_a_recipe_that_this_version_lacks(installed, request_on_cpu):
    request = dataclasses.replace(
        request_on_cpu, recipe="llama3_8b_pretrain_8gpu_r100_nvfp4_config"
    )
    with pytest.raises(
        UsageError, match="this Megatron-Bridge has no recipe llama3_8b_pretrain_8gpu_r100_nvfp4"
    ):
        recipe.build(request)


def test_a_field_that_is_set(installed, request_on_cpu, monkeypatch):
    transformers = pytest.importorskip("transformers")
    shape = transformers.LlamaConfig(architectures=["LlamaForCausalLM"])
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda name: shape)
    known = dataclasses.replace(request_on_cpu, settings=("model.recompute_num_layers=3",))
    assert recipe.build(known).model.recompute_num_layers == 3
    unknown = dataclasses.replace(request_on_cpu, settings=("model.recompute_layers=3",))
    with pytest.raises(UsageError, match=r"--set: .*'recompute_layers' is not in struct"):
        recipe.build(unknown)


def test_the_models_configuration_needs_no_network(request_on_cpu, tmp_path):
    code = (
        "from transformers import AutoConfig;"
        f" print(AutoConfig.from_pretrained({LLAMA!r}).to_json_string())"
    )
    recipe.write_configuration(request_on_cpu)
    environment = {**os.environ, **bridge.LAUNCHER.launch(request_on_cpu).env}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout)["vocab_size"] == 128256 // 16


@pytest.mark.parametrize("words", [["--preset", "classic"], ["--data", "tokens"]], ids=str)
def test_what_nemo_alone_takes_is_refused(words):
    options = benchmark_options.parser().parse_args([*words, "--model", "llama"])
    with pytest.raises(
        UsageError, match=f"{' '.join(words)} is a NeMo option; the framework is megatron_bridge"
    ):
        nemo_options.check("megatron_bridge", True, options)
