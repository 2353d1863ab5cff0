"""The tokens of a step, and what gives tokens/s/GPU for a mean step time, or why either is
unknown; and the rates that a source prints, which count if nothing better is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tprimat.notes import Note
from tprimat.results.fields import LONGEST_STEP, SHORTEST_STEP, known_values
from tprimat.results.run import Run
from tprimat.text import join_names

RATE_TOLERANCE = 0.05
"""How far the tokens/s that a source printed may lie from batch × sequence / step time."""

ROUNDED = 0.01
"""How far the tokens of steps may lie apart that a log states by rounded rates and times of equal
steps.
"""

PER_GPU, OF_ALL = "tokens_per_second_per_gpu", "tokens_per_second"
"""The native series of printed tokens/s, of one GPU and of all."""

PRINTED = "rate-printed"
"""The code of the note that tokens/s are printed by the source, not computed from its sizes."""

_MISLEADING = ("rate-as-printed", "rates-contradict")
"""Codes of the notes that the printed rates aren't what their labels say."""

LEAST_RATED = 0.5
"""Share of the time of the records that count below which those with a printed rate don't stand for
all of them.
"""

NO_RATE = ("rate-withheld", "no-rate", "no-rate-per-gpu", "no-times-recorded")
"""Codes of the notes on why there is no rate."""

LACKING = NO_RATE[1:3]
"""Those of the notes that the source doesn't state what a rate is computed from."""


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


def printed(run: Run, places: Sequence[int]) -> tuple[float | None, float | None]:
    """Return the printed tokens/s of one GPU and of all over the records at these places; None if
    the source prints none, or none that fits its label.

    This is tokens over time, since each rate is weighted by the time of its steps: 30 s at 8,000
    tokens/s and 10 s at 4,000 are 7,000 tokens/s.
    """
    if run.told(*_MISLEADING):
        return None, None
    one, every = (mean_of_printed(run, name, places) for name in (PER_GPU, OF_ALL))
    if gpus := run.num_gpus:
        if one is None and every is not None:
            one = every / gpus
        elif every is None and one is not None:
            every = one * gpus
    return one, every


def mean_of_printed(run: Run, name: str, places: Sequence[int]) -> float | None:
    """Return a printed rate over the records at these places, each weighted by the time of its
    steps; None if those that have it take less than LEAST_RATED of the time.
    """
    series = run.native_metrics.get(name)
    if series is None:
        return None
    if not isinstance(series, tuple):
        series = (series,) * len(run.steps)
    tokens = rated = whole = 0.0
    for place in places:
        time = (run.step_times[place] or 0.0) * run.window_steps[place]
        whole += time
        if (rate := series[place]) and rate > 0:
            rated += time
            tokens += rate * time
    if rated and rated >= LEAST_RATED * whole:
        return tokens / rated
    return None


def timed_by_rates(run: Run) -> Run | None:
    """Return the run with 1 over each printed rate in place of step times, for a source that has
    none; None if it prints no rate.

    The steps of a training do equal work, so these are in proportion to their times. They show
    where the speed settles, and the mean of the rates over them is the harmonic one: of 8,000 and
    4,000 tokens/s 5,333.
    """
    for name in (PER_GPU, OF_ALL):
        series = run.native_metrics.get(name)
        if not isinstance(series, tuple):
            continue
        times = []
        for rate in series:
            time = 1 / rate if rate else 0.0
            times.append(time if SHORTEST_STEP <= time <= LONGEST_STEP else None)
        timed = run.but(step_times=tuple(times))
        if any(times) and any(printed(timed, range(len(times)))):
            return timed
    return None


def unknown_sizes(run: Run, *, is_timed: bool) -> str:
    """Return in words what is unknown of a run, of what gives tokens/s/GPU."""
    config = run.training_config
    sizes = {
        "step time": is_timed or None,
        "global batch size": config.global_batch_size,
        "sequence length": config.sequence_length,
        "number of GPUs": run.num_gpus,
    }
    return join_names([name for name, size in sizes.items() if size is None])


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
