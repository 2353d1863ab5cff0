"""What the doctor says of machines of each kind, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tprimat.cli import doctor, run
from tprimat.errors import ExitStatus
from tprimat.machine import gpu_state
from tprimat.machine.gpu_users import Device
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo

NVIDIA_SMI = (
    "0, NVIDIA H100 80GB HBM3, 81559, 71680, 500.00, 700.00, 700.00, 1980, 1980, Disabled\n"
    "1, NVIDIA H100 80GB HBM3, 81559, 4, [N/A], [N/A], [N/A], [Unknown Error], 1980, Enabled\n"
    "not a line of it\n"
)


def nvidia_host(tmp_path) -> Host:
    def command(argv):
        if argv[0] == "nvidia-smi" and argv[1].startswith("--query-gpu=index,name,memory.total"):
            return NVIDIA_SMI
        return None

    return Host(environ={"PATH": ""}, root=tmp_path, command=command, package=lambda name: None)


def amd_host(tmp_path) -> Host:
    device = tmp_path / "sys" / "class" / "drm" / "card1" / "device"
    sensors = device / "hwmon" / "hwmon3"
    sensors.mkdir(parents=True)
    for name, text in {
        "vendor": "0x1002",
        "device": "0x74a1",
        "product_name": "AMD Instinct MI300X OAM",
        "mem_info_vram_total": str(206_141_652_992),
        "mem_info_vram_used": str(1_000_000_000),
        "pp_dpm_sclk": "0: 132Mhz *\n1: 2100Mhz\n",
        "hwmon/hwmon3/power1_cap": "750000000",
        "hwmon/hwmon3/power1_cap_default": "750000000",
        "hwmon/hwmon3/freq1_input": "132000000",
    }.items():
        (device / name).write_text(text + "\n")
    # A screen's connector, a card of another maker, and one without memory of its own.
    (tmp_path / "sys/class/drm/card1-DP-1").mkdir()
    other = tmp_path / "sys/class/drm/card0/device"
    other.mkdir(parents=True)
    (other / "vendor").write_text("0x1a03\n")
    return Host(environ={"PATH": ""}, root=tmp_path, command=lambda argv: None, package=lambda name: None)


def machine(*names: str, warnings: tuple[str, ...] = ()) -> Machine:
    devices = tuple(Device(index, GpuInfo(device_name=name, device_count=1)) for index, name in enumerate(names))
    info = GpuInfo(device_name=names[0], device_count=len(names), software_stack="cuda") if names else GpuInfo()
    return Machine("nvd" if names else "cpu", info, Environment(), devices, warnings)


class TestGpuState:
    def test_nvidia(self, tmp_path):
        first, second = gpu_state.states(nvidia_host(tmp_path))
        assert (first.index, first.name) == (0, "NVIDIA H100 80GB HBM3")
        assert first.memory_total_gb == pytest.approx(81559 * 2**20 / 1e9)
        assert (first.power_cap_w, first.power_default_w, first.power_max_w) == (500.0, 700.0, 700.0)
        assert (first.clock_mhz, first.clock_max_mhz) == (1980.0, 1980.0)
        assert first.capped
        assert not first.partitioned
        # What the driver doesn't state is unknown, not 0.
        assert (second.power_cap_w, second.clock_mhz, second.capped, second.partitioned) == (None, None, False, True)

    def test_amd(self, tmp_path):
        (found,) = gpu_state.states(amd_host(tmp_path))
        assert found.name == "AMD Instinct MI300X OAM"
        assert found.memory_total_gb == pytest.approx(206.141652992)
        assert (found.power_cap_w, found.power_default_w, found.power_max_w) == (750.0, 750.0, None)
        assert (found.clock_mhz, found.clock_max_mhz) == (132.0, 2100.0)
        assert not found.capped

    def test_nothing_answers(self, tmp_path):
        assert gpu_state.states(Host(environ={}, root=tmp_path, command=lambda argv: None)) == ()


class TestDiagnosis:
    def test_a_capped_gpu_that_others_use_is_doubtful(self, tmp_path):
        found = doctor.diagnose(tmp_path, nvidia_host(tmp_path), machine("NVIDIA H100 80GB HBM3"))
        assert any("GPU 0 is capped at 500 W, below its 700 W" in doubt for doubt in found.doubts)
        text = "\n".join(doctor.lines(found))
        assert "1× NVIDIA H100 80GB HBM3" in text
        assert "500 of 700 W" in text
        assert "75 of 86 GB" in text

    def test_a_torch_that_sees_none_of_the_drivers_gpus(self, tmp_path):
        found = doctor.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert "the driver sees 2 GPUs and torch none: is this torch built for them?" in found.doubts

    def test_what_is_missing_comes_with_its_command(self, tmp_path, monkeypatch):
        monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
        found = doctor.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert "plotly, for the charts of the HTML report: pip install plotly" in found.missing
        assert found.able == ()
        assert all(": " in reason or "needs" in reason for _, reason in found.unable)
        quiet = "\n".join(doctor.lines(found, quiet=True))
        assert "Can't train here:" in quiet
        assert "System" not in quiet

    def test_a_full_disk_is_said(self, tmp_path, monkeypatch):
        monkeypatch.setattr(doctor, "_free", lambda output: (1.5, output))
        found = doctor.diagnose(tmp_path, nvidia_host(tmp_path), machine())
        assert any("only 1.50 GB are free" in doubt for doubt in found.doubts)

    def test_the_disk_of_a_folder_that_is_not_there_yet(self, tmp_path):
        free, where = doctor._free(tmp_path / "not" / "yet")
        assert free is not None
        assert where == tmp_path

    def test_hostile_names_do_nothing(self, tmp_path):
        evil = "\x1b[31mEvil\x1b]0;title\x07"
        found = doctor.diagnose(tmp_path, nvidia_host(tmp_path), machine(evil))
        assert "\x1b" not in "\n".join(doctor.lines(found))

    def test_well_is_said_too(self):
        found = doctor.Diagnosis((("System", "x"),), (), ("lightning",), (("nemo", "no"),), (), ())
        assert doctor.lines(found, quiet=True) == ["Nothing is missing."]


class TestCommand:
    def test_it_says_what_it_sees_and_makes_nothing(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert run("doctor", []) == ExitStatus.WELL
        out = capsys.readouterr().out
        assert out.startswith("System")
        assert "Frameworks that can train here: " in out
        assert list(Path(tmp_path).iterdir()) == []

    def test_for_programs(self, tmp_path, capsys):
        assert run("doctor", ["--json", "--output-dir", str(tmp_path)]) == ExitStatus.WELL
        found = json.loads(capsys.readouterr().out)
        assert set(found) == {"facts", "gpus", "can_train", "cannot_train", "missing", "doubts"}

    def test_verbose_has_the_versions(self, capsys):
        assert run("doctor", ["--verbose"]) == ExitStatus.WELL
        assert "Versions" in capsys.readouterr().out

    def test_quiet_and_verbose_are_two_wishes(self, capsys):
        assert run("doctor", ["--quiet", "--verbose"]) == ExitStatus.USAGE
