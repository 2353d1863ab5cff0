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
"""Log formats found inside the logs of others (the hosts), where both describe the same training.

The host's values take precedence: those of Megatron's timer over DeepSpeed's, since it waits for
all ranks and covers the whole step; and those of MLPerf's lines, which are meant for programs, over
console output.
"""

RENAMED = {
    ("megatron", "deepspeed"): "deepspeed",
    ("megatron", "megatron_bridge"): "megatron_bridge",
}
"""The framework of a merged run, by host and inner format: Megatron's lines with DeepSpeed's are
from Megatron-DeepSpeed, and with Megatron Bridge's from Megatron Bridge.
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
"""Fewest steps whose losses must be equal, to the printed digits, if two sources are of one run."""

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
        # Arguments printed in Megatron's format without iteration lines belong to the other
        # format's training.
        by_name["megatron"] = [log for log in by_name.get("megatron", ()) if log.steps]
    for name, hosts in INSIDE.items():
        host = next(filter(by_name.get, hosts), None)
        if host is None or not by_name.get(name):
            continue
        steps = sum(log.steps for log in by_name[name])
        if steps and not any(log.steps for log in by_name[host]):
            # The format that takes precedence must have steps.
            name, host = host, name
        inner_logs = by_name.pop(name)
        host_logs = by_name[host]
        if len(inner_logs) == len(host_logs):
            pairs = zip(host_logs, inner_logs, strict=True)
            by_name[host] = [_merged(log, host, inner, name) for log, inner in pairs]
        else:
            note = (
                f"{name} lines ignored: they describe {len(inner_logs)} runs, the {host} lines"
                f" {len(host_logs)}"
            )
            by_name[host] = [
                dataclasses.replace(log, notes=(*log.notes, note)) for log in host_logs
            ]
    return [log for name, _ in by_reader for log in by_name.get(name, ())]


def _merged(host: ParsedLog, host_name: str, inner: ParsedLog, inner_name: str) -> ParsedLog:
    """Return the log of the host, which has the values of the inner one where it has none."""

    def build(given: Given) -> Run:
        run = fill_gaps(host.run(given), inner.run(given), f"{inner_name}'s lines in the log")
        framework = RENAMED.get((host_name, inner_name), run.framework)
        grad_norms = run.grad_norms
        notes = run.notes
        if inner_name == "deepspeed" and not any(grad_norms):
            # DeepSpeed doesn't pass the gradient norm on, so Megatron prints 0.000.
            grad_norms = (None,) * len(run.steps)
        if inner_name == "deepspeed" and "tflops_per_gpu" in run.native_metrics:
            notes += (Note("tflops-with-recomputation"),)
        return msgspec.structs.replace(run, framework=framework, grad_norms=grad_norms, notes=notes)

    note = (
        f"{inner_name} lines describe the same run and fill values missing from the {host_name}"
        " lines"
    )
    return dataclasses.replace(
        host,
        stated={**inner.stated, **host.stated},
        notes=(*host.notes, *inner.notes, note),
        build=build,
    )


def fill_gaps(run: Run, other: Run, origin: str) -> Run:
    """Return a run with values that it lacks from another source of the same training, which the
    warning calls `origin`.
    """
    versions = {**other.environment.versions, **run.environment.versions}
    changes: FieldValues = {
        "native_metrics": {**_aligned_metrics(run, other), **run.native_metrics},
        "breakdown": {**other.breakdown, **run.breakdown},
        "environment": msgspec.structs.replace(run.environment, versions=versions),
    }
    filled_names = []
    # A size that changes during the run is left empty on purpose, so the other source must not fill
    # it.
    changing = set()
    for note in (*run.notes, *other.notes):
        if note.code == "size-changes":
            changing.add(str(note.fields["size"]).replace(" ", "_"))
    for part in _PARTS:
        existing = getattr(run, part)
        filled = {}
        for name, value in getattr(other, part).known().items():
            if getattr(existing, name) is None and name not in changing:
                filled[name] = value
        if part == "model_config" and existing.num_layers is not None:
            filled.pop("source", None)
        if filled:
            changes[part] = msgspec.structs.replace(existing, **filled)
            filled_names += [name for name in filled if name not in ("source", "device_count")]
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
    merged = msgspec.structs.replace(run, **changes)
    notes += contradictions(merged.training_config.known() | merged.parallelism_config.known())
    return msgspec.structs.replace(merged, notes=noted(notes))


FirstTimes = tuple[Moment | None, Moment | None]
"""The first times of two logs; None for one without a time."""


def same_training(
    one: Run, other: Run, *, ranks: bool = False, first_times: FirstTimes = (None, None)
) -> bool:
    """Return whether two sources describe one training, by their losses, their step times or the
    total time.

    With `ranks`, the sources are logs of two ranks; their step times may differ by SAME_FIGURES, as
    those of ranks that share a log may. Otherwise, two sources of one format must be copies: a
    program prints a step only once, so their values must be equal.

    Of the losses 95%, and of the step times 90% must match: a file may have a step that was
    repeated, or the mean of several.
    """
    if _one_after_the_other(one, other, first_times):
        return False
    formats = {source and source.dialect for source in (one.source, other.source)}
    is_copy = len(formats) == 1 and not ranks
    runtime = one.native_metrics.get("train_runtime_seconds")
    other_runtime = other.native_metrics.get("train_runtime_seconds")
    # Reinforcement learning has no loss of a language model.
    compared = (_pairs(one, other, name) for name in ("loss_values", "policy_loss", "grad_norms"))
    losses = next(filter(None, compared), [])
    if isinstance(runtime, float) and isinstance(other_runtime, float) and not (ranks and losses):
        # A console prints four digits of values that a file has in full.
        tolerance = 1e-9 if is_copy else LOSS_DIGITS
        is_same = math.isclose(runtime, other_runtime, rel_tol=tolerance)
        if not is_same or not is_copy:
            return is_same
    elif len(losses if ranks else {loss for _, loss in losses}) < LEAST_COMMON:
        # Only different losses count, except between ranks: a constant one shows nothing.
        return False
    matching = 0
    for first, second in losses:
        matching += bool(first) and math.isclose(first, second, rel_tol=LOSS_DIGITS, abs_tol=1e-4)
    # Two runs of one seed share only their losses: their step times differ, or their printed rates.
    times = _pairs(one, other, "step_times")
    times = times or _pairs(one, other, "tokens_per_second_per_gpu")
    tolerance = SAME_FIGURES if ranks else SAME_MEAN
    if is_copy:
        tolerance = 1e-9
    close = sum(math.isclose(first, second, rel_tol=tolerance) for first, second in times if first)
    return matching >= 0.95 * len(losses) and close >= 0.9 * len(times)


def in_lockstep(one: Run, other: Run, first_times: FirstTimes) -> bool:
    """Return whether two logs were written at the same time by processes that wait for each other
    in each step.

    Processes of one training slow down in the same steps. Two trainings that are started together
    with one seed don't: the times of one step are then as far apart as those of two neighboring
    steps. So the median distance within a step, such as 0.4%, must be at most half of that between
    neighboring steps, such as 1%.
    """
    first, second = first_times
    if first is None or second is None or first[1] is not second[1]:
        return False
    if abs(first[0] - second[0]) > SAME_MOMENT:
        return False
    # The first step includes the start-up.
    times = _pairs(one, other, "step_times")[1:]
    if len(times) < LEAST_COMMON:
        return True
    ratios = [math.log(first / second) for first, second in times]
    shifted = [math.log(first / second) for (_, second), (first, _) in itertools.pairwise(times)]
    within = statistics.median(map(abs, ratios))
    between = statistics.median(map(abs, shifted))
    return abs(statistics.median(ratios)) <= SAME_MEAN and within <= between / 2


def _one_after_the_other(one: Run, other: Run, first_times: FirstTimes) -> bool:
    """Return whether one training began after the other had ended; False if the times are unknown.

    If only one log states its UTC offset, the two times are comparable only to within
    FARTHEST_ZONE.
    """
    first, second = _start(one, first_times[0]), _start(other, first_times[1])
    if first is None or second is None:
        return False
    earlier = one if first[0] <= second[0] else other
    gap = abs(first[0] - second[0])
    if first[1] is not second[1]:
        gap -= FARTHEST_ZONE
    times = zip(earlier.step_times, earlier.window_steps, strict=True)
    runtime = math.fsum((time or 0.0) * steps for time, steps in times)
    return 0 < runtime < gap


def _start(run: Run, moment: Moment | None) -> Moment | None:
    """Return the first time of a log, or else when its run started."""
    if moment is None and run.started is not None:
        return run.started.timestamp(), True
    return moment


def _pairs(one: Run, other: Run, series: str) -> list[tuple[float, float]]:
    """Return the values of the common steps, in the order of the steps of `other`: those of `one`
    first.
    """
    first, second = (
        _by_step(run, getattr(run, series, None) or run.native_metrics.get(series))
        for run in (one, other)
    )
    return [(first[step], value) for step, value in second.items() if step in first]


def _by_step(run: Run, values: object) -> dict[int, float]:
    """Return the known values of a series by step; empty if `values` are no series."""
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
"""Codes of the notes that a value is unknown, and the field of that value."""


def _is_resolved(note: Note, filled_names: Sequence[str]) -> bool:
    """Return whether a note about an unknown value is obsolete now."""
    sizes = note.fields.get("sizes") if note.code == "sizes-unknown" else None
    if isinstance(sizes, tuple):
        return set(sizes) <= set(filled_names)
    return _UNKNOWN.get(note.code) in filled_names
