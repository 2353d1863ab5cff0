"""Where the time goes, of several runs side by side."""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.cli import run
from tprimat.report.breakdown import breakdowns, shares
from tprimat.results.trace import Trace

PARTS = {
    "computation": 0.8,
    "exposed_communication": 0.1,
    "idle": 0.1,
    "total": 1.0,
    "kernel gemm": 0.5,
}


def traced(**changes):
    return make_run(
        **{"framework": "tracelens", "steps": 0, "warmup": (), "breakdown": PARTS, **changes}
    )


def table(*runs):
    ((found, note),) = breakdowns(comparison(*runs).models[0])
    return found.header[1:], {title: tuple(cells) for title, *cells in found.rows}, note


def test_two_systems_are_columns_with_their_shares():
    other = {**PARTS, "total": 2.0, "idle": 1.1, "kernel other": 0.3}
    names, rows, note = table(traced(), traced(device=MI300X, stack="rocm", breakdown=other))
    assert names == ["8×H100 (BF16)", "8×MI300X (BF16)"]
    assert list(rows)[:4] == ["total", "computation", "exposed communication", "idle"]
    assert rows["total"] == ("1.000 s", "2.000 s")
    assert rows["idle"] == ("100.00 ms (10.0%)", "1.100 s (55.0%)")
    assert rows["kernel other"] == ("–", "300.00 ms (15.0%)")
    assert "does not state the number of steps" in note


def test_a_part_that_is_unknown_is_not_zero():
    _, rows, _ = table(traced(), traced(device=MI300X, breakdown={**PARTS, "idle": None}))
    assert rows["idle"] == ("100.00 ms (10.0%)", "–")


def test_the_chart_has_the_parts_that_have_a_time():
    amd = traced(
        device=MI300X, stack="rocm", breakdown={"computation": 1.5, "total": 2.0, "idle": None}
    )
    names, parts = shares(comparison(traced(), amd).models[0])
    assert names == ["8×H100 (BF16)", "8×MI300X (BF16)"]
    assert [title for title, _ in parts] == ["computation", "exposed communication", "idle"]
    assert [values for _, values in parts] == [
        pytest.approx([80.0, 75.0]),
        [pytest.approx(10.0), None],
        [pytest.approx(10.0), None],
    ]


def test_only_one_system_has_one():
    assert breakdowns(comparison(traced(), make_run(MI300X, stack="rocm")).models[0]) == []


def test_a_trace_and_a_frameworks_timers_are_never_one_table():
    timers = make_run(MI300X, stack="rocm", breakdown={"forward": 0.3})
    assert breakdowns(comparison(traced(), timers).models[0]) == []


@pytest.mark.parametrize("trace", [None, Trace(steps=())])
def test_the_wait_for_data_is_no_part_of_a_trace(trace):
    parts = {"data_wait_s": 0.1, "compute_s": 0.9, **({"total": 1.0, "idle": 0.2} if trace else {})}
    _, rows, _ = table(
        *(make_run(breakdown=parts, trace=trace, step_time=seconds) for seconds in (3.1, 3.2))
    )
    assert list(rows) == (["total", "idle"] if trace else ["compute", "data wait"])


@pytest.mark.parametrize(
    "files",
    [
        ["203e0328_reference_h100_perf_report.xlsx", "203e0328_reference_mi300_perf_report.xlsx"],
        ["203e0328_reference_compare_h100_mi300_qwen.xlsx"],
    ],
    ids=["two reports", "the comparison form"],
)
def test_real_reports_of_two_machines(samples, tmp_path, monkeypatch, capsys, files):
    monkeypatch.chdir(tmp_path)
    assert run("read", [str(samples / "tracelens" / name) for name in files]) == 0
    run("compare", ["--no-plot"])
    shown = " ".join(capsys.readouterr().out.split("unnamed model")[1].split())
    assert "computation 31.90 ms (91.4%) 29.74 ms (89.8%)" in shown
    assert "idle 2.99 ms (8.6%) 3.39 ms (10.2%)" in shown
    report = (tmp_path / "output" / "comparison_report.md").read_text(encoding="utf-8")
    assert "Where the time goes" in report
    assert "kernel attn_fwd" in report.replace("\\", "")


def test_runs_of_one_file_are_numbered_within_their_system():
    both = [
        tuple(
            make_run(gpu, breakdown={"compute_s": time}, step_time=3 + time) for time in (0.1, 0.2)
        )
        for gpu in ("NVIDIA H100", MI300X)
    ]
    names, _, _ = table(*both)
    assert [name.rpartition(", ")[2] for name in names] == ["run 1", "run 2"] * 2
