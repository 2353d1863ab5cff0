"""Two submissions to MLPerf Training v5.1 of Llama 3.1 8B, ten runs each: read by one command,
compared by another.
"""

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
    """A directory with both submissions as they are published, and the results that one command
    makes of them.
    """
    folder = tmp_path_factory.mktemp("mlperf")
    for submitter, names in RUNS.items():
        results = folder / submitter / "results" / "machine" / "llama31_8b"
        results.mkdir(parents=True)
        for number, name in enumerate(names):
            shutil.copy(samples / "mlperf" / name, results / f"result_{number}.txt")
        (folder / submitter / "systems").mkdir()
        shutil.copy(
            samples / "mlperf" / "systems" / SYSTEMS[submitter],
            folder / submitter / "systems" / "machine.json",
        )
    status = run(
        "read",
        [str(folder / "AMD"), str(folder / "Nebius"), "--output-dir", str(folder / "output")],
    )
    assert status == ExitStatus.OK
    return folder / "output"


@pytest.fixture
def shown(read, capsys):
    capsys.readouterr()
    prices = ["--cost", "B200=5.50", "MI355X=3.95"]
    assert run("compare", ["--results-dir", str(read), "--no-plot", *prices]) == ExitStatus.OK
    return capsys.readouterr().out


@pytest.fixture
def details(read, capsys):
    capsys.readouterr()
    run("compare", ["--results-dir", str(read), "--no-plot", "--verbose"])
    return " ".join(capsys.readouterr().out.split())


def test_every_run_is_a_result_and_none_is_counted_twice(read):
    files = list(read.rglob("*.json"))
    times = [
        each["performance_metrics"]["avg_step_time_seconds"]
        for path in files
        for each in json.loads(path.read_text(encoding="utf-8"))["runs"]
    ]
    assert len(times) == 20
    assert sum(time == pytest.approx(1.0435, abs=0.003) for time in times) == 10
    assert sum(time == pytest.approx(0.4604, abs=0.001) for time in times) == 10


def test_the_answer_is_one_screen(shown):
    assert shown.count("\n") <= 24
    assert max(len(line) for line in shown.splitlines() if not line.startswith("Report")) <= 80


def test_the_verdict_is_of_throughput(shown):
    assert "1.134× [95% CI 1.133–1.135]" in shown
    # 1.043 s against 0.456 s would be 2.29 times as fast: steps of another batch are no speed.
    assert "2.29" not in shown


def test_values_with_their_intervals(shown):
    assert re.search(r"tokens/s/GPU +35,583 ± 0\.0% +31,384 ± 0\.1% ", shown)
    assert re.search(r"step time, mean +0\.460 s +1\.04[34] s", shown)
    assert re.search(r"USD/10⁹ tokens +42\.9 +35\.0", shown)
    assert re.search(r"price per GPU-hour +\$5\.50 +\$3\.95", shown)


def test_which_is_cheaper_and_where_the_other_one_breaks_even(shown):
    assert (
        "\n  8×MI355X is 19% cheaper per token than 8×B200, which breaks even at $4.48\n" in shown
    )


def test_caveats_that_could_change_the_decision_come_first(shown):
    caveats = shown.partition("Caveats")[2].splitlines()[1:]
    assert "precision differs: FP4 vs FP8" in caveats[0]
    assert "global batch differs: 16 vs 32" in shown


def test_the_runs_vary_far_less_than_the_systems_differ(details):
    assert "35,539–35,622" in details
    assert "31,340–31,422" in details


def test_time_to_train_is_not_taken_for_speed(details):
    # 96 to 103 minutes there; it rests on seeds, learning rates and batch as much as on the
    # machines.
    assert "model quality is not compared: " in details
    assert not re.search(r"time to train", details, re.IGNORECASE)


def test_the_machines_are_those_of_the_system_descriptions(read):
    names = {
        json.loads(path.read_text(encoding="utf-8"))["gpu_info"]["device_name"]
        for path in read.rglob("*.json")
    }
    assert {"AMD Instinct MI355X", "NVIDIA B200"} & names


def test_a_description_beside_the_logs_serves_too(samples, tmp_path, capsys):
    shutil.copy(samples / "mlperf" / RUNS["AMD"][0], tmp_path)
    shutil.copy(samples / "mlperf" / "systems" / SYSTEMS["AMD"], tmp_path)
    run("read", [str(tmp_path), "--output-dir", str(tmp_path / "output")])
    (path,) = (tmp_path / "output").glob("*.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["gpu_info"]["device_name"] == "AMD Instinct MI355X"
    assert result["training_config"]["num_gpus"] == 8


def test_the_regression_check_of_one_submission_in_two_halves(samples, tmp_path, capsys):
    # Its sequence length is unknown: rates are in samples/s, as in a comparison.
    for number in range(10):
        folder = tmp_path / ("old" if number < 5 else "new")
        folder.mkdir(exist_ok=True)
        shutil.copy(
            samples / "mlperf" / f"v4.1_llama2_70b_lora_NVIDIA_8xH200_r{number}.txt", folder
        )
        shutil.copytree(samples / "mlperf" / "systems", folder / "systems", dirs_exist_ok=True)
    paths = ["--baseline", str(tmp_path / "old"), "--candidate", str(tmp_path / "new")]
    summary = tmp_path / "summary.md"
    assert (
        run("compare", [*paths, "--max-slowdown", "1%", "--summary", str(summary)]) == ExitStatus.OK
    )
    shown = capsys.readouterr().out
    assert re.search(r"samples/s/GPU +0\.3074 +0\.3075 +\+0\.03%", shown)
    assert shown.count("\n") <= 24
    # All system descriptions are one note for each directory.
    assert summary.read_text(encoding="utf-8").count("part of an MLPerf submission") == 2
    assert "skipped" not in summary.read_text(encoding="utf-8")
