"""What a Megatron log states of its setup, argument by argument."""

from __future__ import annotations

import pytest
from stored_runs import sentences_of

from tprimat.read.megatron import setup
from tprimat.read.parsing.values import LoggedValue, LoggedValues
from tprimat.results.fields import LARGEST_COUNT
from tprimat.results.run import ModelConfig


def stated(**values) -> LoggedValues:
    """None counts as stated here."""
    return LoggedValues(
        {
            name: LoggedValue(value, line, name, 3)
            for line, (name, value) in enumerate(values.items(), 1)
        }
    )


def read(*texts: str) -> dict:
    found = LoggedValues()
    for number, text in enumerate(texts, 7):
        setup.read_setup(number, text, found)
    return {name: (each.value, each.line, each.text, each.weight) for name, each in found.items()}


DOTS = "." * 33


@pytest.mark.parametrize(
    ("text", "name", "value", "weight"),
    [
        (f"  seq_length {DOTS} 4096", "seq_length", 4096, 3),
        ("seq_length .. 4096", "seq_length", 4096, 3),
        ("seq_length . 4096", None, None, None),
        ("x: lr .. 1e-05", "lr", 1e-5, 3),
        ("  bf16 .. True", "bf16", True, 3),
        ("  fp8 .. None", "fp8", None, 3),
        ("  fp8 .. null", "fp8", None, 3),
        ("  bf16 .. false", "bf16", False, 3),
        ("  fp8 .. 'hybrid'", "fp8", "hybrid", 3),
        ("  data_path .. ['a', 'b']", "data_path", "['a', 'b']", 3),
        ("  moe_layer_freq .. nan x", "moe_layer_freq", "nan x", 3),
        ("  unknown .. 7", None, None, None),
        ("  seq_length                : 4096 (int)", "seq_length", 4096, 3),
        ("  model                     : llama 3 (str)", "model", "llama 3", 3),
        ("  seq_length                : 4096 (odd)", None, None, None),
        ("using world size: 16, x", "world_size", 16, 2),
        ("[Primus:Env] rank=3, world_size=16", "world_size", 16, 1),
        ("-world_size:  16  ", "world_size", 16, 1),
        ("-world_size:  16 x", None, None, None),
        ("[config.py:7] world_size .. 16", None, None, None),
        (
            "padded vocab (size: 100) with 28 dummy tokens (new size: 128)",
            "padded_vocab_size",
            128,
            4,
        ),
        ("Total number of parameters in billions: 8.03", "billions", 8.03, 2),
        ("FLOPs breakdown -- a, seq_length=512, b", "seq_length", 512, 2),
        ("EXP: examples/a.yaml", "config", "examples/a.yaml", 1),
        ("EXP is set to: a/b.yml", "config", "a/b.yml", 1),
        ("run --config=a.yaml --x", "config", "a.yaml", 1),
        ("backend=megatron, a, backend_version=0.16.0rc1", "backend_version", "0.16.0rc1", 1),
        ("[NODE-3(host-a)] up", "hostname", "host-a", 1),
        (
            "number of parameters on (tensor, pipeline) model parallel rank (0, 3): 1234",
            "parameters of rank 0, 3",
            1234,
            2,
        ),
    ],
)
def test_a_line(text, name, value, weight):
    found = read(text)
    assert {key: (each[0], each[1], each[3]) for key, each in found.items()} == (
        {} if name is None else {name: (value, 7, weight)}
    )


def test_sizes_of_a_mesh():
    text = (
        "using world size: 32, data-parallel size: 2, context-parallel size: 3,"
        " tensor-model-parallel size: 4, encoder-tensor-model-parallel size: 9,"
        " pipeline-model-parallel size: 5, expert-model-parallel size: 6"
    )
    assert {name: each[0] for name, each in read(text).items()} == {
        "world_size": 32, "data_parallel_size": 2, "context_parallel_size": 3, "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 5, "expert_model_parallel_size": 6,
    }  # fmt: skip
    assert read(text.replace("using world size: 32", "world")) == {}


def test_a_statement_is_quoted_without_prefixes():
    assert read(f"7:   seq_length {DOTS} 4096")["seq_length"] == (
        4096,
        7,
        f"seq_length {DOTS} 4096",
        3,
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        ({"enable_primus_turbo": True, "use_turbo_gemm": False, "use_turbo_deepep": 1},
         {"enable_primus_turbo": True, "use_turbo_gemm": False}),
        ({"hidden_dropout": 0.0, "normalization": "RMSNorm", "rotary_base": 10000, "add_bias_linear": False},
         {"hidden_dropout": 0.0, "normalization": "RMSNorm", "rotary_base": 10000.0, "add_bias_linear": False}),
        ({"normalization": None, "seq_length": 5, "tokenizer_type": ""}, {}),
    ],
)  # fmt: skip
def test_switches(values, expected):
    assert setup.switches(stated(**values)) == expected
    assert {type(each) for each in setup.switches(stated(**values)).values()} <= {bool, str, float}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (None, None)),
        ({"bf16": True}, ("bf16", None)),
        ({"bf16": True, "params_dtype": "torch.bfloat16"}, ("bf16", "parameters bfloat16")),
        ({"fp16": True, "bf16": False}, ("fp16", None)),
        ({"bf16": True, "fp16": True}, ("bf16", None)),
        ({"bf16": False, "fp16": False, "params_dtype": "torch.float32"}, ("fp32", "parameters float32")),
        ({"bf16": False, "fp16": False}, ("fp32", None)),
        ({"bf16": False}, (None, None)),
        ({"fp16": False}, (None, None)),
        ({"fp8": "hybrid", "bf16": True, "params_dtype": "torch.bfloat16"}, ("fp8", "fp8 hybrid, parameters bfloat16")),
        ({"fp8": True}, ("fp8", "fp8")),
        ({"fp8": "e4m3", "fp8_recipe": "mxfp8"}, ("mxfp8", "fp8 e4m3, recipe mxfp8")),
        ({"fp8": "e4m3", "fp8_recipe": "delayed"}, ("fp8", "fp8 e4m3, recipe delayed")),
        ({"fp4": "e2m1", "fp4_recipe": "nvfp4", "fp8": "e4m3"}, ("nvfp4", "fp4 e2m1, recipe nvfp4")),
        *(({"fp8": off, "bf16": True}, ("bf16", None)) for off in (None, False, "null", "")),
    ],
)  # fmt: skip
def test_precision(values, expected):
    assert setup.precision(stated(**values)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"recompute_granularity": None}, "none"),
        ({"checkpoint_activations": False}, "none"),
        ({"checkpoint_activations": True}, "full"),
        ({"recompute_granularity": "full"}, "full"),
        (
            {
                "recompute_granularity": "full",
                "recompute_method": "block",
                "recompute_num_layers": 0,
            },
            "none",
        ),
        (
            {
                "recompute_granularity": "full",
                "recompute_method": "block",
                "recompute_num_layers": 2,
            },
            "full",
        ),
        (
            {
                "recompute_granularity": "full",
                "recompute_method": "uniform",
                "recompute_num_layers": 0,
            },
            "full",
        ),
        ({"recompute_granularity": "selective"}, "selective"),
        ({"recompute_activations": True}, "selective"),
        ({"recompute_activations": False}, None),
    ],
)
def test_recomputation(values, expected):
    assert setup.recomputation(stated(**values)) == expected


def fields(**values) -> dict:
    return {
        name: (each.value, each.line, each.text)
        for name, each in setup.fields_of(stated(**values)).items()
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"seq_length": 512, "num_layers": 4, "log_interval": 5, "hostname": "a"},
            {
                "sequence_length": (512, 1, "seq_length"),
                "logging_steps": (5, 3, "log_interval"),
                "hostname": ("a", 4, "hostname"),
            },
        ),
        (
            {"seq_length": 512, "decoder_seq_length": 128},
            {"sequence_length": (128, 2, "decoder_seq_length")},
        ),
        (
            {"seq_length": 512, "decoder_seq_length": None},
            {"sequence_length": (512, 1, "seq_length")},
        ),
        # Each says which argument it is of: the first that is there and isn't off.
        (
            {"fp8": None, "bf16": True, "params_dtype": "torch.bfloat16"},
            {
                "precision": ("bf16", 2, "bf16"),
                "precision_detail": ("parameters bfloat16", 3, "params_dtype"),
            },
        ),
        (
            {"fp4": None, "fp8": "hybrid", "bf16": True},
            {"precision": ("fp8", 2, "fp8"), "precision_detail": ("fp8 hybrid", 2, "fp8")},
        ),
        ({"fp8": None, "bf16": False, "fp16": False}, {"precision": ("fp32", 1, "fp8")}),
        (
            {"recompute_method": 1, "recompute_granularity": None},
            {"recomputation": ("none", 2, "recompute_granularity")},
        ),
        (
            {"recompute_activations": True, "recompute_granularity": None},
            {"recomputation": ("selective", 1, "recompute_activations")},
        ),
        ({"data_path": "/a/b", "mock_data": True}, {"data": ("mock", 2, "mock_data")}),
        ({"data_path": "/a/b", "mock_data": False}, {"data": ("/a/b", 1, "data_path")}),
        ({"fp8": "", "bf16": True}, {"precision": ("bf16", 2, "bf16")}),
        ({"mock_data": False}, {}),
        ({"save": "/x/llama/checkpoints"}, {"model": ("llama", 1, "save")}),
    ],
)
def test_fields(values, expected):
    assert fields(**values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"model": "llama2_7B.yaml", "config": "x.yaml"}, ("llama2_7B", 1, 3)),
        ({"model": None, "config": "a/qwen-pretrain.yml", "exp_name": "e"}, ("qwen", 2, 3)),
        ({"exp_name": "llama-BF16", "save": "/b"}, ("llama", 1, 0)),
        ({"model": "a/llama_FP8"}, ("llama", 1, 3)),
        ({"model": "llama_sft"}, ("llama", 1, 3)),
        ({"save": "/a/llama/checkpoints"}, ("llama", 1, 0)),
        ({"save": "/a/llama/checkpoint"}, ("checkpoint", 1, 0)),
        ({"model": "a/checkpoints"}, ("checkpoints", 1, 3)),
        ({"model": "70", "tokenizer_model": "meta/Llama-3.1-8B"}, ("Llama-3.1-8B", 2, 0)),
        ({"model": 7}, None),
    ],
)
def test_the_models_name(values, expected):
    found = setup.model_name(stated(**values))
    assert (found and (found.value, found.line, found.weight)) == expected
    assert found is None or found.text in values


DENSE = {
    "num_layers": 12, "hidden_size": 64, "num_attention_heads": 8, "num_query_groups": 4, "ffn_hidden_size": 256,
    "vocab_size": 1000, "kv_channels": 16, "swiglu": True, "group_query_attention": True,
    "untie_embeddings_and_output_weights": True,
}  # fmt: skip
DUMPED = "the log's argument dump"
SHAPE = {
    "num_layers": 12, "hidden_size": 64, "num_attention_heads": 8, "num_query_groups": 4, "ffn_hidden_size": 256,
    "vocab_size": 1000, "head_dim": 16, "gated_ffn": True, "tie_word_embeddings": False,
    "source": f"{DUMPED}; vocab_size before padding",
}  # fmt: skip
EXPERTS = {
    "num_experts": 16, "moe_router_topk": 2, "moe_ffn_hidden_size": 32, "moe_shared_expert_intermediate_size": 48,
    "moe_latent_size": 24,
}  # fmt: skip
OF_EXPERTS = {
    "num_experts": 16, "experts_per_token": 2, "expert_ffn_hidden_size": 32, "shared_expert_ffn_hidden_size": 48,
    "expert_latent_size": 24, "num_dense_layers": 0,
}  # fmt: skip
LATENT = {
    "multi_latent_attention": True, "q_lora_rank": 21, "kv_lora_rank": 22, "qk_head_dim": 23, "qk_pos_emb_head_dim": 25,
    "v_head_dim": 26,
}  # fmt: skip
OF_LATENT = {
    "query_lora_rank": 21, "key_value_lora_rank": 22, "head_dim": 23, "rope_head_dim": 25, "value_head_dim": 26,
    "num_query_groups": None,
}  # fmt: skip
STATES = {"mamba_num_heads": 3, "mamba_head_dim": 5, "mamba_state_dim": 7, "mamba_num_groups": 9}
OF_STATES = {"state_heads": 3, "state_head_dim": 5, "state_size": 7, "state_groups": 9}
IGNORED = "feed-forward widths ignored: the model has {}, so FLOPs from its widths would be wrong"
WINDOWS = "windows in an unknown order of layers (window_attn_skip_freq)"
ORDER = "expert layers in an unknown order (moe_layer_freq)"


@pytest.mark.parametrize(
    ("more", "changed", "ignored"),
    [
        ({}, {}, None),
        ({"padded_vocab_size": 1024},
         {"vocab_size": 1024, "source": f"{DUMPED}; vocab_size as padded for the training"}, None),
        ({"vocab_size": None}, {"vocab_size": None, "source": DUMPED}, None),
        ({"group_query_attention": False}, {"num_query_groups": 8}, None),
        ({"group_query_attention": None}, {}, None),
        ({"untie_embeddings_and_output_weights": False}, {"tie_word_embeddings": True}, None),
        ({"untie_embeddings_and_output_weights": None}, {"tie_word_embeddings": None}, None),
        ({"swiglu": False}, {"gated_ffn": False}, None),
        ({"swiglu": None}, {"gated_ffn": False}, None),
        ({"num_layers": None}, {"num_layers": None, "gated_ffn": None}, None),
        ({"attention_output_gate": True}, {"attention_output_gate": True}, None),
        ({"attention_output_gate": 1}, {}, None),
        (EXPERTS, OF_EXPERTS, None),
        ({**EXPERTS, "moe_ffn_hidden_size": None}, {**OF_EXPERTS, "expert_ffn_hidden_size": 256}, None),
        ({**EXPERTS, "num_experts": None}, {}, None),
        ({**EXPERTS, "moe_layer_freq": 3}, {**OF_EXPERTS, "num_dense_layers": 8}, None),
        ({**EXPERTS, "moe_layer_freq": "x"},
         {**OF_EXPERTS, "num_dense_layers": None, "ffn_hidden_size": None, "expert_ffn_hidden_size": None}, ORDER),
        (LATENT, OF_LATENT, None),
        ({**LATENT, "multi_latent_attention": False}, {}, None),
        # Windows: in each layer, all but every so many, or as a list tells.
        ({"window_size": "(127, 0)"}, {"sliding_window": 127, "full_attention_layers": 0}, None),
        ({"window_size": 127, "window_attn_skip_freq": 4}, {"sliding_window": 127, "full_attention_layers": 3}, None),
        ({"window_size": 127, "window_attn_skip_freq": 5}, {"sliding_window": 127, "full_attention_layers": 2}, None),
        ({"window_size": 127, "window_attn_skip_freq": 1}, {"sliding_window": 127, "full_attention_layers": 12}, None),
        ({"window_size": 127, "window_attn_skip_freq": 0}, {"sliding_window": 127, "ffn_hidden_size": None}, WINDOWS),
        ({"window_size": 127, "window_attn_skip_freq": "[1]*9+[0]*3"},
         {"sliding_window": 127, "full_attention_layers": 3}, None),
        ({"window_size": 127, "window_attn_skip_freq": "x"}, {"sliding_window": 127, "ffn_hidden_size": None}, WINDOWS),
        ({"window_size": "(0, 0)"}, {}, None),
        ({"window_size": "(-1, 0)"}, {}, None),
        # Layers of several kinds.
        ({"hybrid_override_pattern": "M*|M-", **STATES}, {"layer_pattern": "M*M-", **OF_STATES}, None),
        ({"hybrid_layer_pattern": "MM/M*/M*", **STATES},
         {"layer_pattern": "MM", "num_mtp_layers": 2, **OF_STATES}, None),
        ({"hybrid_layer_pattern": "M?", **STATES}, {"ffn_hidden_size": None}, "layers of several kinds (hybrid)"),
        ({"is_hybrid_model": True}, {"ffn_hidden_size": None}, "layers of several kinds (hybrid)"),
        ({"is_hybrid_model": False}, {}, None),
        (STATES, {}, None),
        ({"mtp_num_layers": 3}, {"num_mtp_layers": 3}, None),
        ({"decoder_seq_length": 128, "seq_length": 512}, {"ffn_hidden_size": None},
         "an encoder of unknown layers (seq_length 512 is the encoder's, decoder_seq_length 128 counts)"),
        ({"experimental_attention_variant": "dsa"}, {"ffn_hidden_size": None},
         "a special attention (experimental_attention_variant)"),
        ({"hc_mult": 4}, {"ffn_hidden_size": None}, "a special attention (hc_mult)"),
        ({"hc_mult": False, "compress_ratios": None}, {}, None),
        ({"hc_mult": 4, "window_size": 127, "window_attn_skip_freq": "x"},
         {"ffn_hidden_size": None, "sliding_window": 127}, "a special attention (hc_mult)"),
        ({"billions": 0.5}, {"num_parameters": 500_000_000,
          "source": f"{DUMPED}; vocab_size before padding; num_parameters rounded, as printed (0.5 billion)"}, None),
    ],
)  # fmt: skip
def test_shape(more, changed, ignored):
    config, warnings = setup.model_config(stated(**{**DENSE, **more}))
    assert config == ModelConfig(
        **{name: value for name, value in {**SHAPE, **changed}.items() if value is not None}
    )
    assert sentences_of(warnings) == ([IGNORED.format(ignored)] if ignored else [])


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ({}, {}),
        ({"hidden_size": 64}, {}),
        ({"billions": 8.03, "hidden_size": 64},
         {"num_parameters": 8_030_000_000, "source": "num_parameters rounded, as printed (8.03 billion)"}),
        ({"num_attention_heads": 8}, {"num_attention_heads": 8, "source": DUMPED}),
        ({"num_layers": 4}, {"num_layers": 4, "gated_ffn": False, "source": DUMPED}),
    ],
)  # fmt: skip
def test_a_shape_in_part(values, shape):
    assert setup.model_config(stated(**values)) == (ModelConfig(**shape), [])


@pytest.mark.parametrize(
    ("frequency", "layers", "dense"),
    [
        (None, 7, 0), (None, None, None), (True, 7, None), (1, 7, 0), (2, 7, 3), (3, 7, 4), (0, 7, None), (-1, 7, None),
        ("[0]*2+[1]*5", 7, 2), ("([0]*3+[1]*58)", 61, 3), ("[0, 1, 1, 0]", 4, 2), ("[1]", 1, 0), ("[0,2]", 2, None),
        ("[0]*2-[1]*5", 7, None), ("x", 7, None),
    ],
)  # fmt: skip
def test_layers_without_experts(frequency, layers, dense):
    assert setup._dense_layers(frequency, layers) == dense


ONE = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 2,
    "expert_model_parallel_size": 1,
}


def ranks(*counts: int) -> dict:
    return {f"parameters of rank 0, {place}": count for place, count in enumerate(counts)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (None, None)),
        ({**ONE, **ranks(3_000_000, 5_000_000)}, (8_000_000, None)),
        ({**ONE, **ranks(3_000_000)}, (None, None)),
        ({**ONE, **ranks(3_000_000, 5_000_000), "tensor_model_parallel_size": 2}, (None, None)),
        ({**ONE, **ranks(3_000_000, 5_000_000), "expert_model_parallel_size": 2}, (None, None)),
        ({**ONE, **ranks(3_000_000, 5_000_000), "use_torch_fsdp2": True}, (None, None)),
        ({**ONE, **ranks(3_000_000, 5_000_000), "use_megatron_fsdp": True}, (None, None)),
        ({**ONE, **ranks(0, 0)}, (None, None)),
        ({**ONE, **ranks(0, 1)}, (1, None)),
        ({**ONE, **ranks(LARGEST_COUNT - 1, 1)}, (LARGEST_COUNT, None)),
        ({**ONE, **ranks(LARGEST_COUNT, 1), "billions": 7.0}, (None, None)),
        # The printed number, rounded, agrees by 2% and 10 million, or it is the one that counts.
        ({**ONE, **ranks(5_000_000_000, 2_890_000_000), "billions": 8.05}, (7_890_000_000, None)),
        ({**ONE, **ranks(5_000_000_000, 2_878_000_000), "billions": 8.05},
         (8_050_000_000, "num_parameters rounded, as printed (8.05 billion)")),
        ({**ONE, **ranks(5_000_000_000, 3_220_000_000), "billions": 8.05}, (8_220_000_000, None)),
        ({**ONE, **ranks(5_000_000_000, 3_222_000_000), "billions": 8.05},
         (8_050_000_000, "num_parameters rounded, as printed (8.05 billion)")),
    ],
)  # fmt: skip
def test_parameters(values, expected):
    assert setup._parameters(stated(**values)) == expected
