"""The setup of a result as overrides for Primus, and what can't be matched."""

from __future__ import annotations

from tprimat.errors import UsageError
from tprimat.frameworks.primus.config import Configuration, setup
from tprimat.results.run import Run

_NUMBERS = (
    ("training_config", "global_batch_size", "global_batch_size"),
    ("training_config", "micro_batch_size", "micro_batch_size"),
    ("training_config", "sequence_length", "seq_length"),
    ("parallelism_config", "tensor_model_parallel_size", "tensor_model_parallel_size"),
    ("parallelism_config", "pipeline_model_parallel_size", "pipeline_model_parallel_size"),
    ("parallelism_config", "context_parallel_size", "context_parallel_size"),
    ("parallelism_config", "expert_model_parallel_size", "expert_model_parallel_size"),
)
"""Part of a result, its field, and Primus' parameter."""

# Python's spelling: a version of Primus before 2026 takes "none" and "false" for words.
PRECISION_ARGUMENTS = {
    "bf16": ("--bf16", "True", "--fp16", "False", "--fp8", "None"),
    "fp16": ("--bf16", "False", "--fp16", "True", "--fp8", "None"),
    "fp8": ("--fp8", "hybrid"),
}
"""What makes a configuration train in a precision. MXFP8 and MXFP4 take a configuration of their own."""

_RECOMPUTATION = {
    "none": ("--recompute_granularity", "None", "--recompute_method", "None", "--recompute_num_layers", "None"),
    "selective": ("--recompute_granularity", "selective"),
    "full": ("--recompute_granularity", "full", "--recompute_method", "uniform", "--recompute_num_layers", "1"),
}


def arguments(
    run: Run, configuration: Configuration, num_gpus: int, named: object
) -> tuple[tuple[str, ...], list[str]]:
    """Return overrides that give a training the setup of a result.

    Args:
        run: a run of the result.
        configuration: what would be trained without them.
        num_gpus: processes that will train.
        named: the result's file, for messages.

    Returns:
        The command line's words, and what can't be taken over, one sentence each.

    Raises:
        UsageError: the result is of another model.
    """
    own = setup(configuration, num_gpus)
    if run.model is not None and own.model is not None and run.model != own.model:
        raise UsageError(
            f"{named} is a result of {run.model}, and the configuration {configuration.path.name} of {own.model}: "
            "name a result of the same model",
            heading="cant-match",
        )
    words: list[str] = []
    unknown: list[str] = []
    for part, field, name in _NUMBERS:
        reference = getattr(getattr(run, part), field)
        if reference is None:
            unknown.append(field)
        elif reference != configuration.value(name):
            words += [f"--{name}", str(reference)]
    length = run.training_config.sequence_length
    positions = configuration.count("max_position_embeddings")
    if length is not None and positions is not None and positions < length:
        words += ["--max_position_embeddings", str(length)]
    more, notes = _precision(run, own.training_config.precision)
    words += more
    recomputation = run.training_config.recomputation
    if recomputation in _RECOMPUTATION:
        words += _RECOMPUTATION[recomputation] if recomputation != own.training_config.recomputation else ()
    else:
        unknown.append("recomputation")
    if unknown:
        notes.append(f"it doesn't state {', '.join(unknown)}: Primus' own are kept")
    if run.num_gpus is not None and run.num_gpus != num_gpus:
        notes.append(f"{run.num_gpus} GPUs trained there, {num_gpus} here: the global batch is the same")
    return tuple(words), [f"{named}: {note}" for note in notes]


def _precision(run: Run, own: str | None) -> tuple[tuple[str, ...], list[str]]:
    precision = run.training_config.precision
    if precision is None:
        return (), ["it doesn't state its precision: Primus' own is kept"]
    if precision == own:
        return (), []
    if precision in PRECISION_ARGUMENTS:
        return PRECISION_ARGUMENTS[precision], []
    return (), [f"it ran in {precision}, which needs a configuration of its own (PRIMUS_CONFIG): {own} is kept"]
