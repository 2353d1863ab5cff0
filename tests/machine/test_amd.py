"""AMD's GPUs by the driver's files, by amdsmi, amd-smi and rocm-smi."""

from __future__ import annotations

import json
import sys

import pytest
from gpu_fakes import AMD_PROCESSES, MI300X, ROCM_PROCESSES, ROCM_USE, FakeAmdsmi, amd_files, fake_host

from tprimat.machine import amd
from tprimat.machine.gpu import GpuProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="PCI addresses are no file names there")

AMD_SMI = [
    {"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]},
    {
        "gpu": 1,
        "process_list": [
            {
                "process_info": {
                    "name": "python3",
                    "pid": 77,
                    "memory_usage": {"vram_mem": {"value": 5_000_000_000, "unit": "B"}},
                }
            },
            {"process_info": {"name": "monitor", "pid": 78, "memory_usage": {"vram_mem": {"value": 0, "unit": "B"}}}},
        ],
    },
]
ROCM_SMI = {"system": {"PID77": "python3, 1, 5000000000, 0, 0", "PID78": "idle, 1, 0, 0, 0"}}


class TestStates:
    def test_by_the_drivers_files(self, tmp_path):
        # Another maker's device, and one without memory of its own.
        others = {
            "/sys/bus/pci/devices/0000:01:00.0/mem_info_vram_total": "1",
            "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x1a03\n",
            "/sys/bus/pci/devices/0000:02:00.0/vendor": "0x1002\n",
        }
        host = fake_host(tmp_path, files={**amd_files(), **others}, libraries={"amdsmi": FakeAmdsmi([MI300X])})
        (state,) = amd.states(host)
        assert (state.index, state.name, state.id) == (0, "AMD Instinct MI300X OAM", "0000:c1:00.0")
        assert (state.memory_total_gb, state.memory_used_gb) == pytest.approx((206.141652992, 1.0))
        assert (state.power_cap_w, state.power_default_w, state.power_max_w) == (750.0, 750.0, None)
        assert (state.clock_mhz, state.clock_max_mhz, state.utilisation_percent) == (132.0, 2100.0, 83.0)
        assert not state.is_capped

    def test_by_the_library_without_files(self, tmp_path):
        smi = FakeAmdsmi([MI300X, {"bdf": "0000:c2:00.0", "activity": {"gfx_activity": "N/A"}}])
        first, second = amd.states(fake_host(tmp_path, libraries={"amdsmi": smi}))
        assert (first.index, first.name, first.id) == (0, "AMD Instinct MI300X", "0000:c1:00.0")
        assert (first.memory_total_gb, first.memory_used_gb, first.utilisation_percent) == (206.141652992, 77.0, 88.0)
        assert (second.id, second.memory_used_gb, second.utilisation_percent) == ("0000:c2:00.0", None, None)
        assert smi.open == 0

    def test_nothing_answers(self, tmp_path):
        assert amd.states(fake_host(tmp_path, libraries={"amdsmi": FakeAmdsmi([])})) == ()


@pytest.mark.parametrize(
    ("modes", "text"),
    [(["SPX NPS1", "SPX NPS1"], "SPX/NPS1"), (["CPX NPS4"], "CPX/NPS4"), (["SPX NPS1", "CPX NPS4"], None), ([], None)],
)
def test_partition(tmp_path, modes, text):
    files = {}
    for index, mode in enumerate(modes):
        base = f"/sys/bus/pci/devices/0000:c{index}:00.0/current_"
        compute, memory = mode.split()
        files |= {f"{base}compute_partition": f"{compute}\n", f"{base}memory_partition": f"{memory}\n"}
    assert amd.partition(fake_host(tmp_path, files=files)) == text


class TestProcesses:
    def test_by_the_library(self, tmp_path):
        smi = FakeAmdsmi([MI300X])
        assert amd.processes(fake_host(tmp_path, libraries={"amdsmi": smi})) == (
            GpuProcess(77, "0", "0000:c1:00.0", "python3", 5.0),
        )
        assert smi.open == 0

    def test_a_library_that_lists_handles_leaves_it_to_the_tool(self, tmp_path):
        libraries = {"amdsmi": FakeAmdsmi([{**MI300X, "processes": [object()]}])}
        (process,) = amd.processes(fake_host(tmp_path, {AMD_PROCESSES: json.dumps(AMD_SMI)}, libraries))
        assert process.gpu == "1"

    @pytest.mark.parametrize("wrap", [lambda listed: listed, lambda listed: {"gpu_data": listed}])
    def test_by_amd_smi(self, tmp_path, wrap):
        answer = "WARNING: something\n" * 2 + json.dumps(wrap(AMD_SMI))
        assert amd.processes(fake_host(tmp_path, {AMD_PROCESSES: answer})) == (
            GpuProcess(77, "1", None, "python3", 5.0),
        )

    def test_by_an_older_amd_smi(self, tmp_path):
        listed = [{"gpu": 0, "process_list": [{"process_info": {"pid": 9, "mem_usage": {"value": 2, "unit": "GB"}}}]}]
        (process,) = amd.processes(fake_host(tmp_path, {AMD_PROCESSES: json.dumps(listed)}))
        assert (process.name, process.memory_gb) == (None, pytest.approx(2.147, abs=1e-3))

    def test_by_rocm_smi_where_amd_smi_fails(self, tmp_path):
        answers = {AMD_PROCESSES: None, ROCM_PROCESSES: "WARNING: low-power state\n" + json.dumps(ROCM_SMI)}
        assert amd.processes(fake_host(tmp_path, answers)) == (GpuProcess(77, None, None, "python3", 5.0),)

    @pytest.mark.parametrize("answers", [{AMD_PROCESSES: json.dumps(AMD_SMI[:1])}, {ROCM_PROCESSES: "nonsense"}])
    def test_nobody(self, tmp_path, answers):
        assert amd.processes(fake_host(tmp_path, answers)) == ()

    @pytest.mark.parametrize("answers", [{}, {AMD_PROCESSES: "Segmentation fault"}, {AMD_PROCESSES: "{}"}])
    def test_no_answer(self, tmp_path, answers):
        assert amd.processes(fake_host(tmp_path, answers)) is None


@pytest.mark.parametrize(
    ("files", "version"), [({"/sys/module/amdgpu/version": "6.10.5\n"}, "amdgpu 6.10.5"), ({}, None)]
)
def test_driver_version(tmp_path, files, version):
    assert amd.driver_version(fake_host(tmp_path, files=files)) == version


class TestUtilisation:
    ids = ("0000:c1:00.0",)

    def test_all_ways(self, tmp_path):
        text = (
            'WARNING: a line\n{"card0": {"GPU use (%)": "41", "PCI Bus": "0000:C1:00.0"}, '
            '"card1": {"GPU use (%)": "N/A", "PCI Bus": "0000:C2:00.0"}, "system": "x"}'
        )
        smi = FakeAmdsmi([MI300X])
        host = fake_host(tmp_path, {ROCM_USE: text}, {"amdsmi": smi}, amd_files())
        readers = amd.utilisation_readers(host, self.ids)
        assert [read() for read in readers] == [{"0000:c1:00.0": percent} for percent in (88.0, 83.0, 41.0)]
        assert smi.open == 1

    def test_nothing_answers(self, tmp_path):
        readers = amd.utilisation_readers(fake_host(tmp_path, {ROCM_USE: "no json"}), self.ids)
        assert [read() for read in readers] == [{}, {}]
