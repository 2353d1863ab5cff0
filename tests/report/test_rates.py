"""Final losses next to each other: after how many steps and tokens each was taken, if they
differ.
"""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.report import Sources, frameworks, markdown, page
from tprimat.report.json_values import comparison_values
from tprimat.report.rates import final_losses
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm", "step_time": 3.6}


def losses(*groups):
    return final_losses(comparison(*groups).models[0].groups[0].systems)


def runs(count, **fields):
    return tuple(
        make_run(step_time=3 + number / 10, round=number, **fields)
        for number in range(1, count + 1)
    )


@pytest.mark.parametrize(
    ("steps", "texts"),
    [
        (60, ["2.264", "2.264"]),
        (61, ["2.264 (step 60, 7.86M tokens)", "2.247 (step 61, 8M tokens)"]),
    ],
)
def test_unlike_steps_are_said_and_equal_ones_are_not(steps, texts):
    assert losses(make_run(), make_run(**AMD, steps=steps)) == texts


def test_unlike_batches_have_other_tokens_after_equal_steps():
    found = losses(make_run(), make_run(**AMD, batch=128))
    assert found == ["2.264 (step 60, 15.7M tokens)", "2.264 (step 60, 7.86M tokens)"]


def test_runs_of_one_system_may_end_after_unlike_steps():
    cut = make_run(step_time=3.05, loss_values=(2.264,) * 50 + (None,) * 10)
    assert losses((*runs(2), cut), make_run(**AMD)) == [
        "2.264 (step 50–60, 6.55M–7.86M tokens)",
        "2.264 (step 60, 7.86M tokens)",
    ]
    # More runs alone make no difference.
    assert losses(runs(2), make_run(**AMD)) == ["2.264", "2.264"]


def test_a_system_without_losses_makes_no_difference():
    assert losses(make_run(), make_run(**AMD, batch=128, losses=False)) == ["–", "2.264"]


def test_wherever_they_stand_next_to_each_other():
    found, sources = report(comparison(make_run(), make_run(**AMD, steps=90))), Sources("1", "c")
    written = (
        markdown.render(found, sources, None).decode(),
        page.render(found, sources, None).decode(),
    )
    for text in written:
        assert "2.264 (step 60, 7.86M tokens)" in " ".join(text.split())
    assert "2.2638 (step 60, 7.86M tokens)" in markdown.write(frameworks.document(found))
    ((group,),) = [model["groups"] for model in comparison_values(found)["models"]]
    assert [system["final_loss_steps"] for system in group["systems"]] == [[60], [90]]


def test_unknown_tokens_are_not_the_same():
    found = losses(make_run(), make_run(**AMD, length=None))
    assert found == ["2.264 (step 60, 7.86M tokens)", "2.264 (step 60)"]
