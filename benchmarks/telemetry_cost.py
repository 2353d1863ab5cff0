#!/usr/bin/env python3
"""What the sampler costs a training on the CPU: pairs of trainings, one with it and one without, in changing order.

Each training is a process of its own that uses all CPUs, as the worst case: beside a GPU's training the sampler takes
an idle CPU. The difference of a pair is relative to its mean step time; printed are the mean of the differences and
its 95% interval. The limit is 0.5%. A second figure is exact: the CPU time that the sampler's process used, as a share
of the CPUs' time.

    benchmarks/telemetry_cost.py [--pairs 10] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LIMIT = 0.005


def train(seconds: float) -> None:
    """Train for a time, and print the mean step time and what the sampler used. Units: s."""
    import psutil
    import torch

    import benchmark_utils

    module = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    data = torch.randn(256, 512)
    with benchmark_utils.record(model="cost", module=module, quiet=True, log_every=1000) as recorder:
        child = recorder._recording._sampler._child  # type: ignore[union-attr]
        began = time.perf_counter()
        used_before, used = 0.0, 0.0
        while (now := time.perf_counter()) - began < seconds:
            module(data).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
            if child is not None and not used_before and now - began > seconds / 4:
                used_before, since = sum(psutil.Process(child.pid).cpu_times()[:2]), now
        if child is not None:
            used = (
                (sum(psutil.Process(child.pid).cpu_times()[:2]) - used_before) / (now - since) / (os.cpu_count() or 1)
            )
    run = recorder.result
    assert run is not None
    # The first quarter has the sampler's start.
    times = [time for time in run.step_times if time is not None]
    print(json.dumps([statistics.fmean(times[len(times) // 4 :]), used]))


def measure(seconds: float, telemetry: str, folder: Path) -> tuple[float, float]:
    """Train in a process of its own; mean step time in s, and the sampler's share of the CPUs."""
    environment = {**os.environ, "TPRIMAT_TELEMETRY": telemetry}
    words = [sys.executable, str(Path(__file__).resolve()), "--train", "--seconds", str(seconds)]
    done = subprocess.run(words, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True)
    step_s, used = json.loads(done.stdout.splitlines()[-1])
    return step_s, used


def main() -> int:
    """Print the table; 1 above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each training (%(default)s)")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.seconds)
        return 0
    differences, shares = [], []
    print("pair   without, ms   with, ms   difference   sampler's share of the CPUs")
    with tempfile.TemporaryDirectory() as name:
        for pair in range(arguments.pairs):
            order = ("off", "on") if pair % 2 else ("on", "off")
            times = {telemetry: measure(arguments.seconds, telemetry, Path(name)) for telemetry in order}
            (without, _), (beside, used) = times["off"], times["on"]
            differences.append(2 * (beside - without) / (beside + without))
            shares.append(used)
            print(
                f"{pair:>4} {without * 1e3:>13.3f} {beside * 1e3:>10.3f} {differences[-1]:>+12.2%} {used:>29.3%}",
                flush=True,
            )
    mean = statistics.fmean(differences)
    print(f"\nmean difference {mean:+.2%}", end="")
    if len(differences) > 1:
        from tprimat.analysis.intervals import between_run_interval

        interval = between_run_interval([1 + each for each in differences])
        if interval is not None:
            print(f", 95% interval {interval.low - 1:+.2%} to {interval.high - 1:+.2%}", end="")
    print(f"; CPU time of the sampler {statistics.fmean(shares):.3%} (limit {LIMIT:.1%})")
    return int(statistics.fmean(shares) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
