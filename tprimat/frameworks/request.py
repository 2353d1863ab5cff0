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
"""What a training can be asked for in; each framework trains in some of them."""

MOCK, TOKENS = "mock", "tokens"
DATA = (MOCK, TOKENS)
"""What NeMo can train on: its own random tokens, or our token source in Megatron's indexed form."""

EMBEDDED = {row.request: row.choices for row in SETTINGS if row.choices}
"""Settings that the built-in frameworks alone take, and what they take, the default first."""

USER, LAUNCHER, TUNE, DEFAULT = "user", "launcher", "--tune", "default"
"""Origins of a setting; that of a setting that --match takes over is the result's file."""

TORCH, NSYS, ROCPROF = "torch", "nsys", "rocprof"
TRACED = 3
WINDOW = 1 + TRACED
"""Steps that are profiled, after those that are measured; in the first the profiler itself starts.
"""

PROFILERS = {
    TORCH: "PyTorch's own: a Chrome trace with memory",
    NSYS: "Nsight Systems, for NVIDIA",
    ROCPROF: "rocprofv3, for AMD",
}
"""What can watch the last steps of a training."""

AnyRequest = TypeVar("AnyRequest", bound="Request")


@dataclasses.dataclass(frozen=True)
class Request:
    """One training, every choice made; its way to the training's program is a command line.

    Attributes:
        framework, model: names in FRAMEWORKS and in models.py.
        scale: a name in scales.py, or its OTHER if `shape` says it all.
        precision, data, profile: one of PRECISIONS, DATA and PROFILERS; no data if the framework
            has one kind only.
        steps: optimizer steps.
        global_batch_size, micro_batch_size: sequences.
        sequence_length: tokens.
        seed: of the weights and the data.
        num_gpus: processes that train; one for each GPU, or on the CPU.
        output_dir: directory for the result, absolute.
        time_limit_s: seconds for the steps, after which the training ends early; None for no limit.
        label: the user's name for this configuration.
        shape: of the model if no scale gives it.
        num_nodes: machines that train together.
        node_index: which of them this is, from 0.
        result_node: which of them makes the result.
        rendezvous: HOST:PORT where the processes of several machines meet.
        cuda_graphs: whether the framework records a step's kernels and plays them back.
        vendor_settings: whether the settings that the framework's vendor publishes for speed are
            applied.
        settings: fields of the framework's own recipe, each as path=value.
        compiled: whether torch.compile makes its kernels; False for eager PyTorch.
        finds_micro_batch: whether the training takes the largest micro-batch that fits instead of
            micro_batch_size.
        recipe: name of the framework's own recipe, if it has several for a model.
        recomputation: how much of a layer's forward pass is computed again in the backward pass,
            instead of kept in memory.
        attention: of the built-in frameworks' models, by transformers' names: torch's fused
            kernels (sdpa), or plain products (eager).
        max_connections: queues of a GPU to the host if communication overlaps computation.
        origins: where settings are from, by field; the others are the framework's defaults. None if
            nobody knows. No part of the training.
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
    recomputation: str = EMBEDDED["recomputation"][0]
    attention: str = EMBEDDED["attention"][0]
    origins: Mapping[str, str] | None = dataclasses.field(default=None, compare=False)

    @property
    def tuned(self) -> bool:
        """Whether the training is made to suit its GPU before the first step."""
        return self.compiled or self.finds_micro_batch

    @property
    def gpus_per_node(self) -> int:
        """Processes that train on each machine."""
        return self.num_gpus // self.num_nodes

    @property
    def data_parallel_size(self) -> int:
        """Replicas of the model."""
        divided = (
            self.tensor_model_parallel_size
            * self.pipeline_model_parallel_size
            * self.context_parallel_size
        )
        return self.num_gpus // divided

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches of each replica in one optimizer step."""
        return self.global_batch_size // (self.micro_batch_size * self.data_parallel_size)

    @property
    def node_suffix(self) -> str:
        """The end of the names of this node's files; empty on a single node."""
        if self.num_nodes > 1:
            return f"_node{self.node_index}"
        return ""

    def to_arguments(self) -> list[str]:
        """Return the fields as options; from_arguments() reads them back."""
        options = []
        for field in (field for field in dataclasses.fields(self) if field.compare):
            value = getattr(self, field.name)
            name = f"--{field.name.replace('_', '-')}"
            if value is None or value == field.default:
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
        for field in (field for field in dataclasses.fields(cls) if field.compare):
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
        """Return a Run without records that names this training, with what else is known of it."""
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
        """Return the training's steps, batches and seed, with what else is known of them."""
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
        """Why another machine makes the result; None if this one does."""
        if self.node_index == self.result_node:
            return None
        return f"the result is written on node {self.result_node}"


class RequestedConfig:
    """The user's options for a training, under the names that a Request has for them; None if not
    given.

    They are the rows of settings that have an option of `benchmark`. `shape` is that of a result
    which is to be matched, `preset` a name under which a framework keeps defaults; `eager` says
    that nothing is compiled; `origins` names where values are from that aren't the user's own
    options.
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
    """What the options of every command that trains say of its session."""

    output_dir: Path
    runs: int
    cooldown: float | None


class BenchmarkOptions:
    """The options of `benchmark`, which its parser sets; further settings stand under the names
    that RequestedConfig has for them, those of a Slurm job under its own.

    Attributes:
        argv, words_of_nodes: all words, and those that each node of a Slurm job is told.
        gpus, num_nodes: a number or None; of a sweep several, until it is divided into points.
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
    """The machine that is to train, as far as a choice depends on it; None if unknown, or on a CPU.

    Attributes:
        devices: GPUs, or processor cores on a CPU.
        memory_bytes: of one GPU, or of the machine on a CPU.
        held_bytes: what other processes leave less of it, on the GPU with the least.
        architecture: of the GPU, such as sm_90 or gfx942.
        device_name: of the GPU, as its driver names it.
    """

    platform: Platform
    devices: int
    memory_bytes: float | None
    architecture: str | None = None
    device_name: str | None = None
    held_bytes: float = 0.0

    @property
    def free_bytes(self) -> float | None:
        """What a training can have of the memory."""
        if self.memory_bytes is None:
            return None
        return max(0.0, self.memory_bytes - self.held_bytes)


@dataclasses.dataclass(frozen=True)
class Launch:
    """A command that runs a training, in a directory, with variables beyond those of this process's
    environment.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path

    def environment(self) -> dict[str, str]:
        """Return what to set beyond this process's environment; torchrun and NeMo-Run start in
        other directories.
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
    """What a framework's checks say before a training: why it would fail, with what to do, and what
    may go wrong.
    """

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
