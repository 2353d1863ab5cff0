"""Writes Megatron iteration lines, in every shape, with every prefix: what the readers' tests
read.
"""

from __future__ import annotations

import dataclasses
import datetime
import random

START = datetime.datetime(2026, 5, 11, 2, 18, 0)


@dataclasses.dataclass(frozen=True)
class Step:
    """What one line says; ms and rates with one decimal, as they are printed."""

    iteration: int
    ms: float
    loss: float | None = 2.5
    learning_rate: float = 1e-5
    grad_norm: float | None = 1.25
    batch: int = 16
    skipped: int = 0
    nans: int = 0


@dataclasses.dataclass(frozen=True)
class Setup:
    shape: str = "core"
    planned: int = 10
    sequence: int = 4096
    world: int = 8
    skip: int = 2  # log_avg_skip_iterations


SHAPES = ("upstream", "fork", "M1", "legacy", "legacy_gib", "core", "M4", "M5")
NEWER = ("core", "M4", "M5")
"""Shapes whose second line is a mean with the first iteration in it."""


def tokens_rate(step: Step, setup: Setup) -> float:
    return round(step.batch * setup.sequence / (step.ms / 1e3) / setup.world, 1)


def line(
    step: Step, setup: Setup, stamp: str | None = None, printed_ms: float | None = None
) -> str:
    """One iteration line without any prefix.

    Args:
        printed_ms: the time as it is printed, where that differs from the step's own.
    """
    ms = step.ms if printed_ms is None else printed_ms
    shape = setup.shape
    bare = shape in NEWER and step.iteration <= setup.skip
    pair = "" if shape in ("upstream", "fork") or bare else f"/{ms + 11:.1f}"
    rate, flops = tokens_rate(step, setup), 400.0
    parts = [f"iteration {step.iteration:8d}/{setup.planned:8d}"]
    parts.append(f"consumed samples: {step.iteration * step.batch:12d}")
    parts.append(f"elapsed time per iteration (ms): {ms:.1f}{pair}")
    if shape in ("fork", "M1"):
        parts.append("mem usages: 0.6146")
    unit = "GiB" if shape == "legacy_gib" else "GB"
    memory = f"28.56{unit}/163.42{unit}/191.98{unit}/14.88%"
    if shape.startswith("legacy"):
        parts.append(f"hip mem usage/free/total/usage_ratio: {memory}")
        if step.iteration <= 2:
            parts.append(f"rocm mem usage/free/total/usage_ratio: {memory}")
    if shape == "M4" and not bare:
        parts.append(f"compute per GPU (TFLOP/s/GPU): {flops:.1f} (avg {flops - 3:.1f}) ")
        parts.append(f"tokens/s/GPU inst/harmonic mean: {rate:.1f}/{rate - 7:.1f}")
    else:
        parts.append(
            f"throughput per GPU (TFLOP/s/GPU): {flops:.1f}{f'/{flops - 3:.1f}' if pair else ''}"
        )
        if pair:
            label = (
                "tokens/s/GPU inst/harmonic mean"
                if shape == "M5"
                else "tokens per GPU (tokens/s/GPU)"
            )
            parts.append(f"{label}: {rate:.1f}/{rate - 7:.1f}")
    parts.append(f"learning rate: {step.learning_rate:.6E}")
    parts.append(f"global batch size: {step.batch:5d}")
    if step.loss is not None:
        parts.append(f"lm loss: {step.loss:.6E}")
    parts.append("loss scale: 1.0")
    if step.grad_norm is not None:
        parts.append(f"grad norm: {step.grad_norm:.3f}")
    parts.append(f"number of skipped iterations: {step.skipped:3d}")
    parts.append(f"number of nan iterations: {step.nans:3d}")
    text = " | ".join(parts)
    if shape == "core":
        text += (
            f" | hip mem usage/free/total/usage_ratio: {memory}  | rank-4 rocm max mem"
            " usage/usage_ratio: 30.0GB/15.6%"
        )
    else:
        text += " |"
    return f"[{stamp}] {text}" if stamp else text


def lines(
    steps: list[Step], setup: Setup, *, stamps: bool = True, start: datetime.datetime = START
) -> list[str]:
    """The lines of a process; in newer shapes the second one is the mean that these print."""
    now = start
    written = []
    for index, step in enumerate(steps):
        now += datetime.timedelta(milliseconds=step.ms)
        printed = None
        # A process that goes on from a checkpoint has the same timer.
        if setup.shape in NEWER and index == 1 and (step.iteration == 2 or stamps):
            printed = round((steps[0].ms + step.ms) / 2, 1)
        written.append(line(step, setup, now.isoformat(" ") if stamps else None, printed))
    return written


@dataclasses.dataclass(frozen=True)
class Process:
    """One start of a training: the steps from its first one on, and how it ends."""

    steps: list[Step]
    crash: str | None = None


@dataclasses.dataclass(frozen=True)
class Story:
    """A log of one training.

    Attributes:
        setup: the same for all processes.
        processes: each goes on from one of the steps of the one before it, or runs them again.
        ranks: that print each line.
        prefix: before each line; names the rank where it can.
        dumps: whether each process dumps its arguments.
        noise: other lines, one of which may stand anywhere.
    """

    setup: Setup
    processes: list[Process]
    ranks: tuple[int, ...] = (7,)
    prefix: str = "none"
    dumps: bool = True
    noise: tuple[str, ...] = ()

    def kept(self) -> list[Step]:
        """The steps that count: the last attempt at each."""
        kept: dict[int, Step] = {}
        for process in self.processes:
            first = process.steps[0].iteration
            kept = {step: each for step, each in kept.items() if step < first}
            kept |= {step.iteration: step for step in process.steps}
        return list(kept.values())

    def written(self, rng: random.Random, day: int = 0) -> list[str]:
        """The lines of the log.

        Args:
            rng: for the order of ranks and the places of noise.
            day: on which it starts.
        """
        found = []
        start = START + datetime.timedelta(days=day)
        for process in self.processes:
            if self.dumps:
                found += [prefixed(each, self.prefix, 0) for each in dump(self.setup)]
            for text in lines(process.steps, self.setup, start=start):
                for rank in rng.sample(self.ranks, len(self.ranks)):
                    found.append(prefixed(text, self.prefix, rank, self.setup.world))
                    found += [
                        prefixed(each, self.prefix, rank)
                        for each in self.noise
                        if rng.random() < 0.3
                    ]
            if process.crash:
                found.append(prefixed(process.crash, self.prefix, 3))
            start += datetime.timedelta(
                milliseconds=sum(step.ms for step in process.steps), minutes=20
            )
        return found


DUMP = """\
using world size: {world}, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2, \
pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  bf16 ............................................ True
  data_parallel_size .............................. 4
  expert_model_parallel_size ...................... 1
  ffn_hidden_size ................................. 11008
  fp16 ............................................ False
  fp8 ............................................. None
  global_batch_size ............................... 16
  hidden_size ..................................... 4096
  kv_channels ..................................... 128
  log_interval .................................... 1
  lr .............................................. 1e-05
  micro_batch_size ................................ 2
  mock_data ....................................... True
  model ........................................... llama2_7B.yaml
  num_attention_heads ............................. 32
  num_layers ...................................... 4
  optimizer ....................................... adam
  params_dtype .................................... torch.bfloat16
  pipeline_model_parallel_size .................... 1
  recompute_granularity ........................... None
  seed ............................................ 1234
  seq_length ...................................... {sequence}
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  train_iters ..................................... {planned}
  world_size ...................................... {world}
-------------------- end of arguments ---------------------"""


def dump(setup: Setup) -> list[str]:
    return DUMP.format(world=setup.world, sequence=setup.sequence, planned=setup.planned).split(
        "\n"
    )


PREFIXES = (
    "none",
    "primus",
    "coloured",
    "no_escape",
    "slurm",
    "torchrun",
    "docker",
    "kubectl",
    "several",
)


def prefixed(text: str, prefix: str, rank: int = 7, world: int = 8) -> str:
    """A line as a launcher or logger passes it on."""
    if prefix == "primus":
        return (
            f"[20260511 02:18:01][rank-{rank}/{world}][DEBUG]    [---------------utils.py:425] :"
            f" {text}"
        )
    if prefix in ("coloured", "no_escape"):
        esc = "\x1b" if prefix == "coloured" else ""
        return (
            f"[{esc}[32m20260511"
            f" 02:18:01{esc}[0m][{esc}[36mrank-{rank}/{world}{esc}[0m]{esc}[34m{esc}[1m[DEBUG]   "
            f" {esc}[0m{esc}[34m{esc}[1m[---------------utils.py:425] : {text}{esc}[0m"
        )
    return {
        "none": "",
        "slurm": f"{rank}: ",
        "torchrun": f"[rank{rank}]: ",
        "docker": "2026-05-11T02:18:01.123456789Z ",
        "kubectl": "[pod/train-0/pytorch] ",
        "several": (
            f"2026-05-11T02:18:01.123456789Z stdout F [pod/train-0/pytorch] {rank}:"
            f" [default{rank}]:"
        ),
    }[prefix] + text


def doubled(written: list[str], rng: random.Random) -> list[str]:
    """Each line twice, the second copy up to three lines late."""
    order = [(index, 0.0, text) for index, text in enumerate(written)]
    order += [(index, rng.uniform(0.1, 3.0), text) for index, text in enumerate(written)]
    return [text for index, late, text in sorted(order, key=lambda entry: entry[0] + entry[1])]
