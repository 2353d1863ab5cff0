"""The CPU's counters: the whole machine's less the training's own, stalls, quota, energy."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import types

import msgspec
import psutil
import pytest
from gpu_fakes import fake_host

from tprimat.machine import cpu
from tprimat.machine.cpu import CpuReader, CpuState

Times = collections.namedtuple("Times", "user nice system idle iowait steal guest")
Own = collections.namedtuple("Own", "user system children_user children_system iowait")
RAPL = "/sys/class/powercap/intel-rapl:0"


class Machine:
    """Two CPUs that may be used of three, and processes: pid -> (parent, name, seconds, seconds of
    exited children).
    """

    def __init__(self):
        self.cpus = [Times(10.0, 0.0, 0.0, 10.0, 0.0, 0.0, 5.0)] * 3
        self.processes = {
            1: (0, "init", 1.0, 50.0),
            7: (1, "trainer", 0.0, 0.0),
            8: (7, "worker", 0.0, 0.0),
        }

    def passes(self, seconds, busy, steal):
        for index in (0, 1):
            before = self.cpus[index]
            self.cpus[index] = before._replace(
                user=before.user + busy,
                steal=before.steal + steal,
                idle=before.idle + seconds - busy - steal,
            )

    def listed(self, _attributes):
        for pid, (parent, name, seconds, exited) in self.processes.items():
            times = Own(seconds, 0.0, exited, 0.0, 99.0)
            info = {"ppid": parent, "name": name, "cpu_times": times, "create_time": 100.0 + pid}
            yield types.SimpleNamespace(pid=pid, info=info)


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: machine.cpus)
    monkeypatch.setattr(psutil, "process_iter", machine.listed)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: collections.namedtuple("F", "current")(2600.04))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 2.0, 3.0), raising=False)
    return machine


def test_a_programs_name_that_is_no_utf8_can_be_written(machine, tmp_path):
    reader = CpuReader(fake_host(tmp_path), 7)
    reader.read()
    machine.processes[9] = (1, "n\udce4her", 4.5, 0.0)
    assert json.loads(msgspec.json.encode(reader.read(last=True)))["programs"] == {"n?her (9)": 4.5}


def test_others_are_what_is_in_use_and_not_ours(machine, tmp_path):
    reader = CpuReader(fake_host(tmp_path), 7)
    first = reader.read()
    machine.passes(10.0, busy=8.0, steal=1.0)
    # The worker has a child that exited; the neighbour came after the first look.
    machine.processes |= {
        7: (1, "trainer", 5.0, 0.0),
        8: (7, "worker", 4.0, 2.0),
        9: (1, "neighbour", 4.5, 3.0),
    }
    last = reader.read(last=True)
    assert last.total_s - first.total_s == 20.0
    assert last.busy_s - first.busy_s == 16.0
    assert last.stolen_s - first.stolen_s == 2.0
    assert last.own_s - first.own_s == 11.0
    assert (first.programs, last.programs) == ({}, {"neighbour (9)": 4.5})
    assert (last.frequency_mhz, last.load_average) == (2600.0, 1.5)


def test_others_use_nothing_where_clocks_of_another_resolution_say_less():
    first = CpuState(total_s=100.0, busy_s=10.0, own_s=4.0)
    assert CpuState(total_s=120.0, busy_s=11.0, own_s=5.25).share_of_others(first) == 0.0
    assert CpuState(total_s=120.0, busy_s=11.5, own_s=5.25).share_of_others(first) == 0.0125


def test_the_workers_of_one_launcher_are_no_others(machine, tmp_path):
    machine.processes[6] = (1, "torchrun", 3.0, 0.0)
    machine.processes |= {7: (6, "trainer", 5.0, 0.0), 10: (6, "trainer", 5.0, 0.0)}
    assert CpuReader(fake_host(tmp_path), 6).read().own_s == 13.0


def test_processes_are_looked_at_seldom(machine, tmp_path, monkeypatch):
    reader = CpuReader(fake_host(tmp_path), 7)
    assert reader.read().own_s is not None
    reader._due = cpu.time.monotonic() + 60
    assert reader.read().own_s is None
    assert reader.read(last=True).own_s is not None


def test_what_the_system_does_not_state_is_unknown(machine, monkeypatch, tmp_path):
    def fail(*_arguments, **_options):
        raise FileNotFoundError("/proc/stat")

    reader = CpuReader(fake_host(tmp_path), 7)
    monkeypatch.setattr(psutil, "cpu_freq", fail)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    state = reader.read()
    assert (state.frequency_mhz, state.load_average, state.stalled_s, state.held_back_s) == (
        None,
        None,
        {},
        None,
    )
    monkeypatch.setattr(psutil, "cpu_times", fail)
    assert reader.read() is None


def test_stalls_and_quota(machine, tmp_path):
    files = {
        "/proc/pressure/cpu": (
            "some avg10=0.45 avg60=1.76 avg300=2.53 total=21195820\nfull avg10=0.00 total=1\n"
        ),
        "/proc/pressure/memory": (
            "some avg10=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n"
        ),
        "/proc/pressure/io": "torn",
        "/proc/self/cgroup": "0::/job/step\n",
        "/sys/fs/cgroup/job/cpu.stat": "usage_usec 10\nnr_throttled 4\nthrottled_usec 1500000\n",
        "/sys/fs/cgroup/job/step/cpu.stat": "usage_usec 10\nnr_throttled 0\nthrottled_usec 0\n",
    }
    state = CpuReader(fake_host(tmp_path, files=files), 7).read()
    assert state.stalled_s == {"cpu": 21.19582, "memory": 0.25}
    assert state.held_back_s == 1.5


class TestEnergy:
    def read(self, tmp_path, files):
        reader = CpuReader(
            fake_host(tmp_path, files={f"{RAPL}{name}": text for name, text in files.items()}), 7
        )
        state = reader.read()
        return state.energy_j, state.energy_range_j, reader.unknown

    def test_packages_and_their_memory(self, machine, tmp_path):
        files = {
            "/name": "package-0\n",
            "/energy_uj": "2500000\n",
            "/max_energy_range_uj": "262143328850\n",
            ":0/name": "core",
            ":0/energy_uj": "1",
            ":1/name": "dram",
            ":1/energy_uj": "1000000",
        }
        joules, ranges, unknown = self.read(tmp_path, files)
        assert joules == {"package-0": 2.5, "dram-0": 1.0}
        assert ranges == {"package-0": 262143.32885}
        assert unknown == []

    def test_readable_by_root_alone(self, machine, tmp_path):
        joules, _, unknown = self.read(tmp_path, {"/name": "package-0\n"})
        assert (joules, unknown) == (
            {},
            ["CPU energy: RAPL's counters can be read only by root (energy_uj)"],
        )

    def test_none(self, machine, tmp_path):
        assert "no RAPL counter here" in self.read(tmp_path, {})[2][0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_child_that_has_exited_is_ours():
    reader = CpuReader(cpu.Host(), os.getpid())
    before = reader.read(last=True)
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    assert reader.read(last=True).own_s - before.own_s > 0.1
