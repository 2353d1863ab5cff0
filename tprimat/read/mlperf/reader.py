"""Reader of MLPerf result logs: :::MLLOG events, alone or within a console log, and their summaries.

    :::MLLOG {"namespace": "", "time_ms": 1759966614209, "event_type": "POINT_IN_TIME",
    "key": "tracked_stats", "value": {"throughput": 30.15}, "metadata": {"step": 12288}}

Every rank may log an event; a file may hold several trials. The lines between say some of the setup:
NeMo's configuration dump, Slurm's world size, :::SYSJSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tprimat.read.mlperf import run, summary
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.mlperf.streams import LOSSES, RATE, TIMES, Block, Event, number
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LONGEST_SETUP, LogContext
from tprimat.read.parsing.text import Line, without_prefixes
from tprimat.read.parsing.values import Statement, object_at, read_statements

MARK = ":::MLLOG"
SAME_EVENT = 1.0
"""s. Within this time an event that is logged again is another rank's copy; blocks are longer."""

ECHOED, DUMPED, LOGGED = 1, 2, 3
"""Weights: of a launcher, of a configuration dump, of MLPerf's own records."""

STATED = frozenset({
    "submission_benchmark", "submission_org", "submission_division", "submission_platform", "submission_status",
    "global_batch_size", "gradient_accumulation_steps", "max_sequence_length", "max_steps", "seed", "train_samples",
    "eval_samples", "target_accuracy", "micro_batch_size", "tensor_parallelism", "pipeline_parallelism",
    "context_parallelism", "expert_parallelism", "lowest_numerical_precision_linear", "lora_rank", "lora_alpha",
    "opt_name", "opt_base_learning_rate", "opt_adamw_beta_1", "opt_adamw_beta_2", "opt_adamw_epsilon",
    "opt_adamw_weight_decay", "opt_adam_beta_1", "opt_adam_beta_2", "opt_adam_epsilon", "opt_weight_decay",
    "opt_gradient_clip_norm", "opt_learning_rate_decay_schedule", "overall_throughput", "init_checkpoint_step",
})  # fmt: skip
"""Keys whose value is a fact of the setup or of the whole run."""

_BEGINS = ("init_start", "submission_benchmark", "run_start")

# Lines of a configuration dump, of launchers and of Primus' trainer.
_DUMPED = re.compile(
    r"(?:^|\s)(encoder_seq_length|seq_length|precision|fp8|fp4|fp8_recipe|fp4_recipe|tensor_model_parallel_size|"
    r"pipeline_model_parallel_size|context_parallel_size|micro_batch_size|devices|num_nodes): +(\S+)\s*$"
)
_STATEMENTS = (
    Statement(re.compile(r"(?:\bWORLD_SIZE=|\[rank-\d{1,9}/|GLOBAL_RANK: \d+, MEMBER: \d+/)(?P<world_size>\d{1,9})\b")),
    Statement(re.compile(r"\b(?:NNODES=(?P<num_nodes>\d{1,6})|GPUS_PER_NODE=(?P<devices>\d{1,6}))\s*$")),
    Statement(re.compile(r"\bRESULT,[^,]*,[^,]*,(?P<result_seconds>\d{1,9}),"), int, LOGGED, "RESULT,"),
)
# A rank's prefix is last: many lines that have it have another sign as well.
_SIGNS = (
    "WORLD_SIZE=", "NNODES=", "GPUS_PER_NODE=", "MEMBER: ", "RESULT,", "[TimeToTrain]", "[EarlyStop]",
    mlperf_system.MARK, "[rank-",
)  # fmt: skip
_WHOLE_RUN = re.compile(
    r"\bduration: (?P<duration>\d{1,12}(?:\.\d{1,9})?) sec"
    r"|\b(?:consumed_train_samples|samples_count): (?P<samples>\d{1,15})"
    r"|\bthroughput: (?P<throughput>\d{1,12}(?:\.\d{1,9})?) samples/s"
)
_ENDED = re.compile(r"\bstatus: (\w+)")
_EVAL = re.compile(r"\beval_loss: (\d{1,9}(?:\.\d{1,9})?) \(target: (\d{1,9}(?:\.\d{1,9})?)\)")

_INTRUDER = re.compile(
    r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is ?: ?\d+\s*"
)
LINES_OF_OTHERS = 4
"""Lines over which an event may be spread."""


def _hints(text: str, around: LogContext) -> bool:
    """Return whether a line may matter; a rank's prefix is needed only once, for the world size."""
    for sign in _SIGNS:
        if sign in text:
            return sign != "[rank-" or "world_size" not in around.stated
    return False


class Reader:
    """A parsed_log.Reader of MLPerf logs."""

    name = "mlperf"
    looks_for = "MLPerf's events (“:::MLLOG {…}”)"

    def __init__(self) -> None:
        self._trainings: list[run.BenchmarkRun] = []
        self._around = LogContext()
        self._seen: dict[str, float] = {}
        self._lines = 0
        self._open: tuple[str, int, int] | None = None
        self._summary: run.BenchmarkRun | None = None
        self._flux: dict[str, tuple[str, int]] | None = None

    @property
    def recognised(self) -> bool:
        """Whether an event or a summary line was seen."""
        return (
            any(training.has_results for training in self._trainings) or self._summary is not None or bool(self._flux)
        )

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if MARK in text:
            if self._open is not None:
                self._training().unreadable.append(self._open[1])
                self._open = None
            self._events(line)
            return
        if self._open is not None and self._broken(text):
            return
        self._lines += 1
        if self._trainings or self._lines <= LONGEST_SETUP:
            self._beside(line)
        if self._trainings:
            self._trainings[-1].around.feed(line.number, text)

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        # Text that only speaks of events, a note on a log for one, holds none that can be read.
        trainings = [each for each in self._trainings if each.has_results] or ([self._summary] if self._summary else [])
        if not trainings and self._flux and "mean_step_time_s" in self._flux:
            return [summary.builder(self._flux).reading()]
        return [run.builder(training).reading() for training in trainings]

    def _events(self, line: Line) -> None:
        start = line.text.find(MARK)
        while start >= 0:
            begin = line.text.find("{", start)
            start = line.text.find(MARK, start + len(MARK))
            if begin < 0 or (0 <= start < begin):
                continue
            event = object_at(line.text, begin)
            if event is not None:
                self._event(event, line.number)
            elif start >= 0:
                self._training().unreadable.append(line.number)
            elif line.whole:
                # Another process wrote into it: the rest may stand on one of the next lines.
                self._training()
                self._open = (_INTRUDER.sub("", line.text[begin:]), line.number, LINES_OF_OTHERS)

    def _training(self) -> run.BenchmarkRun:
        if not self._trainings:
            self._trainings.append(run.BenchmarkRun(around=self._around))
        return self._trainings[-1]

    def _event(self, found: Mapping[str, Any], line: int) -> None:
        key, value, meta = found.get("key"), found.get("value"), found.get("metadata")
        milliseconds = number(found.get("time_ms"))
        if not isinstance(key, str) or milliseconds is None or not 0 <= milliseconds < 1e14:
            return
        time = milliseconds / 1e3
        meta = meta if isinstance(meta, dict) else {}
        place = {name: known for name, each in meta.items() if (known := number(each)) is not None and name != "lineno"}
        if self._again(key, found.get("event_type"), value, place, time):
            return
        training = self._training()
        if key in _BEGINS and training.over_before(key, time):
            training = run.BenchmarkRun(around=LogContext(stated=run.carried(self._around.stated)))
            self._trainings.append(training)
        training.has_results = True
        training.first = time if training.first is None else training.first
        if key in ("run_start", "run_stop"):
            setattr(training, key, time)
            if key == "run_stop":
                training.end_line, training.end_status = line, str(meta.get("status") or "")
                training.end_samples = place.get("samples_count")
                training.end_step = place.get("step")
            return
        if training.run_stop is not None and key in ("tracked_stats", "train_loss"):
            # After the end come figures of the whole run.
            training.whole_run.update(run.numbers(value))
            return
        if key == "block_start":
            training.begin_block(Block(time, line, place))
        elif key == "block_stop" and training.blocks and training.blocks[-1].stop is None:
            training.blocks[-1].stop, training.blocks[-1].stop_place = time, place
        elif key in ("tracked_stats", "train_loss"):
            values = run.numbers(value if key == "tracked_stats" else {key: value})
            if not values.keys().isdisjoint((*TIMES, *LOSSES, RATE)):
                training.events.append(Event(time, line, values, place, training.block()))
        elif key == "eval_accuracy" and (result := number(value)) is not None:
            training.evaluations.append((place, result))
        elif key in STATED:
            training.around.state(key, run.plain(value), line, f"{key}: {value}", LOGGED)

    def _again(self, key: str, kind: Any, value: Any, place: Mapping[str, float], time: float) -> bool:
        """Return whether another rank has logged this event before."""
        # Of a figure, position and name make the event: ranks differ in the last digits.
        what = sorted(value) if isinstance(value, dict) else value
        name = f"{key}|{kind}|{what}|{sorted(place.items())}"
        before = self._seen.get(name)
        self._seen[name] = time
        if len(self._seen) > 10_000:
            self._seen = dict(list(self._seen.items())[-5_000:])
        return before is not None and abs(time - before) < SAME_EVENT and key != "cache_clear"

    def _beside(self, line: Line) -> None:
        """Read the setup from a line that is no event."""
        text = line.text
        around = self._trainings[-1].around if self._trainings else self._around
        if _hints(text, around):
            bare = without_prefixes(text[:20_000])
            if mlperf_system.MARK in text:
                self._system(text, line.number, around)
            read_statements(_STATEMENTS, text, line.number, around.stated, bare)
            if "[TimeToTrain]" in text or "[EarlyStop]" in text:
                self._summarise(text, line.number)
        elif ": " not in text and "FLUX MLPerf" not in text:
            return
        elif len(text) < 200 and (dumped := _DUMPED.search(text)) and dumped[1] not in around.stated:
            # The first of a name is the training's own; sections of other parts follow.
            around.state(dumped[1], run.plain(dumped[2]), line.number, dumped[0], DUMPED)
        elif "FLUX MLPerf" in text or self._flux is not None:
            self._flux = self._flux or {}
            label, _, value = without_prefixes(text[:20_000]).strip().partition(": ")
            if value and re.fullmatch(r"\w{1,60}", label) and len(self._flux) < 100:
                self._flux.setdefault(label, (value.strip()[:300], line.number))

    def _broken(self, text: str) -> bool:
        """Read a line that may continue an event interrupted by another process's output."""
        assert self._open is not None
        begun, number, left = self._open
        joined = begun + _INTRUDER.sub("", without_prefixes(text))
        event = object_at(joined)
        if event is None:
            self._open = (joined, number, left - 1) if left > 1 and len(joined) < 20_000 else None
            if self._open is None:
                self._training().unreadable.append(number)
            return False
        self._open = None
        self._event(event, number)
        return True

    def _system(self, text: str, number: int, around: LogContext) -> None:
        description = object_at(text, text.find("{", text.find(mlperf_system.MARK)))
        system = mlperf_system.of(description) if description else None
        if system is not None:
            around.state("system", system, number, f"{mlperf_system.MARK} {system.device}", LOGGED)

    def _summarise(self, text: str, number: int) -> None:
        if self._trainings:
            return
        training = self._summary = self._summary or run.BenchmarkRun(around=self._around)
        for figure in _WHOLE_RUN.finditer(text):
            training.whole_run[figure.lastgroup or ""] = float(figure[figure.lastindex or 0])
        if match := _EVAL.search(text):
            training.evaluations.append(({}, float(match[1])))
            training.around.state("target_accuracy", float(match[2]), number, text)
        if "[TimeToTrain]" in text and (match := _ENDED.search(text)):
            training.end_line, training.end_status = number, match[1]
