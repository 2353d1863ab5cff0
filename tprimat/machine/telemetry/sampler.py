"""The sampler: a process of its own that reads the devices and the CPU once a second, as a program:

    python -m tprimat.machine.telemetry.sampler PARENT PLATFORM PID [GPU …] > TRACE.jsonl

The training never waits for it: it starts the sampler before its first step and collects the
readings after its last one. The sampler exits by itself within a second of the process that started
it, even while a driver doesn't answer. In runs of more than two hours it reads less often, so that
a trace stays below some 50,000 readings a month.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tprimat.errors import UsageError
from tprimat.files import read_plain, unreadable
from tprimat.location import python_path
from tprimat.machine.gpu import Device
from tprimat.machine.telemetry import trace
from tprimat.machine.telemetry.trace import LiveSource, ReplaySource, Source, Trace
from tprimat.results.run import Platform

EVERY_S = 1.0
SHARE_OF_ELAPSED = 1 / 7200
"""Share of the time since the start that lies between two readings of a long training."""

REST_PER_READING = 20
"""A slow reading, through a vendor's tool, is followed by a pause this many times as long."""

STOP_S = 2.0
"""How long a training waits at its end for the last reading."""

LARGEST_TRACE = 1 << 28  # bytes; of eight GPUs a day takes some 150 MB
VARIABLE = "TPRIMAT_TELEMETRY"
"""Environment variable: off for no telemetry; replay:FILE to play a recorded trace in its place."""

OFF, REPLAY = "off", "replay:"


class Sampler:
    """The sampler as the training's process sees it. Nothing here raises or waits, but stop() for
    STOP_S.

    `with_siblings` if this process's parent has started the training's other processes, as torchrun
    does.

    Attributes:
        unknown: why there is no telemetry; None if there may be.
        gpus_unknown: why no GPU is read; None if they are.
    """

    def __init__(
        self, platform: Platform, devices: Sequence[Device] = (), *, with_siblings: bool = False
    ) -> None:
        self.unknown: str | None = None
        self.gpus_unknown = why_unreadable(platform, devices)
        gpus = () if self.gpus_unknown else tuple(device.id for device in devices)
        self._child: subprocess.Popen[bytes] | None = None
        self._trace: IO[bytes] | None = None
        self._final: Trace | None = None
        if os.environ.get(VARIABLE) == OFF:
            self.unknown = f"switched off ({VARIABLE}={OFF} or --telemetry {OFF})"
            return
        # The process whose children are the training: this one, or its parent if that has started
        # the ranks.
        root = os.getppid() if with_siblings else os.getpid()
        try:
            self._start([str(os.getpid()), platform, str(root), *gpus])
        except (OSError, ValueError) as error:
            self.unknown = f"the sampler could not be started: {error}"

    def so_far(self) -> Trace | None:
        """Return the readings until now or until stop(); None if there are none."""
        if self._trace is None:
            return self._final
        try:
            self._trace.seek(0)
            return trace.decode(self._trace)
        except (OSError, ValueError):
            return None

    def stop(self) -> Trace | None:
        """Have the last reading made, end the process, and return everything that was read; None
        for nothing.
        """
        child = self._child
        self._child = None
        if child is not None:
            with contextlib.suppress(OSError):
                child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.unknown = (
                    f"the sampler did not answer within {STOP_S:g} s; its readings until then are"
                    " used"
                )
                child.kill()  # one that hangs in a driver exits when that returns
        self._final = self.so_far()
        if self._trace is not None:
            self._trace.close()
            self._trace = None
        if self._final is None and self.unknown is None:
            self.unknown = "the sampler exited without a reading"
        return self._final

    def _start(self, arguments: list[str]) -> None:
        handle, name = tempfile.mkstemp(prefix="tensorprimat-telemetry-", suffix=".jsonl")
        try:
            self._trace = Path(name).open("rb")  # noqa: SIM115 - stop() closes it
            self._child = subprocess.Popen(
                (sys.executable, "-m", __name__, *arguments),
                # In the current directory `-m` would import a json.py that lies there.
                cwd=sys.prefix,
                env={
                    **os.environ,
                    "PYTHONPATH": python_path(),
                    VARIABLE: _absolute(os.environ.get(VARIABLE, "")),
                },
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(handle)
            # No file remains, however either process ends. Windows removes no open file.
            with contextlib.suppress(OSError):
                Path(name).unlink()


def choose(telemetry: str) -> None:
    """Pass the option --telemetry on to all processes that this one starts, those that torchrun
    starts too.

    Raises UsageError if the environment variable is wrong, or its trace can't be played.
    """
    chosen = os.environ.get(VARIABLE, "")
    if telemetry == OFF:
        os.environ[VARIABLE] = OFF
    elif chosen.startswith(REPLAY):
        path = Path(chosen.removeprefix(REPLAY))
        try:
            recorded = trace.decode(read_plain(path, LARGEST_TRACE).splitlines())
        except OSError as error:
            raise unreadable(path, error) from error
        if recorded is None:
            raise UsageError(f"{VARIABLE}: {path} is not a telemetry trace", heading="wrong-usage")
        # Runs run in another directory.
        os.environ[VARIABLE] = _absolute(chosen)
    elif chosen not in ("", OFF):
        raise UsageError(
            f"{VARIABLE}={chosen} is unknown",
            hint=f"set it to {OFF} or {REPLAY}FILE, or unset it",
            heading="wrong-usage",
        )


def _absolute(chosen: str) -> str:
    """Return a value of VARIABLE that means the same file in every directory."""
    if chosen.startswith(REPLAY):
        return f"{REPLAY}{Path(chosen.removeprefix(REPLAY)).absolute()}"
    return chosen


def why_unreadable(platform: Platform, devices: Sequence[Device]) -> str | None:
    """Return why GPUs can't be read; None if it can be tried."""
    if platform == "cpu":
        return "trained on a CPU, not on a GPU"
    part = next((device.partition for device in devices if device.partition), None)
    if part:
        return f"the drivers report none for a GPU partition ({part})"
    if not devices or not all(device.id for device in devices):
        return (
            "this torch reports neither UUIDs nor PCI addresses of the GPUs, so they cannot be"
            " matched"
        )
    return None


def source_of(arguments: Sequence[str]) -> Source | None:
    """Return the source of the sampler; None if a trace to be replayed can't be read."""
    platform, root, *gpus = arguments
    chosen = os.environ.get(VARIABLE, "")
    if not chosen.startswith(REPLAY):
        return LiveSource(platform, gpus, int(root))  # type: ignore[arg-type]
    try:
        recorded = trace.decode(
            read_plain(Path(chosen.removeprefix(REPLAY)), LARGEST_TRACE).splitlines()
        )
    except OSError:
        return None
    if recorded:
        return ReplaySource(recorded)
    return None


def sample(
    source: Source, write: Callable[[bytes], Any], is_stopped: Callable[[float], bool]
) -> None:
    """Read until stopped, then a last time. `write` takes a line; `is_stopped` waits for up to a
    number of seconds.
    """
    write(trace.encode(source.header))
    began = time.monotonic()
    stopped = False
    while True:
        started = time.monotonic()
        reading = source.read(last=stopped)
        if reading is None:
            return
        write(trace.encode(reading))
        if stopped:
            return
        now = time.monotonic()
        due = max(
            EVERY_S - (now - started),
            REST_PER_READING * (now - started),
            SHARE_OF_ELAPSED * (now - began),
        )
        stopped = is_stopped(0.0 if isinstance(source, ReplaySource) else due)


def main(arguments: Sequence[str]) -> int:
    """Read until terminated, or until the process that started this one has exited."""
    # Its number is an argument, since it may be gone before this line. On Windows a launcher can
    # lie in between.
    parent = int(arguments[0]) if os.name == "posix" else os.getppid()
    stop = threading.Event()
    # Ctrl-C reaches all processes of a terminal: the training ends itself, and then the sampler.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def run() -> None:
        source = source_of(arguments[1:])
        if source is not None:
            sample(source, lambda line: os.write(1, line), stop.wait)

    # A thread of its own: a driver that hangs must not keep the process from exiting with its
    # parent.
    reader = threading.Thread(target=run, daemon=True)
    reader.start()
    while reader.is_alive() and os.getppid() == parent:
        reader.join(EVERY_S)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
