"""Reader of MLPerf result logs: :::MLLOG events, alone or within a console log, and their
summaries.

    :::MLLOG {"namespace": "", "time_ms": 1759966614209, "event_type": "POINT_IN_TIME",
    "key": "tracked_stats", "value": {"throughput": 30.15}, "metadata": {"step": 12288}}

Every rank may log an event; a file may hold several trials. The lines between state some of the
setup: NeMo's configuration dump, Slurm's world size, :::SYSJSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tprimat.read.mlperf import run
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.mlperf.streams import LOSSES, POSITIONS, RATE, TIMES, Block, Event, number
from tprimat.read.mlperf.timeline import COSTLY, COSTLY_SIGNS
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LogContext
from tprimat.read.parsing.text import Line, without_prefixes
from tprimat.read.parsing.values import LoggedValues, Statement, object_at, read_statements, state
from tprimat.settings.rows import names

MARK = ":::MLLOG"
SAME_EVENT = 1.0
"""s. Within this time an event that is logged again is another rank's copy; blocks are longer."""

DUMPED, LOGGED = 2, 3
"""Weights: of a configuration dump and of MLPerf's own records; a launcher's statement has 1."""

_OWN = (
    "submission_benchmark", "submission_org", "submission_platform", "lowest_numerical_precision_linear",
    "num_generations_per_prompt",
)  # fmt: skip
_FIELDS = names("mlperf") | {name: name for name in _OWN}
_FIELDS["lowest_numerical_precision_in_linear"] = "lowest_numerical_precision_linear"
"""Events of the setup, without the optimizer's name, and the fields that they state."""

# Every run of a submission has a seed of its own: it is no part of the setup that they share.
_FIGURES = {
    "target_accuracy": "target_accuracy",
    "overall_throughput": "overall_samples_per_second",
    "seed": "seed",
}
"""Events that are values of the whole run, by their names in native_metrics."""

_BEGINS = ("init_start", "submission_benchmark", "run_start")

# Lines of a configuration dump, of launchers and of Primus' trainer.
_DUMPED_NAMES = (
    "encoder_seq_length", "seq_length", "precision", "fp8", "fp4", "fp8_recipe", "fp4_recipe",
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "micro_batch_size",
    "devices", "num_nodes", "packed_sequence",
)  # fmt: skip
_DUMPED = re.compile(
    rf"(?:^|\s)({'|'.join(_DUMPED_NAMES)}): +'?([^\s']+)'?\s*(?:\(Mcore default:"
    r" [^()]{1,80}\)\s*)?$"
)
_STATEMENTS = (
    Statement(
        re.compile(
            r"(?:\bWORLD_SIZE=|\[rank-\d{1,9}/|GLOBAL_RANK: \d+, MEMBER:"
            r" \d+/)(?P<num_gpus>\d{1,9})\b"
        )
    ),
    Statement(
        re.compile(r"\b(?:NNODES=(?P<num_nodes>\d{1,6})|GPUS_PER_NODE=(?P<devices>\d{1,6}))\s*$")
    ),
    Statement(
        re.compile(r"\bRESULT,[^,]*,[^,]*,(?P<result_seconds>\d{1,9}),"), int, LOGGED, "RESULT,"
    ),
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
    r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is"
    r" ?: ?\d+\s*"
)
UNMARKED = "without a block_start: counted from run_start"
LINES_OF_OTHERS = 4
"""Lines over which an event may be spread."""


class Reader:
    """A parsed_log.Reader of MLPerf logs."""

    name = "mlperf"
    all_signs = (MARK, *_SIGNS, *(f"{name}: " for name in _DUMPED_NAMES), "FLUX MLPerf")

    def __init__(self) -> None:
        self._trainings = [run.BenchmarkRun()]
        self._seen: dict[str, float] = {}
        self.within: tuple[str, int, int] | None = None
        self._summary: run.BenchmarkRun | None = None
        self._flux: dict[str, tuple[str, int]] | None = None

    @property
    def recognized(self) -> bool:
        """Whether an event or a summary line was seen."""
        return self._begun or self._summary is not None or self._flux is not None

    @property
    def steps_found(self) -> int:
        """Number of blocks and of events of steps so far; of the last trial."""
        return len(self._trainings[-1].events) + len(self._trainings[-1].blocks)

    @property
    def _begun(self) -> bool:
        """Whether an event was seen."""
        return bool(self._trainings[0].milestones)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if MARK in line.text:
            if self.within is not None:
                self._trainings[-1].unreadable.append(self.within[1])
                self.within = None
            self._events(line)
            return
        if self.within is not None and self._continues(*self.within, line.text):
            return
        self._beside(line)
        if self._begun:
            self._trainings[-1].around.feed(line.number, line.text)
            blocks = self._trainings[-1].blocks
            # The pattern alone would cost as much as all that is asked of other lines.
            if (
                blocks
                and any(sign in line.text for sign in COSTLY_SIGNS)
                and (said := COSTLY.search(line.text[:1_000]))
            ):
                blocks[-1].said.append(f"{said[0]} (line {line.number})")

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        # Text that only mentions events, such as a note on a log, has none that can be read.
        trainings = self._trainings if self._begun else [self._summary] if self._summary else []
        if not trainings and self._flux and "mean_step_time_s" in self._flux:
            return [run.summary_builder(self._flux).reading()]
        return [run.builder(training).reading() for training in trainings]

    def _events(self, line: Line) -> None:
        """Read the events of a line, of which the last one may go on in the next line."""
        pieces = line.text.split(MARK)[1:]
        for following, piece in enumerate(pieces, 1 - len(pieces)):
            begin = piece.find("{")
            if begin < 0:
                continue
            event = object_at(piece, begin)
            if event is not None:
                self._event(event, line.number)
            elif following:
                self._trainings[-1].unreadable.append(line.number)
            elif line.whole:
                # Another process wrote into it: the rest may stand on one of the next lines.
                self.within = (_INTRUDER.sub("", piece[begin:]), line.number, LINES_OF_OTHERS)

    def _continues(self, begun: str, number: int, left: int, text: str) -> bool:
        """Read a line that may continue an event interrupted by another process's output."""
        joined = begun + _INTRUDER.sub("", without_prefixes(text))
        event = object_at(joined)
        self.within = None
        if event is not None:
            self._event(event, number)
        elif left > 1 and len(joined) < 20_000:
            self.within = (joined, number, left - 1)
        else:
            self._trainings[-1].unreadable.append(number)
        return event is not None

    def _event(self, logged: Mapping[str, Any], line: int) -> None:
        key = logged.get("key")
        value = logged.get("value")
        meta = logged.get("metadata")
        milliseconds = number(logged.get("time_ms"))
        if not isinstance(key, str) or milliseconds is None or not 0 <= milliseconds < 1e14:
            return
        place = _numbers(meta)
        place.pop("lineno", None)
        event = Event(milliseconds / 1e3, line, place, {}, None)
        if self._is_copy(key, logged.get("event_type"), value, event):
            return
        training = self._training_of(key, event)
        training.milestones.setdefault("first", event)
        training.milestones["last"] = event
        if key == "init_start":
            training.milestones.setdefault(key, event)
        elif key in ("run_start", "run_stop"):
            training.milestones[key] = event
            if key == "run_stop":
                status = meta.get("status") if isinstance(meta, dict) else None
                training.end = (line, str(status or ""))
        elif key in ("tracked_stats", "train_loss"):
            values = _numbers(value if key == "tracked_stats" else {key: value})
            if "run_stop" not in training.milestones:
                if not values.keys().isdisjoint((*TIMES, *LOSSES, RATE)):
                    training.events.append(event._replace(values=values))
            # After the end come figures of the whole run.
            elif key == "tracked_stats":
                for name, figure in values.items():
                    training.figures[f"whole_run_{name}"] = figure
        elif key == "block_start":
            last = training.blocks[-1] if training.blocks else None
            training.is_divided = True
            # But not a slower rank's copy of it.
            if last is None or last.stop is not None or last.start.place != place:
                training.blocks.append(Block(event))
                training.mark(key, event)
        elif key in ("block_stop", "eval_start", "eval_stop"):
            _begin_unmarked(training, key, event)
            training.mark(key, event)
            if training.blocks:
                training.blocks[-1].end(key, event)
        elif key == "eval_accuracy" and (result := number(value)) is not None:
            training.mark(key, event)
            training.evaluations.append((place, result))
        elif key in _FIGURES and (result := number(value)) is not None:
            training.figures[_FIGURES[key]] = result
        else:
            _state(training.around.stated, key, value, line)

    def _training_of(self, key: str, event: Event) -> run.BenchmarkRun:
        """Return the training of an event: a new one, with the setup that all share, if it begins
        one.
        """
        training = self._trainings[-1]
        begun = training.milestones.get("run_start")
        again = key == "run_start" and begun is not None and event.time - begun.time > SAME_EVENT
        if key not in _BEGINS or not (again or "run_stop" in training.milestones):
            return training
        shared = LoggedValues()
        for name, statement in self._trainings[0].around.stated.items():
            if statement.weight < LOGGED:
                shared[name] = statement
        self._trainings.append(run.BenchmarkRun(around=LogContext(stated=shared)))
        return self._trainings[-1]

    def _is_copy(self, key: str, kind: Any, value: Any, event: Event) -> bool:
        """Return whether another rank has logged this event before."""
        # The position and name of a value identify its event: ranks differ in the last digits.
        what = sorted(value) if isinstance(value, dict) else value
        name = f"{key}|{kind}|{what}|{sorted(event.place.items())}"
        before = self._seen.get(name)
        self._seen[name] = event.time
        if len(self._seen) > 10_000:
            self._seen = dict(list(self._seen.items())[-5_000:])
        return before is not None and abs(event.time - before) < SAME_EVENT

    def _beside(self, line: Line) -> None:
        """Read the setup from a line that is no event."""
        text = line.text
        around = self._trainings[-1].around
        sign = next((sign for sign in _SIGNS if sign in text), "")
        # A rank's prefix is needed only once, for the world size.
        if sign and (sign != "[rank-" or "num_gpus" not in around.stated):
            begin = text.find(mlperf_system.MARK)
            if begin >= 0:
                system = mlperf_system.of(object_at(text, text.find("{", begin)))
                quote = f"{mlperf_system.MARK} {system.gpu.device_name}" if system else ""
                state(around.stated, "system", system, quote, line.number, DUMPED)
            quote = without_prefixes(text[:20_000])
            read_statements(_STATEMENTS, text, line.number, around.stated, quote)
            if ("[TimeToTrain]" in text or "[EarlyStop]" in text) and not self._begun:
                self._summarize(text, line.number)
        elif ": " in text and len(text) < 200 and (dumped := _DUMPED.search(text)):
            # The first of a name is the training's own; sections of other parts follow.
            if dumped[1] not in around.stated:
                around.state(dumped[1], _plain(dumped[2]), line.number, dumped[0], DUMPED)
        elif "FLUX MLPerf" in text or self._flux is not None:
            self._flux = self._flux or {}
            label, _, value = without_prefixes(text[:20_000]).strip().partition(": ")
            if value and re.fullmatch(r"\w{1,60}", label) and len(self._flux) < 100:
                self._flux.setdefault(label, (value.strip()[:300], line.number))

    def _summarize(self, text: str, number: int) -> None:
        """Read a line of the summary that Primus' trainer prints."""
        if self._summary is None:
            self._summary = run.BenchmarkRun(around=self._trainings[0].around)
        training = self._summary
        for figure in _WHOLE_RUN.finditer(text):
            training.figures[f"whole_run_{figure.lastgroup}"] = float(figure[figure.lastindex or 0])
        if match := _EVAL.search(text):
            training.evaluations.append(({}, float(match[1])))
            training.figures["target_accuracy"] = float(match[2])
        if "[TimeToTrain]" in text and (match := _ENDED.search(text)):
            training.end = (number, match[1])


def _state(stated: LoggedValues, key: str, value: Any, line: int) -> None:
    """Add what an event states of the setup, if it is one of those."""
    field = _FIELDS.get(key.replace("opt_adamw_", "opt_").replace("opt_adam_", "opt_"))
    if not field:
        return
    quote = f"{key}: {value}"
    state(stated, field, _plain(value), quote, line, LOGGED)
    if key in ("opt_adamw_beta_1", "opt_adamw_weight_decay") and "optimizer" not in stated:
        state(stated, "optimizer", "adamw", quote, line, LOGGED)


def _begin_unmarked(training: run.BenchmarkRun, key: str, event: Event) -> None:
    """Begin the block that an event ends, if the log has no block_start of it."""
    start = training.milestones.get("run_start")
    if training.blocks:
        block = training.blocks[-1].unmarked_after(key, event)
    elif start and any(event.place.get(name, 0) > 0 for name in (*POSITIONS, "epoch_count")):
        block = Block(start._replace(place={"samples_count": 0.0}), said=[UNMARKED])
    else:
        block = None
    if block:
        training.blocks.append(block)
        training.mark("block_start", block.start)


def _numbers(value: Any) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, printed in value.items() if isinstance(value, dict) else ():
        figure = number(printed)
        if figure is not None:
            numbers[str(name)[:60]] = figure
    return numbers


def _plain(value: Any) -> Any:
    """Return a value of JSON or of a configuration dump: whole numbers as such."""
    words = {"true": True, "false": False, "null": None, "none": None}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    figure = number(value)
    if figure is None:
        return value
    if figure.is_integer() and abs(figure) < 1e15:
        return int(figure)
    return figure
