"""Who is on the GPUs, by each vendor's tool; and that only the caller's own processes are ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.machine import gpu_processes
from tprimat.machine.gpu_processes import Process
from tprimat.machine.host import Host

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at /proc")

ME = os.getuid() if hasattr(os, "getuid") else 0


@pytest.fixture
def machine(tmp_path):
    """A machine with a vendor's tools and processes: machine({"amd-smi process --json": "[]"}, {77: {...}})."""

    def make(answers: dict[str, str | None], processes: dict[int, dict] | None = None) -> Host:
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        for command in answers:
            program = programs / command.split()[0]
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
        for pid, process in (processes or {}).items():
            folder = tmp_path / "proc" / str(pid)
            (folder / "fd").mkdir(parents=True, exist_ok=True)
            command = "\0".join(process.get("command", ("python3", "train.py"))) + "\0"
            (folder / "cmdline").write_text(command)
            fields = ["S", *(["0"] * 18), str(process.get("started", 500))]
            (folder / "stat").write_text(f"{pid} (my (odd) name) {' '.join(fields)} 0 0\n")
            for number, target in enumerate(process.get("open", ("/dev/kfd",))):
                link = folder / "fd" / str(number)
                if not link.is_symlink():
                    link.symlink_to(target)
        return Host(
            environ={"PATH": str(programs)},
            root=tmp_path,
            command=lambda argv: answers.get(" ".join(argv)),
        )

    return make


NVIDIA = {
    "nvidia-smi --query-gpu=uuid,index --format=csv,noheader": "GPU-aa, 0\nGPU-bb, 1\n",
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader,nounits": (
        "GPU-bb, 77, /usr/bin/python3, 40960\nGPU-aa, 88, [Not Found], [N/A]\n"
    ),
}
AMD_SMI = [
    {"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]},
    {
        "gpu": 1,
        "process_list": [
            {
                "process_info": {
                    "name": "python3",
                    "pid": 77,
                    "memory_usage": {"vram_mem": {"value": 5_000_000_000, "unit": "B"}},
                }
            },
            {"process_info": {"name": "monitor", "pid": 78, "memory_usage": {"vram_mem": {"value": 0, "unit": "B"}}}},
        ],
    },
]
ROCM_SMI = {"system": {"PID77": "python3, 1, 5000000000, 0, 0"}}


class TestListed:
    def test_nvidia(self, machine):
        found = gpu_processes.listed(machine(NVIDIA, {77: {}}))
        assert [(each.pid, each.gpu, each.memory_gb) for each in found] == [(77, "1", 42.94967296), (88, "0", None)]
        assert found[0].command == "python3 train.py"
        assert found[0].started == "500"
        assert found[1].user is None

    @pytest.mark.parametrize("wrap", [lambda listed: listed, lambda listed: {"gpu_data": listed}])
    def test_amd_smi(self, machine, wrap):
        answer = "WARNING: something\n" * 2 + json.dumps(wrap(AMD_SMI))
        (found,) = gpu_processes.listed(machine({"amd-smi process --json": answer}, {77: {}}))
        assert (found.pid, found.gpu, found.memory_gb, found.name) == (77, "1", 5.0, "python3")

    def test_an_older_amd_smi(self, machine):
        listed = [{"gpu": 0, "process_list": [{"process_info": {"pid": 9, "mem_usage": {"value": 2, "unit": "GB"}}}]}]
        (found,) = gpu_processes.listed(machine({"amd-smi process --json": json.dumps(listed)}))
        assert found.memory_gb == pytest.approx(2.147, abs=1e-3)

    def test_rocm_smi_where_amd_smi_fails(self, machine):
        answers = {"amd-smi process --json": None, "rocm-smi --showpids --json": json.dumps(ROCM_SMI)}
        (found,) = gpu_processes.listed(machine(answers))
        assert (found.pid, found.gpu, found.memory_gb) == (77, None, 5.0)

    def test_nobody(self, machine):
        answers = {"amd-smi process --json": json.dumps(AMD_SMI[:1])}
        assert gpu_processes.listed(machine(answers)) == ()

    def test_no_tool(self, machine):
        assert gpu_processes.listed(machine({})) is None

    def test_a_tool_that_prints_nonsense(self, machine):
        assert gpu_processes.listed(machine({"amd-smi process --json": "Segmentation fault"})) is None


class TestMayEnd:
    process = Process(77, started="500")

    def test_ones_own_with_a_gpu_open(self, machine):
        assert gpu_processes.may_end(self.process, machine({}, {77: {}}))

    @pytest.mark.parametrize(
        "there",
        [
            {},  # of another container: no such number here
            {77: {"open": ("/dev/null", "/dev/pts/0")}},  # the number means another process here
            {77: {"started": 501}},  # the number was used again
        ],
    )
    def test_nothing_that_is_not_surely_it(self, machine, there):
        assert not gpu_processes.may_end(self.process, machine({}, there))

    def test_nothing_of_others(self, machine, monkeypatch):
        host = machine({}, {77: {}})
        monkeypatch.setattr(os, "getuid", lambda: ME + 1)
        assert not gpu_processes.may_end(self.process, host)

    def test_neither_itself_nor_what_started_it(self, machine):
        for pid in (os.getpid(), os.getppid(), 1):
            assert not gpu_processes.may_end(Process(pid, started="500"), machine({}, {pid: {}}))

    def test_a_dead_one_that_nobody_has_waited_for(self, machine, tmp_path):
        host = machine({}, {77: {}})
        stat = tmp_path / "proc/77/stat"
        stat.write_text(stat.read_text().replace(") S", ") Z"))
        assert not gpu_processes.may_end(self.process, host)


class TestEnd:
    def test_asks_first_and_kills_what_stays(self, machine, tmp_path):
        host = machine({}, {77: {}, 78: {}})
        sent: list[tuple[int, int]] = []

        def send(pid: int, number: int) -> None:
            sent.append((pid, number))
            if pid == 77 or number == signal.SIGKILL:
                (tmp_path / "proc" / str(pid) / "stat").unlink()

        said: list[str] = []
        processes = [Process(77, started="500"), Process(78, started="500")]
        assert gpu_processes.end(processes, host, say=said.append, send=send, grace_s=0) == ()
        assert sent == [(77, signal.SIGTERM), (78, signal.SIGTERM), (78, signal.SIGKILL)]
        assert said == ["process 77: asked to end", "process 78: asked to end", "process 78: killed"]

    def test_says_what_is_still_there(self, machine):
        host = machine({}, {77: {}})
        said: list[str] = []
        left = gpu_processes.end([Process(77, started="500")], host, say=said.append, send=lambda *_: None, grace_s=0)
        assert [process.pid for process in left] == [77]
        assert "is still there" in said[-1]

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
    def test_a_real_process_ends(self, tmp_path):
        """A child that holds a file whose name begins like a device's; nothing else is touched."""
        child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"],
                                 stdout=subprocess.PIPE)  # fmt: skip
        try:
            assert child.stdout.readline() == b"1\n"
            host = Host()
            started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
            process = Process(child.pid, started=started)
            # It has no GPU open, so it isn't ended.
            assert gpu_processes.end([process], host, say=lambda line: None, grace_s=0) == ()
            assert child.poll() is None
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
