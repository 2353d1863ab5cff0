"""The setup of somebody else's result, as wishes for a training here; and what can't be taken over."""

from __future__ import annotations

import dataclasses

from tprimat.catalog import models
from tprimat.errors import NotComparableError, UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.request import RequestedConfig
from tprimat.results.run import ModelConfig, Optimizer, Run

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


def wishes(run: Run, named: object) -> tuple[str, RequestedConfig]:
    """The model and the setup of a result.

    Args:
        run: a run of the result.
        named: the result's file, for messages.

    Raises:
        NotComparableError: the result doesn't say enough, or describes a model that can't be built.
    """
    model = _model(run, named)
    missing = [name for name in scales.SIZES if getattr(run.model_config, name) is None]
    missing += [name for name in _BATCH if getattr(run.training_config, name) is None]
    if missing:
        raise NotComparableError(
            f"{named}: can't be matched, it doesn't state {', '.join(missing)}: give these sizes as options instead "
            "(--model, --scale, --global-batch-size, --sequence-length)",
            heading="cant-match",
        )
    _check_architecture(run.model_config, run.training_config.sequence_length or 0, named)
    precision, seed = run.training_config.precision, run.training_config.seed
    return model.name, RequestedConfig(
        precision=precision,
        steps=run.training_config.max_steps,
        global_batch_size=run.training_config.global_batch_size,
        micro_batch_size=run.training_config.micro_batch_size,
        sequence_length=run.training_config.sequence_length,
        seed=seed if seed is not None and seed >= 0 else None,
        shape=run.model_config,
    )


def check_precision(run: Run, named: object, precisions: tuple[str, ...], framework: str) -> None:
    """Raises UsageError for a result in a precision that can't be had here, or that isn't stated."""
    precision = run.training_config.precision
    if precision not in precisions:
        states = f"ran in {precision}, which {framework} doesn't train in" if precision else "states no precision"
        raise UsageError(f"{named}: {states}: choose one with --precision {'|'.join(precisions)}", heading="cant-match")


def divided(wished: RequestedConfig, run: Run) -> RequestedConfig:
    """RequestedConfig with how the result's model was divided over GPUs; None where it isn't stated."""
    theirs = run.parallelism_config
    return dataclasses.replace(
        wished,
        tensor_model_parallel_size=theirs.tensor_model_parallel_size,
        pipeline_model_parallel_size=theirs.pipeline_model_parallel_size,
        context_parallel_size=theirs.context_parallel_size,
    )


def differences(
    run: Run,
    num_gpus: int,
    ours: Optimizer,
    data_kind: str,
    *,
    framework: str = "lightning",
    divides: bool = False,
) -> tuple[str, ...]:
    """What a training here will not have in common with the result, one sentence each.

    Args:
        run: the result that is matched.
        num_gpus: processes that will train here.
        ours: the optimizer here.
        data_kind: what will be trained on here.
        framework: what will train here.
        divides: whether it takes over how the model was divided.
    """
    said = []
    if run.framework is not None and run.framework != framework:
        said.append(f"it was trained with {run.framework}, and here with {framework}")
    if divides:
        unknown = [word for field, word in _DIVISIONS.items() if getattr(run.parallelism_config, field) is None]
        if unknown:
            said.append(f"it doesn't state its {', '.join(unknown)} parallelism: the defaults here are kept")
    if run.num_gpus is not None and run.num_gpus != num_gpus:
        said.append(f"{run.num_gpus} processes trained there, {num_gpus} here: the global batch is the same")
    seed = run.training_config.seed
    if seed is not None and seed < 0:
        said.append(f"seed {seed} there: here seeds are 0 or more")
    said += [
        f"{word} parallelism of {size}: here there is data parallelism only"
        for field, word in _DIVISIONS.items()
        if (size := getattr(run.parallelism_config, field)) is not None and size > 1 and not divides
    ]
    if run.training_config.recomputation not in (None, "none"):
        said.append(f"{run.training_config.recomputation} recomputation of activations: here there is none")
    said += [
        f"optimizer: {field.replace('_', ' ')} {theirs} there, {getattr(ours, field)} here"
        for field, theirs in run.optimizer.known().items()
        if _plain(theirs) != _plain(getattr(ours, field))
    ]
    if run.data.kind is not None and run.data.kind != data_kind:
        said.append(f"it was trained on {run.data.kind}, and here on {data_kind} tokens: losses can't be compared")
    return tuple(said)


def _model(run: Run, named: object) -> models.Model:
    known = next((model for model in models.MODELS if model.name == run.model), None)
    known = known or models.with_shape(run.model_config) or models.recognize(run.model or "")
    if known is None:
        raise NotComparableError(
            f"{named}: can't be matched, {run.model or 'its model, which it does not name,'} is none of "
            f"{', '.join(models.names())}",
            heading="cant-match",
        )
    return known


def _check_architecture(config: ModelConfig, sequence_length: int, named: object) -> None:
    other = next((text for field, text in _OTHER_ARCHITECTURES.items() if getattr(config, field, None)), None)
    if config.gated_ffn is False:
        other = "a feed-forward part without gate"
    if config.sliding_window is not None and config.sliding_window < sequence_length:
        other = f"attention over a window of {config.sliding_window} tokens"
    if other is not None:
        raise NotComparableError(
            f"{named}: can't be matched, it has {other}, which lightning doesn't train here", heading="cant-match"
        )


def _plain(value: object) -> object:
    return value.lower() if isinstance(value, str) else value
