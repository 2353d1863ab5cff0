"""The framework nemo: whether it can run, the choices, the command; NeMo itself isn't needed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.nemo import resolve as nemo_resolve
from tprimat.frameworks.nemo.defaults import PUBLISHED, RECIPES, choose
from tprimat.frameworks.request import Device, Request, RequestedConfig
from tprimat.machine import host as hosts
from tprimat.results.run import ModelConfig

OUTPUT = Path("/some/where")


def device(devices=8, memory=80e9, architecture="sm_90", name="NVIDIA H100 80GB HBM3"):
    return Device("nvd", devices, memory, architecture, name)


def resolve(model="llama", where=None, **requested):
    return by_name("nemo").resolve_config(
        model, RequestedConfig(**requested), where or device(), OUTPUT
    )


class TestDefaults:
    def test_every_model_has_its_recipes_own(self):
        assert {row.model for row in RECIPES} == set(models.names())

    def test_every_row_says_where_it_is_from(self):
        assert all(row.source.startswith("https://") for row in (*PUBLISHED, *RECIPES))

    @pytest.mark.parametrize(
        ("gpu", "precision", "expected"),
        [
            ("H100", "bf16", (1, 2, 1, 128, False)),
            ("B200", "fp8", (1, 1, 2, 128, True)),
            ("GB200", "fp8", (1, 1, 4, 128, True)),
            ("A100 80GB", "bf16", (1, 2, 1, 512, False)),
        ],
    )
    def test_llama_on_a_card(self, gpu, precision, expected):
        row = choose("llama", "performance", gpu, precision)
        found = (
            row.tensor,
            row.context,
            row.micro_batch_size,
            row.global_batch_size,
            row.cuda_graphs,
        )
        assert found == expected

    def test_the_h200_has_none_of_its_own_and_that_is_said(self):
        request, notes = resolve(
            where=device(memory=141e9, name="NVIDIA H200"), preset="performance"
        )
        assert request.global_batch_size == 128
        assert any("publishes no settings for this GPU" in note for note in notes)

    def test_a_model_without_published_figures(self):
        request, notes = resolve("qwen")
        assert (request.tensor_model_parallel_size, request.micro_batch_size) == (2, 2)
        assert any(
            "NVIDIA publishes no configuration of this model for H100" in note for note in notes
        )

    def test_the_older_default_by_name(self):
        request, _ = resolve(preset="classic")
        assert (request.global_batch_size, request.sequence_length) == (128, 2048)
        assert (request.tensor_model_parallel_size, request.precision) == (4, "fp8")


class TestResolving:
    def test_fewer_gpus_shrink_batch_and_division(self):
        request, notes = resolve(where=device(1, 288e9, "sm_100", "NVIDIA B300 SXM6 AC"))
        assert request.context_parallel_size == 1
        assert any(
            "1 GPU: tensor 1, pipeline 1, context 1 parallel instead of 1, 1, 2" in note
            for note in notes
        )

    def test_the_global_batch_grows_with_the_gpus(self):
        assert resolve(num_gpus=4, preset="performance")[0].global_batch_size == 64
        assert resolve(num_gpus=16, num_nodes=2, preset="performance")[0].global_batch_size == 256

    @pytest.mark.parametrize(
        ("model", "batch", "published"),
        [("llama", 32, 128), ("mistral", 32, 512), ("qwen", 32, 32)],
    )
    def test_a_step_without_a_preset_has_few_micro_batches(self, model, batch, published):
        # 128 sequences take 17 s on eight H100s at 40 % of the peak: too few steps within the time
        # limit.
        request, notes = resolve(model)
        assert request.global_batch_size == batch
        said = f"keeps the global batch of {published}"
        assert any(said in note for note in notes) is (batch != published)
        assert resolve(model, preset="performance")[0].global_batch_size == published

    @pytest.mark.parametrize(
        ("requested", "words"),
        [
            (
                {"tensor_model_parallel_size": 3},
                "needs a multiple of 6 GPUs|needs a multiple of 3 GPUs",
            ),
            ({"global_batch_size": 5}, "the nearest are 4 and 8"),
            ({"precision": "fp32"}, "nemo does not support fp32 here"),
            ({"context_parallel_size": 8, "sequence_length": 100}, "multiple of 16"),
            ({"num_gpus": 9}, "this machine has 8 GPUs"),
            ({"scale": "huge"}, "unknown scale 'huge'"),
            (
                {"pipeline_model_parallel_size": 8, "context_parallel_size": 1, "scale": "tiny"},
                "4 layers cannot",
            ),
        ],
    )
    def test_what_cant_be_is_refused_with_what_can(self, requested, words):
        with pytest.raises(UsageError, match=words):
            resolve(**requested)

    def test_a_gpu_that_is_too_small_names_what_fits(self):
        with pytest.raises(
            UsageError, match=r"144\.5\d GB of each GPU.*use more GPUs, or --scale quarter"
        ):
            resolve(where=device(1), scale="full")

    @pytest.mark.parametrize(
        ("model", "gpus", "memory", "scale"),
        [
            ("llama", 1, 85e9, "quarter"),
            ("qwen", 1, 85e9, "quarter"),
            ("mistral", 1, 85e9, "half"),
            ("llama", 1, 25.8e9, "1b"),
            ("llama", 8, 85e9, "full"),
        ],
    )
    def test_without_a_scale_the_largest_that_fits_is_trained(self, model, gpus, memory, scale):
        request, notes = resolve(model, device(gpus, memory))
        assert request.scale == scale
        said = f"scale {scale} is trained, the largest that fits"
        assert any(said in note for note in notes) is (scale != "full")

    def test_fp8_takes_a_card_that_has_it(self):
        with pytest.raises(UsageError, match="FP8 needs a GPU of sm_89"):
            resolve(
                precision="fp8", where=device(architecture="sm_80", name="NVIDIA A100-SXM4-80GB")
            )

    def test_mxfp8_takes_a_blackwell(self):
        with pytest.raises(UsageError, match="MXFP8 needs a GPU of sm_100"):
            resolve(precision="mxfp8")
        request, _ = resolve(precision="mxfp8", where=device(8, 180e9, "sm_100", "NVIDIA B200"))
        assert (request.precision, request.vendor_settings, request.cuda_graphs) == (
            "mxfp8",
            True,
            True,
        )

    def test_a_processor_is_refused(self):
        with pytest.raises(UsageError, match="chooses a framework that is installed"):
            resolve(where=Device("cpu", 2, 24e9))

    def test_the_time_that_it_will_take(self):
        _, notes = resolve(steps=60, preset="performance")
        (expected,) = [note for note in notes if note.startswith("estimated time")]
        # 8.2e10·… FLOP/token by hand: 5.147e10 × 128 × 8192 / (989.5e12 × 0.4 × 8) = 17.0 s a step.
        assert expected.startswith("estimated time: 19 min")

    def test_a_matched_shape_of_full_size_is_the_full_model(self):
        shape = models.by_name("llama").shape
        assert resolve(shape=shape)[0].scale == "full"

    def test_another_matched_shape_is_taken_over(self):
        other = ModelConfig(
            num_layers=3,
            hidden_size=256,
            num_attention_heads=8,
            num_query_groups=8,
            ffn_hidden_size=512,
            vocab_size=4096,
        )
        request, _ = resolve(shape=other)
        assert request.scale == "other"
        assert request.shape is not None
        assert request.shape.num_layers == 3


class TestLaunch:
    def test_torchrun_for_several_gpus_and_none_for_one(self):
        several = nemo.LAUNCHER.launch(resolve()[0]).argv
        assert several[1:5] == ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=8")
        one = nemo.LAUNCHER.launch(resolve(num_gpus=1, scale="quarter")[0]).argv
        assert one[1:3] == ("-m", nemo.LAUNCHER.program)

    def test_its_options_are_the_request(self):
        request, _ = resolve(
            settings=("optim.config.lr=1e-4", "trainer.log_every_n_steps=1"),
            data="tokens",
            label="a b",
        )
        argv = nemo.LAUNCHER.launch(request).argv
        assert Request.from_arguments(argv[argv.index(nemo.LAUNCHER.program) + 1 :]) == request

    def test_the_allocator_unless_it_is_set(self, monkeypatch):
        monkeypatch.delenv(nemo.ALLOCATOR, raising=False)
        monkeypatch.delenv(nemo.ALSO_ALLOCATOR, raising=False)
        assert nemo.environment(resolve()[0])[nemo.ALLOCATOR] == "expandable_segments:True"
        monkeypatch.setenv(nemo.ALLOCATOR, "backend:native")
        assert nemo.environment(resolve()[0])[nemo.ALLOCATOR] == "backend:native"

    def test_the_allocator_by_its_newer_name(self, monkeypatch):
        monkeypatch.delenv(nemo.ALLOCATOR, raising=False)
        monkeypatch.setenv(nemo.ALSO_ALLOCATOR, "backend:native")
        assert nemo.ALLOCATOR not in nemo.environment(resolve()[0])

    @pytest.mark.parametrize(
        ("gpu", "settings"),
        [
            ("NVIDIA B200", None),
            ("NVIDIA GB200", None),
            ("NVIDIA H100", ("model.config.enable_cuda_graph=true",)),
        ],
    )
    def test_cuda_graphs_go_without_expandable_segments(self, monkeypatch, gpu, settings):
        # Megatron-LM core_v0.15.3, cuda_graphs.py:1062, asserts that the variable has no
        # expandable_segments:True.
        monkeypatch.delenv(nemo.ALLOCATOR, raising=False)
        request, _ = resolve(where=device(8, 180e9, "sm_100", gpu), settings=settings)
        assert nemo.ALLOCATOR not in nemo.environment(request)
        # One that the user has set would be inherited. Empty is torch's default.
        monkeypatch.setenv(nemo.ALLOCATOR, "expandable_segments:True")
        assert nemo.environment(request)[nemo.ALLOCATOR] == ""
        monkeypatch.setenv(nemo.ALLOCATOR, "max_split_size_mb:512,expandable_segments:True")
        assert nemo.environment(request)[nemo.ALLOCATOR] == "max_split_size_mb:512"

    @pytest.mark.parametrize(
        ("model", "gpu", "tensor", "is_tuned", "connections"),
        [
            ("llama", "NVIDIA H100", None, True, "1"),
            ("llama", "NVIDIA B200", None, True, None),
            ("llama", "NVIDIA B200", 2, True, "32"),
            ("qwen", "NVIDIA H100", None, False, "1"),
            ("qwen", "NVIDIA B200", None, False, "32"),
        ],
    )
    def test_nvidias_settings_for_speed_where_it_publishes_some(
        self, monkeypatch, model, gpu, tensor, is_tuned, connections
    ):
        # PerfEnvPlugin of NeMo 8cfedd7, nemo/lightning/run/plugins.py:347, and
        # scripts/performance/executors.py.
        for name in (*nemo.TUNED, "CUDA_DEVICE_MAX_CONNECTIONS"):
            monkeypatch.delenv(name, raising=False)
        architecture = "sm_90" if "H100" in gpu else "sm_100"
        request, _ = resolve(
            model, device(8, 180e9, architecture, gpu), tensor_model_parallel_size=tensor
        )
        chosen = nemo.environment(request)
        tuned = {
            "NCCL_NVLS_ENABLE": "0",
            "NVTE_FWD_LAYERNORM_SM_MARGIN": "16",
            "NVTE_BWD_LAYERNORM_SM_MARGIN": "16",
            "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
            "TORCH_NCCL_HIGH_PRIORITY": "1",
        }
        assert {name: chosen[name] for name in tuned if name in chosen} == (
            tuned if is_tuned else {}
        )
        assert chosen.get("CUDA_DEVICE_MAX_CONNECTIONS") == connections
        monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
        assert nemo.environment(resolve("llama")[0])["NCCL_NVLS_ENABLE"] == "1"

    def test_what_is_set_is_recorded(self, monkeypatch):
        monkeypatch.delenv(nemo.ALLOCATOR, raising=False)
        monkeypatch.delenv(nemo.ALSO_ALLOCATOR, raising=False)
        chosen = nemo.environment(resolve()[0])
        recorded = hosts.settings(chosen)
        for name in (nemo.ALLOCATOR, "CUDA_DEVICE_MAX_CONNECTIONS"):
            assert recorded[name] == chosen[name]

    def test_under_torchrun_the_training_has_them_too(self, monkeypatch):
        training = pytest.importorskip("tprimat.frameworks.nemo.training")
        request, _ = resolve(where=device(8, 180e9, "sm_100", "NVIDIA B200"))
        seen = {}
        monkeypatch.setattr(
            os, "environ", {**os.environ, nemo.ALLOCATOR: "expandable_segments:True"}
        )
        monkeypatch.setitem(
            sys.modules,
            "nemo_run",
            SimpleNamespace(run=lambda recipe, direct: seen.update(os.environ)),
        )
        monkeypatch.setattr(training.nemo_recipe, "build", lambda request: None)
        training.train(request)
        assert {name: seen[name] for name in nemo.environment(request)} == nemo.environment(request)
        assert seen[nemo.ALLOCATOR] == ""

    def test_the_seed_reaches_megatron(self):
        assert nemo.environment(resolve(seed=7)[0])[nemo.SEED_VARIABLE] == "7"


class TestAvailability:
    @pytest.fixture
    def packages(self, monkeypatch, tmp_path):
        """Says which packages are there: packages({"nemo": folder, "nemo_run": None})."""

        def there(found):
            def find_spec(name):
                if name not in found:
                    return None
                spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [str(found[name] or tmp_path)]
                return spec

            monkeypatch.setattr(importlib.util, "find_spec", find_spec)

        return there

    def test_missing(self, packages):
        packages({})
        assert "NeMo isn't installed" in nemo.LAUNCHER.unavailable()

    def test_a_release_without_recipes(self, packages, tmp_path):
        packages({"nemo": tmp_path})
        assert (
            "no recipes for language models, which 2.7.3 was the last to have"
            in nemo.LAUNCHER.unavailable()
        )

    def test_without_modelopt_the_recipes_vanish(self, packages, tmp_path):
        (tmp_path / "collections" / "llm" / "recipes").mkdir(parents=True)
        packages(dict.fromkeys(("nemo", "nemo_run", "megatron", "lightning"), tmp_path))
        assert "lacks modelopt" in nemo.LAUNCHER.unavailable()
        packages(dict.fromkeys(("nemo", "nemo_run", "megatron", "lightning", "modelopt"), tmp_path))
        assert nemo.LAUNCHER.unavailable() is None

    @pytest.mark.parametrize(
        ("parameters", "trains"),
        [
            ("config, model_chunks, no_weight_decay_cond", True),
            ("config, model_chunks, config_overrides", False),
        ],
    )
    def test_megatron_core_without_an_argument_that_nemo_passes(
        self, packages, tmp_path, parameters, trains
    ):
        # As get_megatron_optimizer is in Megatron-LM's tags core_v0.15.3 and core_v0.16.1.
        (tmp_path / "collections" / "llm" / "recipes").mkdir(parents=True)
        optimizer = tmp_path / nemo.OPTIMIZER
        optimizer.parent.mkdir(parents=True)
        optimizer.write_text(f"def get_megatron_optimizer({parameters}): ...")
        packages(dict.fromkeys(("nemo", "nemo_run", "megatron", "lightning", "modelopt"), tmp_path))
        reason = nemo.LAUNCHER.unavailable()
        assert (reason is None) is trains
        assert trains or ("0.15.3 is the last" in reason and "nvcr.io/nvidia/nemo:25.11" in reason)


def test_the_memory_of_a_divided_model():
    request, _ = resolve()
    parameters = models.by_name("llama").shape.num_parameters
    # 4 replicas × 2 context: bf16 weights and fp32 gradients whole, twelve bytes in eight parts.
    assert nemo_resolve.bytes_needed(request, models.by_name("llama").shape) == pytest.approx(
        parameters * (6 + 12 / 8)
    )
