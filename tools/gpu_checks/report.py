"""What a check reports into, and the one place that names modules of the package."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpu_checks.device import Device, find_device

ROOT = Path(__file__).resolve().parents[2]

OK, SKIPPED, DOUBTFUL, FAILED = "ok", "skipped", "doubtful", "failed"
SEVERITY = (SKIPPED, OK, DOUBTFUL, FAILED)
"""From the least to the most severe."""

LONGEST_OUTPUT = 200_000
"""Characters of one command's output that are kept."""

GRACE_S = 10.0
"""How long a command that takes too long has to end before it is killed."""

INTERNALS = {
    "DeviceClock": "tprimat.record.clocks",
    "DeviceScalars": "tprimat.record.clocks",
    "DeviceMemory": "tprimat.record.memory",
    "Recorder": "tprimat.record.recorder",
    "record": "benchmark_utils",
    "Host": "tprimat.machine.host",
    "detect": "tprimat.machine.platforms",
    "states": "tprimat.machine.platforms",
    "list_processes": "tprimat.machine.gpu_processes",
    "match": "tprimat.catalog.gpus",
    "product": "tprimat.preflight.kernels",
    "bytes_of": "tprimat.preflight.kernels",
    "fp8_multiply": "tprimat.preflight.kernels",
    "Peers": "tprimat.preflight.collective",
    "all_reduce": "tprimat.preflight.collective",
    "from_environment": "tprimat.record.ranks",
    "FRAMEWORKS": "tprimat.frameworks",
}
"""Everything of the package that the checks import: name -> module."""


class MissingError(Exception):
    """Something that a check needs isn't installed or isn't here; the check is skipped."""


WHEELS = {"pynvml": "nvidia-ml-py"}
"""Packages that are called otherwise than the module."""


def no_wheel(module: str) -> MissingError:
    """Return the error of a package that is in a requirements file and isn't installed."""
    return MissingError(f"the wheel of {WHEELS.get(module, module)} is missing")


def internal(name: str) -> Any:
    """Return an object of INTERNALS. Raises MissingError where a package that it needs isn't
    installed.
    """
    try:
        return getattr(importlib.import_module(INTERNALS[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package in ("", "tprimat", "benchmark_utils"):
            raise
        raise no_wheel(package) from None


@dataclasses.dataclass(frozen=True)
class Output:
    """What a command printed; status is None if it is missing or was killed."""

    status: int | None
    text: str
    errors: str


class Report:
    """The findings of one check and the raw outputs behind them.

    Args:
        dry_run: whether the CPU stands in for the GPU, with small sizes.
        path: a JSON file that is rewritten with every finding, so that a hang loses none.
    """

    def __init__(self, dry_run: bool = False, path: Path | None = None) -> None:
        self.dry_run = dry_run
        self.findings: list[dict[str, Any]] = []
        self.raw: list[dict[str, Any]] = []
        self.details: dict[str, Any] = {}
        self._path = path
        self._device: Device | None = None

    @property
    def device(self) -> Device:
        """The GPU or its stand-in. Raises MissingError without torch, RuntimeError where torch has
        no GPU.
        """
        if self._device is None:
            try:
                self._device = find_device(self.dry_run)
            except ModuleNotFoundError as error:
                raise no_wheel(error.name or "torch") from None
        return self._device

    @property
    def status(self) -> str:
        """The most severe status of the findings."""
        return max(
            (finding["status"] for finding in self.findings), key=SEVERITY.index, default=SKIPPED
        )

    def expect(
        self, what: str, expectation: str, seen: Any, is_met: bool | None, otherwise: str = DOUBTFUL
    ) -> None:
        """Note a finding.

        Args:
            what: was checked.
            expectation: in words.
            seen: a value or a sentence.
            is_met: whether they agree; None if that is unknown.
            otherwise: the status where they don't: DOUBTFUL or FAILED.
        """
        status = SKIPPED if is_met is None else OK if is_met else otherwise
        self.findings.append(
            {"what": what, "expectation": expectation, "seen": seen, "status": status}
        )
        self.save()

    def note(self, **details: Any) -> None:
        """Keep values that nothing is expected of."""
        self.details.update(details)
        self.save()

    @contextlib.contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Turn an exception into a finding, so that the rest of the check goes on."""
        try:
            yield
        except MissingError as error:
            self.expect(what, "everything that it needs is here", str(error), None)
        except Exception as error:  # noqa: BLE001 - whatever a new device raises is a finding
            self.expect(what, "no error", f"{type(error).__name__}: {error}"[:2000], False, FAILED)

    def command(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 20.0,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Output:
        """Run a command, keep its raw output and return it. Never raises."""
        started = time.monotonic()
        # A session of its own, so that what the command started ends with it.
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            output = Output(None, "", f"{type(error).__name__}: {error}")
        else:
            output = _communicate(process, timeout_s)
        self.keep(
            " ".join(argv), output.text, status=output.status, errors=output.errors, started=started
        )
        return output

    def keep(
        self,
        name: str,
        text: str,
        *,
        status: int | None = 0,
        errors: str = "",
        started: float = 0.0,
    ) -> None:
        """Keep a raw text: the output of a command, or a file."""
        entry: dict[str, Any] = {"name": name, "status": status, "text": text[:LONGEST_OUTPUT]}
        if errors:
            entry["errors"] = errors[-LONGEST_OUTPUT:]
        if len(text) > LONGEST_OUTPUT:
            entry["characters"] = len(text)
        if started:
            entry["seconds"] = round(time.monotonic() - started, 3)
        self.raw.append(entry)
        self.save()

    def keep_files(self, *patterns: str) -> None:
        """Keep small system files, by patterns below /."""
        for pattern in patterns:
            for path in sorted(Path("/").glob(pattern.lstrip("/"))):
                with contextlib.suppress(OSError):
                    self.keep(str(path), path.read_text(errors="replace")[:20_000])

    def host(self) -> Any:
        """Return a Host of ours whose commands are kept with their raw output."""

        def run(argv: Sequence[str]) -> str | None:
            output = self.command(argv, timeout_s=10.0)
            return output.text if output.status == 0 else None

        return dataclasses.replace(internal("Host")(), command=run)

    def catalog_row(self) -> Any:
        """Return the catalogue's row of device 0, or None after a finding that says why there is
        none.
        """
        with self.part("catalogue row of the GPU"):
            match = internal("match")(internal("detect")().gpu_info)
            if match.gpu is None:
                self.expect(
                    "catalogue row of the GPU", "one", match.reason, None if self.dry_run else False
                )
            return match.gpu
        return None

    def save(self) -> None:
        """Write what there is."""
        if self._path is not None:
            write_json(self._path, self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return everything for the file."""
        return {
            "status": self.status,
            "findings": self.findings,
            "details": self.details,
            "raw": self.raw,
        }


def _communicate(process: subprocess.Popen[str], timeout_s: float) -> Output:
    """Wait for a command that leads a process group, and end the group where it takes too long."""
    try:
        text, errors = process.communicate(timeout=timeout_s)
        return Output(process.returncode, text, errors)
    except subprocess.TimeoutExpired:
        text, errors = _end(process)
        return Output(None, text, f"{errors}\nkilled after {timeout_s:g} s")
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a process group: first asked, so that a training can end its own processes, then
    killed.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=GRACE_S)
    return "", "its processes did not end"


def write_json(path: Path, document: Any) -> None:
    """Write a document atomically."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(
        json.dumps(document, indent=1, default=to_plain, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
    os.replace(beside, path)


def to_plain(value: Any) -> Any:
    """Return a value that JSON has no word for as one that it has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return str(value)


def relative_difference(value: float, reference: float) -> float:
    """Return |value/reference − 1|; infinite for a reference of 0 and another value."""
    if reference == 0:
        return 0.0 if value == 0 else float("inf")
    return abs(value / reference - 1)
