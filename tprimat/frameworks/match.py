"""The setup of a result as the request for a training here (--match), and what can't be matched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tprimat.catalog import models
from tprimat.catalog.models import Model
from tprimat.errors import NotComparableError, UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import BUILT_IN_CHOICES, RequestedConfig
from tprimat.results.run import Run
from tprimat.settings import Setting
from tprimat.settings.rows import DIVISION, SETTINGS, SIZES

_MATCHED = tuple(setting for setting in SETTINGS if setting.matched)

_OTHER_ARCHITECTURES = {
    "num_experts": "a mixture of experts",
    "key_value_lora_rank": "latent attention",
}


def requested_config(run: Run, named: object, framework: Framework) -> tuple[str, RequestedConfig]:
    """Return the model and the setup of a result, as the request for a training here.

    `named` is the result's file, for messages. How the model was divided is matched if the
    framework can. Raises NotComparableError if the result doesn't state enough, or describes a
    model that can't be built.
    """
    model = (
        models.find(run.model)
        or models.with_shape(run.model_config)
        or models.recognize(run.model or "")
    )
    problem = _problem(run, model, framework)
    if model is None or problem:
        raise NotComparableError(f"{named}: cannot be matched, {problem}", heading="cant-match")
    eager = run.framework_config.get("torch_compile") is False or None
    taken = {setting.request: _taken(setting, run, framework) for setting in _MATCHED}
    return model.name, RequestedConfig(
        shape=run.model_config, eager=eager, origins=dict.fromkeys(taken, str(named)), **taken
    )


def _taken(setting: Setting, run: Run, framework: Framework) -> Any:
    """Return a setting of a result as a training here can have it; None if it is unknown or
    can't.
    """
    value = setting.of(run)
    if setting.request in DIVISION:
        if framework.division != "none":
            return value
        return None
    if setting.request in BUILT_IN_CHOICES:
        if _takes(setting.request, value, framework):
            return value
        return None
    if setting.request == "seed" and value is not None and value < 0:
        return None
    return value


def _takes(name: str, value: object, framework: Framework) -> bool:
    return framework.embedded and value in BUILT_IN_CHOICES[name]


def _problem(run: Run, model: Model | None, framework: Framework) -> str | None:
    shape = run.model_config
    if model is None or model.name not in models.names():
        return (
            f"{run.model or 'its model, which it does not name,'} is not one of"
            f" {', '.join(models.names())}"
        )
    missing = [name for name in SIZES if getattr(shape, name) is None]
    for name in ("global_batch_size", "sequence_length"):
        if getattr(run.training_config, name) is None:
            missing.append(name)
    if missing:
        return (
            f"it lacks {', '.join(missing)}: set --model, --scale, --global-batch-size and"
            " --sequence-length instead of --match"
        )
    other = next(
        (text for field, text in _OTHER_ARCHITECTURES.items() if getattr(shape, field)), None
    )
    if shape.gated_ffn is False:
        other = "a feed-forward part without gate"
    if shape.sliding_window is not None and shape.sliding_window < (
        run.training_config.sequence_length or 0
    ):
        other = f"attention over a window of {shape.sliding_window} tokens"
    return other and f"it has {other}, which {framework.name} doesn't train here"


def check_precision(run: Run, named: object, framework: Framework) -> None:
    """Raise UsageError for a result in a precision that the framework doesn't train in, or that
    isn't stated.
    """
    precision = run.training_config.precision
    if precision not in framework.precisions:
        if precision:
            states = f"ran in {precision}, which {framework.name} doesn't train in"
        else:
            states = "states no precision"
        raise UsageError(
            f"{named}: {states}",
            hint=f"choose one with --precision {'|'.join(framework.precisions)}",
            heading="cant-match",
        )


def differences(
    run: Run, framework: Framework, num_gpus: int, data_kind: str | None = None
) -> Iterator[str]:
    """Yield the differences of a training here from the result, one sentence each.

    `num_gpus` processes will train here, on data of a kind; None for the framework's own.
    """
    if run.framework is not None and run.framework != framework.name:
        yield f"it was trained with {run.framework}, and here with {framework.name}"
    fields = (*DIVISION, "expert_model_parallel_size")
    sizes = {name.partition("_")[0]: getattr(run.parallelism_config, name) for name in fields}
    unknown = [kind for kind, size in sizes.items() if size is None]
    if framework.division != "none" and unknown:
        yield f"it doesn't state its {', '.join(unknown)} parallelism: the defaults are used"
    if run.num_gpus is not None and run.num_gpus != num_gpus:
        yield (
            f"{run.num_gpus} processes in the result, {num_gpus} here; the global batch is"
            " unchanged"
        )
    seed = run.training_config.seed
    recomputation = run.training_config.recomputation
    if seed is not None and seed < 0:
        yield f"seed {seed} there: here seeds are 0 or more"
    for kind, size in sizes.items():
        if framework.division == "none" and (size or 1) > 1:
            yield f"{kind} parallelism of {size}: here there is data parallelism only"
    if _takes("recomputation", recomputation, framework):
        own_recomputation = recomputation
    else:
        own_recomputation = framework.recomputes
    if None not in (recomputation, own_recomputation) and recomputation != own_recomputation:
        yield f"recomputation of activations: {recomputation} there, {own_recomputation} here"
    attention = run.framework_config.get("attention")
    if attention is not None and not _takes("attention", attention, framework):
        yield f"{attention} attention there: {framework.name}'s own is kept"
    if framework.recomputes is None:
        own = run.optimizer
    else:
        own = recipe.hyperparameters(run.model_config)
    for field, there in run.optimizer.known().items():
        here = getattr(own, field)
        if here != there and spelled(here) != spelled(there):
            yield f"optimizer: {field.replace('_', ' ')} {there} there, {here} here"
    data_kind = data_kind or framework.data
    if run.data.kind is not None and run.data.kind != data_kind:
        yield (
            f"it was trained on {run.data.kind}, and here on {data_kind} tokens: losses cannot be"
            " compared"
        )


def spelled(value: object) -> str:
    """Return a setting of an optimizer as it is compared: Megatron's "adam" is AdamW, with
    decoupled weight decay.
    """
    return re.sub("^adam$", "adamw", str(value).lower())
