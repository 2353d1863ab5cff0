"""Events of a log: what marks they leave, with which times."""

from __future__ import annotations

import pytest

from tprimat.read.parsing.events import Events, Mark, event_in, has_sign
from tprimat.read.parsing.records import LogContext

NOON = 1772366400.0
"""2026-03-01 12:00:00 on a clock without an offset."""


def moment(seconds: float, clock: bool = False):
    return (NOON + seconds, clock)


@pytest.mark.parametrize(
    ("text", "at", "mark"),
    [
        ("nothing", None, None),
        ("2026-03-01 12:00:07 nothing", moment(7), None),
        ("2026-03-01T12:00:07Z nothing", moment(7, True), None),
        ("2025-01-01 00:00:00 a 2026-03-01 12:00:09 b", moment(9), None),
        # The time of a line stands in its first hundred characters.
        ("x" * 81 + " 2026-03-01 12:00:07", None, None),
        ("x" * 81 + "2026-03-01 12:00:07", moment(7), None),
        ("1926-03-01 12:00:07 nothing", None, None),
        (
            "2026-03-01 12:00:07 saving checkpoint at iteration   30 to /x",
            moment(7), Mark("checkpoint", "begins", 0, moment(7), None, 30),
        ),
        # The step before the first one; ms as s.
        ("Training starts at step 31", None, Mark("resume", "", 0, None, None, 30)),
        ("save-checkpoint ....: (1.5, 2500.5)", None, Mark("checkpoint", "", 0, None, 2.5005, None)),
        ("Last step checkpoint completed in 2.25s", None, Mark("checkpoint", "ends", 0, None, 2.25, None)),
        ("validate step:  40  loss: 3", None, Mark("evaluation", "ends", 0, None, None, 40)),
        ("a checkpoint is a file", None, None),
        ("x" * 1968 + " saving checkpoint at iteration 7", None, None),
        ("x" * 1967 + " saving checkpoint at iteration 7", None, Mark("checkpoint", "begins", 0, None, None, 7)),
    ],
)  # fmt: skip
def test_what_a_line_tells(text, at, mark):
    assert event_in(text) == (at, mark)


def test_signs():
    assert [has_sign(text, ("ab", "cd")) for text in ("xaby", "cd", "acbd", "")] == [
        True,
        True,
        False,
        False,
    ]


def fed(*lines: str) -> Events:
    events = Events()
    for number, text in enumerate(lines, 11):
        events.feed(number, text)
    return events


def said(seconds: int, text: str = "") -> str:
    return f"2026-03-01 12:{seconds // 60:02}:{seconds % 60:02} {text}"


def test_times_of_a_stretch_and_its_longest_silence():
    events = fed(said(5), said(6), "x", said(36), said(46), said(76), said(77), said(110))
    assert events == Events(
        first=moment(5),
        last=moment(110),
        silence=(moment(77), moment(110)),
        stamps=[(11, moment(5)), (18, moment(110))],
    )
    # Of two that are equally long the first one.
    assert fed(said(5), said(6), said(36), said(46), said(76)).silence == (moment(6), moment(36))


def test_two_clocks_have_no_silence_between_them():
    events = fed(said(5), "2026-03-01T12:10:00Z", said(600), said(601))
    assert (events.first, events.last, events.silence) == (
        moment(5),
        moment(601),
        (moment(600), moment(601)),
    )


def start(line: int, at, first, silence) -> Mark:
    return Mark("start", "begins", line, at, None, None, first, silence)


def test_a_start_gets_the_next_time_and_what_was_before_it():
    events = fed(said(5), said(65), said(70), "-- arguments --", said(75), said(200), said(201))
    # The silence right before it lasts 5 s of 60, which is less than a tenth.
    assert events.marks == [start(14, moment(75), moment(5), (moment(5), moment(65)))]
    assert (events.silence, events._open) == ((moment(75), moment(200)), ())


@pytest.mark.parametrize(("seconds", "silence"), [(6, (5, 65)), (7, (65, 72))])
def test_a_tenth_of_the_longest_silence_right_before_a_start_is_its_own(seconds, silence):
    events = fed(said(5), said(65), "-- arguments --", said(65 + seconds))
    assert events.marks == [start(13, moment(65 + seconds), moment(5), tuple(map(moment, silence)))]


def test_a_start_with_a_time_of_its_own():
    events = fed(said(5), said(40, "Starting job: x"), said(50))
    assert events.marks == [start(12, moment(40), moment(5), (moment(5), moment(40)))]
    assert events.silence == (moment(40), moment(50))


def test_starts_that_follow_each_other():
    events = fed(said(5), "-- arguments --", "time to initialize megatron (seconds): 7.5", said(65))
    assert events.marks == [
        start(12, moment(65), moment(5), (moment(5), moment(65))),
        Mark("started", "ends", 13, moment(65), 7.5, None, moment(5), (moment(5), moment(65))),
    ]


def test_a_restart_without_a_line_of_its_own():
    events = fed(said(5), said(65), "saving checkpoint at iteration 7")
    events.restart(99)
    events.restart(100)
    silence = (moment(5), moment(65))
    assert events.marks == [
        Mark("checkpoint", "begins", 13, None, None, 7),
        start(99, None, moment(5), silence),
    ]
    assert events.silence is None


def test_stretches_one_behind_the_other():
    one, later = (
        fed(said(5), "saving checkpoint at iteration 7"),
        fed(said(65), said(70), "-- arguments --"),
    )
    one.absorb(later)
    assert one == Events(
        marks=[
            Mark("checkpoint", "begins", 12, None, None, 7),
            start(13, None, moment(65), (moment(65), moment(70))),
        ],
        first=moment(5),
        last=moment(70),
        stamps=[(11, moment(5)), (11, moment(65)), (12, moment(70))],
    )
    empty = Events()
    empty.absorb(fed(said(65), said(70)))
    assert (empty.first, empty.last) == (moment(65), moment(70))
    empty.absorb(Events())
    assert (empty.first, empty.last) == (moment(65), moment(70))


def test_events_alone_are_absorbed_without_the_times():
    one = fed(said(5))
    one.absorb_marks(fed(said(65), "-- arguments --"))
    assert (one.first, one.last, len(one.marks), len(one.stamps)) == (moment(5), moment(5), 1, 2)


@pytest.mark.parametrize(("label", "hints"), [("memory", 1), ("gpu_memory", 0), ("xmemory", 0)])
def test_scarce_memory_by_its_own_label(label, hints):
    context = LogContext()
    context.feed(3, f"step: 1  {label}: 134.43GiB(96.21%)")
    assert len(context.hinted) == hints
