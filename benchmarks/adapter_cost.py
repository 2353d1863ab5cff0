#!/usr/bin/env python3
"""What each adapter of the recorder costs a training step: transformers.Trainer's callback and a loop of
one's own (fsdp, deepspeed and encdec are such) beside Lightning's callback.

Each trains a trivial module in its own framework's loop, with the adapter and without it, in turns; the
difference is the adapter's cost. Trainer needs accelerate.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import callback_cost
import torch
import transformers
from callback_cost import BATCH, BLOCK, WARMUP_STEPS, WIDTH, quiet, redirected

import benchmark_utils

LIGHTNING, TRAINER, LOOP = "lightning", "transformers.Trainer", "a loop of one's own"
WANTED = 1.5

Training = Callable[[bool, Path, int], list[float]]
"""Trains so many steps with the adapter or without it; step times, s."""


class Marks:
    """When steps began."""

    def __init__(self) -> None:
        self.began: list[float] = []

    def times(self) -> list[float]:
        """Return means over BLOCK steps, s; see callback_cost.Trivial.step_times."""
        marks = self.began[WARMUP_STEPS::BLOCK]
        return [(later - earlier) / BLOCK for earlier, later in itertools.pairwise(marks)]


class Module(torch.nn.Module):
    """What Trainer trains: it returns its loss by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)
        self.marks = Marks()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the mean square, and the clock."""
        self.marks.began.append(time.perf_counter())
        return {"loss": self.layer(x).square().mean()}


def lightning(with_adapter: bool, folder: Path, steps: int) -> list[float]:
    """Return Lightning's Trainer."""
    callbacks = [benchmark_utils.BenchmarkCallback(output_dir=folder, sequence_length=WIDTH)] if with_adapter else []
    return callback_cost.train(list(callbacks), False, steps, "cpu")


def trainer(with_adapter: bool, folder: Path, steps: int) -> list[float]:
    """Return transformers.Trainer."""
    torch.manual_seed(0)
    module = Module()
    data = [{"x": row} for row in torch.randn((WARMUP_STEPS + steps + 2) * BATCH, WIDTH)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=WARMUP_STEPS + steps + 1,
        per_device_train_batch_size=BATCH,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    callbacks: list[Any] = []
    if with_adapter:
        callbacks.append(benchmark_utils.TrainerBenchmarkCallback(output_dir=folder, sequence_length=WIDTH))
    transformers.Trainer(model=module, args=arguments, train_dataset=data, callbacks=callbacks).train()
    return module.marks.times()


def loop(with_adapter: bool, folder: Path, steps: int) -> list[float]:
    """Return the shortest loop."""
    torch.manual_seed(0)
    module = Module()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    data = torch.randn(WARMUP_STEPS + steps + 2, BATCH, WIDTH)

    def train(step: Callable[[Any], object]) -> None:
        for batch in data:
            loss = module(batch)["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step(loss)

    if with_adapter:
        with benchmark_utils.record(output_dir=folder, sequence_length=WIDTH) as recorder:
            train(lambda loss: recorder.step(loss=loss))
    else:
        train(lambda loss: None)
    return module.marks.times()


KINDS: dict[str, Training] = {LIGHTNING: lightning, TRAINER: trainer, LOOP: loop}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="timed steps of a training (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="trainings of each kind (%(default)s)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    ways = list(itertools.product(KINDS, (False, True)))
    found: dict[tuple[str, bool], list[float]] = {way: [] for way in ways}
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name, (Path(name) / "output.log").open("w") as log, redirected(log.fileno()):
        for number in range(arguments.rounds + 1):
            chance.shuffle(ways)
            for kind, with_adapter in ways:
                measured = KINDS[kind](with_adapter, Path(name), arguments.steps)
                if number:  # the first round warms up
                    found[kind, with_adapter] += measured
    costs = {kind: quiet(found[kind, True]) - quiet(found[kind, False]) for kind in KINDS}
    print(f"µs per step, the quietest tenth of {len(found[LIGHTNING, True])} times {BLOCK} steps")
    print(f"{'':<24} {'without':>8} {'with':>8} {'added':>8} {'/ Lightning':>12}")
    for kind, cost in costs.items():
        row = f"{quiet(found[kind, False]) * 1e6:>8.1f} {quiet(found[kind, True]) * 1e6:>8.1f} {cost * 1e6:>8.1f}"
        print(f"{kind:<24} {row} {cost / costs[LIGHTNING]:>12.2f}")
    print(f"wanted: at most {WANTED} times Lightning's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
