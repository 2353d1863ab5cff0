"""A Megatron log of any form is read as what it states."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from megatron_stories import stories
from megatron_writer import Story

from tprimat import read
from tprimat.read.parsing import text
from tprimat.results.run import Run


def runs_of(written: list[str]) -> list[Run]:
    content = "".join(f"{each}\n" for each in written).encode("utf-8", "surrogateescape")
    return read.read(text.lines([content]), "made.log")


def check(run: Run, story: Story) -> None:
    kept = story.kept()
    assert run.steps == tuple(step.iteration for step in kept)
    assert run.step_times == pytest.approx([step.ms / 1e3 for step in kept], abs=2e-7)
    assert run.loss_values == pytest.approx(
        [None if step.loss != step.loss else step.loss for step in kept]
    )
    assert run.learning_rates == pytest.approx([step.learning_rate for step in kept])
    assert run.grad_norms == tuple(step.grad_norm for step in kept)
    assert run.window_steps == (1,) * len(kept)
    assert run.training_config.global_batch_size == 16
    assert run.training_config.max_steps == story.setup.planned
    if story.dumps:
        assert run.training_config.sequence_length == story.setup.sequence
    for words, wanted in (
        ("optimizer steps skipped", any(step.skipped for step in kept)),
        ("NaN iterations counted", any(step.nans for step in kept)),
        ("is not a number", any(step.loss != step.loss or step.nans for step in kept)),
    ):
        assert any(words in warning for warning in run.warnings) is wanted


@given(stories(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_log_of_a_training_with_all_its_starts(story, seed):
    (run,) = runs_of(story.written(random.Random(seed)))
    check(run, story)
    last = story.processes[-1].steps[-1].iteration
    ended = "failed" if story.processes[-1].crash else "incomplete"
    assert run.status == ("complete" if last == story.setup.planned else ended)


@given(stories(most=1), stories(most=1), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_two_trainings_of_any_two_shapes_in_one_file(one, other, seed):
    # One that failed and the same once more are attempts at one training.
    assume(one.processes[-1].crash is None or one.setup.planned != other.setup.planned)
    rng = random.Random(seed)
    first, second = runs_of(one.written(rng) + other.written(rng, day=1))
    check(first, one)
    check(second, other)
