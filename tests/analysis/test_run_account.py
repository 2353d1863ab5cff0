"""The account of a run: its timeline with the warm-up taken out."""

from __future__ import annotations

import msgspec
import pytest

from tprimat.analysis.account import account
from tprimat.analysis.run_account import account_of
from tprimat.api import Run
from tprimat.results.account import Entry


def run_of(*entries: Entry, **more) -> Run:
    count = 10
    return Run(
        steps=tuple(range(1, count + 1)),
        window_steps=(1,) * count,
        step_times=(2.0,) * count,
        loss_values=(None,) * count,
        learning_rates=(None,) * count,
        grad_norms=(None,) * count,
        lines=(None,) * count,
        timeline=entries,
        **more,
    )


def entry(kind: str, start: float, duration: float, *steps: int) -> Entry:
    first, last = steps or (None, None)
    return Entry(kind=kind, start=start, duration=duration, first_step=first, last_step=last)


TIMELINE = (
    entry("start-up", 0, 5),
    entry("training", 5, 20, 1, 10),
    entry("checkpoint", 26, 4),
    entry("end", 30, 1),
)


def test_the_parts_add_up_and_gaps_are_unknown():
    found = account(run_of(*TIMELINE), None)
    assert found.parts == {
        "start-up": 5.0,
        "training": 20.0,
        "checkpoint": 4.0,
        "end": 1.0,
        "unknown": 1.0,
    }
    assert found.whole == pytest.approx(31.0)


def test_warm_up_is_taken_out_of_training():
    found = account(run_of(*TIMELINE), 4)
    assert (found.parts["warm-up"], found.parts["training"]) == (6.0, 14.0)


def test_what_is_before_the_start_stands_beside():
    found = account(run_of(entry("start-up", -8, 8), *TIMELINE), None)
    assert found.before == 8.0
    assert found.whole == pytest.approx(31.0)


def test_waiting_for_data_is_of_the_steps():
    assert account(
        run_of(*TIMELINE, breakdown={"data_wait_s": 0.25}), None
    ).waiting == pytest.approx(2.5)
    assert account(run_of(*TIMELINE), None).waiting is None


def test_a_run_says_it_itself():
    assert account_of(run_of(*TIMELINE)).whole == pytest.approx(31.0)
    assert account_of(Run()) is None


def test_without_a_timeline_the_steps_alone_are_known():
    found = account_of(run_of())
    assert not found.is_whole
    assert found.whole == pytest.approx(20.0)


def test_it_survives_the_result_file():
    content = msgspec.json.encode(run_of(*TIMELINE))
    assert account_of(msgspec.json.decode(content, type=Run)) == account_of(run_of(*TIMELINE))
