"""The regression check of trainings that end in every way: what it says, as rows of a table in
docs/ci-gate.md.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from made_endings import STATED, log, recorded, seconds_of
from stored_runs import series

from tprimat.compare import Loaded
from tprimat.compare.regression import RegressionCheck, check_regression
from tprimat.compare.threshold import parse
from tprimat.log_import import load
from tprimat.log_import.given import GivenValues
from tprimat.notes.catalogue import sentence
from tprimat.report.json_values import regression_values
from tprimat.results.run import GpuInfo, ModelConfig, Run

RUNS = 3
STEP_TIMES = {"baseline": (2.0, 2.02, 2.04), "candidate": (2.01, 2.03, 2.05)}
"""Of runs that vary by 1% and differ by 0.5%: within the threshold of 10%."""

TITLES = {
    "complete": "all steps are done",
    "own limit": "a limit that you set, such as `--time-limit` or `--exit-duration-in-mins`",
    "crashed": "an exception, a signal or an exit code",
    "scheduler's limit": "a limit of the scheduler",
    "cut off": "without a cause in the log",
    "NaN": "all steps are done, but the loss is NaN or infinite",
}

Source = Callable[[str, float, Path], Run]
"""Returns the run of a training that ends in this way, with steps of this many seconds."""


class Row(NamedTuple):
    """What a check of one ending says.

    Attributes:
        status: and with --fail-on-inconclusive.
    """

    answer: str
    status: tuple[int, int]
    is_kept: bool
    text: str


@functools.cache
def of_log(form: str) -> Source:
    """Return the source of runs in logs of a format, each of which is read once."""
    known: dict[tuple[str, float], Run] = {}

    def run(ending: str, step_time: float, folder: Path) -> Run:
        if (ending, step_time) not in known:
            known[ending, step_time] = read(ending, step_time, folder)
        return known[ending, step_time]

    def read(ending: str, step_time: float, folder: Path) -> Run:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "train.log"
        path.write_text(log(form, ending, step_time=step_time), encoding="utf-8")
        given = GivenValues("llama3.1_8B", gpu="MI300X", precision="bf16", override=True, **STATED)
        (file,) = load.load([str(path)], given).files
        (found,) = file.runs
        return found

    return run


def of_recorder(recorder: str) -> Source:
    """Return the source of runs that are recorded, each once, with step times of the test's own:
    real ones vary.
    """
    known: dict[str, Run] = {}

    def run(ending: str, step_time: float, folder: Path) -> Run:
        if ending not in known:
            folder.mkdir(parents=True, exist_ok=True)
            known[ending] = recorded(recorder, ending, folder, steps=40)
        found = known[ending]
        count = len(found.steps)
        times = tuple(seconds_of(step, step_time) for step in range(1, count + 1))
        timed = {
            **series(times),
            **{name: getattr(found, name) for name in ("loss_values", "learning_rates")},
        }
        sizes = msgspec.structs.replace(found.training_config, num_gpus=8, precision="bf16")
        return msgspec.structs.replace(
            found,
            **timed,
            timeline=(),
            platform="amd",
            gpu_info=GpuInfo(device_name="AMD Instinct MI300X", device_count=8),
            training_config=sizes,
            model_config=ModelConfig(),
            timestamp=None,
            session=None,
        )

    return run


def check(source: Source, ending: str, side: str, count: int, folder: Path) -> RegressionCheck:
    """Return the check in which so many of the three runs of a side end in this way, all others
    with all steps.
    """
    sides = {}
    for kind, step_times in STEP_TIMES.items():
        sides[kind] = []
        for number, step_time in enumerate(step_times):
            how = ending if kind == side and number < count else "complete"
            run = source(how, step_time, folder / kind / how / str(number))
            sides[kind].append(Loaded(f"{kind}_{number}.json", f"{kind}{number}", (run,)))
    return check_regression(*sides.values(), parse("10%", ()))


def row(found: RegressionCheck) -> Row:
    """Return what a check says."""
    (one,) = found.checks
    return Row(
        one.answer,
        check_status(found),
        regression_values(found)["keep_as_baseline"],
        sentence(one.notes),
    )


def check_status(found: RegressionCheck) -> tuple[int, int]:
    """Return the exit status, and that with --fail-on-inconclusive."""
    return int(found.status), int(dataclasses.replace(found, fail_on_inconclusive=True).status)


def table(source: Source, folder: Path) -> Iterator[str]:
    """Yield the lines of the table: how a side's runs end, and what the check says."""
    yield "| how runs of the candidate end | runs | answer | status | next baseline | reason |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for ending, title in TITLES.items():
        for count in (1, RUNS):
            found = row(check(source, ending, "candidate", count, folder))
            status = str(found.status[0])
            if found.status[0] != found.status[1]:
                status += f", {found.status[1]} with `--fail-on-inconclusive`"
            runs = "all" if count == RUNS else f"{count} of {RUNS}"
            kept = "yes" if found.is_kept else "no"
            yield f"| {title} | {runs} | {found.answer} | {status} | {kept} | {found.text} |"
