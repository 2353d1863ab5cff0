"""FLOPs that one token of training costs a model: closed form, no counting at run time.

Training is three times the forward pass. Per token, with L layers, hidden size h, n_q query
heads and n_kv key/value heads of size d, feed-forward size f, vocabulary V and sequence s:

    M      = L (2 h n_q d + 2 h n_kv d + 3 h f) + h V        multiply-adds of the weights
    full   = 6 M + 12 L n_q d s                              attention counted as dense s × s
    causal = 6 M +  6 L n_q d s                              what Megatron-LM and NeMo print

Weights that aren't trained (LoRA) need no gradient of their own: 4 M and 2 for each trainable
parameter instead of 6 M.

Weights of other kinds of layers are in catalog/layers.py. A recurrent layer adds its state's
products, whatever the length. A sliding window W < s bounds what a token sees: (W (W + 1) / 2 + (s
- W) W) / s tokens on average, in the layers that have it. Layers without it may have heads of
another size (Gemma 4).

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

import functools

from tprimat.catalog import models
from tprimat.catalog.layers import Layers, layers
from tprimat.results.run import ModelConfig, Run


@functools.lru_cache(maxsize=256)
def flops_per_token(
    model: ModelConfig, sequence_length: int, *, causal: bool = True
) -> float | None:
    """Return the model FLOPs of forward and backward for one token; recomputation is never counted.

    If causal, only the half of the attention matrix that a causal model needs counts; with a
    sequence length of 0 the weights alone do. None if a part of the shape is unknown, and for an
    encoder-decoder with experts or latent attention.
    """
    found = layers(model)
    if found is None or model.hidden_size is None or model.vocab_size is None:
        return None
    active = sum(each.count * each.active for each in found.values())
    weights = active + model.hidden_size * model.vocab_size
    attention, unbounded = (found.get(kind, Layers(0, 0, 0)) for kind in "*F")
    seen = _context(model, attention.count, sequence_length, causal=causal)
    everything = unbounded.attended * unbounded.count * sequence_length * (0.5 if causal else 1.0)
    if model.num_encoder_layers is not None:
        if "E" in found or model.key_value_lora_rank is not None:
            return None
        # The encoder's layers, and the decoder's cross-attention; both see the whole source.
        encoders = model.num_encoder_layers
        decoders = attention.count
        weights += encoders * (active // decoders) + decoders * attention.active
        seen += (encoders + decoders) * sequence_length
    trained = min(weights, model.trainable_parameters or weights)
    scanned = 0.0
    if sequence_length:
        scanned = sum(each.count * each.state for each in found.values())
    return 4.0 * weights + 2.0 * trained + 6.0 * (attention.attended * seen + everything + scanned)


ADAPTERS = 1
"""Parameters of adapters of an unstated size: their products, a thousandth of the model's, are not
counted.
"""


def model_shape(run: Run) -> tuple[ModelConfig | None, str | None]:
    """Return the shape that FLOPs are computed from, and a sentence about it or None.

    It is the shape that the result states; or, for a full-size model of the catalog whose result
    states none, the row's with a sentence that says so; or None and the reason.
    """
    if run.model_config.num_layers is not None:
        return run.model_config, None
    known = models.named(run.model)
    if models.denies(run.model, run.model_config):
        return (
            None,
            (
                f"the model has other parameters than {models.title(run.model)}, and no shape is"
                " stated: no FLOPs"
            ),
        )
    if known is None:
        return None, f"the shape of {models.title(run.model)} is not stated: no FLOPs"
    if run.scale not in (None, "full"):
        return None, f"the shape of {known.title} at scale {run.scale} is not stated: no FLOPs"
    trainable = run.model_config.trainable_parameters or (
        ADAPTERS if "lora" in (run.model or "").lower() else None
    )
    shape = known.shape.but(trainable_parameters=trainable)
    return shape, f"the result states no model shape; FLOPs are those of {known.title}"


def _context(model: ModelConfig, layers: int, sequence_length: int, *, causal: bool) -> float:
    """Return how many tokens a token attends to, on average, summed over the layers."""
    window = model.sliding_window
    whole = sequence_length * (0.5 if causal else 1.0)
    if window is None or window >= sequence_length:
        return layers * whole
    unbounded = 0
    if not model.global_head_dim:
        unbounded = min(model.full_attention_layers or 0, layers)
    seen = window * (window + 1) / 2 + (sequence_length - window) * window
    return unbounded * whole + (layers - unbounded) * seen / sequence_length
