"""The short form of tools/torture.py: one killing of each kind, of real runs."""

from __future__ import annotations

import importlib.util
import random
import signal
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="what is left behind is looked for in /proc"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None, reason="lightning is not installed"
    ),
]


def test_killed_in_each_way_nothing_is_lost(torture, tmp_path, capsys):
    plans = [
        torture.Plan("writing", signal.SIGKILL, "all", 0.2),
        torture.Plan("steady", signal.SIGKILL, "command", 0.5),
    ]
    assert torture.torture(plans, tmp_path / "output") == 0, capsys.readouterr().out


@pytest.mark.reliability
def test_the_encoder_decoder_killed_at_random_moments(torture, tmp_path, capsys):
    chance = random.Random()
    plans = [
        torture.Plan(phase, signal.SIGKILL, whom, chance.random(), "encdec")
        for phase, whom in (("warm-up", "all"), ("steady", "training"), ("second run", "all"))
    ]
    assert torture.torture(plans, tmp_path / "output") == 0, capsys.readouterr().out


@pytest.mark.reliability
@pytest.mark.parametrize("kind", ["record", "callback", "primus"])
def test_each_other_way_to_record_is_killed(torture, tmp_path, capsys, kind):
    pytest.importorskip(torture.KINDS[kind].needs)
    plans = [
        torture.Plan("steady", signal.SIGKILL, "all", 0.6, kind),
        torture.Plan("let through", signal.SIGTERM, "command", 0.5, kind),
    ]
    assert torture.torture(plans, tmp_path / "output") == 0, capsys.readouterr().out


def test_kinds_take_turns(torture):
    plans = list(torture.plans(400, random.Random(0), list(torture.KINDS)))
    assert {plan.kind for plan in plans} == set(torture.KINDS)
    assert {plan.phase for plan in plans if plan.kind == "record"} == {
        *torture.OF_ONE_RUN,
        "let through",
    }
    assert {plan.phase for plan in plans if plan.kind == "encdec"} == set(torture.PHASES)


def test_all_phases_and_signals_are_planned(torture):
    plans = list(torture.plans(200, random.Random(0)))
    assert {plan.phase for plan in plans} == set(torture.PHASES)
    assert {(plan.number, plan.whom) for plan in plans} == {
        (signal.SIGINT, "command"),
        *(
            (number, whom)
            for number in (signal.SIGKILL, signal.SIGTERM)
            for whom in ("command", "training", "all")
        ),
    }
