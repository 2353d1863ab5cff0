#!/usr/bin/env python3
"""Train beside a busy neighbour and without one, in turn, and print what each result says of other
programs.

The neighbour is a process of its own that computes all the time. What it used by its own counter,
over the training's steps, is printed next to what the result states: both as shares of the CPUs'
time. Run it on an otherwise idle machine: real neighbours are named too.

    benchmarks/busy_neighbour.py [--pairs 5] [--seconds 30]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def train(seconds: float, neighbour: int) -> None:
    """Train for a time, and print the neighbour's share of the CPUs and the result's events."""
    import psutil
    import torch

    import benchmark_utils

    torch.set_num_threads(1)
    values = torch.randn(512, 512)
    process = psutil.Process(neighbour) if neighbour else None
    with benchmark_utils.record(model="neighbour", quiet=True, log_every=1000) as recorder:
        began, used = time.perf_counter(), sum(process.cpu_times()[:2]) if process else 0.0
        while time.perf_counter() - began < seconds:
            for _ in range(20):
                values @ values
            recorder.step()
        share = (
            (sum(process.cpu_times()[:2]) - used) / (time.perf_counter() - began)
            if process
            else 0.0
        )
    events = [event.text for event in recorder.result.telemetry.issues]
    others = recorder.result.disturbance.other_programs_cpu_share
    print(json.dumps([share / (os.cpu_count() or 1), others, events]))


@contextlib.contextmanager
def busy() -> Iterator[int]:
    """A neighbour; its number."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def measure(seconds: float, neighbour: int, folder: Path) -> tuple[float, float | None, list[str]]:
    """Train in a process of its own."""
    words = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--train",
        str(neighbour),
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, check=True)
    share, others, events = json.loads(done.stdout.splitlines()[-1])
    return share, others, events


def main() -> int:
    """Print a line per training; 1 where a neighbour is missed, or one is named that isn't
    there.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="(%(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of each training (%(default)s)"
    )
    parser.add_argument("--train", type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train is not None:
        train(arguments.seconds, arguments.train)
        return 0
    wrong = 0
    print("neighbour  its own counter  stated for it  all others  event")
    with tempfile.TemporaryDirectory() as name:
        for _ in range(arguments.pairs):
            for is_busy in (True, False):
                with busy() if is_busy else contextlib.nullcontext(0) as pid:
                    used, others, events = measure(arguments.seconds, pid, Path(name))
                text = next((event for event in events if "other programs" in event), "")
                stated = re.search(rf"\({pid}\) (\d+%)", text) if pid else None
                wrong += bool(text) != is_busy or (is_busy and stated is None)
                cells = f"{used:>15.1%}  {stated[1] if stated else '-':>13}  {others or 0.0:>10.1%}"
                print(f"{'busy' if is_busy else 'none':<9}  {cells}  {text or '-'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
