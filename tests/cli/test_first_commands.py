"""The first commands that somebody types, on stand-ins for the machines of docs/frameworks.md's
first table.
"""

from __future__ import annotations

import dataclasses
import re
import sys

import primus_tree
import pytest
from tool_modules import load_tool

from tprimat import cli, frameworks
from tprimat.errors import ExitStatus
from tprimat.frameworks.framework import Framework
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo
from tprimat.units import GB

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Primus is started by bash")


ROWS = load_tool("generate", "docs").FIRST_COMMANDS


def machine_of(device) -> Machine:
    """What would be detected on a device of the table."""
    info = GpuInfo(
        device_name=device.device_name,
        device_count=device.devices,
        total_memory_gb=device.memory_bytes / GB,
        software_stack="cuda" if device.platform == "nvd" else "rocm",
        architecture=device.architecture,
    )
    held = device.held_bytes / GB
    each = tuple(
        platforms.Device(index, info, memory_held_gb=held) for index in range(device.devices)
    )
    return Machine(device.platform, info, Environment(), each)


@pytest.fixture
def arrive(tmp_path, monkeypatch):
    """Make this process one on a machine, with one framework beside those of requirements.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "made-up")
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv(
        "PRIMUS_PATH", str(primus_tree.make(tmp_path / "Primus", folders=("MI300X",)))
    )

    def at(machine, framework="lightning"):
        here = {framework, "lightning"}
        monkeypatch.setattr(platforms, "detect", lambda *_: machine)
        monkeypatch.setattr(
            Framework, "unavailable", lambda self: None if self.name in here else "it isn't here"
        )

    return at


@pytest.mark.parametrize("words", [[], ["--model", "llama"]], ids=["all", "llama"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.machine)
def test_it_trains_what_the_table_says(row, words, arrive, capsys):
    if row.framework == "primus":
        pytest.importorskip("yaml")
    arrive(machine_of(row.device), row.framework)
    # What `make run` adds to ./benchmark.py on a GPU.
    more = load_tool("run_options").options(gpu=True, instructions=None).split()
    assert cli.run("benchmark", [*words, *more, "--dry-run"]) == ExitStatus.OK
    shown = capsys.readouterr().out
    request = row.request()
    models = ("llama",) if words else frameworks.by_name(row.framework).models
    lines = [
        line.split() for line in shown.splitlines() if re.match(r"(llama|qwen|mistral)  ", line)
    ]
    assert [line[0] for line in lines] == list(models)
    assert models[0] == "llama"
    # model, scale, parameters (a number and its unit), precision, batch, micro, sequence, steps,
    # processes
    first = lines[0]
    assert [first[1], *first[4:6]] == [
        request.scale,
        request.precision,
        str(request.global_batch_size),
    ]
    assert first[7:10] == [str(request.sequence_length), str(request.steps), str(request.num_gpus)]
    command = (
        f"--framework={row.framework}" if row.framework != "primus" else "examples/run_pretrain.sh"
    )
    assert command in shown


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.machine)
def test_by_calculation_a_figure_comes_soon_and_the_result_within_ten_minutes(row):
    step_s, total_s = row.seconds()
    # Two minutes to start are the frameworks'.
    assert row.start_s + step_s < 2 * 60 + 15
    assert total_s <= 10 * 60


def test_a_gpu_that_torch_cannot_use_is_an_error_with_what_to_do(arrive, capsys):
    reason = "torch found no GPU, though the NVIDIA driver is installed"
    arrive(Machine("cpu", GpuInfo(device_name="a processor"), Environment(), unusable_gpu=reason))
    for words in ([], ["--model", "llama"]):
        assert cli.run("benchmark", words) == ExitStatus.USAGE
        error = capsys.readouterr().err
        assert reason in error
        assert "hint:  fix the GPU driver" in error


class TestFilled:
    ROW = next(row for row in ROWS if row.device.held_bytes)

    def test_what_fits_in_the_rest_is_trained_and_why_is_said(self, arrive, capsys):
        arrive(machine_of(self.ROW.device))
        assert cli.run("benchmark", ["--model", "llama", "--dry-run"]) == ExitStatus.OK
        shown = " ".join(capsys.readouterr().out.split())
        assert "scale medium is trained" in shown
        assert "this GPU has 13.39 GB free" in shown

    def test_what_others_barely_hold_changes_nothing(self, arrive, capsys):
        device = dataclasses.replace(self.ROW.device, held_bytes=0.2e9)
        arrive(machine_of(device))
        assert (
            cli.run("benchmark", ["--model", "llama", "--scale", "largest", "--dry-run"])
            == ExitStatus.OK
        )
        assert "free" not in capsys.readouterr().out
