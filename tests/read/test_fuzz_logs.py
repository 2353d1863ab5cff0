"""The short form of tools/fuzz_logs.py, and that it finds what it looks for."""

import importlib.util
import random
import sys
from pathlib import Path

import made_files
import made_logs
import pytest

from tprimat import read
from tprimat.read.megatron import reader as megatron
from tprimat.read.parsing import text


@pytest.fixture(scope="module")
def fuzzer(repository):
    # By path: a tool is no part of a package, and each directory of tests has a conftest of its
    # own.
    spec = importlib.util.spec_from_file_location(
        "fuzz_logs", repository / "tools" / "fuzz_logs.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_logs"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_logs_are_read_or_refused(fuzzer, seed):
    assert [fault for fault in fuzzer.fuzz(seed, inputs=60) if fault] == []


def is_read(reader, content):
    for line in text.lines([content]):
        reader.feed(line)
    return reader.recognized and reader.finish()


def test_every_reader_reads_an_input_that_is_not_damaged(fuzzer, monkeypatch):
    """No format is left out."""
    monkeypatch.setattr(fuzzer, "SAMPLES", Path("none"))
    monkeypatch.setattr(fuzzer, "damaged", lambda rng, logs, whole=False: logs[0])
    files, lines = set(), set()
    for name, logs in fuzzer.originals().items():
        content = fuzzer.made(random.Random(0), name, logs)
        if (file_format := read.file_format_of(content[: read.HEAD])) is not None:
            files.add(file_format.looks_for)
        elif name not in made_files.TABLES:
            lines |= {each.name for each in read.log_formats() if is_read(each(), content)}
        assert fuzzer.fault_of(content, random.Random(0), name) is None
    # Workbooks are there as real ones alone; tests/read/test_kineto.py damages traces.
    missing = {each.looks_for for each in read.file_formats()} - files
    assert missing == {
        "a workbook of TraceLens (a sheet gpu_timeline)",
        "a trace of PyTorch's profiler",
    }
    assert {each.name for each in read.log_formats()} - lines == set()


@pytest.mark.parametrize(
    "name", [*made_logs.LOGS, *made_files.FILES, *made_files.RECORDS, *made_files.TABLES]
)
def test_damaged_files_of_each_newer_format_are_read_or_refused(fuzzer, name):
    assert [fault for fault in fuzzer.fuzz(1, inputs=20, formats=[name]) if fault] == []


def test_the_same_seed_damages_in_the_same_way(fuzzer):
    logs = [each for group in fuzzer.originals().values() for each in group]
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
    monkeypatch.setattr(read, "log_formats", lambda: (megatron.Reader,))
    content = "".join(fuzzer.OWN.replace("      3/", f"{number:7d}/") for number in range(1, 200))
    faults = {fuzzer.fault_of(content.encode(), random.Random(seed)) for seed in range(8)}
    assert any(fault and "blocks and lines differ" in fault for fault in faults)
