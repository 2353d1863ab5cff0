"""What a program gets: everything that the tables show, as plain values."""

from __future__ import annotations

import json

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.compare import Loaded, money
from tprimat.compare.allowance import parse
from tprimat.compare.gate import gate
from tprimat.report import gate as gate_report
from tprimat.report import json_values

AMD = {"device": MI300X, "stack": "rocm"}


def values(found):
    return json.loads(json_values.dumped(json_values.comparison_values(found)))


def test_a_comparison_and_its_metrics():
    found = values(
        money.with_prices(comparison(make_run(), make_run(**AMD, step_time=1.6)), ["2", "3"], source="a list")
    )
    assert (found["status"], found["mode"]) == (0, "max")
    (group,) = found["models"][0]["groups"]
    assert group["headline"].startswith("8×MI300X is 2.00 times as fast")
    assert [side["name"] for side in group["sides"]] == ["8×H100 80GB HBM3", "8×MI300X"]
    assert group["sides"][0]["figures"]["tokens_per_second_per_gpu"]["value"] == pytest.approx(5120, rel=0.01)
    (pair,) = group["pairs"]
    assert pair["ratio"]["value"] == pytest.approx(2)
    assert (pair["ratio"]["low"], pair["ratio"]["shown"]) == (None, None)
    assert pair["money"]["winner"] == "8×MI300X"
    assert pair["money"]["other_wins_below_usd_per_gpu_hour"] == [pytest.approx(1.5)] * 2
    assert {entry["standing"] for entry in pair["ledger"]} <= {"equal", "different", "unknown", "disqualifying"}
    figures = found["metrics"][0]["levels"][0]["figures"]
    assert figures["tokens_per_dollar"]["value"] == pytest.approx(5120 * 1800, rel=0.01)
    assert found["metrics"][0]["price_usd_per_gpu_hour"] == [2, 2]
    assert found["files"][0]["sha256"] == "1" * 64


def test_a_refusal_has_its_reason_and_what_would_explain_it():
    found = values(comparison(make_run(), make_run(step_time=0.3, label="fast")))
    (pair,) = found["models"][0]["groups"][0]["pairs"]
    assert (found["status"], pair["ratio"]) == (4, None)
    assert "of the dense bf16 peak" in pair["reason"]
    side = found["models"][0]["groups"][0]["sides"][1]
    assert side["refused"] is True
    assert side["findings"][0]["rule"] == "above-peak"
    assert side["findings"][0]["explanations"]
    assert found["metrics"][1]["levels"] == []
    assert found["metrics"][1]["why_none"].startswith("Left out: ")


def test_infinity_is_null():
    assert json.loads(json_values.dumped({"a": [float("inf"), float("nan"), 1.5]})) == {"a": [None, None, 1.5]}


def a_gate(slower="3%", candidate=3.4):
    files = [
        [
            Loaded(
                f"{name}.json",
                "0" * 64,
                tuple(
                    make_run(step_time=step * factor, timestamp=f"2026-03-0{day}T00:00:00+00:00")
                    for day, factor in enumerate((0.998, 1.0, 1.002), start=1)
                ),
            )
        ]
        for name, step in (("old", 3.2), ("new", candidate))
    ]
    return gate(*files, parse(slower, ["peak_memory_allocated_gb=1"]))


def test_a_gate():
    found = json.loads(json_values.dumped(json_values.gate_values(a_gate())))
    rate, memory = found["checks"]
    assert found["status"] == 1
    assert (rate["metric"], rate["answer"], rate["allowed"], rate["allowed_in"]) == (
        "tokens_per_second_per_gpu",
        "worse",
        3.0,
        "%",
    )
    assert rate["low"] < rate["change"] < rate["high"] < 0.97
    assert (rate["baseline_runs"], rate["candidate_runs"], rate["runs_needed"]) == (3, 3, None)
    assert (memory["answer"], memory["allowed_in"], memory["change"]) == ("within", "unit", 0)
    assert found["pairs"][0]["ratio"]["shown"] is True


class TestGateAsText:
    def test_the_answer_comes_first(self):
        text = gate_report.console(a_gate())
        assert text.startswith("Worse than allowed (1 of 2 checks).\n- Llama 3.1 8B")
        assert "-5.9%" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_not_worse(self):
        assert gate_report.verdict(a_gate("10%")) == "Not worse than allowed (2 of 2 checks)."

    def test_the_summary_is_markdown(self):
        text = gate_report.summary(a_gate(), "compare_results.py --baseline old --candidate new").decode()
        assert text.startswith("### Speed: Worse than allowed (1 of 2 checks).\n\n- Llama 3.1 8B")
        assert "| Llama 3.1 8B: Throughput per GPU, tokens/s/GPU |" in text
        assert text.rstrip().endswith("Made by: compare_results.py --baseline old --candidate new")

    def test_what_cant_be_told_is_marked(self):
        text = gate_report.console(a_gate("5.9%"), width=120)
        assert text.startswith("Can't tell with this many runs")
        assert "~ -5.9%" in text
