"""How others count FLOPs: each convention's formula on small shapes, and what explains a printed
figure.
"""

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
    assert named("recomputed").per_token(LLAMA, 8192) == pytest.approx(
        4 / 3 * (weights + attention / 2)
    )
    assert named("two matrices").per_token(LLAMA, 8192) == pytest.approx(
        weights + attention / 2 - 6 * 32 * 4096 * 14336
    )
    assert named("32,000").per_token(LLAMA, 8192) == pytest.approx(
        weights + attention / 2 - 6 * 4096 * 96_256
    )
    for absent in ("windows", "Mamba", "gated delta", "heads of size"):
        assert named(absent).per_token(LLAMA, 8192) is None


def test_heads_and_windows_and_mamba_change_only_their_part():
    heads = msgspec.structs.replace(OSS, head_dim=45)
    assert named("heads of size").per_token(OSS, 4096) == flops_per_token(heads, 4096)
    assert named("windows").per_token(OSS, 4096) > flops_per_token(OSS, 4096)
    wide = msgspec.structs.replace(NANO, state_heads=84)  # 84 x 64 = 2 x 2688
    assert named("Mamba").per_token(NANO, 8192) == flops_per_token(wide, 8192)


def test_delta_layers_as_attention_and_a_dense_layer_for_a_second_token():
    """Qwen3.8 27B, in products a token of 8,192 and layer: of delta nets, of attention, and of one
    layer more.
    """
    width, heads, groups, size = 5120, 24, 4, 256
    delta = width * (2 * 6144 + 2 * 2048 + 2 * 48) + 6144 * width + 4 * 48 * 128 * 128
    attention = width * size * (3 * heads + 2 * groups) + heads * size * 8192
    own = flops_per_token(QWEN, 8192)
    assert named("gated delta").per_token(QWEN, 8192) == pytest.approx(
        own + 6 * 48 * (attention - delta)
    )
    further = attention + 3 * width * 17408 + 2 * width * width + width * 248_320
    (with_it,) = (
        x
        for x in conventions.matches(own, QWEN, 8192)
        if x.convention is conventions.OWN and x.further
    )
    assert with_it.per_token == pytest.approx(own + 6 * further)


@pytest.mark.parametrize(
    ("shape", "length", "gflop", "name"),
    [
        (LLAMA, 8192, 51.5, "causal attention"),  # Megatron-Bridge
        (LLAMA, 8192, 57.9, "full attention, without the causal half"),  # NeMo 24.07
        (
            OSS,
            4096,
            27.2,
            "gated feed-forward layers as two matrices instead of three",
        ),  # Megatron-Bridge 25.11
        (OSS, 4096, 32.6, "causal attention"),  # Megatron-Bridge 26.06
        (NANO, 8192, 22.28, "Mamba layers of width 2 x hidden size"),
        (QWEN, 4096, 167.9, "causal attention, with multi-token prediction"),
        (QWEN, 8192, 180.7, "gated delta layers as attention, with multi-token prediction"),
        (DEEPSEEK, 4096, 260.0, "causal attention, with multi-token prediction"),
    ],
)
def test_published_figures_are_explained(shape, length, gflop, name):
    assert conventions.explanations(gflop * 1e9, shape, length)[0].name == name


@pytest.mark.parametrize(
    ("factor", "is_own"), [(1.0499, True), (1.0501, False), (0.9501, True), (0.9499, False)]
)
def test_the_own_formula_holds_up_to_its_tolerance(factor, is_own):
    found = conventions.explanations(factor * flops_per_token(LLAMA, 8192), LLAMA, 8192)
    assert (conventions.OWN in [match.convention for match in found]) is is_own


def test_lora_as_full_training_is_a_mistake_and_packed_sequences_are_none():
    adapted = conventions.adapted(LLAMA)
    whole = conventions.explanations(flops_per_token(LLAMA, 8192), adapted, 8192, packed=True)[0]
    assert (whole.trains_all, whole.is_mistake) == (True, True)
    short = conventions.explanations(
        1.02 * flops_per_token(adapted, 0), adapted, 8192, packed=True
    )[0]
    assert (short.convention, short.is_mistake) == (conventions.PACKED, False)
    assert not conventions.explanations(
        5 * flops_per_token(LLAMA, 8192), adapted, 8192, packed=True
    )


@pytest.mark.parametrize(("factor", "fits"), [(1.0099, True), (1.0101, False)])
def test_packed_sequences_have_no_more_attention_than_a_full_one(factor, fits):
    most = conventions.FULL.per_token(LLAMA, 8192)
    assert bool(conventions.explanations(factor * most, LLAMA, 8192, packed=True)) is fits


WINDOWS = msgspec.structs.replace(LLAMA, sliding_window=1024)
ODD = msgspec.structs.replace(LLAMA, num_attention_heads=40, num_query_groups=8, head_dim=96)
"""4,096 / 40 is no whole number: 102."""


def changed(shape, **fields):
    return msgspec.structs.replace(shape, **fields)


@pytest.mark.parametrize(
    ("name", "shape", "length", "expected"),
    [
        ("full attention, without", WINDOWS, 4096, flops_per_token(LLAMA, 4096, causal=False)),
        ("full attention, without", LLAMA, 0, None),
        ("windows", WINDOWS, 4096, flops_per_token(LLAMA, 4096)),
        ("windows", WINDOWS, 1025, flops_per_token(LLAMA, 1025)),
        ("windows", WINDOWS, 1024, None),
        ("windows", LLAMA, 4096, None),
        ("PaLM", changed(LLAMA, vocab_size=None), 4096, None),
        ("PaLM", LLAMA, 0, None),
        ("no attention", changed(LLAMA, vocab_size=None, num_parameters=None), 4096, None),
        ("no attention", LLAMA, 0, 6 * 8_030_261_248),
        ("recomputed", changed(LLAMA, vocab_size=None), 4096, None),
        (
            "full attention, and recomputed",
            LLAMA,
            4096,
            4 / 3 * flops_per_token(LLAMA, 4096, causal=False),
        ),
        ("full attention, and recomputed", LLAMA, 0, None),
        ("Mamba", changed(NANO, state_heads=84), 8192, None),
        (
            "Mamba",
            changed(NANO, state_heads=20),
            8192,
            flops_per_token(changed(NANO, state_heads=84), 8192),
        ),
        *(
            ("Mamba", changed(NANO, **{field: None}), 8192, None)
            for field in ("hidden_size", "state_heads", "state_head_dim")
        ),
        ("Mamba", changed(NANO, layer_pattern=None), 8192, None),
        ("gated delta", NANO, 8192, None),
        ("two matrices", changed(LLAMA, gated_ffn=False), 8192, None),
        (
            "two matrices",
            changed(WINDOWS, gated_ffn=True),
            8192,
            flops_per_token(changed(LLAMA, gated_ffn=False), 8192),
        ),
        ("heads of size", ODD, 4096, flops_per_token(changed(ODD, head_dim=102), 4096)),
        ("heads of size", changed(ODD, head_dim=102), 4096, None),
        ("heads of size", changed(ODD, head_dim=None), 4096, None),
        *(
            ("heads of size", changed(ODD, **{field: None}), 4096, None)
            for field in ("hidden_size", "num_attention_heads")
        ),
        ("heads of size", DEEPSEEK, 4096, None),
        ("32,000", changed(LLAMA, vocab_size=64_000), 4096, None),
        (
            "32,000",
            changed(LLAMA, vocab_size=64_001),
            4096,
            flops_per_token(changed(LLAMA, vocab_size=32_000), 4096),
        ),
        ("32,000", changed(LLAMA, vocab_size=None), 4096, None),
    ],
)
def test_each_convention(name, shape, length, expected):
    assert named(name).per_token(shape, length) == (
        expected if expected is None else pytest.approx(expected)
    )


def further(shape, length=4096):
    return [
        each.per_token
        for each in conventions.matches(1e9, shape, length)
        if each.convention is conventions.OWN and each.further
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_layers_for_several_tokens(count):
    """Each is a layer more, a projection of two embeddings and a head; parameters don't say how
    many there are.
    """
    shape = changed(LLAMA, num_mtp_layers=count)
    deeper = changed(LLAMA, num_layers=32 + count, num_parameters=None)
    own = 6 * count * (2 * 4096 * 4096 + 4096 * 128_256)
    assert further(shape) == [pytest.approx(flops_per_token(deeper, 4096) + own)]


def test_without_layers_for_further_tokens_there_is_one_match_each():
    assert further(LLAMA) == further(changed(LLAMA, num_mtp_layers=0)) == []
    names = [match.name for match in conventions.matches(51.47e9, LLAMA, 8192)]
    assert len(names) == len(set(names)) == 8
    assert names[0] == "causal attention"


def test_further_tokens_of_a_model_with_a_layer_pattern():
    experts = changed(NANO, num_mtp_layers=2)
    more = flops_per_token(
        changed(NANO, layer_pattern=NANO.layer_pattern + "*E*E", num_parameters=None), 8192
    )
    own = 6 * 2 * (2 * NANO.hidden_size**2 + NANO.hidden_size * NANO.vocab_size)
    assert further(experts, 8192) == [pytest.approx(more + own)]


@pytest.mark.parametrize(
    ("match", "name", "is_usual", "is_mistake"),
    [
        (conventions.Match(conventions.OWN, 1.0, 0.0), "causal attention", True, False),
        (
            conventions.Match(conventions.PACKED, 1.0, 0.0),
            "the attention of short packed sequences",
            True,
            False,
        ),
        (
            conventions.Match(conventions.FULL, 1.0, 0.0),
            "full attention, without the causal half",
            False,
            False,
        ),
        (
            conventions.Match(conventions.OWN, 1.0, 0.0, further=True),
            "causal attention, with multi-token prediction",
            False,
            False,
        ),
        (
            conventions.Match(conventions.OWN, 1.0, 0.0, trains_all=True),
            "LoRA as full training, causal attention",
            False,
            True,
        ),
        (
            conventions.Match(named("Mamba"), 1.0, 0.0),
            "Mamba layers of width 2 x hidden size",
            False,
            True,
        ),
    ],
)
def test_a_match(match, name, is_usual, is_mistake):
    assert (match.name, match.is_usual, match.is_mistake) == (name, is_usual, is_mistake)


def test_adapters_of_a_stated_size_keep_it():
    assert conventions.adapted(LLAMA).trainable_parameters == 1
    assert conventions.adapted(changed(LLAMA, trainable_parameters=9)).trainable_parameters == 9


ADAPTED = conventions.adapted(LLAMA)
WEIGHTS, CAUSAL, FULL = (
    flops_per_token(LLAMA, 0),
    flops_per_token(LLAMA, 8192),
    flops_per_token(LLAMA, 8192, causal=False),
)
LORA, LORA_CAUSAL, LORA_FULL = (
    flops_per_token(ADAPTED, 0),
    flops_per_token(ADAPTED, 8192),
    flops_per_token(ADAPTED, 8192, causal=False),
)
PALM = 6 * 8_030_261_248 + FULL - WEIGHTS
PACKED_NAME = conventions.PACKED.name


@pytest.mark.parametrize(
    ("per_token", "shape", "options", "names"),
    [
        # The model's own first, then by their distance.
        (CAUSAL * 1.04, LLAMA, {}, ["causal attention"]),
        (
            48.8e9,
            LLAMA,
            {},
            ["a vocabulary of 32,000", "6 FLOPs for every parameter, no attention"],
        ),
        (
            49.5e9,
            LLAMA,
            {},
            [
                "causal attention",
                "a vocabulary of 32,000",
                "6 FLOPs for every parameter, no attention",
            ],
        ),
        (CAUSAL * 1.04, LLAMA, {"tolerance": 0.03}, []),
        (5 * CAUSAL, LLAMA, {}, []),
        # Packed: anything between the weights and the attention of the whole length, by 5%.
        (WEIGHTS * 0.951, LLAMA, {"packed": True}, [PACKED_NAME]),
        (WEIGHTS * 0.949, LLAMA, {"packed": True}, []),
        (CAUSAL * 1.04, LLAMA, {"packed": True}, [PACKED_NAME]),
        (CAUSAL, LLAMA, {"packed": True}, [PACKED_NAME, "causal attention"]),
        # Beyond, full attention of shorter sequences; but no more than that.
        (CAUSAL * 1.06, LLAMA, {"packed": True}, [PACKED_NAME]),
        (FULL * 0.98, LLAMA, {"packed": True}, [PACKED_NAME]),
        (FULL * 1.0099, LLAMA, {"packed": True}, ["full attention, without the causal half"]),
        (FULL * 1.0101, LLAMA, {"packed": True}, []),
        (
            PALM,
            LLAMA,
            {"packed": True},
            ["PaLM's formula: 6 FLOPs for every parameter, and full attention"],
        ),
        (
            4 / 3 * FULL,
            LLAMA,
            {"packed": True},
            ["full attention, and recomputed activations counted as model FLOPs"],
        ),
        # LoRA, or LoRA counted as full training.
        (LORA * 0.951, ADAPTED, {"packed": True}, [PACKED_NAME]),
        (LORA_CAUSAL * 1.04, ADAPTED, {"packed": True}, [PACKED_NAME]),
        (
            WEIGHTS * 1.02,
            ADAPTED,
            {"packed": True},
            [
                f"LoRA as full training, {PACKED_NAME}",
                "LoRA as full training, 6 FLOPs for every parameter, no attention",
            ][:1],
        ),
        (FULL * 1.04, ADAPTED, {"packed": True}, [f"LoRA as full training, {PACKED_NAME}"]),
        (FULL * 1.09, ADAPTED, {"packed": True}, []),
    ],
)
def test_what_explains_flops(per_token, shape, options, names):
    found = conventions.explanations(per_token, shape, 8192, **options)
    assert [match.name for match in found] == names
    for match in found:
        assert match.deviation == pytest.approx(per_token / match.per_token - 1)
