"""Reader of NeMo-Automodel: its training.jsonl, and its console.

    {"step": 0, "epoch": 0, "timestamp": "2026-04-01T16:05:18.695Z", "loss": 4.95, "grad_norm":
    4094.0, "lr": 0.0001, "mem": 47.7, "tps": 1124.6, "tps_per_gpu": 140.5, "mfu": 0.28,
    "num_tokens_per_step": 40419, "num_label_tokens": 15802}

    2026-04-01 16:05:18 | INFO | … | step 0 | epoch 0 | loss 4.9566 | grad_norm 4094.0308 | lr
    1.00e-04 | mem 47.74 GiB | tps 1124.68(140.58/gpu) | num_label_tokens 15802

tps counts the tokens of all ranks without the padding at the end of sequences. tps_per_gpu is tps
divided by data and context parallelism only: with tensor or pipeline parallelism it is too high by
their product. Steps count from zero, and a step has as many tokens as its batch happens to have, so
that no batch size × sequence length describes it.

native_metrics: `tokens_per_second`, `tokens_per_second_per_gpu` (as printed),
`tokens_per_second_per_gpu_corrected` (where the number of GPUs is known), `mfu_percent`,
`tokens_per_step`, `label_tokens_per_step`, `memory_allocated_gb` (peak of rank 0 since the record
before).
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Mapping

import msgspec

from tprimat.notes import Note
from tprimat.read.nemo import reader as nemo
from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.parsed_log import Given
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import LONGEST_STATEMENT, StepReader
from tprimat.read.parsing.text import Line, first_stamp, last_stamp, without_prefixes
from tprimat.read.parsing.values import (
    count,
    object_at,
    read_statements,
    state,
    statements,
    whole,
    whole_ratio,
)
from tprimat.results.run import Run
from tprimat.settings.rows import names

_CONSOLE = re.compile(r"\bstep (\d{1,12}) \| epoch \d{1,9} \| loss ")
_FIELD = re.compile(
    r"\b(loss|grad_norm|lr|mem|tps|num_label_tokens|num_tokens_per_step|mfu)"
    r" ([-+]?[\d.,]+(?:[eE][-+]?\d+)?|nan|inf)"
    r"(?:\(([\d.,]+)/gpu\))?",
    re.IGNORECASE,
)
_STATEMENTS = statements(
    *(
        ("", count, 1, rf"\b{name}['\"]?\s*[:=]\s*(?P<{field}>\d{{1,12}})\b")
        for path, field in names("automodel").items()
        for part, _, name in [path.rpartition(".")]
        if part in ("step_scheduler", "distributed")
    ),
    ("", count, 1, r"\b(?i:world[\x20_]size)['\"]?\s*[:=]\s*(?P<num_gpus>\d{1,12})\b"),
    (
        "pretrained_model",
        lambda path: path.rstrip("/").rsplit("/", 1)[-1],
        1,
        r"\bpretrained_model_name_or_path['\"]?\s*[:=]\s*['\"]?(?P<model>[\w./-]{1,200})",
    ),
)


@dataclasses.dataclass
class AutomodelRun(RunBuilder):
    """Builder of the Run of one NeMo-Automodel training; `ratio` is printed tokens per second over
    those per GPU.
    """

    ratio: int | None = None

    def run(self, given: Given) -> Run:
        """Return the Run, with its rate per GPU worked out again if the number of GPUs is known."""
        run = super().run(given)
        world = self.sizes(given)[0].num_gpus
        rates = run.native_metrics.get("tokens_per_second")
        if not world or not isinstance(rates, tuple):
            return run
        corrected = tuple(None if rate is None else rate / world for rate in rates)
        notes = run.notes
        if self.ratio and self.ratio != world:
            times = world / self.ratio
            facts = {"times": times, "by": self.ratio, "gpus": world}
            notes += (Note("printed-rate-too-high", facts),)
        native = {**run.native_metrics, "tokens_per_second_per_gpu_corrected": corrected}
        return msgspec.structs.replace(run, native_metrics=native, notes=notes)


class Reader(StepReader):
    """A parsed_log.Reader of NeMo-Automodel logs."""

    name = "automodel"
    signs = (" | epoch ", '"tps')
    other_signs = ("_size", "orld", "max_steps", "pretrained_model")
    names: Mapping[str, str] = {
        "loss": "loss",
        "grad_norm": "grad_norm",
        "lr": "learning_rate",
        "tps": "tokens_per_second",
        "tps_per_gpu": "tokens_per_second_per_gpu",
        "mfu": "mfu_percent",
        "num_tokens_per_step": "tokens_per_step",
        "num_label_tokens": "label_tokens_per_step",
        "mem": "memory_allocated_gib",
        **dict.fromkeys(("step", "epoch", "timestamp"), ""),
    }
    rate = None
    peaks: Mapping[str, str] = {"memory_allocated_gb": "peak_memory_allocated_gb"}
    run_type = AutomodelRun
    timing = timer(
        clock=(
            "host clock; the step time is worked out from the printed tokens of the step and tokens"
            " per second"
        ),
        covers=(
            "all between two steps: data loading, forward and backward of all micro-batches,"
            " optimizer"
        ),
        over_ranks="rank 0 prints",
    )

    def take(self, line: Line) -> bool:
        """Read a step of the console or of the file."""
        if '"step"' in line.text and '"tps' in line.text:
            return self._json(line)
        return self._console(line)

    def other(self, line: Line) -> None:
        """Read a line of the setup."""
        self.hear(line)
        text = line.text[:LONGEST_STATEMENT]
        if has_sign(text, self.other_signs):
            read_statements(_STATEMENTS, text, line.number, self.stated, without_prefixes(text))

    def done(self, run: RunBuilder) -> None:
        """State what follows from the rates, and why there is no batch."""
        assert isinstance(run, AutomodelRun)
        found = run.training.ordered()
        stated = run.stated
        nemo.set_windows(found)
        run.shift = 1
        # The product of data and context parallelism.
        rates = []
        for record in found:
            rates.append([record.native.get(f"tokens_per_second{one}") for one in ("", "_per_gpu")])
        ratios = [whole_ratio(rate[:1], rate[1:]) for rate in rates]
        known = statistics.multimode(ratio for ratio in ratios if ratio)
        ratio = run.ratio = known[0] if len(known) == 1 else None
        shared = (stated.count("tensor_model_parallel_size") or 0) * (
            stated.count("pipeline_model_parallel_size") or 0
        )
        if ratio and shared and "num_gpus" not in stated:
            text = f"tps / tps_per_gpu = {ratio}, tp × pp = {shared}"
            state(stated, "num_gpus", ratio * shared, text, found[0].line, 0)
        run.unknown["step_times"] = no_step_times(
            "the console log has no tokens per step", but="; import training.jsonl instead"
        )
        tokens = {record.native.get("tokens_per_step") for record in found}
        if len(tokens) > 1:
            # Sequences of a fine-tuning have the length that they have.
            stated.pop("global_batch_size", None)
            counts = [token for token in tokens if token]
            run.unknown["global_batch_size"] = Note(
                "tokens-not-fixed", {"least": min(counts), "most": max(counts)}
            )
            run.unknown["sequence_length"] = Note("length-unstated")
        here = f" ({ratio} here)" if ratio else ""
        run.unknown["rate"] = Note("rate-as-printed", {"here": here})

    def _json(self, line: Line) -> bool:
        found = object_at(line.text, line.text.find("{"))
        if found is None:
            self.cut_off(0, line)
        if found and "tps" in found and "num_label_tokens" in found:
            step = whole(found.get("step"))
        else:
            step = None
        if found is None or step is None:
            return False
        self._take(
            self.new_record(
                step, line.number, found, first_stamp(str(found.get("timestamp", ""))[:60])
            )
        )
        return True

    def _console(self, line: Line) -> bool:
        anchor = _CONSOLE.search(line.text)
        if anchor is None:
            return False
        fields = list(_FIELD.finditer(line.text, anchor.start()))
        values: dict[str, str] = {}
        for field in fields:
            values.setdefault(field[1].lower(), field[2])
            if field[3]:
                values.setdefault("tps_per_gpu", field[3])
        if "tps" not in values:
            return self.cut_off(int(anchor[1]), line)
        self._take(
            self.new_record(
                int(anchor[1]), line.number, values, last_stamp(line.text[: anchor.start()])
            )
        )
        return True

    def _take(self, record: Record) -> None:
        tokens = record.native.get("tokens_per_step")
        rate = record.native.get("tokens_per_second")
        if tokens and rate:
            record.put("seconds", tokens / rate)
        self.sorter.take(record)
