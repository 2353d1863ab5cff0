"""The framework `torchtitan`: its own trainer, from the clone that TORCHTITAN_PATH names.

It trains Llama 3.1 8B at full size, on the small extract of C4 that lies in its clone, with its own
weights. What it prints is its result: the log is read.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks import builtin_frameworks, external_frameworks, scales
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import building, recipe
from tprimat.frameworks.request import Device, Launch, Request, RequestedConfig

NAME = "torchtitan"
VARIABLE = "TORCHTITAN_PATH"
SCRIPT = "torchtitan/train.py"
PRECISIONS = ("bf16",)
MODELS = ("llama",)

REGISTRY = "torchtitan/models/llama3/config_registry.py"
"""Where releases of 2026 keep their configurations, as Python."""

CONFIGURATION = "torchtitan/models/llama3/train_configs/llama3_8b.toml"
"""And those before."""

OWN_WAYS = (
    "torchtitan trains on text with its own tokenizer (it wants Llama 3.1's in its assets/) and draws its own weights: "
    "its losses can't be set against those of the frameworks that share tokens and weights"
)


def unavailable() -> str | None:
    """Why it can't train here, and what to do."""
    return external_frameworks.unavailable(VARIABLE, NAME, SCRIPT)


def resolve_config(
    name: str, wishes: RequestedConfig, place: Device, output_dir: Path
) -> tuple[Request, tuple[str, ...]]:
    """A request with every choice made. Raises UsageError for wishes that can't be met."""
    external_frameworks.clone(VARIABLE, NAME, SCRIPT)
    if name not in MODELS:
        raise UsageError(f"torchtitan has no {name}: choose --model {MODELS[0]}", heading="unknown-model")
    if wishes.scale not in (None, scales.FULL) or wishes.shape is not None:
        raise UsageError("torchtitan trains Llama 3.1 8B at full size only", heading="unknown-scale")
    place, said = external_frameworks.on_gpus(place, wishes, NAME)
    # It shards the model over the GPUs, so one GPU's memory decides nothing.
    wishes = dataclasses.replace(wishes, scale=scales.FULL, precision=wishes.precision or PRECISIONS[0])
    shared = dataclasses.replace(place, memory_bytes=math.inf)
    request, notes = builtin_frameworks.settle_as(NAME, PRECISIONS)(name, wishes, shared, output_dir)
    return request, (*said, OWN_WAYS, *notes)


def launch(request: Request) -> Launch:
    """Torchrun with torchtitan's module, one process a GPU."""
    folder = external_frameworks.clone(VARIABLE, NAME, SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.num_gpus}"]
    # Every process prints each step; one is enough.
    launcher += ["--local-ranks-filter=0", "--role=rank", "--tee=3"]
    environment = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    return Launch((sys.executable, *launcher, "-m", "torchtitan.train", *options(request, folder)), environment, folder)


def options(request: Request, folder: Path) -> list[str]:
    """Torchtitan's options, in the words of the release that the clone is of."""
    ours = building.hyperparameters(recipe.shape_of(request))
    if (folder / REGISTRY).is_file():
        chosen = ["--module=llama3", "--config=llama3_8b", "--dataloader.dataset=c4_test"]
    else:
        chosen = [f"--job.config_file={CONFIGURATION}", "--training.dataset=c4_test"]
    return [
        *chosen,
        f"--training.steps={request.steps}",
        f"--training.seq_len={request.sequence_length}",
        f"--training.local_batch_size={request.micro_batch_size}",
        f"--training.global_batch_size={request.global_batch_size}",
        f"--training.max_norm={ours.gradient_clipping}",
        f"--optimizer.lr={ours.learning_rate}",
        f"--optimizer.beta1={ours.beta1}",
        f"--optimizer.beta2={ours.beta2}",
        f"--optimizer.eps={ours.epsilon}",
        f"--optimizer.weight_decay={ours.weight_decay}",
        "--lr_scheduler.warmup_steps=0",
        "--lr_scheduler.decay_ratio=0",
        "--activation_checkpoint.mode=none",
        "--metrics.log_freq=1",
    ]


TORCHTITAN = Framework(
    NAME,
    unavailable,
    resolve_config,
    launch,
    models=MODELS,
    automatic_on=(),
    precisions=PRECISIONS,
    plans_anywhere=True,
    data="c4_test",
    logged=True,
)
