"""What our own recorder spends its time on: start-up, steps, pauses and end, live and from a
journal.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.record.test_journal import SETUP
from tests.record.test_recorder import FakeClock
from tprimat.analysis.run_account import account_of
from tprimat.record import journal, process_identity, recovery
from tprimat.record.recorder import Record, Recorder
from tprimat.record.wall_time import Pause, timeline
from tprimat.results.account import Entry


def recorded(steps: int = 6, kind: str | None = "evaluation") -> tuple[Recorder, FakeClock]:
    """A recording of steps of 1 s, with a pause of 5 s after the third that is spent on two
    things.
    """
    clock = FakeClock()
    recorder = Recorder(clock)
    recorder.start()
    for step in range(1, steps + 1):
        clock.advance(1.0)
        recorder.step_end(step)
        if step == 3:
            recorder.pause(kind)
            clock.advance(3.0)
            recorder.pause("checkpoint")
            clock.advance(2.0)
            recorder.resume()
    clock.advance(0.5)
    recorder.finish()
    return recorder, clock


def entries_of(
    recorder: Recorder, until: float | None
) -> list[tuple[str, float, float, int | None, int | None]]:
    entries = timeline(4.0, recorder.ends, recorder.pauses, 1, until)
    return [
        (each.kind, each.start, each.duration, each.first_step, each.last_step) for each in entries
    ]


class TestLive:
    def test_every_second_has_an_owner(self):
        recorder, _ = recorded()
        assert [record.seconds for record in recorder.records] == pytest.approx([1.0] * 6)
        assert entries_of(recorder, 11.5) == [
            ("start-up", 0.0, 4.0, None, None),
            ("training", 4.0, 3.0, 1, 3),
            ("evaluation", 7.0, 3.0, None, None),
            ("checkpoint", 10.0, 2.0, None, None),
            ("training", 12.0, 3.0, 4, 6),
            ("end", 15.0, 0.5, None, None),
        ]

    def test_a_pause_that_nobody_names_is_unknown(self):
        recorder, _ = recorded(kind=None)
        assert [each[0] for each in entries_of(recorder, None)][2:4] == ["unknown", "checkpoint"]

    def test_a_delay_of_the_first_step_belongs_to_the_start_up(self):
        clock = FakeClock()
        recorder = Recorder(clock)
        recorder.start()
        recorder.pause()
        clock.advance(7.0)
        recorder.resume()
        for step in (1, 2):
            clock.advance(1.0)
            recorder.step_end(step)
        recorder.finish()
        assert entries_of(recorder, 9.0) == [
            ("start-up", 0.0, 11.0, None, None),
            ("training", 11.0, 2.0, 1, 2),
        ]

    def test_the_same_pause_twice_is_one(self):
        clock = FakeClock()
        recorder = Recorder(clock)
        recorder.start()
        clock.advance(1.0)
        recorder.step_end(1)
        for _ in range(2):
            recorder.pause("evaluation")
            clock.advance(1.0)
        recorder.finish()
        assert recorder.pauses == [Pause(1.0, 3.0, "evaluation")]

    def test_a_pause_within_a_step_leaves_its_time_and_its_block(self):
        clock = FakeClock()
        recorder = Recorder(clock)
        recorder.start()
        clock.advance(0.5)
        recorder.pause("evaluation")
        clock.advance(2.0)
        recorder.resume()
        clock.advance(0.5)
        recorder.step_end(1)
        recorder.finish()
        assert recorder.records[0].seconds == pytest.approx(1.0)
        assert sum(each[2] for each in entries_of(recorder, 3.0)) == pytest.approx(7.0)


def test_a_killed_training_keeps_its_account(tmp_path):
    kept = journal.Journal(tmp_path)
    setup = msgspec.structs.replace(
        SETUP, timeline=(Entry(kind="start-up", start=0.0, duration=4.0),)
    )
    kept.add(run=setup)
    recorder, _ = recorded()
    for record in recorder.records:
        if record.step == 4:
            for pause in recorder.pauses:
                kept.add(pause=pause)
        kept.step(record)
    content = kept.path.read_bytes()
    kept.close()
    run, finished = recovery.read(content)
    assert not finished
    assert run.timeline == timeline(4.0, recorder.ends, recorder.pauses, 1, None)
    account = account_of(run)
    assert account.parts["evaluation"] == pytest.approx(3.0)
    assert account.whole == pytest.approx(15.0)


def test_a_journal_of_an_earlier_version_has_no_pauses(tmp_path):
    lines = [
        journal.JournalHeader(journal.VERSION, process_identity.current_process()),
        {"run": SETUP},
        Record(1, 1, 0.5, 2.0, None, None),
        Record(2, 1, 0.5, 2.0, None, None),
    ]
    run, _ = recovery.read(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    assert [(each.kind, each.duration) for each in run.timeline] == [("training", 1.0)]
