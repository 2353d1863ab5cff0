"""`preflight` as a command: on a CPU, without torch, with a slow rank among four, and before a
benchmark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.machine import torch_build
from tprimat.measure import preflight as measuring
from tprimat.store import store

REPOSITORY = Path(__file__).resolve().parents[2]

SMALL = (
    "--d-model=64", "--nhead=2", "--num-encoder-layers=1", "--num-decoder-layers=1", "--seq-len=64", "--vocab-size=500",
    "--batch-size=8", "--num-samples=24", "--epochs=1",
)  # fmt: skip

SLOW_RANK = """
import dataclasses, os, sys
import torch
from tprimat.measure import preflight

product, quick = torch.mm, preflight.plan_of
preflight.plan_of = lambda *arguments, **options: dataclasses.replace(
    quick(*arguments, **options), probe_s=0.1, product_s=1.0, stream_s=0.1
)

def repeated(*arguments, **settings):
    for _ in range(40):
        result = product(*arguments, **settings)
    return result

if os.environ["RANK"] == "2":
    torch.mm = repeated
from tprimat.cli import run
sys.exit(run("preflight", sys.argv[1:]))
"""


def test_without_torch(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch_build, "import_torch", lambda: (None, torch_build.NOT_INSTALLED))
    assert run("preflight", ["--output-dir", str(tmp_path)]) == ExitStatus.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error: preflight: torch is not installed" in shown.err
    assert "docs/troubleshooting.md#preflight" in shown.err


def test_an_output_directory_that_is_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("preflight", ["--quick", "--output-dir", str(tmp_path / "file")]) == ExitStatus.USAGE
    assert "choose another --output-dir" in capsys.readouterr().err


class TestDisk:
    def test_is_written_read_and_left_as_it_was(self, tmp_path):
        disk = measuring.measure_disk(tmp_path, 2 * measuring.CHUNK)
        assert disk.bytes == 2 * measuring.CHUNK
        assert disk.write_gb_per_s > 0
        assert (disk.read_gb_per_s is None) == (disk.unknown is not None)
        assert list(tmp_path.iterdir()) == []

    def test_no_name_is_there_that_a_kill_could_leave(self, tmp_path, monkeypatch):
        named = []
        monkeypatch.setattr(
            measuring.page_cache, "drop_caches", lambda files: named.extend(tmp_path.iterdir())
        )
        assert measuring.measure_disk(tmp_path, measuring.CHUNK).read_gb_per_s > 0
        assert named == []

    def test_a_file_that_stays_in_the_page_cache_is_not_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(measuring.page_cache, "drop_caches", lambda files: "all of it stays")
        disk = measuring.measure_disk(tmp_path, measuring.CHUNK)
        assert disk.read_gb_per_s is None
        assert disk.unknown == "read speed not measured: all of it stays"

    def test_a_full_disk(self, tmp_path, monkeypatch):
        monkeypatch.setattr(measuring.hosts, "free_space", lambda folder: (0.05, folder))
        assert measuring.measure_disk(tmp_path, 2**30).unknown == "too little space is free"


@pytest.mark.slow
def test_a_preflight_then_a_benchmark(tmp_path):
    def command(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "tprimat", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    done = command("preflight", "--quick", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    (device,) = document["devices"]
    assert set(device["rates"]) == {"fp32", "bf16", "copy", "triad"}
    assert all(0 < rate["median"] <= rate["best"] for rate in device["rates"].values())
    assert json.loads((tmp_path / document["path"]).read_text())["devices"] == document["devices"]
    # The encoder-decoder needs no Lightning, which takes longer to import than to train with.
    done = command("benchmark", "--model", "encdec", *SMALL, "--quiet", "--output-dir", "output")
    assert done.returncode == 0, done.stderr
    (result,), warnings = store.find([tmp_path / "output"])
    assert warnings == []
    assert result.runs[0].preflight.matmul_tflops["fp32"] == pytest.approx(
        device["rates"]["fp32"]["median"], rel=1e-3
    )


@pytest.mark.slow
def test_a_slow_rank_among_four_is_named(tmp_path):
    script = tmp_path / "slow_rank.py"
    script.write_text(SLOW_RANK)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4")
    subprocess.run(
        [sys.executable, *launcher, str(script), "--quick", "--quiet"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
    )
    (path,) = (tmp_path / "output").glob("preflight_*.json")
    document = json.loads(path.read_text())
    slow = {
        each["device"]: each["text"]
        for each in document["findings"]
        if each["code"] == "slow_device"
    }
    (named,) = (device for device in slow if device.startswith("rank 2 on "))
    assert "fp32 -" in slow[named]
    assert "bf16 -" in slow[named]
    assert len(document["all_reduce"]) > 2
    assert all(each["is_right"] for each in document["all_reduce"])
