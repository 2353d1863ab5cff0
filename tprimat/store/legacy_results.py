"""Result files without `schema_version`: those of an earlier tool, read with a note for every
doubt.

Three forms are known, each one JSON object that holds the times of the steps:

    first       platform "cuda" or "rocm", named benchmark_cuda_20260105_143022.json, no model
    January     raw_step_times, software_stack "cuda" or "rocm", no parallelism
    February    step_times, loss_values, learning_rates, software_stack "nemo" or "rocm"

On NVIDIA a callback in the training wrote them, on AMD a reader of Primus logs, and the same key
means different things. Values that can't be true become None, with a note that has the value.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from typing import Any

import msgspec

from tprimat.catalog import gpus
from tprimat.notes import Note, NoteValue, noted
from tprimat.results.account import Timing
from tprimat.results.fields import LARGEST_VALUE, Figures, JsonObject
from tprimat.results.outcome import ending_of
from tprimat.results.run import (
    GpuInfo,
    MemoryMetrics,
    ParallelismConfig,
    Platform,
    Run,
    Source,
    SourceFile,
    TrainingConfig,
    finite,
)
from tprimat.store import legacy_schema as schema
from tprimat.text import plain
from tprimat.units import gib_to_gb, round_figure

TOLERANCE = 0.001
"""How far a printed value may differ from the value by the steps; printed values are rounded."""

LONGEST_TEXT = 200


def decode(content: bytes, name: str) -> tuple[Run, ...]:
    """Return the one run of a file of an earlier tool; its name replaces values that the file
    itself doesn't state.

    Raises msgspec.DecodeError if it is not JSON, and ValidationError, which names the field, if it
    is no result.
    """
    parsed = schema.parse(content)
    if not isinstance(parsed, dict) or not (
        parsed.get("step_times") or parsed.get("raw_step_times")
    ):
        raise msgspec.ValidationError("no step times")
    file = SourceFile(path=name, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    return (_LegacyFile(parsed, file).run(),)


class _LegacyFile:
    """A file that becomes a Run; collects the notes and the names of the missing fields."""

    def __init__(self, parsed: JsonObject, file: SourceFile) -> None:
        self.stated = msgspec.convert(parsed, type=schema.Result)
        self.file = file
        self.named = schema.from_name(file.path)
        self.device = self.stated.gpu_info.device_name or ""
        self.stack = (self.stated.gpu_info.software_stack or "").lower()
        self.times = tuple(self.stated.step_times or self.stated.raw_step_times)
        self.notes: list[Note] = []
        self.missing: list[str] = []
        self.unread = _unread(parsed, self.stated, "")
        self.printed = self._printed_values()

    def run(self) -> Run:
        """Return the run, with all notes. Raises msgspec.ValidationError for values that can't
        be.
        """
        stated = self.stated
        raw_times = stated.raw_step_times
        if stated.step_times and raw_times and stated.step_times != raw_times:
            self._note("legacy-times-differ")
        count = len(self.times)
        framework = self._framework()
        from_log = stated.source == "primus_log_extraction" or framework == "primus"
        # The callback's first forms have raw_step_times and name neither framework nor source.
        by_callback = framework == "nemo" or (framework is None and bool(raw_times))
        timing = Timing()
        if from_log:
            timing = schema.LOG_TIMING
        elif by_callback:
            timing = schema.CALLBACK_TIMING
        platform = self._platform()
        gpu_info = self._gpu_info(from_log)
        training = self._training_config()
        learning_rates = self._series("learning_rates", stated.learning_rates)
        if stated.learning_rates and learning_rates.count(None) == count:
            # Without their positions they still distinguish two schedules.
            ends = finite((stated.learning_rates[0], stated.learning_rates[-1]))
            self.printed.update(first_learning_rate=ends[0], last_learning_rate=ends[1])
        status_reason = None
        if training.max_steps is not None and count < training.max_steps:
            status_reason = f"{count} of {training.max_steps} requested steps in the file"
        run = Run(
            platform=platform,
            framework=framework,
            model=self._model(),
            gpu_info=gpu_info,
            training_config=training,
            parallelism_config=self._parallelism(),
            timing=timing,
            timestamp=self._timestamp(from_log),
            status="incomplete" if status_reason else "complete",
            ending=ending_of(count, training.max_steps, ended=training.max_steps is None),
            status_reason=status_reason,
            source=Source(kind="result", files=(self.file,)),
            memory_metrics=self._memory(from_log, gpu_info.total_memory_gb),
            native_metrics=dict(self.printed),
            steps=tuple(range(1, count + 1)),
            window_steps=(1,) * count,
            step_times=self.times,
            loss_values=self._series("loss_values", stated.loss_values or stated.raw_loss_values),
            learning_rates=learning_rates,
            grad_norms=(None,) * count,
            lines=(None,) * count,
        )
        self._check_printed_values(training.max_steps)
        self._note_missing(timed=from_log or by_callback)
        return run.but(notes=noted(self.notes))

    def _note(self, code: str, **fields: NoteValue) -> None:
        self.notes.append(Note(code, fields))

    def _series(self, name: str, values: list[float | None]) -> tuple[float | None, ...]:
        count = len(self.times)
        if not values:
            self.missing.append(name)
            return (None,) * count
        if len(values) != count:
            self._note("legacy-series-ignored", series=name, values=len(values), steps=count)
            return (None,) * count
        kept = finite(values)
        lost = []
        for step, pair in enumerate(zip(kept, values, strict=True), 1):
            if pair[0] != pair[1]:
                lost.append(step)
        if lost:
            first = ", ".join(map(str, lost[:5]))
            if len(lost) > 5:
                first += ", …"
            self._note(
                "legacy-series-not-finite", series=name, lost=len(lost), count=count, steps=first
            )
        return kept

    def _printed_values(self) -> Figures:
        figures = {}
        for name, value in self.stated.performance_metrics.items():
            if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
                kind = {bool: "bool", str: "str", dict: "object", list: "array"}[type(value)]
                raise msgspec.ValidationError(
                    f"Expected `float | null`, got `{kind}` - at"
                    f" `$.performance_metrics.{_quoted(name)}`"
                )
            if name == "throughput_per_gpu_core":
                self._note("legacy-core-rate-ignored")
            elif re.fullmatch(r"\w{1,80}", name) is None:
                self.unread.append(f"performance_metrics.{name}")
            elif value is not None and not abs(value) <= LARGEST_VALUE:
                self._note("legacy-metric-ignored", metric=name)
            else:
                figures[name] = None if value is None else float(value)
        return figures

    def _platform(self) -> Platform | None:
        if self.device.endswith(schema.INVENTED_DEVICE):
            # The note is given with the device's other inventions.
            return None
        stated = self.stated.platform or ""
        device = self.device.lower()
        platform = schema.PLATFORMS.get(stated.lower())
        of_device: Platform | None = None
        if "nvidia" in device:
            of_device = "nvd"
        elif device.startswith("amd"):
            of_device = "amd"
        if platform and of_device and platform != of_device:
            self._note("legacy-platform-contradicts", stated=_short(stated), device=_short(device))
            return None
        if platform:
            return platform
        if stated.lower() not in schema.UNKNOWN_WORDS:
            self._note("legacy-platform-ignored", stated=_short(stated))
        if of_hardware := of_device or schema.PLATFORMS.get(schema.STACKS.get(self.stack, "")):
            return of_hardware
        if self.named.platform:
            self._note("legacy-from-name", field="platform", value=self.named.platform)
        return self.named.platform

    def _framework(self) -> str | None:
        framework = (self.stated.framework or "").lower()
        if schema.PLAIN.fullmatch(framework) and framework not in schema.UNKNOWN_WORDS:
            return schema.FRAMEWORKS.get(framework, framework)
        if self.stated.source == "primus_log_extraction":
            return "primus"
        named = self.named.framework
        if self.stack not in ("nemo", "prim"):
            return self._from_name("framework", named)
        of_stack = schema.FRAMEWORKS[self.stack]
        if named and of_stack != named:
            # The earlier tool wrote "nemo" for whatever ran on NVIDIA, so this is no statement.
            self._note("legacy-framework-from-name", value=named, stack=self.stack)
        return named or of_stack

    def _model(self) -> str | None:
        model = self.stated.model or ""
        if schema.PLAIN.fullmatch(model) and model.lower() not in schema.UNKNOWN_WORDS:
            return schema.model_name(model)
        return self._from_name("model", self.named.model)

    def _from_name(self, field: str, value: str | None) -> str | None:
        """Return the value in the file's name for a field that the file doesn't state."""
        if value:
            self._note("legacy-from-name", field=field, value=value)
        else:
            self.missing.append(field)
        return value

    def _gpu_info(self, from_log: bool) -> GpuInfo:
        if self.device.endswith(schema.INVENTED_DEVICE):
            self._note("legacy-device-invented", device=_short(self.device))
            return GpuInfo()
        gpu = self.stated.gpu_info
        stack = schema.STACKS.get(self.stack)
        if stack is None and gpu.cuda_version:
            stack = "cuda"
        elif stack is None and gpu.rocm_version:
            stack = "rocm"
        version = gpu.software_version or gpu.cuda_version or gpu.rocm_version
        info = GpuInfo(
            **self._known_of("gpu_info", GpuInfo, software_stack=stack, software_version=version)
        )
        if from_log and info.device_name:
            self._note("legacy-gpu-doubtful")
        card = gpus.match(info).gpu
        if card and info.gpu_cores and info.gpu_cores != card.cores:
            self._note(
                "legacy-cores-ignored", cores=info.gpu_cores, gpu=card.title, actual=card.cores
            )
            return info.but(gpu_cores=None)
        return info

    def _training_config(self) -> TrainingConfig:
        stated = self._known_of("training_config", TrainingConfig)
        precision = stated.pop("precision")
        return TrainingConfig(
            **stated,
            precision=precision if precision in schema.PRECISIONS else None,
            precision_detail=precision,
        )

    def _parallelism(self) -> ParallelismConfig:
        stated = self.stated.parallelism_config
        sizes = {}
        for name, size in msgspec.structs.asdict(stated).items():
            if name != "strategy_name" and size is not None:
                sizes[name] = self._known(f"parallelism_config.{name}", size)
        if not any(sizes.values()):
            self.missing.append("parallelism_config")
        strategy = None
        for name in (stated.strategy_name, self.stated.training_config.parallel_strategy):
            if strategy is None and (name or "").lower() not in schema.UNKNOWN_WORDS:
                strategy = plain(name, LONGEST_TEXT)
        return ParallelismConfig(strategy_name=strategy, **sizes)

    def _memory(self, from_log: bool, total_gb: float | None) -> MemoryMetrics:
        stated = self.stated.memory_metrics
        held = {}
        for name, gb in msgspec.structs.asdict(stated).items():
            if gb and 0 < gb <= LARGEST_VALUE:
                held[name] = gb
        if not held:
            self.missing.append("memory_metrics")
            return MemoryMetrics()
        if not from_log:
            if peak := held.pop("peak_memory_allocated_gb", None):
                self._note("legacy-peak-ignored", peak=peak)
            return MemoryMetrics(**held)
        # A Primus log has one memory figure, `hip mem usage`, in GiB that it labels GB: 191.98
        # "GB" is its total for an MI300X, whose memory is 206.1e9 bytes.
        gib = max(
            held.get("peak_memory_allocated_gb", 0.0), held.get("avg_memory_allocated_gb", 0.0)
        )
        used = round_figure(gib_to_gb(gib))
        if total_gb and used and used > total_gb:
            self._note("legacy-memory-ignored", gib=gib, total=total_gb)
            return MemoryMetrics()
        self._note("legacy-memory-in-use", gib=gib, used=used)
        return MemoryMetrics(peak_memory_device_used_gb=used or None)

    def _timestamp(self, from_log: bool) -> str | None:
        text = self.stated.timestamp
        if not text:
            self.missing.append("timestamp")
            return None
        try:
            moment = datetime.datetime.fromisoformat(re.sub("Z$", "+00:00", text))
        except ValueError:
            self._note("legacy-timestamp-unread", stated=_short(text))
            return None
        if from_log:
            self._note("legacy-timestamp-of-reader", stated=moment.isoformat())
        elif moment.utcoffset() is None:
            self._note("legacy-timestamp-zoneless", stated=moment.isoformat())
        else:
            return moment.isoformat()
        return None

    def _check_printed_values(self, max_steps: int | None) -> None:
        times = self.times
        count = len(times)
        total = math.fsum(times)
        if max_steps is not None and count > max_steps:
            self._note("legacy-steps-beyond-plan", steps=count, requested=max_steps)
        printed = self.printed.get("total_steps")
        if printed is not None and printed != count:
            self._note("legacy-steps-contradict", printed=printed, steps=count)
        average = self.printed.get("avg_step_time_seconds")
        if average is not None and not _close(average, total / count):
            if count > 1 and _close(average, (total - times[0]) / (count - 1)):
                self._note("legacy-mean-recomputed", printed=average)
            else:
                self._note("legacy-mean-contradicts", printed=average, mean=total / count)
        wall = self.printed.get("total_time_seconds")
        if wall is not None and not _close(wall, total):
            if wall > total:
                beyond = wall - total
                self._note("legacy-total-time-longer", printed=wall, total=total, beyond=beyond)
            else:
                self._note("legacy-total-time-shorter", printed=wall, total=total)

    def _note_missing(self, *, timed: bool) -> None:
        missing = [*self.missing, "recomputation", "optimizer", "data", "the model's shape"]
        self._note("legacy-unknown", names=", ".join(missing))
        self._note("legacy-steps-counted")
        if not timed:
            self._note("legacy-timer-unknown")
        devices = self.stated.gpu_info.device_count
        if self.stated.training_config.num_gpus is None and devices is not None:
            self._note("legacy-gpus-assumed", devices=devices)
        if self.unread:
            names = list(map(_quoted, self.unread[:8]))
            if len(self.unread) > 8:
                names.append("…")
            self._note("legacy-unused", names=", ".join(names))

    def _known_of(self, group: str, kind: type[msgspec.Struct], **derived: Any) -> JsonObject:
        """Return the fields that a kind of group has, as the file states them or as they were
        derived.
        """
        stated = {**msgspec.structs.asdict(getattr(self.stated, group)), **derived}
        values = {}
        for name, value in stated.items():
            if name in kind.__struct_fields__:
                values[name] = self._known(f"{group}.{name}", value)
        return values

    def _known(self, name: str, value: Any) -> Any:
        """Return a text, a count or an amount; None, with its name among the missing fields, if it
        can't be one.
        """
        if isinstance(value, str):
            value = plain(value, LONGEST_TEXT)
            if value.lower() in schema.UNKNOWN_WORDS:
                value = None
        elif value is not None and not 0 < value <= LARGEST_VALUE:
            name = f"{name} ({value})"
            value = None
        if value is None:
            self.missing.append(name)
        return value


def _unread(parsed: JsonObject, stated: msgspec.Struct, prefix: str) -> list[str]:
    """Return the names of the fields that a file holds and no form has, those of its groups too."""
    names = [prefix + name for name in parsed if name not in stated.__struct_fields__]
    for name in parsed:
        group = getattr(stated, name, None)
        if isinstance(group, msgspec.Struct):
            names += _unread(parsed[name], group, f"{name}.")
    return names


def _close(printed: float, computed: float) -> bool:
    return abs(printed - computed) <= max(TOLERANCE * computed, 0.0005)


def _quoted(text: str) -> str:
    """Return foreign text for a message: in quotes, so that its end is seen."""
    return f"'{_short(text)}'"


def _short(text: str) -> str:
    return plain(text, 60)
