#!/usr/bin/env python3
"""Is the encoder-decoder's loop as fast as the bare one? Ours beside the shortest loop that trains
the same model.

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
from tprimat.frameworks.encdec.launch import resolve_config
from tprimat.frameworks.encdec.request import OPTIMIZER, EncDecRequest, RequestedEncDec
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Device
from tprimat.record.ranks import Process

ENOUGH = 0.98
EPOCHS = 3


def bare(request: EncDecRequest, device: torch.device) -> float:
    """Return samples/s of the best epoch, of a loop that does nothing but train."""
    model = encdec_model.build(request, device)
    optimizer = recipe.adamw(model, OPTIMIZER, fused=True)
    half = request.precision == "fp16"
    scaler = torch.amp.GradScaler(device.type, enabled=half)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(request.precision)
    batches = encdec_data.dataset(request, Process())
    ready = [
        torch.as_tensor(batches[index][0]).to(device) for index in range(request.steps_per_epoch)
    ]
    best = 0.0
    for _ in range(request.all_epochs):
        synchronize(device)
        began = time.perf_counter()
        for tokens in ready:
            with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
                loss = model(
                    tokens[:, : request.sequence_length], tokens[:, request.sequence_length :]
                )
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        best = max(best, request.samples_per_epoch / (time.perf_counter() - began))
    return best


def ours(request: EncDecRequest) -> float:
    """Return samples/s of our loop, as its result states it."""
    trained = encdec_loop.train(request, Process(), say=lambda line: None)
    assert trained.result is not None
    return max(epoch["samples_per_second"] or 0.0 for epoch in trained.result.epochs)


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> int:
    """Print both speeds; return 1 where ours is less than ENOUGH of the bare one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="of an epoch (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="turns of each (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seq-len", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--d-model", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--precision", default=None, help="default: fp16 on a GPU, fp32 on a CPU")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        requested = RequestedEncDec(
            precision=options.precision,
            num_samples=options.steps * options.batch_size,
            d_model=options.d_model,
            micro_batch_size=options.batch_size,
            sequence_length=options.seq_len,
            epochs=EPOCHS,
        )
        platform = ("amd" if torch.version.hip else "nvd") if on_gpu else "cpu"
        request, _ = resolve_config(requested, Device(platform, 1, None), Path(folder))
        device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
        speeds: dict[str, list[float]] = {"bare": [], "ours": []}
        for number in range(options.rounds):
            # Whichever comes second finds the machine warmer: they change places.
            turns = [("bare", lambda: bare(request, device)), ("ours", lambda: ours(request))]
            for name, turn in turns if number % 2 else reversed(turns):
                speeds[name].append(turn())
        print(
            f"{request.scale}, batch {request.micro_batch_size}, {request.sequence_length} tokens"
        )
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    shares = [first / second for first, second in zip(speeds["ours"], speeds["bare"], strict=True)]
    for name, value in medians.items():
        print(
            f"{name:6}{value:10.1f} samples/s   ({min(speeds[name]):.1f} to"
            f" {max(speeds[name]):.1f})"
        )
    share = statistics.median(shares)
    print(
        f"ours is {share:.1%} of the bare loop, median of {options.rounds} rounds (at least"
        f" {ENOUGH:.0%} is wanted)"
    )
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
