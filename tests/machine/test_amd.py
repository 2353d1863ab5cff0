"""AMD's GPUs by the driver's files, by amdsmi, amd-smi and rocm-smi."""

from __future__ import annotations

import json
import struct
import sys

import pytest
from gpu_fakes import (
    AMD_LIST,
    AMD_METRIC,
    AMD_PROCESSES,
    MI300X,
    ROCM_PROCESSES,
    FakeAmdsmi,
    amd_files,
    fake_host,
)

from tprimat.machine import amd
from tprimat.machine.gpu import GpuProcess

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="PCI addresses are no file names there"
)

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
            {
                "process_info": {
                    "name": "monitor",
                    "pid": 78,
                    "memory_usage": {"vram_mem": {"value": 0, "unit": "B"}},
                }
            },
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
        host = fake_host(
            tmp_path, files={**amd_files(), **others}, libraries={"amdsmi": FakeAmdsmi([MI300X])}
        )
        (state,) = amd.states(host)
        assert (state.index, state.name, state.id) == (0, "AMD Instinct MI300X OAM", "0000:c1:00.0")
        assert (state.memory_total_gb, state.memory_used_gb) == pytest.approx((206.141652992, 1.0))
        assert (state.power_cap_w, state.power_default_w, state.power_max_w) == (750.0, 750.0, None)
        assert (state.clock_mhz, state.clock_max_mhz, state.utilisation_percent) == (
            132.0,
            2100.0,
            83.0,
        )
        assert not state.is_capped

    def test_by_the_library_without_files(self, tmp_path):
        smi = FakeAmdsmi([MI300X, {"bdf": "0000:c2:00.0", "activity": {"gfx_activity": "N/A"}}])
        first, second = amd.states(fake_host(tmp_path, libraries={"amdsmi": smi}))
        assert (first.index, first.name, first.id) == (0, "AMD Instinct MI300X", "0000:c1:00.0")
        assert (first.memory_total_gb, first.memory_used_gb, first.utilisation_percent) == (
            206.141652992,
            77.0,
            88.0,
        )
        assert (second.id, second.memory_used_gb, second.utilisation_percent) == (
            "0000:c2:00.0",
            None,
            None,
        )
        assert smi.open == 0

    def test_nothing_answers(self, tmp_path):
        assert amd.states(fake_host(tmp_path, libraries={"amdsmi": FakeAmdsmi([])})) == ()


@pytest.mark.parametrize(
    ("modes", "text"),
    [
        (["SPX NPS1", "SPX NPS1"], "SPX/NPS1"),
        (["CPX NPS4"], "CPX/NPS4"),
        (["SPX NPS1", "CPX NPS4"], None),
        ([], None),
    ],
)
def test_partition(tmp_path, modes, text):
    files = {}
    for index, mode in enumerate(modes):
        base = f"/sys/bus/pci/devices/0000:c{index}:00.0/current_"
        compute, memory = mode.split()
        files |= {
            f"{base}compute_partition": f"{compute}\n",
            f"{base}memory_partition": f"{memory}\n",
        }
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
        (process,) = amd.processes(
            fake_host(tmp_path, {AMD_PROCESSES: json.dumps(AMD_SMI)}, libraries)
        )
        assert process.gpu == "1"

    @pytest.mark.parametrize("wrap", [lambda listed: listed, lambda listed: {"gpu_data": listed}])
    def test_by_amd_smi(self, tmp_path, wrap):
        answer = "WARNING: something\n" * 2 + json.dumps(wrap(AMD_SMI))
        assert amd.processes(fake_host(tmp_path, {AMD_PROCESSES: answer})) == (
            GpuProcess(77, "1", None, "python3", 5.0),
        )

    def test_by_an_older_amd_smi(self, tmp_path):
        listed = [
            {
                "gpu": 0,
                "process_list": [
                    {"process_info": {"pid": 9, "mem_usage": {"value": 2, "unit": "GB"}}}
                ],
            }
        ]
        (process,) = amd.processes(fake_host(tmp_path, {AMD_PROCESSES: json.dumps(listed)}))
        assert (process.name, process.memory_gb) == (None, pytest.approx(2.147, abs=1e-3))

    def test_by_rocm_smi_where_amd_smi_fails(self, tmp_path):
        answers = {
            AMD_PROCESSES: None,
            ROCM_PROCESSES: "WARNING: low-power state\n" + json.dumps(ROCM_SMI),
        }
        assert amd.processes(fake_host(tmp_path, answers)) == (
            GpuProcess(77, None, None, "python3", 5.0),
        )

    @pytest.mark.parametrize(
        "answers", [{AMD_PROCESSES: json.dumps(AMD_SMI[:1])}, {ROCM_PROCESSES: "nonsense"}]
    )
    def test_nobody(self, tmp_path, answers):
        assert amd.processes(fake_host(tmp_path, answers)) == ()

    @pytest.mark.parametrize(
        "answers", [{}, {AMD_PROCESSES: "Segmentation fault"}, {AMD_PROCESSES: "{}"}]
    )
    def test_no_answer(self, tmp_path, answers):
        assert amd.processes(fake_host(tmp_path, answers)) is None


@pytest.mark.parametrize(
    ("files", "version"),
    [({"/sys/module/amdgpu/version": "6.10.5\n"}, "amdgpu 6.10.5"), ({}, None)],
)
def test_driver_version(tmp_path, files, version):
    assert amd.driver_version(fake_host(tmp_path, files=files)) == version


METRICS = {
    "temperature_hotspot": 81,
    "temperature_mem": 65535,
    "pcie_replay_count_acc": 2,
    "accumulation_counter": 1000,
    "ppt_residency_acc": 2**32 - 30,
    "socket_thm_residency_acc": 7,
    "vr_thm_residency_acc": "N/A",
}


class TestReader:
    ids = ("0000:c1:00.0",)

    def loaded(self, **fields):
        return {
            **MI300X,
            "energy": {"energy_accumulator": 2_000_000, "counter_resolution": 15.3, "timestamp": 1},
            "power": {"current_socket_power": 612, "average_socket_power": "N/A"},
            "metrics": METRICS,
            "ecc": {"correctable_count": 4, "uncorrectable_count": 0},
            "links": 0,
            **fields,
        }

    def test_files_with_what_the_library_knows(self, tmp_path):
        smi = FakeAmdsmi([self.loaded()])
        reader = amd.Reader(
            fake_host(tmp_path, libraries={"amdsmi": smi}, files=amd_files()), self.ids
        )
        (state,) = reader.read()
        assert (state.id, state.name, state.power_cap_w) == (
            "0000:c1:00.0",
            "AMD Instinct MI300X OAM",
            750.0,
        )
        assert state.energy_j == pytest.approx(30.6)
        assert (state.power_w, state.temperature_c, state.memory_temperature_c) == (612, 81, None)
        assert (
            state.ecc_corrected,
            state.ecc_uncorrected,
            state.pcie_replays,
            state.link_errors,
        ) == (4, 0, 2, 0)
        assert (state.pids, state.throttle, state.counter_is_shared) == ((77, 78), (), False)
        # 230 of 1000: a counter of 32 bits that came around.
        moved = {
            "accumulation_counter": 2000,
            "ppt_residency_acc": 200,
            "socket_thm_residency_acc": 8,
        }
        reader._handles["0000:c1:00.0"] = self.loaded(metrics={**METRICS, **moved})
        assert reader.read()[0].throttle == ("power-cap",)
        assert smi.open == 1

    def test_the_older_name_of_the_counter(self, tmp_path):
        smi = FakeAmdsmi([self.loaded(energy={"power": 1_000_000, "counter_resolution": 15.3})])
        (state,) = amd.Reader(
            fake_host(tmp_path, libraries={"amdsmi": smi}, files=amd_files()), self.ids
        ).read()
        assert state.energy_j == pytest.approx(15.3)

    def test_bits_of_an_older_gpu(self, tmp_path):
        smi = FakeAmdsmi([self.loaded(metrics={"indep_throttle_status": 1 | 1 << 36})])
        (state,) = amd.Reader(
            fake_host(tmp_path, libraries={"amdsmi": smi}, files=amd_files()), self.ids
        ).read()
        assert state.throttle == ("power-cap", "thermal")

    def test_bits_where_the_library_states_only_whether_there_are_any(self, tmp_path):
        smi = FakeAmdsmi([self.loaded(metrics={"indep_throttle_status": True})])
        host = fake_host(tmp_path, libraries={"amdsmi": smi}, files=amd_files())
        file = host.path("/sys/bus/pci/devices/0000:c1:00.0/gpu_metrics")
        reader = amd.Reader(host, self.ids)
        for content, throttle in [
            (None, ()),
            (struct.pack("<HBB108xQ", 120, 1, 3, 1 << 36), ("thermal",)),
            (struct.pack("<HBB108xQ", 120, 1, 3, 2**64 - 1), ()),
            # Another form of the file, and one that is cut off.
            (struct.pack("<HBB108xQ", 120, 1, 4, 1 << 36), ()),
            (struct.pack("<HBB", 120, 1, 3), ()),
        ]:
            if content is not None:
                file.write_bytes(content)
            assert reader.read()[0].throttle == throttle

    def test_a_library_whose_shared_object_is_missing(self, tmp_path):
        smi = FakeAmdsmi([self.loaded()])
        smi.amdsmi_init = lambda: (_ for _ in ()).throw(
            OSError("libamd_smi.so: cannot open shared object file")
        )
        (state,) = amd.Reader(
            fake_host(tmp_path, libraries={"amdsmi": smi}, files=amd_files()), self.ids
        ).read()
        assert (state.power_cap_w, state.pids) == (750.0, None)

    def test_files_alone(self, tmp_path):
        base = "/sys/bus/pci/devices/0000:c1:00.0"
        files = {
            **amd_files(),
            f"{base}/device": "0x740c",
            f"{base}/hwmon/hwmon3/energy1_input": "5000000",
            f"{base}/hwmon/hwmon3/power1_average": "93000000",
            f"{base}/hwmon/hwmon3/temp2_input": "54000",
            f"{base}/current_link_width": "8",
            f"{base}/max_link_width": "16",
        }
        (state,) = amd.Reader(fake_host(tmp_path, files=files), self.ids).read()
        assert (state.energy_j, state.power_w, state.temperature_c) == (5.0, 93.0, 54.0)
        assert (state.pcie_width, state.pcie_width_max, state.utilisation_percent) == (8, 16, 83.0)
        assert state.counter_is_shared

    def test_through_the_tool(self, tmp_path):
        metric = (
            'WARNING: a line\n{"gpu_data": [{"gpu": 0, "power": {"socket_power": {"value": 133,'
            ' "unit": "W"}}, "energy": {"total_energy_consumption": {"value": 1234.5, "unit":'
            ' "J"}}, "ecc": "N/A", "clock": {"gfx_0": {"clk": {"value": 132, "unit": "MHz"}}},'
            ' "usage": {"gfx_activity": "N/A"}, "mem_usage": {"used_vram": {"value": 283, "unit":'
            ' "MB"}}}]}'
        )
        listed = '[{"gpu": 0, "bdf": "0000:C1:00.0"}]'
        (state,) = amd.Reader(
            fake_host(tmp_path, {AMD_METRIC: metric, AMD_LIST: listed}), self.ids
        ).read()
        assert (state.id, state.power_w, state.energy_j, state.clock_mhz) == (
            "0000:c1:00.0",
            133,
            1234.5,
            132,
        )
        assert (state.utilisation_percent, state.ecc_corrected) == (None, None)
        assert state.memory_used_gb == pytest.approx(0.2967, rel=1e-3)

    def test_nothing_answers(self, tmp_path):
        assert amd.Reader(fake_host(tmp_path, {AMD_METRIC: "no json"}), self.ids).read() == ()
