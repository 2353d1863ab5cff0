"""Rates of repeated operations, by a clock that the test moves."""

from __future__ import annotations

import math

import pytest

from tprimat.preflight.kernels import Kernel
from tprimat.preflight.timing import WINDOW_S, rate_of, repeat


class Clock:
    """A device whose operation takes as long as a function of the time says."""

    def __init__(self, seconds_at):
        self.now = 0.0
        self.calls = 0
        self._seconds_at = seconds_at

    def run(self):
        self.calls += 1
        self.now += self._seconds_at(self.now)

    def mark(self):
        return self.now

    def seconds(self, start, end):
        return end - start

    def wait(self, stamp, timeout_s):
        return True


def test_a_steady_operation():
    clock = Clock(lambda now: 0.01)
    rates = repeat(Kernel(clock.run, 2.0), clock, 2.0)
    assert rates == [pytest.approx(200.0)] * 8
    assert len(rates) * WINDOW_S == 2.0
    found = rate_of(rates, "8×8×8")
    assert (found.median, found.mean, found.best, found.shape) == (
        *[pytest.approx(200.0)] * 3,
        "8×8×8",
    )
    assert (found.error, found.drop) == (pytest.approx(0.0, abs=1e-9), pytest.approx(0.0, abs=1e-9))


def test_heat_shows_as_a_drop():
    clock = Clock(lambda now: 0.01 if now < 5.0 else 0.0125)
    found = rate_of(repeat(Kernel(clock.run, 1.0), clock, 10.0))
    assert found.best == pytest.approx(100.0)
    assert found.drop == pytest.approx(0.2)
    # All work over all time.
    assert found.mean == pytest.approx(90.0, rel=0.01)


def test_an_operation_that_takes_longer_than_a_window_is_timed_several_times():
    clock = Clock(lambda now: 7.0)
    assert repeat(Kernel(clock.run, 1.0), clock, 1.0) == [pytest.approx(1 / 7)] * 4


def test_a_time_of_zero_is_short_too():
    clock = Clock(lambda now: 0.01)
    assert len(repeat(Kernel(clock.run, 1.0), clock, 0.0)) == 4
    assert clock.calls < 10


def test_the_error_of_the_median():
    # Deviations of 10 around 100: MAD 10, robust sigma 14.826, of the median 1.2533 × that / √4.
    assert rate_of([90.0, 110.0, 90.0, 110.0]).error == pytest.approx(
        1.2533 * 14.826 / math.sqrt(4) / 100
    )
