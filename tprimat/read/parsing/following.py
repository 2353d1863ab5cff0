"""Sizes that a source doesn't state, but that follow from the rates and times that it prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tprimat.notes import Note
from tprimat.read.parsing.values import whole_ratio
from tprimat.results.run import TrainingConfig

TIME = "step_times"
ONE, EVERY, SAMPLES = "tokens_per_second_per_gpu", "tokens_per_second", "samples_per_second"
BATCH, LENGTH, GPUS = "global_batch_size", "sequence_length", "num_gpus"


class _Rule(NamedTuple):
    """A size as the quotient of two products of values; `words` is the formula for the note."""

    size: str
    above: tuple[str, ...]
    below: tuple[str, ...]
    words: str


_RULES = (
    _Rule(GPUS, (EVERY,), (ONE,), "tokens/s / tokens/s/GPU"),
    _Rule(BATCH, (SAMPLES, TIME), (), "samples/s × step time"),
    _Rule(LENGTH, (EVERY,), (SAMPLES,), "tokens/s / samples/s"),
    _Rule(LENGTH, (EVERY, TIME), (BATCH,), "tokens/s × step time / batch"),
    _Rule(LENGTH, (ONE, TIME, GPUS), (BATCH,), "tokens/s/GPU × step time × GPUs / batch"),
    _Rule(BATCH, (EVERY, TIME), (LENGTH,), "tokens/s × step time / length"),
    _Rule(BATCH, (ONE, TIME, GPUS), (LENGTH,), "tokens/s/GPU × step time × GPUs / length"),
    _Rule(GPUS, (BATCH, LENGTH), (ONE, TIME), "batch × length / step time / tokens/s/GPU"),
)
"""Of several rules for a size the first that gives one counts; later rules use it."""

_WORDS = {BATCH: "global batch size", LENGTH: "sequence length", GPUS: "number of GPUs"}

LOOKED_AT = 50
"""Most records that are used."""

AGREEING = 0.9
"""Share of the records that must give the same number: a rate that excludes padding, or that covers
another time, gives different ones.
"""


def sizes_that_follow(
    series: Mapping[str, Any], sizes: TrainingConfig, rate: str | None, said: Iterable[str]
) -> tuple[dict[str, int], list[Note]]:
    """Return the unknown sizes that follow from printed values, by field, and a note on each.

    Each must be a whole number within the printed digits: 65,536 tokens in 0.5 s at 16,384
    tokens/s/GPU are 8 GPUs. At 15,100 they would be 8.7: the rate excludes padding, and nothing
    follows.

    Args:
        series: those of the Run, with native_metrics.
        sizes: those that the source states or the user gives.
        rate: the native rate per GPU that counts every position of a sequence; None if the rates of
            the source count other tokens, so that nothing follows from tokens/s.
        said: unknown sizes for which the source has a reason, such as a range of values.
    """
    known: dict[str, int] = {}
    for name in _WORDS:
        if value := getattr(sizes, name):
            known[name] = value
    columns = {TIME: series[TIME]}
    for name in (*((ONE, EVERY) if rate == ONE else ()), SAMPLES):
        column = series["native_metrics"].get(name)
        if isinstance(column, tuple):
            columns[name] = column
    unexplained = _WORDS.keys() - set(said)
    found = {}
    notes = []
    for rule in _RULES:
        if rule.size in known or rule.size not in unexplained:
            continue
        if value := _value(rule, columns, known):
            known[rule.size] = found[rule.size] = value
            notes.append(follows(rule.size, value, rule.words))
    return found, notes


def follows(size: str, value: int, how: str) -> Note:
    """Return the note on a size, by its field, that follows from printed values."""
    return Note("size-follows", {"size": _WORDS[size], "value": value, "how": how})


def _value(
    rule: _Rule, columns: Mapping[str, Sequence[float | None]], known: Mapping[str, int]
) -> int | None:
    """Return the number that nearly all records give (AGREEING); None if there is none, or if a
    value is missing.
    """
    factor = 1.0
    printed: list[list[Sequence[float | None]]] = []
    for names, power in ((rule.above, 1), (rule.below, -1)):
        printed.append([])
        for name in names:
            if name in columns:
                printed[-1].append(columns[name])
            elif name in known:
                factor *= known[name] ** power
            else:
                return None
    numbers = []
    # The first record includes the initialization.
    count = len(columns[TIME])
    for place in range(min(count - 1, 1), count, count // LOOKED_AT + 1):
        above, below = ([column[place] for column in side] for side in printed)
        if all((*above, *below)):
            numbers.append(whole_ratio(above, below, factor))
    if not numbers:
        return None
    ((number, times),) = Counter(numbers).most_common(1)
    return number if times >= AGREEING * len(numbers) else None
