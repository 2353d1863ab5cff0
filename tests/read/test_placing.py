"""Records without times between lines that have them: where they are put, and what stays open."""

from __future__ import annotations

import pytest

from tprimat.read.parsing import placing
from tprimat.read.parsing.events import Events, Mark
from tprimat.read.parsing.placing import Row


def mark(kind, phase, line, at=None, seconds=None, step=None) -> Mark:
    return Mark(kind, phase, line, None if at is None else (at, False), seconds, step)


def events(*marks: Mark, stamps=(), aware=()) -> Events:
    """Stamps are lines and times."""
    found = [
        *((line, (at, False)) for line, at in stamps),
        *((line, (at, True)) for line, at in aware),
    ]
    return Events([*marks], stamps=sorted(found))


STEPS = [(step, 10 * step, 0.0, 2.0, 1) for step in range(1, 7)]
"""Six of 2 s each."""


def placed(rows, around, again=()) -> list[tuple]:
    """Step, time and latest time of each."""
    return [
        (row.step, row.at, row.latest)
        for row, _, _ in placing.placed([Row(*each) for each in rows], around, again)
    ]


@pytest.mark.parametrize(
    ("rows", "around", "again", "expected"),
    [
        # Behind each record a line with a time; in front of the first one, too, or not.
        (
            STEPS,
            events(
                stamps=[(5, 100.0), *((10 * step + 1, 104.5 + 2.0 * step) for step in range(1, 7))]
            ),
            [],
            [
                (1, 106.5, None),
                (2, 108.5, None),
                (3, 110.5, None),
                (4, 112.5, None),
                (5, 114.5, None),
                (6, 116.5, None),
            ],
        ),
        (
            STEPS,
            events(stamps=[(5, 100.25), (11, 106.0), (31, 110.0), (61, 116.0)]),
            [],
            [
                (1, 106.0, None),
                (2, 108.0, None),
                (3, 110.0, None),
                (4, 112.0, None),
                (5, 114.0, None),
                (6, 116.0, None),
            ],
        ),
        (
            STEPS,
            events(stamps=[(31, 110.5), (61, 116.0)]),
            [],
            [
                (1, 106.0, None),
                (2, 108.0, None),
                (3, 110.0, None),
                (4, 112.0, None),
                (5, 114.0, None),
                (6, 116.0, None),
            ],
        ),
        (
            STEPS,
            events(stamps=[(5, 100.5)]),
            [],
            [
                (1, 102.5, None),
                (2, 104.5, None),
                (3, 106.5, None),
                (4, 108.5, None),
                (5, 110.5, None),
                (6, 112.5, None),
            ],
        ),
        (
            STEPS[:3],
            events(stamps=[(5, 100.5), (11, 103.0), (31, 107.0)], aware=[(21, 5.0)]),
            [],
            [(1, 103.0, None), (2, 105.0, None), (3, 107.0, None)],
        ),
        # No time at all, or of another clock alone; no record.
        (STEPS, events(), [], []),
        ([], events(stamps=[(5, 100.5)]), [], []),
        # More time than the steps take: into each if it is little, else open.
        (
            STEPS,
            events(stamps=[(5, 100.5), (11, 103.0), (41, 109.5), (61, 113.5)]),
            [],
            [
                (1, 103.0, None),
                (2, 105.055556, None),
                (3, 107.111111, None),
                (4, 109.166667, None),
                (5, 111.333333, None),
                (6, 113.5, None),
            ],
        ),
        (
            STEPS,
            events(stamps=[(5, 100.5), (11, 103.0), (41, 118.0), (61, 122.0)]),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, 110.0),
                (4, 112.0, None),
                (5, 117.0, None),
                (6, 122.0, None),
            ],
        ),
        (
            STEPS,
            events(stamps=[(5, 100.5), (11, 103.0), (21, 105.0), (31, 107.0), (61, 115.0)]),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, None),
                (4, 109.0, None),
                (5, 111.0, None),
                (6, 113.0, None),
            ],
        ),
        (
            [(10, 10, 0.0, 2.0, 10), (20, 20, 0.0, 3.0, 10), (30, 30, 0.0, 2.0, 10)],
            events(stamps=[(5, 100.5), (31, 175.5)]),
            [],
            [(10, 120.5, None), (20, 150.5, None), (30, 170.5, None)],
        ),
        (
            [(10, 10, 0.0, 2.0, 10), (20, 20, 0.0, None, 10), (30, 30, 0.0, 4.0, 10)],
            events(stamps=[(5, 100.5), (11, 121.0), (40, 195.0), (50, 199.0)]),
            [],
            [(10, 121.0, None), (20, 151.0, None), (30, 191.0, None)],
        ),
        (
            [(step, 10 * step, 0.0) for step in (1, 2, 3)],
            events(stamps=[(5, 100.5), (31, 107.0)]),
            [],
            [(1, 107.0, None), (2, 107.0, None), (3, 107.0, None)],
        ),
        # The last ones were printed when their steps were over, which is open if others don't show
        # how long these take.
        (
            STEPS,
            events(
                stamps=[(5, 100.5), (11, 103.0), (21, 105.0), (31, 107.0), (41, 109.0), (70, 150.0)]
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, None),
                (4, 109.0, None),
                (5, 111.0, None),
                (6, 113.0, None),
            ],
        ),
        (
            STEPS,
            events(
                stamps=[(5, 100.5), (11, 103.0), (21, 105.5), (31, 108.0), (41, 110.5), (70, 130.0)]
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.5, None),
                (3, 108.0, None),
                (4, 110.5, None),
                (5, 113.0, None),
                (6, 115.5, None),
            ],
        ),
        (
            STEPS[:2],
            events(stamps=[(5, 100.5), (70, 150.0)]),
            [],
            [(1, 102.5, None), (2, 104.5, 150.0)],
        ),
        (
            STEPS[:2],
            events(stamps=[(5, 100.5), (70, 104.875)]),
            [],
            [(1, 102.5, None), (2, 104.5, None)],
        ),
        (
            STEPS[:2],
            events(stamps=[(5, 100.5), (70, 105.0)]),
            [],
            [(1, 102.5, None), (2, 104.5, 105.0)],
        ),
        (
            STEPS[:2],
            events(stamps=[(5, 100.0), (70, 106.0)]),
            [],
            [(1, 102.0, None), (2, 104.0, None)],
        ),
        (
            STEPS[:2],
            events(stamps=[(5, 100.0), (70, 107.0)]),
            [],
            [(1, 102.0, None), (2, 104.0, 107.0)],
        ),
        # A pause between them, with its duration or without; two of one kind, and of two.
        (
            STEPS,
            events(
                mark("checkpoint", "ends", 25, None, 5.0),
                stamps=[(5, 100.5), (11, 103.0), (41, 115.0), (61, 119.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.181818, None),
                (3, 112.818182, None),
                (4, 115.0, None),
                (5, 117.0, None),
                (6, 119.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 25),
                stamps=[(5, 100.5), (11, 103.0), (41, 115.0), (61, 119.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 113.0, None),
                (4, 115.0, None),
                (5, 117.0, None),
                (6, 119.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 25),
                mark("checkpoint", "begins", 35),
                stamps=[(5, 100.5), (11, 103.0), (41, 117.0), (61, 121.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 111.0, None),
                (4, 117.0, None),
                (5, 119.0, None),
                (6, 121.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 25),
                mark("evaluation", "", 35),
                stamps=[(5, 100.5), (11, 103.0), (41, 117.0), (61, 121.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, 115.0),
                (4, 117.0, None),
                (5, 119.0, None),
                (6, 121.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 25),
                mark("checkpoint", "ends", 26, None, 5.0),
                stamps=[(5, 100.5), (11, 103.0), (41, 115.0), (61, 119.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.181818, None),
                (3, 112.818182, None),
                (4, 115.0, None),
                (5, 117.0, None),
                (6, 119.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("resume", "", 25), stamps=[(5, 100.5), (11, 103.0), (41, 115.0), (61, 119.0)]
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, 109.0),
                (4, 111.0, None),
                (5, 115.0, None),
                (6, 119.0, None),
            ],
        ),
        # A pause whose lines have times.
        (
            STEPS,
            events(
                mark("checkpoint", "ends", 26, 112.0),
                stamps=[
                    (5, 100.5),
                    (11, 103.0),
                    (21, 105.0),
                    (26, 112.0),
                    (41, 116.0),
                    (61, 120.0),
                ],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 114.0, None),
                (4, 116.0, None),
                (5, 118.0, None),
                (6, 120.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 22, 105.25),
                stamps=[(5, 100.5), (11, 103.0), (22, 105.25), (41, 116.0), (61, 120.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.25, None),
                (3, 113.25, None),
                (4, 115.5, None),
                (5, 117.75, None),
                (6, 120.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "begins", 22),
                stamps=[(5, 100.5), (11, 103.0), (23, 105.25), (41, 116.0), (61, 120.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 114.0, None),
                (4, 116.0, None),
                (5, 118.0, None),
                (6, 120.0, None),
            ],
        ),
        (
            STEPS,
            events(
                mark("checkpoint", "ends", 22, 111.0),
                stamps=[(5, 100.5), (11, 103.0), (22, 111.0), (41, 115.0), (61, 119.0)],
            ),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 113.0, None),
                (4, 115.0, None),
                (5, 117.0, None),
                (6, 119.0, None),
            ],
        ),
        (
            STEPS,
            events(mark("evaluation", "", 61), stamps=[(5, 100.5), (11, 103.0), (62, 130.0)]),
            [],
            [
                (1, 103.0, None),
                (2, 105.0, None),
                (3, 107.0, None),
                (4, 109.0, None),
                (5, 111.0, None),
                (6, 113.0, 130.0),
            ],
        ),
        # Another attempt, by a step that comes again or a line of its start.
        (
            [*STEPS[:3], (2, 70, 0.0, 2.0, 1), (3, 80, 0.0, 2.0, 1)],
            events(stamps=[(5, 100.5), (31, 107.0), (60, 200.0), (81, 206.0)]),
            [70],
            [
                (1, 102.5, None),
                (2, 104.5, None),
                (3, 106.5, None),
                (2, 202.0, None),
                (3, 204.0, 206.0),
            ],
        ),
        (
            [*STEPS[:3], (4, 70, 0.0, 2.0, 1), (5, 80, 0.0, 2.0, 1)],
            events(
                mark("start", "begins", 50),
                stamps=[(5, 100.5), (31, 107.0), (60, 200.0), (81, 206.0)],
            ),
            [],
            [
                (1, 102.5, None),
                (2, 104.5, None),
                (3, 106.5, None),
                (4, 202.0, None),
                (5, 204.0, 206.0),
            ],
        ),
        (
            [*STEPS[:3], (14, 70, 0.0, 2.0, 1), (16, 80, 0.0, 2.0, 2)],
            events(
                mark("start", "begins", 50),
                stamps=[(5, 100.5), (31, 107.0), (60, 200.0), (81, 204.5)],
            ),
            [],
            [
                (1, 102.5, None),
                (2, 104.5, None),
                (3, 106.5, None),
                (14, 200.5, None),
                (16, 204.5, None),
            ],
        ),
    ],
)
def test_records_between_times(rows, around, again, expected):
    assert [(step, at, latest) for step, at, latest in placed(rows, around, again)] == [
        (
            step,
            pytest.approx(at, abs=1e-6),
            None if latest is None else pytest.approx(latest, abs=1e-6),
        )
        for step, at, latest in expected
    ]


@pytest.mark.parametrize(
    ("around", "clock", "resolution"),
    [
        (events(stamps=[(5, 100.0), (41, 110.0)]), False, 2.0),
        (events(stamps=[(5, 100.5), (41, 110.0)]), False, 2e-3),
        (events(stamps=[(5, 100.5)], aware=[(6, 100.0), (41, 110.0)]), True, 2.0),
    ],
)
def test_the_clock_of_most_times_and_its_resolution(around, clock, resolution):
    assert {each[1:] for each in placing.placed([Row(*each) for each in STEPS], around, [])} == {
        (clock, resolution)
    }


@pytest.mark.parametrize(
    ("marks", "again", "groups"),
    [
        ([], [], [[1, 2, 3, 4, 5, 6]]),
        (
            [("start", 5), ("start", 10), ("start", 35), ("evaluation", 45)],
            [],
            [[1, 2, 3], [4, 5, 6]],
        ),
        ([("start", 35), ("start", 36)], [60], [[1, 2, 3], [4, 5], [6]]),
        ([], [40, 50], [[1, 2, 3], [4], [5, 6]]),
    ],
)
def test_attempts(marks, again, groups):
    around = events(*(mark(kind, "begins", line) for kind, line in marks))
    found = placing.attempts([Row(*each) for each in STEPS], around, again)
    assert [[row.step for row in group] for group in found] == groups


def test_a_late_record_takes_its_place():
    rows = [Row(1, 10, 0.0), Row(3, 20, 0.0), Row(2, 30, 0.0)]
    assert [[row.step for row in group] for group in placing.attempts(rows, events(), [])] == [
        [1, 2, 3]
    ]


def test_parts_without_any_time():
    rows = [Row(4, 10, 0.0, 2.0, 4), Row(5, 20, 0.0, None, 1), Row(7, 30, 0.0, 3.0, None)]
    around = events(
        mark("checkpoint", "", 5, None, 1.5), mark("evaluation", "", 15, None, 4.25), mark("checkpoint", "ends", 25),
        mark("resume", "", 26, None, 9.0), mark("checkpoint", "", 35, None, 6.0),
    )  # fmt: skip
    found = [
        (e.kind, e.start, e.duration, e.line, e.first_step, e.note)
        for e in placing.stated_parts(rows, around)
    ]
    assert found == [
        ("checkpoint", 0.0, 1.5, 5, None, None),
        ("evaluation", 9.5, 4.25, 15, None, None),
        ("checkpoint", 16.75, 6.0, 35, None, None),
    ]


def test_parts_of_a_file_without_lines_stand_behind_their_steps():
    rows = [Row(4, 0, 0.0, 2.0, 4), Row(6, 0, 0.0, 3.0, 2)]
    around = events(
        mark("evaluation", "", 0, None, 4.0, 4), mark("checkpoint", "", 0, None, 5.0, 5)
    )
    found = [(e.kind, e.start, e.duration, e.line) for e in placing.stated_parts(rows, around)]
    assert found == [("evaluation", 8.0, 4.0, None), ("checkpoint", 12.0, 5.0, None)]
    assert placing.stated_parts(rows, events(mark("evaluation", "", 0, None, 4.0)))[0].start == 0.0
