"""Reader of MaxText's and MaxDiffusion's step lines.

    completed step: 49, seconds: 5.018, TFLOP/s/device: 107.127, Tokens/s/device: 6529.527,
    total_weights: 16777216, loss: 10.172

Each line is one step, timed on the host while the device works on: the first steps after the
compilation may look absurdly fast, and what they left waiting shows in later ones. Tokens count
padding; total_weights counts targets that are none. TFLOPs are model FLOPs, without recomputation.
Steps count from 0 in MaxText and from 1 in runs after it (DPO, SFT): they are kept as printed, but
for a log that has a step 0.

native_metrics: `tflops_per_gpu`, `tokens_per_second_per_gpu`, `samples_per_second_per_gpu`,
`target_tokens`, `perplexity`, each if it is printed.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping

from tprimat.notes import Note
from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.options import Options
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import NO_YEAR, Line, first_stamp, last_stamp, without_prefixes
from tprimat.read.parsing.values import (
    count,
    number,
    precision_of,
    read_statements,
    state,
    statements,
)
from tprimat.results.account import Timing

_STEP = re.compile(r"\bcompleted (?:profiler (?:activation|deactivation) )?step: *(\d{1,12}),? +")
_PAIR = re.compile(
    r"([A-Za-z][\w/ ]{0,40}?): *([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf))(?=,|\s|$)", re.IGNORECASE
)
_PARAMETER = re.compile(r"\bConfig param (\w{1,60}): (\S{0,100})")
_PARAMETERS: Options = {
    "max_target_length": ("sequence_length", count),
    "global_batch_size_to_train_on": ("global_batch_size", count),
    "per_device_batch_size": ("batch_per_device", number),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", count),
    "steps": ("max_steps", count),
    "run_name": ("run_name", str),
    "base_num_decoder_layers": ("num_layers", count),
    "base_emb_dim": ("hidden_size", count),
    "base_mlp_dim": ("ffn_hidden_size", count),
    "base_num_query_heads": ("num_attention_heads", count),
    "base_num_kv_heads": ("num_query_groups", count),
    "vocab_size": ("vocab_size", count),
    "model_name": ("model", str),
    "quantization": ("quantization", str),
    "dtype": ("dtype", str),
}
_OF_A_RUN = ("run_name", "model", "sequence_length", "batch_per_device", "global_batch_size")
"""Parameters of which no run changes one when it is resumed."""

_STATEMENTS = statements(
    (
        "evices: ",
        count,
        3,
        r"(?:\bSystem Information: Number of devices|\b[Nn]um_devices): (?P<num_gpus>\d{1,7})\b",
    ),
    (
        "Train loop",
        number,
        1,
        r"\bTrain loop finished in: (?P<loop_seconds>\d{1,12}(?:\.\d{1,9})?) seconds",
    ),
)
# A row of the memory table that is printed when the parameters are there.
_TABLED = re.compile(
    r"\bUsing \(GB\) [\d.]+ / [\d.]+ \([\d.]+%\) on (?:TPU|CUDA|ROCM|Gpu)?_?(\d{1,6})\("
)
_ABSL_DATE = re.compile(r"[IWEF](\d\d)(\d\d) (?=\d\d:\d\d:\d\d\.\d)")


class Reader(StepReader):
    """A parsed_log.Reader of MaxText logs."""

    name = "maxtext"
    signs = ("completed ",)
    other_signs = ("Config param", "evices: ", "Using (GB)", "Train loop", "Finished training")
    names: Mapping[str, str] = {
        "seconds": "seconds",
        "tflop/s/device": "tflops_per_gpu",
        "tokens/s/device": "tokens_per_second_per_gpu",
        "samples/s/device": "samples_per_second_per_gpu",
        "frames/s/device": "frames_per_second_per_gpu",
        "total_weights": "target_tokens",
        "loss": "loss",
        "lm_loss": "lm_loss",
        "perplexity": "perplexity",
        "learning_rate": "learning_rate",
        "grad_norm": "grad_norm",
        "raw_grad_norm": "grad_norm",
    }
    timing = Timing(
        kind="stamps",
        clock=(
            "host clock from one step's end to the next, while the device works on (asynchronous"
            " dispatch)"
        ),
        covers=(
            "a step with its data; evaluations and checkpoints fall into the step that they follow"
        ),
        over_ranks="process 0 prints",
    )

    def __init__(self) -> None:
        super().__init__()
        self._devices: set[str] = set()
        self._diffusion = False
        self._year = NO_YEAR

    def feed(self, line: Line) -> bool:
        """Take the next line, with the year that absl leaves out of its dates."""
        if dated := _ABSL_DATE.match(line.text):
            line = line._replace(
                text=f"{self._year}-{dated[1]}-{dated[2]} {line.text[dated.end() :]}"
            )
        elif line.text[:2] == "20" and (stamp := first_stamp(line.text[:30])):
            self._year = stamp.time.year
        return super().feed(line)

    def other(self, line: Line) -> None:
        """Read a line of the setup, or of what happens once the training is known."""
        if has_sign(line.text, self.other_signs):
            self._read_context(line.number, line.text[:4_000])
        self.hear(line)

    def take(self, line: Line) -> bool:
        """Read a step, or several if line ends were lost."""
        anchors = list(_STEP.finditer(line.text))
        ends = [anchor.start() for anchor in anchors[1:]] + [len(line.text)]
        for anchor, end in zip(anchors, ends, strict=False):
            pairs = list(_PAIR.finditer(line.text, anchor.end(), end))
            printed = {" ".join(pair[1].lower().split()): pair[2] for pair in reversed(pairs)}
            record = self.new_record(
                int(anchor[1]), line.number, printed, last_stamp(line.text[: anchor.start()])
            )
            record.window = 1
            self._diffusion = self._diffusion or any("frames" in name for name in record.native)
            if record.seconds is None and "seconds" not in record.not_finite:
                self.cut_off(record.step, line)
                continue
            known = self.sorter.trainings[-1].around.stated if self.recognized else {}
            stated = self.sorter.pending.stated
            common = [name for name in _OF_A_RUN if name in known and name in stated]
            self.sorter.take(
                record, another=any(known[name].value != stated[name].value for name in common)
            )
        return bool(anchors)

    def _read_context(self, line: int, text: str) -> None:
        around = self.sorter.pending
        bare = without_prefixes(text)
        read_statements(_STATEMENTS, text, line, around.stated, bare)
        if (parameter := _PARAMETER.search(text)) and parameter[1] in _PARAMETERS:
            field, read = _PARAMETERS[parameter[1]]
            state(around.stated, field, read(parameter[2]), bare, line, 3)
        if tabled := _TABLED.search(text):
            self._devices.add(tabled[1])
            state(around.stated, "num_gpus", len(self._devices), bare, line)
        if "Train loop finished" in text or (
            "checkpoint" not in text and "Finished training" in text
        ):
            around.marks["success"] = line

    def done(self, run: RunBuilder) -> None:
        """State what follows from the parameters, or what the lines suggest."""
        found = run.training.ordered()
        stated = run.stated
        marks = run.training.around.marks
        run.framework = "maxdiffusion" if self._diffusion else "maxtext"
        quantized = stated.word("quantization")
        kind = stated.word("dtype")
        known = "fp8" if quantized and "fp8" in quantized else precision_of(kind)
        source = stated.get("quantization") if quantized else stated.get("dtype")
        if known and source:
            state(stated, "precision", known, source.text, source.line, 3)
            state(
                stated,
                "precision_detail",
                f"quantization {quantized}, dtype {kind}",
                source.text,
                source.line,
                3,
            )
        if "success" in marks and sum(record.line > marks["success"] for record in found) == 1:
            # The last step is logged when its figures are there: after the loop's end.
            marks["success"] = found[-1].line
        tokens = {
            round(rate * record.seconds)
            for record in found
            if record.seconds
            and (rate := record.native.get("tokens_per_second_per_gpu"))
            and record.seconds > 0.5
        }
        batch = stated.number("batch_per_device")
        devices = stated.count("num_gpus")
        if batch and devices:
            # Devices that share a model have fractions of a sequence each.
            text = f"{batch:g} sequences per device, {devices} devices"
            whole_batch = count(
                batch * devices * (stated.count("gradient_accumulation_steps") or 1)
            )
            state(stated, "global_batch_size", whole_batch, text, stated["batch_per_device"].line)
        if tokens and "global_batch_size" not in stated:
            run.unknown["global_batch_size"] = Note(
                "batch-suggested-by-tokens", {"tokens": statistics.median(tokens)}
            )
        if self._devices and (shown := stated.get("num_gpus")) and shown.weight == 1:
            run.unknown["devices"] = Note("devices-of-process", {"devices": shown.value})
        if loop := stated.number("loop_seconds"):
            run.figures["train_loop_seconds"] = loop
