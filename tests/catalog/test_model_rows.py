"""The rows of models.csv: parameters and FLOPs by formulas of the test's own, names, and figures
that NVIDIA prints.
"""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path

import pytest

from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import layers, models

TABLE = Path(models.__file__).with_name("models.csv")
ROWS = list(csv.DictReader(TABLE.open(encoding="utf-8")))
NO_FORMULA = ("deepseek-v4-flash",)
FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts"
TRAINED = {"llama-3.1-8b": "llama", "qwen-2.5-7b": "qwen", "mistral-7b": "mistral"}


def matrices(row: dict[str, str], kind: str) -> list[tuple[int, int, int, int]]:
    """The matrices of one layer: rows, columns, how many there are and how many of them a token
    passes.
    """
    n = {name: int(value) for name, value in row.items() if value.isdigit()}
    hidden, ups = n["hidden_size"], 1 if row["gated_ffn"] == "false" else 2
    if kind == "-":
        return [(hidden, n["ffn_hidden_size"], ups + 1, ups + 1)]
    if kind == "E":
        width, experts, routed = (
            n.get("expert_latent_size", hidden),
            n["num_experts"],
            n["experts_per_token"],
        )
        found = [(hidden, experts, 1, 1)]
        found += [(width, n["expert_ffn_hidden_size"], (ups + 1) * experts, (ups + 1) * routed)]
        found += [(hidden, n.get("shared_expert_ffn_hidden_size", 0), ups + 1, ups + 1)]
        return [*found, (hidden, width, 2, 2)] if width != hidden else found
    if kind in "MG":
        inner, keys = n["state_heads"] * n["state_head_dim"], n["state_groups"] * n["state_size"]
        gates = n["state_heads"] * (1 if kind == "M" else 2)
        return [(hidden, inner, 3, 3), (hidden, keys, 2, 2), (hidden, gates, 1, 1)]
    heads = n["num_attention_heads"]
    if "key_value_lora_rank" in n:
        size, rotary, value, rank = (
            n["head_dim"],
            n["rope_head_dim"],
            n["value_head_dim"],
            n["key_value_lora_rank"],
        )
        query = [(hidden, heads * (size + rotary), 1, 1)]
        if "query_lora_rank" in n:
            query = [
                (hidden, n["query_lora_rank"], 1, 1),
                (n["query_lora_rank"], heads * (size + rotary), 1, 1),
            ]
        return [
            *query, (hidden, rank + rotary, 1, 1), (rank, heads * size, 1, 1), (rank, heads * value, 1, 1),
            (heads * value, hidden, 1, 1),
        ]  # fmt: skip
    if kind == "F":
        return [(hidden, n["global_head_dim"] * (2 * heads + n["global_query_groups"]), 1, 1)]
    queries = 3 if row["attention_output_gate"] == "true" else 2
    return [
        (hidden, heads * n["head_dim"], queries, queries),
        (hidden, n["num_query_groups"] * n["head_dim"], 2, 2),
    ]


def layers_of(row: dict[str, str]) -> str:
    """A letter for each layer."""
    if row["layer_pattern"]:
        return row["layer_pattern"]
    count, dense = int(row["num_layers"]), int(row["num_dense_layers"] or 0)
    if row["global_head_dim"]:
        return "FE" * int(row["full_attention_layers"]) + "*E" * (
            count - int(row["full_attention_layers"])
        )
    return "*-" * dense + "*E" * (count - dense) if row["num_experts"] else "*-" * count


def seen(row: dict[str, str], length: int) -> float:
    """How many tokens a token attends to on average, summed over the layers, by going through all
    places.
    """
    attending = layers_of(row).count("*")
    if not row["sliding_window"]:
        return attending * length / 2
    whole, window = int(row["full_attention_layers"] or 0), int(row["sliding_window"])
    whole = 0 if row["global_head_dim"] else whole
    return whole * length / 2 + (attending - whole) * statistics.fmean(
        min(i, window) for i in range(1, length + 1)
    )


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["name"] not in NO_FORMULA], ids=lambda row: row["name"]
)
def test_parameters_and_flops_follow_from_the_matrices(row):
    model, pattern = models.find(row["name"]), layers_of(row)
    all_of = {kind: matrices(row, kind) for kind in set(pattern)}
    table = int(row["vocab_size"]) * int(row["hidden_size"])
    weights = sum(a * b * count for kind in pattern for a, b, count, _ in all_of[kind])
    assert layers.parameters(model.shape) == weights + table * (
        1 if row["tie_word_embeddings"] == "true" else 2
    )

    active = sum(a * b * passed for kind in pattern for a, b, _, passed in all_of[kind]) + table
    if row["key_value_lora_rank"]:
        scores = int(row["head_dim"]) + int(row["rope_head_dim"]) + int(row["value_head_dim"])
    else:
        scores = 2 * int(row["head_dim"])
    attention = 6 * int(row["num_attention_heads"]) * scores * seen(row, 4096)
    attention += (
        6
        * int(row["num_attention_heads"])
        * int(row["global_head_dim"] or 0)
        * pattern.count("F")
        * 4096
    )
    state = math.prod(
        int(row[name] or 0) for name in ("state_heads", "state_head_dim", "state_size")
    )
    scans = 3 * state * (7 * pattern.count("M") + 8 * pattern.count("G"))
    assert flops_per_token(model.shape, 4096) == pytest.approx(
        6 * active + attention + scans, rel=1e-9
    )


@pytest.mark.parametrize("name", NO_FORMULA)
def test_a_row_without_a_formula_has_no_flops(name):
    assert flops_per_token(models.find(name).shape, 4096) is None
    assert not models.find(name).parameters


@pytest.mark.parametrize("model", models.models(), ids=lambda model: model.name)
def test_each_name_finds_its_row(model):
    assert models.find(model.name) is model
    for name in (model.title, *model.aliases):
        for text in (name, name.upper(), name.replace("-", "_"), f"org/{name}-pretrain.yaml"):
            assert models.recognize(text) is model, text
    if model.name not in NO_FORMULA:
        assert not models.denies(model.name, model.shape)


@pytest.mark.parametrize("model", models.models(), ids=lambda model: model.name)
def test_a_shape_finds_its_row_or_one_that_is_the_same(model):
    if model.name in NO_FORMULA:
        return
    found = models.with_shape(model.shape)
    assert layers.layers(found.shape) == layers.layers(model.shape)


@pytest.fixture(scope="module")
def known():
    if not (FACTS / "models.csv").is_file():
        pytest.skip(f"no published parameters in {FACTS}")
    return {
        TRAINED.get(row["model_key"], row["model_key"]): row
        for row in csv.DictReader((FACTS / "models.csv").open())
    }


def test_parameters_are_those_that_are_published(known):
    off = {
        name: model.parameters / int(row["published_total"]) - 1
        for name, row in known.items()
        if (model := models.find(name)).parameters and row["published_evidence"] != "name"
    }
    assert len(off) >= 40
    beyond = {name: round(100 * each, 2) for name, each in off.items() if abs(each) > 0.005}
    # It is a name in a page of documentation, too.
    assert beyond == {"nemotron-3.5-lightning-30b-a3b": 5.26}


# What they print is of the model with its layers for further tokens, with another width of Mamba
# layers, or (at first) with a gated feed-forward part as two matrices: see docs/metrics.md.
OTHER_FORMULA = ("gpt-oss", "nemotron", "glm")


def test_flops_are_those_that_nvidia_prints(known):
    """By TFLOP/s over tokens/s of Megatron-Bridge's tables; those of release 26.04.01 have rounded
    tokens/s.
    """
    found: dict[str, list[float]] = {}
    for row in csv.DictReader((FACTS / "published_training.csv").open(encoding="utf-8")):
        model = models.find(TRAINED.get(row["model_key"], row["model_key"]))
        rate, printed, length = (
            row[k] for k in ("tokens_per_second_per_gpu", "tflops_per_gpu", "sequence_length")
        )
        if model is None or "" in (rate, printed, length) or model.name.startswith(OTHER_FORMULA):
            continue
        if (row["framework"], row["task"]) != ("megatron-bridge", "pretrain") or "26.04.01" in row[
            "version"
        ]:
            continue
        if (count := flops_per_token(model.shape, int(length))) is not None:
            found.setdefault(model.name, []).append(float(rate) * count / 1e12 / float(printed) - 1)
    deviations = {name: statistics.median(each) for name, each in found.items()}
    assert len(deviations) >= 7
    # Of DeepSeek V3 most rows train a layer for a second token.
    most = deviations.pop("deepseek-v3")
    assert -0.04 < most < -0.03
    assert max(map(abs, deviations.values())) < 0.01
