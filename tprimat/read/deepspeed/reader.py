"""Reader of what DeepSpeed prints: throughput timer, pipeline engine, wall-clock breakdown, flops profiler.

    epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=173.4, CurrSamplesPerSec=171.9, …
    steps: 1 loss: 12.7902 iter time (s): 150.471 samples/sec: 6.805

The timer's samples are of all GPUs. CurrSamplesPerSec is of the last step alone, from its forward
pass on where the loader is somebody else's; RunningAvgSamplesPerSec is a mean since step 2. A
pipeline's line is the mean of the steps since the one before.
"""

from __future__ import annotations

import re

from tprimat.read.deepspeed import setup
from tprimat.read.deepspeed.profile import Profile
from tprimat.read.parsing.options import COMPUTED, ECHOED, options_in
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder, sizes_of
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.read.parsing.values import LoggedValues, count, number, state
from tprimat.results.run import Timing
from tprimat.units import gib_to_gb, round_figure

_NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d{1,3})?|nan|inf))"
_TIMER = re.compile(
    r"(?:epoch=(\d{1,9})/micro_step=\d{1,12}/global_step=(\d{1,12})|(?<![\d/])(\d{1,9})/(\d{1,12})), "
    rf"(?:RunningAvgSamplesPerSec={_NUMBER}, CurrSamplesPerSec={_NUMBER}|SamplesPerSec={_NUMBER})"
    r"(?:, MemAllocated=([\d.]{1,20})GB, MaxMemAllocated=([\d.]{1,20})GB)?"
)
_PIPELINE = re.compile(rf"\bsteps: (\d{{1,12}}) loss: {_NUMBER} iter time \(s\): {_NUMBER} samples/sec: {_NUMBER}")
_LOGGED = re.compile(r"\[Rank \d+\] step=(\d{1,12}), skipped=(\d{1,12}), lr=\[([^\]]{0,2000})\]")
_PARTS = re.compile(r"time \(ms\) \|(.{1,4000})")
_PART = re.compile(rf"\b(fwd|bwd|bwd_inner|bwd_allreduce|step|forward|backward): *{_NUMBER}")
_ARGUMENT = re.compile(
    r"^\s*(?:\[[^\]]*\]:?\s*)*"
    r"(model_parallel_size|pipe_parallel_size|batch_size|gas|seq_length|world_size|train_iters) \.{3,} (\d{1,15})\s*$"
)
_OLD_ARGUMENTS = {
    "model_parallel_size": "tensor_model_parallel_size",
    "pipe_parallel_size": "pipeline_model_parallel_size",
    "batch_size": "micro_batch_size",
    "gas": "gradient_accumulation_steps",
    "seq_length": "sequence_length",
    "world_size": "num_gpus",
    "train_iters": "max_steps",
}
"""Arguments of Megatron as the first versions with DeepSpeed called them."""

_LENGTH = re.compile(r"\bactual seqlen: *(\d{1,9})")
_EXITED = re.compile(r"\bProcess (\d{1,12}) exits successfully")
_EPOCH = re.compile(r"\bBeginning of Epoch \d+/(\d{1,9}), Total Micro Batches (\d{1,12})")
_ENGINE = re.compile(
    r"\[config\.py:\d+:print\]|DeepSpeed info: version=|\[engine\.py:\d+:|Rank \d+\] step=\d+, skipped="
)

_TIMING = {
    "timer": Timing(
        clock="DeepSpeed's throughput timer on the host, with a device synchronize before and after",
        covers="the last step alone: from the loader's batch (DeepSpeed's own loader) or the forward pass (another "
        "loader, whose waiting isn't in it) to the optimizer's end",
        over_ranks="rank 0",
    ),
    "pipeline": Timing(
        clock="host clock of DeepSpeed's pipeline engine",
        covers="train_batch: data, all micro-batches and the optimizer, mean of the steps between two lines",
        over_ranks="rank 0 of the pipeline",
    ),
}


class Reader:
    """A parsed_log.Reader of DeepSpeed logs."""

    name = "deepspeed"
    looks_for = "DeepSpeed's timer (“CurrSamplesPerSec=…” or “iter time (s): …”)"

    def __init__(self) -> None:
        self._sorter = RecordSequencer()
        self._current: tuple[Record, set[str]] | None = None
        self._logged: tuple[int, float | None] | None = None
        self._skipped = 0
        self._profile = Profile()
        self._exited: set[str] = set()
        self._engine = False
        self._cumulative_only = False
        self._kinds: set[str] = set()
        self._parts: dict[str, list[float]] = {}
        self._peak: float | None = None

    @property
    def recognised(self) -> bool:
        """Whether a line of the timer, of a pipeline or of the profiler was seen."""
        return bool(self._sorter.trainings) or self._profile.has_block

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if "actual seqlen:" in text and "iteration" in text:
            # Megatron's line as DeepSpeed's fork of it prints it.
            self._engine = True
            if length := _LENGTH.search(text):
                state(self._sorter.pending.stated, "sequence_length", count(length[1]), text, line.number)
        if "SamplesPerSec=" in text and self._timer(line):
            return
        if "iter time (s):" in text and self._pipeline(line):
            return
        pending = self._sorter.pending
        if "skipped=" in text and (logged := _LOGGED.search(text)):
            rates = [number(each) for each in logged[3].split(",")]
            self._logged = int(logged[1]), rates[0] if rates else None
            self._skipped = int(logged[2])
            self._engine = True
            self._set_rate()
        elif "time (ms)" in text and (parts := _PARTS.search(text)):
            self._take_parts(parts[1])
        self._profile.feed(line)
        pending.feed(line.number, text)
        setup.statements_in(text, line.number, pending.stated)
        options_in(text, line.number, pending.stated, bare=False)
        self._arguments(line, pending.stated)

    def finish(self) -> list[ParsedLog]:
        """Return the trainings in log order; one without records where only the engine's lines are there."""
        trainings = self._sorter.finish()
        if not trainings:
            if not (self._engine or self._profile.has_block):
                return []
            trainings = [LoggedTraining(around=self._sorter.pending)]
        return [self._parsed_log(training, last=training is trainings[-1]) for training in trainings]

    def _arguments(self, line: Line, stated: LoggedValues) -> None:
        text = line.text
        if " ..." in text and (argument := _ARGUMENT.match(text)):
            state(stated, _OLD_ARGUMENTS[argument[1]], count(argument[2]), text, line.number)
        elif "exits successfully" in text and (exited := _EXITED.search(text)):
            self._exited.add(exited[1])
            self._sorter.pending.marks["success"] = line.number
        elif "Total Micro Batches" in text and (epoch := _EPOCH.search(text)):
            state(stated, "epochs", int(epoch[1]), text, line.number)
            state(stated, "micro_batches_per_epoch", int(epoch[2]), text, line.number)
        elif not self._engine and "[INFO]" in text and _ENGINE.search(text):
            self._engine = True

    def _timer(self, line: Line) -> bool:
        found = _TIMER.search(line.text)
        if found is None or (not line.whole and found.end() == len(line.text)):
            return False
        step = int(found[2] or found[4])
        if found[2] is None and self._logged is not None:
            # The older forms count from the beginning of an epoch.
            step = self._logged[0]
        if step < 1:
            return True
        record = self._record(step, "timer", line)
        for place, name in (
            (5, "running_samples_per_second"),
            (6, "samples_per_second"),
            (7, "running_samples_per_second"),
        ):
            if found[place]:
                record.put(name, number(found[place]))
        if found[7] and not found[6]:
            self._cumulative_only = True
        for place, name in ((8, "memory_allocated_gb"), (9, "memory_max_allocated_gb")):
            gib = number(found[place])
            if gib is not None:
                record.put(name, round(gib_to_gb(gib), 4))
                self._peak = max(self._peak or 0.0, gib_to_gb(gib)) if place == 9 else self._peak
        self._kinds.add("timer")
        return True

    def _pipeline(self, line: Line) -> bool:
        found = _PIPELINE.search(line.text)
        if found is None or (not line.whole and found.end() == len(line.text)):
            return False
        step = int(found[1])
        if step < 1:
            return True
        last = self._sorter.trainings[-1].last if self._sorter.trainings else None
        record = self._record(step, "pipeline", line)
        before = last.step if last is not None and last.step < step else 0
        record.window = step - before if before else None
        record.put("loss", number(found[2]))
        record.put("seconds", number(found[3]))
        record.put("samples_per_second", number(found[4]))
        self._kinds.add("pipeline")
        return True

    def _record(self, step: int, kind: str, line: Line) -> Record:
        """Return the record of a step: the current one, which another line of it began, or a new one."""
        if self._current is not None and self._current[0].step == step and kind not in self._current[1]:
            self._current[1].add(kind)
            return self._current[0]
        record = Record(step, line.number, stamp=last_stamp(line.text[:200]))
        self._current = (record, {kind})
        self._sorter.take(record)
        self._set_rate()
        return record

    def _set_rate(self) -> None:
        if self._current and self._logged and self._logged[0] == self._current[0].step:
            self._current[0].put("learning_rate", self._logged[1])

    def _take_parts(self, text: str) -> None:
        found = {name: value for name, text_ in _PART.findall(text) if (value := number(text_)) is not None}
        # Under a pipeline, Megatron's own timers print zeros.
        if any(found.values()) and all(value < 1e12 for value in found.values()):
            for name, value in found.items():
                self._parts.setdefault(name, []).append(value)

    def _parsed_log(self, training: LoggedTraining, *, last: bool) -> ParsedLog:
        stated = training.around.stated
        if last and self._exited:
            state(stated, "num_gpus", len(self._exited), f"{len(self._exited)} processes exit successfully", 1, ECHOED)
        if stated.count("tensor_model_parallel_size") is None and stated.count("pipeline_model_parallel_size") is None:
            setup.world_from_replicas(stated)
            state(stated, "only_data_parallel", True)
        _planned(stated)
        if self._profile.has_block:
            self._profile.state(stated)
        unknown = {}
        batch = _batch(stated)
        found = training.ordered()
        timed = [record for record in found if record.seconds is None and record.native.get("samples_per_second")]
        for record in timed:
            record.window = 1
            if batch:
                record.put("seconds", batch / record.native["samples_per_second"])
        pipelined = [record for record in found if "pipeline" in self._kinds and record.window is None]
        if pipelined and len(found) > 1:
            pipelined[0].window = min(found[0].step, found[1].step - found[0].step)
        if timed and not batch:
            unknown["step_times"] = (
                "no step times: the timer prints samples/s, and the log doesn't state the global batch size"
            )
        elif self._cumulative_only:
            unknown["step_times"] = "no step times: this version prints a mean since the second step alone"
        if timed and batch:
            training.warnings.append(
                "step times are the global batch size over CurrSamplesPerSec: of the step that is printed alone, and "
                "without the wait for data where the loader isn't DeepSpeed's"
            )
        if last and self._skipped:
            training.warnings.append(
                f"{self._skipped} optimizer steps were skipped because of overflows: they count, and are faster"
            )
        profile_only = self._profile.has_block and not found
        memory = {}
        if last and self._peak is not None:
            memory["peak_memory_allocated_gb"] = round_figure(self._peak) or 0.0
        return RunBuilder(
            "deepspeed",
            f"deepspeed ({', '.join(sorted(self._kinds)) or ('flops profiler' if profile_only else 'engine')})",
            training,
            _TIMING["pipeline" if "pipeline" in self._kinds else "timer"],
            figures=self._profile.figures() if last else {},
            breakdown=self._breakdown() or (self._profile.breakdown() if last else {}),
            memory=memory,
            unknown=unknown,
            fixed_status=("complete", None) if profile_only else None,
        ).reading()

    def _breakdown(self) -> dict[str, float | None]:
        """Return the mean seconds of the parts of a step; the first print is excluded as warm-up."""
        return {
            name: sum(values[1:] or values) / len(values[1:] or values) / 1e3 for name, values in self._parts.items()
        }


def _batch(stated: LoggedValues) -> int | None:
    return sizes_of(stated, {})[0].global_batch_size


def _planned(stated: LoggedValues) -> None:
    """State the steps of an epoch's micro-batches, where a script announces epochs."""
    epochs, micro = stated.count("epochs"), stated.count("micro_batches_per_epoch")
    accumulation = stated.count("gradient_accumulation_steps")
    if stated.count("max_steps") is None and epochs and micro and accumulation and micro % accumulation == 0:
        source = stated["micro_batches_per_epoch"]
        state(stated, "max_steps", epochs * (micro // accumulation), source.text, source.line, COMPUTED)
