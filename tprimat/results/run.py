"""Run: one training, as it was measured or read.

The classes below are the only list of a result file's fields: the JSON Schema
(docs/result.schema.json) and docs/result-file.md are generated from them.
This module checks form (types, lengths, order, finiteness); checks/ tests the content.
"""

from __future__ import annotations

import array
import datetime
import math
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.account import Entry, Timing
from tprimat.results.conditions import Disturbance, Preflight
from tprimat.results.ending import Ending
from tprimat.results.fields import (
    LARGEST_VALUE,
    LONGEST_STEP,
    SHORTEST_STEP,
    Count,
    Figures,
    Fixed,
    Natural,
    NonNegative,
    Positive,
    Section,
    Seed,
    StepTime,
    Value,
    known_values,
)
from tprimat.results.telemetry import Telemetry
from tprimat.results.trace import Trace

BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""What Linux calls the instructions that multiply bf16, on x86-64 and on ARM."""

Status = Literal["complete", "incomplete", "failed"]
Platform = Literal["nvd", "amd", "cpu"]
SoftwareStack = Literal["cuda", "rocm", "cpu"]

STACKS: dict[Platform, SoftwareStack] = {"nvd": "cuda", "amd": "rocm", "cpu": "cpu"}
PLATFORMS: dict[str, Platform] = {stack: platform for platform, stack in STACKS.items()}
VENDORS: dict[Platform, str] = {"nvd": "NVIDIA", "amd": "AMD"}
"""Title of the software stack for the GPUs of a platform."""

FROM_DESCRIPTION = "system description"
"""How precision_detail begins where the log doesn't state the precision and MLPerf's system
description does.
"""


StatedValues = dict[str, bool | int | str]
"""What a user states of a log, by field."""


class GpuInfo(Section, frozen=True, kw_only=True):
    """The training machine, never the importing one."""

    device_name: Annotated[str | None, "name from the driver"] = None
    device_count: Annotated[Count | None, "devices used"] = None
    total_memory_gb: Annotated[Positive | None, "memory per device, GB"] = None
    gpu_cores: Annotated[Count | None, "CUDA cores per device, or AMD's equivalent"] = None
    software_stack: Annotated[SoftwareStack | None, "driver stack of the device"] = None
    software_version: Annotated[str | None, "version of CUDA or ROCm"] = None
    pytorch_version: Annotated[str | None, "torch.__version__"] = None
    compute_units: Annotated[Count | None, "multiprocessors or compute units that torch sees"] = (
        None
    )
    architecture: Annotated[str | None, "sm_90, gfx942, …; on a CPU, its architecture"] = None
    clock_mhz: Annotated[Positive | None, "maximum clock that the device reports, MHz"] = None


class Node(Section, frozen=True, kw_only=True):
    """One of several machines that train together."""

    hostname: Annotated[
        str | None, "pseudonym of the host; with --include-host its name, in a Slurm job Slurm's"
    ] = None
    device_name: Annotated[str | None, "name of its devices from the driver; on a CPU, the CPU"] = (
        None
    )
    device_count: Annotated[Count | None, "GPUs visible there"] = None
    cpu: Annotated[str | None, "CPU name"] = None
    cpu_threads: Annotated[Count | None, "CPU threads available there"] = None
    os: Annotated[str | None, "system, release and architecture"] = None
    container: Annotated[str | None, "kind of container, or its image if reported"] = None
    versions: Annotated[dict[str, str], "packages, driver, Python, by name"] = {}
    until_backward_seconds: Annotated[
        NonNegative | None,
        "median time from a step's start to its backward pass, of the slowest rank there, s",
    ] = None


class Environment(Section, frozen=True, kw_only=True):
    """Machine and software of a run."""

    versions: Annotated[dict[str, str], "packages, driver, Python, by name"] = {}
    hostname: Annotated[
        str | None, "pseudonym of the host, such as node-1; with --include-host its name"
    ] = None
    os: Annotated[str | None, "system, release and architecture"] = None
    container: Annotated[str | None, "kind of container, or its image if reported"] = None
    tprimat_commit: Annotated[
        str | None, "git commit of TensorPrimat; ends in -dirty with local changes"
    ] = None
    cpu: Annotated[str | None, "CPU name"] = None
    cpu_threads: Annotated[Count | None, "CPU threads available to the training"] = None
    cpu_instructions: Annotated[
        tuple[str, ...] | None,
        "CPU instruction sets that matter for training, in Linux' spelling",
    ] = None
    memory_held_by_others_gb: Annotated[
        NonNegative | None, "device memory used by other processes before the start, GB"
    ] = None
    gpu_partition: Annotated[
        str | None, "compute and memory partition of AMD GPUs, such as SPX/NPS1"
    ] = None
    numa_balancing: Annotated[
        bool | None, "whether Linux moves memory between NUMA nodes; GPUs only"
    ] = None
    emulated: Annotated[bool, "true: the device was emulated; timings are not valid"] = False
    settings: Annotated[dict[str, str], "environment variables that affect speed"] = {}
    nodes: Annotated[
        tuple[Node, ...], "machines of a training on several nodes, by node number"
    ] = ()

    @property
    def lacks_bf16(self) -> bool:
        """Whether the CPU is known to have no instructions for bf16, which it then computes in
        software.
        """
        return self.cpu_instructions is not None and not BF16_INSTRUCTIONS.intersection(
            self.cpu_instructions
        )


class ModelConfig(Section, frozen=True, kw_only=True):
    """Shape of the decoder, and of the encoder if there is one; needed for FLOPs."""

    num_layers: Annotated[Count | None, "transformer layers of the decoder"] = None
    num_encoder_layers: Annotated[
        Count | None,
        "layers of the encoder, whose source is as long as the target; null without an encoder",
    ] = None
    hidden_size: Annotated[Count | None, "width of the residual stream"] = None
    num_attention_heads: Annotated[Count | None, "query heads per layer"] = None
    num_query_groups: Annotated[Count | None, "key/value heads (grouped-query attention)"] = None
    head_dim: Annotated[Count | None, "size of one head"] = None
    ffn_hidden_size: Annotated[Count | None, "feed-forward width"] = None
    vocab_size: Annotated[Count | None, "tokens in the output layer, without padding rows"] = None
    sliding_window: Annotated[Count | None, "attention window in tokens, if limited"] = None
    full_attention_layers: Annotated[
        Natural | None, "layers without the window; null counts as none"
    ] = None
    global_head_dim: Annotated[
        Count | None, "head size in layers without the window; values equal keys"
    ] = None
    global_query_groups: Annotated[Count | None, "key/value heads in layers without the window"] = (
        None
    )
    attention_output_gate: Annotated[
        bool | None, "whether a gate multiplies the output of attention; null counts as false"
    ] = None
    layer_pattern: Annotated[
        str | None,
        "letters of the layers: * attention, - dense, E experts, M Mamba-2, G gated delta net;"
        " null: * and - or E",
    ] = None
    state_heads: Annotated[Count | None, "Mamba-2 and gated delta net: heads (of values)"] = None
    state_head_dim: Annotated[Count | None, "Mamba-2 and gated delta net: size of one head"] = None
    state_size: Annotated[
        Count | None, "Mamba-2: size of the state; gated delta net: size of a key head"
    ] = None
    state_groups: Annotated[Count | None, "Mamba-2: groups; gated delta net: key heads"] = None
    tie_word_embeddings: Annotated[bool | None, "whether input and output layer share weights"] = (
        None
    )
    gated_ffn: Annotated[
        bool | None, "SwiGLU: three feed-forward matrices instead of two; null counts as true"
    ] = None
    num_experts: Annotated[Count | None, "experts per mixture-of-experts layer"] = None
    experts_per_token: Annotated[Count | None, "routed experts per token"] = None
    expert_ffn_hidden_size: Annotated[Count | None, "feed-forward width of one routed expert"] = (
        None
    )
    shared_expert_ffn_hidden_size: Annotated[
        Count | None, "feed-forward width of all shared experts together"
    ] = None
    expert_latent_size: Annotated[
        Count | None, "width that experts work on if it is not the hidden size"
    ] = None
    num_dense_layers: Annotated[
        Natural | None, "layers without experts in a mixture-of-experts model"
    ] = None
    query_lora_rank: Annotated[Count | None, "latent attention: query rank"] = None
    key_value_lora_rank: Annotated[Count | None, "latent attention: key and value rank"] = None
    rope_head_dim: Annotated[
        Count | None, "latent attention: rotary part of a query or key head"
    ] = None
    value_head_dim: Annotated[Count | None, "latent attention: size of a value head"] = None
    num_mtp_layers: Annotated[
        Natural | None, "layers that predict further tokens; stated, not counted in FLOPs"
    ] = None
    num_parameters: Annotated[Count | None, "parameters of the whole model, not of one rank"] = None
    trainable_parameters: Annotated[
        Count | None,
        "parameters that the optimizer changes (LoRA: fewer than all); null counts as all",
    ] = None
    source: Annotated[str | None, "source of these values"] = None


class TrainingConfig(Section, frozen=True, kw_only=True):
    """Definition of one optimizer step."""

    max_steps: Annotated[Count | None, "requested optimizer steps"] = None
    global_batch_size: Annotated[Count | None, "sequences per optimizer step, over all devices"] = (
        None
    )
    micro_batch_size: Annotated[Count | None, "sequences per forward pass of one replica"] = None
    sequence_length: Annotated[Count | None, "tokens per sequence"] = None
    num_gpus: Annotated[Count | None, "processes that train (world size)"] = None
    precision: Annotated[
        str | None,
        "precision of the matrix products: fp32, tf32, bf16, fp16, fp8, mxfp8, mxfp4, nvfp4",
    ] = None
    precision_detail: Annotated[str | None, "in the framework's own words"] = None
    recomputation: Annotated[str | None, "activation recomputation: none, selective or full"] = None
    packing: Annotated[
        bool | None,
        "true: several documents per sequence, attention within each; false: attention over the"
        " whole sequence",
    ] = None
    seed: Annotated[Seed | None, "seed of weights and dropout"] = None


class ParallelismConfig(Section, frozen=True, kw_only=True):
    """Distribution of the work over devices, in Megatron's terms."""

    strategy_name: Annotated[str | None, "in the framework's own words"] = None
    tensor_model_parallel_size: Annotated[Count | None, "devices that share each layer"] = None
    pipeline_model_parallel_size: Annotated[Count | None, "pipeline stages"] = None
    context_parallel_size: Annotated[Count | None, "devices that share each sequence"] = None
    expert_model_parallel_size: Annotated[Count | None, "devices that share the experts"] = None
    data_parallel_size: Annotated[Count | None, "replicas of the model"] = None
    gradient_accumulation_steps: Annotated[
        Count | None, "global batch / (micro-batch × data parallel)"
    ] = None


class Optimizer(Section, frozen=True, kw_only=True):
    """Optimizer settings."""

    name: Annotated[str | None, "AdamW, …"] = None
    learning_rate: Annotated[NonNegative | None, "highest learning rate"] = None
    schedule: Annotated[str | None, "constant, cosine, …"] = None
    beta1: Annotated[float | None, "decay of the first moment"] = None
    beta2: Annotated[float | None, "decay of the second moment"] = None
    epsilon: Annotated[float | None, "added to the denominator"] = None
    weight_decay: Annotated[float | None, "decoupled, per unit of learning rate"] = None
    gradient_clipping: Annotated[float | None, "maximum gradient norm"] = None


class Data(Section, frozen=True, kw_only=True):
    """Training data."""

    kind: Annotated[
        str | None, "markov (generated by TensorPrimat), mock, tokens, or the name of a data set"
    ] = None
    digest: Annotated[str | None, "SHA-256 of the first tokens; equal digests mean equal data"] = (
        None
    )
    entropy: Annotated[
        NonNegative | None, "entropy rate, the lowest possible mean loss, nats/token"
    ] = None
    unigram_entropy: Annotated[
        NonNegative | None, "entropy of the token frequencies, nats/token"
    ] = None
    seed: Annotated[Seed | None, "seed of the token source or the shuffling"] = None


class MemoryMetrics(Section, frozen=True, kw_only=True):
    """Measured memory only; allocated, reserved and device memory are never compared with each
    other.
    """

    avg_memory_allocated_gb: Annotated[
        NonNegative | None, "mean at step ends, by torch's allocator"
    ] = None
    peak_memory_allocated_gb: Annotated[
        NonNegative | None, "highest within any step, by torch's allocator"
    ] = None
    avg_memory_reserved_gb: Annotated[
        NonNegative | None, "mean at step ends, reserved by torch's allocator"
    ] = None
    peak_memory_reserved_gb: Annotated[
        NonNegative | None, "highest, reserved by torch's allocator"
    ] = None
    peak_memory_device_used_gb: Annotated[
        NonNegative | None, "used on the whole device, including other processes"
    ] = None
    peak_memory_process_gb: Annotated[
        NonNegative | None, "resident memory of the training process (CPU)"
    ] = None
    avg_memory_process_gb: Annotated[NonNegative | None, "the same, mean (CPU)"] = None


class SourceFile(Section, frozen=True, kw_only=True):
    """A file that a run was imported from."""

    path: Annotated[
        str, "path as given to the command, without directories that name a user or are absolute"
    ]
    sha256: Annotated[str | None, "SHA-256 of the content"] = None
    bytes: Annotated[Natural | None, "file size"] = None


class Source(Section, frozen=True, kw_only=True):
    """Origin of a run."""

    kind: Annotated[
        Literal["live", "log", "result"], "measured, imported from a log, or from an older result"
    ]
    dialect: Annotated[str | None, "log format"] = None
    files: Annotated[tuple[SourceFile, ...], "imported files"] = ()
    command: Annotated[tuple[str, ...], "command line of the training, if known"] = ()
    given: Annotated[
        StatedValues,
        "values that the user stated for the log, by field; nothing else confirms them",
    ] = {}
    overrides: Annotated[dict[str, str], "values that the user set although the log differs"] = {}


class Steady(Section, frozen=True, kw_only=True):
    """Steady-state steps, which the metrics use."""

    first_step: Annotated[Count | None, "first steady-state step"] = None
    last_step: Annotated[Count | None, "last steady-state step"] = None
    method: Annotated[str | None, "rule that excluded the warm-up"] = None
    found: Annotated[bool, "false: no steady state; metrics use all steps after the first"] = False


class Tuning(Section, frozen=True, kw_only=True):
    """Search that chose the configuration: by --tune, passed on by --config."""

    trials: Annotated[Natural | None, "number of settings tried"] = None
    settings: Annotated[Count | None, "number of settings in the search space"] = None
    varied: Annotated[tuple[str, ...], "options that the search varied"] = ()
    seconds: Annotated[NonNegative | None, "duration of the search, s"] = None
    budget_seconds: Annotated[NonNegative | None, "time budget of the search, s"] = None
    device_name: Annotated[str | None, "device on which the configuration was chosen"] = None


class PerformanceMetrics(Section, frozen=True, kw_only=True):
    """Metrics of the steady-state steps, computed from the series."""

    total_steps: Annotated[int | None, "steps recorded"] = None
    total_time_seconds: Annotated[
        NonNegative | None, "start of the first step to end of the last, s"
    ] = None
    # What these are stands with each metric, in metrics.METRICS.
    avg_step_time_seconds: float | None = None
    median_step_time_seconds: float | None = None
    min_step_time_seconds: float | None = None
    max_step_time_seconds: float | None = None
    std_step_time_seconds: float | None = None
    steps_per_second: float | None = None
    tokens_per_second: float | None = None
    tokens_per_second_per_gpu: float | None = None
    warmup_time_seconds: Annotated[NonNegative | None, "time of the warm-up steps, s"] = None
    final_loss: Annotated[
        float | None, "mean of the last ten losses, of few the last quarter, nats/token"
    ] = None


class _Series(Fixed, frozen=True, kw_only=True):
    """One entry per record; all of one length, None if a record has none."""

    steps: Annotated[tuple[Count, ...], "number of the optimizer step, from 1"] = ()
    window_steps: Annotated[
        tuple[Count, ...], "steps that the record averages; 1 if each step was timed"
    ] = ()
    step_times: Annotated[tuple[StepTime | None, ...], "wall time of one step, s"] = ()
    loss_values: Annotated[tuple[Value | None, ...], "loss, nats/token"] = ()
    learning_rates: Annotated[tuple[Value | None, ...], "learning rate"] = ()
    grad_norms: Annotated[tuple[Value | None, ...], "global gradient norm before clipping"] = ()
    lines: Annotated[tuple[Count | None, ...], "line of the log"] = ()


SERIES = _Series.__struct_fields__
"""Names of the series, in the order of the file."""


class RunRecord(_Series, frozen=True, kw_only=True):
    """Fields that differ between runs of one setup."""

    timestamp: Annotated[str | None, "start of the run, ISO 8601 with offset"] = None
    session: Annotated[
        str | None, "identifier of the benchmark command, whose runs are interleaved"
    ] = None
    round: Annotated[
        Count | None, "round of the session, from 1, with one run of every configuration"
    ] = None
    request: Annotated[
        str | None, "digest of the requested configuration, by which --resume finds a run"
    ] = None
    tuning: Annotated[
        Tuning | None, "search that chose the configuration; null for an untuned one"
    ] = None
    arguments: Annotated[
        tuple[str, ...] | None, "arguments of the benchmark command that measured the run"
    ] = None
    status: Annotated[Status, "whether all requested steps were recorded"] = "complete"
    status_reason: Annotated[str | None, "reason, in one sentence"] = None
    ending: Annotated[Ending | None, "how the run ended; null in results of schema 1"] = None
    notes: Annotated[
        tuple[Note, ...],
        "what is doubtful or unknown, and why: codes with values; code `text`: a sentence alone",
    ] = ()
    source: Annotated[Source | None, "origin of the run"] = None
    environment: Annotated[Environment, "machine and software"] = Environment()
    memory_metrics: Annotated[MemoryMetrics, "measured memory"] = MemoryMetrics()
    disturbance: Annotated[Disturbance, "other use of the CPU during the run"] = Disturbance()
    preflight: Annotated[Preflight, "what `tprimat preflight` measured on this machine before"] = (
        Preflight()
    )
    energy_metrics: Annotated[Figures, "measured energy and power, unit in the name"] = {}
    telemetry: Annotated[Telemetry, "devices and CPU during the run, and its events"] = Telemetry()
    native_metrics: Annotated[
        dict[str, float | tuple[float | None, ...] | None],
        "values printed by the framework: one, or a series as long as `steps`",
    ] = {}
    breakdown: Annotated[Figures, "seconds of a step, by part"] = {}
    trace: Annotated[
        Trace | None, "where the time of profiled steps goes, from profiler traces"
    ] = None
    profile: Annotated[dict[str, str], "profiler traces of the run, by kind"] = {}
    timeline: Annotated[
        tuple[Entry, ...],
        "where the wall time went, in order of time; what lies between two entries is unknown",
    ] = ()
    profiled_steps: Annotated[tuple[Count, ...], "profiled steps, excluded from all metrics"] = ()
    epochs: Annotated[tuple[Figures, ...], "metrics of each epoch, if there are epochs"] = ()

    def __post_init__(self) -> None:
        native = {
            f"native_metrics.{name}": series
            for name, series in self.native_metrics.items()
            if isinstance(series, tuple)
        }
        for name, series in {**{name: getattr(self, name) for name in SERIES}, **native}.items():
            if len(series) != len(self.steps):
                raise ValueError(f"{name} has {len(series)} entries, steps has {len(self.steps)}")
        if not all(map(operator.lt, self.steps, self.steps[1:])):
            raise ValueError("steps must rise")
        widest = -LARGEST_VALUE, LARGEST_VALUE
        for name in ("step_times", "loss_values", "learning_rates", "grad_norms"):
            series = getattr(self, name)
            is_time = name == "step_times"
            if _are_within(series, *((SHORTEST_STEP, LONGEST_STEP) if is_time else widest)):
                continue
            if is_time and _are_within(series, *widest):
                raise ValueError(
                    f"step_times must lie between {SHORTEST_STEP:g} and {LONGEST_STEP:g} s"
                )
            raise ValueError(f"{name} must be finite or null")
        if self.timestamp is not None and (
            self.started is None or self.started.utcoffset() is None
        ):
            raise ValueError("timestamp must be a time in ISO 8601 with its offset from UTC")

    @property
    def started(self) -> datetime.datetime | None:
        """The timestamp as a moment; None if it is unknown."""
        try:
            # Python 3.10 doesn't know Z.
            return datetime.datetime.fromisoformat(re.sub("Z$", "+00:00", self.timestamp or ""))
        except ValueError:
            return None


class Run(RunRecord, frozen=True, kw_only=True):
    """One training. Raises ValueError if series differ in length, steps don't rise, or a number is
    not finite.
    """

    platform: Annotated[Platform | None, "nvd, amd or cpu"] = None
    framework: Annotated[str | None, "nemo, primus, lightning, megatron, …"] = None
    model: Annotated[str | None, "llama, qwen, mistral, or the name in the source"] = None
    scale: Annotated[str | None, "full, or the name of a scaled-down shape"] = None
    label: Annotated[str | None, "the user's name for this configuration"] = None
    gpu_info: Annotated[GpuInfo, "training machine"] = GpuInfo()
    model_config: Annotated[ModelConfig, "model shape"] = ModelConfig()
    training_config: Annotated[TrainingConfig, "definition of one optimizer step"] = (
        TrainingConfig()
    )
    parallelism_config: Annotated[ParallelismConfig, "distribution of the work over devices"] = (
        ParallelismConfig()
    )
    optimizer: Annotated[Optimizer, "optimizer settings"] = Optimizer()
    data: Annotated[Data, "training data"] = Data()
    timing: Annotated[Timing, "definition of a step time"] = Timing()
    framework_config: Annotated[
        dict[str, bool | int | float | str | None],
        "further settings as they ran, in the framework's own names",
    ] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of its notes."""
        return sentences(self.notes)

    def told(self, *codes: str) -> tuple[str, ...]:
        """Return the sentences of its notes with one of these codes."""
        return tuple(words(note) for note in self.notes if note.code in codes)

    @property
    def is_live(self) -> bool:
        """Whether it was recorded while it trained, not read from a log."""
        return self.source is not None and self.source.kind == "live"

    @property
    def source_files(self) -> tuple[SourceFile, ...]:
        """The files that it was read from; none if that is unknown."""
        if self.source is None:
            return ()
        return self.source.files

    @property
    def tokens_per_step(self) -> int | None:
        """Tokens of one optimizer step over all devices; None if batch or sequence is unknown."""
        batch = self.training_config.global_batch_size
        length = self.training_config.sequence_length
        if batch is None or length is None:
            return None
        return batch * length

    @property
    def num_gpus(self) -> int | None:
        """Processes that trained; None if neither the configuration nor the machine states it."""
        return self.training_config.num_gpus or self.gpu_info.device_count


def sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return the sentences of notes, each once."""
    return tuple(dict.fromkeys(map(words, notes)))


RECORD_FIELDS = RunRecord.__struct_fields__
SETUP_FIELDS = tuple(name for name in Run.__struct_fields__ if name not in RECORD_FIELDS)

RUN_VALUES = ("max_steps", "seed")
"""Fields of training_config in which repetitions may differ: 60 or 100 steps, and seeds, are of one
speed.
"""


def setup_key(run: Run) -> bytes:
    """Return what two runs must share to be in one file: the setup and the software's versions, but
    for RUN_VALUES.
    """
    setup = {name: getattr(run, name) for name in SETUP_FIELDS}
    setup["training_config"] = run.training_config.but(**dict.fromkeys(RUN_VALUES))
    return msgspec.json.encode(
        [setup, run.environment.versions, run.environment.emulated], order="sorted"
    )


def finite(values: Iterable[float | None]) -> tuple[float | None, ...]:
    """Return a series with None for values that are not finite or beyond LARGEST_VALUE; the caller
    warns of them.
    """
    return tuple(
        value if value is not None and abs(value) <= LARGEST_VALUE else None for value in values
    )


def _are_within(series: Sequence[float | None], low: float, high: float) -> bool:
    """Return whether all known values lie within finite bounds; a NaN lies within none."""
    # An array is of a loaded run, which was checked: see store.find().
    if isinstance(series, array.array):
        figures = []
    else:
        figures = known_values(series)
    # A NaN hides from min and max, but not from a sum.
    return not figures or (
        low <= min(figures) and max(figures) <= high and not math.isnan(sum(figures))
    )
