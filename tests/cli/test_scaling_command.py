"""compare --scaling and project, on real logs of three systems and on the made-up results of the
docs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tool_modules import load_tool

from tprimat.analysis import projection as forms
from tprimat.cli import run
from tprimat.errors import ExitStatus

REPOSITORY = Path(__file__).resolve().parents[2]
MADE_UP = str(REPOSITORY / "tests" / "data" / "scaling")
SIZES = {
    "H100": {"Dell_XE": 8, "_2xXE": 16, "_4xXE": 32, "_8xXE": 64},
    "GB200": {f"_{gpus}xGB200": gpus for gpus in (512, 1024, 1536, 2048, 2496)},
    "B200": {"_1x8xB200": 8, "_2x8xB200": 16, "_16x8xB200": 128, "_32x8xB200": 256},
}
"""GPUs of the logs, which state neither, by a part of their names."""


@pytest.fixture(scope="module")
def projection_errors():
    return load_tool("projection_errors")


@pytest.fixture(scope="module")
def curves(samples, projection_errors):
    """The curves of the three real systems, by their GPU."""
    return {curve.name: curve for curve in projection_errors.curves(samples / "mlperf_scaling")}


def test_three_real_systems(curves):
    assert {name: [size.gpus for size in curve.sizes] for name, curve in curves.items()} == {
        name: list(sizes.values()) for name, sizes in SIZES.items()
    }
    assert {name: curve.kind for name, curve in curves.items()} == {
        "H100": "strong",
        "GB200": "mixed",
        "B200": "mixed",
    }
    breaks = {name: curve.breaks_at and curve.breaks_at.gpus for name, curve in curves.items()}
    assert breaks == {"H100": 16, "GB200": None, "B200": 128}


def rates(logs, gpus: int, rate) -> float:
    """The mean over runs of a rate per GPU that a log gives."""
    found = [rate(path) / gpus for path in logs]
    assert len(found) == 2
    return sum(found) / 2


def agrees(curve, independent: dict[int, float], tolerance: float) -> None:
    for size in curve.sizes[1:]:
        ratio = independent[size.gpus] / independent[curve.sizes[0].gpus]
        assert size.efficiency.value == pytest.approx(ratio, rel=tolerance)
        assert size.efficiency.low < size.efficiency.value < size.efficiency.high


def training_rate(path) -> float:
    """Samples/s between block_start and block_stop, by the positions beside the evaluations."""
    events = [
        json.loads(line.partition(":::MLLOG")[2]) for line in path.open() if ":::MLLOG {" in line
    ]
    borders = {
        key: [each for each in events if each["key"] == key]
        for key in ("block_start", "block_stop", "eval_stop")
    }
    starts, stops = (
        [each["time_ms"] for each in borders[key]] for key in ("block_start", "block_stop")
    )
    assert len(starts) == len(stops)
    return borders["eval_stop"][-1]["metadata"]["samples_count"] * 1e3 / (sum(stops) - sum(starts))


@pytest.mark.parametrize("gpu", ["H100", "GB200", "B200"])
def test_efficiency_is_that_of_the_wall_time_of_training(curves, samples, truth, gpu):
    known = truth("mlperf_scaling")
    independent = {}
    for part, gpus in SIZES[gpu].items():
        logs = sorted((samples / "mlperf_scaling").glob(f"*{part}*_r?.txt"))
        independent[gpus] = rates(logs, gpus, training_rate)
        (batch,) = {known[path.name]["global_batch_size"] for path in logs}
        assert [size.batch for size in curves[gpu].sizes if size.gpus == gpus] == [batch]
    agrees(curves[gpu], independent, 0.002)


def test_the_errors_in_the_docs_are_those_of_the_tool(curves, projection_errors):
    results = [each for curve in curves.values() for each in projection_errors.left_out(curve)]
    page = (REPOSITORY / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert projection_errors.efficiency_table(list(curves.values())) in page
    assert projection_errors.errors_table(results) in page
    missed = [each for each in results if not each.bounds[0] <= 0 <= each.bounds[1]]
    assert [(each.is_largest, round(each.bounds[0], 3)) for each in missed] == [(True, 0.006)]
    # What was offered for each largest size misses it by no more than the straight line does.
    largest = [each for each in results if each.is_largest]
    assert len(largest) == 3
    assert all(abs(each.used[1]) <= abs(each.errors["line"]) + 1e-9 for each in largest)


@pytest.mark.parametrize(
    ("gpu", "form"), [("H100", "line"), ("GB200", "communication"), ("B200", "line")]
)
def test_what_is_worse_than_a_straight_line_is_not_offered(curves, gpu, form):
    points = curves[gpu].points
    found = forms.project(points, 4096, forms.default_batch(points, 4096))
    assert found.fit.form == form
    other = next(each for each in forms.FORMS if each != form)
    assert abs(found.backtest[form]) < abs(found.backtest[other])
    assert found.low < found.rate < found.high


def test_the_commands_on_real_logs(samples, tmp_path, capsys):
    logs = str(samples / "mlperf_scaling" / "v4.1*")
    given = [
        "--gpu",
        "H100",
        *(
            word
            for part, gpus in SIZES["H100"].items()
            for word in ("--num-gpus", f"{part}={gpus}")
        ),
    ]
    argv = [logs, "--scaling", "--no-plot", "--results-dir", str(tmp_path), *given]
    assert run("compare", argv) == ExitStatus.OK
    text = capsys.readouterr().out
    assert "strong scaling, global batch 8 throughout" in text
    assert "77.2% scaling efficiency at 64 GPUs" in text
    assert run("project", [logs, "--gpus", "128", "--json", *given]) == ExitStatus.OK
    (found,) = json.loads(capsys.readouterr().out)["projections"]
    assert (found["form"], found["unit"], found["global_batch_size"]) == (
        "line",
        "samples/s/GPU",
        8,
    )
    assert found["total"]["value"] == pytest.approx(128 * found["per_gpu"]["value"])


def test_the_plot_and_the_reports(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    argv = [
        MADE_UP,
        "--scaling",
        "--results-dir",
        str(tmp_path),
        "--cost",
        "H100=2.5",
        "--cost-source",
        "quote",
    ]
    assert run("compare", argv) == ExitStatus.OK
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert "tokens/J" in text
    assert "(quote, undated)" in " ".join(text.split())
    assert (tmp_path / "comparison_plot.png").stat().st_size > 10_000
    assert re.search(
        r"## Scaling\n", (tmp_path / "comparison_report.md").read_text(encoding="utf-8")
    )
    assert 'id="scaling"' in (tmp_path / "comparison_report.html").read_text(encoding="utf-8")


def test_one_size_is_no_scaling(tmp_path, capsys):
    one = f"{MADE_UP}/h100_8gpus_run1.json"
    argv = [one, "--scaling", "--no-plot", "--results-dir", str(tmp_path)]
    assert run("compare", argv) == ExitStatus.NOT_COMPARABLE
    assert capsys.readouterr().out.startswith("No scaling data: ")
    assert run("project", [one, "--gpus", "64"]) == ExitStatus.NOT_COMPARABLE
    assert capsys.readouterr().out.startswith("No projection: ")


def test_a_broken_file_decides_the_status(tmp_path, capsys):
    broken = tmp_path / "größe.json"
    broken.write_text('{"steps": [1, 2')
    argv = [MADE_UP, str(broken), "--scaling", "--no-plot", "--results-dir", str(tmp_path / "out")]
    assert run("compare", argv) == ExitStatus.USAGE
    found = capsys.readouterr()
    assert "größe.json" in found.err
    assert "59.8% scaling efficiency" in found.out
    assert run("project", [MADE_UP, str(broken), "--gpus", "128", "--quiet"]) == ExitStatus.USAGE


@pytest.mark.parametrize(
    "words", [["--gpus", "0"], ["--gpus", "many"], ["--gpus", "8", "--batch", "-1"], []]
)
def test_wrong_usage_of_project(words, capsys):
    assert run("project", [MADE_UP, *words]) == ExitStatus.USAGE
    assert capsys.readouterr().out == ""
