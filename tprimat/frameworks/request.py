"""The request for a training, and the command that runs it. Knows no framework."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec

from tprimat.location import python_path
from tprimat.results.fields import FieldValues
from tprimat.results.run import ModelConfig, Platform, Run, TrainingConfig
from tprimat.settings.rows import SETTINGS

PRECISIONS = ("fp32", "bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4")
"""Precisions of a training; each framework has some of them."""

MOCK, TOKENS = "mock", "tokens"
DATA = (MOCK, TOKENS)
"""Data that NeMo can train on: its own random tokens, or our token source in Megatron's indexed
form.
"""

BUILT_IN_CHOICES = {row.request: row.choices for row in SETTINGS if row.choices}
"""Settings that only the built-in frameworks have, with their choices; the first is the default."""

USER, LAUNCHER, TUNE, DEFAULT = "user", "launcher", "--tune", "default"
"""Where the value of a setting is from. If --match took it from a result, that is the name of the
result's file.
"""

TORCH, NSYS, ROCPROF = "torch", "nsys", "rocprof"
TRACED = 3
WINDOW = 1 + TRACED
"""TRACED steps are profiled after the measured ones. WINDOW includes a step before them, in which
the profiler starts.
"""

PROFILERS = {
    TORCH: "PyTorch's own: a Chrome trace with memory",
    NSYS: "Nsight Systems, for NVIDIA",
    ROCPROF: "rocprofv3, for AMD",
}
"""Profilers of the last steps of a training, with descriptions."""

AnyRequest = TypeVar("AnyRequest", bound="Request")


@dataclasses.dataclass(frozen=True)
class Request:
    """One fully specified training. It is passed to the training program on the command line.

    Attributes:
        framework, model: names in FRAMEWORKS and in models.py.
        scale: a name in scales.py, or its OTHER for a model that only `shape` describes.
        precision, data, profile: one of PRECISIONS, DATA and PROFILERS; data is None if the
            framework has only one kind, profile if nothing is profiled.
        steps: optimizer steps that are measured.
        global_batch_size, micro_batch_size: in sequences.
        sequence_length: in tokens.
        seed: that of the weights and the data.
        num_gpus: processes that train: one for each GPU, or on the CPU.
        output_dir: directory for the result, absolute.
        time_limit_s: seconds for the steps, after which the training ends early; None for no limit.
        label: the user's name for this configuration, or None.
        shape: shape of the model if no scale gives it, else None.
        num_nodes: machines that train together.
        node_index: number of this one, from 0.
        result_node: number of the one that writes the result.
        rendezvous: HOST:PORT where the processes of several machines meet; None for one machine.
        cuda_graphs: whether the framework records a step's kernels and plays them back.
        vendor_settings: whether the settings that the framework's vendor publishes for speed are
            applied.
        settings: fields of the framework's own recipe, each as path=value.
        compiled: whether torch.compile makes the kernels; False for eager PyTorch.
        finds_micro_batch: whether the training uses the largest micro-batch that fits instead of
            micro_batch_size.
        recipe: name of the framework's own recipe if it has several for a model, else None.
        recomputation: how much of a layer's forward pass is computed again in the backward pass,
            instead of kept in memory.
        attention: that of the built-in frameworks' models, by transformers' names: torch's fused
            kernels (sdpa), or plain matrix multiplications (eager).
        max_connections: CUDA_DEVICE_MAX_CONNECTIONS, the number of hardware queues to a GPU; it
            matters if communication overlaps computation.
        origins: where settings are from, by field; the others are the framework's defaults. None if
            unknown. Not compared, and not passed to the training program.
    """

    BATCH_OPTION: ClassVar[str] = "--micro-batch-size"
    LENGTH_OPTION: ClassVar[str] = "--sequence-length"

    framework: str
    platform: Platform
    model: str
    scale: str
    precision: str
    steps: int
    global_batch_size: int
    micro_batch_size: int
    sequence_length: int
    seed: int
    num_gpus: int
    output_dir: Path
    time_limit_s: float | None = None
    label: str | None = None
    shape: ModelConfig | None = None
    num_nodes: int = 1
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    data: str | None = None
    cuda_graphs: bool = False
    vendor_settings: bool = False
    settings: tuple[str, ...] = ()
    profile: str | None = None
    compiled: bool = False
    finds_micro_batch: bool = False
    recipe: str | None = None
    max_connections: int = 1
    node_index: int = 0
    result_node: int = 0
    rendezvous: str | None = None
    recomputation: str = BUILT_IN_CHOICES["recomputation"][0]
    attention: str = BUILT_IN_CHOICES["attention"][0]
    origins: Mapping[str, str] | None = dataclasses.field(default=None, compare=False)

    @property
    def tuned(self) -> bool:
        """Whether the training is adapted to its GPU before the first step."""
        return self.compiled or self.finds_micro_batch

    @property
    def gpus_per_node(self) -> int:
        """Processes that train on each machine."""
        return self.num_gpus // self.num_nodes

    @property
    def data_parallel_size(self) -> int:
        """Replicas of the model."""
        model_parallel_size = (
            self.tensor_model_parallel_size
            * self.pipeline_model_parallel_size
            * self.context_parallel_size
        )
        return self.num_gpus // model_parallel_size

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches of each replica in one optimizer step."""
        return self.global_batch_size // (self.micro_batch_size * self.data_parallel_size)

    @property
    def node_suffix(self) -> str:
        """The suffix of the names of this node's files; empty on a single node."""
        if self.num_nodes > 1:
            return f"_node{self.node_index}"
        return ""

    def to_arguments(self) -> list[str]:
        """Return the fields as options; from_arguments() reads them back."""
        options = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            name = f"--{field.name.replace('_', '-')}"
            if not field.compare or value is None or value == field.default:
                continue
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, ModelConfig):
                    text = msgspec.json.encode(item.known()).decode()
                else:
                    text = str(item)
                # One word each: a label may begin with a dash.
                options.append(f"{name}={text}")
        return options

    @classmethod
    def from_arguments(cls: type[AnyRequest], arguments: Sequence[str]) -> AnyRequest:
        """Read what to_arguments() wrote; end the program with status 2 on anything else."""
        parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
        for field in dataclasses.fields(cls):
            if not field.compare:
                continue
            parser.add_argument(
                f"--{field.name.replace('_', '-')}",
                action="append" if str(field.type).startswith("tuple") else "store",
                type=msgspec.json.decode if field.name == "shape" else str,
                required=field.default is dataclasses.MISSING,
            )
        values = vars(parser.parse_args(arguments))
        try:
            return msgspec.convert(
                values, cls, strict=False, dec_hook=lambda kind, value: kind(value)
            )
        except msgspec.ValidationError as error:
            parser.error(str(error))

    def to_run(self, **known: Any) -> Run:
        """Return a Run without records that names this training, with further known fields."""
        return Run(
            platform=self.platform,
            framework=self.framework,
            model=self.model,
            scale=self.scale,
            label=self.label,
            **known,
        )

    @property
    def all_steps(self) -> int:
        """Optimizer steps that run: `steps`, which are measured, and those that a profiler watches
        after them.
        """
        return self.steps + (WINDOW if self.profile else 0)

    def training_config(self, **known: Any) -> TrainingConfig:
        """Return the training's steps, batches and seed, with further known fields."""
        return TrainingConfig(
            max_steps=self.steps,
            global_batch_size=self.global_batch_size,
            micro_batch_size=self.micro_batch_size,
            sequence_length=self.sequence_length,
            seed=self.seed,
            **known,
        )

    @property
    def result_elsewhere(self) -> str | None:
        """Why this machine writes no result; None if it writes the result."""
        if self.node_index == self.result_node:
            return None
        return f"the result is written on node {self.result_node}"


class RequestedConfig:
    """The user's options for a training, under the names that a Request has for them; None if not
    given.

    The attributes are the settings that have an option of `benchmark`, such as `preset`, a name
    under which a framework keeps defaults, and `eager`, if nothing is to be compiled; and two more:

    Attributes:
        shape: model shape of the result to match.
        origins: where the values are from that the user didn't give as options, by name.
    """

    DEFAULTS: ClassVar[FieldValues] = {
        **{row.request: None for row in SETTINGS if row.flag and row.key != "framework"},
        "shape": None,
        "origins": {},
    }

    def __init__(self, **stated: Any) -> None:
        if unknown := stated.keys() - self.DEFAULTS.keys():
            raise TypeError(f"no settings that can be requested: {', '.join(sorted(unknown))}")
        vars(self).update(self.DEFAULTS | stated)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def but(self, **changes: Any) -> Any:
        """Return the same options with changes."""
        return type(self)(**vars(self) | changes)


class SessionOptions(Protocol):
    """The options on the session that every command that trains has; `cooldown` in s."""

    output_dir: Path
    runs: int
    cooldown: float | None


class BenchmarkOptions:
    """The options of `benchmark`, which its parser sets; further settings have the names that
    RequestedConfig has for them, and those of a Slurm job their own.

    Attributes:
        argv, words_of_nodes: all words, and those that each node of a Slurm job gets.
        gpus, num_nodes: a number or None; several for a sweep, until it is divided into points.
    """

    argv: tuple[str, ...]
    words_of_nodes: list[str]
    output_dir: Path
    runs: int
    cooldown: float | None
    bundle: Path | None
    model: tuple[str, ...] | None
    framework: str | None
    precision: tuple[str, ...] | None
    micro_batch_size: tuple[int, ...] | None
    scale: str | None
    data: str | None
    eager: bool
    label: str | None
    settings: list[str] | None
    gpus: Any
    num_nodes: Any
    gpu: str | None
    match: Path | None
    config: Path | None
    tune: bool
    budget: float | None
    profile: str | None
    only: int | None
    resume: bool
    retry_failed: bool
    dry_run: bool
    training_lines: bool
    telemetry: str
    executor: str
    slurm: Path | None
    wait: bool

    def but(self, **changes: Any) -> BenchmarkOptions:
        """Return the same options with changes."""
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed


@dataclasses.dataclass(frozen=True)
class Device:
    """The hardware of the machine that will train, as far as settings depend on it; None if
    unknown, or on a CPU.

    Attributes:
        devices: number of GPUs, or of CPU cores.
        memory_bytes: memory of one GPU, or of the machine on a CPU.
        held_bytes: memory in use by other processes, on the GPU with the least free memory.
        architecture: that of the GPU, such as sm_90 or gfx942.
        device_name: the GPU's name by its driver.
    """

    platform: Platform
    devices: int
    memory_bytes: float | None
    architecture: str | None = None
    device_name: str | None = None
    held_bytes: float = 0.0

    @property
    def free_bytes(self) -> float | None:
        """Memory that a training can use, bytes; None if unknown."""
        if self.memory_bytes is None:
            return None
        return max(0.0, self.memory_bytes - self.held_bytes)


@dataclasses.dataclass(frozen=True)
class Launch:
    """A command that runs a training, its directory, and variables to add to this process's
    environment.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path

    def environment(self) -> dict[str, str]:
        """Return the variables to add to this process's environment. They include PYTHONPATH, since
        torchrun and NeMo-Run start in other directories.
        """
        return {**self.env, "PYTHONPATH": python_path()}

    def shell_line(self) -> str:
        """Return the exact command, as one would type it in a POSIX shell."""
        settings = []
        for name, value in sorted(self.environment().items()):
            settings.append(f"{name}={shlex.quote(value)}")
        return " ".join(
            ["cd", shlex.quote(str(self.cwd)), "&&", "env", *settings, shlex.join(self.argv)]
        )


@dataclasses.dataclass(frozen=True)
class PreflightResult:
    """The result of a framework's checks before a training: errors, why it would fail and what to
    do, and warnings, what may go wrong.
    """

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
