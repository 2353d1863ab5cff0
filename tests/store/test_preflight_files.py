"""Which preflight the result of a training gets, and that broken ones cost nothing."""

from __future__ import annotations

import pytest
from made_preflights import device, preflight, rate

from tprimat.results.conditions import Preflight
from tprimat.store import preflight as stored
from tprimat.store import store


def test_a_training_gets_the_values_of_its_machine(tmp_path):
    path = stored.write(preflight(), tmp_path)
    assert path.name == "preflight_node-1.json"
    found = stored.latest(tmp_path, "node1", ["gpu-0", "gpu-5"], 2)
    assert found.matmul_tflops == {
        "fp32": 51.0,
        "tf32": 370.0,
        "bf16": 700.0,
        "fp16": 690.0,
        "fp8": 1300.0,
    }
    assert (found.timestamp, found.devices) == ("2026-11-24T22:00:00+01:00", 8)
    assert (found.memory_gb_per_s, found.all_reduce_gb_per_s, found.disk_read_gb_per_s) == (
        2800.0,
        420.0,
        3.4,
    )


@pytest.mark.parametrize(
    ("host", "ids", "joined"),
    [
        ("node1", ["gpu-0"], True),
        ("node1", ["gpu-0", "another"], False),
        ("node1", [""] * 8, True),  # torch states no ids: as many
        ("node1", [""] * 9, False),
        ("node2", ["gpu-0"], False),
        (None, ["gpu-0"], False),
        ("node1", [], False),  # trained on the CPU
    ],
)
def test_of_the_same_machine_and_devices_alone(tmp_path, host, ids, joined):
    stored.write(preflight(), tmp_path)
    assert (stored.latest(tmp_path, host, ids, len(ids)) != Preflight()) == joined


def test_on_a_cpu_the_number_of_processes_is_the_same(tmp_path):
    devices = [device(index, rates={"fp32": rate(0.05)}) for index in range(2)]
    stored.write(preflight(*devices, platform="cpu"), tmp_path)
    assert stored.latest(tmp_path, "node1", [], 2).matmul_tflops == {"fp32": 0.05}
    assert stored.latest(tmp_path, "node1", [], 1) == Preflight()
    assert stored.latest(tmp_path, "node1", ["gpu-0"], 1) == Preflight()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x00\xff",
        b"[]",
        b'{"schema": "preflight/2"}',
        b'{"schema": "preflight/1"}',
        b"NaN",
    ],
)
def test_a_broken_one_is_none(tmp_path, content):
    (tmp_path / "preflight_node1.json").write_bytes(content)
    assert stored.latest(tmp_path, "node1", ["gpu-0"], 1) == Preflight()


def test_a_folder_of_results_may_hold_one(tmp_path):
    stored.write(preflight(), tmp_path)
    assert store.find([tmp_path]) == ([], [])
    (tmp_path / "preflight_other.json").write_text("{}")
    assert len(store.find([tmp_path])[1]) == 1


def test_a_host_name_is_no_path(tmp_path):
    assert stored.path_for(tmp_path, "../x/é").parent == tmp_path
    assert stored.path_for(tmp_path, "...").name == "preflight_machine.json"
