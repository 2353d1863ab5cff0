"""Conversion of a Megatron log's records and statements to a Run.

native_metrics holds, as series: `tokens_per_second_per_gpu`, `tflops_per_gpu`,
`memory_device_used_gb`, `memory_used_fraction`, `energy_joules_per_gpu`, `power_watts_per_gpu`,
each if the log prints it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tprimat.catalog import gpus
from tprimat.notes import Note, NoteValue
from tprimat.read.megatron import setup, times
from tprimat.read.megatron.table import Table
from tprimat.read.megatron.training import MegatronTraining
from tprimat.read.parsing.parsed_log import Given, ParsedLog
from tprimat.read.parsing.placing import Row, TimedRow
from tprimat.read.parsing.records import afterwards
from tprimat.read.parsing.remarks import (
    RATE_AGREEMENT,
    Health,
    is_finite,
    missing,
    spans,
    unread_labels,
)
from tprimat.read.parsing.run_builder import (
    RunBuilder,
    Series,
    SeriesAndDoubts,
    known_model,
    sizes_of,
    timer,
)
from tprimat.read.parsing.values import LoggedValue, LoggedValues, summary_values
from tprimat.results.fields import LARGEST_COUNT, FieldValues
from tprimat.results.outcome import Cause, Outcome, ending_of, outcome_of
from tprimat.results.run import ModelConfig, ParallelismConfig, TrainingConfig
from tprimat.units import gib_to_gb

_NATIVE = {
    "tokens_per_second_per_gpu": "tokens_rate",
    "tflops_per_gpu": "tflops",
    "samples_per_second": "samples_rate",
    "memory_device_used_gb": "hip_gib",
    "memory_used_fraction": "memory_fraction",
    "energy_joules_per_gpu": "energy",
    "power_watts_per_gpu": "power",
}
"""Series of native_metrics, and the record's field."""

TIMING = timer(
    clock=(
        "host clock at Megatron's interval timer, after a barrier of all ranks and a device"
        " synchronize"
    ),
    covers=(
        "data wait, forward and backward of all micro-batches, gradient reduction and optimizer; "
        "not evaluation and checkpoints"
    ),
    over_ranks="all ranks meet at the timer's barrier; the last rank prints",
)


@dataclasses.dataclass
class MegatronRun(RunBuilder):
    """Builder of the Run of one Megatron training."""

    training: MegatronTraining
    fields: LoggedValues = dataclasses.field(default_factory=LoggedValues)
    prints_each_loss: ClassVar[bool] = True

    @classmethod
    def of(cls, training: MegatronTraining) -> MegatronRun:
        """Return the builder of a training whose log is over."""
        table = training.table
        marks = training.around.marks
        stated = LoggedValues(training.around.stated)
        if training.world is not None:
            stated.setdefault("world_size", training.world)
        fields = setup.fields_of(stated)
        batch = batch_statement(table, stated)
        fields.pop("global_batch_size", None)
        if batch is not None:
            fields["global_batch_size"] = batch
        # A curriculum changes the values of the arguments.
        length = _size_of_lines(table, "sequence_length")
        if length is not None:
            text = f"actual seqlen: {length}"
            fields["sequence_length"] = LoggedValue(length, table.lines[0], text)
        if line := marks.get("amd"):
            fields["platform"] = LoggedValue("amd", line, "")
            fields["software_stack"] = LoggedValue("rocm", line, "")
        if device := stated.get("device"):
            fields["device_name"] = device
        if len(table) and (planned := table.latest.planned):
            last = LoggedValue(planned, table.lines[-1], f"{table.last}/ {planned}")
            fields["max_steps"] = dataclasses.replace(fields.get("max_steps", last), value=planned)
        shape, left_out = setup.model_config(stated)
        shapes = dict.fromkeys(kind.shape for kind in table.kinds)
        version = stated.word("backend_version")
        builder = cls(
            framework="primus" if "primus" in marks else "megatron",
            log_format=f"megatron ({', '.join(shapes)})" if shapes else "megatron",
            training=training,
            timing=TIMING,
            versions={"megatron-core": version} if version else {},
            settings=setup.switches(stated),
            shape=shape,
            fields=fields,
            left_out=left_out,
        )
        builder.memory = builder._memory()
        builder.gpu = builder._gpu("amd" in marks)
        return builder

    @property
    def stated(self) -> LoggedValues:
        """What the log states, by a result's fields."""
        return self.fields

    def reading(self) -> ParsedLog:
        """Return the result of the reader."""
        parsed = super().reading()
        stated = {**parsed.stated}
        stated.pop("model", None)
        if model := self._model():
            stated["model"] = model
        return dataclasses.replace(parsed, stated=stated)

    def _model(self) -> LoggedValue | None:
        """Return the model's name as a result will have it, with the line of the log that gives
        it.
        """
        called = self.fields.get("model")
        layers = self.training.around.stated.get("num_layers")
        name, scale, _ = known_model(self.shape or ModelConfig(), called.value if called else None)
        origin = (layers or called) if scale is not None else (called or layers)
        if name and origin:
            return dataclasses.replace(origin, value=name)
        return None

    def sizes(self, given: Given) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return the sizes of a step, and the parallelism."""
        tensor = self.fields.count("tensor_model_parallel_size")
        pipeline = self.fields.count("pipeline_model_parallel_size")
        return sizes_of(self.fields, given, infer=bool(tensor and pipeline))

    def series(self, sizes: TrainingConfig, doubts: list[Note]) -> SeriesAndDoubts:
        """Return the series of a Run as its arguments, and warnings."""
        training = self.training
        table = self.training.table
        warnings = [*training.warnings, *training.many_restarts(), *training.conflicts, *doubts]
        seconds, windows = times.step_times(training, self.fields.count("logging_steps"), warnings)
        _warn_of_missing(table, seconds, windows, warnings)
        _suggest_length(table, seconds, sizes, warnings)
        native = {}
        for name, field in _NATIVE.items():
            if table.present(field):
                native[name] = table.column(field)
        if used := native.get("memory_device_used_gb"):
            native["memory_device_used_gb"] = tuple(
                gib if gib is None else round(gib_to_gb(gib), 4) for gib in used
            )
        return {
            "steps": tuple(table.iterations),
            "window_steps": tuple(windows),
            "step_times": tuple(seconds),
            "loss_values": table.column("loss"),
            "learning_rates": table.column("learning_rate"),
            "grad_norms": table.column("grad_norm"),
            "lines": tuple(table.lines),
            "native_metrics": native,
        }, warnings

    def health(self, series: Series) -> list[Health]:
        """Return by line whether its iterations trained, as far as it states that. The NaNs that it
        counts are those of the loss.
        """
        table = self.training.table
        health = []
        for step, window, loss, norm, skipped, nans, kind in zip(
            *(series[name] for name in ("steps", "window_steps", "loss_values", "grad_norms")),
            *(table.column("skipped"), table.column("nans"), table.kinds),
            strict=True,
        ):
            is_loss = is_finite(loss, bool(nans) or "loss" in kind.not_finite)
            is_norm = is_finite(norm, "grad_norm" in kind.not_finite)
            health.append(Health(step, is_loss, is_norm, 2 * (skipped or 0) > window))
        return health

    def rows(self, series: Series) -> Iterable[TimedRow]:
        """Yield the records, those that a restart repeats too, with times for build_timeline()."""
        table = self.training.table
        times = series["step_times"]
        windows = series["window_steps"]
        columns = (table.lines, table.iterations, table.micros, times, windows, table.kinds)
        rows: list[tuple[Any, ...]] = list(zip(*columns, strict=True))
        for lost in self.training.lost:
            rows.append((lost.line, lost.iteration, lost.micros, lost.seconds, None, lost.kind))
        for line, step, micros, seconds, window, kind in sorted(rows, key=lambda row: row[0]):
            yield Row(step, line, micros / 1e6, seconds, window), kind.aware, kind.resolution

    def unknowns(self, sizes: TrainingConfig, series: Series) -> list[Note]:
        """Return nothing: what else is unknown is among the last remarks."""
        return []

    def outcome(self, planned: int | None, series: Series, warnings: list[Note]) -> Outcome:
        """Return how it ended; may add warnings."""
        around = self.training.around
        table = self.training.table
        cause = around.causes.cause()
        success = around.marks.get("success")
        if not len(table):
            ending = ending_of(ended=success is not None, cause=cause)
            if success:
                reason = (
                    f"the run completed (line {success}), but the log has no iteration line: import"
                    " logs/pre_trainer/rank-N/debug.log of the last rank, or set stderr_sink_level"
                    " to DEBUG"
                )
                return Outcome("incomplete", reason, ending)
            without = "log ends before the first iteration without an error"
            return Outcome("failed", cause.sentence if cause else without, ending)
        last = table.last
        requested = table.latest.planned
        if success and success < max(table.lines):
            success = None
        exited = last < requested and success is not None and around.exited
        asked = Cause("stopped", f"Megatron exited {exited}", success) if exited else None
        ending = ending_of(last, requested, ended=success is not None, asked=asked, cause=cause)
        if ending.kind == "finished":
            if asked is not None:
                return outcome_of(ending, f"{last} of max_steps={requested} steps: {asked.text}")
            if last < requested:
                facts: dict[str, NoteValue] = {"planned": requested, "line": success}
                warnings.append(Note("stopped-early", {"iteration": last, **facts}))
            warnings += afterwards(around.causes)
            return outcome_of(ending)
        ended = f"log ends at iteration {last} of {requested}"
        if self.training.cut_off:
            return outcome_of(
                ending_of(),
                f"{ended}; file truncated within the line of iteration {self.training.cut_off}",
            )
        if cause:
            end = f": {cause.sentence}"
        else:
            end = " without an error (killed, still running, or truncated)"
        return outcome_of(ending, f"{ended}{end}")

    def _memory(self) -> dict[str, float]:
        around = self.training.around
        table = self.training.table
        used = max(table.present("hip_gib"), default=None)
        if used is None:
            used = max(table.present("rocm_gib"), default=None)
            if used is not None:
                # Primus' core runtime repeats its reading of iteration 2 on every later line.
                self.remarks.append(Note("memory-from-rocm-smi"))
        if "after" in around.memory:
            last = round(around.memory["after"])
            self.remarks.append(Note("memory-peaks-early", {"iteration": last}))
        printed = {}
        for kind, mib in around.memory.items():
            if kind != "after":
                printed[f"peak_memory_{kind}_mib"] = mib
        return summary_values({**printed, "peak_memory_device_used_gib": used})

    def _gpu(self, amd: bool) -> FieldValues:
        total = max(self.training.table.present("memory_total_gib"), default=None)
        if amd:
            unknown = "the versions of ROCm and PyTorch"
        else:
            unknown = "its vendor and the versions of its software"
        if "device_name" not in self.fields:
            unknown = f"the GPU's name{' and' if amd else ','} {unknown}"
            if total and amd:
                classes = ", ".join(gpu.title for gpu in gpus.amd_gpus_by_memory(total))
            else:
                classes = None
            if classes:
                self.remarks.append(
                    Note("gpus-of-this-memory", {"gib": f"{total:g}", "gpus": classes})
                )
        self.remarks.append(Note("machine-unstated", {"what": unknown}))
        return {
            **summary_values({"total_memory_gib": total or None}),
            "architecture": self.training.around.stated.word("architecture"),
        }


def batch_statement(records: Table, stated: LoggedValues) -> LoggedValue | None:
    """Return the global batch size that every iteration line states, or the dump's if none does."""
    batch = _size_of_lines(records, "batch")
    if batch is None:
        return stated.count_statement("global_batch_size")
    sizes = zip(records.lines, records.column("batch"), strict=True)
    line = min(line for line, size in sizes if size is not None and 1 <= size <= LARGEST_COUNT)
    return LoggedValue(batch, line, f"global batch size: {batch}")


def _size_of_lines(records: Table, column: str) -> int | str | None:
    """Return the size that all lines state, or its range; None if none states it."""
    printed = records.present(column)
    sizes = sorted({int(size) for size in printed if 1 <= size <= LARGEST_COUNT})
    if len(sizes) > 1:
        return f"{sizes[0]} to {sizes[-1]}"
    return sizes[0] if sizes else None


def _warn_of_missing(
    table: Table, seconds: Sequence[float | None], windows: Sequence[int], warnings: list[Note]
) -> None:
    def warn(code: str, those: Iterable[object]) -> None:
        places = zip(table.iterations, those, strict=True)
        if where := spans(((each, each) for each, is_one in places if is_one), "iteration"):
            warnings.append(Note(code, {"steps": where}))

    kinds = list(table.kinds)
    warn("grad-norms-not-finite", ("grad_norm" in kind.not_finite for kind in kinds))
    warn("iterations-skipped", table.column("skipped"))
    warn("nan-iterations", table.column("nans"))
    warn("values-garbled", (kind.garbled for kind in kinds))
    warnings += unread_labels(name for kind in dict.fromkeys(kinds) for name in kind.unread)
    # For a restored time, the printed one is there.
    warn("times-unreadable", (time is None for time in seconds))
    if table.present("loss"):
        lines = zip(table.column("loss"), table.column("skipped"), kinds, strict=True)
        without = (
            loss is None and not skip and "loss" not in kind.not_finite
            for loss, skip, kind in lines
        )
        warn("loss-unprinted", without)
    warnings += missing(table.iterations, windows, "iteration", "lines-missing")


def _suggest_length(
    records: Table, seconds: Sequence[float | None], sizes: TrainingConfig, warnings: list[Note]
) -> None:
    """Say which length of a sequence, which isn't stated, the log's own tokens/s/GPU mean."""
    batch = sizes.global_batch_size
    world = sizes.num_gpus
    rates = zip(records.column("tokens_rate"), seconds, strict=True)
    products = sorted(rate * time for rate, time in rates if rate and time)
    if not batch or not world or not products or sizes.sequence_length:
        return
    middle = products[len(products) // 2]
    agree = products[-1] - products[0] <= 2 * RATE_AGREEMENT * middle
    if agree:
        warnings.append(Note("length-suggested", {"tokens": round(middle * world / batch)}))
    else:
        warnings.append(Note("length-fits-no-rate"))
