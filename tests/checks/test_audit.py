"""The audit of published figures: each finding on small tables, and the findings in the published
ones.
"""

from __future__ import annotations

import csv
import dataclasses
import time
from pathlib import Path

import pytest

from tprimat.analysis import conventions
from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import models
from tprimat.catalog.figures import Figure, figures
from tprimat.checks.audit import audit, rate
from tprimat.notes import Note
from tprimat.notes.catalogue import words

SHARED = Path(__file__).resolve().parents[3] / "shared"


def row(line: int = 2, **fields: object) -> Figure:
    """Llama 3.1 8B on 8 H100 in BF16: 10,000 tokens/s/GPU are 515 TFLOP/s, 52 % of the peak."""
    usual = {
        "gpu": "NVIDIA H100 80GB HBM3",
        "model": "llama-3.1-8b",
        "task": "pretrain",
        "precision": "bf16",
    }
    return Figure(line=line, **{**usual, "gpus": 8.0, "sequence_length": 8192.0, **fields})


def claim_of_samples(rate: float) -> Figure:
    """An RL step: 1,000 samples of 1,000 tokens in 100 s on 10 GPUs are 1,000 tokens/s/GPU."""
    known = {
        "task": "rl",
        "gpus": 10.0,
        "step_time_s": 100.0,
        "samples_per_step": 1e3,
        "sample_tokens": 1e3,
    }
    return row(tokens_per_second_per_gpu=rate, **known)


def found(*rows: Figure) -> list[tuple[str, str]]:
    return [(finding.severity, finding.rule) for each in audit(rows) for finding in each.findings]


def explained(*rows: Figure) -> str:
    return "; ".join(
        cause
        for each in audit(rows)
        for finding in each.findings
        for cause in map(words, finding.explanations)
    )


def test_consistent_rows_have_no_finding():
    known = {
        "global_batch": 128.0,
        "step_time_s": 128 * 8192 / 80_000,
        "tflops_per_gpu": 515.0,
        "mfu_percent": 52.05,
    }
    assert found(row(tokens_per_second_per_gpu=10_000.0, **known)) == []
    assert found(row(samples_per_second=80_000 / 8192, tflops_per_gpu=515.0)) == []


@pytest.mark.parametrize(
    ("factor", "contradicts"), [(1.0299, False), (1.0301, True), (0.9701, False), (0.9699, True)]
)
def test_tokens_per_second_against_batch_and_time(factor, contradicts):
    known = {"global_batch": 128.0, "step_time_s": 128 * 8192 / 80_000}
    assert bool(found(row(tokens_per_second_per_gpu=10_000 * factor, **known))) is contradicts


def test_tokens_of_half_the_batch_and_of_all_gpus():
    known = {"global_batch": 128.0, "step_time_s": 128 * 8192 / 80_000}
    assert "half the batch" in explained(row(tokens_per_second_per_gpu=5_000.0, **known))
    assert "it covers all GPUs" in explained(
        row(tokens_per_second_per_gpu=80_000.0, model="unknown", **known)
    )
    # Packed sequences need not be full.
    assert found(row(tokens_per_second_per_gpu=5_000.0, task="sft", **known)) == []
    assert "half the batch" in explained(
        row(tokens_per_second_per_gpu=10_000.0, tflops_per_gpu=257.5)
    )


@pytest.mark.parametrize(("share", "rules"), [(0.799, []), (0.801, ["above-peak"])])
def test_a_share_of_the_peak_that_no_training_reaches(share, rules):
    rate = share * 989.4e12 / 51.5e9
    assert [rule for _, rule in found(row(tokens_per_second_per_gpu=rate))] == rules
    unstated = [rule for _, rule in found(row(tokens_per_second_per_gpu=rate, precision=""))]
    assert unstated == (["precision-unstated"] if rules else [])


@pytest.mark.parametrize(
    ("rate", "contradicts"), [(901.0, False), (899.0, True), (1599.0, False), (1601.0, True)]
)
def test_tokens_of_reinforcement_learning(rate, contradicts):
    assert bool(found(claim_of_samples(rate))) is contradicts


@pytest.mark.parametrize(
    ("flops", "contradicts"), [(4.51, False), (4.49, True), (10.79, False), (10.81, True)]
)
def test_a_model_that_is_known_by_the_size_in_its_name_only(flops, contradicts):
    known = {"model": "GPT 18B", "tokens_per_second_per_gpu": 1_000.0, "tflops_per_gpu": flops * 18}
    assert bool(found(row(**known))) is contradicts
    assert not found(row(**{**known, "model": "Other MoE 18B-A3B"}))


def test_a_small_model_known_by_its_name_only():
    known = {"tokens_per_second_per_gpu": 1_000.0, "tflops_per_gpu": 20.0}
    assert found(row(model="GPT 999M", **known)) == []
    assert found(row(model="GPT 1B", **known)) == [("error", "contradiction")]


def counting(convention: str, model: str, *deviations: float, length: int = 8192) -> list[Figure]:
    """A row for each deviation from what a convention counts."""
    shape = row(model=model).row.shape
    matches = conventions.matches(1.0, shape, length)
    per_token = next(each.per_token for each in matches if each.name.startswith(convention))
    made = []
    for line, deviation in enumerate(deviations, 2):
        rate = 1_000.0 + line + 100 * deviation
        tflops = rate * per_token * (1 + deviation) / 1e12
        speed = {
            "tokens_per_second_per_gpu": rate,
            "tflops_per_gpu": tflops,
            "sequence_length": float(length),
        }
        made.append(row(line, model=model, **speed))
    return made


@pytest.mark.parametrize(
    ("others", "deviation", "finding"),
    [
        (3, -0.0149, ("info", "convention")),
        (2, -0.0151, ("info", "convention")),
        (3, -0.0151, ("error", "contradiction")),
    ],
)
def test_other_rows_of_a_model_decide_what_is_not_close(others, deviation, finding):
    rows = counting("full attention, without", "llama-3.1-8b", *[0.0] * others)
    rows += counting("6 FLOPs for every parameter, no", "llama-3.1-8b", deviation)
    assert found(*rows)[-1] == finding


@pytest.mark.parametrize(("deviation", "name"), [(0.0005, "full attention"), (0.001, "PaLM")])
def test_of_two_close_conventions_that_of_the_other_rows_counts(deviation, name):
    """They lie 1.64% apart."""
    rows = counting("PaLM", "mistral-7b", 0.0, 0.0, 0.0, length=4096)
    (last,) = counting("full attention, without", "mistral-7b", deviation, length=4096)
    cause = audit([*rows, last])[-1].findings[0].explanations[0]
    assert words(cause).startswith(f"it counts {name}")


def test_mfu_of_another_peak():
    assert found(row(tflops_per_gpu=515.0, mfu_percent=26.02)) == []  # of the FP8 peak
    assert "sparsity" in explained(row(tflops_per_gpu=515.0, mfu_percent=13.01))
    assert found(row(tflops_per_gpu=515.0, mfu_percent=45.0)) == [("error", "contradiction")]
    assert found(row(tflops_per_gpu=515.0, mfu_percent=50.0 + 2)) == []


def test_conventions_explain_and_mistakes_warn():
    assert found(row(tokens_per_second_per_gpu=10_000.0, tflops_per_gpu=579.0)) == [
        ("info", "convention")
    ]
    oss = {"model": "gpt-oss-120b", "sequence_length": 4096.0, "gpu": "DGX-GB200"}
    two = row(tokens_per_second_per_gpu=8213.0, tflops_per_gpu=223.0, **oss)
    assert found(two) == [("warning", "formula")]
    assert "two matrices" in explained(two)
    nano = {"model": "Nemotron_3_Nano", "gpu": "DGX-GB200", "precision": "mxfp8"}
    assert "Mamba layers of width" in explained(
        row(tokens_per_second_per_gpu=30_000.0, tflops_per_gpu=668.4, **nano)
    )


def test_delta_layers_counted_as_attention():
    """Qwen3.8 27B at 8,192: 48 of 64 layers are gated delta nets, 119.0e6 products a token;
    attention takes 155.2e6.
    """
    qwen = {"model": "Qwen/Qwen3.8-27B", "gpu": "GB200", "sequence_length": 8192.0}
    wrong = row(tokens_per_second_per_gpu=2006.665, tflops_per_gpu=362.530, **qwen)
    assert found(wrong) == [("warning", "formula")]
    assert "gated delta layers as attention, with multi-token prediction" in explained(wrong)
    right = (362.530e12 / 2006.665 - 48 * 6 * (155.2e6 - 119.0e6)) * 2006.665 / 1e12
    assert found(row(tokens_per_second_per_gpu=2006.665, tflops_per_gpu=right, **qwen)) == []


@pytest.mark.parametrize(
    ("factor", "finding"),
    [(0.999, ("unverified", "encoders")), (1.001, ("error", "contradiction"))],
)
def test_work_of_encoders_of_images(factor, finding):
    """A token stands for 9 patches of an image at most, each of which takes 6 FLOPs for each
    parameter.
    """
    gemma = {"model": "google/gemma-4-26B-A4B-it", "task": "sft", "sequence_length": 4096.0}
    decoder, tower = flops_per_token(models.find("gemma-4-26b-a4b").shape, 4096), 6 * 9 * 550e6
    image = row(
        tokens_per_second_per_gpu=1_000.0, tflops_per_gpu=(decoder + factor * tower) / 1e9, **gemma
    )
    assert found(image) == [finding]
    assert ("0.55B parameters" in explained(image)) is (finding[1] == "encoders")
    assert (
        found(row(tokens_per_second_per_gpu=1_000.0, tflops_per_gpu=decoder / 1e9, **gemma)) == []
    )
    # A decoder that trains fewer tokens than it counts says nothing of images.
    assert found(row(tokens_per_second_per_gpu=1_000.0, tflops_per_gpu=decoder / 2e9, **gemma)) == [
        ("error", "contradiction")
    ]


def test_of_packed_rows_a_convention_counts_that_other_rows_of_the_model_show():
    """One sequence as long as the pack, with full attention: as the publisher's other rows, or a
    contradiction.
    """
    shown = counting("full attention, without", "llama-3.1-8b", 0.0, 0.0, 0.0)
    packed = dataclasses.replace(shown[0], line=9, task="sft", tokens_per_second_per_gpu=1_100.0)
    packed = dataclasses.replace(
        packed, tflops_per_gpu=packed.tflops_per_gpu / 1_002 * 1_100 * 1.02
    )
    assert found(packed) == [("error", "contradiction")]
    assert found(*shown, packed)[-1] == ("info", "convention")


def test_glm_lora_of_megatron_bridge_issue_5344():
    full = row(
        model="glm-5.2",
        gpu="GB200",
        gpus=192.0,
        tokens_per_second_per_gpu=363.608,
        tflops_per_gpu=103.95,
    )
    full = dataclasses.replace(full, sequence_length=2048.0)
    lora = row(
        3, model="glm-5.2", gpu="GB200", gpus=192.0, task="lora", tokens_per_second_per_gpu=4.977
    )
    lora = dataclasses.replace(lora, sequence_length=None)
    before, after = (dataclasses.replace(lora, tflops_per_gpu=each) for each in (9.330, 1.423))
    assert ("error", "contradiction") in found(full, before)
    assert ("warning", "formula") in found(full, after)
    assert "LoRA as full training" in explained(full, after)
    # A coincidence is rarer than 0.2%.
    for factor, is_twin in ((0.9979, False), (0.9981, True), (1.0019, True), (1.0021, False)):
        near = dataclasses.replace(lora, tflops_per_gpu=4.977 * 103.95 / 363.608 * factor)
        assert ("LoRA as full training" in explained(full, near)) is is_twin
    for other in (
        {"task": "rl"},
        {"task": "lora"},
        {"publisher": "P"},
        {"framework": "F"},
        {"model": "glm-4.5"},
    ):
        assert "LoRA as full training: the same" not in explained(
            dataclasses.replace(full, **other), after
        )
    assert "LoRA as full training: the same" in explained(
        dataclasses.replace(full, task="sft"), after
    )


def test_a_line_copied_from_another_page():
    speeds = {
        "tokens_per_second_per_gpu": 1055.949,
        "step_time_s": 15.516,
        "tflops_per_gpu": 508.371,
    }
    small = row(2, model="llama-3.1-70b", gpu="H200", precision="", sequence_length=None, **speeds)
    large = row(3, model="llama-3.1-405b", gpu="H200", precision="", sequence_length=None, **speeds)
    results = audit(
        [dataclasses.replace(small, file="70b.md"), dataclasses.replace(large, file="405b.md")]
    )
    assert [finding.rule for finding in results[0].findings] == ["repeated", "convention"]
    assert {finding.rule for finding in results[1].findings} == {
        "above-peak",
        "contradiction",
        "repeated",
    }


def test_one_value_for_two_precisions():
    same = {"tokens_per_second_per_gpu": 1135.0, "model": "llama-3.1-70b", "gpu": "MI325X"}
    assert (
        found(row(2, **same), row(3, **{**same, "precision": "fp8"}))
        == [("warning", "repeated")] * 2
    )
    rounded = {**same, "tokens_per_second_per_gpu": 1130.0}
    assert found(row(2, **rounded), row(3, **{**rounded, "precision": "fp8"})) == []
    assert found(row(2, **same), row(3, **same)) == []


def test_two_figures_from_two_other_rows():
    runs = [row(2, tokens_per_second_per_gpu=8_000.0, tflops_per_gpu=350.0)]
    runs += [row(3, tokens_per_second_per_gpu=10_001.0, tflops_per_gpu=515.0, task="")]
    joined = row(4, tokens_per_second_per_gpu=10_001.0, tflops_per_gpu=350.0)
    assert "its tokens/s is that of :3, its TFLOP/s that of :2" in explained(*runs, joined)


def test_a_distance_is_no_cause_and_comes_last():
    slow = row(tokens_per_second_per_gpu=10_000.0, tflops_per_gpu=646.0, global_batch=128.0)
    first, last = (
        audit([dataclasses.replace(slow, step_time_s=128 * 8192 / 80_000)])[0]
        .findings[0]
        .explanations
    )
    assert first == Note("slow-step")
    assert words(last).startswith("+26% from causal attention")
    assert audit([slow])[0].findings[0].explanations == (last,)


def test_claims_of_days():
    claim = {"target_tokens": 10e12, "target_gpus": 1024.0}
    days = 10e12 / 10_000 / 1024 / 86_400
    assert found(row(tokens_per_second_per_gpu=10_000.0, days=days * 1.09, **claim)) == []
    assert found(row(tokens_per_second_per_gpu=10_000.0, days=days * 1.11, **claim)) == [
        ("warning", "claim")
    ]
    beside = [
        row(line, tokens_per_second_per_gpu=1_000.0 * line, days=300 / line) for line in (2, 3, 4)
    ]
    assert found(*beside, row(5, tokens_per_second_per_gpu=5_000.0, days=45.0)) == [
        ("warning", "claim")
    ]
    # The usual number of tokens counts, however far one row is off.
    assert found(*beside, row(5, tokens_per_second_per_gpu=5_000.0, days=240.0)) == [
        ("warning", "claim")
    ]


@pytest.mark.parametrize(("times", "rules"), [(2.99, []), (3.01, ["outlier"])])
def test_a_row_far_faster_than_those_beside_it(times, rules):
    rows = [row(2, tokens_per_second_per_gpu=2_000.0), row(3, tokens_per_second_per_gpu=2_000.1)]
    assert [
        rule for _, rule in found(*rows, row(4, tokens_per_second_per_gpu=2_000.05 * times))
    ] == rules


@pytest.mark.parametrize(("ratio", "contradicts"), [(9.68, False), (9.4, True), (6.34, True)])
def test_a_ratio_of_two_rows(ratio, contradicts):
    rows = [
        row(3, tokens_per_second_per_gpu=1_380.0),
        row(3, gpu="MI300X", tokens_per_second_per_gpu=13_363.0),
    ]
    assert bool(found(*rows, Figure(line=3, ratio=ratio))) is contradicts


@pytest.fixture(scope="module")
def published():
    """The rows of the published figures with their findings by line, and the known ones."""
    table = SHARED / "facts" / "published_training.csv"
    if not table.is_file():
        pytest.skip(f"no published figures in {table}")
    start = time.process_time()
    rows = audit(figures(table.read_text(encoding="utf-8"), table.name))
    seconds = time.process_time() - start
    known = list(csv.DictReader((SHARED / "facts" / "published_audit.csv").open(encoding="utf-8")))
    return {each.figure.line: list(each.findings) for each in rows}, known, seconds


WRONG = {"impossible", "suspicious", "contradiction", "odd"}
MISTAKEN = ("publisher's formula", "publisher counts LoRA", "vision-language model")
EXPLAINED = {340, 343, 976, 978}
"""Findings of the list that are none: two tests below compute why."""


def with_findings(found_in) -> set[int]:
    return {
        line
        for line, each in found_in.items()
        if any(finding.severity != "info" for finding in each)
    }


def with_known_findings(known) -> set[int]:
    return {
        int(x["row"]) for x in known if x["verdict"] in WRONG or x["class"].startswith(MISTAKEN)
    }


def test_each_known_finding_of_the_published_figures_is_found(published):
    found_in, known, seconds = published
    assert len(with_known_findings(known)) == 86
    assert with_known_findings(known) - with_findings(found_in) == EXPLAINED
    assert seconds < 10


def figures_of(rows: set[int]) -> list[Figure]:
    table = SHARED / "facts" / "published_training.csv"
    return [
        each for each in figures(table.read_text(encoding="utf-8"), table.name) if each.line in rows
    ]


def test_mamba_layers_of_nemotron_3_super_have_twice_its_hidden_size(published):
    """So that the list's mistake is the right formula: it gives both at the 4,096 tokens of batch,
    time and rate.
    """
    shape = models.find("nemotron-3-super-120b-a12b").shape
    assert shape.state_heads * shape.state_head_dim == 128 * 64 == 2 * shape.hidden_size
    for figure in figures_of({340, 343}):
        per_token = figure.tflops_per_gpu * 1e12 / figure.tokens_per_second_per_gpu
        closest = conventions.matches(per_token, shape, 4096)[0]
        assert (closest.convention, closest.further) == (conventions.OWN, True)
        assert abs(closest.deviation) < 0.012


def test_full_attention_and_recomputation_explain_two_contradictions_of_the_list(published):
    """A Llama-like 7B at 4,096: 39.64 + 2 x 3.22 GFLOP, and 4/3 of it for a second forward pass,
    are 61.4; 60.9 is printed.
    """
    found_in, _, _ = published
    for figure in figures_of({976, 978}):
        per_token = figure.tflops_per_gpu * 1e12 / figure.tokens_per_second_per_gpu
        assert per_token == pytest.approx(4 / 3 * (39.64e9 + 2 * 3.22e9), rel=0.01)
        (finding,) = found_in[figure.line]
        (cause,) = finding.explanations
        counted = "full attention, and recomputed activations counted as model FLOPs"
        assert cause == Note("flops-count", {"counted": counted})


def test_towers_and_what_the_list_takes_for_one(published):
    """Rows 303 and 338 may count encoders of images, or a slow first step; 392 counts other kinds
    of layers.
    """
    found_in, _, _ = published
    for line in (303, 338):
        (finding,) = found_in[line]
        assert (finding.severity, finding.rule) == ("unverified", "encoders")
        assert words(finding.explanations[1]).startswith("a slow step: ")
    assert [finding.rule for finding in found_in[392]] == ["formula"]


LEFT_OUT = {298, 299, 344, 413, 456, 839, 841, 849, 979, 1263, 1264, 1265}
"""Publishers' errors that the list of known findings leaves out, or calls a convention."""
FURTHER = {312, 339, 385, 386, 393}
"""Further rows that count LoRA as full training, as others of the same pages."""


def test_false_alarms_are_few(published):
    found_in, known, _ = published
    assert with_findings(found_in) - with_known_findings(known) == LEFT_OUT | FURTHER
    # Models that may count encoders of images, and the page that another one was copied from.
    assert len(with_findings(found_in) & {303, 338, 902}) <= 0.01 * len(found_in)


def test_known_conventions_of_the_published_figures(published):
    found_in, known, _ = published
    clear = {
        "6 x all parameters": "PaLM",
        "attention counted without the causal half": "full attention",
    }
    clear |= {
        "gated MLP": "two matrices",
        "recomputation counted": "recomputed",
        "head size": "heads of size",
    }
    for text, name in clear.items():
        rows = [int(each["row"]) for each in known if f"with: {text}" in each["explanation"]]
        said = [
            any(
                name in cause
                for finding in found_in[line]
                for cause in map(words, finding.explanations)
            )
            for line in rows
        ]
        assert sum(said) >= 0.85 * len(said), name


@pytest.mark.parametrize(
    ("document", "line", "rule"),
    [("000*", 102, "precision-unstated"), ("002*", 198, "contradiction")],
)
def test_impossible_rows_of_the_requests(document, line, rule):
    paths = list((SHARED / "requests").glob(document))
    if not paths:
        pytest.skip("the requests do not lie beside this clone")
    rows = audit(figures(paths[0].read_text(encoding="utf-8", errors="replace")))
    assert [(each.figure.line, each.findings[0].rule) for each in rows if each.findings] == [
        (line, rule)
    ]


@pytest.mark.parametrize("peak", [2250.0, 4500.0, 9000.0])
def test_tflops_and_mfu_of_each_precision_of_a_gpu_imply_its_peak(peak):
    """A B200: BF16 and FP16, FP8, FP4."""
    known = {"gpu": "NVIDIA B200", "precision": "", "model": "unknown", "sequence_length": None}
    contradiction = ("error", "contradiction")
    assert contradiction not in found(row(tflops_per_gpu=0.4 * peak, mfu_percent=40.0, **known))
    assert contradiction in found(row(tflops_per_gpu=0.4 * peak * 1.2, mfu_percent=40.0, **known))


STEP = {"global_batch": 96.0, "sequence_length": 2048.0, "step_time_s": 3.0, "gpus": 8.0}
RL = {
    "task": "rl",
    "samples_per_step": 100.0,
    "sample_tokens": 600.0,
    "step_time_s": 5.0,
    "gpus": 6.0,
}
SAMPLES = {"samples_per_second": 50.0, "sequence_length": 2048.0, "gpus": 4.0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({**STEP, **SAMPLES, "tokens_per_second_per_gpu": 1234.0}, 1234.0),
        ({**SAMPLES, "step_time_s": 2.0, "global_batch": 7.0}, 50 * 2048 / 4),
        (STEP, 96 * 2048 / 3 / 8),
        ({**STEP, "tokens_per_step": 30_000.0}, 30_000 / 3 / 8),
        ({**STEP, **RL}, 100 * 600 / 5 / 6),
    ]
    + [({**SAMPLES, name: None}, None) for name in SAMPLES]
    + [({**STEP, name: None}, None) for name in STEP]
    + [({**STEP, **RL, "tokens_per_step": 9.0, name: None}, None) for name in list(RL)[1:]],
)
def test_tokens_per_second_of_a_row(fields, expected):
    assert rate(Figure(line=2, **fields)) == expected


def told(*rows: Figure) -> list[tuple[object, ...]]:
    """Each finding whole, after the line of its row."""
    return [
        (
            each.figure.line,
            finding.severity,
            finding.rule,
            words(finding.note),
            *map(words, finding.explanations),
        )
        for each in audit(rows)
        for finding in each.findings
    ]


HALF = "half of it is missing: tokens of half the batch, or of twice the time"
TWICE = "it is counted twice: tokens of twice the batch, or of half the time"
BATCH = {"model": "unknown", "global_batch": 128.0, "step_time_s": 16.0}
TOKENS = "tokens/s/GPU, but 1,048,576 tokens in 16 s on 8 GPUs are 8,192"
TEXTS = {"model": "unknown", "samples_per_second": 12.0, "sequence_length": 1000.0, "gpus": 4.0}
OF_SAMPLES = "tokens/s/GPU, but 12 samples/s of 1,000 tokens are 3,000"
PEAK = {"model": "unknown", "sequence_length": None}
NO_TRAINING = "; no training reaches that"
UNSTATED = "of the dense BF16 peak of H100 SXM: possible only in FP8, but no precision is stated"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"unreadable": (7, 8), "tokens_per_second_per_gpu": 9e9},
            (
                "error",
                "unreadable-row",
                "7 cells under 8 headings: the values are in other columns",
            ),
        ),
        # Batch and step time: 8,192 tokens/s/GPU.
        ({**BATCH, "tokens_per_second_per_gpu": 4096.0}, (f"4,096 {TOKENS}", HALF)),
        ({**BATCH, "tokens_per_second_per_gpu": 16_384.0}, (f"16,384 {TOKENS}", TWICE)),
        (
            {**BATCH, "tokens_per_second_per_gpu": 65_536.0},
            (f"65,536 {TOKENS}", "it covers all GPUs"),
        ),
        (
            {**BATCH, "tokens_per_second_per_gpu": 1024.0},
            (f"1,024 {TOKENS}", "it is divided by the GPUs twice"),
        ),
        (
            {**BATCH, "tokens_per_second_per_gpu": 8.192e6},
            (f"8.192e+06 {TOKENS}", "milliseconds are read as seconds"),
        ),
        ({**BATCH, "tokens_per_second_per_gpu": 5_000.0}, (f"5,000 {TOKENS}",)),
        (
            {**BATCH, "tokens_per_second_per_gpu": 5_000.0, "gpus": 1.0},
            ("5,000 tokens/s/GPU, but 1,048,576 tokens in 16 s on 1 GPU are 65,536",),
        ),
        ({**BATCH, "tokens_per_second_per_gpu": 5_000.0, "gpus": None}, None),
        ({**BATCH, "tokens_per_second_per_gpu": 0.3, "task": "sft"}, None),
        ({**BATCH, "tokens_per_second_per_gpu": 0.3, "task": "lora"}, None),
        ({**BATCH, "tokens_per_second_per_gpu": 8_450.0, "task": "lora"}, (f"8,450 {TOKENS}",)),
        # 12 samples/s is 11.5 to 13, times 250 tokens, and 3% more or less.
        ({**TEXTS, "tokens_per_second_per_gpu": 2_788.5}, (f"2,788.5 {OF_SAMPLES}",)),
        ({**TEXTS, "tokens_per_second_per_gpu": 2_789.0}, None),
        ({**TEXTS, "tokens_per_second_per_gpu": 3_347.0}, None),
        ({**TEXTS, "tokens_per_second_per_gpu": 3_348.0}, (f"3,348 {OF_SAMPLES}",)),
        ({**TEXTS, "tokens_per_second_per_gpu": 1_500.0}, (f"1,500 {OF_SAMPLES}", HALF)),
        ({**TEXTS, "tokens_per_second_per_gpu": 1_500.0, "gpus": None}, None),
        ({**TEXTS, "tokens_per_second_per_gpu": 1_500.0, "sequence_length": None}, None),
        # The peak of H100 in BF16: 989.4 TFLOP/s.
        (
            {**PEAK, "tflops_per_gpu": 900.0},
            (
                "error",
                "above-peak",
                (
                    "it prints 900 TFLOP/s per GPU, 91% of the dense BF16 peak of H100 SXM"
                    f" (989){NO_TRAINING}"
                ),
            ),
        ),
        (
            {**PEAK, "tflops_per_gpu": 1000.0},
            (
                "error",
                "above-peak",
                "it prints 1,000 TFLOP/s per GPU, 101% of the dense BF16 peak of H100 SXM (989)",
            ),
        ),
        (
            {**PEAK, "tflops_per_gpu": 1800.0, "precision": ""},
            (
                "error",
                "above-peak",
                (
                    "it prints 1,800 TFLOP/s per GPU, 91% of the dense FP8 peak of H100 SXM"
                    f" (1,979){NO_TRAINING}"
                ),
            ),
        ),
        (
            {**PEAK, "tflops_per_gpu": 900.0, "precision": ""},
            ("unverified", "precision-unstated", f"900 TFLOP/s per GPU is 91% {UNSTATED}"),
        ),
        ({**PEAK, "tflops_per_gpu": 900.0, "precision": "fp8"}, None),
        ({**PEAK, "tflops_per_gpu": 0.8 * 989.4}, None),
        ({**PEAK, "tflops_per_gpu": 0.8 * 989.4, "precision": ""}, None),
        (
            {**PEAK, "tflops_per_gpu": 989.4},
            (
                "error",
                "above-peak",
                (
                    "it prints 989 TFLOP/s per GPU, 100% of the dense BF16 peak of H100 SXM"
                    f" (989){NO_TRAINING}"
                ),
            ),
        ),
        ({**PEAK, "tflops_per_gpu": 900.0, "gpu": "unknown"}, None),
        (
            {**PEAK, "tflops_per_gpu": 900.0, "precision": "", "gpu": "MI250X"},
            (
                "error",
                "above-peak",
                (
                    "it prints 900 TFLOP/s per GPU, 470% of the dense BF16 peak of MI250X (one die)"
                    " (192)"
                ),
            ),
        ),
        # It multiplies faster in FP16 than in BF16 or FP8, which it computes in FP32.
        ({**PEAK, "tflops_per_gpu": 99.0, "precision": "", "gpu": "V100-SXM2-16GB"}, None),
        (
            {**PEAK, "tflops_per_gpu": 101.0, "precision": "", "gpu": "V100-SXM2-16GB"},
            (
                "error",
                "above-peak",
                (
                    "it prints 101 TFLOP/s per GPU, 81% of the dense FP16 peak of V100 SXM 16GB"
                    f" (125){NO_TRAINING}"
                ),
            ),
        ),
        ({**PEAK, "tflops_per_gpu": 900.0, "precision": "", "gpu": "MI308X"}, None),
        # 51.47 GFLOP per token with the attention of 8,192 tokens, 45.03 without.
        (
            {"tokens_per_second_per_gpu": 16_000.0, "task": ""},
            (
                "error",
                "above-peak",
                "16,000 tokens/s/GPU is 824 TFLOP/s per GPU, 83% of the dense BF16 peak of H100 SXM"
                " (989)" + NO_TRAINING,
            ),
        ),
        ({"tokens_per_second_per_gpu": 16_000.0, "sequence_length": None}, None),
        ({"tokens_per_second_per_gpu": 16_000.0, "task": "sft"}, None),
        (
            {"tokens_per_second_per_gpu": 20_000.0, "task": "sft"},
            (
                "error",
                "above-peak",
                "20,000 tokens/s/GPU is 901 TFLOP/s per GPU, 91% of the dense BF16 peak of H100 SXM"
                " (989)" + NO_TRAINING,
            ),
        ),
        # One of three kinds of H100, of which the fastest counts; of the PCIe card it would be 93%.
        ({**PEAK, "tflops_per_gpu": 700.0, "gpu": "H100"}, None),
        (
            {**PEAK, "tflops_per_gpu": 515.0, "mfu_percent": 13.01},
            (
                (
                    "515 TFLOP/s at 13.01% MFU implies a peak of 3,958, which no precision of"
                    " NVIDIA H100 80GB HBM3 has"
                ),
                "the FP8 peak with sparsity, twice the dense one",
            ),
        ),
        (
            {**PEAK, "tflops_per_gpu": 515.0, "mfu_percent": 26.01, "gpu": "MI300X"},
            (
                (
                    "515 TFLOP/s at 26.01% MFU implies a peak of 1,980, which no precision of"
                    " MI300X has"
                ),
            ),
        ),
        # 50% is 49.5 to 50.5%, and 3% more or less of the peak.
        ({**PEAK, "tflops_per_gpu": 989.4 * 0.5 * 1.039, "mfu_percent": 50.0}, None),
        (
            {**PEAK, "tflops_per_gpu": 989.4 * 0.5 * 1.041, "mfu_percent": 50.0},
            (
                (
                    "514.98 TFLOP/s at 50% MFU implies a peak of 1,030, which no precision of"
                    " NVIDIA H100 80GB HBM3 has"
                ),
            ),
        ),
        ({**PEAK, "tflops_per_gpu": 515.0, "mfu_percent": 45.0, "gpu": "unknown"}, None),
        ({**PEAK, "mfu_percent": 45.0}, None),
    ],
)
def test_a_row_against_itself_and_its_peak(fields, expected):
    if expected is None:
        assert told(row(**fields)) == []
    else:
        known = ("error", "contradiction") if expected[0] not in ("error", "unverified") else ()
        assert told(row(**fields)) == [(2, *known, *expected)]


LLAMA = {"tokens_per_second_per_gpu": 1_000.0, "tflops_per_gpu": 70.8}
"""At 16,384 tokens: 57.91 GFLOP with causal attention and 70.80 with full, of which 45.03 are those
of the weights.
"""
LONG = {
    **LLAMA,
    "sequence_length": None,
    "global_batch": 64.0,
    "step_time_s": 64 * 16_384 / 8 / 1_000,
}
AT_LENGTH = "70.8 TFLOP/s at 1,000 tokens/s/GPU is 70.8 GFLOP per token; the shape gives 57.91"
FULL = "it counts full attention, without the causal half"


def gflop(printed: float, own: str, per_token: str | None = None) -> str:
    per_token = per_token or f"{printed:.4g}"
    return (
        f"{printed:,.5g} TFLOP/s at 1,000 tokens/s/GPU is {per_token} GFLOP per token; the shape"
        f" gives {own}"
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # The length of a pretraining follows from rate, step time and batch.
        (LONG, ("info", "convention", AT_LENGTH, FULL)),
        *(({**LONG, name: None}, None) for name in ("global_batch", "step_time_s", "gpus")),
        ({**LONG, "task": ""}, None),
        ({**LONG, "tokens_per_second_per_gpu": None, "tokens_per_step": 64.0 * 16_384}, None),
        (
            {**LLAMA, "sequence_length": 16_384.0, "step_time_s": 9.0},
            ("info", "convention", AT_LENGTH, FULL),
        ),
        # Without a length, three usual ones are tried; the first is named.
        (
            {**LLAMA, "tflops_per_gpu": 51.47, "sequence_length": None},
            ("info", "convention", gflop(51.47, "48.25"), FULL),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 57.913, "sequence_length": None},
            ("info", "convention", gflop(57.913, "48.25"), FULL),
        ),
        ({**LLAMA, "tflops_per_gpu": 58.6, "sequence_length": None}, None),
        # 45.03 - 5% to 96.57 (full attention at 32,768) + 5% is possible at some length.
        (
            {**LLAMA, "tflops_per_gpu": 42.75, "sequence_length": None},
            ("error", "contradiction", gflop(42.75, "48.25"), "-11% from causal attention"),
        ),
        ({**LLAMA, "tflops_per_gpu": 42.79, "sequence_length": None}, None),
        ({**LLAMA, "tflops_per_gpu": 101.39, "sequence_length": None}, None),
        (
            {**LLAMA, "tflops_per_gpu": 101.41, "sequence_length": None},
            (
                "error",
                "contradiction",
                gflop(101.41, "48.25"),
                TWICE,
                "+110% from causal attention",
            ),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 42.79, "sequence_length": 8192.0},
            ("error", "contradiction", gflop(42.79, "51.47"), "-17% from causal attention"),
        ),
        # What would make it right, of the shape's own count and of full attention; a distance comes
        # last.
        (
            {**LLAMA, "tflops_per_gpu": 25.735},
            (
                "error",
                "contradiction",
                gflop(25.735, "51.47", "25.73"),
                HALF,
                "-50% from causal attention",
            ),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 115.83},
            (
                "error",
                "contradiction",
                gflop(115.83, "51.47"),
                TWICE,
                "+125% from causal attention",
            ),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 90.0, "step_time_s": 9.0},
            (
                "error",
                "contradiction",
                gflop(90.0, "51.47"),
                (
                    "a slow step: TFLOP/s is the mean of the steps' rates, tokens/s that of their"
                    " mean time"
                ),
                "+75% from causal attention",
            ),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 90.0},
            ("error", "contradiction", gflop(90.0, "51.47"), "+75% from causal attention"),
        ),
        (
            {**LLAMA, "tflops_per_gpu": 30.0, "step_time_s": 9.0},
            ("error", "contradiction", gflop(30.0, "51.47"), "-42% from causal attention"),
        ),
        # Packed sequences are short, or of the length that is stated.
        ({**LLAMA, "tflops_per_gpu": 43.2, "task": "sft", "sequence_length": None}, None),
        ({**LLAMA, "tflops_per_gpu": 84.0, "task": "sft", "sequence_length": None}, None),
        (
            {**LLAMA, "tflops_per_gpu": 42.0, "task": "sft", "sequence_length": None},
            ("error", "contradiction", gflop(42.0, "48.25"), "-13% from causal attention"),
        ),
        ({**LLAMA, "tflops_per_gpu": 43.2, "task": "sft"}, None),
        (
            {**LLAMA, "tflops_per_gpu": 42.7, "task": "sft"},
            ("error", "contradiction", gflop(42.7, "51.47"), "-17% from causal attention"),
        ),
        # A shape whose FLOPs are unknown.
        ({**LLAMA, "model": "deepseek-v4-flash"}, None),
        # A model that is known by its name only.
        (
            {**LLAMA, "model": "GPT 10B", "tflops_per_gpu": 44.9},
            (
                "error",
                "contradiction",
                (
                    "44.9 TFLOP/s is 4.5 FLOPs per token and parameter of GPT 10B; "
                    "training takes 6, with recomputed activations 8"
                ),
            ),
        ),
        ({**LLAMA, "model": "GPT 10B", "tflops_per_gpu": 108.1, "flops_per_parameter": 9.0}, None),
        (
            {**LLAMA, "model": "GPT 10B", "tflops_per_gpu": 59.9, "flops_per_parameter": 8.0},
            (
                "error",
                "contradiction",
                (
                    "59.9 TFLOP/s is 6 FLOPs per token and parameter of GPT 10B; "
                    "training takes 6, with recomputed activations 8"
                ),
            ),
        ),
        ({**LLAMA, "model": "GPT 10B", "tflops_per_gpu": 60.1, "flops_per_parameter": 8.0}, None),
        *(
            ({**LLAMA, "model": model, "tflops_per_gpu": 9.0}, None)
            for model in ("GPT", "GPT 900M", "MoE 10B", "GPT 8x10B", "GPT 10B-A2B")
        ),
    ],
)
def test_what_explains_the_printed_flops(fields, expected):
    assert told(row(**fields)) == ([] if expected is None else [(2, *expected)])


def mtp(line: int, factor: str, **fields: object) -> Figure:
    """DeepSeek V3 at 4,096 tokens: 250.45 GFLOP per token, 260.64 with multi-token prediction."""
    per_token = {"without": 250.45, "with": 260.64}[factor]
    known = {
        "model": "deepseek-v3",
        "gpu": "NVIDIA B200",
        "sequence_length": 4096.0,
        "tflops_per_gpu": per_token,
    }
    rate = 1_000.0 + line
    return row(
        line,
        **{
            **known,
            "tflops_per_gpu": rate * per_token / 1e3,
            "tokens_per_second_per_gpu": rate,
            **fields,
        },
    )


@pytest.mark.parametrize(
    ("others", "is_told"),
    [
        ([mtp(2, "with"), mtp(3, "with")], True),
        ([mtp(2, "with"), mtp(3, "with"), mtp(4, "without")], False),
        ([mtp(2, "with")], False),
        ([mtp(2, "with"), mtp(3, "with", task="")], False),
        ([mtp(2, "with"), mtp(3, "with"), mtp(4, "without", task="")], True),
        (
            [
                mtp(2, "with"),
                mtp(3, "with"),
                row(4, tokens_per_second_per_gpu=999.0, tflops_per_gpu=51.42),
            ],
            True,
        ),
        ([mtp(2, "with"), mtp(3, "with", model="deepseek-v3.2")], False),
    ],
)
def test_most_rows_of_the_model_and_task_count_multi_token_prediction(others, is_told):
    text = "its TFLOP/s leaves out multi-token prediction, which most rows of this model count"
    assert told(*others, mtp(9, "without")) == (
        [(9, "info", "convention", text)] if is_told else []
    )


def test_rows_that_were_joined_are_of_one_publisher():
    first = row(
        2,
        file="d/x.md",
        tokens_per_second_per_gpu=8_000.0,
        tflops_per_gpu=350.0,
        **PEAK,
        publisher="P",
    )
    second = row(3, tokens_per_second_per_gpu=10_001.0, tflops_per_gpu=515.0, **PEAK, publisher="P")
    joined = row(4, tokens_per_second_per_gpu=10_001.0, tflops_per_gpu=350.0, publisher="P")
    text = "350 TFLOP/s at 10,001 tokens/s/GPU is 35 GFLOP per token; the shape gives 51.47"
    known, last = (4, "error", "contradiction", text), "-32% from causal attention"
    assert told(first, second, joined) == [
        (*known, "its tokens/s is that of :3, its TFLOP/s that of x.md:2", last)
    ]
    other = [dataclasses.replace(each, publisher="Q") for each in (first, second)]
    for rows in ([other[0], second], [first, other[1]], other, [first], [second], [joined]):
        assert told(*rows, joined)[-1] == (*known, last)


THREE = {"tokens_per_second_per_gpu": 1055.949, "step_time_s": 15.516, "tflops_per_gpu": 508.371}
ITEM = {"model": "unknown", "gpus": None}
ONE = {"tokens_per_second_per_gpu": 1135.5}


def without(name: str) -> dict[str, float]:
    return {each: value for each, value in THREE.items() if each != name}


@pytest.mark.parametrize(
    ("fields", "changes", "what"),
    [
        ({**ITEM, **THREE}, {}, "item"),
        ({**ITEM, **THREE}, {"model": "other"}, "model"),
        ({**ITEM, **THREE}, {"model": "other", "precision": "fp8"}, "precision and model"),
        ({**ITEM, **THREE}, {"global_batch": 4.0}, "item"),
        (
            {**ITEM, **THREE, "global_batch": 3.0},
            {"global_batch": 4.0, "gpu": "MI300X"},
            "gpu and global batch",
        ),
        *(({**ITEM, **without(name)}, {"model": "other"}, "model") for name in THREE),
        *(({**ITEM, **without(name)}, {}, None) for name in THREE),
        *(({**ITEM, name: THREE[name]}, {"model": "other"}, None) for name in THREE),
        # Of one value alone only the precision differs.
        (ONE, {"precision": "fp8"}, "precision"),
        (ONE, {"precision": ""}, None),
        (ONE, {"precision": "fp8", "global_batch": 4.0}, None),
        (ONE, {"precision": "fp8", "model": "llama-3.1-70b"}, None),
        ({**ONE, "model": "unknown"}, {"precision": "fp8"}, None),
        ({"tokens_per_second_per_gpu": 1135.0}, {"precision": "fp8"}, "precision"),
        ({"tokens_per_second_per_gpu": 0.001135}, {"precision": "fp8"}, "precision"),
        ({"tokens_per_second_per_gpu": 11_300.0}, {"precision": "fp8"}, None),
    ],
)
def test_a_row_with_the_values_of_another(fields, changes, what):
    rows = row(2, **fields, file="a/x.md"), row(3, **{**fields, **changes})
    said = [
        ("warning", "repeated", f"the same values as {place}, for another {what}")
        for place in (":3", "x.md:2")
    ]
    cause = "a line copied from the other page or row"
    expected = [] if what is None else [(line, *each, cause) for line, each in enumerate(said, 2)]
    assert [each for each in told(*rows) if each[2] == "repeated"] == expected


DAY = 86_400 * 1_000.0 * 2_000
CLAIM = {"model": "unknown", "tokens_per_second_per_gpu": 1_000.0, "gpus": 2_000.0}
CAUSE = "the rows train different numbers of tokens"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"target_tokens": 3 * DAY / 1.099995}, None),
        ({"target_tokens": 3 * DAY / 1.100005}, "518B tokens, not 471B"),
        ({"target_tokens": 3 * DAY / 0.9001}, None),
        ({"target_tokens": 3 * DAY / 0.8999}, "518B tokens, not 576B"),
        ({"target_tokens": 3 * DAY, "target_gpus": 4_000.0}, "1,037B tokens, not 518B"),
        ({"target_tokens": 4 * DAY, "gpus": None, "target_gpus": 2_000.0}, None),
        ({"target_tokens": 4 * DAY, "tokens_per_second_per_gpu": None}, None),
    ],
)
def test_a_claim_of_days(fields, text):
    expected = (
        [] if text is None else [(2, "warning", "claim", f"3 days at this rate are {text}", CAUSE)]
    )
    assert told(row(**{**CLAIM, "days": 3.0, **fields})) == expected


def test_claims_are_compared_with_the_median_of_their_publisher():
    """2, 3, 2.1 and 2.2 days; those of another publisher, and with a target of their own, aside."""
    rows = [
        row(line, **CLAIM, days=days) for line, days in ((2, 2.0), (3, 3.0), (5, 2.1), (7, 2.2))
    ]
    rows += [
        row(4, **CLAIM, days=5.0, publisher="Q"),
        row(6, **CLAIM, days=7.0, target_tokens=7 * DAY),
    ]
    text = "3 days at this rate are 518B tokens, not 372B as in the rows beside it"
    assert told(*rows) == [(3, "warning", "claim", text, CAUSE)]


def of_speeds(*speeds: float, **fields: object) -> list[Figure]:
    return [
        row(line, tokens_per_second_per_gpu=speed, **fields) for line, speed in enumerate(speeds, 2)
    ]


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        (of_speeds(1000.0, 1300.0, 2500.0, 4000.0), "3.1"),
        (of_speeds(1000.0, 2000.0, 6000.0, 4500.0), None),
        (of_speeds(1000.0, 1100.0, 3150.0), None),
        (of_speeds(1000.0, 1100.0, 3151.0), "3"),
        (of_speeds(1000.0, 4000.0), None),
        (of_speeds(1000.0, 1100.0, 4000.0, model="unknown"), None),
        *(
            ([*of_speeds(1000.0, 1100.0), row(4, tokens_per_second_per_gpu=4000.0, **each)], None)
            for each in (
                {"table": 2},
                {"file": "x.md"},
                {"publisher": "P"},
                {"version": "2"},
                {"global_batch": 3.0},
                {"gpus": 16.0},
            )
        ),
    ],
)
def test_a_row_against_those_beside_it(rows, times):
    text = f"{times} times as fast as the rows beside it, of the same model and GPU"
    assert told(*rows) == ([] if times is None else [(rows[-1].line, "warning", "outlier", text)])


@pytest.mark.parametrize(
    ("ratio", "more", "text"),
    [
        (3.885, [], None),
        (3.882, [], "3.882"),
        (4.122, [], None),
        (4.125, [], "4.125"),
        (7.0, [], "7"),
        (7.0, [1_500.0], None),
    ],
)
def test_a_ratio_against_the_two_rates_of_its_row(ratio, more, text):
    rows = [
        row(line, **PEAK, tokens_per_second_per_gpu=each)
        for line, each in ((3, 1e3), (3, 4e3), (4, 7e3))
    ]
    rows += [row(3, **PEAK, tokens_per_second_per_gpu=each) for each in more]
    expected = [(3, "error", "contradiction", f"4,000 tokens/s/GPU is 4 times 1,000, not {text}")]
    assert told(*rows, Figure(line=3, ratio=ratio)) == (expected if text else [])


TWO_MATRICES, VOCABULARY = "gated feed-forward layers as two", "a vocabulary of 32,000"


@pytest.mark.parametrize(
    ("others", "packed", "expected"),
    [
        # A mistake that other rows of the model show: exactly, or within 5% where nothing else
        # explains it.
        ((TWO_MATRICES, "gpt-oss-120b", 4096), 0.0, ("warning", "formula")),
        ((TWO_MATRICES, "gpt-oss-120b", 4096), 0.049, ("warning", "formula")),
        ((TWO_MATRICES, "gpt-oss-120b", 4096), -0.051, ("error", "contradiction")),
        # A choice that they show is no reason: short sequences explain it, too.
        ((VOCABULARY, "llama-3.1-8b", 8192), 0.0, None),
    ],
)
def test_packed_rows_beside_others_of_their_model(others, packed, expected):
    convention, model, length = others
    *rows, last = counting(convention, model, 0.0, 0.0, 0.0, packed, length=length)
    last = dataclasses.replace(last, task="sft")
    assert [each[1:3] for each in told(*rows, last) if each[0] == last.line] == (
        [expected] if expected else []
    )
    if convention is TWO_MATRICES:
        alone = ("error", "contradiction") if packed else ("warning", "formula")
        assert [each[1:3] for each in told(last)] == [alone]


SIX, FULL_NAME = "6 FLOPs for every parameter, no", "full attention, without"


@pytest.mark.parametrize(
    ("others", "usual"),
    [
        (
            counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0, 0.0),
            "full attention, without the causal half",
        ),
        # The most rows decide, not the last name; they count what is nearest to them.
        (
            [
                *counting("causal", "llama-3.1-8b", 0.0, 0.001, 0.002),
                *counting(FULL_NAME, "llama-3.1-8b", 0.3),
            ],
            "causal attention",
        ),
        (counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0), None),
        # Packed rows, and those whose length is unknown, show nothing.
        (
            [
                dataclasses.replace(each, task="sft")
                for each in counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0, 0.0)
            ],
            None,
        ),
        (
            [
                dataclasses.replace(each, sequence_length=None)
                for each in counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0, 0.0)
            ],
            None,
        ),
        # Nor do those of another publisher, framework or model.
        (
            [
                dataclasses.replace(each, publisher="P")
                for each in counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0, 0.0)
            ],
            None,
        ),
        (
            [
                dataclasses.replace(each, framework="F")
                for each in counting(FULL_NAME, "llama-3.1-8b", 0.0, 0.0, 0.0)
            ],
            None,
        ),
        (counting(FULL_NAME, "mistral-7b", 0.0, 0.0, 0.0), None),
    ],
)
def test_what_other_rows_of_the_model_count(others, usual):
    (last,) = counting(SIX, "llama-3.1-8b", -0.0151)
    text = "47.477 TFLOP/s at 1,000.49 tokens/s/GPU is 47.45 GFLOP per token; the shape gives 51.47"
    if usual is None:
        expected = (
            "info",
            "convention",
            text,
            "it counts 6 FLOPs for every parameter, no attention",
        )
    else:
        distance = (
            "-18% from full attention, without the causal half"
            if "full" in usual
            else "-8% from causal attention"
        )
        expected = (
            "error",
            "contradiction",
            f"{text}; 3 other rows of this model count {usual}",
            distance,
        )
    assert told(*others, dataclasses.replace(last, line=9))[-1] == (9, *expected)


def test_findings_of_a_row_are_sorted_by_their_severity():
    rows = [
        row(2, tokens_per_second_per_gpu=16_001.5, days=3.0),
        row(3, tokens_per_second_per_gpu=16_001.5, precision="fp8", days=9.0),
    ]
    assert [each[:3] for each in told(*rows)] == [
        (2, "error", "above-peak"),
        (2, "warning", "repeated"),
        (2, "warning", "claim"),
        (3, "warning", "repeated"),
        (3, "warning", "claim"),
    ]
    convention = row(
        4, tokens_per_second_per_gpu=10_000.0, tflops_per_gpu=579.1, days=1.0, target_tokens=1.0
    )
    assert [each[1] for each in told(convention)] == ["warning", "info"]


class Counted(Figure):
    """A row that counts how often anything in it is looked at."""

    def __getattribute__(self, name):
        LOOKS[0] += 1
        return super().__getattribute__(name)


LOOKS = [0]
GLM_LORA = {
    "model": "glm-5.2",
    "gpu": "GB200",
    "gpus": 192.0,
    "task": "lora",
    "sequence_length": None,
}
MANY = {
    "distinct": {"tokens_per_second_per_gpu": 1e4, "tflops_per_gpu": 900.0, "steps": 1},
    "one tflops": {"tokens_per_second_per_gpu": 1e4, "tflops_per_gpu": 900.0},
    "one row": {"tokens_per_second_per_gpu": 1e4, "tflops_per_gpu": 900.0, "steps": 0},
    "lora": {**GLM_LORA, "tokens_per_second_per_gpu": 4.977, "tflops_per_gpu": 1.423, "steps": 0},
    "multi-token prediction": {
        "model": "deepseek-v3",
        "tokens_per_second_per_gpu": 1e3,
        "tflops_per_gpu": 250.0,
    },
    "ratios": {"tokens_per_second_per_gpu": 1e4, "ratio": 2.0},
    "claims": {"tokens_per_second_per_gpu": 1e4, "days": 10.0},
}


def looks_at(rows: int, speed: str) -> int:
    fields = dict(MANY[speed])
    step = fields.pop("steps", None)
    figures = []
    for index in range(rows):
        known = {
            **fields,
            "tokens_per_second_per_gpu": fields["tokens_per_second_per_gpu"] + index * (step != 0),
        }
        known |= {"tflops_per_gpu": fields["tflops_per_gpu"] + index / 100} if step else {}
        figures.append(Counted(**dataclasses.asdict(row(line=index, **known))))
    LOOKS[0] = 0
    audit(figures)
    return LOOKS[0]


@pytest.mark.parametrize("kind", MANY)
def test_x9_twice_as_many_rows_are_twice_the_work(kind):
    few, many = looks_at(500, kind), looks_at(1_000, kind)
    assert few > 500
    assert many < 2.1 * few


@pytest.mark.parametrize(
    ("said", "length"),
    [
        ("For a fixed sequence length, the speed is:", None),
        ("sequence length ,,,", None),
        ("Sequence length: 4,096", 4096.0),
        ("seq_len 1", 1.0),
    ],
)
def test_x9_a_line_that_says_no_length_has_none(said, length):
    (figure,) = figures(
        f"{said}\n\n| model | GPU | tokens/s/GPU |\n|---|---|---|\n| Llama 3.1 8B | H100 |"
        " 12000 |\n"
    )
    assert figure.sequence_length == length


def test_x9_a_ratio_with_a_comma_is_read():
    figure, _ = figures(
        "| model | GPU | tokens/s/GPU |\n|---|---|---|\n| a | H100 | 1,200x more |\n| a | H100 |"
        " 7 |\n"
    )
    assert figure.ratio == 1200


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1e18", 1e18), ("1.1e18", 0), ("1e-18", 1e-18), ("0.9e-18", 0), ("1e999", 0), ("0", 0)],
)
@pytest.mark.parametrize(
    "heading", ["step time", "tokens/s/GPU", "TFLOP/s/GPU", "GPUs", "MFU", "seq len", "samples/s"]
)
def test_x9_a_figure_that_no_training_has_is_missing(heading, cell, value):
    headings = [heading, *({"tokens/s/GPU", "step time", "GBS", "model", "GPU"} - {heading})]
    known = {
        "tokens/s/GPU": "100",
        "step time": "2",
        "GBS": "8",
        "model": "Llama 3.1 8B",
        "GPU": "H100",
    }
    cells = [cell, *(known[each] for each in headings[1:])]
    rows = figures(
        f"| {' | '.join(headings)} |\n{'|---' * 5}{'|---' * (len(headings) - 5)}|\n|"
        f" {' | '.join(cells)} |\n"
    )
    assert audit(rows)
    assert value in dataclasses.asdict(rows[0]).values()


@pytest.mark.skipif(
    not (SHARED / "cases" / "4").is_dir(), reason="the small cases do not lie beside this clone"
)
def test_x9_the_case_is_read():
    text = (SHARED / "cases" / "4" / "e_audit_sequence_length.md").read_text(encoding="utf-8")
    (figure,) = figures(text)
    assert (figure.tokens_per_second_per_gpu, figure.sequence_length) == (12_000, None)
