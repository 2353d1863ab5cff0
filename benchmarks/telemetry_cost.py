#!/usr/bin/env python3
"""What the sampler costs a training on the CPU: windows of one training with the sampler running
and stopped, in turn.

The training uses all CPUs, as the worst case: beside a GPU's training the sampler takes an idle
CPU. It reads ten times as often as it does for a result, and the cost is divided by the readings
per second: other programs change the step time by more than one reading per second does. Two
neighbouring windows are a pair, and the order changes from pair to pair, so that slow changes of
the machine cancel out. Printed are the median over the pairs of the relative difference, and its
distribution-free 95% interval from order statistics. A second figure doesn't depend on other
programs: the CPU time that the sampler used, as a share of the CPUs' time.

    benchmarks/telemetry_cost.py [--pairs 100] [--seconds 2]
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LIMIT = 0.005
"""Share of the step time that one reading per second may cost."""

OFTEN = 10
"""Factor between the readings here and those for a result; the fewer, the more CPU time each takes.
"""

START_S = 15.0
"""Time before the first window: the sampler starts in it, and the step times settle."""

SAMPLER = f"""
import sys
from tprimat.machine.telemetry import sampler
sampler.EVERY_S /= {OFTEN}
sampler.main(sys.argv[1:])
"""


def training() -> Any:
    """Return a function that trains for some seconds and returns the mean step time in s."""
    import torch

    module = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    data = torch.randn(256, 512)

    def train(seconds: float) -> float:
        steps, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            module(data).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        return elapsed / steps

    return train


def measure(pairs: int, seconds: float, trace: Path) -> tuple[list[float], float, float]:
    """Return the difference of each pair, readings per second, and the sampler's CPU time per
    second, while it runs.
    """
    import psutil

    train, differences, used, readings = training(), [], 0.0, 0
    words = [sys.executable, "-c", SAMPLER, "cpu", str(os.getpid())]
    with trace.open("wb") as output, subprocess.Popen(words, cwd=ROOT, stdout=output) as child:
        sampler = psutil.Process(child.pid)
        train(START_S)
        for pair in range(pairs):
            times = {}
            for is_running in (True, False) if pair % 2 else (False, True):
                child.send_signal(signal.SIGCONT if is_running else signal.SIGSTOP)
                before, lines = sum(sampler.cpu_times()[:2]), trace.read_bytes().count(b"\n")
                times[is_running] = train(seconds)
                used += sum(sampler.cpu_times()[:2]) - before
                readings += trace.read_bytes().count(b"\n") - lines
            differences.append(2 * (times[True] - times[False]) / (times[True] + times[False]))
        child.send_signal(signal.SIGCONT)
        child.terminate()
    return differences, readings / (pairs * seconds), used / (pairs * seconds)


def main() -> int:
    """Print the cost; 1 where its interval lies above the limit, or the CPU time does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100, help="eight or more (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        differences, rate, used = measure(
            arguments.pairs, arguments.seconds, Path(folder, "trace.jsonl")
        )
    ordered, number = sorted(differences), len(differences)
    # The ranks between which the median lies with 95% probability, by the binomial distribution's
    # normal approximation.
    rank = max(0, math.floor(number / 2 - 0.98 * math.sqrt(number)))
    median, low, high = (
        each / rate for each in (statistics.median(ordered), ordered[rank], ordered[-1 - rank])
    )
    share = used / rate / (os.cpu_count() or 1)
    print(f"{number} pairs of {arguments.seconds:g} s at {rate:.1f} readings per second; standard deviation of a pair "
          f"{statistics.stdev(differences):.1%}")  # fmt: skip
    print(
        f"cost of one reading per second: {median:+.2%} of the step time (95% interval {low:+.2%}"
        f" to {high:+.2%})"
    )
    print(f"its CPU time: {share:.3%} of the CPUs' (limit of both {LIMIT:.1%})")
    return int(low > LIMIT or share > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
