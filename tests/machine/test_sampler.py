"""The sampler: a process of its own that the training never waits for, and traces that are played
in its place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import signal
import subprocess
import sys
import time

import msgspec
import psutil
import pytest
from gpu_fakes import nvidia_row

from tprimat.errors import TensorPrimatError
from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import Device, GpuState
from tprimat.machine.telemetry import sampler, trace
from tprimat.machine.telemetry.sampler import VARIABLE, Sampler
from tprimat.machine.telemetry.trace import Header, ReplaySource, Sample, Trace
from tprimat.results.run import GpuInfo

FIRST = Device(0, GpuInfo(), id="aaaa-1")
SECOND = Device(1, GpuInfo(), id="bbbb-2")
RECORDED = Trace(
    Header(trace.VERSION, "nvd", ("aaaa-1",)),
    (
        Sample(
            50.0,
            (GpuState(0, "a GPU", id="aaaa-1", utilisation_percent=90.0, throttle=("thermal",)),),
        ),
        Sample(
            50.2, (GpuState(0, "a GPU", id="aaaa-1", utilisation_percent=70.0),), CpuState(1.0, 0.5)
        ),
    ),
)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def written(recorded):
    return b"".join(map(trace.encode, (recorded.header, *recorded.samples)))


class TestTrace:
    def test_there_and_back(self):
        assert trace.decode(io.BytesIO(written(RECORDED))) == RECORDED

    @pytest.mark.parametrize(
        "end", [b'{"at":1.5,"gp', b"\xff\xfe\x00", b'{"at":"soon"}', b"[]\n{}\n"]
    )
    def test_a_line_that_is_torn_or_broken_is_skipped(self, end):
        assert trace.decode(io.BytesIO(written(RECORDED) + end)) == RECORDED

    @pytest.mark.parametrize(
        "content", [b"", b"\x00" * 100, b"[1]", b'{"telemetry":99,"platform":"cpu"}\n']
    )
    def test_another_file_is_no_trace(self, content):
        assert trace.decode(io.BytesIO(content)) is None

    def test_mean_utilisation_of_a_time(self):
        assert trace.mean_utilisation(RECORDED, 50.0, 51.0) == 80.0
        assert trace.mean_utilisation(RECORDED, 50.1, 51.0) == 70.0
        assert trace.mean_utilisation(RECORDED, 60.0, 61.0) is None
        assert trace.mean_utilisation(None, 0.0, 1.0) is None


@contextlib.contextmanager
def sampling(*arguments):
    reading = Sampler(*arguments)
    try:
        yield reading
    finally:
        reading.stop()


class TestReplay:
    def test_a_trace_is_played_from_now_on(self):
        before = time.perf_counter()
        source = ReplaySource(RECORDED)
        first, second = source.read(), source.read()
        assert source.read() is None
        assert before <= first.at
        assert second.at - first.at == pytest.approx(0.2)
        assert time.perf_counter() >= second.at

    def test_in_the_place_of_the_machine(self, tmp_path, monkeypatch):
        path = tmp_path / "träce.jsonl"
        path.write_bytes(written(RECORDED))
        monkeypatch.setenv(VARIABLE, f"replay:{path}")
        with sampling("cpu") as reading:
            assert wait_for(lambda: (known := reading.so_far()) and len(known.samples) == 2)
            read = reading.stop()
        assert read.header == msgspec.structs.replace(RECORDED.header, unknown=(trace.REPLAYED,))
        assert [each.gpus for each in read.samples] == [each.gpus for each in RECORDED.samples]

    def test_a_trace_that_is_missing_or_broken(self, tmp_path, monkeypatch):
        for name in ("missing", "broken"):
            monkeypatch.setenv(VARIABLE, f"replay:{tmp_path / name}")
            (tmp_path / "broken").write_bytes(b"\x1f\x8b")
            reading = Sampler("cpu")
            wait_for(lambda reading=reading: reading._child.poll() is not None)
            assert reading.stop() is None
            assert reading.unknown == "the sampler exited without a reading"


class TestUnreadable:
    @pytest.mark.parametrize(
        ("platform", "devices", "why"),
        [
            ("cpu", [], "on a CPU"),
            ("nvd", [], "reports neither"),
            ("nvd", [dataclasses.replace(FIRST, id="")], "reports neither"),
            (
                "amd",
                [FIRST, dataclasses.replace(SECOND, partition="CPX partition")],
                "CPX partition",
            ),
        ],
    )
    def test_why(self, platform, devices, why):
        assert why in sampler.why_unreadable(platform, devices)

    def test_gpus_by_their_names(self):
        assert sampler.why_unreadable("nvd", [FIRST, SECOND]) is None


def test_switched_off(monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    reading = Sampler("nvd", [FIRST])
    assert (reading.so_far(), reading.stop()) == (None, None)
    assert reading.unknown == "switched off (TPRIMAT_TELEMETRY=off or --telemetry off)"


def test_no_process_can_be_started(monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    reading = Sampler("cpu")
    assert reading.stop() is None
    assert "could not be started" in reading.unknown


@pytest.mark.skipif(
    sys.platform == "win32", reason="signals, and a script in the place of nvidia-smi"
)
class TestProcess:
    def test_reads_the_gpus_that_train(self, tmp_path, monkeypatch):
        rows = [
            nvidia_row(0, "aaaa-1", utilisation=64),
            nvidia_row(1, "bbbb-2"),
            nvidia_row(2, "cccc-3"),
        ]
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\nprintf '%s' '{''.join(rows)}'\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        before = time.perf_counter()
        with sampling("nvd", [FIRST, SECOND]) as reading:
            assert wait_for(lambda: (known := reading.so_far()) and known.samples)
            read = reading.stop()
        first = read.samples[0]
        assert [(gpu.id, gpu.utilisation_percent) for gpu in first.gpus] == [
            ("aaaa-1", 64.0),
            ("bbbb-2", 0.0),
        ]
        assert before < first.at <= time.perf_counter()
        assert first.cpu.own_s > 0

    def test_a_driver_that_does_not_answer_is_reported(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        with sampling("nvd", [FIRST]) as reading:
            assert wait_for(reading.so_far)
            assert "GPUs: not reported by NVML and nvidia-smi" in reading.stop().header.unknown

    def test_the_last_reading_is_made_at_the_end(self):
        with sampling("cpu") as reading:
            assert wait_for(lambda: (known := reading.so_far()) and known.samples)
            before = time.perf_counter()
            read = reading.stop()
        assert read.samples[-1].at > before
        assert read.samples[-1].cpu.own_s is not None
        assert reading.so_far() == read

    def test_one_that_was_killed_leaves_what_it_read(self):
        with sampling("cpu") as reading:
            assert wait_for(lambda: (known := reading.so_far()) and known.samples)
            reading._child.kill()
            assert reading.stop().samples

    def test_one_that_hangs_is_killed(self, monkeypatch):
        monkeypatch.setattr(sampler, "STOP_S", 0.5)
        with sampling("cpu") as reading:
            assert wait_for(lambda: (known := reading.so_far()) and known.samples)
            child = reading._child
            os.kill(child.pid, signal.SIGSTOP)
            assert reading.stop().samples
        assert child.wait(30) == -signal.SIGKILL
        assert "did not answer within 0.5 s" in reading.unknown

    def test_it_exits_with_its_parent_and_leaves_no_file(self, tmp_path, monkeypatch):
        code = (
            "import sys, time\nfrom tprimat.machine.telemetry.sampler import Sampler\n"
            "reading = Sampler('cpu')\nwhile not reading.so_far(): time.sleep(0.05)\n"
            "print(reading._child.pid, flush=True)\ntime.sleep(600)\n"
        )
        environment = {
            **os.environ,
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
        ) as parent:
            child = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
        assert wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
        assert list(tmp_path.iterdir()) == []

    def test_it_exits_with_a_parent_that_is_gone_before_it_has_started(self):
        code = (
            "import os, signal\nfrom tprimat.machine.telemetry.sampler import Sampler\n"
            "print(Sampler('cpu')._child.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        child = psutil.Process(int(done.stdout))
        assert wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)

    def test_ctrl_c_does_not_end_it(self):
        with sampling("cpu") as reading:
            assert wait_for(lambda: (known := reading.so_far()) and known.samples)
            reading._child.send_signal(signal.SIGINT)
            before = time.perf_counter()
            assert reading.stop().samples[-1].at > before


def test_a_long_training_is_read_less_often():
    waits = []

    class Reader:
        header = RECORDED.header

        def read(self, *, last=False):
            return Sample(1.0)

    clock = iter(float(step * 3600) for step in range(100))
    original, sampler.time.monotonic = sampler.time.monotonic, lambda: next(clock)
    try:
        sampler.sample(
            Reader(), lambda line: None, lambda seconds: waits.append(seconds) or len(waits) == 2
        )
    finally:
        sampler.time.monotonic = original
    assert len(waits) == 2
    assert min(waits) > sampler.EVERY_S


@pytest.mark.parametrize("content", [None, b"", b"\x00\xff" * 400, b"{}\n"])
def test_a_trace_that_cant_be_played_is_an_error_before_the_training(
    content, tmp_path, monkeypatch
):
    path = tmp_path / "trace.jsonl"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(VARIABLE, f"replay:{path}")
    with pytest.raises(TensorPrimatError, match=r"trace\.jsonl"):
        sampler.choose("on")
    sampler.choose("off")
    assert os.environ[VARIABLE] == "off"


def test_an_unknown_source_of_telemetry_is_an_error(monkeypatch):
    monkeypatch.setenv(VARIABLE, "bogus")
    with pytest.raises(TensorPrimatError, match="bogus is unknown"):
        sampler.choose("on")
