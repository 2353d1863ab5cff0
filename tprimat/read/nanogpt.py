"""Reader of nanoGPT and what descends from it: nanochat, modded-nanogpt, llm.c.

iter 10: loss 3.9, time 135.19ms, mfu 42.08%                       nanoGPT
step 00010/21400 (0.05%) | loss: 5.9 | … | dt: 350.1ms | tok/sec: 1,497,000 | mfu: 45.2   nanochat
step:2/1480 train_time:117ms step_avg:58.40ms                      modded-nanogpt: cumulative
step     0 | loss: 10.955029 | lr 8.3916e-07 | norm: 15.3657 | dt: 260.55ms | tok/sec: 20156.63   build-nanogpt
step    1/18865 | loss 11.0 (+nanz)| norm 15.4 (+nanz)| lr 1.00e-06 | 3289.60 ms | … | 159385 tok/s   llm.c
step    1/10 | train loss 5.32 | norm 15.0 | lr 1.00e-04 | (3289.60 ms | 77 tok/s)   llm.c in Python
step    1/74: train loss 4.36 (80.64 ms, 50791 tok/s)                  llm.c in fp32; on a CPU: (took 1452.12 ms)
s:4768 trl:3.520843                                                llm.c's main.log, the first modded logs
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tprimat.notes import Note
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, without_prefixes
from tprimat.read.parsing.values import (
    count,
    number,
    precision_of,
    read_statements,
    state,
    statements,
    summary_values,
)

_NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d{1,3})?|nan|inf)"
_STEP = r"(?P<step>\d{1,12})"
_PLANNED = r"(?P<max_steps>\d{1,12})"
_ITER = re.compile(
    rf"\biter {_STEP}: loss (?P<loss>{_NUMBER}), time (?P<milliseconds>{_NUMBER})ms"
    rf"(?:, mfu (?P<mfu_percent>{_NUMBER})%)?"
)
_CHAT = re.compile(
    rf"\bstep {_STEP}(?:/{_PLANNED})? \([\d.]+%\) \| (?:train )?loss: (?P<loss>{_NUMBER})"
)
_CHAT_FIGURE = re.compile(
    rf"\bdt: (?P<milliseconds>{_NUMBER})ms|\btok/sec: (?P<tokens_per_second>{_NUMBER})"
    rf"|\b(?P<own_peak>bf16_)?mfu: (?P<mfu_percent>{_NUMBER})"
)
_MODDED = re.compile(
    rf"\bstep:{_STEP}/{_PLANNED}(?: (?:train_loss:(?P<loss>{_NUMBER})|val_loss:{_NUMBER}))* "
    rf"train_time:(?P<cumulative_train_milliseconds>{_NUMBER})ms step_avg:{_NUMBER}ms"
)
_LLM_C = re.compile(
    rf"^(?:.{{0,60}}\s)?s:{_STEP} trl:(?P<loss>{_NUMBER})(?: lr:(?P<learning_rate>{_NUMBER}))?"
    rf"(?: norm:(?P<grad_norm>{_NUMBER}))?"
)
_BUILD = re.compile(
    rf"\bstep +{_STEP} \| loss: (?P<loss>{_NUMBER}) \| lr (?P<learning_rate>{_NUMBER}) \| "
    rf"norm: (?P<grad_norm>{_NUMBER}) \| dt: (?P<milliseconds>{_NUMBER})ms \| tok/sec:"
    rf" (?P<tokens_per_second>{_NUMBER})"
)
_LLM_C_CONSOLE = re.compile(
    # Behind loss and norm stands by how many standard deviations they are off.
    rf"\bstep +{_STEP}/{_PLANNED} \| (?:train )?loss (?P<loss>{_NUMBER})(?: \(\S{{1,20}}\))? ?\| "
    # Its Python twin puts time and rate in brackets.
    rf"norm (?P<grad_norm>{_NUMBER})(?: \(\S{{1,20}}\))? ?\| lr (?P<learning_rate>{_NUMBER}) \| "
    rf"\(?(?P<milliseconds>{_NUMBER}) ms \|(?: (?:(?P<mfu_percent>{_NUMBER})% )?(?:bf16|fp16|fp32)"
    r" MFU \|)? "
    rf"(?P<tokens_per_second>{_NUMBER}) tok/s"
)
_LLM_C_EARLY = re.compile(
    # Of train_gpt2_fp32.cu and train_gpt2.c.
    rf"\bstep +{_STEP}(?:/{_PLANNED})?: train loss (?P<loss>{_NUMBER}) \((?:took )?"
    rf"(?P<milliseconds>{_NUMBER}) ms(?:, (?P<tokens_per_second>{_NUMBER}) tok/s)?\)"
)
_EVALUATED = re.compile(rf"^(?:.{{0,60}}\s)?s:\d{{1,12}} tel:{_NUMBER}")
_FORMS = {
    # With a text that each of its lines has: to search for a pattern takes many times as long as
    # for a text.
    "iter": ("iter ", _ITER),
    "modded": ("step:", _MODDED),
    "llm.c": ("s:", _LLM_C),
    "chat": ("dt:", _CHAT),
    "build": ("dt:", _BUILD),
    "llm.c console": (" tok/s", _LLM_C_CONSOLE),
    "llm.c, early": (": train loss ", _LLM_C_EARLY),
}
_MULTIPLE = 1024
"""Tokens of a step are a multiple of this."""
_PEAK = re.compile(
    r"\bpeak memory (?:allocated: (\d{1,9}) MiB reserved: (\d{1,9}) MiB|consumption: (\d{1,9}) MiB)"
)
_TOKENS = r"\d[\d,]{0,18}"
_TABLED = {
    "micro-batch size B": "micro_batch_size",
    "sequence length T": "sequence_length",
    "total batch size": "tokens_per_step",
    "num_processes": "num_gpus",
    "num_layers L": "num_layers",
    "num_heads NH": "num_attention_heads",
    "channels C": "hidden_size",
    "vocab_size V": "vocab_size",
    "num_parameters": "num_parameters",
}
"""Rows of llm.c's table, and what they state."""

_STATEMENTS = statements(
    (
        "|",
        str.strip,
        1,
        r"^\|\s+\d+\s+(?P<device_name>(?:NVIDIA|AMD|Tesla|Quadro)[\w .-]{2,40}?)\s+(?:On|Off)\s+\|",
    ),
    (
        "Running Py",
        str.lower,
        1,
        r"\bRunning (?:PyTorch|pytorch) (?P<pytorch_version>[\w.+]{3,40})"
        r"(?:.{0,200}?\bcompiled for (?P<software_stack>CUDA) (?P<software_version>[\d.]{2,8}))?",
    ),
    # Of nanochat.
    ("GPU: ", str.strip, 1, r"^GPU: (?P<device_name>[\w .-]{2,60}?) \| Peak FLOPS"),
    (
        "/ rank:",
        count,
        3,
        r"^Tokens / micro-batch / rank: (?P<micro_batch_size>\d{1,9}) x"
        r" (?P<sequence_length>\d{1,9}) = "
        rf"(?P<tokens_per_rank>{_TOKENS})",
    ),
    ("micro-batch:", count, 3, rf"^Tokens / micro-batch: (?P<tokens_per_micro_batch>{_TOKENS})"),
    (
        "Total batch size",
        count,
        3,
        rf"^Total batch size (?P<tokens_per_step>{_TOKENS}) => gradient accumulation steps: "
        r"(?P<gradient_accumulation_steps>\d{1,9})",
    ),
    ('"sequence_len"', count, 1, r'^\s*"sequence_len": (?P<sequence_length>\d{1,9})'),
    (
        "batch_size B=",
        count,
        3,
        r"\bbatch_size B=(?P<micro_batch_size>\d{1,9}) \* seq_len"
        r" T=(?P<sequence_length>\d{1,9}) \* "
        r"num_processes=(?P<num_gpus>\d{1,7}) and"
        rf" total_batch_size=(?P<tokens_per_step>{_TOKENS})",
    ),
    (
        "| device  ",
        str.strip,
        1,
        r"^\| device\s+\| (?P<device_name>(?:NVIDIA|AMD|Tesla) [\w .-]{2,40}?)\s+\|",
    ),
    ("| precision  ", precision_of, 1, r"^\| precision\s+\| (?P<precision>\w{2,8})\s+\|"),
    *(
        (f"| {words} ", count, 1, rf"^\| {words}\s+\| (?P<{field}>\d{{1,15}})\s+\|")
        for words, field in _TABLED.items()
    ),
    # A file of settings as it is, and after it the command line's.
    ("max_iters", count, 1, r"^max_iters *= *(?P<last_iteration>\d{1,12})\s*(?:#.*)?$"),
    (
        "Overriding: max_iters",
        count,
        3,
        r"^Overriding: max_iters *= *(?P<last_iteration>\d{1,12})\s*$",
    ),
    ("world size", count, 1, r"^Distributed world size: (?P<num_gpus>\d{1,7})\b"),
)


class Reader(StepReader):
    """A parsed_log.Reader of nanoGPT logs."""

    name = "nanogpt"
    signs = ("time ", "train_time:", "trl:", "dt:", "tel:", " tok/s", ": train loss ")
    other_signs = ("| Peak FLOPS", "peak memory", *{row.sign for row in _STATEMENTS})
    timing = timer(
        clock="host clock of the training script",
        covers=(
            "one iteration with its data and optimizer; an evaluation or checkpoint within it"
            " counts"
        ),
    )

    _form = ""
    _before: tuple[int, float] | None = None
    _validations = 0
    _own_peak = False

    def take(self, line: Line) -> bool:
        """Read a step of any of the forms."""
        text = line.text[:2000]
        for form, (sign, pattern) in _FORMS.items():
            if sign in text and (match := pattern.search(text)):
                self._form = form
                self._take(match, text, line)
                return True
        is_validation = "s:" in text and _EVALUATED.match(text) is not None
        self._validations += is_validation
        return is_validation

    def other(self, line: Line) -> None:
        """Read modded-nanogpt's header and last line."""
        text = line.text[:500]
        self._own_peak = self._own_peak or "| Peak FLOPS" in text
        if "peak memory" in text and (peak := _PEAK.search(text)):
            allocated = number(peak[1] or peak[3])
            reserved = number(peak[2])
            self.memory |= summary_values(
                {"peak_memory_allocated_mib": allocated, "peak_memory_reserved_mib": reserved}
            )
        if rows := [row for row in _STATEMENTS if row.sign in text]:
            read_statements(rows, without_prefixes(text), line.number, self.stated)
        super().other(line)

    def done(self, run: RunBuilder) -> None:
        """Note what is known of this form of log."""
        stated = run.stated
        if self._form in ("chat", "build") and (tokens := tokens_of(run.training.ordered())):
            text = f"{tokens:,} tokens per step follow from dt × tok/sec"
            state(stated, "tokens_per_step", tokens, text, run.training.ordered()[0].line, 0)
            self.figures["tokens_per_step"] = float(stated.count("tokens_per_step") or tokens)
            run.unknown["global_batch_size"] = Note("batch-unstated", {"but": text})
        # nanochat prints tokens; whole sequences and ranks follow from them.
        known = stated.count_statement("tokens_per_micro_batch")
        one = stated.count("tokens_per_rank")
        if known and one and known.value % one == 0:
            state(stated, "num_gpus", known.value // one, known.text, known.line)
        if self._form == "iter" and (last := stated.count_statement("last_iteration")):
            # nanoGPT counts from 0 and ends after the iteration of this number, not before it.
            state(stated, "max_steps", last.value + 1, last.text, last.line)
        if self._form == "llm.c":
            run.unknown["step_times"] = no_step_times("this log format has none")
        if self._form == "modded":
            run.training.warnings.append(Note("times-of-train-time"))
            run.unknown["batch"] = Note("sizes-may-change")
        against = {"iter": "that of an A100 (312 TFLOP/s) on any GPU: not comparable"}
        if not self._own_peak:
            against["chat"] = (
                "the GPU's own or, in earlier versions, that of an H100 (989 TFLOP/s): the log"
                " doesn't say"
            )
        if self._form in against and any(
            "mfu_percent" in each.native for each in run.training.records.values()
        ):
            run.training.warnings.append(Note("peak-of-mfu", {"peak": against[self._form]}))
        if self._validations:
            self.notes = [f"{self._validations} validation lines skipped"]

    def _take(self, match: re.Match[str], text: str, line: Line) -> None:
        figures = match.groupdict()
        state(self.stated, "max_steps", count(figures.pop("max_steps", None)), text, line.number)
        record = Record(int(figures.pop("step")), line.number, window=1)
        for name, printed in figures.items():
            # The first ones of nanoGPT, and all of llm.c on an unknown GPU, are -100 %: there is
            # none.
            if name != "mfu_percent" or not str(printed).startswith("-"):
                record.put(name, printed)
        if self._form == "modded":
            if "val_loss:" in match[0]:
                self._validations += 1
                return
            if not self._derive_time(record):
                return
        elif self._form == "chat":
            for figure in _CHAT_FIGURE.finditer(text):
                record.put(figure.lastgroup or "", figure[figure.lastindex or 0])
                self._own_peak = self._own_peak or bool(figure["own_peak"])
        self.sorter.take(record)

    def _derive_time(self, record: Record) -> bool:
        """Set the step time from the cumulative one; return False if that is no value."""
        step = record.step
        seconds = record.native.get("cumulative_train_seconds")
        if seconds is None or step < 1:
            return False
        before = self._before if self._before is not None and self._before[0] < step else None
        if before is None and step == 1:
            before = (0, 0.0)
        if before is not None and seconds >= before[1]:
            record.window = step - before[0]
            record.put("seconds", round((seconds - before[1]) / record.window, 9))
        self._before = (step, seconds)
        return True


def tokens_of(records: Sequence[Record]) -> int | None:
    """Return the tokens of a step that the printed times and rates of all records leave; None for
    none or several.

    Times are rounded to 0.01 ms, rates rounded or cut to a whole number.
    """
    low = 0.0
    high = math.inf
    for record in records:
        seconds = record.seconds
        rate = record.native.get("tokens_per_second")
        if seconds and rate:
            low = max(low, (seconds - 5e-6) * (rate - 0.5))
            high = min(high, (seconds + 5e-6) * (rate + 1))
    if not 0 < low <= high < low + _MULTIPLE / 10:
        return None
    tokens = high // _MULTIPLE * _MULTIPLE
    if tokens >= low:
        return int(tokens)
    return None
