"""Who a process is, by its environment."""

from __future__ import annotations

import pytest

from tprimat.errors import UsageError
from tprimat.record.ranks import Process, from_environment

TORCHRUN = {
    "RANK": "11",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "3",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}


def test_torchrun_says_all_of_it():
    assert from_environment(TORCHRUN) == Process(11, 16, 3, 8, 1)
    assert not Process(11, 16, 3, 8, 1).is_first


def test_nobody_says_anything():
    assert from_environment({}) is None
    assert from_environment({"RANK": "0"}) is None


def test_one_process_needs_nobody_to_meet():
    assert from_environment({"RANK": "0", "WORLD_SIZE": "1"}) == Process()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"RANK": "x"}, "RANK is 'x'"),
        ({"RANK": "16"}, "RANK is 16 and WORLD_SIZE is 16"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE is '-1'"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK is ''"),
        ({"MASTER_PORT": None}, "MASTER_PORT is not set"),
    ],
)
def test_half_of_it_is_wrong_usage(change, said):
    environ = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}
    with pytest.raises(UsageError) as refused:
        from_environment(environ)
    assert said in refused.value.message
    assert "torchrun" in refused.value.message


def test_alone_everything_is_agreed_at_once():
    assert Process().highest([1.0, 3.5]) == [1.0, 3.5]
    assert Process().agree(True)
    assert not Process().agree(False)
