"""Who is on the GPUs, and that only the caller's own processes are stopped."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from gpu_fakes import AMD_PROCESSES, NVIDIA_APPS, NVIDIA_QUERY, fake_host, nvidia_row

from tprimat.machine import gpu_processes
from tprimat.machine.gpu import GpuProcess
from tprimat.machine.host import Host

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")

SLEEP = "import sys, time; held = open(sys.argv[1]); print(1, flush=True); time.sleep(600)"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A file in the place of a GPU's."""
    path = tmp_path / "nvidia0"
    path.write_text("")
    monkeypatch.setattr(gpu_processes, "_DEVICES", (str(path),))
    return path


@pytest.fixture
def start(device):
    """Start a real process, which holds a GPU's file or another one: start(), start(code,
    "/dev/null").
    """
    children = []

    def begin(code=SLEEP, file=None):
        argv = [sys.executable, "-c", code, str(file or device)]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout.readline() == b"1\n"
        return GpuProcess(child.pid, started=psutil.Process(child.pid).create_time())

    yield begin
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


class TestListed:
    def test_a_process_of_this_machine(self, tmp_path, start):
        pid = start().pid
        answers = {
            NVIDIA_QUERY: nvidia_row(0, "aa") + nvidia_row(1, "bb"),
            NVIDIA_APPS: f"GPU-bb, {pid}, /usr/bin/python3, 40960\nGPU-aa, 2000000001, x, [N/A]\n"
            f"GPU-aa, {os.getpid()}, ourselves, 5\n",
        }
        here, elsewhere = gpu_processes.list_processes(fake_host(tmp_path, answers))
        assert (here.pid, here.gpu, here.memory_gb) == (pid, "1", 42.94967296)
        assert here.command.startswith(f"{sys.executable} -c import sys")
        assert here.user == getpass.getuser()
        assert here.started == psutil.Process(pid).create_time()
        assert elsewhere == GpuProcess(2000000001, gpu="0", gpu_id="aa", name="x")

    def test_amd(self, tmp_path):
        listed = [
            {
                "gpu": 0,
                "process_list": [
                    {"process_info": {"pid": 2000000001, "name": "x", "mem_usage": 5}}
                ],
            }
        ]
        (found,) = gpu_processes.list_processes(
            fake_host(tmp_path, {AMD_PROCESSES: json.dumps(listed)})
        )
        assert found == GpuProcess(2000000001, gpu="0", name="x", memory_gb=5e-9)

    def test_nobody_and_no_tool_differ(self, tmp_path):
        assert gpu_processes.list_processes(fake_host(tmp_path, {NVIDIA_APPS: ""})) == ()
        assert gpu_processes.list_processes(fake_host(tmp_path)) is None


class TestMayEnd:
    def test_ones_own_with_a_gpu_open(self, start):
        assert gpu_processes.can_terminate(start(), Host())

    def test_nothing_without_a_gpu_open(self, start):
        """As where the number means another process, in another container."""
        assert not gpu_processes.can_terminate(start(file="/dev/null"), Host())

    def test_nothing_that_is_not_there_or_whose_number_was_used_again(self, start):
        process = start()
        assert not gpu_processes.can_terminate(
            GpuProcess(2000000001, started=process.started), Host()
        )
        assert not gpu_processes.can_terminate(
            GpuProcess(process.pid, started=process.started - 1), Host()
        )
        assert not gpu_processes.can_terminate(GpuProcess(process.pid), Host())

    def test_nothing_of_others(self, start, monkeypatch):
        process = start()
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        assert not gpu_processes.can_terminate(process, Host())

    def test_neither_itself_nor_what_started_it(self, device):
        with device.open():
            for pid in (os.getpid(), os.getppid(), 1):
                started = psutil.Process(pid).create_time()
                assert not gpu_processes.can_terminate(GpuProcess(pid, started=started), Host())

    def test_a_dead_one_that_nobody_has_waited_for(self, start, monkeypatch):
        process = start()
        monkeypatch.setattr(gpu_processes, "_has_gpu_open", lambda *_: True)
        assert gpu_processes.can_terminate(process, Host())
        os.kill(process.pid, signal.SIGKILL)
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            pass
        assert not gpu_processes.can_terminate(process, Host())


def test_a_command_that_is_no_utf8_can_be_written(start, monkeypatch):
    process = start()
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: ["/opt/\udce4/python3", "train.py"])
    monkeypatch.setattr(gpu_processes.nvidia, "processes", lambda host: (GpuProcess(process.pid),))
    (listed,) = gpu_processes.list_processes(Host())
    assert listed.command == "/opt/?/python3 train.py"


class TestEnd:
    def test_terminates_first_and_kills_what_stays(self, start):
        processes = [start(), start(IGNORES_SIGTERM)]
        sent: list[tuple[int, int]] = []
        said: list[str] = []

        def send(pid: int, number: int) -> None:
            sent.append((pid, number))
            os.kill(pid, number)
            while (pid == first or number == signal.SIGKILL) and psutil.Process(
                pid
            ).status() != psutil.STATUS_ZOMBIE:
                pass

        first, second = (process.pid for process in processes)
        assert (
            gpu_processes.terminate(
                processes, Host(), report=said.append, send=send, grace_period_s=0
            )
            == ()
        )
        assert sent == [(first, signal.SIGTERM), (second, signal.SIGTERM), (second, signal.SIGKILL)]
        assert said == [
            f"process {first}: SIGTERM sent",
            f"process {second}: SIGTERM sent",
            f"process {second}: killed",
        ]

    def test_says_what_is_still_there(self, start):
        process = start()
        said: list[str] = []
        left = gpu_processes.terminate(
            [process], Host(), report=said.append, send=lambda *_: None, grace_period_s=0
        )
        assert left == (process,)
        assert "still running" in said[-1]

    def test_nothing_else_is_touched(self, start):
        process = start(file="/dev/null")
        assert (
            gpu_processes.terminate([process], Host(), report=lambda line: None, grace_period_s=0)
            == ()
        )
        assert psutil.Process(process.pid).is_running()
