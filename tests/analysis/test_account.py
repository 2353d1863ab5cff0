"""The clocks of a run, and the parts of its wall time."""

from __future__ import annotations

import pytest

from tprimat.analysis.account import account, clocks, common_clock
from tprimat.analysis.summary import TYPICAL, summarize
from tprimat.results.account import Clock, Entry, Timer, Timing
from tprimat.results.run import Run, TrainingConfig


def entry(
    kind: str,
    start: float,
    duration: float,
    steps: tuple[int, int] | None = None,
    note: str | None = None,
):
    first, last = steps or (None, None)
    return Entry(
        kind=kind, start=start, duration=duration, first_step=first, last_step=last, note=note
    )


def made(
    timeline: tuple[Entry, ...] = (), *, kind: Timer | None = None, times: tuple[float, ...] = ()
) -> Run:
    count = len(times)
    return Run(
        timeline=timeline,
        timing=Timing(kind=kind),
        steps=tuple(range(1, count + 1)),
        window_steps=(1,) * count,
        step_times=times,
        loss_values=(None,) * count,
        learning_rates=(None,) * count,
        grad_norms=(None,) * count,
        lines=(None,) * count,
        training_config=TrainingConfig(global_batch_size=8, sequence_length=1000, num_gpus=2),
    )


BLOCKS = (
    entry("start-up", -50, 50),
    entry("training", 0, 100, (1, 10)),
    entry("evaluation", 100, 20),
    entry("training", 121, 110, (11, 20)),
    entry("end", 231, 4),
)


def test_parts_add_up_to_the_wall_time():
    found = account(made(BLOCKS), None)
    assert found is not None
    assert found.parts == {"training": 210, "evaluation": 20, "end": 4, "unknown": 1}
    assert found.whole == 235
    assert found.before == 50


def test_warm_up_is_taken_out_of_training():
    times = (9.0, *(1.0,) * 9)
    found = account(
        made((entry("start-up", 0, 5), entry("training", 5, 18, (1, 10))), times=times), 2
    )
    assert found is not None
    assert found.parts == {"start-up": 5, "warm-up": 9, "training": 9}


def test_a_log_without_a_clock_has_the_parts_that_its_steps_have():
    found = account(made(times=(3.0, 1.0, 1.0)), 2)
    assert found is not None
    assert found.parts == {"warm-up": 3, "training": 2}
    assert not found.is_whole
    assert account(made(), None) is None


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        (made(), ()),
        (made(times=(1.0,)), ("timer",)),
        (made(BLOCKS, times=(1.0,)), ("timer", "blocks")),
        (made(BLOCKS, kind="sampled", times=(1.0,)), ("blocks", "sampled")),
        (made(BLOCKS, kind="partial", times=(1.0,)), ("blocks", "partial")),
        (made(BLOCKS), ("blocks",)),
        (made(kind="sampled", times=(1.0,)), ("sampled",)),
    ],
)
def test_a_timer_that_leaves_out_steps_gives_way_to_the_wall_time(
    run: Run, offered: tuple[Clock, ...]
):
    assert clocks(run) == offered


@pytest.mark.parametrize(
    ("runs", "clock"),
    [
        ((made(BLOCKS, times=(1.0,)), made(BLOCKS, times=(1.0,))), "timer"),
        ((made(BLOCKS, times=(1.0,)), made(BLOCKS, kind="sampled", times=(1.0,))), "blocks"),
        ((made(times=(1.0,)), made(BLOCKS, kind="sampled", times=(1.0,))), None),
        ((made(kind="stamps", times=(1.0,)), made(times=(1.0,))), None),
        ((made(kind="sampled", times=(1.0,)), made(kind="sampled", times=(1.0,))), "sampled"),
        ((made(), made(times=(1.0,))), "timer"),
        ((), None),
    ],
)
def test_a_pair_is_compared_on_a_clock_that_both_have(runs: tuple[Run, ...], clock: Clock | None):
    assert common_clock(runs) == clock


def test_the_speed_of_blocks_is_all_steps_over_all_their_seconds():
    summary = summarize(made(BLOCKS, kind="sampled", times=(5.0,) * 20))
    assert summary.clock == "blocks"
    assert summary.performance.avg_step_time_seconds == pytest.approx(10.5)
    assert summary.performance.median_step_time_seconds == pytest.approx(10.5)
    assert summary.performance.tokens_per_second_per_gpu == pytest.approx(8000 / 10.5 / 2)
    assert (summary.steady.first_step, summary.steady.last_step) == (1, 20)


@pytest.mark.parametrize(
    ("last", "named"), [(1.0 + 2.9 * TYPICAL, False), (1.0 + 3.1 * TYPICAL, True)]
)
def test_the_block_that_differs_is_named(last: float, named: bool):
    timeline = (
        entry("training", 0, 10, (1, 10)),
        entry("training", 10, 10, (11, 20)),
        entry("training", 20, 10 * last, (21, 30), note="FP8 starts (line 7)"),
    )
    warnings = summarize(made(timeline)).warnings
    assert (
        any(
            "block 3 takes" in text
            and "(steps 21–30)" in text
            and text.endswith("FP8 starts (line 7)")
            for text in warnings
        )
        == named
    )
