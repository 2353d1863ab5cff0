#!/usr/bin/env python3
"""Short trainings and measurements for tools/torture.py to kill, each as a user would write or
start it.

    victims.py KIND FOLDER [OPTIONS]

FOLDER is the one of the results. The frameworks that have an AMD GPU are stand-ins, on a made-up
machine.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

STEPS = 30
STEP_S = 0.03


def record(folder: Path) -> None:
    """Train with a loop of one's own."""
    import torch

    import benchmark_utils

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    settings = {
        "global_batch_size": 4,
        "sequence_length": 8,
        "max_steps": STEPS,
        "output_dir": folder,
    }
    with benchmark_utils.record(
        model="mine", module=model, optimizer=optimizer, **settings
    ) as recorder:
        for _ in range(STEPS):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(STEP_S)
            recorder.step(loss=loss)


def callback(folder: Path) -> None:
    """Train in Lightning, with BenchmarkCallback."""
    import lightning.pytorch as pl
    import torch

    from benchmark_utils import BenchmarkCallback

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            time.sleep(STEP_S)
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    ours = BenchmarkCallback(folder, global_batch_size=2, sequence_length=8, model_name="llama")
    settings = {
        "max_steps": STEPS,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
    }
    trainer = pl.Trainer(accelerator="cpu", callbacks=[ours], **settings)
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(2 * STEPS, 8), batch_size=2))


def trainer(folder: Path) -> None:
    """Train with transformers.Trainer, which needs accelerate, and TrainerBenchmarkCallback."""
    import torch
    import transformers

    from benchmark_utils import TrainerBenchmarkCallback

    shape = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=64, num_key_value_heads=2, **shape)
    )
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (4 * STEPS, 16))]
    settings = {
        "use_cpu": True,
        "max_steps": STEPS,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    arguments = transformers.TrainingArguments(str(folder.parent / "checkpoints"), **settings)
    ours = TrainerBenchmarkCallback(folder, sequence_length=16)
    transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[ours]).train()


def primus(folder: Path, *options: str, tree: Path | None = None) -> int:
    """Train with the stand-in for Primus of the tests, on a made-up MI300X; makes it without
    `tree`.
    """
    # What is imported here is imported by the command itself elsewhere, which answers Ctrl-C then.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import primus_tree

    from tprimat.cli import run
    from tprimat.machine import platforms
    from tprimat.results.run import Environment, GpuInfo

    gpu = GpuInfo(
        device_name="AMD Instinct MI300X",
        device_count=8,
        total_memory_gb=206.1,
        software_stack="rocm",
    )
    platforms.detect = lambda *_: platforms.Machine(
        "amd", gpu, Environment(versions={"torch": "2.10.0"})
    )
    place = folder.parent / "Primus"
    place.mkdir(exist_ok=True)
    tree = tree or place / "tree"
    if not tree.exists():
        primus_tree.make(tree)
    os.environ.update(primus_tree.environment(place, tree, STANDIN_STEP_S=str(STEP_S)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run(
        "run-primus",
        ["--model=llama", f"--train-iters={STEPS}", "--output-dir", str(folder), *options],
    )


KINDS: dict[str, Callable[..., int | None]] = {
    "record": record, "callback": callback, "trainer": trainer, "primus": primus,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(KINDS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
