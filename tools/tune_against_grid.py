#!/usr/bin/env python3
"""Compares --tune with a full grid: does it find the fastest setting, and in what share of the time?

    tune_against_grid.py --folder DIR

Tunes a tiny Llama on this CPU over twelve settings (micro-batch 1, 2, 4; recomputation; attention), then measures all
twelve in full, interleaved runs, as many of each as the search confirms with. Prints both times, the fastest setting of
the grid, the chosen one, and the 95% confidence interval of their ratio in the grid. Ends with status 1 where the
chosen one is slower beyond the interval, or the search took more than half of the grid's time.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tprimat import console, frameworks
from tprimat.compare import compare, speedup
from tprimat.frameworks import tuning
from tprimat.frameworks.request import RequestedConfig
from tprimat.machine import platforms
from tprimat.measure import tuned_config
from tprimat.measure.plan import Plan, device_of
from tprimat.measure.session import Session
from tprimat.measure.tune import Tuner
from tprimat.store import store


def main() -> int:
    """Tune, measure the grid, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where results go; it must not exist")
    parser.add_argument("--steps", type=int, default=150, help="of a full run (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each setting (%(default)s)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    folder = arguments.folder.absolute()
    machine = platforms.detect()
    framework = frameworks.by_name("lightning")
    requested = RequestedConfig(steps=arguments.steps, global_batch_size=4)
    space = tuning.space_of(framework, "llama", requested, (), device_of(machine), folder)
    requests = tuple(each.request for each in space.candidates)
    plan = Plan((framework,), requests, folder, runs=arguments.runs, training_lines=False)
    print(f"{len(requests)} settings, load average {os.getloadavg()[0]:.1f} before")

    began = time.monotonic()
    path = Tuner(plan, space, machine, 24 * 3600.0).run()
    tune_s = time.monotonic() - began
    if path is None:
        return 1
    config = tuned_config.read(path)
    print(f"search: {tune_s:.0f} s, chosen {config.chosen}, load average {os.getloadavg()[0]:.1f} after")

    began = time.monotonic()
    grid = folder / "grid"
    plan = dataclasses.replace(plan, requests=tuple(dataclasses.replace(each, output_dir=grid) for each in requests))
    session = Session(dataclasses.replace(plan, output_dir=grid), machine)
    session.run()
    grid_s = time.monotonic() - began
    print(f"grid: {grid_s:.0f} s, load average {os.getloadavg()[0]:.1f} after")

    comparison = compare(store.find([grid])[0])
    systems = {system.run.label: system for model in comparison.models for system in model.systems}
    means = {label: statistics.geometric_mean(system.speeds) for label, system in systems.items() if system.speeds}
    for label in sorted(means, key=lambda label: -means[label]):
        print(f"{means[label]:10.1f} tokens/s  {label}")
    best = max(means, key=lambda label: means[label])
    share = tune_s / grid_s
    print(f"search / grid: {share:.1%}; fastest in the grid: {best}; chosen: {config.chosen}")
    is_best = best == config.chosen
    if not is_best:
        ratio = speedup.ratio(systems[config.chosen], systems[best])
        assert ratio is not None
        print(f"fastest / chosen: {ratio.value:.4f} [95% CI {ratio.low}, {ratio.high}]")
        is_best = ratio.low is not None and ratio.low <= 1
    return 0 if is_best and share <= 0.5 else 1


if __name__ == "__main__":
    with console.capture_output(console.Verbosity.NORMAL, lambda: None):
        sys.exit(main())
