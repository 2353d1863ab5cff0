"""How often the intervals hold the truth, and how often a level or a drift is called wrongly.

Simulates step times whose true mean is known and puts the package's own functions to them, beside
the methods that were not taken. Prints the tables that stand in docs/statistics.md:

    python benchmarks/coverage.py
    python benchmarks/coverage.py --part methods --simulations 1000
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import special
from scipy import stats as scipy_stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.step_times import (
    METHODS,
    RESAMPLES,
    TRUE_MEAN,
    TRUE_MEDIAN,
    TRUNCATIONS,
    Array,
    steady_steps,
    t_quantile,
    warm_up,
)
from tprimat.analysis import intervals, run_order
from tprimat.analysis.segments import find_segments

RUN_SPREAD = 0.01
LENGTHS = (60, 100, 200, 300, 500, 1000)


STUDY_METHODS: dict[str, tuple[float | None, ...]] = {
    "drop 1": (0.056, 0.000, 0.000, 0.000, 1.000, 0.870),
    "MSER-5": (-0.0010, 0.783, 0.883, 0.869, 0.851, 0.849),
    "tail reference": (-0.0001, 0.866, 0.951, 0.941, 0.932, 0.925),
}
STUDY_PROCEDURE = {60: 0.725, 100: 0.845, 200: 0.918, 300: 0.913, 500: 0.943, 1000: 0.953}
STUDY_ABSTAINS = {60: 0.30, 100: 0.07, 200: 0.02, 300: 0.0, 500: 0.0, 1000: 0.0}
STUDY_SIDES: dict[int, tuple[float | None, ...]] = {
    1: (0.564, 0.679, None, None, None, 0.81, None),
    2: (0.560, None, 0.666, 0.978, 0.064, 0.77, None),
    3: (0.576, None, 0.806, 0.977, 0.028, 0.75, 0.0),
    5: (0.594, None, 0.896, 0.957, 0.017, 0.71, 0.03),
    10: (0.604, None, 0.914, 0.956, 0.011, 0.72, 0.04),
}
"""What the study found, 1000 simulations each, by which the method was chosen. Its generator was
less exactly described than the one here; tables print its figures in brackets."""


@dataclasses.dataclass(frozen=True)
class Table:
    """What a part prints.

    Attributes:
        title: what the rows are of.
        columns: names; the first is that of the row.
        rows: shape (rows, columns); the first of each is its name.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join([f"**{self.title}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def methods(simulations: int, seed: int, count: int = 500) -> dict[str, dict[str, float]]:
    """Return coverage of the mean by truncation and interval; the bias of each truncation under "bias"."""
    random = np.random.default_rng([seed, 1])
    series = steady_steps(random, simulations, count) * warm_up(count)
    found: dict[str, dict[str, float]] = {}
    for truncation, cut in TRUNCATIONS.items():
        hits = dict.fromkeys(METHODS, 0)
        bias, longest, used = 0.0, 0, 0
        for values in series:
            start = cut(values)
            if start is None:
                continue
            rest = values[start:]
            off = TRUE_MEAN - float(rest.mean())
            used, bias, longest = used + 1, bias - off / TRUE_MEAN, max(longest, start)
            for name, method in METHODS.items():
                below, above = method(rest, random)
                hits[name] += -below <= off <= above
        found[truncation] = {name: hit / used for name, hit in hits.items()}
        found[truncation] |= {"bias": bias / used, "longest": longest}
    return found


def _beside(ours: float | None, study: float | None, form: str = ".3f") -> str:
    """Return a figure with that of the study in brackets."""
    if ours is None:
        return ""
    return f"{ours:{form}}" if study is None else f"{ours:{form}} ({study:{form}})"


def _methods_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = []
    for name, row in methods(simulations, seed).items():
        bias, *shares = STUDY_METHODS[name]
        cells = (_beside(row[method], share) for method, share in zip(METHODS, shares, strict=True))
        rows.append((f"{name} (k to {row['longest']:.0f})", _beside(row["bias"], bias, "+.2%"), *cells))
    yield Table("Coverage of the true mean, one run of 500 steps", ("truncation", "bias", *METHODS), tuple(rows))


@dataclasses.dataclass(frozen=True)
class Procedure:
    """The whole procedure at one length.

    Attributes:
        abstains: share of runs with no single figure.
        mean_coverage, mean_half: of the interval of ten batch means, whatever the length.
        about: what the package's own interval is of.
        stated, coverage, half: what it says that it covers, what it covers of its own target, and
            half its width, relative.
    """

    abstains: float
    mean_coverage: float
    mean_half: float
    about: str
    stated: float
    coverage: float
    half: float


def procedure(simulations: int, seed: int, count: int, *, fading: bool = False) -> Procedure:
    """Return the within-run interval after change-point detection, as a result file gets it."""
    random = np.random.default_rng([seed, 2, count, fading])
    series = steady_steps(random, simulations, count) * warm_up(count, fading=fading)
    batches = METHODS["10 batch means"]
    own: list[intervals.Interval] = []
    held = mean_held = 0
    mean_half = 0.0
    for values in series:
        found = find_segments(values.tolist())
        if len(found) != 1 or found[0].drift is not None:
            continue
        rest = values[found[0].start :]
        interval = intervals.within_run_interval(rest.tolist())
        if interval is None:
            continue
        own.append(interval)
        held += interval.low <= (TRUE_MEDIAN if interval.about == "median" else TRUE_MEAN) <= interval.high
        half, _ = batches(rest, random)
        mean_held += abs(float(rest.mean()) - TRUE_MEAN) <= half
        mean_half += half
    used = max(len(own), 1)
    return Procedure(
        abstains=1 - len(own) / simulations,
        mean_coverage=mean_held / used,
        mean_half=mean_half / used,
        about=own[-1].about if own else "",
        stated=(own[-1].coverage or math.nan) if own else math.nan,
        coverage=held / used,
        half=sum(each.high - each.low for each in own) / 2 / used,
    )


def _procedure_tables(simulations: int, seed: int) -> Iterator[Table]:
    for fading in (False, True):
        found = [(count, procedure(simulations, seed, count, fading=fading)) for count in LENGTHS]
        yield Table(
            "The whole procedure after "
            + ("a warm-up that fades away" if fading else "eight slow steps")
            + ", by recorded steps; coverage of the runs that are not abstained from",
            ("steps", "abstains", "10 batch means: mean held", "half-width", "own interval of", "says", "holds", "±"),
            tuple(
                (
                    str(count),
                    _beside(row.abstains, STUDY_ABSTAINS[count] if fading else None, ".1%"),
                    _beside(row.mean_coverage, None if fading else STUDY_PROCEDURE[count]),
                    f"{row.mean_half:.2%}",
                    row.about,
                    f"{row.stated:.2f}",
                    f"{row.coverage:.3f}",
                    f"{row.half:.2%}",
                )
                for count, row in found
            ),
        )


def within(simulations: int, seed: int, count: int, window: int = 1) -> tuple[str, float, float, float]:
    """Return the interval of steady records, each the mean of a window of steps.

    Returns:
        What it is of, what it says that it covers, what it covers, half its width (relative).
    """
    random = np.random.default_rng([seed, 3, count, window])
    steps = steady_steps(random, simulations, count * window)
    records = steps.reshape(simulations, count, window).mean(axis=2)
    held, half = 0, 0.0
    interval = None
    for values in records.tolist():
        interval = intervals.within_run_interval(values, steps=[window] * count)
        if interval is None:
            raise ValueError("no records")
        held += interval.low <= (TRUE_MEDIAN if interval.about == "median" else TRUE_MEAN) <= interval.high
        half += (interval.high - interval.low) / 2
    if interval is None:
        raise ValueError("no simulations")
    return interval.about, interval.coverage or math.nan, held / simulations, half / simulations


def _within_tables(simulations: int, seed: int) -> Iterator[Table]:
    sizes = [(count, 1) for count in (20, 30, 50, 100, 150, 199, 200, 300, 499, 500, 1000)]
    sizes += [(10, 5), (20, 5), (10, 10), (20, 10), (50, 10), (10, 50), (20, 50), (10, 100)]
    rows = []
    for count, window in sizes:
        about, says, holds, half = within(simulations, seed, count, window)
        figures = ("", "", "") if about == "range" else (f"{says:.2f}", f"{holds:.3f}", f"{half:.2%}")
        rows.append((str(count), str(window), about, *figures))
    columns = ("steady records", "steps each", "interval of", "says", "holds", "±")
    yield Table("The interval within a run, no warm-up", columns, tuple(rows))


def two_sides(simulations: int, seed: int, runs: int, steps: int = 100) -> dict[str, float]:
    """Return, for two systems on the same machine, how often each interval holds the ratio 1, and how often
    each test calls a difference ("false alarms").
    """
    random = np.random.default_rng([seed, 4, runs])
    shape = (simulations, 2, runs)
    level = 1 + RUN_SPREAD * random.standard_normal(shape)
    series = steady_steps(random, simulations * 2 * runs, steps).reshape(*shape, steps) * level[..., None]
    means = series.mean(axis=3)
    sides = means.mean(axis=2)
    difference = np.log(sides[:, 0] / sides[:, 1])

    def holds(error: Array, quantile: float) -> float:
        return float((np.abs(difference) <= quantile * error).mean())

    pooled = series.reshape(simulations, 2, runs * steps)
    error = pooled.std(axis=2, ddof=1) / sides / math.sqrt(runs * steps)
    found = {"pooled steps z": holds(np.hypot(*error.T), 1.959964)}
    if runs == 1:
        batches = series.reshape(simulations, 2, 10, steps // 10).mean(axis=3)
        error = batches.std(axis=2, ddof=1) / sides / math.sqrt(10)
        found["within-run batches"] = holds(np.hypot(*error.T), t_quantile(18))
    else:
        chosen = random.integers(0, runs, (2, RESAMPLES, runs))
        again = [np.log(means[:, side][:, chosen[side]].mean(axis=2)) for side in (0, 1)]
        low, high = np.percentile(again[0] - again[1], (2.5, 97.5), axis=1)
        found["run bootstrap"] = float(((low <= 0) & (high >= 0)).mean())
        found |= _log_welch(means)
        found["Mann–Whitney on run means"] = _mann_whitney(means)
    found["Mann–Whitney on steps"] = _mann_whitney(pooled)
    return found


def _log_welch(means: Array) -> dict[str, float]:
    """Return the package's comparison; for two runs per system, which it declines, the same formula."""
    if means.shape[2] >= intervals.RUNS_FOR_SIGNIFICANCE:
        ratios = [intervals.log_welch(first, second) for first, second in means.tolist()]
        known = [ratio for ratio in ratios if ratio is not None]
        width = float(np.median([ratio.high - ratio.low for ratio in known])) / 2
        return {
            "log-Welch": 1 - sum(ratio.is_significant for ratio in known) / len(known),
            "log-Welch half-width": width,
        }
    logs = np.log(means)
    variances = logs.var(axis=2, ddof=1) / means.shape[2]
    freedom = variances.sum(axis=1) ** 2 / (variances**2 / (means.shape[2] - 1)).sum(axis=1)
    half = special.stdtrit(freedom, 0.975) * np.sqrt(variances.sum(axis=1))
    centre = logs[:, 0].mean(axis=1) - logs[:, 1].mean(axis=1)
    return {"log-Welch": float((np.abs(centre) <= half).mean()), "log-Welch half-width": float(np.median(half))}


def _mann_whitney(values: Array) -> float:
    """Return the share of false alarms at 5%: exact for few values, normal for many. Shape (simulations, 2, values)."""
    method = "exact" if values.shape[2] <= 20 else "asymptotic"
    found = scipy_stats.mannwhitneyu(values[:, 0], values[:, 1], axis=1, method=method)
    return float((found.pvalue < 0.05).mean())


def _sides_tables(simulations: int, seed: int) -> Iterator[Table]:
    found = {runs: two_sides(simulations, seed, runs) for runs in (1, 2, 3, 5, 10)}
    names = [
        "pooled steps z",
        "within-run batches",
        "run bootstrap",
        "log-Welch",
        "log-Welch half-width",
        "Mann–Whitney on steps",
        "Mann–Whitney on run means",
    ]
    rows = []
    for runs, row in found.items():
        shares = [(row.get(name), study) for name, study in zip(names, STUDY_SIDES[runs], strict=True)]
        forms = [".3f"] * 4 + [".1%"] * 3
        rows.append((str(runs), *(_beside(*share, form) for share, form in zip(shares, forms, strict=True))))
    columns = ("runs a side", *names[:4], "±", "false alarms: Mann–Whitney on steps", "on run means")
    yield Table("Two sides of one machine, runs of 100 steps that differ by 1 %", columns, tuple(rows))


def _differences_tables(simulations: int, seed: int) -> Iterator[Table]:
    runs = (2, 3, 5, 8, 10, 20)
    rows = [
        (f"{spread:.1%}", *(f"{intervals.minimum_detectable_effect(spread, each):.2%}" for each in runs))
        for spread in (0.005, 0.01, 0.02)
    ]
    yield Table(
        "Smallest difference found with 80 % power", ("run spread", *(f"{each} runs" for each in runs)), tuple(rows)
    )


def detected(simulations: int, seed: int, count: int, shift: float) -> tuple[float, float]:
    """Return the share of runs in which several segments are found, or one with a drift, when the step time
    changes by a shift after 30 % of the run; after a warm-up of eight steps.
    """
    random = np.random.default_rng([seed, 5, count, round(1000 * abs(shift))])
    series = steady_steps(random, simulations, count) * warm_up(count)
    series[:, round(0.3 * count) :] *= 1 + shift
    several = drifting = 0
    for values in series.tolist():
        found = find_segments(values)
        several += len(found) > 1
        drifting += len(found) == 1 and found[0].drift is not None
    return several / simulations, drifting / simulations


def _levels_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = []
    for count in (100, 200, 500):
        cells = [detected(simulations, seed, count, shift) for shift in (0.0, 0.02, 0.05, -0.02, -0.05)]
        rows.append((str(count), *(f"{several + drift:.1%} ({several:.1%})" for several, drift in cells)))
    columns = ("steps", "no shift: false alarms", "2 % slower", "5 % slower", "2 % faster", "5 % faster")
    yield Table("Level change or drift called (of these: levels), shift after 30 % of the run", columns, tuple(rows))


def order_alarms(simulations: int, seed: int, runs: int) -> float:
    """Return the share of sets of independent runs in which run order is reported as a trend."""
    random = np.random.default_rng([seed, 6, runs])
    means = 1 + RUN_SPREAD * random.standard_normal((simulations, runs))
    return sum(run_order.run_order_trend(each) is not None for each in means.tolist()) / simulations


def _order_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = tuple((str(runs), f"{order_alarms(simulations, seed, runs):.2%}") for runs in (6, 8, 10, 20, 50))
    yield Table("Independent runs whose order is said to mean something", ("runs", "false alarms"), rows)


PARTS: dict[str, Callable[[int, int], Iterator[Table]]] = {
    "methods": _methods_tables,
    "procedure": _procedure_tables,
    "within": _within_tables,
    "sides": _sides_tables,
    "differences": _differences_tables,
    "levels": _levels_tables,
    "order": _order_tables,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=4000, metavar="N", help="of each case (default: 4000)")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be given again (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.simulations < 1:
        parser.error("--simulations must be at least 1")
    for part in given.part or PARTS:
        for table in PARTS[part](given.simulations, given.seed):
            print(table.markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
