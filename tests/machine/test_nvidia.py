"""NVIDIA's GPUs by NVML and by nvidia-smi: the same rows, and the tool where the library fails."""

from __future__ import annotations

import dataclasses

import pytest
from gpu_fakes import H100, NVIDIA_APPS, NVIDIA_QUERY, FakeNvml, fake_host, nvidia_row

from tprimat.machine import nvidia
from tprimat.machine.gpu import GpuProcess

SECOND = {**H100, "uuid": "bb-1", "processes": []}
NOTHING = "[N/A], [N/A], [N/A]"


class TestStates:
    def test_by_the_library(self, tmp_path):
        nvml = FakeNvml([H100, SECOND])
        first, second = nvidia.states(fake_host(tmp_path, libraries={"pynvml": nvml}))
        assert (first.index, first.name, first.id) == (0, "NVIDIA H100 80GB HBM3", "aa-0")
        assert (second.index, second.id) == (1, "bb-1")
        # What the driver reserves is not in use, as nvidia-smi counts.
        assert (first.memory_total_gb, first.memory_used_gb) == (85.520809984, 12.0)
        assert (first.power_cap_w, first.power_default_w, first.power_max_w) == (
            500.0,
            700.0,
            700.0,
        )
        assert (first.clock_mhz, first.clock_max_mhz, first.utilisation_percent) == (
            1755,
            1980,
            97.0,
        )
        assert first.is_capped
        assert not first.partitioned
        assert nvml.open == 0

    def test_by_the_tool(self, tmp_path):
        text = (
            nvidia_row(0, "AA-0", used=71680, power="500.00, 700.00, 700.00", utilisation=97)
            + nvidia_row(
                1,
                "bb-1",
                power=NOTHING,
                clocks="[Unknown Error], 1980",
                utilisation="[N/A]",
                mig="Enabled",
            )
            + "not a line of it\n"
        )
        first, second = nvidia.states(fake_host(tmp_path, {NVIDIA_QUERY: text}))
        assert (first.index, first.name, first.id) == (0, "NVIDIA H100 80GB HBM3", "aa-0")
        assert first.memory_total_gb == pytest.approx(81559 * 2**20 / 1e9)
        assert first.memory_used_gb == pytest.approx(71680 * 2**20 / 1e9)
        assert (first.power_cap_w, first.power_default_w, first.power_max_w) == (
            500.0,
            700.0,
            700.0,
        )
        assert (first.clock_mhz, first.clock_max_mhz, first.utilisation_percent) == (
            1980.0,
            1980.0,
            97.0,
        )
        assert first.is_capped
        # What the driver doesn't state is unknown, not 0.
        assert (second.power_cap_w, second.clock_mhz, second.utilisation_percent) == (
            None,
            None,
            None,
        )
        assert (second.is_capped, second.partitioned) == (False, True)

    def test_a_gpu_that_is_lost_to_the_library_is_the_tools(self, tmp_path):
        text = nvidia_row(0, "aa-0", used=1) + nvidia_row(1, "bb-1", used=1000)
        host = fake_host(tmp_path, {NVIDIA_QUERY: text}, {"pynvml": FakeNvml([H100, None])})
        assert [state.memory_used_gb for state in nvidia.states(host)] == [12.0, 1000 * 2**20 / 1e9]

    def test_values_that_a_virtual_gpu_lacks_are_unknown(self, tmp_path):
        bare = {key: H100[key] for key in ("uuid", "name", "memory")}
        (state,) = nvidia.states(fake_host(tmp_path, libraries={"pynvml": FakeNvml([bare])}))
        known = {
            name
            for name in state.__struct_fields__
            if getattr(state, name) not in (None, (), False)
        }
        assert known == {"name", "memory_total_gb", "memory_used_gb", "id"}

    def test_an_older_driver_counts_memory_in_one_way_only(self, tmp_path):
        nvml = FakeNvml([H100])
        nvml.nvmlMemory_v2 = None
        (state,) = nvidia.states(fake_host(tmp_path, libraries={"pynvml": nvml}))
        assert state.memory_used_gb == 12.6

    @pytest.mark.parametrize(
        "text", [None, "", "Failed to initialize NVML: Driver/library version mismatch\n"]
    )
    def test_nothing_answers(self, tmp_path, text):
        assert (
            nvidia.states(fake_host(tmp_path, {NVIDIA_QUERY: text}, {"pynvml": FakeNvml([])})) == ()
        )


class TestProcesses:
    expected = (
        GpuProcess(4242, "0", "aa-0", "/usr/bin/python3", 11.0),
        GpuProcess(4343, "0", "aa-0", None, None),
    )

    def test_by_the_library(self, tmp_path):
        nvml = FakeNvml([H100, SECOND])
        assert nvidia.processes(fake_host(tmp_path, libraries={"pynvml": nvml})) == self.expected
        assert nvml.open == 0

    def test_by_the_tool(self, tmp_path):
        answers = {
            NVIDIA_APPS: (
                "GPU-AA-0, 4242, /usr/bin/python3, 10240\nGPU-aa-0, 4343, [Not Found],"
                " [N/A]\nnonsense\n"
            ),
            NVIDIA_QUERY: nvidia_row(0, "aa-0"),
        }
        first, second = nvidia.processes(fake_host(tmp_path, answers))
        assert first == dataclasses.replace(self.expected[0], memory_gb=10.73741824)
        assert second == self.expected[1]

    def test_a_name_with_commas(self, tmp_path):
        (process,) = nvidia.processes(
            fake_host(tmp_path, {NVIDIA_APPS: "GPU-aa-0, 7, a, b, 1024\n"})
        )
        assert (process.pid, process.name, process.gpu) == (7, "a,b", None)

    def test_a_gpu_in_mig_mode_that_hides_its_processes_is_the_tools(self, tmp_path):
        hidden = {key: value for key, value in SECOND.items() if key != "processes"}
        libraries = {"pynvml": FakeNvml([H100, hidden])}
        (process,) = nvidia.processes(
            fake_host(tmp_path, {NVIDIA_APPS: "GPU-bb-1, 7, x, 1\n"}, libraries)
        )
        assert process.pid == 7
        # Without the tool what is known remains.
        assert nvidia.processes(fake_host(tmp_path, libraries=libraries)) == self.expected

    def test_a_name_that_is_no_utf8_is_unknown(self, tmp_path):
        # As the package decodes it.
        nvml = FakeNvml([{**H100, "names": {4242: Undecodable()}}])
        first, _ = nvidia.processes(fake_host(tmp_path, libraries={"pynvml": nvml}))
        assert (first.pid, first.name) == (4242, None)

    def test_a_desktop_is_named_where_it_is_asked_for(self, tmp_path):
        nvml = FakeNvml(
            [{**SECOND, "graphics": [(900, 400_000_000)], "names": {900: "/usr/lib/xorg/Xorg"}}]
        )
        host = fake_host(tmp_path, libraries={"pynvml": nvml})
        assert nvidia.processes(host) == ()
        assert nvidia.processes(host, graphics=True) == (
            GpuProcess(900, "0", "bb-1", "/usr/lib/xorg/Xorg", 0.4),
        )

    def test_nobody_and_no_answer_differ(self, tmp_path):
        assert nvidia.processes(fake_host(tmp_path, libraries={"pynvml": FakeNvml([SECOND])})) == ()
        assert nvidia.processes(fake_host(tmp_path, {NVIDIA_APPS: ""})) == ()
        assert nvidia.processes(fake_host(tmp_path)) is None


@pytest.mark.parametrize(
    ("files", "answers", "libraries", "version"),
    [
        (
            {
                "/proc/driver/nvidia/version": (
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n"
                )
            },
            {},
            {},
            "NVIDIA 550.54.15",
        ),
        ({}, {}, {"pynvml": FakeNvml([H100])}, "NVIDIA 570.86.15"),
        (
            {},
            {"nvidia-smi --query-gpu=driver_version --format=csv,noheader": "575.57.08\n" * 2},
            {},
            "NVIDIA 575.57.08",
        ),
        ({}, {"nvidia-smi --query-gpu=driver_version --format=csv,noheader": "[N/A]\n"}, {}, None),
        ({}, {}, {}, None),
    ],
)
def test_driver_version(tmp_path, files, answers, libraries, version):
    assert nvidia.driver_version(fake_host(tmp_path, answers, libraries, files)) == version


class Undecodable:
    """A name in another encoding, as it fails in pynvml."""

    def encode(self):
        return b"/opt/\xe4/python3".decode()


LOADED = {
    **H100,
    "uuid": "aa-0",
    "energy": 123_456,
    "power_average": 650,
    "power_instant": 700,
    "temperature": 71,
    "reasons": 0x1 | 0x4 | 0x20 | 0x40,
    "ecc": (3, 1),
    "rows": (1, 2),
    "replays": 4,
    "lanes": (8, 16),
    "links": 5,
    "xids": (79,),
}


class TestReader:
    ids = ("aa-0", "bb-1")

    def test_through_the_library_which_stays_open(self, tmp_path):
        nvml = FakeNvml([SECOND, LOADED])
        reader = nvidia.Reader(fake_host(tmp_path, libraries={"pynvml": nvml}), self.ids)
        first, second = reader.read()
        # By UUID: the driver's first GPU is the second here.
        assert (first.id, second.id) == self.ids
        assert (first.energy_j, first.power_w, first.power_is_average) == (123_456, 650, True)
        assert first.throttle == ("power-cap", "thermal")
        assert (first.temperature_c, first.pids) == (71, (4242, 4343))
        assert (first.ecc_corrected, first.ecc_uncorrected, first.retired_pages) == (3, 1, 3)
        assert (first.pcie_replays, first.pcie_width, first.pcie_width_max, first.link_errors) == (
            4,
            8,
            16,
            5,
        )
        assert first.xids == (79,)
        assert (second.energy_j, second.power_w, second.xids, second.link_errors) == (
            None,
            None,
            (),
            None,
        )
        # An error is reported once.
        assert [gpu.xids for gpu in reader.read()] == [(), ()]
        assert nvml.open == 1

    @pytest.mark.parametrize(
        ("bits", "reasons"),
        [
            # docs.nvidia.com/deploy/nvml-api, nvmlClocksEventReasons.
            (0x1, ()),
            (0x2, ("clock-setting",)),
            (0x4, ("power-cap",)),
            (0x8, ("hardware-slowdown",)),
            (0x10, ("sync-boost",)),
            (0x20, ("thermal",)),
            (0x40, ("thermal",)),
            (0x80, ("power-brake",)),
            (0x100, ("clock-setting",)),
            (
                0x1FF,
                (
                    "clock-setting",
                    "hardware-slowdown",
                    "power-brake",
                    "power-cap",
                    "sync-boost",
                    "thermal",
                ),
            ),
        ],
    )
    def test_every_reason_of_nvml_but_idleness_is_named(self, tmp_path, bits, reasons):
        nvml = FakeNvml([{**LOADED, "reasons": bits}])
        (state,) = nvidia.Reader(fake_host(tmp_path, libraries={"pynvml": nvml}), ["aa-0"]).read()
        assert state.throttle == reasons

    def test_an_instant_of_an_h100_covers_a_part_of_the_time(self, tmp_path):
        gpu = {name: value for name, value in LOADED.items() if name != "power_average"}
        (state,) = nvidia.Reader(
            fake_host(tmp_path, libraries={"pynvml": FakeNvml([gpu])}), ["aa-0"]
        ).read()
        assert (state.power_w, state.power_is_average) == (700, False)
        (state,) = nvidia.Reader(
            fake_host(tmp_path, libraries={"pynvml": FakeNvml([{**gpu, "name": "NVIDIA L40S"}])}),
            ["aa-0"],
        ).read()
        assert state.power_is_average is None

    def test_through_the_tool(self, tmp_path):
        text = nvidia_row(0, "BB-1", utilisation="[N/A]") + nvidia_row(
            1, "aa-0", 64, sensors="512.25, 66, 2619"
        )
        reader = nvidia.Reader(fake_host(tmp_path, {NVIDIA_QUERY: text}), ["aa-0"])
        (state,) = reader.read()
        assert (state.id, state.power_w, state.temperature_c, state.memory_clock_mhz) == (
            "aa-0",
            512.25,
            66,
            2619,
        )

    def test_nothing_answers(self, tmp_path):
        assert nvidia.Reader(fake_host(tmp_path), self.ids).read() == ()
