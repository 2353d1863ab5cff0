"""How others count FLOPs: each convention's formula on small shapes, and what explains a printed figure."""

from __future__ import annotations

import msgspec
import pytest

from tprimat.analysis import conventions
from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import models

LLAMA = models.find("llama").shape
OSS = models.find("gpt-oss-120b").shape
NANO = models.find("nemotron-3-nano-30b-a3b").shape
QWEN = models.find("qwen-3.8-27b").shape
DEEPSEEK = models.find("deepseek-v3").shape


def named(text: str) -> conventions.Convention:
    return next(each for each in conventions.CONVENTIONS if text in each.name)


def test_llama_by_each_convention():
    """Per token of 8,192, in GFLOP: 8.03e9 parameters, 32 layers, width 4096."""
    weights = 6 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
    attention = 12 * 32 * 4096 * 8192
    assert conventions.OWN.per_token(LLAMA, 8192) == pytest.approx(weights + attention / 2)
    assert conventions.FULL.per_token(LLAMA, 8192) == pytest.approx(weights + attention)
    assert named("PaLM").per_token(LLAMA, 8192) == pytest.approx(6 * 8_030_261_248 + attention)
    assert named("no attention").per_token(LLAMA, 8192) == pytest.approx(6 * 8_030_261_248)
    assert named("recomputed").per_token(LLAMA, 8192) == pytest.approx(4 / 3 * (weights + attention / 2))
    assert named("two matrices").per_token(LLAMA, 8192) == pytest.approx(
        weights + attention / 2 - 6 * 32 * 4096 * 14336
    )
    assert named("32,000").per_token(LLAMA, 8192) == pytest.approx(weights + attention / 2 - 6 * 4096 * 96_256)
    for absent in ("windows", "Mamba", "gated delta", "heads of size"):
        assert named(absent).per_token(LLAMA, 8192) is None


def test_heads_and_windows_and_mamba_change_only_their_part():
    heads = msgspec.structs.replace(OSS, head_dim=45)
    assert named("heads of size").per_token(OSS, 4096) == flops_per_token(heads, 4096)
    assert named("windows").per_token(OSS, 4096) > flops_per_token(OSS, 4096)
    wide = msgspec.structs.replace(NANO, state_heads=84)  # 84 x 64 = 2 x 2688
    assert named("Mamba").per_token(NANO, 8192) == flops_per_token(wide, 8192)


def test_delta_layers_as_attention_and_a_dense_layer_for_a_second_token():
    """Qwen3.8 27B, in products a token of 8,192 and layer: of delta nets, of attention, and of one layer more."""
    width, heads, groups, size = 5120, 24, 4, 256
    delta = width * (2 * 6144 + 2 * 2048 + 2 * 48) + 6144 * width + 4 * 48 * 128 * 128
    attention = width * size * (3 * heads + 2 * groups) + heads * size * 8192
    own = flops_per_token(QWEN, 8192)
    assert named("gated delta").per_token(QWEN, 8192) == pytest.approx(own + 6 * 48 * (attention - delta))
    further = attention + 3 * width * 17408 + 2 * width * width + width * 248_320
    (with_it,) = (x for x in conventions.matches(own, QWEN, 8192) if x.convention is conventions.OWN and x.further)
    assert with_it.per_token == pytest.approx(own + 6 * further)


@pytest.mark.parametrize(
    ("shape", "length", "gflop", "name"),
    [
        (LLAMA, 8192, 51.5, "causal attention"),  # Megatron-Bridge
        (LLAMA, 8192, 57.9, "full attention, without the causal half"),  # NeMo 24.07
        (OSS, 4096, 27.2, "gated feed-forward layers as two matrices instead of three"),  # Megatron-Bridge 25.11
        (OSS, 4096, 32.6, "causal attention"),  # Megatron-Bridge 26.06
        (NANO, 8192, 22.28, "Mamba layers of width 2 x hidden size"),
        (QWEN, 4096, 167.9, "causal attention, with multi-token prediction"),
        (QWEN, 8192, 180.7, "gated delta layers as attention, with multi-token prediction"),
        (DEEPSEEK, 4096, 260.0, "causal attention, with multi-token prediction"),
    ],
)
def test_published_figures_are_explained(shape, length, gflop, name):
    assert conventions.explanations(gflop * 1e9, shape, length)[0].name == name


@pytest.mark.parametrize(("factor", "is_own"), [(1.0499, True), (1.0501, False), (0.9501, True), (0.9499, False)])
def test_the_own_formula_holds_up_to_its_tolerance(factor, is_own):
    found = conventions.explanations(factor * flops_per_token(LLAMA, 8192), LLAMA, 8192)
    assert (conventions.OWN in [match.convention for match in found]) is is_own


def test_lora_as_full_training_is_a_mistake_and_packed_sequences_are_none():
    adapted = conventions.adapted(LLAMA)
    whole = conventions.explanations(flops_per_token(LLAMA, 8192), adapted, 8192, packed=True)[0]
    assert (whole.trains_all, whole.is_mistake) == (True, True)
    short = conventions.explanations(1.02 * flops_per_token(adapted, 0), adapted, 8192, packed=True)[0]
    assert (short.convention, short.is_mistake) == (conventions.PACKED, False)
    assert not conventions.explanations(5 * flops_per_token(LLAMA, 8192), adapted, 8192, packed=True)


@pytest.mark.parametrize(("factor", "fits"), [(1.0099, True), (1.0101, False)])
def test_packed_sequences_have_no_more_attention_than_a_full_one(factor, fits):
    most = conventions.FULL.per_token(LLAMA, 8192)
    assert bool(conventions.explanations(factor * most, LLAMA, 8192, packed=True)) is fits
