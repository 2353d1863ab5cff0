"""The recipes as NeMo makes them, with our changes; nothing is trained."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import socket

import pytest

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.nemo import convert as nemo_convert
from tprimat.frameworks.nemo import fields as nemo_fields
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.request import Device, RequestedConfig

H100 = Device("nvd", 8, 80e9, "sm_90", "NVIDIA H100 80GB HBM3")


@pytest.fixture
def request_of(tmp_path):
    def make(model="llama", **wishes):
        return by_name("nemo").resolve_config(
            model, RequestedConfig(steps=50, **wishes), H100, tmp_path
        )[0]

    return make


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise OSError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("model", models.names())
class TestEveryModel:
    def test_what_a_measurement_takes_is_changed(self, model, request_of):
        request = request_of(model)
        recipe = nemo_recipe.build(request)
        shape = models.by_name(model).shape
        config = recipe.model.config
        assert recipe.resume is None
        assert (recipe.log.ckpt, recipe.log.tensorboard, recipe.log.wandb) == (None, None, None)
        assert (recipe.trainer.logger, recipe.trainer.enable_checkpointing) == (False, False)
        assert (recipe.trainer.max_steps, recipe.trainer.limit_val_batches) == (50, 0)
        assert config.seq_length == recipe.data.seq_length == request.sequence_length
        assert (config.num_layers, config.hidden_size, config.vocab_size) == (
            shape.num_layers,
            shape.hidden_size,
            shape.vocab_size,
        )
        assert recipe.data.global_batch_size == request.global_batch_size

    def test_the_data_are_the_models_own_vocabulary_and_need_no_network(
        self, model, request_of, no_network
    ):
        import fiddle

        data = fiddle.build(nemo_recipe.build(request_of(model)).data)
        assert data.tokenizer.vocab_size == models.by_name(model).shape.vocab_size

    def test_it_survives_being_written_down(self, model, request_of):
        import fiddle
        from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

        request = request_of(
            model, settings=("trainer.strategy.sequence_parallel=true",), label="a b"
        )
        recipe = nemo_recipe.build(request)
        again = ZlibJSONSerializer().deserialize(ZlibJSONSerializer().serialize(recipe))
        assert again == recipe
        assert again.trainer.strategy.sequence_parallel is True
        (recording,) = [
            each
            for each in again.trainer.callbacks
            if each.__fn_or_cls__.__name__ == "NemoBenchmark"
        ]
        assert fiddle.build(recording).request == request

    def test_the_built_model_is_the_one_of_the_table(self, model, request_of):
        import fiddle

        # Megatron's fused rotary embedding comes with Transformer Engine, which isn't here.
        recipe = nemo_recipe.build(
            request_of(model, settings=("model.config.apply_rope_fusion=false",))
        )
        config = fiddle.build(recipe.model.config)
        row = models.by_name(model)
        assert (config.kv_channels, config.num_query_groups) == (
            row.shape.head_dim,
            row.shape.num_query_groups,
        )
        assert config.rotary_base == row.settings["rope_theta"]
        assert config.window_size is None


def test_fp8_is_the_hybrid_of_nemos_own_plugin(request_of):
    plugin = nemo_recipe.build(request_of(precision="fp8")).trainer.plugins
    assert (plugin.precision, plugin.fp8) == ("bf16-mixed", "hybrid")


def test_division_and_graphs_reach_the_recipe(request_of):
    request = request_of(
        tensor_model_parallel_size=2, pipeline_model_parallel_size=2, context_parallel_size=1
    )
    recipe = nemo_recipe.build(dataclasses.replace(request, cuda_graphs=True))
    strategy = recipe.trainer.strategy
    assert (strategy.tensor_model_parallel_size, strategy.pipeline_model_parallel_size) == (2, 2)
    assert recipe.model.config.enable_cuda_graph is True


@pytest.mark.parametrize("precision", ["bf16", "fp8", "mxfp8"])
def test_a_tuned_recipe_has_what_nvidias_script_sets(request_of, precision):
    # set_perf_optimization_configs and set_precision_configs of NeMo 8cfedd7,
    # scripts/performance/helpers.py.
    request = request_of(tensor_model_parallel_size=2, context_parallel_size=1)
    recipe = nemo_recipe.build(
        dataclasses.replace(request, vendor_settings=True, precision=precision)
    )
    ddp = recipe.trainer.strategy.ddp
    assert (ddp.check_for_nan_in_grad, ddp.check_for_large_grads) == (False, False)
    assert recipe.trainer.strategy.sequence_parallel is True
    assert recipe.model.config.cross_entropy_fusion_impl == "te"
    assert recipe.trainer.plugins.grad_reduce_in_fp32 is False
    assert recipe.optim.config.use_precision_aware_optimizer is (precision == "bf16")
    (overlap,) = [
        each for each in recipe.trainer.callbacks if "CommOverlap" in each.__fn_or_cls__.__name__
    ]
    assert (overlap.tp_comm_overlap, getattr(overlap, "overlap_param_gather", None) is False) == (
        False,
        precision == "mxfp8",
    )
    assert getattr(recipe.trainer.plugins, "fp8_recipe", None) == {"mxfp8": "mxfp8"}.get(
        precision, "delayed"
    )


def test_an_unknown_field_names_the_nearest(request_of):
    recipe = nemo_recipe.build(request_of())
    with pytest.raises(UsageError, match="nearest are sequence_parallel"):
        nemo_fields.assign(recipe, "trainer.strategy.sequence_paralel=true")
    with pytest.raises(UsageError, match="--global-batch-size"):
        nemo_fields.assign(recipe, "data.global_batch_size=3")


def test_the_recipe_can_be_shown(request_of):
    lines = list(nemo_recipe.lines(nemo_recipe.build(request_of())))
    assert "trainer.strategy.context_parallel_size = 2" in lines
    assert "resume = None" in lines


def test_what_nemo_run_hands_to_other_processes_has_our_callback(
    request_of, tmp_path, monkeypatch, capfd
):
    import nemo_run as run
    from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

    from tprimat.frameworks.nemo.recording import NemoBenchmark

    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "500")
    executor = run.LocalExecutor(ntasks_per_node=8, launcher="torchrun")
    with run.Experiment("bench", executor=executor, base_dir=str(tmp_path)) as experiment:
        experiment.add(nemo_recipe.build(request_of()), executor=executor, name="llama")
        experiment.dryrun(delete_exp_dir=False)
    (written,) = tmp_path.rglob("llama_fn_or_script")
    recipe = ZlibJSONSerializer().deserialize(written.read_text())
    assert recipe.trainer.callbacks[-1].__fn_or_cls__ is NemoBenchmark
    assert "--nproc-per-node" in capfd.readouterr().out


@pytest.fixture
def without_fused_rope(monkeypatch):
    """NeMo's configurations of models, which ask for Transformer Engine by default."""
    from nemo.collections import llm

    for _, _, config in nemo_convert.CLASSES.values():
        monkeypatch.setattr(
            llm, config, functools.partial(getattr(llm, config), apply_rope_fusion=False)
        )


@pytest.mark.usefixtures("without_fused_rope")
def test_the_converters_are_called_as_nemo_has_them(tmp_path, monkeypatch):
    from nemo.collections import llm

    called = []

    def stand_in(plain):
        return lambda *args, **kwargs: called.append(
            inspect.signature(plain).bind(*args, **kwargs).arguments
        )

    for name in ("import_ckpt", "export_ckpt"):
        monkeypatch.setattr(llm, name, stand_in(getattr(llm, name)))
    for model, title in (
        ("llama", "LlamaModel"),
        ("qwen", "Qwen2Model"),
        ("mistral", "MistralModel"),
    ):
        nemo_convert.to_nemo(model, "hf://org/name", tmp_path, overwrite=False)
        assert type(called[-1]["model"]).__name__ == title
        assert called[-1]["source"] == "hf://org/name"
    nemo_convert.to_hugging_face(tmp_path, tmp_path / "hf", overwrite=True)
    assert (called[-1]["path"], called[-1]["target"], called[-1]["overwrite"]) == (
        tmp_path,
        "hf",
        True,
    )


@pytest.mark.usefixtures("without_fused_rope")
def test_a_model_that_cant_be_had_is_one_line(tmp_path, monkeypatch):
    from nemo.collections import llm

    def gated(**_):
        raise OSError("You are trying to access a gated repo.\nMake sure to have access to it")

    monkeypatch.setattr(llm, "import_ckpt", gated)
    with pytest.raises(
        UsageError, match="meta/x: You are trying to access a gated repo: a gated model needs"
    ):
        nemo_convert.to_nemo("llama", "hf://meta/x", tmp_path, overwrite=False)


def test_a_conversion_without_transformer_engine_is_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"Please install TE.*: NeMo needs Transformer Engine"):
        nemo_convert.to_nemo("llama", "hf://meta/x", tmp_path, overwrite=False)
