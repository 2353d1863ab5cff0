"""Waiting for data, by a clock of our own."""

from __future__ import annotations

from tprimat.frameworks.encdec.data import DataWait


class FakeClock:
    """A stamp is a moment; it is ready once the device has come so far."""

    name = "fake"

    def __init__(self):
        self.now = 0.0
        self.device = float("inf")

    def mark(self):
        return self.now

    def is_ready(self, stamp):
        return stamp <= self.device

    def seconds(self, earlier, later):
        return later - earlier


def waited(waits, clock, *, before, during):
    clock.now += before
    waits.begin()
    clock.now += during
    waits.end()


def test_only_what_lies_between_the_marks_counts():
    clock = FakeClock()
    waits = DataWait(clock)
    for _ in range(4):
        waited(waits, clock, before=10.0, during=0.25)
    assert waits.take() == 1.0


def test_what_was_taken_counts_no_more():
    clock = FakeClock()
    waits = DataWait(clock)
    waited(waits, clock, before=0, during=2.0)
    assert waits.take() == 2.0
    waited(waits, clock, before=0, during=0.5)
    assert waits.take() == 0.5
    assert waits.take() == 0.0


def test_marks_that_the_device_has_not_passed_are_read_later():
    clock = FakeClock()
    clock.device = 1.5
    waits = DataWait(clock)
    waited(waits, clock, before=0, during=1.0)
    waited(waits, clock, before=0, during=1.0)
    assert waits.take() == 1.0
    clock.device = 2.0
    assert waits.take() == 1.0
