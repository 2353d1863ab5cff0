from __future__ import annotations

import json
import types

import pytest

from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import models, shapes
from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.run import ModelConfig


def config(**fields):
    return types.SimpleNamespace(**fields)


LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "rope_theta": 5e5,
}


def test_transformers_names_are_ours_in_other_words():
    shape = shapes.of_config(config(**LLAMA))
    assert shape.known() == {
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "head_dim": 128,
        "ffn_hidden_size": 14336,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "gated_ffn": True,
        "source": "types SimpleNamespace",
    }
    assert shapes.name_of(shape, object()) == "llama"
    assert shapes.missing(shape) is None


def test_a_saved_configuration_serves_as_well():
    assert shapes.model_config_of(LLAMA).ffn_hidden_size == 14336
    assert shapes.model_config_of(LLAMA).source == "argument model_config"


@pytest.mark.parametrize("name", models.names())
def test_the_real_configurations_of_our_models_give_their_shapes(name):
    transformers = pytest.importorskip("transformers")
    model = models.by_name(name)
    row = model.shape
    made = getattr(transformers, model.architecture)(
        num_hidden_layers=row.num_layers,
        hidden_size=row.hidden_size,
        num_attention_heads=row.num_attention_heads,
        num_key_value_heads=row.num_query_groups,
        intermediate_size=row.ffn_hidden_size,
        vocab_size=row.vocab_size,
        **model.settings,
    )
    shape = shapes.model_config_of(made)
    for field in (
        "num_layers",
        "hidden_size",
        "num_query_groups",
        "head_dim",
        "ffn_hidden_size",
        "vocab_size",
    ):
        assert getattr(shape, field) == getattr(row, field)
    assert shape.sliding_window is None
    assert shapes.name_of(shape, object()) == name
    assert shape.source == f"transformers {model.architecture}"


def test_megatrons_names_too():
    shape = shapes.of_config(
        config(
            num_layers=32,
            hidden_size=4096,
            num_attention_heads=32,
            num_query_groups=8,
            kv_channels=128,
            ffn_hidden_size=14336,
            vocab_size=32768,
            gated_linear_unit=True,
            window_size=[4096, 0],
            share_embeddings_and_output_weights=False,
            num_moe_experts=None,
        )
    )
    assert (shape.num_layers, shape.num_query_groups, shape.sliding_window, shape.gated_ffn) == (
        32,
        8,
        4096,
        True,
    )
    assert shape.ffn_hidden_size == 14336


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model_type": "dbrx", "num_local_experts": 8}, "experts"),
        ({"model_type": "gpt_neox"}, "two feed-forward matrices"),
        ({"num_local_experts": 8, "model_type": None}, "experts without a type"),
        (
            {"model_type": "qwen2", "layer_types": ["full_attention", "sliding_attention"]},
            "windows in some layers",
        ),
    ],
)
def test_rather_no_flops_than_those_of_another_model(fields, reason):
    shape = shapes.of_config(config(**{**LLAMA, **fields}))
    assert shape.num_layers == 32, reason
    assert shape.ffn_hidden_size is None
    assert "ffn_hidden_size unknown from types SimpleNamespace: no FLOPs" in words(
        shapes.missing(shape)
    )


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"sliding_window": 4096}, 4096),
        ({"sliding_window": 4096, "use_sliding_window": False}, None),
        ({"sliding_window": None}, None),
        ({"sliding_window": 1024, "layer_types": ["sliding_attention"] * 2}, 1024),
        ({"sliding_window": 1024, "layer_types": ["full_attention"] * 2}, None),
    ],
)
def test_a_window_counts_where_all_layers_have_it(fields, window):
    assert shapes.of_config(config(**{**LLAMA, **fields})).sliding_window == window


@pytest.mark.parametrize(
    ("fields", "window", "unbounded"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 16}, 1024, 16),
        ({"layer_types": ["sliding_attention"] * 28 + ["full_attention"] * 4}, 1024, 4),
        # Before layer_types existed.
        ({"model_type": "gemma2"}, 1024, 16),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 6}, 1024, 5),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 28}, 1024, 28),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 32}, None, None),
        ({"model_type": "qwen2", "use_sliding_window": False, "max_window_layers": 28}, None, None),
        ({"model_type": "mistral"}, 1024, 0),
    ],
)
def test_layers_without_the_window_are_counted(fields, window, unbounded):
    shape = shapes.of_config(config(**{**LLAMA, "sliding_window": 1024, **fields}))
    assert (shape.sliding_window, shape.full_attention_layers) == (window, unbounded)
    assert shape.ffn_hidden_size == 14336


@pytest.mark.parametrize(
    ("skipped", "unbounded"),
    [(2, 16), (None, 0), ([1, 1, 1, 0] * 8, 8)],
    ids=["every second", "none", "listed"],
)
def test_megatrons_layers_without_the_window_are_counted(skipped, unbounded):
    shape = shapes.of_config(
        config(
            num_layers=32,
            hidden_size=64,
            num_attention_heads=4,
            ffn_hidden_size=96,
            vocab_size=100,
            window_size=[128, 0],
            window_attn_skip_freq=skipped,
        )
    )
    assert (shape.sliding_window, shape.full_attention_layers) == (128, unbounded)


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_types": ["chunked_attention", "sliding_attention"] * 16, "sliding_window": 1024},
        {"layer_types": ["sliding_attention", "full_attention"] * 16},
        {"sliding_window": 1024, "sliding_window_pattern": "LLLG"},
    ],
    ids=["another kind", "a window of unknown size", "a pattern of letters"],
)
def test_kinds_of_layers_that_are_not_known_leave_no_flops(fields):
    assert shapes.of_config(config(**{**LLAMA, **fields})).ffn_hidden_size is None


def test_a_modules_own_configuration_is_found():
    torch = pytest.importorskip("torch")

    class Inner(torch.nn.Module):
        config = config(**LLAMA)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Inner()

    assert shapes.of_module(Inner()).num_layers == 32
    assert shapes.of_module(Outer()).num_layers == 32
    assert shapes.of_module(torch.nn.Linear(1, 1)) is None


def test_parameters_that_are_trained_are_counted_where_some_are_frozen():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(
        torch.nn.Linear(10, 10, bias=False), torch.nn.Linear(10, 1, bias=False)
    )
    whole = shapes.with_parameters(None, module)
    assert (whole.num_parameters, whole.trainable_parameters) == (110, None)
    module[0].requires_grad_(False)
    assert shapes.with_parameters(None, module).trainable_parameters == 10
    module.requires_grad_(False)
    assert shapes.with_parameters(None, module).trainable_parameters is None


def test_our_own_names_in_a_dict():
    shape = shapes.model_config_of({"num_layers": 2, "hidden_size": 64})
    assert shape == ModelConfig(num_layers=2, hidden_size=64)
    assert shapes.model_config_of(shape) is shape
    assert (
        words(shapes.missing(shape))
        == "num_attention_heads and ffn_hidden_size and vocab_size unknown from model_config: no"
        " FLOPs, no MFU; pass model_config="
    )
    assert shapes.missing(ModelConfig()) == Note("shape-unknown")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"layers": 2}, "has no field 'layers'"),
        ({"num_layers": "two"}, "Expected `int | null`, got `str`"),
        ({"num_layers": -2}, "Expected `int` >= 1"),
        ({"num_hidden_layers": 2, "hidden_size": -5}, "Expected `int` >= 1"),
        (7, "is a int"),
    ],
)
def test_a_wrong_shape_is_one_line(wrong, said):
    with pytest.raises(UsageError) as caught:
        shapes.model_config_of(wrong)
    assert said in caught.value.line()
    assert caught.value.line().startswith("error: ")
    assert caught.value.heading == "benchmark-callback"


def test_an_unknown_model_is_called_after_its_class():
    assert shapes.name_of(ModelConfig(), object()) == "object"


QWEN3_MOE = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [], "decoder_sparse_step": 1,
    "vocab_size": 151936, "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": None,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "num_nextn_predict_layers": 1, "vocab_size": 129280, "tie_word_embeddings": False,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
    "num_experts_per_tok": 4, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12,
    "vocab_size": 201088, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "sliding_window": None, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_NEXT = {
    "model_type": "qwen3_5_moe", "num_hidden_layers": 40, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "moe_intermediate_size": 512, "num_experts": 256,
    "num_experts_per_tok": 8, "shared_expert_intermediate_size": 512, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10, "vocab_size": 248320,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (QWEN3_MOE, "qwen-3-30b-a3b"),
        (DEEPSEEK_V3, "deepseek-v3"),
        (GPT_OSS, "gpt-oss-20b"),
        (MIXTRAL, "mixtral-8x7b"),
        (QWEN_NEXT, "qwen-3.6-35b-a3b"),
    ],
)
def test_a_configuration_with_experts_has_the_flops_of_its_row(fields, name):
    shape = shapes.of_config(config(**fields))
    row = models.find(name)
    assert flops_per_token(shape, 4096) == flops_per_token(row.shape, 4096)
    assert models.with_shape(shape) is row


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        (QWEN3_MOE, {"decoder_sparse_step": 2}),
        (QWEN3_MOE, {"model_type": "another_moe"}),
        (QWEN_NEXT, {"layer_types": None}),
        (QWEN_NEXT, {"layer_types": ["linear_attention", "strange"] * 20}),
        (GPT_OSS, {"layer_types": ["sliding_attention", "strange"] * 12}),
    ],
)
def test_layers_in_an_unknown_order_have_no_flops(fields, changed):
    assert flops_per_token(shapes.of_config(config(**{**fields, **changed})), 4096) is None


class TestFile:
    def test_a_configuration_and_our_own_fields_are_the_same(self, tmp_path):
        theirs, ours = tmp_path / "config.json", tmp_path / "shape.json"
        theirs.write_text(json.dumps(DEEPSEEK_V3))
        shape = shapes.of_file(theirs)
        ours.write_text(json.dumps(shape.known()))
        assert flops_per_token(shapes.of_file(ours), 4096) == flops_per_token(
            models.find("deepseek-v3").shape, 4096
        )
        assert (shape.source, shapes.of_file(ours).source) == ("config.json", "shape.json")

    def test_of_a_model_with_images_the_text_part_counts(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(
            json.dumps({"model_type": "x_vl", "text_config": LLAMA, "vision_config": {"depth": 32}})
        )
        assert models.with_shape(shapes.of_file(path)).name == "llama"

    @pytest.mark.parametrize(
        "content", ["[]", "{", '{"num_layer": 3}', '{"num_layers": "many"}', "3", "null"]
    )
    def test_anything_else_is_one_line(self, tmp_path, content):
        path = tmp_path / "shape.json"
        path.write_text(content)
        with pytest.raises(UsageError, match="--model-shape") as raised:
            shapes.of_file(path)
        assert "BenchmarkCallback" not in str(raised.value)

    def test_a_file_that_is_missing(self, tmp_path):
        with pytest.raises(UsageError, match="No such file"):
            shapes.of_file(tmp_path / "shape.json")
