"""Reader of what Hugging Face's Trainer prints, also under Axolotl and ms-swift: dictionaries, and
progress bars.

    10%|█  | 10/97 [00:50<07:15,  5.01s/it]{'loss': 2.98, 'learning_rate': 4.17e-05, 'epoch': 0.1}
    {'train_runtime': 273.0, 'train_samples_per_second': 3.6, 'train_steps_per_second': 0.007,
    'epoch': 1.0}

transformers 5 prints the values as text of four digits. A dictionary has neither step nor time:
steps.py finds the step; a time there is only of the whole training.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

from tprimat.notes import Note, NoteValue
from tprimat.read.deepspeed import setup as deepspeed_setup
from tprimat.read.hf_trainer import fields
from tprimat.read.hf_trainer.steps import StepHint, StepNumbers, number_steps
from tprimat.read.parsing.options import COMPUTED, NAMED, options_in
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.text import Line, Stamp, last_stamp, without_prefixes
from tprimat.read.parsing.values import (
    LoggedValues,
    count,
    duration,
    number,
    read_statements,
    state,
    statements,
)
from tprimat.results.fields import Figures

_DICTIONARY = re.compile(r"\{'[^{}]{1,20000}\}")
_PAIR = re.compile(r"'([^']{1,120})'\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|([^,'\"{}\s][^,'\"{}]*))")
_BAR = re.compile(r"\|\s*(\d{1,12})/(\d{1,12}) \[\d[\d:]*<")
_CUT = re.compile(r"\{'(?:loss|eval_loss|train_runtime)'[^}]*$")
_FIELDS = {
    "Total optimization steps": "max_steps",
    "Num Epochs": "num_epochs",
    "Instantaneous batch size per device": "micro_batch_size",
    r"Total train batch size \([^)]{0,200}\)": "global_batch_size",
    "Gradient Accumulation steps": "gradient_accumulation_steps",
    "Num examples": "examples",
    # Unsloth's banner.
    "Num GPUs": "num_gpus",
    "Num GPUs used": "gpus_per_process",
    "Data Parallel GPUs": "data_parallel_size",
    "Batch size per device": "micro_batch_size",
    r"Total batch size(?: \([^)]{0,200}\))?": "global_batch_size",
    "Gradient accumulation steps": "gradient_accumulation_steps",
    "Total steps": "max_steps",
    "Trainable parameters": "trainable_parameters",
}
_STATEMENTS = statements(
    *(
        (" = ", count, COMPUTED, rf"\b{words} = (?P<{field}>[\d,]{{1,19}})")
        for words, field in _FIELDS.items()
    ),
    (
        "Max memory: ",
        str,
        COMPUTED,
        r"(?:\bGPU: |/\|    )(?P<device_name>[A-Z][\w .-]{2,60}?)\. (?:Num GPUs = \d{1,6}\. )?"
        r"Max memory: [\d.]{1,12} GB",
    ),
    # PEFT's line. The Trainer's own count may be that of one rank's share.
    (
        "trainable params: ",
        count,
        COMPUTED,
        (
            r"\btrainable params: (?P<trainable_parameters>[\d,]{1,19}) \|\| all params:"
            r" (?P<num_parameters>[\d,]{1,19})"
        ),
    ),
)
LARGEST_EPOCH = 1e6
"""No training sees its data more often. Steps are computed with it, which an infinite one would
end.
"""
_METRIC = re.compile(
    r"\s*(epoch|total_flos|train_\w{1,40})\s+=\s+((?:\d{1,5} days?, )?[\d.:]{1,30})\s*$"
)
_OUTPUT = re.compile(r"\bTrainOutput\(global_step=(\d{1,12})\b")


@dataclasses.dataclass(slots=True)
class _Entry:
    """A dictionary of training steps, its step if `printed`, and the progress bars before and
    after, by total.
    """

    line: int
    values: dict[str, str]
    epoch: float | None
    bars: dict[int, int]
    printed: int | None
    after: dict[int, int] = dataclasses.field(default_factory=dict)
    stamp: Stamp | None = None

    @property
    def place(self) -> float | None:
        """How far the training has come: by the step, else by the epoch."""
        if self.printed is None:
            return self.epoch
        return self.printed


@dataclasses.dataclass
class _Training(LoggedTraining):
    """One training of the log, while it is read; `summaries` holds the dictionaries that end it,
    the first of them at line `summed_at`.

    A restart repeats the steps of `dropped` ones.
    """

    entries: list[_Entry] = dataclasses.field(default_factory=list)
    dropped: list[_Entry] = dataclasses.field(default_factory=list)
    summaries: list[dict[str, str]] = dataclasses.field(default_factory=list)
    evaluations: int = 0
    reached: int | None = None
    summed_at: int = 0


class Reader:
    """A parsed_log.Reader of Transformers Trainer logs."""

    name = "hf_trainer"
    all_signs = (
        *("{'", "TrainOutput(", "|", "axolotl", " = "),
        *(*deepspeed_setup.SIGNS, *NAMED),
    )

    def __init__(self) -> None:
        self._trainings: list[_Training] = []
        self._pending = LogContext()
        self._bars: dict[int, int] = {}
        self._waiting: list[_Entry] = []
        self._metrics: dict[str, str] = {}
        self._axolotl = False
        self._cut = False

    @property
    def recognized(self) -> bool:
        """Whether a dictionary of a training was seen."""
        return bool(self._trainings)

    @property
    def has_steps(self) -> bool:
        """Whether a dictionary of training steps was found."""
        return any(training.entries for training in self._trainings)

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds dictionaries."""
        text = line.text
        output = _OUTPUT.search(text) if "TrainOutput(" in text else None
        if output and self._trainings:
            self._trainings[-1].reached = int(output[1]) or None
        if " = " in text and (metric := _METRIC.match(text)):
            self._metric(metric[1], metric[2], line.number)
        if "'" in text and "{'" in text:
            end = 0
            for match in _DICTIONARY.finditer(text):
                values = {key: a or b or c.strip() for key, a, b, c in _PAIR.findall(match[0])}
                is_record = fields.is_record(values)
                if is_record or "train_runtime" in values or "eval_loss" in values:
                    self._bar(text[end : match.start()])
                    stamp = last_stamp(text[: match.start()]) if match.start() else None
                    self._take(values, line.number, stamp, is_record=is_record)
                    end = match.end()
            if end and output:
                self._trainings[-1].reached = int(output[1]) or None
            if end:
                self._bar(text[end:])
                if "eval_runtime" in text:
                    self._pending.events.feed(line.number, text)
                return True
            if not line.whole and _CUT.search(text):
                self._cut = True
        self._bar(text)
        self._axolotl = self._axolotl or "axolotl" in text
        pending = self._pending
        pending.feed(line.number, text)
        if " = " in text or "trainable params: " in text:
            read_statements(_STATEMENTS, text, line.number, pending.stated, without_prefixes(text))
        deepspeed_setup.statements_in(text, line.number, pending.stated)
        options_in(text, line.number, pending.stated)
        return False

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        if self._trainings:
            self._trainings[-1].around.absorb(self._pending)
        return [self._parsed_log(training) for training in self._trainings]

    def _metric(self, name: str, printed: str, line: int) -> None:
        """Read a line of the block with the values of the whole training, which ends with the
        steps/s; what a dictionary already stated isn't read again.
        """
        if name == "train_runtime":
            clock, _, decimals = printed.partition(".")
            if (seconds := duration(clock)) is not None:
                printed = str(seconds + float(f"0.{decimals or 0}"))
        self._metrics[name] = printed
        if name == "train_steps_per_second":
            metrics = self._metrics
            self._metrics = {}
            is_known = bool(self._trainings and self._trainings[-1].summaries)
            if "train_runtime" in metrics and not is_known:
                self._take(metrics, line, None, is_record=False)

    def _bar(self, text: str) -> None:
        if "|" not in text:
            return
        for step, total in _BAR.findall(text):
            self._bars[int(total)] = int(step)
            for entry in self._waiting:
                entry.after.setdefault(int(total), int(step))
            self._waiting = [entry for entry in self._waiting if int(total) not in entry.after]
        if len(self._bars) > 1000:
            self._bars.clear()

    def _take(
        self, values: dict[str, str], line: int, stamp: Stamp | None, *, is_record: bool
    ) -> None:
        if not self._trainings or (is_record and self._trainings[-1].summaries):
            self._trainings.append(_Training())
        training = self._trainings[-1]
        if self._pending.is_empty:
            training.around.go_on(None)
        else:
            training.around.absorb(self._pending)
            self._pending = LogContext()
        if not is_record and "train_runtime" in values:
            training.summaries.append(values)
            training.summed_at = training.summed_at or line
        elif not is_record:
            training.evaluations += 1
        elif training.entries and training.entries[-1].values == values:
            training.doubles += 1
        else:
            printed = fields.printed_step(values)[0]
            epoch = number(values.get("epoch"))
            epoch = epoch if epoch is not None and 0 <= epoch <= LARGEST_EPOCH else None
            entry = _Entry(line, values, epoch, dict(self._bars), printed, stamp=stamp)
            self._training_of(entry, training).entries.append(entry)
            self._waiting = [*self._waiting[-8:], entry]

    def _training_of(self, entry: _Entry, training: _Training) -> _Training:
        """Return the training that a record belongs to: another where it begins again, or this one,
        cut back.
        """
        place = entry.place
        entries = training.entries
        last = next((entry.place for entry in reversed(entries) if entry.place is not None), None)
        if place is None or last is None or place >= last:
            return training
        if place <= next(entry.place for entry in entries if entry.place is not None):
            self._trainings.append(
                _Training(around=LogContext(stated=LoggedValues(training.around.stated)))
            )
            return self._trainings[-1]
        training.entries = [
            entry for entry in entries if entry.place is None or entry.place < place
        ]
        training.dropped += [
            entry for entry in entries if entry.place is not None and entry.place >= place
        ]
        training.again.append(entry.line)
        noun = "epoch" if entry.printed is None else "step"
        dropped = len(entries) - len(training.entries)
        facts: dict[str, NoteValue] = {
            "line": entry.line,
            "noun": noun,
            "place": place,
            "count": dropped,
        }
        training.warnings.append(Note("restarted-at", facts))
        return training

    def _parsed_log(self, training: _Training) -> ParsedLog:
        stated = training.around.stated
        entries = training.entries
        _complete(stated)
        steps = _steps_of(entries, stated)
        _add_records(training, steps)
        unknown = {}
        if steps.evidence is None:
            unknown["steps"] = Note("steps-ambiguous")
        elif entries:
            training.warnings.append(Note("steps-derived", {"evidence": steps.evidence}))
        notes = fields.evaluations_note(training.evaluations)
        summaries = training.summaries
        if len(summaries) > 1:
            notes.insert(0, f"the run summary is printed {len(summaries)} times; the first is used")
        if self._cut:
            notes.append("the file ends within a dictionary, which was dropped")
        marks = [mark.step for mark in training.around.events.marks if mark.kind == "resume"]
        resumed = (marks[-1] or 0) if marks else 0
        if resumed and summaries:
            training.warnings.append(Note("trainer-resumed", {"step": resumed}))
        # The bar of a training that logs every tenth step goes on to the end: 25/25, after a record
        # at step 20.
        planned = stated.count("max_steps")
        is_last = training is self._trainings[-1]
        reached = is_last and planned is not None and self._bars.get(planned) == planned
        figures: Figures = {}
        whole = None
        if summaries:
            done = training.reached or planned
            figures = fields.summary_of(summaries[0], done, resumed)
            whole = fields.whole_run(figures, done, resumed, training.summed_at)
            if done:
                fields.state_batch(training, figures, whole)
        is_axolotl = self._axolotl
        for entry in entries:
            is_axolotl = is_axolotl or not entry.values.keys().isdisjoint(fields.AXOLOTL)
        return fields.builder(
            training,
            "console",
            "axolotl" if is_axolotl else "hf_trainer",
            numbered=steps.evidence is not None,
            figures=figures,
            whole=whole,
            unknown=unknown,
            ended=bool(summaries) or reached or None,
            notes=tuple(notes),
        ).reading()


def _add_records(training: _Training, numbers: StepNumbers) -> None:
    """Add the records of the dictionaries, with their steps and windows; of dropped ones those that
    were done again.
    """
    step_at = {}
    before = 0
    for entry, step in zip(training.entries, numbers.steps, strict=True):
        window = step - before if numbers.evidence else 1
        fields.add_record(training, step, entry.line, entry.values, window)
        training.records[step].stamp = entry.stamp
        step_at[entry.place] = step
        before = step
    for entry in training.dropped:
        if entry.place in step_at:
            lost = Record(step_at[entry.place], entry.line, stamp=entry.stamp)
            training.lost.append(lost)
    records = training.ordered()
    interval = training.around.stated.count("logging_steps")
    if len(records) > 1:
        interval = interval or records[1].window
    if records and interval:
        # In a log that begins in the middle, the first record averages as many steps as the others.
        records[0].window = min(records[0].window or interval, interval)


def _steps_of(entries: Sequence[_Entry], stated: LoggedValues) -> StepNumbers:
    steps = tuple(entry.printed for entry in entries if entry.printed is not None)
    if entries and len(steps) == len(entries) and all(b > a for a, b in itertools.pairwise(steps)):
        plans = [fields.printed_step(entry.values)[1] for entry in entries]
        state(stated, "max_steps", next(filter(None, plans), None), weight=COMPUTED)
        return StepNumbers(steps, "the dictionaries themselves")
    total = stated.count("max_steps")
    if total is None and entries:
        # The bar of the training is at every record; others belong to evaluations.
        common = set.intersection(*({*entry.bars, *entry.after} for entry in entries))
        total = max(common, default=None)
        if total is not None and total > 1:
            state(stated, "max_steps", total, f"progress bar of {total} steps", entries[0].line)
    hints = [_step_hint(entry, total) for entry in entries]
    return number_steps(hints, total, stated.count("num_epochs"), stated.count("logging_steps"))


def _step_hint(entry: _Entry, total: int | None) -> StepHint:
    mantissa, _, exponent = entry.values.get("epoch", "").lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    power = int(exponent) if exponent and re.fullmatch(r"[-+]?\d{1,2}", exponent) else 0
    # A rounded epoch may be off by half a unit of its last digit; one with twelve digits or more
    # isn't rounded.
    resolution = 0.5 * 10.0 ** (power - digits) if digits < 12 else 1e-9
    if not total:
        return StepHint(entry.epoch, resolution)
    return StepHint(entry.epoch, resolution, entry.bars.get(total, 0), entry.after.get(total))


def _complete(stated: LoggedValues) -> None:
    """State what the Trainer's own arithmetic gives: processes = batch / (batch of one ×
    accumulation).
    """
    micro = stated.count("micro_batch_size")
    accumulation = stated.count("gradient_accumulation_steps")
    total = stated.get("global_batch_size")
    is_computed = total is not None and "Total train batch size" in total.text
    if stated.count("num_gpus") is None and micro and accumulation and total and is_computed:
        processes, rest = divmod(total.value, micro * accumulation)
        if rest == 0:
            state(stated, "num_gpus", processes or None, total.text, total.line)
    used = stated.get("gpus_per_process")
    if used is not None and used.value:
        # Unsloth states the GPUs that have the model in each process; its "Num GPUs" are those of
        # the machine.
        gpus = used.value * (stated.count("data_parallel_size") or 1)
        state(stated, "num_gpus", gpus, used.text, used.line, COMPUTED + 1)
    deepspeed_setup.world_from_replicas(stated)
    state(stated, "only_data_parallel", True)
