"""Reader of what DeepSpeed prints: throughput timer, pipeline engine, wall-clock breakdown, flops
profiler.

    epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=173.4, CurrSamplesPerSec=171.9, …
    steps: 1 loss: 12.7902 iter time (s): 150.471 samples/sec: 6.805

The timer counts samples of all GPUs. CurrSamplesPerSec covers the last step alone, from its forward
pass on if the loader is somebody else's; RunningAvgSamplesPerSec is a mean since step 2. A
pipeline's line is the mean of the steps since the one before.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
from collections.abc import Mapping, Sequence

from tprimat.notes import Note
from tprimat.read.deepspeed import setup
from tprimat.read.deepspeed.profile import Profile
from tprimat.read.parsing.options import COMPUTED, ECHOED
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder, SeriesAndDoubts, timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.read.parsing.values import LoggedValues, count, number, state, statements
from tprimat.results.account import Timing
from tprimat.results.outcome import ending_of, outcome_of
from tprimat.results.run import TrainingConfig
from tprimat.settings.rows import names

_NUMBER = r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d{1,3})?|nan|inf)"
_TIMER = re.compile(
    r"(?:epoch=\d{1,9}/micro_step=\d{1,12}/global_step=(?P<step>\d{1,12})"
    r"|(?<![\d/])\d{1,9}/(?P<step_of_epoch>\d{1,12})), "
    rf"(?:RunningAvgSamplesPerSec=(?={_NUMBER}, CurrSamplesPerSec={_NUMBER})|SamplesPerSec=)"
    rf"(?P<running_samples_per_second>{_NUMBER})(?:,"
    rf" CurrSamplesPerSec=(?P<samples_per_second>{_NUMBER}))?"
    r"(?:, MemAllocated=(?P<memory_allocated_gib>[\d.]{1,20})GB"
    r", MaxMemAllocated=(?P<memory_max_allocated_gib>[\d.]{1,20})GB)?"
)
_PIPELINE = re.compile(
    rf"\bsteps: (?P<step>\d{{1,12}}) loss: (?P<loss>{_NUMBER}) iter time \(s\):"
    rf" (?P<seconds>{_NUMBER}) "
    rf"samples/sec: (?P<samples_per_second>{_NUMBER})"
)
_LOGGED = re.compile(r"\[Rank \d+\] step=(\d{1,12}), skipped=(\d{1,12}), lr=\[([^\]]{0,2000})\]")
_PARTS = re.compile(r"time \(ms\) \|(.{1,4000})")
_PART = re.compile(rf"\b(fwd|bwd|bwd_inner|bwd_allreduce|step|forward|backward): *({_NUMBER})")
_STATEMENTS = statements(
    *(
        (
            f"{name} ...",
            count,
            1,
            rf"^\s*(?:\[(?!config\.py)[^\]]*\]:?\s*)*{name} \.{{3,}} (?P<{field}>\d{{1,15}})\s*$",
        )
        # Arguments of Megatron as the first versions with DeepSpeed called them; in DeepSpeed's own
        # configuration world_size is something else (setup.py).
        for name, field in names("deepspeed").items()
    ),
    # A reward model in DeepSpeed-Chat: a sample is a chosen and a rejected answer.
    ("chosen_last_scores", str, 1, r"\b(?P<pairs>chosen_last_scores) \("),
    (
        "Total Micro Batches",
        count,
        1,
        (
            r"\bBeginning of Epoch \d+/(?P<epochs>\d{1,9}), Total Micro Batches"
            r" (?P<micro_batches_per_epoch>\d{1,12})"
        ),
    ),
)
_EXITED = re.compile(r"\bProcess (\d{1,12}) exits successfully")
_ENGINE = re.compile(
    r"\[config\.py:\d+:print\]|DeepSpeed info: version=|\[engine\.py:\d+:|Rank \d+\] step=\d+,"
    r" skipped="
    r"|iteration.{0,1000}actual seqlen:"
)

_TIMING = {
    "timer": Timing(
        kind="sampled",
        clock=(
            "DeepSpeed's throughput timer on the host, with a device synchronize before and after"
        ),
        covers=(
            "the last step alone: from the loader's batch (DeepSpeed's own loader) or the forward"
            " pass (another loader, whose waiting isn't in it) to the optimizer's end"
        ),
        over_ranks="rank 0",
    ),
    "pipeline": timer(
        clock="host clock of DeepSpeed's pipeline engine",
        covers=(
            "train_batch: data, all micro-batches and the optimizer, mean of the steps between two"
            " lines"
        ),
        over_ranks="rank 0 of the pipeline",
    ),
}


@dataclasses.dataclass
class DeepspeedRun(RunBuilder):
    """Builder of the Run of one DeepSpeed training; `timed` are the records that have a rate and no
    step time.
    """

    timed: Sequence[Record] = ()

    def series(self, sizes: TrainingConfig, doubts: list[Note]) -> SeriesAndDoubts:
        """Return the series of a Run as its arguments, and warnings."""
        batch = sizes.global_batch_size
        computed = self.timed if batch else ()
        for record in computed:
            record.put("seconds", (batch or 0) / record.native["samples_per_second"])
        series, warnings = super().series(sizes, doubts)
        return series, [Note("times-of-samples-rate"), *warnings] if computed else warnings


class Reader(StepReader):
    """A parsed_log.Reader of DeepSpeed logs."""

    name = "deepspeed"
    run_type = DeepspeedRun
    signs = ("SamplesPerSec=", "iter time (s):")
    other_signs = (
        *(
            "skipped=",
            "time (ms)",
            "Profile Summary",
            "exits successfully",
            "[engine.py:",
            "actual seqlen:",
        ),
        *setup.SIGNS,
    )
    statements = _STATEMENTS

    def __init__(self) -> None:
        super().__init__()
        self._current = Record(0, 0)
        self._kinds_of_current: set[str] = set()
        self._logged: tuple[int, float | None] | None = None
        self._skipped = 0
        self._profile = Profile()
        self._exited: set[str] = set()
        self._cumulative_only = False
        self._kinds: set[str] = set()
        self._milliseconds: dict[str, list[float]] = {}

    @property
    def recognized(self) -> bool:
        """Whether a line of the timer, of a pipeline or of the profiler was seen."""
        return super().recognized or self._profile.step is not None

    def take(self, line: Line) -> bool:
        """Read a line of the timer or of a pipeline."""
        for kind, pattern in (("timer", _TIMER), ("pipeline", _PIPELINE)):
            if match := pattern.search(line.text):
                printed = match.groupdict()
                in_epoch = printed.pop("step_of_epoch", None)
                step = int(printed.pop("step") or in_epoch or 0)
                if in_epoch and self._logged is not None:
                    # The older forms count from the beginning of an epoch.
                    step = self._logged[0]
                if step >= 1:
                    self._record(step, kind, printed, line)
                return True
        return False

    def other(self, line: Line) -> None:
        """Read a line of the engine, the profiler or the setup."""
        text = line.text
        if "skipped=" in text and (logged := _LOGGED.search(text)):
            self._logged = int(logged[1]), number(logged[3].split(",")[0])
            self._skipped = int(logged[2])
            self.has_own_lines = True
            self._set_rate()
        elif "time (ms)" in text and (match := _PARTS.search(text)):
            parts = {}
            for name, printed in _PART.findall(match[1]):
                value = number(printed)
                if value is not None:
                    parts[name] = value
            # Under a pipeline, Megatron's own timers print zeros.
            if any(parts.values()) and all(value < 1e12 for value in parts.values()):
                for name, value in parts.items():
                    self._milliseconds.setdefault(name, []).append(value)
        self._profile.feed(line)
        self.has_own_lines = self.has_own_lines or self._profile.step is not None
        setup.statements_in(text, line.number, self.stated)
        if "exits successfully" in text and (exited := _EXITED.search(text)):
            self._exited.add(exited[1])
            self.sorter.pending.marks["success"] = line.number
        elif "[INFO]" in text or "actual seqlen:" in text:
            self.has_own_lines = self.has_own_lines or _ENGINE.search(text) is not None
        super().other(line)

    def _record(self, step: int, kind: str, printed: Mapping[str, str | None], line: Line) -> None:
        """Add values to the record of a step: the current one, which another line of it began, or a
        new one.
        """
        last = self.sorter.last
        self._kinds.add(kind)
        if self._current.step != step or kind in self._kinds_of_current:
            self._current = Record(step, line.number, stamp=last_stamp(line.text[:200]))
            self._kinds_of_current = set()
            self.sorter.take(self._current)
            self._set_rate()
        self._kinds_of_current.add(kind)
        for name, value in printed.items():
            self._current.put(name, value)
        if kind == "pipeline":
            self._current.window = None
            if last is not None and 0 < last.step < step:
                self._current.window = step - last.step
        elif printed["samples_per_second"] is None:
            self._cumulative_only = True

    def _set_rate(self) -> None:
        if self._logged and self._logged[0] == self._current.step:
            self._current.put("learning_rate", self._logged[1])

    def done(self, run: RunBuilder) -> None:
        """Add what follows from the log's statements, and find the records whose step times need
        the batch.
        """
        assert isinstance(run, DeepspeedRun)
        training = run.training
        is_last = training is self.sorter.trainings[-1]
        self._state_sizes(run, is_last=is_last)
        records = training.ordered()
        run.timed = [record for record in records if self._needs_batch(record)]
        for record in run.timed:
            record.window = 1
        if "pipeline" in self._kinds and len(records) > 1:
            first = next((record for record in records if record.window is None), None)
            if first is not None:
                first.window = min(records[0].step, records[1].step - records[0].step)
        if run.timed:
            why = "the timer prints samples/s, and the log doesn't state the global batch size"
            run.unknown["step_times"] = no_step_times(why)
        elif self._cumulative_only:
            why = "this version prints only a mean since the second step"
            run.unknown["step_times"] = no_step_times(why)
        if is_last and self._skipped:
            training.warnings.append(Note("steps-overflowed", {"count": self._skipped}))
        kinds = ", ".join(sorted(self._kinds)) or "engine"
        if not records and self._profile.step is not None:
            kinds = kinds if self._kinds else "flops profiler"
            run.fixed = outcome_of(ending_of(ended=True))
        run.log_format = f"deepspeed ({kinds})"
        run.timing = _TIMING["pipeline" if "pipeline" in self._kinds else "timer"]
        if all(later.step == record.step + 1 for record, later in itertools.pairwise(records)):
            run.timing = run.timing.but(kind="timer")
        self.figures = self._profile.figures()
        # The first print of the parts is excluded as warm-up.
        for name, milliseconds in self._milliseconds.items():
            run.breakdown[name] = statistics.fmean(milliseconds[1:] or milliseconds) / 1e3
        if is_last and not run.breakdown:
            run.breakdown = self._profile.breakdown()

    @staticmethod
    def _needs_batch(record: Record) -> bool:
        """Return whether a record has a rate and no step time."""
        return record.seconds is None and bool(record.native.get("samples_per_second"))

    def _state_sizes(self, run: RunBuilder, *, is_last: bool) -> None:
        """State what follows of the sizes from other lines."""
        stated = run.stated
        exited = len(self._exited)
        # A log of several nodes may have the lines of only one launcher.
        if is_last and exited and exited >= (stated.count("data_parallel_size") or 0):
            state(stated, "num_gpus", exited, f"{exited} processes exit successfully", 1, ECHOED)
        split = map(stated.count, ("tensor_model_parallel_size", "pipeline_model_parallel_size"))
        if not any(split):
            setup.world_from_replicas(stated)
            state(stated, "only_data_parallel", True)
        _state_planned(stated)
        if "pairs" in stated and "sequence_length" in stated:
            del stated["sequence_length"]
            run.unknown["sequence_length"] = Note("samples-are-pairs")
        self._profile.state(stated)


def _state_planned(stated: LoggedValues) -> None:
    """State the steps of an epoch's micro-batches, if a script announces epochs."""
    epochs = stated.count("epochs")
    micro = stated.count("micro_batches_per_epoch")
    accumulation = stated.count("gradient_accumulation_steps")
    if stated.count("max_steps") or not (epochs and micro and accumulation):
        return
    if micro % accumulation == 0:
        source = stated["micro_batches_per_epoch"]
        steps = epochs * (micro // accumulation)
        state(stated, "max_steps", steps, source.text, source.line, COMPUTED)
