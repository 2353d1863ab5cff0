"""CPU time of other programs: the reading of the whole machine less one's own."""

from __future__ import annotations

import collections
import os
import subprocess
import sys

import psutil
import pytest

from tprimat.machine import cpu_load
from tprimat.machine.cpu_load import CpuLoad
from tprimat.results.run import Disturbance

Times = collections.namedtuple("Times", "user nice system idle iowait steal guest")
Own = collections.namedtuple("Own", "user system children_user children_system iowait")


class FakeProcess:
    """This process, or its parent with everything that it has started."""

    seconds = 0.0
    siblings = 0.0

    def __init__(self, seconds: float | None = None) -> None:
        self._fixed = seconds

    def parent(self) -> FakeProcess:
        return FakeProcess(-1.0)

    def children(self, recursive: bool) -> list[FakeProcess]:
        return [FakeProcess(FakeProcess.siblings)] if self._fixed == -1.0 else []

    def cpu_times(self) -> Own:
        return Own(FakeProcess.seconds if self._fixed is None else self._fixed, 0.0, 0.0, 0.0, 99.0)


@pytest.fixture
def machine(monkeypatch):
    """Two CPUs whose counters a test moves on; the affinity is to the first two of three."""
    cpus = [Times(10.0, 0.0, 0.0, 10.0, 0.0, 0.0, 5.0)] * 3
    clock = [0.0]
    FakeProcess.seconds = FakeProcess.siblings = 0.0
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: cpus)
    monkeypatch.setattr(psutil, "Process", FakeProcess)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: collections.namedtuple("F", "current")(2600.04))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 2.0, 3.0), raising=False)
    monkeypatch.setattr(cpu_load.time, "monotonic", lambda: clock[0])

    def passes(seconds, busy, steal, own, siblings=0.0):
        clock[0] += seconds
        FakeProcess.seconds, FakeProcess.siblings = own, siblings
        for index in (0, 1):
            before = cpus[index]
            cpus[index] = before._replace(
                user=before.user + busy, steal=before.steal + steal, idle=before.idle + seconds - busy - steal
            )

    return passes


def test_others_are_what_is_in_use_and_not_ours(machine):
    load = CpuLoad()
    machine(10.0, busy=8.0, steal=1.0, own=11.0)
    assert load.disturbance() == Disturbance(
        other_programs_cpu_share=0.25, steal_cpu_share=0.1, load_average_at_start=1.5, cpu_frequency_mhz=2600.0
    )


def test_the_workers_of_one_launcher_are_no_others(machine):
    load = CpuLoad(with_siblings=True)
    machine(10.0, busy=8.0, steal=0.0, own=8.0, siblings=8.0)
    assert load.disturbance().other_programs_cpu_share == 0.0


def test_a_moment_says_nothing(machine):
    load = CpuLoad()
    machine(0.5, busy=0.5, steal=0.0, own=0.0)
    assert load.disturbance() == Disturbance(load_average_at_start=1.5, cpu_frequency_mhz=2600.0)


def test_what_the_system_does_not_state_is_unknown(machine, monkeypatch):
    def fail(*_arguments, **_options):
        raise FileNotFoundError("/proc/stat")

    for name in ("cpu_times", "cpu_freq"):
        monkeypatch.setattr(psutil, name, fail)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    load = CpuLoad()
    machine(10.0, busy=8.0, steal=1.0, own=11.0)
    assert load.disturbance() == Disturbance()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_child_that_has_ended_is_ours(monkeypatch):
    monkeypatch.setattr(cpu_load, "SHORTEST_S", 0.0)
    load = CpuLoad()
    before = load._seconds()
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    assert load._seconds()[3] - before[3] > 0.1
    assert 0 <= load.disturbance().other_programs_cpu_share <= 1
