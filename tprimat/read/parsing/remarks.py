"""Warnings on values that the records of a training lack, and on contradictory values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tprimat.notes import Note
from tprimat.read.parsing import hints
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.values import LoggedValues
from tprimat.results.fields import FieldValues
from tprimat.results.run import TrainingConfig

RATE_AGREEMENT = 0.01
"""Share by which a printed rate may differ from the rate that follows from the other values."""


def warnings_of(training: LoggedTraining) -> list[Note]:
    """Return warnings on values that the records lack, by step."""
    records = training.ordered()
    warnings = [*training.warnings, *training.many_restarts(), *training.conflicts]

    def warn(code: str, those: Iterable[Record]) -> None:
        if where := spans((record.step, record.step) for record in those):
            warnings.append(Note(code, {"steps": where}))

    bad_norms = [record for record in records if "grad_norm" in record.not_finite]
    warn("grad-norms-not-finite", bad_norms)
    warnings += _varying_tokens(records)
    without_loss = [record for record in records if record.loss is None]
    if len(without_loss) < len(records):
        unprinted = [record for record in without_loss if "loss" not in record.not_finite]
        warn("loss-unprinted", unprinted)
    without_time = [record for record in records if record.seconds is None]
    if len(without_time) < len(records):
        warn("time-unprinted", without_time)
    warnings += unread_labels(name for record in records for name in record.unread)
    return warnings + missing(
        [record.step for record in records], [record.window or 1 for record in records]
    )


class Health(NamedTuple):
    """What the record of a step shows about whether it trained.

    Attributes:
        loss: whether it is a number; None if none is printed.
        grad_norm: as loss.
        is_skipped: whether the optimizer skipped most of the steps of the record.
    """

    step: int
    loss: bool | None
    grad_norm: bool | None
    is_skipped: bool = False


def is_finite(value: float | None, is_bad: bool) -> bool | None:
    """Return whether a printed value is a number, given whether it was NaN or infinite; None if
    none is printed.
    """
    if is_bad:
        return False
    if value is None:
        return None
    return True


SEVERAL = 5
"""Least steps in a row: with FP16 a loss scale that is too large is halved, at one or two steps, or
at the first three of a log, each of which is skipped and has a gradient norm that is infinite.
"""


def diverged(steps: Sequence[Health], *, prints_each_loss: bool) -> tuple[Note, ...]:
    """Return notes on steps that trained nothing, of records in order; empty if there are none.

    A gradient norm that is no number, or a skipped step, is reported if most steps have it or the
    last ones.
    """
    untrained = {"loss-not-finite": [step.step for step in steps if step.loss is False]}
    untrained["loss-vanished"] = _without_loss(steps, is_each=prints_each_loss)
    norms = [(step.step, not step.grad_norm) for step in steps if step.grad_norm is not None]
    untrained["grad-norm-not-finite"] = _mostly_or_last(norms)
    untrained["steps-skipped"] = _mostly_or_last([(step.step, step.is_skipped) for step in steps])
    notes = []
    for code, numbers in untrained.items():
        if numbers:
            where = spans((number, number) for number in numbers)
            notes.append(Note(code, {"steps": where, "first": numbers[0], "last": numbers[-1]}))
    return tuple(notes)


def _mostly_or_last(flags: Sequence[tuple[int, bool]]) -> list[int]:
    """Return the steps with a flag: all if most have it, else those at the end; none if they are
    less than SEVERAL.
    """
    flagged = [step for step, is_set in flags if is_set]
    if 2 * len(flagged) <= len(flags):
        last = itertools.takewhile(lambda pair: pair[1], reversed(flags))
        flagged = sorted(step for step, _ in last)
    if flagged and flagged[-1] - flagged[0] >= SEVERAL - 1:
        return flagged
    return []


def _without_loss(steps: Sequence[Health], *, is_each: bool) -> list[int]:
    """Return the steps at the end without a loss, if they are at least SEVERAL, and twice as many
    as ever lay between two losses.

    Megatron prints a loss if it is above 0, and NaN isn't. Others print it every tenth step, so
    that a log that ends at step 29 has none for nine steps: 20 steps without one are too many.
    """
    with_loss = [step.step for step in steps if step.loss is not None]
    if not with_loss or (len(with_loss) < 2 and not is_each):
        return []
    silent = [step.step for step in steps if step.step > with_loss[-1]]
    if not silent:
        return []
    apart = [later - step for step, later in itertools.pairwise(with_loss)]
    longest = max(apart, default=silent[0] - with_loss[-1])
    if silent[-1] - with_loss[-1] >= max(SEVERAL, 2 * longest):
        return silent
    return []


def hinted(found: LoggedValues) -> Iterator[Note]:
    """Yield the notes on the hints of hints.LINES, except versions."""
    for name, code in hints.NOTES.items():
        if hint := found.get(name):
            yield Note(code, {"line": hint.line, "value": hint.value})


def no_step_times(why: str, but: str = "") -> Note:
    """Return the note that a source has no step times, and what it has instead."""
    return Note("no-step-times", {"why": why, "but": but})


def missing(
    steps: Sequence[int], windows: Sequence[int], noun: str = "step", code: str = "records-missing"
) -> list[Note]:
    """Return warnings if a log begins late, and of the steps between two records that neither
    covers.
    """
    warnings: list[Note] = []
    if steps and steps[0] > max(1, windows[0]):
        warnings.append(Note("log-begins-late", {"noun": noun, "step": steps[0]}))
    gaps = []
    for before, step, window in zip(steps, steps[1:], windows[1:], strict=False):
        if step - window > before:
            gaps.append((before + 1, step - window))
    if where := spans(gaps, noun):
        warnings.append(Note(code, {"steps": where}))
    return warnings


MOST_UNREAD = 8
"""Labels that are named one by one."""


def unread_labels(names: Iterable[str]) -> list[Note]:
    """Return a warning that names the labels of step lines whose numbers were not read; nothing for
    none.
    """
    labels = list(dict.fromkeys(names))
    if not labels:
        return []
    shown = labels[:MOST_UNREAD]
    if len(labels) > MOST_UNREAD:
        shown.append("…")
    return [Note("labels-unread", {"count": len(labels), "labels": ", ".join(shown)})]


MOST_SPANS = 12
"""Stretches of steps that are named one by one."""


def spans(stretches: Iterable[tuple[int, int]], noun: str = "step") -> str:
    """Return steps for people, “step 3” or “steps 1–3, 7”, from first and last of each stretch;
    empty for none.
    """
    joined: list[tuple[int, int]] = []
    for first, last in stretches:
        if joined and first == joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    if not joined:
        return ""
    words = []
    for first, last in joined[:MOST_SPANS]:
        words.append(f"{first}–{last}" if last > first else f"{first}")
    if len(joined) > MOST_SPANS:
        words.append(f"and {len(joined) - MOST_SPANS} more")
    is_one = len(joined) == 1 and joined[0][0] == joined[0][1]
    return f"{noun if is_one else noun + 's'} {', '.join(words)}"


STAMPED_STEPS = 20.0
"""Least time of a stretch, in resolutions of the log's times, that shows how long a step takes."""

VARYING = 1.05
"""Largest over smallest number of tokens in a step from which the lengths of sequences vary."""


def tokens_per_step(records: Sequence[Record]) -> list[float]:
    """Return by how much the number of tokens so far advances with each step, if it does, from
    record to record.
    """
    seen = []
    for record in records:
        if "tokens_seen" in record.native:
            seen.append((record.step, record.native["tokens_seen"]))
    counts = []
    for (last, before), (step, tokens) in itertools.pairwise(seen):
        counts.append((tokens - before) / (step - last))
    return [tokens for tokens in counts if tokens > 0]


def _varying_tokens(records: Sequence[Record]) -> list[Note]:
    """Return a warning if the number of tokens so far advances by another one from step to step."""
    counts = tokens_per_step(records)
    if not counts or max(counts) < VARYING * min(counts):
        return []
    return [Note("lengths-vary", {"least": min(counts), "most": max(counts)})]


def check_rates(series: FieldValues, name: str | None, sizes: TrainingConfig) -> list[Note]:
    """Return a warning if a printed rate per device isn't what batch, sequence length, time and
    devices give.
    """
    rates = series["native_metrics"].get(name)
    devices = sizes.num_gpus
    batch = sizes.global_batch_size
    length = sizes.sequence_length
    if rates is None or not batch or not length or not devices:
        return []
    shares = []
    for rate, time, step in zip(rates, series["step_times"], series["steps"], strict=True):
        if rate and time:
            shares.append((abs(rate * time * devices / (batch * length) - 1), step))
    off = [(share, step) for share, step in shares if share > RATE_AGREEMENT]
    if not off:
        return []
    share, step = max(off, key=lambda pair: pair[0])
    sizes_used = {"batch": batch, "length": length, "gpus": devices}
    worst = {"percent": round(100 * share, 2), "step": step}
    return [Note("rates-disagree", {"off": len(off), "count": len(shares), **sizes_used, **worst})]
