"""The tokens of a step, and what gives tokens/s/GPU for a mean step time, or why either is
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tprimat.notes import Note
from tprimat.results.fields import known_values
from tprimat.results.run import Run

RATE_TOLERANCE = 0.05
"""How far the tokens/s that a source printed may lie from batch × sequence / step time."""

ROUNDED = 0.01
"""How far the tokens of steps may lie apart that a log states by rounded rates and times of equal
steps.
"""

NO_RATE = ("rate-withheld", "no-rate", "no-rate-per-gpu", "no-times-recorded")
"""Codes of the notes on why there is no rate."""


def of(
    run: Run, logged: float | None = None
) -> tuple[float | None, Callable[[float], float | None], list[Note]]:
    """Return the tokens of a step, what gives tokens/s/GPU for a mean step time, s, and why either
    is unknown.

    logged: the mean tokens of a step, of a run whose steps differ in them.
    """
    tokens: float | None = logged
    notes: list[Note] = []
    if not logged:
        tokens, notes = _tokens_per_step(run)
    gpus = run.num_gpus
    if tokens and not gpus:
        notes.append(Note("no-rate-per-gpu"))
    return tokens, lambda mean: tokens / mean / gpus if tokens and gpus else None, notes


def logged(run: Run, indices: Sequence[int]) -> list[float]:
    """Return the tokens that the log states for these records, if they don't follow from a batch;
    empty if any is unknown.
    """
    logged = run.native_metrics.get("tokens_per_step")
    if run.tokens_per_step is not None or logged is None:
        return []
    if not isinstance(logged, tuple):
        return [logged] * len(indices)
    counts = []
    for index in indices:
        if (each := logged[index]) is not None and each > 0:
            counts.append(each)
    if len(counts) == len(indices):
        return counts
    return []


def _tokens_per_step(run: Run) -> tuple[int | None, list[Note]]:
    """Return the tokens of a step that a rate may be computed with, or None with the reason."""
    tokens = run.tokens_per_step
    if tokens is None:
        config = run.training_config
        sizes = {
            "global batch size": config.global_batch_size,
            "sequence length": config.sequence_length,
        }
        unknown = " and ".join(name for name, size in sizes.items() if size is None)
        return None, [Note("no-rate", {"unknown": unknown})]
    printed = run.native_metrics.get("tokens_per_second")
    all_after_first = known_values(run.step_times[1:])
    if isinstance(printed, (int, float)) and all_after_first:
        # Older results print a rate over all steps after the first, so that is what it is compared
        # with.
        stated = tokens * len(all_after_first) / sum(all_after_first)
        # Fewer tokens are printed if padding isn't counted.
        if printed / stated - 1 > RATE_TOLERANCE:
            sizes = {
                "batch": run.training_config.global_batch_size,
                "length": run.training_config.sequence_length,
            }
            times = printed / stated
            return None, [Note("rate-withheld", {"printed": printed, "times": times, **sizes})]
    return tokens, []
