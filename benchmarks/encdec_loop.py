#!/usr/bin/env python3
"""Is the encoder-decoder's loop as fast as the bare one? Ours beside the shortest loop that trains the same model.

Both train the same weights in the same precision with the same optimizer; the bare loop has its
batches ready on the device and neither times, records nor counts anything. They take turns, so that
a change of the machine's speed meets both. Printed are the medians over the rounds, of the best
epoch of each, and ours as a share of the bare one's speed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch

from tprimat.frameworks.encdec import data as encdec_data
from tprimat.frameworks.encdec import loop as encdec_loop
from tprimat.frameworks.encdec import model as encdec_model
from tprimat.frameworks.encdec.settings import OPTIMIZER, Settings
from tprimat.frameworks.loops import building
from tprimat.record.ranks import Process

ENOUGH = 0.98
EPOCHS = 3


def bare(settings: Settings, device: torch.device) -> float:
    """Return samples/s of the best epoch, of a loop that does nothing but train."""
    model = encdec_model.build(settings, device)
    optimizer = building.optimizer(model, OPTIMIZER, fused=True)
    half = settings.precision == "fp16"
    scaler = torch.amp.GradScaler(device.type, enabled=half)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(settings.precision)
    batches = encdec_data.dataset(settings, Process())
    ready = [torch.as_tensor(batches[index][0]).to(device) for index in range(settings.steps_per_epoch)]
    best = 0.0
    for _ in range(settings.all_epochs):
        synchronize(device)
        began = time.perf_counter()
        for tokens in ready:
            with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
                loss = model(tokens[:, : settings.seq_len], tokens[:, settings.seq_len :])
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        best = max(best, settings.samples_per_epoch / (time.perf_counter() - began))
    return best


def ours(settings: Settings) -> float:
    """Return samples/s of our loop, as its result states it."""
    trained = encdec_loop.train(settings, Process(), say=lambda line: None)
    assert trained.run is not None
    return max(epoch["samples_per_second"] or 0.0 for epoch in trained.run.epochs)


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> int:
    """Print both speeds; return 1 where ours is less than ENOUGH of the bare one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="of an epoch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seq-len", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--d-model", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--precision", default=None, help="default: fp16 on a GPU, fp32 on a CPU")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            platform=("amd" if torch.version.hip else "nvd") if on_gpu else "cpu",
            num_gpus=1,
            precision=options.precision or ("fp16" if on_gpu else "fp32"),
            num_samples=options.steps * options.batch_size,
            output_dir=Path(folder),
            d_model=options.d_model,
            batch_size=options.batch_size,
            seq_len=options.seq_len,
            epochs=EPOCHS,
        )
        device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
        speeds: dict[str, list[float]] = {"bare": [], "ours": []}
        for number in range(options.rounds):
            # Whichever comes second finds the machine warmer: they change places.
            turns = [("bare", lambda: bare(settings, device)), ("ours", lambda: ours(settings))]
            for name, turn in turns if number % 2 else reversed(turns):
                speeds[name].append(turn())
        print(f"{settings.scale}, batch {settings.batch_size}, {settings.seq_len} tokens")
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    shares = [first / second for first, second in zip(speeds["ours"], speeds["bare"], strict=True)]
    for name, value in medians.items():
        print(f"{name:6}{value:10.1f} samples/s   ({min(speeds[name]):.1f} to {max(speeds[name]):.1f})")
    share = statistics.median(shares)
    print(f"ours is {share:.1%} of the bare loop, median of {options.rounds} rounds (at least {ENOUGH:.0%} is wanted)")
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
