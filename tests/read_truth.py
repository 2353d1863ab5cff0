"""Holds what a reader made of a real log against what a careful, independent reading of it finds.

A truth entry keys its figures by the step as it is printed. A Run counts optimizer steps from 1, so
that a log that counts from 0 is one off; what was printed stands in native_metrics.printed_step.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

from tprimat import read
from tprimat.read.parsing import text
from tprimat.results.run import Run
from tprimat.units import gib_to_gb

SERIES = {"step_time_s": "step_times", "loss": "loss_values", "grad_norm": "grad_norms"}
SERIES["learning_rate"] = "learning_rates"
NATIVE = {
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "tokens_per_second": "tokens_per_second",
    "tflops_per_gpu": "tflops_per_gpu",
    "samples_per_second": "samples_per_second",
    "mfu_percent": "mfu_percent",
}
SETUP = {
    "global_batch_size": ("training_config", "global_batch_size"),
    "micro_batch_size": ("training_config", "micro_batch_size"),
    "sequence_length": ("training_config", "sequence_length"),
    "world_size": ("training_config", "num_gpus"),
    "total_steps_planned": ("training_config", "max_steps"),
    "seed": ("training_config", "seed"),
    "tensor_model_parallel_size": ("parallelism_config", "tensor_model_parallel_size"),
    "pipeline_model_parallel_size": ("parallelism_config", "pipeline_model_parallel_size"),
    "gradient_accumulation_steps": ("parallelism_config", "gradient_accumulation_steps"),
}


FOLLOWING = {
    "global batch size": "global_batch_size",
    "sequence length": "sequence_length",
    "number of GPUs": "num_gpus",
}


def followed(run: Run) -> set[str]:
    """The sizes that no line states, by field: they follow from printed rates. The truths have what
    lines state.
    """
    notes = (note for note in run.notes if note.code == "size-follows")
    return {FOLLOWING[str(note.fields["size"])] for note in notes}


def runs_of(path: Path) -> list[Run]:
    """The runs of a log, which is read once as long as the file stays as it is."""
    stat = path.stat()
    return list(_runs_of(path, stat.st_mtime_ns, stat.st_size))


@functools.lru_cache(maxsize=256)
def _runs_of(path: Path, _changed_ns: int, _size: int) -> list[Run]:
    with path.open("rb") as stream:
        return read.read(text.lines(iter(lambda: stream.read(1 << 16), b"")), path.name)


def check(run: Run, entry: dict[str, Any], *, ignore: tuple[str, ...] = ()) -> list[str]:
    """Where a run and a truth entry disagree, a line each; empty when they agree.

    Args:
        run: what was read.
        entry: of truth.json, or one of its `trainings`.
        ignore: names of the entry that are not compared.
    """
    entry = {name: value for name, value in entry.items() if name not in ignore}
    wrong: list[str] = []
    index = _by_printed_step(run, entry)
    for name in (*SERIES, *NATIVE, "memory_gib"):
        wrong += _series(run, entry, name, index)
    wrong += _setup(run, entry)
    if "records" in entry and len(run.steps) not in (entry["records"], entry.get("distinct_steps")):
        wrong.append(f"records: {len(run.steps)}, not {entry['records']}")
    printed = list(index)
    for name, place in (("first_step", 0), ("last_step", -1)):
        if entry.get(name) is not None and (not printed or printed[place] != entry[name]):
            wrong.append(f"{name}: {printed[place] if printed else None}, not {entry[name]}")
    wrong += _windows(run, entry, index)
    for name, series in (("sum_step_time_s", run.step_times), ("sum_loss", run.loss_values)):
        wrong += _sum(entry, name, series)
    allowed = {entry.get("status"), *entry.get("status_also_acceptable", [])}
    if entry.get("status") and run.status not in allowed:
        wrong.append(f"status: {run.status} ({run.status_reason}), not {entry['status']}")
    if entry.get("failure_reason_contains", "") not in (run.status_reason or ""):
        wrong.append(f"status_reason: {run.status_reason} lacks {entry['failure_reason_contains']}")
    if entry.get("framework") and run.framework != entry["framework"]:
        wrong.append(f"framework: {run.framework}, not {entry['framework']}")
    return wrong


def check_all(runs: list[Run], entry: dict[str, Any], *, ignore: tuple[str, ...] = ()) -> list[str]:
    """As check(), for a log that may hold several runs: one run each, in the order of the file."""
    trainings = entry.get("trainings")
    if trainings and len(runs) == len(trainings):
        pairs = zip(runs, trainings, strict=True)
        return [
            f"training {number}: {each}"
            for number, (run, part) in enumerate(pairs, 1)
            for each in check(run, part)
        ]
    if len(runs) != 1:
        return [f"{len(runs)} runs were read"]
    return check(runs[0], entry, ignore=ignore)


def _by_printed_step(run: Run, entry: dict[str, Any]) -> dict[int, int]:
    """Records by the step that the log printed."""
    printed = run.native_metrics.get("printed_step")
    if isinstance(printed, tuple):
        return {int(step): index for index, step in enumerate(printed) if step is not None}
    shift = 1 if entry.get("first_step") == 0 else 0
    return {step - shift: index for index, step in enumerate(run.steps)}


def _series(run: Run, entry: dict[str, Any], name: str, index: dict[int, int]) -> list[str]:
    if name not in entry:
        return []
    expected = dict(entry[name] or {})
    if name == "step_time_s":
        expected |= entry.get("restored", {})
    if not any(value is not None for value in expected.values()):
        found = getattr(run, SERIES[name]) if name in SERIES else ()
        return (
            [f"{name}: there should be none"] if any(value is not None for value in found) else []
        )
    wrong = []
    for key, value in expected.items():
        place = index.get(int(key)) if not key.startswith("#") else _by_order(run, key)
        found = [] if place is None else _values(run, name, place)
        if value is None:
            continue
        if not any(_close(each, value, derived=_derived(entry, name)) for each in found):
            wrong.append(f"{name} at {key}: {found}, not {value}")
    return wrong[:4]


def _by_order(run: Run, key: str) -> int | None:
    """The record of a key such as #2, where no step is printed: the second, or the only one."""
    return min(int(key[1:]), len(run.steps)) - 1 if run.steps else None


def _derived(entry: dict[str, Any], name: str) -> bool:
    return any(str(each).startswith(name) for each in entry.get("derived", []))


def _values(run: Run, name: str, place: int) -> list[float]:
    """What a run holds of a quantity at a record; several where it holds several of a kind."""
    if name in SERIES:
        value = getattr(run, SERIES[name])[place]
        return [] if value is None else [value]
    if name == "memory_gib":
        kinds = [
            values
            for key, values in run.native_metrics.items()
            if "memory" in key and key.endswith("_gb")
        ]
        found = [values[place] for values in kinds if isinstance(values, tuple)]
        return [value / gib_to_gb(1) for value in found if value is not None]
    values = run.native_metrics.get(NATIVE[name])
    found = [values[place]] if isinstance(values, tuple) and values[place] is not None else []
    time, tokens, batch = (
        run.step_times[place],
        run.tokens_per_step,
        run.training_config.global_batch_size,
    )
    if time:
        if name == "samples_per_second" and batch:
            found.append(batch / time)
        if name == "tokens_per_second" and tokens:
            found.append(tokens / time)
        if name == "tokens_per_second_per_gpu" and tokens and run.num_gpus:
            found.append(tokens / time / run.num_gpus)
    return [value for value in found if value is not None]


def _close(found: float, expected: float, *, derived: bool) -> bool:
    # Memory is kept in GB with four digits behind the point; what truth derives has six.
    return math.isclose(
        found, expected, rel_tol=1e-5 if derived else 1e-9, abs_tol=1e-4 if found > 1 else 2e-6
    )


def _setup(run: Run, entry: dict[str, Any]) -> list[str]:
    wrong = []
    for name, (group, field) in SETUP.items():
        found = getattr(getattr(run, group), field)
        if name == "seed" and found is None:
            # Runs of one setup differ in it.
            found = run.native_metrics.get("seed")
        if entry.get(name) is None and field in followed(run):
            continue
        if name in entry and found != entry[name]:
            wrong.append(f"{name}: {found}, not {entry[name]}")
    if "precision" in entry:
        named = {entry["precision"], str(entry["precision"]).split("+")[-1]}
        if run.training_config.precision not in named:
            wrong.append(f"precision: {run.training_config.precision}, not {entry['precision']}")
    return wrong


def _windows(run: Run, entry: dict[str, Any], index: dict[int, int]) -> list[str]:
    stated = entry.get("window_steps_by_step")
    if stated:
        found = {str(step): run.window_steps[place] for step, place in index.items()}
        return [] if found == stated else [f"window_steps: {found}, not {stated}"]
    whole = entry.get("window_steps")
    # The first record stands alone, and the second reaches back to it: 1, 9, 10, 10.
    later = run.window_steps[2:] or run.window_steps
    if whole and any(window != whole for window in later):
        return [f"window_steps: {sorted(set(later))}, not {whole}"]
    return []


def _sum(entry: dict[str, Any], name: str, series: tuple[float | None, ...]) -> list[str]:
    expected = entry.get(name)
    if not expected or len(series) == entry.get("distinct_steps", -1):
        return []
    known = [value for value in series if value is not None]
    total = expected.get("sum_with_restored", expected.get("sum"))
    if total is None:
        return []
    if len(known) != expected.get("count", len(known)):
        return [f"{name}: {len(known)} values, not {expected['count']}"]
    # Figures of six digits, added.
    tolerance = max(1e-3, 2e-6 * len(known))
    return (
        []
        if abs(math.fsum(known) - total) <= tolerance
        else [f"{name}: {math.fsum(known)}, not {total}"]
    )
