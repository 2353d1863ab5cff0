"""What a program gets: everything that the tables show, as plain values."""

from __future__ import annotations

import json

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.compare import Loaded, cost
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.report import json_values, terminal
from tprimat.report import regression as regression_report
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm"}


def values(found):
    return json.loads(json_values.dumped(json_values.comparison_values(report(found))))


def test_a_comparison_and_its_metrics():
    found = values(
        cost.with_prices(comparison(make_run(), make_run(**AMD, step_time=1.6)), ["2", "3"], source="a list")
    )
    assert (found["status"], found["mode"]) == (0, "best")
    (group,) = found["models"][0]["groups"]
    assert group["headline"] == "8×MI300X (BF16) is 2.0× as fast per GPU as 8×H100 80GB HBM3 (BF16)"
    assert [system["name"] for system in group["systems"]] == ["8×MI300X (BF16)", "8×H100 80GB HBM3 (BF16)"]
    assert group["systems"][1]["values"]["tokens_per_second_per_gpu"]["value"] == pytest.approx(5120, rel=0.01)
    assert {caveat["severity"] for caveat in group["caveats"]} <= {"warning", "info"}
    (pair,) = group["pairs"]
    assert pair == group["leaders"]
    assert (pair["faster"], pair["slower"]) == ("8×MI300X (BF16)", "8×H100 80GB HBM3 (BF16)")
    speedup = pair["speedup"]
    assert speedup["value"] == pytest.approx(2)
    assert [speedup[key] for key in ("low", "high", "method", "significant", "runs_needed")] == [None] * 5
    assert speedup["minimum_detectable_effect"] is None
    assert pair["cost"]["cheaper"] == "8×MI300X (BF16)"
    assert pair["cost"]["break_even_usd_per_gpu_hour"] == [pytest.approx(1.5)] * 2
    assert {entry["status"] for entry in pair["config_diff"]} <= {"equal", "different", "unknown", "blocking"}
    metrics = {each["system"]: each for each in found["metrics"]}["8×H100 80GB HBM3 (BF16)"]
    assert metrics["columns"][0]["values"]["tokens_per_dollar"]["value"] == pytest.approx(5120 * 1800, rel=0.01)
    assert metrics["price_usd_per_gpu_hour"] == [2, 2]
    assert found["files"][0]["sha256"] == "1" * 64


def test_the_speedup_is_1_or_more_also_where_the_baseline_is_faster():
    slow = make_run(**AMD, steps=300, warmup=(20.0, *[5.13] * 149), step_time=4.87)
    runs = make_run(steps=300), slow
    found = values(comparison(*runs, reference="H100"))
    (pair,) = found["models"][0]["groups"][0]["pairs"]
    assert (pair["baseline"], pair["faster"]) == ("8×H100 80GB HBM3 (BF16)", "8×H100 80GB HBM3 (BF16)")
    assert pair["speedup"]["value"] == pytest.approx(5 / 3.2, rel=0.01)
    first, second = pair["speedup"]["segments"]
    assert (first["system_steps"], first["baseline_steps"]) == ("4–150", None)
    assert first["value"] > second["value"] > 1


def test_an_exclusion_has_its_reason_and_what_would_explain_it():
    found = values(comparison(make_run(), make_run(step_time=0.3, label="fast")))
    (pair,) = found["models"][0]["groups"][0]["pairs"]
    assert (found["status"], pair["speedup"], pair["faster"]) == (4, None, None)
    assert "of the dense BF16 peak" in pair["reason"]
    system = found["models"][0]["groups"][0]["systems"][1]
    assert system["excluded"] is True
    assert system["findings"][0]["severity"] == "error"
    assert system["findings"][0]["rule"] == "above-peak"
    assert system["findings"][0]["explanations"]
    assert found["metrics"][1]["columns"] == []
    assert found["metrics"][1]["reason"].startswith("excluded: ")


def test_infinity_is_null():
    assert json.loads(json_values.dumped({"a": [float("inf"), float("nan"), 1.5]})) == {"a": [None, None, 1.5]}


def a_check(slower="3%", candidate=3.4, count=3, **options):
    files = [
        [
            Loaded(
                f"{name}.json",
                "0" * 64,
                tuple(
                    make_run(step_time=step * factor, timestamp=f"2026-03-0{day}T00:00:00+00:00")
                    for day, factor in enumerate((0.998, 1.0, 1.002)[:count], start=1)
                ),
            )
        ]
        for name, step in (("old", 3.2), ("new", candidate))
    ]
    return check_regression(*files, parse(slower, ["peak_memory_allocated_gb=1"]), **options)


def test_a_regression_check():
    found = json.loads(json_values.dumped(json_values.regression_values(a_check())))
    rate, memory = found["checks"]
    assert found["status"] == 1
    assert [rate[key] for key in ("metric", "answer", "threshold", "threshold_unit", "method")] == [
        *("tokens_per_second_per_gpu", "worse", 3.0, "%", "welch")
    ]
    assert rate["low"] < rate["change"] < rate["high"] < 0.97
    assert (rate["baseline_runs"], rate["candidate_runs"], rate["runs_needed"]) == (3, 3, None)
    assert rate["p"] <= rate["p_adjusted"] < 0.05
    assert (memory["answer"], memory["threshold_unit"], memory["change"]) == ("within", "GB", 0)
    assert (found["pairs"][0]["faster"], found["pairs"][0]["speedup"]["significant"]) == (
        "8×H100 80GB HBM3 (BF16) (baseline)",
        True,
    )


class TestRegressionCheckAsText:
    def test_the_answer_comes_first(self):
        text = terminal.write(regression_report.document(a_check()))
        assert text.startswith("Fail: regression (1 of 2 checks)\nLlama 3.1 8B: 8×H100 80GB HBM3 (BF16)\n\n")
        assert "FAIL:\ntokens/s/GPU " in text
        assert "-5.9%" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_pass(self):
        assert regression_report.verdict(a_check("10%")) == "Pass (2 of 2 checks)"

    def test_the_summary_is_markdown(self):
        command = "compare_results.py --baseline old --candidate new"
        text = regression_report.summary(a_check(), command).decode()
        assert text.startswith("### Fail: regression (1 of 2 checks)\n\nLlama 3.1 8B: 8×H100 80GB HBM3 (BF16)\n\n")
        assert "| tokens/s/GPU " in text
        assert text.rstrip().endswith(f"Command: {command}")

    def test_an_inconclusive_check_is_a_warning(self):
        text = " ".join(terminal.write(regression_report.document(a_check("5.9%"))).split())
        assert text.startswith("Inconclusive: more runs needed")
        assert "warning: Llama 3.1 8B, 8×H100 80GB HBM3 (BF16), throughput per GPU -5.9%: " in text
        assert "inconclusive ends with exit status 0" in text

    def test_a_large_regression_without_an_interval_is_named(self):
        check = a_check(candidate=4.8, count=1)
        first, hint = (line for line in regression_report.warnings(check) if "memory" not in line)
        assert first == (
            "warning: Llama 3.1 8B, 8×H100 80GB HBM3 (BF16), throughput per GPU -33.3%: beyond the threshold of -3%, "
            "but with 1 run each, "
            "run-to-run variation is unknown; about 2 runs each would decide if runs vary by 1%"
        )
        assert hint.startswith("hint: ")
        failing = a_check(candidate=4.8, count=1, fail_on_inconclusive=True)
        assert failing.status == 6
        assert not any(line.startswith("hint") for line in regression_report.warnings(failing))
