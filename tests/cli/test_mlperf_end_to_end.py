"""Two submissions to MLPerf Training v5.1 of Llama 3.1 8B, ten runs each: read by one command, compared by another."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tprimat.cli import run
from tprimat.errors import ExitStatus

SYSTEMS = {"AMD": "v5.1_AMD_8xMI355X.json", "Nebius": "v5.1_Nebius_8xB200.json"}
RUNS = {
    "AMD": [f"v5.1_llama31_8b_AMD_8xMI355X_r{number}.txt" for number in range(10)],
    "Nebius": [f"v5.1_llama31_8b_Nebius_8xB200_r{number:02d}.txt" for number in range(1, 11)],
}


@pytest.fixture(scope="module")
def read(samples, tmp_path_factory):
    """A folder with both submissions as they are published, and the results that one command makes of them."""
    folder = tmp_path_factory.mktemp("mlperf")
    for submitter, names in RUNS.items():
        results = folder / submitter / "results" / "machine" / "llama31_8b"
        results.mkdir(parents=True)
        for number, name in enumerate(names):
            shutil.copy(samples / "mlperf" / name, results / f"result_{number}.txt")
        (folder / submitter / "systems").mkdir()
        shutil.copy(
            samples / "mlperf" / "systems" / SYSTEMS[submitter], folder / submitter / "systems" / "machine.json"
        )
    status = run("read", [str(folder / "AMD"), str(folder / "Nebius"), "--output-dir", str(folder / "output")])
    assert status == ExitStatus.WELL
    return folder / "output"


@pytest.fixture
def shown(read, capsys):
    capsys.readouterr()
    assert run("compare", ["--results-dir", str(read), "--no-plot"]) == ExitStatus.WELL
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def sides(read, capsys):
    capsys.readouterr()
    run("compare", ["--results-dir", str(read), "--no-plot", "--json"])
    return json.loads(capsys.readouterr().out)


def test_every_run_is_a_result_and_none_is_counted_twice(read):
    files = list(read.rglob("*.json"))
    times = [
        each["performance_metrics"]["avg_step_time_seconds"]
        for path in files
        for each in json.loads(path.read_text(encoding="utf-8"))["runs"]
    ]
    assert len(times) == 20
    assert sum(time == pytest.approx(1.0435, abs=0.003) for time in times) == 10
    assert sum(time == pytest.approx(0.456, abs=0.002) for time in times) == 10


def test_the_verdict_is_of_throughput(shown):
    found = re.search(
        r"8×B200 is 1\.14 times \(95 %: 1\.14 to 1\.15\) as fast as 8×MI355X: ([\d,]+) against ([\d,]+) tokens/s/GPU",
        shown,
    )
    assert found is not None
    b200, mi355x = (int(text.replace(",", "")) for text in found.groups())
    assert b200 == pytest.approx(35_900, rel=0.002)
    assert mi355x == pytest.approx(31_400, rel=0.002)
    # 1.043 s against 0.456 s would be 2.29 times as fast: steps of another batch are no speed.
    assert "2.29" not in shown


def test_step_times_and_runs_stand_side_by_side(shown):
    assert re.search(r"Step time, mean 1\.04[34] s 0\.456 s", shown)
    assert re.search(r"Runs 10 \[[\d,-]+\] 10 ", shown)


def test_the_different_batch_is_named(shown):
    assert "The batches differ (32 and 16 sequences), so a step is not the same work." in shown
    assert "global batch 32 sequences 16 sequences" in shown
    assert "sequence length 8192 tokens" in shown


def test_the_intervals_are_far_narrower_than_the_difference(shown):
    spread = [float(each) for each in re.findall(r"±([\d.]+)%", shown)]
    assert len(spread) == 2
    assert max(spread) < 0.5
    assert "31,347–31,428 35,877–35,979" in shown


def test_time_to_train_is_not_taken_for_speed(shown, sides):
    # 96 to 103 minutes there; it rests on seeds, learning rates and batch as much as on the machines.
    assert "It was not the same training, so nothing follows for quality" in shown
    assert not re.search(r"time to train", shown, re.IGNORECASE)
    assert "minutes" not in json.dumps(sides)


def test_the_machines_are_those_of_the_system_descriptions(shown):
    assert "GPU AMD Instinct MI355X" in shown
    assert "GPU NVIDIA B200" in shown


def test_a_description_beside_the_logs_serves_too(samples, tmp_path, capsys):
    shutil.copy(samples / "mlperf" / RUNS["AMD"][0], tmp_path)
    shutil.copy(samples / "mlperf" / "systems" / SYSTEMS["AMD"], tmp_path)
    run("read", [str(tmp_path), "--output-dir", str(tmp_path / "output")])
    (path,) = (tmp_path / "output").glob("*.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["gpu_info"]["device_name"] == "AMD Instinct MI355X"
    assert result["training_config"]["num_gpus"] == 8
