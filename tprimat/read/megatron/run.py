"""From the records and statements of a Megatron log to a Run.

native_metrics holds, as series: `tokens_per_second_per_gpu`, `tflops_per_gpu`,
`memory_device_used_gb`, `memory_used_fraction`, `energy_joules_per_gpu`, `power_watts_per_gpu`,
each where the log prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tprimat.catalog import gpus
from tprimat.read.megatron import setup, times
from tprimat.read.megatron.line import Record, seconds_of
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import MOST_RESTARTS, Training
from tprimat.read.parsing.parsed_log import LoggedValue, LoggedValues
from tprimat.read.parsing.text import Stamp
from tprimat.results.run import (
    LARGEST_COUNT,
    Environment,
    GpuInfo,
    MemoryMetrics,
    Run,
    Source,
    Status,
    Timing,
    TrainingConfig,
)
from tprimat.units import gib_to_gb, round_figure

SHOWN = {
    "micro_batch_size": "micro_batch_size",
    "tensor_model_parallel_size": "tensor_model_parallel_size",
    "pipeline_model_parallel_size": "pipeline_model_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "expert_model_parallel_size": "expert_model_parallel_size",
    "max_steps": "train_iters",
}
"""Fields of a result and the arguments that state them, for showing where they come from."""

RATE_AGREEMENT = 0.01
"""Share by which the log's own tokens/s/GPU may differ from what its other figures give."""

_NATIVE: dict[str, tuple[str, Callable[[float], float]]] = {
    "tokens_per_second_per_gpu": ("tokens_rate", float),
    "tflops_per_gpu": ("tflops", float),
    "memory_device_used_gb": ("hip_gib", lambda gib: round(gib_to_gb(gib), 4)),
    "memory_used_fraction": ("memory_fraction", float),
    "energy_joules_per_gpu": ("energy", float),
    "power_watts_per_gpu": ("power", float),
}
"""Series of native_metrics: the record's field, and how its unit is changed."""

_TIMING = Timing(
    clock="host clock at Megatron's interval timer, after a barrier of all ranks and a device synchronize",
    covers="data wait, forward and backward of all micro-batches, gradient reduction and optimizer; "
    "not evaluation and checkpoints",
    over_ranks="all ranks meet at the timer's barrier; the last rank prints",
)


def run_of(training: Training, stated: LoggedValues, batch: LoggedValue | None, given: Mapping[str, Any]) -> Run:
    """The Run of one training.

    Args:
        training: what was read.
        stated: what the log says of the setup.
        batch: what it says of the global batch size.
        given: what the user says, by names in reading.GIVEN; it goes before what is stated.
    """
    warnings = [*training.warnings]
    if training.restarts > MOST_RESTARTS:
        warnings.append(f"it restarted {training.restarts - MOST_RESTARTS} more times")
    warnings += [str(conflict) for conflict in training.conflicts]
    records = training.records
    context = training.context
    world = given.get("num_gpus") or stated.count("world_size")
    global_batch = given.get("global_batch_size") or (batch.value if batch else None)
    sequence = given.get("sequence_length") or stated.count("seq_length")
    shape, left_out = setup.model_config(stated)
    called = setup.model_name(stated)
    model, scale, doubts = setup.known_model(shape, called.value if called else None)
    if model is None or (given.get("model") and given["model"] != model):
        model, doubts = given.get("model"), [] if given.get("model") else doubts
    warnings += [*left_out, *doubts]
    series, windows = _series(training, records, stated, warnings)
    _say_what_is_missing(records, series["step_times"], windows, warnings)
    _check_rates(records, series["step_times"], global_batch, sequence, world, warnings)
    if batch is None and len(records) and not given.get("global_batch_size"):
        _say_batches(records, warnings)
    last = records.record(len(records) - 1) if len(records) else None
    status, reason = _status(training, last, warnings)
    timestamp = _timestamp(context.first_stamp, warnings)
    precision, detail = setup.precision(stated)
    planned = (last.planned if last else None) or stated.count("train_iters")
    amd = "amd" in context.markers
    memory = _memory(training, records, warnings)
    gpu = _gpu(training, records, world, warnings)
    version = stated.word("backend_version")
    return Run(
        status=status,
        status_reason=reason,
        platform="amd" if amd else None,
        framework="primus" if "primus" in context.markers else "megatron",
        model=model,
        scale=scale,
        timestamp=timestamp,
        warnings=tuple(dict.fromkeys(warnings)),
        source=Source(kind="log", dialect=_dialect(records)),
        gpu_info=gpu,
        environment=Environment(
            hostname=stated.word("hostname"), versions={"megatron-core": version} if version else {}
        ),
        model_config=shape,
        training_config=TrainingConfig(
            max_steps=planned or None,
            global_batch_size=global_batch,
            micro_batch_size=stated.count("micro_batch_size"),
            sequence_length=sequence,
            num_gpus=world,
            precision=precision,
            precision_detail=detail,
            recomputation=setup.recomputation(stated),
            seed=_seed(stated.value("seed")),
        ),
        parallelism_config=setup.parallelism(stated, world, global_batch),
        optimizer=setup.optimizer(stated),
        data=setup.data(stated),
        timing=_TIMING,
        memory_metrics=memory,
        steps=tuple(records.iterations),
        window_steps=tuple(windows),
        step_times=tuple(series["step_times"]),
        loss_values=tuple(records.column("loss")),
        learning_rates=tuple(records.column("learning_rate")),
        grad_norms=tuple(records.column("grad_norm")),
        lines=tuple(records.lines),
        native_metrics=series["native"],
    )


def model_statement(stated: LoggedValues) -> LoggedValue | None:
    """The model's name as a result will have it, with the line of the log that gives it."""
    shape, _ = setup.model_config(stated)
    called = setup.model_name(stated)
    name, scale, _ = setup.known_model(shape, called.value if called else None)
    origin = called or stated.get("num_layers")
    if name is None or origin is None:
        return None
    said = origin if scale is None else (stated.get("num_layers") or origin)
    return LoggedValue(name, said.line, said.text, said.weight)


def batch_statement(records: Table, stated: LoggedValues) -> LoggedValue | None:
    """The global batch size: what every iteration line says; the dump's where none says it."""
    sizes = {size for size in records.present("batch") if 1 <= size <= LARGEST_COUNT}
    if not sizes:
        return stated.counted("global_batch_size")
    if len(sizes) > 1:
        return None
    line, size = min(
        (line, size) for line, size in zip(records.lines, records.column("batch"), strict=True) if size in sizes
    )
    assert size is not None
    return LoggedValue(int(size), line, f"global batch size: {size:.0f}")


def _timestamp(first: Stamp | None, warnings: list[str]) -> str | None:
    if first is None:
        warnings.append("timestamp unknown: the log has no times")
        return None
    if first.time.tzinfo is None:
        warnings.append(f"timestamp unknown: the log begins at {first.time:%Y-%m-%d %H:%M:%S}, of no stated time zone")
        return None
    return first.time.isoformat()


def _seed(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _series(
    training: Training, records: Table, stated: LoggedValues, warnings: list[str]
) -> tuple[dict[str, Any], list[int]]:
    """Step times and native series, with iteration 2 restored; and the windows."""
    interval = times.log_interval(records.iterations, stated.count("log_interval"))
    windows = times.windows(records.iterations, interval)
    seconds = [None if elapsed is None else seconds_of(elapsed) for elapsed in records.column("elapsed_ms")]
    marked = "core" in training.context.markers
    core = times.is_core({kind.shape for kind in records.kinds_there()}, marked=marked)
    starts = {place for start in training.attempts if (place := records.place(start)) is not None}
    # A process that goes on where another one ended may show by nothing but the time between.
    pauses = set(records.after_pauses(times.START))
    for index in sorted({place + 1 for place in starts | pauses} | {1}):
        if index >= len(records) or index in starts:
            continue
        known = index == 1 or index - 1 in starts
        first, second = records.record(index - 1), records.record(index)
        found = times.restored(first, second, core=core and known) if windows[index - 1] == 1 else None
        if found:
            seconds[index], windows[index] = found.seconds, found.steps
            warnings.append(_restored_words(first, second, found))
        elif known and times.in_doubt(first, second, core=core):
            warnings.append(
                f"the time of iteration {second.iteration} ({second.seconds:g} s) may be a mean with iteration "
                f"{first.iteration} in it, as newer versions of Megatron print it; the log has nothing to tell by"
            )
    if len(records) and records.first == 2 and core and interval == 1 and not records.record(0).paired:
        windows[0] = 2
        warnings.append(
            f"iteration 2 ({seconds[0]:g} s) is the mean of iterations 1 and 2, and the line of iteration 1 "
            "is missing: it is kept as a mean of two steps"
            if seconds[0]
            else "the line of iteration 1 is missing"
        )
    native: dict[str, Any] = {}
    for name, (field, convert) in _NATIVE.items():
        if any(True for _ in records.present(field)):
            native[name] = tuple(None if value is None else convert(value) for value in records.column(field))
    return {"step_times": seconds, "native": native}, windows


def _restored_words(first: Record, second: Record, found: times.Restored) -> str:
    rates = "its printed loss and rates" if second.loss is not None else "its printed rates"
    loss = f" (loss {second.loss:g})" if second.loss is not None else ""
    return (
        f"iteration {second.iteration}: the log prints {second.seconds:g} s, a mean that contains iteration "
        f"{first.iteration} ({first.seconds:g} s), since Megatron's timer isn't reset after it; restored to "
        f"{found.seconds:g} s ({found.evidence}). {rates}{loss} are means of the same kind and kept as printed"
    ).replace(". its", "; its")


def _say_what_is_missing(
    records: Table, seconds: Sequence[float | None], windows: Sequence[int], warnings: list[str]
) -> None:
    """Warnings for what the lines don't have."""

    def say(those: Iterable[int], words: str) -> None:
        if where := spans((each, each) for each in those):
            warnings.append(words.format(where))

    def counting(name: str) -> Iterator[int]:
        return (each for each, count in zip(records.iterations, records.column(name), strict=True) if count)

    say(records.of_kind(lambda kind: "loss" in kind.not_finite), "the loss is not a number at {}")
    say(records.of_kind(lambda kind: "grad_norm" in kind.not_finite), "the gradient norm is not finite at {}")
    say(counting("skipped"), "the training skipped optimizer steps at {}: they count as steps")
    say(counting("nans"), "the training counted NaN iterations at {}")
    say(records.of_kind(lambda kind: bool(kind.garbled)), "figures that other output ran into are left out at {}")
    # Of a restored time the printed one is there.
    printed = zip(records.iterations, seconds, strict=True)
    say((each for each, time in printed if time is None), "no step time can be read at {}")
    if any(True for _ in records.present("loss")):
        lines = zip(records.iterations, records.column("loss"), records.column("skipped"), records.kinds(), strict=True)
        say(
            (each for each, loss, skip, kind in lines if loss is None and not skip and "loss" not in kind.not_finite),
            "no loss is printed at {}",
        )
    if len(records) and records.first > max(1, windows[0]):
        warnings.append(f"the log begins at iteration {records.first}")
    iterations = records.iterations
    gaps = (
        (earlier + 1, iteration - window)
        for earlier, iteration, window in zip(iterations, iterations[1:], windows[1:], strict=False)
        if iteration - window > earlier
    )
    if where := spans(gaps):
        warnings.append(f"no line for {where}")


def _say_batches(records: Table, warnings: list[str]) -> None:
    sizes = {int(batch) for batch in records.present("batch") if batch >= 1}
    if sizes:
        warnings.append(
            f"the global batch size changes during the training ({min(sizes)} to {max(sizes)}): it is left open, "
            "and no throughput in tokens can be given"
        )


def _check_rates(
    records: Table,
    seconds: Sequence[float | None],
    batch: int | None,
    sequence: int | None,
    world: int | None,
    warnings: list[str],
) -> None:
    """Holds the log's own tokens/s/GPU against its other figures."""
    if not batch or not world:
        return
    # Tokens of a sequence that the log's own rate means.
    lengths = [
        (rate * time * world / batch, line)
        for rate, time, line in zip(records.column("tokens_rate"), seconds, records.lines, strict=True)
        if rate and time
    ]
    if not lengths:
        return
    if sequence is None:
        lengths.sort()
        middle = lengths[len(lengths) // 2][0]
        agree = lengths[-1][0] - lengths[0][0] <= 2 * RATE_AGREEMENT * middle
        warnings.append(
            "the sequence length isn't stated; "
            + (
                f"the log's own tokens/s/GPU would follow from {middle:.0f} tokens: --sequence-length, if that is so"
                if agree
                else "and the log's own tokens/s/GPU don't follow from any single one"
            )
        )
        return
    off = [pair for length, line in lengths if (pair := (abs(length / sequence - 1), line))[0] > RATE_AGREEMENT]
    if off:
        share, line = max(off, key=lambda pair: pair[0])
        warnings.append(
            f"{len(off)} of {len(lengths)} lines print tokens/s/GPU that batch × sequence / time / GPUs "
            f"({batch} × {sequence} / {world}) doesn't give: {share:.1%} off on line {line}; one of them is wrong"
        )


def _status(training: Training, last: Record | None, warnings: list[str]) -> tuple[Status, str | None]:
    context = training.context
    cause = context.causes.reason()
    success = context.markers.get("success")
    if last is None:
        if success:
            return "incomplete", (
                f"the training ended well (line {success}), but the log has no iteration line: Primus shows them at "
                "level DEBUG (stderr_sink_level); logs/pre_trainer/rank-N/debug.log of the last rank has them"
            )
        return "failed", cause or "the log ends before the first iteration and shows no error"
    if success and success < max(training.records.lines):
        success = None
    if last.iteration >= last.planned or success:
        if last.iteration < last.planned:
            warnings.append(
                f"the training ended by itself after iteration {last.iteration} of {last.planned} (line {success})"
            )
        if context.causes.exit_code:
            warnings.append(f"all iterations were done, but then: {cause}")
        return "complete", None
    ended = f"ended after iteration {last.iteration} of {last.planned}"
    if training.cut_off:
        return "incomplete", f"{ended}: the file is cut off within the line of iteration {training.cut_off}"
    return "incomplete", f"{ended}: {cause or 'the log stops there without an error: killed, still running or cut off'}"


def _memory(training: Training, records: Table, warnings: list[str]) -> MemoryMetrics:
    context = training.context
    used = max(records.present("hip_gib"), default=None)
    if used is None:
        used = max(records.present("rocm_gib"), default=None)
        if used is not None:
            # Primus' core runtime prints what it read at iteration 2 again on every later line.
            warnings.append("memory in use is rocm-smi's, which the log may repeat from its first iterations")
    if context.memory_after is not None:
        warnings.append(
            f"allocated and reserved memory are peaks up to iteration {context.memory_after}, the last that the log "
            "prints; later ones are unknown"
        )
    return MemoryMetrics(
        peak_memory_allocated_gb=_mib(context.max_allocated_mib),
        peak_memory_reserved_gb=_mib(context.max_reserved_mib),
        peak_memory_device_used_gb=None if used is None else round_figure(gib_to_gb(used)),
    )


def _mib(mib: float | None) -> float | None:
    return None if mib is None else round_figure(gib_to_gb(mib / 1024))


def _gpu(training: Training, records: Table, world: int | None, warnings: list[str]) -> GpuInfo:
    context = training.context
    amd = "amd" in context.markers
    total = max(records.present("memory_total_gib"), default=None)
    name = context.words.get("device")
    unknown = "the versions of ROCm and PyTorch" if amd else "its vendor and the versions of its software"
    if name is None:
        unknown = f"the GPU's name{' and' if amd else ','} {unknown}"
        classes = gpus.classes_by_memory(total, "AMD") if total and amd else ()
        if classes:
            warnings.append(f"{total:g} GiB of memory, which the log states, is that of: {', '.join(classes)}")
    warnings.append(f"the log doesn't state {unknown}")
    return GpuInfo(
        device_name=name,
        device_count=world,
        total_memory_gb=round_figure(gib_to_gb(total)) if total else None,
        software_stack="rocm" if amd else None,
        architecture=context.words.get("architecture"),
    )


def _dialect(records: Table) -> str:
    shapes = dict.fromkeys(kind.shape for kind in records.kinds_there())
    return f"megatron ({', '.join(shapes)})" if shapes else "megatron"


MOST_SPANS = 12
"""Stretches of iterations that are said one by one."""


def spans(stretches: Iterable[tuple[int, int]]) -> str:
    """Iterations for people: “iteration 3” or “iterations 1–3, 7”; empty for none.

    Args:
        stretches: first and last iteration of each, ascending.
    """
    words: list[str] = []
    count = iterations = 0
    for count, (first, last) in enumerate(_joined(stretches), start=1):
        iterations += last - first + 1
        if count <= MOST_SPANS:
            words.append(f"{first}–{last}" if last > first else f"{first}")
    if count > MOST_SPANS:
        words.append(f"and {count - MOST_SPANS} more")
    return f"iteration{'s' if iterations > 1 else ''} {', '.join(words)}" if words else ""


def _joined(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first = last = None
    for start, end in stretches:
        if first is not None and last is not None:
            if start == last + 1:
                last = end
                continue
            yield first, last
        first, last = start, end
    if first is not None and last is not None:
        yield first, last
