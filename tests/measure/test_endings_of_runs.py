"""What measuring makes of runs that failed, or whose loss is not a number: --resume,
--retry-failed, --tune.
"""

from __future__ import annotations

import types

import pytest
from made_runs import make_run

from tprimat.measure import sweep, tune
from tprimat.notes import Note

NAN = (Note("loss-not-finite", {"steps": "step 9", "first": 9, "last": 9}),)


@pytest.mark.parametrize(
    ("fields", "is_done", "is_done_unless_failed"),
    [
        ({}, True, True),
        ({"status": "incomplete"}, False, False),
        ({"status": "failed"}, True, False),
        ({"notes": NAN}, True, False),
    ],
    ids=["complete", "interrupted", "failed", "NaN"],
)
def test_e2_a_loss_that_is_not_a_number_is_a_failure_to_be_retried(
    fields, is_done, is_done_unless_failed
):
    run = make_run(**fields)
    assert sweep.is_done(run, retries_failed=False) is is_done
    assert sweep.is_done(run, retries_failed=True) is is_done_unless_failed


@pytest.mark.parametrize(("notes", "status"), [((), "complete"), (NAN, "failed")])
def test_e2_a_setting_whose_loss_is_not_a_number_is_not_chosen(notes, status):
    candidate = types.SimpleNamespace(name="fast", setting={})
    trial = tune._trial_of(
        candidate, make_run(notes=notes), types.SimpleNamespace(is_pruned=False, times=[]), 9.0
    )
    assert trial.status == status
    assert (trial.reason == "loss is not a number") is (status == "failed")
