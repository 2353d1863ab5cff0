#!/usr/bin/env python3
"""What recording costs a training step: our callback beside two bare clock readings and Lightning's
ThroughputMonitor.

A trivial module is trained in one process, on the CPU unless --accelerator says otherwise, in each
way in turn, again and again, so that a change of the machine's speed meets all of them. With
--adapters, transformers.Trainer (which needs accelerate) and a loop of one's own (fsdp, deepspeed
and encdec are such) are trained with our recording and without it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
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

import benchmark_utils

Ways = dict[str, Callable[[Path, int], list[float]]]
"""What is compared: name -> trains so many timed steps, with a directory for what it writes;
returns step times, s.
"""

WARMUP_STEPS = 50
BLOCK = 10
"""Steps, as many as there are between two lines that BenchmarkCallback prints."""

BATCH, WIDTH = 4, 8
BARE, OURS, LEAST, MONITOR = "bare", "BenchmarkCallback", "two perf_counter", "ThroughputMonitor"
TRAINER, LOOP, RECORDED = "transformers.Trainer", "a loop of one's own", ", recorded"


class Trivial(LightningModule):
    """So little work that recording stands out. It times itself, so that a bare training has no
    callback.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(WIDTH, 1)
        self.began: list[float] = []

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the mean square by the name that transformers.Trainer looks for, and read the
        clock.
        """
        self.began.append(time.perf_counter())
        return {"loss": self.layer(x).square().mean()}

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Return the loss."""
        return self(batch)["loss"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the simplest."""
        return torch.optim.SGD(self.parameters(), lr=1e-3)

    def step_times(self) -> list[float]:
        """Return means over BLOCK steps, so that each holds one line of output, from the beginning
        of one step to that of the next. Units: s.
        """
        marks = self.began[WARMUP_STEPS::BLOCK]
        return [(later - earlier) / BLOCK for earlier, later in itertools.pairwise(marks)]


class TwoReadings(Callback):
    """The least that any timing callback does."""

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Read the clock a first time."""
        self.began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Read the clock a second time."""
        self.took = time.perf_counter() - self.began


def callbacks(accelerator: str) -> Ways:
    """Return Lightning's runs.

    Args:
        accelerator: cpu, or gpu: the host's time of a step there, which a trivial step takes
            anyway.
    """

    def train(
        make: Callable[[Path], list[Callback]], is_logged: bool, folder: Path, steps: int
    ) -> list[float]:
        module = Trivial()
        trainer = Trainer(
            accelerator=accelerator,
            devices=1,
            max_steps=WARMUP_STEPS + steps + 1,
            max_epochs=1,
            callbacks=make(folder),
            logger=CSVLogger(folder) if is_logged else False,
            log_every_n_steps=1,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        data = torch.randn((WARMUP_STEPS + steps + 2) * BATCH, WIDTH)
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=BATCH))
        return module.step_times()

    def ours(folder: Path) -> list[Callback]:
        return [
            benchmark_utils.BenchmarkCallback(output_dir=folder / "results", sequence_length=WIDTH)
        ]

    kinds: dict[str, tuple[Callable[[Path], list[Callback]], bool]] = {
        BARE: (lambda folder: [], False),
        LEAST: (lambda folder: [TwoReadings()], False),
        OURS: (ours, False),
        "CSVLogger alone": (lambda folder: [], True),
        MONITOR: (lambda folder: [ThroughputMonitor(batch_size_fn=len)], True),
    }
    return {name: functools.partial(train, *kind) for name, kind in kinds.items()}


def adapters() -> Ways:
    """Return the runs of the other adapters, each without and with our recording."""
    import transformers

    def trainer(is_recorded: bool, folder: Path, steps: int) -> list[float]:
        module = Trivial()
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
        recording: list[Any] = []
        if is_recorded:
            recording = [
                benchmark_utils.TrainerBenchmarkCallback(output_dir=folder, sequence_length=WIDTH)
            ]
        transformers.Trainer(
            model=module, args=arguments, train_dataset=data, callbacks=recording
        ).train()
        return module.step_times()

    def loop(is_recorded: bool, folder: Path, steps: int) -> list[float]:
        module = Trivial()
        optimizer = module.configure_optimizers()
        recording: Any = contextlib.nullcontext()
        if is_recorded:
            recording = benchmark_utils.record(output_dir=folder, sequence_length=WIDTH)
        with recording as recorder:
            for batch in torch.randn(WARMUP_STEPS + steps + 2, BATCH, WIDTH):
                loss = module(batch)["loss"]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if recorder is not None:
                    recorder.step(loss=loss)
        return module.step_times()

    return {
        name + (RECORDED if is_recorded else ""): functools.partial(train, is_recorded)
        for name, train in ((TRAINER, trainer), (LOOP, loop))
        for is_recorded in (False, True)
    }


def quiet(times: list[float]) -> float:
    """Return the lowest tenth of some times, s: the rest is disturbed by other programs."""
    return sorted(times)[len(times) // 10]


def measure(ways: Ways, folder: Path, rounds: int, steps: int) -> dict[str, list[float]]:
    """Train in each way in turn, round after round; step times in s by name.

    Args:
        ways: what is compared.
        folder: gets what the runs print.
        rounds: runs in each way, after one that warms up.
        steps: timed steps of a training.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    chance = random.Random(0)
    # What the callbacks print goes where a job's output goes: into a file.
    with (folder / "output.log").open("w") as log, redirected(log.fileno()):
        for number in range(rounds + 1):
            # Nobody always comes after the one that leaves most behind.
            chance.shuffle(order)
            for way in order:
                measured = ways[way](folder, steps)
                if number:
                    times[way] += measured
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
    parser.add_argument(
        "--steps", type=int, default=200, help="timed steps of a training (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=40, help="runs in each way (%(default)s)")
    parser.add_argument(
        "--accelerator", choices=("cpu", "gpu"), default="cpu", help="what trains (%(default)s)"
    )
    parser.add_argument(
        "--adapters", action="store_true", help="train in transformers.Trainer and a plain loop too"
    )
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    ways = callbacks(arguments.accelerator) | (adapters() if arguments.adapters else {})
    with tempfile.TemporaryDirectory() as name:
        times = measure(ways, Path(name), arguments.rounds, arguments.steps)
    print(
        f"µs per step: the quietest tenth of {len(times[BARE])} times {BLOCK} steps, and the median"
    )
    print(f"{'':<30} {'quiet':>8} {'added':>8} {'median':>8} {'added':>8}")
    added = {}
    for way, measured in times.items():
        base = times.get(
            way.removesuffix(RECORDED) if way.startswith((TRAINER, LOOP)) else BARE, measured
        )
        added[way] = quiet(measured) - quiet(base)
        columns = [quiet(measured), added[way]]
        columns += [
            statistics.median(measured),
            statistics.median(measured) - statistics.median(base),
        ]
        print(f"{way:<30} " + " ".join(f"{column * 1e6:>8.1f}" for column in columns))
    print(f"\n{OURS} / {LEAST}: {added[OURS] / added[LEAST]:.2f} (wanted: at most 3)")
    print(f"{OURS} / {MONITOR}: {added[OURS] / added[MONITOR]:.2f} (wanted: below 0.33)")
    for way in (TRAINER, LOOP) if arguments.adapters else ():
        print(f"{way} / {OURS}: {added[way + RECORDED] / added[OURS]:.2f} (wanted: at most 1.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
