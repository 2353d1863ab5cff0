"""The timeline of a log, entry by entry: each kind of event with and without times, restarts, the
end.
"""

from __future__ import annotations

import datetime

import pytest

from tprimat.notes.catalogue import note_of, words
from tprimat.read.parsing import timeline
from tprimat.read.parsing.events import Events, Mark
from tprimat.read.parsing.placing import Row
from tprimat.results.account import Entry


def moment(at: float | None):
    return None if at is None else (at, False)


def mark(kind, phase, line, at=None, seconds=None, step=None, first=None, silence=None) -> Mark:
    silence = silence and (moment(silence[0]), moment(silence[1]))
    return Mark(kind, phase, line, moment(at), seconds, step, moment(first), silence)


def events(*marks: Mark, first=None, last=None, stamps=()) -> Events:
    return Events([*marks], moment(first), moment(last), None, [*stamps])


def rows(*each: tuple, clock=False, resolution: float = 1e-3) -> list:
    """Step, line, time, seconds, window and latest time of each."""
    return [(Row(*row), clock, resolution) for row in each]


def told(entries) -> list[tuple]:
    """Kind, start, duration, first and last step, line and note of each."""
    return [
        (e.kind, e.start, e.duration, e.first_step, e.last_step, e.line, e.note) for e in entries
    ]


PLAIN = [(step, 10 * step, 100.0 + 2 * step, 2.0, 1) for step in (1, 2, 3, 4)]
"""Steps of 2 s from 100 on."""
PAUSED = [
    (1, 10, 102.0, 2.0, 1),
    (2, 20, 104.0, 2.0, 1),
    (3, 30, 113.0, 2.0, 1),
    (4, 40, 115.0, 2.0, 1),
]
"""7 s between the second and the third."""
TENS = [(step, step, 100.0 + 2 * step, 2.0, 10) for step in (10, 20, 30)]
AGAIN = [(3, 60, 206.0, 2.0, 1), (4, 70, 208.0, 2.0, 1), (5, 80, 210.0, 2.0, 1)]
"""Steps of another attempt."""
LONG = [(step, 10 * step, 100.0 + 10 * step, 10.0, 1) for step in range(1, 6)]

START = mark("start", "begins", 50, 190.0, first=190.0)


@pytest.mark.parametrize(
    ("written", "around", "entries"),
    [
        # The log tells when it begins and ends, on the clock of its records.
        (rows(*PLAIN), events(), [("training", 0.0, 8.0, 1, 4, 10, None)]),
        (
            rows(*PLAIN),
            events(first=90.0, last=120.0),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("training", 10.0, 8.0, 1, 4, 10, None),
                ("end", 18.0, 12.0, None, None, None, None),
            ],
        ),
        (rows(*PLAIN), events(first=103.0, last=107.0), [("training", 0.0, 8.0, 1, 4, 10, None)]),
        (
            rows(*PLAIN),
            Events(first=(90.0, True), last=(120.0, True)),
            [("training", 0.0, 8.0, 1, 4, 10, None)],
        ),
        (
            rows(*PLAIN[:1]),
            events(first=90.0),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("training", 10.0, 2.0, 1, 1, 10, None),
            ],
        ),
        (
            rows((1, 10, 102.0)),
            events(first=90.0, last=103.0),
            [
                ("unknown", 0.0, 12.0, None, None, None, None),
                ("end", 12.0, 1.0, None, None, None, None),
            ],
        ),
        # If it begins within the first steps, their time is unknown: from half of it on.
        (
            rows(*TENS),
            events(first=90.0),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("training", 10.0, 60.0, 1, 30, 10, None),
            ],
        ),
        (rows(*TENS), events(first=110.0), [("training", 0.0, 50.0, 11, 30, 10, None)]),
        (rows(*TENS), events(first=109.75), [("training", 0.0, 50.25, 1, 30, 10, None)]),
        # More time than the steps take is unknown from a tenth, and the resolution, on.
        (rows(*LONG, (6, 60, 161.0, 10.0, 1)), events(), [("training", 0.0, 61.0, 1, 6, 10, None)]),
        (
            rows(*LONG, (6, 60, 161.25, 10.0, 1)),
            events(),
            [
                ("training", 0.0, 50.0, 1, 5, 10, None),
                ("unknown", 50.0, 1.25, None, None, 50, None),
                ("training", 51.25, 10.0, 6, 6, 60, None),
            ],
        ),
        (
            rows(*LONG, (6, 60, 161.5, 10.0, 1), resolution=1.5),
            events(),
            [("training", 0.0, 61.5, 1, 6, 10, None)],
        ),
        (
            rows(*LONG, (6, 60, 161.75, 10.0, 1), resolution=1.5),
            events(),
            [
                ("training", 0.0, 50.0, 1, 5, 10, None),
                ("unknown", 50.0, 1.75, None, None, 50, None),
                ("training", 51.75, 10.0, 6, 6, 60, None),
            ],
        ),
        (rows(*LONG, (6, 60, 165.0, None, 1)), events(), [("training", 0.0, 65.0, 1, 6, 10, None)]),
        (
            rows(*LONG, (6, 60, 165.0, 10.0, None)),
            events(),
            [("training", 0.0, 65.0, 1, 6, 10, None)],
        ),
        (
            rows(*LONG, (8, 60, 185.0, 10.0, 3)),
            events(),
            [
                ("training", 0.0, 50.0, 1, 5, 10, None),
                ("unknown", 50.0, 5.0, None, None, 50, None),
                ("training", 55.0, 30.0, 6, 8, 60, None),
            ],
        ),
        (rows(*LONG, (8, 60, 185.0, 10.0, 2)), events(), [("training", 0.0, 85.0, 1, 8, 10, None)]),
        # A timer misses a part of each step; without one the times of the lines tell how long a
        # step takes.
        (
            rows(
                *[(step, 10 * step, 100.0 + 2.5 * step, 2.0, 1) for step in range(1, 7)],
                (7, 70, 120.0, 2.0, 1),
            ),
            events(first=90.0),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("training", 10.0, 15.0, 1, 6, 10, None),
                ("unknown", 25.0, 2.5, None, None, 60, None),
                ("training", 27.5, 2.5, 7, 7, 70, None),
            ],
        ),
        (
            rows(*[(step, 10 * step, 100.0 + 1.5 * step, 2.0, 1) for step in range(1, 7)]),
            events(first=90.0),
            [
                ("start-up", 0.0, 9.5, None, None, None, None),
                ("training", 9.5, 9.5, 1, 6, 10, None),
            ],
        ),
        (
            rows(*[(step, 10 * step, 100.0 + 2.5 * step) for step in range(1, 5)]),
            events(first=90.0),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("training", 10.0, 10.0, 1, 4, 10, None),
            ],
        ),
        (
            rows(*[(step, 10 * step, 100.0 + 2.5 * step) for step in (5, 6, 8, 10, 12)]),
            events(first=90.0),
            [
                ("start-up", 0.0, 17.5, None, None, None, None),
                ("training", 17.5, 22.5, 4, 12, 50, None),
            ],
        ),
        (rows((5, 10, 150.0)), events(mark("evaluation", "", 4), first=100.0), []),
        # An event with both of its times, one, or none; with its duration, also a longer one than
        # there is time.
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21, 104.5), mark("checkpoint", "ends", 22, 111.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21, 106.5), mark("checkpoint", "ends", 22, 112.0)),
            [
                ("training", 0.0, 6.0, 1, 3, 10, None),
                ("checkpoint", 6.0, 7.0, None, None, 21, None),
                ("training", 13.0, 2.0, 4, 4, 40, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21, 104.5)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "ends", 21, 112.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "", 21, None, 4.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "", 21, None, 6.875)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 6.875, None, None, 21, None),
                ("training", 10.875, 4.125, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "", 21, None, 40.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 9.0, None, None, 21, None),
                ("training", 13.0, 2.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(
                mark("checkpoint", "", 21, None, 2.0),
                mark("checkpoint", "", 22, None, 1.5),
                mark("resume", "", 23),
            ),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "", 20), mark("checkpoint", "", 30)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("unknown", 4.0, 7.0, None, None, 20, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        # Two of them: the known one has its time, and of two unknown ones nothing tells which took
        # it.
        (
            rows(*PAUSED),
            events(mark("evaluation", "", 21, None, 4.0), mark("checkpoint", "begins", 22)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("evaluation", 4.0, 4.0, None, None, 21, None),
                ("checkpoint", 8.0, 3.0, None, None, 22, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("evaluation", "", 21, None, 1.0), mark("checkpoint", "", 22, None, 3.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("evaluation", 4.0, 1.0, None, None, 21, None),
                ("checkpoint", 5.0, 6.0, None, None, 22, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("evaluation", "", 21), mark("checkpoint", "begins", 22)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("unknown", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
            ],
        ),
        (
            rows(
                *[
                    (s, 10 * s, 100.0 + 2 * s + 5 * (s > 3) + 9 * (s > 5), 2.0, 1)
                    for s in range(1, 8)
                ]
            ),
            events(
                mark("checkpoint", "begins", 31),
                mark("evaluation", "", 51),
                mark("checkpoint", "begins", 52),
            ),
            [
                ("training", 0.0, 6.0, 1, 3, 10, None),
                ("checkpoint", 6.0, 5.0, None, None, 31, None),
                ("training", 11.0, 4.0, 4, 5, 40, None),
                ("evaluation", 15.0, 4.0, None, None, 51, None),
                ("checkpoint", 19.0, 5.0, None, None, 52, None),
                ("training", 24.0, 4.0, 6, 7, 60, None),
            ],
        ),
        (
            rows(
                *[
                    (s, 10 * s, 100.0 + 2 * s + 5 * (s > 3) + 3 * (s > 5), 2.0, 1)
                    for s in range(1, 8)
                ]
            ),
            events(
                mark("checkpoint", "begins", 31),
                mark("evaluation", "", 51),
                mark("checkpoint", "begins", 52),
            ),
            [
                ("training", 0.0, 6.0, 1, 3, 10, None),
                ("checkpoint", 6.0, 5.0, None, None, 31, None),
                ("training", 11.0, 4.0, 4, 5, 40, None),
                ("checkpoint", 15.0, 3.0, None, None, 52, None),
                ("training", 18.0, 4.0, 6, 7, 60, None),
            ],
        ),
        # Within the steps of a record: behind the step that it states, or where its time lies.
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 150.0, 2.0, 10)),
            events(mark("checkpoint", "begins", 12, None, 10.0, 14)),
            [
                ("training", 0.0, 28.0, 1, 14, 10, None),
                ("checkpoint", 28.0, 10.0, None, None, 12, None),
                ("training", 38.0, 12.0, 15, 20, 20, None),
            ],
        ),
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 150.0, 2.0, 10)),
            events(mark("checkpoint", "begins", 12, None, 10.0, 40)),
            [
                ("training", 0.0, 40.0, 1, 20, 10, None),
                ("checkpoint", 40.0, 10.0, None, None, 12, None),
            ],
        ),
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 150.0, 2.0, 10)),
            events(mark("checkpoint", "begins", 12, 128.0), mark("checkpoint", "ends", 13, 138.0)),
            [
                ("training", 0.0, 28.0, 1, 14, 10, None),
                ("checkpoint", 28.0, 10.0, None, None, 12, None),
                ("training", 38.0, 12.0, 15, 20, 20, None),
            ],
        ),
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 150.0, 2.0, 10)),
            events(mark("checkpoint", "ends", 13, 138.0, 10.0)),
            [
                ("training", 0.0, 28.0, 1, 14, 10, None),
                ("checkpoint", 28.0, 10.0, None, None, 13, None),
                ("training", 38.0, 12.0, 15, 20, 20, None),
            ],
        ),
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 156.0, 2.0, 10)),
            events(
                mark("evaluation", "", 12, None, 6.0, 13),
                mark("checkpoint", "begins", 14, None, 10.0, 17),
            ),
            [
                ("training", 0.0, 26.0, 1, 13, 10, None),
                ("evaluation", 26.0, 6.0, None, None, 12, None),
                ("training", 32.0, 8.0, 14, 17, 20, None),
                ("checkpoint", 40.0, 10.0, None, None, 14, None),
                ("training", 50.0, 6.0, 18, 20, 20, None),
            ],
        ),
        (
            rows((10, 10, 120.0, 2.0, 10), (20, 20, 156.0, 2.0, 10)),
            events(
                mark("evaluation", "", 12, None, 6.0, 17),
                mark("checkpoint", "begins", 14, None, 10.0, 13),
            ),
            [
                ("training", 0.0, 34.0, 1, 17, 10, None),
                ("evaluation", 34.0, 6.0, None, None, 12, None),
                ("checkpoint", 40.0, 10.0, None, None, 14, None),
                ("training", 50.0, 6.0, 18, 20, 20, None),
            ],
        ),
        # What comes behind the last record.
        (
            rows(*PLAIN),
            events(
                mark("checkpoint", "begins", 41, 109.0),
                mark("checkpoint", "ends", 42, 112.0),
                last=118.0,
            ),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None),
                ("end", 8.0, 1.0, None, None, None, None),
                ("checkpoint", 9.0, 3.0, None, None, 41, None),
                ("end", 12.0, 6.0, None, None, None, None),
            ],
        ),
        (
            rows(*PLAIN),
            events(mark("checkpoint", "begins", 41), last=118.0),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None),
                ("checkpoint", 8.0, 10.0, None, None, 41, None),
            ],
        ),
        (
            rows(*PLAIN),
            events(mark("checkpoint", "ends", 41, 112.0), last=118.0),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None),
                ("checkpoint", 8.0, 4.001, None, None, 41, None),
                ("end", 12.001, 5.999, None, None, None, None),
            ],
        ),
        (
            rows(*PLAIN),
            events(mark("evaluation", "", 41), mark("checkpoint", "ends", 42, 112.0), last=118.0),
            [("training", 0.0, 8.0, 1, 4, 10, None), ("unknown", 8.0, 10.0, None, None, 41, None)],
        ),
        (
            rows(*PLAIN),
            events(
                mark("evaluation", "", 41, None, 3.0),
                mark("checkpoint", "ends", 42, 115.0),
                last=118.0,
            ),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None),
                ("evaluation", 8.0, 3.0, None, None, 41, None),
                ("checkpoint", 11.0, 4.001, None, None, 42, None),
                ("end", 15.001, 2.999, None, None, None, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21), mark("checkpoint", "begins", 41), last=125.0),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
                ("checkpoint", 15.0, 7.0, None, None, 41, None),
                ("end", 22.0, 3.0, None, None, None, None),
            ],
        ),
        (
            rows(*PAUSED),
            events(mark("checkpoint", "begins", 21), mark("checkpoint", "begins", 41), last=117.0),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("training", 11.0, 4.0, 3, 4, 30, None),
                ("checkpoint", 15.0, 2.0, None, None, 41, None),
            ],
        ),
        # Before the first one.
        (
            rows((5, 10, 150.0, 2.0, 1), (6, 20, 152.0, 2.0, 1)),
            events(
                mark("start", "begins", 2, 100.0, first=100.0),
                mark("evaluation", "", 4, None, 20.0),
                mark("resume", "", 5, None, None, 3),
                first=100.0,
            ),
            [
                ("evaluation", 0.0, 20.0, None, None, 4, None),
                ("start-up", 20.0, 26.0, None, None, None, None),
                ("training", 46.0, 6.0, 4, 6, 10, None),
            ],
        ),
        (
            rows((5, 10, 150.0, 2.0, 1), (6, 20, 152.0, 2.0, 1)),
            events(
                mark("evaluation", "begins", 4, 110.0),
                mark("evaluation", "ends", 5, 130.0),
                first=100.0,
            ),
            [
                ("start-up", 0.0, 10.0, None, None, None, None),
                ("evaluation", 10.0, 20.0, None, None, 4, None),
                ("start-up", 30.0, 18.0, None, None, None, None),
                ("training", 48.0, 4.0, 5, 6, 10, None),
            ],
        ),
        (
            rows((5, 10, 150.0, 2.0, 1), (6, 20, 152.0, 2.0, 1)),
            events(mark("resume", "", 5, None, None, 5), first=100.0),
            [
                ("start-up", 0.0, 48.0, None, None, None, None),
                ("training", 48.0, 4.0, 5, 6, 10, None),
            ],
        ),
        (
            rows((5, 10, 150.0, 2.0, 1), (6, 20, 152.0, 2.0, 1)),
            events(
                mark("resume", "", 5, None, None, 1),
                mark("resume", "", 6, None, None, 2),
                mark("resume", "", 7),
                first=100.0,
            ),
            [
                ("start-up", 0.0, 44.0, None, None, None, None),
                ("training", 44.0, 8.0, 3, 6, 10, None),
            ],
        ),
        (
            rows((5, 10, 150.0, 2.0), (7, 20, 154.0, 2.0), (9, 30, 158.0, 2.0)),
            events(first=100.0),
            [
                ("start-up", 0.0, 46.0, None, None, None, None),
                ("training", 46.0, 12.0, 4, 9, 10, None),
            ],
        ),
        # Another attempt: from when on no process ran, by the line of its start and the silence
        # before it.
        (
            rows(*PLAIN, *AGAIN),
            events(START),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 82.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(mark("start", "begins", 50, 190.0, silence=(110.0, 190.0))),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 2.0, None, None, None, "without another step after step 4"),
                ("lost", 10.0, 80.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(mark("start", "begins", 50, 190.0, first=150.0, silence=(160.0, 190.0))),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 42.0, None, None, None, "down after step 4"),
                ("start-up", 50.0, 54.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(mark("start", "begins", 50)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 96.0, None, None, None, "down after step 4"),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("resume", "", 55, 200.0, None, 1)),
            [
                ("training", 0.0, 2.0, 1, 1, 10, None),
                ("lost", 2.0, 6.0, 2, 4, 10, "done twice"),
                ("lost", 8.0, 82.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 12.0, None, None, None, None),
                ("training", 102.0, 8.0, 2, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(
                mark("start", "begins", 50, 130.0, first=130.0),
                mark("start", "begins", 55, 190.0, silence=(140.0, 190.0)),
            ),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 22.0, None, None, None, "down after step 4"),
                ("start-up", 30.0, 10.0, None, None, None, None),
                ("lost", 40.0, 50.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(
                mark("start", "begins", 50, 130.0, first=130.0),
                mark("start", "begins", 55, 190.0, silence=(185.0, 190.0)),
            ),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 22.0, None, None, None, "down after step 4"),
                ("start-up", 30.0, 55.0, None, None, None, None),
                ("lost", 85.0, 5.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(
                mark("start", "begins", 50, 130.0, first=130.0),
                mark("start", "begins", 55, 190.0, silence=(185.125, 190.0)),
            ),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 22.0, None, None, None, "down after step 4"),
                ("start-up", 30.0, 74.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("start", "begins", 51, 190.0, first=190.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 82.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("started", "ends", 52, 190.0, 30.0, None, 190.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 52.0, None, None, None, "down after step 4"),
                ("start-up", 60.0, 44.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("started", "ends", 52, 191.0, 30.0, None, 190.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 82.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("started", "ends", 52, 190.0, 300.0, None, 190.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("start-up", 8.0, 96.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN),
            events(START, mark("started", "ends", 52, 190.0)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("lost", 8.0, 82.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PAUSED, *AGAIN),
            events(mark("checkpoint", "begins", 21), mark("checkpoint", "begins", 45), START),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("checkpoint", 4.0, 7.0, None, None, 21, None),
                ("lost", 11.0, 4.0, 3, 4, 30, "done twice"),
                ("checkpoint", 15.0, 7.0, None, None, 45, None),
                ("lost", 22.0, 68.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
            ],
        ),
        (
            rows(*PLAIN, *AGAIN, (6, 90, 219.0, 2.0, 1)),
            events(mark("evaluation", "", 45), START, mark("evaluation", "", 85)),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("lost", 4.0, 4.0, 3, 4, 10, "done twice"),
                ("evaluation", 8.0, 7.0, None, None, 45, None),
                ("lost", 15.0, 75.0, None, None, None, "down after step 4"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 6.0, 3, 5, 60, None),
                ("evaluation", 110.0, 7.0, None, None, 85, None),
                ("training", 117.0, 2.0, 6, 6, 90, None),
            ],
        ),
        # It goes on behind the last record: these steps were saved, up to the checkpoint if it has
        # a time.
        (
            rows(*PLAIN, (9, 60, 206.0, 2.0, 1), (10, 70, 208.0, 2.0, 1)),
            events(START, mark("resume", "", 55, 200.0, None, 8)),
            [
                ("training", 0.0, 16.0, 1, 8, 10, None),
                ("lost", 16.0, 74.0, None, None, None, "down after step 8"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 4.0, 9, 10, 60, None),
            ],
        ),
        (
            rows(*PLAIN, (9, 60, 206.0, 2.0, 1), (10, 70, 208.0, 2.0, 1)),
            events(
                mark("checkpoint", "begins", 45, 113.0),
                mark("checkpoint", "ends", 46, 114.0),
                START,
                mark("resume", "", 55, 200.0, None, 8),
            ),
            [
                ("training", 0.0, 13.0, 1, 8, 10, None),
                ("checkpoint", 13.0, 1.0, None, None, 45, None),
                ("lost", 14.0, 76.0, None, None, None, "down after step 8"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 4.0, 9, 10, 60, None),
            ],
        ),
        (
            rows(*PLAIN, (9, 60, 206.0, 2.0, 1), (10, 70, 208.0, 2.0, 1)),
            events(
                mark("checkpoint", "begins", 45),
                mark("evaluation", "begins", 46, 111.0),
                START,
                mark("resume", "", 55, 200.0, None, 8),
            ),
            [
                ("training", 0.0, 16.0, 1, 8, 10, None),
                ("lost", 16.0, 74.0, None, None, None, "down after step 8"),
                ("start-up", 90.0, 14.0, None, None, None, None),
                ("training", 104.0, 4.0, 9, 10, 60, None),
            ],
        ),
        # A record that may have been printed later.
        (
            rows(
                (1, 10, 102.0, 2.0, 1, None), (2, 20, 104.0, 2.0, 1, 107.0), (3, 30, 109.0, 2.0, 1)
            ),
            events(),
            [
                ("training", 0.0, 4.0, 1, 2, 10, None),
                ("unknown", 4.0, 3.0, None, None, 20, None),
                ("training", 7.0, 2.0, 3, 3, 30, None),
            ],
        ),
        # Other clocks: the time since the start, several of them, none.
        (
            rows((5, 0, 10.0, 2.0, 1), (6, 0, 12.0, 2.0, 1), clock="elapsed"),
            events(mark("start", "begins", 0, 7.0), first=7.0),
            [
                ("start-up", 0.0, 8.0, None, None, None, None),
                ("training", 8.0, 4.0, 5, 6, None, None),
            ],
        ),
        (rows((5, 1, 10.0, 2.0, 1), (6, 2, 9.0, 2.0, 1), clock="elapsed"), events(), []),
        (
            [*rows(*PLAIN[:2]), (Row(3, 30, 7.0, 2.0, 1), True, 1.0)],
            events(),
            [("training", 0.0, 4.0, 1, 2, 10, None)],
        ),
        (
            rows((1, 10, 0.0, 2.0, 1), (2, 20, 0.0, 3.0, 1), clock=None),
            events(
                mark("checkpoint", "ends", 15, None, 4.0),
                mark("evaluation", "", 25, None, 6.0),
                mark("evaluation", "", 26),
            ),
            [
                ("checkpoint", 2.0, 4.0, None, None, 15, None),
                ("evaluation", 9.0, 6.0, None, None, 25, None),
            ],
        ),
    ],
)
def test_entries(written, around, entries):
    assert told(timeline.build_timeline(written, around)) == entries


DOWN = [("training", 0.0, 4.0, 1, 2, 10, None), ("lost", 4.0, 4.0, 3, 4, 10, "done twice")]
UP = [("start-up", 90.0, 14.0, None, None, None, None), ("training", 104.0, 6.0, 3, 5, 60, None)]
SAVED = [
    ("training", 0.0, 4.0, 1, 2, 10, None), ("checkpoint", 4.0, 7.0, None, None, 21, None),
    ("lost", 11.0, 4.0, 3, 4, 30, "done twice"),
]  # fmt: skip
LATE = mark("start", "begins", 50, 190.0, first=190.0, silence=(121.0, 189.5))


@pytest.mark.parametrize(
    ("written", "around", "entries"),
    [
        # A record without a window, and two at one time since the start.
        (rows((1, 10, 102.0, 2.0), (2, 20, 104.0, 2.0)), events(), [("training", 0.0, 4.0, 1, 2, 10, None)]),
        (
            rows((5, 1, 10.0, 2.0, 1), (6, 2, 10.0, 2.0, 1), clock="elapsed"),
            events(),
            [("start-up", 0.0, 8.0, None, None, None, None), ("training", 8.0, 2.0, 5, 6, 1, None)],
        ),
        # An event is over when its line says so, and a tenth more than the steps take is none of
        # its.
        (
            rows(*PLAIN),
            events(mark("checkpoint", "ends", 41, 112.0, 6.0), last=118.0),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None), ("checkpoint", 8.0, 4.001, None, None, 41, None),
                ("end", 12.001, 5.999, None, None, None, None),
            ],
        ),
        (
            rows(*LONG, (6, 60, 168.0, 10.0, 1)),
            events(mark("checkpoint", "", 51, None, 7.0)),
            [
                ("training", 0.0, 50.0, 1, 5, 10, None), ("checkpoint", 50.0, 7.0, None, None, 51, None),
                ("training", 57.0, 11.0, 6, 6, 60, None),
            ],
        ),
        # Of several beginnings the first counts, of several ends the last.
        (
            rows(*PLAIN),
            events(
                mark("checkpoint", "begins", 41, 109.0), mark("checkpoint", "ends", 42, 110.0),
                mark("checkpoint", "begins", 43, 111.0), mark("checkpoint", "ends", 44, 113.0), last=118.0,
            ),
            [
                ("training", 0.0, 8.0, 1, 4, 10, None), ("end", 8.0, 1.0, None, None, None, None),
                ("checkpoint", 9.0, 4.0, None, None, 41, None), ("end", 13.0, 5.0, None, None, None, None),
            ],
        ),
        # In lost time an event of unknown duration has none, unless others of its kind have one.
        (
            rows(*PLAIN, *AGAIN),
            events(mark("checkpoint", "ends", 45, 112.0), START),
            [*DOWN, ("lost", 8.0, 82.0, None, None, None, "down after step 4"), *UP],
        ),
        # What was going on before the start was no silence; what goes on behind it has nothing to
        # do with that.
        (
            rows(*PAUSED, *AGAIN),
            events(mark("checkpoint", "begins", 21), mark("checkpoint", "begins", 45), LATE),
            [
                *SAVED, ("checkpoint", 15.0, 7.0, None, None, 45, None),
                ("lost", 22.0, 67.5, None, None, None, "down after step 4"),
                ("start-up", 89.5, 14.5, None, None, None, None), UP[1],
            ],
        ),
        (
            rows(*PAUSED, *AGAIN),
            events(mark("checkpoint", "begins", 21), LATE, mark("checkpoint", "begins", 55)),
            [
                *SAVED, ("lost", 15.0, 75.0, None, None, None, "down after step 4"),
                ("checkpoint", 90.0, 7.0, None, None, 55, None), ("start-up", 97.0, 7.0, None, None, None, None), UP[1],
            ],
        ),
    ],
)  # fmt: skip
def test_further_entries(written, around, entries):
    assert told(timeline.build_timeline(written, around)) == entries


def entry(kind, start, duration, first=None, last=None, note=None) -> Entry:
    return Entry(
        kind=kind,
        start=start,
        duration=duration,
        first_step=first,
        last_step=last,
        line=7,
        note=note,
    )


LIFE = (
    entry("start-up", 0.0, 5.0), entry("training", 5.0, 8.0, 1, 4), entry("checkpoint", 13.0, 3.0),
    entry("training", 16.0, 20.0, 5, 14), entry("end", 36.0, 1.0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("resumed", "entries"),
    [
        (14, LIFE),
        (9, (*LIFE[:3], entry("training", 16.0, 10.0, 5, 9), entry("lost", 26.0, 10.0, 10, 14, "done twice"), LIFE[4])),
        (4, (*LIFE[:3], entry("lost", 16.0, 20.0, 5, 14, "done twice"), LIFE[4])),
        (1, (LIFE[0], entry("training", 5.0, 2.0, 1, 1), entry("lost", 7.0, 6.0, 2, 4, "done twice"), LIFE[2],
             entry("lost", 16.0, 20.0, 5, 14, "done twice"), LIFE[4])),
        (0, (LIFE[0], entry("lost", 5.0, 8.0, 1, 4, "done twice"), LIFE[2],
             entry("lost", 16.0, 20.0, 5, 14, "done twice"), LIFE[4])),
    ],
)  # fmt: skip
def test_steps_that_are_done_again(resumed, entries):
    assert timeline.with_lost_steps(LIFE, resumed) == entries
    assert timeline.with_lost_steps(LIFE[:4], resumed) == entries[:-1]


def down(seconds: float, step: int) -> Entry:
    return entry("lost", 0.0, seconds, note=f"down after step {step}")


def idle(seconds: float, step: int) -> Entry:
    return entry("lost", 0.0, seconds, note=f"without another step after step {step}")


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ((), None),
        (LIFE, None),
        ((*LIFE, down(70.0, 14)), "lost: 1 min 10 s (1 min 10 s down after step 14)"),
        ((down(60.0, 14), down(65.0, 24), idle(30.0, 14)),
         "lost: 2 min 35 s (2 min 05 s down in 2 restarts, 30.0 s without another step after step 14)"),
        ((idle(60.0, 14), idle(65.0, 24)), "lost: 2 min 05 s (2 min 05 s without another step before 2 restarts)"),
        ((entry("lost", 0.0, 61.0, 5, 5, "done twice"),), "lost: 1 min 01 s (1 step done twice)"),
        ((entry("lost", 0.0, 61.0, 5, 7, "done twice"), down(60.0, 7), entry("lost", 0.0, 9.0, 8, 9, "done twice")),
         "lost: 2 min 10 s (1 min 00 s down after step 7, 5 steps done twice)"),
    ],
)  # fmt: skip
def test_what_restarts_cost(entries, text):
    lost = timeline.lost(entries)
    assert (lost and words(lost)) == text


def clock(*texts: str) -> list[float]:
    return [datetime.datetime.fromisoformat(f"{text}+00:00").timestamp() for text in texts]


BACK = "account unknown: times in the log go back by {}, and it states no time zone"
FORWARD = "account unknown: on {} clocks may go forward, and the log states no time zone"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["2026-03-01 12:00:00", "2026-03-01 11:59:00", "2026-03-01 12:30:00"], None),
        (["2026-03-01 12:00:00", "2026-03-01 11:58:59"], BACK.format("1 min 01 s")),
        # An hour or more, over 1 or 2 o'clock of a Sunday in these months.
        (["2026-03-29 01:59:00", "2026-03-29 03:00:00"], FORWARD.format("2026-03-29")),
        (["2026-03-29 01:59:00", "2026-03-29 02:59:59"], None),
        (["2026-03-29 00:30:00", "2026-03-29 02:00:00"], FORWARD.format("2026-03-29")),
        (["2026-03-29 01:00:00", "2026-03-29 02:00:00"], FORWARD.format("2026-03-29")),
        (["2026-03-29 02:00:00", "2026-03-29 03:00:00"], FORWARD.format("2026-03-29")),
        (["2026-03-29 02:00:01", "2026-03-29 03:00:01"], None),
        (["2026-03-29 00:30:00", "2026-03-29 01:59:59"], None),
        (["2026-03-28 22:00:00", "2026-03-29 03:00:00"], FORWARD.format("2026-03-29")),
        (["2026-09-27 01:59:00", "2026-09-27 03:00:00"], FORWARD.format("2026-09-27")),
        (["2026-10-04 01:59:00", "2026-10-04 03:00:00"], FORWARD.format("2026-10-04")),
        (["2026-04-05 01:59:00", "2026-04-05 03:00:00"], None),
        (["2026-11-01 01:59:00", "2026-11-01 03:00:00"], None),
        (["2026-03-28 01:59:00", "2026-03-28 03:00:00"], None),
        (["2026-03-30 01:59:00", "2026-03-30 03:00:00"], None),
    ],
)
def test_clocks_that_change(texts, words):
    times = clock(*texts)
    written = rows(*[(step, step, at) for step, at in enumerate(times, 1)])
    change = note_of(words) if words else None
    assert timeline.clock_change(written, Events()) == change
    # The first time of the log, before the records; and times between records that have none.
    assert timeline.clock_change(written[1:], events(first=times[0])) == (
        change if times[0] < times[1] else None
    )
    stamps = [(line, moment(at)) for line, at in enumerate(times)]
    untimed = [(Row(1, 5, 0.0), None, 0.0)]
    assert timeline.clock_change(untimed, events(stamps=[*reversed(stamps)])) == change
    assert timeline.clock_change([], events(stamps=stamps)) == change
    aware = [(line, (at, True)) for line, at in enumerate(times)]
    assert timeline.clock_change(untimed, events(stamps=aware)) is None
    assert timeline.clock_change([*written, (Row(9, 9, 0.0), True, 1.0)], Events()) is None
    assert timeline.clock_change([*written, (Row(9, 9, 0.0), "elapsed", 1.0)], Events()) is None
