"""Several machines: which one this is, and the commands that start the processes of each."""

from __future__ import annotations

import dataclasses

import pytest

from tprimat.errors import UsageError
from tprimat.frameworks import by_name, nodes
from tprimat.frameworks.nodes import Node, this_node
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.measure import attempt

MANUAL = {"NODE_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "2000"}
STEP = {
    "SLURM_STEP_ID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "2000",
}


@pytest.mark.parametrize("environ", [MANUAL, STEP, {**MANUAL, "NNODES": "2"}])
def test_which_one_this_is(environ):
    assert this_node(environ, 2) == Node(1, "n1:2000")


def test_torchruns_port_where_none_is_named():
    assert this_node({"NODE_RANK": "0", "MASTER_ADDR": "n1"}, 2).rendezvous == "n1:29500"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "NODE_RANK and MASTER_ADDR are not set"),
        ({"NODE_RANK": "0"}, "MASTER_ADDR is not set"),
        ({**MANUAL, "NODE_RANK": "2"}, "NODE_RANK is '2'"),
        ({**MANUAL, "NODE_RANK": "first"}, "NODE_RANK is 'first'"),
        ({**MANUAL, "MASTER_PORT": "70000"}, "MASTER_PORT is '70000'"),
        ({**MANUAL, "NNODES": "3"}, "NNODES is 3"),
        ({**STEP, "SLURM_STEP_NUM_NODES": "1"}, "SLURM_STEP_NUM_NODES is 1"),
        # A batch script itself is on the first node, and no task.
        ({"SLURM_JOB_ID": "1", "SLURM_NODEID": "0"}, "NODE_RANK and MASTER_ADDR are not set"),
    ],
)
def test_what_is_missing_or_wrong_is_named(environ, words):
    with pytest.raises(UsageError, match=words) as raised:
        this_node(environ, 2)
    assert "--executor slurm" in raised.value.hint


def test_each_training_meets_at_a_port_of_its_own():
    assert [nodes.of_training("n1:2000", number) for number in (0, 1, 7)] == [
        "n1:2000",
        "n1:2001",
        "n1:2007",
    ]


H100 = Device("nvd", 8, 80e9, "sm_90", "H100")


@pytest.mark.parametrize(
    "name", ["lightning", "transformers", "fsdp", "deepspeed-zero3", "automodel", "megatron"]
)
def test_a_part_of_each_framework(name, tmp_path, monkeypatch):
    (tmp_path / "pretrain_gpt.py").touch()
    monkeypatch.setenv("MEGATRON_PATH", str(tmp_path))
    framework = by_name(name)
    request, _ = framework.resolve_config("llama", RequestedConfig(num_nodes=2), H100, tmp_path)
    assert (request.num_gpus, request.num_nodes, request.gpus_per_node) == (16, 2, 8)
    # Of Megatron-LM the last rank prints.
    assert request.result_node == (1 if name == "megatron" else 0)
    placed = dataclasses.replace(request, node_index=1, rendezvous="n1:2000")
    argv = framework.launcher.launch(placed).argv
    launcher = (
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=n1",
        "--master-port=2000",
        "--rdzv-conf=timeout=900",
    )
    assert argv[1:9] == ("-m", "torch.distributed.run", *launcher, "--nproc-per-node=8")
    assert (placed.result_elsewhere is None) == (name == "megatron")
    if name != "megatron":
        assert type(placed).from_arguments(placed.to_arguments()) == placed


def test_uneven_nodes_are_refused(tmp_path):
    with pytest.raises(UsageError, match="9 GPUs cannot be divided evenly among 2 nodes"):
        by_name("fsdp").resolve_config(
            "llama", RequestedConfig(num_nodes=2, num_gpus=9), H100, tmp_path
        )


def test_more_than_a_node_has_is_refused(tmp_path):
    with pytest.raises(UsageError, match="this machine has 8 GPUs"):
        by_name("fsdp").resolve_config(
            "llama", RequestedConfig(num_nodes=2, num_gpus=32), H100, tmp_path
        )


def test_a_session_of_a_job_has_one_name_on_all_nodes():
    environ = {"TPRIMAT_JOB": "/share/job", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    assert attempt.session_of(environ) == "slurm-7"
    assert attempt.is_another(environ)
    assert attempt.session_of({"SLURM_JOB_ID": "7"}) is None
    assert not attempt.is_another({**environ, "SLURM_RESTART_COUNT": "0"})
