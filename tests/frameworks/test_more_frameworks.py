"""Further frameworks: their commands, and why they can't run."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks import by_name, logged_training
from tprimat.frameworks.deepspeed import launch as deepspeed
from tprimat.frameworks.megatron import launch as megatron
from tprimat.frameworks.request import Device, Request, RequestedConfig
from tprimat.frameworks.torchtitan import launch as torchtitan
from tprimat.frameworks.torchtitan import registry


@dataclasses.dataclass(frozen=True)
class Packed:
    """How torchtitan's newer versions name a data set."""

    dataset: str


class Fields(SimpleNamespace):
    """A configuration of torchtitan: as there, no other fields can be set."""

    def __setattr__(self, name, value):
        if name not in vars(self):
            raise AttributeError(name)
        super().__setattr__(name, value)


TITAN_GENERATIONS = {
    "2026-06-04": (
        {"lr": 3e-4, "beta1": 0.9, "beta2": 0.9, "eps": 1e-6, "weight_decay": 0.0},
        {"mode": "selective"},
        {"seq_len": 8192, "local_batch_size": 1, "global_batch_size": -1},
        "c4",
    ),
    "2026-08-21": (
        {"param_groups": []},
        {"preserve_rng_state": True},
        {
            "num_tokens_per_microbatch_per_dp_rank": 1,
            "num_tokens_per_train_step": -1,
            "max_context_length": 8192,
        },
        Packed("c4"),
    ),
}
"""Fields of torchtitan's configuration that were renamed: optimizer, checkpointing, training; and
its data set.
"""

CPU = Device("cpu", 4, 24e9)
H100S = Device("nvd", 8, 85e9, "sm_90")
OUT = Path("/some/where")


@pytest.fixture
def megatron_clone(tmp_path, monkeypatch):
    (tmp_path / "pretrain_gpt.py").write_text("")
    monkeypatch.setenv(megatron.CLONE.variable, str(tmp_path))
    return tmp_path


@pytest.fixture
def torchtitan_clone(tmp_path, monkeypatch):
    (tmp_path / torchtitan.OPTIONS).parent.mkdir(parents=True)
    (tmp_path / torchtitan.OPTIONS).write_text(torchtitan.NEEDED)
    (tmp_path / torchtitan.CLONE.script).write_text("")
    monkeypatch.setenv(torchtitan.CLONE.variable, str(tmp_path))
    return tmp_path


class TestNames:
    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            (None, None),
            ("lightning", None),
            ("FSDP", None),
            ("all", ("all",)),
            ("fsdp, lightning", ("fsdp", "lightning")),
            ("deepspeed", ("deepspeed-zero1", "deepspeed-zero2", "deepspeed-zero3")),
            (
                "deepspeed-zero2,deepspeed",
                ("deepspeed-zero2", "deepspeed-zero1", "deepspeed-zero3"),
            ),
        ],
    )
    def test_several(self, said, meant):
        assert frameworks.several(said) == meant

    def test_none_of_them_is_taken_unasked(self):
        asked_for = {each.name for each in frameworks.FRAMEWORKS if not each.automatic_on}
        assert {
            "transformers",
            "fsdp",
            *frameworks.GROUPS["deepspeed"],
            "megatron",
            "torchtitan",
        } <= asked_for


class TestEmbedded:
    @pytest.mark.parametrize("name", ["transformers", "fsdp", "deepspeed-zero1", "deepspeed-zero3"])
    def test_all_train_what_lightning_trains(self, name):
        wishes = RequestedConfig(num_gpus=2)
        request, notes = by_name(name).resolve_config("qwen", wishes, CPU, OUT)
        theirs, said = by_name("lightning").resolve_config("qwen", wishes, CPU, OUT)
        assert request == dataclasses.replace(theirs, framework=name)
        assert notes == said

    @pytest.mark.parametrize(
        ("name", "module"),
        [
            ("transformers", "transformers.loop"),
            ("fsdp", "fsdp.loop"),
            ("deepspeed-zero2", "deepspeed.loop"),
        ],
    )
    def test_commands(self, name, module):
        request, _ = by_name(name).resolve_config("llama", RequestedConfig(num_gpus=2), CPU, OUT)
        made = by_name(name).launcher.launch(request)
        line = " ".join(made.argv)
        assert (
            "-m torch.distributed.run --standalone --nproc-per-node=2 -m"
            f" tprimat.frameworks.{module}" in line
        )
        assert f"--framework={name}" in made.argv
        assert made.env["HF_HUB_OFFLINE"] == "1"
        alone, _ = by_name(name).resolve_config("llama", RequestedConfig(num_gpus=1), CPU, OUT)
        assert "torch.distributed.run" not in by_name(name).launcher.launch(alone).argv

    def test_deepspeed_is_told_of_the_cpu_only_there(self):
        on_cpu, _ = by_name("deepspeed-zero1").resolve_config("llama", RequestedConfig(), CPU, OUT)
        on_gpu, _ = by_name("deepspeed-zero1").resolve_config(
            "llama", RequestedConfig(), H100S, OUT
        )
        assert by_name("deepspeed-zero1").launcher.launch(on_cpu).env["DS_ACCELERATOR"] == "cpu"
        assert "DS_ACCELERATOR" not in by_name("deepspeed-zero1").launcher.launch(on_gpu).env

    def test_deepspeed_without_a_compiler(self, monkeypatch):
        monkeypatch.setattr(deepspeed.shutil, "which", lambda name, path=None: None)
        with pytest.raises(
            UsageError, match="a C\\+\\+ compiler is missing: install g\\+\\+ and ninja"
        ):
            by_name("deepspeed-zero1").resolve_config("llama", RequestedConfig(), CPU, OUT)
        assert by_name("deepspeed-zero1").resolve_config("llama", RequestedConfig(), H100S, OUT)

    @pytest.mark.parametrize(
        ("name", "per_parameter"),
        [
            ("lightning", 18),
            ("fsdp", 4 + 12 / 8),
            ("deepspeed-zero1", 2 + 2 + 12 / 8),
            ("deepspeed-zero2", 2 + 14 / 8),
            ("deepspeed-zero3", 4),
        ],
    )
    def test_states_are_sharded_over_the_gpus(self, name, per_parameter):
        requested = RequestedConfig(precision="bf16")
        resolver = by_name(name).resolver("llama", requested, H100S)
        assert resolver.bytes_per_parameter() == max(4, per_parameter)
        assert resolver.largest_that_fits().name == ("full" if name != "lightning" else "quarter")

    @pytest.mark.parametrize("name", ["fsdp", "deepspeed-zero2", "deepspeed-zero3"])
    def test_full_size_trains_on_four_gpus_and_not_on_one(self, name):
        for number in (4, 8):
            requested = RequestedConfig(scale="full", num_gpus=number)
            assert by_name(name).resolve_config("llama", requested, H100S, OUT)[0].scale == "full"
        with pytest.raises(UsageError, match="largest that fits"):
            by_name(name).resolve_config(
                "llama", RequestedConfig(scale="full", num_gpus=1), H100S, OUT
            )

    @pytest.mark.parametrize(("gpus", "is_advised"), [(8, True), (4, True), (2, False), (1, False)])
    def test_a_model_too_large_for_one_gpu_may_be_sharded(self, gpus, is_advised):
        with pytest.raises(UsageError) as refused:
            by_name("lightning").resolve_config(
                "llama", RequestedConfig(scale="full", num_gpus=gpus), H100S, OUT
            )
        assert (
            f"--framework fsdp shards it over {gpus} GPUs" in refused.value.message
        ) is is_advised
        assert "--scale quarter is the largest that fits" in refused.value.message

    def test_fsdp_has_no_fp16(self):
        with pytest.raises(UsageError, match="fsdp does not support fp16 here"):
            by_name("fsdp").resolve_config("llama", RequestedConfig(precision="fp16"), H100S, OUT)

    @pytest.mark.parametrize(
        ("version", "works"), [("2.4.0a0+1", False), ("2.6.0", True), ("2.13.0+cpu", True)]
    )
    def test_fsdp_needs_a_torch_that_has_it(self, monkeypatch, version, works):
        # Another package's version says nothing of FSDP2.
        versions = {"torch": version}
        monkeypatch.setattr("importlib.metadata.version", lambda name: versions.get(name, "2.6.0"))
        fsdp = dataclasses.replace(by_name("fsdp"), packages=())
        assert (fsdp.unavailable() is None) is works


class TestMegatron:
    def test_the_command(self, megatron_clone):
        request, notes = by_name("megatron").resolve_config(
            "qwen", RequestedConfig(scale="full", precision="bf16"), H100S, OUT
        )
        made = megatron.LAUNCHER.launch(request)
        assert made.cwd == megatron_clone
        assert made.argv[1:6] == (
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=8",
            "pretrain_gpt.py",
        )
        for word in (
            "--bf16",
            "--swiglu",
            "--add-qkv-bias",
            "--untie-embeddings-and-output-weights",
            "--mock-data",
            "--num-layers=28",
            "--hidden-size=3584",
            "--num-query-groups=4",
            "--vocab-size=152063",
            "--rotary-base=1000000",
            "--norm-epsilon=1e-06",
            "--adam-beta2=0.95",
            "--weight-decay=0.1",
            "--clip-grad=1.0",
            "--lr-decay-style=constant",
            "--log-interval=1",
            "--overlap-grad-reduce",
            "--overlap-param-gather",
            "--cross-entropy-loss-fusion",
            "--manual-gc",
            "--no-create-attention-mask-in-dataloader",
        ):
            assert word in made.argv
        assert any("its own mock data and draws its own weights" in note for note in notes)

    @pytest.mark.parametrize(("gpus", "scale"), [(8, "full"), (1, "quarter")])
    def test_its_optimizers_states_are_divided_over_the_gpus(self, megatron_clone, gpus, scale):
        request, _ = by_name("megatron").resolve_config(
            "llama", RequestedConfig(num_gpus=gpus), H100S, OUT
        )
        assert request.scale == scale
        assert "--use-distributed-optimizer" in megatron.LAUNCHER.launch(request).argv

    def test_what_fits_nowhere_is_refused_with_what_does(self, megatron_clone):
        with pytest.raises(
            UsageError, match=r"a GPU here has 85\.00 GB free: --scale quarter is the largest"
        ):
            by_name("megatron").resolve_config(
                "llama", RequestedConfig(scale="full", num_gpus=1), H100S, OUT
            )

    @pytest.mark.parametrize(
        ("precision", "architecture", "recipe"),
        [("fp8", "sm_90", "tensorwise"), ("mxfp8", "sm_100", "mxfp8"), ("bf16", "sm_90", None)],
    )
    def test_fp8_is_a_recipe_beside_bf16(self, megatron_clone, precision, architecture, recipe):
        device = dataclasses.replace(H100S, architecture=architecture)
        request, _ = by_name("megatron").resolve_config(
            "llama", RequestedConfig(precision=precision), device, OUT
        )
        words = megatron.LAUNCHER.launch(request).argv
        assert "--bf16" in words
        fp8 = [word for word in words if word.startswith("--fp8")]
        assert fp8 == ([] if recipe is None else ["--fp8-format=hybrid", f"--fp8-recipe={recipe}"])

    def test_fp8_takes_a_gpu_that_has_it(self, megatron_clone):
        device = dataclasses.replace(H100S, architecture="sm_80")
        with pytest.raises(
            UsageError, match="FP8 needs a GPU of sm_89 or newer, this one is sm_80"
        ):
            by_name("megatron").resolve_config(
                "llama", RequestedConfig(precision="fp8"), device, OUT
            )

    def test_only_qwen_has_biases(self, megatron_clone):
        request, _ = by_name("megatron").resolve_config(
            "llama", RequestedConfig(scale="tiny", precision="fp32"), H100S, OUT
        )
        assert not {"--add-qkv-bias", "--bf16"} & set(megatron.LAUNCHER.launch(request).argv)

    def test_without_a_gpu_it_is_shown_and_not_run(self, megatron_clone, monkeypatch):
        monkeypatch.setattr(logged_training, "DRIVER_FILES", {"cuda": ()})
        assert (
            megatron.LAUNCHER.unavailable() == "Megatron-LM needs a GPU, and this machine has none"
        )
        request, notes = by_name("megatron").resolve_config("llama", RequestedConfig(), CPU, OUT)
        assert request.platform == "nvd"
        assert (
            "Megatron-LM needs a GPU, and this machine has none; this dry run is for 1 of NVIDIA"
            in notes[0]
        )

    def test_without_a_clone(self, monkeypatch, tmp_path):
        monkeypatch.delenv(megatron.CLONE.variable, raising=False)
        with pytest.raises(UsageError, match="set MEGATRON_PATH to a clone of Megatron-LM"):
            by_name("megatron").resolve_config("llama", RequestedConfig(), H100S, OUT)
        monkeypatch.setenv(megatron.CLONE.variable, str(tmp_path))
        monkeypatch.setattr(logged_training, "DRIVER_FILES", {"cuda": ("/",)})
        assert "has no pretrain_gpt.py" in megatron.LAUNCHER.unavailable()


class TestTorchtitan:
    def test_the_options_of_releases_up_to_0_2_2(self, torchtitan_clone):
        request, _ = by_name("torchtitan").resolve_config("llama", RequestedConfig(), H100S, OUT)
        words = torchtitan.LAUNCHER.launch(request).argv
        assert {
            "--local-ranks-filter=0",
            f"--job.config_file={torchtitan.CONFIGURATION}",
            "--training.dataset=c4_test",
            "--training.global_batch_size=64",
            "--metrics.log_freq=1",
            "--compile.enable",
            "--profiling.no-enable_profiling",
        } <= set(words)

    @pytest.mark.parametrize(
        ("has_debug", "option"), [(False, "--training.seed=7"), (True, "--debug.seed=7")]
    )
    def test_the_seed_is_passed_by_the_name_of_the_release(
        self, torchtitan_clone, has_debug, option
    ):
        # 0.2.0 has it among the settings of training, 0.2.1 and later in a section of its own.
        options = torchtitan_clone / torchtitan.OPTIONS
        options.write_text(torchtitan.NEEDED + "\nclass Debug:\n" * has_debug)
        request, _ = by_name("torchtitan").resolve_config(
            "llama", RequestedConfig(seed=7), H100S, OUT
        )
        assert [
            word for word in by_name("torchtitan").launcher.launch(request).argv if "seed" in word
        ] == [option]

    def test_0_1_0_is_refused_with_what_to_do(self, torchtitan_clone, monkeypatch):
        # It defines its options in torchtitan/config_manager.py, and compiles by
        # --training.compile.
        (torchtitan_clone / torchtitan.OPTIONS).unlink()
        monkeypatch.setattr(logged_training, "DRIVER_FILES", {"cuda": ("/",)})
        words = (
            f"older than torchtitan 0.2.0, .*: git -C {re.escape(str(torchtitan_clone))} checkout"
            " v0.2.2"
        )
        assert re.search(words, torchtitan.LAUNCHER.unavailable())
        with pytest.raises(UsageError, match=words):
            by_name("torchtitan").resolve_config("llama", RequestedConfig(), H100S, OUT)

    def test_newer_ones_take_a_configuration_of_ours(self, torchtitan_clone):
        path = torchtitan_clone / torchtitan.REGISTRY
        path.parent.mkdir(parents=True)
        path.write_text("")
        request, _ = by_name("torchtitan").resolve_config("llama", RequestedConfig(), H100S, OUT)
        made = torchtitan.LAUNCHER.launch(request)
        assert made.argv[-2:] == (
            "--module=tprimat.frameworks.torchtitan.registry",
            "--config=requested",
        )
        assert Request.from_arguments(shlex.split(made.env[registry.REQUEST])) == request

    @pytest.mark.parametrize("generation", TITAN_GENERATIONS)
    def test_the_configuration_has_the_requests_choices(
        self, torchtitan_clone, monkeypatch, generation
    ):
        request, _ = by_name("torchtitan").resolve_config("llama", RequestedConfig(), H100S, OUT)
        monkeypatch.setenv(registry.REQUEST, shlex.join(request.to_arguments()))
        optimizer, checkpointing, training, dataset = TITAN_GENERATIONS[generation]
        config = Fields(
            profiler=Fields(enable_profiling=True),
            metrics=Fields(log_freq=10, enable_tensorboard=True),
            compile=Fields(enable=False),
            lr_scheduler=Fields(warmup_steps=200, decay_ratio=None),
            optimizer=Fields(**optimizer),
            dataloader=Fields(dataset=dataset),
            training=Fields(steps=1000, max_norm=2.0, **training),
            activation_checkpoint=Fields(**checkpointing),
            debug=Fields(seed=None),
        )
        modules = {
            "torchtitan.models.llama3": {
                "config_registry": SimpleNamespace(llama3_8b=lambda: config)
            },
            "torchtitan.components.optimizer": {
                "default_adamw": lambda **settings: SimpleNamespace(**settings)
            },
            "torchtitan.hf_datasets.text_datasets": {"DATASETS": {"c4_test": "the extract"}},
        }
        for name, content in modules.items():
            monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
        assert registry.requested() is config
        assert not config.profiler.enable_profiling
        assert config.compile.enable
        assert config.debug.seed == request.seed
        assert (config.metrics.log_freq, config.training.steps, config.optimizer.lr) == (
            1,
            200,
            1.25e-4,
        )
        if "seq_len" in training:
            assert (config.training.local_batch_size, config.training.global_batch_size) == (1, 64)
            assert (config.activation_checkpoint.mode, config.dataloader.dataset) == (
                "none",
                "c4_test",
            )
        else:
            assert (
                config.training.num_tokens_per_train_step == 64 * config.training.max_context_length
            )
            assert (
                config.training.num_tokens_per_microbatch_per_dp_rank
                == config.training.max_context_length
                == 2048
            )
            assert config.activation_checkpoint is None
            assert config.dataloader.dataset.dataset == "the extract"

    @pytest.mark.parametrize(
        ("model", "wishes", "words"),
        [
            ("qwen", RequestedConfig(), "torchtitan has no qwen"),
            ("llama", RequestedConfig(scale="tiny"), "at full size only"),
            ("llama", RequestedConfig(precision="fp16"), "does not support fp16 here"),
        ],
    )
    def test_what_it_does_not_train(self, torchtitan_clone, model, wishes, words):
        with pytest.raises(UsageError, match=words):
            by_name("torchtitan").resolve_config(model, wishes, H100S, OUT)
