"""The table of models, and the FLOPs that follow from a shape."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_runs import a_run

from tprimat.analysis.flops import flops_per_token, model_shape
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.results.run import ModelConfig, Run


@pytest.mark.parametrize(
    ("name", "length", "full", "causal"),
    [
        ("llama", 2048, 48.249, 46.639),
        ("llama", 8192, 57.913, 51.470),
        ("qwen", 2048, 44.888, 43.655),
        ("qwen", 8192, 52.287, 47.354),
        ("mistral", 2048, 45.902, 44.292),
        ("mistral", 8192, 55.566, 49.124),
    ],
)
def test_flops_agree_with_a_counter_and_with_megatron(name, length, full, causal):
    """GFLOP per token: full as counted by torch's FlopCounterMode, causal as Megatron-LM computes
    it.
    """
    shape = models.by_name(name).shape
    assert flops_per_token(shape, length, causal=False) / 1e9 == pytest.approx(full, abs=0.0005)
    assert flops_per_token(shape, length) / 1e9 == pytest.approx(causal, abs=0.0005)


def test_flops_of_a_small_model_by_hand():
    shape = ModelConfig(
        num_layers=2,
        hidden_size=8,
        num_attention_heads=4,
        num_query_groups=2,
        ffn_hidden_size=16,
        vocab_size=10,
    )
    # Per layer: queries and output 2·8·8, keys and values 2·8·4, three matrices of 8·16.
    weights = 2 * (128 + 64 + 384) + 80
    assert flops_per_token(shape, 6) == 6 * weights + 6 * 2 * 8 * 6
    assert flops_per_token(shape, 6, causal=False) == 6 * weights + 12 * 2 * 8 * 6


def test_a_window_bounds_the_attention():
    shape = models.by_name("mistral").shape
    windowed = msgspec.structs.replace(shape, sliding_window=4096)
    assert flops_per_token(windowed, 4096) == flops_per_token(shape, 4096)
    assert flops_per_token(windowed, 2048) == flops_per_token(shape, 2048)
    seen = (4096 * 4097 / 2 + 4096 * 4096) / 8192
    saved = 12 * 32 * 4096 * (8192 / 2 - seen)
    assert flops_per_token(shape, 8192) - flops_per_token(windowed, 8192) == pytest.approx(saved)


@pytest.mark.parametrize(("unbounded", "alike"), [(0, None), (16, 0.5), (32, 1.0), (33, 1.0)])
def test_layers_without_the_window_see_the_whole_sequence(unbounded, alike):
    shape = models.by_name("mistral").shape
    windowed = msgspec.structs.replace(shape, sliding_window=4096)
    mixed = msgspec.structs.replace(windowed, full_attention_layers=unbounded)
    whole, bounded = flops_per_token(shape, 8192), flops_per_token(windowed, 8192)
    expected = bounded + (alike or 0) * (whole - bounded)
    assert flops_per_token(mixed, 8192) == pytest.approx(expected, rel=1e-12)
    assert flops_per_token(mixed, 4096) == flops_per_token(shape, 4096)


def test_flops_of_alternating_windows_by_hand():
    # GPT-OSS 20B at 8,192 tokens: every second of 24 layers sees 128 tokens, the others all.
    shape = ModelConfig(
        num_layers=24, hidden_size=2880, num_attention_heads=64, num_query_groups=8, head_dim=64, vocab_size=201088,
        num_experts=32, experts_per_token=4, expert_ffn_hidden_size=2880, sliding_window=128, full_attention_layers=12,
    )  # fmt: skip
    layer = 2 * 2880 * 4096 + 2 * 2880 * 512 + 4 * 3 * 2880 * 2880 + 2880 * 32
    seen = 12 * 8192 / 2 + 12 * sum(min(place, 128) for place in range(1, 8193)) / 8192
    by_hand = 6 * (24 * layer + 2880 * 201088) + 12 * 4096 * seen
    assert flops_per_token(shape, 8192) == pytest.approx(by_hand, rel=1e-9)
    assert by_hand * 16 * 8192 / 8 / 1e12 == pytest.approx(395.4, abs=0.05)


@pytest.mark.parametrize(
    "field", ["num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "vocab_size"]
)
def test_without_a_part_of_the_shape_there_are_no_flops(field):
    shape = msgspec.structs.replace(models.by_name("llama").shape, **{field: None})
    assert flops_per_token(shape, 2048) is None


def test_heads_that_are_not_grouped_and_of_the_usual_size_need_not_be_stated():
    shape = ModelConfig(
        num_layers=2, hidden_size=64, num_attention_heads=4, ffn_hidden_size=128, vocab_size=100
    )
    stated = msgspec.structs.replace(shape, num_query_groups=4, head_dim=16)
    assert flops_per_token(shape, 128) == flops_per_token(stated, 128)


@given(st.integers(1, 10**6))
def test_causal_attention_costs_half_of_full(length):
    shape = models.by_name("llama").shape
    weights = flops_per_token(shape, length) * 2 - flops_per_token(shape, length, causal=False)
    assert weights == pytest.approx(6 * (8_030_261_248 - 128256 * 4096 - 65 * 4096))


@pytest.mark.parametrize("model", models.trained(), ids=lambda model: model.name)
def test_the_parameters_of_a_row_follow_from_its_shape(model):
    shape = model.shape
    attention = (
        2
        * shape.hidden_size
        * shape.head_dim
        * (shape.num_attention_heads + shape.num_query_groups)
    )
    bias = (
        shape.head_dim * (shape.num_attention_heads + 2 * shape.num_query_groups)
        if model.name == "qwen"
        else 0
    )
    layer = attention + bias + 3 * shape.hidden_size * shape.ffn_hidden_size + 2 * shape.hidden_size
    outside = 2 * shape.vocab_size * shape.hidden_size + shape.hidden_size
    assert shape.num_parameters == shape.num_layers * layer + outside


@pytest.mark.parametrize("model", models.trained(), ids=lambda model: model.name)
def test_a_row_finds_itself(model):
    assert models.by_name(model.name) is model
    assert models.by_name(model.name.upper()) is model
    assert models.with_shape(model.shape) is model
    assert models.title(model.name) == model.title
    assert model.shape.source.startswith("https://")
    for alias in model.aliases:
        assert models.recognize(f"exp/{alias.upper()}-pretrain.yaml") is model


def test_an_unknown_model_is_told_which_there_are():
    with pytest.raises(UsageError, match="'gpt': choose from llama, qwen, mistral"):
        models.by_name("gpt")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama3.1_8B-BF16-pretrain", "llama"),
        ("Meta-Llama-3.1-8B-Instruct", "llama"),
        ("qwen2.5_7B-FP8-pretrain", "qwen"),
        ("mistralai/Mistral-7B-v0.3", "mistral"),
        ("llama31_8b", "llama"),
        ("llama3_1_8b", "llama"),
        ("llama3_8b", "llama"),
        ("llama3.1_70B", "llama-3.1-70b"),
        ("llama31_405b", "llama-3.1-405b"),
        ("llama2_70b_lora", "llama-2-70b"),
        ("Qwen2.5-72B", "qwen-2.5-72b"),
        ("mixtral_8x7b", "mixtral-8x7b"),
        ("Qwen/Qwen3-30B-A3B", "qwen-3-30b-a3b"),
        ("qwen3_30b_a3b", "qwen-3-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("deepseek_v3", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"),
        ("DeepSeekV3", "deepseek-v3"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", "nemotron-3-nano-4b"),
        ("gpt3-1.3b", "gpt-3-1.3b"),
        ("gpt3_13b", None),
        # A flavour of torchtitan, whose numbers are those of V2 Lite.
        ("deepseek_v3 16B", "deepseek-v2-lite"),
        ("deepseek_v3 30B", None),
        ("bloom-560m", None),
        ("llama-3.1-80b", None),
        ("tinyllama-2-7b", None),
        ("qwen2.5_0.5B", None),
        ("llama", None),
        ("", None),
    ],
)
def test_other_tools_names_mean_the_full_size_model_or_nothing(text, name):
    found = models.recognize(text)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "llama"),
        ({"vocab_size": 128256 + 512}, "llama"),
        ({"vocab_size": 32768}, "mistral"),
        ({"vocab_size": 32768 + 1023}, "mistral"),
        ({"vocab_size": 128255}, None),
        ({"vocab_size": 130000}, None),
        ({"vocab_size": None}, None),
        ({"num_layers": 31}, None),
        ({"num_query_groups": 32}, None),
        ({"num_query_groups": None}, "llama"),
        ({"ffn_hidden_size": 11008}, None),
    ],
)
def test_a_shape_means_the_model_that_has_it_and_no_other(changes, name):
    found = models.with_shape(msgspec.structs.replace(models.by_name("llama").shape, **changes))
    assert (found and found.name) == name


def test_the_number_of_parameters_alone_means_the_model_that_has_as_many():
    assert models.with_shape(ModelConfig(num_parameters=8_030_261_248)) is models.by_name("llama")
    assert models.with_shape(ModelConfig(num_parameters=1_923_125_248)) is None
    assert models.with_shape(ModelConfig(num_parameters=8_030_261_248, num_layers=16)) is None


def test_a_shape_of_nothing_is_no_model():
    assert models.with_shape(ModelConfig()) is None


@pytest.mark.parametrize(
    ("name", "title"), [("llama", "Llama 3.1 8B"), ("gpt", "gpt"), (None, "unnamed model")]
)
def test_a_title_is_there_for_any_name(name, title):
    assert models.title(name) == title


@pytest.mark.parametrize(("causal", "attention"), [(False, 2 + 2 * 3), (True, 2 + 1.5 * 3)])
def test_flops_of_an_encoder_decoder_by_hand(causal, attention):
    shape = ModelConfig(
        num_encoder_layers=2,
        num_layers=3,
        hidden_size=8,
        num_attention_heads=2,
        ffn_hidden_size=16,
        vocab_size=100,
    )
    # The projections of an attention 2·8·4·(2 + 2), three matrices of 8·16; the decoder attends
    # twice.
    weights = 2 * (256 + 384) + 3 * (2 * 256 + 384) + 800
    assert flops_per_token(shape, 10, causal=causal) == 6 * weights + 12 * 8 * 10 * attention
    assert flops_per_token(msgspec.structs.replace(shape, key_value_lora_rank=4), 10) is None


def test_frozen_weights_need_no_gradient_of_their_own():
    shape = models.by_name("llama").shape
    weights = flops_per_token(shape, 0) / 6
    attention = flops_per_token(shape, 2048) - 6 * weights
    lora = msgspec.structs.replace(shape, trainable_parameters=41_943_040)
    assert flops_per_token(lora, 2048) == pytest.approx(4 * weights + 2 * 41_943_040 + attention)
    whole = msgspec.structs.replace(shape, trainable_parameters=shape.num_parameters)
    assert flops_per_token(whole, 2048) == flops_per_token(shape, 2048)


def test_trainable_parameters_are_kept_where_the_shape_is_the_catalogs():
    run = a_run(model="llama", scale="full", model_config=ModelConfig(trainable_parameters=1000))
    shape, why = model_shape(run)
    assert (shape.num_layers, shape.trainable_parameters) == (32, 1000)
    assert "FLOPs are those of Llama 3.1 8B" in why


def tiny(**fields):
    known = {
        "num_layers": 6,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_query_groups": 2,
        "head_dim": 20,
    }
    return ModelConfig(**{**known, "ffn_hidden_size": 96, "vocab_size": 1000, **fields})


WEIGHTS = 6 * (2 * 64 * 20 * (4 + 2) + 3 * 64 * 96) + 64 * 1000


def attending(tokens):
    """FLOPs of tokens that a token attends to, over all layers: 4 heads of 20, query and value."""
    return 6 * 2 * 4 * 20 * tokens


@pytest.mark.parametrize(
    ("shape", "length", "causal", "expected"),
    [
        (tiny(), 0, True, 6 * WEIGHTS),
        (tiny(), 300, True, 6 * WEIGHTS + attending(6 * 150)),
        (tiny(), 300, False, 6 * WEIGHTS + attending(6 * 300)),
        (tiny(sliding_window=300), 300, True, 6 * WEIGHTS + attending(6 * 150)),
        # 100 tokens see half of them and one half more, the rest 100 each.
        (
            tiny(sliding_window=100),
            300,
            True,
            6 * WEIGHTS + attending(6 * (5050 + 200 * 100) / 300),
        ),
        (
            tiny(sliding_window=100),
            300,
            False,
            6 * WEIGHTS + attending(6 * (5050 + 200 * 100) / 300),
        ),
        (
            tiny(sliding_window=100, full_attention_layers=2),
            300,
            True,
            6 * WEIGHTS + attending(2 * 150 + 4 * (5050 + 200 * 100) / 300),
        ),
        (
            tiny(sliding_window=100, full_attention_layers=9),
            300,
            True,
            6 * WEIGHTS + attending(6 * 150),
        ),
        (tiny(trainable_parameters=7), 0, True, 4 * WEIGHTS + 2 * 7),
        (tiny(trainable_parameters=10**9), 0, True, 6 * WEIGHTS),
        *(
            (tiny(**{name: None}), 300, True, None)
            for name in ("hidden_size", "vocab_size", "num_layers")
        ),
    ],
)
def test_flops_of_a_token_by_hand(shape, length, causal, expected):
    assert flops_per_token(shape, length, causal=causal) == (
        expected if expected is None else pytest.approx(expected)
    )


GLOBAL = {
    "sliding_window": 100,
    "full_attention_layers": 2,
    "global_head_dim": 40,
    "global_query_groups": 1,
}


@pytest.mark.parametrize(("causal", "seen"), [(True, 150), (False, 300)])
def test_flops_of_layers_with_global_heads_of_another_size(causal, seen):
    """4 layers with windows; 2 without, of 4 heads of 40 whose values are their keys."""
    weights = 4 * 2 * 64 * 20 * (4 + 2) + 2 * 64 * 40 * (2 * 4 + 1) + 6 * 3 * 64 * 96 + 64 * 1000
    attended = attending(4 * (5050 + 200 * 100) / 300) + 6 * 2 * 4 * 40 * 2 * seen
    found = flops_per_token(tiny(**GLOBAL), 300, causal=causal)
    assert found == pytest.approx(6 * weights + attended)


def test_flops_of_recurrent_layers_need_no_length_but_a_sequence():
    shape = tiny(
        layer_pattern="M*",
        num_layers=2,
        state_heads=4,
        state_head_dim=32,
        state_size=16,
        state_groups=2,
    )
    weights = flops_per_token(shape, 0)
    scanned = flops_per_token(shape, 1) - weights - attending(0.5)
    assert scanned > 0
    assert flops_per_token(shape, 500) == pytest.approx(weights + scanned + attending(250))


@pytest.mark.parametrize(
    "fields",
    [
        {"num_experts": 4, "experts_per_token": 2, "expert_ffn_hidden_size": 32},
        {"key_value_lora_rank": 8, "query_lora_rank": 8, "rope_head_dim": 4, "value_head_dim": 20},
    ],
)
def test_an_encoder_decoder_with_experts_or_latent_attention_has_none(fields):
    assert flops_per_token(tiny(**fields), 300) is not None
    assert flops_per_token(tiny(**fields, num_encoder_layers=3), 300) is None


def of_model(name, *, scale=None, **shape):
    return Run(model=name, scale=scale, model_config=ModelConfig(**shape))


NO_FLOPS = "is not stated: no FLOPs"


@pytest.mark.parametrize(
    ("run", "trainable", "text"),
    [
        (of_model("own", num_layers=3), None, None),
        (
            of_model("llama"),
            None,
            "the result states no model shape; FLOPs are those of Llama 3.1 8B",
        ),
        (
            of_model("llama", scale="full"),
            None,
            "the result states no model shape; FLOPs are those of Llama 3.1 8B",
        ),
        (
            of_model("my-Llama-3.1-8B-run"),
            None,
            "the result states no model shape; FLOPs are those of Llama 3.1 8B",
        ),
        (
            of_model("Llama-3.1-8B-LoRA"),
            1,
            "the result states no model shape; FLOPs are those of Llama 3.1 8B",
        ),
        (
            of_model("Llama-3.1-8B-LoRA", trainable_parameters=9),
            9,
            "the result states no model shape; FLOPs are those of Llama 3.1 8B",
        ),
        (
            of_model("llama", scale="tiny"),
            "none",
            f"the shape of Llama 3.1 8B at scale tiny {NO_FLOPS}",
        ),
        (of_model("own"), "none", f"the shape of own {NO_FLOPS}"),
        (
            of_model("llama", num_parameters=10**9),
            "none",
            "the model has other parameters than Llama 3.1 8B, and no shape is stated: no FLOPs",
        ),
    ],
)
def test_the_shape_that_flops_are_of(run, trainable, text):
    shape, said = model_shape(run)
    assert said == text
    if trainable == "none":
        assert shape is None
    elif run.model_config.num_layers:
        assert shape == run.model_config
    else:
        expected = msgspec.structs.replace(
            models.find("llama").shape, trainable_parameters=trainable
        )
        assert shape == expected


def test_a_run_without_a_model_has_no_shape():
    assert model_shape(Run())[0] is None
