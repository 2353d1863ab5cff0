"""The planned iterations of nanoGPT, which it states as the number of the last one."""

from __future__ import annotations

import pytest

from tprimat.log_import import load
from tprimat.log_import.given import GivenValues


def read(head, iterations, folder):
    lines = [
        f"iter {each}: loss {10 - each / 50:.4f}, time {6500 + each:.2f}ms, mfu 40.00%"
        for each in iterations
    ]
    path = folder / "train.log"
    path.write_text(
        "\n".join([*head, "tokens per iteration will be: 491,520", *lines, ""]), encoding="utf-8"
    )
    (file,) = load.load([str(path)], GivenValues()).files
    (run,) = file.runs
    return run


@pytest.mark.parametrize(
    "head",
    [
        ["Overriding: max_iters = 59"],
        ["Overriding config with config/train.py:", "max_iters = 59 # as long as it takes"],
        [
            "Overriding config with config/train.py:",
            "max_iters = 600000",
            "Overriding: max_iters = 59",
        ],
    ],
    ids=["option", "file", "option over file"],
)
@pytest.mark.parametrize(("last", "kind"), [(58, "cut_off"), (59, "finished")])
def test_e1_nanogpt_ends_after_the_iteration_of_that_number(head, last, kind, tmp_path):
    run = read(head, range(last + 1), tmp_path)
    assert (run.ending.kind, run.training_config.max_steps, run.steps[-1]) == (kind, 60, last + 1)


def test_e1_nanogpt_without_it_has_no_planned_steps(tmp_path):
    run = read([], range(60), tmp_path)
    assert (run.ending.kind, run.training_config.max_steps) == ("cut_off", None)
