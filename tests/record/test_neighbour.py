"""A program beside a training on the CPU is named with the time that it used; and no step asks a
device's library.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import psutil
import pytest

from tprimat.record.telemetry import findings

torch = pytest.importorskip("torch")

STEP_PATH = """
import sys
import time

sys.path[:0] = {path!r}
import torch

import benchmark_utils

seen = []
watching = False


def watch(event, arguments):
    name = str(arguments[0]) if arguments else ""
    library = event == "import" and name.split(".")[0] in ("pynvml", "amdsmi", "rocm_smi")
    started = event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "ctypes.dlopen")
    if watching and (library or started or (event == "open" and name.startswith("/sys/"))):
        seen.append((event, name))


def call(name):
    def called(*_):
        seen.append(("call", name))
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    return called


sys.addaudithook(watch)
try:
    # torch imports it.
    import pynvml

    for name in dir(pynvml):
        if name.startswith("nvml") and callable(getattr(pynvml, name)):
            setattr(pynvml, name, call(name))
except ModuleNotFoundError:
    pass
with benchmark_utils.record(model="mine", output_dir={output!r}, log_every=2, quiet=True) as recorder:
    seen.clear()
    watching = True
    for _ in range(50):
        time.sleep(0.05)
        recorder.step(loss=torch.tensor(1.0))
    watching = False
print("SEEN", seen, len(recorder.result.steps))
"""


@contextlib.contextmanager
def neighbour():
    """A process that is not the training's own: another one's child."""
    code = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'while True:"
        " pass']).pid, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        busy = psutil.Process(int(parent.stdout.readline()))
    try:
        yield busy
    finally:
        busy.kill()


def trained():
    """Record until the processes were looked at twice; the recorder, and its trace."""
    import benchmark_utils

    with benchmark_utils.record(model="mine", quiet=True, log_every=1000) as recorder:
        deadline = time.monotonic() + 120
        looked = 0
        while looked < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
            recorder.step(loss=1.0)
            read = recorder._recording.sampler.so_far()
            looked = sum(sample.cpu.own_s is not None for sample in read.samples) if read else 0
    return recorder, recorder._recording.sampler.so_far()


@pytest.mark.skipif(sys.platform != "linux", reason="a process of another parent")
def test_a_busy_neighbour_is_named_with_its_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with neighbour() as busy:
        recorder, trace = trained()
        used = sum(busy.cpu_times()[:2])
    programs = trace.samples[-1].cpu.programs
    (named,) = [each for each in programs if each.endswith(f"({busy.pid})")]
    assert 0 < programs[named] <= used + 0.02
    run = recorder.result
    share = run.disturbance.other_programs_cpu_share
    assert 0 < share <= 1
    began, ended = trace.samples[0].at, trace.samples[-1].at
    own = findings.programs_of(trace.samples, began, ended)[named]
    assert 0 < own <= findings.cpu_shares(trace.samples, began, ended)["others"] + 0.02
    # Where it is among the busiest, the result says so; others may be busier on a shared machine.
    texts = [issue.text for issue in run.telemetry.issues if issue.code == "cpu-shared"]
    assert (share > findings.DISTURBED_SHARE) == bool(texts)

    recorder, trace = trained()
    assert not any(
        each.endswith(f"({busy.pid})") for sample in trace.samples for each in sample.cpu.programs
    )
    texts = [issue.text for issue in recorder.result.telemetry.issues]
    assert not any(f"({busy.pid})" in text for text in texts)


def test_no_step_touches_a_device_library_or_starts_a_process(tmp_path):
    code = STEP_PATH.format(path=sys.path, output=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "SEEN [] 50"
