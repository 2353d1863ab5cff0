"""What a program gets: everything that the tables show, as plain values."""

from __future__ import annotations

import json

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.compare import cost
from tprimat.report import json_values
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm"}


def values(found):
    return json.loads(json_values.dumped(json_values.comparison_values(report(found))))


def test_a_comparison_and_its_metrics():
    found = values(
        cost.with_prices(
            comparison(make_run(), make_run(**AMD, step_time=1.6)), ["2", "3"], source="a list"
        ).comparison
    )
    assert (found["status"], found["mode"]) == (0, "best")
    (group,) = found["models"][0]["groups"]
    assert group["headline"] == "8×MI300X (BF16) is 2.0× as fast per GPU as 8×H100 (BF16)"
    assert [system["name"] for system in group["systems"]] == ["8×MI300X (BF16)", "8×H100 (BF16)"]
    assert group["systems"][1]["values"]["tokens_per_second_per_gpu"]["value"] == pytest.approx(
        5120, rel=0.01
    )
    assert {caveat["severity"] for caveat in group["caveats"]} <= {"warning", "info"}
    (pair,) = group["pairs"]
    assert pair == group["leaders"]
    assert (pair["faster"], pair["slower"]) == ("8×MI300X (BF16)", "8×H100 (BF16)")
    speedup = pair["speedup"]
    assert speedup["value"] == pytest.approx(2)
    assert [speedup[key] for key in ("low", "high", "method", "significant", "runs_needed")] == [
        None
    ] * 5
    assert speedup["minimum_detectable_effect"] is None
    assert pair["cost"]["cheaper"] == "8×MI300X (BF16)"
    assert pair["cost"]["break_even_usd_per_gpu_hour"] == [pytest.approx(1.5)] * 2
    assert {entry["status"] for entry in pair["config_diff"]} <= {
        "equal",
        "different",
        "unknown",
        "blocking",
    }
    metrics = {each["system"]: each for each in found["metrics"]}["8×H100 (BF16)"]
    assert metrics["columns"][0]["values"]["tokens_per_dollar"]["value"] == pytest.approx(
        5120 * 1800, rel=0.01
    )
    assert metrics["price_usd_per_gpu_hour"] == [2, 2]
    assert found["files"][0]["sha256"] == "1" * 64


def test_the_speedup_is_the_rate_over_the_baselines_also_if_the_baseline_is_faster():
    slow = make_run(**AMD, steps=300, warmup=(20.0, *[5.13] * 149), step_time=4.87)
    runs = make_run(steps=300), slow
    found = values(comparison(*runs, reference="H100"))
    (pair,) = found["models"][0]["groups"][0]["pairs"]
    assert (pair["baseline"], pair["faster"]) == ("8×H100 (BF16)", "8×H100 (BF16)")
    assert pair["speedup"]["value"] == pytest.approx(3.2 / 5, rel=0.01)
    first, second = pair["speedup"]["segments"]
    assert (first["system_steps"], first["baseline_steps"]) == ("4–150", None)
    assert first["value"] < second["value"] < 1


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
    assert json.loads(json_values.dumped({"a": [float("inf"), float("nan"), 1.5]})) == {
        "a": [None, None, 1.5]
    }
