"""A configuration of Primus compared with a result: the differences, and the overrides that give it
the result's setup.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from tprimat.errors import UsageError
from tprimat.frameworks.match import spelled
from tprimat.frameworks.primus.config import Configuration, setup
from tprimat.results.run import Run

_SETTINGS = (
    ("model", "model", None),
    ("global batch size", "training_config.global_batch_size", "global_batch_size"),
    ("micro-batch size", "training_config.micro_batch_size", "micro_batch_size"),
    ("sequence length", "training_config.sequence_length", "seq_length"),
    ("steps", None, "train_iters"),
    ("GPUs", "num_gpus", None),
    ("precision", "training_config.precision", None),
    ("recomputation", "training_config.recomputation", None),
    (
        "tensor parallel",
        "parallelism_config.tensor_model_parallel_size",
        "tensor_model_parallel_size",
    ),
    (
        "pipeline parallel",
        "parallelism_config.pipeline_model_parallel_size",
        "pipeline_model_parallel_size",
    ),
    ("context parallel", "parallelism_config.context_parallel_size", "context_parallel_size"),
    (
        "expert parallel",
        "parallelism_config.expert_model_parallel_size",
        "expert_model_parallel_size",
    ),
    ("bf16", None, "bf16"),
    ("fp8", None, "fp8"),
    ("fp8 recipe", None, "fp8_recipe"),
    ("recomputation", None, "recompute_granularity"),
    ("recomputed layers", None, "recompute_num_layers"),
    ("optimizer", "optimizer.name", "optimizer"),
    ("learning rate", None, "lr"),
    ("made-up data", None, "mock_data"),
    ("tokenizer", None, "tokenizer_model"),
    ("log level", None, "stderr_sink_level"),
    ("log interval", None, "log_interval"),
)
"""What a person asks of a configuration: a title, the field of a result that is compared, and
Primus' parameter.
"""

SHOWN = tuple((title, name) for title, _, name in _SETTINGS if name)
_MATCHED = tuple(
    (field, name) for _, field, name in _SETTINGS if field and name and field != "optimizer.name"
)

# Python's spelling: a version of Primus before 2026 takes "none" and "false" for words.
PRECISION_ARGUMENTS = {
    "bf16": ("--bf16", "True", "--fp16", "False", "--fp8", "None"),
    "fp16": ("--bf16", "False", "--fp16", "True", "--fp8", "None"),
    "fp8": ("--fp8", "hybrid"),
}
"""What makes a configuration train in a precision. MXFP8 and MXFP4 take a configuration of their
own.
"""

_RECOMPUTATION = {
    "none": (
        "--recompute_granularity",
        "None",
        "--recompute_method",
        "None",
        "--recompute_num_layers",
        "None",
    ),
    "selective": ("--recompute_granularity", "selective"),
    "full": (
        "--recompute_granularity",
        "full",
        "--recompute_method",
        "uniform",
        "--recompute_num_layers",
        "1",
    ),
}


def differences(configured: Run, reference: Run) -> Iterator[tuple[str, object, object]]:
    """Yield settings that differ, or that the result doesn't state: title, here, there."""
    for title, field, _ in _SETTINGS:
        here, there = (attrgetter(field)(run) if field else None for run in (configured, reference))
        if here != there and (title != "optimizer" or spelled(here) != spelled(there)):
            yield title, here, there


def arguments(
    run: Run, configuration: Configuration, num_gpus: int, named: object
) -> tuple[list[str], list[str]]:
    """Return overrides that give a training the setup of a result, and what can't be taken over, a
    sentence each.

    Without them the configuration would be trained; `named` is the result's file, for messages.
    Raises UsageError for a result of another model.
    """
    own = setup(configuration, num_gpus)
    if run.model is not None and own.model is not None and run.model != own.model:
        raise UsageError(
            f"{named} is for {run.model}, the configuration {configuration.path.name} for"
            f" {own.model}",
            hint="choose a result of the same model",
            heading="cant-match",
        )
    sizes = {name: attrgetter(field)(run) for field, name in _MATCHED}
    unknown = [field.partition(".")[2] for field, name in _MATCHED if sizes[name] is None]
    words = configuration.arguments_for(sizes)
    notes = []
    configured = own.training_config
    reference = run.training_config
    if reference.precision is None:
        notes.append("it doesn't state its precision: Primus' own is kept")
    elif reference.precision != configured.precision:
        words += PRECISION_ARGUMENTS.get(reference.precision, ())
        if reference.precision not in PRECISION_ARGUMENTS:
            notes.append(
                f"it ran in {reference.precision}, which needs a configuration of its own"
                f" (PRIMUS_CONFIG): {configured.precision} is kept"
            )
    if reference.recomputation not in _RECOMPUTATION:
        unknown.append("recomputation")
    elif reference.recomputation != configured.recomputation:
        words += _RECOMPUTATION[reference.recomputation]
    if unknown:
        notes.append(f"it doesn't state {', '.join(unknown)}: Primus' own are kept")
    if run.num_gpus is not None and run.num_gpus != num_gpus:
        notes.append(
            f"{run.num_gpus} GPUs trained there, {num_gpus} here: the global batch is the same"
        )
    return words, [f"{named}: {note}" for note in notes]
