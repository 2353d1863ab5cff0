#!/usr/bin/env python3
"""Runs the checks that are worth a GPU's first minutes, and leaves one file. Start it by
first_gpu_run.sh.

Each check runs in a process of its own with a time limit: what hangs is killed, what fails is
recorded, and the others still run. The file holds, for each check, what was expected, what was
seen, and the raw output of every tool: names of the machine, its users' processes and serial
numbers too. Look at it before you publish it.

Standard library only; a check that needs a package which isn't installed is skipped: status 1, and
the wheel is named.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
for _folder in (ROOT, TOOLS):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from gpu_checks import CHECKS, Check
from gpu_checks.report import DOUBTFUL, FAILED, SEVERITY, SKIPPED, MissingError, Report, write_json

SCHEMA = "first_gpu_run/1"
TIME_LIMIT_S = 570.0
GRACE_S = 15.0
"""How long a check that takes too long has to end the processes that it started."""

DRIVER_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
LONGEST_OUTPUT = 20_000

OUT_OF_TIME = "no time was left"
WHEEL = re.compile(r"the wheel of (\S+) is missing")

ENVIRONMENT = {
    # Nothing is downloaded and nothing is reported to anybody.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks.

    Returns:
        0 when all checks that were asked for ran and none failed, 1 otherwise, 2 without a GPU or
        for wrong usage.
    """
    arguments = _parser().parse_args(argv)
    if arguments.check:
        return run_one(arguments.check, arguments.result, arguments.dry_run)
    if not arguments.dry_run and not has_gpu():
        print(
            "error: no GPU: torch sees none, and no driver's device file is here", file=sys.stderr
        )
        print("hint: start a container with --gpus all or --device /dev/kfd --device /dev/dri; or try --dry-run",
              file=sys.stderr)  # fmt: skip
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(arguments.folder or os.environ.get("OUT") or "output")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = arguments.only or [check.name for check in CHECKS if check.half == arguments.half]
        status = run_all(
            folder, names, arguments.time_limit, arguments.dry_run, named=bool(arguments.only)
        )
        if not arguments.only and arguments.half == 1:
            print("next: tools/first_gpu_run.sh --half 2")
        return status
    except OSError as error:
        print(f"error: {folder}: {error.strerror or error}", file=sys.stderr)
        return 2


def run_all(
    folder: Path, names: Sequence[str], time_limit_s: float, dry_run: bool, *, named: bool
) -> int:
    """Run checks one after the other, and write the file after each.

    Args:
        folder: gets the file.
        names: of the checks.
        time_limit_s: for all of them; what doesn't fit is skipped.
        dry_run: let the CPU stand in for the GPU.
        named: whether the user named each of them, so that one with nothing to check here isn't all
            right.
    """
    started = datetime.datetime.now(datetime.timezone.utc)
    clock = time.monotonic()
    path = folder / f"first_gpu_run_{started:%Y%m%dT%H%M%SZ}.json"
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "started": started.isoformat(timespec="seconds"),
        "dry_run": dry_run,
        "commit": _commit(),
        "python": sys.version,
        "missing": missing_packages(),
        "checks": [],
    }
    if document["missing"]:
        print("\n".join(wheels_hint(document["missing"])))
    interrupted = False
    not_run: list[str] = []
    for check in (check for check in CHECKS if check.name in names):
        left_s = time_limit_s - (time.monotonic() - clock)
        try:
            entry = run_check(check, min(check.limit_s, left_s), dry_run)
        except KeyboardInterrupt:
            interrupted = True
            entry = _empty(check, FAILED, "interrupted")
        document["checks"].append(entry)
        document["seconds"] = round(time.monotonic() - clock, 1)
        document["summary"] = dict(Counter(each["status"] for each in document["checks"]))
        write_json(path, document)
        for line in lines(entry):
            print(line, flush=True)
        if why := why_not_run(entry, named):
            not_run.append(f"{check.name} has not run in full: {why}")
        if interrupted:
            break
    lacking = sorted({name for entry in document["checks"] for name in missing_wheels(entry)})
    if lacking and not document["missing"]:
        print("\n".join(wheels_hint(lacking)))
    counts = ", ".join(f"{count} {status}" for status, count in document["summary"].items())
    print(
        f"\n{counts}, in {document['seconds']:.0f}"
        f" s{' (dry run: not measured)' if dry_run else ''}\n{path}"
    )
    print("\n".join(not_run), end="\n" if not_run else "")
    return 1 if FAILED in document["summary"] or not_run else 0


def missing_wheels(entry: dict[str, Any]) -> list[str]:
    """Return the packages for lack of which a check, or a part of it, was skipped."""
    told = (WHEEL.fullmatch(str(finding["seen"])) for finding in entry["findings"])
    return list(dict.fromkeys(match[1] for match in told if match))


def why_not_run(entry: dict[str, Any], named: bool) -> str | None:
    """Return why a check that was asked for has not run; None if it has, or there was nothing to
    check here.
    """
    if wheels := missing_wheels(entry):
        return "; ".join(f"the wheel of {name} is missing" for name in wheels)
    seen = [str(finding["seen"]) for finding in entry["findings"] if finding["status"] == SKIPPED]
    if entry["status"] == SKIPPED and (named or OUT_OF_TIME in seen):
        return "; ".join(seen)[:300] or "nothing was checked"
    return None


def wheels_hint(names: Sequence[str]) -> list[str]:
    """Return how the wheels of packages come here; this machine may have no network."""
    packages = " ".join(names)
    version, machine = f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine()
    kinds = " ".join(
        f"--platform {kind}_{machine}"
        for kind in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    )
    return [
        f"missing: {', '.join(names)}. Where there is a network, and a directory that comes here:",
        (
            f"  python3 -m pip download --only-binary=:all: --python-version {version} {kinds} -d"
            f" wheels {packages}"
        ),
        f"  python3 -m pip install --no-index --find-links wheels {packages}  # here",
    ]


def run_check(check: Check, limit_s: float, dry_run: bool) -> dict[str, Any]:
    """Run one check in a process of its own; its entry for the file. Kills it after limit_s."""
    if limit_s <= 1:
        return _empty(check, SKIPPED, OUT_OF_TIME)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        result, log = Path(name, "result.json"), Path(name, "log")
        argv = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--check",
            check.name,
            "--result",
            str(result),
        ]
        if dry_run:
            argv.append("--dry-run")
        with log.open("wb") as stream:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
            )
            try:
                status = process.wait(timeout=limit_s)
                problem = None if status == 0 else f"exited with status {status}"
            except subprocess.TimeoutExpired:
                problem = f"killed after {limit_s:.0f} s"
            finally:
                _end(process)
        found = _read(result)
        entry = {**_empty(check), **found}
        entry["output"] = log.read_text(errors="replace")[-LONGEST_OUTPUT:]
    if problem:
        # One that the limit of all checks ended may have been all right.
        status = SKIPPED if limit_s < check.limit_s and problem.startswith("killed") else FAILED
        entry["findings"].append(_finding("the check itself", "ends by itself", problem, status))
        entry["status"] = max(status, found.get("status", SKIPPED), key=SEVERITY.index)
    entry["seconds"] = round(time.monotonic() - started, 1)
    return entry


def run_one(name: str, path: Path | None, dry_run: bool) -> int:
    """Run one check in this process and write its report."""
    # So that processes which the check started end with it.
    signal.signal(signal.SIGTERM, _interrupt)
    run_in_process(next(check for check in CHECKS if check.name == name), Report(dry_run, path))
    return 0


def run_in_process(check: Check, report: Report) -> Report:
    """Fill a report; what the check raises is a finding."""
    try:
        if check.needs_gpu:
            # Raises without one. A context isn't made: it would be memory that a training finds
            # held by others.
            _ = report.device
        check.run(report)
    except MissingError as error:
        report.expect(check.title, "everything that it needs is here", str(error), None)
    except Exception as error:  # noqa: BLE001 - whatever a new device raises is a finding
        report.note(traceback=traceback.format_exc())
        report.expect(
            check.title, "no error", f"{type(error).__name__}: {error}"[:2000], False, FAILED
        )
    report.save()
    return report


def lines(entry: dict[str, Any]) -> list[str]:
    """Return an entry as text: its status, and what was not as expected."""
    shown = [f"{entry['status']:<9} {entry['title']} ({entry['seconds']:.0f} s)"]
    for finding in entry["findings"]:
        if finding["status"] in (DOUBTFUL, FAILED) or entry["status"] == SKIPPED:
            seen = " ".join(str(finding["seen"]).split())
            shown.append(
                f"          {finding['what']}: {seen[:160]}; expected:"
                f" {finding['expectation'][:120]}"
            )
    return shown


def has_gpu() -> bool:
    """Return whether a driver's device file is here, or torch sees a GPU."""
    if any(Path(name).exists() for name in DRIVER_FILES):
        return True
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    try:
        return (
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, timeout=120
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def missing_packages() -> list[str]:
    """Return the packages of the requirement files for measuring that aren't installed."""
    names: dict[str, None] = {}
    for file in ("requirements.txt", "requirements-analysis.txt"):
        with contextlib.suppress(OSError):
            for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
                if found := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line):
                    names[found[0]] = None
    missing = []
    for name in names:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return missing


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a check's process: first asked, so that it ends what it has started, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        # One that waits for a hanging GPU in the kernel may not even be killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)


def _read(path: Path) -> dict[str, Any]:
    """Return what a check wrote; nothing if it came to nothing."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document


def _empty(check: Check, status: str = FAILED, problem: str | None = None) -> dict[str, Any]:
    findings = [] if problem is None else [_finding("the check itself", "runs", problem, status)]
    return {
        "name": check.name,
        "title": check.title,
        "status": status,
        "seconds": 0.0,
        "limit_s": check.limit_s,
        "findings": findings,
        "details": {},
        "raw": [],
    }


def _finding(what: str, expectation: str, seen: str, status: str) -> dict[str, str]:
    return {"what": what, "expectation": expectation, "seen": seen, "status": status}


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    known = [check.name for check in CHECKS]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(
            f"unknown check '{unknown[0]}'; known are {', '.join(known)}"
        )
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="first_gpu_run.sh",
        description=(
            "Run the checks that are worth a GPU's first minutes, offline, and leave one JSON file."
        ),
        epilog=(
            "exit status: 0 all ran and none failed, 1 one failed or has not run in full, 2 no GPU"
            " or wrong usage"
        ),
    )
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="directory for the file (default: $OUT, or output)"
    )
    parser.add_argument(
        "--only", type=_names, metavar="NAMES", help="run only these checks, separated by commas"
    )
    parser.add_argument("--half", type=int, choices=(1, 2), default=1,
                        help="less than ten minutes each on one H100, estimated (default: %(default)s)")  # fmt: skip
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, metavar="SECONDS",
                        help="skip what doesn't fit (default: %(default)g)")  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="let the CPU stand in for the GPU: tries the checks"
    )
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
