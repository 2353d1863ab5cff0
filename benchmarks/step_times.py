"""Step times whose true mean is known, and the methods that were compared on them.

What the package itself does isn't here: benchmarks/coverage.py puts both to these step times.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import special

from tprimat.analysis import warmup

Array = npt.NDArray[np.float64]
Reach = tuple[float, float]
"""How far an interval reaches below and above the mean."""
Method = Callable[[Array, np.random.Generator], Reach]

AUTOCORRELATION = 0.3
SPREAD = 0.012
SPIKE_SHARE = 0.04
SPIKE_AGAIN = 0.3
SPIKE_LOW, SPIKE_HIGH = 0.10, 0.35
WARM_UP_STEPS = 8
WARM_UP_FACTOR = 5.0
FADING_STEPS = 5.0

TRUE_MEAN = 1 + SPIKE_SHARE * (SPIKE_LOW + SPIKE_HIGH) / 2
TRUE_MEDIAN = 1 + SPREAD * float(special.ndtri(0.5 / (1 - SPIKE_SHARE)))
"""No spike reaches down to the median, so it is a quantile of the other steps."""

RESAMPLES = 400


def steady_steps(random: np.random.Generator, simulations: int, count: int) -> Array:
    """Return steady-state step times, in units of the undisturbed step.

    1 + x + s·a: x is AR(1) with coefficient 0.3 and standard deviation 1.2 %, started in its
    stationary distribution; s is a Markov chain that is 1 for 4 % of the steps and stays 1 with
    probability 0.3, so that a cluster of spikes is 1.43 steps long on average; a is uniform
    between 10 and 35 %, drawn for each step.

    Returns:
        shape (simulations, count).
    """
    shocks = random.standard_normal((simulations, count))
    noise = np.empty((simulations, count))
    noise[:, 0] = SPREAD * shocks[:, 0]
    innovation = SPREAD * math.sqrt(1 - AUTOCORRELATION**2)
    for step in range(1, count):
        noise[:, step] = AUTOCORRELATION * noise[:, step - 1] + innovation * shocks[:, step]
    chance = random.random((simulations, count))
    begins = SPIKE_SHARE * (1 - SPIKE_AGAIN) / (1 - SPIKE_SHARE)
    spike = np.empty((simulations, count), dtype=bool)
    spike[:, 0] = chance[:, 0] < SPIKE_SHARE
    for step in range(1, count):
        spike[:, step] = chance[:, step] < np.where(spike[:, step - 1], SPIKE_AGAIN, begins)
    return 1 + noise + spike * random.uniform(SPIKE_LOW, SPIKE_HIGH, (simulations, count))


def warm_up(count: int, *, fading: bool = False) -> Array:
    """Return the factor of each step: 5 for the first eight; then 1, or fading towards 1 with a
    time constant of five steps.
    """
    step = np.arange(count)
    if fading:
        return 1 + (WARM_UP_FACTOR - 1) * np.exp(
            -np.maximum(0, step - WARM_UP_STEPS + 1) / FADING_STEPS
        )
    return np.where(step < WARM_UP_STEPS, WARM_UP_FACTOR, 1.0)


def t_quantile(freedom: float) -> float:
    """Return Student's t at 97.5 %."""
    return float(special.stdtrit(freedom, 0.975))


def iid(values: Array, random: np.random.Generator) -> Reach:
    """Return Student's t, as if steps were independent."""
    half = t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return half, half


def batch_means(batches: int) -> Method:
    """Return Student's t on the means of so many equal batches; what is left over is left out of
    them at the front. (The package's own batches leave nothing out, and differ by one value in
    size.)
    """

    def reach(values: Array, random: np.random.Generator) -> Reach:
        means = values[len(values) % batches :].reshape(batches, -1).mean(axis=1)
        half = t_quantile(batches - 1) * float(means.std(ddof=1)) / math.sqrt(batches)
        return half, half

    return reach


def newey_west(values: Array, random: np.random.Generator) -> Reach:
    """Return a normal interval with Bartlett's weights up to lag 4 (n / 100)^(2/9)."""
    count = len(values)
    lags = int(4 * (count / 100) ** (2 / 9))
    centred = values - values.mean()
    variance = float(centred @ centred) / count
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(centred[lag:] @ centred[:-lag]) / count
    half = 1.959964 * math.sqrt(max(variance, 0.0) / count)
    return half, half


def block_bootstrap(values: Array, random: np.random.Generator) -> Reach:
    """Return percentiles of the means of resampled blocks, n^(1/3) steps long; the series is a
    circle.
    """
    length = round(len(values) ** (1 / 3))
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[: length - 1]]))])
    blocks = (sums[length:] - sums[:-length]) / length
    chosen = random.integers(0, len(blocks), (RESAMPLES, round(len(values) / length)))
    low, high = np.percentile(blocks[chosen].mean(axis=1), (2.5, 97.5))
    mean = float(values.mean())
    return mean - float(low), float(high) - mean


def drop_one(values: Array) -> int | None:
    """Leave the first step out."""
    return 1


def mser5(values: Array) -> int | None:
    """Return White's rule: the cut, in batches of five and before the middle, with the least
    standard error.
    """
    batches = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    left = np.arange(len(batches), 0, -1)
    total = np.cumsum(batches[::-1])[::-1]
    squares = np.cumsum((batches**2)[::-1])[::-1]
    error = (squares - total**2 / left) / left.astype(float) ** 2
    return 5 * int(np.argmin(error[: len(batches) // 2]))


def package_rule(values: Array) -> int | None:
    """Return the package's rule."""
    state = warmup.detect_warmup(values.tolist())
    return None if state is None else state.start


TRUNCATIONS: dict[str, Callable[[Array], int | None]] = {
    "drop 1": drop_one,
    "MSER-5": mser5,
    "TensorPrimat": package_rule,
}
METHODS: dict[str, Method] = {
    "iid t": iid,
    "10 batch means": batch_means(10),
    "20 batch means": batch_means(20),
    "Newey–West": newey_west,
    "block bootstrap": block_bootstrap,
}
