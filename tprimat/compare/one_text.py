"""Trainings in one text that doesn't name a model: whether their steps do the same work, as far as
the text tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tprimat.compare.figures import in_unit
from tprimat.compare.result import RATE, SystemResult
from tprimat.notes import Note
from tprimat.results.run import Run
from tprimat.settings.rows import LEDGER

UNLIKE_TOKENS = 0.01
"""Relative difference of the mean tokens per step, computed from printed rates, above which two
systems differ.
"""

COMMON_LOSSES, LEAST_DIFFERENT = 10, 5
"""How many of the first losses that two runs print at the same steps are compared, and how many
different values they must have, to tell that both runs trained the same model.
"""

TOTAL_FLOPS = "total_flos"
"""The native value of the FLOPs of a whole training, as its source counts them."""

TOKENS = "tokens per step"
"""Title of the work of a step, as stated or as computed from a printed rate, which is rounded."""


_PARTS = next(row for row in LEDGER if row.title == "micro-batch")


def in_steps(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return the systems, with rates in steps/s if their models are unnamed and all were read from
    one text.

    A user who pastes two trainings below two headings, such as `bf16` and `fp8`, wants to compare
    their step times. They are compared if everything that the text states about the work of a step
    is equal. Trainings from two files aren't, since their models may differ, unless both print the
    FLOPs of their steps: 1.2e16 in 180 steps, twice.
    """
    if len(systems) < 2 or not all(is_unnamed(system.run) for system in systems):
        return list(systems)
    first, *others = systems
    is_one_model = are_of_one(systems) or all(_count_alike(first, other) for other in others)
    if is_one_model and not any(unlike_steps(first, other) for other in others):
        return [in_unit(system, "steps") for system in systems]
    return list(systems)


def is_unnamed(run: Run) -> bool:
    """Return whether nothing tells which model a run trained: neither a name nor a shape."""
    return run.model is None and run.model_config.num_layers is None


def began_alike(one: Run, other: Run) -> bool:
    """Return whether the first losses of two runs are equal as printed."""
    others = dict(zip(other.steps, other.loss_values, strict=True))
    both = []
    for step, loss in zip(one.steps, one.loss_values, strict=True):
        if loss is not None and others.get(step) is not None:
            both.append((loss, others[step]))
    first = both[:COMMON_LOSSES]
    different = {loss for loss, _ in first}
    return len(different) >= LEAST_DIFFERENT and all(loss == again for loss, again in first)


def _count_alike(one: SystemResult, other: SystemResult) -> bool:
    """Return whether two systems count the same FLOPs for a step, as Hugging Face's Trainer does."""
    return _are_close(_flops_per_step(one.run), _flops_per_step(other.run))


def _flops_per_step(run: Run) -> float | None:
    total = run.native_metrics.get(TOTAL_FLOPS)
    if isinstance(total, float) and total > 0 and run.steps:
        return total / run.steps[-1]
    return None


def are_of_one(systems: Sequence[SystemResult]) -> bool:
    """Return whether all runs of systems were read from one file, by one framework's reader."""
    texts = set()
    for run in (result.run for system in systems for result in system.runs):
        files = run.source.files if run.source else ()
        if len(files) != 1 or files[0].sha256 is None:
            return False
        texts.add((files[0].sha256, run.framework))
    return len(texts) == 1


def unlike_steps(one: SystemResult, other: SystemResult) -> Note | None:
    """Return a note on the first difference in the stated work of the steps of two systems; None
    without one.
    """
    for (title, value), (_, others) in zip(_work(one), _work(other), strict=True):
        rounded = title.startswith(TOKENS)
        if value != others and not (rounded and _are_close(value, others)):
            both = {"first": _shown(value), "second": _shown(others)}
            return Note("workload-differs", {"what": title, **both})
    return None


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _work(system: SystemResult) -> Iterator[tuple[str, float | None]]:
    """Yield the title and value of each quantity that tells the work of a step; None if unknown."""
    run, config = system.run, system.run.training_config
    yield "global batch", config.global_batch_size
    # A global batch can be cut into micro-batches of any size: the work is the same.
    yield _PARTS.title, None if config.global_batch_size else _PARTS.of(run)
    yield "sequence length", config.sequence_length
    yield "GPUs", run.num_gpus
    yield TOKENS, run.tokens_per_step or logged_tokens(system)
    yield f"{TOKENS} and GPU", logged_tokens(system, RATE)


def logged_tokens(system: SystemResult, metric: str = "tokens_per_second") -> float | None:
    """Return the mean tokens of a step by the rate that a log prints; None if it prints none."""
    rate, time = (system.values.get(name) for name in (metric, "avg_step_time_seconds"))
    return rate.value * time.value if rate and time else None


def _are_close(one: float | None, other: float | None) -> bool:
    """Return whether two values are equal but for rounding: 131,072 tokens a step and 131,100."""
    if one is None or other is None:
        return False
    return max(one, other) / min(one, other) - 1 <= UNLIKE_TOKENS
