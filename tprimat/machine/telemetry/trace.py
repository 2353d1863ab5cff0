"""A trace: the readings of a sampler, one JSON line per reading, and its sources.

    {"telemetry": 1, "platform": "nvd", "gpus": ["…"], …}      a Header
    {"at": 12.5, "gpus": […], "cpu": {…}}                      a Sample, one per reading

A live machine and a recorded trace are the same to a reader: a Source.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from tprimat.machine import amd, nvidia
from tprimat.machine.cpu import CpuReader, CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.host import Host
from tprimat.results.fields import Fixed, known_values
from tprimat.results.run import Platform

VERSION = 1

REPLAYED = "telemetry was replayed from a recorded trace, not read from this machine"


class Header(Fixed, frozen=True, omit_defaults=True):
    """A trace's first line.

    Attributes:
        platform: that trains.
        gpus: GpuState.id of each GPU that trains here.
        pid: that of the training's first process.
        unknown: what can't be read, and why.
    """

    telemetry: int
    platform: Platform
    gpus: tuple[str, ...] = ()
    pid: int | None = None
    unknown: tuple[str, ...] = ()


class Sample(Fixed, frozen=True, omit_defaults=True):
    """One reading of everything.

    Attributes:
        at: the midst of the time that it took, on time.perf_counter(), which all processes of a
            machine share, s.
    """

    at: float
    gpus: tuple[GpuState, ...] = ()
    cpu: CpuState | None = None


class Trace(NamedTuple):
    """All readings of a training on one machine, the oldest first."""

    header: Header
    samples: Sequence[Sample] = ()


class LiveSource:
    """This machine; for a training on a CPU no GPU is read.

    `gpus` has the GpuState.id of each GPU that trains; the process `pid` and its children belong to
    the training.
    """

    def __init__(
        self, platform: Platform, gpus: Sequence[str], pid: int, host: Host | None = None
    ) -> None:
        host = host or Host()
        vendors = {"nvd": nvidia, "amd": amd}
        self._gpus: nvidia.Reader | amd.Reader | None = None
        if gpus and platform != "cpu":
            # By UUID or PCI address, never by index.
            self._gpus = vendors[platform].Reader(host, gpus)
        self._cpu = CpuReader(host, pid)
        unknown = list(self._cpu.unknown)
        if self._gpus is not None and not self._gpus.read():
            unknown.append(f"GPUs: not reported by {vendors[platform].SOURCES}")
            self._gpus = None
        self.header = Header(VERSION, platform, tuple(gpus), pid, tuple(unknown))

    def read(self, *, last: bool = False) -> Sample | None:
        """Return a reading of now."""
        began = time.perf_counter()
        gpus = self._gpus.read() if self._gpus is not None else ()
        return Sample(round((began + time.perf_counter()) / 2, 4), gpus, self._cpu.read(last=last))


class ReplaySource:
    """A recorded trace, played from now on: its first reading is now, the others come at their
    distances.
    """

    def __init__(self, trace: Trace) -> None:
        self.header = trace.header.but(unknown=(REPLAYED, *trace.header.unknown))
        self._left = iter(trace.samples)
        self._shift: float | None = None

    def read(self, *, last: bool = False) -> Sample | None:
        """Return the next reading with the time at which it was due, once that has come."""
        sample = next(self._left, None)
        if sample is None:
            return None
        if self._shift is None:
            self._shift = time.perf_counter() - sample.at
        at = sample.at + self._shift
        if not last:
            time.sleep(max(0.0, at - time.perf_counter()))
        return sample.but(at=at)


Source = LiveSource | ReplaySource
"""What can be read again and again: this machine, or a trace; a reading is None if there are no
more.
"""


def encode(line: Header | Sample) -> bytes:
    """Return a line of a trace."""
    return msgspec.json.encode(line) + b"\n"


def decode(lines: Iterable[bytes]) -> Trace | None:
    """Return the trace of a file's lines; without a line that is broken or still being written.

    None if the first line is no header of this version.
    """
    rows = iter(lines)
    try:
        header = msgspec.json.decode(next(rows, b""), type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if header.telemetry != VERSION:
        return None
    decoder = msgspec.json.Decoder(Sample)
    samples = list[Sample]()
    for row in rows:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            samples.append(decoder.decode(row))
    return Trace(header, tuple(samples))


def mean_utilisation(trace: Trace | None, start: float, end: float) -> float | None:
    """Return the mean over all GPUs and the readings between two moments, percent; None if there
    are none.
    """
    gpus = (
        gpu
        for sample in (trace.samples if trace else ())
        if start <= sample.at <= end
        for gpu in sample.gpus
    )
    values = known_values(gpu.utilisation_percent for gpu in gpus)
    if values:
        return sum(values) / len(values)
    return None
