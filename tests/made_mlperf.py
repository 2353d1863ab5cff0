"""Small MLPerf logs in every way in which submitters say where a block of training ends."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

from tprimat import read
from tprimat.log_import.extract import with_system
from tprimat.read.parsing import text
from tprimat.results.run import Run

Dialect = Literal["position", "start twice", "length", "tokens", "open", "mixed"]
DIALECTS: tuple[Dialect, ...] = ("position", "start twice", "length", "tokens", "open")
"""All in which training and evaluation can be told apart."""

BEGUN = 1_760_000_000_000
BATCH, SEQUENCE = 16, 2048
INIT, START, BETWEEN, END = 30_000, 120, 2, 40
"""Before run_start, up to the first block, after an evaluation, after the last one; ms."""

Blocks = tuple[tuple[int, int, int], ...]
"""Steps, ms of training and ms of evaluation of each block."""

EVEN: Blocks = ((12, 12_000, 900), (6, 6_030, 900), (6, 6_000, 930))


@dataclasses.dataclass
class Log:
    """A log that is written event by event."""

    benchmark: str = "llama31_8b"
    batch: int = BATCH
    lines: list[str] = dataclasses.field(default_factory=list)
    now: int = BEGUN - INIT

    def event(self, key: str, value: Any = None, **place: Any) -> None:
        """Write an event at this time."""
        fields = {
            "namespace": "",
            "time_ms": self.now,
            "event_type": "POINT_IN_TIME",
            "key": key,
            "value": value,
        }
        self.lines.append(
            f":::MLLOG {json.dumps({**fields, 'metadata': {'file': 'a.py', 'lineno': 1, **place}})}"
        )

    def setup(self) -> None:
        """Write what comes before run_start."""
        self.event("init_start")
        self.event("submission_benchmark", self.benchmark)
        self.event("global_batch_size", self.batch)
        self.event("max_sequence_length", SEQUENCE)
        self.event("lowest_numerical_precision_linear", "fp8")
        self.event("target_accuracy", 3.3)
        self.now = BEGUN
        self.event("init_stop")
        self.event("run_start")

    def text(self) -> str:
        """Return the whole log."""
        return "\n".join(self.lines) + "\n"


def mlperf_log(
    blocks: Blocks = EVEN,
    dialect: Dialect = "position",
    *,
    benchmark: str = "llama31_8b",
    batch: int = BATCH,
    records: int = 1,
    said: dict[int, str] | None = None,
    status: str | None = "success",
    before: str = "",
    mixed_delay: int = 0,
    platform: str | None = None,
) -> str:
    """Return a log of these blocks.

    Args:
        blocks: see Blocks.
        dialect: how the ends of blocks are told.
        benchmark, batch: as the log states them.
        records: steps from one training loss to the next; 0 for none.
        said: lines of console output, before the first record at such a step or later.
        status: of run_stop; None for a log without one.
        before: lines before all events.
        mixed_delay: of "mixed", ms from block_stop to the result of the evaluation.
        platform: the submission's, if it states one.
    """
    log = Log(benchmark, batch)
    if platform:
        log.event("submission_platform", platform)
    log.setup()
    log.now += START
    done, left = 0, dict(said or {})
    for steps, training, evaluation in blocks:
        begun, reached, length = done * batch, (done + steps) * batch, steps * batch
        at_start: dict[str, Any] = {"samples_count": begun}
        at_stop: dict[str, Any] = {"samples_count": reached}
        where: dict[str, Any] = {"samples_count": reached}
        if dialect == "start twice":
            at_stop = {"samples_count": begun}
        elif dialect == "length":
            at_start = {"samples_count": length, "step": done}
            at_stop = {"samples_count": length, "step": done + steps}
        elif dialect in ("tokens", "mixed"):
            at_start = {"first_epoch_num": begun * SEQUENCE, "epoch_count": length * SEQUENCE}
            at_stop, where = at_start, {"epoch_num": reached * SEQUENCE}
        log.event("block_start", **at_start)
        since = log.now
        for step in range(done + 1, done + steps + 1):
            log.now = since + training * (step - done) // steps
            log.lines += [left.pop(each) for each in sorted(left) if each <= step]
            if records and step % records == 0:
                log.event(
                    "tracked_stats",
                    {"train_loss": round(9 - step / 8, 3)},
                    samples_count=step * batch,
                )
        done += steps
        if dialect == "mixed":
            log.now += evaluation
            log.event("block_stop", **at_stop)
            log.now += mixed_delay
            log.event("eval_accuracy", 3.5 - done / 100, **where)
            continue
        if dialect != "open":
            log.event("block_stop", **at_stop)
            log.event("eval_start", **where)
        log.now += evaluation
        log.event("eval_accuracy", 3.5 - done / 100, **where)
        log.event("eval_stop", **where)
        log.now += BETWEEN
    if dialect == "open":
        log.event("block_stop", samples_count=0)
    log.now += END - BETWEEN
    if status:
        log.event("run_stop", samples_count=done * batch, status=status)
    return before + log.text()


def read_log(content: str, name: str = "result_0.txt") -> Run:
    """Return the run in a log."""
    (run,) = read.read(text.lines([content.encode()]), name)
    return run


SYSTEM = {
    "submitter": "Nobody",
    "number_of_nodes": "1",
    "accelerators_per_node": "8",
    "accelerator_model_name": "NVIDIA B200",
    "accelerator_memory_capacity": "180 GB",
    "framework": "PyTorch",
}


def submission(
    folder: Path,
    logs: list[str],
    *,
    system: dict[str, str] | None = None,
    scaling: float | None = None,
):
    """Write a set as it is published; return the runs that are read from it."""
    results = folder / "results" / "machine" / "benchmark"
    results.mkdir(parents=True)
    (folder / "systems").mkdir()
    (folder / "systems" / "machine.json").write_text(json.dumps(system or SYSTEM))
    if scaling is not None:
        (results / "scaling.json").write_text(json.dumps({"scaling_factor": scaling}))
    paths = [results / f"result_{number}.txt" for number in range(len(logs))]
    for path, content in zip(paths, logs, strict=True):
        path.write_text(content)
    return [
        with_system(read_log(content, path.name), path)
        for path, content in zip(paths, logs, strict=True)
    ]
