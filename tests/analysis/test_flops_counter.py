"""The closed form of FLOPs against torch's own counter, on small models of the real architectures.

The counter is right only with eager attention and eager experts and without recomputation: it
counts no attention of sdpa on a CPU, no grouped matrix products, and every recomputed one.
"""

from __future__ import annotations

import pytest

from tprimat.analysis.flops import flops_per_token
from tprimat.results.run import ModelConfig

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTH = 32
BATCH = 2
VOCABULARY = 96
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
    "use_cache": False,
}
SHAPE = {"num_layers": 3, "hidden_size": 48, "num_attention_heads": 4, "vocab_size": VOCABULARY}

CASES = {
    "llama": (
        "LlamaConfig",
        {"num_key_value_heads": 2},
        ModelConfig(**SHAPE, num_query_groups=2, ffn_hidden_size=80),
    ),
    "llama with heads of another size": (
        "LlamaConfig",
        {"num_key_value_heads": 4, "head_dim": 20},
        ModelConfig(**SHAPE, num_query_groups=4, head_dim=20, ffn_hidden_size=80),
    ),
    "qwen2": (
        "Qwen2Config",
        {"num_key_value_heads": 1},
        ModelConfig(**SHAPE, num_query_groups=1, ffn_hidden_size=80),
    ),
    "mistral": (
        "MistralConfig",
        {"num_key_value_heads": 2, "sliding_window": None},
        ModelConfig(**SHAPE, num_query_groups=2, ffn_hidden_size=80),
    ),
    "mixtral": (
        "MixtralConfig",
        {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
        ModelConfig(
            **SHAPE,
            num_query_groups=2,
            num_experts=4,
            experts_per_token=2,
            expert_ffn_hidden_size=80,
        ),
    ),
    "deepseek v3": (
        "DeepseekV3Config",
        {
            "num_key_value_heads": 4,
            "moe_intermediate_size": 40,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "q_lora_rank": 24,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 12,
            "v_head_dim": 10,
        },
        ModelConfig(
            **SHAPE,
            head_dim=12,
            ffn_hidden_size=80,
            num_experts=8,
            experts_per_token=2,
            expert_ffn_hidden_size=40,
            shared_expert_ffn_hidden_size=40,
            num_dense_layers=1,
            query_lora_rank=24,
            key_value_lora_rank=16,
            rope_head_dim=8,
            value_head_dim=10,
        ),
    ),
}


def counted(config_name: str, fields: dict[str, object], *, length: int = LENGTH) -> float:
    """FLOPs per token of forward and backward, by the counter."""
    from torch.utils.flop_counter import FlopCounterMode

    config = getattr(transformers, config_name)(**{**COMMON, **fields})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.train()
    tokens = torch.randint(VOCABULARY, (BATCH, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens).logits.float().logsumexp(-1).mean().backward()
    return counter.get_total_flops() / (BATCH * length)


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_is_what_is_counted(name):
    config_name, fields, shape = CASES[name]
    by_formula = flops_per_token(shape, LENGTH, causal=False)
    # Rotary embedding is a small matrix product that no convention counts.
    assert counted(config_name, fields) == pytest.approx(by_formula, rel=2e-3)


def test_a_window_is_masked_by_eager_attention_and_not_left_out():
    """Eager attention computes all of the matrix; what a window spares is the closed form's word
    alone.
    """
    shape = ModelConfig(**SHAPE, num_query_groups=2, ffn_hidden_size=80)
    all_of_it = flops_per_token(shape, LENGTH, causal=False)
    assert counted(
        "MistralConfig", {"num_key_value_heads": 2, "sliding_window": 8}
    ) == pytest.approx(all_of_it, rel=2e-3)
    # Attention within the window of 8, computed as if each token's own 8 were all: a sequence of 8.
    attention = {
        length: flops_per_token(shape, length, causal=False)
        - flops_per_token(shape, length, causal=True)
        for length in (8, LENGTH)
    }
    windowed = flops_per_token(
        ModelConfig(**SHAPE, num_query_groups=2, ffn_hidden_size=80, sliding_window=8), LENGTH
    )
    weights = flops_per_token(shape, LENGTH) - attention[LENGTH]
    # (8 · 9 / 2 + 24 · 8) / 32 tokens on average are 7.125; causal attention of 8 counts 4, of a
    # window's end 8.
    assert (windowed - weights) / attention[8] == pytest.approx(7.125 / 4)


def test_recomputation_is_counted_by_the_counter_and_not_by_the_formula():
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.LlamaConfig(**COMMON, num_key_value_heads=2)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.train()
    model.gradient_checkpointing_enable()
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens).logits.float().logsumexp(-1).mean().backward()
    shape = CASES["llama"][2]
    ratio = (
        counter.get_total_flops() / (BATCH * LENGTH) / flops_per_token(shape, LENGTH, causal=False)
    )
    assert 1.2 < ratio < 4 / 3
