"""How often the intervals hold the true value, and how often a change point or a drift is noted
wrongly.

Simulates step times whose true mean is known, and compares the package's own functions with
the methods that were not chosen. Prints the tables of docs/statistics.md:

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
    "TensorPrimat": (-0.0001, 0.866, 0.951, 0.941, 0.932, 0.925),
}
STUDY_PROCEDURE = {60: 0.725, 100: 0.845, 200: 0.918, 300: 0.913, 500: 0.943, 1000: 0.953}
STUDY_ABSTAINS = {60: 0.30, 100: 0.07, 200: 0.02, 300: 0.0, 500: 0.0, 1000: 0.0}
STUDY_SYSTEMS: dict[int, tuple[float | None, ...]] = {
    1: (0.564, 0.679, None, None, None, 0.81, None),
    2: (0.560, None, 0.666, 0.978, 0.064, 0.77, None),
    3: (0.576, None, 0.806, 0.977, 0.028, 0.75, 0.0),
    5: (0.594, None, 0.896, 0.957, 0.017, 0.71, 0.03),
    10: (0.604, None, 0.914, 0.956, 0.011, 0.72, 0.04),
}
"""What a study found, 1000 simulations each, with a rule for the warm-up that was used before. Its
generator was less exactly described than the one here; tables print its figures in brackets.
"""


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
        return "\n".join(
            [f"**{self.title}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""]
        )


def methods(simulations: int, seed: int, count: int = 500) -> dict[str, dict[str, float]]:
    """Return coverage of the mean by truncation and interval; the bias of each truncation under
    "bias".
    """
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
        rows.append(
            (f"{name} (k to {row['longest']:.0f})", _beside(row["bias"], bias, "+.2%"), *cells)
        )
    yield Table(
        "Coverage of the true mean, one run of 500 steps",
        ("truncation", "bias", *METHODS),
        tuple(rows),
    )


@dataclasses.dataclass(frozen=True)
class Procedure:
    """The whole procedure at one length.

    Attributes:
        abstains: share of runs with a change point or drift, which have no single value.
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
        held += (
            interval.low
            <= (TRUE_MEDIAN if interval.about == "median" else TRUE_MEAN)
            <= interval.high
        )
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
            + ("a gradual warm-up" if fading else "eight slow steps")
            + ", by recorded steps; coverage of the runs without a change point or drift",
            (
                "steps",
                "noted",
                "ten batch means: coverage",
                "half-width",
                "interval of",
                "nominal",
                "coverage",
                "±",
            ),
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


def within(
    simulations: int, seed: int, count: int, window: int = 1
) -> tuple[str, float, float, float]:
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
        held += (
            interval.low
            <= (TRUE_MEDIAN if interval.about == "median" else TRUE_MEAN)
            <= interval.high
        )
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
        figures = (
            ("", "", "") if about == "range" else (f"{says:.2f}", f"{holds:.3f}", f"{half:.2%}")
        )
        rows.append((str(count), str(window), about, *figures))
    columns = ("steady records", "steps each", "interval of", "nominal", "coverage", "±")
    yield Table("The interval within a run, no warm-up", columns, tuple(rows))


def two_systems(simulations: int, seed: int, runs: int, steps: int = 100) -> dict[str, float]:
    """Return, for two systems on the same machine, how often each interval holds the ratio 1, and
    how often each test calls a difference ("false alarms").
    """
    random = np.random.default_rng([seed, 4, runs])
    shape = (simulations, 2, runs)
    level = 1 + RUN_SPREAD * random.standard_normal(shape)
    series = (
        steady_steps(random, simulations * 2 * runs, steps).reshape(*shape, steps)
        * level[..., None]
    )
    means = series.mean(axis=3)
    rates = means.mean(axis=2)
    difference = np.log(rates[:, 0] / rates[:, 1])

    def holds(error: Array, quantile: float) -> float:
        return float((np.abs(difference) <= quantile * error).mean())

    pooled = series.reshape(simulations, 2, runs * steps)
    error = pooled.std(axis=2, ddof=1) / rates / math.sqrt(runs * steps)
    found = {"pooled steps z": holds(np.hypot(*error.T), 1.959964)}
    if runs == 1:
        batches = series.reshape(simulations, 2, 10, steps // 10).mean(axis=3)
        error = batches.std(axis=2, ddof=1) / rates / math.sqrt(10)
        found["within-run batches"] = holds(np.hypot(*error.T), t_quantile(18))
    else:
        chosen = random.integers(0, runs, (2, RESAMPLES, runs))
        again = [np.log(means[:, system][:, chosen[system]].mean(axis=2)) for system in (0, 1)]
        low, high = np.percentile(again[0] - again[1], (2.5, 97.5), axis=1)
        found["run bootstrap"] = float(((low <= 0) & (high >= 0)).mean())
        found |= _log_welch(means)
        found["Mann–Whitney on run means"] = _mann_whitney(means)
    found["Mann–Whitney on steps"] = _mann_whitney(pooled)
    return found


def _log_welch(means: Array) -> dict[str, float]:
    """Return the package's comparison."""
    found = [intervals.difference(first, second) for first, second in np.log(means).tolist()]
    bounds = [each.interval() for each in found if each is not None]
    return {
        "log-Welch": sum(low <= 0 <= high for low, high in bounds) / len(bounds),
        "log-Welch half-width": float(np.median([high - low for low, high in bounds])) / 2,
    }


def _mann_whitney(values: Array) -> float:
    """Return the share of false alarms at 5%: exact for few values, normal for many. Shape
    (simulations, 2, values).
    """
    method = "exact" if values.shape[2] <= 20 else "asymptotic"
    found = scipy_stats.mannwhitneyu(values[:, 0], values[:, 1], axis=1, method=method)
    return float((found.pvalue < 0.05).mean())


def _systems_tables(simulations: int, seed: int) -> Iterator[Table]:
    found = {runs: two_systems(simulations, seed, runs) for runs in (1, 2, 3, 5, 10)}
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
        shares = [
            (row.get(name), study) for name, study in zip(names, STUDY_SYSTEMS[runs], strict=True)
        ]
        forms = [".3f"] * 4 + [".1%"] * 3
        rows.append(
            (str(runs), *(_beside(*share, form) for share, form in zip(shares, forms, strict=True)))
        )
    columns = ("runs each", *names[:4], "±", "false alarms: Mann–Whitney on steps", "on run means")
    yield Table("Two equal systems, runs of 100 steps that differ by 1%", columns, tuple(rows))


def _differences_tables(simulations: int, seed: int) -> Iterator[Table]:
    runs = (2, 3, 5, 8, 10, 20)
    rows = [
        (
            f"{spread:.1%}",
            *(f"{intervals.minimum_detectable_effect(spread, each):.2%}" for each in runs),
        )
        for spread in (0.005, 0.01, 0.02)
    ]
    yield Table(
        "Smallest difference found with 80% power",
        ("run spread", *(f"{each} runs" for each in runs)),
        tuple(rows),
    )


def detected(simulations: int, seed: int, count: int, shift: float) -> tuple[float, float]:
    """Return the share of runs in which several segments are found, or one with a drift, when the
    step time changes by a shift after 30% of the run; after a warm-up of eight steps.
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


def autocorrelated(
    random: np.random.Generator, shape: tuple[int, int], coefficient: float, spread: float
) -> Array:
    """Return AR(1) noise around 1, shape (simulations, steps), of this spread, stationary
    throughout.
    """
    shocks = spread * random.standard_normal(shape)
    shocks[:, 1:] *= math.sqrt(1 - coefficient**2)
    for step in range(1, shape[1]):
        shocks[:, step] += coefficient * shocks[:, step - 1]
    return np.asarray(1 + shocks, dtype=np.float64)


def busy(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return 1.2% noise under an on/off neighbour, which adds 40% while it works: 10 steps on
    average, of 30.
    """
    series = autocorrelated(random, shape, 0.3, 0.012)
    chance = random.random(shape)
    works = chance[:, 0] < 1 / 3
    for step in range(shape[1]):
        series[works, step] *= 1.4
        works = chance[:, step] < np.where(works, 0.9, 0.05)
    return series


def _ramp(shape: tuple[int, int], size: float) -> Array:
    return np.linspace(1, 1 + size, shape[1])


def _shift(shape: tuple[int, int], size: float) -> Array:
    return np.where(np.arange(shape[1]) < 0.5 * shape[1], 1.0, 1 + size)


SERIES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "independent, 1%": lambda random, shape: autocorrelated(random, shape, 0.0, 0.01),
    "AR .5, 10%": lambda random, shape: autocorrelated(random, shape, 0.5, 0.1),
    "AR .9, 1%": lambda random, shape: autocorrelated(random, shape, 0.9, 0.01),
    "AR .9, 5%": lambda random, shape: autocorrelated(random, shape, 0.9, 0.05),
    "outliers": lambda random, shape: steady_steps(random, *shape),
    "gradual warm-up": lambda random, shape: (
        steady_steps(random, *shape) * warm_up(shape[1], fading=True)
    ),
    "busy neighbour, +40%": busy,
    "a true drift of 3%": lambda random, shape: (
        autocorrelated(random, shape, 0.3, 0.01) * _ramp(shape, 0.03)
    ),
    "a true change of 2.5%": lambda random, shape: (
        autocorrelated(random, shape, 0.3, 0.01) * _shift(shape, 0.025)
    ),
    "a true change of 5%": lambda random, shape: (
        autocorrelated(random, shape, 0.3, 0.01) * _shift(shape, 0.05)
    ),
}
"""Step times on which the detector of changes and drifts is tried; the true changes are in the
middle.
"""


def noted(simulations: int, seed: int, name: str, count: int) -> tuple[float, float]:
    """Return the share of runs of a kind in which a change point is noted, and in which a drift
    is.
    """
    random = np.random.default_rng([seed, 7, count, list(SERIES).index(name)])
    found = [
        find_segments(values) for values in SERIES[name](random, (simulations, count)).tolist()
    ]
    changes = sum(len(segments) > 1 for segments in found)
    drifts = sum(
        len(segments) <= 1 and any(each.drift is not None for each in segments)
        for segments in found
    )
    return changes / simulations, drifts / simulations


STATIONARY = [name for name in SERIES if not name.startswith(("a true", "warm-up"))]
PLANS = ((2, 2), (3, 3), (5, 5), (1, 3), (1, 5))


def held(simulations: int, seed: int, name: str, runs: tuple[int, int], steps: int = 100) -> float:
    """Return how often the interval of two equal systems holds the ratio 1, with so many runs of
    each.
    """
    random = np.random.default_rng([seed, 8, list(SERIES).index(name), *runs])
    count = simulations * sum(runs)
    means = SERIES[name](random, (count, steps)).mean(axis=1) * (
        1 + RUN_SPREAD * random.standard_normal(count)
    )
    logs = np.log(means).reshape(simulations, sum(runs))
    found = [
        intervals.difference(each[: runs[0]].tolist(), each[runs[0] :].tolist()) for each in logs
    ]
    return sum(each is not None and each.p() >= 0.05 for each in found) / simulations


def _noise_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = [
        (name, *(f"{held(simulations, seed, name, plan):.3f}" for plan in PLANS))
        for name in STATIONARY
    ]
    columns = ("step times", *(f"{first} and {second} runs" for first, second in PLANS))
    yield Table("Equal systems: the interval of the ratio holds 1", columns, tuple(rows))


def rounds(
    simulations: int, seed: int, count: int, drift: float, *, alternating: bool
) -> tuple[float, float]:
    """Return how often Welch and the paired test call two equal systems different, measured in
    rounds.

    The machine becomes slower by a drift from the first run to the last. The two take turns in
    being first where they alternate (AB BA AB); else the same one is first in each round (AB AB
    AB).
    """
    random = np.random.default_rng([seed, 9, count, round(1000 * drift), alternating])
    logs = RUN_SPREAD * random.standard_normal((simulations, 2 * count)) + np.linspace(
        0, drift, 2 * count
    )
    pairs = logs.reshape(simulations, count, 2)
    if alternating:
        pairs[:, 1::2] = pairs[:, 1::2, ::-1]
    found = [
        (intervals.difference(*each), intervals.paired(*each))
        for each in pairs.transpose(0, 2, 1).tolist()
    ]
    welch, paired = (
        sum(each is not None and each.p() < 0.05 for each in tests)
        for tests in zip(*found, strict=True)
    )
    return welch / simulations, paired / simulations


def _rounds_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = []
    for drift in (0.0, 0.05, 0.1):
        for count in (4, 5, 10):
            found = [
                rounds(simulations, seed, count, drift, alternating=alternating)
                for alternating in (True, False)
            ]
            rows.append(
                (f"{drift:.0%}", str(count), *(f"{share:.1%}" for each in found for share in each))
            )
    columns = (
        "drift of the machine",
        "rounds",
        "AB BA: Welch",
        "AB BA: paired",
        "AB AB: Welch",
        "AB AB: paired",
    )
    yield Table(
        "Equal systems that are called different, runs of one session", columns, tuple(rows)
    )


def _detector_tables(simulations: int, seed: int) -> Iterator[Table]:
    lengths = (60, 200, 500)
    rows = []
    for name in SERIES:
        cells = [noted(simulations, seed, name, count) for count in lengths]
        rows.append((name, *(f"{changes:.1%} / {drift:.1%}" for changes, drift in cells)))
    columns = ("step times", *(f"{count} steps" for count in lengths))
    yield Table("Runs in which a change point / a drift is noted", columns, tuple(rows))


def _changes_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = []
    for count in (100, 200, 500):
        cells = [
            detected(simulations, seed, count, shift) for shift in (0.0, 0.03, 0.05, -0.03, -0.05)
        ]
        rows.append(
            (str(count), *(f"{several + drift:.1%} ({several:.1%})" for several, drift in cells))
        )
    columns = (
        "steps",
        "no shift: false alarms",
        "3% slower",
        "5% slower",
        "3% faster",
        "5% faster",
    )
    yield Table(
        "Change point or drift noted (of these: change points), shift after 30% of the run",
        columns,
        tuple(rows),
    )


def order_alarms(simulations: int, seed: int, runs: int) -> float:
    """Return the share of sets of independent runs in which run order is reported as a trend."""
    random = np.random.default_rng([seed, 6, runs])
    means = 1 + RUN_SPREAD * random.standard_normal((simulations, runs))
    return sum(run_order.run_order_trend(each) is not None for each in means.tolist()) / simulations


def _order_tables(simulations: int, seed: int) -> Iterator[Table]:
    rows = tuple(
        (str(runs), f"{order_alarms(simulations, seed, runs):.2%}") for runs in (6, 8, 10, 20, 50)
    )
    yield Table(
        "Independent runs whose order is reported as a trend", ("runs", "false alarms"), rows
    )


PARTS: dict[str, Callable[[int, int], Iterator[Table]]] = {
    "methods": _methods_tables,
    "procedure": _procedure_tables,
    "within": _within_tables,
    "systems": _systems_tables,
    "differences": _differences_tables,
    "noise": _noise_tables,
    "rounds": _rounds_tables,
    "changes": _changes_tables,
    "detector": _detector_tables,
    "order": _order_tables,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--simulations", type=int, default=4000, metavar="N", help="of each case (default: 4000)"
    )
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="may be given again (default: all)"
    )
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
