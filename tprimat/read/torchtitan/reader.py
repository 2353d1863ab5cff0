"""Reader of torchtitan's logs, its own and those through Primus.

    [titan] 2025-06-04 08:51:58,557 - root - INFO - step: 10  loss: 10.7069  memory:
    30.99GiB(32.62%) tps: 7,034  tflops: 407.35  mfu: 41.19%

tps is tokens per second and device: the tokens of a data-parallel rank since the line before,
divided by the time since then and by tensor, pipeline and context parallelism. Padding counts.
tflops are model FLOPs, attention counted in full and recomputation not. The line has no step time:
it follows from tps if batch, sequence and devices are stated, else from tps and the times of the
lines, which show how many tokens a device takes in a step.

native_metrics: `tokens_per_second_per_gpu`, `tflops_per_gpu`, `mfu_percent`, `memory_reserved_gb`
(highest since the line before, of the rank that prints).
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping

from tprimat.notes import Note
from tprimat.read.megatron import times as megatron_times
from tprimat.read.parsing import hints, records, remarks
from tprimat.read.parsing.parsed_log import Given, ParsedLog
from tprimat.read.parsing.placing import TimedRow
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import (
    RunBuilder,
    Series,
    SeriesAndDoubts,
    known_model,
    sizes_of,
    timer,
)
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.read.parsing.values import LoggedValues, number, read_statements, state, summary_values
from tprimat.read.torchtitan import setup
from tprimat.results.run import ParallelismConfig, TrainingConfig

# It begins with letters, as those are found more quickly than a word's boundary.
_STEP = re.compile(r"step:(?<=\bstep:)(?<!validate step:)\s*([\d,]{1,15})(?=\s)")
_FIELD = re.compile(
    r"\b(loss|global_avg_loss|grad_norm|lr|memory|tps|wps|tflops|mfu):\s*"
    r"([-+]?[\d.,]+(?:[eE][-+]?\d+)?%?|[-+]?(?:nan|inf)|N/A)(?:Gi?B)?(?:\([^)]{0,20}\))?",
    re.IGNORECASE,
)
_UNREAD = re.compile(r"(?<!\S)([A-Za-z_][\w/]{0,60}):\s*[-+]?[\d.]")
_ORIGIN = re.compile(r"\[rank-?(\d{1,6})(?:/\d{1,6})?\]|\[(replicagroup-\d{1,6})\]|^\s*(\d{1,6}): ")
_WORLD = re.compile(r"\[rank-\d{1,6}/(\d{1,6})\]")
_NAMES = {
    "loss": "loss",
    "global_avg_loss": "loss",
    "grad_norm": "grad_norm",
    "lr": "learning_rate",
    "tps": "tokens_per_second_per_gpu",
    "wps": "tokens_per_second_per_gpu",
    "tflops": "tflops_per_gpu",
    "mfu": "mfu_percent",
    # Some versions write GB; all divide by 2^30.
    "memory": "memory_reserved_gib",
}
# If no memory is measured it is 0; a pipeline stage that isn't the last prints a loss of -1 or -2.
_UNKNOWN = {"memory": 0.0, "loss": -1.0, "global_avg_loss": -1.0}
RATE = "tokens_per_second_per_gpu"

DEFAULT_LOG_FREQ = 10
"""The default of torchtitan's metrics.log_freq."""


@dataclasses.dataclass
class TorchtitanRun(RunBuilder):
    """Builder of the Run of one torchtitan training."""

    groups: int = 0

    def reading(self) -> ParsedLog:
        """Return the result of the reader."""
        parsed = super().reading()
        shown = {name: statement for name, statement in parsed.stated.items() if name != "model"}
        if (called := self.stated.get("model")) and self.shape:
            name, _, _ = known_model(self.shape, str(called.value))
            shown |= {"model": dataclasses.replace(called, value=name)} if name else {}
        return dataclasses.replace(parsed, stated=shown)

    def sizes(self, given: Given) -> tuple[TrainingConfig, ParallelismConfig]:
        """Return the sizes of a step, and the parallelism."""
        stated = LoggedValues(self.stated)
        local = stated.count_statement("micro_batch_size")
        replicas = stated.count("data_parallel_size")
        if (
            local
            and replicas
            and not (stated.count("global_batch_size") or given.get("global_batch_size"))
        ):
            # Without a global batch size torchtitan accumulates nothing.
            stated.setdefault("gradient_accumulation_steps", dataclasses.replace(local, value=1))
        return sizes_of(stated, given, infer=False)

    def series(self, sizes: TrainingConfig, doubts: list[Note]) -> SeriesAndDoubts:
        """Return the series of a Run as its arguments, and warnings."""
        kept = self.training.ordered()
        warnings = list[Note]()
        _set_windows(kept, self.stated.count("log_freq"), warnings)
        warnings += _derive_times(
            [*kept, *self.training.lost], sizes, self._tokens(super().rows({}))
        )
        warnings += remarks.warnings_of(self.training)
        if self.groups > 1:
            warnings.append(Note("replica-groups", {"groups": self.groups}))
        if (
            kept
            and kept[-1].step < (sizes.max_steps or 0)
            and "success" in self.training.around.marks
        ):
            interval = self.stated.count("log_freq") or DEFAULT_LOG_FREQ
            facts = {"step": kept[-1].step, "planned": sizes.max_steps, "interval": interval}
            warnings.append(Note("last-step-unprinted", facts))
        return records.series(kept), [*warnings, *doubts]

    def rows(self, series: Series) -> Iterable[TimedRow]:
        """Return the records, those that a restart repeats too, with times for build_timeline().

        The rates give the proportions of the steps' durations, saving included; the times of the
        lines give the rest.
        """
        marks = self.training.around.events.marks
        anew = self._anew()
        saved = [mark for mark in marks if mark.kind == "checkpoint" and mark.seconds]
        before = last = 0
        for row, clock, resolution in super().rows(series):
            window = row.window or max(row.step - last, 1)
            before = max(before, anew[bisect.bisect_left(anew, row.line) - 1])
            spent = sum(mark.seconds or 0.0 for mark in saved if before < mark.line < row.line)
            if row.seconds and spent:
                time = row.seconds - spent / window
                row = row._replace(seconds=time if time > 0 else None)
            before = row.line
            last = row.step
            yield row, clock, resolution

    def _anew(self) -> list[int]:
        """Return the lines that start the clock of the rates again, from 0."""
        marks = self.training.around.events.marks
        return [0, *(mark.line for mark in marks if mark.kind in ("evaluation", "start"))]

    def _tokens(self, rows: Iterable[TimedRow]) -> float:
        """Return the tokens of a device and step, as tps and the times of the lines have them; 0.0
        if unknown.
        """
        anew = self._anew()
        tokens = list[float]()
        rates = {}
        for record in (*self.training.ordered(), *self.training.lost):
            rates[record.line] = record.native.get(RATE)
        inverse = time = 0.0
        for (before, _, _), (row, _, resolution) in itertools.pairwise(rows):
            rate = rates[row.line]
            seconds = row.at - before.at
            is_anew = bisect.bisect(anew, before.line) < bisect.bisect(anew, row.line)
            if is_anew or not rate or seconds < 0 or row.step <= before.step:
                inverse = time = 0.0
                continue
            inverse = inverse + (row.step - before.step) / rate
            time = time + seconds
            if time >= remarks.STAMPED_STEPS * resolution and time > 0:
                tokens.append(time / inverse)
                inverse = time = 0.0
        if tokens:
            return statistics.median(tokens)
        return 0.0

    def unknowns(self, sizes: TrainingConfig, series: Series) -> list[Note]:
        """Return a warning if the GPU is unknown."""
        if self.stated.word("device_name"):
            return []
        return [Note("machine-unstated", {"what": "the GPU"})]


class Reader(StepReader):
    """A parsed_log.Reader of torchtitan logs."""

    name = "torchtitan"
    run_type = TorchtitanRun
    signs = ("step:",)
    # What follows "Building ", which installations print as well.
    other_signs = (
        *(sign for sign in setup.SIGNS if sign != "Building "),
        "Args",
        "Config",
        " with {",
    )
    peaks: Mapping[str, str] = {"memory_reserved_gb": "peak_memory_reserved_gb"}
    timing = timer(
        clock=(
            "host clock at the log line, from which torchtitan works out tps; the step time follows"
            " from that"
        ),
        covers=(
            "all between two log lines: data wait, forward and backward, optimizer; garbage"
            " collection and checkpoints too; not validation"
        ),
        over_ranks="the rank that prints",
    )

    def __init__(self) -> None:
        super().__init__()
        self._setup = setup.Setup()
        self.within = self._setup.dump
        self._groups: set[str] = set()

    @property
    def recognized(self) -> bool:
        """Whether a step line or torchtitan's own configuration was seen."""
        return bool(self.sorter.trainings) or self.has_own_lines

    def other(self, line: Line) -> None:
        """Read a line of the setup, or of what happens once the training is known."""
        has_steps = bool(self.sorter.trainings)
        self.has_own_lines |= self._setup.feed(
            line.number, line.text, self.sorter.pending, has_steps=has_steps
        )
        self.hear(line)

    def take(self, line: Line) -> bool:
        """Read a step."""
        anchor = _STEP.search(line.text)
        if anchor is None or not (step := int(anchor[1].replace(",", "") or 0)):
            return False
        printed = {}
        for label, text in reversed(_FIELD.findall(line.text, anchor.end())):
            printed[label.lower()] = text
        rated = "tps" in printed or "wps" in printed
        if not rated and not ({"loss", "global_avg_loss"} & printed.keys() and "memory" in printed):
            return self.cut_off(step, line)
        before = line.text[: anchor.start()]
        record = Record(step, line.number, stamp=last_stamp(before))
        if origin := list(_ORIGIN.finditer(before)):
            record.origin = origin[-1][0].strip(" :")
            if origin[-1][2]:
                self._groups.add(origin[-1][2])
        for label, text in printed.items():
            value = number(text)
            unknown = _UNKNOWN.get(label)
            if value is not None and (unknown is None or not -math.inf < value <= unknown):
                record.put(_NAMES[label], value)
        read_statements(hints.LINES, line.text, line.number, self.sorter.pending.hinted)
        if world := _WORLD.search(before):
            state(self.stated, "num_gpus", int(world[1]), world[0], line.number)
        labels = map(str.lower, _UNREAD.findall(line.text, anchor.end()))
        record.unread = tuple(label for label in labels if label not in _NAMES)
        self.sorter.take(record)
        return True

    def done(self, run: RunBuilder) -> None:
        """Add the shape and the sizes that follow from the configuration."""
        assert isinstance(run, TorchtitanRun)
        run.shape, ignored = setup.model_config(run.stated)
        run.left_out = ignored
        setup.complete(run.stated)
        run.groups = len(self._groups)
        if (gib := run.stated.number("device_gib")) and gib > 0:
            run.gpu |= summary_values({"total_memory_gib": gib})
        if isinstance(is_compiled := run.stated.value("torch_compile"), bool):
            run.settings["torch_compile"] = is_compiled


def _set_windows(records: list[Record], interval: int | None, warnings: list[Note]) -> None:
    """Set how many steps each record averages: torchtitan logs step 1 and every multiple of
    log_freq.
    """
    steps = [record.step for record in records]
    if interval is None:
        regular = [step for step in steps if step > 1]
        interval = math.gcd(*regular) if len(regular) > 1 or regular == [DEFAULT_LOG_FREQ] else 1
        if len(regular) == 1 and interval == 1 and regular != [2]:
            warnings.append(Note("log-freq-unstated", {"default": DEFAULT_LOG_FREQ}))
    for record, window in zip(records, megatron_times.windows(steps, interval), strict=True):
        record.window = window


STAMPED = 1.25
"""Times more or fewer tokens than the sizes have that the times of the lines may show: they have
saving in them.
"""


def _derive_times(kept: list[Record], sizes: TrainingConfig, stamped: float) -> list[Note]:
    """Set step times by tps; return warnings. `stamped`: tokens of a device and step by the lines'
    times, or 0.0.
    """
    batch = sizes.global_batch_size
    sequence = sizes.sequence_length
    world = sizes.num_gpus
    rated = [record for record in kept if record.native.get(RATE)]
    if not rated:
        if kept:
            return [no_step_times("the lines have no tps")]
        return []
    needed = {
        "the global batch size": batch,
        "the sequence length": sequence,
        "the number of GPUs": world,
    }
    lacking = ", ".join(name for name, value in needed.items() if not value)
    tokens = batch * sequence / world if batch and sequence and world else stamped
    for record in rated if tokens else ():
        record.put("seconds", round(tokens / record.native[RATE], 9))
    if lacking and tokens:
        return [Note("times-from-stamped-tps", {"tokens": tokens, "lacking": lacking})]
    if lacking:
        why = (
            f"the log lacks {lacking} to compute them from tps; printed rates are in native_metrics"
        )
        return [no_step_times(f"torchtitan prints none, and {why}")]
    sizes_used = {"batch": batch, "length": sequence, "gpus": world}
    doubt = Note("rates-against-stamps", {"tokens": tokens, "stamped": stamped})
    doubts = [] if not stamped or tokens / STAMPED <= stamped <= tokens * STAMPED else [doubt]
    return [Note("times-from-tps", sizes_used), *doubts]
