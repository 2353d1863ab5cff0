"""Reader of nanoGPT and what descends from it: nanochat, modded-nanogpt, llm.c.

iter 10: loss 3.9, time 135.19ms, mfu 42.08%                       nanoGPT
step 00010/21400 (0.05%) | loss: 5.9 | … | dt: 350.1ms | tok/sec: 1,497,000 | mfu: 45.2   nanochat
step:2/1480 train_time:117ms step_avg:58.40ms                      modded-nanogpt: cumulative
s:4768 trl:3.520843                                                llm.c, the first modded logs
"""

from __future__ import annotations

import re

from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import number, state
from tprimat.results.run import Timing
from tprimat.units import gib_to_gb, round_figure

_NUMBER = r"([-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d{1,3})?|nan|inf))"
_ITER = re.compile(rf"\biter (\d{{1,12}}): loss {_NUMBER}, time {_NUMBER}ms(?:, mfu {_NUMBER}%)?")
_CHAT = re.compile(rf"\bstep (\d{{1,12}})(?:/(\d{{1,12}}))? \([\d.]+%\) \| (?:train )?loss: {_NUMBER}")
_CHAT_PARTS = (
    (re.compile(rf"\bdt: {_NUMBER}ms"), "seconds"),
    (re.compile(rf"\btok/sec: {_NUMBER}"), "tokens_per_second"),
    (re.compile(rf"\b(?:bf16_)?mfu: {_NUMBER}"), "mfu_percent"),
)
_MODDED = re.compile(
    rf"\bstep:(\d{{1,12}})/(\d{{1,12}})((?: (?:train_loss|val_loss):{_NUMBER})*) "
    rf"train_time:{_NUMBER}ms step_avg:{_NUMBER}ms"
)
_TRAIN_LOSS = re.compile(rf"\btrain_loss:{_NUMBER}")
_LLM_C = re.compile(rf"^(?:.{{0,60}}\s)?s:(\d{{1,12}}) trl:{_NUMBER}(?: lr:{_NUMBER})?(?: norm:{_NUMBER})?")
_EVALUATED = re.compile(rf"^(?:.{{0,60}}\s)?s:(\d{{1,12}}) (?:tel|eval):{_NUMBER}")
_PEAK = re.compile(r"\bpeak memory (?:allocated: (\d{1,9}) MiB reserved: (\d{1,9}) MiB|consumption: (\d{1,9}) MiB)")
_DEVICE = re.compile(r"^\|\s+\d+\s+((?:NVIDIA|AMD|Tesla|Quadro)[\w .-]{2,40}?)\s+(?:On|Off)\s+\|")
_TORCH = re.compile(r"\bRunning (?:PyTorch|pytorch) ([\w.+]{3,40})")
_CUDA = re.compile(r"\bcompiled for CUDA ([\d.]{2,8})")


class Reader(StepReader):
    """A parsed_log.Reader of nanoGPT logs."""

    name = "nanogpt"
    looks_for = "nanoGPT's steps (“iter 10: loss …, time …ms”, “step:2/1480 train_time:…”, “s:1 trl:…”)"
    signs = ("time ", "train_time:", "trl:", "dt:", "tel:")
    timing = Timing(
        clock="host clock of the training script",
        covers="one iteration with its data and optimizer; an evaluation or checkpoint within it counts",
        over_ranks="rank 0",
    )

    def __init__(self) -> None:
        super().__init__()
        # With what each can't be without: a pattern that finds nothing takes many times as long as a word.
        self._forms = (("iter ", self._iter), ("step:", self._modded), ("s:", self._llm_c), ("dt:", self._chat))
        self._form = ""
        self._before: tuple[int, float] | None = None
        self._zero = False
        self._validations = 0

    def take(self, line: Line) -> bool:
        """Read a step of any of the forms."""
        text = line.text[:2000]
        return any(sign in text and read(text, line) for sign, read in self._forms)

    def other(self, line: Line) -> None:
        """Read modded-nanogpt's header and last line."""
        text = line.text[:500]
        if "peak memory" in text and (peak := _PEAK.search(text)):
            allocated, reserved = peak[1] or peak[3], peak[2]
            for name, mib in (("peak_memory_allocated_gb", allocated), ("peak_memory_reserved_gb", reserved)):
                if mib:
                    self.memory[name] = round_figure(gib_to_gb(int(mib) / 1024)) or 0.0
        elif "|" in text and (device := _DEVICE.match(text)):
            state(self.stated, "device_name", device[1].strip(), text, line.number)
        elif "Running Py" in text and (torch := _TORCH.search(text)):
            state(self.stated, "pytorch_version", torch[1], text, line.number)
            if cuda := _CUDA.search(text):
                state(self.stated, "software_stack", "cuda", text, line.number)
                state(self.stated, "software_version", cuda[1], text, line.number)

    def done(self, training: LoggedTraining) -> None:
        """Set what is known of this form of log."""
        self.shift = 1 if training.records and min(training.records) == 0 else 0
        if self._form == "s":
            self.unknown["step_times"] = "no step times: this form of the log has none"
        if self._form == "step":
            training.warnings.append(
                "step times are differences of the cumulative train_time, of whole milliseconds; its clock runs ahead "
                "of the GPU, so that the step after a validation looks long"
            )
            self.unknown["batch"] = "batch and sequence may follow a schedule that the log doesn't print"
        if any("mfu_percent" in record.native for record in training.records.values()):
            training.warnings.append(
                "the MFU that is printed is of an A100's 312 TFLOP/s whatever the GPU: not to be compared"
            )
        if self._validations:
            self.notes = [f"{self._validations} validations are no records of training"]

    def _iter(self, text: str, line: Line) -> bool:
        found = _ITER.search(text)
        if found is None or (not line.whole and found.end() == len(text)):
            return False
        record = Record(int(found[1]), line.number)
        milliseconds = number(found[3])
        record.put("seconds", None if milliseconds is None else milliseconds / 1e3)
        record.put("loss", number(found[2]))
        percent = number(found[4])
        # The first ones print -100 %: there is none yet.
        record.put("mfu_percent", percent if percent is not None and percent >= 0 else None)
        record.window = 1
        self._form = "iter"
        self.add(record)
        return True

    def _chat(self, text: str, line: Line) -> bool:
        found = _CHAT.search(text)
        if found is None or not line.whole or "dt:" not in text:
            return False
        record = Record(int(found[1]), line.number)
        record.put("loss", number(found[3]))
        if found[2]:
            state(self.stated, "max_steps", int(found[2]), text, line.number)
        for pattern, field in _CHAT_PARTS:
            if part := pattern.search(text):
                value = number(part[1])
                record.put(field, value / 1e3 if field == "seconds" and value is not None else value)
        record.window = 1
        self._form = "chat"
        self.add(record)
        return True

    def _modded(self, text: str, line: Line) -> bool:
        found = _MODDED.search(text)
        if found is None:
            return False
        if "val_loss:" in found[3]:
            self._validations += 1
            return True
        step, cumulative = int(found[1]), number(found[5])
        if cumulative is None or step < 1:
            return True
        record = Record(step, line.number)
        record.window = 1
        before = self._before if self._before is not None and self._before[0] < step else None
        if before is None and step == 1:
            before = (0, 0.0)
        if before is not None and cumulative >= before[1]:
            record.window = step - before[0]
            record.put("seconds", round((cumulative - before[1]) / (step - before[0]) / 1e3, 9) or None)
        self._before = (step, cumulative)
        loss = _TRAIN_LOSS.search(found[3])
        record.put("loss", number(loss[1]) if loss else None)
        record.put("cumulative_train_seconds", cumulative / 1e3)
        state(self.stated, "max_steps", int(found[2]) or None, text, line.number)
        self._form = "step"
        self.add(record)
        return True

    def _llm_c(self, text: str, line: Line) -> bool:
        found = _LLM_C.match(text)
        if found is None:
            if _EVALUATED.match(text):
                self._validations += 1
                return True
            return False
        if not line.whole:
            return True
        record = Record(int(found[1]), line.number)
        record.put("loss", number(found[2]))
        record.put("learning_rate", number(found[3]))
        record.put("grad_norm", number(found[4]))
        record.window = 1
        self._form = "s"
        self.add(record)
        return True
