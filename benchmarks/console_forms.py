"""Made logs of eight console forms, each with the expression that finds its numbers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

SEED = 7
STEPS = 100_000
EVALUATED = 500
"""Steps between two evaluations."""

_FLOAT = r"([-+.\deE]+)"


class Figures(NamedTuple):
    """What a step line may print."""

    step: int
    planned: int
    seconds: float
    loss: float
    norm: float
    rate: float
    at: float

    @property
    def time(self) -> str:
        """Return the time of day, with milliseconds."""
        whole = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1.78e9 + self.at))
        return f"{whole},{int(self.at % 1 * 1e3):03d}"


class Form(NamedTuple):
    """A console form.

    Attributes:
        head: lines before the first step.
        line: what a step prints.
        said: lines of an evaluation or a checkpoint, with the step.
        numbers: finds the numbers of a step's lines.
    """

    head: str
    line: Callable[[Figures], str]
    said: str
    numbers: str


def _nanogpt(at: Figures) -> str:
    return f"iter {at.step - 1}: loss {at.loss:.4f}, time {1e3 * at.seconds:.2f}ms, mfu 42.08%\n"


def _torchtitan(at: Figures) -> str:
    return (
        f"[rank0]:[titan] {at.time} - root - INFO - step: {at.step:2}  loss: {at.loss:7.4f}"
        f"  grad_norm: {at.norm:7.4f}  memory: 30.99GiB(32.62%)  tps: {32768 / at.seconds:,.0f}"
        f"  tflops: {1900 / at.seconds:,.2f}  mfu: {192 / at.seconds:.2f}%\n"
    )


def _maxtext(at: Figures) -> str:
    return (
        f"completed step: {at.step - 1}, seconds: {at.seconds:.3f}, TFLOP/s/device:"
        f" {500 / at.seconds:.3f}, Tokens/s/device: {8192 / at.seconds:.3f}, total_weights: 65536,"
        f" loss: {at.loss:.3f}\n"
    )


def _hf_trainer(at: Figures) -> str:
    return (
        f"{{'loss': {at.loss:.4f}, 'grad_norm': {at.norm!r}, 'learning_rate': {at.rate!r},"
        f" 'epoch': {at.step / 1000:.3f}}}\n"
    )


def _nemo(at: Figures) -> str:
    return (
        f"Training epoch 0, iteration {at.step - 1}/{at.planned - 1} | lr: {at.rate:.4g} |"
        f" global_batch_size: 512 | global_step: {at.step - 1} | reduced_train_loss: {at.loss:.4g}"
        f" | train_step_timing in s: {at.seconds:.4g} | consumed_samples: {512 * at.step}\n"
    )


def _deepspeed(at: Figures) -> str:
    return (
        f"[{at.time}] [INFO] [logging.py:96:log_dist] [Rank 0] step={at.step}, skipped=0,"
        f" lr=[{at.rate!r}, {at.rate!r}], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        f"[{at.time}] [INFO] [timer.py:199:stop] epoch=0/micro_step={at.step}/global_step={at.step},"
        f" RunningAvgSamplesPerSec={91.43 - at.step / 1e6!r}, CurrSamplesPerSec={64 / at.seconds!r},"
        " MemAllocated=3.96GB, MaxMemAllocated=22.95GB\n"
    )


def _litgpt(at: Figures) -> str:
    return (
        f"Epoch 1 | iter {at.step} step {at.step} | loss train: {at.loss:.3f}, val: n/a | iter"
        f" time: {1e3 * at.seconds:.2f} ms (step)\n"
    )


def _megatron(at: Figures) -> str:
    return (
        f" [{at.time[:19]}.{int(at.at % 1 * 1e6):06d}] iteration {at.step:8d}/{at.planned:8d} |"
        f" consumed samples: {128 * at.step:12d} | elapsed time per iteration (ms):"
        f" {1e3 * at.seconds:.1f} | throughput per GPU (TFLOP/s/GPU): {400 / at.seconds:.1f} |"
        f" learning rate: {at.rate:.6E} | global batch size:   128 | lm loss: {at.loss:.6E} | loss"
        f" scale: 1.0 | grad norm: {at.norm:.3f} | number of skipped iterations:   0 | number of"
        " nan iterations:   0 |\n"
    )


FORMS = {
    "nanogpt": Form(
        "tokens per iteration will be: 491,520\nnumber of parameters: 123.59M\n",
        _nanogpt,
        "step {0}: train loss 2.9012, val loss 2.9337\nsaving checkpoint to out\n",
        rf"iter (\d+): loss {_FLOAT}, time {_FLOAT}ms, mfu {_FLOAT}%",
    ),
    "torchtitan": Form(
        "[rank0]:[titan] 2026-06-01 08:00:00,000 - root - INFO - Starting job: Llama 3 8B\n"
        "[rank0]:[titan] 2026-06-01 08:00:09,000 - root - INFO - Trainer is initialized with"
        " local batch size 4, global batch size 32, gradient accumulation steps 1, sequence length"
        " 8192, total steps 100000 (warmup 200).\n",
        _torchtitan,
        "",
        rf"step: +(\d+)  loss: +{_FLOAT}  grad_norm: +{_FLOAT}  memory: {_FLOAT}GiB\({_FLOAT}%\)"
        rf"  tps: ([\d,]+)  tflops: ([\d.,]+)  mfu: {_FLOAT}%",
    ),
    "maxtext": Form(
        "Config param per_device_batch_size: 4.0\nConfig param max_target_length: 2048\n"
        "System Information: Number of devices: 8\n",
        _maxtext,
        "eval metrics after step: {0}, loss=2.871, total_weights=524288.0\n",
        rf"step: (\d+), seconds: {_FLOAT}, TFLOP/s/device: {_FLOAT}, Tokens/s/device: {_FLOAT},"
        rf" total_weights: (\d+), loss: {_FLOAT}",
    ),
    "hf_trainer": Form(
        "***** Running training *****\n  Num Epochs = 100\n  Total optimization steps = 100,000\n",
        _hf_trainer,
        "{{'eval_loss': 2.8, 'eval_runtime': 12.5, 'eval_samples_per_second': 80.0, 'epoch': {1}}}\n",
        rf"'loss': {_FLOAT}, 'grad_norm': {_FLOAT}, 'learning_rate': {_FLOAT}, 'epoch': {_FLOAT}",
    ),
    "nemo": Form(
        "GPU available: True (cuda), used: True\n",
        _nemo,
        "",
        rf"iteration (\d+)/(\d+) \| lr: {_FLOAT} \| global_batch_size: (\d+) \| global_step: (\d+)"
        rf" \| reduced_train_loss: {_FLOAT} \| train_step_timing in s: {_FLOAT} \|"
        r" consumed_samples: (\d+)",
    ),
    "deepspeed": Form(
        "[2026-06-01 08:00:00,000] [INFO] [config.py:988:print]   train_batch_size ............. 64\n",
        _deepspeed,
        "",
        rf"step=(\d+), skipped=(\d+), lr=\[{_FLOAT}, {_FLOAT}\].*\n.*global_step=(\d+),"
        rf" RunningAvgSamplesPerSec={_FLOAT}, CurrSamplesPerSec={_FLOAT},"
        rf" MemAllocated={_FLOAT}GB, MaxMemAllocated={_FLOAT}GB",
    ),
    "litgpt": Form(
        "The longest sequence length in the train data is 512\n",
        _litgpt,
        "Validating ...\niter {0}: val loss 2.8731, val time: 1234.56 ms\n",
        rf"iter (\d+) step (\d+) \| loss train: {_FLOAT}, val: n/a \| iter time: {_FLOAT} ms",
    ),
    "megatron": Form(
        "  num_layers ...................................... 32\n",
        _megatron,
        " validation loss at iteration {0} | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |\n",
        rf"iteration +(\d+)/ +(\d+) \| consumed samples: +(\d+) \| elapsed time per iteration"
        rf" \(ms\): {_FLOAT} \| throughput per GPU \(TFLOP/s/GPU\): {_FLOAT} \| learning rate:"
        rf" {_FLOAT} \| global batch size: +(\d+) \| lm loss: {_FLOAT} \| loss scale: {_FLOAT} \|"
        rf" grad norm: {_FLOAT} \|",
    ),
}


def steps(count: int) -> Iterator[Figures]:
    """Yield what each step prints."""
    chance = random.Random(SEED)
    at = 0.0
    for step in range(1, count + 1):
        seconds = round(chance.gauss(0.7, 0.009), 5)
        at += seconds
        loss = 2 + 9 / (1 + step / 1000) + chance.gauss(0, 0.03)
        yield Figures(step, count, seconds, loss, chance.gauss(1.1, 0.1), 3e-4 * step / count, at)


def make(path: Path, name: str) -> None:
    """Write the log of a form."""
    form = FORMS[name]
    with path.open("w", encoding="utf-8") as log:
        log.write(form.head)
        for each in steps(STEPS):
            log.write(form.line(each))
            if each.step % EVALUATED == 0:
                log.write(form.said.format(each.step, each.step / 1000))
