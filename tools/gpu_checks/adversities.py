"""Runs through ./benchmark.py that go wrong: their messages, and the files that they leave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_checks.product import BENCHMARK, COMMON, benchmark, free_bytes
from gpu_checks.report import FAILED, ROOT, Output, Report

LEFT_BYTES = 12e9
"""Free beside the process that holds memory: too little for the scale COMMON."""

HOLDS = "other processes hold memory"
"""What the product says then."""

HOLDER = """
import sys, time, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
size = max(1 << 20, int(torch.cuda.mem_get_info(0)[0] - float(sys.argv[1]))) if device == "cuda" else 1 << 20
held = torch.ones(size, dtype=torch.uint8, device=device)
print(size / 1e9, flush=True)
time.sleep(600)
"""

START_S = 75.0
"""How long a training may take to its first step."""

ENOUGH_LINES = 10
"""Of the journal, so that there are steps among them."""

RETURNED_BYTES = 1e9
"""Memory that a killed training may leave in use."""


def held(report: Report) -> None:
    """Train while another process holds most of the memory, from before the start to the end."""
    with tempfile.TemporaryDirectory() as folder, holding(report) as held_gb:
        output, results = train(report, Path(folder))
    on_gpu = report.device.stack != "cpu"
    succeeded(report, output)
    said = HOLDS in output.errors or any(
        HOLDS in text for each in results for text in each["warnings"]
    )
    report.expect("held memory", "a note or a warning names it", f"{held_gb} GB held; {output.errors[:500]}",
                  said if on_gpu else None)  # fmt: skip
    for result in results:
        scale = result["scale"]
        report.expect(
            "scale beside it",
            f"smaller than {COMMON}",
            scale,
            scale != COMMON if on_gpu else None,
            FAILED,
        )


def killed(report: Report) -> None:
    """Kill a training with all its processes, and see what the next command and the driver make of
    it.
    """
    on_gpu = report.device.stack != "cpu"
    before = free_bytes(report) if on_gpu else 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        argv = [sys.executable, str(BENCHMARK), *_arguments(report, folder), "--steps", "100000"]
        with (folder / "killed.log").open("w") as log:
            process = subprocess.Popen(
                argv, stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )
            try:
                deadline = time.monotonic() + START_S
                while (
                    _journaled(folder) < ENOUGH_LINES
                    and time.monotonic() < deadline
                    and process.poll() is None
                ):
                    time.sleep(0.2)
            finally:
                _kill(process)
        report.keep("the killed command", (folder / "killed.log").read_text(errors="replace"))
        steps = _journaled(folder)
        report.expect(
            "journal",
            "steps of the killed training",
            f"{steps} lines",
            steps >= ENOUGH_LINES,
            FAILED,
        )
        if on_gpu:
            time.sleep(3)
            left = before - free_bytes(report)
            report.expect("memory after the kill", "given back", f"{left / 1e9:.2f} GB less are free",
                          left <= RETURNED_BYTES)  # fmt: skip
        output, results = train(report, folder)
    succeeded(report, output)
    statuses = sorted(
        str(run.get("status")) for each in results for run in (each, *each.get("runs", ()))
    )
    report.expect("the next command", "saves what the killed training had", output.errors[:500],
                  re.search(r"recovered \d", output.errors + output.text) is not None, FAILED)  # fmt: skip
    report.expect(
        "results",
        "one complete, one incomplete",
        statuses,
        {"complete", "incomplete"} <= set(statuses),
    )


def out_of_memory(report: Report) -> None:
    """Train what no GPU holds; the error says what to try."""
    if report.device.stack == "cpu":
        report.expect(
            "out of memory", "an error with advice", "a processor has none of its own", None
        )
        return
    sizes = (
        "--scale",
        "quarter",
        "--micro-batch-size",
        "64",
        "--global-batch-size",
        "64",
        "--eager",
    )
    with tempfile.TemporaryDirectory() as folder:
        output, _ = train(report, Path(folder), *sizes)
    report.expect("exit status", "5", output.status, output.status == 5, FAILED)
    error = next(
        (line for line in output.errors.splitlines() if line.startswith("error: ")), "none"
    )
    good = "out of memory" in error and re.search(r"try --|--scale", error) is not None
    report.expect("error", "says that memory ran out, and what to try", error[:500], good, FAILED)


def no_compiler(report: Report) -> None:
    """Train where Triton finds no compiler that works and no kernels of earlier runs."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        caches = {
            name: f"{cache}/{name}" for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
        }
        output, results = train(
            report, Path(folder), env={**os.environ, **caches, "CC": "/bin/false"}
        )
    succeeded(report, output)
    on_gpu = report.device.stack != "cpu"
    for result in results:
        compiled, warnings = result["framework_config"].get("torch_compile"), result["warnings"]
        is_told = compiled is False and any(
            "eager, since torch.compile failed" in text for text in warnings
        )
        report.expect("the result", "is eager, and its warnings say why", f"compiled: {compiled}; {warnings}",
                      is_told if on_gpu else None, FAILED)  # fmt: skip


def profile(report: Report) -> None:
    """Train with --profile torch, whose trace our own reader turns into the parts of a step."""
    with tempfile.TemporaryDirectory() as folder:
        output, results = train(report, Path(folder), "--profile", "torch", timeout_s=140)
    succeeded(report, output)
    on_gpu = report.device.stack != "cpu"
    for result in results:
        path, parts = result["profile"].get("torch"), result["breakdown"]
        report.expect(
            "trace", "was written", path, bool(path) and bool(result["profiled_steps"]), FAILED
        )
        report.expect(
            "parts of a step",
            "the trace is read back",
            parts,
            bool(parts) if on_gpu else None,
            FAILED,
        )
        problems = [text for text in result["warnings"] if "--profile" in text]
        report.expect("warnings of the profile", "none", problems, not problems if on_gpu else None)


def train(
    report: Report,
    folder: Path,
    *arguments: str,
    timeout_s: float = 90.0,
    env: dict[str, str] | None = None,
) -> tuple[Output, list[Any]]:
    """Train some steps; what is printed, and the results."""
    words = _arguments(report, folder)
    output = benchmark(report, *words, *arguments, timeout_s=timeout_s, env=env)
    for path in sorted(folder.rglob("*.log")):
        report.keep(path.name, path.read_text(errors="replace")[-20_000:])
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    report.note(results=results)
    return output, results


def succeeded(report: Report, output: Output) -> None:
    """Expect that a training came to its end."""
    report.expect(
        "training",
        "succeeds",
        f"exit status {output.status}: {output.errors[-500:]}",
        output.status == 0,
        FAILED,
    )


@contextlib.contextmanager
def holding(report: Report) -> Iterator[float | None]:
    """Hold all but LEFT_BYTES of the GPU in another process; yield how many GB."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(LEFT_BYTES)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        report.note(held_gb=line.strip())
        yield float(line) if line.strip() else None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _arguments(report: Report, folder: Path) -> tuple[str, ...]:
    sizes = (
        ("--scale", "tiny", "--steps", "3") if report.dry_run else ("--steps", "20", "--gpus", "1")
    )
    usual = (
        "--framework",
        "lightning",
        "--model",
        "llama",
        "--cooldown",
        "0",
        "--time-limit",
        "60s",
    )
    return (*usual, *sizes, "--output-dir", str(folder))


def _journaled(folder: Path) -> int:
    """Return the lines of the journal of a training that is under way; the first few are none of
    its steps.
    """
    lines = [path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl*") if path.is_file()]
    return max(lines, default=0)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its training, which leads a group of its own, and is asked for nothing."""
    children = _children(process.pid)
    for pid in (process.pid, *children):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _children(pid: int) -> list[int]:
    """Return all processes that a process has started, and those that they have."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *_children(child)]
    return found
