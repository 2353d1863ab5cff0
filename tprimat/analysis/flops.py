"""FLOPs that one token of training costs a model: closed form, no counting at run time.

Training is three times the forward pass. Per token, with L layers, hidden size h, n_q query
heads and n_kv key/value heads of size d, feed-forward size f, vocabulary V and sequence s:

    M      = L (2 h n_q d + 2 h n_kv d + 3 h f) + h V        multiply-adds of the weights
    full   = 6 M + 12 L n_q d s                              attention counted as dense s × s
    causal = 6 M +  6 L n_q d s                              what Megatron-LM and NeMo print

Weights that aren't trained (LoRA) need no gradient of their own: 4 M and 2 for each trainable parameter instead of 6 M.

A feed-forward part that isn't gated has two matrices instead of three. A layer of experts has
3 h f_expert for each expert that a token passes, the shared ones, and h E for the router. Latent
attention (MLA) replaces the four projections by those of its compressions. A sliding window W < s
bounds what a token sees: (W (W + 1) / 2 + (s - W) W) / s tokens on average, in the layers that have it.

An encoder-decoder (arXiv 1706.03762) of E + L layers, source and target of s tokens each: per token
of the target, with its token of the source and a = 2 h d (n_q + n_kv),

    M      = E (a + 3 h f) + L (2 a + 3 h f) + h V           the decoder attends twice
    full   = 6 M + 12 n_q d s (E + 2 L)
    causal = 6 M + 12 n_q d s (E + 1.5 L)                    encoder and cross-attention see all

Not counted: embedding look-up, norms, biases, softmax, rotary embedding, the optimizer, multi-token
prediction, and the +1 of the exact causal sum (0.002 % at s = 2048).
Sources: Megatron-LM num_floating_point_operations (causal), PaLM appendix B and torchtitan (full).
"""

from __future__ import annotations

import msgspec

from tprimat.catalog import models
from tprimat.results.run import ModelConfig, Run


def flops_per_token(model: ModelConfig, sequence_length: int, *, causal: bool = True) -> float | None:
    """Return the model FLOPs of forward and backward for one token; recomputation is never counted.

    Where causal, only the half of the attention matrix that a causal model needs counts; with a sequence length of 0
    the weights alone do. None where a part of the shape is unknown, and for an encoder-decoder with experts or latent
    attention.
    """
    layers, hidden, heads, vocabulary = model.num_layers, model.hidden_size, model.num_attention_heads, model.vocab_size
    if layers is None or hidden is None or heads is None or vocabulary is None:
        return None
    feed_forward = _feed_forward(model, layers, hidden)
    if feed_forward is None:
        return None
    head_dim = model.head_dim or hidden // heads
    if model.key_value_lora_rank is None:
        projections = 2 * hidden * head_dim * (heads + (model.num_query_groups or heads))
        attended = 2 * head_dim
    else:
        latent = _latent_attention(model, hidden, heads, head_dim, model.key_value_lora_rank)
        if latent is None:
            return None
        projections, attended = latent
    weights = layers * projections + feed_forward + hidden * vocabulary
    seen = _context(model, layers, sequence_length, causal=causal)
    if model.num_encoder_layers is not None:
        if model.num_experts is not None or model.key_value_lora_rank is not None:
            return None
        # The encoder's layers, and the decoder's cross-attention; both see the whole source.
        encoders = model.num_encoder_layers
        weights += encoders * (projections + feed_forward // layers) + layers * projections
        seen += (encoders + layers) * sequence_length
    trained = min(weights, model.trainable_parameters or weights)
    return 4.0 * weights + 2.0 * trained + 6.0 * heads * attended * seen


def model_shape(run: Run) -> tuple[ModelConfig | None, str | None]:
    """Return the shape that FLOPs are computed from, and a sentence about it or None.

    It is the shape that the result states; or, for a full-size model of the catalog whose result states
    none, the row's with a sentence that says so; or None and the reason.
    """
    if run.model_config.num_layers is not None:
        return run.model_config, None
    known = models.find(run.model)
    if models.denies(run.model, run.model_config):
        return None, f"the model has other parameters than {models.title(run.model)}, and no shape is stated: no FLOPs"
    if known is None:
        return None, f"the shape of {models.title(run.model)} is not stated: no FLOPs"
    if run.scale not in (None, "full"):
        return None, f"the shape of {known.title} at scale {run.scale} is not stated: no FLOPs"
    trainable = run.model_config.trainable_parameters
    shape = msgspec.structs.replace(known.shape, trainable_parameters=trainable)
    return shape, f"the result states no model shape; FLOPs are those of {known.title}"


def _feed_forward(model: ModelConfig, layers: int, hidden: int) -> int | None:
    """Return multiply-adds of all feed-forward parts for one token."""
    matrices = 2 if model.gated_ffn is False else 3
    if model.num_experts is None:
        return None if model.ffn_hidden_size is None else layers * matrices * hidden * model.ffn_hidden_size
    if model.experts_per_token is None or model.expert_ffn_hidden_size is None:
        return None
    dense_layers = model.num_dense_layers or 0
    if dense_layers and model.ffn_hidden_size is None:
        return None
    routed = model.experts_per_token * model.expert_ffn_hidden_size
    of_a_token = matrices * hidden * (routed + (model.shared_expert_ffn_hidden_size or 0))
    return dense_layers * matrices * hidden * (model.ffn_hidden_size or 0) + (layers - dense_layers) * (
        of_a_token + hidden * model.num_experts
    )


def _latent_attention(model: ModelConfig, hidden: int, heads: int, head_dim: int, rank: int) -> tuple[int, int] | None:
    """Return multiply-adds of a layer's projections, and the query/key and value sizes of a head together.

    head_dim is the part of a query or key head without rotary embedding.
    """
    rotary, value = model.rope_head_dim, model.value_head_dim
    if rotary is None or value is None:
        return None
    query = heads * (head_dim + rotary)
    queries = hidden * query if model.query_lora_rank is None else model.query_lora_rank * (hidden + query)
    keys_values = hidden * (rank + rotary) + rank * heads * (head_dim + value)
    return queries + keys_values + heads * value * hidden, head_dim + rotary + value


def _context(model: ModelConfig, layers: int, sequence_length: int, *, causal: bool) -> float:
    """Return how many tokens a token attends to, on average, summed over the layers."""
    window, whole = model.sliding_window, sequence_length * (0.5 if causal else 1.0)
    if window is None or window >= sequence_length:
        return layers * whole
    unbounded = min(model.full_attention_layers or 0, layers)
    seen = window * (window + 1) / 2 + (sequence_length - window) * window
    return unbounded * whole + (layers - unbounded) * seen / sequence_length
