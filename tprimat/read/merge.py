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

from tprimat.notes import Note, noted
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
        by_name["megatron"] = [log for log in by_name.get("megatron", ()) if log.steps]
    for name, hosts in INSIDE.items():
        host = next(filter(by_name.get, hosts), None)
        if host is None or not by_name.get(name):
            continue
        steps = sum(log.steps for log in by_name[name])
        if steps and not any(log.steps for log in by_name[host]):
            # What goes first must have something to say of steps.
            name, host = host, name
        inner = by_name.pop(name)
        outer = by_name[host]
        if len(inner) == len(outer):
            pairs = zip(outer, inner, strict=True)
            by_name[host] = [_merged(one, host, other, name) for one, other in pairs]
        else:
            note = (
                f"{name} lines ignored: they describe {len(inner)} runs, the {host} lines"
                f" {len(outer)}"
            )
            by_name[host] = [dataclasses.replace(log, notes=(*log.notes, note)) for log in outer]
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
            notes += (Note("tflops-with-recomputation"),)
        return msgspec.structs.replace(run, framework=called, grad_norms=grad_norms, notes=notes)

    note = (
        f"{other_name} lines describe the same run and fill values missing from the {one_name}"
        " lines"
    )
    notes = (*one.notes, *other.notes, note)
    return dataclasses.replace(one, stated={**other.stated, **one.stated}, notes=notes, build=build)


def fill_gaps(run: Run, other: Run, origin: str) -> Run:
    """Return a run completed from another source of the same training, whose name is `origin` in
    the warning.
    """
    versions = {**other.environment.versions, **run.environment.versions}
    changes: FieldValues = {
        "native_metrics": {**_aligned_metrics(run, other), **run.native_metrics},
        "breakdown": {**other.breakdown, **run.breakdown},
        "environment": msgspec.structs.replace(run.environment, versions=versions),
    }
    filled_names = []
    # What changes in one source is no gap.
    changing = set()
    for note in (*run.notes, *other.notes):
        if note.code == "size-changes":
            changing.add(str(note.fields["size"]).replace(" ", "_"))
    for part in _PARTS:
        own = getattr(run, part)
        new = {}
        for name, value in getattr(other, part).known().items():
            if getattr(own, name) is None and name not in changing:
                new[name] = value
        if part == "model_config" and own.num_layers is not None:
            new.pop("source", None)
        if new:
            changes[part] = msgspec.structs.replace(own, **new)
            filled_names += [name for name in new if name not in ("source", "device_count")]
    for name in ("platform", "model", "scale", "timestamp"):
        value = getattr(other, name)
        if getattr(run, name) is None and value is not None:
            changes[name] = value
            filled_names.append(name)
    has_ended = other.ending is not None and other.ending.kind in ("failed", "stopped")
    if run.status != "complete" and other.status == "complete":
        changes |= {"status": "complete", "status_reason": None, "ending": other.ending}
    elif run.ending is not None and run.ending.kind == "cut_off" and has_ended:
        changes |= {name: getattr(other, name) for name in ("status", "status_reason", "ending")}
    notes: list[Note] = [note for note in run.notes if not _is_resolved(note, filled_names)]
    if not any(note.code in DIVERGED for note in run.notes):
        notes += [note for note in other.notes if note.code in DIVERGED]
    if filled_names:
        names = ", ".join(dict.fromkeys(filled_names))
        notes.append(Note("filled-in", {"names": names, "origin": origin}))
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

    Of a hundred steps 95 losses and 90 step times must be alike: a file may hold a step that was
    done again, or the mean of several.
    """
    if _one_after_the_other(one, other, dated):
        return False
    formats = {source and source.dialect for source in (one.source, other.source)}
    is_copy = len(formats) == 1 and not ranks
    runtime = one.native_metrics.get("train_runtime_seconds")
    other_runtime = other.native_metrics.get("train_runtime_seconds")
    # Reinforcement learning has no loss of a language model.
    compared = (_pairs(one, other, name) for name in ("loss_values", "policy_loss", "grad_norms"))
    losses = next(filter(None, compared), [])
    if isinstance(runtime, float) and isinstance(other_runtime, float) and not (ranks and losses):
        # A console prints four digits of what a file holds in full.
        share = 1e-9 if is_copy else LOSS_DIGITS
        is_same = math.isclose(runtime, other_runtime, rel_tol=share)
        if not is_same or not is_copy:
            return is_same
    elif len(losses if ranks else {first for first, _ in losses}) < LEAST_COMMON:
        return False
    alike = 0
    for first, second in losses:
        alike += bool(second) and math.isclose(first, second, rel_tol=LOSS_DIGITS, abs_tol=1e-4)
    # Two runs of one seed share only their losses: their step times differ.
    times = _pairs(one, other, "step_times")
    share = SAME_FIGURES if ranks else SAME_MEAN
    if is_copy:
        share = 1e-9
    close = sum(math.isclose(first, second, rel_tol=share) for first, second in times if second)
    return alike >= 0.95 * len(losses) and close >= 0.9 * len(times)


def together(one: Run, other: Run, dated: Clocks) -> bool:
    """Return whether two logs were written at the same time by processes that wait for each other
    in each step.

    Processes of one training slow down in the same steps. Two trainings that are started together
    with one seed don't: the times of one step are then as far apart as those of two neighboring
    steps. So the median distance within a step, such as 0.4%, must be at most half of that between
    neighboring steps, such as 1%.
    """
    first, second = dated
    if first is None or second is None or first[1] is not second[1]:
        return False
    if abs(first[0] - second[0]) > SAME_MOMENT:
        return False
    times = _pairs(one, other, "step_times")[1:]
    if len(times) < LEAST_COMMON:
        return True
    ratios = [math.log(mine / its) for its, mine in times]
    shifted = [math.log(mine / its) for (its, _), (_, mine) in itertools.pairwise(times)]
    within = statistics.median(map(abs, ratios))
    between = statistics.median(map(abs, shifted))
    return abs(statistics.median(ratios)) <= SAME_MEAN and within <= between / 2


def _one_after_the_other(one: Run, other: Run, dated: Clocks) -> bool:
    """Return whether one training began after the other had ended; False where the times are
    unknown.

    Logs begin by clocks whose offset from UTC may be stated in one of them alone.
    """
    first, second = (_start(run, moment) for run, moment in zip((one, other), dated, strict=True))
    if first is None or second is None:
        return False
    earlier = one if first[0] <= second[0] else other
    apart = abs(first[0] - second[0])
    if first[1] is not second[1]:
        apart -= FARTHEST_ZONE
    times = zip(earlier.step_times, earlier.window_steps, strict=True)
    return apart > math.fsum((time or 0.0) * steps for time, steps in times) > 0


def _start(run: Run, moment: Moment | None) -> Moment | None:
    """Return the first time of a log, or else when its run started."""
    if moment is None and run.started is not None:
        return run.started.timestamp(), True
    return moment


def _pairs(one: Run, other: Run, series: str) -> list[tuple[float, float]]:
    """Return the values of steps that both have, of the other one first."""
    its, values = (
        _by_step(run, getattr(run, series, None) or run.native_metrics.get(series))
        for run in (other, one)
    )
    return [(value, values[step]) for step, value in its.items() if step in values]


def _by_step(run: Run, values: object) -> dict[int, float]:
    """Return the values of a series that are known, by step; none of what is no series."""
    rows = zip(run.steps, values if isinstance(values, tuple) else (), strict=False)
    return {step: value for step, value in rows if value is not None}


def _aligned_metrics(run: Run, other: Run) -> FieldValues:
    """Return the native metrics of another source, with series at the steps of the run."""
    aligned: FieldValues = {}
    for name, values in other.native_metrics.items():
        if isinstance(values, tuple):
            by_step = _by_step(other, values)
            if name == "printed_step" or by_step.keys().isdisjoint(run.steps):
                continue
            values = tuple(map(by_step.get, run.steps))
        aligned[name] = values
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
