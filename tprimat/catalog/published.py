"""Published throughputs (published/ of the repository, a file for each source), and the one that a
run is compared with.

docs/metrics.md defines which row is the reference of a run. Omitted on purpose: values that only a
plot shows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from pathlib import Path

from tprimat.catalog import gpus as hardware
from tprimat.catalog import models
from tprimat.location import REPOSITORY
from tprimat.results.run import Run

_INSTALLED = Path(__file__).resolve().parents[1] / "published"
FOLDER = _INSTALLED if _INSTALLED.is_dir() else REPOSITORY / "published"
"""The tables: part of the package once it is installed, in a clone a directory next to it."""

FULL = ("full", None)
"""The scale of a run that trained the whole model."""

SIZES = {
    **{
        "micro_batch_size": "micro-batch",
        "tensor_model_parallel_size": "TP",
        "pipeline_model_parallel_size": "PP",
    },
    **{
        "context_parallel_size": "CP",
        "virtual_pipeline_size": "VP",
        "expert_model_parallel_size": "EP",
    },
}
"""Fields of rows, and of results, that a configuration consists of, and how it is written."""

REFUSED = ("contradiction", "rejected")
"""Results of the audit for rows that are no reference."""

TASKS = {
    "pretrain": "pretraining",
    "sft": "fine-tuning",
    "lora": "LoRA",
    "rl": "reinforcement learning",
}
_TASKS = {
    **dict.fromkeys(("nemo_rl", "verl"), "rl"),
    **dict.fromkeys(("llama_factory", "ms_swift", "torchtune"), "sft"),
}
"""Tasks as people read them, and what frameworks do that are not for pretraining."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """A published speed of a setup; empty or None for values that the publisher doesn't state.

    Attributes:
        gpu: key of a row of gpus.csv, or the publisher's own name.
        model: key of a model of the catalog, or the publisher's own name.
        task: pretrain, sft, lora or rl.
        precision: as in a result: fp8 and mxfp8 are two.
        framework: what trained, as results name it; with `version` the software.
        system: a submitter's name for the machine.
        date: date of the value: a day, a month or a year.
        tokens_per_second_per_gpu: over all runs; None for a speed in samples, or a time to a target
            alone.
        samples_per_second: rate of all GPUs together.
        printed_tflops_per_gpu: as the publisher prints it, by whatever formula.
        time_to_target_seconds: training until the quality that `target` or the note names.
        reason: why a value contradicts itself or is rejected.
        source: repository, path, commit and line, or the result file.
    """

    publisher: str
    gpu: str = ""
    model: str = ""
    task: str = "pretrain"
    precision: str = ""
    sequence_length: int | None = None
    num_gpus: int | None = None
    global_batch_size: int | None = None
    framework: str = ""
    version: str = ""
    system: str = ""
    date: str = ""
    tokens_per_second_per_gpu: float | None = None
    samples_per_second: float | None = None
    printed_tflops_per_gpu: float | None = None
    time_to_target_seconds: float | None = None
    target: str = ""
    reason: str = ""
    note: str = ""
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published(Speed):
    """A training figure that somebody publishes.

    Attributes:
        run_rates: the speed of each run, tokens/s/GPU, with spaces between.
        samples_to_target: after which the target is reached.
        num_runs, failed_runs: that were counted, and those of them that missed the target.
        audit: consistent with the other printed values, by our formula or a "convention" that
            explains the difference; unchecked without a second value; a "contradiction" between
            printed values, or rejected for the reason: no reference then.
        correction: the right value of a rejected row, if known.
    """

    packing: bool | None = None
    micro_batch_size: int | None = None
    tensor_model_parallel_size: int | None = None
    pipeline_model_parallel_size: int | None = None
    context_parallel_size: int | None = None
    virtual_pipeline_size: int | None = None
    expert_model_parallel_size: int | None = None
    run_rates: str = ""
    step_time_seconds: float | None = None
    samples_to_target: float | None = None
    num_runs: int | None = None
    failed_runs: int | None = None
    audit: str = ""
    correction: str = ""

    @property
    def rates(self) -> tuple[float, ...]:
        """The speed of each run, tokens/s/GPU; empty unless the runs are known."""
        return tuple(map(float, self.run_rates.split()))

    @property
    def page(self) -> str:
        """The page of the source; an archive of older releases is the same one."""
        return self.source.partition("@")[0].replace("-archive", "")


@functools.cache
def rows() -> tuple[Published, ...]:
    """Return all rows, the rejected ones too."""
    paths = sorted(FOLDER.glob("*/*.csv"))
    return tuple(
        row
        for path in paths
        for row in hardware.read_rows(path.read_text(encoding="utf-8"), Published)
    )


FUNCTIONAL = "functional check"
"""How the note of a figure begins that its publisher didn't tune for speed."""


@functools.cache
def _by_key() -> dict[tuple[object, ...], list[Published]]:
    """Return the rows that the audit doesn't reject, by the values that a reference must share with
    a run.
    """
    figures: dict[tuple[object, ...], list[Published]] = {}
    for row in rows():
        if (
            row.audit not in REFUSED
            and row.precision
            and row.sequence_length
            and row.tokens_per_second_per_gpu
        ):
            figures.setdefault(
                (row.gpu, row.model, row.task, row.precision, row.sequence_length), []
            ).append(row)
    return figures


def framework(run: Run) -> str | None:
    """Return the framework of a run as rows name it; None for logs of MLPerf, which don't name
    it.
    """
    if run.framework in (None, "mlperf"):
        return None
    return run.framework.replace("-", "_")


def task(run: Run) -> str:
    """Return the task of a run: lora if its name shows that or weights are frozen; else sft, rl or
    pretrain.
    """
    words = set(re.split(r"[^a-z]+", (run.model or "").lower()))
    row = models.named(run.model)
    shape = run.model_config
    total = shape.num_parameters or (row.parameters if row else 0)
    trained = shape.trainable_parameters
    if {"lora", "qlora", "peft"} & words or (trained is not None and trained < total):
        return "lora"
    return _TASKS.get(
        run.framework or "", "sft" if {"sft", "finetune", "finetuning"} & words else "pretrain"
    )


def of_the_same(run: Run) -> tuple[Published, ...]:
    """Return the rows of the same GPU, model, task, precision and length; none if one of them is
    unknown.

    Those that the audit rejects or a newer release supersedes are left out, and functional checks
    if there is another.
    """
    config = run.training_config
    meant = models.named(run.model)
    model = meant.name if meant else run.model
    if (
        run.environment.emulated
        or run.scale not in FULL
        or None in (model, config.precision, config.sequence_length)
    ):
        return ()
    if models.denies(run.model, run.model_config):
        return ()
    device = hardware.match(run.gpu_info)
    if device.gpu is None or device.partition is not None:
        return ()
    same = _by_key().get(
        (device.gpu.key, model, task(run), config.precision, config.sequence_length), []
    )
    same = [row for row in same if not row.note.startswith(FUNCTIONAL)] or same
    newest: dict[tuple[str, int | None], str] = {}
    for row in same:
        newest[row.page, row.num_gpus] = max(row.date, newest.get((row.page, row.num_gpus), ""))
    return tuple(row for row in same if row.date == newest[row.page, row.num_gpus])


def nearest(run: Run) -> Published | None:
    """Return the row that a run is compared with; among equally near ones, the fastest of the
    newest month.

    A day is no reason: the submissions of a round are measured within weeks.
    """
    return max(
        of_the_same(run),
        key=lambda row: (-_distance(row, run), row.date[:7], row.tokens_per_second_per_gpu),
        default=None,
    )


def _distance(row: Published, run: Run) -> float:
    """Return how far a setup is: a factor of two of GPUs or batch, another framework, other packing
    count 1 each.

    What is unknown counts as much as what differs.
    """
    gpus = run.training_config.num_gpus or run.gpu_info.device_count
    sizes = ((row.num_gpus, gpus), (row.global_batch_size, run.training_config.global_batch_size))
    scales = sum(
        abs(math.log2(theirs / ours)) if theirs and ours else 1.0 for theirs, ours in sizes
    )
    return scales + (row.framework != framework(run)) + (row.packing != run.training_config.packing)
