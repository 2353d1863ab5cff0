#!/usr/bin/env python3
"""Score what is read of texts by their form against a truth that was written before.

    tools/score_texts.py FOLDER

FOLDER/truth.tsv has a row for each text in FOLDER, with at least the columns file, trainings,
last_step, step_time_s, tolerance and last_loss. For several trainings a cell has several values,
with " / " between them; what follows a number in a cell explains it, and `100 (global 1000)` is
step 1000 as well. An empty step time is one that the text doesn't tell.

A text is read, asked or refused; what is read or would be read is right, partly right (a value is
missing, a loss or a step differs by one) or wrong (a step time beyond its tolerance, another last
step, fewer trainings). The run mean or the median counts as the step time.
"""

from __future__ import annotations

import argparse
import collections
import csv
import re
import statistics
import sys
from pathlib import Path

from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.errors import TensorPrimatError
from tprimat.read.forms.asking import FormError
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.results.run import Run

_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")

LEAST_TOLERANCE = 0.03
"""Share by which a step time may differ whatever the truth says."""


def main() -> int:
    """Print a line for each text, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    with (folder / "truth.tsv").open(encoding="utf-8") as file:
        for truth in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            verdict, logs = outcome(folder / truth["file"])
            score, why = judged(logs, truth)
            counts[verdict, score] += 1
            print(f"{truth['file']:40} {verdict:8} {score:8} {'; '.join(why)}")
    for (verdict, score), count in sorted(counts.items()):
        print(f"{count:4} {verdict} {score}")
    return 0


def outcome(path: Path) -> tuple[str, list[ParsedLog]]:
    """Return whether a text is read, asked or refused, and the trainings, confirmed if asked."""
    content = path.read_bytes()

    def parsed(*, as_read: bool) -> list[ParsedLog]:
        return read.parse_chunks([content], path.name, lambda: [content], as_read=as_read)

    try:
        return "read", parsed(as_read=False)
    except FormError as error:
        return ("asked", parsed(as_read=True)) if error.is_asked else ("refused", [])
    except TensorPrimatError:
        return "refused", []


def judged(logs: list[ParsedLog], truth: dict[str, str]) -> tuple[str, list[str]]:
    """Return right, partly, wrong or nothing, and what differs from the truth."""
    if not logs:
        return "nothing", []
    trainings = int((_numbers(truth["trainings"]) or [1])[0] or 1)
    wrong, missing = [], []
    for number, log in enumerate(logs[:trainings]):
        run = log.run()
        expected = {name: _at(_numbers(truth[name]), number) for name in _COLUMNS}
        expected["global_step"] = _at(_global_steps(truth["last_step"]), number)
        for problem, is_wrong in _problems(run, expected):
            (wrong if is_wrong else missing).append(problem)
    if len(logs) != trainings:
        problem = f"{len(logs)} trainings for {trainings}"
        (wrong if len(logs) < trainings else missing).append(problem)
    score = "wrong" if wrong else "partly" if missing else "right"
    return score, wrong + missing


_COLUMNS = ("last_step", "step_time_s", "tolerance", "last_loss")


def _problems(run: Run, truth: dict[str, float | None]) -> list[tuple[str, bool]]:
    """Return what differs, and whether it is wrong rather than missing."""
    problems = []
    times = [seconds for seconds in run.step_times if seconds is not None]
    expected = truth["step_time_s"]
    if times and expected is None:
        problems.append(("a time that the text doesn't tell", True))
    elif times and expected:
        mean = summarize(run).performance.avg_step_time_seconds or 0.0
        found = (mean, statistics.median(times[1:] or times))
        off = min(abs(seconds / expected - 1) for seconds in found)
        if off > max(truth["tolerance"] or 0.05, LEAST_TOLERANCE):
            problems.append((f"{mean:.4g} s for {expected:.4g} s", True))
    elif expected:
        problems.append(("no time", False))
    shift = 1 if run.native_metrics.get("printed_step") else 0
    last = run.steps[-1] - shift if run.steps else 0
    if truth["last_step"] is not None and last not in (truth["last_step"], truth["global_step"]):
        is_wrong = abs(last - truth["last_step"]) > 1
        problems.append((f"step {last} for {truth['last_step']:.0f}", is_wrong))
    losses = [loss for loss in run.loss_values if loss is not None]
    if truth["last_loss"] is not None and not losses:
        problems.append(("no loss", False))
    elif truth["last_loss"] is not None and abs(losses[-1] - truth["last_loss"]) > 1e-3 * abs(
        truth["last_loss"]
    ):
        problems.append((f"loss {losses[-1]:g} for {truth['last_loss']:g}", False))
    return problems


def _numbers(cell: str) -> list[float | None]:
    """Return the number at the beginning of each value of a cell, None without one."""
    found = []
    for value in cell.split(" / "):
        match = _NUMBER.search(value.partition("(")[0])
        found.append(float(match[0].replace(",", "")) if match else None)
    return found


def _global_steps(cell: str) -> list[float | None]:
    """Return the steps of all epochs that a cell has beside those of the last one."""
    found: list[float | None] = []
    for value in cell.split(" / "):
        match = re.search(r"global (\d[\d,]*)", value)
        found.append(float(match[1].replace(",", "")) if match else None)
    return found


def _at(values: list[float | None], place: int) -> float | None:
    return values[min(place, len(values) - 1)]


if __name__ == "__main__":
    sys.exit(main())
