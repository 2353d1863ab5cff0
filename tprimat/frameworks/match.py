"""The setup of a result as the request for a training here (--match), and what can't be matched."""

from __future__ import annotations

from tprimat.catalog import models
from tprimat.errors import NotComparableError, UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import building
from tprimat.frameworks.request import RequestedConfig
from tprimat.results.run import ModelConfig, Run

_BATCH = ("global_batch_size", "sequence_length")
_OTHER_ARCHITECTURES = {
    "num_experts": "a mixture of experts",
    "key_value_lora_rank": "latent attention",
}
_DIVISIONS = {
    "tensor_model_parallel_size": "tensor",
    "pipeline_model_parallel_size": "pipeline",
    "context_parallel_size": "context",
    "expert_model_parallel_size": "expert",
}


def requested_config(run: Run, named: object, framework: Framework) -> tuple[str, RequestedConfig]:
    """Return the model and the setup of a result, as the request for a training here.

    `named` is the result's file, for messages. How the model was divided is matched where the framework can.
    Raises NotComparableError where the result doesn't state enough, or describes a model that can't be built.
    """
    model = _model(run, named)
    training, division = run.training_config, run.parallelism_config
    missing = [name for name in scales.SIZES if getattr(run.model_config, name) is None]
    missing += [name for name in _BATCH if getattr(training, name) is None]
    if missing:
        raise _unmatched(
            named,
            f"it doesn't state {', '.join(missing)}: give these sizes as options instead (--model, --scale, "
            "--global-batch-size, --sequence-length)",
        )
    _check_architecture(run.model_config, training.sequence_length or 0, named, framework)
    divisions = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    return model.name, RequestedConfig(
        precision=training.precision,
        steps=training.max_steps,
        global_batch_size=training.global_batch_size,
        micro_batch_size=training.micro_batch_size,
        sequence_length=training.sequence_length,
        seed=training.seed if training.seed is not None and training.seed >= 0 else None,
        shape=run.model_config,
        **{name: getattr(division, name) for name in divisions if framework.divides},
    )


def check_precision(run: Run, named: object, framework: Framework) -> None:
    """Raise UsageError for a result in a precision that the framework doesn't train in, or that isn't stated."""
    precision, known = run.training_config.precision, framework.precisions
    if precision not in known:
        states = f"ran in {precision}, which {framework.name} doesn't train in" if precision else "states no precision"
        raise UsageError(f"{named}: {states}: choose one with --precision {'|'.join(known)}", heading="cant-match")


def differences(run: Run, framework: Framework, num_gpus: int, data_kind: str | None = None) -> tuple[str, ...]:
    """Return what a training here will not have in common with the result, one sentence each.

    `num_gpus` processes will train here, on data of a kind; None for the framework's own.
    """
    notes = []
    divisions = {word: getattr(run.parallelism_config, field) for field, word in _DIVISIONS.items()}
    if run.framework is not None and run.framework != framework.name:
        notes.append(f"it was trained with {run.framework}, and here with {framework.name}")
    unknown = [word for word, size in divisions.items() if size is None]
    if framework.divides and unknown:
        notes.append(f"it doesn't state its {', '.join(unknown)} parallelism: the defaults here are kept")
    if run.num_gpus is not None and run.num_gpus != num_gpus:
        notes.append(f"{run.num_gpus} processes trained there, {num_gpus} here: the global batch is the same")
    seed = run.training_config.seed
    if seed is not None and seed < 0:
        notes.append(f"seed {seed} there: here seeds are 0 or more")
    if not framework.divides:
        notes += [
            f"{word} parallelism of {size}: here there is data parallelism only"
            for word, size in divisions.items()
            if (size or 1) > 1
        ]
    if run.training_config.recomputation not in (None, "none"):
        notes.append(f"{run.training_config.recomputation} recomputation of activations: here there is none")
    own = building.hyperparameters(run.model_config) if framework.name == "lightning" else run.optimizer
    notes += [
        f"optimizer: {field.replace('_', ' ')} {value} there, {getattr(own, field)} here"
        for field, value in run.optimizer.known().items()
        if _plain(value) != _plain(getattr(own, field))
    ]
    data_kind = data_kind or framework.data
    if run.data.kind is not None and run.data.kind != data_kind:
        notes.append(f"it was trained on {run.data.kind}, and here on {data_kind} tokens: losses can't be compared")
    return tuple(notes)


def _model(run: Run, named: object) -> models.Model:
    known = models.find(run.model) or models.with_shape(run.model_config) or models.recognize(run.model or "")
    if known is None:
        what = run.model or "its model, which it does not name,"
        raise _unmatched(named, f"{what} is none of {', '.join(models.names())}")
    return known


def _check_architecture(config: ModelConfig, sequence_length: int, named: object, framework: Framework) -> None:
    other = next((text for field, text in _OTHER_ARCHITECTURES.items() if getattr(config, field, None)), None)
    if config.gated_ffn is False:
        other = "a feed-forward part without gate"
    if config.sliding_window is not None and config.sliding_window < sequence_length:
        other = f"attention over a window of {config.sliding_window} tokens"
    if other is not None:
        raise _unmatched(named, f"it has {other}, which {framework.name} doesn't train here")


def _unmatched(named: object, problem: str) -> NotComparableError:
    return NotComparableError(f"{named}: can't be matched, {problem}", heading="cant-match")


def _plain(value: object) -> object:
    return value.lower() if isinstance(value, str) else value
