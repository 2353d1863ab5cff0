"""The time limit and how processes agree on it, with a clock that stands still until it is
moved.
"""

from __future__ import annotations

import pytest

from tprimat.frameworks.loops.processes import vote_of_the_first
from tprimat.frameworks.loops.time_limit import TimeLimit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_one_process_ends_after_the_step_that_reaches_it(clock):
    limit = TimeLimit(100, 10.0, 1, lambda over: over, clock)
    reached = []
    for step in range(1, 20):
        clock.now += 1.5
        reached.append(limit.reached(step))
    assert next(place + 1 for place, reason in enumerate(reached) if reason) == 7
    assert reached[6] == "7 of max_steps=100 steps: the time limit of 10.0 s was reached"


def test_several_look_ahead_to_when_they_next_agree(clock):
    limit = TimeLimit(100, 25.0, 4, lambda over: over, clock)
    ended = None
    for step in range(1, 60):
        clock.now += 1.0
        if limit.reached(step):
            ended = step
            break
    assert ended == 20


def test_several_agree_now_and_then(clock):
    agreed = []
    limit = TimeLimit(100, 25.0, 8, lambda over: bool(agreed.append((step, over))), clock)
    for step in range(1, 31):
        clock.now += 1.0
        assert limit.reached(step) is None
    assert agreed == [(1, False), (2, False), (10, False), (20, True), (30, True)]


def test_no_limit_and_the_last_step_ask_nobody(clock):
    def never(over):
        raise AssertionError("asked")

    clock.now = 1e9
    assert TimeLimit(10, None, 4, never, clock).reached(2) is None
    assert TimeLimit(10, 1.0, 4, never, clock).reached(10) is None


class Store:
    def __init__(self):
        self.entries = {}

    def set(self, key, value):
        self.entries[key] = value.encode()

    def get(self, key):
        return self.entries[key]

    def wait(self, keys, timeout):
        if not all(key in self.entries for key in keys):
            raise RuntimeError("timed out")


def test_the_first_process_decides_for_all():
    store = Store()
    first, second = (vote_of_the_first(store, rank) for rank in (0, 1))
    assert [first(False), first(True)] == [False, True]
    assert [second(True), second(False)] == [False, True]


def test_a_first_process_that_is_gone_is_an_error():
    with pytest.raises(RuntimeError):
        vote_of_the_first(Store(), 1)(True)


def test_without_a_store_each_decides_by_itself():
    assert vote_of_the_first(None, 3)(True) is True
