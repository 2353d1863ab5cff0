"""The settings of a run that may cost time, a row each: for the comparison of settings and the names of systems."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

from tprimat.analysis import flops
from tprimat.results.run import ModelConfig, Run
from tprimat.text import plain

PADDING = 1024
"""Vocabularies that differ by less are one that Megatron padded."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of a run that may change its speed.

    Attributes:
        title: what a table shows.
        value: a field such as timing.clock, or what gives its value as text; None where it is unknown.
        unit: of the field, in words.
        essential: without it nobody knows whether two systems did the same work or timed the same
            thing, so it is listed even where none states it.
        named: whether a system may be called by it.
        forbids: whether a difference means other work per token, so that speeds don't compare.
        identity: whether configurations that differ in it aren't identical. What is compared
            (machine, software) and what costs no time (data, seeds, steps) doesn't count.
        optional: whether it is left out where neither states it, since few frameworks do.
        same: whether two runs agree; None where equal texts mean it.
    """

    title: str
    value: str | Callable[[Run], str | None]
    unit: str | None = None
    essential: bool = False
    named: bool = True
    forbids: bool = False
    identity: bool = False
    optional: bool = False
    same: Callable[[Run, Run], bool] | None = None

    def read(self, run: Run) -> str | None:
        """Return the value of a run as text; None where it is unknown."""
        if callable(self.value):
            return self.value(run)
        text = text_of(operator.attrgetter(self.value)(run))
        return joined(text, self.unit, by=" ") if text else None


def text_of(value: object) -> str | None:
    """Return a value as the text that is compared and shown; None for None."""
    if value is None:
        return None
    return f"{value:g}" if isinstance(value, float) else plain(value, 240) or None


def joined(*parts: str | None, by: str = ", ") -> str | None:
    """Return the parts that are known, in one text; None where none is."""
    return by.join(part for part in parts if part) or None


def _labelled(label: str, value: float | None) -> str | None:
    return None if value is None else f"{label} {text_of(value)}"


def _precision(run: Run) -> str | None:
    config = run.training_config
    if config.precision and config.precision_detail and config.precision != config.precision_detail:
        return plain(f"{config.precision} ({config.precision_detail})", 80)
    return text_of(config.precision or config.precision_detail)


def _shape(run: Run) -> str | None:
    shape = run.model_config
    heads = joined(text_of(shape.num_attention_heads), text_of(shape.num_query_groups), by="/")
    parts = (
        (shape.num_encoder_layers, f"{shape.num_encoder_layers} encoder layers"),
        (shape.num_layers, f"{shape.num_layers} {'decoder ' if shape.num_encoder_layers else ''}layers"),
        (shape.hidden_size, f"hidden {shape.hidden_size}"),
        (heads, f"heads {heads}"),
        (shape.ffn_hidden_size, f"ffn {shape.ffn_hidden_size}"),
        (shape.vocab_size, f"vocabulary {shape.vocab_size}"),
        (shape.sliding_window, f"window {shape.sliding_window}"),
        (shape.full_attention_layers, f"without it {shape.full_attention_layers} layers"),
    )
    return ", ".join(text for value, text in parts if value) or None


def _optimizer(run: Run) -> str | None:
    optimizer = run.optimizer
    rate = _labelled("learning rate", optimizer.learning_rate)
    decay = _labelled("weight decay", optimizer.weight_decay)
    clipping = _labelled("clipping", optimizer.gradient_clipping)
    return joined(text_of(optimizer.name), rate, text_of(optimizer.schedule), decay, clipping)


def _data(run: Run) -> str | None:
    data = run.data
    digest = f"sha256 {plain(data.digest)[:12]}" if data.digest else None
    return joined(text_of(data.kind), digest, _labelled("seed", data.seed))


def _environment_settings(run: Run) -> str | None:
    settings = sorted(run.environment.settings.items())
    return text_of(" ".join(f"{name}={value}" for name, value in settings)) if settings else None


def framework(run: Run) -> str | None:
    """Return a run's framework, with the back end where it has several."""
    backend = run.framework_config.get("backend")
    return text_of(f"{run.framework} ({backend})" if run.framework and backend else run.framework)


def _compiler(run: Run) -> str | None:
    is_compiled = run.framework_config.get("torch_compile")
    return None if is_compiled is None else "torch.compile" if is_compiled else "eager"


def _turbo(run: Run) -> str | None:
    is_on, prefix = run.framework_config.get("enable_primus_turbo"), "use_turbo_"
    if not is_on:
        return None if is_on is None else "off"
    names = sorted(name for name, used in run.framework_config.items() if name.startswith(prefix) and used)
    return text_of(", ".join(name.removeprefix(prefix) for name in names) or "no kernel")


def _numa_balancing(run: Run) -> str | None:
    is_on = run.environment.numa_balancing
    return None if is_on is None else "on" if is_on else "off"


def _power_cap(run: Run) -> str | None:
    cap = run.energy_metrics.get("power_cap_watts")
    return None if cap is None else f"{cap:.0f} W"


_SHAPE = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size")


def shape_conflict(one: ModelConfig, other: ModelConfig) -> str | None:
    """Return in what two shapes are known to differ; None where nothing shows that they do.

    A window that only one states says nothing of the other: few sources state it.
    """
    for name in (*_SHAPE, "num_encoder_layers", "vocab_size"):
        first, second = getattr(one, name), getattr(other, name)
        if first is None or second is None:
            continue
        if abs(first - second) >= (PADDING if name == "vocab_size" else 1):
            return f"{name} {first} and {second}"
    if one.sliding_window and other.sliding_window:
        # Some count the token itself, and some don't.
        if abs(one.sliding_window - other.sliding_window) > 1:
            return f"sliding_window {one.sliding_window} and {other.sliding_window}"
        unbounded = [shape.full_attention_layers or 0 for shape in (one, other)]
        if unbounded[0] != unbounded[1]:
            return f"full_attention_layers {unbounded[0]} and {unbounded[1]}"
    return None


def same_known_shape(one: ModelConfig, other: ModelConfig) -> bool:
    """Return whether both state their shape, and the same."""
    return all(getattr(one, name) is not None and getattr(one, name) == getattr(other, name) for name in _SHAPE)


def _same_shape(first: Run, second: Run) -> bool:
    shapes = [flops.model_shape(run)[0] for run in (first, second)]
    return shapes[0] is None or shapes[1] is None or shape_conflict(shapes[0], shapes[1]) is None


SETTINGS = (
    Setting("framework", framework, named=False),
    Setting(
        "software stack",
        lambda run: joined(text_of(run.gpu_info.software_stack), text_of(run.gpu_info.software_version), by=" "),
        named=False,
    ),
    Setting("torch", "gpu_info.pytorch_version"),
    Setting("GPUs", "num_gpus", named=False, identity=True),
    Setting("scale", "scale", named=False, forbids=True, identity=True),
    Setting("precision", _precision, essential=True, identity=True),
    Setting(
        "global batch", "training_config.global_batch_size", "sequences", essential=True, named=False, identity=True
    ),
    Setting(
        "sequence length",
        "training_config.sequence_length",
        "tokens",
        essential=True,
        named=False,
        forbids=True,
        identity=True,
    ),
    Setting("micro-batch", "training_config.micro_batch_size", essential=True, identity=True),
    Setting("gradient accumulation", "parallelism_config.gradient_accumulation_steps", identity=True),
    Setting("tensor parallel", "parallelism_config.tensor_model_parallel_size", essential=True, identity=True),
    Setting("pipeline parallel", "parallelism_config.pipeline_model_parallel_size", essential=True, identity=True),
    Setting("context parallel", "parallelism_config.context_parallel_size", essential=True, identity=True),
    Setting("expert parallel", "parallelism_config.expert_model_parallel_size", identity=True),
    Setting("data parallel", "parallelism_config.data_parallel_size", identity=True),
    Setting("parallelism strategy", "parallelism_config.strategy_name"),
    Setting("activation recomputation", "training_config.recomputation", essential=True, identity=True),
    Setting("attention", lambda run: text_of(run.framework_config.get("attention")), identity=True, optional=True),
    Setting("compiler", _compiler, identity=True, optional=True),
    Setting("Primus Turbo", _turbo, identity=True, optional=True),
    Setting("packing", "training_config.packing", identity=True),
    Setting("trainable parameters", "model_config.trainable_parameters", identity=True),
    Setting("optimizer", _optimizer, essential=True, identity=True),
    Setting("model shape", _shape, essential=True, forbids=True, identity=True, same=_same_shape),
    Setting("data", _data, essential=True),
    Setting("requested steps", "training_config.max_steps"),
    Setting("seed", "training_config.seed"),
    Setting("step timer scope", "timing.covers", essential=True, named=False, identity=True),
    Setting("step time across ranks", "timing.over_ranks", named=False, identity=True),
    Setting("clock", "timing.clock", named=False),
    Setting("power cap", _power_cap, named=False, optional=True),
    Setting("GPU partition", "environment.gpu_partition", named=False, optional=True),
    Setting("NUMA balancing", _numa_balancing, named=False, optional=True),
    Setting("environment variables", _environment_settings),
    Setting("container", "environment.container"),
)
"""In the order in which a reader asks for them; GPU and label are what systems are called by."""
