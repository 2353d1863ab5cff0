"""What the doctor says of machines of each kind, and that it changes nothing."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from gpu_fakes import NVIDIA_QUERY, amd_files, fake_host, nvidia_row

from tprimat.cli import doctor, run
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus
from tprimat.machine import platforms, torch_build
from tprimat.machine.gpu import Device
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.measure import diagnosis
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.report import terminal
from tprimat.results.run import Environment, GpuInfo


def nvidia_host(tmp_path) -> Host:
    text = nvidia_row(0, "aa-0", used=71680, power="500.00, 700.00, 700.00") + nvidia_row(
        1, "bb-1", mig="Enabled"
    )
    return fake_host(tmp_path, {NVIDIA_QUERY: text})


def machine(*names: str, notes: tuple[Note, ...] = ()) -> Machine:
    devices = tuple(
        Device(index, GpuInfo(device_name=name, device_count=1)) for index, name in enumerate(names)
    )
    info = (
        GpuInfo(device_name=names[0], device_count=len(names), software_stack="cuda")
        if names
        else GpuInfo()
    )
    return Machine("nvd" if names else "cpu", info, Environment(), devices, notes)


def shown(found: diagnosis.Diagnosis, verbosity: Verbosity = Verbosity.NORMAL) -> str:
    return terminal.write(doctor.document(found), verbosity=verbosity)


def test_the_gpus_of_both_vendors(tmp_path):
    host = fake_host(tmp_path, {NVIDIA_QUERY: nvidia_row(0, "aa-0")}, files=amd_files())
    assert [state.name for state in platforms.states(host)] == [
        "NVIDIA H100 80GB HBM3",
        "AMD Instinct MI300X OAM",
    ]


class TestDiagnosis:
    def test_a_capped_gpu_that_others_use_is_doubtful(self, tmp_path):
        found = diagnosis.diagnose(
            tmp_path, nvidia_host(tmp_path), machine("NVIDIA H100 80GB HBM3")
        )
        assert any("GPU 0 power limit lowered to 500 W" in doubt for doubt in found.doubts)
        text = shown(found)
        assert "1× NVIDIA H100 80GB HBM3" in text
        assert "500 of 700 W" in text
        assert "75 of 86 GB" in text

    def test_a_torch_that_sees_none_of_the_drivers_gpus(self, tmp_path):
        found = diagnosis.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert (
            "the driver sees 2 GPUs, torch sees none: install a torch build for this driver"
            in found.doubts
        )

    def test_what_is_missing_comes_with_its_command(self, tmp_path, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        found = diagnosis.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert "jinja2, for the HTML report: pip install jinja2" in found.missing
        assert found.can_train == []
        assert all(": " in reason or "needs" in reason for reason in found.cannot_train.values())
        quiet = shown(found, Verbosity.QUIET)
        assert "Not available" in quiet
        assert "System" not in quiet

    def test_a_machine_that_only_analyses_is_not_asked_for_torch(self, tmp_path, monkeypatch):
        reasons = {"lightning": "needs torch: pip install -r requirements.txt"}
        monkeypatch.setattr(diagnosis, "FRAMEWORKS", ())
        without_torch = machine(notes=(torch_build.NOT_INSTALLED,))
        found = diagnosis.diagnose(tmp_path, fake_host(tmp_path, {}), without_torch)
        assert found.analyses_only
        assert not any("torch" in doubt for doubt in found.doubts)
        found = dataclasses.replace(found, cannot_train=reasons, missing=[], doubts=[])
        assert shown(found, Verbosity.QUIET) == "Nothing is missing.\n"
        assert "Not available" in shown(found)
        with_gpus = diagnosis.diagnose(tmp_path, nvidia_host(tmp_path), without_torch)
        assert words(torch_build.NOT_INSTALLED) in with_gpus.doubts

    def test_a_full_disk_is_said(self, tmp_path, monkeypatch):
        monkeypatch.setattr(diagnosis.hosts, "free_space", lambda output: (1.5, output))
        found = diagnosis.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert any("only 1.50 GB free" in doubt for doubt in found.doubts)

    def test_the_disk_of_a_folder_that_is_not_there_yet(self, tmp_path):
        free, where = diagnosis.hosts.free_space(tmp_path / "not" / "yet")
        assert free is not None
        assert where == tmp_path

    def test_hostile_names_do_nothing(self, tmp_path):
        evil = "\x1b[31mEvil\x1b]0;title\x07"
        found = diagnosis.diagnose(tmp_path, nvidia_host(tmp_path), machine(evil))
        assert "\x1b" not in shown(found)

    def test_well_is_said_too(self):
        found = diagnosis.Diagnosis({"System": "x"}, (), ["lightning"], {"nemo": "no"}, [], [])
        assert shown(found, Verbosity.QUIET) == "Nothing is missing.\n"


class TestCommand:
    def test_it_says_what_it_sees_and_makes_nothing(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert run("doctor", []) == ExitStatus.OK
        out = capsys.readouterr().out
        assert out.startswith("Frameworks that can train here: ")
        assert "\nSystem " in out
        assert list(Path(tmp_path).iterdir()) == []

    def test_for_programs(self, tmp_path, capsys):
        assert run("doctor", ["--json", "--output-dir", str(tmp_path)]) == ExitStatus.OK
        found = json.loads(capsys.readouterr().out)
        assert set(found) == {"facts", "gpus", "can_train", "cannot_train", "missing", "doubts"}

    def test_verbose_has_the_versions(self, capsys):
        assert run("doctor", []) == ExitStatus.OK
        assert "Versions" not in capsys.readouterr().out
        assert run("doctor", ["--verbose"]) == ExitStatus.OK
        assert "Versions" in capsys.readouterr().out

    @pytest.mark.parametrize("options", [[], ["--quiet"]])
    def test_it_needs_no_rich(self, options, tmp_path, monkeypatch, capsys):
        for name in ("rich", "rich.console"):
            monkeypatch.setitem(sys.modules, name, None)
        found = diagnosis.Diagnosis(
            {"System": "x"}, (), [], {"nemo": "\x1b[31mno"}, ["rich, for tables"], ["slow"]
        )
        monkeypatch.setattr(doctor, "diagnose", lambda output: found)
        assert run("doctor", options) == ExitStatus.OK
        out = capsys.readouterr().out
        problems = (
            "Missing\n- rich, for tables\n\nWarnings\n- slow\n\nNot available\nnemo           no\n"
        )
        if options:
            assert out == problems
        else:
            assert out.startswith("Frameworks that can train here: none\n")
            assert out.endswith(f"\nThis machine\nSystem        x\n\n{problems}")

    @pytest.mark.parametrize("options", [[], ["--quiet"]])
    def test_a_rich_that_is_broken_is_a_warning(self, options, monkeypatch, capsys):
        def fail(*args):
            raise ImportError("no name")

        found = diagnosis.Diagnosis({"System": "x"}, (), ["lightning"], {}, [], [])
        monkeypatch.setattr(doctor, "diagnose", lambda output: found)
        monkeypatch.setattr(doctor, "show", fail)
        assert run("doctor", options) == ExitStatus.OK
        out = capsys.readouterr().out
        assert out.endswith("Warnings\n- rich can't be imported (no name): install it again\n")
        assert out.startswith(
            "Warnings" if options else "Frameworks that can train here: lightning\n"
        )

    def test_quiet_and_verbose_are_two_wishes(self, capsys):
        assert run("doctor", ["--quiet", "--verbose"]) == ExitStatus.USAGE
