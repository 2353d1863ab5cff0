"""The machines of a training on several: what each states, and what differs."""

from __future__ import annotations

import pytest

from tprimat.machine.platforms import Machine
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.record import nodes
from tprimat.results.run import Environment, GpuInfo


def machine(torch="2.9.1", count=8):
    environment = Environment(versions={"torch": torch}, cpu="EPYC", os="Linux")
    return Machine("nvd", GpuInfo(device_name="H100", device_count=count), environment)


def stated(folder, *machines):
    for rank, each in enumerate(machines):
        nodes.state(folder, rank, each, {"SLURMD_NODENAME": f"n{rank + 1}"})
    return nodes.read(folder, len(machines))


def test_nodes_that_are_alike(tmp_path):
    found, notes = stated(tmp_path, machine(), machine())
    assert [(node.hostname, node.device_name, node.device_count) for node in found] == [
        ("n1", "H100", 8),
        ("n2", "H100", 8),
    ]
    assert notes == []


def test_what_differs_is_named_with_its_nodes(tmp_path):
    _, (note,) = stated(tmp_path, machine(), machine("2.8.0"), machine(), machine(count=4))
    assert (
        words(note)
        == "the nodes differ: GPUs 8 on n1, n2 and n3, 4 on n4; torch 2.9.1 on n1, n3 and n4, 2.8.0"
        " on n2; the slowest limits all"
    )


def test_what_one_has_and_another_lacks_differs(tmp_path):
    other = Machine(
        "nvd", GpuInfo(device_name="H100", device_count=8), Environment(cpu="EPYC", os="Linux")
    )
    _, (note,) = stated(tmp_path, machine(), other)
    assert "torch 2.9.1 on n1, none on n2" in words(note)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"hostname": 3}', b"\xff"])
def test_a_node_without_a_readable_statement_is_counted(content, tmp_path):
    stated(tmp_path, machine())
    if content is not None:
        (tmp_path / "1.node").write_bytes(content)
    found, notes = nodes.read(tmp_path, 2)
    assert len(found) == 1
    assert notes == [Note("nodes-undescribed", {"nodes": "1 node", "count": 2})]


def test_a_training_on_one_machine_has_none():
    assert nodes.described({}) == ((), [])
    assert nodes.variables(1, "folder") == {}


def test_what_a_training_is_told_is_what_it_reads(tmp_path):
    expected = stated(tmp_path / "a:b", machine(), machine())
    assert nodes.described(nodes.variables(2, tmp_path / "a:b")) == expected
