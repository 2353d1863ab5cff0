"""GPU utilisation, read once a second by a process of its own, as a program:

    python -m tprimat.machine.utilisation OUTPUT.jsonl nvd GPU [GPU …]

A GPU is named by its UUID (NVIDIA) or PCI address (AMD). Each line of the output is a Reading. Utilisation is the
share of the time in which at least one kernel ran, as the vendors define it; it doesn't state how much of the GPU that
kernel used. The training itself never queries the driver.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat.location import python_path
from tprimat.machine import amd, nvidia
from tprimat.machine.gpu import Device
from tprimat.machine.host import Host
from tprimat.results.run import Platform

EVERY_S = 1.0
END_S = 5.0


class Reading(msgspec.Struct, frozen=True):
    """One reading of all GPUs, on the machine's monotonic clock; or why there are none."""

    at: float = 0.0
    percent: dict[str, float] = {}
    unknown: str | None = None


class Sampler:
    """The process that reads the utilisation of the GPUs that train on this machine, and its readings."""

    def __init__(self, platform: Platform, devices: Sequence[Device]) -> None:
        self.unknown = why_unknown(platform, devices)
        self._child: subprocess.Popen[bytes] | None = None
        if self.unknown is not None:
            return
        handle, name = tempfile.mkstemp(prefix="tensorprimat-utilisation-", suffix=".jsonl")
        os.close(handle)
        self._path = Path(name)
        self._child = subprocess.Popen(
            (sys.executable, "-m", __name__, name, platform, *(device.id for device in devices)),
            env={**os.environ, "PYTHONPATH": python_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def readings(self) -> list[Reading]:
        """Return all readings so far, the oldest first."""
        if self._child is None:
            return []
        readings = read_lines(self._path.read_text(encoding="utf-8").splitlines())
        self.unknown = next((reading.unknown for reading in readings if reading.unknown), None)
        return [reading for reading in readings if reading.percent]

    def stop(self) -> None:
        """Stop the process and remove its file."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._path.unlink(missing_ok=True)
        self._child = None


def why_unknown(platform: Platform, devices: Sequence[Device]) -> str | None:
    """Return why nothing can be read; None where it can be tried."""
    if platform == "cpu":
        return "trained on a CPU, not on a GPU"
    part = next((device.partition for device in devices if device.partition), None)
    if part:
        return f"the drivers report none for a GPU partition ({part})"
    if not devices or not all(device.id for device in devices):
        return "this torch reports neither UUIDs nor PCI addresses of the GPUs, so they can't be matched"
    return None


def mean(readings: Sequence[Reading], start: float, end: float) -> float | None:
    """Return the mean over all GPUs of the readings between two moments, percent; None where there are none."""
    values = [value for reading in readings if start <= reading.at <= end for value in reading.percent.values()]
    return sum(values) / len(values) if values else None


def read_lines(lines: Sequence[str]) -> list[Reading]:
    """Return the readings of an output's lines, without one that is still being written."""
    readings = []
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            readings.append(msgspec.json.decode(line, type=Reading))
    return readings


def first_complete(
    readers: Iterable[Callable[[], Mapping[str, float]]], ids: Sequence[str]
) -> Callable[[], Mapping[str, float]] | None:
    """Return the first reader that knows all the GPUs."""
    return next((read for read in readers if set(ids) <= set(read())), None)


def main(arguments: Sequence[str]) -> int:
    """Read until terminated, or until the training that started this process has exited."""
    path, platform, *ids = arguments
    parent = os.getppid()
    vendor = nvidia if platform == "nvd" else amd
    with Path(path).open("ab", buffering=0) as file:
        read = first_complete(vendor.utilisation_readers(Host(), ids), ids)
        if read is None:
            file.write(msgspec.json.encode(Reading(unknown=f"not reported by {vendor.SOURCES}")) + b"\n")
            return 0
        while os.getppid() == parent:
            percents = read()
            known = {each: percents[each] for each in ids if each in percents}
            file.write(msgspec.json.encode(Reading(time.monotonic(), known)) + b"\n")
            time.sleep(EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
