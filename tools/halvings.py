#!/usr/bin/env python3
"""Compare real sets of ten runs with themselves: all 126 halvings of each of six MLPerf systems, by
the product.

Each half is a system of five runs. Of the same machine, at most 7 % of the halvings may come out as
significant; with one half slowed by three half-widths of the interval, at least 95 % must. 8×B200
and 8×MI355X, five runs each, must always differ. There is an interval every time.

    tools/halvings.py
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec

from tprimat.compare import Loaded, Ratio, compare
from tprimat.log_import.extract import extract
from tprimat.log_import.given import GivenValues
from tprimat.log_import.inputs import Log
from tprimat.notes.catalogue import sentence
from tprimat.results.run import Run

SAMPLES = ROOT.parent / "shared" / "samples" / "mlperf"
MI355X, B200 = "v5.1_llama31_8b_AMD_8xMI355X", "v5.1_llama31_8b_Nebius_8xB200"
SETS = (
    "v4.1_llama2_70b_lora_NVIDIA_8xH200",
    "v5.0_llama2_70b_lora_Oracle_8xH200",
    "v5.0_llama2_70b_lora_Oracle_8xMI300X",
    "v5.1_llama2_70b_lora_AMD_8xMI355X",
    MI355X,
    B200,
)
RUNS = 10
GIVEN = {"llama2_70b_lora": GivenValues(sequence_length=8192), "llama31_8b": GivenValues()}
"""By the benchmark in a set's name: logs of the fine-tuning don't state the sequence length,
MLPerf's rules do.
"""

MOST_FALSE, LEAST_FOUND = 0.07, 0.95
HALF_WIDTHS = 3.0

Halving = tuple[tuple[int, ...], tuple[int, ...]]
HALVINGS: tuple[Halving, ...] = tuple(
    (first, tuple(run for run in range(RUNS) if run not in first))
    for others in itertools.combinations(range(1, RUNS), RUNS // 2 - 1)
    for first in [(0, *others)]
)
"""All ways to cut ten runs into two halves; the first half has run 0."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Comparisons of one kind: their number, and how many have an interval and are significant."""

    comparisons: int
    intervals: int
    significant: int

    @property
    def share(self) -> float:
        """The share that is significant."""
        return self.significant / self.comparisons


@dataclasses.dataclass(frozen=True)
class SetResult:
    """What the halvings of a set of ten runs give: as they are, with a half slowed down, and the
    median half-width.
    """

    same: Outcome
    slowed: Outcome
    half_width: float


def read_set(name: str, samples: Path = SAMPLES) -> list[Run]:
    """Return the ten runs of a set, read from their logs."""
    paths = sorted(samples.glob(f"{name}_r*.txt"))
    if len(paths) != RUNS:
        raise ValueError(f"{samples} has {len(paths)} logs of {name}, not {RUNS}")
    given = next(given for benchmark, given in GIVEN.items() if benchmark in name)
    return [imported.run for path in paths for imported in extract(Log(str(path)), given)]


def halves(runs: Sequence[Run], halving: Halving) -> tuple[list[Run], list[Run]]:
    """Return both halves of ten runs."""
    first, second = ([runs[index] for index in half] for half in halving)
    return first, second


def ratio(first: Sequence[Run], second: Sequence[Run]) -> Ratio:
    """Return the ratio that the product gives for two systems of these runs."""
    files = [
        Loaded(
            f"{label}.json",
            str(number) * 64,
            tuple(msgspec.structs.replace(run, label=label) for run in runs),
        )
        for number, (label, runs) in enumerate([("first half", first), ("second half", second)])
    ]
    (pair,) = compare(files).pairs
    if pair.ratio is None:
        raise ValueError(sentence(pair.reasons))
    return pair.ratio


def slowed(run: Run, factor: float) -> Run:
    """Return a run whose every step takes so many times as long, by its timer and by its blocks of
    training.
    """
    times = tuple(None if time is None else time * factor for time in run.step_times)
    timeline = tuple(
        (
            msgspec.structs.replace(entry, duration=entry.duration * factor)
            if entry.kind == "training"
            else entry
        )
        for entry in run.timeline
    )
    # What it prints of its speed is that of its own times.
    figures = {
        name: value for name, value in run.native_metrics.items() if "per_second" not in name
    }
    return msgspec.structs.replace(run, step_times=times, timeline=timeline, native_metrics=figures)


def outcome(ratios: Sequence[Ratio]) -> Outcome:
    """Count intervals, and those that exclude 1."""
    known = [each.is_significant for each in ratios if each.is_significant is not None]
    return Outcome(len(ratios), len(known), sum(known))


def half_width(found: Ratio) -> float:
    """Return half the width of the interval of a ratio's logarithm; NaN without one."""
    return (
        math.nan
        if found.low is None or found.high is None
        else math.log(found.high / found.low) / 2
    )


def halve(runs: Sequence[Run], halvings: Sequence[Halving]) -> SetResult:
    """Compare the halves of ten runs, then again with one half slowed by three of the set's median
    half-widths.
    """
    cut = [halves(runs, halving) for halving in halvings]
    same = [ratio(first, second) for first, second in cut]
    width = statistics.median(map(half_width, same))
    factor = math.exp(HALF_WIDTHS * width)
    found = [ratio(first, [slowed(run, factor) for run in second]) for first, second in cut]
    return SetResult(outcome(same), outcome(found), width)


def between(
    first: Sequence[Run], second: Sequence[Run], halvings: Sequence[Halving], seed: int
) -> Outcome:
    """Compare halves of a set with halves of another: each half of the first with one of the other,
    drawn by chance.
    """
    others = random.Random(seed).sample(halvings, len(halvings))
    pairs = (
        (one, other)
        for left, right in zip(halvings, others, strict=True)
        for one, other in zip(halves(first, left), halves(second, right), strict=True)
    )
    return outcome([ratio(one, other) for one, other in pairs])


def results(
    halvings: Sequence[Halving], samples: Path = SAMPLES
) -> Iterator[tuple[str, SetResult, Sequence[Run]]]:
    """Return name, outcome and runs of each set."""
    for name in SETS:
        runs = read_set(name, samples)
        yield name, halve(runs, halvings), runs


def faults(found: Mapping[str, SetResult], other: Outcome) -> list[str]:
    """Return what isn't as it must be."""
    every = [each for result in found.values() for each in (result.same, result.slowed)]
    false = statistics.fmean(result.same.share for result in found.values())
    power = statistics.fmean(result.slowed.share for result in found.values())
    return [
        text
        for text, holds in (
            (
                "comparisons without an interval",
                all(each.intervals == each.comparisons for each in [*every, other]),
            ),
            (f"{false:.1%} of the halvings are significant", false <= MOST_FALSE),
            (f"{power:.1%} with a half slowed down are significant", power >= LEAST_FOUND),
            (f"8×B200 and 8×MI355X differ in {other.share:.1%}", other.share == 1),
        )
        if not holds
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where something isn't as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--samples", type=Path, default=SAMPLES, help="directory of the logs (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the pairs of different systems (default: 1)"
    )
    given = parser.parse_args(arguments)
    if not given.samples.is_dir():
        parser.error(f"there is no directory {given.samples}")
    print(
        "| ten runs | halvings | with an interval | significant | a half slowed: significant |"
        " median ± |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    found, runs = {}, {}
    for name, result, runs[name] in results(HALVINGS, given.samples):
        found[name] = result
        cells = (result.same.comparisons, result.same.intervals, f"{result.same.share:.1%}")
        print(
            "| " + name,
            *cells,
            f"{result.slowed.share:.1%}",
            f"{result.half_width:.2%}",
            sep=" | ",
            end=" |\n",
            flush=True,
        )
    shares = [
        statistics.fmean(getattr(each, kind).share for each in found.values())
        for kind in ("same", "slowed")
    ]
    print(f"| mean of six | | | {shares[0]:.1%} | {shares[1]:.1%} | |")
    other = between(runs[B200], runs[MI355X], HALVINGS, given.seed)
    print(
        f"| 8×B200 and 8×MI355X, five runs each | {other.comparisons} | {other.intervals} |"
        f" {other.share:.1%} | | |"
    )
    wrong = faults(found, other)
    for text in wrong:
        print(f"fault: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
