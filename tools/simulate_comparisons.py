#!/usr/bin/env python3
"""Simulate comparisons and regression checks: how often the product calls equal systems different,
or misses 3%.

    python tools/simulate_comparisons.py                             # everything, some 25 minutes on one core
    python tools/simulate_comparisons.py --pairs 50                  # a rough look
    python tools/simulate_comparisons.py --part gate --pairs 1000    # the regression check
    python tools/simulate_comparisons.py --part loss --pairs 1000    # its check of the loss

Parts bias, long and short: step times, pairs of systems and their answers are those of
docs/statistics.md, section "Slow starts". Part gate: three runs each, of 100 steps, whose means
vary by 0.5% from run to run and whose steps vary by 1%, with and without a change point of 5% in
the middle of every run. Without a change at most 3.5% may end with status 1; of regressions of 3%
at least 95% must. docs/measurements.md has its table.

Part single: one run against three or more; of 95% prediction intervals, so many hold the true ratio
where the steps of the single run vary by more than those of the others. The run means of both vary
by 0.5%.

Part fast: one run, or all three of a system, have a first record that lasts 5 to 90% of a step, as
where a clock starts late. At most 6% of equal pairs may be different.

Part logs: one run, or all three of a system, are read from a log in whole seconds, of the time
since the start or of time stamps, or from one that evaluates at every tenth step that it prints. At
most 6% of equal pairs may be different, and 95% of true differences of 3% must be found: runs take
10 minutes or more, of which whole seconds settle 0.3%.

Part split: 2 to 10 runs of one system whose means vary by 0.1 to 3% from run to run, at most 1 of
200 of which may be told apart as several systems; then 3 and 3 equally fast runs, compiled and
eager, under two labels and of two drivers, which must always be. With --samples, what is split of
the real logs of each directory is printed too, with the gap.

Part loss: --threshold final_loss, of one run each and of three, 400 losses that fall along a curve.
At equal loss at most 5% may be worse; a loss 1% above the threshold must be found in 80% of single
runs on the same batches.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tprimat import read
from tprimat.analysis.segments import find_segments
from tprimat.analysis.summary import summarize
from tprimat.compare import compare
from tprimat.compare.regression import check_regression
from tprimat.compare.result import Pair, RunResult
from tprimat.compare.speedup import difference
from tprimat.compare.threshold import parse
from tprimat.errors import ExitStatus
from tprimat.log_import.load import load
from tprimat.notes.catalogue import words
from tprimat.report.verdict import report
from tprimat.results.result_file import Loaded
from tprimat.results.run import SERIES, Environment, GpuInfo, Run, TrainingConfig

NOISES = ("iid 0.3%", "iid 1%", "iid 2%", "AR 0.5%", "AR 1%", "t3", "rare", "+30%/50", "x5/100")
RUNS = 3
TRUE = REGRESSION = 1.03

# The regression check.
STEPS, WARMUP = 100, (4.0, 2.0, 1.5)
SPREAD, STEP_SPREAD, CHANGE_POINT = 0.005, 0.01, 1.05
MOST_FALSE, LEAST_FOUND = 0.035, 0.95
MOST_DIFFERENT = 0.06

# Its check of the loss.
LOSSES, SEEDS = 400, 0.002
MOST_FALSE_LOSS, LEAST_FOUND_LOSS = 0.05, 0.8
LOSS_NOISES = ("iid 2%", "t3", "AR 1%")
LOSS_CASES = ((1, True, 0.0), (1, False, SEEDS), (3, True, SEEDS), (3, False, SEEDS))


def noise(kind: str, steps: int, random: np.random.Generator) -> np.ndarray:
    """Return step times around 1, shape (steps,), without a slow start."""
    if kind.startswith("iid"):
        return 1 + random.normal(0, float(kind[4:-1]) / 100, steps)
    if kind.startswith("AR"):
        spread = float(kind[3:-1]) / 100
        values = np.empty(steps)
        values[0] = random.normal(0, spread)
        for index in range(1, steps):
            values[index] = 0.9 * values[index - 1] + random.normal(
                0, spread * math.sqrt(1 - 0.9**2)
            )
        return 1 + values
    if kind == "t3":
        # Of millions, one would be below zero.
        return np.maximum(1 + 0.01 * random.standard_t(3, steps) / math.sqrt(3), 0.5)
    base = 1 + random.normal(0, 0.01, steps)
    number = np.arange(1, steps + 1)
    if kind == "rare":
        return base * (1 + (random.random(steps) < 0.03) * random.exponential(0.15, steps))
    if kind == "+30%/50":
        return base * (1 + 0.3 * (number % 50 == 0))
    return base * (1 + 4 * (number % 100 == 0))


FORMS = {
    "flat": np.ones_like,
    "line": lambda places: 1 - places,
    "curve": lambda places: np.exp(-4 * places),
}


@dataclasses.dataclass(frozen=True)
class Start:
    """A slow start, over at a step, so many times as slow: flat, or fading along a line or a
    curve.
    """

    last: int
    factor: float
    form: str

    def of(self, steps: int) -> np.ndarray:
        """Return factors, shape (steps,)."""
        factors = np.ones(steps)
        places = np.arange(self.last) / max(self.last, 1)
        factors[: self.last] += (self.factor - 1) * FORMS[self.form](places)
        return factors


def drawn_start(random: np.random.Generator, low: int, high: int) -> Start:
    """Draw a slow start that is over at one of these steps."""
    return Start(
        int(random.integers(low, high + 1)),
        float(random.uniform(1.3, 3)),
        str(random.choice(list(FORMS))),
    )


def run_of(times: np.ndarray, number: int) -> Run:
    """Return a run of these step times."""
    count = len(times)
    empty = (None,) * count
    return Run(
        model="llama3.1-8B",
        platform="nvd",
        framework="megatron",
        timestamp=f"2026-01-01T{number:02d}:00:00+00:00",
        gpu_info=GpuInfo(device_name=f"GPU {'AB'[number >= RUNS]}", device_count=1),
        training_config=TrainingConfig(
            num_gpus=1, global_batch_size=1, sequence_length=100, precision="bf16"
        ),
        steps=tuple(range(1, count + 1)),
        window_steps=(1,) * count,
        step_times=tuple(times.tolist()),
        loss_values=empty,
        learning_rates=empty,
        grad_norms=empty,
        lines=empty,
    )


def in_elapsed_seconds(times: np.ndarray, random: np.random.Generator) -> str:
    """Return LLaMA-Factory's log of these step times: the time since the start, in whole
    seconds.
    """
    rows = enumerate(itertools.accumulate(times, initial=float(random.random())))
    known = ((step, str(datetime.timedelta(seconds=int(now)))) for step, now in rows)
    entries = (
        {"current_steps": step, "total_steps": 9999, "loss": 2.0, "elapsed_time": now}
        for step, now in known
    )
    return "".join(f"{json.dumps(entry)}\n" for entry in entries if entry["current_steps"])


def in_whole_seconds(times: np.ndarray, random: np.random.Generator) -> str:
    """Return Automodel's log of these step times: stamps in whole seconds, and rates that leave out
    a twelfth.
    """
    start = datetime.datetime(2026, 4, 1) + datetime.timedelta(seconds=float(random.random()))
    ends = itertools.accumulate(times)
    return "".join(
        f"{start + datetime.timedelta(seconds=float(end)):%Y-%m-%d %H:%M:%S} | INFO | root | step"
        f" {step} | epoch 0 | loss {5 - step / 1e4:.4f} | grad_norm 4.0 | lr 1.00e-04 | mem 47.74"
        f" GiB | tps {40960 * 12 / 11 / time:.2f}(5000.00/gpu) | num_tokens_per_step 40960 |"
        " num_label_tokens 15802\n"
        for step, (time, end) in enumerate(zip(times, ends, strict=True))
    )


def evaluating(times: np.ndarray, random: np.random.Generator) -> str:
    """Return nanoGPT's log of these step times: every tenth is printed, and every hundredth holds
    an evaluation.
    """
    spent, lines = float(random.uniform(0.5, 20)) * float(np.mean(times)), []
    for step, time in enumerate(times):
        if step % 100 == 0:
            lines.append(f"step {step}: train loss 4.4920, val loss 4.5420")
        if step % 10 == 0:
            time += spent if step % 100 == 0 else 0.0
            lines.append(
                f"iter {step}: loss {9 - step / 1e4:.4f}, time {1000 * time:.2f}ms, mfu 35.20%"
            )
    return "\n".join(lines) + "\n"


LOGS = {
    "elapsed seconds": in_elapsed_seconds,
    "stamped seconds": in_whole_seconds,
    "evaluations": evaluating,
}


def read_run(log: str, number: int) -> Run:
    """Return the run of a log, of a system of run_of()."""
    (parsed,) = read.parse_chunks([log.encode()], "train.log")
    run = parsed.run()
    # A run that is timed otherwise than the others would be of another system.
    told = (*SERIES, "native_metrics", "notes")
    return msgspec.structs.replace(
        run_of(np.ones(1), number), **{name: getattr(run, name) for name in told}
    )


def answer_of_logs(
    log, times: list[np.ndarray], random: np.random.Generator, alike: int
) -> tuple[Pair, str]:
    """Return the answer where one run, or `alike` runs of a system, are read from a log."""
    which = int(random.integers(2 * RUNS)) // alike
    return answer_of(
        [
            (
                read_run(log(each, random), number)
                if number // alike == which
                else run_of(each, number)
            )
            for number, each in enumerate(times)
        ]
    )


def print_logs(pairs: int, random: np.random.Generator) -> bool:
    """Print the answers where logs hide a part of the times; return whether too many are wrong."""
    head = "| log | between runs | pairs | equal: different | 3%: found | wrong side | too short |"
    print(f"\n{head}\n|{'---|' * 7}")
    wrong = 0
    for name, log in LOGS.items():
        tally = Tally()
        for _ in range(pairs):
            kind, spread = str(random.choice(["iid 0.3%", "iid 1%", "AR 0.5%", "t3"])), 0.003
            seconds = float(random.uniform(1, 6))
            steps = int(random.uniform(600, 1200) / seconds)
            steps = max(steps, 300) if log is evaluating else steps
            both = []
            for factor in (1.0, TRUE):
                speeds = [seconds * math.exp(random.normal(0, spread)) for _ in range(2 * RUNS)]
                times = [
                    noise(kind, steps, random) * speed * (factor if run >= RUNS else 1)
                    for run, speed in enumerate(speeds)
                ]
                both.append(
                    answer_of_logs(log, times, random, RUNS if random.random() < 0.5 else 1)
                )
            tally.add(both[0], both[1])
        print(f"| {name} | {spread:.1%} | {tally} |", flush=True)
        wrong += tally.different > MOST_DIFFERENT * pairs or tally.found < LEAST_FOUND * pairs
    return bool(wrong)


def answer(times: list[np.ndarray]) -> tuple[Pair, str]:
    """Return the pair of two systems, the first half of the runs and the second, and the standing
    of its verdict.
    """
    return answer_of([run_of(each, number) for number, each in enumerate(times)])


def answer_of(runs: list[Run]) -> tuple[Pair, str]:
    """Return the pair of two systems, the first half of the runs and the second, and the standing
    of its verdict.
    """
    comparison = compare(
        [
            Loaded(name, name, part)
            for name, part in zip("AB", (runs[:RUNS], runs[RUNS:]), strict=True)
        ]
    )
    (model,) = comparison.models
    (pair,) = model.pairs
    return pair, report(comparison).answers[0].verdict.standing


def log_ratio_of_b(pair: Pair) -> tuple[float, float, float]:
    """Return the ratio of B's step time over A's with its bounds."""
    assert pair.ratio is not None
    ratio = pair.ratio if pair.system.gpu == "GPU A" else pair.ratio.inverted()
    return ratio.value, ratio.low or 0.0, ratio.high or math.inf


@dataclasses.dataclass
class Tally:
    """What was said of so many pairs of equal systems and of such where B takes 3% longer."""

    pairs: int = 0
    different: int = 0
    found: int = 0
    wrong: int = 0
    short: int = 0

    def add(self, equal: tuple[Pair, str], slower: tuple[Pair, str]) -> None:
        """Count a pair of equal systems and one with a true difference."""
        self.pairs += 1
        self.different += equal[1] in ("significant", "preliminary")
        self.short += equal[1] == "unsettled"
        decided = slower[1] in ("significant", "preliminary")
        _, low, high = log_ratio_of_b(slower[0])
        self.found += decided and low > 1
        self.wrong += decided and high < 1

    def __str__(self) -> str:
        shares = (self.different, self.found, self.wrong, self.short)
        return " | ".join(
            [str(self.pairs), *(f"{100 * each / max(self.pairs, 1):.2f}%" for each in shares)]
        )


def simulate(
    pairs: int,
    random: np.random.Generator,
    kind: str,
    spread: float,
    lengths: tuple[int, int],
    start,
) -> Tally:
    """Return the tally of pairs; `start` draws the slow starts of six runs, given the random
    numbers and the length.
    """
    tally = Tally()
    for _ in range(pairs):
        steps = int(random.integers(lengths[0], lengths[1] + 1))
        both = []
        for factor in (1.0, TRUE):
            starts = start(random, steps)
            speeds = [
                math.exp(random.normal(0, spread)) if spread else 1.0 for _ in range(2 * RUNS)
            ]
            both.append(
                answer(
                    [
                        noise(kind, steps, random)
                        * starts[run].of(steps)
                        * speeds[run]
                        * (factor if run >= RUNS else 1)
                        for run in range(2 * RUNS)
                    ]
                )
            )
        tally.add(both[0], both[1])
    return tally


def per_system(low, high):
    """Return what draws one slow start per system."""

    def draw(random: np.random.Generator, steps: int) -> list[Start]:
        return [
            start
            for start in (drawn_start(random, low(steps), high(steps)) for _ in range(2))
            for _ in range(RUNS)
        ]

    return draw


def per_run(low, high):
    """Return what draws one slow start per run."""

    def draw(random: np.random.Generator, steps: int) -> list[Start]:
        return [drawn_start(random, low(steps), high(steps)) for _ in range(2 * RUNS)]

    return draw


def one_fast(random: np.random.Generator, steps: int) -> list[Start]:
    """Draw a first record of a twentieth to nine tenths of a step for one run, or for each run of
    one system.
    """
    share, fast = float(random.uniform(0.05, 0.9)), int(random.integers(2 * RUNS))
    alike = RUNS if random.random() < 0.5 else 1
    return [
        Start(1, share if run // alike == fast // alike else 1.0, "flat") for run in range(2 * RUNS)
    ]


def known_end(random: np.random.Generator, steps: int) -> list[Start]:
    """Draw no slow start: what remains to be found if its end were known and cut exactly."""
    return [Start(0, 1.0, "flat")] * (2 * RUNS)


def bias(
    kind: str, steps: int, start: Start, runs: int, random: np.random.Generator
) -> tuple[float, float]:
    """Return the bias of the kept mean over so many runs, and the share of the steady steps that is
    kept.
    """
    off, kept = [], []
    for _ in range(runs):
        times = noise(kind, steps, random) * start.of(steps)
        segments = find_segments(times.tolist())
        first = segments[0].start if segments else steps // 2
        off.append(times[first:].mean() / times[start.last :].mean() - 1)
        kept.append(min(1.0, (steps - first) / (steps - start.last)))
    return float(np.mean(off)), float(np.mean(kept))


def print_biases(runs: int, random: np.random.Generator) -> None:
    """Print the largest bias of each noise."""
    print(
        "\n| noise | largest bias | where | largest within 2 steps before a pause | kept"
        " |\n|---|---|---|---|---|"
    )
    for kind in NOISES:
        rows, near, kept = [], [(0.0, "–")], []
        for steps in (60, 100, 200, 300, 500):
            for last in sorted({0, 1, 2, 5, 10, 20, 21, 30, 33, 45, 47, 48, 49, 50, 51, 60}):
                if last > min(60, steps // 3):
                    continue
                for factor in (1.3, 2.0, 3.0):
                    for form in FORMS:
                        off, share = bias(kind, steps, Start(last, factor, form), runs, random)
                        where = f"{steps} steps, ×{factor} {form} to {last}"
                        pause = kind == "+30%/50" and 48 <= last <= 50
                        (near if pause else rows).append((off, where))
                        kept.append(share)
        worst, close = (max(each, key=lambda row: abs(row[0])) for each in (rows, near))
        print(
            f"| {kind} | {worst[0]:+.2%} | {worst[1]} | {close[0]:+.2%} | {np.mean(kept):.1%} |",
            flush=True,
        )


def print_long(pairs: int, random: np.random.Generator) -> None:
    """Print the answers for runs of 60 to 500 steps."""
    head = (
        "| slow starts | noise | between runs | pairs | equal: different | 3%: found | wrong side |"
        " too short |"
    )
    print(f"\n{head}\n|{'---|' * 8}")
    within = (lambda steps: 0), (lambda steps: min(60, steps // 3))
    series = {
        "none": known_end,
        "one per system": per_system(*within),
        "one per run": per_run(*within),
    }
    for name, start in series.items():
        for spread in (0.0, 0.003):
            total = Tally()
            for kind in NOISES:
                found = simulate(
                    math.ceil(pairs / len(NOISES)), random, kind, spread, (60, 500), start
                )
                print(f"| {name} | {kind} | {spread:.1%} | {found} |", flush=True)
                for field in dataclasses.fields(Tally):
                    setattr(
                        total, field.name, getattr(total, field.name) + getattr(found, field.name)
                    )
            print(f"| **{name}** | all | {spread:.1%} | {total} |", flush=True)


def print_short(pairs: int, random: np.random.Generator) -> None:
    """Print the answers for runs of 10 to 30 steps."""
    head = (
        "| slow starts end | noise | pairs | equal: different | 3%: found | wrong side | too"
        " short |"
    )
    print(f"\n{head}\n|{'---|' * 7}")
    series = {
        "by the middle": (per_system(lambda steps: 0, lambda steps: steps // 2), 10),
        "after it": (per_system(lambda steps: steps // 2 + 1, lambda steps: steps - 5), 13),
    }
    for name, (start, shortest) in series.items():
        for kind in NOISES:
            print(
                f"| {name} | {kind} |"
                f" {simulate(pairs, random, kind, 0.003, (shortest, 30), start)} |",
                flush=True,
            )


def print_fast(pairs: int, random: np.random.Generator) -> None:
    """Print the answers for runs of 10 to 60 steps, one of which has a first record that is too
    short.
    """
    head = (
        "| noise | between runs | pairs | equal: different | 3%: found | wrong side | too short |"
    )
    print(f"\n{head}\n|{'---|' * 7}")
    for kind in NOISES:
        for spread in (0.001, 0.003, 0.01):
            found = simulate(
                math.ceil(pairs / len(NOISES)), random, kind, spread, (10, 60), one_fast
            )
            print(f"| {kind} | {spread:.1%} | {found} |", flush=True)


def gate_status(chance: Random, factor: float, change: float, slowdown: str) -> ExitStatus:
    """Return the exit status of one check of a candidate whose steps take so many times as long."""

    def run(step_time: float) -> Run:
        mean = step_time * chance.lognormvariate(0.0, SPREAD)
        times = [
            mean * (change if step >= STEPS // 2 else 1.0) * chance.lognormvariate(0.0, STEP_SPREAD)
            for step in range(STEPS)
        ]
        times[: len(WARMUP)] = [mean * factor for factor in WARMUP]
        return run_of(np.array(times), 0)

    files = [
        [Loaded(f"{name}.json", "0" * 64, tuple(run(step_time) for _ in range(RUNS)))]
        for name, step_time in (("baseline", 3.2), ("candidate", 3.2 * factor))
    ]
    return check_regression(*files, parse(slowdown, ()), fail_on_inconclusive=True).status


def gate_share(checks: int, seed: int, factor: float, change: float, slowdown: str = "0%") -> float:
    """Return how often a check ends with status 1."""
    chance = Random(seed)
    statuses = [gate_status(chance, factor, change, slowdown) for _ in range(checks)]
    if not set(statuses) <= {ExitStatus.SLOWER, ExitStatus.OK, ExitStatus.INCONCLUSIVE}:
        raise ValueError(f"unexpected statuses: {set(statuses)}")
    return statuses.count(ExitStatus.SLOWER) / checks


def print_gate(checks: int, seed: int) -> bool:
    """Print how often the regression check fails; return whether something isn't as it must be."""
    print("\n| candidate | change point in every run | threshold | status 1 |\n|---|---|---:|---:|")
    wrong = 0
    for slowdown in ("0%", "1%"):
        for factor in (1.0, REGRESSION):
            for change in (1.0, CHANGE_POINT):
                found = gate_share(checks, seed, factor, change, slowdown)
                candidate, point = (
                    f"{each - 1:.0%} slower" if each > 1 else "the same"
                    for each in (factor, change)
                )
                print(
                    f"| {candidate} | {'none' if change == 1 else point} | {slowdown} |"
                    f" {found:.1%} |",
                    flush=True,
                )
                # Beyond a threshold of 1 % a regression of 3 % is one of 2 %: shown, not required.
                wrong += (
                    found > MOST_FALSE if factor == 1 else found < LEAST_FOUND and slowdown == "0%"
                )
    return bool(wrong)


SINGLE = (
    ("iid 1%", 9, 3),
    ("iid 10%", 9, 10),
    ("AR 1%", 100, 10),
    ("AR 5%", 300, 10),
    ("x5/100", 300, 10),
)
"""Noise and steady steps of the single run, and how many runs of 100 steps with noise of 1% it
meets.
"""

LEAST_COVERED = 0.95


def single_share(
    pairs: int, random: np.random.Generator, kind: str, steps: int, runs: int
) -> float:
    """Return how often the prediction interval of a single run against several holds the true
    ratio.
    """
    held = 0
    for _ in range(pairs):
        several = [
            noise("iid 1%", 100, random) * math.exp(random.normal(0, SPREAD)) for _ in range(runs)
        ]
        # From a random place in the noise's period on; its mean is that of long runs.
        start = int(random.integers(0, 100))
        times = (noise(kind, start + steps, random) / (1.04 if kind == "x5/100" else 1.0))[start:]
        found = difference(
            [_result(run_of(times * math.exp(random.normal(0, SPREAD)), RUNS))],
            [_result(run_of(each, 0)) for each in several],
        )
        low, high = found.interval() if found else (-math.inf, math.inf)
        held += low <= 0 <= high
    return held / pairs


def _result(run: Run) -> RunResult:
    return RunResult(run, summarize(run), "", is_valid=True)


def print_single(pairs: int, random: np.random.Generator) -> bool:
    """Print how often the interval of a single run covers; return whether too rarely."""
    print("\n| noise of the single run | its steps | other runs | covered |\n|---|---:|---:|---:|")
    wrong = 0
    for kind, steps, runs in SINGLE:
        share = single_share(pairs, random, kind, steps, runs)
        print(f"| {kind} | {steps} | {runs} | {share:.1%} |", flush=True)
        wrong += share < LEAST_COVERED - 2 * math.sqrt(LEAST_COVERED * (1 - LEAST_COVERED) / pairs)
    return bool(wrong)


def loss_share(
    checks: int,
    random: np.random.Generator,
    kind: str,
    runs: int,
    factor: float,
    threshold: str,
    *,
    shared: bool,
    seeds: float,
) -> float:
    """Return how often a candidate with so many times the loss is called worse.

    The noise of the losses is of one kind; of batches that all runs share, in the same order, it is
    four fifths of the variance. By its seed a run's loss has a relative standard deviation of
    `seeds`.
    """
    curve = 2 + 8 / np.sqrt(1 + np.arange(LOSSES))

    def run(number: int, times: float, batches: np.ndarray) -> Run:
        own = noise(kind, LOSSES, random) - 1
        losses = curve * times * math.exp(random.normal(0, seeds) if seeds else 0.0)
        losses = losses * (1 + (math.sqrt(0.8) * batches + math.sqrt(0.2) * own if shared else own))
        return msgspec.structs.replace(
            run_of(np.ones(LOSSES), number), loss_values=tuple(losses.tolist())
        )

    worse = 0
    for _ in range(checks):
        batches = noise(kind, LOSSES, random) - 1
        files = [
            [
                Loaded(
                    f"{name}.json",
                    "0" * 64,
                    tuple(run(number, times, batches) for number in range(runs)),
                )
            ]
            for name, times in (("baseline", 1.0), ("candidate", factor))
        ]
        found = check_regression(*files, parse("3%", [f"final_loss={threshold}"]))
        worse += found.checks[1].answer == "worse"
    return worse / checks


def print_losses(checks: int, random: np.random.Generator) -> bool:
    """Print how often the check of the loss fails; return whether something isn't as it must be."""
    head = "| noise | batches | runs | seeds | equal, 0% | equal, 1% | 2% more, 1% |"
    print(f"\n{head}\n|{'---|' * 7}")
    wrong = 0
    for kind in LOSS_NOISES:
        for runs, shared, seeds in (
            (1, True, 0.0),
            (1, False, 0.0),
            (1, False, SEEDS),
            (3, True, SEEDS),
            (3, False, SEEDS),
        ):
            shares = [
                loss_share(
                    checks, random, kind, runs, factor, threshold, shared=shared, seeds=seeds
                )
                for factor, threshold in ((1.0, "0%"), (1.0, "1%"), (1.02, "1%"))
            ]
            batches = "same" if shared else "others"
            texts = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {kind} | {batches} | {runs} | {seeds:.1%} | {texts} |", flush=True)
            wrong += max(shares[:2]) > MOST_FALSE_LOSS
            wrong += (
                shared and runs == 1 and kind in LOSS_NOISES[:2] and shares[2] < LEAST_FOUND_LOSS
            )
    return bool(wrong)


MOST_SPLIT = 1 / 200
TOLD: tuple[tuple[str, Mapping[str, object], Mapping[str, object]], ...] = (
    (
        "compiled and eager",
        {"framework_config": {"torch_compile": True}},
        {"framework_config": {"torch_compile": False}},
    ),
    ("two headings, as labels", {"label": "bf16"}, {"label": "fp8"}),
    (
        "two drivers",
        *(
            {"environment": Environment(versions={"driver": each})}
            for each in ("570.86.10", "580.65.06")
        ),
    ),
)
"""What is known of two systems of equal speed."""


def system_counts(runs: Sequence[Run]) -> int:
    """Return how many systems the product finds in runs, each with a file of its own."""
    files = [Loaded(f"{number}.json", str(number), (run,)) for number, run in enumerate(runs)]
    return len(compare(files).systems)


def repetitions(
    count: int, spread: float, random: np.random.Generator, **fields: object
) -> list[Run]:
    """Return so many runs of one system with 60 to 200 steps and a slow start."""
    runs = []
    for _ in range(count):
        steps, kind = int(random.integers(60, 201)), str(random.choice(NOISES))
        times = (
            noise(kind, steps, random)
            * drawn_start(random, 0, 20).of(steps)
            * math.exp(random.normal(0, spread))
        )
        runs.append(msgspec.structs.replace(run_of(times, 0), **fields))
    return runs


def split_share(systems: int, random: np.random.Generator) -> float:
    """Return how often the runs of one system are told apart as several."""
    split = 0
    for _ in range(systems):
        count, spread = int(random.integers(2, 11)), float(random.uniform(0.001, 0.03))
        split += system_counts(repetitions(count, spread, random)) > 1
    return split / systems


def told_share(
    systems: int, random: np.random.Generator, one: Mapping[str, Any], other: Mapping[str, Any]
) -> float:
    """Return how often three runs each are two systems that differ in something known."""
    told = 0
    for _ in range(systems):
        runs = [run for fields in (one, other) for run in repetitions(3, 0.003, random, **fields)]
        told += system_counts(runs) == 2
    return told / systems


def print_splits(systems: int, random: np.random.Generator, samples: Path | None) -> bool:
    """Print how often runs are told apart; return whether too often or too rarely."""
    print("\n| runs | told apart |\n|---|---:|")
    share = split_share(systems, random)
    print(f"| 2 to 10 of one system, {systems} systems | {share:.2%} |", flush=True)
    wrong = share > MOST_SPLIT
    for name, one, other in TOLD:
        found = told_share(max(systems // 10, 1), random, one, other)
        print(f"| {name}, equally fast | {found:.0%} |", flush=True)
        wrong |= found < 1
    folders = [each for each in samples.rglob("*") if each.is_dir()] if samples else []
    for folder in sorted(folders):
        files = load(
            [str(each) for each in sorted(folder.iterdir()) if each.is_file()], jobs=1
        ).files
        together, notes = (
            ([], []) if not files else (compare(files, splits=False).systems, compare(files).notes)
        )
        several = [len(system.runs) for system in together if len(system.runs) > 1]
        if several:
            split = [words(note) for note in notes if note.code == "compared-apart"]
            where = folder.relative_to(samples or folder)
            print(
                f"| {where}: {len(several)} systems of {sum(several)} runs |"
                f" {'; '.join(split) or 'none'} |",
                flush=True,
            )
    return wrong


def main() -> int:
    """Print the tables; return 1 where the regression check isn't as it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=1200,
        help=(
            "pairs of a series, or checks; runs of 10 to 30 steps: of a line, 2,500 per 1,200"
            " (default: %(default)s)"
        ),
    )
    parser.add_argument("--seed", type=int, default=1)
    names = ("bias", "long", "short", "gate", "single", "loss", "fast", "logs", "split")
    parser.add_argument("--part", choices=names)
    parser.add_argument("--samples", type=Path, help="directory of real logs, for the part split")
    arguments = parser.parse_args()
    parts = {
        "bias": lambda random: print_biases(max(10, arguments.pairs // 6), random),
        "long": lambda random: print_long(arguments.pairs, random),
        "short": lambda random: print_short(math.ceil(arguments.pairs * 2500 / 1200), random),
    }
    for number, (name, part) in enumerate(parts.items()):
        if arguments.part in (None, name):
            part(np.random.default_rng([arguments.seed, number]))
    wrong = arguments.part in (None, "gate") and print_gate(arguments.pairs, arguments.seed)
    if arguments.part in (None, "single"):
        wrong |= print_single(
            arguments.pairs, np.random.default_rng([arguments.seed, len(parts) + 1])
        )
    if arguments.part in (None, "loss"):
        wrong |= print_losses(arguments.pairs, np.random.default_rng([arguments.seed, len(parts)]))
    if arguments.part in (None, "fast"):
        print_fast(arguments.pairs, np.random.default_rng([arguments.seed, len(parts) + 2]))
    if arguments.part in (None, "logs"):
        wrong |= print_logs(
            arguments.pairs, np.random.default_rng([arguments.seed, len(parts) + 3])
        )
    if arguments.part in (None, "split"):
        random = np.random.default_rng([arguments.seed, len(parts) + 4])
        wrong |= print_splits(arguments.pairs, random, arguments.samples)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
