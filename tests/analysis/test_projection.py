"""Forms of scaling: their parameters, their intervals, their backtest, and which one projects."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from limits import limits
from scipy import special

from tprimat.analysis import projection
from tprimat.analysis.projection import Size


def communicating(
    gpus: int, batch: int, work_s: float = 0.2, exchange_s: float = 0.05, work: float = 4096
) -> Size:
    """A size whose step time follows the communication form."""
    seconds = work_s * batch / gpus + exchange_s * math.log2(gpus)
    return Size(gpus, batch, batch * work / gpus / seconds, work)


def on_a_line(gpus: int, batch: int = 8, slope: float = -0.1, noise: float = 0.0) -> Size:
    return Size(gpus, batch, 1000 * gpus**slope * math.exp(noise))


def half_interval(half: float) -> tuple[float, float]:
    """The interval of a rate of 1 whose logarithm deviates by so much on either side."""
    variance = (half / special.stdtrit(2, 0.975)) ** 2
    return projection.Fit("line", (0.0, 0.0), variance, 2, (0.0, 0.0, 0.0)).interval(8, 8, 1.0)


@pytest.mark.parametrize(
    "batch", [lambda gpus: 128, lambda gpus: 2 * gpus, lambda gpus: 16 + 3 * gpus]
)
def test_the_communication_form_finds_its_parameters(batch):
    sizes = [communicating(gpus, batch(gpus)) for gpus in (8, 16, 64, 256)]
    found = projection.fit(sizes, "communication")
    assert found.parameters == (pytest.approx(0.2), pytest.approx(0.05))
    assert found.rate(1024, batch(1024), 4096) == pytest.approx(
        communicating(1024, batch(1024)).rate
    )
    assert sizes[1].seconds == pytest.approx(0.2 * batch(16) / 16 + 0.05 * 4)


def test_the_line_finds_its_slope():
    found = projection.fit([on_a_line(gpus) for gpus in (8, 16, 64)], "line")
    assert found.parameters == (pytest.approx(math.log(1000)), pytest.approx(-0.1))


def test_the_line_s_interval_is_that_of_the_textbook():
    sizes = [
        on_a_line(gpus, noise=noise)
        for gpus, noise in ((8, 0.02), (16, -0.01), (64, 0.03), (256, -0.02))
    ]
    x, y = (np.log([getattr(size, name) for size in sizes]) for name in ("gpus", "rate"))
    slope, start = np.polyfit(x, y, 1)
    spread = math.sqrt(sum((y - start - slope * x) ** 2) / 2)
    at = math.log(1024)
    leverage = 1 / 4 + (at - x.mean()) ** 2 / sum((x - x.mean()) ** 2)
    half = special.stdtrit(2, 0.975) * spread * math.sqrt(1 + leverage)
    low, high = projection.fit(sizes, "line").interval(1024, 8, 1.0)
    assert math.log(low) == pytest.approx(start + slope * at - half)
    assert math.log(high) == pytest.approx(start + slope * at + half)


@limits(
    (
        "half an interval, as a logarithm",
        lambda half: half_interval(half)[1] < math.inf,
        (99.9, True),
        (100.1, False),
    )
)
def test_an_interval_beyond_all_measure_is_without_end(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize("half", [101.0, 400.0, 1e6])
def test_no_interval_is_too_wide_to_be_computed(half):
    assert half_interval(half) == (0.0, math.inf)


@pytest.mark.parametrize("form", projection.FORMS)
def test_intervals_hold_what_they_say(form):
    """Where the form is right and sizes deviate from it by 2 %, 95 % of the intervals hold the next
    measurement.
    """
    chance = random.Random(1)
    held = 0
    for _ in range(600):
        exact = [
            communicating(gpus, 128) if form == "communication" else on_a_line(gpus)
            for gpus in (8, 16, 32, 64, 256)
        ]
        *sizes, target = [
            dataclasses.replace(size, rate=size.rate * chance.lognormvariate(0, 0.02))
            for size in exact
        ]
        low, high = projection.fit(sizes, form).interval(target.gpus, target.batch, target.work)
        held += low <= target.rate <= high
    assert 0.93 <= held / 600 <= 0.97


def test_the_form_that_projects_the_largest_size_better_is_used():
    projected = projection.project([communicating(gpus, 128) for gpus in (8, 16, 32, 64)], 256, 128)
    assert projected.fit.form == "communication"
    assert abs(projected.backtest["communication"]) < 1e-9 < abs(projected.backtest["line"])
    projected = projection.project(
        [on_a_line(gpus, slope=-0.3) for gpus in (8, 16, 32, 64)], 256, 8
    )
    assert projected.fit.form == "line"
    assert projected.rate == pytest.approx(1000 * 256**-0.3)
    assert abs(projected.backtest["line"]) < 1e-9 < abs(projected.backtest["communication"])


def test_the_interval_is_no_narrower_than_the_backtest_s_error():
    sizes = [
        *(on_a_line(gpus, slope=-0.3) for gpus in (8, 16, 32)),
        on_a_line(64, slope=-0.3, noise=0.04),
    ]
    found = projection.project(sizes, 64, 8)
    assert found.fit.form == "line"
    assert found.backtest["line"] == pytest.approx(math.exp(-0.04) - 1)
    assert found.low <= found.rate * math.exp(-0.04)
    assert found.high >= found.rate * math.exp(0.04)


def test_the_interval_includes_the_other_form_only_while_that_is_credible():
    near = [communicating(gpus, 4096) for gpus in (8, 16, 32, 64)]
    found = projection.project(near, 1024, 4096)
    assert abs(found.backtest["line"]) < projection.CREDIBLE
    assert found.high == pytest.approx(projection.fit(near, "line").rate(1024, 4096, 4096))
    apart = [communicating(gpus, 128) for gpus in (8, 16, 32, 64)]
    found = projection.project(apart, 1024, 128)
    assert abs(found.backtest["line"]) > projection.CREDIBLE
    assert found.high == pytest.approx(found.rate)


def test_below_three_sizes_there_is_no_projection():
    sizes = [communicating(gpus, 128) for gpus in (8, 16)]
    assert projection.project(sizes, 64, 128) is None
    assert projection.fit(sizes[:1], "line") is None


def test_without_a_batch_the_line_is_used():
    sizes = [dataclasses.replace(communicating(gpus, 128), batch=None) for gpus in (8, 16, 32)]
    found = projection.project(sizes, 64, projection.default_batch(sizes, 64))
    assert (found.fit.form, found.batch, list(found.backtest)) == ("line", None, ["line"])
    # A batch at one size alone is no help either.
    sizes[0] = dataclasses.replace(sizes[0], batch=128)
    assert projection.project(sizes, 64, 128).fit.form == "line"


def test_no_part_of_a_step_takes_negative_time():
    # More than twice as fast with twice the GPUs: no communication explains that.
    sizes = [Size(8, 64, 100.0), Size(16, 64, 105.0), Size(32, 64, 111.0)]
    first, second = projection.fit(sizes, "communication").parameters
    assert (first > 0, second) == (True, 0)
    # Slower with more GPUs, at one batch: no part of it is divided, so the form says nothing.
    sizes = [Size(1, 64, 100.0), Size(2, 64, 5.0), Size(4, 64, 1.0), Size(8, 64, 0.2)]
    assert projection.fit(sizes[1:], "communication") is None
    assert projection.project(sizes[1:], 1, 64).fit.form == "line"


def test_the_order_of_the_sizes_is_irrelevant():
    sizes = [on_a_line(gpus, noise=0.01 * (-1) ** gpus.bit_length()) for gpus in (8, 16, 64, 256)]
    assert projection.project(sizes, 512, 8).rate == pytest.approx(
        projection.project(sizes[::-1], 512, 8).rate
    )


def test_the_batch_of_another_size():
    strong = [communicating(gpus, 128) for gpus in (8, 16, 32)]
    assert projection.default_batch(strong, 1024) == 128
    mixed = [communicating(8, 16), communicating(128, 64), communicating(256, 64)]
    assert projection.default_batch(mixed, 1024) == 256
    assert projection.default_batch(mixed, 16) == 32
    assert projection.default_batch(mixed, 1) == 2


# Whole values, by numpy

NOISY = [
    Size(8, 64, 1000.0, 3.0),
    Size(16, 96, 930.0, 3.0),
    Size(64, 200, 700.0, 3.0),
    Size(256, 900, 610.0, 3.0),
]


def by_numpy(sizes, form, gpus, batch):
    """Least squares: rate, its 95% prediction interval, and the parameters."""
    if form == "line":
        rows = np.array([[1.0, math.log(size.gpus)] for size in sizes])
        values, at = np.log([size.rate for size in sizes]), np.array([1.0, math.log(gpus)])
    else:
        rows = np.array([[size.batch / size.gpus, math.log2(size.gpus)] for size in sizes])
        seconds = np.array([size.batch * size.work / size.gpus / size.rate for size in sizes])
        rows, values, at = (
            rows / seconds[:, None],
            np.ones(len(sizes)),
            np.array([batch / gpus, math.log2(gpus)]),
        )
    parameters = np.linalg.lstsq(rows, values, rcond=None)[0]
    total = float(at @ parameters)
    rate = math.exp(total) if form == "line" else batch * sizes[0].work / gpus / total
    at = at if form == "line" else at / total
    freedom = len(sizes) - 2
    variance = float(np.sum((values - rows @ parameters) ** 2)) / freedom if freedom else 0.0
    leverage = float(at @ np.linalg.inv(rows.T @ rows) @ at)
    half = (
        special.stdtrit(freedom, 0.975) * math.sqrt(variance * (1 + leverage)) if freedom else 0.0
    )
    return rate, (rate * math.exp(-half), rate * math.exp(half)), tuple(parameters), variance


@pytest.mark.parametrize("form", projection.FORMS)
@pytest.mark.parametrize("sizes", [NOISY, NOISY[:3], NOISY[::2]])
def test_a_fit_is_that_of_least_squares(form, sizes):
    rate, bounds, parameters, variance = by_numpy(sizes, form, 512, 1000)
    found = projection.fit(sizes, form)
    assert found.parameters == pytest.approx(parameters)
    assert found.variance == pytest.approx(variance, rel=1e-6, abs=1e-20)
    assert found.rate(512, 1000, 3.0) == pytest.approx(rate)
    if len(sizes) > 2:
        assert found.interval(512, 1000, 3.0) == pytest.approx(bounds)


def test_what_cannot_be_fitted():
    same = [Size(8, 64, 1000.0), Size(8, 64, 900.0)]
    for form in projection.FORMS:
        assert projection.fit(same, form) is None
        assert projection.fit(NOISY[:1], form) is None
        assert projection.fit([], form) is None
    unknown = [*NOISY[:2], Size(32, None, 800.0, 3.0)]
    assert projection.fit(unknown, "communication") is None
    assert projection.fit(unknown, "line") is not None
    assert math.isnan(unknown[2].seconds)
    assert NOISY[1].seconds == pytest.approx(96 * 3 / 16 / 930)
    # A line that falls to below one has a negative parameter, which is no time.
    falling = [Size(8, 8, 0.5), Size(16, 8, 0.45), Size(64, 8, 0.35)]
    assert projection.fit(falling, "line").parameters == pytest.approx(
        by_numpy(falling, "line", 8, 8)[2]
    )
    assert projection.fit(falling, "line").parameters[0] < 0


def test_work_that_explains_all_of_a_step():
    """Faster than its share of the work: batch / GPUs alone, by least squares on relative
    deviations.
    """
    sizes = [Size(8, 64, 100.0, 2.0), Size(16, 64, 105.0, 2.0), Size(32, 64, 111.0, 2.0)]
    rows = np.array([size.batch / size.gpus / size.seconds for size in sizes])
    work = rows.sum() / (rows @ rows)
    found = projection.fit(sizes, "communication")
    assert found.parameters == (pytest.approx(work), 0.0)
    assert found.variance == pytest.approx(float(np.sum((1 - work * rows) ** 2)))
    rate = 64 * 2 / 64 / (work * 64 / 64)
    half = special.stdtrit(1, 0.975) * math.sqrt(found.variance * (1 + 1 / work**2 / (rows @ rows)))
    assert found.rate(64, 64, 2.0) == pytest.approx(rate)
    assert found.interval(64, 64, 2.0) == pytest.approx(
        (rate * math.exp(-half), rate * math.exp(half))
    )


@pytest.mark.parametrize("sizes", [NOISY, NOISY[:3], [NOISY[2], NOISY[0], NOISY[1]]])
def test_a_projection_by_its_rule(sizes):
    largest = max(sizes, key=lambda size: size.gpus)
    others = [size for size in sizes if size is not largest]
    errors = {
        form: by_numpy(others, form, largest.gpus, largest.batch)[0] / largest.rate - 1
        for form in projection.FORMS
    }
    form = min(errors, key=lambda each: abs(math.log1p(errors[each])))
    rates = {each: by_numpy(sizes, each, 512, 1000)[0] for each in errors}
    miss = math.exp(abs(math.log1p(errors[form])))
    credible = [rates[each] for each, error in errors.items() if abs(error) <= 0.1]
    bounds = [
        *by_numpy(sizes, form, 512, 1000)[1],
        rates[form] / miss,
        rates[form] * miss,
        *credible,
    ]
    found = projection.project(sizes, 512, 1000)
    assert (found.gpus, found.batch, found.fit.form) == (512, 1000, form)
    assert (found.rate, found.low, found.high) == pytest.approx(
        (rates[form], min(bounds), max(bounds))
    )
    assert found.backtest == pytest.approx(errors)


def test_a_projection_without_the_batch_of_the_other_size():
    found = projection.project(NOISY, 512, None)
    assert (found.fit.form, found.batch, list(found.backtest)) == ("line", None, ["line"])
    assert found.rate == pytest.approx(by_numpy(NOISY, "line", 512, 1)[0])


def test_of_two_forms_that_are_equally_good_the_line_is_used():
    """One GPU has no communication: both forms give the same throughput at 64 sequences per GPU."""
    sizes = [Size(gpus, 64 * gpus, 1000.0) for gpus in (8, 16, 64)]
    found = projection.project(sizes, 128, 64 * 128)
    assert found.rate == pytest.approx(1000.0)
    assert found.fit.form in projection.FORMS


@pytest.mark.parametrize(
    ("sizes", "gpus", "batch"),
    [
        ([Size(8, 64, 1.0), Size(16, 64, 1.0)], 3, 64),
        ([Size(8, 64, 1.0), Size(16, 96, 1.0)], 11, 88),
        ([Size(8, 64, 1.0), Size(16, 96, 1.0)], 12, 72),
        ([Size(8, 64, 1.0), Size(16, None, 1.0)], 32, None),
        ([Size(8, None, 1.0), Size(16, 96, 1.0)], 32, 192),
        ([Size(8, 2, 1.0), Size(16, 96, 1.0)], 1, 1),
    ],
)
def test_the_batch_of_a_size_that_was_not_measured(sizes, gpus, batch):
    assert projection.default_batch(sizes, gpus) == batch


def test_one_size_that_is_left_out():
    for form in projection.FORMS:
        rate = by_numpy([NOISY[0], NOISY[2], NOISY[3]], form, 16, 96)[0]
        assert projection.left_out(NOISY, 16, form) == pytest.approx(rate / 930 - 1)
        assert projection.left_out(NOISY[:2], 16, form) is None
