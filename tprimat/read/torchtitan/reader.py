"""Reader of torchtitan's logs, its own and those through Primus.

    [titan] 2025-06-04 08:51:58,557 - root - INFO - step: 10  loss: 10.7069  memory: 30.99GiB(32.62%)
    tps: 7,034  tflops: 407.35  mfu: 41.19%

tps is tokens per second and device: of the tokens that a data-parallel rank took since the line
before, divided by the time since then and by tensor, pipeline and context parallelism. Padding
counts. tflops are of the model, attention counted in full and recomputation not. The line has no
step time: it follows from tps where batch, sequence and devices are stated, and from nothing else.

native_metrics: `tokens_per_second_per_gpu`, `tflops_per_gpu`, `mfu_percent`, `memory_reserved_gb`
(highest since the line before, of the rank that prints).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tprimat.read.megatron import setup as megatron_setup
from tprimat.read.megatron import times as megatron_times
from tprimat.read.parsing import records
from tprimat.read.parsing.parsed_log import LoggedValue, ParsedLog
from tprimat.read.parsing.records import Record, RecordSequencer, Training
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.read.torchtitan import setup as torchtitan_setup
from tprimat.results.run import Data, GpuInfo, MemoryMetrics, Run, Source, Timing, TrainingConfig
from tprimat.units import gib_to_gb, round_figure

_STEP = re.compile(r"(?<!validate )\bstep:\s*([\d,]{1,15})(?=\s)")
_FIELD = re.compile(
    r"\b(loss|global_avg_loss|grad_norm|lr|memory|tps|wps|tflops|mfu):\s*"
    r"([-+]?[\d.,]+(?:[eE][-+]?\d+)?%?|[-+]?(?:nan|inf)|N/A)(?:Gi?B)?(?:\([^)]{0,20}\))?",
    re.IGNORECASE,
)
_ORIGIN = re.compile(r"\[rank-?(\d{1,6})(?:/\d{1,6})?\]|\[(replicagroup-\d{1,6})\]|^\s*(\d{1,6}): ")
_NAMES = {
    "loss": "loss",
    "global_avg_loss": "loss",
    "grad_norm": "grad_norm",
    "lr": "learning_rate",
    "tps": "tokens_per_second_per_gpu",
    "wps": "tokens_per_second_per_gpu",
    "tflops": "tflops_per_gpu",
    "mfu": "mfu_percent",
    "memory": "memory_reserved_gb",
}
RATE = "tokens_per_second_per_gpu"

DEFAULT_LOG_FREQ = 10
"""torchtitan's metrics.log_freq where nobody sets it."""


class Reader:
    """Reads one log. See reading.Reader."""

    name = "torchtitan"
    looks_for = "torchtitan's step lines (“step: 10  loss: … tps: …”)"

    def __init__(self) -> None:
        self._sorter = RecordSequencer(_reconcile)
        self._setup = torchtitan_setup.Setup()
        self._own = False
        self._lines = 0
        self._groups: set[str] = set()

    @property
    def recognised(self) -> bool:
        """Whether a step line or torchtitan's own configuration was seen."""
        return bool(self._sorter.trainings) or self._own

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        if "step:" in line.text and self._step(line):
            return
        around = self._sorter.pending
        self._lines += 1
        if self.recognised or self._lines <= records.LONGEST_SETUP:
            self._own = self._setup.feed(line.number, line.text, around) or self._own
        if self._own or self._sorter.trainings:
            around.feed(line.number, line.text)

    def finish(self) -> list[ParsedLog]:
        """The trainings, in the order of the log."""
        trainings = self._sorter.finish()
        if not trainings and self._own:
            trainings = [Training(around=self._sorter.pending)]
        return [self._reading(training) for training in trainings]

    def _step(self, line: Line) -> bool:
        anchor = _STEP.search(line.text)
        if anchor is None or not (number := int(anchor[1].replace(",", "") or 0)):
            return False
        fields = list(_FIELD.finditer(line.text, anchor.end()))
        if not line.whole and fields and fields[-1].end() == len(line.text):
            # The file ends here: the last figure may be cut.
            del fields[-1]
        found = {field[1].lower(): field[2] for field in reversed(fields)}
        rated = "tps" in found or "wps" in found
        if not rated and not ({"loss", "global_avg_loss"} & found.keys() and "memory" in found):
            if not line.whole:
                self._sorter.cut_off = number
            return not line.whole
        before = line.text[: anchor.start()]
        record = Record(number, line.number, stamp=last_stamp(before))
        if origin := list(_ORIGIN.finditer(before)):
            record.origin = origin[-1][0].strip(" :")
            if origin[-1][2]:
                self._groups.add(origin[-1][2])
        for label, text in found.items():
            value = records.figure(text)
            if label == "memory" and value is not None:
                # Some versions write GB; all divide by 2^30. Where nothing is measured they write 0.
                gigabytes = round(gib_to_gb(value), 4)
                value = gigabytes if gigabytes > 0 else None
            record.put(_NAMES[label], value)
        if record.loss is not None and record.loss < 0:
            # A pipeline stage that isn't the last knows no loss and prints -1 or -2.
            record.loss = None
            record.not_finite = tuple(name for name in record.not_finite if name != "loss")
        world = re.search(r"\[rank-\d{1,6}/(\d{1,6})\]", before)
        if world:
            self._sorter.pending.state("world", int(world[1]), line.number, world[0])
        self._sorter.pending.first_stamp = self._sorter.pending.first_stamp or record.stamp
        self._sorter.take(record)
        self._setup.stepped = True
        return True

    def _reading(self, training: Training) -> ParsedLog:
        stated = training.around.stated
        names = {
            "model": _model_statement(training),
            "num_gpus": stated.counted("world"),
            "sequence_length": stated.counted("sequence"),
            "global_batch_size": _batch(training),
            "micro_batch_size": stated.counted("local_batch"),
            "max_steps": stated.counted("steps"),
            "tensor_model_parallel_size": stated.counted("tp"),
            "precision": stated.get("converters") or stated.get("parameter_type"),
        }
        groups = sorted(self._groups)

        def build(given: Mapping[str, Any]) -> Run:
            return _run(training, groups, given)

        found = {name: statement for name, statement in names.items() if statement is not None}
        return ParsedLog(len(training.records), found, training.notes(), build)


def _reconcile(known: Record, double: Record) -> None:
    if known.loss is None and double.loss is not None:
        known.loss = double.loss


def _batch(training: Training) -> LoggedValue | None:
    """The global batch: as stated, or what local batch, replicas and accumulation make of it."""
    stated = training.around.stated
    if statement := stated.counted("global_batch"):
        return statement
    local, replicas = stated.count("local_batch"), stated.count("replicas")
    accumulation = stated.count("accumulation") or 1
    if local and replicas:
        # Without a global batch size torchtitan accumulates nothing.
        source = stated["local_batch"]
        return LoggedValue(local * replicas * accumulation, source.line, source.text, 0)
    return None


def _accumulation(training: Training, batch: int | None) -> int | None:
    stated = training.around.stated
    if known := stated.count("accumulation"):
        return known
    local, replicas = stated.count("local_batch"), stated.count("replicas")
    if batch and local and replicas and batch % (local * replicas) == 0:
        return batch // (local * replicas)
    return None


def _model_statement(training: Training) -> LoggedValue | None:
    statement = _called(training)
    if statement is None:
        return None
    shape, _ = torchtitan_setup.model_config(training.around.stated)
    name, _, _ = megatron_setup.known_model(shape, str(statement.value))
    return LoggedValue(name, statement.line, statement.text, statement.weight) if name else None


def _called(training: Training) -> LoggedValue | None:
    stated = training.around.stated
    if statement := stated.get("model"):
        return statement
    name, flavor = stated.get("model_name"), stated.word("model_flavor")
    if name is None or not name.value:
        return None
    return LoggedValue(f"{name.value} {flavor}" if flavor else str(name.value), name.line, name.text)


def _windows(found: list[Record], training: Training, warnings: list[str]) -> list[int]:
    """Steps that each record averages: torchtitan logs step 1 and every multiple of log_freq."""
    steps = [record.step for record in found]
    interval = training.around.stated.count("log_freq")
    if interval is None:
        regular = [step for step in steps if step > 1]
        interval = math.gcd(*regular) if len(regular) > 1 or regular == [DEFAULT_LOG_FREQ] else 1
        if len(regular) == 1 and interval == 1 and regular != [2]:
            warnings.append(
                "how many steps a record averages isn't stated (log_freq; torchtitan's default is "
                f"{DEFAULT_LOG_FREQ}): window_steps counts each as one"
            )
    return megatron_times.windows(steps, interval)


def _run(training: Training, groups: list[str], given: Mapping[str, Any]) -> Run:
    stated, found = training.around.stated, training.ordered()
    warnings: list[str] = []
    windows = _windows(found, training, warnings)
    stated_batch = _batch(training)
    world = given.get("num_gpus") or stated.count("world")
    batch = given.get("global_batch_size") or (stated_batch.value if stated_batch else None)
    sequence = given.get("sequence_length") or stated.count("sequence")
    warnings += _derive_times(found, batch, sequence, world)
    warnings += records.said_of(training, windows)
    if len(groups) > 1:
        warnings.append(
            f"{len(groups)} replica groups of one fault-tolerant training print into this log: the figures are those "
            "of the first that printed each step, and the batch of one group"
        )
    planned = stated.count("steps")
    if found and planned and found[-1].step < planned and "success" in training.around.marks:
        warnings.append(
            f"the last step that is printed is {found[-1].step}, and the training went on to {planned}: torchtitan "
            f"prints every {stated.count('log_freq') or DEFAULT_LOG_FREQ} steps"
        )
    status, reason = records.status(training, planned)
    shape, left_out = torchtitan_setup.model_config(stated)
    called = _called(training)
    model, scale, doubts = megatron_setup.known_model(shape, str(called.value) if called else None)
    if model is None or (given.get("model") and given["model"] != model):
        model, doubts = given.get("model"), [] if given.get("model") else doubts
    warnings += [*left_out, *doubts]
    device = stated.word("device")
    amd = "AMD" in device if device else None
    if device is None:
        warnings.append("the log doesn't state the GPU")
    memory = [record.native["memory_reserved_gb"] for record in found if "memory_reserved_gb" in record.native]
    precision, detail = torchtitan_setup.precision(stated)
    seed = stated.value("seed")
    gib = stated.number("device_gib")
    dataset = stated.word("dataset")
    return Run(
        status=status,
        status_reason=reason,
        platform=None if device is None else "amd" if amd else "nvd" if "NVIDIA" in device else None,
        framework="torchtitan",
        model=model,
        scale=scale,
        timestamp=records.timestamp(training.around.first_stamp, warnings),
        warnings=tuple(dict.fromkeys(warnings)),
        source=Source(kind="log", dialect="torchtitan"),
        gpu_info=GpuInfo(
            device_name=device,
            device_count=world,
            total_memory_gb=round_figure(gib_to_gb(gib)) if gib and gib > 0 else None,
            software_stack="rocm" if amd else "cuda" if device and "NVIDIA" in device else None,
        ),
        model_config=shape,
        training_config=TrainingConfig(
            max_steps=planned,
            global_batch_size=batch,
            micro_batch_size=stated.count("local_batch"),
            sequence_length=sequence,
            num_gpus=world,
            precision=precision,
            precision_detail=detail,
            recomputation=torchtitan_setup.recomputation(stated),
            seed=seed if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 2**63 else None,
        ),
        parallelism_config=torchtitan_setup.parallelism(stated, _accumulation(training, batch)),
        optimizer=torchtitan_setup.optimizer(stated),
        data=Data(kind=dataset),
        timing=Timing(
            clock="host clock at the log line, from which torchtitan works out tps; the step time follows from that",
            covers="all between two log lines: data wait, forward and backward, optimizer; garbage collection and "
            "checkpoints too; not validation",
            over_ranks="the rank that prints",
        ),
        memory_metrics=MemoryMetrics(peak_memory_reserved_gb=round_figure(max(memory)) if memory else None),
        **records.series(found, windows),
    )


def _derive_times(found: list[Record], batch: int | None, sequence: int | None, world: int | None) -> list[str]:
    """Sets the step times that follow from tps; returns what is to be said of it."""
    rated = [record for record in found if record.native.get(RATE)]
    if not rated:
        return ["there are no step times: the lines have no tps to work them out from"] if found else []
    if not (batch and sequence and world):
        known = {"the global batch size": batch, "the sequence length": sequence, "the number of GPUs": world}
        lacking = [name for name, value in known.items() if not value]
        return [
            "there are no step times: torchtitan prints none, and they can't be worked out from tps because "
            f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not stated; the rates as printed stand in "
            "native_metrics"
        ]
    for record in rated:
        record.put("seconds", round(batch * sequence / (record.native[RATE] * world), 9))
    return [
        "torchtitan prints no step time: it was worked out as batch × sequence / (tps × GPUs) "
        f"({batch} × {sequence} / (tps × {world})), to the digits that tps is printed with"
    ]
