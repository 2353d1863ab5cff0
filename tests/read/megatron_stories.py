"""Strategies of hypothesis for logs of Megatron runs: what is told, and how it is written."""

from __future__ import annotations

from hypothesis import strategies as st
from megatron_writer import PREFIXES, SHAPES, Process, Setup, Step, Story

NOISE = (
    "saving checkpoint at the end of it",
    "(min, max) time across ranks (ms):\n    forward-backward ....: (101.11, 105.27)",
    "a table | with bars | and an elapsed time",
    "elapsed time per iteration (ms): 5.0 | of no iteration",
    "iteration        3/       9 | of no time",
    "10%|#         | 1/10\r20%|##        | 2/10\rdone",
    "\x1b[33mWARNING\x1b[0m: RuntimeError: survived",
    "broken \udcff bytes and a NUL \x00 here",
    "memory (MB) | allocated: 1.0",
)

steps = st.builds(
    Step,
    iteration=st.just(0),
    ms=st.integers(2000, 90_000).map(lambda tenth: tenth // 2 * 2 / 10),
    loss=st.none()
    | st.just(float("nan"))
    | st.integers(1, 12 * 10**5).map(lambda digits: digits / 10**5),
    learning_rate=st.sampled_from([0.0, 1e-5, 9.755283e-06]),
    grad_norm=st.none() | st.just(0.0) | st.integers(1, 9000).map(lambda digits: digits / 1000),
    skipped=st.integers(0, 3).map(lambda many: int(many == 3)),
    nans=st.integers(0, 9).map(lambda many: int(many == 9)),
)


@st.composite
def processes(draw, most: int) -> list[Process]:
    """Starts of one training: each runs on, or runs again what was lost since a checkpoint."""
    made: list[Process] = []
    first, reached = 1, 0
    for number in range(draw(st.integers(1, most))):
        if number:
            # From the first step again it would be another training.
            first = draw(st.integers(2, reached + 1)) if reached > 1 else reached + 1
        told = draw(st.lists(steps, min_size=3, max_size=8))
        numbered = [
            # The first step of a process takes longer, as it does: it is told from the mean by
            # that.
            Step(first + index, each.ms + 20_000.0 * (not index), *list(vars(each).values())[2:])
            for index, each in enumerate(told)
        ]
        reached = numbered[-1].iteration
        made.append(
            Process(numbered, draw(st.sampled_from([None, "RuntimeError: the link is down"])))
        )
    return made


@st.composite
def stories(draw, most: int = 3) -> Story:
    """A log of one training."""
    shape = draw(st.sampled_from(SHAPES))
    made = draw(processes(most))
    world = draw(st.sampled_from([8, 64]))
    prefix = draw(st.sampled_from(PREFIXES))
    ranks = tuple(draw(st.sets(st.integers(0, world - 1), min_size=1, max_size=8)))
    setup = Setup(
        shape, planned=max(step.iteration for each in made for step in each.steps), world=world
    )
    noise = tuple(draw(st.sets(st.sampled_from(NOISE), max_size=4)))
    return Story(setup, made, ranks, prefix, draw(st.booleans()), noise)
