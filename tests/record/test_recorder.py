from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.record.recorder import Recorder, format_steps


class FakeClock:
    """A device whose marks are ready when the test says so. Times in s."""

    name = "fake"

    def __init__(self, skew=1.0):
        self.now = 100.0
        self.ready_until = float("inf")
        self.skew = skew
        self.hangs = False
        self.fails = False
        self.asked_to_wait = []

    def mark(self):
        if self.fails:
            raise RuntimeError(
                "CUDA error: an illegal memory access was encountered\nmore about it"
            )
        return self.now

    def is_ready(self, stamp):
        if self.fails:
            raise RuntimeError(
                "CUDA error: an illegal memory access was encountered\nmore about it"
            )
        return stamp <= self.ready_until

    def seconds(self, earlier, later):
        return (later - earlier) * self.skew

    def wait(self, stamp, timeout_s):
        self.asked_to_wait.append(timeout_s)
        if not self.hangs:
            self.ready_until = float("inf")
        return not self.hangs

    def host_ns(self):
        return round(self.now * 1e9)

    def advance(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return FakeClock()


def started(clock, **arguments):
    recorder = Recorder(clock, **arguments)
    recorder.start()
    return recorder


def step(recorder, clock, number, seconds, **arguments):
    clock.advance(seconds)
    recorder.step_end(number, **arguments)


def test_a_step_lasts_from_the_last_ones_end(clock):
    recorder = started(clock)
    for number, seconds in enumerate((5.0, 1.0, 2.0), 1):
        step(recorder, clock, number, seconds, learning_rate=0.1 * number)
    recorder.finish()
    assert [record.step for record in recorder.records] == [1, 2, 3]
    assert [record.seconds for record in recorder.records] == pytest.approx([5.0, 1.0, 2.0])
    assert [record.learning_rate for record in recorder.records] == pytest.approx([0.1, 0.2, 0.3])
    assert recorder.doubts == []


def test_a_pause_is_in_no_step_and_what_came_before_it_is(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0)
    clock.advance(0.5)  # half of step 2, as when validation strikes between micro-batches
    recorder.pause()
    clock.advance(60)
    recorder.pause()
    recorder.resume()
    recorder.resume()
    step(recorder, clock, 2, 0.25)
    recorder.finish()
    assert [record.seconds for record in recorder.records] == pytest.approx([1.0, 0.75])
    assert recorder.doubts == []


def test_c16_a_step_time_has_the_digits_of_its_clock(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0)
    clock.advance(0.1)
    recorder.pause()
    clock.advance(4.9)
    recorder.resume()
    # The two parts are floats, whose sum has digits of its own.
    step(recorder, clock, 2, 0.224721609)
    recorder.finish()
    assert recorder.records[1].seconds == 0.324721609


def test_pause_before_the_start_means_nothing(clock):
    recorder = Recorder(clock)
    recorder.pause()
    recorder.resume()
    recorder.finish()
    assert recorder.records == []
    recorder.start()
    step(recorder, clock, 1, 2.0)
    assert recorder.records[0].seconds == pytest.approx(2.0)


@given(
    st.lists(
        st.tuples(
            st.floats(1e-6, 1e4), st.sampled_from(["step", "pause", "resume"]), st.integers(0, 3)
        ),
        max_size=60,
    )
)
def test_steps_pauses_and_what_is_open_add_up_to_the_whole(events):
    clock = FakeClock()
    recorder = started(clock)
    first, last_end, paused, running, number = clock.now, clock.now, 0.0, True, 0
    pending = 0.0
    for seconds, what, lag in events:
        clock.advance(seconds)
        if not running:
            pending += seconds
        # The device lags behind the host by some marks.
        clock.ready_until = clock.now - lag
        if what == "step":
            number += 1
            recorder.step_end(number)
            last_end, paused, pending = clock.now, paused + pending, 0.0
        elif what == "pause":
            recorder.pause()
            running = False
        else:
            recorder.resume()
            running = True
    recorder.finish()
    assert [record.step for record in recorder.records] == list(range(1, number + 1))
    recorded = sum(record.seconds or 0.0 for record in recorder.records)
    assert recorded + paused == pytest.approx(last_end - first, rel=1e-9, abs=1e-6)


def test_steps_are_numbered_on_where_the_training_was_resumed(clock):
    recorder = Recorder(clock)
    recorder.start(step=40)
    step(recorder, clock, 41, 1.0)
    recorder.finish()
    assert recorder.records[0][:3] == (41, 1, pytest.approx(1.0))


def test_steps_that_end_together_share_their_time(clock):
    recorder = started(clock)
    step(recorder, clock, 2, 3.0)
    recorder.finish()
    assert recorder.records[0][:3] == (2, 2, pytest.approx(1.5))


def test_a_step_must_rise(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0)
    with pytest.raises(ValueError, match="step 1 ends after step 1"):
        recorder.step_end(1)


def test_nothing_waits_and_nothing_is_read_before_the_device_is_there(clock):
    clock.ready_until = 0.0
    read, seen = [], []
    recorder = started(clock, sink=seen.append)
    clock.asked_to_wait.clear()
    clock.ready_until = 0.0
    for number in (1, 2, 3):
        step(
            recorder,
            clock,
            number,
            1.0,
            values=lambda n=number: (read.append(n), (float(n), None))[1],
        )
    assert read == []
    assert seen == []
    clock.ready_until = clock.now - 1.5  # only the first
    step(recorder, clock, 4, 1.0)
    assert read == [1]
    assert [record.step for record in seen] == [1]
    assert clock.asked_to_wait == []
    recorder.finish()
    assert read == [1, 2, 3]
    assert [record.loss for record in recorder.records] == [1.0, 2.0, 3.0, None]
    assert seen == recorder.records


def test_marks_ready_out_of_order_are_taken_in_order(clock):
    ready = set()
    recorder = started(clock)
    clock.is_ready = lambda stamp: stamp in ready
    step(recorder, clock, 1, 1.0)
    first = clock.now
    step(recorder, clock, 2, 1.0)
    ready.add(clock.now)
    recorder.resolve()
    assert recorder.records == []
    ready.add(first)
    recorder.resolve()
    assert [record.seconds for record in recorder.records] == pytest.approx([1.0, 1.0])


def test_a_device_that_never_answers_costs_the_times_and_not_the_steps(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0, learning_rate=0.5)
    clock.ready_until, clock.hangs = clock.now, True
    step(recorder, clock, 2, 1.0, learning_rate=0.25, values=lambda: (1.0, 1.0))
    recorder.finish(timeout_s=5.0)
    assert clock.asked_to_wait[-1] == 5.0
    assert recorder.records[0].seconds == pytest.approx(1.0)
    assert recorder.records[1] == (2, 1, None, None, 0.25, None)
    assert [words(note) for note in recorder.doubts] == [
        "step 2 without time, loss and gradient norm: the device did not answer within 5 s",
    ]


def test_a_device_in_error_costs_the_times_and_not_the_steps(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0)
    clock.ready_until = clock.now
    step(recorder, clock, 2, 1.0)
    clock.fails = True
    recorder.finish(timeout_s=5.0)
    assert [record.step for record in recorder.records] == [1, 2]
    assert recorder.records[1].seconds is None
    assert [words(note) for note in recorder.doubts] == [
        "step 2 without time, loss and gradient norm: the device reports an error: "
        "CUDA error: an illegal memory access was encountered"
    ]


@pytest.mark.parametrize(
    ("skew", "doubtful"), [(1.0, False), (1.009, False), (1.02, True), (0.5, True)]
)
def test_the_clock_is_held_against_the_hosts(skew, doubtful):
    clock = FakeClock(skew=skew)
    recorder = started(clock)
    for number in range(1, 11):
        step(recorder, clock, number, 1.0)
    recorder.pause()
    clock.advance(10)
    recorder.resume()
    recorder.finish()
    assert (len(recorder.doubts) == 1) is doubtful
    if doubtful:
        assert words(recorder.doubts[0]) == (
            f"timer mismatch: fake {20 * skew:.3f} s, host clock 20.000 s; step times may be wrong"
        )


def test_a_training_of_a_few_milliseconds_is_not_doubted_for_the_waiting():
    clock = FakeClock(skew=0.9)
    recorder = started(clock)
    step(recorder, clock, 1, 0.005)
    recorder.finish()
    assert recorder.doubts == []


def test_values_that_are_not_finite_are_named_and_left_out(clock):
    recorder = started(clock)
    for number in range(1, 9):
        loss = float("nan") if number > 1 else 2.5
        step(recorder, clock, number, 1.0, values=lambda loss=loss: (loss, float("inf")))
    recorder.finish()
    assert [record.loss for record in recorder.records] == [2.5] + 7 * [None]
    fields = {"steps": "steps 2, 3, 4, 5, 6 and 2 more", "first": 2, "last": 8}
    assert recorder.notes == (Note("loss-not-finite", fields),)
    assert [words(note) for note in recorder.doubts] == [
        "gradient norm not finite (NaN or infinite) in steps 1, 2, 3, 4, 5 and 3 more",
    ]


def test_a_clock_that_stands_still_gives_no_time(clock):
    recorder = started(clock)
    recorder.step_end(1)
    step(recorder, clock, 2, 1.0)
    recorder.finish()
    assert [record.seconds for record in recorder.records] == [None, pytest.approx(1.0)]
    assert recorder.doubts == [Note("step-untimed", {"step": 1})]


@pytest.mark.parametrize("strikes_in", ["sink", "values"])
def test_an_interruption_between_two_lines_loses_and_doubles_nothing(clock, strikes_in):
    def interrupt(*_):
        if armed.pop("armed", False):
            raise KeyboardInterrupt
        return (1.0, None)

    armed = {}
    recorder = started(clock, sink=interrupt if strikes_in == "sink" else None)
    step(recorder, clock, 1, 1.0)
    armed["armed"] = True
    with pytest.raises(KeyboardInterrupt):
        step(recorder, clock, 2, 2.0, **({"values": interrupt} if strikes_in == "values" else {}))
    recorder.finish(timeout_s=5.0)
    assert [(record.step, record.seconds) for record in recorder.records] == [
        (1, pytest.approx(1.0)),
        (2, pytest.approx(2.0)),
    ]


def test_finishing_twice_changes_nothing(clock):
    recorder = started(clock)
    step(recorder, clock, 1, 1.0)
    recorder.finish()
    before = list(recorder.records)
    recorder.finish(timeout_s=1.0)
    assert recorder.records == before


def test_steps_for_people():
    assert format_steps([3]) == "step 3"
    assert format_steps([3, 4]) == "steps 3, 4"
    assert format_steps(range(1, 9)) == "steps 1, 2, 3, 4, 5 and 3 more"


def draw(recorder, clock, *, before, during):
    clock.advance(before)
    recorder.ask_for_data()
    clock.advance(during)
    recorder.take_data()


class TestWaitForData:
    def test_only_what_lies_between_the_marks_counts_and_each_step_has_its_own(self, clock):
        recorder = started(clock)
        for number, waits in enumerate(((0.25, 0.25), (0.5,), ()), 1):
            for seconds in waits:
                draw(recorder, clock, before=10.0, during=seconds)
            step(recorder, clock, number, 1.0)
        recorder.finish()
        assert recorder.waits == pytest.approx({1: 0.5, 2: 0.5, 3: 0.0})
        # A wait is a part of its step.
        assert [record.seconds for record in recorder.records] == pytest.approx([21.5, 11.5, 1.0])

    def test_a_loop_that_shows_no_wait_has_none(self, clock):
        recorder = started(clock)
        step(recorder, clock, 1, 1.0)
        recorder.finish()
        assert recorder.waits == {}

    def test_a_window_of_steps_has_the_sum(self, clock):
        recorder = started(clock)
        for _ in range(3):
            draw(recorder, clock, before=0.0, during=0.5)
        step(recorder, clock, 3, 1.0)
        recorder.finish()
        assert recorder.waits == pytest.approx({3: 1.5})

    def test_marks_that_the_device_has_not_passed_are_read_later(self, clock):
        recorder = started(clock)
        clock.ready_until = clock.now + 1.5
        draw(recorder, clock, before=0.0, during=1.0)
        step(recorder, clock, 1, 0.1)
        draw(recorder, clock, before=0.0, during=1.0)
        step(recorder, clock, 2, 0.1)
        assert recorder.waits == pytest.approx({1: 1.0})
        recorder.finish()
        assert recorder.waits == pytest.approx({1: 1.0, 2: 1.0})

    def test_in_a_pause_nothing_is_waited_for(self, clock):
        recorder = started(clock)
        draw(recorder, clock, before=0.0, during=1.0)
        recorder.pause()
        draw(recorder, clock, before=0.0, during=5.0)
        recorder.resume()
        step(recorder, clock, 1, 1.0)
        recorder.finish()
        assert recorder.waits == pytest.approx({1: 1.0})
