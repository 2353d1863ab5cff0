"""GPU utilisation: what the tools print, and the process that asks them."""

from __future__ import annotations

import dataclasses
import os
import sys
import time

import pytest
from gpu_fakes import nvidia_row

from tprimat.machine import utilisation
from tprimat.machine.gpu import Device
from tprimat.machine.utilisation import Reading, Sampler
from tprimat.results.run import GpuInfo

FIRST = Device(0, GpuInfo(), id="aaaa-1")
SECOND = Device(1, GpuInfo(), id="bbbb-2")


def test_the_first_reader_that_knows_all_gpus():
    readers = [lambda: {}, lambda: {"a": 1.0}, lambda: {"a": 2.0, "b": 3.0, "c": 4.0}]
    assert utilisation.first_complete(iter(readers), ["a", "b"])() == {"a": 2.0, "b": 3.0, "c": 4.0}
    assert utilisation.first_complete(iter(readers[:2]), ["a", "b"]) is None


class TestUnknown:
    @pytest.mark.parametrize(
        ("platform", "devices", "why"),
        [
            ("cpu", [], "on a CPU"),
            ("nvd", [], "reports neither"),
            ("nvd", [dataclasses.replace(FIRST, id="")], "reports neither"),
            ("amd", [FIRST, dataclasses.replace(SECOND, partition="CPX partition")], "CPX partition"),
        ],
    )
    def test_why(self, platform, devices, why):
        sampler = Sampler(platform, devices)
        assert why in sampler.unknown
        assert sampler.readings() == []
        sampler.stop()

    def test_gpus_by_their_names(self):
        assert utilisation.why_unknown("nvd", [FIRST, SECOND]) is None


def test_the_mean_is_of_the_readings_of_that_time_and_of_all_gpus():
    readings = [Reading(1.0, {"a": 10.0}), Reading(2.0, {"a": 50.0, "b": 70.0}), Reading(3.0, {"a": 90.0})]
    assert utilisation.mean(readings, 1.5, 3.0) == 70.0
    assert utilisation.mean(readings, 4.0, 5.0) is None


def test_a_line_that_is_being_written_is_passed_over():
    lines = ['{"at":1.5,"percent":{"a":3.0},"unknown":null}', '{"at":2.5,"perc']
    assert list(utilisation.read_lines(lines)) == [Reading(1.5, {"a": 3.0})]


@pytest.mark.skipif(sys.platform == "win32", reason="a script in the place of nvidia-smi")
class TestProcess:
    def tool(self, folder, monkeypatch, text):
        folder.mkdir()
        path = folder / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def wait(self, condition):
        deadline = time.monotonic() + 30
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        return condition()

    def test_reads_in_a_process_of_its_own(self, tmp_path, monkeypatch):
        rows = [
            nvidia_row(0, "aaaa-1", utilisation=64),
            nvidia_row(1, "bbbb-2", utilisation=66),
            nvidia_row(2, "cccc-3"),
        ]
        self.tool(tmp_path / "bin", monkeypatch, f"printf '%s' '{''.join(rows)}'")
        before = time.monotonic()
        sampler = Sampler("nvd", [FIRST, SECOND])
        assert self.wait(sampler.readings)
        reading = sampler.readings()[0]
        assert reading.percent == {"aaaa-1": 64.0, "bbbb-2": 66.0}
        assert before < reading.at <= time.monotonic()
        path = sampler._path
        sampler.stop()
        assert not path.exists()
        assert sampler.readings() == []

    def test_a_tool_that_does_not_answer_is_said(self, tmp_path, monkeypatch):
        self.tool(tmp_path / "bin", monkeypatch, "exit 9")
        sampler = Sampler("nvd", [FIRST])
        assert self.wait(lambda: (sampler.readings(), sampler.unknown)[1])
        assert sampler.unknown == "not reported by NVML and nvidia-smi"
        sampler.stop()
