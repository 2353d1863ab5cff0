"""Merge sources of one training: two log formats in one log, or a log and a structured file.

One source is the result; the other fills its gaps.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence

import msgspec

from tprimat.notes import Note, Told, noted
from tprimat.read.parsing.events import Moment
from tprimat.read.parsing.parsed_log import Given, ParsedLog
from tprimat.read.parsing.run_builder import contradictions
from tprimat.read.parsing.sequencer import SAME_FIGURES, SAME_MOMENT
from tprimat.results.fields import FieldValues
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import Run

INSIDE = {
    "deepspeed": ("megatron", "hf_trainer"),
    "megatron_bridge": ("megatron",),
    "nemo": ("mlperf",),
    "megatron": ("mlperf",),
}
"""Log formats that occur in the logs of others, and then describe the same training.

The host goes first: DeepSpeed's timer stands after Megatron's, which waits for all ranks and covers
the whole step, and MLPerf's lines, written for machines, before a console.
"""

RENAMED = {
    ("megatron", "deepspeed"): "deepspeed",
    ("megatron", "megatron_bridge"): "megatron_bridge",
}
"""Megatron's lines under DeepSpeed's engine come from Megatron-DeepSpeed, beside Bridge's lines
from Bridge.
"""

_PARTS = (
    "training_config",
    "parallelism_config",
    "model_config",
    "gpu_info",
    "optimizer",
    "data",
    "memory_metrics",
)

LEAST_COMMON = 3
"""Equal losses of so many steps, to the digits that are printed, belong to one run."""

LOSS_DIGITS = 5e-4
"""Share by which a loss of four printed digits may be off."""

SAME_MEAN = 5e-3
"""Share by which the step times of one training differ between two clocks, or between processes
that wait for each other: 2.000 and 2.009 s.
"""

FARTHEST_ZONE = 14 * 3600.0
"""s that a local time may be off from UTC."""


def merge_logs(by_reader: Sequence[tuple[str, Sequence[ParsedLog]]]) -> list[ParsedLog]:
    """Return the runs of one log, each once, from what the reader of each log format found."""
    by_name = {name: list(logs) for name, logs in by_reader}
    if any(name not in ("megatron", "mlperf") and logs for name, logs in by_name.items()):
        # A dump of arguments in Megatron's form, without an iteration line, is of the other one's
        # training.
        by_name["megatron"] = [each for each in by_name.get("megatron", ()) if each.steps]
    for name, hosts in INSIDE.items():
        host = next((host for host in hosts if by_name.get(host)), None)
        if host is None or not by_name.get(name):
            continue
        if any(each.steps for each in by_name[name]) and not any(
            each.steps for each in by_name[host]
        ):
            # What goes first must have something to say of steps.
            name, host = host, name
        inner = by_name.pop(name)
        outer = by_name[host]
        if len(inner) == len(outer):
            by_name[host] = [
                _merged(one, host, other, name) for one, other in zip(outer, inner, strict=True)
            ]
        else:
            note = (
                f"{name} lines ignored: they describe {len(inner)} runs, the {host} lines"
                f" {len(outer)}"
            )
            by_name[host] = [dataclasses.replace(each, notes=(*each.notes, note)) for each in outer]
    return [log for name, _ in by_reader for log in by_name.get(name, ())]


def _merged(one: ParsedLog, one_name: str, other: ParsedLog, other_name: str) -> ParsedLog:
    def build(given: Given) -> Run:
        run = fill_gaps(one.run(given), other.run(given), f"{other_name}'s lines in the log")
        called = RENAMED.get((one_name, other_name), run.framework)
        grad_norms = run.grad_norms
        notes = run.notes
        if other_name == "deepspeed" and not any(grad_norms):
            # Its engine keeps the norm to itself, and Megatron prints 0.000.
            grad_norms = (None,) * len(run.steps)
        if other_name == "deepspeed" and "tflops_per_gpu" in run.native_metrics:
            notes += noted(
                [
                    "Megatron-DeepSpeed's TFLOP/s include recomputation: not comparable with Megatron-LM's"
                ]
            )
        return msgspec.structs.replace(run, framework=called, grad_norms=grad_norms, notes=notes)

    stated = {**other.stated, **one.stated}
    note = (
        f"{other_name} lines describe the same run and fill values missing from the {one_name}"
        " lines"
    )
    return dataclasses.replace(
        one, stated=stated, notes=(*one.notes, *other.notes, note), build=build
    )


def fill_gaps(run: Run, other: Run, origin: str) -> Run:
    """Return a run completed from another source of the same training, whose name is `origin` in
    the warning.
    """
    changes: FieldValues = {
        "native_metrics": {**_aligned_metrics(run, other), **run.native_metrics},
        "breakdown": {**other.breakdown, **run.breakdown},
    }
    filled_names = []
    # What changes in one source is no gap.
    changing = set()
    for note in (*run.notes, *other.notes):
        if note.code == "size-changes":
            changing.add(str(note.fields["size"]).replace(" ", "_"))
    for part in _PARTS:
        known = getattr(run, part)
        added = getattr(other, part)
        new = {}
        for n, value in added.known().items():
            if getattr(known, n) is None and n not in changing:
                new[n] = value
        if part == "model_config" and known.num_layers is not None:
            new.pop("source", None)
        if new:
            changes[part] = msgspec.structs.replace(known, **new)
            filled_names += [name for name in new if name not in ("source", "device_count")]
    for name in ("platform", "model", "scale", "timestamp"):
        if getattr(run, name) is None and getattr(other, name) is not None:
            changes[name] = getattr(other, name)
            filled_names.append(name)
    versions = {**other.environment.versions, **run.environment.versions}
    changes["environment"] = msgspec.structs.replace(run.environment, versions=versions)
    is_known = other.ending is not None and other.ending.kind in ("failed", "stopped")
    if run.status != "complete" and other.status == "complete":
        changes |= {"status": "complete", "status_reason": None, "ending": other.ending}
    elif run.ending is not None and run.ending.kind == "cut_off" and is_known:
        changes |= {name: getattr(other, name) for name in ("status", "status_reason", "ending")}
    notes: list[Told] = [note for note in run.notes if not _is_resolved(note, filled_names)]
    if not any(note.code in DIVERGED for note in run.notes):
        notes += [note for note in other.notes if note.code in DIVERGED]
    if filled_names:
        notes.append(f"{', '.join(dict.fromkeys(filled_names))}: from {origin}")
    sizes, spread = (changes.get(part, getattr(run, part)).known() for part in _PARTS[:2])
    notes += contradictions(sizes | spread)
    return msgspec.structs.replace(run, **changes, notes=noted(notes))


Clocks = tuple[Moment | None, Moment | None]
"""The first times of two logs; None for one without a time."""


def same_training(
    one: Run, other: Run, *, ranks: bool = False, dated: Clocks = (None, None)
) -> bool:
    """Return whether two sources describe one training, by their losses, their step times or the
    total time.

    Those of two `ranks` may have step times as far apart as those in one log. Two sources of one
    format are written by one program, which prints a step once: unless they are of ranks, their
    figures are the same.
    """
    if _one_after_the_other(one, other, dated):
        return False
    is_copy = (one.source and one.source.dialect) == (
        other.source and other.source.dialect
    ) and not ranks
    runtime = "train_runtime_seconds"
    known = one.native_metrics.get(runtime)
    added = other.native_metrics.get(runtime)
    # Reinforcement learning has no loss of a language model.
    compared = (_pairs(one, other, name) for name in ("loss_values", "policy_loss", "grad_norms"))
    losses = next(filter(None, compared), [])
    is_timed = False
    if isinstance(known, float) and isinstance(added, float) and not (ranks and losses):
        is_timed = True
        # A console prints four digits of what a file holds in full.
        is_same = math.isclose(known, added, rel_tol=1e-9 if is_copy else LOSS_DIGITS)
        if not is_same or not is_copy:
            return is_same
    if not is_timed and len(losses if ranks else {first for first, _ in losses}) < LEAST_COMMON:
        return False
    alike = sum(
        math.isclose(first, second, rel_tol=LOSS_DIGITS, abs_tol=1e-4)
        for first, second in losses
        if second
    )
    # Two runs of one seed share only their losses: their step times differ.
    times = _pairs(one, other, "step_times")
    apart = 1e-9 if is_copy else SAME_FIGURES if ranks else SAME_MEAN
    close = sum(math.isclose(first, second, rel_tol=apart) for first, second in times if second)
    return alike >= 0.95 * len(losses) and close >= 0.9 * len(times)


def together(one: Run, other: Run, dated: Clocks) -> bool:
    """Return whether two logs were written at the same time by processes that wait for each other
    in each step.

    Processes of one training slow down in the same steps. Two trainings that are started together
    with one seed don't: the times of one step are then as far apart as those of two neighboring
    steps.
    """
    first, second = dated
    if (
        first is None
        or second is None
        or first[1] is not second[1]
        or abs(first[0] - second[0]) > SAME_MOMENT
    ):
        return False
    times = _pairs(one, other, "step_times")[1:]
    if len(times) < LEAST_COMMON:
        return True
    ratios = [math.log(mine / its) for its, mine in times]
    shifted = [math.log(mine / its) for (its, _), (_, mine) in itertools.pairwise(times)]
    beside, next_to = (statistics.median(map(abs, found)) for found in (ratios, shifted))
    return abs(statistics.median(ratios)) <= SAME_MEAN and beside <= next_to / 2


def _one_after_the_other(one: Run, other: Run, dated: Clocks) -> bool:
    """Return whether one training began after the other had ended; False where the times are
    unknown.

    Logs begin by clocks whose offset from UTC may be stated in one of them alone.
    """
    starts = list(dated)
    for place, run in enumerate((one, other)):
        if starts[place] is None and run.started is not None:
            starts[place] = (run.started.timestamp(), True)
    first, second = starts
    if first is None or second is None:
        return False
    earlier = one if first[0] <= second[0] else other
    times = zip(earlier.step_times, earlier.window_steps, strict=True)
    apart = abs(first[0] - second[0]) - (0.0 if first[1] is second[1] else FARTHEST_ZONE)
    return apart > math.fsum((time or 0.0) * steps for time, steps in times) > 0


def _pairs(one: Run, other: Run, series: str) -> list[tuple[float, float]]:
    """Return the values of steps that both have, of the other one first."""
    columns = [getattr(run, series, None) or run.native_metrics.get(series) for run in (one, other)]
    first, second = (column if isinstance(column, tuple) else () for column in columns)
    known = dict(zip(one.steps, first, strict=False))
    pairs = zip(other.steps, second, strict=False)
    return [
        (value, known[step])
        for step, value in pairs
        if value is not None and known.get(step) is not None
    ]


def _aligned_metrics(run: Run, other: Run) -> FieldValues:
    places = {step: index for index, step in enumerate(other.steps)}
    aligned: FieldValues = {}
    for name, values in other.native_metrics.items():
        if not isinstance(values, tuple):
            aligned[name] = values
            continue
        moved = tuple(values[places[step]] if step in places else None for step in run.steps)
        if any(value is not None for value in moved) and name != "printed_step":
            aligned[name] = moved
    return aligned


_UNKNOWN = {
    "model-unnamed": "model",
    "timestamp-unknown": "timestamp",
    "gpu-unstated": "device_name",
    "length-unstated": "sequence_length",
    "length-suggested": "sequence_length",
    "length-fits-no-rate": "sequence_length",
}
"""Codes of notes that a value is unknown, and the field that it is of."""


def _is_resolved(note: Note, filled_names: Sequence[str]) -> bool:
    """Return whether a note about an unknown value is obsolete now."""
    sizes = note.fields.get("sizes") if note.code == "sizes-unknown" else None
    if isinstance(sizes, tuple):
        return set(sizes) <= set(filled_names)
    return _UNKNOWN.get(note.code) in filled_names
