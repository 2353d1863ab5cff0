"""What a preflight names: the odd one out by the rule of docs/preflight.md, caps, other programs,
differences.
"""

from __future__ import annotations

import msgspec
import pytest
from made_preflights import H100, device, preflight, rate

from tprimat.preflight.findings import findings, odd_ones_out
from tprimat.results.preflight import NodePreflight


def codes(file) -> list[str]:
    return [each.code for each in findings(file)]


class TestOddOnesOut:
    @pytest.mark.parametrize(
        ("rates", "odd"),
        [
            ([700, 702, 698, 650], {3}),  # 7% below
            ([700, 702, 698, 670], set()),  # 4% below
            ([700, 650], {1}),
            ([700, 699], set()),
            ([700], set()),
            ([700, 700, 350, 350], set()),  # half of them: none is the odd one
            ([700, 700, 700, 350, 350], {3, 4}),
            ([700, 640, 760, 580, 820, 600], set()),  # more than 5%, but all differ by as much
            ([0, 0, 0], set()),
        ],
    )
    def test_of_rates(self, rates, odd):
        assert set(odd_ones_out(rates, [0.0] * len(rates))) == odd

    def test_a_device_is_not_named_for_noise_in_time(self):
        assert odd_ones_out([700, 700, 700, 600], [0.01, 0.01, 0.01, 0.06]) == {}
        assert set(odd_ones_out([700, 700, 700, 600], [0.01, 0.01, 0.01, 0.02])) == {3}

    def test_how_far_below(self):
        assert odd_ones_out([100, 100, 100, 80], [0.0] * 4) == {3: pytest.approx(0.2)}


class TestFindings:
    def test_equal_gpus_have_none(self):
        assert findings(preflight()) == ()

    def test_a_slow_gpu_is_named(self):
        file = preflight(*(device(index, 0.8 if index == 3 else 1.0) for index in range(8)))
        found = findings(file)
        assert {each.code for each in found} == {"slow_device"}
        assert (
            found[0].text
            == "GPU 3 is slower than the others: fp32 -20%, tf32 -20%, bf16 -20%, fp16 -20%, fp8"
            " -20%"
        )
        assert msgspec.structs.replace(file, findings=found).slow_devices == ("GPU 3",)

    def test_of_several_machines_the_host_is_named_too(self):
        devices = [
            device(index, 0.8 if index == 3 else 1.0, host=f"node{index // 2}")
            for index in range(4)
        ]
        assert findings(preflight(*devices))[0].device == "GPU 3 on node1"

    def test_a_process_on_a_busy_cpu_is_not_named_for_what_others_took(self):
        rates = [{"fp32": rate(value)} for value in (0.05, 0.05, 0.05, 0.03)]
        devices = [device(index, rates=each) for index, each in enumerate(rates)]
        for share, named in ((0.0, True), (0.3, True), (0.45, False)):
            node = NodePreflight(host="node1", other_programs_cpu_share=share)
            file = preflight(*devices, platform="cpu", nodes=(node,))
            assert ("slow_device" in codes(file)) == named
            assert ("cpu_busy" in codes(file)) == (share > 0.05)

    def test_caps_heat_clocks_and_memory(self):
        devices = [
            device(0, power_cap_w=500.0),
            device(1, rates={"bf16": rate(700.0, drop=0.08)}),
            device(2, clock_under_load_mhz=1200.0),
            device(3, clock_under_load_mhz=1755.0, memory_held_gb=12.3),
            device(4, clock_under_load_mhz=1755.0),
        ]
        texts = {each.code: each.text for each in findings(preflight(*devices))}
        assert texts == {
            "power_cap": "GPU 0: power capped at 500 of 700 W",
            "heat": "GPU 1: bf16 fell by 8% under load (heat or power)",
            "clock": "GPU 2: clock under load 1200 of 1755 MHz",
            "memory_held": "GPU 3: other processes held 12.3 GB of its memory",
        }

    def test_what_differs_between_gpus_and_machines(self):
        nodes = tuple(
            NodePreflight(host=f"node{each}", versions={"driver": f"NVIDIA 5{each}0"})
            for each in (6, 7)
        )
        devices = (device(0, host="node6"), device(1, host="node7", name="NVIDIA H200"))
        texts = [each.text for each in findings(preflight(*devices, nodes=nodes))]
        assert texts == [
            f"the devices differ: {H100} and NVIDIA H200",
            "driver differs: NVIDIA 560 and NVIDIA 570",
        ]

    def test_settings_of_the_machine(self):
        node = NodePreflight(
            host="node1",
            numa_balancing=True,
            partition="CPX/NPS4",
            processes=("GPU 0: python (77)",),
        )
        assert codes(preflight(nodes=(node,))) == ["other_process", "numa_balancing", "partition"]
        whole = NodePreflight(host="node1", numa_balancing=False, partition="SPX/NPS1")
        assert codes(preflight(nodes=(whole,))) == []

    def test_a_wrong_sum(self):
        file = preflight()
        wrong = tuple(
            msgspec.structs.replace(each, is_right=each.bytes > 2000) for each in file.all_reduce
        )
        assert [
            each.text for each in findings(msgspec.structs.replace(file, all_reduce=wrong))
        ] == ["an all-reduce of 1024 bytes returned a wrong sum"]
