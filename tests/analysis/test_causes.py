"""Changes of speed get the event of telemetry that explains them, and no other."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import make_run
from made_telemetry import replayed

from tprimat.analysis.causes import cause_of_change
from tprimat.analysis.summary import summarize
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.results.telemetry import Telemetry, TelemetryIssue


def run_with(*issues: TelemetryIssue, interval: float = 1.0):
    return make_run(telemetry=Telemetry(interval_seconds=interval, issues=issues))


def told_cause(*change):
    """The sentence of the cause of a change."""
    note = cause_of_change(*change)
    return note and words(note)


CAP = TelemetryIssue(
    code="power-cap", text="power cap (500 W of 700 W)", first_step=40, last_step=60
)
ROSE = TelemetryIssue(
    code="clock-change", text="clock rose", first_step=50, last_step=50, value=1980, expected=1410
)


class TestCause:
    @pytest.mark.parametrize(
        ("step", "before", "after", "cause"),
        [
            (40, 1.0, 1.3, "power cap (500 W of 700 W)"),
            (43, 1.0, 1.3, "power cap (500 W of 700 W)"),  # two readings and two steps
            (46, 1.0, 1.3, None),
            (40, 1.3, 1.0, None),  # a cap makes nothing faster
            (61, 1.3, 1.0, "end of power cap (500 W of 700 W)"),
            (61, 1.0, 1.3, None),
        ],
    )
    def test_a_limit(self, step, before, after, cause):
        assert told_cause(run_with(CAP), step, before, after) == cause

    @pytest.mark.parametrize(
        "code",
        [
            "power-cap",
            "thermal",
            "hardware-slowdown",
            "power-brake",
            "clock-setting",
            "sync-boost",
            "gpu-shared",
        ],
    )
    def test_each_limit_explains_its_begin_and_its_end(self, code):
        run = run_with(msgspec.structs.replace(CAP, code=code, text=code))
        assert told_cause(run, 40, 1.0, 1.3) == code
        assert told_cause(run, 61, 1.3, 1.0) == f"end of {code}"

    def test_a_clock_in_its_own_direction(self):
        assert told_cause(run_with(ROSE), 50, 1.3, 1.0) == "clock rose"
        assert told_cause(run_with(ROSE), 50, 1.0, 1.3) is None

    def test_short_steps_are_further_from_a_reading(self):
        assert told_cause(run_with(ROSE), 65, 0.13, 0.1) == "clock rose"
        assert told_cause(run_with(ROSE), 80, 0.13, 0.1) is None

    def test_the_most_severe_comes_first(self):
        fell = msgspec.structs.replace(
            ROSE, first_step=40, text="clock fell", value=1410, expected=1980
        )
        assert told_cause(run_with(CAP, fell), 40, 1.0, 1.3) == CAP.text

    def test_what_holds_throughout_or_is_no_limit_explains_nothing(self):
        throughout = msgspec.structs.replace(CAP, first_step=None, last_step=None)
        other = TelemetryIssue(code="ecc-corrected", text="ECC", first_step=40, last_step=40)
        assert told_cause(run_with(throughout, other), 40, 1.0, 1.3) is None


class TestSummary:
    def test_a_replayed_training_that_throttles(self):
        run = replayed("h100", "thermal")
        first, second = summarize(run).segments
        text = next(issue.text for issue in run.telemetry.issues if issue.code == "thermal")
        assert (first.cause, second.cause) == (
            None,
            Note("event", {"event": "thermal", "text": text, "title": "thermal throttling"}),
        )
        (warning,) = (text for text in summarize(run).warnings if text.startswith("speed changed"))
        assert ": thermal throttling: 91 °C" in warning

    def test_a_change_that_telemetry_did_not_see(self):
        run = replayed("h100", "thermal")
        run = msgspec.structs.replace(
            run, telemetry=msgspec.structs.replace(run.telemetry, issues=())
        )
        assert [segment.cause for segment in summarize(run).segments] == [None, None]
