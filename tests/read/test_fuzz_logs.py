"""The short form of tools/fuzz_logs.py, and that it finds what it looks for."""

import importlib.util
import random
import sys

import pytest

from tprimat import read
from tprimat.read.megatron import reader as megatron


@pytest.fixture(scope="module")
def fuzzer(repository):
    # By path: a tool is no part of a package, and each folder of tests has a conftest of its own.
    spec = importlib.util.spec_from_file_location("fuzz_logs", repository / "tools" / "fuzz_logs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_logs"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_logs_are_read_or_refused(fuzzer, seed):
    assert [fault for fault in fuzzer.fuzz(seed, inputs=60) if fault] == []


def test_the_same_seed_damages_in_the_same_way(fuzzer):
    logs = fuzzer.originals()
    one, other = (fuzzer.damaged(random.Random("5 7"), logs) for _ in range(2))
    assert one == other


def test_a_crash_is_a_fault(fuzzer, monkeypatch):
    def crash(self, line):
        raise ZeroDivisionError

    monkeypatch.setattr(megatron.Reader, "feed", crash)
    assert "ZeroDivisionError" in fuzzer.fault_of(b"x\n", random.Random(0))


def test_a_difference_between_blocks_and_lines_is_a_fault(fuzzer, monkeypatch):
    def forgetful(self, number, block):
        return number + block.count(b"\n")

    monkeypatch.setattr(megatron.Reader, "feed_block", forgetful)
    monkeypatch.setattr(read, "LOG_FORMATS", (megatron.Reader,))
    content = "".join(fuzzer.OWN.replace("      3/", f"{number:7d}/") for number in range(1, 200))
    faults = {fuzzer.fault_of(content.encode(), random.Random(seed)) for seed in range(8)}
    assert any(fault and "blocks and lines differ" in fault for fault in faults)
