#!/usr/bin/env python3
"""What a callback costs a training step: ours beside two bare clock readings and Lightning's ThroughputMonitor.

A trivial module is trained in one process, on the CPU unless --accelerator says otherwise, with each
callback in turn, again and again, so that a change of the machine's speed meets all of them. Printed
are medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ThroughputMonitor
from lightning.pytorch.loggers import CSVLogger

from benchmark_utils import BenchmarkCallback

Candidates = dict[str, Callable[[], "tuple[list[Callback], Any]"]]

WARMUP_STEPS = 50
BLOCK = 10
"""Steps, as many as there are between two lines that BenchmarkCallback prints."""

BATCH, WIDTH = 4, 8
OURS, LEAST, MONITOR = "BenchmarkCallback", "two perf_counter", "ThroughputMonitor"


class Trivial(LightningModule):
    """So little work that a callback's cost stands out. It times itself, so that a bare training has no callback."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)
        self.began: list[float] = []

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Return the mean square, and the clock."""
        self.began.append(time.perf_counter())
        return self.layer(batch).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the simplest."""
        return torch.optim.SGD(self.parameters(), lr=1e-3)

    def step_times(self) -> list[float]:
        """Return means over BLOCK steps, so that each holds one line of output, from the beginning of one step to that
        of the next. Units: s.
        """
        marks = self.began[WARMUP_STEPS::BLOCK]
        return [(later - earlier) / BLOCK for earlier, later in itertools.pairwise(marks)]


class TwoReadings(Callback):
    """The least that any timing callback does."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Read the clock a first time."""
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Read the clock a second time."""
        self.took = time.perf_counter() - self.began


def kinds(folder: Path) -> Candidates:
    """Return what is compared: name -> (callbacks, logger) of a fresh training."""

    def ours() -> tuple[list[Callback], Any]:
        return [BenchmarkCallback(output_dir=folder / "results", sequence_length=WIDTH)], False

    def monitor() -> tuple[list[Callback], Any]:
        return [ThroughputMonitor(batch_size_fn=len)], CSVLogger(folder)

    return {
        "bare": lambda: ([], False),
        LEAST: lambda: ([TwoReadings()], False),
        OURS: ours,
        "CSVLogger alone": lambda: ([], CSVLogger(folder)),
        MONITOR: monitor,
    }


def train(callbacks: list[Callback], logger: Any, steps: int, accelerator: str) -> list[float]:
    """Train once; see Trivial.step_times."""
    torch.manual_seed(0)
    module = Trivial()
    trainer = Trainer(
        accelerator=accelerator,
        devices=1,
        max_steps=WARMUP_STEPS + steps + 1,
        max_epochs=1,
        callbacks=callbacks,
        logger=logger,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = torch.randn((WARMUP_STEPS + steps + 2) * BATCH, WIDTH)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=BATCH))
    return module.step_times()


def quiet(times: list[float]) -> float:
    """Return the lowest tenth of some times, s: the rest is disturbed by other programs."""
    return sorted(times)[len(times) // 10]


def measure(candidates: Candidates, folder: Path, rounds: int, steps: int, accelerator: str) -> dict[str, list[float]]:
    """Train with each in turn, round after round; step times in s by name.

    Args:
        candidates: what is compared.
        folder: gets what the callbacks print.
        rounds: trainings with each, after one that warms up.
        steps: timed steps of a training.
        accelerator: cpu, or gpu: the host's time of a step there, which a trivial step takes anyway.
    """
    times: dict[str, list[float]] = {kind: [] for kind in candidates}
    order = list(candidates)
    chance = random.Random(0)
    # What the callbacks print goes where a job's output goes: into a file.
    with (folder / "output.log").open("w") as log, redirected(log.fileno()):
        for number in range(rounds + 1):
            # Nobody always comes after the one that leaves most behind.
            chance.shuffle(order)
            for kind in order:
                callbacks, logger = candidates[kind]()
                measured = train(callbacks, logger, steps, accelerator)
                if number:  # the first round warms up
                    times[kind] += measured
    return times


@contextlib.contextmanager
def redirected(handle: int) -> Iterator[None]:
    """Redirect standard output and errors, those of native code too, into an open file."""
    kept = os.dup(1), os.dup(2)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="timed steps of a training (%(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="trainings with each callback (%(default)s)")
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu", help="what trains (%(default)s)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        times = measure(kinds(Path(name)), Path(name), arguments.rounds, arguments.steps, arguments.accelerator)
    bare = quiet(times["bare"])
    print(f"µs per step: the quietest tenth of {len(times['bare'])} times {BLOCK} steps, and the median")
    print(f"{'':<20} {'quiet':>8} {'added':>8} {'median':>8} {'added':>8}")
    for kind, measured in times.items():
        columns = [quiet(measured), quiet(measured) - bare]
        columns += [statistics.median(measured), statistics.median(measured) - statistics.median(times["bare"])]
        print(f"{kind:<20} " + " ".join(f"{column * 1e6:>8.1f}" for column in columns))
    ours, least, monitor = (quiet(times[kind]) - bare for kind in (OURS, LEAST, MONITOR))
    print()
    print(f"{OURS} / {LEAST}: {ours / least:.2f} (wanted: at most 3)")
    print(f"{OURS} / {MONITOR}: {ours / monitor:.2f} (wanted: below 0.33)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
