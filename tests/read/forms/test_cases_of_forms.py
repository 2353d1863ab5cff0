"""Small inputs of programs that have no reader, where they lie beside this clone: read, or asked
with the right values.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tprimat.analysis.summary import summarize
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues
from tprimat.notes import Note
from tprimat.results.run import Run


class Case(NamedTuple):
    """What a careful reader finds.

    Attributes:
        seconds: mean step time, s; times are rounded as printed, so that 1% is allowed.
        steps: the first step, the last one, and how many records there are.
        loss: of the first record.
        values: of the second record, or of all, by their names in native_metrics.
        asked: codes of what is assumed; empty if it is read.
    """

    seconds: float
    steps: tuple[int, int, int]
    loss: float | None = None
    values: dict[str, float] | None = None
    asked: tuple[str, ...] = ()


CASES = {
    "a_01_suffix_K.log": Case(
        2.35,
        (1, 15, 15),
        8.9,
        {"tokens_per_second": 222_400, "tokens_per_second_per_gpu": 55_600},
    ),
    "a_04a_wrapped_at_bars.log": Case(4.01, (1, 12, 12), 10.9, {"tflops_per_gpu": 300}),
    "a_04b_wrapped_at_100_columns.log": Case(4.01, (1, 12, 12), 10.9, {"tflops_per_gpu": 300}),
    "a_09a_evals_in_times.log": Case(
        7.36, (420, 610, 20), 4.4, None, ("form-interval-assumed", "form-counter-assumed")
    ),
    "b_01_litgpt_2023_micro_batches.log": Case(0.257, (1, 20, 20), 3.18),
    "b_05_mindformers.log": Case(0.905, (1, 12, 12), 9.4),
    "b_08_mmengine_iter.log": Case(1.85, (210, 320, 12), 1.2),
    "b_15_paddlenlp_two_devices.log": Case(
        0.4, (1, 12, 12), 7.9, {"tokens_per_second_per_gpu": 10_209.4286}
    ),
    "b_26_slime_console.log": Case(100, (1, 6, 6), 0.02),
    "b_40_mlx_lora.log": Case(0.125, (10, 120, 12), 2.64, {"tokens_per_second": 2540.649}),
    "b_43_llama_cookbook_ranks.log": Case(4.0, (1, 6, 6), 1.85),
    "b_52_wordplay.log": Case(0.1, (5, 60, 12), 3.5),
    "b_62_llmc_like_parenthesis.log": Case(
        0.411, (1, 4, 4), 9.9977, {"tokens_per_second": 636_040}
    ),
}


def read_case(samples, name: str) -> tuple[Run, tuple[Note, ...]]:
    """The run of a case, and what is asked before it is read."""
    path = samples.parent / "cases" / "4" / name
    if not path.is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    (source,) = sources.log_sources([str(path)])[0]
    outcome = sources.read_source(source)
    asked = ()
    if not isinstance(outcome, list):
        assert outcome.asked, outcome.problem
        asked = outcome.asked
        outcome = sources.read_source(source, GivenValues(as_read=True))
    (training,) = outcome
    return training.run, asked


@pytest.mark.parametrize("name", CASES)
def test_a_plain_log_is_read_or_asked_with_the_right_values(name, samples):
    case = CASES[name]
    run, asked = read_case(samples, name)
    mean = summarize(run).performance.avg_step_time_seconds
    assert mean == pytest.approx(case.seconds, rel=0.01)
    assert (run.steps[0], run.steps[-1], len(run.steps)) == case.steps
    if case.loss is not None:
        assert run.loss_values[0] == case.loss
    for value, expected in (case.values or {}).items():
        found = run.native_metrics[value]
        assert (found[1] if isinstance(found, tuple) else found) == expected
    assert tuple(note.code for note in asked[1:]) == case.asked
    for would_read in asked[:1]:
        assert would_read.fields["seconds"] == mean


@pytest.mark.parametrize(
    ("name", "first"),
    [("a_01_suffix_K.log", 9.09), ("b_08_mmengine_iter.log", 17.5), ("b_05_mindformers.log", 88.0)],
)
def test_a_slow_first_record_keeps_its_time(name, first, samples):
    assert read_case(samples, name)[0].step_times[0] == first


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("a_01_suffix_K.log", 128),
        ("a_04a_wrapped_at_bars.log", 64),
        ("a_04b_wrapped_at_100_columns.log", 64),
    ],
)
def test_a_batch_that_each_line_prints_is_stated(name, batch, samples):
    assert read_case(samples, name)[0].training_config.global_batch_size == batch


def test_a_validation_is_no_step(samples):
    """`Iter 40: Val loss 2.300, Val took 7.100s` stands between two records."""
    run, _ = read_case(samples, "b_40_mlx_lora.log")
    assert 2.3 not in run.loss_values
    # The first record has the start-up in its rate.
    assert run.step_times[0] == 2.0
    assert max(filter(None, run.step_times[1:])) < 0.13


def test_the_rate_of_a_part_of_the_step_is_not_that_of_the_step(samples):
    """Generation and the update of the actor print tokens per second of their own times."""
    run, _ = read_case(samples, "b_26_slime_console.log")
    assert not any("tokens" in name for name in run.native_metrics)
