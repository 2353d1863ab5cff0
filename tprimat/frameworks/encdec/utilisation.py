"""GPU utilisation, read once a second by a process of its own, as a program:

    python -m tprimat.frameworks.encdec.utilisation OUTPUT.jsonl nvd GPU [GPU …]

A GPU is named by its UUID (NVIDIA) or PCI address (AMD). Each line of the output is one reading:
{"at": monotonic seconds, "percent": {GPU: percent, …}}; or once {"unknown": reason}. Utilisation is
what the vendor calls so: the share of the time in which at least one kernel ran, which says nothing
of how much of the GPU that kernel used. The training itself never asks the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.frameworks.request import REPOSITORY, Launch
from tprimat.machine import host as hosts
from tprimat.machine.gpu_users import Device
from tprimat.machine.host import Host
from tprimat.results.run import Platform

EVERY_S = 1.0
END_S = 5.0

Percents = Mapping[str, float]
Read = Callable[[], Percents]
"""Reads all GPUs that answer, by their names in lower case."""


class Reading(msgspec.Struct, frozen=True):
    """One reading of all GPUs.

    Attributes:
        at: on the machine's monotonic clock, s.
        percent: 0 … 100, by GPU.
        unknown: why there are no readings.
    """

    at: float = 0.0
    percent: dict[str, float] = {}
    unknown: str | None = None


class Sampler:
    """The process that reads, and what it has read.

    Args:
        platform: nvd, amd or cpu.
        devices: the GPUs that train on this machine.
    """

    def __init__(self, platform: Platform, devices: Sequence[Device]) -> None:
        self.unknown = why_unknown(platform, devices)
        self._child: subprocess.Popen[bytes] | None = None
        if self.unknown is not None:
            return
        handle, name = tempfile.mkstemp(prefix="tensorprimat-utilisation-", suffix=".jsonl")
        os.close(handle)
        self._path = Path(name)
        argv = (sys.executable, "-m", __name__, name, platform, *(name_of(device, platform) for device in devices))
        # A clone that isn't installed is found by PYTHONPATH alone.
        settings = Launch(argv, {}, REPOSITORY).environment()
        self._child = subprocess.Popen(
            argv,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def readings(self) -> list[Reading]:
        """All readings so far, the oldest first."""
        if self._child is None:
            return []
        found = list(read_lines(self._path.read_text(encoding="utf-8").splitlines()))
        self.unknown = next((reading.unknown for reading in found if reading.unknown), None)
        return [reading for reading in found if reading.percent]

    def stop(self) -> None:
        """Ends the process and removes its file."""
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
    """Why nothing can be read; None where it can be tried."""
    if platform == "cpu":
        return "trained on a processor, not on a GPU"
    part = next((device.partition for device in devices if device.partition), None)
    if part:
        return f"the drivers state none for a part of a GPU ({part})"
    if not devices or any(not name_of(device, platform) for device in devices):
        return "this torch names neither the GPUs' UUIDs nor their PCI addresses, by which they would be found"
    return None


def name_of(device: Device, platform: Platform) -> str:
    """By what a GPU is told from the others; empty where that isn't known."""
    return ((device.uuid if platform == "nvd" else device.pci_address) or "").lower()


def mean(readings: Sequence[Reading], start: float, end: float) -> float | None:
    """The mean over all GPUs of the readings between two moments, percent; None where there are none."""
    values = [value for reading in readings if start <= reading.at <= end for value in reading.percent.values()]
    return sum(values) / len(values) if values else None


def read_lines(lines: Sequence[str]) -> Iterator[Reading]:
    """The readings of an output's lines; one that is still being written is passed over."""
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Reading)
        except msgspec.DecodeError:
            continue


def ways(platform: Platform, host: Host, names: Sequence[str]) -> Iterator[Read]:
    """The ways of reading, the cheapest first."""
    if platform == "nvd":
        yield from _nvml(names)
        yield lambda: nvidia_smi(host)
    else:
        yield from _amdsmi()
        yield lambda: amd_driver(host, names)
        yield lambda: rocm_smi(host)


def _nvml(names: Sequence[str]) -> Iterator[Read]:
    try:
        import pynvml
    except ModuleNotFoundError:
        return
    try:
        pynvml.nvmlInit()
        handles = {name: pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{name}".encode()) for name in names}
    except pynvml.NVMLError:
        return

    def read() -> Percents:
        try:
            return {name: float(pynvml.nvmlDeviceGetUtilizationRates(each).gpu) for name, each in handles.items()}
        except pynvml.NVMLError:
            return {}

    yield read


def _amdsmi() -> Iterator[Read]:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError):
        # Its wrapper looks for ROCm's library when it is imported, and ends in one of these.
        return
    try:
        amdsmi.amdsmi_init()
        handles = {
            str(amdsmi.amdsmi_get_gpu_device_bdf(handle)).lower(): handle
            for handle in amdsmi.amdsmi_get_processor_handles()
        }
    except amdsmi.AmdSmiException:
        return

    def read() -> Percents:
        try:
            found = {name: amdsmi.amdsmi_get_gpu_activity(each)["gfx_activity"] for name, each in handles.items()}
        except amdsmi.AmdSmiException:
            return {}
        # "N/A" where the firmware doesn't tell.
        return {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}

    yield read


def nvidia_smi(host: Host) -> Percents:
    """What nvidia-smi says, by UUID; it prints [N/A] where the GPU doesn't tell."""
    listed = host.command(["nvidia-smi", "--query-gpu=uuid,utilization.gpu", "--format=csv,noheader,nounits"])
    rows = [line.split(",") for line in (listed or "").splitlines() if line.count(",") == 1]
    return {
        uuid.strip().removeprefix("GPU-").lower(): float(percent) for uuid, percent in rows if percent.strip().isdigit()
    }


def amd_driver(host: Host, names: Sequence[str]) -> Percents:
    """What AMD's driver says in its files, by PCI address."""
    stated = {name: (host.read(f"/sys/bus/pci/devices/{name}/gpu_busy_percent") or "").strip() for name in names}
    return {name: float(percent) for name, percent in stated.items() if percent.isdigit()}


def rocm_smi(host: Host) -> Percents:
    """What rocm-smi says, by PCI address."""
    listed = host.command(["rocm-smi", "--showuse", "--showbus", "--json"]) or ""
    try:
        # Warnings may stand before the JSON.
        cards: Any = json.loads(listed[listed.index("{") :])
    except ValueError:
        return {}
    found = {}
    for card in cards.values() if isinstance(cards, dict) else ():
        stated = card if isinstance(card, dict) else {}
        address, percent = str(stated.get("PCI Bus", "")).lower(), str(stated.get("GPU use (%)", ""))
        if address and percent.isdigit():
            found[address] = float(percent)
    return found


def first_that_answers(tried: Iterator[Read], names: Sequence[str]) -> Read | None:
    """The first way that knows all the GPUs."""
    return next((read for read in tried if set(names) <= set(read())), None)


def main(arguments: Sequence[str]) -> int:
    """Reads until it is ended, or until the training that started it has gone."""
    path, platform, *names = arguments
    parent = os.getppid()
    with Path(path).open("a", encoding="utf-8") as file:

        def write(reading: Reading) -> None:
            file.write(msgspec.json.encode(reading).decode() + "\n")
            file.flush()

        vendor: Platform = "nvd" if platform == "nvd" else "amd"
        read = first_that_answers(ways(vendor, hosts.Host(), names), names)
        if read is None:
            tools = "NVML and nvidia-smi" if vendor == "nvd" else "amdsmi, the driver's files and rocm-smi"
            write(Reading(unknown=f"{tools} don't tell it here"))
            return 0
        while os.getppid() == parent:
            percents = read()
            write(Reading(at=time.monotonic(), percent={name: percents[name] for name in names if name in percents}))
            time.sleep(EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
